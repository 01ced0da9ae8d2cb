//! The page `docs/papers.md`: rows and verdicts at each scale, side by side.

use std::{collections::BTreeMap, fmt::Write as _};

use serde::Deserialize;

use crate::{Lines, Row, papers, read, root};

/// Places of verdicts: the heading of the column, and the folder.
const PLACES: [(&str, &str); 3] = [
    ("quick", "papers/verdicts"),
    ("paper-cpu", "results/evidence/cpu/verdicts"),
    ("GPU", "results/evidence/cuda/verdicts"),
];

/// Verdict of a claim: a part of the report's `claims.json`.
#[derive(Deserialize)]
pub(crate) struct Verdict {
    pub(crate) claim: String,
    says: Option<String>,
    state: String,
    because: String,
    value: Option<f64>,
    interval: Option<[f64; 2]>,
    paper: Option<f64>,
    #[serde(default)]
    expected: Option<String>,
    #[serde(default)]
    paper_within: Option<bool>,
    devices: Vec<String>,
    #[serde(default)]
    invariant: bool,
    #[serde(default)]
    lacks: Option<String>,
}

/// The circumstances of an evidence folder.
#[derive(Deserialize)]
struct Machine {
    date: String,
    commit: String,
    cpu: String,
    #[serde(default)]
    nvidia_smi: Option<String>,
}

/// The verdicts of every recipe at one place.
struct Place {
    name: &'static str,
    machine: Option<Machine>,
    recipes: BTreeMap<String, Vec<Verdict>>,
}

impl Verdict {
    fn sign(&self) -> &'static str {
        match self.state.as_str() {
            "supported" => "✓",
            "refuted" => "✗",
            "tied" => "=",
            _ => "?",
        }
    }

    fn word(&self) -> &str {
        match (self.invariant, self.state.as_str()) {
            (true, "supported") => "holds",
            (true, "refuted") => "broken",
            (_, state) => state,
        }
    }

    /// The measured number with its interval.
    fn number(&self) -> String {
        match (self.value, self.interval) {
            (Some(value), Some([low, high])) if low < high => {
                format!("{} [{}, {}]", short(value), short(low), short(high))
            }
            (Some(value), _) => short(value),
            (None, _) => String::new(),
        }
    }

    /// A cell of a table: the verdict, the number, and why it is undecided.
    fn cell(&self) -> String {
        let reason = if self.state == "undecided" { format!(": {}", self.because) } else { String::new() };
        let number = self.number();
        let number = if number.is_empty() { number } else { format!(", {number}") };
        let paper = match self.paper_within {
            Some(false) if self.state != "undecided" => "; not the paper's number",
            _ => "",
        };
        format!("{} {}{number}{paper}{reason}", self.sign(), self.word())
    }
}

/// The recipes of the papers, in the order of their sweep file.
pub(crate) fn recipes() -> Vec<String> {
    #[derive(Deserialize)]
    struct Sweep {
        recipes: Vec<String>,
    }
    let sweep: Sweep = read("sweeps/paper.yaml");
    let stem = |path: &String| path.rsplit('/').next().unwrap_or_default().trim_end_matches(".yaml").to_owned();
    sweep.recipes.iter().map(stem).collect()
}

/// The recipes with verdicts: those of the papers, and the architecture ablation.
fn judged() -> Vec<String> {
    recipes().into_iter().chain(["ratio".to_owned()]).collect()
}

/// The verdicts of a recipe in a folder, in its order; `None` if there are none.
pub(crate) fn verdicts(folder: &str, recipe: &str) -> Option<Vec<Verdict>> {
    let path = root().join(folder).join(format!("{recipe}.json"));
    let text = std::fs::read(&path).ok()?;
    Some(serde_json::from_slice(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display())))
}

/// The places that have verdicts; the first always counts.
fn places() -> Vec<Place> {
    let all = PLACES.iter().map(|(name, folder)| {
        let recipes = judged().into_iter().filter_map(|recipe| Some((recipe.clone(), verdicts(folder, &recipe)?)));
        let machine = root().join(folder).parent().map(|folder| folder.join("machine.json"));
        let machine = machine.and_then(|path| std::fs::read(path).ok());
        let machine = machine.map(|text| serde_json::from_slice(&text).unwrap());
        Place { name, machine, recipes: recipes.collect() }
    });
    all.enumerate().filter(|(index, place)| *index == 0 || !place.recipes.is_empty()).map(|(_, place)| place).collect()
}

pub(crate) fn page() -> String {
    let places = places();
    let mut text = "# Papers\n\nThe results of five papers, row by row, and their reproduction. `make papers` runs \
         `sweeps/paper.yaml` at its plain values,\n`make papers-cpu` at the largest sizes at which two cores can judge the \
         claims, and `scripts/gpu-evidence.sh` on a GPU. This page is\ngenerated from their verdicts and from \
         `papers/rows.yaml`; `papers/checklist.yaml` lists what each paper has, line by line.\n\nA verdict applies to the \
         listed hardware and to the sizes of its scale. A claim has a sentence, a range that its number is \
         expected\nin, and the paper's number. The verdict (✓, ✗, =, ?) is about the range alone. A supported claim with a \
         wide range says little\nabout the paper's number: where the interval excludes that, the cell has a note, and such claims \
         count apart. `=` (tied) means that\nthe interval contains the bound and lies within the distance from it that the recipe \
         calls negligible; a claim whose interval\nexcludes the paper's number is never tied. `?` (undecided) does not mean \
         that two things are equal. The reason is that the\nclaim is about other hardware or larger sizes, that there are too few \
         samples for the noise, or that results are missing.\nVerdicts of a recipe allow for the number of its claims \
         (Holm). Invariants are true by construction and count apart.\n\n"
        .to_owned();
    text += &tally(&places);
    for paper in papers() {
        write!(text, "\n## Paper {}: {}\n\n", paper.number, paper.title).unwrap();
        heading(&mut text, &["reported result", "lines", "recipe", "shown in"], &places);
        for row in paper.rows {
            line(&mut text, row, &places);
        }
    }
    for recipe in judged() {
        verdicts_of(&mut text, &recipe, &places);
    }
    text
}

/// The first lines of a table with a column for each place.
fn heading(text: &mut String, columns: &[&str], places: &[Place]) {
    let names: Vec<&str> = columns.iter().copied().chain(places.iter().map(|place| place.name)).collect();
    let rule = vec!["---"; names.len()];
    write!(text, "| {} |\n| {} |\n", names.join(" | "), rule.join(" | ")).unwrap();
}

/// A row of a paper.
fn line(text: &mut String, row: Row, places: &[Place]) {
    let span = |lines: &Lines| match lines {
        Lines::One(line) => line.to_string(),
        Lines::Several(lines) => lines.clone(),
    };
    let mut lines: Vec<String> = row.lines.iter().map(span).collect();
    lines.extend(row.repository.then(|| "the repository".to_owned()));
    let (recipe, shown) = match &row.recipe {
        Some(recipe) => {
            let shown: Vec<String> = row.tables.iter().chain(&row.figures).map(|name| format!("`{name}`")).collect();
            (format!("[{recipe}](../recipes/{recipe}.yaml)"), shown.join(", "))
        }
        None => ("not reproduced".to_owned(), row.because.clone().unwrap_or_default()),
    };
    let cells = places.iter().map(|place| {
        let own = row.recipe.as_ref().and_then(|recipe| place.recipes.get(recipe));
        let states = row.claims.iter().map(|name| {
            let found = own.and_then(|verdicts| verdicts.iter().find(|verdict| verdict.claim == *name));
            format!("{} `{name}`", found.map_or("–", Verdict::sign))
        });
        states.collect::<Vec<_>>().join(", ")
    });
    let cells: Vec<String> = [row.reports, lines.join(", "), recipe, shown].into_iter().chain(cells).collect();
    writeln!(text, "| {} |", cells.join(" | ")).unwrap();
}

/// The verdicts of a recipe at all places.
fn verdicts_of(text: &mut String, recipe: &str, places: &[Place]) {
    let own: Vec<Option<&Vec<Verdict>>> = places.iter().map(|place| place.recipes.get(recipe)).collect();
    let mut claims: Vec<&Verdict> = Vec::new();
    for verdict in own.iter().copied().flatten().flatten() {
        if !claims.iter().any(|known| known.claim == verdict.claim) {
            claims.push(verdict);
        }
    }
    write!(text, "\n## Verdicts of {recipe}\n\n").unwrap();
    if claims.is_empty() {
        text.push_str("There is none yet.\n");
        return;
    }
    heading(text, &["claim", "expected", "paper's number"], places);
    for claim in claims {
        let says = claim.says.as_ref().map_or_else(String::new, |says| format!(": {says}"));
        let kind = if claim.invariant { " (invariant)" } else { "" };
        let cells = own.iter().map(|verdicts| {
            let found = verdicts.and_then(|verdicts| verdicts.iter().find(|verdict| verdict.claim == claim.claim));
            found.map_or_else(|| "–".to_owned(), Verdict::cell)
        });
        let cells: Vec<String> = cells.collect();
        let paper = claim.paper.map_or_else(String::new, short);
        let expected = claim.expected.as_deref().unwrap_or("the order");
        writeln!(text, "| `{}`{kind}{says} | {expected} | {paper} | {} |", claim.claim, cells.join(" | ")).unwrap();
    }
    for (place, verdicts) in places.iter().zip(&own) {
        let mut devices: Vec<&str> = verdicts
            .iter()
            .flat_map(|verdicts| verdicts.iter())
            .flat_map(|verdict| &verdict.devices)
            .map(String::as_str)
            .collect();
        devices.sort_unstable();
        devices.dedup();
        if !devices.is_empty() {
            write!(text, "\n{}: measured on {}.\n", place.name, devices.join(", ")).unwrap();
        }
    }
}

/// The number of verdicts at each place.
fn tally(places: &[Place]) -> String {
    const REASONS: [(&str, &str); 4] = [
        ("hardware", "undecided: hardware"),
        ("scale", "undecided: scale"),
        ("samples", "undecided: too few samples"),
        ("results", "undecided: no comparable results"),
    ];
    let mut text = String::new();
    heading(&mut text, &["verdicts"], places);
    let mut count = |name: &str, wanted: &dyn Fn(&Verdict) -> bool| {
        let numbers = places.iter().map(|place| {
            let all = place.recipes.values().flatten();
            all.filter(|verdict| wanted(verdict)).count().to_string()
        });
        let numbers: Vec<String> = numbers.collect();
        writeln!(text, "| {name} | {} |", numbers.join(" | ")).unwrap();
    };
    let supported = |verdict: &Verdict| !verdict.invariant && verdict.state == "supported";
    count("supported", &supported);
    count("of these, the interval does not exclude the paper's number", &|verdict| {
        supported(verdict) && verdict.paper_within == Some(true)
    });
    count("of these, the interval excludes the paper's number", &|verdict| {
        supported(verdict) && verdict.paper_within == Some(false)
    });
    count("of these, the paper has no number", &|verdict| supported(verdict) && verdict.paper.is_none());
    count("refuted", &|verdict| !verdict.invariant && verdict.state == "refuted");
    count("tied", &|verdict| !verdict.invariant && verdict.state == "tied");
    for (lacks, name) in REASONS {
        count(name, &|verdict| !verdict.invariant && verdict.lacks() == Some(lacks));
    }
    count("invariants that hold", &|verdict| verdict.invariant && verdict.state == "supported");
    count("invariants that are broken or undecided", &|verdict| verdict.invariant && verdict.state != "supported");
    for Place { name, machine, .. } in places {
        let Some(Machine { date, commit, cpu, nvidia_smi }) = machine else { continue };
        let device = nvidia_smi.as_deref().filter(|gpu| gpu.contains("MiB")).unwrap_or(cpu);
        write!(text, "\n{name}: {device}, {date}, commit {commit}.\n").unwrap();
    }
    text
}

impl Verdict {
    /// The lack that keeps it undecided. Verdicts of earlier versions do not say it.
    fn lacks(&self) -> Option<&str> {
        if self.state != "undecided" {
            return None;
        }
        let by_reason = if self.because.starts_with("it is about") { "hardware" } else { "samples" };
        Some(self.lacks.as_deref().unwrap_or(by_reason))
    }
}

/// Four significant digits.
pub(crate) fn short(value: f64) -> String {
    let long = format!("{value:.3e}");
    let size: i32 = long.split_once('e').map_or(0, |(_, exponent)| exponent.parse().unwrap());
    if (-3..6).contains(&size) {
        let digits = usize::try_from(3 - size).unwrap_or(0);
        let text = format!("{value:.digits$}");
        if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
    } else {
        long
    }
}
