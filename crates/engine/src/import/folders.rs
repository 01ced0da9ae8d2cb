//! Runs in folders, each with a log such as `metrics.csv` of Lightning or `progress.csv` of Ray Tune, and mostly a file of settings such as
//! `hparams.yaml`; folders of Sacred, and folders of Hugging Face's trainer with `trainer_state.json`.

use std::path::{Path, PathBuf};

use serde_json::Value as Json;

use super::{
    End, ImportError, Run, Runs, entries, files, lenient, name_of,
    tensorboard::{self, named},
    text,
};

/// Levels of folders in which runs are searched.
const MAX_LEVELS: usize = 6;
/// Names of logs, without their endings.
const LOGS: [&str; 16] = [
    "all_results",
    "eval_results",
    "history",
    "log",
    "logs",
    "metrics",
    "progress",
    "result",
    "results",
    "scores",
    "test_results",
    "train_log",
    "train_results",
    "trainer_state",
    "training",
    "training_log",
];
const ENDINGS: [&str; 5] = ["csv", "tsv", "json", "jsonl", "ndjson"];
/// Prefix of the names of folders with checkpoints, which Hugging Face's trainer creates in the folder of a run.
const CHECKPOINT: &str = "checkpoint-";

/// True if a folder has runs.
pub(super) fn detects(path: &Path) -> bool {
    path.is_dir() && folders(path).is_ok_and(|found| !found.is_empty())
}

/// The logs of a folder.
fn logs(folder: &Path) -> Result<Vec<PathBuf>, ImportError> {
    let is_log = |path: &PathBuf| {
        let name = name_of(path);
        let parts = name.rsplit_once('.');
        parts.is_some_and(|(stem, end)| LOGS.contains(&stem) && ENDINGS.contains(&end)) && path.is_file()
    };
    let mut logs: Vec<PathBuf> = entries(folder)?.into_iter().filter(is_log).collect();
    // Ray Tune writes the same rows as JSON, with all settings in each.
    if logs.iter().any(|log| name_of(log) == "progress.csv") {
        logs.retain(|log| name_of(log) != "result.json");
    }
    // Each checkpoint has the log up to its step.
    if !logs.iter().any(|log| name_of(log) == "trainer_state.json") {
        let state = |path: PathBuf| {
            let step: u64 = name_of(&path).strip_prefix(CHECKPOINT)?.parse().ok()?;
            Some((step, path.join("trainer_state.json"))).filter(|(_, state)| state.is_file())
        };
        logs.extend(entries(folder)?.into_iter().filter_map(state).max().map(|(_, state)| state));
    }
    Ok(logs)
}

/// The folders with runs.
fn folders(path: &Path) -> Result<Vec<PathBuf>, ImportError> {
    fn find(folder: &Path, level: usize, found: &mut Vec<PathBuf>) -> Result<(), ImportError> {
        if !logs(folder)?.is_empty() {
            found.push(folder.to_owned());
        }
        for path in entries(folder)? {
            let name = name_of(&path);
            if path.is_dir() && level < MAX_LEVELS && !name.starts_with(CHECKPOINT) && !name.starts_with('.') {
                find(&path, level + 1, found)?;
            }
        }
        Ok(())
    }
    let mut found = Vec::new();
    find(path, 1, &mut found)?;
    Ok(found)
}

/// Reads the runs below a folder. Most programs do not write how a run ended, so it counts as finished.
pub(super) fn read(path: &Path) -> Result<Runs, ImportError> {
    let (mut runs, mut damaged) = (Runs::default(), 0);
    for folder in folders(path)? {
        let below = folder.strip_prefix(path).unwrap_or(&folder);
        let names: Vec<String> = below.iter().map(|part| part.to_string_lossy().into_owned()).collect();
        let id = if names.is_empty() { name_of(&folder) } else { names.join("/") };
        let mut run = Run { id, ..Run::default() };
        run.params.extend(names.iter().flat_map(|name| named(name)));
        match add(&mut run, &folder, &mut runs.notices) {
            Ok(count) if !run.series.is_empty() => {
                damaged += count;
                runs.runs.push(run);
            }
            Ok(_) => runs.skip("its logs have no numbers"),
            Err(error) => {
                runs.skip("a file of the run cannot be read");
                runs.notices.push(error.to_string());
            }
        }
    }
    runs.notices.extend(tensorboard::torn(damaged));
    Ok(runs)
}

/// Adds the files of a folder to its run. Returns the number of torn or damaged event files.
fn add(run: &mut Run, folder: &Path, notices: &mut Vec<String>) -> Result<usize, ImportError> {
    files::settings(run, folder)?;
    let is_of_sacred = folder.join("run.json").is_file() && folder.join("cout.txt").is_file();
    if is_of_sacred {
        describe(run, &folder.join("run.json"))?;
    }
    for log in logs(folder)? {
        let read = if is_of_sacred && name_of(&log) == "metrics.json" {
            sacred(run, &log)
        } else {
            files::metrics(run, &log, notices)
        };
        if let Err(error) = read {
            notices.push(error.to_string());
        }
    }
    let is_other = |folder: &Path| logs(folder).is_ok_and(|logs| !logs.is_empty());
    tensorboard::add_below(run, folder, is_other, notices)
}

fn json(path: &Path) -> Result<Json, ImportError> {
    lenient::json(&text(path)?).ok_or_else(|| ImportError::format(path, "it is not JSON"))
}

/// Adds the end and the times of a run of Sacred.
fn describe(run: &mut Run, path: &Path) -> Result<(), ImportError> {
    let meta = json(path)?;
    let word = |name: &str| meta.get(name).and_then(Json::as_str);
    run.end = match word("status") {
        Some("COMPLETED") | None => End::Finished,
        Some("RUNNING" | "QUEUED") => End::Running,
        Some(other) => End::Failed(other.to_ascii_lowercase()),
    };
    run.started = word("start_time").and_then(lenient::milliseconds);
    let stopped = word("stop_time").and_then(lenient::milliseconds);
    run.seconds = run.started.zip(stopped).map_or(0.0, |(start, stop)| (stop - start).max(0) as f64 / 1000.0);
    if let Some(result) = meta.get("result").and_then(lenient::number) {
        run.conclude("result", result);
    }
    Ok(())
}

/// Adds the metrics of Sacred: `{"loss": {"steps": [0, 1], "values": [0.5, 0.4]}}`.
fn sacred(run: &mut Run, path: &Path) -> Result<(), ImportError> {
    let metrics = json(path)?;
    for (name, metric) in metrics.as_object().into_iter().flatten() {
        let list = |key: &str| metric.get(key).and_then(Json::as_array).map_or(&[][..], Vec::as_slice);
        for (step, value) in list("steps").iter().zip(list("values")) {
            if let (Some(step), Some(value)) = (lenient::number(step), lenient::number(value)) {
                run.log(name, lenient::step(step), value);
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The runs of a store with these files: parameters, and points by step.
    fn found(all: &[(&str, &str)]) -> (Vec<String>, Runs) {
        let store = tempfile::tempdir().unwrap();
        for (path, text) in all {
            let path = store.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        assert!(detects(store.path()));
        let runs = read(store.path()).unwrap();
        let shown = runs.runs.iter().map(|run| {
            let params: Vec<String> = run.params.iter().map(|(name, value)| format!("{name}={value}")).collect();
            let points = |points: &super::super::Points| {
                points.by_step.iter().map(|(step, value)| format!("{step}:{value}")).collect::<Vec<_>>().join(" ")
            };
            let series: Vec<String> =
                run.series.iter().map(|(name, all)| format!("{name} {} last {:?}", points(all), all.last())).collect();
            format!("{} [{}] {}", run.id, params.join(" "), series.join("; "))
        });
        (shown.collect(), runs)
    }

    #[test]
    fn rows_of_lightning_share_steps() {
        let csv = "epoch,step,train_loss,val_loss\n0,0,4,\n0,1,3,\n0,1,,5\n1,2,2,\n";
        let (found, _) = found(&[("logs/version_0/metrics.csv", csv), ("logs/version_0/hparams.yaml", "lr: 0.1\n")]);
        assert_eq!(
            found,
            ["logs/version_0 [lr=0.1] train_loss 0:4 1:3 2:2 last Some(2.0); val_loss 1:5 last Some(5.0)"]
        );
    }

    #[test]
    fn the_newest_state_of_a_trainer_counts() {
        let state = |steps: &str| format!("{{\"max_steps\": 9, \"best_metric\": 1, \"log_history\": [{steps}]}}");
        let (one, two) = ("{\"step\": 10, \"loss\": 2}", "{\"step\": 20, \"epoch\": 1.5, \"loss\": 1}");
        let (found, _) = found(&[
            ("lr=0.1/checkpoint-10/trainer_state.json", &state(&format!("{one}, {one}"))),
            ("lr=0.1/checkpoint-9/trainer_state.json", "{}"),
            ("lr=0.1/checkpoint-20/trainer_state.json", &state(&format!("{one}, {two}"))),
        ]);
        assert_eq!(found, ["lr=0.1 [lr=0.1] best_metric  last Some(1.0); loss 10:2 20:1 last Some(1.0)"]);
    }

    #[test]
    fn runs_of_sacred_have_ends() {
        let run = |status: &str| {
            format!(
                "{{\"status\": \"{status}\", \"start_time\": \"2026-01-01T00:00:00.5\", \"stop_time\": \"2026-01-01T00:00:02\", \"result\": null}}"
            )
        };
        let metrics = "{\"loss\": {\"steps\": [0, 5], \"values\": [1.5, NaN], \"timestamps\": []}}";
        let (found, runs) = found(&[
            ("1/run.json", &run("COMPLETED")),
            ("1/cout.txt", ""),
            ("1/metrics.json", metrics),
            ("1/config.json", "{\"lr\": 1}"),
            ("2/run.json", &run("FAILED")),
            ("2/cout.txt", ""),
            ("2/metrics.json", metrics),
            ("2/config.json", "{\"lr\": 2}"),
        ]);
        assert_eq!(found[0], "1 [lr=1] loss 0:1.5 5:NaN last Some(NaN)");
        assert_eq!((&runs.runs[0].end, runs.runs[0].seconds), (&End::Finished, 1.5));
        assert_eq!(runs.runs[1].end, End::Failed("failed".to_owned()));
    }

    #[test]
    fn folders_of_other_programs_are_read() {
        let rows = "training_iteration,loss,config/lr\n1,0.5,0.1\n2,0.25,0.1\n";
        let history = "{\"loss\": [0.5, 0.25], \"epoch\": [1, 2]}";
        let (found, runs) = found(&[
            ("a/progress.csv", rows),
            ("a/result.json", "{\"loss\": 9}\n"),
            ("b/history.json", history),
            ("b/args.yaml", "lr: 0.2\n"),
            ("c/metrics.jsonl", "{\"step\": 3, \"val\": {\"acc\": 1}}\n"),
            ("c/params.json", "{\"lr\": 0.3}"),
            ("d/results.csv", "note\nx\n"),
        ]);
        assert_eq!(
            found,
            [
                "a [lr=0.1] loss 1:0.5 2:0.25 last Some(0.25)",
                "b [lr=0.2] loss 1:0.5 2:0.25 last Some(0.25)",
                "c [lr=0.3] val.acc 3:1 last Some(1.0)",
            ]
        );
        assert_eq!(runs.skipped.into_iter().collect::<Vec<_>>(), [("its logs have no numbers".to_owned(), 1)]);
    }

    #[test]
    fn the_order_of_rows_and_missing_percent_signs_do_not_change_values() {
        let (found, runs) = found(&[
            ("a/log.csv", "step,acc\n90,95%\n10,0.57\n50,0.9\n"),
            ("a/params.json", "{\"lr\": 1}"),
            ("b/metrics.jsonl", "{\"step\": 2, \"acc\": 9}\n{\"step\": 1, \"acc\": 8}\n"),
        ]);
        assert_eq!(found, ["a [lr=1] acc 10:57 50:90 90:95 last Some(95.0)", "b [] acc 1:8 2:9 last Some(9.0)"]);
        assert!(runs.notices[0].starts_with("`acc` is in percent"), "{:?}", runs.notices);
    }
}
