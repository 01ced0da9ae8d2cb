//! Code as an axis: revisions, patches and replaced files, in jobs and in proposals.

use std::process::Command;

use crate::{
    projects::has_views,
    sandbox::Sandbox,
    tracking::{open, run},
};

const MODEL: &str = "ROPE = 1\n\n\n\n\n\nNORM = 1\n\n\n\n\n\nWIDE = 1\n";
const TRAIN: &str = "import os, random\nfrom model import ROPE, NORM, WIDE\n\
    noise = random.Random(repr((os.environ['SWEEP_SEED'], ROPE, NORM, WIDE))).gauss(0, 0.01)\n\
    print('loss=%r' % (3.0 + noise - ROPE - 0.5 * NORM - 0.25 * WIDE))\n";

/// A patch that sets a flag of the model to 0. `title` is its first line.
fn patch(flag: &str, title: &str) -> String {
    let line = MODEL.lines().position(|line| line.starts_with(flag)).unwrap() + 1;
    format!("{title}\n--- a/model.py\n+++ b/model.py\n@@ -{line},1 +{line},1 @@\n-{flag} = 1\n+{flag} = 0\n")
}

fn git(sandbox: &Sandbox, args: &[&str]) {
    let author = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"];
    let status = Command::new("git").args(author).args(args).current_dir(sandbox.path("")).status().unwrap();
    assert!(status.success(), "{args:?}");
}

/// A program whose model has three parts, with a patch that removes each.
fn study(recipe: &str) -> Sandbox {
    let sandbox = Sandbox::with(recipe);
    sandbox.write("model.py", MODEL);
    sandbox.write("train.py", TRAIN);
    sandbox.write("README.md", "one\n");
    for (name, flag, title) in [("no-rope", "ROPE", ""), ("b", "NORM", "# No norm"), ("narrow", "WIDE", "")] {
        sandbox.write(&format!("ablations/{name}.patch"), &patch(flag, title));
    }
    sandbox
}

/// The values of a metric, by the labels of the jobs.
fn losses(sandbox: &Sandbox) -> Vec<(String, f64)> {
    let mut losses: Vec<(String, f64)> = sandbox
        .records()
        .iter()
        .map(|(label, record)| (label.clone(), record["outcome"]["metrics"]["loss"]["value"].as_f64().unwrap()))
        .collect();
    losses.sort_by(|one, other| one.0.cmp(&other.0));
    losses
}

#[test]
fn jobs_run_with_variants_of_the_code_and_rerun_when_what_they_read_changes() {
    if !has_views() {
        return;
    }
    let sandbox = study(
        "
steps:
  train:
    uses: command
    matrix:
      code: [., HEAD, ablations/no-rope.patch, readme.patch, { rev: wide }, { files: { model.py: other.py } }]
    with: { argv: [python3, train.py] }
tables:
  loss: { from: train, rows: [code], cells: loss }
",
    );
    git(&sandbox, &["init", "-q", "-b", "main"]);
    git(&sandbox, &["add", "-A"]);
    git(&sandbox, &["commit", "-qm", "first"]);
    git(&sandbox, &["checkout", "-q", "-b", "wide"]);
    sandbox.write("model.py", &MODEL.replace("WIDE = 1", "WIDE = 4"));
    git(&sandbox, &["commit", "-qam", "wide"]);
    git(&sandbox, &["checkout", "-q", "main"]);
    sandbox.write("other.py", "ROPE = NORM = WIDE = 0\n");
    sandbox.write("readme.patch", "--- a/README.md\n+++ b/README.md\n@@ -1 +1 @@\n-one\n+two\n");
    // The project is as its commit has it, so that is one job.
    assert_eq!(open(&sandbox).len(), 5);
    run(&sandbox);
    let found = losses(&sandbox);
    let of = |code: &str| found.iter().find(|(label, _)| label.ends_with(&format!("code={code}"))).unwrap().1;
    let base = of(".");
    for (code, more) in [("ablations/no-rope.patch", 1.0), ("readme.patch", 0.0), ("wide", -0.75), ("other", 1.75)] {
        assert!((of(code) - base - more).abs() < 0.08, "{code}: {} {base}", of(code));
    }
    assert_eq!(open(&sandbox), Vec::<String>::new());
    assert_eq!(sandbox.read("model.py"), MODEL);
    let plan = sandbox.sweep(&["plan", "recipe.yaml", "--format", "json"]);
    assert!(plan.stdout.matches("\"cached\"").count() >= 4, "{}", plan.stdout);
    // An edit of the project reaches the variants that have its files, and no revision or replaced file.
    sandbox.write("model.py", &MODEL.replace("NORM = 1", "NORM = 2"));
    let reruns = ["train/code=.", "train/code=ablations/no-rope.patch", "train/code=readme.patch"];
    let due = open(&sandbox);
    assert!(due.iter().all(|label| reruns.contains(&label.as_str())) && due.len() >= 2, "{due:?}");
    run(&sandbox);
    assert_eq!(open(&sandbox), Vec::<String>::new());
    // A file that nothing reads, a moved branch with the same content, and a patch with another title change nothing.
    sandbox.write("unread.py", "x = 1\n");
    git(&sandbox, &["commit", "-q", "--allow-empty", "-m", "empty"]);
    sandbox.write("ablations/no-rope.patch", &patch("ROPE", "# other words"));
    assert_eq!(open(&sandbox), Vec::<String>::new());
    // A patch that does not fit any more is a mistake of the plan, with its file and part.
    sandbox.write("model.py", &MODEL.replace("ROPE = 1", "ROPE = 7"));
    let refused = sandbox.sweep(&["run", "recipe.yaml"]);
    assert_eq!(refused.code, Some(3), "{}", refused.stderr);
    assert!(refused.stderr.contains("hunk 1 of 1") && refused.stderr.contains("recipe.yaml:6"), "{}", refused.stderr);
}

#[test]
fn patches_are_the_factors_of_an_ablation() {
    if !has_views() {
        return;
    }
    let sandbox = study(
        "
steps:
  train:
    uses: command
    ablate: { design: factorial, patches: ablations/*.patch }
    seeds: 2
    with: { argv: [python3, train.py] }
tables:
  effects: { from: train, effects: { factors: [no-rope, no-norm, narrow] }, cells: loss }
",
    );
    let planned = sandbox.planned(&["recipe.yaml"]);
    assert_eq!(planned.len(), 16, "{planned:?}");
    let ended = sandbox.sweep(&["run", "recipe.yaml"]);
    assert_eq!(ended.code, Some(0), "{}{}", ended.stdout, ended.stderr);
    let found = losses(&sandbox);
    assert_eq!(found.len(), 16);
    let mean = |wanted: &str| {
        let values: Vec<f64> =
            found.iter().filter(|(label, _)| label.contains(wanted)).map(|(_, value)| *value).collect();
        assert_eq!(values.len(), 8, "{wanted}");
        values.iter().sum::<f64>() / 8.0
    };
    for (factor, effect) in [("no-rope", 1.0), ("no-norm", 0.5), ("narrow", 0.25)] {
        let found = mean(&format!("{factor}=true")) - mean(&format!("{factor}=false"));
        assert!((found - effect).abs() < 0.04, "{factor}: {found}");
    }
    // A bundle has the patches, and is verified where the project is not.
    let bundle = sandbox.path("study.sweep.tar");
    let made = sandbox.sweep(&["bundle", "create", "recipe.yaml", "--output", bundle.to_str().unwrap()]);
    assert_eq!(made.code, Some(0), "{}", made.stderr);
    let verified = Sandbox::new().sweep(&["bundle", "verify", bundle.to_str().unwrap()]);
    assert_eq!(verified.code, Some(0), "{}{}", verified.stdout, verified.stderr);
    // Two patches of one line do not go together; each alone does.
    sandbox.write("ablations/twice.patch", &patch("ROPE", "# twice").replace("+ROPE = 0", "+ROPE = 3"));
    let refused = sandbox.sweep(&["plan", "recipe.yaml"]);
    assert_eq!(refused.code, Some(3));
    assert!(refused.stderr.contains("is applied before it"), "{}", refused.stderr);
    let recipe = sandbox.read("recipe.yaml").replace("factorial", "add-one").replace("tables:", "x-tables:");
    sandbox.write("alone.yaml", recipe.split("x-tables").next().unwrap());
    assert_eq!(sandbox.planned(&["alone.yaml"]).len(), 10);
    sandbox.write("ablations/again.patch", &patch("NORM", "# twice"));
    let refused = sandbox.sweep(&["plan", "alone.yaml"]);
    assert!(refused.stderr.contains("have the name `twice`"), "{}", refused.stderr);
}

#[test]
fn changes_of_code_are_proposed_as_patches_and_revisions() {
    if !has_views() {
        return;
    }
    let sandbox = study(
        "
steps:
  train: { uses: command, seeds: 3, with: { argv: [python3, train.py], seed: '${{ matrix.seed }}' } }
",
    );
    sandbox.write("wider.patch", &patch("WIDE", "").replace("+WIDE = 0", "+WIDE = 2"));
    sandbox.write("title.patch", "--- a/README.md\n+++ b/README.md\n@@ -1 +1 @@\n-one\n+two\n");
    sandbox.write("noop.patch", "--- a/model.py\n+++ b/model.py\n@@ -1,2 +1,2 @@\n-ROPE = 1\n+ROPE = 1  # one\n \n");
    git(&sandbox, &["init", "-q", "-b", "main"]);
    git(&sandbox, &["add", "-A"]);
    git(&sandbox, &["commit", "-qm", "first"]);
    let propose = |change: &[&str]| {
        let ask =
            ["propose", "recipe.yaml", "--metric", "loss", "--better", "min", "--least", "0.05", "--format", "json"];
        let ended = sandbox.sweep(&[&ask[..], change].concat());
        assert!(matches!(ended.code, Some(0 | 2)), "{change:?}: {}{}", ended.stdout, ended.stderr);
        serde_json::from_str::<serde_json::Value>(&ended.stdout).unwrap()
    };
    let verdict = |answer: &serde_json::Value| {
        let standing = answer["standing"].as_str().unwrap().to_owned();
        let verdict = answer["conclusion"]["verdict"].as_str().unwrap_or_default().to_owned();
        (standing, verdict)
    };
    let is = |answer: &serde_json::Value, standing: &str, word: &str| {
        assert_eq!(verdict(answer), (standing.to_owned(), word.to_owned()), "{answer}");
    };
    is(&propose(&["--patch", "wider.patch"]), "judged", "accepted");
    // The same change is the same question, in whatever form it comes.
    sandbox.write("again.patch", &patch("WIDE", "# in other words").replace("+WIDE = 0", "+WIDE = 2"));
    is(&propose(&["--patch", "again.patch"]), "known", "accepted");
    git(&sandbox, &["checkout", "-q", "-b", "wider"]);
    sandbox.write("model.py", &MODEL.replace("WIDE = 1", "WIDE = 2"));
    git(&sandbox, &["commit", "-qam", "wider"]);
    git(&sandbox, &["checkout", "-q", "main"]);
    is(&propose(&["--rev", "wider"]), "known", "accepted");
    let place = tempfile::tempdir().unwrap();
    let tree = place.path().join("tree").to_str().unwrap().to_owned();
    git(&sandbox, &["worktree", "add", "-q", &tree, "wider"]);
    is(&propose(&["--worktree", &tree]), "known", "accepted");
    is(&propose(&["--patch", "ablations/b.patch"]), "judged", "dropped");
    // Files that the program does not read are no question, and a comment is no improvement.
    is(&propose(&["--patch", "title.patch"]), "refused", "");
    is(&propose(&["--patch", "noop.patch"]), "judged", "dropped");
    let verified = sandbox.sweep(&["ledger", "verify"]);
    assert_eq!(verified.code, Some(0), "{}{}", verified.stdout, verified.stderr);
    let none = sandbox.sweep(&["propose", "recipe.yaml", "--metric", "loss", "--better", "min", "--least", "1"]);
    assert_eq!(none.code, Some(2), "{}", none.stderr);
}

#[test]
fn the_revision_that_changed_a_metric_is_found() {
    if !has_views() {
        return;
    }
    let sandbox = study(
        "
steps:
  train: { uses: command, seeds: 3, with: { argv: [python3, train.py], seed: '${{ matrix.seed }}' } }
",
    );
    git(&sandbox, &["init", "-q", "-b", "main"]);
    git(&sandbox, &["add", "-A"]);
    git(&sandbox, &["commit", "-qm", "first"]);
    for number in 1..=12 {
        match number {
            3 => sandbox.write("model.py", &format!("{MODEL}\n# a comment\n")),
            8 => sandbox.write("model.py", &MODEL.replace("NORM = 1", "NORM = 0.9")),
            // It does not run.
            6 => sandbox.write("train.py", "import nothing_like_this\n"),
            7 => sandbox.write("train.py", TRAIN),
            _ => sandbox.write("README.md", &format!("{number}\n")),
        }
        git(&sandbox, &["commit", "-qam", &format!("change {number}")]);
    }
    let ask = ["bisect", "recipe.yaml", "--good", "HEAD~12", "--metric", "loss", "--format", "json"];
    let ended = sandbox.sweep(&ask);
    assert_eq!(ended.code, Some(0), "{}{}", ended.stdout, ended.stderr);
    let found: serde_json::Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(found["first"][0]["subject"], "change 8", "{found}");
    assert!((found["effect"]["mean"].as_f64().unwrap() - 0.05).abs() < 0.01, "{found}");
    assert_eq!(sandbox.read("README.md"), "12\n", "the project is as it was");
    // Everything is cached the second time; revisions with the same code ran once.
    let before = sandbox.records().len();
    let again = sandbox.sweep(&ask);
    assert!(!again.stderr.contains("done train"), "{}", again.stderr);
    assert_eq!((again.code, sandbox.records().len()), (Some(0), before));
    let same = sandbox.sweep(&["bisect", "recipe.yaml", "--good", "HEAD~4", "--metric", "loss", "--most", "4"]);
    assert!(same.code == Some(1) && same.stderr.contains("do not differ beyond their noise"), "{}", same.stderr);
    for (good, wanted) in [("nothing", "has no revision `nothing`"), ("HEAD", "no revision follows `HEAD`")] {
        let refused = sandbox.sweep(&["bisect", "recipe.yaml", "--good", good, "--metric", "loss"]);
        assert!(refused.code == Some(2) && refused.stderr.contains(wanted), "{}", refused.stderr);
    }
}

#[test]
fn marked_regions_and_commits_become_patches() {
    let sandbox = Sandbox::new();
    sandbox.write("pyproject.toml", "");
    sandbox.write(
        "src/model.py",
        "x = 1\n# ablate: twice\nx *= 2\n# end\n# ablate: plus\nx += 1\n# end\nprint('loss=%d' % x)\n",
    );
    let made = sandbox.sweep(&["ablate", "src"]);
    assert_eq!(made.code, Some(0), "{}", made.stderr);
    assert!(made.stdout.starts_with("2 patches in ablations: plus, twice\n"), "{}", made.stdout);
    sandbox.write(
        "recipe.yaml",
        "steps: { run: { uses: command, ablate: { design: factorial, patches: ablations/*.patch }, with: { argv: [python3, src/model.py] } } }\n",
    );
    if has_views() {
        run(&sandbox);
        let found = losses(&sandbox);
        let values: Vec<(&str, f64)> = found.iter().map(|(label, value)| (label.as_str(), *value)).collect();
        assert_eq!(
            values,
            [
                ("run/plus=false,twice=false", 3.0),
                ("run/plus=false,twice=true", 2.0),
                ("run/plus=true,twice=false", 2.0),
                ("run/plus=true,twice=true", 1.0),
            ]
        );
    }
    let again = sandbox.sweep(&["ablate", "src", "--format", "json"]);
    assert_eq!(again.code, Some(0), "the same patches: {}", again.stderr);
    let again: serde_json::Value = serde_json::from_str(&again.stdout).unwrap();
    assert_eq!(again["patches"], serde_json::json!(["ablations/plus.patch", "ablations/twice.patch"]));
    sandbox.write("ablations/plus.patch", "mine\n");
    let refused = sandbox.sweep(&["ablate", "src"]);
    assert!(refused.code == Some(2) && refused.stderr.contains("exists with other content"), "{}", refused.stderr);
    assert_eq!(sandbox.read("ablations/plus.patch"), "mine\n");
    sandbox.write("src/model.py", "# ablate: a\nx = 1\n");
    let refused = sandbox.sweep(&["ablate", "src/model.py"]);
    assert!(refused.stderr.contains("src/model.py:1: the region `a` has no `end`"), "{}", refused.stderr);
    git(&sandbox, &["init", "-q", "-b", "main"]);
    for (number, text) in ["a\n", "a\nb\n", "a\nb\nc\n"].iter().enumerate() {
        sandbox.write("text", text);
        git(&sandbox, &["add", "text"]);
        git(&sandbox, &["commit", "-qm", &format!("Step {number}")]);
    }
    let made = sandbox.sweep(&["ablate", "--commits", "HEAD~2..HEAD", "--out", "steps", "--revert"]);
    assert!(made.stdout.starts_with("2 patches in steps: step-1, step-2\n"), "{}{}", made.stdout, made.stderr);
    assert!(sandbox.read("steps/step-2.patch").contains("\n-c\n"));
}

/// Which files a program reads is known after its first run, so that the second of two equal variants need not run.
#[test]
fn of_equal_variants_one_runs_and_the_others_take_its_result() {
    if !has_views() {
        return;
    }
    let sandbox = study(
        "
steps:
  train:
    uses: command
    matrix: { code: [., readme.patch, ablations/no-rope.patch] }
    with: { argv: [python3, train.py] }
",
    );
    sandbox.write("readme.patch", "--- a/README.md\n+++ b/README.md\n@@ -1 +1 @@\n-one\n+two\n");
    let ended = sandbox.sweep(&["run", "recipe.yaml", "--jobs", "1"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert_eq!(sandbox.starts().len(), 2, "{}", ended.stderr);
    assert!(ended.stderr.contains("reads the same files as that of a variant"), "{}", ended.stderr);
    assert_eq!(losses(&sandbox).len(), 3);
    assert_eq!(open(&sandbox), Vec::<String>::new());
    assert_eq!(sandbox.sweep(&["cache", "verify"]).code, Some(0));
}

#[test]
fn a_variant_of_a_program_in_a_folder_of_its_repository_needs_no_output() {
    if !has_views() {
        return;
    }
    let sandbox = Sandbox::new();
    sandbox.write("exp/m.py", "k = 1\n");
    sandbox.write("exp/t.py", "import m\nprint('loss: %g' % (m.k * 1.5))\n");
    sandbox.write("k.patch", "--- a/exp/m.py\n+++ b/exp/m.py\n@@ -1 +1 @@\n-k = 1\n+k = 5\n");
    sandbox.write(
        "exp/s.yaml",
        "steps:\n  t:\n    uses: command\n    with:\n      project: .\n      argv: [python3, -B, t.py]\n      code: ../k.patch\n\
         \x20     reads: { stdout: 'loss: {loss}' }\ntables: { l: { from: t, rows: [], cells: [loss] } }\n",
    );
    git(&sandbox, &["init", "-q", "-b", "main"]);
    git(&sandbox, &["add", "-A"]);
    git(&sandbox, &["commit", "-qm", "first"]);
    let ended = sandbox.sweep(&["run", "exp/s.yaml"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(ended.stdout.contains("7.5"), "{}", ended.stdout);
}
