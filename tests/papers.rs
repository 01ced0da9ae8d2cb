//! `docs/papers.md`: everything that a paper has is in a row, every row has a recipe or a reason why it is not reproduced, and the
//! page agrees with the files that it is generated from (`papers/page.rs`).

#![expect(clippy::unwrap_used, reason = "in a test a panic is the message")]

#[path = "papers/page.rs"]
mod page;

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    process::Command,
};

use serde::Deserialize;
use sweep_engine::{
    analysis,
    plan::Plan,
    recipe::{Draft, Request},
    store::Measured,
};
use sweep_job::{Backend, Metric, Metrics, Unit};

/// Results of a paper.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Paper {
    #[serde(rename = "paper")]
    number: String,
    title: String,
    rows: Vec<Row>,
}

/// One thing that a paper reports, and where it is measured here.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    reports: String,
    /// The lines of the paper that report it.
    #[serde(default)]
    lines: Vec<Lines>,
    /// True if not the paper's text, but its repository reports it.
    #[serde(default)]
    repository: bool,
    recipe: Option<String>,
    #[serde(default)]
    claims: Vec<String>,
    #[serde(default)]
    tables: Vec<String>,
    #[serde(default)]
    figures: Vec<String>,
    because: Option<String>,
}

/// Lines of a paper: `24`, or `24-28`.
#[derive(Deserialize)]
#[serde(untagged)]
enum Lines {
    One(usize),
    Several(String),
}

/// Everything that a paper has.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Checklist {
    paper: String,
    items: Vec<Item>,
}

/// A figure, technique, script, number or recommendation.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Item {
    line: usize,
    has: String,
}

impl Lines {
    /// The lines; `None` if they are not written so.
    fn all(&self) -> Option<Vec<usize>> {
        match self {
            Self::One(line) => Some(vec![*line]),
            Self::Several(text) => {
                let (first, last) = text.split_once('-').unwrap_or((text, text));
                let (first, last) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
                (first <= last).then(|| (first..=last).collect())
            }
        }
    }
}

impl Row {
    /// The names of what shows it.
    fn shown(&self) -> impl Iterator<Item = &String> {
        self.tables.iter().chain(&self.claims).chain(&self.figures)
    }
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn read<T: serde::de::DeserializeOwned>(path: &str) -> T {
    let text = std::fs::read_to_string(root().join(path)).unwrap();
    serde_saphyr::from_str(&text).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn papers() -> Vec<Paper> {
    read("papers/rows.yaml")
}

fn plan(recipe: &str) -> Plan {
    let path = root().join(format!("recipes/{recipe}.yaml"));
    let text = std::fs::read_to_string(&path).unwrap();
    let draft = Draft::parse(&path, text, &[]).unwrap_or_else(|problems| panic!("{}", problems.render(false, 100)));
    Plan::new(draft, Backend::Cpu).unwrap()
}

/// The names of a recipe's tables and figures, and of its claims.
fn names(recipe: &str) -> [BTreeSet<String>; 2] {
    let plan = plan(recipe);
    let recipe = &plan.studies[0].recipe;
    let tables = recipe.tables.iter().map(|table| &table.name).chain(recipe.figures.iter().map(|figure| &figure.name));
    let claims = recipe.claims.iter().map(|claim| claim.name.value.clone());
    [tables.map(|name| name.value.clone()).collect(), claims.collect()]
}

#[test]
fn every_row_of_every_paper_is_in_a_recipe_or_has_a_reason() {
    let papers = papers();
    let numbers: Vec<&str> = papers.iter().map(|paper| paper.number.as_str()).collect();
    assert_eq!(numbers, ["000", "001", "002", "003", "004"]);
    let mut known = BTreeMap::new();
    for (paper, row) in papers.iter().flat_map(|paper| paper.rows.iter().map(move |row| (&paper.number, row))) {
        let said = &row.reports;
        assert!(row.lines.iter().all(|lines| lines.all().is_some()), "{paper}: lines of `{said}`");
        match (&row.recipe, &row.because) {
            (Some(recipe), None) => {
                let [tables, claims] = known.entry(recipe).or_insert_with(|| names(recipe));
                assert!(row.shown().next().is_some(), "`{said}` is shown nowhere");
                for name in row.shown() {
                    assert!(
                        tables.contains(name) || claims.contains(name),
                        "{recipe}.yaml has no `{name}`, which is to show `{said}`"
                    );
                }
            }
            (None, Some(because)) => {
                assert!(because.len() > 10 && row.shown().next().is_none(), "{said}");
            }
            _ => panic!("`{said}` needs either a recipe or a reason"),
        }
    }
}

/// Each line of a paper that has something is in a row, and each row says which lines it is about.
#[test]
fn everything_that_a_paper_has_is_in_a_row() {
    let checklist: Vec<Checklist> = read("papers/checklist.yaml");
    let mut missing = Vec::new();
    for Paper { number, rows, .. } in papers() {
        let own: Vec<&Item> =
            checklist.iter().filter(|list| list.paper == number).flat_map(|list| &list.items).collect();
        if own.is_empty() {
            missing.push(format!("paper {number} has no checklist"));
        }
        let covered: BTreeSet<usize> =
            rows.iter().flat_map(|row| &row.lines).filter_map(Lines::all).flatten().collect();
        let open = own.iter().filter(|item| !covered.contains(&item.line));
        missing.extend(open.map(|item| format!("paper {number}, line {}: no row for `{}`", item.line, item.has)));
        let placeless = rows.iter().filter(|row| row.lines.is_empty() != row.repository);
        missing.extend(
            placeless.map(|row| format!("paper {number}: `{}` needs `lines` or `repository: true`", row.reports)),
        );
    }
    assert!(missing.is_empty(), "{}", missing.join("\n"));
}

/// Every scale of every shipped recipe plans; a large GPU's without the jobs that need the CPU.
#[test]
fn every_scale_plans() {
    let mut scales = 0;
    for entry in std::fs::read_dir(root().join("recipes")).unwrap() {
        let paths = [entry.unwrap().path()];
        let plain = Draft::load(&Request { paths: &paths, ..Request::default() }).unwrap();
        let plan = Plan::new(plain, Backend::Cpu).unwrap();
        for (scale, _) in &plan.studies[0].recipe.scales {
            let backend = if scale == "h200" { Backend::Cuda } else { Backend::Cpu };
            let request = Request { paths: &paths, scale: Some(scale), ..Request::default() };
            let plan = Plan::new(Draft::load(&request).unwrap(), backend).unwrap();
            assert_eq!(plan.studies[0].recipe.scale.as_deref(), Some(scale.as_str()));
            scales += 1;
        }
    }
    assert!(scales > 10, "{scales} scales");
}

/// The sweep file of all papers has every recipe that a row names, and there is a verdict on each of its claims.
#[test]
fn every_claim_has_been_judged() {
    let recipes = page::recipes();
    let papers = papers();
    let judged = papers.iter().flat_map(|paper| &paper.rows).filter(|row| !row.claims.is_empty());
    for recipe in judged.filter_map(|row| row.recipe.as_deref()) {
        assert!(recipes.iter().any(|known| known == recipe), "sweeps/paper.yaml lacks {recipe}");
    }
    for recipe in recipes {
        let judged: BTreeSet<String> = page::verdicts("papers/verdicts", &recipe)
            .unwrap_or_default()
            .into_iter()
            .map(|verdict| verdict.claim)
            .collect();
        let [_, claims] = names(&recipe);
        assert_eq!(judged, claims, "papers/verdicts/{recipe}.json is of another recipe: make papers");
    }
}

#[test]
fn the_page_is_what_rows_and_verdicts_say() {
    let path = root().join("docs/papers.md");
    let page = page::page();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, &page).unwrap();
    }
    assert!(
        std::fs::read_to_string(&path).unwrap() == page,
        "docs/papers.md is stale: UPDATE_DOCS=1 cargo test --test papers"
    );
}

/// The committed evidence follows from its records by this program. How a figure is drawn may change; its numbers are in tables.
#[test]
fn the_evidence_follows_from_its_records() {
    let folder = tempfile::tempdir().unwrap();
    let bundle = folder.path().join("paper-cpu.sweep.tar");
    let packed = root().join("results/evidence/cpu/paper-cpu.sweep.tar.xz");
    let output = std::fs::File::create(&bundle).unwrap();
    let xz = Command::new("xz").args(["--decompress", "--stdout"]).arg(packed).stdout(output).status();
    assert!(xz.expect("`xz` unpacks the evidence: scripts/test-deps.sh installs it").success());
    let verified = Command::new(env!("CARGO_BIN_EXE_sweep")).args(["bundle", "verify"]).arg(&bundle).output().unwrap();
    let said = String::from_utf8_lossy(&verified.stdout).into_owned() + &String::from_utf8_lossy(&verified.stderr);
    assert!(said.contains(" verdicts recomputed from the records"), "{said}");
    let defects: Vec<&str> = said.lines().filter(|line| line.starts_with('✗')).collect();
    assert_eq!(verified.status.success(), defects.is_empty(), "{said}");
    assert!(defects.iter().all(|defect| defect.contains("/figures/")), "{defects:#?}");
}

/// State of `claim`, if the jobs whose label has `of` measured `numbers`, and those whose label has `to` measured 1.
fn said(plan: &Plan, claim: &str, metric: &str, [of, to]: [&str; 2], numbers: &[f64]) -> String {
    let mut measured = BTreeMap::new();
    let unit = if metric == "time.call" { Unit::Seconds } else { Unit::SequencesPerSecond };
    for (side, numbers) in [(of, numbers), (to, &[1.0, 1.01, 0.99][..numbers.len().min(3)])] {
        let jobs = plan.jobs().filter(|(_, job)| job.label.to_string().contains(side));
        for ((id, job), number) in jobs.zip(numbers) {
            let record = Measured {
                key: job.key,
                metrics: Metrics::from_iter([(metric.to_owned(), Metric { value: *number, unit })]),
                started: jiff::Timestamp::UNIX_EPOCH,
                seconds: 1.0,
                backend: Some(Backend::Cpu),
                device: Some("a processor".to_owned()),
                host: "a machine".to_owned(),
                sweep: "a test".to_owned(),
                origin: None,
                adopted: None,
                under: None,
                remarks: sweep_engine::record::Remarks::default(),
            };
            measured.insert(id, record);
        }
    }
    let verdicts = analysis::judge(&plan.studies[0], &measured);
    let verdict = verdicts.into_iter().find(|verdict| verdict.claim == claim).unwrap();
    serde_json::to_value(verdict.state).unwrap().as_str().unwrap().to_owned()
}

/// A claim follows what is measured, and nothing else.
#[test]
fn other_measurements_give_other_verdicts() {
    for (recipe, claim, metric, sides) in [
        ("pairs", "bandwidth", "time.call", ["bandwidth/variant=strided", "bandwidth/variant=contiguous"]),
        ("pairs", "intensity", "time.call", ["intensity/k_tile=16", "intensity/k_tile=0"]),
        (
            "k1",
            "mask-costs-a-fifth",
            "throughput.sequences_per_s",
            ["mask/causal_mask=cached", "mask/causal_mask=rebuilt"],
        ),
    ] {
        let plan = plan(recipe);
        let say = |numbers: &[f64]| said(&plan, claim, metric, sides, numbers);
        assert_eq!(say(&[9.0, 9.05, 8.95]), "supported", "{claim}");
        assert_eq!(
            say(&[0.01, 0.0102, 0.0098]),
            "refuted",
            "{claim}: two pairs at a level that allows for the other claims"
        );
        assert_eq!(say(&[9.0]), "undecided", "{claim}: one sample says nothing of chance");
        assert_eq!(say(&[0.2, 9.0, 1.5]), "undecided", "{claim}: chance may have done it");
    }
}

#[test]
fn numbers_are_short() {
    assert_eq!([1.5, 0.0, 123_456.7, 0.07812, 1e9].map(page::short), ["1.5", "0", "123457", "0.07812", "1.000e9"]);
    assert!(root().join("papers/rows.yaml").is_file());
}
