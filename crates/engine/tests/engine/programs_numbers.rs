//! Numbers of programs: those that languages print, that are no numbers, that come out of order or in excess.

use serde_json::Value;

use crate::sandbox::{Ended, Sandbox};

/// A job whose script is a Python program, with these other keys of `with`.
fn run(with: &str, program: &str) -> (Sandbox, Ended) {
    let sandbox = Sandbox::with(&format!(
        "steps: {{ a: {{ uses: command, with: {{ argv: [python3, program.py], inputs: [program.py], {with} }} }} }}\n\
         tables: {{ t: {{ from: a, cells: [loss] }} }}\n"
    ));
    sandbox.write("program.py", program);
    let ended = sandbox.sweep(&["run", "recipe.yaml"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    (sandbox, ended)
}

fn outcome(sandbox: &Sandbox) -> Value {
    sandbox.records()["a"]["outcome"].clone()
}

fn metric(sandbox: &Sandbox, name: &str) -> Option<f64> {
    outcome(sandbox)["metrics"][name]["value"].as_f64()
}

fn curve(sandbox: &Sandbox, name: &str) -> Vec<(u64, f64)> {
    let curve = &outcome(sandbox)["curves"][name];
    let list = |key: &str| curve[key].as_array().cloned().unwrap_or_default();
    list("at").iter().zip(list("values")).map(|(at, value)| (at.as_u64().unwrap(), value.as_f64().unwrap())).collect()
}

/// The notices in the record.
fn notices(sandbox: &Sandbox) -> Vec<String> {
    let notices = sandbox.records()["a"]["provenance"]["notices"].clone();
    notices.as_array().into_iter().flatten().map(|text| text.as_str().unwrap().to_owned()).collect()
}

/// Asserts that the record, the output of the run, `sweep show` and the page have exactly one notice with these words.
fn assert_notice(sandbox: &Sandbox, ended: &Ended, words: &str) {
    let notices = notices(sandbox);
    assert_eq!(notices.iter().filter(|notice| notice.contains(words)).count(), 1, "{words}: {notices:#?}");
    assert!(ended.stderr.contains(words), "{words}: {}", ended.stderr);
    let shown = sandbox.sweep(&["show", "a"]);
    assert!(shown.stdout.contains(words), "{words}: {}{}", shown.stdout, shown.stderr);
}

#[test]
fn a_placeholder_reads_what_languages_print() {
    for (text, value) in [
        ("3.33e-06", Some(3.33e-6)),
        ("-0.5", Some(-0.5)),
        ("1e-3", Some(1e-3)),
        ("+1.5", Some(1.5)),
        (".5", Some(0.5)),
        ("5.", Some(5.0)),
        ("\\x1b[31m0.25\\x1b[0m", Some(0.25)),
        ("tensor(0.25, device='cuda:0')", Some(0.25)),
        ("np.float64(0.25)", Some(0.25)),
        ("95%", Some(95.0)),
        ("nan", None),
        ("-inf", None),
        ("Infinity", None),
    ] {
        let program = format!("print('step 1 loss 7.5')\nprint(\"step 2 loss {text}\")\n");
        let (sandbox, ended) = run("reads: { stdout: 'step {step} loss {loss}' }", &program);
        assert_eq!(metric(&sandbox, "loss"), value, "{text}: {}", ended.stderr);
        assert_eq!(curve(&sandbox, "loss")[0], (1, 7.5));
        if value.is_none() {
            assert_notice(&sandbox, &ended, "at step 2, which is not a number: no point");
        }
    }
}

#[test]
fn a_part_of_a_number_is_no_value() {
    for (pattern, text, words) in [
        (r"step (?<step>\d+).*loss (?<loss>[\d.]+)", "loss 3.33e-06", "reads `3.33` of `3.33e-06` as `loss`"),
        (r"step (?<step>\d+).*loss -?(?<loss>[\d.]+)", "loss -0.5", "reads `0.5` of `-0.5` as `loss`"),
        ("step {step} loss {loss}", "loss 0,5", "reads `0` of `0,5` as `loss`"),
        ("step {step} loss {loss}", "loss 1,234", "reads `1` of `1,234` as `loss`"),
        ("step {step} loss {loss}", "loss 10k", "reads `10` of `10k` as `loss`"),
        (r"step {step} loss (?<loss>\S+)", "loss 0,5", "`loss` is `0,5` in a line of output"),
    ] {
        let (sandbox, ended) = run(&format!("reads: {{ stdout: '{pattern}' }}"), &format!("print('step 1 {text}')"));
        assert_eq!(metric(&sandbox, "loss"), None, "{text}");
        assert_notice(&sandbox, &ended, words);
    }
}

#[test]
fn a_plan_warns_of_a_group_that_does_not_read_all_numbers() {
    let recipe = r"steps: { a: { uses: command, with: { run: train, reads: { stdout: 'loss (?<loss>[\d.]+)' } } } }";
    let ended = Sandbox::with(recipe).sweep(&["plan", "recipe.yaml"]);
    let said = ended
        .stderr
        .split(|char: char| char.is_whitespace() || char == '│')
        .filter(|word| !word.is_empty())
        .collect::<Vec<_>>()
        .join(" ");
    assert!(
        said.contains("does not read all numbers: not `-0.5`, `1e-3`, `3.33e-06`, `nan`, `inf`"),
        "{}",
        ended.stderr
    );
    assert!(said.contains("write `{loss}` in its place"), "{}", ended.stderr);
    let recipe = recipe.replace(r"(?<loss>[\d.]+)", "{loss}");
    assert!(!Sandbox::with(&recipe).sweep(&["plan", "recipe.yaml"]).stderr.contains("does not read"));
}

#[test]
fn standard_error_is_read_where_standard_output_has_no_match() {
    let program = "
import logging, sys
logging.basicConfig(level=logging.INFO, format='%(asctime)s %(message)s')
for step in range(3):
    logging.info('step %d loss %.2e', step, 1 / (step + 1))
sys.stderr.write('\\r50% loss=9\\r100% loss=8\\n')
";
    let reads = "reads: { stdout: 'step {step} loss {loss}' }";
    let (sandbox, _) = run(reads, program);
    assert_eq!(curve(&sandbox, "loss"), [(0, 1.0), (1, 0.5), (2, 0.333)]);
    assert_eq!(notices(&sandbox), Vec::<String>::new());
    let (sandbox, ended) = run(reads, &format!("{program}import time\ntime.sleep(0.5)\nprint('step 7 loss 0.125')"));
    assert_eq!(curve(&sandbox, "loss"), [(7, 0.125)], "whichever comes first");
    assert_notice(&sandbox, &ended, "those of standard output count");
}

#[test]
fn a_line_that_is_too_long_is_not_read_as_half_a_number() {
    let program = "print('x' * 65520, 'loss 0.123456789')";
    let (sandbox, ended) = run("reads: { stdout: 'loss {loss}' }", program);
    assert_eq!(metric(&sandbox, "loss"), None);
    assert_notice(&sandbox, &ended, "matches none of the 1 lines of output");
}

#[test]
fn a_source_without_values_is_named() {
    for (reads, words) in [
        (
            "{ stdout: 'epoch {epoch} loss {loss}' }",
            "the pattern `epoch {epoch} loss {loss}` of `reads` matches none of the 2 lines",
        ),
        ("{ stdout: 'step {step}( loss {loss})?( acc {acc})?' }", "never with a number for `acc`"),
        ("{ stdout: '(step {step} )?loss {loss}|other {loss}' }", "matches a line without its step"),
        ("{ stdout: 'loss {step} {loss}' }", "the step `1.5` that the pattern"),
        ("{ csv: log.csv }", "`log.csv` of `reads: csv` was not written"),
        ("{ csv: empty.csv }", "`empty.csv` of `reads: csv` is empty"),
        ("{ csv: words.csv }", "`words.csv` of `reads: csv` has no numbers"),
        ("{ jsonl: runs/log.jsonl }", "`log.jsonl` of `reads: jsonl` was not written"),
        ("{ tensorboard: runs }", "`runs` of `reads: tensorboard` was not written"),
        ("{ tensorboard: . }", "has no event file"),
        ("{ csv: [one.csv, two.csv] }", "`loss` is in `csv one.csv` and in `csv two.csv`: the first counts"),
    ] {
        let program = "
print('step 1 loss 1.5 2\\nother 3')
open('empty.csv', 'w')
open('words.csv', 'w').write('a,b\\nc,d\\n')
open('one.csv', 'w').write('loss\\n1\\n')
open('two.csv', 'w').write('loss\\n2\\n')
";
        let (sandbox, ended) = run(&format!("reads: {reads}"), program);
        assert_notice(&sandbox, &ended, words);
        let said = sandbox.sweep(&["run", "recipe.yaml"]);
        assert!(metric(&sandbox, "loss").is_some() || said.stdout.contains("not measured"), "{}", said.stdout);
        let plan = sandbox.sweep(&["plan", "recipe.yaml"]).stdout;
        assert_ne!(metric(&sandbox, "loss").is_some(), plan.contains("no job of `a` has measured `loss`"), "{plan}");
    }
}

#[test]
fn values_that_look_like_numbers_are_said() {
    let program = "
print('recall@5=0.5')
print('точность=0.5')
print('\\033[1macc\\033[0m=\\033[32m95%\\033[0m')
print('time=12 ms')
print('loss=0,5')
print('both=1 other=2')
print('day=2024-01-01')
";
    let (sandbox, ended) = run("outputs: []", program);
    let values = ["recall@5", "точность", "acc", "time", "loss", "both", "day"].map(|name| metric(&sandbox, name));
    assert_eq!(values, [Some(0.5), Some(0.5), Some(95.0), Some(12.0), None, None, None]);
    assert_eq!(outcome(&sandbox)["metrics"]["acc"]["unit"], "%");
    assert_notice(&sandbox, &ended, "`loss` is printed as `0,5`, which is not a number");
    assert_notice(&sandbox, &ended, "`both` is printed as `1 other=2`, which is more than a number");
    assert_eq!(notices(&sandbox).len(), 2);
}

/// A number in another notation is read or named, and a name of the engine's own measurements is not the program's.
#[test]
fn numbers_in_other_notations_and_reserved_names_are_said() {
    let program = "
print(\"a='0.5'\")
print('b=(0.25)')
print('c=3.2k')
print('d=0x10')
print('e=1/3')
print('f=1:30')
print('memory.peak=3')
print('loss=0.5; acc=0.25')
";
    let (sandbox, ended) = run("reads: { stdout: 'loss={loss}; acc={acc}' }", program);
    let values = ["a", "b", "c", "loss", "acc"].map(|name| metric(&sandbox, name));
    assert_eq!(values, [Some(0.5), Some(0.25), None, Some(0.5), Some(0.25)]);
    assert_ne!(metric(&sandbox, "memory.peak"), Some(3.0));
    for (name, text) in [("c", "3.2k"), ("d", "0x10"), ("e", "1/3"), ("f", "1:30")] {
        assert_notice(&sandbox, &ended, &format!("`{name}` is printed as `{text}`, which is not a number"));
    }
    assert_notice(&sandbox, &ended, "the program's `memory.peak` is ignored");
    assert_eq!(notices(&sandbox).len(), 5, "{:?}", notices(&sandbox));
}

/// The step of a value is that of the value that counts: a final value has none.
#[test]
fn a_final_value_has_no_step() {
    let reported = "import json, os\nreport = open(os.environ['SWEEP_REPORT'], 'a')\n";
    let lines = r#"report.write('{"step": 1, "acc": 0.9}\n{"acc": 0.5}\n{"step": 2, "acc": 0.7}\n')"#;
    let (sandbox, _) = run("metrics: { acc: max }", &format!("{reported}{lines}\n"));
    assert_eq!((metric(&sandbox, "acc"), metric(&sandbox, "acc.step")), (Some(0.5), None));
}

#[test]
fn tables_of_other_countries_and_programs_are_read_or_said() {
    let program = r#"
def write(name, text): open(name, "wb").write(text.encode("utf-8-sig"))
write("a.csv", "step;loss;note\r\n1;3.33e-06;x\r\n2;-inf;y\r\n3;\"0.5\";\r\n4;nan;z\r\n5;1e-3;5 apples\r\n")
write("b.csv", "step;acc\r\n1;0,5\r\n2;95%\r\n")
write("c.csv", "step,lr\n1,0,5\n2,0.25\n")
write("d.jsonl", '{"step": 1, "x": NaN, "y": "0.5", "z": -Infinity}\n{"step": 2, "x": .5}\n{"step": 2.5, "x": 9}\n')
write("e.jsonl", '{"epoch": 0.5, "w": 1}\n{"epoch": 1.0, "w": 2}\n{"epoch": 1.5, "w": 3}\n')
write("f.csv", "1,0.5\n2,0.25\n")
"#;
    let (sandbox, ended) = run("reads: { csv: [a.csv, b.csv, c.csv, f.csv], jsonl: [d.jsonl, e.jsonl] }", program);
    assert_eq!(curve(&sandbox, "loss"), [(1, 3.33e-6), (3, 0.5), (5, 1e-3)]);
    assert_eq!((curve(&sandbox, "acc"), curve(&sandbox, "lr")), (vec![(1, 0.5), (2, 95.0)], vec![(2, 0.25)]));
    assert_eq!((curve(&sandbox, "x"), curve(&sandbox, "w")), (vec![(2, 0.5)], vec![(1, 1.0), (2, 2.0), (3, 3.0)]));
    for words in [
        "`loss` is -inf at step 2",
        "row 1 of the CSV file has 3 cells and its header 2",
        "the first line of the CSV file has numbers",
        "`y` is a text",
        "`x` is NaN at step 1",
        "the step 2.5 in the JSON file is not an integer from 0: line skipped",
        "the step 0.5 in the JSON file is not an integer from 0: lines are counted",
    ] {
        assert_notice(&sandbox, &ended, words);
    }
}

#[test]
fn aggregates_are_those_of_all_points() {
    let order = "[(100, 0.5), (300, 0.9), (200, 0.7)]";
    let epochs = "[(step, 3 * epoch + step) for epoch in range(3) for step in range(3)]";
    for (points, how, value, step) in [
        (order, "max", 0.9, Some(300.0)),
        (order, "min", 0.5, Some(100.0)),
        (order, "last", 0.7, None),
        (order, "first", 0.5, None),
        (epochs, "mean", 4.0, None),
        (epochs, "max", 8.0, Some(2.0)),
        (epochs, "last", 8.0, None),
    ] {
        let reported = "import json, os\nreport = open(os.environ['SWEEP_REPORT'], 'a')\n";
        let program = format!(
            "{reported}for step, loss in {points}:\n    report.write(json.dumps(dict(step=step, loss=loss)) + '\\n')\n"
        );
        let (sandbox, ended) = run(&format!("metrics: {{ loss: {how} }}"), &program);
        assert_eq!((metric(&sandbox, "loss"), metric(&sandbox, "loss.step")), (Some(value), step), "{points} {how}");
        if points == order {
            assert_eq!(curve(&sandbox, "loss"), [(100, 0.5), (200, 0.7), (300, 0.9)]);
            assert_eq!(notices(&sandbox), Vec::<String>::new());
        } else {
            assert_eq!(curve(&sandbox, "loss"), [(0, 6.0), (1, 7.0), (2, 8.0)]);
            assert_notice(&sandbox, &ended, "`loss` has another value at step 0: its curve shows the newest");
        }
        for (kind, line) in [
            ("csv", "open('log', 'w').write('step,loss\\n' + ''.join('%s,%s\\n' % point for point in points))"),
            ("jsonl", "open('log', 'w').write(''.join(json.dumps(dict(step=a, loss=b)) + '\\n' for a, b in points))"),
            ("stdout", "[print('step', a, 'loss', b) for a, b in points]"),
        ] {
            let place = if kind == "stdout" { "'step {step} loss {loss}'" } else { "log" };
            let with = format!("metrics: {{ loss: {how} }}, reads: {{ {kind}: {place} }}");
            let (sandbox, _) = run(&with, &format!("import json\npoints = {points}\n{line}\n"));
            assert_eq!(metric(&sandbox, "loss"), Some(value), "{kind} {points} {how}");
        }
    }
}

#[test]
fn a_metrics_file_may_have_numbers_that_json_does_not_have() {
    let program = "
import json
values = dict(loss=0.5, grad=float('nan'), x=float('inf'), inner=dict(y=-float('inf'), z=3), none=None, name='nan?')
json.dump(values, open('metrics.json', 'w'))
";
    let (sandbox, ended) = run("metrics: metrics.json", program);
    let values = ["loss", "inner.z", "grad", "x", "inner.y", "none"].map(|name| metric(&sandbox, name));
    assert_eq!(values, [Some(0.5), Some(3.0), None, None, None, None]);
    for words in ["`grad` is NaN in `metrics.json`", "`x` is inf in", "`inner.y` is -inf in", "`none` is null in"] {
        assert_notice(&sandbox, &ended, words);
    }
}

#[test]
fn a_pipeline_fails_if_a_part_of_it_fails() {
    let step = |with: &str| Sandbox::with(&format!("steps: {{ a: {{ uses: command, with: {with} }} }}"));
    let fails = r#"{ run: "python3 -c 'print(\"loss=0.3\"); raise SystemExit(3)' | tee log.txt" }"#;
    for script in [
        fails,
        r#"{ run: "set -o pipefail; (exit 3) | cat" }"#,
        r#"{ run: "(exit 3) | cat", shell: bash }"#,
        r#"{ run: "x=$( (exit 3) | cat ); echo loss=1" }"#,
        r#"{ run: "eval '(exit 3) | cat'" }"#,
        r#"{ run: "(exit 3) | cat", shell: [bash, -euo, pipefail, -c] }"#,
    ] {
        let sandbox = step(script);
        let ended = sandbox.sweep(&["run", "recipe.yaml"]);
        assert_eq!(ended.code, Some(5), "{script}: {}", ended.stderr);
        assert!(sandbox.failure("a")["message"].as_str().unwrap().contains("exit code 3"), "{script}");
        assert!(sandbox.records().is_empty());
    }
    for script in [
        "{ run: '(exit 3) | cat; echo loss=1', shell: sh }",
        "{ run: 'echo loss=1 | cat' }",
        "{ run: 'set -o pipefail; echo loss=1' }",
    ] {
        let sandbox = step(script);
        let ended = sandbox.sweep(&["run", "recipe.yaml"]);
        assert_eq!((ended.code, metric(&sandbox, "loss")), (Some(0), Some(1.0)), "{script}: {}", ended.stderr);
    }
    let sandbox = step("{ run: 'yes | head -1' }");
    assert_eq!(sandbox.sweep(&["run", "recipe.yaml"]).code, Some(5));
    assert!(sandbox.failure("a")["message"].as_str().unwrap().contains("SIGPIPE"));
    for (with, words) in [
        ("{ run: 'a | b', shell: fish }", "`shell` has the unknown value `fish`"),
        ("{ run: 'a | b', shell: 'bash -c' }", "`[bash, -c]`"),
        ("{ run: 'a | b', shell: [] }", "`shell` is empty"),
        ("{ argv: [a], shell: bash }", "`shell` is the shell of `run`"),
    ] {
        let ended = step(with).sweep(&["plan", "recipe.yaml"]);
        assert!(ended.code == Some(3) && ended.stderr.contains(words), "{with}: {}", ended.stderr);
    }
}

#[test]
fn without_a_shell_that_can_a_pipeline_is_refused() {
    let recipe = |tools: &str| {
        format!(
            "steps: {{ a: {{ uses: command, with: {{ run: 'true | cat; echo loss=1', env: {{ PATH: {tools} }} }} }} }}"
        )
    };
    let sandbox = Sandbox::with("steps: {}");
    let tools = sandbox.path("tools");
    fs_err::create_dir(&tools).unwrap();
    for name in ["sh", "cat"] {
        std::os::unix::fs::symlink(format!("/bin/{name}"), tools.join(name)).unwrap();
    }
    sandbox.write("recipe.yaml", &recipe(&tools.display().to_string()));
    let ended = sandbox.sweep(&["run", "recipe.yaml"]);
    let knows =
        std::process::Command::new("/bin/sh").args(["-c", "set -o pipefail"]).output().unwrap().status.success();
    assert_eq!(ended.code, Some(if knows { 0 } else { 5 }), "{}", ended.stderr);
    if !knows {
        assert!(sandbox.failure("a")["message"].as_str().unwrap().contains("no `bash` on the PATH"));
    }
}

#[test]
fn only_scripts_with_pipes_have_another_revision() {
    let revision = |with: &str| {
        let sandbox = Sandbox::with(&format!("steps: {{ a: {{ uses: command, with: {with} }} }}"));
        let ended = sandbox.sweep(&["run", "recipe.yaml"]);
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        sandbox.records()["a"]["identity"]["revision"].as_u64().unwrap()
    };
    assert_eq!(revision("{ run: 'true || false' }"), 1);
    assert_eq!(revision("{ argv: [echo, 'a | b'] }"), 1);
    assert_eq!(revision("{ run: 'true | true' }"), 2);
    assert_eq!(revision("{ run: 'true | true', shell: sh }"), 1);
}

#[test]
fn series_that_a_recipe_uses_are_kept_beyond_the_limit() {
    let sandbox = Sandbox::with(
        "
steps:
  a:
    uses: command
    with: { argv: [python3, program.py], inputs: [program.py], metrics: { m400: max } }
  b: { uses: command, needs: [a], with: { run: 'echo got=$GOT', env: { GOT: \"${{ needs.a.metrics.m401 }}\" } } }
tables: { t: { from: a, cells: [m402] } }
figures: { f: { from: a, kind: line, x: iteration, y: m403 } }
claims: { c: { value: { metric: m404, of: { step: a } }, expect: { at_least: 1 } } }
",
    );
    sandbox.write(
        "program.py",
        "
import json, os
with open(os.environ['SWEEP_REPORT'], 'a') as report:
    for step in range(3):
        report.write(json.dumps(dict({'m%d' % i: i for i in range(500)}, step=step)) + '\\n')
    report.write(json.dumps({'f%d' % i: i for i in range(300)}) + '\\n')
",
    );
    let ended = sandbox.sweep(&["run", "recipe.yaml"]);
    assert_eq!(ended.code, Some(0), "{}{}", ended.stdout, ended.stderr);
    let values = ["m400", "m401", "m402", "m403", "m404"].map(|name| metric(&sandbox, name));
    assert_eq!(values, [400.0, 401.0, 402.0, 403.0, 404.0].map(Some));
    assert_eq!(sandbox.records()["b"]["outcome"]["metrics"]["got"]["value"], 401.0);
    assert_eq!(outcome(&sandbox)["curves"].as_object().unwrap().len(), 205);
    assert!(ended.stderr.contains("other names are left out: at most 200 names are kept"), "{}", ended.stderr);
}
