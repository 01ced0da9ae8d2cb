//! Numbers without an interval: tables of every kind say why.

use serde_json::Value;
use sweep_engine::stats;

use crate::sandbox::Sandbox;

/// Imports a table and reports the tables of a recipe.
fn imported(runs: &str, tables: &str) -> (Sandbox, String) {
    let sandbox = Sandbox::new();
    sandbox.write("r.csv", runs);
    let ended = sandbox.sweep(&["import", "csv", "r.csv", "--metric", "loss", "--metric", "other"]);
    assert_eq!(ended.code, Some(0), "{}{}", ended.stdout, ended.stderr);
    sandbox.write(
        "s.yaml",
        &format!("name: s\nextends: r.runs.yaml\nmetrics: {{ loss: {{ better: min }} }}\ntables:\n{tables}"),
    );
    let ended = sandbox.sweep(&["run", "s.yaml"]);
    assert_eq!(ended.code, Some(0), "{}{}", ended.stdout, ended.stderr);
    (sandbox, ended.stdout)
}

/// Three rows: ordinary values, a single seed, and equal values.
const RUNS: &str = "opt,seed,loss,other\na,0,1.1,5\na,1,1.2,6\na,2,1.4,8\nb,0,1.5,7\nc,0,2,5\nc,1,2,7\nc,2,2,9\n";

#[test]
fn rows_without_an_interval_have_footnotes_in_every_format() {
    let (sandbox, said) = imported(RUNS, "  t: { from: runs, rows: [opt], cells: [loss] }\n");
    let one = "no interval: a variance cannot be estimated from one value";
    let equal = "no interval: all values are equal, so their spread is unknown";
    for text in ["1.50ᵃ", "2.00ᵇ"].into_iter().chain([format!("ᵃ {one}").as_str(), format!("ᵇ {equal}").as_str()])
    {
        assert!(said.contains(text), "{text}: {said}");
    }
    let markdown = sandbox.read("results/reports/s/tables/t.md");
    assert!(markdown.contains("1.50ᵃ") && markdown.contains(one) && markdown.contains(equal), "{markdown}");
    let page = sandbox.read("results/reports/s/index.html");
    assert!(page.contains(one) && page.contains(equal));
    let latex = sandbox.sweep(&["report", "s.yaml", "--format", "latex"]).stdout;
    assert!(latex.contains(one) && latex.contains(equal) && latex.contains(r"^{\mathrm{b}}"), "{latex}");
    let json = sandbox.sweep(&["report", "s.yaml", "--format", "json"]).stdout;
    assert!(json.contains("a variance cannot be estimated from one value"), "{json}");
}

#[test]
fn a_column_without_any_interval_has_one_note() {
    let runs: String =
        RUNS.split_inclusive('\n').filter(|line| !line.contains(",1,") && !line.contains(",2,")).collect();
    let (_, said) = imported(&runs, "  t: { from: runs, rows: [opt], cells: [loss, other] }\n");
    assert!(!said.contains("no interval") && !said.contains('ᵃ'), "every number is that of one job: {said}");
    let equal =
        RUNS.replace("a,0,1.1,5\na,1,1.2,6\na,2,1.4,8", "a,0,1.1,5\na,1,1.1,6\na,2,1.1,8").replace("b,0,1.5,7\n", "");
    let (_, said) = imported(&equal, "  t: { from: runs, rows: [opt], cells: [loss, other] }\n");
    assert!(said.contains("\nloss: no interval: all values are equal"), "{said}");
}

/// Both comparisons are undecided, for other reasons.
#[test]
fn undecided_comparisons_have_their_own_footnotes() {
    let runs = format!("{}d,0,3.1,5\nd,1,3.2,5\nd,2,3.4,5\n", RUNS.replace("b,0,1.5,7\n", "b,0,1.5,7\nb,1,,7\n"));
    let (_, said) =
        imported(&runs, "  t: { from: runs, compare: { axis: opt, pairs: [[b, a], [d, a]] }, cells: [loss] }\n");
    assert!(said.contains("undecided: results are missing"), "{said}");
    assert!(said.contains("undecided: all differences are equal, so their spread is unknown"), "{said}");
}

#[test]
fn every_kind_of_table_says_why() {
    let runs =
        "opt,width,seed,loss,other\na,1,0,9,1\na,1,1,9.1,2\na,2,0,8,3\na,4,0,7,4\nb,1,0,8,5\nb,2,0,7,6\nb,4,0,6,7\n";
    let (_, said) = imported(
        runs,
        "  overall: { from: runs, aggregate: { axis: opt }, cells: [loss] }\n  law: { from: runs, fit: { x: width, axis: opt }, cells: [loss] }\n",
    );
    assert!(said.contains("no interval: a bootstrap needs several runs"), "{said}");
    assert!(said.contains("no interval: a variance cannot be estimated from one value"), "{said}");
}

/// Two seeds decide, of ten that are planned: the interval of the row has the level of looks at two and three seeds.
#[test]
fn a_row_that_stopped_at_two_seeds_allows_for_a_third_one() {
    let sandbox = Sandbox::with(
        "
name: s
steps:
  a: { uses: command, seeds: { min: 2, max: MAX, until: decided }, with: { run: 'echo loss=1.0$SWEEP_SEED' } }
tables: { t: { from: a, rows: [step], cells: [loss] } }
claims: { low: { value: { metric: loss, of: { step: a } }, expect: { less_than: 100 } } }
",
    );
    let text = sandbox.read("recipe.yaml").replace("rows: [step], ", "");
    for (max, level) in [("10", stats::constant_level(&[2, 3])), ("2", stats::LEVEL)] {
        sandbox.write("recipe.yaml", &text.replace("MAX", max));
        let ended = sandbox.sweep(&["run", "recipe.yaml"]);
        assert_eq!(ended.code, Some(0), "{}{}", ended.stdout, ended.stderr);
        let json = sandbox.sweep(&["report", "recipe.yaml", "--format", "json"]).stdout;
        let report: Value = serde_json::from_str(&json).unwrap();
        let cell = &report["reports"][0]["tables"][0]["cells"][0];
        let half = f64::midpoint(cell["high"].as_f64().unwrap(), -cell["low"].as_f64().unwrap());
        assert_eq!(cell["n"], 2, "{json}");
        assert!((half - 0.005 * stats::quantile(1.0, level)).abs() < 1e-6, "{max}: {half} {json}");
    }
}
