//! The recipe of 40 jobs, or 16 of its kinds, that must end in the same way through every executor.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::{
    sandbox::{Ended, Sandbox},
    slurm::{FORTY, results, starts},
};

/// Number of the jobs.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Size {
    Forty,
    /// For Ray, which takes a second of processor time to start a job.
    #[cfg(feature = "remote")]
    Sixteen,
}

impl Size {
    /// Jobs that end as they should.
    pub(crate) fn done(self) -> u64 {
        match self {
            Self::Forty => 36,
            #[cfg(feature = "remote")]
            Self::Sixteen => 12,
        }
    }
}

/// The jobs, one of which reads an artifact of another one.
pub(crate) fn recipe(size: Size) -> String {
    let again = "again: { uses: mock, with: { failures: 1 }, retries: 1 }";
    let reads =
        "again: { uses: mock, needs: c, with: { failures: 1, input: '${{ needs.c.artifacts.text }}' }, retries: 1 }";
    assert!(FORTY.contains(again));
    let whole = FORTY.replace(again, reads);
    match size {
        Size::Forty => whole,
        #[cfg(feature = "remote")]
        Size::Sixteen => whole.replace("[0, 8]", "[0, 2]").replace("[0, 10]", "[0, 4]"),
    }
}

/// Asserts that the recipe has ended as it ends on one machine: the same exit code, the same tables, the same keys and
/// outcomes of records.
pub(crate) fn assert_as_locally(sandbox: &Sandbox, size: Size, ended: &Ended) {
    assert_eq!(ended.code, Some(5), "{}", ended.stderr);
    assert_eq!(sandbox.tally(), [("done", size.done()), ("failed", 2), ("skipped", 2)], "{}", ended.stderr);
    assert_eq!(
        (&sandbox.failure("slow")["kind"], &sandbox.failure("bad")["kind"]),
        (&"timeout".into(), &"experiment".into())
    );
    assert_eq!((&*sandbox.skipped()["after"], &*sandbox.skipped()["last"]), ("bad", "after"));
    let local = Sandbox::with(&recipe(size));
    let here = local.sweep(&["run", "recipe.yaml"]);
    assert_eq!((here.code, &here.stdout), (ended.code, &ended.stdout), "{}", ended.stderr);
    assert_eq!(results(&local), results(sandbox));
    assert_eq!(results(sandbox)["again"].1["metrics"]["bytes"]["value"], 5.0, "the size of the artifact");
    assert_eq!(sandbox.sweep(&["cache", "verify"]).code, Some(0));
}

/// Asserts that no job has begun more than once, and how many have begun.
pub(crate) fn assert_once(sandbox: &Sandbox, jobs: usize) {
    let starts: BTreeMap<String, usize> = starts(sandbox);
    assert_eq!(starts.len(), jobs, "{starts:?}");
    assert!(starts.values().all(|count| *count == 1), "{starts:?}");
}

/// The state of the latest run as `sweep status` shows it, by label.
pub(crate) fn states(status: &str) -> BTreeMap<String, Value> {
    let status: Value = serde_json::from_str(status).unwrap();
    let jobs = status["jobs"].as_array().unwrap().iter();
    jobs.map(|job| (job["job"].as_str().unwrap().to_owned(), job.clone())).collect()
}
