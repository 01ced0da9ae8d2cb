//! The place in which a program runs: an empty folder with its inputs, or its project.

use std::{
    io,
    os::unix::fs::FileTypeExt as _,
    path::{Path, PathBuf},
    process,
    sync::OnceLock,
};

use fs_err as fs;
use sweep_job::{Failure, FailureKind, Job, Report, Value, tasks::Command};
use sweep_observer::{Layer, Shared, View};

use super::{disk, folder::Folder, kept, settings::SettingsCopy};
use crate::store::{READS, TRACKING, remove_if_there};

/// Name of the folder of a view, in the folder that is removed with the job.
const VIEW: &str = "view";

/// Reason why this machine has no private views; `None` if it has.
static REFUSED: OnceLock<Option<String>> = OnceLock::new();

/// The place in which a program runs.
pub(super) struct Place {
    /// The working folder of the program.
    working: PathBuf,
    /// The folder that contains the files that the program writes to its working folder.
    written: PathBuf,
    /// The private view of the project.
    view: Option<View>,
    /// The files that replace files of the project for the program.
    layer: Layer,
    /// The folder of the view, which is removed with it.
    folder: PathBuf,
    in_project: bool,
    settings: Option<SettingsCopy>,
}

impl Place {
    /// The place of a job's program. Where this machine has no private views, the program runs in the project itself, and a
    /// notice in the report mentions it.
    ///
    /// # Errors
    /// The folder does not exist, or the program's files cannot be distinguished from files of other jobs, because there is no view.
    pub(super) fn open(command: &Command, job: &Job, report: &mut dyn Report) -> Result<Self, Failure> {
        let folder = job.dir.parent().unwrap_or(&job.dir).join(TRACKING).join(VIEW);
        let Some(project) = &command.project else {
            let (working, written) = (job.dir.clone(), job.dir.clone());
            return Ok(Self {
                working,
                written,
                view: None,
                layer: Layer::default(),
                folder,
                in_project: false,
                settings: None,
            });
        };
        let working = fs::canonicalize(&project.0).map_err(|error| Failure {
            kind: FailureKind::Input,
            message: format!(
                "the folder `{}`, in which the program is to run, is not on this machine: {error}; list the files that it \
                 needs in `inputs`, and remove `project`",
                project.0.display()
            ),
        })?;
        let refusal_of = |check: &dyn Fn(&Path) -> io::Result<()>| {
            let place = folder.join("check");
            let refusal = check(&place).err().map(|error| error.to_string());
            // Remains of the check would block the view.
            let _ = remove_if_there(&place);
            refusal
        };
        let root = root(&working, job);
        let refused = REFUSED.get_or_init(|| refusal_of(&View::check)).clone();
        let refused = refused.or_else(|| refusal_of(&|place| View::check_mounts(&root, place)));
        let layer = layer(command, job, &root)?;
        let view = match &refused {
            Some(reason) if layer.folder().is_some() => {
                return Err(Failure {
                    kind: FailureKind::Input,
                    message: format!(
                        "this machine has no private views of folders ({reason}), in which a program finds a variant of its code; run \
                         the job on a machine that allows user namespaces, or remove `code`"
                    ),
                });
            }
            Some(reason) if !command.outputs.is_empty() || !kept::named(command).is_empty() => {
                return Err(Failure {
                    kind: FailureKind::Input,
                    message: format!(
                        "this machine has no private views of folders ({reason}), so that files in `outputs`, `reads` and \
                         `metrics` may be those of other jobs; list the files that the program needs in `inputs`, and remove \
                         `project`"
                    ),
                });
            }
            Some(reason) => {
                report.note(&format!(
                    "the program runs in `{}` itself, and what it writes there stays: this machine has no private views of \
                     folders ({reason})",
                    working.display()
                ));
                None
            }
            None => Some(
                Self::view(&root, &working, job, &folder, &layer)
                    .map_err(disk("the view of the project cannot be made"))?,
            ),
        };
        let written = match (&view, working.strip_prefix(&root)) {
            (Some(view), Ok(inner)) => view.written().join(inner),
            _ => working.clone(),
        };
        Ok(Self { working, written, view, layer, folder, in_project: true, settings: None })
    }

    fn view(root: &Path, working: &Path, job: &Job, folder: &Path, layer: &Layer) -> io::Result<View> {
        // A killed attempt may have left the folder.
        remove_if_there(folder)?;
        let store = store_of(job)?;
        // The view's own folder is not shared, so a program that removes its results removes neither records nor the view.
        let reads = folder.with_file_name(READS);
        fs::create_dir_all(folder)?;
        fs::write(&reads, "")?;
        let existing = |path: &PathBuf| match fs::canonicalize(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            path => Some(path),
        };
        let own: Vec<PathBuf> =
            [&job.dir, &job.scratch, &reads].into_iter().filter_map(existing).collect::<io::Result<_>>()?;
        let own = own.iter().map(|path| Shared { path, is_writable: true });
        let shared = store.iter().map(|path| Shared { path, is_writable: false }).chain(own);
        View::new(root, working, &shared.collect::<Vec<_>>(), folder, layer)
    }

    /// The folder whose changes no other program sees.
    pub(super) fn private(&self) -> Option<&Path> {
        self.view.as_ref().map(View::folder)
    }

    /// The files that replace files of the project for the program.
    pub(super) fn layer(&self) -> &Layer {
        &self.layer
    }

    /// Writes the copy of the program's settings.
    ///
    /// # Errors
    /// The file lacks a key of `set`, or the copy cannot be written.
    pub(super) fn put_settings(&mut self, command: &Command, job: &Job) -> Result<(), Failure> {
        self.settings = SettingsCopy::write(command, job, self)?;
        Ok(())
    }

    /// The copy of the program's settings.
    pub(super) fn settings(&self) -> Option<&SettingsCopy> {
        self.settings.as_ref()
    }

    /// The path of a copy that the program finds in the place of `source`, and the path at which it finds the copy. `None` if the place
    /// is not the program's own.
    pub(super) fn in_place_of(&self, source: &Path, job: &Job) -> Option<(PathBuf, PathBuf)> {
        let name = source.file_name()?;
        if !self.in_project {
            let path = job.dir.join(name);
            return Some((path.clone(), path));
        }
        let view = self.view.as_ref()?;
        // The last part may be a link, which other paths do not share.
        let path = fs::canonicalize(source.parent()?).ok()?.join(name);
        let store = store_of(job).ok()?;
        let inner =
            path.strip_prefix(view.folder()).ok().filter(|_| !store.is_some_and(|store| path.starts_with(store)))?;
        Some((view.written().join(inner), path))
    }

    /// The working folder of the program.
    pub(super) fn working(&self) -> &Path {
        &self.working
    }

    /// Returns the folder with the files that the program writes by relative paths.
    pub(super) fn written(&self) -> &Path {
        &self.written
    }

    /// True if the program sees its project, and its inputs where they are.
    pub(super) fn is_project(&self) -> bool {
        self.in_project
    }

    /// Makes programs start here.
    pub(super) fn apply<'p>(&self, programs: impl Iterator<Item = &'p mut process::Command>) {
        if let Some(view) = &self.view {
            for program in programs {
                view.apply(program);
            }
        }
    }

    /// Returns true if the program writes to its own folder, false if it writes to the project itself.
    pub(super) fn is_private(&self) -> bool {
        !self.in_project || self.view.is_some()
    }

    /// Returns the folder with the files that the program has written, once the program has ended.
    pub(super) fn finish(&self) -> io::Result<Folder> {
        if let Some(view) = &self.view {
            view.take_away(&self.layer)?;
            // Without the files of its layer, the program's folder may be empty, and is removed.
            fs::create_dir_all(&self.written)?;
            unmark(&self.written)?;
        }
        Folder::open(&self.written)
    }

    /// Moves `outputs` of the program to the job's folder.
    pub(super) fn hand_over(&self, outputs: &[&str], folder: &Folder) -> io::Result<()> {
        if self.in_project {
            outputs.iter().try_for_each(|output| take(&self.written.join(output), &folder.path().join(output)))
        } else {
            Ok(())
        }
    }

    /// Removes the files that the program has written and that are not kept.
    pub(super) fn clear(&self) -> io::Result<()> {
        remove_if_there(&self.folder)
    }
}

/// The store of a job, whose folder is `results/store/staging/KEY/files`.
fn store_of(job: &Job) -> io::Result<Option<PathBuf>> {
    job.dir.ancestors().nth(3).map(fs::canonicalize).transpose()
}

/// The folder that a view covers: the project, if the program runs in it.
fn root(working: &Path, job: &Job) -> PathBuf {
    let project = job.project.as_deref().and_then(|project| fs::canonicalize(project).ok());
    project.filter(|project| working.starts_with(project)).unwrap_or_else(|| working.to_owned())
}

/// The files that replace files of its project for a job's program.
fn layer(command: &Command, job: &Job, project: &Path) -> Result<Layer, Failure> {
    let variant = || command.code.as_ref().and_then(Value::as_text).map(Path::new);
    let Some(folder) = job.layer.as_deref().or_else(variant) else { return Ok(Layer::default()) };
    Layer::open(project, folder).map_err(|error| Failure {
        kind: FailureKind::Input,
        message: format!("the files of the code in `{}` cannot be read: {error}; run again", folder.display()),
    })
}

/// Moves an output, unless it is part of an output that was moved before.
fn take(source: &Path, target: &Path) -> io::Result<()> {
    if target.symlink_metadata().is_ok() {
        return Ok(());
    }
    if let Some(folder) = target.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::rename(source, target)
}

/// Removes the marks of an overlay for files that the program has removed.
fn unmark(folder: &Path) -> io::Result<()> {
    // An output that cannot be read is refused with its name.
    let Ok(entries) = fs::read_dir(folder) else { return Ok(()) };
    for entry in entries {
        let entry = entry?;
        let kind = entry.file_type()?;
        if kind.is_char_device() {
            fs::remove_file(entry.path())?;
        } else if kind.is_dir() {
            unmark(&entry.path())?;
        }
    }
    Ok(())
}
