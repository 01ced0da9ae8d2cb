//! `sweep query`: rows, columns, order and formats.

use std::process::Command;

use serde_json::{Value, json};

use crate::{messages::Transcript, sandbox::Sandbox};

const STUDY: &str = "\
name: asked
steps:
  a:
    uses: mock
    matrix: { value: [0.5, -1, 2], variant: [0, 1] }
    if: matrix.value != 2 || matrix.variant == 0
  b: { uses: mock, matrix: { text: ['=cmd', 'say \"hi\", you'] }, with: { value: 7, text: '${{ matrix.text }}' } }
";

fn asked() -> Sandbox {
    let sandbox = Sandbox::with(STUDY);
    let ended = sandbox.sweep(&["run", "recipe.yaml"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    sandbox
}

fn ask(sandbox: &Sandbox, args: &[&str]) -> String {
    let ended = sandbox.sweep(&[&["query"], args].concat());
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    ended.stdout
}

/// The list of an answer in JSON.
fn records(sandbox: &Sandbox, args: &[&str]) -> Value {
    let mut answer: Value = serde_json::from_str(&ask(sandbox, args)).unwrap();
    answer["records"].take()
}

#[test]
fn rows_and_columns_of_a_recipe() {
    let sandbox = asked();
    insta::assert_snapshot!(ask(&sandbox, &["recipe.yaml"]));
    insta::assert_snapshot!(
        "csv",
        ask(
            &sandbox,
            &[
                "recipe.yaml",
                "--select",
                "step,axes.text,metrics.value,variant",
                "--sort",
                "-value,variant",
                "--format",
                "csv"
            ]
        )
    );
}

#[test]
fn conditions_and_order_over_all_records() {
    let sandbox = asked();
    let args = [
        "--where",
        "value < 1 && variant == 1",
        "--sort",
        "value",
        "--select",
        "value,variant,task",
        "--format",
        "json",
    ];
    let rows = records(&sandbox, &args);
    let expected = json!([
        { "value": -1.0, "variant": 1, "task": "mock" },
        { "value": 0.5, "variant": 1, "task": "mock" },
    ]);
    assert_eq!(rows, expected);
    let args = ["--where", "text == '=cmd'", "--select", "label,text", "--format", "csv"];
    assert_eq!(ask(&sandbox, &args), "label,text\nb/text==cmd,'=cmd\n", "no formula");
    let args = [
        "--where",
        "value > 0",
        "--where",
        "text == null",
        "--limit",
        "2",
        "--select",
        "value",
        "--sort=-value",
        "--format",
        "csv",
    ];
    assert_eq!(ask(&sandbox, &args), "value\n2\n0.5\n");
    let args = ["--where", "text > 3", "--format", "json"];
    assert_eq!(sandbox.sweep(&[&["query"], &args[..]].concat()).code, Some(2), "texts and numbers have no order");
    assert_eq!(records(&sandbox, &["--where", "value > 1000", "--format", "json"]), json!([]));
}

#[test]
fn what_is_not_there_is_said() {
    let sandbox = asked();
    let stderr = |args: &[&str]| {
        let ended = sandbox.sweep(&[&["query"], args].concat());
        assert_eq!(ended.code, Some(2), "{}", ended.stdout);
        ended.stderr
    };
    let mut said = Transcript::default();
    for args in [["--select", "valeu"], ["--where", "text == cmd"], ["--where", "value <"]] {
        said.add(&args.join(" "), &stderr(&args));
    }
    assert_message!(said);
}

/// A record that comes or goes while nobody asks is in the next answer, or not.
#[test]
fn answers_follow_the_store() {
    let sandbox = asked();
    let count = || ask(&sandbox, &["--select", "key", "--format", "csv"]).lines().count() - 1;
    assert_eq!(count(), 7);
    assert!(sandbox.path("results/store/measured.jsonl").is_file());
    sandbox.write("recipe.yaml", &STUDY.replace("[0.5, -1, 2]", "[0.5, -1, 2, 3]"));
    sandbox.sweep(&["run", "recipe.yaml"]);
    assert_eq!(count(), 9);
    sandbox.write("results/store/measured.jsonl", "noise\n");
    assert_eq!(count(), 9);
    let key = ask(&sandbox, &["--select", "key", "--limit", "1", "--format", "csv"]);
    let key = key.lines().nth(1).unwrap();
    fs_err::remove_dir_all(sandbox.path(&format!("results/store/{}/{key}", &key[..2]))).unwrap();
    assert_eq!(count(), 8);
}

/// Read back by pyarrow where Python has it, and in any case by the crate that wrote it.
#[test]
fn parquet_can_be_read() {
    let sandbox = asked();
    let args = [
        "recipe.yaml",
        "--format",
        "parquet",
        "--output",
        "out.parquet",
        "--select",
        "step,metrics.value,text,variant,seconds",
    ];
    ask(&sandbox, &args);
    let reader = parquet::file::reader::SerializedFileReader::new(
        fs_err::File::open(sandbox.path("out.parquet")).unwrap().into_file(),
    );
    let reader = reader.unwrap();
    let rows: Vec<String> = parquet::file::reader::FileReader::get_row_iter(&reader, None)
        .unwrap()
        .map(|row| {
            row.unwrap()
                .get_column_iter()
                .filter(|(name, _)| *name != "seconds")
                .map(|(name, field)| format!("{name}={field}"))
                .collect::<Vec<_>>()
                .join(" ")
        })
        .collect();
    assert_eq!(rows.len(), 7);
    assert_eq!(rows[1], "step=\"a\" metrics.value=0.5 text=null variant=1");
    assert_eq!(rows[6], "step=\"b\" metrics.value=7.0 text=\"say \"hi\", you\" variant=null", "{rows:?}");
    let script = "import pyarrow.parquet as p\nt = p.read_table('out.parquet')\nprint(t.schema.field('metrics.value').type, t.schema.field('variant').type, t.schema.field('step').type, t.num_rows, t.schema.metadata[b'sweep.units'].decode())";
    let output = Command::new("python3").args(["-c", script]).current_dir(sandbox.path(".")).output();
    match output {
        Ok(output) if output.status.success() => {
            assert_eq!(String::from_utf8_lossy(&output.stdout), "double int64 string 7 {\"seconds\":\"s\"}\n");
        }
        Ok(output) => eprintln!("pyarrow was not asked: {}", String::from_utf8_lossy(&output.stderr).trim()),
        Err(error) => eprintln!("pyarrow was not asked: python3 cannot be started: {error}"),
    }
}

#[test]
fn an_empty_answer_is_a_sentence_a_header_or_an_empty_list() {
    let sandbox = asked();
    let none = ["--where", "value > 1000", "--select", "label,value"];
    assert_eq!(ask(&sandbox, &none), "None of 7 records matches.\n");
    assert_eq!(ask(&sandbox, &[&none[..], &["--format", "csv"]].concat()), "label,value\n");
    assert_eq!(records(&sandbox, &[&none[..], &["--format", "json"]].concat()), json!([]));
    let empty = Sandbox::new();
    assert_eq!(ask(&empty, &[]), "There are no records to answer from.\n");
    assert_eq!(records(&empty, &["--format", "json"]), json!([]));
    ask(&empty, &["--format", "json", "--output", "answer.json"]);
    assert_eq!(empty.read("answer.json"), "[\n]\n", "a file is a list, for other programs");
}

/// A row for each point, with what tells the jobs apart.
#[test]
fn curves_are_a_long_table() {
    let sandbox = crate::exports::finished();
    let args = ["recipe.yaml", "--backend", "cpu"];
    let csv = |more: &[&str]| ask(&sandbox, &[&args[..], more, &["--format", "csv"]].concat());
    let all = csv(&["--curves", "--where", "prune == 'none'"]);
    let expected = "label,prune,series,at,value\ntrain/prune=none,none,loss,10,4\n\
                    train/prune=none,none,loss,20,3.25\ntrain/prune=none,none,loss,300,2.5\n";
    assert_eq!(all, expected);
    assert_eq!(csv(&["--curves=loss"]).lines().count(), 7);
    assert_eq!(csv(&["--curves=loss", "--limit", "1", "--select", "prune"]).lines().count(), 4);
    let ended = sandbox.sweep(&[&["query"], &args[..], &["--curves=los"]].concat());
    assert_eq!(ended.code, Some(2));
    assert!(ended.stderr.contains("no record has `los`; did you mean `loss`?"), "{}", ended.stderr);
    let ended = ask(&asked(), &["--curves", "--format", "csv"]);
    assert_eq!(ended, "label,text,params.value,variant,series,at,value\n", "no curves");
}
