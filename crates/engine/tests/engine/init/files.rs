//! Files of settings, modules and programs of a project, and scripts that misbehave.

use std::path::Path;

use sweep_engine::init::{self, Wish};

use super::kinds::{metrics, run};
use crate::sandbox::Sandbox;

/// Files of settings with an axis, its values, and the values and the key that the recipe has.
const FILES: [(&str, &str, &str, &str, &str, &str); 10] = [
    ("a.yaml", "lr: 0.1\nseed: 1\n", "lr", "1,2", "lr: [1, 2]", "lr: \"${{ matrix.lr }}\""),
    ("b.yml", "model:\n  lr: 1e-3\n", "model.lr", "1", "model_lr: [1]", "model.lr: \"${{ matrix.model_lr }}\""),
    (
        "c.json",
        "{\"opt\": {\"name\": \"adam\"}, \"n\": null}",
        "opt.name",
        "1e-3,null",
        "[\"1e-3\", null]",
        "opt.name:",
    ),
    ("d.yaml", "# Größe\nname: läuft\namp: true\n", "amp", "true,auto", "amp: [true, auto]", "amp:"),
    ("e.yaml", "list:\n- a: 1\nlr: 0.1\n", "list.0.a", "1", "list_0_a: [1]", "list.0.a:"),
    ("f.json", "{\"batch\": \"auto\"}", "batch", "8,auto", "batch: [8, auto]", "batch:"),
    ("g.toml", "lr = 0.1\n[model]\nname = 'a'\n", "model.name", "1,true", "[\"1\", \"true\"]", "model.name:"),
    ("h.toml", "[[layers]]\nn = 1\n", "layers.0.n", "2", "layers_0_n: [2]", "layers.0.n:"),
    ("i.yaml", "sizes: [1, 2]\n", "sizes", "[3]", "sizes: [[3]]", "sizes:"),
    ("j.yaml", "sizes: [1, 2]\n", "sizes", "[3],[4, 5]", "sizes: [[3], [4, 5]]", "sizes:"),
];

#[test]
fn files_of_settings_have_the_values_of_axes() {
    for (name, text, axis, values, matrix, key) in FILES {
        let sandbox = Sandbox::new();
        sandbox.write(name, text);
        for file in [name.to_owned(), format!("--config={name}")] {
            let argv: Vec<String> = ["python3", "train.py", &file].map(str::to_owned).into();
            let wish = Wish { axes: vec![(axis.to_owned(), values.to_owned())], ..Wish::default() };
            let recipe = init::command(&argv, &sandbox.path("."), "x", &wish).unwrap();
            for part in
                [matrix, key, &format!("argv: [python3, train.py, {}", file.split('=').next().unwrap_or_default())]
            {
                let part = part.replace("--config", "\"--config");
                assert!(recipe.contains(&part), "{name}: {part}: {recipe}");
            }
            assert!(recipe.contains("settings: ") && recipe.contains(name), "{name}: {recipe}");
        }
        // No other axis is a key of the file.
        let wish = Wish { axes: vec![("no.such".to_owned(), "1".to_owned())], ..Wish::default() };
        let argv: Vec<String> = ["./train", name].map(str::to_owned).into();
        assert!(init::command(&argv, Path::new(&sandbox.path(".")), "x", &wish).is_err(), "{name}");
    }
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
    assert!(ended.stderr.contains("its keys: `model.layers`, `model.lr`"), "{}", ended.stderr);
}

/// A copy has every other byte of the file, and a text stays a text.
#[test]
fn a_copy_differs_in_the_values_of_axes_only() {
    let sandbox = Sandbox::new();
    let yaml = "lr: 0.1 # rate\noct: 010\non: yes\nsexa: 12:30\nday: 2020-01-01\nbig: 12345678901234567890\nmap: {1: x, 2: y}\nkind: '1e-3'\n";
    let json = "{\"lr\": 0.1,  \"big\": 12345678901234567890, \"kind\": \"1e-3\"}";
    sandbox.write("t.py", "import sys\nprint('copy', repr(open(sys.argv[1]).read()))\nprint('loss=1')\n");
    for (name, text, kind) in [("a.yaml", yaml, "kind: '1e-3'"), ("b.json", json, "\"kind\": \"1e-3\"")] {
        sandbox.write(name, text);
        run(&sandbox, &["--axis", "lr=1e-7", "--axis", "kind=1e-4", "--", "python3", "t.py", name]);
        let log = sandbox.sweep(&["logs", "t/lr=1e-7,kind=1e-4"]).stdout;
        let quoted = kind.replace("'1e-3'", "\"1e-4\"").replace("1e-3", "1e-4");
        // A number without a point is a text to readers of YAML 1.1.
        let expected = text.replace("0.1", "1.0e-7").replace(kind, &quoted);
        assert!(log.contains(&expected.replace('\n', "\\n")), "{expected}: {log}");
    }
}

/// A value below an alias has no place of its own, so that the copy is JSON: a value on which readers of YAML do not agree is refused with
/// its line.
#[test]
fn a_file_of_settings_whose_copy_could_differ_is_refused() {
    let below_alias = |value: &str| {
        let sandbox = Sandbox::new();
        sandbox.write("a.yaml", &format!("base: &b {{u: 1}}\nlr: *b\n{value}\n"));
        let argv: Vec<String> = ["./train", "a.yaml"].map(str::to_owned).into();
        let wish = Wish { axes: vec![("lr.u".to_owned(), "2".to_owned())], ..Wish::default() };
        init::command(&argv, &sandbox.path("."), "x", &wish).map_err(|error| error.to_string())
    };
    for (value, found) in [
        ("oct: 010", "010"),
        ("zip: [1, 00123]", "00123"),
        ("time: 12:30", "12:30"),
        ("day: 2020-01-01", "2020-01-01"),
        ("big: 12345678901234567890", "12345678901234567890"),
        ("names: {1: x}", "1"),
        ("axis: y", "y"),
        ("cap: .inf", ".inf"),
    ] {
        let error = below_alias(value).unwrap_err();
        assert!(
            error.contains(&format!("line 3 of the file of settings has `{found}`, which readers of YAML")),
            "{error}"
        );
    }
    below_alias("name: 'it is 010, 12:30'\nurl: http://a:80/\nhalf: 0.5\nneg: -1\nrange: 1-2\nuse: yes\ny: 3 # 010")
        .unwrap();
}

/// The groups of Hydra that the configuration has are axes, with the names of their files as choices.
#[test]
fn groups_of_hydra_are_axes() {
    let sandbox = Sandbox::new();
    let script = "import hydra\n@hydra.main(config_path='conf', config_name='config', version_base=None)\ndef main(cfg):\n    print(cfg)\nmain()\n";
    for (name, text) in [
        ("t.py", script),
        ("conf/config.yaml", "defaults:\n  - optimizer: sgd\n  - server/site: a\n  - _self_\nepochs: 3\n"),
        ("conf/optimizer/sgd.yaml", "name: sgd\nlr: 0.1\n"),
        ("conf/optimizer/adam.yaml", "name: adam\nlr: 0.001\n"),
        ("conf/server/site/a.yaml", "x: 1\n"),
        ("conf/server/site/b.yaml", "x: 2\n"),
    ] {
        fs_err::create_dir_all(sandbox.path(name).parent().unwrap()).unwrap();
        sandbox.write(name, text);
    }
    let new = |file: &str, axes: &[&str]| sandbox.sweep(&[&["new", "t.py", "-o", file][..], axes].concat());
    let ended = new("out.yaml", &["--axis", "optimizer=sgd,adam", "--axis", "epochs=1,2"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let recipe = sandbox.read("out.yaml");
    for part in ["optimizer: [sgd, adam]", "optimizer: ${{ matrix.optimizer }}", "flags: hydra"] {
        assert!(recipe.contains(part), "{part}: {recipe}");
    }
    let ended = new("more.yaml", &["--axis", "+experiment=a,b", "--axis", "server/site=a,b"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let recipe = sandbox.read("more.yaml");
    for part in ["\"+experiment\": ${{ matrix.experiment }}", "server/site: ${{ matrix.server_site }}"] {
        assert!(recipe.contains(part), "{part}: {recipe}");
    }
    assert_eq!(sandbox.sweep(&["plan", "more.yaml"]).code, Some(0), "{recipe}");
    let ended = new("other.yaml", &["--axis", "optimiser=sgd,adam"]);
    assert_eq!(ended.code, Some(2), "{}", ended.stdout);
    assert!(ended.stderr.contains("did you mean `optimizer`"), "{}", ended.stderr);
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
        // A module with the name of a package is not treated as the package.
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
