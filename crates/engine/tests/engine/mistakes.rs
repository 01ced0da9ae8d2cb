//! Bad recipes that no page of `crates/engine/tests/mistakes/` can show: very long ones, hostile ones, and those that are not there.

use crate::sandbox::Sandbox;

/// The message for a bad recipe, after the checks that hold for all of them.
fn message(recipe: &str, args: &[&str]) -> String {
    let sandbox = Sandbox::with(recipe);
    let args: Vec<&str> = ["run", "recipe.yaml"].into_iter().chain(args.iter().copied()).collect();
    let ended = sandbox.sweep(&args);
    assert_eq!(ended.code, Some(3), "{}", ended.stderr);
    assert_eq!(ended.stdout, "");
    assert!(!sandbox.path("results").exists(), "nothing was run");
    let messages = ended.stderr.matches("  × ").count();
    let places = ended.stderr.matches("╭─[recipe.yaml:").count() + ended.stderr.matches("╭─[--set ").count();
    assert_eq!(messages, places, "every message has a place: {}", ended.stderr);
    ended.stderr
}

#[test]
fn a_long_line_is_cut_around_the_mistake() {
    let long = "x".repeat(70_000);
    let text = message(&format!("{{about: '{long}', steps: {{a: {{uses: mock, wiht: {{}}}}}}}}"), &[]);
    insta::assert_snapshot!(text);
    assert!(text.lines().all(|line| line.chars().count() < 200), "{text}");
}

#[test]
fn nothing_hostile_reaches_the_terminal() {
    let recipe = "# a comment \u{1b}[2J\nsteps: { a: { uses: \"m\\e[31mk\" } }\n";
    let text = message(recipe, &["--set", "\u{1b}[31mx=1"]);
    assert!(!text.chars().any(|char| char.is_control() && char != '\n'), "{text:?}");
    let sandbox = Sandbox::with(
        "steps: { a: { uses: mock, matrix: { x: [\"\\e[2J\", \"\\u202e\"] }, with: { value: 1 }, if: matrix.x != null } }\ntables: { t: { title: \"\\e[2J\\n\", from: a, rows: [x], cells: [value] } }",
    );
    for args in
        [&["run", "recipe.yaml"][..], &["plan", "recipe.yaml", "--list"], &["report", "recipe.yaml", "--format", "md"]]
    {
        let ended = sandbox.sweep(args);
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        let hostile = |char: char| char.is_control() && char != '\n' || char == '\u{202e}';
        assert!(!ended.stdout.contains(hostile) && !ended.stderr.contains(hostile), "{args:?} {ended:?}");
    }
}

#[test]
fn many_mistakes_are_counted() {
    let steps: Vec<String> = (0..3000).map(|index| format!("  s{index}: {{ uses: mok }}")).collect();
    let sandbox = Sandbox::with(&format!("steps:\n{}\n", steps.join("\n")));
    let ended = sandbox.sweep(&["run", "recipe.yaml"]);
    assert!(
        ended.stderr.ends_with("… and 2950 more\nrecipe.yaml is not a valid recipe: 3000 mistakes; nothing was run\n"),
        "{}",
        ended.stderr
    );
}

#[test]
fn what_is_no_recipe_at_all() {
    for recipe in ["", "just text", "steps: [a, b]", "a: [1, 2", "\u{1}", "name: x\n--- \nname: y\n"] {
        message(recipe, &[]);
    }
}

#[test]
fn a_missing_file_is_a_usage_error() {
    let ended = Sandbox::new().sweep(&["run", "nothing.yaml"]);
    assert_eq!(ended.code, Some(2));
    assert_message!(ended.stderr);
}

#[test]
fn a_closed_standard_error_changes_no_exit_code() {
    let sandbox = Sandbox::with("steps: { a: { uses: mock } }");
    sandbox.write("bad.yaml", "steps: 3");
    for (recipe, code) in [("recipe.yaml", 0), ("bad.yaml", 3), ("none.yaml", 2)] {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let status = sandbox.command(&["run", recipe]).stderr(full).status().unwrap();
        assert_eq!(status.code(), Some(code), "{recipe}");
    }
}

#[test]
fn an_argument_that_only_a_shell_would_replace_is_a_warning() {
    let sandbox = Sandbox::with(
        "steps: { a: { uses: command, with: { argv: [ls, $HOME/data, '--out=${SCRATCH}/x', '$1', ~/x] } } }",
    );
    let ended = sandbox.sweep(&["plan", "recipe.yaml"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    for argument in ["$HOME/data", "--out=${SCRATCH}/x", "~/x"] {
        let text = format!("the program gets `{argument}` unchanged: no shell expands `argv`");
        assert!(ended.stderr.contains(&text), "{argument}: {}", ended.stderr);
    }
    assert_eq!(ended.stderr.matches("warning: ").count(), 3, "{}", ended.stderr);
    // A shell, and a script of awk, have a `$` of their own.
    for argv in ["[sh, -c, $HOME]", "[awk, '{ print $NF }', x]"] {
        sandbox.write("recipe.yaml", &format!("steps: {{ a: {{ uses: command, with: {{ argv: {argv} }} }} }}"));
        assert!(!sandbox.sweep(&["plan", "recipe.yaml"]).stderr.contains("no shell expands"), "{argv}");
    }
}

#[test]
fn a_metric_that_no_job_measured_is_named_beside_those_that_were() {
    let sandbox = Sandbox::with(
        r#"
steps: { a: { uses: command, matrix: { lr: [0.1, 0.2] }, with: { run: "echo loss=${{ matrix.lr }}" } } }
tables: { t: { from: a, rows: [lr], cells: [los] } }
claims: { c: { says: It is low., value: { metric: los, of: { step: a } }, expect: { less_than: 1 } } }
"#,
    );
    let ended = sandbox.sweep(&["run", "recipe.yaml"]);
    assert!(ended.stdout.contains("ᵃ `los` was not measured by 2 jobs, which measured `loss`"), "{}", ended.stdout);
    assert_eq!(ended.stdout.matches("`los` was not measured by 2 jobs").count(), 2, "{}", ended.stdout);
}

#[test]
fn the_same_failure_and_the_same_note_of_many_jobs_are_shown_once() {
    let sandbox = Sandbox::with(
        r#"
steps:
  a:
    uses: command
    matrix: { lr: [1, 2, 3] }
    with: { argv: [python3, train.py, "${{ matrix.lr }}"], inputs: [train.py] }
  b:
    uses: command
    matrix: { lr: [1, 2, 3] }
    with:
      run: "echo 'step 1 loss 0.5'; echo 'step 2 loss nan'"
      env: { LR: "${{ matrix.lr }}" }
      reads: { stdout: "step {step} loss {loss}" }
tables: { t: { from: b, rows: [lr], cells: [loss] } }
"#,
    );
    sandbox.write("train.py", "open('data/words.txt')");
    sandbox.write("data/words.txt", "");
    let ended = sandbox.sweep(&["run", "recipe.yaml", "--jobs", "1"]);
    let stderr = &ended.stderr;
    assert_eq!(stderr.matches("No such file or directory: 'data/words.txt'").count(), 1, "{stderr}");
    assert_eq!(stderr.matches("`data/words.txt` is in the recipe's folder: add it to `inputs`").count(), 1, "{stderr}");
    assert_eq!(stderr.matches("the same failure as a lr=1").count(), 2, "{stderr}");
    assert!(stderr.contains("note: 2 more jobs: `loss` is NaN at step 2"), "{stderr}");
    assert!(ended.stdout.contains("3 jobs diverged: `loss` is NaN or infinite from step 2"), "{}", ended.stdout);
}

#[test]
fn a_script_in_place_of_a_recipe_is_its_study() {
    let sandbox = Sandbox::new();
    sandbox.write("train.py", "print('loss=0.5')");
    let ended = sandbox.sweep(&["plan", "train.py"]);
    assert_eq!(ended.code, Some(2), "{}", ended.stderr);
    assert!(ended.stderr.contains("`sweep run train.py --axis NAME=A,B` runs one"), "{}", ended.stderr);
    assert_eq!(sandbox.sweep(&["run", "train.py"]).code, Some(0));
    for command in ["plan", "report"] {
        let ended = sandbox.sweep(&[command, "train.py"]);
        assert_eq!(ended.code, Some(0), "{command}: {}", ended.stderr);
    }
    let ended = sandbox.sweep(&["run", "trian.py", "--axis", "lr=1"]);
    assert!(ended.stderr.contains("there is no script `trian.py`: did you mean `train.py`?"), "{}", ended.stderr);
}
