//! Spellings of values: the arguments of a program, and the names of jobs and values in commands.

use serde_json::{Value, json};

use crate::sandbox::Sandbox;

/// The only record of a recipe after its run.
fn only(sandbox: &Sandbox) -> Value {
    let ended = sandbox.sweep(&["run", "recipe.yaml"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let records = sandbox.records();
    assert_eq!(records.len(), 1);
    records.into_values().next().unwrap()
}

#[test]
fn numbers_reach_a_program_as_they_are_written() {
    let recipe = r#"
params: { dropout: 0.0, steps: 100 }
steps:
  a:
    uses: command
    matrix: { lr: [2.0], shift: [-0.00001] }
    with:
      argv: [sh, ./show.sh, "${{ matrix.lr }}", "--lr=${{ matrix.lr }}", 3.0, 4, 1e-3, "${{ matrix.shift }}", "5.0", "${{ flags }}"]
      params: { dropout: "${{ params.dropout }}", steps: "${{ params.steps }}", l: [1, -2e-6, 2.0], o: { s: "${{ matrix.shift }}" } }
      env: { LR: "${{ matrix.lr }}", TEXT: "x${{ matrix.lr }}" }
      inputs: [show.sh]
"#;
    let sandbox = Sandbox::with(recipe);
    sandbox.write("show.sh", "printf '%s|' \"$@\" $LR $TEXT; cat $SWEEP_PARAMS");
    let record = only(&sandbox);
    let log = sandbox.sweep(&["logs", "a/lr=2,shift=-1e-5"]).stdout;
    let (arguments, params) = log.trim_end().rsplit_once('|').unwrap();
    let expected = [
        "2.0",
        "--lr=2.0",
        "3.0",
        "4",
        "0.001",
        "-0.00001",
        "5.0",
        "--dropout",
        "0.0",
        "--l",
        "1",
        "-0.000002",
        "2.0",
        "--o.s",
        "-0.00001",
        "--steps",
        "100",
        "2.0",
        "x2.0",
    ];
    assert_eq!(arguments.split('|').collect::<Vec<_>>(), expected);
    assert_eq!(params, r#"{"dropout":0.0,"l":[1,-2.0e-6,2.0],"o":{"s":-0.00001},"steps":100}"#);
    // The key has one spelling of each number.
    let identity = &record["identity"]["params"];
    assert_eq!(
        identity["argv"],
        json!(["sh", "./show.sh", "2", "--lr=2", "3", "4", "0.001", "-1e-5", "5.0", "${{ flags }}"])
    );
    let canonical = json!({ "dropout": 0, "l": [1, -2e-6, 2], "o": { "s": -1e-5 }, "steps": 100 });
    assert_eq!(identity["params"], canonical);
    // Another spelling of the same numbers is the same job.
    let other =
        recipe.replace("lr: [2.0]", "lr: [2]").replace("dropout: 0.0", "dropout: 0").replace("-0.00001", "-1e-5");
    sandbox.write(
        "recipe.yaml",
        &other.replace(" 3.0, 4, 1e-3,", " 3, 4.0, 0.001,").replace("-2e-6, 2.0]", "-0.000002, 2]"),
    );
    sandbox.assert_all_cached(&["recipe.yaml"]);
}

#[test]
fn numbers_in_scripts_and_those_of_progressions_keep_their_type() {
    let recipe = r#"
steps:
  a:
    uses: command
    matrix: { x: { range: [0, 1, 0.5] }, n: { range: [1, 3] }, y: { linspace: [0, 1, 3] }, z: { logspace: [1, 100, 3] } }
    with: { run: "echo '${{ matrix.x }} ${{ matrix.n }} ${{ matrix.y }} ${{ matrix.z }}'" }
"#;
    let sandbox = Sandbox::with(recipe);
    let ended =
        sandbox.sweep(&["run", "recipe.yaml", "--only", "a/x=0,n=1,y=1,z=10", "--only", "a/x=0.5,n=2,y=0,z=100"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let log = |job: &str| sandbox.sweep(&["logs", job]).stdout;
    assert_eq!(log("a/x=0,n=1,y=1,z=10"), "0.0 1 1.0 10\n");
    assert_eq!(log("a/x=0.5,n=2,y=0,z=100"), "0.5 2 0.0 100\n");
}

#[test]
fn argparse_reads_negative_numbers_lists_and_floats() {
    let script = "
import argparse
parser = argparse.ArgumentParser()
parser.add_argument('--shift', type=float)
parser.add_argument('--list', type=float, nargs='*')
parser.add_argument('at', type=float)
args = parser.parse_args()
print('shift=%r' % args.shift)
print(args.list, args.at)
";
    let recipe = r#"
steps:
  a:
    uses: command
    matrix: { shift: [-1, -0.5, -0.00001, -1e-7, 2e-7] }
    with:
      argv: [python3, train.py, "${{ matrix.shift }}", "${{ flags }}"]
      params: { shift: "${{ matrix.shift }}", list: [1, -2e-6, -3.5] }
      inputs: [train.py]
"#;
    let sandbox = Sandbox::with(recipe);
    sandbox.write("train.py", script);
    let ended = sandbox.sweep(&["run", "recipe.yaml"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    for (typed, shift) in
        [("-1", "-1.0"), ("-0.5", "-0.5"), ("-0.00001", "-1e-05"), ("-1e-7", "-1e-07"), ("0.0000002", "2e-07")]
    {
        let log = sandbox.sweep(&["logs", &format!("a/shift={typed}")]).stdout;
        assert_eq!(log, format!("shift={shift}\n[1.0, -2e-06, -3.5] {shift}\n"));
    }
    sandbox.write("recipe.yaml", &recipe.replace("[1, -2e-6, -3.5]", "[]"));
    let ended = sandbox.sweep(&["run", "recipe.yaml", "--only", "a/shift=-1"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    sandbox.write("recipe.yaml", &recipe.replace("[1, -2e-6, -3.5]", r#"["-a", "b"]"#));
    let ended = sandbox.sweep(&["plan", "recipe.yaml"]);
    assert_eq!(ended.code, Some(3), "{}", ended.stderr);
    assert!(
        ended.stderr.contains("the item `-a` of the list `list` would be read as a separate flag"),
        "{}",
        ended.stderr
    );
}

#[test]
fn a_configurator_gets_the_types_of_its_defaults() {
    let configurator = "
import sys
from ast import literal_eval
for arg in sys.argv[1:]:
    key, val = arg.split('=')
    key = key[2:]
    try:
        attempt = literal_eval(val)
    except (SyntaxError, ValueError):
        attempt = val
    assert type(attempt) == type(globals()[key]), (key, attempt)
    globals()[key] = attempt
";
    let script = "
dropout = 0.0
compile = True
batch_size = 12
dataset = 'openwebtext'
config_keys = [k for k, v in globals().items() if not k.startswith('_') and isinstance(v, (int, float, bool, str))]
exec(open('configurator.py').read())
print(dropout, compile, batch_size, dataset)
";
    let sandbox = Sandbox::new();
    sandbox.write("train.py", script);
    sandbox.write("configurator.py", configurator);
    let ended = sandbox.sweep(&["init", "train.py", "--axis", "dropout=2.0", "--axis", "compile=false"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let recipe = sandbox.read("train.yaml");
    for line in ["flags: equals", "booleans: python", "dropout: [2.0]", "compile: [false]", "project: ."] {
        assert!(recipe.contains(line), "{line}: {recipe}");
    }
    let ended = sandbox.sweep(&["run", "train.yaml"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let label = sandbox.records().into_keys().next().unwrap();
    assert_eq!(sandbox.sweep(&["logs", &label]).stdout, "2.0 False 12 openwebtext\n");
}

#[test]
fn a_type_that_reads_only_python_decides_the_spelling_of_booleans() {
    let script = "
import argparse, ast
parser = argparse.ArgumentParser()
parser.add_argument('--amp', type=ast.literal_eval, default=True)
print(parser.parse_args().amp)
";
    let sandbox = Sandbox::new();
    sandbox.write("train.py", script);
    let ended = sandbox.sweep(&["init", "train.py", "--axis", "amp=true,false"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(sandbox.read("train.yaml").contains("booleans: python"), "{}", sandbox.read("train.yaml"));
    let ended = sandbox.sweep(&["run", "train.yaml"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert_eq!(sandbox.sweep(&["logs", "train/amp=true"]).stdout, "True\n");
    assert_eq!(sandbox.sweep(&["logs", "train/amp=false"]).stdout, "False\n");
}

#[test]
fn values_that_read_alike_are_a_mistake() {
    for matrix in [
        r#"{ v: ["1", 1] }"#,
        r#"{ v: ["true", true] }"#,
        r#"{ v: [null, "null"] }"#,
        r#"{ v: ["0.5", 0.5] }"#,
        r#"{ v: [[1, 2], ["1", 2]] }"#,
        r#"{ v: [1], include: [{ v: "1" }] }"#,
        r#"{ zip: { v: [1, "1"], w: [1, 2] } }"#,
        r#"{ random: { n: 9, axes: { v: { choice: [1, "1"] } } } }"#,
    ] {
        let recipe = format!("steps: {{ a: {{ uses: mock, matrix: {matrix}, if: matrix.v != 9 }} }}");
        let recipe = if matrix.contains("zip") { recipe.replace("!= 9", "!= 9 && matrix.w != 9") } else { recipe };
        let ended = Sandbox::with(&recipe).sweep(&["plan", "recipe.yaml"]);
        assert_eq!(ended.code, Some(3), "{matrix}: {}", ended.stderr);
        assert!(ended.stderr.contains("and another value with the same text"), "{matrix}: {}", ended.stderr);
    }
    let empty = Sandbox::with(r#"steps: { a: { uses: mock, matrix: { v: ["", null, 0] }, if: matrix.v != 9 } }"#);
    let ended = empty.sweep(&["run", "recipe.yaml", "--only", "a/v=null", "--only", "a/v="]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let other = r#"steps: { a: { uses: mock, matrix: { x: ["1", "1,y=2"], include: [{ x: "1", y: 2 }] }, if: matrix.x != matrix.y } }"#;
    let ended = Sandbox::with(other).sweep(&["plan", "recipe.yaml"]);
    assert_eq!(ended.code, Some(3), "{}", ended.stderr);
    assert!(ended.stderr.contains("two points of step `a` have the name `x=1,y=2`"), "{}", ended.stderr);
}

#[test]
fn jobs_are_named_by_value() {
    let sandbox = Sandbox::with(
        r#"
steps:
  a:
    uses: command
    matrix: { lr: [1e-4, 2.0, 1000000], betas: [[0.9, 0.95], [0.5, 0.99]] }
    with: { run: 'true', params: { lr: "${{ matrix.lr }}", betas: "${{ matrix.betas }}" } }
"#,
    );
    for (typed, label) in [
        ("lr=1e-4,betas=[0.9,0.95]", "lr=0.0001,betas=[0.9, 0.95]"),
        ("lr=0.0001,betas=[0.9, 0.95]", "lr=0.0001,betas=[0.9, 0.95]"),
        ("lr=2,betas=[0.90, 0.95]", "lr=2,betas=[0.9, 0.95]"),
        ("betas=[0.9, 0.95],lr=2.0", "lr=2,betas=[0.9, 0.95]"),
        ("lr=1e6,betas=[0.5, 0.99]", "lr=1000000,betas=[0.5, 0.99]"),
    ] {
        let typed = format!("a/{typed}");
        let typed = typed.as_str();
        let ended = sandbox.sweep(&["run", "recipe.yaml", "--only", typed]);
        assert_eq!(ended.code, Some(0), "{typed}: {}", ended.stderr);
        for command in [&["show", typed][..], &["explain", "recipe.yaml", typed]] {
            let ended = sandbox.sweep(command);
            assert_eq!(ended.code, Some(0), "{command:?}: {}", ended.stderr);
            assert!(ended.stdout.starts_with(&format!("a/{label} ")), "{command:?}: {}", ended.stdout);
        }
        assert_eq!(sandbox.sweep(&["logs", typed]).code, Some(0), "{typed}");
    }
    for axis in ["a.lr=1e-4", "a.lr=0.0001"] {
        assert_eq!(sandbox.plan_tally(&["recipe.yaml", "--axis", axis, "--only", "a/betas=[0.90,0.95]"]), (1, 0));
    }
    sandbox.write("sweep.yaml", "recipe: recipe.yaml\nonly: ['a/lr=1e-4,betas=[0.9, 0.950]']\n");
    assert_eq!(sandbox.plan_tally(&["sweep.yaml"]), (1, 0));
    let ended = sandbox.sweep(&["query", "recipe.yaml", "--where", "lr == 1e6", "--format", "csv"]);
    assert_eq!(ended.stdout.lines().count(), 2, "{}{}", ended.stdout, ended.stderr);
}

#[test]
fn a_text_on_the_command_line_is_the_text() {
    let sandbox = Sandbox::with(
        r#"{ params: { name: base }, steps: { a: { uses: command, with: { run: 'printf "name: %s\n" "$N"', env: { N: '${{ params.name }}' } } } } }"#,
    );
    let name = |set: &str| {
        let ended = sandbox.sweep(&["run", "recipe.yaml", "--set", set]);
        assert_eq!(ended.code, Some(0), "{set}: {}", ended.stderr);
        let ended = sandbox.sweep(&["logs", "a"]);
        ended.stdout.strip_prefix("name: ").unwrap().strip_suffix('\n').unwrap().to_owned()
    };
    for (typed, text) in [
        ("", ""),
        ("#x", "#x"),
        ("a: b", "a: b"),
        ("@x", "@x"),
        ("x #1", "x #1"),
        ("&x", "&x"),
        ("*x", "*x"),
        ("!x", "!x"),
        ("3 #x", "3 #x"),
        ("- x", "- x"),
        ("|", "|"),
        ("x:", "x:"),
        ("`x`", "`x`"),
        ("%x", "%x"),
        ("'1e-4'", "1e-4"),
        ("1e-4", "0.0001"),
        ("2.0", "2.0"),
        ("true", "true"),
        ("C:\\x", "C:\\x"),
    ] {
        assert_eq!(name(&format!("name={typed}")), text, "{typed}");
    }
    for (flag, typed) in [("--set", "name=[1, 2"), ("--set", "name=[&x]"), ("--axis", "a.v=&x"), ("--axis", "a.v=")] {
        let ended = sandbox.sweep(&["plan", "recipe.yaml", flag, typed]);
        assert_eq!(ended.code, Some(3), "{typed}: {}", ended.stderr);
    }
}

#[test]
fn params_that_reach_no_program_are_said() {
    let warns = |with: &str, files: &[(&str, &str)]| {
        let sandbox = Sandbox::with(&format!(
            "steps: {{ a: {{ uses: command, matrix: {{ lr: [0.1] }}, with: {{ {with}, params: {{ lr: '${{{{ matrix.lr }}}}', n: 3 }} }} }} }}"
        ));
        for (name, text) in files {
            sandbox.write(name, text);
        }
        let [plan, run] = ["plan", "run"].map(|command| sandbox.sweep(&[command, "recipe.yaml"]));
        assert_eq!((plan.code, run.code), (Some(0), Some(0)), "{}{}", plan.stderr, run.stderr);
        let [plan, run] = [plan, run].map(|ended| ended.stderr.contains("the `params` of `a` reach no program"));
        assert_eq!(plan, run, "{with}");
        plan
    };
    let train = "argv: [sh, train.sh], inputs: [train.sh]";
    assert!(warns(train, &[("train.sh", "true")]));
    assert!(warns("run: 'true'", &[]));
    assert!(warns("argv: ['true', '${{ matrix.lr }}']", &[]), "`n` is nowhere");
    assert!(!warns(train, &[("train.sh", "cat $SWEEP_PARAMS")]));
    assert!(!warns("argv: ['true', '${{ flags }}']", &[]));
    assert!(!warns("run: 'cat \"$SWEEP_PARAMS\"'", &[]));
    assert!(!warns(
        "run: 'sh tools/train.sh', inputs: [tools]",
        &[("tools/train.sh", "true"), ("tools/config.py", "import sweep")]
    ));
    assert!(!warns("argv: ['true', code], inputs: [code]", &[("code/a.py", "p = sweep.params(lr=1)")]));
}
