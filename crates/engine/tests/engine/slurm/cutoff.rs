//! Early cutoff among the batch jobs of one run.

use super::cluster::shared;
use crate::sandbox::Sandbox;

#[test]
fn equal_files_of_a_needed_batch_job_run_nothing_again() {
    let Some((cluster, _quiet)) = shared() else { return };
    for pilots in [&[][..], &["--pilot", "1"]] {
        let sandbox = Sandbox::new();
        let folder = tempfile::tempdir().unwrap();
        let starts = folder.path().join("starts");
        sandbox.write(
            "recipe.yaml",
            &format!(
                "
steps:
  prep:
    uses: command
    with: {{ argv: [python3, prep.py], inputs: [prep.py, raw.txt], outputs: [data] }}
  train:
    uses: command
    needs: prep
    with:
      run: 'echo train >> {}; echo \"loss=$(cat \"$DATA\")\"'
      env: {{ DATA: '${{{{ needs.prep.artifacts.data }}}}' }}
",
                starts.display()
            ),
        );
        sandbox.write("sweep.yaml", "recipe: recipe.yaml\nexecutor: slurm\n");
        sandbox.write("prep.py", "open('data', 'w').write(open('raw.txt').read().strip())\n");
        let mut started = 0;
        for (raw, is_new) in [("5", true), (" 5\n", false), ("7", true)] {
            sandbox.write("raw.txt", raw);
            let args = [&["run", "sweep.yaml", "--poll", "0.2"][..], pilots].concat();
            let ended = cluster.sweep(&sandbox, &args);
            assert_eq!(ended.code, Some(0), "{}", ended.stderr);
            started += usize::from(is_new);
            assert_eq!(fs_err::read_to_string(&starts).unwrap().lines().count(), started, "{raw:?}: {}", ended.stderr);
            assert_eq!(sandbox.plan_tally(&["recipe.yaml"]), (2, 0));
        }
    }
}
