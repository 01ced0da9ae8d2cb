//! Searches, and jobs that continue from states, through a real Slurm.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{cluster::shared, run};
use crate::sandbox::{Sandbox, list};

#[test]
fn a_search_decides_as_on_one_machine() {
    let Some((cluster, _quiet)) = shared() else { return };
    let study = "\
name: halving
steps:
  train:
    uses: command
    matrix: { rate: [10, 11, 12, 13, 14, 15] }
    search: { rungs: { of: until, at: [1, 3, 9], keep: 1/3, by: loss } }
    with:
      run: 'd=$(( RATE > 14 ? RATE - 14 : 14 - RATE )); echo loss=$(( d * 100 + 1000 / SWEEP_UNTIL ))'
      env: { RATE: '${{ matrix.rate }}' }
    resources: { cpus: 1 }
";
    let decided = |sandbox: &Sandbox| -> Vec<String> {
        let files = list(&sandbox.path("results/store/decisions"));
        files.iter().map(|path| fs_err::read_to_string(path).unwrap()).collect()
    };
    let keys = |sandbox: &Sandbox| -> BTreeMap<String, Value> {
        sandbox.records().into_iter().map(|(label, record)| (label, record["key"].clone())).collect()
    };
    let here = Sandbox::with(study);
    assert_eq!(here.sweep(&["run", "recipe.yaml"]).code, Some(0));
    assert_eq!((keys(&here).len(), decided(&here).len()), (6 + 2 + 1, 2));
    for more in [&[][..], &["--pilot", "2"]] {
        let sandbox = Sandbox::with(study);
        let ended = cluster.sweep(&sandbox, &run("recipe.yaml", more));
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        assert_eq!(keys(&sandbox), keys(&here), "{}", ended.stderr);
        assert_eq!(decided(&sandbox), decided(&here));
        // A single run, which continued after the decisions.
        assert_eq!(sandbox.runs().len(), 1);
        assert_eq!(sandbox.tally(), [("done", 9)]);
        assert_eq!(sandbox.journal("added").len(), 3);
        sandbox.assert_all_cached(&["recipe.yaml"]);
    }
}

/// The next rung of a search begins as soon as it is decided, while jobs that do not belong to it run: the last job of the search
/// ends one that waits for it.
#[test]
fn a_search_goes_on_while_other_jobs_run() {
    let Some((cluster, _quiet)) = shared() else { return };
    let flag = tempfile::tempdir().unwrap();
    let flag = flag.path().join("flag");
    let study = "\
name: beside
steps:
  other:
    uses: command
    with: { run: 'until [ -e FLAG ]; do sleep 0.1; done; echo loss=1' }
    timeout: 3m
    resources: { cpus: 1 }
  train:
    uses: command
    matrix: { rate: [10, 11, 12] }
    search: { rungs: { of: until, at: [1, 3], keep: 1/3, by: loss } }
    with:
      run: '[ $SWEEP_UNTIL -lt 3 ] || touch FLAG; echo loss=$RATE'
      env: { RATE: '${{ matrix.rate }}' }
    resources: { cpus: 1 }
";
    let sandbox = Sandbox::with(&study.replace("FLAG", flag.to_str().unwrap()));
    let ended = cluster.sweep(&sandbox, &run("recipe.yaml", &[]));
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert_eq!((sandbox.tally(), sandbox.journal("added").len()), (vec![("done", 5)], 1));
}

/// A job that continues from the state of another is not submitted before that one has ended: Slurm would start both at once.
#[test]
fn a_job_waits_for_the_one_whose_state_it_continues() {
    let Some((cluster, _quiet)) = shared() else { return };
    let program = "
import json, os, sweep, time
path = sweep.resume()
done = json.loads(path.read_text()) if path else []
for step in sweep.steps(6):
    time.sleep(0.1)
    done.append(step)
    sweep.report(step, x=step)
with sweep.checkpoint() as place:
    place.write_text(json.dumps(done))
sweep.report(steps=len(done), began=1 if path else 0)
";
    let sandbox = Sandbox::with(
        "
steps:
  job:
    uses: command
    matrix: { until: [6, 2, 4] }
    with: { argv: [python3, program.py], inputs: [program.py] }
    resources: { cpus: 1 }
",
    );
    sandbox.write("program.py", program);
    let module = crate::sandbox::repository().join("python");
    let mut command = cluster.command(&sandbox, &run("recipe.yaml", &[]));
    let ended = command.env("PYTHONPATH", module).output().unwrap();
    assert_eq!(ended.status.code(), Some(0), "{}", String::from_utf8_lossy(&ended.stderr));
    let records = sandbox.records();
    for (until, from) in [(2, None), (4, Some(2)), (6, Some(4))] {
        let record = &records[&format!("job/until={until}")];
        assert_eq!(record["provenance"]["continued"]["step"].as_u64(), from, "{until}");
        let metric = |name: &str| record["outcome"]["metrics"][name]["value"].as_f64();
        assert_eq!((metric("steps"), metric("began")), (Some(until.into()), Some(from.map_or(0.0, |_| 1.0))));
    }
    cluster.until_nothing_is_left(&sandbox);
}
