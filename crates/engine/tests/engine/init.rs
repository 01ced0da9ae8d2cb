//! `sweep new`: recipes from scripts, with real parsers and with scripts that misbehave.

mod files;
mod kinds;

use std::path::PathBuf;

use serde_json::{Value, json};

use crate::sandbox::{Ended, Sandbox};

/// A Python with click, Hydra, tyro, typer and other parsers: that of the folder in `SWEEP_PYTHON_PARSERS`, or of where
/// `scripts/python-deps.sh` installs it. Says so where there is none.
pub(crate) fn parsers() -> Option<String> {
    let made = || std::env::home_dir().map(|home| home.join(".cache/sweep/parsers"));
    let folder = std::env::var_os("SWEEP_PYTHON_PARSERS").map(PathBuf::from).or_else(made);
    let python = folder.map(|folder| folder.join("bin/python")).filter(|python| python.exists());
    if python.is_none() {
        eprintln!("not tested: scripts/python-deps.sh has not installed click, Hydra and other parsers");
    }
    python.map(|python| python.display().to_string())
}

/// Writes a recipe for a script.
fn init(sandbox: &Sandbox, args: &[&str]) -> Ended {
    sandbox.sweep(&[&["init"], args].concat())
}

/// Writes `train.yaml` for a script, and returns the parameters of its only job after its run.
fn params(sandbox: &Sandbox, args: &[&str]) -> Value {
    let ended = init(sandbox, args);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(ended.stderr.contains("next: sweep plan train.yaml"), "{}", ended.stderr);
    assert_eq!(sandbox.plan_tally(&["train.yaml"]), (0, 1), "it plans without an edit: {}", sandbox.read("train.yaml"));
    let ended = sandbox.sweep(&["run", "train.yaml"]);
    assert_eq!(ended.code, Some(0), "{}\n{}", ended.stderr, sandbox.read("train.yaml"));
    sandbox.records().into_values().next().unwrap()["params"].clone()
}

/// Every style of option of argparse; the script prints the values.
const ARGPARSE: &str = r#"
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--lr", "-l", type=float, default=3e-4, help="learning rate: %(default)s # \x1b[31m\n")
parser.add_argument("--optimizer", choices=["adamw", "sgd"], default="adamw")
parser.add_argument("--batch-size", type=int, default=32)
parser.add_argument("--compile", action="store_true")
parser.add_argument("--no-cuda", dest="cuda", action="store_false")
parser.add_argument("--amp", action=argparse.BooleanOptionalAction, default=True)
parser.add_argument("--flash", type=lambda text: text.lower() == "true", default=True)
parser.add_argument("--broken", type=bool, default=False)
parser.add_argument("--betas", type=float, nargs=2, default=[0.9, 0.95])
parser.add_argument("--init", help="a checkpoint")
parser.add_argument("--tag", action="append")
parser.add_argument("-v", action="count", default=0)
parser.add_argument("--hidden", help=argparse.SUPPRESS)
parser.add_argument("--prefix", default="--x")
parser.add_argument("--on", default="yes: # no")
parser.add_argument("--seed", type=int, default=1337)
parser.add_argument("--clip", type=float, default=float("inf"))
parser.add_argument("--empty", default="")
group = parser.add_mutually_exclusive_group()
group.add_argument("--cpu", action="store_true")
group.add_argument("--gpu", type=int, default=0)
args = parser.parse_args()
defaults = vars(parser.parse_args([]))
differ = {name: value for name, value in vars(args).items() if defaults[name] != value}
assert differ == {"seed": 0}, differ
print(f"lr={args.lr}")
"#;

#[test]
fn a_recipe_from_argparse_gives_the_script_its_defaults() {
    let sandbox = Sandbox::new();
    sandbox.write("train.py", ARGPARSE);
    let params = params(&sandbox, &["train.py"]);
    let expected = json!({ "lr": 0.0003, "optimizer": "adamw", "batch-size": 32, "seed": 0 });
    assert_eq!(params["params"], expected);
    assert_eq!(
        sandbox.records()["train/lr=0.0003,optimizer=adamw,batch-size=32,seed=0"]["outcome"]["metrics"]["lr"]["value"],
        0.0003
    );
    insta::assert_snapshot!(sandbox.read("train.yaml").replace("argv: [python3,", "argv: [python,"));
    // The axes are there: more values are one flag.
    assert_eq!(sandbox.plan_tally(&["train.yaml", "--axis", "lr=0.0003,0.001", "--axis", "seed=0,1"]), (1, 3));
}

#[test]
fn a_recipe_is_not_overwritten() {
    let sandbox = Sandbox::new();
    sandbox.write("train.py", "import argparse; argparse.ArgumentParser().parse_args()");
    sandbox.write("train.yaml", "mine");
    let ended = init(&sandbox, &["train.py"]);
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(2), ""));
    assert!(ended.stderr.contains("train.yaml exists and is not overwritten"), "{}", ended.stderr);
    assert_eq!(sandbox.read("train.yaml"), "mine");
    let ended = init(&sandbox, &["train.py", "--output", "other/x.yaml"]);
    assert_eq!(ended.code, Some(1), "the folder is not there: {}", ended.stderr);
    let ended = init(&sandbox, &["train.py", "-o", "x.yaml"]);
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), "x.yaml: 0 parameters, 1 job\n"), "{}", ended.stderr);
    assert_eq!(sandbox.plan_tally(&["x.yaml"]), (0, 1));
}

#[test]
fn commands_of_argparse_are_chosen_by_arguments() {
    let sandbox = Sandbox::new();
    let script = "import argparse\nparser = argparse.ArgumentParser()\ncommands = parser.add_subparsers(required=True, dest='do')\n\
                  train = commands.add_parser('train')\ntrain.add_argument('--lr', type=float, default=0.1)\n\
                  commands.add_parser('test')\nargs = parser.parse_args()\nprint(f'lr={args.lr}')\n";
    sandbox.write("train.py", script);
    let ended = init(&sandbox, &["train.py"]);
    assert_eq!(ended.code, Some(2));
    let expected = "error: train.py has the commands `train`, `test`; choose one: `sweep new train.py -- train`\n";
    assert_eq!(ended.stderr, expected);
    let params = params(&sandbox, &["train.py", "--", "train"]);
    assert_eq!(params["argv"][2], "train");
    assert_eq!(params["params"], json!({ "lr": 0.1 }));
}

#[test]
fn what_must_be_given_is_said() {
    let sandbox = Sandbox::new();
    let script = "import argparse\nparser = argparse.ArgumentParser()\nparser.add_argument('data')\n\
                  parser.add_argument('--steps', type=int, required=True)\n\
                  parser.add_argument('--kind', choices=['a', 'b'], required=True)\nparser.parse_args()\n";
    sandbox.write("train.py", script);
    let ended = init(&sandbox, &["train.py"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    for name in ["steps", "data"] {
        let note = format!("note: `{name}` has no default and must be given: replace its value\n");
        assert!(ended.stderr.contains(&note), "{}", ended.stderr);
    }
    let text = sandbox.read("train.yaml");
    assert!(text.contains("steps: REPLACE  # int; required") && text.contains("train.py, REPLACE,"), "{text}");
    assert_eq!(sandbox.plan_tally(&["train.yaml"]), (0, 1));
}

#[test]
fn parameters_of_click_and_typer() {
    let Some(python) = parsers() else { return };
    let sandbox = Sandbox::new();
    let script = "import click\n@click.command()\n@click.option('--lr', default=0.1, help='Rate.')\n\
                  @click.option('--opt', type=click.Choice(['a', 'b']), default='b')\n\
                  @click.option('--shout/--no-shout', default=True)\n@click.option('--fast', is_flag=True)\n\
                  @click.option('--pair', nargs=2, type=int, default=(1, 2))\n@click.option('--many', multiple=True)\n\
                  @click.version_option('1')\ndef main(**got):\n    \
                  assert got == dict(lr=0.1, opt='b', shout=True, fast=False, pair=(1, 2), many=()), got\nmain()\n";
    sandbox.write("train.py", script);
    let expected = json!({ "lr": 0.1, "opt": "b" });
    assert_eq!(params(&sandbox, &["train.py", "--python", &python])["params"], expected);

    let sandbox = Sandbox::new();
    let script = "import enum, typer\nclass Opt(str, enum.Enum):\n    adam = 'adam'\n    sgd = 'sgd'\n\
                  def main(lr: float = 0.1, opt: Opt = Opt.sgd, fast: bool = True):\n    \
                  assert (lr, opt, fast) == (0.1, Opt.sgd, True)\ntyper.run(main)\n";
    sandbox.write("train.py", script);
    let expected = json!({ "lr": 0.1, "opt": "sgd" });
    assert_eq!(params(&sandbox, &["train.py", "--python", &python])["params"], expected);
}

#[test]
fn parameters_of_hydra() {
    let Some(python) = parsers() else { return };
    let sandbox = Sandbox::new();
    let config = "lr: 0.1\nopt: { name: adam, betas: [0.9, 0.99], deep: { nesterov: true } }\nnothing: null\nout: ${opt.name}-x\n";
    sandbox.write("conf/config.yaml", config);
    let script = "import hydra\n@hydra.main(version_base=None, config_path='conf', config_name='config')\ndef main(config):\n    \
                  assert config.opt.betas == [0.9, 0.99] and config.opt.deep.nesterov is True and config.out == 'adam-x'\n    \
                  print(f'lr={config.lr}')\nif __name__ == '__main__':\n    main()\n";
    sandbox.write("train.py", script);
    let params = params(&sandbox, &["train.py", "--python", &python]);
    let expected = json!({ "lr": 0.1 });
    assert_eq!((&params["params"], &params["flags"]), (&expected, &json!("hydra")));
    assert!(sandbox.read("train.yaml").contains("project: .\n"));
}

#[test]
fn parameters_of_tyro() {
    let Some(python) = parsers() else { return };
    let sandbox = Sandbox::new();
    let script = "import dataclasses, enum, pathlib, tyro\nfrom typing import Literal, Optional, Tuple\n\
                  class Kind(enum.Enum):\n    A = 1\n    B = 2\n\
                  @dataclasses.dataclass\nclass Opt:\n    lr: float = 1e-3\n    \"\"\"Learning rate.\"\"\"\n    decay: bool = True\n\
                  @dataclasses.dataclass\nclass Config:\n    opt: Opt = dataclasses.field(default_factory=Opt)\n    \
                  data: pathlib.Path = pathlib.Path('a b')\n    size: Literal['s', 'm'] = 's'\n    kind: Kind = Kind.B\n    \
                  random_seed: int = 3  # The seed.\n    betas: Tuple[float, float] = (0.9, 0.95)\n    x: Optional[int] = None\n    \
                  fast: bool = False\nconfig = tyro.cli(Config)\nassert config == Config(random_seed=0), config\n";
    sandbox.write("train.py", script);
    let params = params(&sandbox, &["train.py", "--python", &python]);
    let expected = json!({ "opt.lr": 0.001, "size": "s", "kind": "B", "random_seed": 0 });
    assert_eq!(params["params"], expected);
    let text = sandbox.read("train.yaml");
    assert!(text.contains("float; Learning rate") && text.contains("one of A, B"), "{text}");
}

#[test]
fn parameters_of_the_module() {
    let sandbox = Sandbox::new();
    // The module's own tests run it; here only the call counts.
    sandbox.write(
        "sweep.py",
        "import json, os\ndef params(**defaults):\n    return {**defaults, **json.load(open(os.environ['SWEEP_PARAMS']))}\n",
    );
    let script = "import sweep\np = sweep.params(lr=1e-3, depth=4, sizes=[1, 2], name='x', none=None)\n\
                  assert p == dict(lr=1e-3, depth=4, sizes=[1, 2], name='x', none=None), p\n";
    sandbox.write("train.py", script);
    let params = params(&sandbox, &["train.py"]);
    assert_eq!(params["params"], json!({ "lr": 0.001, "depth": 4 }));
    assert_eq!(params["argv"].as_array().unwrap().len(), 2, "no flags: {params}");
}

/// The comments of a new recipe are valid recipes, too.
#[test]
fn suggestions_plan_without_their_comment_signs() {
    let sandbox = Sandbox::new();
    let script = "import argparse\nparser = argparse.ArgumentParser()\nparser.add_argument('--lr', type=float, default=0.1)\n\
                  parser.parse_args()\n";
    sandbox.write("train.py", script);
    assert_eq!(init(&sandbox, &["train.py"]).code, Some(0));
    let mut text = sandbox.read("train.yaml").replace("[0.1]  # [0.03, 0.1, 0.3]", "[0.03, 0.1, 0.3]");
    for key in ["reads:", "metrics:", "outputs:", "resources:", "figures:", "  loss:"] {
        assert_eq!(text.matches(&format!("# {key}")).count(), 1, "{key}: {text}");
        text = text.replace(&format!("# {key}"), key);
    }
    sandbox.write("train.yaml", &text);
    assert_eq!(sandbox.plan_tally(&["train.yaml"]), (0, 3), "{text}");
}

/// Each with a part of the reason that is given.
#[test]
fn scripts_without_parameters_get_a_recipe_with_a_comment() {
    let scripts = [
        ("while True: pass", "it has not read any within 1 s"),
        ("import time\nwhile True:\n    try: time.sleep(600)\n    except BaseException: pass", "within 1 s"),
        ("raise SystemExit(1)", "it ended with exit code 1 before it read any"),
        ("print('loss=1')", "it ended before it read any"),
        ("import os; os._exit(0)", "it ended before it read any"),
        ("import os, signal; signal.raise_signal(9)", "its process ended without an answer"),
        ("x = 1\nopen('marker', 'w').write('x')", "in line 2 it begins to work before it reads any"),
        ("open('/dev/shm/marker-of-sweep-new', 'w')", "in line 1 it begins to work before it reads any"),
        ("import subprocess; subprocess.run(['touch', 'marker'])", "in line 1 it begins to work"),
        ("import socket; socket.create_connection(('127.0.0.1', 9))", "in line 1 it begins to work"),
        ("1 / 0", "in line 1 it fails before it reads any: ZeroDivisionError"),
        ("raise ValueError('\\ud800\\x1b[31m\\n' * 100000)", "it fails before it reads any: ValueError"),
        ("print('x' * 30_000_000); import sys; sys.stderr.write('y' * 30_000_000)", "it ended before it read any"),
    ];
    for (script, why) in scripts {
        let sandbox = Sandbox::new();
        sandbox.write("train.py", script);
        let ended = init(&sandbox, &["train.py", "--timeout", "1"]);
        assert_eq!(
            (ended.code, ended.stdout.as_str()),
            (Some(0), "train.yaml: no parameters, 1 job\n"),
            "{}",
            ended.stderr
        );
        assert!(ended.stderr.contains(why), "{script}: {}", ended.stderr);
        let hostile = |char: char| char.is_control() && char != '\n';
        assert!(!ended.stderr.contains(hostile), "{}", ended.stderr);
        let text = sandbox.read("train.yaml");
        assert!(text.starts_with("# Written by `sweep new` for train.py, which shows no parameters"), "{text}");
        assert!(text.contains(", train.py]\n") && !text.contains(hostile), "{text}");
        assert_eq!(sandbox.plan_tally(&["train.yaml"]), (0, 1));
        assert!(!sandbox.path("marker").exists(), "{script}: nothing was written");
    }
}

#[test]
fn scripts_that_python_cannot_run_get_none() {
    let scripts = [
        ("import argparse\ndef f(:\n", "error: train.py:2: "),
        (
            "import os\nimport no_such_module\n",
            "error: train.py:2: No module named 'no_such_module'; install `no_such_module`",
        ),
    ];
    for (script, message) in scripts {
        let sandbox = Sandbox::new();
        sandbox.write("train.py", script);
        let ended = init(&sandbox, &["train.py"]);
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(2), ""));
        let last = ended.stderr.lines().last().unwrap_or_default();
        assert!(last.starts_with(message), "{}", ended.stderr);
        assert!(!sandbox.path("train.yaml").exists());
    }
    let sandbox = Sandbox::new();
    sandbox.write("notes.txt", "text");
    sandbox.write("train.py", "");
    for (args, message) in [
        (&["nothing.py"][..], "there is no script `nothing.py`"),
        (&["notes.txt"], "notes.txt is neither a Python script"),
        (&["train.py", "--python", "./notes.txt"], "is not a Python of version 3.8 or later; name one"),
    ] {
        let ended = init(&sandbox, args);
        assert_eq!(ended.code, Some(2), "{}", ended.stderr);
        assert!(ended.stderr.contains(message), "{}", ended.stderr);
    }
}

#[test]
fn a_program_of_another_kind_gets_a_recipe_too() {
    let sandbox = Sandbox::new();
    sandbox.write("train.sh", "#!/bin/sh\necho loss=2\n");
    let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs_err::set_permissions(sandbox.path("train.sh"), executable).unwrap();
    let params = params(&sandbox, &["train.sh"]);
    assert_eq!(params["argv"], json!(["./train.sh"]));
    assert_eq!(sandbox.records()["train"]["outcome"]["metrics"]["loss"]["value"], 2.0);
}

/// A parser before the parser has only a part of the parameters.
#[test]
fn a_parser_for_a_file_of_defaults_is_not_the_one() {
    let sandbox = Sandbox::new();
    let script = "import argparse\nfirst = argparse.ArgumentParser(add_help=False)\nfirst.add_argument('--config')\n\
                  known, rest = first.parse_known_args()\nparser = argparse.ArgumentParser(parents=[first])\n\
                  parser.add_argument('--depth', type=int, default=4)\nprint('depth=%d' % parser.parse_args(rest).depth)\n";
    sandbox.write("train.py", script);
    assert_eq!(params(&sandbox, &["train.py"])["params"], json!({ "depth": 4 }));
}
