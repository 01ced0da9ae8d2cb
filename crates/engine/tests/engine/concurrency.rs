//! Several sweeps on one store.

use crate::sandbox::{Sandbox, list, until};

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

#[test]
fn eight_sweeps_with_overlapping_recipes_and_one_killed_run_every_job_once() {
    // Sweep n has the values from n to n + 5: every job is wanted by up to six of them.
    let recipe = |from: usize| {
        format!(
            "name: r{from}\nsteps:\n  job:\n    uses: mock\n    matrix: {{ value: {{ range: [{from}, {}] }} }}\n    \
             with: {{ seconds: 0.05 }}\n    resources: {{ cpus: 1 }}\n  last: {{ uses: mock, needs: job, with: {{ seed: 9 }} }}\n",
            from + 6
        )
    };
    for sweeps in [2, 5, 8] {
        let sandbox = Sandbox::new();
        for from in 0..sweeps {
            sandbox.write(&format!("r{from}.yaml"), &recipe(from));
        }
        let mut running: Vec<_> =
            (0..sweeps).map(|from| sandbox.start(&["run", &format!("r{from}.yaml"), "--jobs", "2"])).collect();
        until("something is done", || !sandbox.records().is_empty());
        // The first engine is killed at an arbitrary moment; the others take over its jobs.
        let killed = running.remove(0);
        let pid = format!("-{}", killed.pid());
        drop(killed);
        for sweep in running {
            let ended = sweep.wait();
            assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        }
        let before = sandbox.records();
        let again = sandbox.sweep(&["run", "r0.yaml"]);
        assert_eq!(again.code, Some(0), "{}", again.stderr);
        let records = sandbox.records();
        assert_eq!(records.len(), sweeps + 5 + 1, "the values from 0 to {} and the last", sweeps + 4);
        assert!(before.iter().filter(|(label, _)| *label != "last").all(|(label, record)| records[label] == *record));
        // Only jobs that the killed engine had begun may have been started again.
        let runs = list(&sandbox.path("results/runs"));
        let of_killed = runs.iter().find(|run| run.to_string_lossy().ends_with(&pid));
        let begun =
            of_killed.and_then(|run| std::fs::read_to_string(run.join("journal.jsonl")).ok()).unwrap_or_default();
        for (label, count) in sandbox.starts().into_iter().filter(|(label, _)| label != "last") {
            let again = usize::from(begun.contains(&format!("\"label\":\"{label}\"")));
            assert!(count <= 1 + again, "{label} was started {count} times");
        }
        assert_eq!(sandbox.sweep(&["cache", "verify"]).code, Some(0));
    }
}
