//! The first commands: `sweep` alone, `sweep new`, and `sweep examples`.

use crate::sandbox::Sandbox;

fn said(sandbox: &Sandbox, args: &[&str]) -> String {
    let ended = sandbox.sweep(args);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    ended.stdout
}

#[test]
fn alone_in_an_empty_folder_it_says_how_to_begin() {
    let sandbox = Sandbox::new();
    let text = said(&sandbox, &[]);
    assert!(text.contains("there are no recipes in this folder"), "{text}");
    assert!(text.contains("next: sweep demo"), "{text}");
    assert!(text.contains("sweep new train.py"), "{text}");
    assert!(!sandbox.path("results").exists(), "it writes nothing");
}

#[test]
fn alone_it_shows_the_recipes_the_latest_run_and_the_next_command() {
    let sandbox =
        Sandbox::with("about: Is it so?\nsteps: { a: { uses: mock }, b: { uses: mock, with: { end: fail } } }\n");
    sandbox.write("studies/other.yaml", "steps: { a: { uses: mock } }\n");
    sandbox.write("compose.yaml", "services: {}\n");
    let text = said(&sandbox, &[]);
    assert!(
        text.contains("2 recipes in this folder:\n  recipe.yaml         Is it so?\n  studies/other.yaml\n"),
        "{text}"
    );
    assert!(text.contains("next: sweep plan recipe.yaml"), "{text}");
    assert_eq!(sandbox.sweep(&["run", "recipe.yaml"]).code, Some(5));
    let text = said(&sandbox, &[]);
    assert!(text.contains("2 jobs: 1 done, 1 failed"), "{text}");
    assert!(text.contains("1 record in results"), "{text}");
    assert!(text.contains("next: sweep run recipe.yaml"), "what failed is run again: {text}");
    sandbox.write("recipe.yaml", "steps: { a: { uses: mock } }\n");
    assert_eq!(sandbox.sweep(&["run", "recipe.yaml", "--set", "x=1"]).code, Some(3));
    assert_eq!(sandbox.sweep(&["run", "studies/other.yaml", "--axis", "a.seed=7"]).code, Some(0));
    let text = said(&sandbox, &[]);
    assert!(text.contains("next: sweep report studies/other.yaml"), "{text}");
}

#[test]
fn a_new_recipe_runs_as_it_is() {
    let sandbox = Sandbox::new();
    let ended = sandbox.sweep(&["new"]);
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), "recipe.yaml: 9 jobs\n"), "{}", ended.stderr);
    assert_eq!(ended.stderr, "next: sweep plan recipe.yaml\n");
    let ended = sandbox.sweep(&["run", "recipe.yaml"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(ended.stdout.contains("✓ faster-is-better: supported"), "{}", ended.stdout);
    let ended = sandbox.sweep(&["new"]);
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(2), ""), "a file is never replaced");
    assert!(ended.stderr.contains("recipe.yaml"), "{}", ended.stderr);
}

#[test]
fn a_new_recipe_for_the_network_plans() {
    let sandbox = Sandbox::new();
    let ended = sandbox.sweep(&["new", "--template", "lab", "--output", "my study.yaml"]);
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), "my study.yaml: 9 jobs\n"), "{}", ended.stderr);
    assert!(sandbox.read("my study.yaml").contains("\nname: my-study\n"));
    let ended = sandbox.sweep(&["plan", "my study.yaml", "--backend", "cpu"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let ended = sandbox.sweep(&["new", "train.py", "--template", "lab"]);
    assert_eq!(ended.code, Some(2), "a script has its own parameters");
}

#[test]
fn examples_are_listed_with_their_questions() {
    let sandbox = Sandbox::new();
    let text = said(&sandbox, &["examples"]);
    assert!(text.lines().any(|line| line.starts_with("recipes/demo.yaml ") && line.contains('?')), "{text}");
    assert!(text.contains("\nsweeps/quick.yaml"), "{text}");
    assert!(!sandbox.path("sweep-examples").exists(), "a list copies nothing");
}
