//! Several sweeps on one store.

use crate::sandbox::Sandbox;

#[test]
fn two_sweeps_share_the_work() {
    let sandbox = Sandbox::with(
        "
steps:
  job:
    uses: mock
    matrix: { value: [1, 2, 3, 4, 5, 6] }
    with: { seconds: 0.2 }
    resources: { cpus: 1 }
",
    );
    let sweeps: Vec<_> = (0..3).map(|_| sandbox.start(&["run", "recipe.yaml", "--jobs", "2"])).collect();
    for sweep in sweeps {
        let ended = sweep.wait();
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        assert!(ended.stderr.contains("6 jobs: "), "{}", ended.stderr);
    }
    let starts = sandbox.starts();
    assert_eq!(starts.len(), 6);
    assert!(starts.values().all(|count| *count == 1), "each job ran once: {starts:?}");
}
