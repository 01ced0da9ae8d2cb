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
