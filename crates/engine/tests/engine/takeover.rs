//! A sweep that is killed in the middle, and finished through another executor: nothing runs twice, nothing is lost, and the records
//! are those of one machine.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::{
    gridengine,
    sandbox::{Ended, Running, Sandbox, until},
    slurm,
};

/// Eleven jobs with a result: nine programs that say that they have begun, and a job that reads the artifact of another one. And a
/// failure, with a job that needs it.
const RECIPE: &str = "
name: handed-over
steps:
  a:
    uses: command
    matrix: { number: { range: [0, 9] } }
    with: { argv: [sh, -c, 'echo $0 >> $SWEEP_SCRATCH/../../../begun; sleep 1.5; echo value=$0', '${{ matrix.number }}'] }
    resources: { cpus: 1 }
  text: { uses: mock, with: { value: 7, text: whole } }
  read: { uses: mock, needs: [a, text], with: { input: '${{ needs.text.artifacts.text }}' } }
  bad: { uses: mock, needs: text, with: { end: fail } }
  after: { uses: mock, needs: bad, with: { seed: 4 } }
";

const GRID_ENGINE: &str = "recipe: recipe.yaml\nexecutor: { batch: { preset: sge } }\n";
const BY_GRID_ENGINE: [&str; 4] = ["run", "sweep.yaml", "--poll", "0.2"];
const BY_SLURM: [&str; 6] = ["run", "recipe.yaml", "--executor", "slurm", "--poll", "0.2"];

/// Kills a sweep by SIGKILL when it has a result, while jobs run.
fn kill_in_the_middle(sandbox: &Sandbox, engine: Running) {
    until("a job of `a` is done", || sandbox.records().keys().any(|label| label.starts_with("a/")));
    drop(engine);
    assert!(sandbox.records().len() < 11, "it is not over");
}

/// The parts of records that do not differ between runs.
fn results(sandbox: &Sandbox) -> BTreeMap<String, (Value, Value)> {
    let records = sandbox.records().into_iter().map(|(label, mut record)| {
        let mut metrics = record["outcome"]["metrics"].take();
        if let Some(metrics) = metrics.as_object_mut() {
            // Those that are measured have names such as `time.run`.
            metrics.retain(|name, _| !name.contains('.'));
        }
        (label, (record["key"].take(), metrics))
    });
    records.collect()
}

/// Asserts that the second sweep has ended as one sweep on one machine does, and that no program has begun twice.
fn assert_finished(sandbox: &Sandbox, before: &BTreeMap<String, Value>, ended: &Ended) {
    assert_eq!(ended.code, Some(5), "{}", ended.stderr);
    let local = Sandbox::with(RECIPE);
    let here = local.sweep(&["run", "recipe.yaml"]);
    assert_eq!(here.code, ended.code, "{}", ended.stderr);
    assert_eq!(results(sandbox), results(&local));
    let records = sandbox.records();
    assert!(before.iter().all(|(label, record)| records[label] == *record), "what was there is as it was");
    let mut begun: Vec<String> = sandbox.read("results/begun").lines().map(str::to_owned).collect();
    begun.sort_unstable();
    assert_eq!(begun, (0..9).map(|number| number.to_string()).collect::<Vec<_>>(), "{}", ended.stderr);
    assert_eq!(sandbox.failure("bad")["kind"], "experiment");
    assert_eq!(sandbox.skipped()["after"], "bad");
    assert_eq!(sandbox.sweep(&["cache", "verify"]).code, Some(0));
}

#[test]
fn slurm_finishes_what_grid_engine_has_begun_and_the_other_way_round() {
    let Some((cell, _cell_quiet)) = gridengine::cell::shared() else { return };
    let Some((cluster, _cluster_quiet)) = slurm::cluster::shared() else { return };
    let sandbox = Sandbox::with(RECIPE);
    sandbox.write("sweep.yaml", GRID_ENGINE);
    kill_in_the_middle(&sandbox, cell.start_sweep(&sandbox, &BY_GRID_ENGINE));
    let before = sandbox.records();
    assert_finished(&sandbox, &before, &cluster.sweep(&sandbox, &BY_SLURM));
    cell.until_nothing_is_left(&sandbox);
    cluster.until_nothing_is_left(&sandbox);

    let sandbox = Sandbox::with(RECIPE);
    sandbox.write("sweep.yaml", GRID_ENGINE);
    kill_in_the_middle(&sandbox, cluster.start_sweep(&sandbox, &BY_SLURM));
    let before = sandbox.records();
    assert_finished(&sandbox, &before, &cell.sweep(&sandbox, &BY_GRID_ENGINE));
    cell.until_nothing_is_left(&sandbox);
    cluster.until_nothing_is_left(&sandbox);
}

#[cfg(feature = "remote")]
pub(crate) fn slurm_and_this_machine_finish_what_ray_has_begun(ray: &crate::ray::cluster::Cluster) {
    let by_ray = ["run", "recipe.yaml", "--executor", "ray", "--poll", "0.2"];
    let sandbox = Sandbox::with(RECIPE);
    kill_in_the_middle(&sandbox, ray.start_sweep(&sandbox, &by_ray));
    let before = sandbox.records();
    assert_finished(&sandbox, &before, &sandbox.sweep(&["run", "recipe.yaml"]));
    ray.until_nothing_is_left(&sandbox);

    let Some((cluster, _quiet)) = slurm::cluster::shared() else { return };
    let sandbox = Sandbox::with(RECIPE);
    kill_in_the_middle(&sandbox, ray.start_sweep(&sandbox, &by_ray));
    let before = sandbox.records();
    assert_finished(&sandbox, &before, &cluster.sweep(&sandbox, &BY_SLURM));
    ray.until_nothing_is_left(&sandbox);
    cluster.until_nothing_is_left(&sandbox);
}
