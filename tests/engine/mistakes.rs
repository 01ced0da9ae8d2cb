//! Bad recipes: every message has a place and says what is allowed; nothing is run.

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
fn one_of_each_in_one_go() {
    insta::assert_snapshot!(message(
        "
name: wrong
abuot: a misspelt key
steps:
  check: { uses: mock, needs: [trian] }
  train:
    uses: mock
    matrix: { value: [1, 2], ent: [done] }
    with:
      seconds: fast
      steps: 1
      steps: 2
  a: { uses: mock, needs: [b] }
  b: { uses: mock, needs: [a] }
",
        &[],
    ));
}

#[test]
fn expressions() {
    insta::assert_snapshot!(message(
        "
params: { seconds: fast, steps: 3 }
steps:
  a:
    uses: mock
    matrix: { value: [1, '${{ matrix.value }}'] }
    with:
      seconds: ${{ params.seconds }}
      steps: ${{ params.step }}
      seed: ${{ matrix.sed }}
      end: ${{ parms.end }}
      variant: ${{ params.steps
",
        &["--set", "steps=many", "--set", "setps=1"],
    ));
}

#[test]
fn an_expression_in_a_flow_mapping() {
    insta::assert_snapshot!(message(
        "params: { v: 1 }\nsteps:\n  a: { uses: mock, with: { value: ${{ params.v }} } }\n",
        &[]
    ));
}

#[test]
fn matrices() {
    insta::assert_snapshot!(message(
        "
steps:
  a:
    uses: mock
    matrix:
      value: [1, 2, 1.0]
      seed: 3
      end: []
      exclude: [{ value: 7 }, { vaule: 1 }]
      include: [{ value: 5, steps: 2 }]
  b:
    uses: mock
    matrix: { value: [1], exclude: [{ value: 1 }] }
  c:
    uses: mock
    matrix: { value: [2], unused: [1] }
    with: { value: 3 }
  d:
    uses: mock
    matrix: { seed: [4] }
  e:
    uses: mock
    needs: d
    matrix: { seed: [5] }
",
        &[],
    ));
}

#[test]
fn forms_of_axes() {
    insta::assert_snapshot!(message(
        "
params: { word: many }
steps:
  a:
    uses: mock
    matrix:
      value: { range: [0, 0] }
      seed: { linspace: [0, 1] }
      steps: { logspace: [0, 1, 3] }
      variant: { rnage: [0, 3] }
  b:
    uses: mock
    matrix:
      zip: { value: [1, 2], seed: [1] }
      random: { n: 2.5, axes: { steps: { uniform: [1, '${{ params.word }}'] } } }
  c:
    uses: mock
    matrix: { value: '${{ needs.a.axes.value }}', seed: [0] }
    seeds: 3
  d:
    uses: mock
    needs: [{ step: b, where: { vaule: 1 } }, { stpe: a }]
    matrix: { value: '${{ needs.b.axes.nothing }}' }
    if: matrix.value < 'x'
  e:
    uses: mock
    ablate: { design: add-on, baseline: { value: 1 }, factors: { value: [2] } }
  f:
    uses: mock
    ablate: { design: fractional, baseline: { value: 1, end: done }, factors: { value: [2, 3], seed: [1] } }
  g:
    uses: mock
    matrix: { value: [1] }
    if: matrix.vaule == 1
  h:
    uses: mock
    matrix: { seed: { range: [0, 5000] }, value: { range: [0, 5000] } }
",
        &[],
    ));
}

#[test]
fn nothing_that_varies() {
    insta::assert_snapshot!(message(
        "
steps:
  a: { uses: mock, seeds: 0 }
  b: { uses: mock, seeds: 2.5 }
  c: { uses: mock, matrix: { zip: {}, value: [1] } }
  d: { uses: mock, ablate: { design: add-one } }
  e: { uses: mock, ablate: { design: factorial, baseline: { value: 1 }, factors: {} } }
",
        &[],
    ));
}

#[test]
fn values_and_names() {
    insta::assert_snapshot!(message(
        "
steps:
  ../escape: { uses: mock }
  a:
    uses: mok
  b:
    uses: mock
    with: { seconds: -1, steps: 2.5, value: .inf, seed: 007, input: missing.txt, end: exploed }
    resources: { cpus: all, gpu: 1 }
  c: [uses, mock]
  d: { with: { value: 1 } }
tables:
  t: { from: b, rows: [sede], cells: [valeu], where: { end: done } }
  u: { form: b }
",
        &[],
    ));
}

#[test]
fn commands() {
    insta::assert_snapshot!(message(
        "
steps:
  a:
    uses: command
    matrix: { lr: [1], unused: [2] }
    with:
      argv: [echo, '${{ matrix.lr }}', '${{ matrix.rl }}']
  b:
    uses: command
    with:
      argv: [echo, null]
      env: { FINE: 1, LIST: [1] }
      outputs: [fine, ../escape]
      metrics: /etc/passwd
      run: [x]
      inputs: [recipe.yaml, missing.txt]
  c: { uses: command }
  d:
    uses: command
    with:
      argv: [cat]
      run: cat
      env: { SWEEP_SEED: 1, '2': x }
  e:
    uses: command
    with:
      argv: ['']
      inputs: [recipe.yaml, ./recipe.yaml]
      outputs: [recipe.yaml/x]
      inptus: []
  f:
    uses: mock
    matrix: { value: [{ a: 1 }] }
    with: { seed: { a: 1 } }
tables:
  t: { from: a, rows: [lr], cells: [anything] }
",
        &[],
    ));
}

#[test]
fn network_parameters_that_do_not_go_together() {
    insta::assert_snapshot!(message(
        "
steps:
  train:
    uses: train
    matrix: { prune: [none, magnitud] }
    with: { n_head: 5, model: gpt-2, lr: 1e9 }
  ramp:
    uses: train
    with: { prune: bitter7, prune_every: 50, iters: 40 }
",
        &["--backend", "cpu"],
    ));
}

#[test]
fn selections_and_tables() {
    insta::assert_snapshot!(message(
        "
steps:
  a: { uses: mock, matrix: { end: [done, fail], value: [1, 2] } }
  b: { uses: mok }
  c: { uses: mock, needs: [{ step: a, where: { end: dome } }] }
tables:
  t: { from: a, where: { end: fial, value: ['1', 2] }, rows: [end, end], cells: [value, value] }
  u: { from: b, cells: [value] }
  v: { from: a, where: { value: [] }, cells: [value] }
",
        &[],
    ));
}

#[test]
fn texts_that_are_no_yaml_for_us() {
    let mut messages = String::new();
    for recipe in [
        "a: 1\n---\nb: 2\n",
        "steps: { ~: { uses: mock } }",
        "params: { a: 1_000, b: 0b11, c: -9223372036854775809, d: 08 }\nsteps: { a: { uses: mock } }",
        "steps: { a: { uses: mock }",
    ] {
        messages += &message(recipe, &[]);
    }
    insta::assert_snapshot!(messages);
}

#[test]
fn a_long_line_is_cut_around_the_mistake() {
    let long = "x".repeat(70_000);
    let text = message(&format!("{{about: '{long}', steps: {{a: {{uses: mock, wiht: {{}}}}}}}}"), &[]);
    assert!(text.contains("did you mean `with`?") && text.contains("[recipe.yaml:1:70037]"), "{text}");
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
    assert!(ended.stderr.contains("nothing.yaml"), "{}", ended.stderr);
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
fn an_input_must_be_a_file_or_a_folder() {
    let text = message("steps: { a: { uses: mock, with: { input: /dev/zero } } }", &[]);
    assert!(text.contains("neither a file nor a folder"), "{text}");
}
