//! Tables of further analyses: numbers of curves, laws over sizes, and components of variance.

use crate::sandbox::Sandbox;

/// A loss that falls to 1 at a step that depends on method and seed; the last run of the slow method ends before. Values over
/// sizes, and values of two sources, which are those of the unit tests.
const PROGRAM: &str = "\
import json, os, sys
given = dict(pair.split('=') for pair in sys.argv[1:])
seed = int(os.environ['SWEEP_SEED'])
with open(os.environ['SWEEP_REPORT'], 'a') as report:
    if given['kind'] == 'curve':
        is_fast = (given['method'] == 'fast') != (given.get('task') == 't2')
        reached = 10 + seed if is_fast else 20 + seed if given['method'] == 'shifted' else 20 + 5 * seed
        for step in range(1, 21 if given['method'] == 'short' and seed == 3 else 31):
            print(json.dumps({'step': step, 'loss': reached / step}), file=report)
    elif given['kind'] == 'wild':
        for step in range(1, 31):
            is_calm = given['method'] == 'calm' or seed == 0
            loss = 12 / step if is_calm else 9 / step if step < 6 else float('nan')
            print(json.dumps({'step': step, 'loss': loss, 'height': float(seed)}), file=report)
    elif given['kind'] == 'size':
        width = int(given['width'])
        noise = 1 + 0.003 * ((7 * width + seed) % 3 - 1)
        factor = 3.0 if given['method'] == 'x' else 3.3
        print(json.dumps({'value': factor * width ** -0.1 * noise}), file=report)
    else:
        table = [[1.0, 2.5, 1.7, 3.1], [2.2, 3.9, 2.4, 4.4], [0.3, 1.1, 1.9, 2.0]]
        print(json.dumps({'value': table[int(given['init'])][int(given['data'])]}), file=report)
";

const CURVES: &str = "\
name: study
steps:
  a:
    uses: command
    matrix: { zip: { method: [fast, slow], width: [3, 1] } }
    seeds: 4
    with: { argv: [python3, program.py, kind=curve, 'method=${{ matrix.method }}', 'width=${{ matrix.width }}'], inputs: [program.py] }
tables:
  speed: { from: a, cells: [loss], curve: { axis: method, baseline: fast, target: 1 } }
  equal: { from: a, cells: [loss], curve: { axis: method, at: 30, cost: width } }
  height: { from: a, cells: [loss], curve: { axis: method, area: 20 } }
  short: { from: a, cells: [loss], curve: { axis: method, at: 40 } }
";

fn run(recipe: &str) -> (Sandbox, String) {
    let sandbox = Sandbox::with(recipe);
    sandbox.write("program.py", PROGRAM);
    let ended = sandbox.sweep(&["run", "recipe.yaml"]);
    assert_eq!(ended.code, Some(0), "{}{}", ended.stdout, ended.stderr);
    (sandbox, ended.stdout)
}

/// The value of a row of a table's CSV file whose line contains a text, at a column.
fn value(sandbox: &Sandbox, table: &str, row: &str, contains: &str, column: &str) -> f64 {
    let csv = sandbox.read(&format!("results/reports/study/tables/{table}.csv"));
    let place = csv.lines().next().unwrap().split(',').position(|name| name == column);
    let line = csv.lines().find(|line| line.starts_with(row) && line.contains(contains));
    let (Some(place), Some(line)) = (place, line) else { panic!("{row} {contains} {column}: {csv}") };
    // Names of numbers may have commas in quotes.
    let line = line
        .replace('"', "")
        .replace("loss, mean up to 20 steps", "height")
        .replace(", difference", " difference")
        .replace(", law", " law")
        .replace(", sd", " sd")
        .replace(", score", " score");
    line.split(',').nth(place).unwrap().parse().unwrap_or_else(|_| panic!("{line} {column}"))
}

#[test]
fn numbers_of_curves_are_compared_by_an_axis() {
    let (sandbox, said) = run(CURVES);
    let near = |ours: f64, wanted: f64| assert!((ours - wanted).abs() < 1e-9, "{ours} {wanted}: {said}");
    near(value(&sandbox, "speed", "fast", ",mean,", "value"), 11.5);
    near(value(&sandbox, "speed", "slow", ",mean,", "value"), 26.25);
    near(value(&sandbox, "speed", "slow", ",difference,", "value"), 14.75);
    // Student's t of 10, 14, 18 and 17 by `scipy.stats.ttest_1samp`.
    near(value(&sandbox, "speed", "slow", ",difference,", "p"), 0.003_784_410_759_269_677);
    assert!(said.contains("runs that reach it: fast 4 of 4 (median 11.5), slow 3 of 4 (median 27.5)"), "{said}");
    // The two groups are apart in 2 of 70 assignments.
    assert!(said.contains("log-rank test against fast, corrected (Holm): slow p = 0.029"), "{said}");
    near(value(&sandbox, "equal", "fast", "loss", "mean"), 1.15);
    near(value(&sandbox, "equal", "slow", "loss", "mean"), 27.5 / 30.0);
    // `numpy.trapezoid` of 11.5 / step from 1 to 20, per step.
    near(value(&sandbox, "height", "fast", "mean up to", "mean"), 1.859_816_108_271_176_2);
    assert!(said.contains("`loss` not reached by 8 jobs: no curve of this length, or no cost of a step"), "{said}");
}

#[test]
fn a_curve_that_is_too_short_blocks_its_comparison() {
    let recipe = CURVES.replace(
        "  short: { from: a, cells: [loss], curve: { axis: method, at: 40 } }\n",
        "  late: { from: a, cells: [loss], curve: { axis: method, at: 28, baseline: fast } }
  left: { from: a, cells: [loss], curve: { axis: method, at: 28, baseline: fast }, missing: ignore }
  even: { from: a, where: { method: [fast, shifted] }, cells: [loss], curve: { axis: method, at: 10, baseline: fast } }
",
    );
    let recipe =
        recipe.replace("method: [fast, slow], width: [3, 1]", "method: [fast, short, shifted], width: [3, 1, 1]");
    let (sandbox, text) = run(&recipe);
    let differences = |table: &str| -> Vec<String> {
        let csv = sandbox.read(&format!("results/reports/study/tables/{table}.csv"));
        csv.lines().filter(|line| line.starts_with("short") && line.contains("difference")).map(str::to_owned).collect()
    };
    assert!(text.contains("`loss` not reached by 1 job: no curve of this length"), "{text}");
    assert!(!differences("late").iter().any(|line| line.contains(",0.")), "{:?}", differences("late"));
    assert!(differences("left").iter().any(|line| line.contains(",0.")), "{:?}", differences("left"));
    // All differences are 1, so there is no test, and nothing is not told apart.
    let even = text.lines().skip_while(|line| !line.contains("even")).collect::<Vec<_>>().join("\n");
    assert!(even.contains("all differences are equal") && !even.contains("≈ 1"), "{even}");
}

/// A run that diverges has no result, and reaches no target: the others would be a choice of the best.
#[test]
fn runs_that_diverge_reach_no_target() {
    let (sandbox, stdout) = run("\
name: study
steps:
  a:
    uses: command
    matrix: { method: [calm, wild], task: [t1] }
    seeds: 3
    with: { argv: [python3, program.py, kind=wild, 'method=${{ matrix.method }}'], env: { TASK: '${{ matrix.task }}' }, inputs: [program.py] }
tables:
  speed: { from: a, cells: [loss], curve: { axis: method, baseline: calm, target: 1 } }
  unknown: { from: a, cells: [height], profile: { axis: method, workload: task, targets: { t1: 1 } } }
");
    assert!(
        stdout.contains("runs that reach it: calm 3 of 3 (median 12), wild 1 of 3 (median not reached)"),
        "{stdout}"
    );
    // One of three ends at 12, two count up to 30: 12 + 18 · 2 / 3.
    assert!((value(&sandbox, "speed", "wild", ",mean,", "value") - 24.0).abs() < 1e-9, "{stdout}");
    assert!(stdout.contains("height: no better direction") && !stdout.contains("height: 3 jobs"), "{stdout}");
}

#[test]
fn methods_have_scores_over_workloads() {
    let (sandbox, said) = run("\
name: study
steps:
  a:
    uses: command
    matrix: { method: [fast, slow], task: [t1, t2] }
    seeds: 3
    with: { argv: [python3, program.py, kind=curve, 'method=${{ matrix.method }}', 'task=${{ matrix.task }}'], inputs: [program.py] }
tables:
  pooled: { from: a, cells: [loss], curve: { axis: method, baseline: fast, target: 1 } }
  profile: { from: a, cells: [loss], profile: { axis: method, workload: task, targets: { t1: 1, t2: 1.0 } } }
  hard: { from: a, cells: [loss], profile: { axis: method, workload: task, targets: { t1: 0.5, t2: 1, t3: 1 } } }
");
    // The medians are 11 and 25 steps, and the reverse on the other task.
    for method in ["fast", "slow"] {
        let score = value(&sandbox, "profile", method, "score", "mean");
        assert!((score - f64::midpoint(1.0, (4.0 - 25.0 / 11.0) / 3.0)).abs() < 1e-9, "{score}: {said}");
    }
    assert!(
        said.contains("no log-rank test: runs are not independent, because more than the seed varies (task"),
        "{said}"
    );
    assert!(said.contains("the target is reached by at most half of the runs of slow on t1"), "{said}");
    assert!(said.contains("loss: no scores, because a method has no run on a workload"), "{said}");
}

#[test]
fn a_law_over_sizes_predicts_another_size_and_small_sizes_rank() {
    let (sandbox, said) = run("\
name: study
steps:
  a:
    uses: command
    matrix: { method: [x, y], width: [1, 2, 4, 8, 32] }
    seeds: 2
    with: { argv: [python3, program.py, kind=size, 'method=${{ matrix.method }}', 'width=${{ matrix.width }}'], inputs: [program.py] }
tables:
  law: { from: a, cells: [value], fit: { x: width, predict: 32, axis: method } }
");
    for method in ["x", "y"] {
        let note = said
            .lines()
            .find(|line| line.contains(&format!("value of {method}: in proportion to width to the power -0.1")));
        assert!(note.is_some_and(|note| note.contains("within the predicted")), "{said}");
    }
    let law = |column: &str| value(&sandbox, "law", "x,32", "law", column);
    let (mean, [low, high]) = (value(&sandbox, "law", "x,32", "value,", "mean"), ["low", "high"].map(law));
    assert!(low < mean && mean < high && high / low < 1.1, "{low} {mean} {high}");
    assert!(said.contains("order at smaller width: 1 of 1 pair as at 32: 1 (Kendall's τ 1.00, p = 1.000)"), "{said}");
}

#[test]
fn sources_of_variance_are_told_apart() {
    let recipe = "\
name: study
steps:
  a:
    uses: command
    matrix: { init_seed: [0, 1, 2], data_seed: [0, 1, 2, 3] }
    with: { argv: [python3, program.py, kind=sources, 'init=${{ matrix.init_seed }}', 'data=${{ matrix.data_seed }}'], inputs: [program.py] }
tables:
  sources: { from: a, cells: [value], variance: {} }
";
    let (sandbox, said) = run(recipe);
    for (row, wanted) in
        [("init_seed", 0.849_722_222_222_222_7_f64), ("data_seed", 0.6225), ("rest", 0.264_444_444_444_444_4)]
    {
        let sd = value(&sandbox, "sources", row, "sd", "mean");
        assert!((sd - wanted.sqrt()).abs() < 1e-9, "{row} {sd}: {said}");
    }
    assert!(said.contains("`init_seed` has the largest share, though the intervals overlap"), "{said}");
    assert!(said.contains("seeds that leave `init_seed` constant hide 49 % of the variance"), "{said}");
    // One source after the other.
    let alone = recipe.replace("matrix: { init_seed: [0, 1, 2], data_seed: [0, 1, 2, 3] }", "matrix: { include: [{ init_seed: 0, data_seed: 0 }, { init_seed: 1, data_seed: 0 }, { init_seed: 2, data_seed: 0 }, { init_seed: 0, data_seed: 1 }] }");
    let (_, said) = run(&alone);
    assert!(said.contains("each source alone, the others constant (3 of `init_seed`, 2 of `data_seed`)"), "{said}");
}

#[test]
fn mistakes_in_analyses_have_their_place() {
    let planned = |table: &str| {
        let recipe = CURVES.split("tables:").next().unwrap().to_owned()
            + &format!("tables:\n  t: {{ from: a, cells: [loss], {table} }}\n");
        let ended = Sandbox::with(&recipe).sweep(&["plan", "recipe.yaml"]);
        assert_eq!(ended.code, Some(3), "{table}: {}", ended.stdout);
        ended.stderr
    };
    for (table, message) in [
        ("curve: { axis: method }", "write exactly one of `target: VALUE`, `area: STEPS` and `at: STEPS`"),
        ("curve: { axis: method, at: 3, area: 3 }", "`curve` must have exactly one of `target`, `area` and `at`"),
        ("curve: { axis: method, at: -3 }", "`at` must be greater than 0"),
        ("curve: { at: 3 }", "`curve` has no `axis`"),
        ("curve: { axis: seed, at: 3 }", "`seed` cannot be the axis of `curve`"),
        ("curve: { axis: method, at: 3 }, rows: [width]", "a table with `curve` cannot have `rows` or `columns`"),
        ("curve: { axis: method, at: 3 }, variance: {}", "a table with `curve` cannot have `variance`"),
        ("profile: { axis: method, targets: { a: 1 } }", "`profile` has no `workload`"),
        ("profile: { axis: method, workload: width }", "`profile` has no `targets`"),
        ("profile: { axis: method, workload: width, targets: { 3: low } }", "the target of `3` must be a number"),
        ("fit: { predict: 3 }", "`fit` has no `x`"),
        ("fit: { x: width, axis: depth }", "has no axis `depth`"),
        ("variance: { axes: [depth] }, effects: {}", "a table with `variance` cannot have `effects`"),
    ] {
        assert!(planned(table).contains(message), "{table}: {}", planned(table));
    }
}

/// Metrics that a recipe reads off curves: in tables and claims, without another run.
#[test]
fn metrics_are_read_off_curves() {
    let (sandbox, _) = run(CURVES);
    sandbox.write(
        "recipe.yaml",
        &CURVES.replace(
            "tables:\n",
            "\
metrics:
  loss: { better: min }
  steps_to_1: { read: { curve: loss, target: 1 } }
  loss_at_20: { read: { curve: loss, at: 20 } }
  height: { read: { curve: loss, area: 20 }, better: none }
claims:
  sooner: { difference: { metric: steps_to_1, of: { step: a, method: fast }, to: { step: a, method: slow } }, expect: { at_most: 0 } }
  soonest:
    missing: worst
    difference: { metric: steps_to_1, of: { step: a, method: fast }, to: { step: a, method: slow } }
    expect: { at_most: 0 }
  lower: { ratio: { metric: loss_at_20, of: { step: a, method: fast }, to: { step: a, method: slow } }, expect: { at_most: 0.9 } }
tables:
  numbers: { from: a, rows: [method], cells: [steps_to_1, loss_at_20, height], missing: ignore }
",
        ),
    );
    let ended = sandbox.sweep(&["run", "recipe.yaml"]);
    assert_eq!(ended.code, Some(0), "{}{}", ended.stdout, ended.stderr);
    assert!(ended.stderr.contains("8 cached") || ended.stdout.contains("8 cached"), "{}{}", ended.stdout, ended.stderr);
    let near = |metric: &str, row: &str, wanted: f64| {
        let found = value(&sandbox, "numbers", row, metric, "mean");
        assert!((found - wanted).abs() < 1e-9, "{metric} {row}: {found} {wanted}");
    };
    near("steps_to_1", "fast", 11.5);
    near("loss_at_20", "fast", 11.5 / 20.0);
    near("loss_at_20", "slow", 27.5 / 20.0);
    // `numpy.trapezoid` of 11.5 / step from 1 to 20, per step.
    near("height", "fast", 1.859_816_108_271_176_2);

    let report = sandbox.sweep(&["report", "recipe.yaml", "--format", "json"]);
    let report: serde_json::Value = serde_json::from_str(&report.stdout).unwrap();
    let verdict = |name: &str| {
        let verdicts = report["reports"][0]["verdicts"].as_array().unwrap();
        verdicts.iter().find(|verdict| verdict["claim"] == name).unwrap().clone()
    };
    assert_eq!(verdict("sooner")["state"], "undecided", "{report}");
    assert!(verdict("sooner").to_string().contains("`loss` does not reach 1 by step 30"), "{}", verdict("sooner"));
    assert_eq!(verdict("soonest")["state"], "supported", "{}", verdict("soonest"));
    assert_eq!(verdict("lower")["state"], "supported", "{}", verdict("lower"));
}

#[test]
fn numbers_of_curves_are_checked_in_the_recipe() {
    let with = |metrics: &str| CURVES.replace("tables:\n", &format!("metrics:\n{metrics}tables:\n"));
    let search = "\
name: study
steps:
  a:
    uses: command
    matrix: { method: [fast, slow] }
    seeds: 4
    with: { argv: [python3, program.py, kind=curve, 'method=${{ matrix.method }}'], inputs: [program.py] }
    search: { racing: { by: soon } }
metrics:
  loss: { better: min }
  soon: { read: { curve: loss, target: 1 } }
";
    let trained = "\
name: study
steps:
  a: { uses: train, with: { iters: 1 } }
metrics:
  early: { read: { curve: los, at: 1 } }
";
    for (recipe, message) in [
        (with("  early: { read: { at: 3 } }\n"), "`read` has no `curve`"),
        (with("  early: { read: { curve: loss } }\n"), "`read` must have exactly one of `target`, `area` and `at`"),
        (
            with("  early: { read: { curve: loss, at: 3, area: 4 } }\n"),
            "`read` must have exactly one of `target`, \
            `area` and `at`",
        ),
        (with("  early: { read: { curve: loss, at: -3 } }\n"), "`at` must be greater than 0"),
        (with("  early: { read: { curve: height, target: 3 } }\n"), "`height` has no better direction"),
        (with("  loss: { read: { curve: loss, at: 3 } }\n"), "the jobs already measure `loss`"),
        (
            with("  a: { read: { curve: loss, at: 3 } }\n  b: { read: { curve: a, at: 3 } }\n"),
            "`a` is itself computed from a curve",
        ),
        (
            with("  loss: { better: min }\n  soon: { read: { curve: loss, target: 1 }, unit: ms }\n"),
            "a number of steps has no unit",
        ),
        (search.to_owned(), "a search cannot decide by `soon`"),
        (trained.to_owned(), "no step records the curve `los`"),
    ] {
        let sandbox = Sandbox::with(&recipe);
        sandbox.write("program.py", PROGRAM);
        let ended = sandbox.sweep(&["plan", "recipe.yaml"]);
        assert_eq!(ended.code, Some(3), "{message}: {}{}", ended.stdout, ended.stderr);
        assert!(ended.stderr.contains(message), "{message}: {}", ended.stderr);
    }
}

const OVER_TASKS: &str = "\
name: study
steps:
  a:
    uses: command
    matrix: { method: [x, y], n: [1, 2, 4], task: [0, 3, 7] }
    seeds: 3
    with: { run: 'echo value=$((10 * N + 10 * T + SWEEP_SEED))', env: { M: '${{ matrix.method }}', N: '${{ matrix.n }}', T: '${{ matrix.task }}' } }
    replicates: { task: dataset }
    resources: { cpus: 1 }
metrics: { value: { better: min } }
tables:
  law: { from: a, where: { method: [x] }, fit: { x: n }, cells: [value] }
  scores: { from: a, where: { n: [1] }, aggregate: { axis: method, baseline: x }, cells: [value] }
";

/// The mean of 3 data sets and 3 seeds that they share, as factors without a residual: `44.33 ± t.ppf(0.975, 2) * sqrt((3700 + 3) / 9)`.
#[test]
fn means_of_a_law_have_the_units_of_verdicts() {
    let (sandbox, _) = run(OVER_TASKS);
    for (column, wanted) in
        [("mean", 44.333_333_333_333_336), ("low", -42.942_076_442_674), ("high", 131.608_743_109_341)]
    {
        let ours = value(&sandbox, "law", "1", "value,", column);
        assert!((ours - wanted).abs() < 1e-6, "{column}: {ours} {wanted}");
    }
}

#[test]
fn scores_are_over_the_tasks_that_all_methods_have() {
    let recipe = OVER_TASKS.replace("task: [0, 3, 7] }", "task: [0, 3, 7], exclude: [{ method: y, task: 7 }] }");
    let (sandbox, text) = run(&recipe);
    assert!(text.contains("left out: 1 task that some methods lack"), "{text}");
    let [x, y] = ["x", "y"].map(|method| value(&sandbox, "scores", method, ",interquartile mean,", "value"));
    assert!((x - y).abs() < 1e-9, "the same values on the same tasks: {x} {y}");
}
