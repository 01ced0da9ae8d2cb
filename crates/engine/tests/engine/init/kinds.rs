//! Kinds of scripts: their syntax trees show the same parameters as a run, and their recipes pass these parameters.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
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
        _ => match value.as_f64().filter(|number| *number != 0.0 && number.abs() < 1e-4) {
            Some(small) => format!("{small:e}"),
            None => value.to_string(),
        },
    }
}

/// `lr=0.1`; `*` if it must be given, `{a|b}` choices, and after the name the sign of its style: `!` a flag, `?` one of a pair, `~` a
/// truth value, `%` one of Python, `[]` a list, `[,]` one with commas, `[+]` a repeated one, `<>` an argument, `-x` a letter, `()` another form.
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
        Style::Commas => "[,]",
        Style::Repeat => "[+]",
        Style::Position => "<>",
        Style::Other => "()",
    };
    let is_letter = one.style == Style::Short && sign.is_empty();
    let mut word = format!("{}{sign}", if is_letter { &one.option } else { &one.name });
    let leaf = |name: &str| name.rsplit('.').next().unwrap_or_default().to_owned();
    if !one.negative.is_empty() && leaf(&one.negative) != format!("no-{}", leaf(&one.name)) {
        let _ = write!(word, "/{}", one.negative);
    }
    word += if one.required { "*" } else { "" };
    if !one.choices.is_empty() {
        let _ = write!(word, "{{{}}}", one.choices.iter().map(self::word).collect::<Vec<_>>().join("|"));
    }
    if one.default.is_null() || one.style == Style::Flag {
        return word;
    }
    format!("{word}={}", self::word(&one.default))
}

/// The found parameters in one line; `…` if the tree shows a part only.
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

/// `readings.txt` has the parameters of each script as a person reads them, and the axes that are worth varying. The parameters from the
/// tree are compared with these, and with a run of the script, which has the real package.
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
        let (reading, axes) = reading.split_once(" => ").unwrap_or((reading, ""));
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

pub(super) fn run(sandbox: &Sandbox, args: &[&str]) -> Ended {
    let ended = sandbox.sweep(&[&["run"], args].concat());
    assert_eq!(ended.code, Some(0), "{}{}", ended.stdout, ended.stderr);
    ended
}

/// The values that a job's program printed as metrics.
pub(super) fn metrics(sandbox: &Sandbox, job: &str) -> BTreeMap<String, f64> {
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
        ("train.py", &absl, &["--axis", "sizes=[1,2],[3]"], &["flags: commas", "sizes: ${{ matrix.sizes }}"]),
        ("train.py", &absl, &["--axis", "tag=[a,b],[c]"], &["flags: repeat", "tag: ${{ matrix.tag }}"]),
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
    let part = "note: these parameters were found in the source of the script; its trial run found none: No module named \
         'no_such_module'";
    assert!(ended.stderr.starts_with(running) && ended.stderr.contains(part), "{}", ended.stderr);
    assert!(
        sandbox.read("other.yaml").contains("host: its default is computed by the script"),
        "{}",
        sandbox.read("other.yaml")
    );
}

/// A script that is only read does not run; a script that is run sees no GPU.
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
