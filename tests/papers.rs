//! `docs/papers.md`: every row has a recipe or a reason why it is not reproduced, and the page agrees with the files that it is
//! generated from.

#![expect(clippy::unwrap_used, reason = "in a test a panic is the message")]

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    path::{Path, PathBuf},
};

use serde::Deserialize;
use sweep::{analysis, plan::Plan, recipe::Draft, store::Measured};
use sweep_job::{Backend, Metric, Metrics, Unit};

/// Rows in the list of everything that each paper reports.
const ROWS: [(&str, usize); 5] = [("000", 32), ("001", 29), ("002", 16), ("003", 16), ("004", 13)];

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
    recipe: Option<String>,
    #[serde(default)]
    claims: Vec<String>,
    #[serde(default)]
    tables: Vec<String>,
    because: Option<String>,
}

/// Verdict of a claim: a part of the report's `claims.json`.
#[derive(Deserialize)]
struct Verdict {
    claim: String,
    says: Option<String>,
    state: String,
    because: String,
    value: Option<f64>,
    interval: Option<[f64; 2]>,
    paper: Option<f64>,
    devices: Vec<String>,
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn papers() -> Vec<Paper> {
    serde_saphyr::from_str(&std::fs::read_to_string(root().join("papers/rows.yaml")).unwrap()).unwrap()
}

/// The verdicts of a recipe, in its order.
fn verdicts(recipe: &str) -> Vec<Verdict> {
    let path = root().join(format!("papers/verdicts/{recipe}.json"));
    let text = std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_slice(&text).unwrap()
}

fn plan(recipe: &str) -> Plan {
    let path = root().join(format!("recipes/{recipe}.yaml"));
    let text = std::fs::read_to_string(&path).unwrap();
    let draft = Draft::parse(&path, text, &[]).unwrap_or_else(|problems| panic!("{}", problems.render(false, 100)));
    Plan::new(draft, Backend::Cpu).unwrap()
}

/// The names of a recipe's tables and claims.
fn names(recipe: &str) -> [BTreeSet<String>; 2] {
    let plan = plan(recipe);
    let recipe = &plan.studies[0].recipe;
    let tables = recipe.tables.iter().map(|table| table.name.value.clone()).collect();
    [tables, recipe.claims.iter().map(|claim| claim.name.value.clone()).collect()]
}

#[test]
fn every_row_of_every_paper_is_in_a_recipe_or_has_a_reason() {
    let papers = papers();
    let counted: Vec<(&str, usize)> = papers.iter().map(|paper| (paper.number.as_str(), paper.rows.len())).collect();
    assert_eq!(counted, ROWS);
    let mut known = BTreeMap::new();
    for row in papers.iter().flat_map(|paper| &paper.rows) {
        match (&row.recipe, &row.because) {
            (Some(recipe), None) => {
                let [tables, claims] = known.entry(recipe).or_insert_with(|| names(recipe));
                assert!(!row.tables.is_empty() || !row.claims.is_empty(), "`{}` is shown nowhere", row.reports);
                for (name, there) in
                    row.tables.iter().map(|name| (name, &*tables)).chain(row.claims.iter().map(|name| (name, &*claims)))
                {
                    assert!(there.contains(name), "{recipe}.yaml has no `{name}`, which is to show `{}`", row.reports);
                }
            }
            (None, Some(because)) => {
                assert!(because.len() > 10 && row.tables.is_empty() && row.claims.is_empty(), "{}", row.reports);
            }
            _ => panic!("`{}` needs either a recipe or a reason", row.reports),
        }
    }
}

/// The sweep file of all papers has every recipe that a row names, and there is a verdict on each of its claims.
#[test]
fn every_claim_has_been_judged() {
    let sweep = std::fs::read_to_string(root().join("sweeps/paper.yaml")).unwrap();
    let papers = papers();
    for recipe in papers.iter().flat_map(|paper| &paper.rows).filter_map(|row| row.recipe.as_deref()) {
        assert!(sweep.contains(&format!("../recipes/{recipe}.yaml")), "sweeps/paper.yaml lacks {recipe}");
        let judged: BTreeSet<String> = verdicts(recipe).into_iter().map(|verdict| verdict.claim).collect();
        let [_, claims] = names(recipe);
        assert_eq!(judged, claims, "papers/verdicts/{recipe}.json is of another recipe: make papers");
    }
}

#[test]
fn the_page_is_what_rows_and_verdicts_say() {
    let path = root().join("docs/papers.md");
    let page = page();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, &page).unwrap();
    }
    assert!(
        std::fs::read_to_string(&path).unwrap() == page,
        "docs/papers.md is stale: UPDATE_DOCS=1 cargo test --test papers"
    );
}

fn page() -> String {
    let mut text = "# Papers\n\nThe results of five papers, row by row, and their reproduction. `make papers` runs \
         `sweeps/paper.yaml`, writes the\nverdicts to `papers/verdicts/`, and generates this page from them and from \
         `papers/rows.yaml`.\n\nA verdict applies to the listed hardware and to the sizes of the recipe, which are \
         small. Each `undecided` has its\nreason: too few samples for the noise, or missing hardware.\n"
        .to_owned();
    let mut recipes = Vec::new();
    for paper in papers() {
        let Paper { number, title, rows } = paper;
        write!(
            text,
            "\n## Paper {number}: {title}\n\n| reported result | recipe | tables | claims |\n| --- | --- | --- | --- |\n"
        )
        .unwrap();
        for row in rows {
            match (row.recipe, row.because) {
                (Some(recipe), _) => {
                    let tables: Vec<String> = row.tables.iter().map(|name| format!("`{name}`")).collect();
                    let states: BTreeMap<String, String> =
                        verdicts(&recipe).into_iter().map(|verdict| (verdict.claim, verdict.state)).collect();
                    let claims: Vec<String> =
                        row.claims.iter().map(|name| format!("{} `{name}`", sign(&states[name]))).collect();
                    writeln!(
                        text,
                        "| {} | [{recipe}](../recipes/{recipe}.yaml) | {} | {} |",
                        row.reports,
                        tables.join(", "),
                        claims.join(", ")
                    )
                    .unwrap();
                    if !recipes.contains(&recipe) {
                        recipes.push(recipe);
                    }
                }
                (None, because) => {
                    writeln!(text, "| {} | not reproduced | | {} |", row.reports, because.unwrap_or_default()).unwrap();
                }
            }
        }
    }
    for recipe in recipes {
        write!(
            text,
            "\n## Verdicts of {recipe}\n\n| claim | paper's value | measured | verdict | device |\n| --- | --- | --- | --- | --- |\n"
        )
        .unwrap();
        for verdict in verdicts(&recipe) {
            let Verdict { claim, says, state, because, value, interval, paper, devices } = verdict;
            let says = says.map_or_else(String::new, |says| format!(": {says}"));
            let here = match (value, interval) {
                (Some(value), Some([low, high])) => format!("{} [{}, {}]", short(value), short(low), short(high)),
                (Some(value), None) => short(value),
                (None, _) => String::new(),
            };
            let reason = if state == "undecided" { format!(" ({because})") } else { String::new() };
            writeln!(
                text,
                "| `{claim}`{says} | {} | {here} | {} {state}{reason} | {} |",
                paper.map_or_else(String::new, short),
                sign(&state),
                devices.join(", ")
            )
            .unwrap();
        }
    }
    text
}

fn sign(state: &str) -> &'static str {
    match state {
        "supported" => "✓",
        "refuted" => "✗",
        _ => "?",
    }
}

/// Four significant digits.
fn short(value: f64) -> String {
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

/// State of `claim`, if the jobs whose label has `of` measured `numbers`, and those whose label has `to` measured 1.
fn said(plan: &Plan, claim: &str, metric: &str, [of, to]: [&str; 2], numbers: &[f64]) -> String {
    let mut measured = BTreeMap::new();
    for (side, numbers) in [(of, numbers), (to, &[1.0, 1.01, 0.99][..numbers.len().min(3)])] {
        let jobs = plan.jobs().filter(|(_, job)| job.label.to_string().contains(side));
        for ((id, job), number) in jobs.zip(numbers) {
            let record = Measured {
                key: job.key,
                metrics: Metrics::from_iter([(metric.to_owned(), Metric { value: *number, unit: Unit::Seconds })]),
                started: jiff::Timestamp::UNIX_EPOCH,
                seconds: 1.0,
                backend: Some(Backend::Cpu),
                device: Some("a processor".to_owned()),
                host: "a machine".to_owned(),
                sweep: "a test".to_owned(),
                origin: None,
                under: None,
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
        ("pairs", "intensity", "time.call", ["intensity/k_tile=32", "intensity/k_tile=0"]),
        ("k1", "small-evaluations-are-slow", "time.eval", ["eval/eval_batch_size=32", "eval/eval_batch_size=256"]),
    ] {
        let plan = plan(recipe);
        let say = |numbers: &[f64]| said(&plan, claim, metric, sides, numbers);
        assert_eq!(say(&[9.0, 9.05, 8.95]), "supported", "{claim}");
        assert_eq!(say(&[0.5, 0.51, 0.49]), "refuted", "{claim}");
        assert_eq!(say(&[9.0]), "undecided", "{claim}: one sample says nothing of chance");
        assert_eq!(say(&[0.2, 9.0, 1.5]), "undecided", "{claim}: chance may have done it");
    }
}

#[test]
fn numbers_are_short() {
    assert_eq!([1.5, 0.0, 123_456.7, 0.07812, 1e9].map(short), ["1.5", "0", "123457", "0.07812", "1.000e9"]);
    assert!(root().join(Path::new("papers/rows.yaml")).is_file());
}
