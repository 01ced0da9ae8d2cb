//! Parts of GPUs inside of an allocation.

use serde_json::Value;

use super::cluster::shared;
use crate::sandbox::Sandbox;

#[test]
fn jobs_of_a_pilot_share_the_gpu_of_its_allocation() {
    let Some((cluster, _quiet)) = shared() else { return };
    let sandbox = Sandbox::new();
    // Outside of the project: there, a file that another job touches has changed while the job ran.
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path().display();
    // Each waits for the other one.
    let recipe = format!(
        "
steps:
  part:
    uses: command
    matrix: {{ n: [1, 2] }}
    with: {{ run: 'touch {here}/${{{{ matrix.n }}}}; while [ ! -e {here}/1 ] || [ ! -e {here}/2 ]; do sleep 0.05; done; echo gpus=${{#CUDA_VISIBLE_DEVICES}}' }}
    resources: {{ cpus: 1, gpus: 0.5 }}
    timeout: 1m
"
    );
    sandbox.write("recipe.yaml", &recipe);
    sandbox.write("sweep.yaml", "recipe: recipe.yaml\nexecutor: { slurm: { options: [--cpus-per-task=2] } }\n");
    let ended = cluster.sweep(&sandbox, &["run", "sweep.yaml", "--poll", "0.2", "--pilot", "1"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    for (label, record) in sandbox.records() {
        let gpu: &Value = &record["provenance"]["conditions"]["gpu"];
        assert_eq!((gpu["devices"].as_u64(), gpu["share"].as_f64()), (Some(1), Some(0.5)), "{label}: {gpu}");
        assert_eq!(record["outcome"]["metrics"]["gpus"]["value"], 1.0, "one name");
    }
}
