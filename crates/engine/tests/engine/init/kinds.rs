//! Kinds of scripts: what their syntax trees show is what a run shows, and their recipes give them their parameters.

use std::{collections::BTreeMap, path::PathBuf, process::Command};

use serde_json::{Value, json};

use super::parsers;
use crate::sandbox::{Ended, Sandbox, repository};

/// The folder with scripts of all kinds, and with the program that compares both ways to read them.
fn testdata() -> PathBuf {
    repository().join("crates/engine/tests/engine/testdata")
}

/// A script of that folder.
fn script(name: &str) -> String {
    fs_err::read_to_string(testdata().join("scripts").join(name)).unwrap()
}

#[test]
fn a_syntax_tree_shows_what_a_run_shows() {
    let mut command = Command::new("python3");
    command.arg(testdata().join("compare.py")).arg(repository().join("crates/engine/src/init/python")).args(parsers());
    let ended = command.output().unwrap();
    let errors = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success(), "{errors}");
    let answers: Vec<Value> =
        String::from_utf8_lossy(&ended.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(answers.len() > 60, "{}", answers.len());
    for answer in &answers {
        assert_eq!(answer["differences"], json!([]), "{answer}");
        if let Some(absent) = answer["absent"].as_str() {
            eprintln!("not run: {} needs {absent}", answer["script"]);
        }
    }
    // Of few, what is expected.
    let parameters = |script: &str| -> BTreeMap<String, (Value, Value)> {
        let answer = answers.iter().find(|answer| answer["script"] == script).unwrap();
        let entries = answer["read"]["parameters"].as_array().unwrap();
        let name = |entry: &Value| entry["name"].as_str().unwrap().to_owned();
        entries.iter().map(|entry| (name(entry), (entry["style"].clone(), entry["default"].clone()))).collect()
    };
    for (script, name, style, default) in [
        ("argparse-1.py", "gamma", "value", json!(0.7)),
        ("argparse-3.py", "anneal-lr", "truth", json!(true)),
        ("argparse-4.py", "widths", "list", json!([64, 128, 256])),
        ("argparse-4.py", "e", "short", json!(30)),
        ("argparse-7.py", "teacher-depth", "value", json!(4)),
        ("argparse-8.py", "use_wandb", "pair", json!(false)),
        ("absl-1.py", "nesterov", "truth", json!(true)),
        ("fire-2.py", "train_on_inputs", "python", json!(true)),
        ("hf-1.py", "no_use_fast", "flag", json!(false)),
        ("mlcollections-1.py", "config.optim.momentum", "value", json!(0.9)),
        ("local-1.py", "lr", "value", json!(0.1)),
        ("docopt-1.py", "batch", "value", json!(32)),
        ("pydantic-1.py", "opt.nesterov", "truth", json!(false)),
    ] {
        assert_eq!(parameters(script)[name], (json!(style), default), "{script}: {name}");
    }
    let parts: Vec<&str> = answers
        .iter()
        .filter(|answer| answer["read"]["whole"] == false)
        .map(|answer| answer["script"].as_str().unwrap())
        .collect();
    let known = ["argparse-10.py", "argparse-11.py", "argparse-9.py", "hydra-1.py"];
    assert_eq!(parts, known, "only of these, a run shows more");
}

fn run(sandbox: &Sandbox, args: &[&str]) -> Ended {
    let ended = sandbox.sweep(&[&["run"], args].concat());
    assert_eq!(ended.code, Some(0), "{}{}", ended.stdout, ended.stderr);
    ended
}

/// The values that a job's program printed as metrics.
fn metrics(sandbox: &Sandbox, job: &str) -> BTreeMap<String, f64> {
    let records = sandbox.records();
    let record = records.get(job).unwrap_or_else(|| panic!("{job}: {:?}", records.keys()));
    let metrics = record["outcome"]["metrics"].as_object().unwrap();
    metrics.iter().filter_map(|(name, metric)| Some((name.clone(), metric["value"].as_f64()?))).collect()
}

/// Each with the arguments of `sweep run`, a job, and a metric.
#[test]
fn each_kind_of_parser_gets_the_values_of_axes() {
    let Some(python) = parsers() else { return };
    let print = "print('lr=%s' % config.lr)\nprint('amp=%d' % config.amp)\n";
    let kinds = [
        (
            "simple_parsing",
            format!(
                "from dataclasses import dataclass\nimport simple_parsing\n@dataclass\nclass Config:\n    lr: float = 0.1\n    \
                 amp: bool = True\nconfig = simple_parsing.parse(Config)\n{print}"
            ),
        ),
        (
            "draccus",
            format!(
                "from dataclasses import dataclass\nimport draccus\n@dataclass\nclass Config:\n    lr: float = 0.1\n    \
                 amp: bool = True\nconfig = draccus.parse(Config)\n{print}"
            ),
        ),
        (
            "pydantic",
            format!(
                "from pydantic_settings import BaseSettings\nclass Config(BaseSettings):\n    lr: float = 0.1\n    \
                 amp: bool = True\nconfig = Config(_cli_parse_args=True)\n{print}"
            ),
        ),
        (
            "jsonargparse",
            format!(
                "import types\nfrom jsonargparse import CLI\ndef main(lr: float = 0.1, amp: bool = True):\n    return \
                 types.SimpleNamespace(lr=lr, amp=amp)\nconfig = CLI(main)\n{print}"
            ),
        ),
        (
            "tyro",
            format!(
                "from dataclasses import dataclass\nimport tyro\n@dataclass\nclass Config:\n    lr: float = 0.1\n    \
                 amp: bool = True\nconfig = tyro.cli(Config)\n{print}"
            ),
        ),
        (
            "a letter",
            format!(
                "import argparse\nparser = argparse.ArgumentParser()\nparser.add_argument('-r', dest='lr', type=float, default=0.1)\n\
                 parser.add_argument('--amp', action=argparse.BooleanOptionalAction, default=True)\nconfig = parser.parse_args()\n{print}"
            ),
        ),
    ];
    for (kind, text) in kinds {
        let sandbox = Sandbox::new();
        sandbox.write("train.py", &text);
        let lr = if kind == "a letter" { "r" } else { "lr" };
        let axis = format!("{lr}=0.2,0.4");
        let ended = run(&sandbox, &["train.py", "--python", &python, "--axis", &axis, "--axis", "amp=true,false"]);
        assert!(!ended.stderr.contains("running `train.py`"), "{kind}: {}", ended.stderr);
        for (amp, value) in [("true", 1.0), ("false", 0.0)] {
            let got = metrics(&sandbox, &format!("train/{lr}=0.4,amp={amp}"));
            assert_eq!((got["lr"], got["amp"]), (0.4, value), "{kind}: {got:?}");
        }
    }
}

/// A recipe for a script of the folder; its text.
fn recipe(name: &str, text: &str, args: &[&str]) -> String {
    let sandbox = Sandbox::new();
    sandbox.write(name, text);
    let ended = sandbox.sweep(&[&["new", name, "-o", "out.yaml"], args].concat());
    assert_eq!(ended.code, Some(0), "{name}: {}", ended.stderr);
    assert!(!ended.stderr.contains("running `"), "{name} is not run: {}", ended.stderr);
    sandbox.read("out.yaml")
}

#[test]
fn recipes_have_the_form_of_each_kind() {
    let r = "library(optparse)\noptions <- list(make_option(c(\"-l\", \"--lr\"), type=\"double\", default=0.1))\n\
             opt <- parse_args(OptionParser(option_list=options))\n";
    let julia = "using ArgParse\n@add_arg_table! s begin\n    \"--lr\"\n        arg_type = Float64\n        default = 0.1\nend\n";
    let shell = "lr=0.1\nwhile getopts \"l:v\" opt; do\ncase $opt in\nl) lr=$OPTARG ;;\nesac\ndone\n";
    let notebook = r#"{"cells": [{"cell_type": "code", "metadata": {"tags": ["parameters"]}, "source": ["lr = 0.1\n", "amp = True\n", "seed = 1"]}]}"#;
    let (fire, absl) = (script("fire-2.py"), script("absl-1.py"));
    let (hugging, cli) = (script("hf-1.py"), script("omegaconf-1.py"));
    let kinds = [
        (
            "train.R",
            r,
            &["--axis", "lr=1,2"][..],
            &["argv: [Rscript, train.R, \"${{ flags }}\"]", "lr: ${{ matrix.lr }}"][..],
        ),
        ("train.jl", julia, &["--axis", "lr=1,2"], &["argv: [julia, train.jl, \"${{ flags }}\"]"]),
        ("run.sh", shell, &["--axis", "lr=1,2"], &["argv: [bash, run.sh, \"-l\", \"${{ matrix.lr }}\"]"]),
        (
            "nb.ipynb",
            notebook,
            &["--axis", "lr=1,2", "--axis", "amp=true,false"],
            &[
                "\"-m\", papermill, nb.ipynb, nb-ran.ipynb, \"--no-progress-bar\", \"--stdout-file\", \"-\",",
                "    retries: 1\n",
                "\"-p\", lr, \"${{ matrix.lr }}\", \"-y\", \"amp: ${{ matrix.amp }}\", \"-p\", seed, \"${{ matrix.seed }}\"]",
            ],
        ),
        (
            "train.py",
            &fire,
            &["--axis", "learning_rate=1,2", "--axis", "train_on_inputs=true,false"],
            &["flags: equals", "booleans: python", "base_model: REPLACE"],
        ),
        (
            "train.py",
            &absl,
            &["--axis", "use_amp=true,false"],
            &["flags: equals", "booleans: value", "workdir: REPLACE"],
        ),
        (
            "train.py",
            &hugging,
            &["--axis", "use_fast=true,false", "--seeds", "2"],
            &["booleans: value", "seeds: 2", "model_name: REPLACE"],
        ),
        ("train.py", &cli, &["--axis", "opt.name=adam,sgd"], &["flags: hydra", "opt.name: ${{ matrix.opt_name }}"]),
        (
            "train.py",
            "import os\nlr = float(os.environ.get('LR', '0.1'))\nseed = os.getenv('SEED')\nprint(lr, os.environ['DATA'])\n",
            &["--axis", "lr=1,2", "--seeds", "3"],
            &[
                "env:\n",
                "        LR: ${{ matrix.LR }}",
                "        SEED: ${{ matrix.seed }}",
                "        # DATA: must be set, here or where `sweep` runs",
            ],
        ),
    ];
    for (name, text, args, parts) in kinds {
        let recipe = recipe(name, text, args);
        for part in parts {
            assert!(recipe.contains(part), "{part}: {recipe}");
        }
    }
}

#[test]
fn a_missing_package_is_no_error_if_the_file_shows_the_parameters() {
    let sandbox = Sandbox::new();
    let text = "import no_such_module\nimport argparse\nparser = argparse.ArgumentParser()\n\
                parser.add_argument('--lr', type=float, default=0.1)\n";
    sandbox.write("train.py", &format!("{text}args = parser.parse_args()\n"));
    let ended = sandbox.sweep(&["new", "train.py"]);
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), "train.yaml: 1 parameter, 1 job\n"), "{}", ended.stderr);
    assert!(!ended.stderr.contains("no_such_module"), "{}", ended.stderr);
    // Where the file shows a part only, that is said.
    let text =
        format!("{text}parser.add_argument('--host', default=no_such_module.name())\nargs = parser.parse_args()\n");
    sandbox.write("other.py", &text);
    let ended = sandbox.sweep(&["new", "other.py"]);
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), "other.yaml: 2 parameters, 1 job\n"), "{}", ended.stderr);
    let running = "running `other.py` until it reads its parameters (no writes, no network, at most 5 s)\n";
    let part =
        "note: these are the parameters that the file shows; its run showed none: No module named 'no_such_module'";
    assert!(ended.stderr.starts_with(running) && ended.stderr.contains(part), "{}", ended.stderr);
    assert!(
        sandbox.read("other.yaml").contains("host: its default is computed by the script"),
        "{}",
        sandbox.read("other.yaml")
    );
}

/// A script that is read does nothing at all; one that is run sees no GPU.
#[test]
fn a_script_is_run_only_if_its_file_does_not_show_the_parameters() {
    let sandbox = Sandbox::new();
    let parser =
        "import argparse\nparser = argparse.ArgumentParser()\nparser.add_argument('--lr', type=float, default=0.1)\n";
    sandbox.write("seen.py", &format!("{parser}open('marker', 'w')\nargs = parser.parse_args()\n"));
    let ended = sandbox.sweep(&["new", "seen.py"]);
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), "seen.yaml: 1 parameter, 1 job\n"), "{}", ended.stderr);
    assert!(!sandbox.path("marker").exists());
    let gpus = "import os, argparse\nparser = argparse.ArgumentParser()\n\
                for name in {os.environ['CUDA_VISIBLE_DEVICES'] or 'none'}:\n    parser.add_argument('--gpus-' + name)\nparser.parse_args()\n";
    sandbox.write("gpus.py", gpus);
    let ended = sandbox.sweep(&["new", "gpus.py"]);
    assert!(ended.stderr.contains("running `gpus.py`"), "{}", ended.stderr);
    assert!(sandbox.read("gpus.yaml").contains("gpus-none"), "{}", sandbox.read("gpus.yaml"));
}

/// An axis that names a key of a file of settings: the program gets a copy with its value.
#[test]
fn axes_are_keys_of_a_file_of_settings() {
    let sandbox = Sandbox::new();
    let program = "import argparse, json\nparser = argparse.ArgumentParser()\nparser.add_argument('--config', default='base.json')\n\
                   parser.add_argument('--twice', action='store_true')\nargs = parser.parse_args()\n\
                   config = json.load(open(args.config))\nassert config['model']['layers'] == [8, 8] and config['name'] == 'a b', config\n\
                   print('loss=%s' % (config['model']['lr'] * (2 if args.twice else 1) + config['seed']))\n";
    sandbox.write("train.py", program);
    sandbox.write("base.json", r#"{"name": "a b", "seed": 7, "model": {"lr": 0.1, "layers": [8, 8], "none": null}}"#);
    let command = ["python3", "train.py", "--config", "base.json", "--twice"];
    run(&sandbox, &[&["--axis", "model.lr=0.25,0.5", "--seeds", "2", "--"][..], &command].concat());
    assert_eq!(sandbox.records().len(), 4);
    assert_eq!(metrics(&sandbox, "train/model_lr=0.5,seed=1")["loss"], 2.0);
    // The file is the default of an option.
    run(&sandbox, &["train.py", "--axis", "model.lr=2.0"]);
    assert_eq!(metrics(&sandbox, "train/model_lr=2")["loss"], 9.0);
    assert!(sandbox.read("base.json").contains("\"lr\": 0.1"), "the file stays as it is");
    let ended =
        sandbox.sweep(&["run", "--axis", "model.depth=1", "--", "python3", "train.py", "--config", "base.json"]);
    assert_eq!(ended.code, Some(2));
    assert!(ended.stderr.contains("no argument that is a file of settings with it"), "{}", ended.stderr);
}
