//! Programs that read a file of settings: its copy with the values of `set` is in its place.

use crate::{projects::has_views, sandbox::Sandbox};

const TRAIN: &str = "
import pathlib, sys
path = pathlib.Path(sys.argv[1])
lines = dict(line.split(': ') for line in path.read_text().splitlines() if ': ' in line)
base = (path.parent / lines['base']).read_text() if 'base' in lines else '0'
print('file', path.name, sorted(other.name for other in path.parent.iterdir()))
print('loss=%s' % (float(lines['lr']) + float(base)))
";

const RECIPE: &str = "steps:
  a:
    uses: command
    matrix: { lr: [1, 2] }
    with:
      argv: [python3, train.py, conf/a.yaml]
      settings: conf/a.yaml
      set: { lr: \"${{ matrix.lr }}\" }
";

fn project() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.write("train.py", TRAIN);
    sandbox.write("conf/a.yaml", "lr: 0.5\nbase: ../base.txt\n");
    sandbox.write("base.txt", "10");
    sandbox.write("recipe.yaml", RECIPE);
    sandbox
}

/// Runs both jobs, which have these losses.
fn check(sandbox: &Sandbox, losses: [&str; 2]) {
    let ended = sandbox.sweep(&["run", "recipe.yaml"]);
    assert_eq!(ended.code, Some(0), "{}{}", ended.stdout, ended.stderr);
    for (lr, loss) in ["lr=1 ", "lr=2 "].into_iter().zip(losses) {
        let is_done = |line: &str| line.contains(lr) && line.ends_with(&format!("loss {loss}"));
        assert!(ended.stderr.lines().any(is_done), "{lr} {loss}: {}", ended.stderr);
    }
}

#[test]
fn the_copy_is_in_the_place_of_the_file() {
    if !has_views() {
        return;
    }
    let sandbox = project();
    check(&sandbox, ["11", "12"]);
    assert!(sandbox.sweep(&["logs", "a/lr=2"]).stdout.contains("file a.yaml ['a.yaml']"));
    assert_eq!(sandbox.read("conf/a.yaml"), "lr: 0.5\nbase: ../base.txt\n", "the file stays as it is");
    sandbox.assert_all_cached(&["recipe.yaml"]);
    // A file that is found from the place of the copy is observed, and the file of settings is an input.
    sandbox.write("base.txt", "20");
    check(&sandbox, ["21", "22"]);
    sandbox.write("conf/a.yaml", "lr: 0.5\n");
    check(&sandbox, ["1", "2"]);
    sandbox.write("notes.txt", "");
    sandbox.assert_all_cached(&["recipe.yaml"]);
}

#[test]
fn the_command_of_a_study_finds_what_is_beside_the_file() {
    if !has_views() {
        return;
    }
    let sandbox = project();
    sandbox.write("conf/metrics.json", "{\"lr\": 3}");
    let ended = sandbox.sweep(&["run", "--axis", "lr=1,2", "--", "python3", "train.py", "conf/a.yaml"]);
    assert_eq!(ended.code, Some(0), "{}{}", ended.stdout, ended.stderr);
    assert!(ended.stdout.contains("11.0") && ended.stdout.contains("12.0"), "{}", ended.stdout);
    assert!(!ended.stderr.contains("which the program wrote"), "{}", ended.stderr);
}

#[test]
fn a_copy_is_no_file_that_the_program_wrote() {
    if !has_views() {
        return;
    }
    let sandbox = project();
    sandbox.write("results.json", "{\n\"lr\": 0.5\n}\n");
    let program = "import json, sys\nprint('value', json.load(open(sys.argv[1]))['lr'])\n";
    sandbox.write("show.py", program);
    let ended = sandbox.sweep(&["run", "--axis", "lr=1,2", "--", "python3", "show.py", "results.json"]);
    assert_eq!(ended.code, Some(0), "{}{}", ended.stdout, ended.stderr);
    assert!(!ended.stderr.contains("results.json"), "{}", ended.stderr);
}

#[test]
fn programs_without_a_project_find_the_copy_beside_their_inputs() {
    let sandbox = project();
    let recipe = RECIPE.replace("conf/a.yaml]", "a.yaml]\n      inputs: [train.py]");
    sandbox.write("conf/a.yaml", "lr: 0.5\n");
    sandbox.write("recipe.yaml", &recipe);
    check(&sandbox, ["1", "2"]);
    // A file outside of the project has its copy elsewhere.
    let other = tempfile::tempdir().unwrap();
    let outside = other.path().join("b.yaml");
    fs_err::write(&outside, "lr: 0.5\n").unwrap();
    sandbox.write("recipe.yaml", &RECIPE.replace("conf/a.yaml", &outside.display().to_string()));
    check(&sandbox, ["1", "2"]);
    let script = format!("run: 'python3 train.py {}'", outside.display());
    let of_shell = RECIPE
        .replace("argv: [python3, train.py, conf/a.yaml]", &script)
        .replace("conf/a.yaml", &outside.display().to_string());
    sandbox.write("recipe.yaml", &of_shell);
    let ended = sandbox.sweep(&["run", "recipe.yaml"]);
    assert_eq!(ended.code, Some(5), "{}", ended.stderr);
    assert!(ended.stderr.contains("write `\"$SWEEP_SETTINGS\"` in the command"), "{}{}", ended.stdout, ended.stderr);
    sandbox.write("recipe.yaml", &of_shell.replace(&script, "run: 'python3 train.py \"$SWEEP_SETTINGS\"'"));
    check(&sandbox, ["1", "2"]);
}

#[test]
fn mistakes_in_set_have_their_place() {
    let sandbox = project();
    for (recipe, words) in [
        (RECIPE.replace("set: { lr:", "set: { rl:"), "has no `rl`"),
        (RECIPE.replace("set: { lr:", "set: { lr.x:"), "has no `lr.x`"),
        (RECIPE.replace("settings: conf/a.yaml", "settings: train.py"), "the name of a settings file ends"),
        (RECIPE.replace("settings: conf/a.yaml", "settings: conf/b.yaml"), "there is no"),
        (RECIPE.replace("      settings: conf/a.yaml\n", ""), "`set` names values of no file"),
        (RECIPE.replace("      set: { lr: \"${{ matrix.lr }}\" }\n", ""), "in which nothing is set"),
    ] {
        sandbox.write("recipe.yaml", &recipe);
        let ended = sandbox.sweep(&["plan", "recipe.yaml"]);
        assert_eq!(ended.code, Some(3), "{words}: {}", ended.stdout);
        // Messages are wrapped, with a bar before each line.
        let text = ended.stderr.split_whitespace().filter(|word| *word != "│").collect::<Vec<_>>().join(" ");
        assert!(text.contains(words) && text.contains("recipe.yaml:"), "{words}: {}", ended.stderr);
    }
}
