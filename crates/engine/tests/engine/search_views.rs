//! Views of a search: its decisions on the page and in `sweep show`, the ends of curves, and the ranking.

use serde_json::{Value, json};

use crate::sandbox::Sandbox;

/// Nine rates, of which 5 is the best, with a curve of each training; the seed changes little.
const STUDY: &str = "\
name: viewed
steps:
  train:
    uses: command
    matrix: { rate: { range: [1, 10] } }
    seeds: 2
    search: { rungs: { of: until, at: [2, 4, 8], keep: 1/3, by: loss } }
    with:
      run: |
        d=$(( RATE > 5 ? RATE - 5 : 5 - RATE ))
        for step in $(seq 1 \"$SWEEP_UNTIL\"); do
          echo '{\"step\": '\"$step\"', \"loss\": '$(( d * 100 + 1000 / step + SWEEP_SEED + RATE ))'}' >> \"$SWEEP_REPORT\"
        done
      env: { RATE: '${{ matrix.rate }}' }
figures:
  curves: { from: train, kind: line, x: iteration, y: loss }
  slice: { from: train, kind: slice, x: rate, y: loss, where: { until: 2 } }
";

fn ran() -> Sandbox {
    let sandbox = Sandbox::with(STUDY);
    let ended = sandbox.sweep(&["run", "recipe.yaml"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    sandbox
}

#[test]
fn the_page_has_the_ranks_and_the_cuts() {
    let page = ran().read("results/reports/viewed/index.html");
    let (_, section) = page.split_once("<section id=\"search\">").expect("the page has a section about the search");
    let section = section.split("</section>").next().unwrap();
    // Nine configurations at the first rung, three at the second.
    assert_eq!(section.matches("<summary>").count(), 2, "{section}");
    assert_eq!(
        (section.matches("promoted to 4").count(), section.matches("promoted to 8").count()),
        (3, 1),
        "{section}"
    );
    assert_eq!(section.matches("<td>stopped</td>").count(), 8, "{section}");
    let first = section.find("<td>1</td><td>rate=5</td>").expect("rank 1 is the best rate");
    assert!(first < section.find("<td>9</td>").unwrap(), "{section}");
    assert!(page.contains("<a href=\"#search\">"), "the page leads there");
}

/// One line for each step and decision, and no line for known results.
#[test]
fn a_run_says_what_is_decided_once() {
    let sandbox = Sandbox::with(STUDY);
    let lines = |stderr: &str, word: &str| -> Vec<String> {
        stderr.lines().filter(|line| line.starts_with(word)).map(str::to_owned).collect()
    };
    let first = sandbox.sweep(&["run", "recipe.yaml"]);
    assert_eq!(first.code, Some(0), "{}", first.stderr);
    assert_eq!(lines(&first.stderr, "decided: ").len(), 2, "{}", first.stderr);
    assert_eq!(
        lines(&first.stderr, "more: "),
        [
            "more: 6 jobs of train, because rate=4 is promoted to 4: rank 2 of 9; and 2 further reasons",
            "more: 2 jobs of train, because rate=5 is promoted to 8: rank 1 of 3",
        ]
    );
    assert_eq!(sandbox.journal("added").len(), 8, "the journal has each of them");
    sandbox.write("recipe.yaml", &STUDY.replace("at: [2, 4, 8]", "at: [2, 4, 8, 16]"));
    let longer = sandbox.sweep(&["run", "recipe.yaml"]);
    assert_eq!(longer.code, Some(0), "{}", longer.stderr);
    let decided = lines(&longer.stderr, "decided: ");
    assert!(decided.len() == 1 && decided[0].contains(" 8"), "{decided:?}");
}

#[test]
fn a_record_has_the_decisions_about_its_configuration() {
    let sandbox = ran();
    let show = |label: &str| {
        let ended = sandbox.sweep(&["show", label]);
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        let lines = ended.stdout.lines().skip_while(|line| *line != "decisions").skip(1);
        lines.take_while(|line| line.starts_with("  ")).map(|line| line.trim().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(show("train/rate=5,seed=1,until=2"), ["at 2: rank 1 of 9, promoted to 4"]);
    assert_eq!(show("train/rate=9,seed=0,until=2"), ["at 2: rank 9 of 9, stopped"]);
    assert_eq!(show("train/rate=6,seed=0,until=4"), ["at 4: rank 3 of 3, stopped"]);
    assert_eq!(show("train/rate=5,seed=0,until=8"), [""; 0], "nothing is decided at the last rung");
}

#[test]
fn curves_that_the_search_stopped_end_in_a_cross() {
    let sandbox = ran();
    let svg = sandbox.read("results/reports/viewed/figures/curves.svg");
    // Two seeds of eight configurations, each once, although those of two have records at two rungs.
    assert!(svg.contains("the end of 16 jobs, which the search stopped"), "{svg}");
    let complete = STUDY
        .replace("search: { rungs: { of: until, at: [2, 4, 8], keep: 1/3, by: loss } }", "")
        .replace("  slice: { from: train, kind: slice, x: rate, y: loss, where: { until: 2 } }\n", "");
    let sandbox = Sandbox::with(&complete.replace("$SWEEP_UNTIL", "8"));
    assert_eq!(sandbox.sweep(&["run", "recipe.yaml"]).code, Some(0));
    let svg = sandbox.read("results/reports/viewed/figures/curves.svg");
    assert!(!svg.contains("stopped"), "{svg}");
}

#[test]
fn the_best_of_a_search_are_those_that_got_furthest() {
    let sandbox = ran();
    let ended = sandbox.sweep(&["best", "recipe.yaml", "--json"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let found: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!((&found["metric"], &found["better"]), (&json!("loss"), &json!("min")), "those of the search");
    let rows = found["best"].as_array().unwrap();
    let column = |name: &str| rows.iter().map(|row| row[name].clone()).collect::<Vec<Value>>();
    assert_eq!(column("rank")[..2], [json!(1), Value::Null]);
    let rates: Vec<&Value> = rows.iter().map(|row| &row["values"]["rate"]).collect();
    // The finalist, those of the second rung by rank, those of the first by rank.
    assert_eq!(
        rates,
        [&json!(5), &json!(4), &json!(6), &json!(3), &json!(7), &json!(2), &json!(8), &json!(1), &json!(9)]
    );
    assert_eq!(
        column("stopped")[..3],
        [Value::Null, json!("stopped at 4: rank 2 of 3, cut at 1"), json!("stopped at 4: rank 3 of 3, cut at 1")]
    );
    assert!(rows.iter().all(|row| row["values"].get("until").is_none()), "a rung is no configuration");
    let text = sandbox.sweep(&["best", "recipe.yaml"]).stdout;
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    assert_message!(text);
}

/// Eight values of `x` in two batches; 3 of the search's seeds flatter small values, those of the confirmation do not.
const SUGGESTED: &str = "\
name: suggested
steps:
  tune:
    uses: command
    seeds: 2
    search:
      suggest: { sampler: random, space: { x: { int: [1, 40] }, rate: { log_uniform: [0.001, 1] } }, batch: 4, batches: 2, by: loss, direction: min }
      confirm: { top: 2, seeds: 3 }
    with:
      run: 'echo loss=$(( X * 10 + SWEEP_SEED * (SWEEP_SEED > 1 ? 100 : 1) ))'
      env: { X: '${{ matrix.x }}', RATE: '${{ matrix.rate }}' }
figures:
  slice: { from: tune, kind: slice, x: rate, y: loss }
  all: { from: tune, kind: parallel, value: loss }
";

#[test]
fn search_and_confirmation_are_shown_apart() {
    let sandbox = Sandbox::with(SUGGESTED);
    let ended = sandbox.sweep(&["run", "recipe.yaml"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let found: Value = serde_json::from_str(&sandbox.sweep(&["best", "recipe.yaml", "--json"]).stdout).unwrap();
    assert_eq!(found["configurations"], json!(8));
    let rows = found["best"].as_array().unwrap();
    let confirmed: Vec<bool> = rows.iter().map(|row| !row["confirmed"].is_null()).collect();
    assert_eq!(confirmed, [[true; 2].as_slice(), &[false; 6]].concat(), "the best two");
    for row in &rows[..2] {
        let x = row["values"]["x"].as_f64().unwrap();
        assert_eq!((&row["search"]["n"], &row["confirmed"]["n"]), (&json!(2), &json!(3)));
        assert_eq!(row["search"]["mean"], json!(x * 10.0 + 0.5));
        assert!(row["confirmed"]["mean"].as_f64().unwrap() > x * 10.0 + 100.0, "other seeds: {row}");
    }
    let text = sandbox.sweep(&["best", "recipe.yaml"]).stdout;
    assert!(text.contains("loss · confirmed") && text.contains("loss · search"), "{text}");
    assert!(text.contains("seeds that the search never saw"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    let page = sandbox.read("results/reports/suggested/index.html");
    for says in
        ["tune: batch 1 of 2: 4 configurations, chosen by random", "tune: batch 2 of 2", "2 configurations to confirm"]
    {
        assert!(page.contains(says), "{says}");
    }
    // The scale is that of the space.
    let slice = sandbox.read("results/reports/suggested/figures/slice.svg");
    assert!(slice.contains("rate (logarithmic)"), "{slice}");
}

#[test]
fn races_say_who_left_and_why() {
    let sandbox = Sandbox::with(
        "\
name: race
steps:
  compare:
    uses: command
    matrix: { method: [1, 2, 9] }
    seeds: 8
    search: { racing: { by: loss } }
    with:
      run: 'echo loss=$(( METHOD * 100 + SWEEP_SEED * SWEEP_SEED * 7 % 11 + METHOD * SWEEP_SEED % 3 ))'
      env: { METHOD: '${{ matrix.method }}' }
",
    );
    let ended = sandbox.sweep(&["run", "recipe.yaml"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let page = sandbox.read("results/reports/race/index.html");
    assert!(page.contains("left the race after 3 seeds") || page.contains("left the race after 4 seeds"), "{page}");
    assert!(page.contains("worse than method=1 by "), "{page}");
    let shown = sandbox.sweep(&["show", "compare/method=9,seed=0"]).stdout;
    assert!(shown.contains("left the race after ") && shown.contains("worse than method=1 by "), "{shown}");
    let text = sandbox.sweep(&["best", "recipe.yaml"]).stdout;
    let rows: Vec<&str> = text.lines().filter(|line| line.trim_start().starts_with(['1', '–'])).collect();
    assert!(rows[0].trim_start().starts_with("1   1 "), "{text}");
}
