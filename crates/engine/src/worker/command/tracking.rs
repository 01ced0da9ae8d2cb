//! The files that a program reads in addition to its declared inputs: observed through Python's audit events, or listed
//! by the program itself in a file of dependencies.

mod audit;
mod depfile;

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    path::{Path, PathBuf},
    process,
    time::SystemTime,
};

use fs_err as fs;
use sweep_job::{
    Failure, FailureKind, FileStamp, Job, Observed, ObservedFile, Report, Tool,
    tasks::{Command, Tracks},
};

use self::audit::Audit;
use super::results_of;
use crate::{
    format::count,
    record::{path_text, text_path},
};

/// Most files that a manifest has; of more, only those with code.
const MOST_FILES: usize = 20_000;
/// Maximum number of files that a message lists.
const LISTED: usize = 10;

/// The observation of a program.
pub(super) struct Tracking<'a> {
    command: &'a Command,
    /// The project's folder.
    project: PathBuf,
    /// Folders whose files are not observed: results, and the job's own.
    skipped: Vec<PathBuf>,
    /// Inputs without links, in which the program's writes are observed.
    inputs: Vec<PathBuf>,
    audit: Audit,
    begun: SystemTime,
}

/// A file that was read, by its absolute path.
struct Read {
    stamp: FileStamp,
    by: Option<PathBuf>,
}

impl<'a> Tracking<'a> {
    /// Prepares the observation of a job's processes, which get the variables that make Python report what it reads.
    /// `None` if nothing is to be observed.
    pub(super) fn of(
        command: &'a Command,
        job: &Job,
        programs: &mut [process::Command],
    ) -> Result<Option<Self>, Failure> {
        let tracking = Self::begin(command, job).map_err(|error| Failure {
            kind: FailureKind::Io,
            message: format!("the files that the program reads cannot be observed: {error}"),
        })?;
        if let Some(tracking) = &tracking {
            for program in programs {
                tracking.audit.prepare(program, &tracking.project, &tracking.skipped, &tracking.inputs);
            }
        }
        Ok(tracking)
    }

    fn begin(command: &'a Command, job: &Job) -> io::Result<Option<Self>> {
        let Some(project) = job.project.as_deref().filter(|_| command.tracks != Some(Tracks::Declared)) else {
            return Ok(None);
        };
        // Another machine need not have it.
        let Ok(project) = fs::canonicalize(project) else { return Ok(None) };
        let results = results_of(job);
        let mut skipped = Vec::new();
        for folder in [results, job.dir.as_path(), job.scratch.as_path()] {
            let real = fs::canonicalize(folder)?;
            // Results in the project's folder itself are not told from the project.
            skipped.extend((!project.starts_with(&real)).then_some(real));
        }
        let audit = Audit::begin(job.dir.parent().unwrap_or(&job.dir))?;
        let inputs = command.inputs.iter().filter_map(|input| fs::canonicalize(&input.0).ok()).collect();
        Ok(Some(Self { command, project, skipped, inputs, audit, begun: SystemTime::now() }))
    }

    /// Reports what the program has read. Must be called before the job's folder is cleared.
    pub(super) fn end(self, folder: &Path, report: &mut dyn Report) -> Result<(), Failure> {
        if let Some(observed) = self.observed(folder, report)? {
            report.observed(observed);
        }
        Ok(())
    }

    fn observed(&self, folder: &Path, report: &mut dyn Report) -> Result<Option<Observed>, Failure> {
        let disk = |error: io::Error| Failure {
            kind: FailureKind::Io,
            message: format!("the list of the files that the program read cannot be used: {error}"),
        };
        let mut seen = self.audit.read().map_err(disk)?;
        let mut tool = Tool::Audit;
        if let Some(depfile) = &self.command.depfile {
            tool = Tool::Depfile;
            let listed = depfile::read(&folder.join(&depfile.0)).map_err(|reason| Failure {
                kind: FailureKind::Experiment,
                message: format!("the file of dependencies `{}` {reason}", depfile.0),
            })?;
            self.add_listed(&listed, folder, &mut seen)?;
        } else if seen.begun == 0 {
            let reason = if self.is_python() {
                "Python was started with -S, -I or -E, or without the environment of the job"
            } else {
                "only those that Python reads are observed"
            };
            if self.is_strict() {
                return Err(unknown(reason));
            }
            if self.command.tracks.is_some() || self.is_python() {
                report.note(&format!("the files that the program read are not tracked: {reason}"));
            }
            return Ok(None);
        }
        let unobserved: Vec<String> = seen.unobserved().into_iter().map(|name| format!("`{name}`")).collect();
        if tool == Tool::Audit && !unobserved.is_empty() {
            let reason = format!("those that {} reads are not observed", unobserved.join(", "));
            if self.is_strict() {
                return Err(unknown(&reason));
            }
            report.note(&format!("some files that the program read are not tracked: {reason}; list them in `inputs`"));
        }
        // Files that were opened for writing, too, and have their content still, as `np.memmap` does by default.
        seen.written.retain(|path| !seen.read.get(path).is_some_and(|noted| noted.is_unchanged(path)));
        let mut rewritten = BTreeSet::new();
        for path in &seen.written {
            let Some(read) = seen.read.remove(path) else { continue };
            let place = path_text(self.place(path));
            if read.was_written_first {
                rewritten.insert(place);
            } else if self.is_strict() {
                seen.read.insert(path.clone(), read);
            } else {
                report.note(&format!("`{place}` is not tracked: the program reads it and writes it"));
            }
        }
        let written = seen.written.iter().map(|path| path_text(path)).collect();
        let files = self.files(seen.read, report);
        if self.is_strict() {
            return if files.is_empty() { Ok(None) } else { Err(undeclared(&files)) };
        }
        Ok(Some(Observed { tool, files, packages: audit::packages(&seen.packages), written, rewritten }))
    }

    /// Adds the files of a list of dependencies.
    fn add_listed(&self, listed: &[PathBuf], folder: &Path, seen: &mut audit::Seen) -> Result<(), Failure> {
        for path in listed {
            let Ok(real) = fs::canonicalize(folder.join(path)) else { continue };
            let Ok(metadata) = fs::metadata(&real) else { continue };
            if !metadata.is_file() || self.skipped.iter().any(|skipped| real.starts_with(skipped)) {
                continue;
            }
            if metadata.modified().is_ok_and(|modified| modified > self.begun) {
                let shown = real.display();
                return Err(Failure {
                    kind: FailureKind::Changed,
                    message: format!("the input `{shown}` changed after it was planned, while the job ran; run again"),
                });
            }
            let read = Read { stamp: FileStamp::of(&metadata), by: None };
            seen.read.insert(real, audit::Noted { read, was_written_first: false });
        }
        Ok(())
    }

    /// The files that are not declared inputs, by their paths from the project's folder.
    fn files(&self, read: BTreeMap<PathBuf, audit::Noted>, report: &mut dyn Report) -> BTreeMap<String, ObservedFile> {
        let too_many = read.len() > MOST_FILES;
        let mut gone = Vec::new();
        let mut files = BTreeMap::new();
        for (path, audit::Noted { read, .. }) in read {
            if self.inputs.iter().any(|input| path.starts_with(input)) {
                continue;
            }
            if too_many && path.extension().is_none_or(|end| end != "py" && end != "so") {
                continue;
            }
            let text = path_text(self.place(&path));
            if !path.is_file() {
                gone.push(text);
                continue;
            }
            let by = read.by.as_deref().and_then(|by| by.strip_prefix(&self.project).ok()).map(path_text);
            files.insert(text, ObservedFile { stamp: read.stamp, by });
        }
        if too_many {
            report.note(&format!(
                "the program reads more than {MOST_FILES} files of the project, of which only code is tracked: add their \
                 folder to `inputs`"
            ));
        }
        if let Some(first) = gone.first() {
            let number = count(gone.len(), "file");
            report
                .note(&format!("{number} that the program read do not exist any more and are not tracked: `{first}`"));
        }
        files
    }

    /// A path from the project's folder, or as it is.
    fn place<'p>(&self, path: &'p Path) -> &'p Path {
        path.strip_prefix(&self.project).unwrap_or(path)
    }

    /// True if the program is Python by its name.
    fn is_python(&self) -> bool {
        let name = self.command.argv.first().and_then(|name| Path::new(&name.0).file_name()?.to_str());
        name.is_some_and(audit::is_python)
    }

    fn is_strict(&self) -> bool {
        self.command.tracks == Some(Tracks::Strict)
    }
}

/// The failure of a job that declares all files that it reads, of which some are not known.
fn unknown(reason: &str) -> Failure {
    let message = format!(
        "`tracks: strict` needs to know the files that the program reads: {reason}; use `tracks: code` or `tracks: declared`"
    );
    Failure { kind: FailureKind::Input, message }
}

fn undeclared(files: &BTreeMap<String, ObservedFile>) -> Failure {
    let shown: Vec<String> = files.keys().take(LISTED).map(|path| format!("`{}`", text_path(path).display())).collect();
    let more = if files.len() > LISTED { format!(" and {} more", files.len() - LISTED) } else { String::new() };
    let (shown, them) = (shown.join(", "), if files.len() == 1 { "it" } else { "them" });
    let message = format!("the program read files that are not declared: {shown}{more}; add {them} to `inputs`");
    Failure { kind: FailureKind::Input, message }
}
