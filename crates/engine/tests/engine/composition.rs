//! Recipes that extend others, sweep files, and changes on the command line.

use std::fmt::Write as _;

use serde_json::Value;

use crate::{messages::Transcript, sandbox::Sandbox};

const BASE: &str = "\
name: base
about: What the base asks.
params: { v: 1, w: 2 }
steps:
  a:
    uses: mock
    matrix:
      seed: [0, 1]
      steps: [1, 2]
      exclude: [{ seed: 1, steps: 2 }]
      include: [{ seed: 7, steps: 1 }]
    with: { value: '${{ params.v }}' }
  b:
    needs: a
    uses: mock
    matrix: { seed: '${{ needs.a.axes.seed }}' }
    with: { value: '${{ params.w }}' }
tables:
  t: { from: a, where: { seed: [0, 7] }, rows: [seed], cells: [value] }
";

/// The jobs of a plan: label and key.
pub(crate) fn jobs(sandbox: &Sandbox, args: &[&str]) -> Vec<(String, String)> {
    let ended = sandbox.sweep(&[&["plan", "--format", "json"], args].concat());
    assert_eq!(ended.code, Some(0), "{args:?}: {}", ended.stderr);
    let plan: Value = serde_json::from_str(&ended.stdout).unwrap();
    let text = |job: &Value, key: &str| job[key].as_str().unwrap().to_owned();
    plan["jobs"].as_array().unwrap().iter().map(|job| (text(job, "label"), text(job, "key"))).collect()
}

pub(crate) fn labels(sandbox: &Sandbox, args: &[&str]) -> Vec<String> {
    jobs(sandbox, args).into_iter().map(|(label, _)| label).collect()
}

/// Message of a rejected command.
pub(crate) fn refusal(sandbox: &Sandbox, args: &[&str]) -> String {
    let ended = sandbox.sweep(&[&["plan"], args].concat());
    assert_eq!(ended.code, Some(3), "{args:?}: {}{}", ended.stdout, ended.stderr);
    ended.stderr
}

#[test]
fn a_sweep_file_and_the_same_flags_give_the_same_keys() {
    let sandbox = Sandbox::new();
    fs_err::create_dir(sandbox.path("recipes")).unwrap();
    fs_err::create_dir(sandbox.path("sweeps")).unwrap();
    sandbox.write("recipes/base.yaml", BASE);
    sandbox.write(
        "sweeps/big.yaml",
        "recipe: ../recipes/base.yaml\nset: { v: 10, w: 2e1 }\naxes: { seed: [0, 1, 2], a.steps: { range: [1, 4] } }\nonly: [b/seed=2]\n",
    );
    let flags = ["--set", "v=10", "--set", "w=20", "--axis", "seed=0,1,2", "--axis", "a.steps={ range: [1, 4] }"];
    let typed = jobs(&sandbox, &[&["recipes/base.yaml"], &flags[..], &["--only", "b/seed=2"]].concat());
    assert_eq!(jobs(&sandbox, &["sweeps/big.yaml"]), typed);
    let names: Vec<&str> = typed.iter().map(|(label, _)| label.as_str()).collect();
    assert_eq!(names, ["a/seed=2,steps=1", "a/seed=2,steps=2", "a/seed=2,steps=3", "b/seed=2"]);
    // And the recipe itself written so is the same study, too.
    sandbox.write(
        "same.yaml",
        &BASE
            .replace("v: 1, w: 2", "v: 10, w: 20")
            .replace("[0, 1]", "[0, 1, 2]")
            .replace("steps: [1, 2]", "steps: [1, 2, 3]"),
    );
    let same = jobs(&sandbox, &["same.yaml", "--only", "b/seed=2"]);
    assert_eq!(same, typed);
    // Options of the command line take precedence.
    assert_ne!(jobs(&sandbox, &["sweeps/big.yaml", "--set", "w=3"])[3], typed[3]);
    assert_eq!(labels(&sandbox, &["sweeps/big.yaml", "--only", "a/seed=0,steps=3"]), ["a/seed=0,steps=3"]);
}

#[test]
fn an_axis_from_outside_is_all_that_the_step_has() {
    let sandbox = Sandbox::new();
    sandbox.write("base.yaml", BASE);
    // The point that `include` adds has another seed; `exclude` and the table's `where` find nothing, which is no mistake.
    let narrowed = labels(&sandbox, &["base.yaml", "--axis", "seed=0"]);
    assert_eq!(narrowed, ["a/seed=0,steps=1", "a/seed=0,steps=2", "b/seed=0"]);
    // A new axis for a step that is named.
    let added = labels(&sandbox, &["base.yaml", "--axis", "seed=0", "--axis", "a.variant=5,6", "--only", "a/steps=1"]);
    assert_eq!(added, ["a/seed=0,steps=1,variant=5", "a/seed=0,steps=1,variant=6"]);
    sandbox.write(
        "seeds.yaml",
        "steps: { a: { uses: mock, matrix: { zip: { value: [1, 2], steps: [3, 4] } }, seeds: 3 } }",
    );
    assert_eq!(
        labels(&sandbox, &["seeds.yaml", "--axis", "seed=4"]),
        ["a/value=1,steps=3,seed=4", "a/value=2,steps=4,seed=4"]
    );
    let zipped = labels(&sandbox, &["seeds.yaml", "--axis", "seed=4", "--axis", "value=8,9"]);
    assert_eq!(zipped, ["a/value=8,steps=3,seed=4", "a/value=9,steps=4,seed=4"]);
}

#[test]
fn extends_merges_by_name() {
    let sandbox = Sandbox::new();
    fs_err::create_dir(sandbox.path("lib")).unwrap();
    sandbox.write("lib/root.txt", "a file beside the base");
    sandbox.write(
        "lib/base.yaml",
        &BASE.replace("with: { value: '${{ params.w }}' }", "with: { value: '${{ params.w }}', input: root.txt }"),
    );
    sandbox.write(
        "own.yaml",
        "extends: lib/base.yaml\nparams: { w: 5 }\nsteps:\n  a: { matrix: { seed: [0], steps: [1], exclude: [], include: [] } }\n  c: { uses: mock, needs: b }\ntables: { t: { where: { seed: 0 }, title: Mine } }\n",
    );
    // The base's own text, changed by hand; the file is found from the base's folder.
    sandbox.write(
        "hand.yaml",
        "params: { v: 1, w: 5 }\nsteps:\n  a: { uses: mock, matrix: { seed: [0], steps: [1] }, with: { value: 1 } }\n  b: { needs: a, uses: mock, matrix: { seed: [0] }, with: { value: 5, input: lib/root.txt } }\n  c: { uses: mock, needs: b }\n",
    );
    assert_eq!(jobs(&sandbox, &["own.yaml"]), jobs(&sandbox, &["hand.yaml"]));
    // A base of a base, and a step taken away.
    sandbox.write("third.yaml", "extends: own.yaml\nsteps: { c: ~ }\n");
    assert_eq!(labels(&sandbox, &["third.yaml"]), ["a/seed=0,steps=1", "b/seed=0"]);
    let ended = sandbox.sweep(&["run", "third.yaml"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(sandbox.read("results/reports/third/tables/t.md").contains("Mine"), "the report has the recipe's own name");
}

#[test]
fn several_recipes_are_one_run_and_share_their_jobs() {
    let sandbox = Sandbox::new();
    sandbox.write(
        "one.yaml",
        "steps: { a: { uses: mock, matrix: { seed: [0, 1] } } }\ntables: { t: { from: a, cells: value } }\n",
    );
    sandbox.write("two.yaml", "params: { v: 1 }\nsteps:\n  a: { uses: mock, matrix: { seed: [1, 2] } }\n  b: { uses: mock, needs: a, with: { value: '${{ params.v }}' } }\ntables: { t: { from: a, cells: value } }\n");
    sandbox.write("both.yaml", "recipes: [one.yaml, two.yaml]\nset: { v: 9 }\n");
    let labels = labels(&sandbox, &["both.yaml"]);
    assert_eq!(labels, ["one:a/seed=0", "one:a/seed=1", "two:a/seed=2", "two:b"], "seed 1 is one job");
    assert_eq!(self::labels(&sandbox, &["both.yaml", "--only", "two:a/seed=2"]), ["two:a/seed=2"]);
    assert_eq!(self::labels(&sandbox, &["one.yaml", "two.yaml", "--only", "a/seed=1"]), ["one:a/seed=1"]);
    let ended = sandbox.sweep(&["run", "both.yaml"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert_eq!(sandbox.records().len(), 4);
    for report in ["both/one", "both/two"] {
        assert!(sandbox.path(&format!("results/reports/{report}/tables/t.md")).exists(), "{report}");
    }
    let all = sandbox.read("results/reports/both/index.html");
    assert!(all.contains("href=\"one/index.html\"") && all.contains("href=\"two/index.html\""), "{all}");
    let all = sandbox.read("results/reports/both/index.md");
    assert_message!(all);
    let explained = sandbox.sweep(&["explain", "both.yaml", "two:b", "--set", "v=3"]);
    assert_message!(explained.stdout);
}

#[test]
fn paths_start_from_where_they_are_written() {
    let sandbox = Sandbox::new();
    for folder in ["r", "s"] {
        fs_err::create_dir(sandbox.path(folder)).unwrap();
        sandbox.write(&format!("{folder}/file.txt"), folder);
    }
    sandbox.write("file.txt", "here");
    sandbox.write(
        "r/recipe.yaml",
        "params: { f: file.txt }\nsteps: { a: { uses: mock, with: { input: '${{ params.f }}' } } }\n",
    );
    sandbox.write("s/sweep.yaml", "recipe: ../r/recipe.yaml\nset: { f: file.txt }\n");
    let keys = [
        jobs(&sandbox, &["r/recipe.yaml"]),
        jobs(&sandbox, &["s/sweep.yaml"]),
        jobs(&sandbox, &["r/recipe.yaml", "--set", "f=file.txt"]),
    ];
    assert!(keys[0] != keys[1] && keys[1] != keys[2] && keys[0] != keys[2], "each names another file");
    assert_eq!(
        jobs(&sandbox, &["r/recipe.yaml", "--set", "f=s/file.txt"]),
        keys[1],
        "the same content is the same job"
    );
}

/// Every message names the text that the mistake is in.
#[test]
fn mistakes_are_shown_where_they_were_made() {
    let sandbox = Sandbox::new();
    sandbox.write("base.yaml", BASE);
    sandbox.write("circle.yaml", "extends: circle.yaml\n");
    sandbox.write("lost.yaml", "extends: nowhere.yaml\nsteps: { a: { uses: mock } }\n");
    sandbox.write("number.yaml", "extends: 3\nsteps: { a: { uses: mock } }\n");
    sandbox.write("takes-away.yaml", "extends: base.yaml\nsteps: { d: ~ }\n");
    sandbox.write("extends-sweep.yaml", "extends: sweep.yaml\n");
    sandbox.write("over.yaml", "extends: base.yaml\nsteps: { a: { with: { valeu: 3 } } }\n");
    sandbox.write("sweep.yaml", "recipe: base.yaml\nset: { v: fast }\n");
    sandbox
        .write("sweep-unknown.yaml", "recipe: base.yaml\nset: { vv: 1 }\naxes: { sed: [1], c.seed: [2] }\nonyl: [a]\n");
    sandbox.write("sweep-only.yaml", "recipe: base.yaml\nonly: [a/seed=4]\n");
    sandbox.write("sweep-of-sweep.yaml", "recipe: sweep.yaml\n");
    sandbox.write("sweep-both.yaml", "recipe: base.yaml\nrecipes: [base.yaml]\n");
    sandbox.write("sweep-empty.yaml", "recipes: []\n");
    sandbox.write("sweep-lost.yaml", "recipes: [base.yaml, nowhere.yaml]\n");
    sandbox.write("sweep-expression.yaml", "recipe: base.yaml\nset: { v: '${{ params.w }}' }\n");
    fs_err::create_dir(sandbox.path("other")).unwrap();
    sandbox.write("other/base.yaml", "name: another\nsteps: { a: { uses: mock } }\n");
    sandbox.write("same-folder.yaml", "recipes: [base.yaml, other/base.yaml]\n");
    sandbox.write("...yaml", "recipe: base.yaml\n");
    sandbox.write("twice.yaml", "recipes: [base.yaml, base.yaml]\n");
    let cases: &[&[&str]] = &[
        &["circle.yaml"],
        &["lost.yaml"],
        &["number.yaml"],
        &["takes-away.yaml"],
        &["extends-sweep.yaml"],
        &["over.yaml"],
        &["sweep.yaml"],
        &["sweep-unknown.yaml"],
        &["sweep-of-sweep.yaml"],
        &["sweep-both.yaml"],
        &["sweep-empty.yaml"],
        &["sweep-lost.yaml"],
        &["sweep-expression.yaml"],
        &["twice.yaml"],
        &["same-folder.yaml"],
        &["...yaml"],
        &["base.yaml", "--set", "v=fast"],
        &["base.yaml", "--set", "vv=1"],
        &["base.yaml", "--set", "v"],
        &["base.yaml", "--set", "v=[1"],
        &["base.yaml", "--axis", "seed"],
        &["base.yaml", "--axis", "sed=1"],
        &["base.yaml", "--axis", "seed=one,two"],
        &["base.yaml", "--axis", "seed={ rnage: [0, 1] }"],
        &["base.yaml", "--axis", "a.color=red"],
    ];
    let mut text = String::new();
    for args in cases {
        write!(text, "$ sweep plan {}\n{}\n", args.join(" "), refusal(&sandbox, args)).unwrap();
    }
    insta::assert_snapshot!(text);
    let ended = sandbox.sweep(&["plan", "sweep-only.yaml"]);
    assert_eq!(ended.code, Some(4));
    assert_message!(ended.stderr);
}

#[test]
fn a_recipe_runs_through_several_sweep_files_at_once() {
    let sandbox = Sandbox::with("name: study\nsteps: { a: { uses: mock, matrix: { value: [1, 2] } } }\n");
    sandbox.write("sweeps/one.yaml", "recipe: ../recipe.yaml\naxes: { value: [1, 3] }\n");
    sandbox.write("sweeps/two.yaml", "recipe: ../recipe.yaml\naxes: { value: [4] }\n");
    let ended = sandbox.sweep(&["run", "sweeps/one.yaml", "sweeps/two.yaml", "recipe.yaml"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let labels: Vec<String> = sandbox.records().into_keys().collect();
    assert_eq!(labels, ["one:a/value=1", "one:a/value=3", "study:a/value=2", "two:a/value=4"]);
    for report in ["one", "two", "study"] {
        assert!(sandbox.path(&format!("results/reports/{report}/index.html")).is_file(), "{report}");
    }
    let only = self::labels(&sandbox, &["sweeps/one.yaml", "sweeps/two.yaml", "--only", "two:a"]);
    assert_eq!(only, ["two:a/value=4"]);
    let twice = sandbox.sweep(&["plan", "recipe.yaml", "recipe.yaml"]);
    assert_message!(twice.stderr);
}

#[test]
fn values_with_commas_can_be_selected() {
    let sandbox = Sandbox::with(
        "steps: { a: { uses: command, matrix: { words: ['a,b', 'a,c'], seed: [0, 1] }, with: { argv: [echo, '${{ matrix.words }}'] } } }\n",
    );
    for (only, jobs) in [("a/words=a,b", 2), ("a/words=a,b,seed=1", 1), ("a/seed=1,words=a,c", 1)] {
        assert_eq!(labels(&sandbox, &["recipe.yaml", "--only", only]).len(), jobs, "{only}");
    }
}

#[test]
fn mistakes_in_an_executor_are_shown_in_the_text() {
    let sandbox = Sandbox::with("steps: { a: { uses: mock } }");
    let mut said = Transcript::default();
    for executor in [
        "slrum",
        "{ slurm: { partitoin: gpu } }",
        "{ slurm: { time: 3 } }",
        "{ slurm: { options: [--dependency=afterok:1] } }",
        "{ slurm: { options: [nice] } }",
        "{ slurm: { steps: { b: { qos: high } } } }",
        "{}",
    ] {
        sandbox.write("sweep.yaml", &format!("recipe: recipe.yaml\nexecutor: {executor}\n"));
        let ended = sandbox.sweep(&["plan", "sweep.yaml"]);
        assert_eq!(ended.code, Some(3), "{executor}: {}", ended.stderr);
        said.add(executor, &ended.stderr);
    }
    assert_message!(said);
}
