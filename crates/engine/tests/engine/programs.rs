//! Programs that speak the contract: parameters, reports and curves, and their places in records.

use std::path::Path;

use serde_json::{Value, json};

use crate::{
    projects::has_views,
    sandbox::{Ended, Sandbox, list, until},
};

/// A recipe with one step, whose `with` this is.
fn step(with: &str) -> String {
    let with = with.replace('\n', "\n      ");
    format!("name: study\nsteps:\n  job:\n    uses: command\n    with:\n      {with}\n    resources: {{ cpus: 1 }}\n")
}

/// A step with a Python program; `more` are other keys of `with`.
fn python(program: &str, more: &str) -> Sandbox {
    let sandbox = Sandbox::with(&step(&format!("argv: [python3, program.py]\ninputs: [program.py]\n{more}")));
    let helper = "import json, os, sys, time\n\
                  def say(**values):\n    report.write(json.dumps(values) + '\\n'); report.flush()\n\
                  report = open(os.environ['SWEEP_REPORT'], 'a')\n";
    sandbox.write("program.py", &format!("{helper}{program}"));
    sandbox
}

fn run(sandbox: &Sandbox) -> Ended {
    let ended = sandbox.sweep(&["run", "recipe.yaml"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    ended
}

fn record(sandbox: &Sandbox) -> Value {
    run(sandbox);
    sandbox.records().remove("job").unwrap()
}

fn metric(record: &Value, name: &str) -> Option<f64> {
    record["outcome"]["metrics"][name]["value"].as_f64()
}

/// Steps and values of a curve.
fn curve(record: &Value, name: &str) -> (Vec<u64>, Vec<f64>) {
    let curve = &record["outcome"]["curves"][name];
    let list = |key: &str| curve[key].as_array().cloned().unwrap_or_default();
    let at = list("at").iter().map(|at| at.as_u64().unwrap()).collect();
    (at, list("values").iter().map(|value| value.as_f64().unwrap()).collect())
}

/// The notices of the latest runs.
fn notes(sandbox: &Sandbox) -> Vec<String> {
    let text = |line: &Value| line["event"]["note"]["text"].as_str().unwrap().to_owned();
    sandbox.journal("note").iter().map(text).collect()
}

#[test]
fn params_reach_the_program_typed_and_as_flags() {
    let sandbox = Sandbox::with(&step(
        r#"argv: [sh, -c, 'cat "$SWEEP_PARAMS"; echo; printf "<%s>\n" "$@"', name, "${{ flags }}", last]
params: { lr: 1e-3, net: { depth: 4.0, name: a b }, tags: [x, 2, { y: null }], amp: true, slow: false, none: null }
booleans: no-flag"#,
    ));
    let record = record(&sandbox);
    let log = fs_err::read_to_string(list(&list(&sandbox.path("results/runs"))[0].join("logs")).remove(0)).unwrap();
    let (params, flags) = log.split_once('\n').unwrap();
    let expected = |depth: Value| {
        json!({
            "lr": 0.001, "net": { "depth": depth, "name": "a b" }, "tags": ["x", 2, { "y": null }], "amp": true,
            "slow": false, "none": null,
        })
    };
    assert_eq!(serde_json::from_str::<Value>(params).unwrap(), expected(json!(4.0)));
    let flags: Vec<&str> = flags.lines().map(|flag| flag.trim_matches(['<', '>'])).collect();
    let expected_flags = [
        "--amp",
        "--lr",
        "0.001",
        "--net.depth",
        "4.0",
        "--net.name",
        "a b",
        "--no-slow",
        "--tags",
        "x",
        "2",
        "{\"y\":null}",
        "last",
    ];
    assert_eq!(flags, expected_flags);
    assert_eq!(record["identity"]["params"]["params"], expected(json!(4)), "a key has one spelling");
    assert_eq!(record["identity"]["params"]["argv"][4], "${{ flags }}", "the key has the values once");
}

#[test]
fn equal_params_have_one_key_and_others_another() {
    let key = |params: &str| {
        let sandbox = Sandbox::with(&step(&format!("argv: [echo, \"${{{{ flags }}}}\"]\nparams: {params}")));
        let plan = sandbox.sweep(&["plan", "recipe.yaml", "--format", "json"]);
        assert_eq!(plan.code, Some(0), "{}", plan.stderr);
        serde_json::from_str::<Value>(&plan.stdout).unwrap()["jobs"][0]["key"].as_str().unwrap().to_owned()
    };
    let one = key("{ lr: 1e-3, n: { a: 2, b: [1.0] } }");
    assert_eq!(one, key("{ n: { b: [1], a: 2.0 }, lr: 0.001 }"), "order and spelling");
    for other in ["{ lr: 1e-3, n: { a: 2, b: [2] } }", "{ lr: 1e-3, n: { a: '2', b: [1] } }", "{ lr: 1e-3 }"] {
        assert_ne!(one, key(other), "{other}");
    }
}

#[test]
fn params_take_axes_and_results_of_needed_jobs() {
    let sandbox = Sandbox::with(
        r#"
name: study
steps:
  tune: { uses: command, with: { run: echo best=0.25 } }
  job:
    uses: command
    needs: [tune]
    matrix: { depth: [2, 4] }
    with:
      argv: [sh, -c, 'echo "sum=$2$4"', name, "${{ flags }}"]
      params: { a: "${{ matrix.depth }}", net: { lr: "${{ needs.tune.metrics.best }}" } }
"#,
    );
    run(&sandbox);
    let records = sandbox.records();
    let sum = |label: &str| metric(&records[label], "sum");
    assert_eq!((sum("job/depth=2"), sum("job/depth=4")), (Some(20.25), Some(40.25)));
    assert_eq!(records["job/depth=2"]["params"]["params"], json!({ "a": 2, "net": { "lr": 0.25 } }));
}

#[test]
fn explain_shows_the_arguments() {
    let sandbox = Sandbox::with(&step("argv: [echo, \"${{ flags }}\"]\nparams: { lr: 1e-3, name: a b }"));
    let ended = sandbox.sweep(&["explain", "recipe.yaml", "job"]);
    assert!(ended.stdout.contains("it runs echo --lr 0.001 --name 'a b'\n"), "{}{}", ended.stdout, ended.stderr);
}

#[test]
fn a_report_has_curves_final_values_and_units() {
    let sandbox = python(
        "for step in range(1, 6):
    say(step=step * 10, total=50, loss=1 / step, step_ms=12.5, eval={'loss': step, 'time': {'value': 3, 'unit': 'ms'}})
say(step=60, loss=0.1, tokens_per_s=1000, peak_mib=2)
say(val_loss=0.5, loss=7, size={'value': 1, 'unit': 'KiB'})
",
        "metrics: { eval.loss: max, step_ms: mean, tokens_per_s: first }",
    );
    let record = record(&sandbox);
    assert_eq!(curve(&record, "loss"), (vec![10, 20, 30, 40, 50, 60], vec![1.0, 0.5, 1.0 / 3.0, 0.25, 0.2, 0.1]));
    let metrics = record["outcome"]["metrics"].as_object().unwrap();
    let shown = |name: &str| format!("{} {}", metrics[name]["value"], metrics[name]["unit"].as_str().unwrap());
    let names =
        ["eval.loss", "eval.loss.step", "eval.time", "loss", "peak_mib", "size", "step_ms", "tokens_per_s", "val_loss"];
    let expected =
        ["5.0 1", "50.0 count", "3.0 ms", "7.0 1", "2.0 MiB", "1.0 KiB", "12.5 ms", "1000.0 tokens/s", "0.5 1"];
    assert_eq!(names.map(shown), expected);
    assert_eq!(record["outcome"]["curves"]["step_ms"]["unit"], "ms");
    assert!(record["outcome"]["curves"].get("val_loss").is_none() && !metrics.contains_key("step"));
    assert_eq!(notes(&sandbox), Vec::<String>::new());
}

#[test]
fn a_series_becomes_the_metric_that_the_recipe_asks_for() {
    for (how, expected, step) in [
        ("last", 3.0, None),
        ("min", 1.0, Some(2.0)),
        ("max", 4.0, Some(1.0)),
        ("mean", 8.0 / 3.0, None),
        ("first", 4.0, None),
    ] {
        let sandbox = python(
            "for step, loss in [(1, 4), (2, 1), (3, 3)]: say(step=step, loss=loss)\n",
            &format!("metrics: {{ loss: {how} }}"),
        );
        let record = record(&sandbox);
        assert_eq!((metric(&record, "loss"), metric(&record, "loss.step")), (Some(expected), step), "{how}");
    }
    let sandbox = python("say(step=1, loss=1)\n", "metrics: { val_loss: min }");
    let record = record(&sandbox);
    assert_eq!((metric(&record, "loss"), metric(&record, "val_loss")), (Some(1.0), None));
    assert_eq!(notes(&sandbox), ["`metrics` names `val_loss`, but the program has not reported it"]);
}

#[test]
fn hostile_reports_are_read_as_far_as_they_mean_something() {
    let sandbox = python(
        r#"
raw = open(os.environ['SWEEP_REPORT'], 'ab', buffering=0)
say(step=1, loss=5.0)
raw.write(b'\xff\xfe\x00 not JSON\n[1, 2]\n{"step": -1, "loss": 9}\n{"step": 2.5, "loss": 9}\n')
raw.write(b'{"step": 2, "loss": NaN, "bad": -Infinity, "text": "x", "flag": true, "none": null, "list": [1]}\n')
raw.write(b'{"step": 3, "loss": "x"}\n' + b'{"deep":' * 5000 + b'\n')
for part in range(100):
    raw.write(b'x' * (1 << 20))
raw.write(b'\n')
say(step=4, loss=4.0, note='\x1b[31mred\x1b[0m')
say(step=5, loss=100.0, rank=1)
say(**{'\x1b[2J': 1, 'x' * 1000: 1, '': 1, 'ok name': 2})
say(step=6, wide={'value': 1, 'unit': 'furlong'})
for index in range(1000):
    say(step=7, **{'name%d' % index: 1})
raw.write(b'{"step": 8, "loss": 3.0}\n{"step": 9, "lo')
time.sleep(0.3)
raw.write(b'ss": 2.5}\n{"step": 10, "loss": 2.0}')
"#,
        "",
    );
    let ended = run(&sandbox);
    assert!(!ended.stderr.contains('\u{1b}'), "no control characters: {:?}", ended.stderr);
    let record = sandbox.records().remove("job").unwrap();
    assert_eq!(curve(&record, "loss"), (vec![1, 4, 8, 9, 10], vec![5.0, 4.0, 3.0, 2.5, 2.0]));
    assert_eq!(
        (metric(&record, "loss"), metric(&record, "bad"), metric(&record, "ok name")),
        (Some(2.0), None, Some(2.0))
    );
    assert_eq!(
        record["outcome"]["curves"].as_object().unwrap().len(),
        199,
        "200 series with `bad`, which has no point"
    );
    assert!(metric(&record, "wide").is_some());
    let notes = notes(&sandbox);
    for expected in [
        "not a JSON object",
        "`step` is -1, which is not an integer from 0: line skipped",
        "`bad` is -inf at step 2",
        "`flag` is a boolean",
        "`list` is a list",
        "`none` is null",
        "`text` is a text",
        "a line of the report is longer than 1 MiB: skipped",
        "\\u{1b}[31mred",
        "is not a name of a series",
        "`wide` has the unknown unit `furlong`",
        "at most 200",
    ] {
        assert_eq!(notes.iter().filter(|note| note.contains(expected)).count(), 1, "{expected}: {notes:?}");
    }
}

#[test]
fn a_torn_last_line_says_nothing() {
    let sandbox = python("say(step=1, loss=2)\nreport.write('{\"step\": 2, \"lo'); report.flush()\n", "");
    assert_eq!(curve(&record(&sandbox), "loss"), (vec![1], vec![2.0]));
    assert_eq!(notes(&sandbox), Vec::<String>::new());
}

#[test]
fn a_million_lines_are_a_bounded_curve_with_its_extremes() {
    let sandbox = python(
        "
part = []
for step in range(1000000):
    value = {777777: -50, 123456: 99}.get(step, (step * 7919) % 1000 / 1000)
    part.append('{\"step\":%d,\"loss\":%r}\\n' % (step, value))
report.write(''.join(part))
",
        "metrics: { loss: min }",
    );
    let record = record(&sandbox);
    let (at, values) = curve(&record, "loss");
    assert!((1000..=4000).contains(&at.len()), "{}", at.len());
    assert_eq!((at[0], *at.last().unwrap()), (0, 999_999));
    let value = |step: u64| at.iter().position(|at| *at == step).map(|index| values[index]);
    assert_eq!((value(777_777), value(123_456)), (Some(-50.0), Some(99.0)));
    assert_eq!((metric(&record, "loss"), metric(&record, "loss.step")), (Some(-50.0), Some(777_777.0)));
}

#[test]
fn two_writers_and_a_file_that_shrinks() {
    let sandbox = python(
        r"
if os.fork() == 0:
    for step in range(1, 501):
        os.write(report.fileno(), b'{\x22step\x22: %d, \x22loss\x22: 1}\n' % step)
    os._exit(0)
for step in range(1, 501):
    os.write(report.fileno(), b'{\x22step\x22: %d, \x22other\x22: 2}\n' % step)
os.wait()
time.sleep(0.4)
os.truncate(os.environ['SWEEP_REPORT'], 0)
say(step=400, loss=7, other=2)
time.sleep(0.4)
",
        "",
    );
    let record = record(&sandbox);
    let (at, values) = curve(&record, "loss");
    assert_eq!((at, values), (vec![400], vec![7.0]), "the file counts as it is at the end");
    assert_eq!(curve(&record, "other").0.len(), 1);
    assert!(notes(&sandbox)[0].contains("was rewritten, and 998 of its earlier values"), "{:?}", notes(&sandbox));
}

#[test]
fn a_diverged_series_has_no_last_value() {
    let sandbox = python("say(step=1, loss=1.0)\nsay(step=2, loss=float('nan'))\nsay(final=float('inf'))\n", "");
    let record = record(&sandbox);
    assert_eq!((metric(&record, "loss"), metric(&record, "final")), (None, None));
    assert_eq!(curve(&record, "loss"), (vec![1], vec![1.0]));
    assert_eq!(
        notes(&sandbox),
        ["`loss` is NaN at step 2, which is not a number: no point", "`final` is inf, which is not a number: ignored"]
    );
}

#[test]
fn a_later_attempt_continues_the_curves() {
    // The program, and the worker.
    for killed in ["$$", "$PPID"] {
        let recipe = step(&format!(
            r#"run: |
  mark="$SWEEP_SCRATCH/begun"
  if [ ! -e "$mark" ]; then
    for step in 1 2 3 4 5 6; do echo '{{"step": '$step', "loss": '$step', "old": 1}}' >> "$SWEEP_REPORT"; done
    echo '{{"final": 1}}' >> "$SWEEP_REPORT"
    touch "$mark"
    kill -9 {killed}; sleep 1000
  fi
  test ! -s "$SWEEP_REPORT"
  for step in 5 6 7; do echo '{{"step": '$step', "loss": 0}}' >> "$SWEEP_REPORT"; done"#
        ));
        let sandbox = Sandbox::with(&recipe.replace("    resources", "    retries: 1\n    resources"));
        let record = record(&sandbox);
        assert_eq!(curve(&record, "loss"), (vec![1, 2, 3, 4, 5, 6, 7], vec![1.0, 2.0, 3.0, 4.0, 0.0, 0.0, 0.0]));
        assert_eq!(curve(&record, "old").0, [1, 2, 3, 4], "nothing is left of what came after the resume");
        assert_eq!(metric(&record, "final"), None, "a final value is that of its attempt");
        assert!(list(&sandbox.path("results/store/partial")).is_empty(), "the scratch folder is gone");
    }
}

#[test]
fn a_failed_attempt_leaves_its_curves_only_where_another_can_go_on() {
    let report = r#"echo '{"step": 1, "loss": 1}' >> "$SWEEP_REPORT"; "#;
    let own = format!(r#"{report}touch "$SWEEP_SCRATCH/own"; "#);
    for (run, left) in [
        ("", vec![]),
        (report, vec![".sweep/attempts.json"]),
        (own.as_str(), vec![".sweep/attempts.json", ".sweep/state.json", "own"]),
    ] {
        let sandbox = Sandbox::with(&step(&format!("run: |\n  {run}exit 3")));
        assert_eq!(sandbox.sweep(&["run", "recipe.yaml"]).code, Some(5));
        let mut found = Vec::new();
        for scratch in list(&sandbox.path("results/store/partial")) {
            for path in list(&scratch) {
                let inner = list(&path);
                let files = if inner.is_empty() { vec![path] } else { inner };
                found.extend(files.iter().map(|file| file.strip_prefix(&scratch).unwrap().display().to_string()));
            }
        }
        assert_eq!(found, left);
    }
}

#[test]
fn curves_of_programs_are_drawn_and_exported() {
    let sandbox = Sandbox::with(
        r#"
name: study
steps:
  job:
    uses: command
    matrix: { lr: [1, 2] }
    with:
      run: for i in 1 2 3; do echo '{"step":'$i',"train/loss":'$i.5'}' >> "$SWEEP_REPORT"; done; echo '{"train":1}' >> "$SWEEP_REPORT"
      env: { LR: "${{ matrix.lr }}" }
figures:
  curves: { from: job, kind: line, x: iteration, y: train/loss, color: lr }
"#,
    );
    run(&sandbox);
    let figure = sandbox.read("results/reports/study/figures/curves.svg");
    assert!(figure.contains("Train/loss") && figure.matches("<polyline").count() >= 2, "{figure}");
    let page = sandbox.read("results/reports/study/index.html");
    assert!(page.contains("train/loss"));
    for (kind, folder) in [("tensorboard", "events"), ("mlflow", "mlruns")] {
        let ended = sandbox.sweep(&["export", kind, folder, "recipe.yaml"]);
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    }
    let event = find(&sandbox.path("events"), &|path| path.to_string_lossy().contains("tfevents")).unwrap();
    let bytes = fs_err::read(event).unwrap();
    assert!(bytes.windows(10).any(|window| window == b"train/loss"));
    let mlflow = |end: &'static str| find(&sandbox.path("mlruns"), &|path| path.ends_with(end));
    assert!(
        mlflow("metrics/train").is_some() && mlflow("metrics/train_x002f_loss").is_some(),
        "one leads through the other"
    );
    let history = mlflow("metrics/curves/train/loss").unwrap();
    let history = fs_err::read_to_string(history).unwrap();
    let steps: Vec<&str> = history.lines().filter_map(|line| line.split(' ').nth(2)).collect();
    assert_eq!(steps, ["1", "2", "3"]);
}

/// A file below a folder.
fn find(folder: &Path, wanted: &dyn Fn(&Path) -> bool) -> Option<std::path::PathBuf> {
    list(folder).into_iter().find_map(
        |path| {
            if path.is_dir() { find(&path, wanted) } else { wanted(&path).then_some(path) }
        },
    )
}

#[test]
fn points_reach_other_processes_while_the_program_runs() {
    let sandbox = python(
        "step = 0
while not os.path.exists(os.environ['SWEEP_SCRATCH'] + '/go'):
    step += 1
    say(step=step, total=100000, loss=1 / step, best=2)
    time.sleep(0.05)
",
        "",
    );
    let engine = sandbox.start(&["run", "recipe.yaml"]);
    let newest = || sandbox.journal("progress").pop().map(|line| line["event"]["progress"]["progress"].clone());
    until("a point arrives", || newest().is_some());
    let first = newest().unwrap();
    assert_eq!(first["total"], 100_000);
    assert_eq!(first["series"][0]["name"], "loss");
    assert_eq!(first["series"][1], json!({ "name": "best", "step": first["done"], "value": 2.0, "unit": "1" }));
    until("a later one does", || newest().unwrap()["done"].as_u64() > first["done"].as_u64());
    let status = sandbox.sweep(&["status"]);
    assert!(status.stdout.contains("/100000") && status.stdout.contains("loss "), "{}", status.stdout);
    let scratch = find(&sandbox.path("results/store/partial"), &|path| path.ends_with("report.jsonl")).unwrap();
    fs_err::write(scratch.parent().unwrap().parent().unwrap().join("go"), "").unwrap();
    let ended = engine.wait();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
}

#[test]
fn telemetry_is_measured_for_programs() {
    let sandbox = python(
        "block = bytearray(64 << 20)
for index in range(0, len(block), 4096): block[index] = 1
end = time.process_time() + 1.5
while time.process_time() < end: pass
",
        "",
    );
    let record = record(&sandbox);
    assert!(metric(&record, "memory.peak").unwrap() > f64::from(64 << 20));
    let cores = std::thread::available_parallelism().unwrap().get() as f64;
    let used = metric(&record, "utilization.cpu").unwrap() * metric(&record, "time.run").unwrap() * cores;
    assert!((1.4..9.0).contains(&used), "{used} s of processor time");
}

#[test]
fn mistakes_have_their_place() {
    for (with, expected) in [
        ("argv: [echo, 'x ${{ flags }}']", "`${{ flags }}` cannot be used here"),
        ("run: echo ${{ flags }}", "`${{ flags }}` cannot be used here"),
        ("argv: [echo]\nenv: { A: '${{ flags }}' }", "`${{ flags }}` cannot be used here"),
        ("argv: [echo]\nparams: { A: '${{ flags }}' }", "`${{ flags }}` cannot be used here"),
        ("argv: [echo]\nflags: equals", "`flags` has no effect"),
        ("argv: ['${{ flags }}']\nparams: { a: 1 }", "is in the place of the program's name"),
        ("argv: [echo, '${{ flags }}']\nparams: { 'a b': 1 }", "`a b` cannot be the name of a flag"),
        ("argv: [echo, '${{ flags }}']\nflags: hydra\nbooleans: no-flag", "`booleans: no-flag` has no effect"),
        ("argv: [echo]\nmetrics: { loss: best }", "`loss`: `best` is not one of `last`, `first`, `min`, `max`, `mean`"),
        ("argv: [echo]\nmetrics: [loss]", "found a list `[loss]`"),
        ("argv: [echo]\nuntil: 0", "0 is out of range"),
        ("argv: [echo]\nparams: [1]", "expected a map from names to any values"),
    ] {
        let sandbox = Sandbox::with(&step(with));
        let ended = sandbox.sweep(&["plan", "recipe.yaml"]);
        assert_eq!(ended.code, Some(3), "{with}: {}", ended.stderr);
        assert!(ended.stderr.contains(expected), "{with}: {}", ended.stderr);
        assert_eq!(ended.stderr.matches("╭─[recipe.yaml:").count(), 1, "a mistake has its place: {}", ended.stderr);
    }
}

/// The module needs no installation; an installed one, and a file of the program with this name, come first.
#[test]
fn the_module_is_there_for_jobs() {
    let sandbox = Sandbox::with(
        r#"
steps:
  carried: { uses: command, with: { argv: [python3, a.py], inputs: [a.py] } }
  installed: { uses: command, with: { argv: [python3, b.py], inputs: [b.py], env: { PYTHONPATH: "${{ params.site }}" } } }
  own: { uses: command, with: { argv: [python3, own/c.py], inputs: [own] } }
params: { site: SITE }
"#,
    );
    sandbox.write(
        "recipe.yaml",
        &sandbox.read("recipe.yaml").replace("SITE", &sandbox.path("site").display().to_string()),
    );
    sandbox.write("a.py", "import sweep, sweep.wandb\nsweep.report(1, loss=0.5)\n");
    sandbox.write("b.py", "import sweep\nprint(f'loss={sweep.LOSS}')\n");
    sandbox.write("own/c.py", "import sweep\nprint(f'loss={sweep.LOSS}')\n");
    sandbox.write("site/sweep/__init__.py", "LOSS = 1.5");
    sandbox.write("own/sweep.py", "LOSS = 2.5");
    for _ in 0..2 {
        let mut command = sandbox.command(&["run", "recipe.yaml"]);
        command.env_remove("PYTHONPATH");
        let ended = crate::sandbox::Running::from(command.spawn().unwrap()).wait();
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    }
    let records = sandbox.records();
    let loss = |job: &str| records[job]["outcome"]["metrics"]["loss"]["value"].as_f64();
    assert_eq!([loss("carried"), loss("installed"), loss("own")], [Some(0.5), Some(1.5), Some(2.5)]);
    assert_eq!(records.len(), 3);
}

#[test]
fn outputs_are_kept_by_patterns() {
    let program = "
import os
os.makedirs('runs/a/deep'); os.makedirs('.cache')
for path in ['runs/a/x.pt', 'runs/a/deep/y.pt', 'runs/z.pt', 'runs/a/log.txt', 'end.json', '.cache/n.json']:
    open(path, 'w').write(path)
";
    let kept = |outputs: &str, project: &str| {
        let with = format!("argv: [python3, train.py]\n{project}\noutputs: {outputs}");
        let sandbox = Sandbox::with(&step(&with));
        sandbox.write("train.py", program);
        sandbox.write("in/own.json", "{}");
        let ended = sandbox.sweep(&["run", "recipe.yaml"]);
        if ended.code != Some(0) {
            return Err(ended.stderr);
        }
        let records = sandbox.records();
        let artifacts = records["job"]["outcome"]["artifacts"].as_object().unwrap();
        assert_eq!(sandbox.sweep(&["cache", "verify"]).code, Some(0));
        Ok(artifacts.keys().cloned().collect::<Vec<String>>())
    };
    let mut places = vec!["inputs: [train.py, in]\ncopy: true"];
    places.extend(has_views().then_some("project: ."));
    for place in places {
        let expect = |outputs: &str, files: &[&str]| assert_eq!(kept(outputs, place).unwrap(), files, "{outputs}");
        expect("['runs/**/*.pt']", &["runs/a/deep/y.pt", "runs/a/x.pt", "runs/z.pt"]);
        expect("['runs/*/*.pt', end.json]", &["end.json", "runs/a/x.pt"]);
        expect("['*.json']", &["end.json"]);
        expect("['runs/?/log.*']", &["runs/a/log.txt"]);
        let none = kept("['*.bin']", place).unwrap_err();
        assert!(none.contains("without writing a file for its output `*.bin`"), "{none}");
    }
    let wrong = kept("['a***b']", "inputs: [train.py]").unwrap_err();
    assert!(wrong.contains("`a***b` is not a pattern of paths"), "{wrong}");
}
