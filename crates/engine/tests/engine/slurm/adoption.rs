//! Adoption of earlier results by batch jobs.

use super::{cluster::shared, run};
use crate::adoption::{MODEL, RECIPE, all, fresh};

#[test]
fn a_batch_job_adopts_the_result_of_earlier_code() {
    let Some((cluster, _quiet)) = shared() else { return };
    for pilots in [&[][..], &["--pilot", "1"]] {
        let sandbox = fresh();
        let folder = tempfile::tempdir().unwrap();
        let steps = folder.path().join("steps");
        let recipe = RECIPE.replace("env: { ", &format!("env: {{ STEPS: '{}', ", steps.display()));
        sandbox.write("recipe.yaml", &recipe);
        let mut made = Vec::new();
        for model in [MODEL.to_owned(), format!("# A comment.\n{MODEL}"), MODEL.replace("0.01 * step", "0.02 * step")] {
            sandbox.write("code/model.py", &model);
            let ended = cluster.sweep(&sandbox, &run("recipe.yaml", pilots));
            assert_eq!(ended.code, Some(0), "{}", ended.stderr);
            made.push(fs_err::read_to_string(&steps).unwrap().lines().count());
            fs_err::remove_file(&steps).unwrap();
            sandbox.assert_all_cached(&["recipe.yaml"]);
        }
        assert!(made[0] == 60 && made[1] < 60 && made[2] == 60, "{made:?}");
        let marks = all(&sandbox).into_iter().filter(|record| !record["provenance"]["adopted"].is_null());
        assert_eq!(marks.count(), 1);
    }
}
