//! The files that a program reads in addition to its declared inputs: reported by the kernel, or, where that is not possible,
//! by Python; or listed by the program itself in a file of dependencies.

mod audit;
mod depfile;
mod kernel;

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    path::{Path, PathBuf},
    process,
    sync::Arc,
    time::SystemTime,
};

use fs_err as fs;
use sweep_job::{
    Failure, FailureKind, FileStamp, Ignore, Job, Observed, ObservedFile, Outside, Report, Tool,
    tasks::{Command, EnvironmentRole, Tracks},
};
use sweep_observer::{Hook, Layer, Options, Seen};

use self::audit::Audit;
pub(super) use self::kernel::Kernel;
use super::{
    fork::{Earlier, Fork},
    launcher::Launcher,
    place::Place,
    results_of,
};
use crate::{
    format::count,
    host::folder,
    plan::content_digest,
    record::{fact, path_text, text_path},
    store::TRACKING,
};

/// Maximum number of files in a manifest; beyond it, only files with code are listed.
const MAX_FILES: usize = 20_000;
/// Maximum number of other paths in a manifest.
const MAX_FACTS: usize = 20_000;
/// Maximum number of files that a message lists.
const LISTED: usize = 10;

/// The observation of a program.
pub(super) struct Tracking<'a> {
    command: &'a Command,
    project: PathBuf,
    /// Files that replace files of the project.
    layer: Layer,
    /// The folder for results: its existence does not count, because every run makes it.
    results: PathBuf,
    /// Folders whose files are not observed: the store and its neighbors, and the job's own.
    skipped: Vec<PathBuf>,
    /// Inputs without links, in which the program's writes are observed.
    inputs: Vec<PathBuf>,
    audit: Audit,
    /// The kernel's observation, or the reason why it is not available.
    kernel: Result<Kernel, String>,
    /// The observation of the interpreter from which the program is forked.
    earlier: Option<Arc<Earlier>>,
    begun: SystemTime,
}

/// The folders of an observation.
pub(super) struct Ground {
    pub(super) project: PathBuf,
    results: PathBuf,
    pub(super) skipped: Vec<PathBuf>,
    inputs: Vec<PathBuf>,
    pub(super) audit: Audit,
    pub(super) options: Options,
}

impl Ground {
    /// The folders of a job's observation; `None` if the job is not observed.
    pub(super) fn of(command: &Command, job: &Job, place: &Place) -> io::Result<Option<Self>> {
        Self::below(command, job, place, None)
    }

    /// The folders like [`of`](Self::of), with Python's reports in the folder `name`.
    pub(super) fn below(command: &Command, job: &Job, place: &Place, name: Option<&str>) -> io::Result<Option<Self>> {
        let project = job.project.as_deref().filter(|_| command.tracks != Some(Tracks::Declared));
        // The project may be missing on another machine.
        let Some(project) = project.and_then(|project| fs::canonicalize(project).ok()) else { return Ok(None) };
        let results = fs::canonicalize(results_of(job))?;
        let staging = fs::canonicalize(job.dir.parent().unwrap_or(&job.dir))?;
        let audit = Audit::begin(&name.map_or_else(|| staging.clone(), |name| staging.join(TRACKING).join(name)))?;
        // A folder that contains the project cannot be distinguished from it.
        let is_apart = |folder: &PathBuf| !project.starts_with(folder);
        let own_folders: Vec<PathBuf> =
            [staging, fs::canonicalize(&job.scratch)?].into_iter().filter(is_apart).collect();
        let store: Vec<PathBuf> = folder::OWN_FOLDERS.iter().map(|name| results.join(name)).filter(is_apart).collect();
        let skipped: Vec<PathBuf> = store.iter().chain(&own_folders).cloned().collect();
        let inputs: Vec<PathBuf> = command.declared().filter_map(|input| fs::canonicalize(&input.0).ok()).collect();
        let options = Options {
            project: project.clone(),
            // The store has artifacts, which a job may change.
            inputs: inputs.iter().cloned().chain(store).collect(),
            skipped: skipped.clone(),
            own: own_folders,
            layer: place.layer().clone(),
            started: Some(audit.started()),
            report: Some(audit.shared()),
            private: place.private().map(Path::to_owned),
            digest: content_digest,
        };
        Ok(Some(Self { project, results, skipped, inputs, audit, options }))
    }
}

/// A file that was read, by its absolute path.
struct Read {
    stamp: FileStamp,
    by: Option<PathBuf>,
    /// Digest of the content that was read, if the program has changed it since.
    digest: Option<String>,
}

/// A file that was read.
struct Noted {
    read: Read,
    /// True if the program had written it by then.
    was_written_first: bool,
}

/// All observed file accesses of a program.
struct Found {
    tool: Tool,
    files: BTreeMap<PathBuf, Noted>,
    facts: BTreeMap<PathBuf, String>,
    listed: BTreeMap<PathBuf, BTreeSet<PathBuf>>,
    modules: BTreeSet<(PathBuf, String)>,
    written: BTreeSet<PathBuf>,
    made: BTreeSet<PathBuf>,
    /// Files that the program read after it had written them.
    rewritten: BTreeSet<PathBuf>,
    /// Programs and libraries outside of the project; `None` if they are not known.
    outside: Option<BTreeMap<String, Outside>>,
}

impl<'a> Tracking<'a> {
    /// Prepares the observation of a job's processes. `None` if the job is not observed.
    pub(super) fn of(
        command: &'a Command,
        job: &Job,
        launcher: Option<&Launcher>,
        place: &Place,
        (programs, fork): (&mut [process::Command], Option<&Fork>),
    ) -> Result<Option<Self>, Failure> {
        let tracking = Self::begin(command, job, launcher, place, fork).map_err(|error| Failure {
            kind: FailureKind::Io,
            message: format!("the files that the program reads cannot be observed: {error}"),
        })?;
        let Some(tracking) = tracking else { return Ok(None) };
        if let Err(reason) = &tracking.kernel {
            if tracking.is_strict() {
                return Err(unknown(reason, "run the job where the kernel reports them, or use"));
            }
            if command.environment == Some(EnvironmentRole::Strict) {
                return Err(unknown_environment(reason));
            }
        }
        for program in programs {
            let is_aid = tracking.kernel.is_ok();
            tracking.audit.prepare(program, &tracking.project, &tracking.skipped, &tracking.inputs, is_aid);
        }
        Ok(Some(tracking))
    }

    fn begin(
        command: &'a Command,
        job: &Job,
        launcher: Option<&Launcher>,
        place: &Place,
        fork: Option<&Fork>,
    ) -> io::Result<Option<Self>> {
        let Some(ground) = Ground::of(command, job, place)? else { return Ok(None) };
        let Ground { project, results, skipped, inputs, audit, options } = ground;
        let kernel = match fork {
            _ if launcher.is_some_and(|launcher| !launcher.is_local()) => {
                Err("a launcher starts its processes on other machines".to_owned())
            }
            Some(fork) => Kernel::begin_fork(&fork.listener, options),
            None => Kernel::begin(options),
        };
        let kernel = kernel.map(|kernel| if command.needs_observation() { kernel.required() } else { kernel });
        Ok(Some(Self {
            command,
            project,
            layer: place.layer().clone(),
            results,
            skipped,
            inputs,
            audit,
            kernel,
            earlier: fork.map(|fork| Arc::clone(&fork.earlier)),
            begun: SystemTime::now(),
        }))
    }

    /// The hook that puts a program under the kernel's observation.
    pub(super) fn hook(&self) -> Option<&Hook> {
        self.kernel.as_ref().ok().map(Kernel::hook)
    }

    /// Returns a reason why the program may have failed under observation.
    pub(super) fn hint(self) -> Option<String> {
        unprivileged(&self.kernel.ok()?.end().ok()?)
    }

    /// Reports the files that the program has read. Must be called before the job's folder is cleared.
    pub(super) fn end(mut self, folder: &Path, report: &mut dyn Report) -> Result<(), Failure> {
        let kernel = std::mem::replace(&mut self.kernel, Err(String::new()));
        let mut reads = match kernel {
            Ok(kernel) => {
                let mut kernel_report = kernel.end()?;
                if let Some(earlier) = &self.earlier {
                    kernel_report.add(&earlier.seen);
                }
                self.of_kernel(kernel_report, report)?
            }
            Err(reason) => match self.of_python(&reason, report)? {
                Some(reads) => reads,
                None => return Ok(()),
            },
        };
        if let Some(depfile) = &self.command.depfile {
            reads.tool = Tool::Depfile;
            let dependencies = depfile::read(&folder.join(&depfile.0)).map_err(|reason| Failure {
                kind: FailureKind::Experiment,
                message: format!("the file of dependencies `{}` {reason}", depfile.0),
            })?;
            self.add_listed(&dependencies, folder, &mut reads.files)?;
        }
        let observation = self.observed(reads, report)?;
        report.observed(observation);
        Ok(())
    }

    /// Reports of the kernel, with additions from Python.
    fn of_kernel(&self, observation: Seen, report: &mut dyn Report) -> Result<Found, Failure> {
        if let Some(hint) = unprivileged(&observation) {
            report.note(&hint);
        }
        let reasons: Vec<&str> = observation.blind.iter().map(|gap| gap.reason()).collect();
        if !reasons.is_empty() {
            let reasons = reasons.join(", and ");
            if self.is_strict() {
                return Err(unknown(&reasons, "use"));
            }
            report.note(&format!("not observed: some files that the program reads, because {reasons}"));
        }
        if observation.is_cut {
            report.note("not observed: the program looks at more than 200,000 paths");
        }
        if observation.lacks_shared {
            report.note("not observed: whether other jobs change some of the files that the program writes outside of its project");
        }
        if let Some(lost_path) = observation.lost.first() {
            let place = path_text(self.place(lost_path));
            report.note(&format!(
                "not observed: the content of `{place}` before the program changed it; it is too large"
            ));
        }
        let earlier = self.earlier.as_ref().map_or(&[][..], |earlier| &earlier.reads);
        let python = self.audit.read(earlier).map_err(|error| unusable(&error))?;
        let (facts, listed) = kernel::facts(&observation, &python, &self.layer);
        let text = |module: &std::ffi::OsString| module.to_str().map(str::to_owned);
        let modules = observation.modules.iter().filter_map(|(folder, module)| Some((folder.clone(), text(module)?)));
        Ok(Found {
            tool: Tool::Kernel,
            files: kernel::files(&observation.files, &python),
            facts,
            listed,
            modules: modules.collect(),
            written: observation.written,
            made: observation.made,
            rewritten: observation.rewritten,
            outside: Some(kernel::outside(&observation.outside)),
        })
    }

    /// Reports of Python alone.
    fn of_python(&self, reason: &str, report: &mut dyn Report) -> Result<Option<Found>, Failure> {
        let mut observation = self.audit.read(&[]).map_err(|error| unusable(&error))?;
        let is_alone = self.command.depfile.is_none();
        if is_alone {
            let phrase = if observation.begun > 0 {
                "the files outside of the project and those that other programs than Python read"
            } else {
                "the files that the program reads"
            };
            report.note(&format!("not observed: {phrase}, because {reason}; add them to `inputs`"));
        }
        // Python cannot distinguish files of a layer from files of the project.
        if is_alone && (observation.begun == 0 || self.layer.folder().is_some()) {
            return Ok(None);
        }
        // Ignores files that were opened for writing, too, but have not changed, as `np.memmap` does by default.
        observation.written.retain(|path| !observation.read.get(path).is_some_and(|file| file.is_unchanged(path)));
        let mut rewritten = BTreeSet::new();
        for path in &observation.written {
            let Some(entry) = observation.read.remove(path) else { continue };
            if entry.was_written_first {
                rewritten.insert(path.clone());
            } else {
                let place = path_text(self.place(path));
                report.note(&format!("`{place}` is not tracked: the program reads it and writes it"));
            }
        }
        let (facts, listed, made) = (BTreeMap::new(), BTreeMap::new(), BTreeSet::new());
        let audit::Seen { read: files, packages: modules, written, .. } = observation;
        Ok(Some(Found { tool: Tool::Audit, files, facts, listed, modules, written, made, rewritten, outside: None }))
    }

    /// The report on the files that the program used.
    fn observed(&self, reads: Found, report: &mut dyn Report) -> Result<Observed, Failure> {
        let texts = |paths: BTreeSet<PathBuf>| paths.iter().map(|path| path_text(path)).collect();
        let Found { tool, files, facts, listed, modules, written, made, rewritten, outside } = reads;
        // Invalid patterns are mistakes of the recipe, and have been reported.
        let ignore = Ignore::only(&self.command.ignore).unwrap_or_default();
        let counts = |path: &Path| !fact::is_ignored(&ignore, &self.project, path);
        let mut is_cut = false;
        let files = self.files(files, &written, report);
        let place = |path: &Path| path_text(self.place(path));
        let mut facts: BTreeMap<String, String> = facts
            .into_iter()
            .filter(|(path, _)| !self.is_input(path) && *path != self.results)
            .map(|(path, fact)| (place(&path), fact))
            .collect();
        let listed: BTreeMap<String, BTreeSet<String>> = listed
            .into_iter()
            .filter(|(path, _)| !self.is_input(path))
            .map(|(path, names)| {
                let counted_names = names.iter().filter(|name| counts(&path.join(name)));
                let counted_names: BTreeSet<String> = counted_names.map(|name| path_text(name)).collect();
                is_cut |= counted_names.len() < names.len();
                (place(&path), counted_names)
            })
            .collect();
        if is_cut {
            facts.insert(fact::IGNORE.to_owned(), fact::of_patterns(&self.command.ignore));
        }
        if self.is_strict() {
            let is_other = |path: &&String| counts(&self.project.join(text_path(path)));
            let files: Vec<&String> = files.keys().filter(is_other).collect();
            let listed: Vec<&String> = listed.keys().filter(is_other).collect();
            if !(files.is_empty() && listed.is_empty()) {
                return Err(undeclared(&files, &listed));
            }
        }
        for is_limited in [|path: &str| path.starts_with('/') && !path.starts_with("//"), |_: &str| true] {
            if facts.keys().filter(|path| is_limited(path)).count() > MAX_FACTS {
                report.note(&format!(
                    "not observed: names that the program looks for, of which there are more than {MAX_FACTS}; add their folder to \
                     `inputs`"
                ));
                facts.retain(|path, _| !is_limited(path));
            }
        }
        let packages = audit::packages(&modules);
        let rewritten = rewritten.iter().map(|path| place(path)).collect();
        let (written, made) = (texts(written), texts(made));
        Ok(Observed { tool, files, facts, listed, packages, written, made, rewritten, outside })
    }

    /// Adds the files of a list of dependencies.
    fn add_listed(
        &self,
        dependencies: &[PathBuf],
        folder: &Path,
        files: &mut BTreeMap<PathBuf, Noted>,
    ) -> Result<(), Failure> {
        for path in dependencies {
            let Ok(real_path) = fs::canonicalize(folder.join(path)) else { continue };
            let Ok(metadata) = fs::metadata(&real_path) else { continue };
            if !metadata.is_file() || self.skipped.iter().any(|skipped_folder| real_path.starts_with(skipped_folder)) {
                continue;
            }
            if metadata.modified().is_ok_and(|time| time > self.begun) {
                let display = real_path.display();
                return Err(Failure {
                    kind: FailureKind::Changed,
                    message: format!(
                        "the input `{display}` changed after it was planned, while the job ran; run again"
                    ),
                });
            }
            let read = Read { stamp: FileStamp::of(&metadata), by: None, digest: None };
            files.entry(real_path).or_insert(Noted { read, was_written_first: false });
        }
        Ok(())
    }

    /// The files that are not declared inputs, by their paths from the project's folder.
    fn files(
        &self,
        noted_files: BTreeMap<PathBuf, Noted>,
        written: &BTreeSet<PathBuf>,
        report: &mut dyn Report,
    ) -> BTreeMap<String, ObservedFile> {
        // Both have separate limits, so that many files elsewhere do not hide a change in the project.
        let is_inside = |path: &Path| path.starts_with(&self.project);
        let inside = noted_files.keys().filter(|path| is_inside(path)).count();
        let (has_too_many, has_too_much_data) = (inside > MAX_FILES, noted_files.len() - inside > MAX_FILES);
        let is_code = |path: &Path| path.extension().is_some_and(|extension| extension == "py" || extension == "so");
        let mut missing_paths = Vec::new();
        let mut files = BTreeMap::new();
        for (path, Noted { read, .. }) in noted_files {
            if self.is_input(&path) {
                continue;
            }
            if (if is_inside(&path) { has_too_many } else { has_too_much_data }) && !is_code(&path) {
                continue;
            }
            let text = path_text(self.place(&path));
            if !self.layer.at(&path).is_file() && !written.contains(&path) {
                missing_paths.push(text);
                continue;
            }
            let by = read.by.as_deref().and_then(|by| by.strip_prefix(&self.project).ok()).map(path_text);
            files.insert(text, ObservedFile { stamp: read.stamp, digest: read.digest, by });
        }
        if has_too_many {
            report.note(&format!(
                "the program reads more than {MAX_FILES} files of the project, of which only code is tracked: add their folder to `inputs`"
            ));
        }
        if has_too_much_data {
            report.note(&format!(
                "not observed: the program reads more than {MAX_FILES} files outside of the project, of which only code is tracked: \
                 add their folder to `inputs`"
            ));
        }
        if let Some(first_path) = missing_paths.first() {
            let number = count(missing_paths.len(), "file");
            report.note(&format!(
                "{number} that the program read do not exist any more and are not tracked: `{first_path}`"
            ));
        }
        files
    }

    /// Returns `path` relative to the project's folder, or unchanged if it is outside.
    fn place<'p>(&self, path: &'p Path) -> &'p Path {
        path.strip_prefix(&self.project).unwrap_or(path)
    }

    fn is_input(&self, path: &Path) -> bool {
        self.inputs.iter().any(|input| path.starts_with(input))
    }

    fn is_strict(&self) -> bool {
        self.command.tracks == Some(Tracks::Strict)
    }
}

/// A sentence on programs that ran without their privileges under observation.
fn unprivileged(observation: &Seen) -> Option<String> {
    let first_program = observation.privileged.first().filter(|_| !rustix::process::geteuid().is_root())?.display();
    Some(format!(
        "`{first_program}` runs without the rights of its owner, because it is observed; with `tracks: declared` it has them"
    ))
}

/// The failure of a job that must know all files that it reads, if some are unknown.
fn unknown(reason: &str, remedy: &str) -> Failure {
    let message = format!(
        "`tracks: strict` needs to know all files that the program reads, and they are not observed: {reason}; {remedy} `tracks: \
         code` or `tracks: declared`"
    );
    Failure { kind: FailureKind::Input, message }
}

/// The failure of a job whose environment is part of its record's validity, and is unknown.
fn unknown_environment(reason: &str) -> Failure {
    let message = format!(
        "`environment: strict` needs to know the programs and libraries that the program uses, and they are not observed: {reason}; \
         run the job where the kernel reports them, or use `environment: recorded`"
    );
    Failure { kind: FailureKind::Input, message }
}

fn unusable(error: &io::Error) -> Failure {
    let message = format!("the list of the files that the program read cannot be used: {error}");
    Failure { kind: FailureKind::Io, message }
}

fn undeclared(files: &[&String], folders: &[&String]) -> Failure {
    let enumeration = |paths: &[&String]| {
        let names: Vec<String> = paths.iter().take(LISTED).map(|path| shown(path)).collect();
        let remainder =
            if paths.len() > LISTED { format!(" and {} more", paths.len() - LISTED) } else { String::new() };
        names.join(", ") + &remainder
    };
    let read_phrase = format!("read files that are not declared: {}", enumeration(files));
    let listing_phrase = format!("listed folders that are not declared: {}", enumeration(folders));
    let action = match (files.is_empty(), folders.is_empty()) {
        (false, true) => read_phrase,
        (true, _) => listing_phrase,
        (false, false) => format!("{read_phrase}; it {listing_phrase}"),
    };
    let pronoun = if files.len() + folders.len() == 1 { "it" } else { "them" };
    Failure { kind: FailureKind::Input, message: format!("the program {action}; add {pronoun} to `inputs`") }
}

/// A path of the project for people.
fn shown(path: &str) -> String {
    if path.is_empty() { "the project's folder".to_owned() } else { format!("`{}`", text_path(path).display()) }
}
