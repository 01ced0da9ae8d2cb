//! Studies of scripts and command lines that have no recipe.

use std::process::Command;

use crate::{
    init::parsers,
    projects::has_views,
    sandbox::{Ended, Sandbox, repository, until},
};

const TRAIN: &str = "
import argparse
parser = argparse.ArgumentParser()
parser.add_argument('--lr', type=float, default=0.1)
parser.add_argument('--opt', choices=['sgd', 'adam'], default='sgd')
parser.add_argument('--batch-size', type=int, default=32)
parser.add_argument('--amp', action='store_true')
parser.add_argument('--seed', type=int, default=1)
args = parser.parse_args()
data = float(open('data/scale.txt').read())
open('model.bin', 'w').write('weights')
print(f'loss={args.lr * data + args.seed + (0.5 if args.amp else 0)}')
";

fn project() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.write("train.py", TRAIN);
    sandbox.write("data/scale.txt", "10");
    sandbox
}

fn run(sandbox: &Sandbox, args: &[&str]) -> Ended {
    let ended = sandbox.sweep(&[&["run"], args].concat());
    assert_eq!(ended.code, Some(0), "{}{}", ended.stdout, ended.stderr);
    ended
}

fn loss(sandbox: &Sandbox, job: &str) -> f64 {
    sandbox.records()[job]["outcome"]["metrics"]["loss"]["value"].as_f64().unwrap()
}

#[test]
fn a_script_is_swept_without_a_recipe() {
    let sandbox = project();
    let args = ["train.py", "--axis", "lr=1e-3,1e-2", "--axis", "opt=sgd,adam", "--seeds", "3"];
    let ended = run(&sandbox, &args);
    assert_eq!(sandbox.records().len(), 12);
    assert!((loss(&sandbox, "train/lr=0.01,opt=adam,seed=2") - 2.1).abs() < 1e-12);
    assert!(ended.stdout.contains("loss") && ended.stdout.contains("adam"), "{}", ended.stdout);
    let keep = "keep this study: sweep new train.py --axis lr=1e-3,1e-2 --axis opt=sgd,adam --seeds 3 -o study.yaml";
    assert!(ended.stderr.contains(keep), "{}", ended.stderr);
    assert!(!sandbox.path("model.bin").exists() || ended.stderr.contains("private views"), "{}", ended.stderr);
    // The recipe that is kept has the same jobs.
    let words: Vec<&str> = keep.split(' ').skip(4).collect();
    assert_eq!(sandbox.sweep(&words).code, Some(0));
    assert_eq!(sandbox.plan_tally(&["study.yaml"]).0, 12, "{}", sandbox.read("study.yaml"));
    assert!(sandbox.read("study.yaml").contains("cells: [loss]"), "{}", sandbox.read("study.yaml"));
    // A second run runs no job, additional values run only their own jobs, and after an edit of a file that the script
    // reads all jobs run again.
    run(&sandbox, &args);
    assert_eq!(sandbox.records().len(), 12);
    run(&sandbox, &["train.py", "--axis", "lr=1e-3,1e-2,1e-1", "--axis", "opt=sgd,adam", "--seeds", "3"]);
    assert_eq!(sandbox.records().len(), 18);
    sandbox.write("data/scale.txt", "100");
    run(&sandbox, &args);
    assert_eq!(sandbox.plan_tally(&["study.yaml"]).0, 12);
}

#[test]
fn a_flag_is_an_axis_of_true_and_false() {
    let sandbox = project();
    run(&sandbox, &["train.py", "--axis", "amp=true,false", "--axis", "batch_size=8"]);
    let records = sandbox.records();
    let losses: Vec<f64> =
        records.values().map(|record| record["outcome"]["metrics"]["loss"]["value"].as_f64().unwrap()).collect();
    assert_eq!(losses.len(), 2, "{records:?}");
    assert!(losses.contains(&1.0) && losses.contains(&1.5), "{losses:?}");
}

#[test]
fn a_command_line_has_places_for_values() {
    let sandbox = Sandbox::new();
    sandbox.write("pkg/__init__.py", "");
    sandbox.write("pkg/train.py", "import sys\nprint('acc=%s' % (float(sys.argv[2]) + int(sys.argv[4])))\n");
    let command = ["python3", "-m", "pkg.train", "--lr", "{lr}", "--seed", "{seed}"];
    let args = [&["--axis", "lr=0.1,0.2", "--seeds", "2", "--"][..], &command].concat();
    let ended = run(&sandbox, &args);
    assert_eq!(sandbox.records().len(), 4);
    let record = &sandbox.records()["train/lr=0.2,seed=1"];
    assert_eq!(record["outcome"]["metrics"]["acc"]["value"], 1.2);
    assert!(ended.stdout.contains("acc"), "{}", ended.stdout);
}

#[test]
fn a_command_line_has_a_place_for_an_axis_called_seed() {
    let sandbox = Sandbox::new();
    run(&sandbox, &["--axis", "seed=3,4", "--", "sh", "-c", "echo loss={seed}"]);
    assert_eq!((sandbox.records().len(), loss(&sandbox, "sh/seed=4")), (2, 4.0));
}

/// A parameter of the script, and an axis that is none, have places in the arguments that every job gets.
#[test]
fn arguments_of_a_script_have_places_for_values() {
    let sandbox = project();
    let text = sandbox.read("train.py").replace("args = ", "parser.add_argument('--out')\nargs = ")
        + "print('out=' + args.out)\n";
    sandbox.write("train.py", &text);
    run(
        &sandbox,
        &["train.py", "--axis", "lr=0.1,0.2", "--axis", "rep=4,5", "--seeds", "1", "--", "--out", "{rep}{seed}"],
    );
    assert_eq!(sandbox.records().len(), 4);
    let record = &sandbox.records()["train/lr=0.2,rep=5,seed=0"];
    assert_eq!(record["outcome"]["metrics"]["out"]["value"], 50.0, "{record}");
    assert!((loss(&sandbox, "train/lr=0.2,rep=5,seed=0") - 2.0).abs() < 1e-12);
}

/// The trainer of transformers 5 prints numbers as texts, and Keras' example writes a table to `training.log`.
#[test]
fn logs_of_frameworks_have_metrics() {
    let sandbox = Sandbox::new();
    sandbox.write("main.sh", "echo \"{'eval_loss': '0.6$1', 'epoch': '3'}\"\n");
    let ended = run(&sandbox, &["--axis", "x=1,2", "--", "sh", "main.sh", "{x}"]);
    assert!(ended.stdout.contains("eval_loss") && ended.stdout.contains("0.620"), "{}{}", ended.stdout, ended.stderr);
    if !has_views() {
        return;
    }
    let sandbox = Sandbox::new();
    sandbox.write("main.sh", "printf '#{\"env\": 1}\\nepoch,loss,val_loss\\n0,0.5,0.6%s\\n' $1 > training.log\n");
    let ended = run(&sandbox, &["--axis", "x=1,2", "--", "sh", "main.sh", "{x}"]);
    assert!(ended.stdout.contains("val_loss") && ended.stdout.contains("0.620"), "{}{}", ended.stdout, ended.stderr);
    sandbox.write("main.sh", "echo loss: 0.5$1; printf 'epoch,val_loss\\n0,0.6%s\\n' $1 > results.csv\n");
    let ended = run(&sandbox, &["--axis", "x=1,2", "--", "sh", "main.sh", "{x}"]);
    assert!(ended.stderr.contains("the program also wrote `results.csv` (csv)"), "{}", ended.stderr);
}

#[test]
fn numbers_of_a_log_are_metrics() {
    let sandbox = Sandbox::new();
    sandbox.write(
        "main.py",
        "import sys\nlr = float(sys.argv[1])\nfor epoch in range(3):\n    print(f'Epoch {epoch}: train loss {lr / (epoch + 1):.4f}, val acc {90 + epoch}%')\n",
    );
    let args = ["--axis", "lr=0.3,0.6", "--", "python3", "main.py", "{lr}"];
    let ended = run(&sandbox, &args);
    assert!(ended.stderr.contains("metric `train_loss`, from lines such as: Epoch 2: train loss"), "{}", ended.stderr);
    assert!(ended.stdout.contains("train_loss") && ended.stdout.contains("0.200 "), "{}", ended.stdout);
    let count = sandbox.records().len();
    run(&sandbox, &args);
    assert_eq!(sandbox.records().len(), count, "nothing runs again");
}

#[test]
fn a_study_that_diverges_everywhere_says_so() {
    for line in ["loss=nan", "loss: nan"] {
        let sandbox = Sandbox::new();
        sandbox.write("main.sh", &format!("echo {line}\n"));
        let ended = run(&sandbox, &["--axis", "x=1,2", "--", "sh", "main.sh", "{x}"]);
        assert!(ended.stdout.contains("2 jobs diverged"), "{line}: {}{}", ended.stdout, ended.stderr);
        assert!(!ended.stderr.contains("no metric was found"), "{line}: {}", ended.stderr);
    }
}

#[test]
fn held_out_data_have_the_metrics_of_logs_with_equal_columns() {
    let sandbox = Sandbox::new();
    sandbox.write("main.sh", "printf 'step,loss\\n1,0.9\\n' > train.csv; printf 'step,loss\\n1,0.7\\n' > val.csv\n");
    let ended = run(&sandbox, &["--axis", "x=1", "--", "sh", "main.sh", "{x}"]);
    assert!(ended.stdout.contains("0.700"), "{}{}", ended.stdout, ended.stderr);
    assert!(ended.stderr.contains("`train.csv` is left out"), "{}", ended.stderr);
}

/// A log with more lines than wait for a reader, of which another pattern takes few.
#[test]
fn a_long_log_has_the_metrics_of_several_patterns() {
    let sandbox = Sandbox::new();
    sandbox.write("main.sh", "yes 'loss 0.5' | head -n 101000\necho final_loss 0.25\n");
    let ended = run(&sandbox, &["--axis", "x=1", "--", "sh", "main.sh", "{x}"]);
    assert!(ended.stdout.contains("final_loss") && ended.stdout.contains("0.250"), "{}", ended.stdout);
}

#[test]
fn a_log_that_a_script_writes_has_its_metrics() {
    if !has_views() {
        return;
    }
    let sandbox = Sandbox::new();
    let script = "import os, sys\nos.makedirs('logs', exist_ok=True)\nfile = open('logs/metrics.csv', 'w')\n\
                  file.write('step,val_loss\\n1,%s\\n2,%s\\n' % (sys.argv[1], float(sys.argv[1]) / 2))\n";
    sandbox.write("main.py", script);
    let ended = run(&sandbox, &["--axis", "lr=0.5,1.0", "--", "python3", "main.py", "{lr}"]);
    assert!(ended.stderr.contains("metrics from logs/metrics.csv, which the program wrote"), "{}", ended.stderr);
    assert!(ended.stdout.contains("val_loss") && ended.stdout.contains("0.250"), "{}", ended.stdout);
}

/// Imitations of other people's projects, each run as its author would.
#[test]
fn scripts_of_other_projects_run_with_one_command_and_no_edit() {
    let sandbox = Sandbox::new();
    let script = repository().join("scripts/wild.py");
    let mut command = Command::new("python3");
    command.arg(script).arg(env!("CARGO_BIN_EXE_sweep-engine")).args(parsers());
    command.env("SWEEP_LOCKS", sandbox.path("")).env("NO_COLOR", "1");
    let ended = command.output().unwrap();
    let (table, errors) = (String::from_utf8_lossy(&ended.stdout), String::from_utf8_lossy(&ended.stderr));
    println!("{table}");
    assert!(ended.status.success() && table.contains("| nanoGPT's configurator | 1 | 0 |"), "{table}{errors}");
}

#[test]
fn what_a_script_does_not_take_is_said() {
    let sandbox = project();
    sandbox
        .write("plain.py", "import argparse\np = argparse.ArgumentParser()\np.add_argument('--lr')\np.parse_args()\n");
    for (args, message) in [
        (&["train.py", "--axis", "learning=1"][..], "train.py has no parameter `learning`"),
        (&["train.py", "--axis", "ltr=1,2"], "`lr`"),
        (&["train.py", "--axis", "lr"], "`--axis lr` has no values; write them after the name: `--axis lr=0.1,0.2`"),
        (&["train.py", "--axis", "lr="], "`--axis lr` has no values"),
        (&["plain.py", "--seeds", "2"], "plain.py has no parameter that takes a seed"),
        (&["--axis", "lr=1,2", "--", "python3", "train.py"], "the command has no `{lr}`"),
        (&["--seeds", "2", "--", "python3", "train.py"], "the command has no `{seed}`"),
        (&["train.py", "plain.py"], "train.py is a script: run each script with a separate command"),
        (&["recipe.yaml", "--python", "python3"], "`--seeds`, `--python` and arguments after `--` are for scripts"),
    ] {
        let ended = sandbox.sweep(&[&["run"], args].concat());
        assert_eq!(ended.code, Some(2), "{}", ended.stderr);
        assert!(ended.stderr.contains(message), "{message}: {}", ended.stderr);
        assert!(!sandbox.path("results/store").exists());
    }
}

/// A program whose parameters are not read is no recipe, and a benchmark has numbers without a better direction.
#[test]
fn programs_in_other_languages_run_by_their_command_lines() {
    let sandbox = Sandbox::new();
    sandbox.write("bench.pl", "printf \"n: %d\\ntime: %.1f ms\\n\", $ARGV[0], 1.5 * $ARGV[0];\n");
    for args in
        [&["run", "bench.pl", "--axis", "n=1,2"][..], &["run", "bench.pl", "--seeds", "2"], &["plan", "bench.pl"]]
    {
        let ended = sandbox.sweep(args);
        assert_eq!(ended.code, Some(2), "{args:?}: {}", ended.stderr);
        assert!(ended.stderr.contains("sweep run --axis lr=0.1,0.2 -- perl bench.pl --lr {lr}"), "{}", ended.stderr);
    }
    let ended = sandbox.sweep(&["run", "--axis", "n=1,2", "--", "perl", "bench.pl", "{n}"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(ended.stderr.contains("metric `time_ms`, from lines such as: time: 1.5 ms"), "{}", ended.stderr);
    assert!(
        !ended.stderr.contains("metric `n`") && ended.stdout.contains("time_ms"),
        "{}{}",
        ended.stdout,
        ended.stderr
    );
}

/// `--config` has no default: the file that a script of its kind has by convention is given.
#[test]
fn a_configuration_without_a_default_is_that_of_the_project() {
    let sandbox = Sandbox::new();
    sandbox.write(
        "main.py",
        "from absl import app, flags\nfrom ml_collections import config_flags\n\
         config_flags.DEFINE_config_file('config', None, 'Settings.')\napp.run(lambda argv: None)\n",
    );
    let config = "import ml_collections\n\ndef get_config():\n    c = ml_collections.ConfigDict()\n    c.learning_rate = 0.1\n    return c\n";
    sandbox.write("configs/default.py", config);
    sandbox.write("configs/big.py", config);
    sandbox.write("configs/other.py", "x = 1\n");
    let ended = sandbox.sweep(&["new", "main.py"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let recipe = sandbox.read("main.yaml");
    assert!(
        recipe.contains("# one of configs/default.py, configs/big.py;")
            && recipe.contains("config: configs/default.py\n"),
        "{recipe}"
    );
    assert!(recipe.contains("config.learning_rate: ${{ matrix.config_learning_rate }}"), "{recipe}");
}

/// A variable that is set where `sweep` runs is the value of the study, and part of its keys.
#[test]
fn a_variable_of_the_environment_counts() {
    let sandbox = Sandbox::new();
    sandbox.write("train.py", "import os\nlr, wd = float(os.environ.get('LR', '0.1')), float(os.getenv('WD', '0'))\nprint(f'loss={lr + wd}')\n");
    let run = |variables: &[(&str, &str)], args: &[&str]| {
        let mut command = sandbox.command(&[&["run", "train.py"], args].concat());
        let output = command.envs(variables.iter().copied()).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let losses = |text: &str| text.matches("0.200").count() + 10 * text.matches("0.700").count();
    assert_eq!(losses(&run(&[], &["--axis", "LR=0.2"])), 1, "the axis");
    assert_eq!(losses(&run(&[("WD", "0.5")], &["--axis", "LR=0.2"])), 10, "a variable beside the axis");
    assert!(run(&[("LR", "0.7")], &[]).contains("0.700"), "a variable without an axis");
    assert!(!run(&[], &[]).contains("0.700"), "the script's own default");
}

#[test]
fn what_is_printed_and_not_read_is_named() {
    let sandbox = Sandbox::new();
    sandbox.write(
        "main.sh",
        "echo Training:; echo loss: 0.5$1; echo Validation:; echo loss: 0.6; echo wer: 0,5; echo f1: 0.7$1\n",
    );
    let ended = run(&sandbox, &["--axis", "x=1,2", "--", "sh", "main.sh", "{x}"]);
    for words in [
        "metric `f1`, from lines such as: f1: 0.7",
        "the printed `loss` is not read, because lines below `training` and `validation` are alike: loss: 0.6",
        "the printed `wer` is not read, because `0,5` is not a whole number: wer: 0,5",
    ] {
        assert!(ended.stderr.contains(words), "{words}: {}", ended.stderr);
    }
    sandbox.write("main.sh", "echo loss=0.5$1; echo Epoch 1 loss: 0.5$1; echo Test accuracy: 0.7$1\n");
    let ended = run(&sandbox, &["--axis", "x=1,2", "--", "sh", "main.sh", "{x}"]);
    let words = "also printed, and not read: `test_accuracy` (Test accuracy: 0.7";
    assert!(ended.stderr.contains(words) && !ended.stderr.contains("`loss` ("), "{}", ended.stderr);
}

#[test]
fn a_result_that_only_later_jobs_print_is_in_the_table() {
    let sandbox = Sandbox::new();
    sandbox.write("main.sh", "echo loss: 0.5$1; test $1 = 3 && echo Test accuracy: 0.7$1; true\n");
    let sweep = |values: &str| run(&sandbox, &["--axis", values, "--", "sh", "main.sh", "{x}"]);
    assert!(!sweep("x=1,2").stdout.contains("test_accuracy"));
    let ended = sweep("x=1,2,3");
    assert!(ended.stdout.contains("test_accuracy") && ended.stdout.contains("0.73"), "{}", ended.stdout);
}

#[test]
fn a_study_without_a_table_says_why() {
    if !has_views() {
        return;
    }
    let sandbox = Sandbox::new();
    let signals = tempfile::tempdir().unwrap();
    let place = signals.path().display();
    let script = format!(
        "import argparse, os, time\np = argparse.ArgumentParser()\np.add_argument('--lr', type=float)\na = p.parse_args()\n\
         open('{place}/waits', 'w').close()\nwhile not os.path.exists('{place}/edited'):\n    time.sleep(0.01)\nprint('loss=%g' % a.lr)\n"
    );
    sandbox.write("main.py", &script);
    let running = sandbox.start(&["run", "main.py", "--axis", "lr=1,2"]);
    until("a job runs", || signals.path().join("waits").exists());
    sandbox.write("main.py", &script.replace("a.lr)", "(a.lr + 1))"));
    fs_err::write(signals.path().join("edited"), "").unwrap();
    let ended = running.wait();
    assert!(ended.stderr.contains("no table: files that the jobs read were edited"), "{}", ended.stderr);
    assert!(run(&sandbox, &["main.py", "--axis", "lr=1,2"]).stdout.contains("3.00"));
}

#[test]
fn a_file_of_toml_holds_all_values_but_null() {
    let sandbox = Sandbox::new();
    sandbox.write("main.py", "import sys\nfor line in open(sys.argv[1]):\n    print(line)\nprint('loss=0.5')\n");
    sandbox.write("config.toml", "lr = 0.1\nname = 'a'\n");
    let sweep = |axis: &str| sandbox.sweep(&["run", "--axis", axis, "--", "python3", "main.py", "config.toml"]);
    let ended = sweep("lr=null,1");
    assert_ne!(ended.code, Some(0));
    assert!(ended.stderr.contains("`lr` cannot be `null`, which TOML does not have"), "{}", ended.stderr);
    for (axis, job, line) in [
        ("name=b,1", "name=1", "name = \"1\""),
        (r"name=data\new,b", r"name=data\new", r"name = 'data\new'"),
        ("name=a\"b,c", "name=a\"b", "name = 'a\"b'"),
        ("lr=0.5,auto", "lr=auto", "lr = \"auto\""),
        ("lr=0.5,2", "lr=2", "lr = 2"),
        ("lr={ linspace: [1, 3, 2] }", "lr=3", "lr = 3"),
    ] {
        let ended = sweep(axis);
        assert_eq!(ended.code, Some(0), "{axis}: {}", ended.stderr);
        let log = sandbox.sweep(&["logs", &format!("main/{job}")]).stdout;
        assert!(log.contains(line), "{axis}: {log}");
    }
}

#[test]
fn a_flag_that_is_set_by_default_needs_one_that_unsets_it() {
    let sandbox = Sandbox::new();
    sandbox.write(
        "main.py",
        "import argparse\np = argparse.ArgumentParser()\np.add_argument('--amp', action='store_true', default=True)\n\
         p.add_argument('--aug', action='store_true')\np.add_argument('--no-aug', dest='aug', action='store_false')\n\
         p.set_defaults(aug=True)\na = p.parse_args()\nprint('loss=%d' % (5 + a.aug))\n",
    );
    let ended = sandbox.sweep(&["run", "main.py", "--axis", "amp=true,false"]);
    assert_ne!(ended.code, Some(0));
    assert!(ended.stderr.contains("its default is the value that the flag sets"), "{}", ended.stderr);
    run(&sandbox, &["main.py", "--axis", "aug=true,false"]);
    assert_eq!((loss(&sandbox, "main/aug=true"), loss(&sandbox, "main/aug=false")), (6.0, 5.0));
}

#[test]
fn a_file_of_results_that_is_json_as_a_whole_is_found() {
    if !has_views() {
        return;
    }
    let sandbox = Sandbox::new();
    sandbox.write(
        "main.py",
        "import json, sys\njson.dump({'val': {'loss': [0.5, float(sys.argv[1])]}}, open('history.json', 'w'), indent=2)\njson.dump({'lr': 3}, open('config.json', 'w'), indent=2)\n",
    );
    let ended = run(&sandbox, &["--axis", "x=0.25,0.75", "--", "python3", "main.py", "{x}"]);
    assert!(ended.stderr.contains("metrics from history.json, which"), "{}", ended.stderr);
    assert!(ended.stdout.contains("val.loss") && ended.stdout.contains("0.750"), "{}", ended.stdout);
}

#[test]
fn a_failed_job_is_not_one_that_did_not_run() {
    let sandbox = Sandbox::new();
    sandbox.write("main.sh", "test $1 = 1 || { echo too big >&2; exit 3; }; echo loss: 0.5\n");
    let ended = sandbox.sweep(&["run", "--axis", "x=1,2", "--", "sh", "main.sh", "{x}"]);
    // The metric of the first job gives both another key.
    assert!(ended.stdout.contains("1 job failed: the program ended with exit code 3"), "{}", ended.stdout);
    assert!(!ended.stdout.contains("not run"), "{}", ended.stdout);
}

#[test]
fn another_spelling_of_an_option_is_named_after_failures() {
    let sandbox = project();
    for (arguments, known) in [
        (&["--batch_size", "3"][..], "`--batch_size` after `--`: the script has `--batch-size`"),
        (&["batch-size=3"], "`batch-size=3` after `--`: the script has `--batch-size`"),
        (&["/BatchSize", "3"], "`/BatchSize` after `--`: the script has `--batch-size`"),
    ] {
        let ended = sandbox.sweep(&[&["run", "train.py", "--axis", "lr=1", "--"], arguments].concat());
        assert!(ended.stderr.contains(known), "{}", ended.stderr);
    }
}
