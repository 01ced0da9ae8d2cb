//! Variants of a project's code: the values of `code`, as the files that replace files of the project for a job. The project itself is
//! never changed.

mod draft;
mod folder;
mod moment;
mod patch;
mod regions;
mod revision;

use std::{
    collections::{BTreeMap, HashMap},
    io,
    path::{Component, Path, PathBuf},
};

use fs_err as fs;
use sweep_job::{Value, Values};
use sweep_observer::Layer;

use self::draft::Draft;
pub use self::moment::Moments;
pub use self::regions::{RegionError, of_commits, of_regions};

/// Longest text of changes that is shown, in bytes.
const MAX_CHANGES: usize = 16 << 10;
/// The folder of layers in the results folder.
const LAYERS: &str = "code";
/// Extensions of patches.
const PATCHES: [&str; 2] = ["patch", "diff"];
/// The keys of a map.
const KEYS: [&str; 4] = ["rev", "folder", "files", "patches"];
/// The working tree as it is.
const AS_IS: &str = ".";

/// A value of `code` that is not a variant of a project's code.
#[derive(Debug, thiserror::Error)]
pub(crate) enum VariantError {
    /// The value has another form.
    #[error("{0}")]
    Form(String),
    /// A file cannot be read or written.
    #[error("`{path}` cannot be used: {error}")]
    File {
        /// The file's path.
        path: String,
        /// The reason.
        error: io::Error,
    },
    /// A path is outside of the project.
    #[error("{what} names `{path}`, which is not in the project `{project}` itself")]
    Outside {
        /// The patch, or the key.
        what: String,
        /// The path.
        path: String,
        /// The folder of the project.
        project: String,
    },
    /// A file is not a patch.
    #[error("`{patch}` is not a patch: {reason}")]
    NoPatch {
        /// The patch's path.
        patch: String,
        /// The defect.
        reason: String,
    },
    /// A patch does not fit.
    #[error("`{patch}` does not apply to `{file}`: {reason}")]
    Conflict {
        /// The patch's path.
        patch: String,
        /// The file.
        file: String,
        /// The part of the patch, and the reason.
        reason: String,
        /// Patches that were applied before.
        after: Vec<String>,
    },
    /// There is no repository, or no Git.
    #[error("`{revision}` is a revision, but {reason}")]
    NoRepository {
        /// The revision.
        revision: String,
        /// The reason.
        reason: String,
    },
    /// The repository does not have a revision.
    #[error("the repository has no revision `{revision}`: {reason}")]
    NoRevision {
        /// The revision.
        revision: String,
        /// The words of Git.
        reason: String,
    },
    /// A submodule does not have the commit that a revision names.
    #[error(
        "the revision `{revision}` has the commit {commit} of the submodule `{path}`, which is missing on this \
        machine"
    )]
    Submodule {
        /// The revision.
        revision: String,
        /// The submodule.
        path: String,
        /// The submodule's commit.
        commit: String,
    },
    /// Git fails.
    #[error("the revision `{revision}` cannot be read: {reason}")]
    Git {
        /// The revision.
        revision: String,
        /// The words of Git.
        reason: String,
    },
}

impl VariantError {
    fn file(path: &Path) -> impl FnOnce(io::Error) -> Self {
        |error| Self::File { path: path.display().to_string(), error }
    }

    /// The remedy.
    pub(crate) fn advice(&self) -> String {
        match self {
            Self::Form(_) => {
                "write a revision (`HEAD`, a branch, a commit), the path of a patch (`no-rope.patch`), a list of \
                 patches, `.` for the project in its present state, or a map with `rev`, `folder`, `files` and \
                 `patches`"
                    .into()
            }
            Self::File { .. } => "paths are relative to the folder of the file that contains them".into(),
            Self::Outside { .. } => {
                "a variant can change only files of the project: the files below the nearest folder with `.git` or \
                 `pyproject.toml`"
                    .into()
            }
            Self::NoPatch { .. } => "make it with `git diff --binary > NAME.patch` or `diff -u`".into(),
            Self::Conflict { after, .. } if after.is_empty() => {
                "create the patch again for the present files, or combine it with the revision for which it was made: \
                 `{ rev: REV, patches: [NAME.patch] }`"
                    .into()
            }
            Self::Conflict { after, .. } => {
                format!(
                    "`{}` is applied before it: leave out one of them, or combine both in one patch",
                    after.join("`, `")
                )
            }
            Self::NoRepository { .. } => {
                "use a patch, `{ files: { NAME: OTHER } }` or `{ folder: PATH }`, which need no Git".into()
            }
            Self::NoRevision { .. } => "`git branch --all` and `git log` list the revisions; `git fetch` downloads \
                more"
                .into(),
            Self::Submodule { path, .. } => format!("fetch it: `git -C {path} fetch`"),
            Self::Git { .. } => "try `git checkout` of this revision in another worktree".into(),
        }
    }
}

/// The differences of a job's code from its project when the job was planned, as a patch of at most `MAX_CHANGES`
/// bytes; `None` without a variant, or if the variant's folder no longer exists.
pub fn changes(params: &Values) -> Option<String> {
    let folder = params.get("code")?.as_text()?;
    let text = fs::read(Path::new(folder).join(draft::DIFFERENCES)).ok()?;
    let mut excerpt = String::from_utf8_lossy(&text[..text.len().min(MAX_CHANGES)]).into_owned();
    if text.len() > MAX_CHANGES {
        excerpt.push_str("\n…\n");
    }
    Some(excerpt)
}

/// A value of `code`, in parts, which are applied in this order.
#[derive(Debug, Default, PartialEq, Eq)]
struct Variant {
    revision: Option<String>,
    folder: Option<String>,
    /// Files of the project, each with the file that replaces it; `None` removes it.
    files: BTreeMap<String, Option<String>>,
    patches: Vec<String>,
}

impl Variant {
    fn parse(value: &Value) -> Result<Self, VariantError> {
        let form = |message: String| VariantError::Form(message);
        match value {
            Value::Null => Ok(Self::default()),
            Value::Text(text) if text == AS_IS => Ok(Self::default()),
            Value::Text(text) if is_patch(text) => Ok(Self { patches: vec![text.clone()], ..Self::default() }),
            Value::Text(text) => Ok(Self { revision: Some(text.clone()), ..Self::default() }),
            // YAML reads some abbreviated commits as numbers.
            Value::Int(number) => Ok(Self { revision: Some(number.to_string()), ..Self::default() }),
            Value::List(_) => Ok(Self { patches: patches(value)?, ..Self::default() }),
            Value::Map(entries) => {
                if let Some(unknown) = entries.keys().find(|key| !KEYS.contains(&key.as_str())) {
                    return Err(form(format!("`code` has no key `{unknown}`; its keys are `{}`", KEYS.join("`, `"))));
                }
                let text = |key: &str| match entries.get(key) {
                    None | Some(Value::Null) => Ok(None),
                    Some(Value::Text(text)) if !text.is_empty() => Ok(Some(text.clone())),
                    Some(Value::Int(number)) => Ok(Some(number.to_string())),
                    Some(other) => Err(form(format!("`{key}` of `code` must be text, not {}", other.kind()))),
                };
                Ok(Self {
                    revision: text("rev")?,
                    folder: text("folder")?,
                    files: entries.get("files").map_or(Ok(BTreeMap::new()), files)?,
                    patches: entries.get("patches").map_or(Ok(Vec::new()), patches)?,
                })
            }
            other => Err(form(format!("{} `{other}` is not a variant of code", other.kind()))),
        }
    }
}

/// True for the path of a patch.
fn is_patch(text: &str) -> bool {
    Path::new(text).extension().is_some_and(|end| PATCHES.iter().any(|extension| end.eq_ignore_ascii_case(extension)))
}

fn files(value: &Value) -> Result<BTreeMap<String, Option<String>>, VariantError> {
    let Value::Map(entries) = value else {
        return Err(VariantError::Form(format!(
            "`files` of `code` must be a map from files of the project to other files, not {}",
            value.kind()
        )));
    };
    let entry = |(name, file): (&String, &Value)| match file {
        Value::Null => Ok((name.clone(), None)),
        Value::Text(file) => Ok((name.clone(), Some(file.clone()))),
        other => Err(VariantError::Form(format!("`{name}` of `files` must be a path or `null`, not {}", other.kind()))),
    };
    entries.iter().map(entry).collect()
}

/// Parses a patch, a list of patches, or a map from patches to whether they are applied.
fn patches(value: &Value) -> Result<Vec<String>, VariantError> {
    let form = |message: String| VariantError::Form(message);
    match value {
        Value::Null => Ok(Vec::new()),
        Value::Text(patch) => Ok(vec![patch.clone()]),
        Value::List(items) => {
            let patch = |item: &Value| match item {
                Value::Text(patch) => Ok(patch.clone()),
                other => Err(form(format!("a patch must be a path, not {}", other.kind()))),
            };
            items.iter().map(patch).collect()
        }
        Value::Map(entries) => {
            let mut patch_paths = Vec::new();
            for (patch, is_applied) in entries {
                match is_applied {
                    Value::Bool(true) => patch_paths.push(patch.clone()),
                    Value::Bool(false) | Value::Null => {}
                    other => return Err(form(format!("`{patch}` must be `true` or `false`, not {}", other.kind()))),
                }
            }
            Ok(patch_paths)
        }
        other => Err(form(format!("`patches` must be a list of paths, not {}", other.kind()))),
    }
}

/// The variants of a plan, each of which is created once.
#[derive(Debug, Default)]
pub(crate) struct Variants {
    layers: HashMap<(PathBuf, PathBuf, String), Layer>,
    /// The names of layers, by the values of `code`; empty for the project as it is.
    names: BTreeMap<String, String>,
}

impl Variants {
    /// The layer of a value of `code`, over the folder `project`, which is absolute and without links. Paths in the value are relative to
    /// `folder`, the recipe's folder. `results` is the results folder, which keeps the layers.
    ///
    /// # Errors
    /// The value is invalid, a file cannot be read, or a patch does not apply.
    pub(crate) fn layer(
        &mut self,
        value: &Value,
        project: &Path,
        folder: &Path,
        results: &Path,
    ) -> Result<Layer, VariantError> {
        let text = text_of(value);
        let cache_key = (project.to_owned(), folder.to_owned(), text.clone());
        if let Some(layer) = self.layers.get(&cache_key) {
            return Ok(layer.clone());
        }
        let variant = Variant::parse(value)?;
        let real = fs::canonicalize(if folder.as_os_str().is_empty() { Path::new(AS_IS) } else { folder })
            .map_err(VariantError::file(folder))?;
        let layer = draft(&variant, project, &real)?.keep(&results.join(LAYERS))?;
        self.layers.insert(cache_key, layer.clone());
        self.names.insert(text, layer.name().unwrap_or_default().to_string_lossy().into_owned());
        Ok(layer)
    }

    /// The names of the layers, by the values of `code`.
    pub(crate) fn into_names(self) -> BTreeMap<String, String> {
        self.names
    }
}

/// Returns a value of `code` as text, which identifies its layer on other machines.
pub fn text_of(value: &Value) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

/// The changes of a variant to a project. Paths start from `folder`.
fn draft(variant: &Variant, project: &Path, folder: &Path) -> Result<Draft, VariantError> {
    let mut draft = Draft::new(project);
    if let Some(revision) = &variant.revision {
        revision::add(&mut draft, revision)?;
    }
    if let Some(other) = &variant.folder {
        folder::add(&mut draft, &folder.join(other), folder)?;
    }
    for (name, file) in &variant.files {
        let place = place(project, &folder.join(name)).ok_or_else(|| VariantError::Outside {
            what: "`files`".into(),
            path: name.clone(),
            project: project.display().to_string(),
        })?;
        match file {
            Some(file) => {
                let file = folder.join(file);
                draft.copy(&place, &file).map_err(VariantError::file(&file))?;
            }
            None => draft.remove(&place),
        }
    }
    // A patch from Git has paths relative to the folder of the repository.
    let repository = project.ancestors().find(|folder| folder.join(".git").exists());
    let prefix =
        repository.and_then(|repository| project.strip_prefix(repository).ok()).unwrap_or(Path::new("")).to_owned();
    let inner_path = folder.strip_prefix(project).unwrap_or(Path::new("")).to_owned();
    for (index, patch) in variant.patches.iter().enumerate() {
        let path = folder.join(patch);
        let text = fs::read(&path).map_err(VariantError::file(&path))?;
        patch::Roots { prefix: &prefix, inner: &inner_path }
            .apply(&mut draft, patch, &text)
            .map_err(|error| error.after(&variant.patches[..index]))?;
    }
    Ok(draft)
}

impl VariantError {
    /// Adds the patches that were applied before to a conflict.
    fn after(mut self, patches: &[String]) -> Self {
        if let Self::Conflict { after, .. } = &mut self {
            *after = patches.to_vec();
        }
        self
    }
}

/// The place of a path in a project, if it is one inside.
fn place(project: &Path, path: &Path) -> Option<PathBuf> {
    let mut normal_path = PathBuf::new();
    for component in path.components() {
        match component {
            Component::ParentDir => drop(normal_path.pop()),
            Component::CurDir => {}
            other => normal_path.push(other),
        }
    }
    let place = normal_path.strip_prefix(project).ok()?;
    is_direct(project, place).then(|| place.to_owned())
}

/// True for a place that no link of the project leads to: a file there would take the place of the link.
fn is_direct(project: &Path, place: &Path) -> bool {
    is_place(place)
        && !place.ancestors().skip(1).any(|ancestor| ancestor != Path::new("") && project.join(ancestor).is_symlink())
}

/// True for a relative path inside a project, except Git's own files.
fn is_place(path: &Path) -> bool {
    let is_name = |component: Component<'_>| matches!(component, Component::Normal(name) if name != ".git");
    !path.as_os_str().is_empty() && path.components().all(is_name)
}

#[cfg(test)]
mod tests;
