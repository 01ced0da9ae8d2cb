//! The files of the contract with a program, in the folder `.sweep` of the job's scratch folder, and their variables.

use std::{
    collections::BTreeMap,
    io::{self, Write as _},
    path::{Path, PathBuf},
    process,
    sync::Arc,
};

use fs_err as fs;
use sweep_base::settings::json_and_yaml;
use sweep_job::{
    Job,
    tasks::{Command, MetricsFrom},
};

use super::{
    reads::{self, Patterns},
    report::{self, ReportFile, Source, State},
    resume::Keeper,
};
use crate::store::{CONTRACT as FOLDER, PARAMS, REPORT};

/// Version of the contract.
const VERSION: &str = "1";

/// The files of the contract of one attempt.
pub(super) struct Contract {
    folder: PathBuf,
    /// Reports of earlier attempts.
    earlier: State,
}

impl Contract {
    /// Creates the files of an attempt, and reads the files that the previous attempt has left.
    pub(super) fn open(command: &Command, job: &Job) -> io::Result<Self> {
        let folder = job.scratch.join(FOLDER);
        fs::create_dir_all(&folder)?;
        let (state_file, report) = (folder.join("state.json"), folder.join(REPORT));
        let state = State::load(&state_file, &report);
        state.keep(&state_file)?;
        replace(&report, b"")?;
        replace(&folder.join(PARAMS), json_and_yaml(&command.params)?.as_bytes())?;
        Ok(Self { folder, earlier: state })
    }

    fn report(&self) -> PathBuf {
        self.folder.join(REPORT)
    }

    /// The file with the program's parameters.
    pub(super) fn params(&self) -> PathBuf {
        self.folder.join(PARAMS)
    }

    /// The file in which the reports that were read outlive an attempt.
    pub(super) fn state(&self) -> PathBuf {
        self.folder.join("state.json")
    }

    /// Returns the sources of curves and metrics, the part of them that reads standard output, and the keeper of the
    /// attempt's checkpoints. Paths of files that the program writes start from `written`.
    pub(super) fn sources(&mut self, command: &Command, job: &Job, written: &Path) -> (Vec<Source>, Patterns, Keeper) {
        let mut series = self.earlier.take(report::REPORT);
        let keeper = Keeper::begin(&job.scratch, series.checkpoints());
        if let Some(step) = keeper.began_after() {
            series.return_to(step);
        }
        let follower = Box::new(ReportFile::new(self.report()));
        let (other_sources, patterns) = reads::sources(command, |place| written.join(place), &mut self.earlier);
        let mut sources = vec![Source { name: report::REPORT.to_owned(), follower, series }];
        sources.extend(other_sources);
        let metric_names = command.metrics.as_ref().and_then(MetricsFrom::series).into_iter().flat_map(BTreeMap::keys);
        let needed_names = Arc::new(job.used.iter().chain(metric_names).cloned().collect());
        for source in &mut sources {
            source.series.need(&needed_names);
        }
        (sources, patterns, keeper)
    }

    /// Sets the variables of the contract.
    pub(super) fn describe(&self, command: &Command, program: &mut process::Command) {
        program.env("SWEEP_CONTRACT", VERSION);
        program.env("SWEEP_PARAMS", self.params());
        program.env("SWEEP_REPORT", self.report());
        match command.until {
            Some(step) => program.env("SWEEP_UNTIL", step.to_string()),
            None => program.env_remove("SWEEP_UNTIL"),
        };
    }
}

/// Creates a new file. The file of an earlier attempt may still be open in a process that has outlived the attempt.
fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    fs::OpenOptions::new().write(true).create_new(true).open(path)?.write_all(content)
}

/// Removes the files that an attempt without a result leaves and a later attempt does not need. If the program has left no
/// file to resume from, a later attempt begins anew, so the curves are removed, too. Files that cannot be removed do no
/// harm.
pub(super) fn leave(scratch: &Path) {
    let folder = scratch.join(FOLDER);
    let mut entries = fs::read_dir(scratch).into_iter().flatten().filter_map(Result::ok);
    let has_resume_file = entries.any(|entry| entry.file_name() != FOLDER);
    // The state is the last.
    let files = [REPORT, PARAMS, "state.json"];
    for file in &files[..if has_resume_file { 2 } else { 3 }] {
        let _ = fs::remove_file(folder.join(file));
    }
    let _ = fs::remove_dir(folder);
}
