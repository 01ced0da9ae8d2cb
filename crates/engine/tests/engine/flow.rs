//! Values that one job takes from another: metrics, curves and artifacts.

use serde_json::{Value, json};

use crate::{
    messages::{Transcript, sorted},
    sandbox::Sandbox,
};

const CHAIN: &str = "\
params: { v: 3 }
steps:
  make:
    uses: command
    matrix: { seed: [1, 2] }
    with:
      run: |
        mkdir out && echo \"made by $SWEEP_SEED\" > out/text.txt
        echo size=$((SWEEP_SEED * 100))
      outputs: [out/text.txt]
  use:
    needs: make
    uses: mock
    matrix: { seed: [1, 2] }
    with: { input: '${{ needs.make.artifacts.out/text.txt }}', value: '${{ needs.make.metrics.size }}' }
  gather:
    needs: [make, use]
    uses: command
    with:
      run: |
        cat \"$SWEEP_INPUT_1\" | wc -c | sed 's/^ */bytes=/'
        echo first=$FIRST
      env: { FIRST: 'v${{ params.v }}' }
      inputs: ['${{ needs.make.artifacts.out/text.txt }}']
tables:
  t: { from: use, rows: [seed], cells: [value, bytes] }
";

/// All values of one alias have its position in the file, and are distinguished by the names in them.
#[test]
fn values_that_are_written_once_and_used_again_are_each_its_own() {
    let sandbox = Sandbox::with(
        "\
steps:
  make:
    uses: command
    with: { run: 'echo text > first.txt; echo longer text > second.txt; echo size=7', outputs: [first.txt, second.txt] }
  once:
    needs: make
    uses: mock
    with: &both { input: '${{ needs.make.artifacts.second.txt }}', value: '${{ needs.make.metrics.size }}' }
  again:
    needs: make
    uses: mock
    with: { <<: *both, variant: 1 }
",
    );
    let ended = sandbox.sweep(&["run", "recipe.yaml"]);
    assert_eq!(ended.code, Some(0), "{}{}", ended.stdout, ended.stderr);
    let records = sandbox.records();
    for step in ["once", "again"] {
        let metric = |name: &str| records[step]["outcome"]["metrics"][name]["value"].as_f64().unwrap();
        assert_eq!((metric("value"), metric("bytes")), (7.0, 12.0), "{step}");
    }
}

#[test]
fn a_job_gets_what_the_needed_job_left() {
    let sandbox =
        Sandbox::with(&CHAIN.replace("needs: [make, use]", "needs: [{ step: make, where: { seed: 2 } }, use]"));
    let ended = sandbox.sweep(&["run", "recipe.yaml"]);
    assert_eq!(ended.code, Some(0), "{}{}", ended.stdout, ended.stderr);
    let records = sandbox.records();
    let metric = |label: &str, name: &str| records[label]["outcome"]["metrics"][name]["value"].as_f64().unwrap();
    for (seed, label) in [(1.0, "use/seed=1"), (2.0, "use/seed=2")] {
        assert_eq!(metric(label, "value"), 100.0 * seed);
        assert_eq!(metric(label, "bytes"), 10.0, "the file's length");
        assert_eq!(records[label]["params"]["value"].as_f64(), Some(100.0 * seed), "the record has the value");
        let identity = records[label]["identity"]["params"]["value"].as_str().unwrap();
        assert!(identity.contains(records[&format!("make/seed={seed}")]["key"].as_str().unwrap()), "{identity}");
    }
    assert_eq!(metric("gather", "bytes"), 10.0);
    // No job runs again, and a taken value is part of the key through the job that produces it.
    sandbox.assert_all_cached(&["recipe.yaml"]);
    assert_eq!(sandbox.records().len(), 5);
    let changed = sandbox.read("recipe.yaml").replace("SWEEP_SEED * 100", "SWEEP_SEED * 10");
    sandbox.write("changed.yaml", &changed);
    assert_eq!(sandbox.plan_tally(&["changed.yaml"]), (0, 5));
    // An equal result of another job is not listed as a separate change.
    assert_message!(sandbox.sweep(&["explain", "changed.yaml", "use/seed=1"]).stdout);
}

#[test]
fn other_names_for_the_steps_are_the_same_jobs() {
    let sandbox = Sandbox::with(CHAIN.split("  gather:").next().unwrap());
    sandbox.write("other.yaml", &sandbox.read("recipe.yaml").replace("make", "prepare").replace("use:", "take:"));
    let keys = |recipe: &str| {
        let plan = sandbox.sweep(&["plan", recipe, "--format", "json"]);
        let plan: serde_json::Value = serde_json::from_str(&plan.stdout).unwrap();
        plan["jobs"].as_array().unwrap().iter().map(|job| job["key"].to_string()).collect::<Vec<_>>()
    };
    assert_eq!(keys("recipe.yaml"), keys("other.yaml"));
}

#[test]
fn a_list_takes_the_results_of_several_jobs() {
    let sandbox = Sandbox::with(
        "\
steps:
  make:
    uses: command
    matrix: { seed: [1, 2, 3] }
    with: { run: 'echo n=$SWEEP_SEED' }
  sum:
    needs: make
    uses: command
    with: { argv: [sh, -c, 'shift; s=0; for n; do s=$((s + n)); done; echo sum=$s', sh, from, '${{ needs.make.metrics.n }}'] }
",
    );
    let ended = sandbox.sweep(&["run", "recipe.yaml"]);
    assert_eq!(ended.code, Some(0), "{}{}", ended.stdout, ended.stderr);
    assert_eq!(sandbox.records()["sum"]["outcome"]["metrics"]["sum"]["value"].as_f64(), Some(6.0));
}

#[test]
fn a_result_that_is_not_there_fails_the_job_and_says_so() {
    let sandbox = Sandbox::with(
        "\
steps:
  make: { uses: command, with: { run: 'echo n=1' } }
  lost: { needs: make, uses: mock, with: { value: '${{ needs.make.metrics.m }}' } }
  odd: { needs: make, uses: mock, with: { seconds: '${{ needs.make.metrics.time.run }}', steps: '${{ needs.make.metrics.time.run }}' } }
",
    );
    let ended = sandbox.sweep(&["run", "recipe.yaml"]);
    assert_eq!(ended.code, Some(5));
    assert_eq!(sandbox.tally(), [("done", 1), ("failed", 2)]);
    assert_message!(sorted(&ended.stderr), r"`[\d.e-]+`" => "`[number]`");
}

#[test]
fn results_that_cannot_be_are_refused() {
    let step = |with: &str| {
        format!(
            "steps:\n  make: {{ uses: mock, matrix: {{ seed: [1, 2] }}, with: {{ text: hi }} }}\n  none: {{ uses: mock }}\n  use: {{ needs: make, uses: mock, with: {{ {with} }} }}\n"
        )
    };
    let cases = [
        ("unknown step", step("value: '${{ needs.mkae.metrics.value }}'")),
        ("step that is not needed", step("value: '${{ needs.none.metrics.value }}'")),
        ("unknown metric", step("value: '${{ needs.make.metrics.valeu }}'")),
        ("unknown artifact", step("input: '${{ needs.make.artifacts.txet }}'")),
        ("several jobs", step("input: '${{ needs.make.artifacts.text }}'")),
        ("neither metric nor artifact", step("value: '${{ needs.make.logs.loss }}'")),
        ("artifact for a number", step("value: '${{ needs.make.artifacts.text }}'").replace("seed: [1, 2]", "seed: [1]")),
        ("metric for a word", step("end: '${{ needs.make.metrics.value }}'").replace("seed: [1, 2]", "seed: [1]")),
        ("in a matrix", "steps:\n  make: { uses: mock }\n  use: { needs: make, uses: mock, matrix: { value: ['${{ needs.make.metrics.value }}'] } }\n".to_owned()),
    ];
    let mut said = Transcript::default();
    for (name, recipe) in cases {
        let sandbox = Sandbox::with(&recipe);
        let ended = sandbox.sweep(&["plan", "recipe.yaml"]);
        assert_eq!(ended.code, Some(3), "{name}: {}{}", ended.stdout, ended.stderr);
        said.add(name, &ended.stderr);
    }
    assert_message!(said);
}

#[test]
fn a_damaged_record_of_a_needed_job_runs_again() {
    let sandbox = Sandbox::with(
        "params: { extra: 1 }
steps:
  a: { uses: mock, with: { value: 7 } }
  b: { needs: a, uses: mock, with: { value: '${{ needs.a.metrics.value }}', variant: '${{ params.extra }}' } }
",
    );
    assert_eq!(sandbox.sweep(&["run", "recipe.yaml"]).code, Some(0));
    let key = sandbox.records()["a"]["key"].as_str().unwrap().to_owned();
    sandbox.write(&format!("results/store/{}/{key}/record.json", &key[..2]), "{");
    let ended = sandbox.sweep(&["run", "recipe.yaml", "--set", "extra=2"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let warnings: Vec<&str> = ended.stderr.lines().filter(|line| line.starts_with("warning: ")).collect();
    assert_eq!((warnings.len(), sandbox.starts()["a"]), (1, 2), "{}", ended.stderr);
    assert_message!(warnings[0]);
}

#[test]
fn a_program_takes_curves_as_parameters() {
    let recipe = "steps:
  measure:
    uses: command
    matrix: { seed: [1, 2] }
    with:
      run: |
        for step in 1 2 3; do
          printf '{\"step\": %d, \"loss\": %d.5}\\n' $step $((step * SWEEP_SEED)) >> \"$SWEEP_REPORT\"
        done
  one:
    needs: measure
    uses: command
    matrix: { seed: [1, 2] }
    with:
      run: cp \"$SWEEP_PARAMS\" params.json
      params: { of: { loss: '${{ needs.measure.curves.loss }}' }, best: '${{ needs.measure.metrics.loss }}' }
      outputs: [params.json]
  all:
    needs: measure
    uses: command
    with:
      run: cp \"$SWEEP_PARAMS\" params.json
      params: { losses: '${{ needs.measure.curves.loss }}' }
      outputs: [params.json]
";
    let sandbox = Sandbox::with(recipe);
    let ended = sandbox.sweep(&["run", "recipe.yaml"]);
    assert_eq!(ended.code, Some(0), "{}{}", ended.stdout, ended.stderr);
    let records = sandbox.records();
    let params = |label: &str| -> Value {
        let key = records[label]["key"].as_str().unwrap();
        serde_json::from_str(&sandbox.read(&format!("results/store/{}/{key}/files/params.json", &key[..2]))).unwrap()
    };
    let curve = |seed: i32| {
        let values: Vec<f64> = (1..=3).map(|step| f64::from(step * seed) + 0.5).collect();
        json!({ "at": [1, 2, 3], "values": values })
    };
    assert_eq!(params("one/seed=2"), json!({ "of": { "loss": curve(2) }, "best": 6.5 }));
    assert_eq!(params("all"), json!({ "losses": [curve(1), curve(2)] }));
    let identity = records["all"]["identity"]["params"].to_string();
    assert!(identity.contains(".curves.loss}}") && !identity.contains("2.5"), "the key names the curve: {identity}");
    sandbox.assert_all_cached(&["recipe.yaml"]);

    // A curve that was not recorded fails the job that takes it; a curve that cannot exist is a mistake of the recipe.
    sandbox.write("other.yaml", &recipe.replace("curves.loss", "curves.lost"));
    let ended = sandbox.sweep(&["run", "other.yaml"]);
    assert_eq!(ended.code, Some(5), "{}", ended.stderr);
    assert!(ended.stderr.contains("has no curve `lost`; it has `loss`"), "{}", ended.stderr);
    sandbox.write(
        "text.yaml",
        &recipe.replace("cp \"$SWEEP_PARAMS\" params.json", "echo ${{ needs.measure.curves.loss }}"),
    );
    let ended = sandbox.sweep(&["plan", "text.yaml"]);
    assert_eq!(ended.code, Some(3), "{}", ended.stdout);
    let train = "steps:
  t: { uses: train }
  c: { needs: t, uses: command, with: { run: 'true', params: { x: '${{ needs.t.curves.los }}' } } }
";
    sandbox.write("unknown.yaml", train);
    let ended = sandbox.sweep(&["plan", "unknown.yaml"]);
    assert_eq!(ended.code, Some(3), "{}", ended.stdout);
    let words = ended.stderr.replace('\n', " ");
    assert!(words.contains("does not record a curve `los`") && words.contains("did you mean `loss`?"), "{words}");
}
