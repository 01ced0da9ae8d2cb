//! Several sweeps on one store.

use crate::sandbox::{Sandbox, until};

const RECIPE: &str = "
steps:
  job:
    uses: mock
    matrix: { value: [1, 2, 3, 4, 5, 6] }
    with: { seconds: 0.3 }
";

#[test]
fn sweeps_share_the_work() {
    let narrow = format!("{RECIPE}    resources: {{ cpus: 1 }}\n");
    for (recipe, jobs) in [(narrow.as_str(), "2"), (RECIPE, "1")] {
        let sandbox = Sandbox::with(recipe);
        let sweeps: Vec<_> = (0..3).map(|_| sandbox.start(&["run", "recipe.yaml", "--jobs", jobs])).collect();
        for sweep in sweeps {
            let ended = sweep.wait();
            assert_eq!(ended.code, Some(0), "{}", ended.stderr);
            assert!(ended.stderr.contains("6 jobs: "), "{}", ended.stderr);
        }
        let starts = sandbox.starts();
        assert_eq!(starts.len(), 6);
        assert!(starts.values().all(|count| *count == 1), "each job ran once: {starts:?}");
    }
}

#[test]
fn a_sweep_whose_job_is_taken_goes_on_with_another() {
    let sandbox = Sandbox::with("steps: { hang: { uses: mock, with: { end: hang } } }");
    let both = "steps: { hang: { uses: mock, with: { end: hang } }, quick: { uses: mock, with: { value: 1 } } }";
    sandbox.write("both.yaml", both);
    let first = sandbox.start(&["run", "recipe.yaml"]);
    until("the job hangs", || !sandbox.workers().is_empty());
    let second = sandbox.start(&["run", "both.yaml", "--jobs", "1"]);
    until("the other job is done", || sandbox.records().contains_key("quick"));
    // Whoever waits is freed when the other one ends, and takes the job over.
    drop(first);
    until("the second runs it", || sandbox.starts().get("hang") == Some(&2));
    drop(second);
}
