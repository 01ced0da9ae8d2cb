//! The code of a job and its place: the project, the folder or scripts of the program in it, and the variant of its files.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use sweep_job::{Value, Values, tasks::ignored};
use sweep_observer::Layer;

use super::{environment::Present, values::CODE};
use crate::record::{Key, code_digest, fact, path_text, text_path};

/// The code of a job, as it was when the job was planned.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Code {
    /// Folder of the project.
    pub project: PathBuf,
    /// The place of the program in it, and the files that do not count there.
    pub site: Site,
    /// Files that earlier runs read.
    pub files: Vec<CodeFile>,
    /// Packages that earlier runs imported: name, folder and version.
    pub packages: Vec<(String, String, String)>,
    /// Present properties of other paths that earlier runs looked up.
    pub facts: Vec<CodeFile>,
    /// Parts of the environments of earlier runs, as they are now; none unless records depend on them.
    pub environment: BTreeMap<String, String>,
    /// True if the files are as the sets have them.
    pub(super) unchanged: bool,
    /// Digest of all of it.
    pub(super) digest: String,
    /// True if the code differs from the job's key.
    pub stale: bool,
    /// True if it was sent to this machine with the job.
    pub hosted: bool,
}

/// The place of a program in its project.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Site {
    /// The folder that it runs in, or its scripts. Relative paths lead from there.
    pub place: String,
    /// Patterns of files that it may read without being out of date when they change.
    pub ignore: Vec<String>,
    /// The environment, if records of another one are out of date.
    pub environment: Option<Present>,
    /// The files that replace the project's files for the job.
    pub layer: Layer,
    /// The name of the layer of the variant with which it was planned.
    variant: Option<String>,
}

/// The files that replace the project's files for a job with these values. If they cannot be read, its worker reports it.
pub(super) fn layer_of(values: &Values, project: &Path) -> Layer {
    let folder = values.get(CODE).and_then(Value::as_text);
    let layer = |folder| Layer::open(project, folder).unwrap_or_else(|_| Layer::elsewhere(project, folder));
    folder.map(Path::new).map(layer).unwrap_or_default()
}

impl Site {
    /// The site of a job with these parameters, whose program is at this place in the project.
    pub fn of(place: String, values: &Values, project: &Path) -> Self {
        Self::under(layer_of(values, project), place, values, project)
    }

    /// The site of a job like [`Site::of`], with the files of an open layer.
    pub(super) fn under(layer: Layer, place: String, values: &Values, project: &Path) -> Self {
        let variant = layer.name().map(|name| path_text(Path::new(name)));
        Self { place, ignore: ignored(values), environment: Present::of(values, project), layer, variant }
    }

    /// True if the code is a variant of the project's.
    pub(super) fn is_variant(&self) -> bool {
        self.variant.is_some()
    }

    /// The path of a file of the project, under the layer.
    pub(super) fn real(&self, project: &Path, text: &str) -> PathBuf {
        self.layer.at(&project.join(text_path(text))).into_owned()
    }

    /// Returns the key of the code of a job with the base key `base` on machines without the job's files.
    pub fn key(&self, base: Key) -> Key {
        let Some(name) = &self.variant else { return base };
        Key::of_json(&(base, name)).unwrap_or(base)
    }
}

/// A file of a job's code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CodeFile {
    /// Path from the project's folder, as text.
    pub path: String,
    /// Digest, or property, when the job was planned.
    pub digest: String,
    /// File that imported it in the latest run.
    pub by: Option<String>,
}

impl Code {
    /// Creates code of which only the project is known.
    pub fn of_project(project: PathBuf, site: Site) -> Self {
        Self { project, site, ..Self::default() }
    }

    /// True if a job whose key has the code `planned_state` has this code, whose digest is `state`. The key of a program that
    /// has not run at its place may have the place as its code.
    pub(super) fn is_planned(&self, state: Option<&String>, planned_state: Option<&String>) -> bool {
        state == planned_state || (state.is_none() && planned_state == Some(&of_site(&self.project, &self.site)))
    }

    /// Returns the code with the files of another layer over the project's files.
    pub fn under(&self, layer: Layer) -> Self {
        Self { site: Site { layer, ..self.site.clone() }, ..self.clone() }
    }

    /// Returns the code, marked as different from the code of the job's key.
    pub(super) fn as_stale(&self) -> Self {
        Self { stale: true, ..self.clone() }
    }

    /// Path at which the program finds a file.
    pub fn path(&self, text: &str) -> PathBuf {
        self.project.join(text_path(text))
    }

    /// Path at which that file is.
    pub fn real_path(&self, text: &str) -> PathBuf {
        self.site.real(&self.project, text)
    }
}

/// The code of a program that has not run at its place, if the same program has run or will run at another place or with
/// other files in place of the project's files.
pub(super) fn of_site(project: &Path, site: &Site) -> String {
    let name = project.file_name().map(|name| path_text(Path::new(name))).unwrap_or_default();
    let place = if site.place.is_empty() { &name } else { &site.place };
    let fact = match &site.variant {
        Some(variant) => fact::of_place(&format!("{place} {variant}")),
        None => fact::of_place(place),
    };
    code_digest(std::iter::empty(), std::iter::empty(), fact.iter().map(|(path, fact)| (path.as_str(), fact.as_str())))
}
