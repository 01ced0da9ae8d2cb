//! Checkpoints of a training in progress, which an interrupted or failed job leaves for its next attempt.
//!
//! Weights, moments, masks, losses, curves and times are saved; random streams need not be, because they depend only on the seed and the
//! iteration. A training that resumes from a checkpoint has the same result as without the interruption, bit-identical on the CPU.
//!
//! A checkpoint is a folder, which gets its name when everything in it is on the disk. `B3SUMS` has the digests of the other
//! files, as `b3sum --check` reads them; a checkpoint that they do not fit, or with numbers that no training can have, is
//! removed. The last but one stays until the next, in case that the last one is damaged.

use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use burn::backend::Autodiff;
use fs_err as fs;
use serde::{Deserialize, Serialize};
use sweep_job::{Curve, Report};

use super::{
    super::steps::{Curves, Times},
    Done, Trainer,
};
use crate::{
    LabError, StateError,
    backend::Compute,
    files::Snapshot,
    model::{self, Gpt, ParamInfo},
};

/// The tensors.
const STATE: &str = "state.safetensors";
/// Everything else.
const PROGRESS: &str = "progress.json";
/// Digests of the two.
const DIGESTS: &str = "B3SUMS";
/// Prefix of the name of a checkpoint's folder, before its iteration.
const PREFIX: &str = "after-";
/// Name of the folder while it is being written.
const UNFINISHED: &str = "unfinished";
/// The engine's statement that the job began with a state that another job has left.
const STARTED: &str = ".sweep/started.json";

/// State of a training besides its tensors.
#[derive(Debug, Serialize, Deserialize)]
struct Progress {
    /// Iterations done.
    done: usize,
    curves: BTreeMap<String, Curve>,
    /// Losses summed since the last reading.
    losses: usize,
    coupling: Option<usize>,
    prune_time: f64,
    /// Time of the loop so far, in seconds.
    train_time: f64,
    /// Time of the first step, in seconds.
    first_step: f64,
    clock: Times,
}

impl Progress {
    /// Defect of the progress after `done` of `iters` iterations, if any. At most `last` of them can have been done.
    fn fault(&self, done: usize, iters: usize, last: usize) -> Option<String> {
        if self.done != done || done == 0 || done > last {
            return Some(format!("the checkpoint after iteration {done} of {iters} records {} iterations", self.done));
        }
        if self.coupling.is_some_and(|iteration| iteration >= done) {
            return Some(format!("the coupling starts after iteration {done}, the last one"));
        }
        for (name, Curve { at, values, .. }) in &self.curves {
            let is_ordered = at.is_sorted() && at.last().is_none_or(|at| *at <= done as u64);
            if at.len() != values.len() || !is_ordered || !values.iter().all(|value| value.is_finite()) {
                return Some(format!("the curve `{name}` does not match {done} iterations"));
            }
        }
        let times = [self.prune_time, self.train_time, self.first_step];
        let is_invalid = |seconds: f64| Duration::try_from_secs_f64(seconds).is_err();
        (times.into_iter().any(is_invalid) || !self.clock.are_possible())
            .then(|| "a time is not a valid duration".to_owned())
    }
}

/// The checkpoints in `scratch`, the one after the most iterations first.
pub(super) fn all(scratch: &Path) -> Vec<(usize, PathBuf)> {
    let entries = fs::read_dir(scratch).into_iter().flatten().flatten();
    let folders = entries.filter_map(|entry| {
        let done = entry.file_name().to_str()?.strip_prefix(PREFIX)?.parse().ok()?;
        Some((done, entry.path()))
    });
    let mut folders: Vec<(usize, PathBuf)> = folders.collect();
    folders.sort_unstable_by(|left, right| right.cmp(left));
    folders
}

/// The iteration after which the job began, if another job has left that state.
pub(super) fn started(scratch: &Path) -> Option<usize> {
    #[derive(Deserialize)]
    struct Started {
        step: usize,
    }
    let text = fs::read(scratch.join(STARTED)).ok()?;
    serde_json::from_slice(&text).ok().map(|Started { step }| step)
}

/// Forgets that another job has left a state: it cannot be used.
pub(super) fn began_anew(scratch: &Path) {
    let _ = fs::remove_file(scratch.join(STARTED));
}

/// Removes the checkpoint `folder`, which cannot be used because of `error`, with a note.
pub(super) fn throw_away(folder: &Path, done: usize, error: &StateError, report: &mut dyn Report) {
    // A file that cannot be read now may be readable later.
    let is_unread = matches!(error, StateError::Read(source) if source.kind() != io::ErrorKind::NotFound);
    let is_removed = !is_unread && fs::remove_dir_all(folder).is_ok();
    let end = if is_removed { " and is removed" } else { "" };
    report.note(&format!("the checkpoint after iteration {done} cannot be used{end}: {error}"));
}

/// The line of [`DIGESTS`] for the file `name` in `folder`.
fn digest(folder: &Path, name: &str) -> io::Result<String> {
    let mut hasher = blake3::Hasher::new();
    hasher.update_reader(fs::File::open(folder.join(name))?)?;
    Ok(format!("{}  {name}\n", hasher.finalize()))
}

/// Checks that the files in `folder` are unchanged since they were written.
fn verify(folder: &Path) -> Result<(), StateError> {
    let digests = fs::read(folder.join(DIGESTS)).map_err(StateError::Read)?;
    let mut expected = digests.as_slice();
    for name in [STATE, PROGRESS] {
        let line = digest(folder, name).map_err(StateError::Read)?;
        expected =
            expected.strip_prefix(line.as_bytes()).ok_or_else(|| StateError::Digest { path: folder.join(name) })?;
    }
    if expected.is_empty() { Ok(()) } else { Err(StateError::Digest { path: folder.join(DIGESTS) }) }
}

/// Brings a file, or a folder's list of files, to the disk.
fn sync(path: &Path) -> io::Result<()> {
    fs::File::open(path)?.sync_all()
}

impl<B: Compute> Trainer<'_, B> {
    /// Saves the state of the training of `network`; of earlier checkpoints all but the last are removed. A state with
    /// non-finite numbers is not saved, because no attempt could resume from it; a note reports this.
    pub(super) fn save(
        &mut self,
        network: &Gpt<Autodiff<B>>,
        parameters: &[ParamInfo],
        scratch: &Path,
        work: Done,
        report: &mut dyn Report,
    ) -> Result<(), LabError> {
        let done = work.iters;
        let folder = scratch.join(UNFINISHED);
        let write_error = |source: io::Error| LabError::Write { path: folder.clone(), source };
        let progress = Progress {
            done,
            curves: self.curves.0.clone(),
            losses: self.loss.count,
            coupling: self.coupling.started(),
            prune_time: self.prune_time.as_secs_f64(),
            train_time: work.seconds,
            first_step: work.first_step,
            clock: self.clock.times(),
        };
        if folder.exists() {
            fs::remove_dir_all(&folder).map_err(write_error)?;
        }
        fs::create_dir_all(&folder).map_err(write_error)?;
        match self.snapshot(network, parameters).write(&folder.join(STATE)) {
            Err(LabError::State(error @ StateError::NotFinite { .. })) => {
                report.note(&format!("no checkpoint is saved after iteration {done}: {error}"));
                return fs::remove_dir_all(&folder).map_err(write_error);
            }
            result => result?,
        }
        let text = serde_json::to_vec(&progress).map_err(|error| write_error(error.into()))?;
        fs::write(folder.join(PROGRESS), text).map_err(write_error)?;
        let digests: io::Result<String> = [STATE, PROGRESS].iter().map(|name| digest(&folder, name)).collect();
        fs::write(folder.join(DIGESTS), digests.map_err(write_error)?).map_err(write_error)?;
        for path in [folder.join(STATE), folder.join(PROGRESS), folder.join(DIGESTS), folder.clone()] {
            sync(&path).map_err(write_error)?;
        }
        let final_folder = scratch.join(format!("{PREFIX}{done}"));
        if final_folder.exists() {
            fs::remove_dir_all(&final_folder).map_err(write_error)?;
        }
        fs::rename(&folder, final_folder).and_then(|()| sync(scratch)).map_err(write_error)?;
        for (_, old_folder) in all(scratch).into_iter().filter(|(iters, _)| *iters < done).skip(1) {
            // Best effort: a checkpoint that remains only takes disk space.
            let _ = fs::remove_dir_all(old_folder);
        }
        Ok(())
    }

    /// Everything that the rest of the training depends on, except for the [`Progress`].
    fn snapshot(&self, network: &Gpt<Autodiff<B>>, parameters: &[ParamInfo]) -> Snapshot<B> {
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
        snapshot
    }

    /// Restores the checkpoint after `done` iterations from `folder`, if the checkpoint is intact and fits this training.
    /// After an error, this trainer may have restored a part of it.
    pub(super) fn restore(
        &mut self,
        network: Gpt<Autodiff<B>>,
        parameters: &[ParamInfo],
        folder: &Path,
        done: usize,
    ) -> Result<(Gpt<Autodiff<B>>, Done), StateError> {
        verify(folder)?;
        let path = folder.join(PROGRESS);
        let file_error = |message: String| StateError::File { path: path.clone(), message };
        let text = fs::read(&path).map_err(StateError::Read)?;
        let progress: Progress = serde_json::from_slice(&text).map_err(|error| file_error(error.to_string()))?;
        let settings = &self.train.training;
        let last = if settings.leaves_state() { settings.end() } else { settings.end() - 1 };
        if let Some(fault) = progress.fault(done, settings.end(), last) {
            return Err(file_error(fault));
        }
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
        self.curves = Curves(progress.curves);
        self.prune_time = Duration::from_secs_f64(progress.prune_time);
        self.clock.resume(&progress.clock);
        let network = model::map_values::<Autodiff<B>, _>(network, &mut |index, weight| {
            weights.get_mut(index).and_then(Option::take).unwrap_or(weight)
        });
        Ok((network, Done { iters: done, seconds: progress.train_time, first_step: progress.first_step }))
    }
}
