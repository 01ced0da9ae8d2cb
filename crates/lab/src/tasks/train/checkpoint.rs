//! Checkpoints of a training in progress: what an interrupted or failed job leaves for its next attempt.
//!
//! Weights, moments, masks, losses, curves and times are saved; random streams need not be, because they depend on the
//! seed and the iteration alone. A training that goes on from a checkpoint computes what it would have computed without
//! the interruption, bit for bit on the CPU.

use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use burn::backend::Autodiff;
use fs_err as fs;
use serde::{Deserialize, Serialize};
use sweep_job::Curve;

use super::{
    super::steps::{Curves, Times},
    Trainer,
};
use crate::{
    LabError,
    backend::Compute,
    model::{self, Gpt, ParamInfo},
    state::{Snapshot, StateError},
};

/// The tensors.
const STATE: &str = "state.safetensors";
/// Everything else; written last, so that a checkpoint with it is whole.
const PROGRESS: &str = "progress.json";
/// How the folder of a checkpoint is called, before its iteration.
const PREFIX: &str = "after-";

/// Where a training is, beside its tensors.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Progress {
    /// Iterations done.
    pub(super) done: usize,
    curves: BTreeMap<String, Curve>,
    /// Losses summed since the last reading.
    losses: usize,
    coupling: Option<usize>,
    prune_time: f64,
    /// Time of the loop so far, in seconds.
    pub(super) train_time: f64,
    clock: Times,
}

/// The checkpoint of the most iterations in `scratch`, if there is one.
pub(super) fn latest(scratch: &Path) -> Option<PathBuf> {
    let whole = all(scratch).into_iter().filter(|(_, path)| path.join(PROGRESS).is_file());
    whole.max_by_key(|(done, _)| *done).map(|(_, path)| path)
}

fn all(scratch: &Path) -> Vec<(usize, PathBuf)> {
    let entries = fs::read_dir(scratch).into_iter().flatten().flatten();
    let numbered = entries.filter_map(|entry| {
        let done = entry.file_name().to_str()?.strip_prefix(PREFIX)?.parse().ok()?;
        Some((done, entry.path()))
    });
    numbered.collect()
}

impl<B: Compute> Trainer<'_, B> {
    /// Saves where the training is after `done` iterations; earlier checkpoints are removed.
    pub(super) fn save(
        &mut self,
        network: &Gpt<Autodiff<B>>,
        parameters: &[ParamInfo],
        scratch: &Path,
        done: usize,
        train_time: f64,
    ) -> Result<(), LabError> {
        let folder = scratch.join(format!("{PREFIX}{done}"));
        let failed = |source: io::Error| LabError::Write { path: folder.clone(), source };
        let mut snapshot = Snapshot::default();
        for (info, value) in parameters.iter().zip(model::values(network)) {
            snapshot.put(format!("weight.{}", info.name), value);
        }
        self.optimizer.store(&mut snapshot, parameters);
        self.pruner.store(&mut snapshot, parameters);
        if let Some(scale) = self.loss_scale {
            scale.store(&mut snapshot);
        }
        if let Some(sum) = &self.loss.sum {
            snapshot.put("loss.sum".to_owned(), sum.clone());
        }
        if let Some(losses) = self.coupling.losses() {
            snapshot.put("coupling.losses".to_owned(), losses);
        }
        let progress = Progress {
            done,
            curves: self.curves.0.clone(),
            losses: self.loss.count,
            coupling: self.coupling.started(),
            prune_time: self.prune_time.as_secs_f64(),
            train_time,
            clock: self.clock.times(),
        };
        fs::create_dir_all(&folder).map_err(failed)?;
        snapshot.write(&folder.join(STATE))?;
        let text = serde_json::to_vec(&progress).map_err(|error| failed(error.into()))?;
        let beside = folder.join("progress.new");
        fs::write(&beside, text).map_err(failed)?;
        for path in [&folder.join(STATE), &beside] {
            fs::File::open(path).and_then(|file| file.sync_all()).map_err(failed)?;
        }
        fs::rename(&beside, folder.join(PROGRESS)).map_err(failed)?;
        for (_, earlier) in all(scratch).into_iter().filter(|(earlier, _)| *earlier < done) {
            // One that stays takes room, and that is all.
            let _ = fs::remove_dir_all(earlier);
        }
        Ok(())
    }

    /// Takes up a checkpoint. On an error this trainer may have taken up a part of it.
    pub(super) fn restore(
        &mut self,
        network: Gpt<Autodiff<B>>,
        parameters: &[ParamInfo],
        folder: &Path,
    ) -> Result<(Gpt<Autodiff<B>>, Progress), StateError> {
        let path = folder.join(PROGRESS);
        let wrong = |message: String| StateError::File { path: path.clone(), message };
        let text = fs::read(&path).map_err(StateError::Read)?;
        let progress: Progress = serde_json::from_slice(&text).map_err(|error| wrong(error.to_string()))?;
        let mut snapshot = Snapshot::<B>::read(&folder.join(STATE), self.device)?;
        let mut weights = Vec::with_capacity(parameters.len());
        for info in parameters {
            let name = format!("weight.{}", info.name);
            let weight = snapshot.take(&name, info.len())?;
            weights.push(Some(weight.ok_or(StateError::Missing { name })?));
        }
        self.optimizer.restore(&mut snapshot, parameters)?;
        self.pruner.restore(&mut snapshot, parameters)?;
        self.loss.sum = snapshot.take("loss.sum", 1)?;
        self.loss.count = progress.losses;
        self.coupling.restore(progress.coupling, snapshot.take_any("coupling.losses"));
        if let Some(scale) = &mut self.loss_scale {
            scale.restore(&mut snapshot)?;
        }
        snapshot.finish()?;
        self.curves = Curves(progress.curves.clone());
        self.prune_time = Duration::from_secs_f64(progress.prune_time);
        self.clock.resume(&progress.clock);
        let network = model::map_values::<Autodiff<B>, _>(network, &mut |index, weight| {
            weights.get_mut(index).and_then(Option::take).unwrap_or(weight)
        });
        Ok((network, progress))
    }
}
