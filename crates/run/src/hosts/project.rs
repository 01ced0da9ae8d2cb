//! The files of a project, with their digests.

use std::{
    collections::BTreeMap,
    io,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use fs_err as fs;
use sweep_job::{Ignore, Unit};

use super::{
    HostError,
    trees::{Content, Entry, Tree, stays},
};
use crate::{
    format::quantity,
    host::{
        ask::{Children, Limits, converse},
        git::{git, is_in_repository},
    },
    plan::{Made, digest_of},
};

/// The largest file of a project, in bytes.
const MAX_OF_FILE: u64 = 64 << 20;
/// Longest time for Git's list of files, and the most bytes of it.
const TIMEOUT: Duration = Duration::from_mins(2);
const MAX_LIST_LENGTH: usize = 256 << 20;
/// Git's words about a folder without repository. It has other words for a folder whose repository is missing.
const NO_REPOSITORY: &str = "not a git repository (or any";
/// The largest project, in bytes.
const MAX_PROJECT_BYTES: u64 = 1 << 30;
/// The largest number of files of a project.
const MAX_FILES: usize = 100_000;

/// The files of a project as they were when it was read. A copy is cheap.
#[derive(Debug, Clone, Default)]
pub struct Project(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    /// The project's folder; empty without a project.
    folder: PathBuf,
    tree: Tree,
    digest: String,
    /// A file for each digest.
    sources: BTreeMap<String, PathBuf>,
}

impl Project {
    /// The project without files.
    pub fn empty() -> Self {
        let tree = Tree::default();
        let digest = tree.digest();
        Self(Arc::new(Inner { tree, digest, ..Inner::default() }))
    }

    /// The files below a folder that Git tracks or does not ignore, or all files without a repository. `sync` are patterns of ignored files
    /// to add, in Git's form. The results folder is left out.
    ///
    /// # Errors
    /// A file is too large or cannot be read, there are too many, or Git does not answer about its repository.
    pub fn collect(folder: &Path, results: &Path, sync: &[String]) -> Result<Self, HostError> {
        let read_error =
            |error: &dyn std::fmt::Display| HostError::Project(format!("the project {}: {error}", folder.display()));
        let folder = fs::canonicalize(folder).map_err(|error| read_error(&error))?;
        let results = std::path::absolute(results).map_err(|error| read_error(&error))?;
        let results = fs::canonicalize(&results).unwrap_or(results);
        let listing = listed(&folder, &["--cached", "--others", "--exclude-standard"], &[]);
        let mut paths = match listing.map_err(|error| read_error(&error))? {
            Some(paths) => paths,
            None => {
                let mut paths = Vec::new();
                walk(&folder, Path::new(""), &results, &mut paths).map_err(|error| read_error(&error))?;
                paths
            }
        };
        if !sync.is_empty() {
            let patterns: Vec<String> = sync.iter().map(|pattern| format!(":(glob){pattern}")).collect();
            let ignored_paths = listed(&folder, &["--others", "--ignored", "--exclude-standard"], &patterns);
            paths.extend(ignored_paths.map_err(|error| read_error(&error))?.unwrap_or_default());
        }
        paths.sort_unstable();
        paths.dedup();
        paths.retain(|path| !folder.join(path).starts_with(&results));
        let (mut entries, mut sources, mut bytes) = (Vec::new(), BTreeMap::new(), 0);
        for path in paths {
            let Some((content, size)) = content(&folder, &path)? else { continue };
            bytes += size;
            if bytes > MAX_PROJECT_BYTES || entries.len() >= MAX_FILES {
                let limit = quantity(MAX_PROJECT_BYTES as f64, Unit::Bytes);
                let reason = format!(
                    "it has more than {limit} or {MAX_FILES} files; keep the recipe in a folder of its own, or let Git \
                     ignore large files"
                );
                return Err(read_error(&reason));
            }
            if let Content::File { blob, .. } = &content {
                sources.entry(blob.clone()).or_insert_with(|| folder.join(&path));
            }
            // A file whose name is not UTF-8 is left out; no recipe can name it.
            if let Some(path) = path.to_str() {
                entries.push(Entry { path: path.to_owned(), content });
            }
        }
        let tree = Tree::new(entries);
        Ok(Self(Arc::new(Inner { digest: tree.digest(), folder, tree, sources })))
    }

    /// Its folder, without links; an empty path if it has none.
    pub(super) fn folder(&self) -> &Path {
        &self.0.folder
    }

    /// The digest of a file of it, as inputs have it.
    pub fn file(&self, path: &Path) -> Option<String> {
        let (text, entries) = (path.to_str()?, &self.0.tree.entries);
        let place = entries.binary_search_by(|entry| entry.path.as_str().cmp(text)).ok()?;
        match &entries[place].content {
            Content::File { blob, .. } => Some(digest_of(path, blob)),
            Content::Link(_) | Content::Folder => None,
        }
    }

    /// Its digest.
    pub fn digest(&self) -> &str {
        &self.0.digest
    }

    pub(super) fn tree(&self) -> &Tree {
        &self.0.tree
    }

    pub(super) fn sources(&self) -> &BTreeMap<String, PathBuf> {
        &self.0.sources
    }

    /// The path of a file or folder from the project's folder, if all of it that is not ignored is among the files. The project's
    /// folder itself has another name on a host.
    pub(super) fn place(&self, path: &Path, ignore: &Ignore, made: &Made) -> Option<PathBuf> {
        let inner = path.strip_prefix(&self.0.folder).ok().filter(|_| !self.0.folder.as_os_str().is_empty())?;
        let text = inner.to_str().filter(|text| !text.is_empty())?;
        let entries = &self.0.tree.entries;
        if entries.binary_search_by(|entry| entry.path.as_str().cmp(text)).is_ok() {
            return Some(inner.to_owned());
        }
        let mut paths = Vec::new();
        walk(path, inner, Path::new(""), &mut paths).ok()?;
        let is_ignored = |path: &Path| {
            let relative_path = path.strip_prefix(inner).unwrap_or(path);
            let mut folders: Vec<&Path> =
                relative_path.ancestors().filter(|part| !part.as_os_str().is_empty()).collect();
            folders.reverse();
            let last_index = folders.len().saturating_sub(1);
            let is_folder =
                |index: usize, part: &Path| index < last_index || self.0.folder.join(inner).join(part).is_dir();
            let mut parts = folders.iter().enumerate();
            parts.any(|(index, part)| ignore.is_ignored(&part.to_string_lossy(), is_folder(index, part)))
        };
        paths.retain(|path| !is_ignored(path));
        if paths.iter().any(|path| made.has(&self.0.folder.join(path))) {
            return None;
        }
        let is_listed = |path: &PathBuf| {
            let text = path.to_str();
            text.is_some_and(|text| entries.binary_search_by(|entry| entry.path.as_str().cmp(text)).is_ok())
        };
        (!paths.is_empty() && paths.iter().all(is_listed)).then(|| inner.to_owned())
    }
}

/// Returns the content of a file or link with its length; `None` for entries that are not sent.
fn content(folder: &Path, path: &Path) -> Result<Option<(Content, u64)>, HostError> {
    let full_path = folder.join(path);
    let read_error = |error: io::Error| HostError::Project(format!("the project cannot be read: {error}"));
    let metadata = match fs::symlink_metadata(&full_path) {
        Ok(metadata) => metadata,
        // Git still knows a file that was removed.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(read_error(error)),
    };
    if metadata.is_symlink() {
        let target = fs::read_link(&full_path).map_err(read_error)?;
        let inner = target.to_str().filter(|_| stays(path, &target));
        if let Some(target) = inner {
            return Ok(Some((Content::Link(target.to_owned()), 0)));
        }
        // A link out of the project is replaced by the file that it leads to.
        if !fs::metadata(&full_path).is_ok_and(|metadata| metadata.is_file()) {
            return Ok(None);
        }
    } else if metadata.is_dir() {
        // The only folders that Git lists are other repositories.
        let is_empty = fs::read_dir(&full_path).map_err(read_error)?.next().is_none();
        return Ok(is_empty.then_some((Content::Folder, 0)));
    } else if !metadata.is_file() {
        return Ok(None);
    }
    let metadata = fs::metadata(&full_path).map_err(read_error)?;
    if metadata.len() > MAX_OF_FILE {
        let (limit, size) = (quantity(MAX_OF_FILE as f64, Unit::Bytes), quantity(metadata.len() as f64, Unit::Bytes));
        return Err(HostError::Project(format!(
            "{} has {size}; files of a project that are sent to hosts have at most {limit}: let Git ignore it, and name it \
             in `inputs` if a job reads it",
            full_path.display()
        )));
    }
    let blob = digest(&full_path).map_err(read_error)?;
    let executable = metadata.permissions().mode() & 0o100 != 0;
    Ok(Some((Content::File { blob, executable }, metadata.len())))
}

/// The digest of a file's bytes.
pub(super) fn digest(path: &Path) -> io::Result<String> {
    let mut hasher = blake3::Hasher::new();
    hasher.update_reader(fs::File::open(path)?)?;
    Ok(hasher.finalize().to_hex().to_string())
}

/// Returns the files that Git lists; `None` if the folder is in no repository. If Git fails in a repository, that is an
/// error: the files that it ignores are unknown, and may be secrets.
fn listed(folder: &Path, options: &[&str], patterns: &[String]) -> io::Result<Option<Vec<PathBuf>>> {
    use std::os::unix::ffi::OsStrExt as _;
    if !is_in_repository(folder) {
        return Ok(None);
    }
    let mut command = git(folder);
    command.args(["ls-files", "-z"]).args(options).arg("--").args(patterns);
    let limits = Limits { most: MAX_LIST_LENGTH, until: Instant::now() + TIMEOUT, children: Children::Awaited };
    let refusal = |reason: &str| {
        io::Error::other(format!(
            "it is in a Git repository, but Git does not list the ignored files ({reason}); nothing is sent, because \
             they may be secrets: make `git ls-files` work there"
        ))
    };
    let answer = converse(&mut command, None, limits).map_err(|error| refusal(&format!("`git`: {error}")))?;
    match answer.status {
        None => return Err(refusal(&format!("it has not responded within {} s", TIMEOUT.as_secs()))),
        // A folder named `.git` that is not a repository.
        Some(status) if !status.success() && answer.complaint.contains(NO_REPOSITORY) => return Ok(None),
        Some(status) if !status.success() => return Err(refusal(answer.last_words().unwrap_or("it failed"))),
        Some(_) if !answer.is_whole() => return Err(refusal("its output is too long")),
        Some(_) => {}
    }
    let names = answer.text.split(|byte| *byte == 0).filter(|name| !name.is_empty());
    Ok(Some(names.map(|name| PathBuf::from(std::ffi::OsStr::from_bytes(name))).collect()))
}

/// All files, links and empty folders below a folder, except the results folder. `inner` is the path of `folder` in the results.
fn walk(folder: &Path, inner: &Path, results: &Path, paths: &mut Vec<PathBuf>) -> io::Result<()> {
    if folder == results {
        return Ok(());
    }
    let mut is_empty = true;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        is_empty = false;
        let inner = inner.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            walk(&entry.path(), &inner, results, paths)?;
        } else {
            paths.push(inner);
        }
        if paths.len() > MAX_FILES {
            return Ok(());
        }
    }
    if is_empty && !inner.as_os_str().is_empty() {
        paths.push(inner.to_owned());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(project: &Project) -> Vec<&str> {
        project.tree().entries.iter().map(|entry| entry.path.as_str()).collect()
    }

    fn run_git(folder: &Path, arguments: &[&str]) {
        assert!(git(folder).args(arguments).output().unwrap().status.success());
    }

    #[test]
    fn a_project_has_what_git_does_not_ignore() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        for name in ["train.py", "lib/a.py", "data/big.bin", "data/small.csv", "results/store/x"] {
            fs::create_dir_all(at(name).parent().unwrap()).unwrap();
            fs::write(at(name), name).unwrap();
        }
        fs::write(at(".gitignore"), "data\n").unwrap();
        fs::os::unix::fs::symlink("train.py", at("link.py")).unwrap();
        fs::os::unix::fs::symlink("/etc", at("outside")).unwrap();
        let collect = |sync: &[&str]| {
            let sync: Vec<String> = sync.iter().map(|text| (*text).to_owned()).collect();
            Project::collect(folder.path(), &at("results"), &sync).unwrap()
        };
        let all_names = [".gitignore", "data/big.bin", "data/small.csv", "lib/a.py", "link.py", "train.py"];
        assert_eq!(names(&collect(&[])), all_names, "without Git");
        run_git(folder.path(), &["init", "-q"]);
        let project = collect(&[]);
        assert_eq!(names(&project), [".gitignore", "lib/a.py", "link.py", "train.py"]);
        assert_eq!(
            names(&collect(&["data/*.csv"])),
            [".gitignore", "data/small.csv", "lib/a.py", "link.py", "train.py"]
        );
        let (root, nothing_ignored, nothing_made) =
            (fs::canonicalize(folder.path()).unwrap(), Ignore::default(), Made::default());
        assert_eq!(project.place(&root.join("lib/a.py"), &nothing_ignored, &nothing_made), Some("lib/a.py".into()));
        assert_eq!(
            project.place(&root.join("lib"), &nothing_ignored, &nothing_made),
            Some("lib".into()),
            "all of it is there"
        );
        assert_eq!(project.place(&root.join("data"), &nothing_ignored, &nothing_made), None);
        let ignore = Ignore::new(&["*.bin".to_owned(), "small.csv".to_owned()]).unwrap();
        assert_eq!(project.place(&root.join("data"), &ignore, &nothing_made), None, "nothing of it is there");
        fs::write(at("lib/x.swp"), "").unwrap();
        assert_eq!(
            project.place(&root.join("lib"), &ignore, &nothing_made),
            Some("lib".into()),
            "what is ignored may be missing"
        );
        fs::remove_file(at("lib/x.swp")).unwrap();
        assert_eq!(project.place(Path::new("/etc/passwd"), &nothing_ignored, &nothing_made), None);
        run_git(folder.path(), &["add", "lib"]);
        fs::remove_file(at("lib/a.py")).unwrap();
        assert_eq!(names(&collect(&[])), [".gitignore", "link.py", "train.py"], "Git still knows the removed file");
    }

    #[test]
    fn nothing_of_a_repository_that_git_cannot_read_is_sent() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("secret"), "").unwrap();
        let collect = || Project::collect(folder.path(), &at("results"), &[]);
        // A repository that has lost its own files, which Git does not recognize, looks like a folder with the name `.git`.
        fs::create_dir(at(".git")).unwrap();
        assert_eq!(names(&collect().unwrap()), [".git", "secret"]);
        fs::remove_dir(at(".git")).unwrap();
        fs::write(at(".git"), "gitdir: /nowhere\n").unwrap();
        let error = collect().unwrap_err().to_string();
        assert!(error.contains("Git does not list the ignored files") && error.contains("may be secrets"), "{error}");
    }

    #[test]
    fn a_project_has_a_limit() {
        let folder = tempfile::tempdir().unwrap();
        let file = fs::File::create(folder.path().join("weights")).unwrap();
        file.set_len(MAX_OF_FILE + (6 << 20)).unwrap();
        let error = Project::collect(folder.path(), &folder.path().join("results"), &[]).unwrap_err().to_string();
        assert!(error.contains("weights has 70.0 MiB; files of a project"), "{error}");
    }
}
