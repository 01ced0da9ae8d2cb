//! States that jobs leave for longer jobs: selects the state that an attempt begins with, and keeps the state of an ended job.
//!
//! A job gets a state as if an earlier attempt had left it, in its scratch folder. If any of this fails, the job runs
//! from its first step.

use std::{
    collections::{BTreeSet, HashMap},
    io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use fs_err as fs;
use tracing::warn;

use super::scratch::Scratch;
use crate::{
    host::log,
    plan::{Code, Digests, Job, JobId, Plan},
    recipe::KeptStates,
    record::{Identity, Key, Prefixes, Started},
    store::{State, Store},
};

/// The task whose checkpoints are folders, which do not change once they exist.
const TRAIN: &str = "train";
/// Prefix of the names of these folders, before the iteration.
const AFTER: &str = "after-";
/// Folder of a state on its way, in the scratch folder.
const BESIDE: &str = ".state";

/// A job as far as its states are concerned.
#[derive(Debug)]
pub(super) struct Stateful {
    prefixes: Prefixes,
    identity: Identity,
    label: String,
    code: Option<Arc<Code>>,
    /// True if the job may begin with the state of another one.
    may_continue: bool,
    /// True if its state is kept.
    is_kept: bool,
}

impl Stateful {
    /// Returns the part of a planned job; `None` if its task has no states.
    pub(super) fn of(plan: &Plan, id: JobId) -> Option<Self> {
        let Job { task, identity, values, resources, policy, label, code, .. } = plan.job(id);
        Some(Self {
            prefixes: Prefixes::of(task, values)?,
            identity: identity.clone(),
            label: label.to_string(),
            code: code.clone(),
            may_continue: !resources.exclusive && !plan.is_alone(),
            // Another job of the run waits for the state; after the run the state is removed.
            is_kept: policy.states.keep != KeptStates::None || plan.is_continued(id),
        })
    }

    fn is_training(&self) -> bool {
        self.identity.task == TRAIN
    }

    /// True if an attempt of this job may begin with a state that is in the store.
    pub(super) fn may_begin_with_one(&self, store: &Store) -> bool {
        self.may_continue && store.state_steps().is_ok_and(|steps| !steps.is_empty())
    }

    /// Puts the best state of another job into the scratch folder of this one, if it has no checkpoint.
    pub(super) fn begin(&self, store: &Store, scratch: &Path, digests: &Mutex<Digests>) -> Option<Started> {
        if !self.may_continue || self.has_own(scratch) {
            return None;
        }
        match self.find(store, scratch, digests) {
            Ok(started) => started,
            Err(error) => {
                warn!(target: log::STORE, %error, "a state cannot be used");
                None
            }
        }
    }

    fn has_own(&self, scratch: &Path) -> bool {
        if self.is_training() {
            let entries = std::fs::read_dir(scratch).into_iter().flatten().flatten();
            return entries.into_iter().any(|entry| entry.file_name().as_encoded_bytes().starts_with(AFTER.as_bytes()));
        }
        let scratch = Scratch::new(scratch);
        scratch.newest(&scratch.attempts()).is_some()
    }

    fn find(&self, store: &Store, scratch: &Path, digests: &Mutex<Digests>) -> io::Result<Option<Started>> {
        for step in store.state_steps()?.into_iter().filter(|step| self.prefixes.contains(*step)) {
            let key = self.prefixes.key(&self.identity, step)?;
            let Some(state) = store.find_state(step, key).filter(|state| self.is_of_this_code(state, store, digests))
            else {
                continue;
            };
            let folder = scratch.join(BESIDE);
            if store.take_state(&state, &folder, self.is_training())? {
                let started = Started { step, state: key, record: state.record };
                Scratch::new(scratch).take_up(&folder, &started)?;
                return Ok(Some(started));
            }
        }
        Ok(None)
    }

    /// True if the program of a state had the code that is there now.
    fn is_of_this_code(&self, state: &State, store: &Store, digests: &Mutex<Digests>) -> bool {
        match (&self.code, &state.set) {
            (None, None) => true,
            (Some(code), Some(set)) => {
                let digests = &mut digests.lock().unwrap_or_else(PoisonError::into_inner);
                digests.forget();
                store.manifests().is_unchanged(code, set, digests)
            }
            _ => false,
        }
    }

    /// Keeps the state that this job has left in its scratch folder. `set` has the files that its program has read.
    pub(super) fn keep(&self, store: &Store, record: Key, scratch: &Path, set: Option<String>) {
        if !self.is_kept {
            return;
        }
        if let Err(error) = self.try_to_keep(store, record, scratch, set) {
            warn!(target: log::STORE, %error, "a state cannot be kept");
        }
    }

    fn try_to_keep(&self, store: &Store, record: Key, scratch: &Path, set: Option<String>) -> io::Result<()> {
        let Some((step, key)) = self.prefixes.left(&self.identity)? else { return Ok(()) };
        let mut state = State::new(step, key, &self.identity.task, record, self.label.clone());
        state.set = set;
        if self.is_training() {
            let name = format!("{AFTER}{step}");
            let from = scratch.join(&name);
            if from.is_dir() {
                store.keep_state(state, |files| link(&from, &files.join(&name), &[]))?;
            }
            return Ok(());
        }
        let own = Scratch::new(scratch);
        if let Some((attempts, paths)) = own.left() {
            store.keep_state(state, |files| {
                link(scratch, files, &paths)?;
                Scratch::new(files).save(&attempts)
            })?;
        }
        Ok(())
    }
}

/// Removes the states that the jobs of a plan leave or can continue from and that no job needs anymore: all longer jobs
/// of the plan have results or will not run, or the recipe keeps none. `is_stopped` returns true for the jobs that a
/// search has decided not to run.
pub fn retire(plan: &Plan, store: &Store, is_stopped: impl Fn(JobId) -> bool) -> io::Result<()> {
    let states = store.states()?;
    let steps: BTreeSet<u64> = states.iter().map(|state| state.step).collect();
    let mut uses: HashMap<(u64, Key), Use> = HashMap::new();
    for (id, job) in plan.jobs().filter(|_| !steps.is_empty()) {
        let Some(prefixes) = Prefixes::of(job.task, &job.values) else { continue };
        let (keep, is_done) = (job.policy.states.keep, store.contains(job.key) || is_stopped(id));
        if let Some(left) = prefixes.left(&job.identity)? {
            let of_state = uses.entry(left).or_default();
            of_state.keep = of_state.keep.max(Some(keep));
        }
        let earlier = steps.iter().filter(|step| prefixes.contains(**step) && Some(**step) != prefixes.reach.end);
        // A job for a shared state is not an end in itself.
        for step in earlier.filter(|_| !plan.is_shared(id)) {
            let of_state = uses.entry((*step, prefixes.key(&job.identity, *step)?)).or_default();
            of_state.keep = of_state.keep.max(Some(keep));
            (of_state.is_used, of_state.is_needed) = (true, of_state.is_needed || !is_done);
        }
    }
    for State { step, key, .. } in states {
        let Some(of_state) = uses.get(&(step, key)) else { continue };
        let goes = match of_state.keep {
            Some(KeptStates::Rungs) => false,
            Some(KeptStates::Last) => of_state.is_used && !of_state.is_needed,
            Some(KeptStates::None) | None => !of_state.is_needed,
        };
        if goes {
            store.remove_state(step, key)?;
        }
    }
    Ok(())
}

/// Use of a state by the jobs of a plan.
#[derive(Debug, Default)]
struct Use {
    /// The policy that keeps most.
    keep: Option<KeptStates>,
    /// True if a longer job can continue from the state.
    is_used: bool,
    /// True if such a job has no result.
    is_needed: bool,
}

/// The state with which a job began, if another one has left it.
pub(super) fn started(scratch: &Path) -> Option<Started> {
    Scratch::new(scratch).started()
}

/// Makes hard links to the files below a folder, or copies where there can be none. Files at these paths are left out, and
/// so are links that lead to an absolute path.
fn link(from: &Path, to: &Path, without: &[PathBuf]) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (path, target) = (entry.path(), to.join(entry.file_name()));
        let kind = entry.file_type()?;
        if without.contains(&path) {
            continue;
        }
        if kind.is_dir() {
            link(&path, &target, without)?;
        } else if kind.is_symlink() {
            let leads_to = fs::read_link(&path)?;
            if leads_to.is_relative() {
                std::os::unix::fs::symlink(leads_to, target)?;
            }
        } else if kind.is_file() && std::fs::hard_link(&path, &target).is_err() {
            fs::copy(&path, &target)?;
        }
    }
    Ok(())
}
