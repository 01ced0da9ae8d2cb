//! The files that a job reads, compared with its key: input files with the digests with which it was planned, artifacts of needed jobs with
//! the digests in their records.

mod artifact;
mod own;

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use fs_err as fs;
use sweep_job::{Failure, FailureKind, FileStamp, Ignore, Observed, ObservedFile, Values};

pub(crate) use self::{artifact::Artifact, own::Check};
use crate::{
    plan::{Code, Digests, JobId, Plan, digest_now, state_now},
    record::{
        ABSENT, ELSEWHERE, Environment, FILE_ELSEWHERE, Interpreter, Own, ReadFile, ReadSet, UNKNOWN, fact, path_text,
        text_path,
    },
    store::Store,
    variant::Moments,
};

/// The files that a job reads.
#[derive(Debug, Default)]
pub(crate) struct Reads {
    /// Input files and folders, with their digests when the job was planned.
    inputs: Vec<(PathBuf, String)>,
    /// Patterns of files in inputs that are not part of the inputs.
    ignored: Vec<String>,
    artifacts: Vec<Artifact>,
    /// Code that earlier runs of the job read, as it was when the job was planned.
    code: Option<Arc<Code>>,
    /// The files of its project when the run began.
    moments: Arc<Moments>,
    /// True if its program sees the project in a view.
    has_view: bool,
}

/// An input that differs from the plan.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Changed {
    /// An input has another content.
    #[error("the input `{}` changed after it was planned{during}; run again", path.display())]
    Input {
        /// The file or folder.
        path: PathBuf,
        /// Time of the change, if it is known.
        during: &'static str,
    },
    /// A file in an input folder has another content, and it is not known that the job wrote it.
    #[error(
        "the input `{}` changed after it was planned{during}: `{file}` {how}; run again, and if the job itself does this, write \
         `ignore: ['{name}']` in the step, or `copy: true`", path.display()
    )]
    Inside {
        /// The input.
        path: PathBuf,
        /// The file's path from the input.
        file: String,
        /// The change.
        how: &'static str,
        /// The file's name.
        name: String,
        /// Time of the change, if it is known.
        during: &'static str,
    },
    /// An input is missing or not readable.
    #[error("the input `{}` cannot be read any more: {reason}", path.display())]
    Unreadable {
        /// The file or folder.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
    /// Code differs, it is not known in which file.
    #[error("the code of the project {} changed after the job was planned; run again", project.display())]
    Code {
        /// The project's folder.
        project: PathBuf,
    },
    /// A file that was not sent to a host with the project.
    #[error(
        "the job read `{}` in the project's folder on this host, but the file was neither sent nor made by a job; run \
         again", path.display()
    )]
    NotSent {
        /// The file.
        path: PathBuf,
    },
    /// A file of the project that the program has written before it read it.
    #[error(
        "the job wrote `{}` in the project's folder on this host and then read it, so its result is not based on the \
         file that was sent; let the program write to its own folder", path.display()
    )]
    Rewritten {
        /// The file.
        path: PathBuf,
    },
    /// An installed package has another version.
    #[error("the package {name} changed from {planned} to {found} after it was planned{during}; run again")]
    Package {
        /// The package.
        name: String,
        /// Version when the job was planned.
        planned: String,
        /// Version now.
        found: String,
        /// Time of the change, if it is known.
        during: &'static str,
    },
    /// The artifact of a needed job is damaged.
    #[error("the artifact `{name}` of {label} has changed since it was written: {reason}; run again")]
    Artifact {
        /// The name of the needed job.
        label: String,
        /// The artifact's name.
        name: String,
        /// The defect.
        reason: String,
    },
}

impl Changed {
    /// The change with a remark that the job had already run.
    #[must_use]
    pub(crate) fn while_it_ran(mut self) -> Self {
        if let Self::Input { during, .. } | Self::Inside { during, .. } | Self::Package { during, .. } = &mut self {
            *during = ", while the job ran";
        }
        self
    }

    /// True if a file of the project has changed.
    pub(crate) fn is_of_code(&self) -> bool {
        matches!(self, Self::Input { .. } | Self::Unreadable { .. })
    }
}

impl From<Changed> for Failure {
    fn from(changed: Changed) -> Self {
        Self { kind: FailureKind::Changed, message: changed.to_string() }
    }
}

impl Reads {
    /// Inputs of a job of a plan, whose needed jobs are done. `code` is the code that its program finds.
    pub(crate) fn of(plan: &Plan, store: &Store, id: JobId, code: Option<Arc<Code>>) -> Self {
        let outputs = plan.taken_by(id).into_iter();
        let artifacts = outputs.filter_map(|(key, name)| Artifact::new(store, key, name)).collect();
        let (inputs, ignored) = (plan.inputs_of(id), plan.ignored_by(id));
        let (moments, has_view) = (Arc::clone(&plan.moments), plan.has_view(id));
        Self { inputs, ignored, artifacts, code, moments, has_view }
    }

    /// The folder of the files that replace files of the project for its program.
    pub(crate) fn layer(&self) -> Option<&Path> {
        self.code.as_ref()?.site.layer.folder()
    }

    /// The code that its program finds.
    pub(crate) fn code(&self) -> Option<&Code> {
        self.code.as_deref()
    }

    /// True if there are no inputs.
    pub(crate) fn is_empty(&self) -> bool {
        let no_code =
            self.code.as_ref().is_none_or(|code| code.files.is_empty() && code.facts.is_empty() && !code.stale);
        self.inputs.is_empty() && self.artifacts.is_empty() && no_code
    }

    /// Returns the folders in which a job could write to the inputs of others.
    pub(crate) fn folders(&self) -> Vec<PathBuf> {
        let inputs = self.inputs.iter().map(|(path, _)| path.clone());
        let folders = inputs.chain(self.artifacts.iter().map(|artifact| artifact.folder.clone()));
        folders.map(|path| fs::canonicalize(&path).unwrap_or(path)).collect()
    }

    /// Checks that the code matches the job's key.
    pub(crate) fn check_code(&self, digests: &mut Digests) -> Result<(), Changed> {
        let Some(code) = &self.code else { return Ok(()) };
        if code.stale {
            return Err(Changed::Code { project: code.project.clone() });
        }
        if code.hosted {
            // On a host, the server has checked the code.
            return Ok(());
        }
        digests.forget();
        for file in &code.files {
            let path = code.path(&file.path);
            let now = digest_now(digests, &code.real_path(&file.path));
            if now != file.digest && !digests.is_rewritten(&file.path) {
                return Err(Changed::Input { path, during: "" });
            }
        }
        Ok(())
    }

    /// The environment that a job with these parameters was observed to use; `None` if it was not observed.
    pub(crate) fn environment(
        &self,
        observed: &Observed,
        values: &Values,
        interpreter: Option<&Interpreter>,
        digests: &mut Digests,
    ) -> Option<Environment> {
        let none = Code::default();
        let code = self.code.as_deref().unwrap_or(&none);
        super::environment::of(observed, values, &code.project, code.hosted, interpreter, digests)
    }

    /// The digests of the files that a job has read, and notes on changed files outside of the project. Fails if a digest differs from the
    /// job's key, or from the content that was read. Changes by the job itself and by other jobs of the store do not count as foreign
    /// changes.
    pub(crate) fn observed(
        &self,
        observed: Observed,
        digests: &mut Digests,
    ) -> Result<(ReadSet, Vec<String>), Changed> {
        let none = Code::default();
        let code = self.code.as_deref().unwrap_or(&none);
        let digests_planned: BTreeMap<&str, &str> =
            code.files.iter().map(|file| (file.path.as_str(), file.digest.as_str())).collect();
        let has_planned = !digests_planned.is_empty();
        digests.forget();
        let place = |text: &String| path_text(text_path(text).strip_prefix(&code.project).unwrap_or(&text_path(text)));
        let written: BTreeSet<String> = observed.written.iter().map(place).collect();
        let ignore = Ignore::only(&code.site.ignore).unwrap_or_default();
        let (mut files, mut notes) = (BTreeMap::new(), Vec::new());
        for (name, file) in observed.files {
            let (path, planned_digest) = (code.path(&name), digests_planned.get(name.as_str()).copied());
            let is_own = written.contains(&name);
            let digest = match self.digest(code, (&name, &file), planned_digest, is_own, digests) {
                // An ignored file does not count; if the recipe stops ignoring it, its content is unknown.
                Err(Changed::Input { .. } | Changed::Unreadable { .. })
                    if fact::is_ignored(&ignore, &code.project, &path) =>
                {
                    UNKNOWN.to_owned()
                }
                // Other programs may write a shared file, such as a list of results. The job's result is kept, but the next run repeats the
                // job.
                Err(Changed::Input { .. }) if Path::new(&name).is_absolute() => {
                    notes.push(format!(
                        "`{0}` changed while the job ran, so the next run repeats the job; write `ignore: [{0}]` in the step if its content does not \
                         matter",
                        path.display()
                    ));
                    UNKNOWN.to_owned()
                }
                digest => digest?,
            };
            let mut is_elsewhere = code.hosted && Path::new(&name).is_absolute();
            if code.hosted && has_planned && !is_elsewhere && planned_digest.is_none() {
                // A file that was not sent must come from an earlier job, such as downloaded data.
                if !digests.made().is_made(&path, &digest) {
                    return Err(Changed::NotSent { path });
                }
                is_elsewhere = true;
            }
            let name = if is_elsewhere { format!("{FILE_ELSEWHERE}{name}") } else { name };
            files.insert(name, ReadFile { digest, by: file.by });
        }
        let mut facts = observed.facts;
        for (folder, names) in &observed.listed {
            let path = code.path(folder);
            let names: Vec<PathBuf> = names.iter().map(|name| path.join(text_path(name))).collect();
            let names = names.iter().filter(|path| !digests.is_made_in(&code.project, path));
            facts.insert(
                folder.clone(),
                fact::of_entries(&path, &code.site.layer, names.filter_map(|path| path.file_name())),
            );
        }
        if code.hosted {
            facts.retain(|path, fact| !fact::is_local(fact) && (path.starts_with("//") || !path.starts_with('/')));
            remember(&observed.written, &code.project, &digests_planned, digests);
        }
        for name in observed.rewritten.iter().filter(|_| code.hosted) {
            let path = code.path(name);
            if digests_planned.get(name.as_str()).is_some_and(|digest| digest_now(digests, &path) != *digest) {
                return Err(Changed::Rewritten { path });
            }
        }
        if !(files.is_empty() && facts.is_empty()) {
            facts.extend(fact::of_place(&code.site.place));
        }
        let made: BTreeSet<String> = observed.made.iter().map(place).collect();
        let own = own(code, &files, &facts, &written, made, digests);
        for (name, folder, version) in &code.packages {
            let package = observed.packages.get(name).filter(|package| package.folder == *folder);
            if let Some(found) = package.filter(|found| found.version != *version) {
                let (name, planned, found) = (name.clone(), version.clone(), found.version.clone());
                return Err(Changed::Package { name, planned, found, during: "" });
            }
        }
        let mut packages = observed.packages;
        if code.hosted {
            for package in packages.values_mut() {
                package.folder.insert_str(0, ELSEWHERE);
            }
        }
        Ok((ReadSet::new(files, packages).with_facts(facts, own), notes))
    }

    /// Returns `set` with files whose content counts as unknown, so that the next run repeats the job.
    pub(crate) fn without_content(&self, mut set: ReadSet, files: &BTreeSet<PathBuf>) -> ReadSet {
        for path in files {
            let project = self.code.as_ref().map(|code| code.project.as_path());
            let name = path_text(project.and_then(|project| path.strip_prefix(project).ok()).unwrap_or(path));
            set.own.left.remove(&name);
            set.own.made.remove(&name);
            set.facts.remove(&name);
            set.files.insert(name, ReadFile { digest: UNKNOWN.to_owned(), by: None });
        }
        set
    }

    /// The digest of a file's content that a job has read, if it is the planned content. Other jobs may have changed the file before,
    /// except on a host, whose records describe the files that were sent.
    fn digest(
        &self,
        code: &Code,
        (name, file): (&str, &ObservedFile),
        planned: Option<&str>,
        is_own: bool,
        digests: &mut Digests,
    ) -> Result<String, Changed> {
        let path = code.path(name);
        // The job creates a file that did not exist then.
        let planned = planned.filter(|planned| *planned != ABSENT);
        if is_own {
            let digest = file.digest.clone().unwrap_or_else(|| UNKNOWN.to_owned());
            return match planned.filter(|planned| code.hosted && *planned != digest) {
                Some(_) => Err(Changed::Input { path, during: "" }),
                None => Ok(digest),
            };
        }
        let unreadable = |error: io::Error| Changed::Unreadable { path: path.clone(), reason: error.to_string() };
        let mut real = code.real_path(name);
        if let Some(planned) = planned.filter(|planned| digests.in_state(&real, file.stamp) == Some(*planned)) {
            return Ok(planned.to_owned());
        }
        let earlier = self.moments.copy(&code.project, &text_path(name));
        let is_there = |real: &Path| fs::metadata(real).is_ok_and(|now| FileStamp::of(&now) == file.stamp);
        let is_earlier = earlier.as_ref().is_some_and(|(_, then)| *then == file.stamp);
        if let Some((copy, _)) = earlier.as_ref().filter(|_| is_earlier && !is_there(&real)) {
            // The file was edited after the program had read it.
            real.clone_from(copy);
        }
        let digest = digests.of_file(&real).map_err(unreadable)?;
        // Checked after the digest was computed, which takes time.
        let is_as_read = is_earlier || is_there(&real);
        if planned.map_or(is_as_read, |planned| planned == digest) {
            let is_other = |copy: &Path, digests: &mut Digests| digests.of_file(copy).is_ok_and(|then| then != digest);
            // The file was edited before the program read it, and the other jobs of the run see its earlier state.
            return match earlier.filter(|_| self.has_view && !is_earlier && real == path) {
                Some((copy, _)) if !digests.is_left(name, &digest) && is_other(&copy, digests) => {
                    Err(Changed::Input { path, during: "" })
                }
                _ => Ok(digest),
            };
        }
        // Another job has changed it, before or after this job read it.
        match !code.hosted && digests.is_left(name, &digest) {
            true if is_as_read => Ok(digest),
            true => Ok(UNKNOWN.to_owned()),
            false => Err(Changed::Input { path, during: "" }),
        }
    }
}

/// The paths that a job looked up, or whose folder it listed, and that it has changed itself, with their present states.
fn own(
    code: &Code,
    files: &BTreeMap<String, ReadFile>,
    facts: &BTreeMap<String, String>,
    written: &BTreeSet<String>,
    made: BTreeSet<String>,
    digests: &mut Digests,
) -> Own {
    let mut own = Own::default();
    let mut names_listed = BTreeSet::new();
    for name in written {
        let folder = text_path(name).parent().map(path_text).unwrap_or_default();
        let is_listed = facts.get(&folder).is_some_and(|fact| fact::is_names(fact));
        if is_listed {
            names_listed.insert(folder);
        }
        if is_listed || files.contains_key(name) || facts.contains_key(name) {
            own.left.insert(name.clone(), state_now(digests, &code.real_path(name)));
        }
    }
    own.made = made.into_iter().filter(|name| own.left.contains_key(name)).collect();
    digests.add_own(&own);
    for folder in names_listed {
        let path = code.path(&folder);
        let now =
            fact::now(&facts[&folder], &path, &code.site.layer, &mut |entry| digests.is_made_in(&code.project, entry));
        own.left.insert(folder, now);
    }
    own
}

/// Stores the files that a job created in the copy of its project on a host.
fn remember(written: &BTreeSet<String>, project: &Path, digests_sent: &BTreeMap<&str, &str>, digests: &mut Digests) {
    let mut entries = Vec::new();
    let project = fs::canonicalize(project).unwrap_or_else(|_| project.to_owned());
    for path in written.iter().map(|path| text_path(path)) {
        let Ok(inner) = path.strip_prefix(&project) else { continue };
        if !digests_sent.contains_key(path_text(inner).as_str()) {
            entries.extend(digests.of_file(&path).ok().map(|digest| (path.clone(), digest)));
        }
    }
    // If the list cannot be written, the next job does not have it.
    let _ = digests.made().remember(entries);
}
