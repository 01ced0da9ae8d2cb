//! Curves of programs that do not know of `sweep`: logs in CSV, JSON Lines, `TensorBoard`'s event files and standard output.

use serde_json::Value;

use crate::sandbox::{Sandbox, until};

/// A job whose script is a Python program, with these `reads`.
fn sandbox(reads: &str, program: &str) -> Sandbox {
    let sandbox = Sandbox::with(&format!(
        "steps: {{ a: {{ uses: command, with: {{ argv: [python3, program.py], inputs: [program.py], reads: {reads} }} }} }}"
    ));
    sandbox.write("program.py", program);
    sandbox
}

fn run(reads: &str, program: &str) -> (Sandbox, Value) {
    let sandbox = sandbox(reads, program);
    let ended = sandbox.sweep(&["run", "recipe.yaml"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let outcome = sandbox.records()["a"]["outcome"].clone();
    (sandbox, outcome)
}

fn curve(outcome: &Value, name: &str) -> Vec<(u64, f64)> {
    let curve = &outcome["curves"][name];
    let at = curve["at"].as_array().unwrap_or_else(|| panic!("no curve {name}: {outcome:#}"));
    let values = curve["values"].as_array().unwrap();
    at.iter().zip(values).map(|(at, value)| (at.as_u64().unwrap(), value.as_f64().unwrap())).collect()
}

fn notes(sandbox: &Sandbox) -> String {
    let notes = sandbox.journal("note");
    notes.iter().map(|line| line["event"]["note"]["text"].as_str().unwrap().to_owned() + "\n").collect()
}

#[test]
fn csv_with_quotes_new_columns_and_gaps() {
    let program = r#"
with open("log.csv", "w", newline="") as log:
    log.write('epoch,step,"train ""loss""",comment\r\n')
    log.write('0,10,2.5,"a,\nb"\r\n0,20,2.0,\r\n')
    log.write('epoch,step,"train ""loss""",comment,val_loss\r\n')
    log.write('1,30,,,3.5\r\n1,40.0,1.5,x,nan\r\nbroken,x,1,2,3\r\n1,50,1.25,,2.5')
"#;
    let (sandbox, outcome) = run("{ csv: log.csv }", program);
    assert_eq!(curve(&outcome, "train \"loss\""), [(10, 2.5), (20, 2.0), (40, 1.5), (50, 1.25)]);
    assert_eq!(curve(&outcome, "val_loss"), [(30, 3.5), (50, 2.5)]);
    assert_eq!(outcome["metrics"]["val_loss"]["value"], 2.5);
    assert!(outcome["curves"]["step"].is_null() && outcome["curves"]["comment"].is_null());
    assert!(notes(&sandbox).contains("is not an integer"), "{}", notes(&sandbox));
}

#[test]
fn a_csv_that_is_written_anew_is_read_anew() {
    // As Lightning's logger does it when a column is added.
    let program = r#"
import time
open("log.csv", "w").write("step,loss\n1,5\n2,4\n")
time.sleep(0.5)
open("log.csv", "w").write("step,acc,loss\n1,,5\n2,,4\n3,0.5,3\n")
time.sleep(0.3)
"#;
    let (_, outcome) = run("{ csv: log.csv }", program);
    assert_eq!(curve(&outcome, "loss"), [(1, 5.0), (2, 4.0), (3, 3.0)]);
    assert_eq!(curve(&outcome, "acc"), [(3, 0.5)]);
}

#[test]
fn json_lines_with_any_name_of_the_step() {
    let program = r#"
import json
with open("a.jsonl", "w") as a, open("b.jsonl", "w") as b:
    for step in range(3):
        a.write(json.dumps({"global_step": step, "epoch": 0, "eval": {"loss": 3 - step}, "name": "x", "time_ms": 5}) + "\n")
        b.write(json.dumps({"rate": step / 2}) + "\n")
    a.write(json.dumps({"best": 1.0}) + "\nno json\n{\"global_step\": 9, \"tor")
"#;
    let (sandbox, outcome) = run("{ jsonl: [a.jsonl, b.jsonl] }", program);
    assert_eq!(curve(&outcome, "eval.loss"), [(0, 3.0), (1, 2.0), (2, 1.0)]);
    assert_eq!(curve(&outcome, "rate"), [(1, 0.0), (2, 0.5), (3, 1.0)]);
    assert_eq!(outcome["metrics"]["best"]["value"], 1.0);
    assert_eq!(outcome["metrics"]["time_ms"], serde_json::json!({ "value": 5.0, "unit": "ms" }));
    assert!(notes(&sandbox).contains("not an object"), "{}", notes(&sandbox));
}

#[test]
fn files_that_are_json_as_a_whole() {
    let program = r#"
import json, time
history = {"loss": [3.0, 2.0, 1.0], "val": {"loss": [5.0, 4.0, 3.5]}, "best": 1.0}
state = {"epoch": 1.0, "best_metric": 0.25, "log_history": [{"step": s * 10, "eval_loss": 1 / s} for s in (1, 2)]}
for name, value in [("history", history), ("state", state), ("rows", [{"epoch": e, "acc": e / 4} for e in (1, 2)]), ("end", {"f1": {"macro": 0.5}})]:
    json.dump(value, open(name + ".json", "w"), indent=2)
open("torn.json", "w").write('{"epoch": 0, "to\n{"epoch": 1, "whole": 7}\n')
open("broken.json", "w").write('{\n  "lost": 0.5')
"#;
    let files = "{ jsonl: [history.json, state.json, rows.json, end.json, torn.json, broken.json] }";
    let (sandbox, outcome) = run(files, program);
    assert_eq!(curve(&outcome, "loss"), [(1, 3.0), (2, 2.0), (3, 1.0)]);
    assert_eq!(curve(&outcome, "val.loss"), [(1, 5.0), (2, 4.0), (3, 3.5)]);
    assert_eq!(curve(&outcome, "eval_loss"), [(10, 1.0), (20, 0.5)]);
    assert_eq!(curve(&outcome, "acc"), [(1, 0.25), (2, 0.5)]);
    assert_eq!(curve(&outcome, "whole"), [(1, 7.0)]);
    for (name, value) in [("best", 1.0), ("best_metric", 0.25), ("f1.macro", 0.5)] {
        assert_eq!(outcome["metrics"][name]["value"], value, "{name}");
    }
    assert!(outcome["metrics"]["epoch"].is_null(), "{outcome}");
    let notes = notes(&sandbox);
    assert!(notes.contains("has a line that is not an object") && notes.contains("`broken.json`"), "{notes}");
}

#[test]
fn numbers_of_standard_output_by_a_pattern() {
    let program = r#"
import sys
for step in range(4):
    print("\033[1mstep %d of 4\033[0m | loss %.2f | lr 1e-3" % (step, 4 - step / 2), flush=True)
    sys.stdout.buffer.write(b"\xff\xfe\x00 noise\n")
print("final=7")
"#;
    let (_, outcome) = run(r"{ stdout: 'step (?<step>\d+) .*loss (?<loss>[\d.]+).* lr (?<lr>\S+)' }", program);
    assert_eq!(curve(&outcome, "loss"), [(0, 4.0), (1, 3.5), (2, 3.0), (3, 2.5)]);
    assert_eq!(
        (&outcome["metrics"]["lr"]["value"], &outcome["metrics"]["final"]["value"]),
        (&0.001.into(), &7.0.into())
    );
}

/// Writes event files as TensorFlow defines them, without any package.
const EVENTS: &str = r#"
import os, struct, sys
def table():
    for n in range(256):
        for _ in range(8):
            n = (n >> 1) ^ 0x82f63b78 if n & 1 else n >> 1
        yield n
TABLE = list(table())
def crc(data):
    c = 0xffffffff
    for b in data:
        c = (c >> 8) ^ TABLE[(c ^ b) & 255]
    c ^= 0xffffffff
    return struct.pack("<I", (((c >> 15) | (c << 17)) + 0xa282ead8) & 0xffffffff)
def record(data):
    size = struct.pack("<Q", len(data))
    return size + crc(size) + data + crc(data)
def varint(n):
    out = b""
    while n > 127:
        out += bytes([n & 127 | 128])
        n >>= 7
    return out + bytes([n])
def part(field, data):
    return varint(field << 3 | 2) + varint(len(data)) + data
def event(step, tag, value, tensor=False):
    if tensor:
        body = part(8, b"\x08\x01" + part(2, b"") + varint(5 << 3 | 5) + struct.pack("<f", value))
    else:
        body = varint(2 << 3 | 5) + struct.pack("<f", value)
    return record(b"\x09" + struct.pack("<d", 1e9) + b"\x10" + varint(step) + part(5, part(1, part(1, tag.encode()) + body)))
HEAD = record(b"\x09" + struct.pack("<d", 1e9) + part(3, b"brain.Event:2"))
"#;

#[test]
fn event_files_in_subfolders() {
    let program = EVENTS.to_owned()
        + r#"
run = "runs/Nov22_11-04-07_host"
os.makedirs(run + "/validation")
with open(run + "/events.out.tfevents.1.host", "wb") as file:
    file.write(HEAD + b"".join(event(step, "loss", 4 - step) for step in range(3)))
    file.write(record(b"x" * 5_000_000))
    broken = bytearray(event(3, "loss", 99))
    broken[-6] ^= 1
    file.write(bytes(broken) + event(4, "loss", 0.5) + event(5, "loss", 0.25)[:-3])
with open(run + "/events.out.tfevents.2.host", "wb") as file:
    file.write(HEAD + event(1, "lr", 0.5, tensor=True))
with open(run + "/validation/events.out.tfevents.3.host", "wb") as file:
    file.write(HEAD + event(2, "loss", 8, tensor=True))
"#;
    let (sandbox, outcome) = run("{ tensorboard: runs/ }", &program);
    assert_eq!(curve(&outcome, "loss"), [(0, 4.0), (1, 3.0), (2, 2.0), (4, 0.5)]);
    assert_eq!(curve(&outcome, "lr"), [(1, 0.5)]);
    assert_eq!(curve(&outcome, "validation/loss"), [(2, 8.0)]);
    assert!(notes(&sandbox).contains("damaged record"), "{}", notes(&sandbox));
}

#[test]
fn event_files_of_the_package_itself() {
    let program = r#"
from tensorboard.compat.proto import event_pb2, summary_pb2, tensor_pb2, types_pb2
from tensorboard.summary.writer.event_file_writer import EventFileWriter
writer = EventFileWriter("runs/Nov22_10-00-00_host")
Value = summary_pb2.Summary.Value
for step in range(3):
    tensor = tensor_pb2.TensorProto(dtype=types_pb2.DT_FLOAT, float_val=[step / 4])
    values = [Value(tag="loss", simple_value=5 - step), Value(tag="acc", tensor=tensor)]
    writer.add_event(event_pb2.Event(step=step, summary=summary_pb2.Summary(value=values)))
writer.close()
"#;
    let python = crate::exports::python();
    let recipe = format!(
        "steps: {{ a: {{ uses: command, with: {{ argv: [{}, program.py], inputs: [program.py], reads: {{ tensorboard: runs/ }} }} }} }}",
        python.display()
    );
    let sandbox = Sandbox::with(&recipe);
    sandbox.write("program.py", program);
    let ended = sandbox.sweep(&["run", "recipe.yaml"]);
    if ended.stderr.contains("ModuleNotFoundError") {
        eprintln!("not run: Python does not have tensorboard");
        return;
    }
    let outcome = sandbox.records()["a"]["outcome"].clone();
    assert_eq!(curve(&outcome, "loss"), [(0, 5.0), (1, 4.0), (2, 3.0)]);
    assert_eq!(curve(&outcome, "acc"), [(0, 0.0), (1, 0.25), (2, 0.5)]);
}

#[test]
fn what_sweep_exports_it_reads() {
    let sandbox = Sandbox::with("steps: { a: { uses: mock, with: { seconds: 0.1 } } }");
    assert_eq!(sandbox.sweep(&["run", "recipe.yaml"]).code, Some(0));
    let ended = sandbox.sweep(&["export", "tensorboard", "recipe.yaml", "--output", "tb"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let recipe =
        "steps: { b: { uses: command, with: { run: 'cp -rL tb copy', inputs: [tb], reads: { tensorboard: copy } } } }";
    sandbox.write("again.yaml", recipe);
    let ended = sandbox.sweep(&["run", "again.yaml"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let records = sandbox.records();
    assert!(!records["b"]["outcome"]["curves"].as_object().unwrap().is_empty(), "{records:#?}");
}

#[test]
fn hostile_logs_neither_crash_nor_block() {
    let program = EVENTS.to_owned()
        + r#"
import random
noise = random.Random(1).randbytes(3_000_000)
for name in ["a.csv", "b.jsonl", "noise.tfevents.1"]:
    open(name, "wb").write(noise)
open("long.csv", "wb").write(b"step,x\n1," + b"9" * 100_000_000 + b"\n2,3\n")
open("deep.jsonl", "w").write("[" * 200_000 + "\n" + '{"step": 1, "x": ' + '{"a":' * 100_000 + "1" + "}" * 100_001 + '\n{"step": 2, "y": 3}\n')
size = (1 << 63).to_bytes(8, "little")
open("huge.tfevents.1", "wb").write(HEAD + event(1, "z", 2) + size + crc(size) + b"x" * 100)
os.mkdir("folder.csv")
os.mkfifo("pipe.jsonl")
os.makedirs("loop")
os.symlink("..", "loop/up")
"#;
    let reads = "{ csv: [a.csv, long.csv, folder.csv, missing.csv], jsonl: [b.jsonl, deep.jsonl, pipe.jsonl], tensorboard: [., loop, noise.tfevents.1] }";
    let (_, outcome) = run(reads, &program);
    assert_eq!(curve(&outcome, "y"), [(2, 3.0)]);
    assert_eq!(curve(&outcome, "z"), [(1, 2.0)]);
    assert_eq!(outcome["metrics"]["x"]["value"], 3.0);
}

#[test]
fn curves_grow_while_the_program_runs() {
    let program = r#"
import os, time
log = open("log.csv", "w")
log.write("step,loss\n1,5\n")
log.flush()
while not os.path.exists(os.path.join(os.environ["SWEEP_SCRATCH"], "go")):
    time.sleep(0.02)
"#;
    let sandbox = sandbox("{ csv: log.csv }", program);
    let engine = sandbox.start(&["run", "recipe.yaml"]);
    until("its progress is in the journal", || {
        sandbox
            .journal("progress")
            .iter()
            .map(|line| line["event"]["progress"]["progress"]["series"][0].clone())
            .any(|series| series["name"] == "loss" && series["value"] == 5.0)
    });
    let scratch = crate::sandbox::list(&sandbox.path("results/store/partial")).pop().unwrap();
    fs_err::write(scratch.join("go"), "").unwrap();
    assert_eq!(engine.wait().code, Some(0));
}

#[test]
fn mistakes_in_reads_are_found_when_planning() {
    for (reads, words) in [
        (r"{ stdout: 'loss (?<loss>' }", "unclosed group"),
        (r"{ stdout: 'loss (\d+)' }", "no group has the name of a metric"),
        ("{ csv: ../log.csv }", "not inside the job's folder"),
        ("{ csv: /tmp/log.csv }", "not inside the job's folder"),
        ("{ wandb: x }", "`reads` has no kind `wandb`"),
        ("{ csv: 3 }", "expected text"),
    ] {
        let sandbox = sandbox(reads, "");
        let ended = sandbox.sweep(&["plan", "recipe.yaml"]);
        assert!(ended.code == Some(3) && ended.stderr.contains(words), "{reads}: {}", ended.stderr);
    }
}

#[test]
fn numbers_of_programs_without_a_metric_are_named_with_patterns() {
    let recipe = |reads: &str| {
        format!(
            "steps: {{ a: {{ uses: command, with: {{ argv: [python3, program.py], inputs: [program.py]{reads} }} }} }}"
        )
    };
    let sandbox = Sandbox::with(&recipe(""));
    sandbox.write("program.py", "for step in range(3):\n    print('step %d: val loss %.1f' % (step, 3 - step))\n");
    let stderr = sandbox.sweep(&["run", "recipe.yaml"]).stderr;
    assert!(stderr.contains("the jobs of `a` report no metric, and print numbers"), "{stderr}");
    let pattern = stderr.lines().find_map(|line| line.trim().split_once("  (`val_loss` from step 2: val loss 1.0)"));
    let pattern = pattern.unwrap_or_else(|| panic!("{stderr}")).0;
    sandbox.write("recipe.yaml", &recipe(&format!(", reads: {{ stdout: [{pattern}] }}")));
    let ended = sandbox.sweep(&["run", "recipe.yaml"]);
    assert!(!ended.stderr.contains("no metric"), "{}", ended.stderr);
    let record = sandbox.sweep(&["show", "a"]).stdout;
    assert!(record.contains("val_loss: 1"), "{record}");
}

#[test]
fn json_in_one_line_is_a_document_unless_other_lines_follow() {
    let document = "import json\njson.dump({'val_acc': [0.1, 0.6], 'best': 0.6}, open('log.json', 'w'))\n";
    let (_, outcome) = run("{ jsonl: log.json }", document);
    assert_eq!(curve(&outcome, "val_acc").iter().map(|(_, value)| *value).collect::<Vec<_>>(), [0.1, 0.6]);
    let lines = "import json\nwith open('log.json', 'w') as log:\n    for step in (1, 2):\n        \
                 print(json.dumps({'step': step, 'loss': 3 - step, 'classes': [1, 2]}), file=log)\n";
    let (_, outcome) = run("{ jsonl: log.json }", lines);
    assert_eq!(curve(&outcome, "loss"), [(1, 2.0), (2, 1.0)]);
    let cut = r#"open('log.json', 'w').write('{"step": 1, "loss": 2, "classes": [3, 4]}\n{"step": 2, "lo')"#;
    let (_, outcome) = run("{ jsonl: log.json }", cut);
    assert!(curve(&outcome, "loss") == [(1, 2.0)] && outcome["curves"]["classes"].is_null(), "{outcome:#}");
}

#[test]
fn steps_with_commas_between_thousands_are_steps() {
    let program = "for step in (500, 1500, 2500):\n    print('step {:,}: loss {:.1f}'.format(step, 3000 / step))\n";
    let (_, outcome) = run("{ stdout: 'step {step}: loss {loss}' }", program);
    assert_eq!(curve(&outcome, "loss"), [(500, 6.0), (1500, 2.0), (2500, 1.2)]);
}

#[test]
fn a_csv_with_a_row_for_each_metric_has_their_names() {
    let program = "open('r.csv', 'w').write('metric,value\\naccuracy,0.6\\nf1,0.1\\n')\n";
    let (_, outcome) = run("{ csv: r.csv }", program);
    assert_eq!([&outcome["metrics"]["accuracy"]["value"], &outcome["metrics"]["f1"]["value"]], [0.6, 0.1]);
    let program = "open('r.csv', 'w').write('metric,value\\nf1,n/a\\n')\n";
    let (sandbox, _) = run("{ csv: r.csv }", program);
    assert!(notes(&sandbox).contains("`f1` is `n/a`"), "{}", notes(&sandbox));
    let program = "open('r.csv', 'w').write('dataset,accuracy\\nmnist,0.9\\ncifar,0.5\\n')\n";
    let (sandbox, outcome) = run("{ csv: r.csv }", program);
    assert_eq!(outcome["metrics"]["accuracy"]["value"], 0.5);
    let notes = notes(&sandbox);
    assert!(notes.contains("about different `dataset` (`mnist`, `cifar`), and the last one counts"), "{notes}");
}
