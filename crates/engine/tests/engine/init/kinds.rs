//! Kinds of scripts: what their syntax trees show is what a run shows, and their recipes give them their parameters.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::{Value, json};
use sweep_engine::init::{self, Found, Language, Parameter, Script, Source, Start, Style, Wish};

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

/// A text as it is, other values as JSON.
fn word(value: &Value) -> String {
    let is_plain = |text: &str| {
        let valid = |char: char| char.is_alphanumeric() || "_./:~-".contains(char);
        text.starts_with(|first: char| first.is_ascii_alphabetic() || "_./:~-".contains(first))
            && text.chars().all(valid)
    };
    match value.as_str() {
        Some(text) if is_plain(text) && !["null", "true", "false"].contains(&text) => text.to_owned(),
        _ => value.to_string(),
    }
}

/// `lr=0.1`; `*` if it must be given, `{a|b}` choices, and after the name the sign of its style: `!` a flag, `?` one of a pair, `~` a
/// truth value, `%` one of Python, `[]` a list, `<>` an argument, `-x` a letter, `()` another form.
fn word_of(one: &Parameter) -> String {
    let sign = match one.style {
        Style::Value => "",
        Style::Short if one.option.trim_start_matches('-') == one.name => "",
        Style::Short => &one.option,
        Style::Flag => "!",
        Style::Pair => "?",
        Style::Truth => "~",
        Style::Python => "%",
        Style::List => "[]",
        Style::Position => "<>",
        Style::Other => "()",
    };
    let is_letter = one.style == Style::Short && sign.is_empty();
    let mut word = format!("{}{sign}", if is_letter { &one.option } else { &one.name });
    let leaf = |name: &str| name.rsplit('.').next().unwrap_or_default().to_owned();
    if !one.negative.is_empty() && leaf(&one.negative) != format!("no-{}", leaf(&one.name)) {
        word += &format!("/{}", one.negative);
    }
    word += if one.required { "*" } else { "" };
    if !one.choices.is_empty() {
        word += &format!("{{{}}}", one.choices.iter().map(self::word).collect::<Vec<_>>().join("|"));
    }
    if one.default.is_null() || one.style == Style::Flag {
        return word;
    }
    format!("{word}={}", self::word(&one.default))
}

/// What is found, in one line; `…` if the tree shows a part only.
fn line_of(found: &Found) -> String {
    let source = format!("{:?}:", found.source).to_lowercase();
    let mut words: Vec<String> = [source].into_iter().chain(found.parameters.iter().map(word_of)).collect();
    if !found.commands.is_empty() {
        words.push(format!("({})", found.commands.join(" | ")));
    }
    let part = (!found.whole).then(|| "…".to_owned());
    words.into_iter().chain(part).collect::<Vec<_>>().join(" ")
}

/// The axes that a recipe suggests; `-` if there are none.
fn axes_of(case: &[&str], language: Language, found: &Found) -> String {
    if !found.commands.is_empty() || found.source == Source::Broken {
        return "-".to_owned();
    }
    let script = Script {
        path: PathBuf::from(case[0]),
        folder: testdata(),
        language,
        start: Start::File,
        python: Some("python3".to_owned()),
        arguments: case[1..].iter().map(|argument| (*argument).to_owned()).collect(),
    };
    let (text, _) = init::text(&script, found, "x", Path::new("x.yaml"), &Wish::default()).unwrap();
    let lines = text.lines().skip_while(|line| *line != "    matrix:").skip(1);
    let axes = lines.map_while(|line| line.strip_prefix("      ")).filter_map(|line| line.split_once(": "));
    let names: Vec<String> = axes.map(|(name, _)| name.trim_matches('"').to_owned()).collect();
    assert!(names.len() <= 3, "{case:?}: {names:?}");
    if names.is_empty() { "-".to_owned() } else { names.join(", ") }
}

/// `readings.txt` has what a person reads in each script, and the axes that are worth varying. What the tree shows is compared with
/// that, and with a run of the script, which has the real package.
#[test]
fn a_syntax_tree_shows_what_a_run_shows() {
    let mut command = Command::new("python3");
    command.arg(testdata().join("compare.py")).arg(repository().join("crates/engine/src/init/python")).args(parsers());
    let ended = command.output().unwrap();
    let errors = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success(), "{errors}");
    let answers: BTreeMap<String, Value> = String::from_utf8_lossy(&ended.stdout)
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .map(|answer| (answer["script"].as_str().unwrap().to_owned(), answer))
        .collect();
    let (table, mut wrong, mut kinds) = (script("readings.txt"), Vec::new(), BTreeMap::new());
    for line in table.lines() {
        let (case, reading) = line.split_once(" -> ").unwrap();
        let (reading, axes) = reading.split_once(" => ").unwrap();
        let words: Vec<&str> = case.split(' ').collect();
        let language = init::language(&testdata().join("scripts").join(words[0])).unwrap();
        let found = match answers.get(case) {
            Some(answer) => {
                if let Some(absent) = answer["absent"].as_str() {
                    eprintln!("not run: {case} needs {absent}");
                }
                if answer["differences"] != json!([]) {
                    wrong.push(format!("{case}: a run shows {}", answer["differences"]));
                }
                serde_json::from_value(answer["read"].clone()).unwrap()
            }
            None => init::shown(language, &testdata().join("scripts").join(words[0])).unwrap(),
        };
        let shown = format!("{case} -> {} => {}", line_of(&found), axes_of(&words, language, &found));
        if shown != format!("{case} -> {reading} => {}", axes.replace('.', "_")) {
            wrong.push(format!("{line}\n  is  {shown}"));
        }
        if words.len() == 1 {
            *kinds.entry(case.split('-').next().unwrap_or_default().to_owned()).or_insert(0) += 1;
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    // Every script is in the table.
    let files = fs_err::read_dir(testdata().join("scripts")).unwrap().map(|file| file.unwrap().file_name());
    for file in files.filter_map(|name| name.into_string().ok()).filter(|name| name.contains('-')) {
        assert!(table.lines().any(|line| line.starts_with(&format!("{file} "))), "{file}");
    }
    eprintln!("scripts of each kind: {kinds:?}");
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

/// A file of TOML keeps its types, its dates and its other values.
#[test]
fn axes_are_keys_of_a_file_of_toml() {
    let sandbox = Sandbox::new();
    let program = "import sys, tomllib\nassert sys.argv[1] == '--config' and sys.argv[2].endswith('.toml'), sys.argv\n\
                   with open(sys.argv[2], 'rb') as file:\n    config = tomllib.load(file)\n\
                   assert str(config['when']) == '2024-05-01' and config['text'] == 'a \"b\"\\n' and config['cap'] == float('inf')\n\
                   assert config['parts'] == [{'n': 1}, {'n': 2}] and config['model']['deep key']['x'] is True, config\n\
                   assert type(config['model']['lr']) is float and config['model']['name'] in ('big one', 'x'), config\n\
                   print('loss=%s' % (config['model']['lr'] + config['seed']))\n";
    sandbox.write("train.py", program);
    let config = "# Settings.\nseed = 7\nwhen = 2024-05-01\ntext = \"a \\\"b\\\"\\n\"\ncap = inf\n\n[model]\nlr = 1e-1 # rate\n\
                  name = 'x'\n[model.\"deep key\"]\nx = true\n[[parts]]\nn = 1\n[[parts]]\nn = 2\n";
    sandbox.write("base.toml", config);
    let command = ["python3", "train.py", "--config", "base.toml"];
    let axes = ["--axis", "model.lr=0.25,2.0", "--axis", "model.name=big one,x", "--seeds", "2", "--"];
    run(&sandbox, &[&axes[..], &command].concat());
    assert_eq!(sandbox.records().len(), 8);
    assert_eq!(metrics(&sandbox, "train/model_lr=2,model_name=big one,seed=1")["loss"], 3.0);
    assert_eq!(sandbox.read("base.toml"), config, "the file stays as it is");
}

#[test]
fn modules_and_programs_of_a_project_are_read() {
    let sandbox = Sandbox::new();
    sandbox.write("pkg/__init__.py", "");
    sandbox.write("pkg/options.py", "import argparse\n\ndef build():\n    parser = argparse.ArgumentParser()\n    parser.add_argument('--lr', type=float, default=0.1)\n    return parser\n");
    let text =
        "from .options import build\n\ndef main():\n    args = build().parse_args()\n    print('loss=%s' % args.lr)\n";
    sandbox.write("pkg/train.py", &format!("{text}\nif __name__ == '__main__':\n    main()\n"));
    sandbox.write("src/lib/__init__.py", "");
    sandbox.write(
        "src/lib/cli.py",
        "import click\n\n@click.command()\n@click.option('--depth', default=2)\ndef app(depth):\n    pass\n",
    );
    sandbox.write(
        "pyproject.toml",
        "[project]\nname = 'x'\n[project.scripts]\nfit = 'pkg.train:main'\ngrow = \"lib.cli:app\"\n",
    );
    for (name, recipe, argv, parameters) in [
        ("pkg.train", "train.yaml", "-m\", pkg.train, \"${{ flags }}\"]", 1),
        ("pkg/train.py", "train.yaml", "-m\", pkg.train, \"${{ flags }}\"]", 1),
        ("fit", "fit.yaml", "argv: [fit, \"${{ flags }}\"]", 1),
        ("grow", "grow.yaml", "argv: [grow, \"${{ flags }}\"]", 1),
    ] {
        let ended = sandbox.sweep(&["new", name, "-o", recipe]);
        assert_eq!(ended.code, Some(0), "{name}: {}", ended.stderr);
        assert_eq!(ended.stdout, format!("{recipe}: {parameters} parameter, 1 job\n"), "{}", ended.stderr);
        assert!(!ended.stderr.contains("running"), "{name}: {}", ended.stderr);
        assert!(sandbox.read(recipe).contains(argv), "{name}: {}", sandbox.read(recipe));
        fs_err::remove_file(sandbox.path(recipe)).unwrap();
    }
    run(&sandbox, &["pkg.train", "--axis", "lr=0.25,0.5"]);
    assert_eq!(metrics(&sandbox, "train/lr=0.5")["loss"], 0.5);
}

/// Each answers soon, and a script that Python cannot run is an error with its line.
#[test]
fn hostile_scripts_are_read_or_refused() {
    let parser = "import argparse\np = argparse.ArgumentParser()\np.add_argument('--lr', type=float, default=0.1)\n";
    let end = "p.parse_args()\n";
    let read = [
        ("large", format!("x = '{}'\n", "a".repeat(10 << 20))),
        ("nested", format!("x = {}1{}\n", "[".repeat(90), "]".repeat(90))),
        ("endless", "import itertools\nfor i in itertools.count(): pass\nwhile True: pass\n".to_owned()),
        ("recursive", "def f(x): return f(x)\nf(0)\ng = lambda x: g(x)\ng(1)\n".to_owned()),
        ("numbers", "x = 9 ** 9 ** 9 ** 9\nfor i in range(99):\n    x = 10 * i or x\n    x = x * x * x\ny = '%999999999d' % 3\n".to_owned()),
        ("itself", "import train\nfrom train import *\nimport other\n".to_owned()),
        ("evaluated", "eval(\"__import__('os').system('touch marker')\")\n".to_owned()),
    ];
    for (kind, text) in read {
        let sandbox = Sandbox::new();
        sandbox.write("other.py", "import train\n");
        // A module with the name of a package counts as what it is.
        sandbox.write("click.py", "def command():\n    return 3\n");
        sandbox.write("train.py", &format!("import click\nclick.command()\n{parser}{text}{end}"));
        let ended = sandbox.sweep(&["new", "train.py"]);
        assert_eq!(
            (ended.code, ended.stdout.as_str()),
            (Some(0), "train.yaml: 1 parameter, 1 job\n"),
            "{kind}: {}",
            ended.stderr
        );
        assert!(!ended.stderr.contains("running") && !sandbox.path("marker").exists(), "{kind}: {}", ended.stderr);
    }
    for (kind, text) in [
        ("syntax", format!("{parser}x = = 1\n{end}")),
        ("Python 2", format!("{parser}print 'x'\n{end}")),
        ("deep", format!("{parser}x = {}1{}\n{end}", "(".repeat(3000), ")".repeat(3000))),
    ] {
        let sandbox = Sandbox::new();
        sandbox.write("train.py", &text);
        let ended = sandbox.sweep(&["new", "train.py"]);
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(2), ""), "{kind}: {}", ended.stderr);
        assert!(ended.stderr.starts_with("error: train.py:4: "), "{kind}: {}", ended.stderr);
    }
}
