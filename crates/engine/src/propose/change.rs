//! A change of a program's code as a recipe that extends the baseline's.

use std::{
    io,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use fs_err as fs;

use super::{
    ProposeError,
    study::{load, step},
};
use crate::{
    host::{
        self,
        replaced::{Outlives, Readers, replace},
    },
    plan::{normal, relative},
    store::Store,
};

/// The folder of these recipes in the results folder.
const CHANGES: &str = "code/changes";
/// Digits of a digest in the name of such a recipe.
const DIGITS: usize = 10;
/// Time for Git to name a commit.
const GIT_TIMEOUT: Duration = Duration::from_secs(30);

/// A change of the code of a recipe's program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// A patch of the project as it is.
    Patch(PathBuf),
    /// A revision of the project.
    Revision(String),
    /// Another worktree of the project's repository, or a folder with files that replace files of the recipe's folder.
    Worktree(PathBuf),
}

impl Change {
    /// Writes the recipe with this change to the results folder of a store, and returns its path. A patch is copied, and a revision is
    /// resolved to its commit, so that the meaning of the recipe does not change later. `measuring` is the step that measures, by default
    /// the only one with seeds.
    ///
    /// # Errors
    /// The baseline is no recipe, no step measures, or the files cannot be read or written.
    pub fn write(&self, recipe: &Path, measuring: Option<&str>, store: &Store) -> Result<PathBuf, ProposeError> {
        let step = step_of(recipe, measuring)?;
        let folder = normal(&store.results().join(CHANGES));
        fs::create_dir_all(&folder)?;
        let (name, key, value) = self.named(recipe, &folder)?;
        let quote = |path: &Path| -> io::Result<String> {
            let path = relative(&normal(path), &folder);
            let text = path.to_str().ok_or_else(|| io::Error::other(format!("{} is not UTF-8", path.display())))?;
            Ok(serde_json::to_string(text)?)
        };
        let value = match &value {
            Given::Path(path) => quote(path)?,
            Given::Text(text) => serde_json::to_string(text)?,
        };
        let extends = quote(recipe)?;
        let text = format!("extends: {extends}\nsteps: {{ {step}: {{ with: {{ code: {{ {key}: {value} }} }} }} }}\n");
        let digest = blake3::hash(text.as_bytes()).to_hex();
        // A recipe's name begins with a letter.
        let file = folder.join(format!("to-{name}-{}.yaml", &digest[..DIGITS]));
        replace(&file, text.as_bytes(), Readers::All, Outlives::Process)?;
        Ok(file.strip_prefix(&folder).map_or_else(|_| file.clone(), |name| store.results().join(CHANGES).join(name)))
    }

    /// The name of the change, and its key in `code` with the value.
    fn named(&self, recipe: &Path, folder: &Path) -> Result<(String, &'static str, Given), ProposeError> {
        let stem = |path: &Path| slug(&path.file_stem().unwrap_or_default().to_string_lossy());
        match self {
            Self::Patch(path) => {
                let text = fs::read(path)?;
                let digest = blake3::hash(&text).to_hex();
                let copy = folder.join(format!("{}-{}.patch", stem(path), &digest[..DIGITS]));
                replace(&copy, &text, Readers::All, Outlives::Process)?;
                Ok((stem(path), "patches", Given::Path(copy)))
            }
            Self::Revision(name) => {
                let object = format!("{name}^{{commit}}");
                let place = normal(recipe);
                let place = place.parent().unwrap_or(Path::new("."));
                let mut git = host::git(place);
                git.args(["rev-parse", "--verify", "--end-of-options", &object]);
                let commit = host::ask(&mut git, 200, Instant::now() + GIT_TIMEOUT);
                let commit = commit.ok_or_else(|| ProposeError::NoRevision(name.clone()))?;
                Ok((slug(name), "rev", Given::Text(commit.out().trim().to_owned())))
            }
            Self::Worktree(path) => {
                let real_path = fs::canonicalize(path)?;
                Ok((stem(&real_path), "folder", Given::Path(real_path)))
            }
        }
    }
}

/// The step that measures.
fn step_of(recipe: &Path, measuring: Option<&str>) -> Result<String, ProposeError> {
    if let Some(step) = measuring {
        return Ok(step.to_owned());
    }
    let draft = load(&[recipe.to_owned()], &[], &[])?;
    let [recipe] = draft.recipes.as_slice() else { return Err(ProposeError::Several) };
    step(recipe, None)
}

/// The value of a part of `code`.
enum Given {
    Path(PathBuf),
    Text(String),
}

/// A text as a part of a file's name.
fn slug(text: &str) -> String {
    let text: String = text.chars().map(|char| if char.is_ascii_alphanumeric() { char } else { '-' }).collect();
    text.chars().take(40).collect()
}
