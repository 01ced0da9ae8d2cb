//! Measuring is not computing: metrics are computed again from stored output, and a change of a parameter that does not affect the program
//! runs no job.

use serde_json::Value;

use crate::sandbox::{Sandbox, list, sealed};

/// A training that prints, reports, and writes a CSV file; it counts its starts outside of its folder.
const TRAIN: &str = r#"
import json, os, sys
open(os.environ["STARTS"], "a").write("x")
report = open(os.environ["SWEEP_REPORT"], "a")
log = open("log.csv", "w")
log.write("step,val\n")
values = [3.0, 1.0, 2.0]
for step, value in enumerate(values):
    print(f"step {step} loss {value} acc {value / 10}")
    report.write(json.dumps({"step": step, "score": value * 2}) + "\n")
    log.write(f"{step},{value * 100}\n")
print("total=7")
"#;

/// A recipe with these lines in `with` of its training, and further lines.
fn recipe(with: &str, further: &str) -> String {
    format!(
        "steps:
  train:
    uses: command
    with:
      argv: [python3, train.py]
      inputs: [train.py]
      tracks: declared
{with}{further}"
    )
}

/// A sandbox in which a recipe has run.
fn ran(recipe: &str) -> Sandbox {
    let sandbox = Sandbox::with(recipe);
    sandbox.write("train.py", TRAIN);
    run(&sandbox);
    sandbox
}

fn run(sandbox: &Sandbox) -> String {
    let ended = sandbox.command(&["run", "recipe.yaml"]).env("STARTS", sandbox.path("starts")).output().unwrap();
    let says = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert_eq!(ended.status.code(), Some(0), "{says}");
    says
}

/// Changes the recipe and runs it.
fn changed(sandbox: &Sandbox, recipe: &str) -> String {
    sandbox.write("recipe.yaml", recipe);
    run(sandbox)
}

/// Number of starts of the training.
fn starts(sandbox: &Sandbox) -> usize {
    sandbox.read("starts").len()
}

/// A cell of the recipe's jobs: a metric, or nothing.
fn value(sandbox: &Sandbox, name: &str) -> Option<f64> {
    let ended =
        sandbox.sweep(&["query", "recipe.yaml", "--select", &format!("step,metrics.{name}"), "--format", "csv"]);
    if ended.stderr.contains(&format!("no record has `metrics.{name}`")) {
        return None;
    }
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let row =
        ended.stdout.lines().find(|line| line.starts_with("train,")).unwrap_or_else(|| panic!("{}", ended.stdout));
    row.split(',').nth(1).and_then(|cell| cell.parse().ok())
}

const PATTERN: &str = "      reads: { stdout: 'step (?<step>\\d+) loss (?<loss>[\\d.]+)' }\n";

#[test]
fn an_edit_of_what_is_read_runs_nothing() {
    let sandbox = ran(&recipe(PATTERN, ""));
    assert_eq!(
        (value(&sandbox, "loss"), value(&sandbox, "score"), value(&sandbox, "total")),
        (Some(2.0), Some(4.0), Some(7.0))
    );
    let other = "      reads: { stdout: 'step (?<step>\\d+) .*acc (?<acc>[\\d.]+)' }\n";
    let says = changed(&sandbox, &recipe(other, ""));
    assert!(says.contains("1 job was measured again from the stored files; no program ran"), "{says}");
    assert_eq!((value(&sandbox, "acc"), value(&sandbox, "loss")), (Some(0.2), None));
    assert_eq!((value(&sandbox, "score"), value(&sandbox, "total")), (Some(4.0), Some(7.0)));
    let csv = "      reads: { csv: log.csv, stdout: 'step (?<step>\\d+) loss (?<loss>[\\d.]+)' }\n";
    changed(&sandbox, &recipe(csv, ""));
    assert_eq!(
        (value(&sandbox, "val"), value(&sandbox, "loss"), value(&sandbox, "acc")),
        (Some(200.0), Some(2.0), None)
    );
    for (how, loss, score) in
        [("min", 1.0, 2.0), ("last", 2.0, 4.0), ("max", 3.0, 6.0), ("first", 3.0, 6.0), ("mean", 2.0, 4.0)]
    {
        let metrics = format!("{PATTERN}      metrics: {{ loss: {how}, score: {how} }}\n");
        changed(&sandbox, &recipe(&metrics, "tables: { t: { from: train, cells: [loss, score] } }\n"));
        assert_eq!((value(&sandbox, "loss"), value(&sandbox, "score")), (Some(loss), Some(score)), "{how}");
        let step = matches!(how, "min" | "max").then_some(if how == "min" { 1.0 } else { 0.0 });
        assert_eq!(value(&sandbox, "loss.step"), step, "{how}");
    }
    changed(&sandbox, &recipe("", ""));
    assert_eq!((value(&sandbox, "loss"), value(&sandbox, "score")), (None, Some(4.0)), "no source is read any more");
    assert_eq!(starts(&sandbox), 1);
    changed(&sandbox, &recipe(PATTERN, ""));
    assert_eq!(value(&sandbox, "loss"), Some(2.0), "the first record is there as it was");
    assert_eq!(starts(&sandbox), 1);
    let verified = sandbox.sweep(&["cache", "verify"]);
    assert_eq!(verified.code, Some(0), "{}", verified.stdout);
}

#[test]
fn values_are_taken_at_once_and_explained() {
    let sandbox = ran(&recipe(PATTERN, "tables: { t: { from: train, cells: [loss] } }\n"));
    let metrics = format!("{PATTERN}      metrics: {{ loss: min }}\n");
    sandbox.write("recipe.yaml", &recipe(&metrics, "tables: { t: { from: train, cells: [loss] } }\n"));
    let report = sandbox.sweep(&["report", "recipe.yaml", "--format", "csv"]);
    assert!(report.stdout.contains('1') && !report.stdout.contains("not run"), "{}", report.stdout);
    assert_eq!(sandbox.plan_tally(&["recipe.yaml"]), (1, 0));
    assert_eq!(value(&sandbox, "loss"), Some(1.0));
    let explained = sandbox.sweep(&["explain", "recipe.yaml", "train"]);
    assert!(explained.stdout.contains("measured again from record"), "{}", explained.stdout);
    assert!(explained.stdout.contains("because `metrics` changed"), "{}", explained.stdout);
    let shown = sandbox.sweep(&["show", "train"]);
    assert!(shown.stdout.contains("loss: 1") && shown.stdout.contains("measured again"), "{}", shown.stdout);
    assert_eq!(starts(&sandbox), 1);
}

#[test]
fn a_metrics_file_and_lines_are_told_apart() {
    let program = format!("{TRAIN}\nimport json\njson.dump({{'final': 5, 'total': 9}}, open('m.json', 'w'))\n");
    let sandbox = Sandbox::with(&recipe("", ""));
    sandbox.write("train.py", &program);
    run(&sandbox);
    assert_eq!((value(&sandbox, "total"), value(&sandbox, "final")), (Some(7.0), None));
    changed(&sandbox, &recipe("      metrics: m.json\n", ""));
    assert_eq!(
        (value(&sandbox, "total"), value(&sandbox, "final"), value(&sandbox, "score")),
        (Some(9.0), Some(5.0), Some(4.0))
    );
    changed(&sandbox, &recipe("      metrics: { score: max }\n", ""));
    assert_eq!(
        (value(&sandbox, "total"), value(&sandbox, "final"), value(&sandbox, "score")),
        (Some(7.0), None, Some(6.0))
    );
    let says = changed(&sandbox, &recipe("      metrics: other.json\n", ""));
    assert!(says.contains("the metrics file `other.json` was not kept"), "{says}");
    assert_eq!((value(&sandbox, "total"), value(&sandbox, "final"), value(&sandbox, "score")), (None, None, Some(4.0)));
    assert_eq!(starts(&sandbox), 1);
}

#[test]
fn a_log_that_is_gone_or_changed_gives_no_value() {
    for (damage, reason) in [("remove", "the log of its run is gone"), ("edit", "is not what the job wrote")] {
        let sandbox = ran(&recipe(PATTERN, ""));
        let logs = list(&sandbox.path("results/runs")).pop().unwrap().join("logs");
        let log = list(&logs).pop().unwrap();
        if damage == "remove" {
            fs_err::remove_file(&log).unwrap();
        } else {
            let text = fs_err::read_to_string(&log).unwrap();
            fs_err::write(&log, text.replace("acc 0.2", "acc 0.9")).unwrap();
        }
        let both = "      reads: { stdout: ['step (?<step>\\d+) loss (?<loss>[\\d.]+)', 'step (?<step>\\d+) .*acc (?<acc>[\\d.]+)'] }\n";
        let says = changed(&sandbox, &recipe(both, ""));
        assert!(says.contains(reason) && says.contains("cache rm"), "{says}");
        assert_eq!(
            (value(&sandbox, "acc"), value(&sandbox, "loss"), value(&sandbox, "score")),
            (None, Some(2.0), Some(4.0))
        );
        let shown = sandbox.sweep(&["show", "train"]).stdout;
        assert!(shown.contains("not measured") && shown.contains(reason), "{shown}");
        assert_eq!(starts(&sandbox), 1);
        let removed = sandbox.sweep(&["cache", "rm", "train", "--yes"]);
        assert_eq!(removed.code, Some(0), "{}", removed.stderr);
        run(&sandbox);
        assert_eq!(
            (starts(&sandbox), value(&sandbox, "acc")),
            (2, Some(0.2)),
            "whoever removes a job's record measures it"
        );
    }
}

#[test]
fn a_file_that_was_not_kept_is_named() {
    let large = TRAIN.replace("log.csv", "log.dat");
    let sandbox = Sandbox::with(&recipe("", ""));
    sandbox.write("train.py", &large);
    run(&sandbox);
    let says = changed(&sandbox, &recipe("      reads: { csv: log.dat }\n", ""));
    assert!(says.contains("`log.dat` was not kept"), "{says}");
    assert_eq!((value(&sandbox, "val"), value(&sandbox, "score"), starts(&sandbox)), (None, Some(4.0), 1));
}

/// A record as an earlier version wrote it: without the reports of its program and the place in its log.
fn as_of_an_earlier_version(sandbox: &Sandbox) {
    for shard in list(&sandbox.path("results/store")).iter().filter(|shard| shard.file_name().unwrap().len() == 2) {
        for job in list(shard) {
            let path = job.join("record.json");
            let mut record: Value = serde_json::from_slice(&fs_err::read(&path).unwrap()).unwrap();
            let object = record.as_object_mut().unwrap();
            object.remove("digest");
            object.remove("files");
            record["outcome"].as_object_mut().unwrap().remove("reported");
            record["provenance"].as_object_mut().unwrap().remove("log");
            let text = serde_json::to_string_pretty(&record).unwrap();
            fs_err::write(&path, sealed(&text.replacen('\n', "\n  \"digest\": \"\",\n", 1))).unwrap();
            let _ = std::fs::remove_dir_all(job.join("files/.sweep"));
        }
    }
    for name in ["index.jsonl", "measured.jsonl"] {
        let _ = std::fs::remove_file(sandbox.path("results/store").join(name));
    }
}

#[test]
fn a_record_of_an_earlier_version_is_measured_from_its_log_and_curves() {
    let metrics = format!("{PATTERN}      metrics: {{ loss: min }}\n");
    let sandbox = ran(&recipe(&metrics, ""));
    as_of_an_earlier_version(&sandbox);
    sandbox.assert_all_cached(&["recipe.yaml"]);
    let last = format!("{PATTERN}      metrics: {{ loss: last, score: max }}\n");
    changed(&sandbox, &recipe(&last, ""));
    assert_eq!((value(&sandbox, "loss"), value(&sandbox, "loss.step")), (Some(2.0), None));
    assert_eq!((value(&sandbox, "score"), value(&sandbox, "score.step")), (Some(6.0), Some(0.0)));
    let other = "      reads: { stdout: 'step (?<step>\\d+) .*acc (?<acc>[\\d.]+)' }\n";
    changed(&sandbox, &recipe(other, ""));
    let found = ["acc", "loss", "score", "total"].map(|name| value(&sandbox, name));
    assert_eq!(found, [Some(0.2), None, Some(4.0), Some(7.0)]);
    let says = changed(&sandbox, &recipe("      reads: { csv: log.csv }\n", ""));
    assert!(says.contains("`log.csv` was not kept"), "{says}");
    assert_eq!((value(&sandbox, "val"), value(&sandbox, "score"), starts(&sandbox)), (None, Some(4.0), 1));
}

const CHAIN: &str = "
  test:
    needs: train
    uses: command
    with: { run: 'cat \"$WEIGHTS\"; echo y >> \"$STARTS.test\"; echo quality=5', env: { WEIGHTS: '${{ needs.train.artifacts.weights }}' } }
  tune:
    needs: train
    uses: command
    with: { run: 'echo z >> \"$STARTS.tune\"; echo twice=$(( ${{ needs.train.metrics.whole }} * 2 ))' }
";

#[test]
fn dependents_run_only_if_they_take_a_value_that_is_another_one() {
    let program = format!("{TRAIN}\nopen('weights', 'w').write('w' * 100)\nprint('whole 3')\nprint('whole 4')\n");
    let with =
        |pattern: &str| recipe(&format!("      outputs: [weights]\n      reads: {{ stdout: '{pattern}' }}\n"), CHAIN);
    let sandbox = Sandbox::with(&with("whole (?<whole>\\d+)"));
    sandbox.write("train.py", &program);
    run(&sandbox);
    let counts = |sandbox: &Sandbox| ["starts.test", "starts.tune"].map(|name| sandbox.read(name).lines().count());
    assert_eq!((starts(&sandbox), counts(&sandbox)), (1, [1, 1]));
    changed(&sandbox, &with("^whole (?<whole>\\d+)"));
    assert_eq!((starts(&sandbox), counts(&sandbox)), (1, [1, 1]), "the value is the same");
    changed(&sandbox, &with("whole (?<whole>3)"));
    assert_eq!((starts(&sandbox), counts(&sandbox)), (1, [1, 2]), "it is another one");
    let twice = sandbox.sweep(&["query", "recipe.yaml", "--select", "step,metrics.twice", "--format", "csv"]).stdout;
    assert!(twice.contains("tune,6"), "{twice}");
    let removed = sandbox.sweep(&["cache", "gc", "recipe.yaml", "--recent", "0s", "--yes"]);
    assert_eq!(removed.code, Some(0), "{}", removed.stderr);
    sandbox.assert_all_cached(&["recipe.yaml"]);
    let verified = sandbox.sweep(&["cache", "verify"]);
    assert_eq!(verified.code, Some(0), "{}", verified.stdout);
}

#[test]
fn other_code_is_no_record_to_measure() {
    let observed = |with: &str| recipe(with, "").replace("      tracks: declared\n", "");
    let program = TRAIN.replace("import json, os, sys", "import json, os, sys\nimport helper");
    let sandbox = Sandbox::with(&observed(PATTERN));
    sandbox.write("train.py", &program);
    sandbox.write("helper.py", "a = 1\n");
    run(&sandbox);
    sandbox.write("helper.py", "a = 2\n");
    let metrics = format!("{PATTERN}      metrics: {{ loss: min }}\n");
    changed(&sandbox, &observed(&metrics));
    assert_eq!((starts(&sandbox), value(&sandbox, "loss")), (2, Some(1.0)));
    let metrics = format!("{PATTERN}      metrics: {{ loss: max }}\n");
    changed(&sandbox, &observed(&metrics));
    assert_eq!(
        (starts(&sandbox), value(&sandbox, "loss")),
        (2, Some(3.0)),
        "the record of the present code is measured"
    );
    sandbox.write("helper.py", "a = 3\n");
    run(&sandbox);
    assert_eq!(starts(&sandbox), 3, "and so is its successor observed");
}

#[test]
fn lines_of_both_outputs_do_not_mix_in_the_log() {
    // Standard output is cut in the middle of a line, as a full buffer does.
    let program = r#"
import os, sys, time
open(os.environ["STARTS"], "a").write("x")
os.write(1, b"step 1 loss 0.1")
time.sleep(0.3)
os.write(2, b"7 warnings\n")
time.sleep(0.3)
os.write(1, b"25\nstep 2 loss 0.5\n")
"#;
    let sandbox = Sandbox::with(&recipe("", ""));
    sandbox.write("train.py", program);
    run(&sandbox);
    changed(&sandbox, &recipe(&format!("{PATTERN}      metrics: {{ loss: first }}\n"), ""));
    assert_eq!((value(&sandbox, "loss"), starts(&sandbox)), (Some(0.125), 1));
}

#[test]
fn points_of_a_failed_attempt_do_not_count() {
    let program = r#"
import os, sys
open(os.environ["STARTS"], "a").write("x")
first = len(open(os.environ["STARTS"]).read()) == 1
for step in range(3):
    print(f"step {step} loss {0.5 if first else step + 1} acc {0.01 if first else 0.5}")
sys.stdout.flush()
sys.exit(1 if first else 0)
"#;
    let retried = |with: &str| recipe(with, "    retries: 1\n");
    let sandbox = Sandbox::with(&retried(PATTERN));
    sandbox.write("train.py", program);
    run(&sandbox);
    assert_eq!(starts(&sandbox), 2);
    let other = "      reads: { stdout: 'step (?<step>\\d+) .*acc (?<acc>[\\d.]+)' }\n      metrics: { acc: min }\n";
    changed(&sandbox, &retried(other));
    assert_eq!((starts(&sandbox), value(&sandbox, "acc")), (2, Some(0.5)));
}

#[test]
fn measuring_again_can_be_interrupted_anywhere() {
    if !cfg!(debug_assertions) {
        eprintln!("not run: a release build cannot be made to break");
        return;
    }
    let metrics = format!("{PATTERN}      metrics: {{ loss: min }}\n");
    let trace = {
        let sandbox = ran(&recipe(PATTERN, ""));
        sandbox.write("recipe.yaml", &recipe(&metrics, ""));
        let points = format!("trace={}", sandbox.path("trace").display());
        sandbox.command(&["report", "recipe.yaml"]).env("SWEEP_FAILPOINTS", points).output().unwrap();
        sandbox.read("trace").lines().count()
    };
    assert!(trace > 5);
    for number in 1..=trace {
        let sandbox = ran(&recipe(PATTERN, ""));
        sandbox.write("recipe.yaml", &recipe(&metrics, ""));
        sandbox.command(&["report", "recipe.yaml"]).env("SWEEP_FAILPOINTS", format!("kill@{number}")).output().unwrap();
        run(&sandbox);
        assert_eq!((starts(&sandbox), value(&sandbox, "loss")), (1, Some(1.0)), "point {number}");
    }
}

/// A recipe whose program gets `params` as flags.
fn flags(params: &str, further: &str) -> String {
    format!(
        "steps:
  train:
    uses: command
    with:
      argv: [python3, train.py, '${{{{ flags }}}}']
      inputs: [train.py]
      tracks: declared
      params: {params}
{further}"
    )
}

#[test]
fn a_parameter_that_changes_no_argument_runs_nothing() {
    let program = "import os, sys\nopen(os.environ['STARTS'], 'a').write('x')\nprint('count=%d' % len(sys.argv))\n";
    let sandbox = Sandbox::with(&flags("{ lr: 0.1 }", ""));
    sandbox.write("train.py", program);
    run(&sandbox);
    let same =
        ["{ lr: 0.1, dropout: null }", "{ lr: 0.1, amp: false }", "{ lr: 0.1, opt: { amp: false, decay: null } }"];
    for params in same {
        let says = changed(&sandbox, &flags(params, ""));
        assert!(says.contains("no program ran"), "{says}");
        assert_eq!((starts(&sandbox), value(&sandbox, "count")), (1, Some(3.0)), "{params}");
    }
    changed(&sandbox, &flags("{ lr: 0.1 }", "      hyphens: true\n"));
    assert_eq!(starts(&sandbox), 1, "no name has an underscore");
    let mut expected = 1;
    for (params, further) in [
        ("{ lr: 0.1, amp: true }", ""),
        ("{ lr: 0.1, amp: false }", "      booleans: no-flag\n"),
        ("{ lr: 0.1, dropout: null }", "      flags: hydra\n"),
        ("{ lr: 0.2 }", ""),
    ] {
        expected += 1;
        changed(&sandbox, &flags(params, further));
        assert_eq!(starts(&sandbox), expected, "{params} {further}");
    }
}

#[test]
fn a_program_that_reads_its_parameters_gets_all_of_them() {
    let readers = [
        "json.load(open(os.environ['SWEEP_PARAMS']))",
        "json.loads(__import__('subprocess').check_output(['cat', os.environ['SWEEP_PARAMS']]))",
        "(os.link(os.environ['SWEEP_PARAMS'], 'copy'), json.load(open('copy')))[1]",
    ];
    for reader in readers {
        let program =
            format!("import os, json\nopen(os.environ['STARTS'], 'a').write('x')\nprint('count=%d' % len({reader}))\n");
        let sandbox = Sandbox::with(&flags("{ lr: 0.1 }", ""));
        sandbox.write("train.py", &program);
        run(&sandbox);
        changed(&sandbox, &flags("{ lr: 0.1, dropout: null }", ""));
        assert_eq!((starts(&sandbox), value(&sandbox, "count")), (2, Some(2.0)), "{reader}");
    }
}

#[test]
fn a_store_that_cannot_be_written_is_said() {
    let sandbox = ran(&recipe(PATTERN, ""));
    let metrics = format!("{PATTERN}      metrics: {{ loss: min }}\n");
    sandbox.write("recipe.yaml", &recipe(&metrics, ""));
    // As root, permissions forbid nothing.
    if rustix::process::geteuid().is_root() {
        eprintln!("not run: nothing forbids root to write");
        return;
    }
    let store = sandbox.path("results/store");
    let mode = |mode| {
        fs_err::set_permissions(&store, std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
    };
    mode(0o555);
    let report = sandbox.sweep(&["report", "recipe.yaml"]);
    mode(0o755);
    assert!(report.stderr.contains("1 job could not be measured again"), "{}", report.stderr);
}

#[test]
fn two_steps_that_read_one_computation_differently_run_it_once() {
    let step = |name: &str, how: &str| {
        format!(
            "  {name}:
    uses: command
    with:
      argv: [python3, train.py]
      inputs: [train.py]
      tracks: declared
      metrics: {{ score: {how} }}
"
        )
    };
    let both = format!("steps:\n{}{}", step("train", "min"), step("again", "max"));
    let after =
        "  after: { uses: command, needs: again, with: { run: 'echo high=${{ needs.again.metrics.score }}' } }\n";
    let sandbox = ran(&(both + after));
    assert_eq!((value(&sandbox, "score"), starts(&sandbox)), (Some(2.0), 1));
    let all = sandbox
        .sweep(&["query", "recipe.yaml", "--select", "step,metrics.score,metrics.high", "--format", "csv"])
        .stdout;
    assert!(all.contains("again,6") && all.contains("after,,6"), "{all}");
    sandbox.assert_all_cached(&["recipe.yaml"]);
}
