//! The project's folder, outside of which nothing is read.

use std::{
    fs, io,
    path::{Component, Path, PathBuf},
};

use super::tool::{Fault, FaultKind};

/// Folders below the project's that are searched for recipes.
const MAX_DEPTH: usize = 6;

/// Maximum number of files and folders that are examined for a list of recipes.
const MAX_ENTRIES: usize = 20_000;

/// Maximum size of a file that is examined for a list of recipes, in bytes.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// A project's folder.
#[derive(Debug, Clone)]
pub struct Project {
    root: PathBuf,
}

/// A recipe or a sweep file of a project.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct RecipeFile {
    /// The path, from the project's folder.
    pub path: String,
    /// True for a sweep file, which names recipes.
    pub is_sweep: bool,
    /// The first line of `about`.
    pub about: Option<String>,
}

impl Project {
    /// The project in a folder.
    pub fn open(folder: &Path) -> io::Result<Self> {
        Ok(Self { root: fs::canonicalize(folder)? })
    }

    /// The folder.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// A file or folder that a call names, relative to the project's folder once every link is followed.
    pub fn inside(&self, path: &str) -> Result<PathBuf, Fault> {
        let outside_fault = || {
            let fault = Fault::new(FaultKind::Outside, format!("`{path}` is outside of the project's folder"));
            fault.help("paths are relative to the project's folder and must stay inside")
        };
        let requested_path = Path::new(path);
        let relative_path = requested_path.strip_prefix(&self.root).unwrap_or(requested_path);
        // A path whose text already leaves the folder is refused without access to the disk.
        if relative_path.is_absolute() || !stays(relative_path) {
            return Err(outside_fault());
        }
        match fs::canonicalize(self.root.join(relative_path)) {
            Ok(real_path) => real_path.strip_prefix(&self.root).map(Path::to_owned).map_err(|_| outside_fault()),
            Err(_) => {
                let fault = Fault::new(FaultKind::NotFound, format!("there is no `{path}` in the project's folder"));
                Err(fault.help("`describe` without arguments lists the recipes"))
            }
        }
    }

    /// True if a file is in the project's folder once every link is followed.
    pub fn holds(&self, path: &Path) -> bool {
        fs::canonicalize(path).is_ok_and(|path| path.starts_with(&self.root))
    }

    /// The recipes and sweep files of the project, by path. Links, hidden folders and the folders in `skip` are left
    /// out.
    pub fn recipes(&self, skip: &[&Path]) -> Vec<RecipeFile> {
        let skip: Vec<PathBuf> = skip.iter().filter_map(|path| fs::canonicalize(path).ok()).collect();
        let mut recipes = Vec::new();
        let mut folders = vec![(self.root.clone(), 0)];
        let mut remaining_entries = MAX_ENTRIES;
        while let Some((folder, depth)) = folders.pop() {
            let Ok(entries) = fs::read_dir(&folder) else { continue };
            for entry in entries.flatten() {
                let name = entry.file_name();
                let name = name.to_string_lossy();
                let Ok(kind) = entry.file_type() else { continue };
                if remaining_entries == 0 || name.starts_with('.') || ["target", "node_modules"].contains(&&*name) {
                    continue;
                }
                remaining_entries -= 1;
                let path = entry.path();
                if kind.is_dir() && depth < MAX_DEPTH && !skip.contains(&path) {
                    folders.push((path, depth + 1));
                } else if kind.is_file() && (name.ends_with(".yaml") || name.ends_with(".yml")) {
                    recipes.extend(self.recipe(&path));
                }
            }
        }
        recipes.sort();
        recipes
    }

    /// A file as a recipe or a sweep file; `None` if it is neither.
    fn recipe(&self, path: &Path) -> Option<RecipeFile> {
        if fs::metadata(path).ok()?.len() > MAX_FILE_BYTES {
            return None;
        }
        let text = fs::read_to_string(path).ok()?;
        let has_line = |key: &str| text.lines().any(|line| line.starts_with(key));
        let is_sweep = has_line("recipes:");
        if !is_sweep && !has_line("steps:") && !has_line("extends:") {
            return None;
        }
        let about = text.lines().find_map(|line| line.strip_prefix("about:")).map(str::trim);
        // A text in several lines begins on the next one.
        let about = match about {
            Some(mark) if mark.starts_with(['|', '>']) => {
                text.lines().skip_while(|line| !line.starts_with("about:")).nth(1).map(str::trim)
            }
            about => about,
        };
        let path = path.strip_prefix(&self.root).ok()?.to_str()?.to_owned();
        Some(RecipeFile { path, is_sweep, about: about.filter(|about| !about.is_empty()).map(str::to_owned) })
    }
}

/// Returns true if the text of a path does not lead out of its start folder.
fn stays(path: &Path) -> bool {
    let mut depth = 0_usize;
    path.components().all(|component| match component {
        Component::Normal(_) => {
            depth += 1;
            true
        }
        Component::CurDir => true,
        Component::ParentDir => depth.checked_sub(1).map(|parent_depth| depth = parent_depth).is_some(),
        Component::RootDir | Component::Prefix(_) => false,
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn nothing_outside_is_inside() -> io::Result<()> {
        let folder = tempfile::tempdir()?;
        let root = folder.path().join("project");
        fs_err::create_dir_all(root.join("recipes"))?;
        fs_err::write(root.join("recipes/a.yaml"), "about: An example.\nsteps: {}\n")?;
        fs_err::write(root.join("other.yaml"), "a: 1\n")?;
        fs_err::write(folder.path().join("secret.yaml"), "steps: {}\n")?;
        symlink(folder.path().join("secret.yaml"), root.join("link.yaml"))?;
        symlink(folder.path(), root.join("up"))?;
        symlink(root.join("recipes"), root.join("own"))?;
        let project = Project::open(&root)?;
        let kind = |path: &str| project.inside(path).map_err(|fault| fault.kind);
        let recipe_path = Ok(PathBuf::from("recipes/a.yaml"));
        for path in ["recipes/a.yaml", "./recipes/../recipes/a.yaml", "own/a.yaml"] {
            assert_eq!(kind(path), recipe_path, "{path}");
        }
        let absolute = root.canonicalize()?.join("recipes/a.yaml");
        assert_eq!(kind(&absolute.to_string_lossy()), recipe_path);
        for path in
            ["../secret.yaml", "recipes/../../secret.yaml", "link.yaml", "up/secret.yaml", "/etc/passwd", "/", ".."]
        {
            assert_eq!(kind(path), Err(FaultKind::Outside), "{path}");
        }
        for path in ["none.yaml", "recipes/a.yaml/x", "a\0b", "recipes/none/../none"] {
            assert_eq!(kind(path), Err(FaultKind::NotFound), "{path}");
        }
        let recipe = RecipeFile { path: "recipes/a.yaml".into(), is_sweep: false, about: Some("An example.".into()) };
        assert_eq!(project.recipes(&[]), [recipe]);
        assert_eq!(project.recipes(&[&root.join("recipes")]), []);
        Ok(())
    }
}
