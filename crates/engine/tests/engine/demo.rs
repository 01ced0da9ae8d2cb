//! `sweep demo` and `sweep examples`: recipes without a repository.

use crate::sandbox::Sandbox;

#[test]
fn examples_plan_where_they_are_copied_to() {
    let sandbox = Sandbox::new();
    let ended = sandbox.sweep(&["examples", "mine"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(ended.stdout.ends_with(" files in mine\n"), "{}", ended.stdout);
    let schema = sandbox.sweep(&["schema"]).stdout;
    assert_eq!(sandbox.read("mine/docs/recipe.schema.json"), schema);
    for recipe in
        ["mine/recipes/bitter.yaml", "mine/recipes/command.yaml", "mine/sweeps/quick.yaml", "mine/sweeps/paper.yaml"]
    {
        let ended = sandbox.sweep(&["plan", recipe, "--backend", "cpu"]);
        assert_eq!(ended.code, Some(0), "{recipe}: {}", ended.stderr);
    }
    assert_eq!(sandbox.sweep(&["examples", "mine"]).code, Some(0), "the same files stay");
}

#[test]
fn changed_files_are_not_overwritten() {
    let sandbox = Sandbox::new();
    sandbox.write("sweep-examples/recipes/bitter.yaml", "mine");
    sandbox.write("sweep-examples/recipes/k1.yaml", "mine");
    let ended = sandbox.sweep(&["examples", "sweep-examples"]);
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(2), ""));
    let message = "error: nothing was copied: sweep-examples/recipes/bitter.yaml and 1 other file differ from what comes with the \
                   program; move them away, or name another folder\n";
    assert_eq!(ended.stderr, message);
    assert_eq!(sandbox.read("sweep-examples/recipes/bitter.yaml"), "mine");
    assert!(!sandbox.path("sweep-examples/recipes/check.yaml").exists(), "all or nothing");
}

/// Without the lab, the demo runs programs.
#[test]
fn the_demo_runs_in_an_empty_folder() {
    let sandbox = Sandbox::new();
    let ended = sandbox.sweep(&["demo"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(ended.stderr.contains("\nrunning: sweep run sweep-demo/recipes/demo.yaml\n"), "{}", ended.stderr);
    assert!(
        ended.stderr.contains("An illustration, made so that its claim is decided, and no evidence."),
        "{}",
        ended.stderr
    );
    // A table, paired differences, a verdict, curves, and the next commands.
    let text = &ended.stdout;
    assert!(text.contains("Differences from no momentum, paired by seed"), "{text}");
    assert!(text.contains("✓ momentum-helps: supported"), "{text}");
    let curves: Vec<&str> = text.lines().filter(|line| line.starts_with("  momentum=")).collect();
    assert_eq!(curves.len(), 3, "{text}");
    assert!(curves.iter().all(|line| line.contains('▁') && line.contains(" → ")), "{text}");
    let page = text.lines().map(str::trim).find(|line| line.ends_with("index.html")).unwrap();
    assert!(sandbox.read(page).contains("An illustration, made so that its claim is decided, and no evidence."));
    let commands: Vec<Vec<&str>> = text
        .lines()
        .filter_map(|line| line.trim().strip_prefix("sweep "))
        .map(|line| line.split(' ').collect())
        .collect();
    assert_eq!(commands.len(), 3, "{text}");
    for command in &commands {
        let ended = sandbox.sweep(command);
        assert_eq!(ended.code, Some(0), "what it says to do next works: {command:?}: {}", ended.stderr);
    }
    sandbox.assert_all_cached(&["sweep-demo/recipes/demo.yaml"]);
    let again = sandbox.sweep(&["demo"]);
    assert_eq!(again.code, Some(0), "{}", again.stderr);
    assert_eq!(sandbox.runs().len(), 2, "the second demo takes everything from the cache");
}
