//! Files that replace files of a project, for programs that run in a view of it.

use std::{
    borrow::Cow,
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    fs, io,
    ops::Bound,
    os::unix::ffi::{OsStrExt as _, OsStringExt as _},
    path::{Path, PathBuf},
    sync::Arc,
};

/// The folder of a layer's files, by their paths in the project.
const FILES: &str = "files";
/// The list of the paths of the project that do not exist under the layer, each followed by a NUL character.
const GONE: &str = "gone";

/// Changes to a project's files that programs see in their view of it: added files and links, and removed paths. The default changes
/// nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Layer(Option<Arc<Inner>>);

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Inner {
    project: PathBuf,
    folder: PathBuf,
    /// By paths in the project.
    changes: BTreeMap<PathBuf, Change>,
}

/// The state of a path under a layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Change {
    /// The layer has a file or a link there.
    Present,
    /// The path does not exist in the layer.
    Gone,
}

impl Layer {
    /// The layer in `folder`, over the folder `project`; both are absolute and without links.
    ///
    /// # Errors The folder was not written by [`Layer::write`], or cannot be read.
    pub fn open(project: &Path, folder: &Path) -> io::Result<Self> {
        let mut changes = BTreeMap::new();
        let list = fs::read(folder.join(GONE))?;
        for path in list.split(|byte| *byte == 0).filter(|path| !path.is_empty()) {
            changes.insert(PathBuf::from(OsString::from_vec(path.to_vec())), Change::Gone);
        }
        collect(&folder.join(FILES), Path::new(""), &mut changes)?;
        Ok(Self(Some(Arc::new(Inner { project: project.to_owned(), folder: folder.to_owned(), changes }))))
    }

    /// The layer in a folder that is on another machine. Programs cannot be started under it.
    pub fn elsewhere(project: &Path, folder: &Path) -> Self {
        let changes = BTreeMap::new();
        Self(Some(Arc::new(Inner { project: project.to_owned(), folder: folder.to_owned(), changes })))
    }

    /// Creates the folder of a layer that lacks the paths `gone`, and returns the folder for its files.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub fn write<'a>(folder: &Path, gone: impl Iterator<Item = &'a Path>) -> io::Result<PathBuf> {
        let files = folder.join(FILES);
        fs::create_dir_all(&files)?;
        let list: Vec<u8> = gone.flat_map(|path| path.as_os_str().as_bytes().iter().copied().chain([0])).collect();
        fs::write(folder.join(GONE), list)?;
        Ok(files)
    }

    /// The name of the layer's folder; `None` if the layer changes nothing.
    pub fn name(&self) -> Option<&OsStr> {
        self.0.as_ref()?.folder.file_name()
    }

    /// Its folder; `None` if the layer changes nothing.
    pub fn folder(&self) -> Option<&Path> {
        self.0.as_ref().map(|inner| inner.folder.as_path())
    }

    /// Number of paths that it changes.
    pub fn len(&self) -> usize {
        self.0.as_ref().map_or(0, |inner| inner.changes.len())
    }

    /// True if it changes nothing.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// True if the layer changes a path, or anything below it.
    pub fn touches(&self, path: &Path) -> bool {
        self.inside(path).is_some_and(|(inner, place)| {
            place.ancestors().any(|ancestor| inner.changes.contains_key(ancestor))
                || inner.below(place).next().is_some()
        })
    }

    /// Returns the real path of the file that programs find at `path`. It does not exist if they find no file.
    pub fn at<'p>(&self, path: &'p Path) -> Cow<'p, Path> {
        let Some((inner, place)) = self.inside(path) else { return Cow::Borrowed(path) };
        let is_changed = place.ancestors().any(|ancestor| inner.changes.contains_key(ancestor));
        // A folder of the layer covers a link to a folder.
        let is_folder = || fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_dir());
        if is_changed || (inner.is_folder(place) && !is_folder()) {
            return Cow::Owned(inner.folder.join(FILES).join(place));
        }
        Cow::Borrowed(path)
    }

    /// The names that programs find in a folder, each with true for a folder.
    ///
    /// # Errors
    /// The folder cannot be listed.
    pub fn entries(&self, folder: &Path) -> io::Result<BTreeMap<OsString, bool>> {
        let mut names = BTreeMap::new();
        for entry in fs::read_dir(self.at(folder))? {
            let entry = entry?;
            names.insert(entry.file_name(), entry.file_type().is_ok_and(|kind| kind.is_dir()));
        }
        let Some((inner, place)) = self.inside(folder) else { return Ok(names) };
        for (path, change) in inner.below(place) {
            let Some(name) = path.strip_prefix(place).ok().and_then(|suffix| suffix.iter().next()) else {
                continue;
            };
            match (*change, path.parent() == Some(place)) {
                (Change::Gone, true) => drop(names.remove(name)),
                (Change::Gone, false) => {}
                (Change::Present, is_entry) => drop(names.insert(name.to_owned(), !is_entry)),
            }
        }
        Ok(names)
    }

    /// The paths in the project that it changes, each with the layer's own file or link; `None` where nothing is.
    pub fn files(&self) -> impl Iterator<Item = (&Path, Option<PathBuf>)> {
        self.0.iter().flat_map(|inner| {
            let files = inner.folder.join(FILES);
            let file = move |path: &Path, change: Change| (change == Change::Present).then(|| files.join(path));
            inner.changes.iter().map(move |(path, change)| (path.as_path(), file(path, *change)))
        })
    }

    fn inside<'p>(&self, path: &'p Path) -> Option<(&Inner, &'p Path)> {
        let inner = self.0.as_deref()?;
        Some((inner, path.strip_prefix(&inner.project).ok()?))
    }
}

impl Inner {
    /// The changes below a folder of the project.
    fn below<'a>(&'a self, folder: &'a Path) -> impl Iterator<Item = (&'a PathBuf, &'a Change)> {
        let bounds = (Bound::Included(folder.to_owned()), Bound::Unbounded);
        self.changes.range(bounds).take_while(move |(path, _)| path.starts_with(folder))
    }

    /// True if the layer has a file below a folder.
    fn is_folder(&self, folder: &Path) -> bool {
        self.below(folder).any(|(_, change)| *change == Change::Present)
    }
}

/// Adds the files and links below a folder of the layer's files.
fn collect(files: &Path, place: &Path, changes: &mut BTreeMap<PathBuf, Change>) -> io::Result<()> {
    for entry in fs::read_dir(files.join(place))? {
        let entry = entry?;
        let path = place.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            collect(files, &path, changes)?;
        } else {
            changes.insert(path, Change::Present);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_find_the_files_of_a_layer_in_place_of_those_of_the_project() {
        let place = tempfile::tempdir().unwrap();
        let root = place.path().canonicalize().unwrap();
        let (project, folder) = (root.join("project"), root.join("layer"));
        for (path, text) in [("a/x", "1"), ("a/y", "2"), ("gone/z", "3"), ("file", "4"), ("a.b", "5")] {
            let path = project.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let absent_paths = [Path::new("a/y"), Path::new("gone"), Path::new("never")];
        let files = Layer::write(&folder, absent_paths.into_iter()).unwrap();
        for (path, text) in [("a/x", "new"), ("new/deep/n", "6"), ("file/inner", "7")] {
            let path = files.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let layer = Layer::open(&project, &folder).unwrap();
        let read = |path: &str| fs::read_to_string(layer.at(&project.join(path))).ok();
        assert_eq!(read("a/x").as_deref(), Some("new"));
        assert_eq!(read("a.b").as_deref(), Some("5"));
        assert_eq!(read("file/inner").as_deref(), Some("7"), "a folder in place of a file");
        assert_eq!([read("a/y"), read("gone/z"), read("never")], [None, None, None]);
        let names = |path: &str| {
            let entries = layer.entries(&project.join(path)).unwrap();
            entries.iter().map(|(name, folder)| (name.to_str().unwrap().to_owned(), *folder)).collect::<Vec<_>>()
        };
        let expected =
            |names: &[(&str, bool)]| names.iter().map(|(name, is)| ((*name).to_owned(), *is)).collect::<Vec<_>>();
        assert_eq!(names(""), expected(&[("a", true), ("a.b", false), ("file", true), ("new", true)]));
        assert_eq!(names("a"), expected(&[("x", false)]));
        assert_eq!(names("new"), expected(&[("deep", true)]));
        assert!(layer.entries(&project.join("gone")).is_err());
        let foreign_path = root.join("elsewhere");
        assert_eq!(layer.at(&foreign_path), foreign_path);
        assert_eq!(Layer::default().at(&project), project);
    }
}
