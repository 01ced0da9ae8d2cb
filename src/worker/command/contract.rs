//! The files of the contract with a program, in the folder `.sweep` of the job's scratch folder, and their variables.

use std::{
    io,
    path::{Path, PathBuf},
    process,
};

use fs_err as fs;
use sweep_job::{Job, tasks::Command};

use super::report::{REPORT, ReportFile, Series, Source, State};

/// Version of the contract.
const VERSION: &str = "1";

/// Folder of the files, in the scratch folder.
const FOLDER: &str = ".sweep";

/// The files of the contract of one attempt.
pub(super) struct Contract {
    folder: PathBuf,
    /// What the report of earlier attempts has said.
    earlier: Series,
}

impl Contract {
    /// Makes the files of an attempt, and reads what the one before has left.
    pub(super) fn open(command: &Command, job: &Job) -> io::Result<Self> {
        let folder = job.scratch.join(FOLDER);
        fs::create_dir_all(&folder)?;
        let (state_file, report) = (folder.join("state.json"), folder.join("report.jsonl"));
        let mut state = State::load(&state_file, &report);
        state.keep(&state_file)?;
        fs::write(&report, "")?;
        fs::write(folder.join("params.json"), serde_json::to_vec(&command.params)?)?;
        Ok(Self { folder, earlier: state.take(REPORT) })
    }

    /// The report file.
    fn report(&self) -> PathBuf {
        self.folder.join("report.jsonl")
    }

    /// The file in which what was read outlives an attempt.
    pub(super) fn state(&self) -> PathBuf {
        self.folder.join("state.json")
    }

    /// The sources of curves and metrics.
    pub(super) fn sources(&self) -> Vec<Source> {
        let report = ReportFile::new(self.report());
        vec![Source { name: REPORT.to_owned(), follower: Box::new(report), series: self.earlier.clone() }]
    }

    /// Sets the variables of the contract.
    pub(super) fn describe(&self, command: &Command, program: &mut process::Command) {
        let path = |name: &str| -> PathBuf { Path::new(&self.folder).join(name) };
        program.env("SWEEP_CONTRACT", VERSION);
        program.env("SWEEP_PARAMS", path("params.json"));
        program.env("SWEEP_REPORT", self.report());
        match command.until {
            Some(step) => program.env("SWEEP_UNTIL", step.to_string()),
            None => program.env_remove("SWEEP_UNTIL"),
        };
    }
}
