//! Results that are no ordinary samples: runs that diverged, and jobs that measured the same as others.

use serde_json::Value;

use crate::sandbox::Sandbox;

fn claims(sandbox: &Sandbox) -> Vec<(String, String)> {
    let claims: Vec<Value> = serde_json::from_str(&sandbox.read("results/reports/study/claims.json")).unwrap();
    let text = |claim: &Value, key: &str| claim[key].as_str().unwrap().to_owned();
    claims.iter().map(|claim| (text(claim, "state"), text(claim, "because"))).collect()
}

fn run(sandbox: &Sandbox) -> String {
    let ended = sandbox.sweep(&["run", "recipe.yaml"]);
    assert_eq!(ended.code, Some(0), "{}{}", ended.stdout, ended.stderr);
    ended.stdout + &ended.stderr
}

/// A program whose loss is not finite from step 3 on with seed 1.
fn diverging(how: &str, last: &str) -> Sandbox {
    let sandbox = Sandbox::with(&format!(
        "
name: study
steps:
  train:
    uses: command
    seeds: 3
    with: {{ argv: [python3, train.py], inputs: [train.py], metrics: {how} }}
tables: {{ losses: {{ from: train, rows: [seed], cells: [loss] }} }}
claims: {{ low: {{ value: {{ metric: loss, of: {{ step: train }} }}, expect: {{ less_than: 1 }} }} }}
"
    ));
    sandbox.write(
        "train.py",
        &format!(
            "import os\nseed = int(os.environ['SWEEP_SEED'])\nlast = '{last}' if seed == 1 else '0.3'\nwith open(os.environ['SWEEP_REPORT'], 'a') as report:\n    for step, loss in enumerate([f'0.5{{seed}}', f'0.4{{seed}}', last, last]):\n        report.write(f'{{{{\"step\": {{step}}, \"loss\": {{loss}}}}}}\\n')\n"
        ),
    );
    sandbox
}

#[test]
fn a_run_that_diverged_is_marked_in_tables_and_claims() {
    for (how, last) in [("{ loss: min }", "NaN"), ("{ loss: mean }", "Infinity"), ("{ loss: max }", "-Infinity")] {
        let sandbox = diverging(how, last);
        let said = run(&sandbox);
        assert!(said.contains("loss diverged"), "{said}");
        let table = sandbox.read("results/reports/study/tables/losses.md");
        assert!(table.contains(r"1 job diverged: \`loss\` is NaN or infinite from step 2"), "{how} {last}: {table}");
        let csv = sandbox.read("results/reports/study/tables/losses.csv");
        assert!(csv.contains(",diverged\n"), "{csv}");
        assert!(sandbox.read("results/reports/study/index.html").contains("1 job diverged"));
        let (state, because) = claims(&sandbox).remove(0);
        assert_eq!(state, "undecided", "{because}");
        assert!(because.contains("1 job diverged: `loss` is NaN or infinite from step 2"), "{because}");
        let shown = sandbox.sweep(&["show", "train/seed=1"]).stdout;
        assert!(shown.contains("loss: diverged: its newest value is not finite"), "{shown}");
    }
}

#[test]
fn a_recipe_may_take_the_finite_values_of_a_run_that_diverged() {
    let sandbox = diverging("{ loss: min-finite }", "NaN");
    run(&sandbox);
    assert_eq!(sandbox.records()["train/seed=1"]["outcome"]["metrics"]["loss"]["value"], 0.41);
    assert!(!sandbox.read("results/reports/study/tables/losses.md").contains("diverged"));
    assert_eq!(claims(&sandbox)[0].0, "supported");
}

/// A program that ignores the seed, a program that ignores `other`, and a correct program.
const STUDY: &str = "
name: study
steps:
  deaf: { uses: command, matrix: { lr: [1, 2] }, seeds: 3, with: { run: 'echo loss=0.${LR}25; echo print_ms=$SWEEP_SEED', env: { LR: '${{ matrix.lr }}' } } }
  same: { uses: command, matrix: { other: [a, b] }, seeds: 3, with: { run: 'echo loss=0.$((SWEEP_SEED + 3))', env: { OTHER: '${{ matrix.other }}' } } }
  good: { uses: command, matrix: { lr: [1, 2] }, seeds: 3, with: { run: 'echo loss=0.$((SWEEP_SEED + LR))', env: { LR: '${{ matrix.lr }}' } } }
tables:
  deaf: { from: deaf, rows: [lr], cells: [loss] }
  same: { from: same, rows: [other], cells: [loss] }
  good: { from: good, rows: [lr], cells: [loss] }
  compared: { from: deaf, compare: { axis: lr, baseline: 1 }, cells: [loss] }
claims:
  mean: { value: { metric: loss, of: { step: deaf, lr: 1 } }, expect: { less_than: 1 } }
  difference: { difference: { metric: loss, of: { step: deaf, lr: 2 }, to: { step: deaf, lr: 1 } }, expect: { more_than: 0 } }
  ranked: { order: { metric: loss, step: deaf, axis: lr, ascending: [1, 2] } }
  other: { difference: { metric: loss, of: { step: same, other: b }, to: { step: same, other: a } }, expect: { at_most: 1 } }
  fine: { value: { metric: loss, of: { step: good, lr: 1 } }, expect: { less_than: 1 } }
";

#[test]
fn jobs_of_different_seeds_with_equal_results_are_no_samples() {
    let sandbox = Sandbox::with(STUDY);
    run(&sandbox);
    let table = |name: &str| sandbox.read(&format!("results/reports/study/tables/{name}.md"));
    let remark = "the seed has no effect: 6 jobs of different seeds have the same measurements, bit for bit";
    assert!(table("deaf").contains(remark) && !table("deaf").contains('±'), "{}", table("deaf"));
    assert!(sandbox.read("results/reports/study/index.html").contains(remark));
    assert!(table("compared").contains("undecided: the seed has no effect"), "{}", table("compared"));
    assert!(table("same").contains("a; b have the same measurements, bit for bit"), "{}", table("same"));
    for text in [table("good"), table("same")] {
        assert!(!text.contains("the seed has no effect"), "{text}");
    }
    assert!(!table("good").contains("no effect"), "{}", table("good"));
    let csv = sandbox.read("results/reports/study/tables/deaf.csv");
    assert!(csv.contains("\n1,loss,,0.125,,1,,,"), "each row counts once: {csv}");
    let claims = claims(&sandbox);
    for (state, because) in &claims[..3] {
        assert_eq!(state, "undecided", "{because}");
        assert!(because.contains("the seed has no effect: "), "{because}");
        assert!(!because.contains("more seeds"), "more seeds would be as equal: {because}");
    }
    assert!(claims[3].1.contains("`b` and `a` have the same measurements, bit for bit"), "{claims:?}");
    assert_eq!(claims[4].0, "supported", "{claims:?}");
}

#[test]
fn a_metric_that_is_declared_as_deterministic_may_be_equal() {
    let sandbox = Sandbox::with(&format!("{STUDY}metrics: {{ loss: {{ deterministic: true }} }}\n"));
    run(&sandbox);
    assert_eq!(claims(&sandbox)[0].0, "supported");
    assert!(!sandbox.read("results/reports/study/tables/deaf.md").contains("no effect"));
}

#[test]
fn a_seed_that_only_the_baseline_ignores_leaves_the_other_side_its_samples() {
    let sandbox = Sandbox::with(
        "
name: study
steps:
  a: { uses: command, matrix: { method: [base, new] }, seeds: 3, with: { run: 'if [ $M = new ]; then echo loss=0.$((SWEEP_SEED + 3)); else echo loss=0.1; fi', env: { M: '${{ matrix.method }}' } } }
claims:
  more: { difference: { metric: loss, of: { step: a, method: new }, to: { step: a, method: base } }, expect: { more_than: 0 } }
",
    );
    run(&sandbox);
    let (state, because) = claims(&sandbox).remove(0);
    assert_eq!(state, "supported", "{because}");
    assert!(because.contains("3 pairs"), "{because}");
}

#[test]
fn some_seeds_with_one_equal_number_are_samples_and_with_an_equal_curve_are_not() {
    let recipe = "
name: study
steps:
  a: { uses: command, seeds: 4, with: { run: 'RUN' } }
tables: { t: { from: a, cells: [loss] } }
";
    let number = Sandbox::with(&recipe.replace("RUN", "echo loss=0.$((SWEEP_SEED / 2 + 3))"));
    run(&number);
    let csv = number.read("results/reports/study/tables/t.csv");
    assert!(csv.contains(",4,") && !number.read("results/reports/study/tables/t.md").contains("no effect"), "{csv}");
    let line = "for step in 1 2 3 4; do echo \"{\\\"step\\\": $step, \\\"loss\\\": $((SWEEP_SEED / 2)).$step}\" >> $SWEEP_REPORT; done";
    let curve = Sandbox::with(&recipe.replace("RUN", line));
    run(&curve);
    let table = curve.read("results/reports/study/tables/t.md");
    assert!(
        table.contains("the seed has no effect: 4 jobs of different seeds") && table.contains("(n = 2)"),
        "{table}"
    );
}
