//! Tables and figures of effects.

use std::{collections::BTreeMap, fmt::Write as _};

use serde_json::Value;

use crate::sandbox::Sandbox;

/// A program that reports a number for each value of `A`, `B` and the seed.
fn program(values: &[(String, f64)]) -> String {
    let mut cases = String::new();
    for (key, value) in values {
        write!(cases, "{key}) echo value={value};; ").unwrap();
    }
    format!("case $A$B$SWEEP_SEED in {cases}*) exit 1;; esac")
}

/// A study of the factors `a`, `b` and `c`, as far as its matrix has them, with its tables and figures.
fn study(name: &str, matrix: &str, run: &str, rest: &str) -> Sandbox {
    let axes = ["a", "b", "c"].into_iter().filter(|axis| matrix.contains(&format!("{axis}: ")));
    let env: Vec<String> = axes.map(|axis| format!("{}: '${{{{ matrix.{axis} }}}}'", axis.to_uppercase())).collect();
    let env = env.join(", ");
    Sandbox::with(&format!(
        "name: {name}
steps:
  s:
    uses: command
    {matrix}
    with:
      run: '{run}'
      env: {{ {env} }}
{rest}"
    ))
}

/// The lines of a table's CSV by effect and measure, each by its headings.
fn lines(sandbox: &Sandbox, table: &str) -> BTreeMap<(String, String), BTreeMap<String, String>> {
    let report = sandbox.runs().is_empty();
    assert!(!report, "there is a run");
    let reports = sandbox.path("results/reports");
    let study = fs_err::read_dir(reports).unwrap().next().unwrap().unwrap().file_name();
    let csv = sandbox.read(&format!("results/reports/{}/tables/{table}.csv", study.to_string_lossy()));
    let mut lines = csv.lines().map(|line| line.split(',').map(str::to_owned).collect::<Vec<_>>());
    let headings = lines.next().unwrap();
    lines
        .map(|fields| {
            let line: BTreeMap<String, String> = headings.iter().cloned().zip(fields).collect();
            ((line["effect"].clone(), line["measure"].clone()), line)
        })
        .collect()
}

fn number(text: &str) -> f64 {
    text.parse().unwrap()
}

fn vectors() -> Value {
    serde_json::from_str(include_str!("../../../stats/src/stats/testdata/effects.json")).unwrap()
}

/// The first design of the vectors, as the numbers of a study.
fn two_by_two() -> (Value, Vec<(String, f64)>) {
    let design = vectors()["designs"][0].clone();
    let mut values = Vec::new();
    for (cell, own) in design["cells"].as_array().unwrap().iter().zip(design["values"].as_array().unwrap()) {
        for (seed, value) in own.as_array().unwrap().iter().enumerate() {
            values.push((format!("{}{}{seed}", cell[0], cell[1]), value.as_f64().unwrap()));
        }
    }
    (design, values)
}

const FULL: &str = "matrix: { a: [0, 1], b: [0, 1] }\n    seeds: 3";

#[test]
fn effects_are_those_of_statsmodels() {
    let (design, values) = two_by_two();
    let tables = "tables: { t: { from: s, effects: { interactions: true }, cells: [value] } }\n";
    let sandbox = study("full", FULL, &program(&values), tables);
    let ended = sandbox.sweep(&["run", "recipe.yaml"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let lines = lines(&sandbox, "t");
    let close = |ours: f64, theirs: f64| assert!((ours - theirs).abs() < 1e-6, "{ours} instead of {theirs}");
    let modulus = vectors()["modulus"].as_array().unwrap().clone();
    let quantile = modulus.iter().find(|case| case["count"][0] == 3 && case["freedom"] == 6).unwrap();
    let quantile = quantile["quantile"].as_f64().unwrap();
    for (index, label) in ["a: 1 − 0", "b: 1 − 0", "a × b"].into_iter().enumerate() {
        let (line, wanted) = (&lines[&(label.to_owned(), "difference".to_owned())], &design["effects"][index]);
        let (value, error) = (wanted["value"].as_f64().unwrap(), wanted["error"].as_f64().unwrap());
        close(number(&line["value"]), value);
        close(number(&line["low"]), value - quantile * error);
        close(number(&line["high"]), value + quantile * error);
        assert_eq!(line["n"], "3");
    }
    for (index, label) in ["a: 1 − 0", "b: 1 − 0"].into_iter().enumerate() {
        let share = &lines[&(label.to_owned(), "share".to_owned())];
        close(number(&share["value"]), design["shares"][index].as_f64().unwrap());
    }
    assert_eq!(lines.len(), 5, "an interaction has no share of its own");
}

#[test]
fn every_format_of_a_table_of_effects() {
    let (_, values) = two_by_two();
    let tables = "tables: { t: { title: Effects, from: s, effects: { interactions: true }, cells: [value] } }\n";
    let sandbox = study("full", FULL, &program(&values), tables);
    assert_eq!(sandbox.sweep(&["run", "recipe.yaml"]).code, Some(0));
    let formats = ["term", "md", "latex", "csv"];
    let all = formats.map(|format| sandbox.sweep(&["report", "recipe.yaml", "--format", format]).stdout);
    insta::assert_snapshot!(all.join("\n"));
    let page = sandbox.read("results/reports/full/index.html");
    assert!(page.contains("a × b") && page.contains("share (%)"), "the page has the table");
}

/// Three factors of a leave-one-out design, of which the job without `b` fails at one seed.
#[test]
fn a_failed_job_blocks_the_effects_that_depend_on_it() {
    let ablate = "ablate: { design: leave-one-out, baseline: { a: 0, b: 0, c: 0 }, factors: { a: 1, b: 1, c: 1 } }\n    seeds: 3";
    let run = "[ $A$B$C$SWEEP_SEED = 1011 ] && exit 1; \
               echo value=$((A * 20 + B * 10 + SWEEP_SEED * 3 + (A + B + C + SWEEP_SEED) % 2))";
    let tables = "tables: { t: { from: s, effects: {}, cells: [value] } }\n";
    let sandbox = study("left", ablate, run, tables);
    assert_eq!(sandbox.sweep(&["run", "recipe.yaml"]).code, Some(5));
    let lines = lines(&sandbox, "t");
    let line = |effect: &str| &lines[&(effect.to_owned(), "difference".to_owned())];
    assert_eq!((line("b: 1 − 0")["value"].as_str(), line("b: 1 − 0")["why"].as_str()), ("", "failed"));
    assert_eq!(line("b: 1 − 0")["missing"], "1");
    assert!(number(&line("a: 1 − 0")["low"]) > 0.0, "the other effects do not depend on the failed job");
    assert_eq!(line("c: 1 − 0")["noise"], "true");
    assert_message!(sandbox.sweep(&["report", "recipe.yaml"]).stdout);
}

/// A number that is not finite is no measurement, and a full factorial needs all of its points.
#[test]
fn an_unknown_number_blocks_a_full_factorial() {
    let run = "if [ $A$B$SWEEP_SEED = 111 ]; then echo other=1; else echo value=$((A + 2 * B + 10 * SWEEP_SEED)); fi";
    let tables = "tables: { t: { from: s, effects: {}, cells: [value] } }\nfigures: { f: { from: s, kind: effects, x: value } }\n";
    let sandbox = study("unknown", FULL, run, tables);
    assert_eq!(sandbox.sweep(&["run", "recipe.yaml"]).code, Some(0));
    for line in lines(&sandbox, "t").values() {
        assert_eq!(line["value"], "", "{line:?}");
    }
    assert!(!sandbox.path("results/reports/unknown/figures/f.svg").exists(), "there is nothing to draw");
}

#[test]
fn a_fraction_states_its_aliases() {
    let ablate =
        "ablate: { design: fractional, baseline: { a: 0, b: 0, c: 0 }, factors: { a: 1, b: 1, c: 1 } }\n    seeds: 2";
    let run = "echo value=$((A * 20 + B * 10 + SWEEP_SEED * (3 + A)))";
    let sandbox = study("half", ablate, run, "tables: { t: { from: s, effects: {}, cells: [value] } }\n");
    let ended = sandbox.sweep(&["run", "recipe.yaml"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(
        ended.stdout.contains("half fraction, I = −a·b·c: a with b × c, b with a × c, c with a × b are aliased"),
        "{}",
        ended.stdout
    );
    assert!(!ended.stdout.contains("share ("), "a fraction has no shares: {}", ended.stdout);
}

#[test]
fn without_repetitions_nothing_is_said_about_chance() {
    let tables = "tables:
  one: { from: s, where: { seed: 1 }, effects: {}, cells: [value] }
  equal: { from: s, effects: {}, cells: [same] }
";
    let run = "echo value=$((A + B * SWEEP_SEED)); echo same=$((3 * A))";
    let sandbox = study("one", FULL, run, tables);
    assert_eq!(sandbox.sweep(&["run", "recipe.yaml"]).code, Some(0));
    for table in ["one", "equal"] {
        for line in lines(&sandbox, table).values() {
            assert_eq!(
                (line["low"].as_str(), line["high"].as_str(), line["noise"].as_str()),
                ("", "", "false"),
                "{table}"
            );
        }
    }
    assert_message!(sandbox.sweep(&["report", "recipe.yaml"]).stdout);
}

/// Two values of an axis that make the same job have one measurement, not two that agree by chance.
#[test]
fn points_that_are_the_same_job_have_no_effect() {
    let sandbox = Sandbox::with(
        "name: same
steps: { s: { uses: mock, matrix: { input: [one.txt, two.txt], value: [1, 4] }, seeds: 2 } }
tables: { t: { from: s, effects: { interactions: true }, cells: [value] } }
",
    );
    sandbox.write("one.txt", "text");
    sandbox.write("two.txt", "text");
    assert_eq!(sandbox.sweep(&["run", "recipe.yaml"]).code, Some(0));
    assert_eq!(sandbox.records().len(), 4, "two values and two seeds");
    let lines = lines(&sandbox, "t");
    for effect in ["input: two.txt − one.txt", "input × value"] {
        let line = &lines[&(effect.to_owned(), "difference".to_owned())];
        assert_eq!(["value", "low", "high", "noise"].map(|key| line[key].as_str()), ["0", "0", "0", "false"]);
    }
    let share = |effect: &str| number(&lines[&(effect.to_owned(), "share".to_owned())]["value"]);
    assert_eq!((share("input: two.txt − one.txt"), share("value: 4 − 1")), (0.0, 1.0));
}

#[test]
fn numbers_that_are_too_large_have_no_effects() {
    let run = "if [ $A = 0 ]; then echo value=-1.7e308; else echo value=1.7e308; fi";
    let tables = "tables: { t: { from: s, effects: {}, cells: [value] } }\nfigures: { f: { from: s, kind: effects, x: value } }\n";
    let sandbox = study("large", "matrix: { a: [0, 1], b: [0, 1] }\n    seeds: 2", run, tables);
    let ended = sandbox.sweep(&["run", "recipe.yaml"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    for line in lines(&sandbox, "t").values() {
        assert!(line["value"].is_empty() || number(&line["value"]).is_finite(), "{line:?}");
    }
}

/// Points with further seeds, which a comparison has added, have no larger weight than the others.
#[test]
fn effects_use_the_seeds_that_all_points_have() {
    let matrix = "matrix: { a: [0, 1, 2], b: [0] }\n    seeds: { min: 2, max: 4, until: decided }";
    let run = "echo value=$((A * 7 + SWEEP_SEED * 3 + (A * SWEEP_SEED) % 2 * 20 + SWEEP_SEED / 2 * 1000))";
    let tables = "tables:
  t: { from: s, effects: {}, cells: [value] }
  open: { from: s, compare: { axis: a, pairs: [[1, 0]], decide: true }, cells: [value] }
";
    let sandbox = study("adaptive", matrix, run, tables);
    let ended = sandbox.sweep(&["run", "recipe.yaml"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let count = |level: &str| sandbox.records().keys().filter(|label| label.contains(&format!("a={level},"))).count();
    assert_eq!((count("0"), count("1"), count("2")), (4, 4, 2), "{}", ended.stderr);
    let lines = lines(&sandbox, "t");
    let line = &lines[&("a: 2 − 0".to_owned(), "difference".to_owned())];
    assert_eq!((line["n"].as_str(), number(&line["value"])), ("2", 14.0), "of the first two seeds");
    assert!(ended.stdout.contains("seeds that not all points have are left out"), "{}", ended.stdout);
    assert!(ended.stdout.contains("intervals allow for 3 looks at the results"), "{}", ended.stdout);
}

#[test]
fn a_narrowed_axis_leaves_a_reason() {
    let tables = "tables: { t: { from: s, effects: { factors: [a, b] }, cells: [value] } }\n";
    let sandbox = study("narrowed", FULL, "echo value=$((A + 2 * B + SWEEP_SEED))", tables);
    let ended = sandbox.sweep(&["run", "recipe.yaml", "--axis", "b=1"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(
        ended.stdout.contains("no effects: factor `b` has only the value `1` in this selection"),
        "{}",
        ended.stdout
    );
}

#[test]
fn a_figure_sorts_effects_by_size() {
    let run = "echo value=$((A * 5 + B * -30 + SWEEP_SEED * 100 + (A * SWEEP_SEED + B) % 2))";
    let figures =
        "figures: { f: { title: Sorted, from: s, kind: effects, x: value, effects: { interactions: [[a, b]] } } }\n";
    let sandbox = study("drawn", FULL, run, figures);
    assert_eq!(sandbox.sweep(&["run", "recipe.yaml"]).code, Some(0));
    let svg = sandbox.read("results/reports/drawn/figures/f.svg");
    let at = |label: &str| svg.find(label).unwrap_or_else(|| panic!("{label} is drawn: {svg}"));
    assert!(at("b: 1 − 0") < at("a: 1 − 0") && at("a: 1 − 0") < at("a × b"), "{svg}");
    assert!(!svg.contains("e-1"), "the tick at zero is zero: {svg}");
    insta::assert_snapshot!(svg);
    let png = fs_err::read(sandbox.path("results/reports/drawn/figures/f.png")).unwrap();
    let pixels = tiny_skia::Pixmap::decode_png(&png).unwrap();
    let inked = pixels.pixels().iter().filter(|pixel| pixel.red() < 250).count();
    assert!(inked > 3_000, "{inked} pixels of ink");
}
