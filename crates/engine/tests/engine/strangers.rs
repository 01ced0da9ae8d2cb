//! Habits of scripts in public repositories: removed results folders, equal file names, printed settings, own checkpoints.

use std::thread;

use crate::{
    projects::has_views,
    sandbox::{Ended, Running, Sandbox},
};

/// The parameters of all scripts.
const HEAD: &str = "\
import argparse, glob, os, shutil, sys
parser = argparse.ArgumentParser()
parser.add_argument('--lr', type=float, default=1)
parser.add_argument('--seed', type=int, default=0)
a = parser.parse_args()
";

fn script(sandbox: &Sandbox, name: &str, body: &str) {
    sandbox.write(name, &format!("{HEAD}{body}"));
}

fn with(body: &str) -> Sandbox {
    let sandbox = Sandbox::new();
    script(&sandbox, "train.py", body);
    sandbox
}

fn run(sandbox: &Sandbox, args: &[&str]) -> Ended {
    let ended = sandbox.sweep(&[&["run"], args].concat());
    assert_eq!(ended.code, Some(0), "{}{}", ended.stdout, ended.stderr);
    ended
}

/// The rows of the table of a run, with single spaces.
fn rows(ended: &Ended) -> Vec<String> {
    let rows = ended.stdout.lines().filter(|line| line.starts_with("  "));
    rows.map(|row| row.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
}

#[test]
fn a_script_that_removes_its_results_folder_removes_no_results() {
    if !has_views() {
        return;
    }
    let sandbox = Sandbox::new();
    script(&sandbox, "other.py", "print('loss=%g' % a.lr)\n");
    for body in [
        "shutil.rmtree('results', ignore_errors=True)\nos.makedirs('results', exist_ok=True)\nopen('results/m.csv', 'w').write('a')\n",
        "os.system('rm -rf results')\n",
        "shutil.rmtree(os.getcwd(), ignore_errors=True)\n",
    ] {
        run(&sandbox, &["other.py", "--axis", "lr=1,2"]);
        let records = sandbox.records();
        script(&sandbox, "train.py", &format!("{body}print('loss=%g' % a.lr)\n"));
        run(&sandbox, &["train.py", "--axis", "lr=3"]);
        let after = sandbox.records();
        assert!(records.keys().all(|label| after.contains_key(label)), "{body}");
        assert_eq!(sandbox.sweep(&["cache", "verify"]).code, Some(0), "{body}");
        sandbox.assert_all_cached(&["results/studies/other.yaml"]);
    }
}

#[test]
fn files_of_the_project_in_its_results_folder_count() {
    let sandbox = Sandbox::new();
    sandbox.write("results/base/w.txt", "1");
    let body = "os.makedirs('results', exist_ok=True)\n\
        print('loss=' + open('results/base/w.txt').read())\nprint('count=%d' % len(glob.glob('results/*.json')))\n";
    script(&sandbox, "train.py", body);
    let loss_and_count = |expected: [&str; 1]| {
        for end in ["1 done", "1 cached"] {
            let ended = run(&sandbox, &["train.py"]);
            let rows = rows(&ended).join("; ");
            assert!(ended.stderr.contains(end) && expected.iter().all(|text| rows.contains(text)), "{}", ended.stdout);
        }
    };
    loss_and_count(["1 1.00 0.00"]);
    sandbox.write("results/base/w.txt", "2");
    loss_and_count(["1 2.00 0.00"]);
    sandbox.write("results/a.json", "{}");
    loss_and_count(["1 2.00 1.00"]);
    let own = sweep_engine::host::folder::OWN_FOLDERS;
    let entries = fs_err::read_dir(sandbox.path("results")).unwrap().map(|entry| entry.unwrap().file_name());
    let others: Vec<_> = entries.filter(|name| !own.iter().any(|own| name == own)).collect();
    assert_eq!(others.len(), 2, "{others:?}");
}

#[test]
fn any_spelling_of_an_option_names_its_parameter() {
    let sandbox = Sandbox::new();
    let text = "import argparse\nparser = argparse.ArgumentParser()\n\
        parser.add_argument('--learning-rate', '--lr', '-r', dest='rate', type=float, default=0.1)\n\
        parser.add_argument('--no-cuda', dest='cuda', action='store_false')\n\
        print('loss=%g' % (parser.parse_args().rate * 10))\n";
    sandbox.write("train.py", text);
    for spelling in ["learning_rate", "lr", "rate", "r"] {
        let ended = run(&sandbox, &["train.py", "--axis", &format!("{spelling}=1,2")]);
        assert!(rows(&ended).contains(&"2 20.0".to_owned()), "{spelling}: {}", ended.stdout);
    }
    assert_ne!(sandbox.sweep(&["run", "train.py", "--axis", "cuda=true,false"]).code, Some(0));
}

#[test]
fn variables_that_a_script_reads_are_in_the_keys() {
    let sandbox = Sandbox::new();
    script(&sandbox, "train.py", "print('loss=%g' % (a.lr * float(os.environ['SCALE'])))\n");
    sandbox.write(
        "plain.py",
        "import os\nprint('loss=%g' % (float(os.environ['SCALE']) * float(os.getenv('LR', '1'))))\n",
    );
    let commands: [&[&str]; 3] = [
        &["run", "train.py", "--axis", "lr=1,2"],
        &["run", "plain.py", "--axis", "LR=1,2"],
        &["run", "--axis", "lr=1,2", "--", "python3", "train.py", "--lr", "{lr}"],
    ];
    for command in commands {
        for (scale, row) in [("10", "2 20.0"), ("30", "2 60.0"), ("10", "2 20.0")] {
            let ended = Running::from(sandbox.command(command).env("SCALE", scale).spawn().unwrap()).wait();
            assert!(rows(&ended).contains(&row.to_owned()), "{command:?}: {}{}", ended.stdout, ended.stderr);
        }
    }
}

#[test]
fn words_that_are_values_of_an_axis_are_no_metrics() {
    let sandbox = Sandbox::new();
    let text = "import argparse\nparser = argparse.ArgumentParser()\nparser.add_argument('--opt', default='adam')\n\
        opt = parser.parse_args().opt\nprint('Test accuracy with %s: %g' % (opt, {'adam': 0.375, 'sgd': 0.25}[opt]))\n";
    sandbox.write("train.py", text);
    let ended = run(&sandbox, &["train.py", "--axis", "opt=adam,sgd"]);
    assert!(
        ["adam 0.375", "sgd 0.250"].iter().all(|row| rows(&ended).contains(&(*row).to_owned())),
        "{}",
        ended.stdout
    );
}

#[test]
fn a_log_of_the_run_in_the_project_is_no_edit() {
    if !has_views() {
        return;
    }
    let sandbox = Sandbox::new();
    script(
        &sandbox,
        "train.py",
        "import time\ntime.sleep(a.lr)\nprint('loss=%g' % a.lr)\nsys.exit(1 if a.lr > 1 else 0)\n",
    );
    sandbox.write("out.txt", "");
    let log = fs_err::File::options().append(true).open(sandbox.path("out.txt")).unwrap();
    let mut command = sandbox.command(&["run", "train.py", "--jobs", "2", "--axis", "lr=0.5,3"]);
    command.stdout(log.file().try_clone().unwrap()).stderr(log.into_parts().0);
    command.status().unwrap();
    let text = sandbox.read("out.txt");
    assert!(text.contains("FAILED") && !text.contains("edited while it ran"), "{text}");
}

#[test]
fn two_studies_of_one_script_at_once_have_their_own_points() {
    let sandbox = with("import time; time.sleep(0.5)\nprint('loss=%g' % (a.lr * 10))\n");
    let ended: Vec<Ended> = thread::scope(|scope| {
        let studies = ["1,2", "3,4", "5,6"].map(|values| {
            let sandbox = &sandbox;
            scope.spawn(move || run(sandbox, &["train.py", "--axis", &format!("lr={values}")]))
        });
        studies.into_iter().map(|study| study.join().unwrap()).collect()
    });
    for (first, ended) in [1, 3, 5].into_iter().zip(&ended) {
        let rows = rows(ended);
        for lr in [first, first + 1] {
            assert!(rows.contains(&format!("{lr} {lr}0.0")), "{rows:?}\n{}", ended.stderr);
        }
    }
    assert!(ended.iter().any(|ended| ended.stderr.contains("another run of the study `train` is in progress")));
}

#[test]
fn scripts_of_one_name_have_studies_of_their_own() {
    let sandbox = Sandbox::new();
    script(&sandbox, "x/train.py", "print('loss=%g' % a.lr)\n");
    script(&sandbox, "y/train.py", "print('loss=%g' % (a.lr * 100))\n");
    run(&sandbox, &["x/train.py", "--axis", "lr=1,2"]);
    run(&sandbox, &["y/train.py", "--axis", "lr=1,2"]);
    for (script, row) in [("x/train.py", "2 2.00"), ("y/train.py", "2 200")] {
        let ended = sandbox.sweep(&["report", script]);
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        assert!(rows(&ended).iter().any(|found| found == row), "{script}: {}", ended.stdout);
    }
}

#[test]
fn a_required_argument_is_not_invented() {
    let sandbox = Sandbox::new();
    let text = HEAD
        .replace("a = parser", "parser.add_argument('data')\nparser.add_argument('--out', required=True)\na = parser");
    sandbox.write("train.py", &format!("{text}print('loss=1')\n"));
    let ended = sandbox.sweep(&["run", "train.py", "--axis", "lr=1"]);
    assert_ne!(ended.code, Some(0), "{}", ended.stdout);
    assert!(ended.stderr.contains("needs a value for") && ended.stderr.contains("`out`"), "{}", ended.stderr);
    assert!(sandbox.records().is_empty());
    run(&sandbox, &["train.py", "--axis", "lr=1", "--", "d", "--out", "o"]);
}

#[test]
fn false_and_null_reach_options_that_take_texts() {
    let sandbox = Sandbox::new();
    let text = HEAD.replace("a = parser", "parser.add_argument('--amp', type=str, default='true')\na = parser");
    sandbox.write("train.py", &format!("{text}print('loss=%d' % len(a.amp))\n"));
    let ended = run(&sandbox, &["train.py", "--axis", "amp=false,true,null,~"]);
    let rows = rows(&ended);
    for row in ["false 5.00", "true 4.00", "null 4.00", "~ 1.00"] {
        assert!(rows.iter().any(|found| found == row), "{row}: {rows:?}");
    }
}

#[test]
fn values_of_axes_are_texts_and_no_yaml() {
    let sandbox = Sandbox::new();
    let text = HEAD.replace("a = parser", "parser.add_argument('--name', default='x')\na = parser");
    sandbox.write("train.py", &format!("{text}print('loss=%d' % len(a.name))\n"));
    let ended = run(&sandbox, &["train.py", "--axis", "name=a #b,*.txt,@xy,k: long,%s"]);
    let rows = rows(&ended);
    for row in ["a #b 4.00", "*.txt 5.00", "@xy 3.00", "k: long 7.00", "%s 2.00"] {
        assert!(rows.iter().any(|found| found == row), "{row}: {rows:?}");
    }
}

/// A script's settings that it prints are no results beside a loss, and each job's output counts.
#[test]
fn numbers_are_found_in_the_outputs_of_all_jobs() {
    for (body, wanted) in [
        ("print('batch_size = 64\\nepochs = 3\\ntrain loss: %g' % a.lr)\n", ["1 1.00", "2 2.00"]),
        ("print('n_params=1000'); print('Epoch 1: val_loss 0.%d' % a.lr)\n", ["1 0.100", "2 0.200"]),
        ("print('loss: nan' if a.lr == 1 else 'loss: 0.5')\n", ["1 –ᵃ", "2 0.500"]),
        ("print('done' if a.lr == 1 else 'loss: 0.5')\n", ["1 –ᵃ", "2 0.500"]),
        ("print('\\x1b[1mloss\\x1b[0m: \\x1b[32m%g\\x1b[0m' % a.lr)\n", ["1 1.00", "2 2.00"]),
        ("print({'eval_loss': a.lr, 'epoch': 1.0})\n", ["1 1.00", "2 2.00"]),
        ("print('====> Test set loss: %g' % a.lr)\n", ["1 1.00", "2 2.00"]),
        (
            "d = 'runs/%g' % a.lr; os.makedirs(d); open(d + '/log.csv', 'w').write('epoch,loss\\n1,%g\\n' % a.lr)\n",
            ["1 1.00", "2 2.00"],
        ),
    ] {
        let ended = run(&with(body), &["train.py", "--axis", "lr=1,2"]);
        let rows = rows(&ended);
        for row in wanted {
            assert!(rows.iter().any(|found| found.starts_with(row)), "{body}{}{}", ended.stdout, ended.stderr);
        }
        assert!(!ended.stdout.contains("bit for bit"), "{body}{}", ended.stdout);
    }
    let ended = run(&with("print('[9]\\ttrain-rmse:0.45\\ttest-rmse:%g' % a.lr)\n"), &["train.py", "--axis", "lr=1,2"]);
    assert!(ended.stdout.contains("train_rmse") && ended.stdout.contains("test_rmse"), "{}", ended.stdout);
}

/// Settings and constants hide no results, and numbers of one name have the layout that tells them apart.
#[test]
fn results_are_told_from_settings_and_constants() {
    let libfm = "print('num_rows=100\\nnum_values=7\\nlearnrate=%g' % a.lr)\n\
        for i in range(3): print('#Iter=%3d\\tTrain=%g\\tTest=%g' % (i, 0.5 / a.lr, 0.7 / a.lr))\n\
        print('Final\\tTrain=%g\\tTest=%g' % (0.25 / a.lr, 0.75 / a.lr))\n";
    let json = "print('{\"epoch\": 1, \"train\": {\"loss\": %g}, \"val\": {\"loss\": %g, \"acc\": 0.5}}' % (a.lr, a.lr * 2))\n";
    let table = "print('| epoch | loss | val_acc |\\n|---|---|---|\\n| 1 | 0.9 | 0.1 |\\n| 2 | %g | 0.5 |' % a.lr)\n";
    for (body, columns, row) in [
        (libfm, "lr final_test test final_train train", "2 0.375 0.350 0.125 0.250"),
        (json, "lr val.acc val.loss train.loss", "2 0.500 4.00 2.00"),
        (table, "lr loss val_acc", "2 2.00 0.500"),
        ("print('The RMSE of prediction is: %g' % a.lr)\n", "lr rmse", "2 2.00"),
    ] {
        let ended = run(&with(body), &["train.py", "--axis", "lr=1,2"]);
        let rows = rows(&ended);
        let has = |text: &str| rows.iter().any(|found| found.starts_with(text));
        assert!(has(columns) && has(row), "{body}{}{}", ended.stdout, ended.stderr);
        assert!(!ended.stdout.contains("learnrate"), "{}", ended.stdout);
    }
    let constants = "print('num_rows=100'); print('text', a.lr)\n";
    let ended = run(&with(constants), &["train.py", "--axis", "lr=1,2"]);
    assert!(!ended.stdout.contains("bit for bit") && ended.stderr.contains("no metric was found"), "{}", ended.stderr);
}

#[test]
fn a_checkpoint_that_appears_in_a_folder_of_the_script_is_an_edit() {
    let sandbox = with(
        "\
os.makedirs('ckpt', exist_ok=True)
found = glob.glob('ckpt/*.pt')
start = int(open(found[0]).read()) if found else 0
open('ckpt/last.pt', 'w').write('5')
print('loss=%g' % (a.lr / (1 + start)))
",
    );
    if !has_views() {
        return;
    }
    assert!(rows(&run(&sandbox, &["train.py", "--axis", "lr=1"])).contains(&"1 1.00".to_owned()));
    sandbox.write("ckpt/last.pt", "5");
    let ended = run(&sandbox, &["train.py", "--axis", "lr=1"]);
    assert!(rows(&ended).contains(&"1 0.167".to_owned()), "{}{}", ended.stdout, ended.stderr);
}

#[test]
fn an_edit_of_a_script_outside_of_the_current_folder_is_seen() {
    let sandbox = Sandbox::new();
    script(&sandbox, "project/train.py", "from model import V\nprint('loss=%g' % V)\n");
    sandbox.write("project/model.py", "V = 1\n");
    sandbox.write("else/keep", "");
    let run = || {
        let mut command = sandbox.command(&["run", "../project/train.py", "--axis", "lr=1"]);
        let ended = command.current_dir(sandbox.path("else")).output().unwrap();
        let text = String::from_utf8_lossy(&ended.stdout).into_owned();
        assert!(ended.status.success(), "{text}{}", String::from_utf8_lossy(&ended.stderr));
        text
    };
    run();
    sandbox.write("project/model.py", "V = 7\n");
    let text = run();
    assert!(text.contains("7.00"), "{text}");
}

#[test]
fn an_axis_that_an_argument_sets_too_is_a_mistake() {
    let sandbox = with("print('loss=%g' % a.lr)\n");
    for arguments in [["--lr", "9"].as_slice(), &["--lr=9"]] {
        let ended = sandbox.sweep(&[&["run", "train.py", "--axis", "lr=1,2", "--"], arguments].concat());
        assert_eq!(ended.code, Some(2), "{}", ended.stdout);
        let expected = format!("`lr` is given twice: as an axis, and by `{}` after `--`", arguments[0]);
        assert!(ended.stderr.contains(&expected), "{}", ended.stderr);
    }
}

#[test]
fn a_constant_as_an_axis_gets_a_remedy_that_works() {
    let sandbox = Sandbox::new();
    sandbox.write("train.py", "LR = 0.1\nprint('loss=%g' % LR)\n");
    let ended = sandbox.sweep(&["run", "train.py", "--axis", "LR=1,2"]);
    assert!(ended.stderr.contains("LR = float(os.environ.get(\"LR\", 0.1))"), "{}", ended.stderr);
    sandbox.write("train.py", "import os\nLR = float(os.environ.get('LR', 0.1))\nprint('loss=%g' % LR)\n");
    assert_eq!(rows(&run(&sandbox, &["train.py", "--axis", "LR=1,2"]))[1..], ["1 1.00", "2 2.00"]);
}

/// Writes a log named after its parameter, in an encoding and with separators of other tools.
const LOGGER: &str = "
import codecs, json, os, sys
x = float(sys.argv[1])
os.makedirs('out/x%g' % x)
if 'json' in sys.argv:
    with open('out/x%g/metrics.json' % x, 'wb') as file:
        file.write(codecs.BOM_UTF8 + json.dumps({'epoch_1': {'val_loss': 9}, 'epoch_2': {'val_loss': x}}).encode())
else:
    with open('out/x%g/log.csv' % x, 'w', encoding=sys.argv[2]) as file:
        file.write(('\"epoch\";\"val_loss\"\\n\"1\";1;9,5\\n\"2\";2;%g\\n' % x).replace('.', ','))
";

#[test]
fn logs_in_the_forms_of_other_tools_are_read() {
    if !has_views() {
        return;
    }
    for form in ["json", "utf-8", "utf-16"] {
        let sandbox = Sandbox::new();
        sandbox.write("main.py", LOGGER);
        let sweep = |values: &str| {
            let ended = sandbox.sweep(&["run", "--axis", values, "--", "python3", "main.py", "{x}", form]);
            assert_eq!(ended.code, Some(0), "{form}: {}{}", ended.stdout, ended.stderr);
            ended
        };
        let ended = sweep("x=1.5,2.5");
        assert!(ended.stdout.contains("val_loss"), "{form}: {}{}", ended.stdout, ended.stderr);
        assert!(ended.stderr.contains("metrics from out/*/"), "{form}: {}", ended.stderr);
        assert_eq!(rows(&ended)[1..], ["1.5 1.50", "2.5 2.50"], "{form}");
        let ended = sweep("x=1.5,2.5,3.5");
        assert_eq!(rows(&ended)[1..], ["1.5 1.50", "2.5 2.50", "3.5 3.50"], "{form}: {}", ended.stderr);
        assert!(!ended.stderr.contains("was not"), "{form}: {}", ended.stderr);
    }
}

#[test]
fn files_without_metrics_are_named_before_they_are_removed() {
    if !has_views() {
        return;
    }
    let sandbox = Sandbox::new();
    sandbox.write("main.py", "import os\nopen('r.npz', 'w').write('x')\nopen('config.yaml', 'w').write('a: 1')\n");
    let ended = sandbox.sweep(&["run", "--axis", "x=1", "--", "python3", "main.py", "{x}"]);
    assert!(
        ended.stderr.contains("the program wrote `config.yaml`, `r.npz`")
            || ended.stderr.contains("the program wrote `r.npz`, `config.yaml`"),
        "{}",
        ended.stderr
    );
    sandbox.write("main.py", "import os\nos.makedirs('wandb/logs')\nopen('wandb/logs/x.log', 'w').write('{\"a\": 1}')\nos.makedirs('.venv/lib')\nopen('.venv/lib/a.json', 'w').write('{\"a\": 1}')\n");
    let ended = sandbox.sweep(&["run", "--axis", "x=1", "--", "python3", "main.py", "{x}"]);
    assert!(ended.stderr.contains("logged to `wandb`") && !ended.stderr.contains("metrics from"), "{}", ended.stderr);
}

#[test]
fn a_report_without_any_line_of_rank_0_has_a_notice() {
    let sandbox = Sandbox::new();
    let report = |lines: &str| {
        sandbox.write("recipe.yaml", &format!("steps: {{ a: {{ uses: command, with: {{ inputs: [], run: 'printf \"{lines}\" >> $SWEEP_REPORT' }} }} }}"));
        sandbox.sweep(&["run", "recipe.yaml"]).stderr
    };
    let line = |rank: u32| format!(r#"{{\"step\": 1, \"loss\": 0.5, \"rank\": {rank}}}\n"#);
    let output = report(&line(8));
    assert!(output.contains("lines with `rank` 8, and none of rank 0"), "{output}");
    let output = report(&format!("{}{}", line(1), line(0)));
    assert!(!output.contains("none of rank 0"), "{output}");
}
