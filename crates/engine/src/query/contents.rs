//! Contents of files that jobs have read, found by their digests.
//!
//! The store keeps digests of files, not the files. A content is found if a file still has it, if the variant of a job's code has it, or
//! if a commit of the project's repository has it. The digest proves each of them.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    io::Read as _,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use fs_err as fs;
use sweep_job::{Value, Values};

use crate::{
    host::{
        ask::{Children, Limits, ask, converse},
        git::{git, is_in_repository},
        project_of,
    },
    plan::digest_of,
    record::text_path,
};

/// Largest file whose lines are compared, in bytes.
const MAX_BYTES: u64 = 1 << 20;
/// Most versions of a file that are read from a repository, and their size in bytes.
const MAX_VERSIONS: usize = 500;
const MAX_HISTORY: usize = 64 << 20;
/// Most files whose history is read for one comparison, and the time that all of it may take.
const MAX_FILES: usize = 40;
const MAX_TIME: Duration = Duration::from_secs(10);
/// The folder of a variant's files in its own folder.
const FILES: &str = "files";

/// Finds contents.
#[derive(Debug)]
pub(super) struct Contents {
    /// Folders of projects.
    projects: BTreeSet<PathBuf>,
    /// Folders with the files of variants of the code.
    layers: BTreeSet<PathBuf>,
    /// Committed versions by digest, by the files' paths.
    histories: HashMap<PathBuf, BTreeMap<String, Vec<u8>>>,
    until: Instant,
}

impl Contents {
    /// Looks in the project of the working folder.
    pub(super) fn new() -> Self {
        let projects = std::env::current_dir().ok().map(|folder| project_of(&folder)).into_iter().collect();
        let until = Instant::now() + MAX_TIME;
        Self { projects, layers: BTreeSet::new(), histories: HashMap::new(), until }
    }

    /// Looks in the project and in the variant of the code of a job with these parameters, too.
    pub(super) fn add(&mut self, values: &Values) {
        let folder = |name: &str| values.get(name).and_then(Value::as_text).map(Path::new);
        self.projects.extend(folder("project").filter(|folder| folder.is_dir()).map(project_of));
        self.layers.extend(folder("code").map(|folder| folder.join(FILES)));
    }

    /// The content with this digest that the file at `path` has or had; `None` if it is not found, is too large, or is not text. `path` is
    /// absolute, or is relative to the folder of a project.
    pub(super) fn text(&mut self, path: &str, digest: &str) -> Option<String> {
        let path = text_path(path);
        let projects: Vec<PathBuf> = if path.is_absolute() {
            path.parent().map(project_of).into_iter().collect()
        } else {
            self.projects.iter().cloned().collect()
        };
        let layers = self.layers.iter().filter(|_| path.is_relative());
        let places = projects.iter().chain(layers).map(|folder| folder.join(&path));
        let present = places.filter_map(|place| read(&place)).find(|bytes| is_of(&path, bytes, digest));
        let bytes = present.or_else(|| {
            projects.iter().find_map(|project| self.history(project, &project.join(&path))?.get(digest).cloned())
        })?;
        String::from_utf8(bytes).ok().filter(|text| !text.contains('\0'))
    }

    /// The committed versions of a file by their digests.
    fn history(&mut self, project: &Path, path: &Path) -> Option<&BTreeMap<String, Vec<u8>>> {
        if !self.histories.contains_key(path) {
            if self.histories.len() >= MAX_FILES || !is_in_repository(project) {
                return None;
            }
            let versions = versions(project, path, self.until).unwrap_or_default();
            self.histories.insert(path.to_owned(), versions);
        }
        self.histories.get(path)
    }
}

fn is_of(path: &Path, bytes: &[u8], digest: &str) -> bool {
    digest_of(path, &blake3::hash(bytes).to_hex()) == digest
}

/// The content of a file of moderate size.
fn read(path: &Path) -> Option<Vec<u8>> {
    // A pipe would be waited for.
    if !fs::metadata(path).ok()?.is_file() {
        return None;
    }
    let mut bytes = Vec::new();
    fs::File::open(path).ok()?.take(MAX_BYTES + 1).read_to_end(&mut bytes).ok()?;
    (bytes.len() as u64 <= MAX_BYTES).then_some(bytes)
}

/// The versions of a file in all commits of a repository, the latest first up to a limit.
fn versions(project: &Path, path: &Path, until: Instant) -> Option<BTreeMap<String, Vec<u8>>> {
    let limit = format!("--max-count={MAX_VERSIONS}");
    let mut log = git(project);
    log.args([
        "--literal-pathspecs",
        "log",
        "--all",
        "--format=",
        "--raw",
        "--no-abbrev",
        "--no-renames",
        limit.as_str(),
        "--",
    ]);
    let answer = ask(log.arg(path), MAX_HISTORY, until)?;
    // `:100644 100644 OLD NEW M<tab>PATH`
    let answer = answer.out();
    let blobs =
        answer.lines().filter_map(|line| line.strip_prefix(':')).flat_map(|line| line.split(' ').skip(2).take(2));
    let mut seen = BTreeSet::new();
    let blobs: Vec<&str> = blobs.filter(|blob| !blob.bytes().all(|byte| byte == b'0') && seen.insert(*blob)).collect();
    if blobs.is_empty() {
        return None;
    }
    let input = blobs.iter().flat_map(|blob| [blob.as_bytes(), b"\n"].concat()).collect();
    let limits = Limits { most: MAX_HISTORY, until, children: Children::Awaited };
    let contents = converse(git(project).args(["cat-file", "--batch"]), Some(input), limits).ok()?;
    let mut versions = BTreeMap::new();
    let mut rest = contents.text.as_slice();
    // `ID blob SIZE`, the content, an empty line; the last content may be cut.
    while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
        let head = String::from_utf8_lossy(&rest[..end]).into_owned();
        rest = &rest[end + 1..];
        let Some(size) = head.split(' ').nth(2).and_then(|size| size.parse::<usize>().ok()) else { continue };
        let Some((content, tail)) = rest.split_at_checked(size) else { break };
        if size as u64 <= MAX_BYTES {
            versions.insert(digest_of(path, &blake3::hash(content).to_hex()), content.to_vec());
        }
        rest = tail.strip_prefix(b"\n").unwrap_or(tail);
    }
    Some(versions)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(folder: &Path, args: &[&str]) -> bool {
        let identity = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"];
        ask(git(folder).args(identity).args(args), 1000, Instant::now() + Duration::from_mins(1)).is_some()
    }

    #[test]
    fn contents_are_found_in_the_project_and_in_commits() {
        let folder = tempfile::tempdir().unwrap();
        let project = fs::canonicalize(folder.path()).unwrap();
        if !run(&project, &["init", "-q"]) {
            eprintln!("skipped: there is no `git` here");
            return;
        }
        let file = project.join("a [b].py");
        let digest = |text: &str| blake3::hash(text.as_bytes()).to_hex().to_string();
        for text in ["one\n", "two\n"] {
            fs::write(&file, text).unwrap();
            assert!(run(&project, &["add", "."]) && run(&project, &["commit", "-qm", text]));
        }
        fs::write(&file, "three\n").unwrap();
        let mut contents = Contents::new();
        contents.projects.insert(project.clone());
        for text in ["one\n", "two\n", "three\n"] {
            assert_eq!(contents.text("a [b].py", &digest(text)).as_deref(), Some(text));
            assert_eq!(contents.text(file.to_str().unwrap(), &digest(text)).as_deref(), Some(text));
        }
        assert_eq!(contents.text("a [b].py", &digest("four\n")), None);
        assert_eq!(contents.text("b.py", &digest("one\n")), None, "another file");
        // A removed file, and a file that is not text.
        fs::remove_file(&file).unwrap();
        assert_eq!(contents.text("a [b].py", &digest("two\n")).as_deref(), Some("two\n"));
        fs::write(&file, [0, 1]).unwrap();
        assert_eq!(contents.text("a [b].py", &digest("\0\u{1}")), None);
    }
}
