//! Expansion of a matrix, read off the plan.

use crate::sandbox::Sandbox;

/// The points of the step `a`, in order.
fn points(steps: &str) -> Vec<String> {
    let sandbox = Sandbox::with(steps);
    let plan = sandbox.sweep(&["plan", "recipe.yaml", "--list"]);
    assert_eq!(plan.code, Some(0), "{}", plan.stderr);
    let jobs = plan.stdout.lines().filter_map(|line| line.split_whitespace().next());
    jobs.filter_map(|job| job.strip_prefix("a/")).map(str::to_owned).collect()
}

fn of(matrix: &str) -> Vec<String> {
    points(&format!("params: {{ n: 3 }}\nsteps:\n  a:\n    uses: mock\n    {matrix}\n"))
}

#[test]
fn numbers() {
    assert_eq!(of("matrix: { seed: { range: [0, 3] } }"), ["seed=0", "seed=1", "seed=2"]);
    assert_eq!(of("matrix: { seed: { range: [0, \"${{ params.n }}\"] } }"), ["seed=0", "seed=1", "seed=2"]);
    assert_eq!(of("matrix: { value: { range: [1, 0, -0.25] } }"), ["value=1", "value=0.75", "value=0.5", "value=0.25"]);
    assert_eq!(of("matrix: { value: { range: [0, 0.3, 0.1] } }"), ["value=0", "value=0.1", "value=0.2"]);
    assert_eq!(
        of("matrix: { value: { linspace: [0, 1, 5] } }"),
        ["value=0", "value=0.25", "value=0.5", "value=0.75", "value=1"]
    );
    assert_eq!(
        of("matrix: { value: { logspace: [1e-4, 1e-1, 4] } }"),
        ["value=0.0001", "value=0.001", "value=0.01", "value=0.1"]
    );
    assert_eq!(of("seeds: 2"), ["seed=0", "seed=1"]);
    assert_eq!(of("matrix: { value: [7] }\n    seeds: 2"), ["value=7,seed=0", "value=7,seed=1"]);
}

#[test]
fn zipped_axes_go_together() {
    let zipped = of("matrix: { zip: { value: [1, 2], steps: [3, 4] }, seed: [0, 1] }");
    assert_eq!(
        zipped,
        ["value=1,steps=3,seed=0", "value=1,steps=3,seed=1", "value=2,steps=4,seed=0", "value=2,steps=4,seed=1"]
    );
}

#[test]
fn draws_are_the_same_every_time_and_for_every_n() {
    let axes = "axes: { value: { log_uniform: [1e-4, 1e-2] }, steps: { choice: [1, 2, 3] } }";
    let few = of(&format!("matrix: {{ random: {{ n: 3, {axes} }} }}"));
    let many = of(&format!("matrix: {{ random: {{ n: 40, {axes} }} }}"));
    assert_eq!(few, many[..3]);
    assert_ne!(few, of(&format!("matrix: {{ random: {{ n: 3, seed: 1, {axes} }} }}")));
    for choice in ["steps=1", "steps=2", "steps=3"] {
        assert!(many.iter().any(|point| point.ends_with(choice)), "{many:?}");
    }
    for point in many {
        let value: f64 = point.split(['=', ',']).nth(1).unwrap().parse().unwrap();
        assert!((1e-4..=1e-2).contains(&value), "{point}");
    }
    insta::assert_snapshot!(few.join("\n"));
}

#[test]
fn ablation_designs() {
    let design = |design: &str, factors: &str| {
        let baseline = "baseline: { value: 0, steps: 1, seed: 0 }";
        of(&format!("ablate: {{ design: {design}, {baseline}, factors: {{ {factors} }} }}"))
    };
    let two_levels = "value: 1, steps: 2, seed: 3";
    assert_eq!(
        design("add-one", "value: [1, 2], steps: 2, seed: [0, 3]"),
        [
            "value=0,steps=1,seed=0",
            "value=1,steps=1,seed=0",
            "value=2,steps=1,seed=0",
            "value=0,steps=2,seed=0",
            "value=0,steps=1,seed=3"
        ]
    );
    assert_eq!(
        design("leave-one-out", two_levels),
        [
            "value=0,steps=1,seed=0",
            "value=1,steps=2,seed=3",
            "value=0,steps=2,seed=3",
            "value=1,steps=1,seed=3",
            "value=1,steps=2,seed=0"
        ]
    );
    let all = design("factorial", two_levels);
    assert_eq!(all.len(), 8);
    let half = design("fractional", two_levels);
    assert_eq!(
        half,
        ["value=0,steps=1,seed=0", "value=1,steps=2,seed=0", "value=1,steps=1,seed=3", "value=0,steps=2,seed=3"]
    );
    // Every pair of levels of two factors occurs equally often: main effects stay apart.
    for pair in ["value=0,steps=1", "value=0,steps=2", "value=1,steps=1", "value=1,steps=2"] {
        assert_eq!(half.iter().filter(|point| point.starts_with(pair)).count(), 1, "{pair}");
    }
}

#[test]
fn what_include_adds_is_multiplied_by_seeds_and_ablations() {
    let alone = "include: [{ value: 1 }, { value: 2 }, { value: 3, steps: 4 }]";
    let six = [
        "value=1,seed=0",
        "value=1,seed=1",
        "value=2,seed=0",
        "value=2,seed=1",
        "value=3,steps=4,seed=0",
        "value=3,steps=4,seed=1",
    ];
    assert_eq!(of(&format!("matrix: {{ {alone} }}")), ["value=1", "value=2", "value=3,steps=4"]);
    assert_eq!(of(&format!("matrix: {{ {alone} }}\n    seeds: 2")), six);
    assert_eq!(of(&format!("matrix: {{ {alone}, seed: [0, 1] }}")), six, "however seeds are given");
    assert_eq!(
        of("matrix: { include: [{ value: 1 }, { value: 2, seed: 7 }] }\n    seeds: 2"),
        ["value=1,seed=0", "value=1,seed=1", "value=2,seed=7"]
    );
    assert_eq!(
        of("matrix: { include: [{ seed: 1, value: 5 }] }\n    seeds: 2"),
        ["seed=0", "seed=1,value=5"],
        "what is about a seed gives it further values"
    );
    // A point beside those of an axis, and further values for one of them.
    assert_eq!(
        of(
            "matrix: { value: [1], include: [{ value: 2 }, { value: 1, steps: 9 }, { value: 3, steps: 4 }] }\n    seeds: 2"
        ),
        [
            "value=1,seed=0,steps=9",
            "value=1,seed=1,steps=9",
            "value=2,seed=0",
            "value=2,seed=1",
            "value=3,seed=0,steps=4",
            "value=3,seed=1,steps=4"
        ]
    );
    assert_eq!(
        of("matrix: { zip: { value: [1], variant: [5] }, include: [{ value: 2, variant: 6 }] }\n    seeds: 2"),
        [
            "value=1,variant=5,seed=0",
            "value=1,variant=5,seed=1",
            "value=2,variant=6,seed=0",
            "value=2,variant=6,seed=1"
        ]
    );
    let ablated = "ablate: { design: add-one, baseline: { value: 0, steps: 1 }, factors: { value: 1, steps: 2 } }";
    assert_eq!(
        of(&format!("matrix: {{ include: [{{ variant: 3 }}, {{ variant: 4, value: 1 }}] }}\n    {ablated}")),
        [
            "variant=3,value=0,steps=1",
            "variant=3,value=1,steps=1",
            "variant=3,value=0,steps=2",
            "variant=4,value=1,steps=1"
        ]
    );
}

#[test]
fn what_include_adds_is_multiplied_by_an_axis_from_outside() {
    let sandbox =
        Sandbox::with("steps: { a: { uses: mock, matrix: { include: [{ value: 1 }, { value: 2 }] }, seeds: 3 } }");
    let jobs = |axes: &[&str]| -> Vec<String> {
        let plan = sandbox.sweep(&[&["plan", "recipe.yaml", "--list"], axes].concat());
        assert_eq!(plan.code, Some(0), "{}", plan.stderr);
        let jobs = plan.stdout.lines().filter_map(|line| line.split_whitespace().next()?.strip_prefix("a/"));
        jobs.map(str::to_owned).collect()
    };
    assert_eq!(jobs(&["--axis", "seed=4"]), ["value=1,seed=4", "value=2,seed=4"]);
    assert_eq!(
        jobs(&["--axis", "seed=4", "--axis", "a.steps=5,6"]),
        ["value=1,seed=4,steps=5", "value=1,seed=4,steps=6", "value=2,seed=4,steps=5", "value=2,seed=4,steps=6"]
    );
}

#[test]
fn an_entry_of_include_without_effect_is_a_mistake() {
    let refused = |include: &str| {
        let sandbox = Sandbox::with(&format!(
            "steps: {{ a: {{ uses: mock, matrix: {{ variant: [1, 2], include: {include} }} }} }}"
        ));
        let plan = sandbox.sweep(&["plan", "recipe.yaml"]);
        (plan.code == Some(3)).then_some(plan.stderr)
    };
    assert_message!(refused("[{ value: 1 }, { value: 2 }]").unwrap());
    assert_eq!(refused("[{ value: 1 }, { variant: 2, value: 2 }]"), None, "one point keeps the first one's value");
    assert_message!(refused("[{ variant: 1 }]").unwrap());
    assert!(refused("[{ variant: 3 }]").is_none());
}

#[test]
fn conditions_keep_points() {
    assert_eq!(
        of(
            "matrix: { value: [1, 2, 3], end: [done, fail] }\n    if: matrix.value < params.n && !(matrix.end == 'fail' && matrix.value == 2)"
        ),
        ["value=1,end=done", "value=1,end=fail", "value=2,end=done"]
    );
}

#[test]
fn axes_of_another_step() {
    let steps = "
steps:
  b: { uses: mock, matrix: { value: [1, 2, 3], seed: [0, 1] }, if: matrix.value != 2 }
  a: { uses: mock, needs: b, matrix: { value: '${{ needs.b.axes.value }}', end: [done] } }
";
    assert_eq!(points(steps), ["value=1,end=done", "value=3,end=done"]);
}

#[test]
fn needs_can_select() {
    let recipe = |needs: &str| {
        format!(
            "steps:\n  b: {{ uses: mock, matrix: {{ end: [done, fail], seed: [0, 1] }} }}\n  a: {{ uses: mock, needs: {needs}, matrix: {{ seed: [0, 1] }} }}\n"
        )
    };
    let sandbox = Sandbox::with(&recipe("[b]"));
    sandbox.sweep(&["run", "recipe.yaml"]);
    assert_eq!(sandbox.tally(), [("done", 2), ("failed", 2), ("skipped", 2)]);
    sandbox.write("recipe.yaml", &recipe("[{ step: b, where: { end: done } }]"));
    sandbox.sweep(&["run", "recipe.yaml"]);
    assert_eq!(sandbox.tally(), [("cached", 2), ("done", 2), ("failed", 2)]);
}

/// `n` jobs that need `n` others, all of them.
fn all_to_all(n: usize) -> Sandbox {
    Sandbox::with(&format!(
        "
name: all
steps:
  a: {{ uses: mock, matrix: {{ value: {{ range: [0, {n}] }} }} }}
  b: {{ uses: mock, needs: a, matrix: {{ seed: {{ range: [0, {n}] }} }}, with: {{ value: -1 }} }}
"
    ))
}

#[test]
fn what_many_jobs_need_is_written_once() {
    let size = |n: usize, format: &str| {
        let ended = all_to_all(n).sweep(&["plan", "recipe.yaml", "--format", format]);
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        ended.stdout.len()
    };
    for format in ["json", "dot", "mermaid"] {
        let (small, large) = (size(50, format), size(400, format));
        assert!(large < 10 * small, "{format}: {small} bytes for 2 x 50 jobs, {large} for 2 x 400");
    }
    let plan = all_to_all(400).sweep(&["plan", "recipe.yaml", "--format", "json"]).stdout;
    let plan: serde_json::Value = serde_json::from_str(&plan).unwrap();
    assert_eq!((&plan["format"], plan["lists"][0].as_array().unwrap().len()), (&2.into(), 400));
    let of = |job: usize| (plan["jobs"][job]["needs"].to_string(), plan["jobs"][job]["lists"].to_string());
    assert_eq!([of(0), of(400), of(799)].map(|(_, lists)| lists), ["null", "[0]", "[0]"]);
    assert!([of(0), of(400), of(799)].iter().all(|(needs, _)| needs == "[]"));
}

#[test]
fn what_many_jobs_need_is_waited_for_and_shown() {
    let sandbox = all_to_all(12);
    sandbox.write("results/plan.json", &sandbox.sweep(&["plan", "recipe.yaml", "--format", "json"]).stdout);
    let ended = sandbox.sweep(&["run", "--plan", "results/plan.json"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let events = sandbox.events();
    let place = |label: &str, kind: &str| events.iter().position(|(job, event)| job == label && event == kind).unwrap();
    let last = (0..12).map(|value| place(&format!("a/value={value}"), "done")).max().unwrap();
    assert!((0..12).all(|seed| place(&format!("b/seed={seed}"), "started") > last), "all of them first: {events:?}");
    let records = sandbox.records();
    assert_eq!(records["b/seed=3"]["identity"]["needs"].as_array().unwrap().len(), 12);
    assert_eq!(sandbox.sweep(&["cache", "verify"]).code, Some(0), "the keys are those of the identities");
    let run = &sandbox.runs()[0];
    let plan: serde_json::Value =
        serde_json::from_str(&sandbox.read(&format!("results/runs/{run}/plan.json"))).unwrap();
    assert_eq!((plan["lists"].as_array().unwrap().len(), &plan["jobs"][15]["lists"][0]), (1, &0.into()));
    // One that fails takes all that need it with it, and the others of its list nothing.
    sandbox.write(
        "recipe.yaml",
        &sandbox
            .read("recipe.yaml")
            .replace("uses: mock, matrix: { value", "uses: mock, with: { seed: 1, end: fail }, matrix: { value"),
    );
    let ended = sandbox.sweep(&["run", "recipe.yaml"]);
    assert_eq!(ended.code, Some(5), "{}", ended.stderr);
    assert_eq!(sandbox.tally(), [("failed", 12), ("skipped", 12)]);
    assert!(sandbox.skipped().values().all(|because| because.starts_with("a/value=")), "{:?}", sandbox.skipped());
}

#[test]
fn lists_with_jobs_in_common_are_one_need() {
    let sandbox = Sandbox::with(
        "
name: common
steps:
  a: { uses: mock, matrix: { value: { range: [0, 4] } } }
  more: { uses: mock, matrix: { value: { range: [2, 6] } } }
  b: { uses: mock, needs: [a, more], matrix: { seed: { range: [0, 3] } }, with: { value: -1 } }
",
    );
    let plan = sandbox.sweep(&["plan", "recipe.yaml", "--format", "json"]).stdout;
    let plan: serde_json::Value = serde_json::from_str(&plan).unwrap();
    let list = |list: &serde_json::Value| plan["lists"][usize::try_from(list.as_u64().unwrap()).unwrap()].clone();
    for job in &plan["jobs"].as_array().unwrap()[6..] {
        let mut needs = job["needs"].as_array().unwrap().clone();
        needs.extend(job["lists"].as_array().unwrap().iter().flat_map(|index| list(index).as_array().unwrap().clone()));
        let different: std::collections::BTreeSet<String> = needs.iter().map(ToString::to_string).collect();
        assert_eq!((needs.len(), different.len()), (6, 6), "{job}");
    }
    assert_eq!(sandbox.sweep(&["run", "recipe.yaml"]).code, Some(0));
    assert_eq!(sandbox.sweep(&["cache", "verify"]).code, Some(0));
}

/// What a plan says about a recipe: its exit code and its standard error.
fn said(recipe: &str) -> (Option<i32>, String) {
    let ended = Sandbox::with(recipe).sweep(&["plan", "recipe.yaml"]);
    (ended.code, ended.stderr)
}

#[test]
fn a_point_without_an_axis_runs_without_the_values_of_that_axis() {
    let matrix = "matrix: { lr: [0.1, 0.2, 0.3], include: [{ lr: 0.2, warmup: 10 }] }";
    // An entry that matches a point of the product extends it: three points, each with two seeds.
    for with in [
        "with: { run: 'true', params: { lr: '${{ matrix.lr }}', w: '${{ matrix.warmup }}' } }",
        "with: { run: 'true', env: { LR: '${{ matrix.lr }}', W: '${{ matrix.warmup }}' } }",
        "with: { argv: [echo, '${{ flags }}'], params: { o: { lr: '${{ matrix.lr }}', w: '${{ matrix.warmup }}' } } }",
    ] {
        let recipe = format!("steps: {{ a: {{ uses: command, {matrix}, seeds: 2, {with} }} }}");
        let sandbox = Sandbox::with(&recipe);
        assert_eq!(sandbox.plan_tally(&["recipe.yaml"]), (0, 6), "{with}");
    }
    let recipe = "
steps:
  a:
    uses: command
    matrix: { model: [cnn, vit], include: [{ model: cnn, kernel: 3 }, { model: vit, patch: 16 }] }
    with:
      argv: [sh, -c, 'cat \"$SWEEP_PARAMS\"; echo \" $* $K\"', sh, '${{ flags }}']
      params: { model: '${{ matrix.model }}', kernel: '${{ matrix.kernel }}', patch: '${{ matrix.patch }}' }
      env: { K: '${{ matrix.kernel }}' }
  b:
    uses: mock
    matrix: { value: [1, 2], include: [{ value: 2, n: 7 }] }
    with: { steps: '${{ matrix.n }}' }
tables:
  all: { from: b, rows: [value, n], cells: [value] }
  kernels: { from: a, rows: [model, kernel], cells: [time.run] }
claims:
  without-the-axis: { value: { metric: value, of: { step: b, value: 1 } }, expect: { less_than: 3 } }
";
    let sandbox = Sandbox::with(recipe);
    let ended = sandbox.sweep(&["run", "recipe.yaml"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let records = sandbox.records();
    let params = |label: &str| records[label]["params"].clone();
    assert_eq!(params("a/model=cnn,kernel=3")["params"], serde_json::json!({ "model": "cnn", "kernel": 3 }));
    assert_eq!(params("a/model=vit,patch=16")["params"], serde_json::json!({ "model": "vit", "patch": 16 }));
    assert_eq!(params("a/model=vit,patch=16")["env"], serde_json::json!({}));
    assert_eq!(
        records.keys().filter(|label| label.starts_with("b/")).collect::<Vec<_>>(),
        ["b/value=1", "b/value=2,n=7"]
    );
    let log = sandbox.sweep(&["logs", "a/model=vit,patch=16"]);
    assert_eq!(log.stdout.trim_end(), "{\"model\":\"vit\",\"patch\":16} --model vit --patch 16");
    for (row, other) in [("1", "–"), ("2", "7")] {
        let has = |line: &str| line.split_whitespace().take(2).eq([row, other]);
        assert!(ended.stdout.lines().any(has), "{row}: {}", ended.stdout);
    }
}

#[test]
fn an_expression_in_a_text_or_a_list_needs_its_axis_at_every_point() {
    for with in [
        "run: 'echo ${{ matrix.warmup }}'",
        "argv: [echo, --w, '${{ matrix.warmup }}']",
        "argv: [echo, '--w=${{ matrix.warmup }}']",
        "run: 'true', env: { W: 'w${{ matrix.warmup }}' }",
        "run: 'true', params: { layers: [1, '${{ matrix.warmup }}'] }",
        "run: 'true', params: { o: { w: 'w${{ matrix.warmup }}' } }",
    ] {
        let matrix = "matrix: { lr: [0.1, 0.2], include: [{ lr: 0.2, warmup: 10 }] }";
        let (code, stderr) = said(&format!(
            "steps:\n  a:\n    uses: command\n    {matrix}\n    with: {{ {with} }}\n    if: matrix.lr != 0\n"
        ));
        assert_eq!(code, Some(3), "{with}: {stderr}");
        assert_eq!(stderr.matches("  × ").count(), 1, "{stderr}");
        assert!(stderr.contains("`a/lr=0.1` has no axis `warmup`"), "{stderr}");
        assert!(stderr.contains("recipe.yaml:5:"), "{stderr}");
    }
}

#[test]
fn a_job_that_takes_a_result_of_a_step_without_jobs_is_left_out_with_a_warning() {
    let recipe = "
params: { deep: false }
steps:
  train: { uses: mock, if: params.deep }
  other: { uses: mock }
  eval: { uses: mock, needs: train, with: { value: '${{ needs.train.metrics.value }}' } }
";
    let (code, stderr) = said(recipe);
    assert_eq!(code, Some(0), "{stderr}");
    assert!(stderr.contains("`eval` is left out: it uses a result of `train`, which has no job for it"), "{stderr}");
}

#[test]
fn a_range_is_decimal_and_never_has_its_end() {
    let range = |range: &str| of(&format!("matrix: {{ value: {{ range: {range} }} }}")).join(" ").replace("value=", "");
    assert_eq!(range("[0.1, 0.4, 0.1]"), "0.1 0.2 0.3");
    assert_eq!(range("[1, 1.3, 0.1]"), "1 1.1 1.2");
    assert_eq!(range("[0, 1, 0.1]"), "0 0.1 0.2 0.3 0.4 0.5 0.6 0.7 0.8 0.9");
    assert_eq!(range("[0.4, 0.1, -0.1]"), "0.4 0.3 0.2");
    assert_eq!(range("[-0.3, 0.3, 0.15]"), "-0.3 -0.15 0 0.15");
    assert_eq!(range("[1e-5, 4e-5, 1e-5]"), "1e-5 2e-5 3e-5");
    assert_eq!(range("[0.25, 0.3, 0.1]"), "0.25");
    assert_eq!(range("[9007199254740993, 9007199254740995]"), "9007199254740993 9007199254740994");
}

#[test]
fn numbers_that_make_no_axis_have_one_clear_message() {
    for (axis, message) in [
        ("{ range: [0, 1, 0] }", "the step of this range is 0"),
        ("{ range: [0, 1, 0.0] }", "the step of this range is 0"),
        ("{ range: [5, 1] }", "the range from 5 to 1 in steps of 1 has no values"),
        ("{ range: [1, 1] }", "the range from 1 to 1 in steps of 1 has no values"),
        ("{ linspace: [1, 1, 3] }", "`linspace` goes from 1 to 1, so that all of its 3 values are equal"),
        ("{ logspace: [2.0, 2, 4] }", "`logspace` goes from 2 to 2, so that all of its 4 values are equal"),
    ] {
        let (code, stderr) = said(&format!("steps: {{ a: {{ uses: mock, matrix: {{ value: {axis} }} }} }}"));
        assert_eq!((code, stderr.matches("  × ").count()), (Some(3), 1), "{stderr}");
        assert!(stderr.contains(message), "{axis}: {stderr}");
    }
    for (draw, message) in [
        ("{ uniform: [5, 1] }", "`uniform` goes from 5 to 1"),
        ("{ log_uniform: [1e-2, 1e-4] }", "`log_uniform` goes from 0.01 to 0.0001"),
    ] {
        let matrix = format!("matrix: {{ random: {{ n: 3, axes: {{ value: {draw} }} }} }}");
        let (code, stderr) = said(&format!("steps: {{ a: {{ uses: mock, {matrix} }} }}"));
        assert_eq!((code, stderr.matches("  × ").count()), (Some(3), 1), "{stderr}");
        assert!(stderr.contains(message), "{draw}: {stderr}");
    }
}

#[test]
fn draws_that_repeat_run_once_and_are_counted() {
    let matrix = "matrix: { random: { n: 20, axes: { value: { choice: [1, 2, 3] } } } }";
    let sandbox = Sandbox::with(&format!(
        "steps:\n  a:\n    uses: mock\n    {matrix}\ntables: {{ t: {{ from: a, rows: [value], cells: [value] }} }}\n"
    ));
    let ended = sandbox.sweep(&["run", "recipe.yaml"]);
    assert_eq!((ended.code, sandbox.records().len()), (Some(0), 3), "{}", ended.stderr);
    assert!(
        ended.stderr.contains("`random` draws 20 points, of which 3 are distinct; each distinct point runs once"),
        "{}",
        ended.stderr
    );
    let plan = sandbox.sweep(&["plan", "recipe.yaml", "--list"]);
    assert_eq!(plan.stdout.lines().filter(|line| line.trim_start().starts_with("a/")).count(), 3, "{}", plan.stdout);
    assert!(plan.stderr.contains("of which 3 are distinct"), "{}", plan.stderr);
}

#[test]
fn a_figure_or_a_table_by_an_axis_that_points_lack_says_so() {
    let recipe = "
steps:
  a: { uses: mock, matrix: { value: [1, 2, 3], include: [{ value: 2, steps: 7 }, { value: 3, steps: 8 }] } }
figures:
  f: { from: a, kind: line, x: steps, y: value }
tables:
  t: { from: a, compare: { axis: steps, baseline: 7 }, cells: [value] }
";
    let (code, stderr) = said(recipe);
    assert_eq!(code, Some(0), "{stderr}");
    for shown in ["figure `f`", "table `t`"] {
        assert!(
            stderr.contains(&format!("{shown} leaves out 1 of 3 points of `a`, which have no axis `steps`")),
            "{stderr}"
        );
    }
}
