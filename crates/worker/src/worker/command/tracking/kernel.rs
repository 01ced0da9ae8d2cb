//! The kernel's reports of the file accesses of a program and all its children.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    path::{Path, PathBuf},
};

use sweep_job::{Failure, FailureKind, FileStamp, Outside};
use sweep_observer::{Fact, File, Hook, Layer, Listener, Options, Seen, Supervisor};

use super::{Noted, Read, audit};
use crate::{
    host::{
        observation,
        threads::{self, Started},
    },
    record::{fact, path_text},
};

/// The observation by the kernel, which begins before the program starts.
pub(in super::super) struct Kernel {
    hook: Hook,
    thread: Started<Seen>,
}

impl Kernel {
    /// Prepares an observation; the error is the reason why it cannot begin.
    pub(in super::super) fn prepare(options: Options) -> Result<(Hook, Supervisor), String> {
        observation::check()?;
        sweep_observer::observe(options).map_err(|error| not_started(&error))
    }

    /// Begins the observation; the error is the reason why it cannot begin.
    pub(super) fn begin(options: Options) -> Result<Self, String> {
        Self::start(Self::prepare(options)?)
    }

    /// Begins the observation of a process that is forked.
    pub(super) fn begin_fork(listener: &Listener, options: Options) -> Result<Self, String> {
        Self::start(sweep_observer::observe_fork(listener, options).map_err(|error| not_started(&error))?)
    }

    fn start((hook, supervisor): (Hook, Supervisor)) -> Result<Self, String> {
        let thread = threads::start(move || supervisor.run()).map_err(|error| not_started(&error))?;
        Ok(Self { hook, thread })
    }

    /// Returns this observation for programs that must not start without it.
    pub(super) fn required(self) -> Self {
        Self { hook: self.hook.required(), ..self }
    }

    /// Puts programs under observation.
    pub(super) fn hook(&self) -> &Hook {
        &self.hook
    }

    /// Everything that was observed, once all processes have ended.
    pub(super) fn end(self) -> Result<Seen, Failure> {
        let Self { hook, thread } = self;
        drop(hook);
        thread.join().map_err(|error| Failure {
            kind: FailureKind::Crash,
            message: format!("the observer of the program failed: {error}"),
        })
    }
}

fn not_started(error: &io::Error) -> String {
    format!("the observer cannot be started: {error}")
}

/// Returns the files that were read. Files of which only the size or times were queried count, too.
pub(super) fn files(observed_files: &BTreeMap<PathBuf, File>, python: &audit::Seen) -> BTreeMap<PathBuf, Noted> {
    let entry_of = |(path, file): (&PathBuf, &File)| {
        // The file was read twice with different contents, so no digest is right.
        let inode = if file.is_changed { 0 } else { file.stamp.inode };
        let stamp = FileStamp { size: file.stamp.size, mtime: file.stamp.mtime, inode };
        let digest = file.digest.clone().filter(|_| !file.is_changed);
        let read = Read { stamp, by: python.importers.get(path).cloned(), digest };
        (path.clone(), Noted { read, was_written_first: false })
    };
    observed_files.iter().map(entry_of).collect()
}

/// The programs and libraries outside of the project, by their paths in the form of a record.
pub(super) fn outside(observed_files: &BTreeMap<PathBuf, sweep_observer::Outside>) -> BTreeMap<String, Outside> {
    let entry_of = |(path, file): (&PathBuf, &sweep_observer::Outside)| {
        let stamp = FileStamp { size: file.stamp.size, mtime: file.stamp.mtime, inode: file.stamp.inode };
        (path_text(path), Outside { stamp, is_started: file.is_started })
    };
    observed_files.iter().map(entry_of).collect()
}

/// Properties of other paths, and the folders that the program itself listed. Python's import system lists each folder of its path: of
/// these listings, only the modules count that Python looked for.
pub(super) fn facts(
    observation: &Seen,
    python: &audit::Seen,
    layer: &Layer,
) -> (BTreeMap<PathBuf, String>, BTreeMap<PathBuf, BTreeSet<PathBuf>>) {
    let mut listings = BTreeMap::new();
    let mut facts = BTreeMap::new();
    for (folder, listing) in &observation.listed {
        let Some(names) = &listing.names else { continue };
        let by_imports = python.listed.get(folder).copied().unwrap_or(0);
        if listing.opens > by_imports {
            listings.insert(folder.clone(), names.iter().map(PathBuf::from).collect());
        } else {
            facts.insert(folder.clone(), fact::of_modules(folder, layer, python.wanted_in(folder)));
        }
    }
    for (path, property) in &observation.facts {
        let text = match property {
            Fact::Absent => crate::record::ABSENT.to_owned(),
            Fact::File => fact::FILE.to_owned(),
            Fact::Link(target) => fact::of_link(target),
            Fact::Folder => fact::FOLDER.to_owned(),
        };
        facts.entry(path.clone()).or_insert(text);
    }
    // A folder exists if any path in it exists.
    let ancestors: BTreeSet<&Path> =
        observation.files.keys().chain(listings.keys()).flat_map(|path| path.ancestors()).collect();
    facts.retain(|path, text| !(text == fact::FOLDER && ancestors.contains(path.as_path())));
    (facts, listings)
}
