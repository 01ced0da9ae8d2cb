//! The files that a program used, and the state of each path before the program changed it.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    ffi::OsString,
    fs::Metadata,
    io,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    time::{SystemTime, UNIX_EPOCH},
};

use super::{
    Layer,
    filter::Blind,
    places::{Places, is_temporary},
    shared::SharedFiles,
    walk::State,
};

/// Names of folders that belong to version control, and of Python's cache, whose sources count instead.
pub const PASSED_OVER: [&str; 4] = [".git", ".hg", ".svn", "__pycache__"];
/// Files whose presence marks the folder of an environment, whose packages count instead.
const ENVIRONMENT: [&str; 2] = ["pyvenv.cfg", "conda-meta"];
/// Maximum number of remembered paths.
const MAX_PATHS: usize = 200_000;
/// Maximum number of names that are remembered individually below a folder that does not exist.
const MAX_SOUGHT: usize = 100;
/// Maximum number of remembered programs and libraries outside of the project.
const MAX_OUTSIDE: usize = 10_000;
/// The largest file whose digest is taken before the program changes it, in bytes.
const MAX_DIGESTED_BYTES: u64 = 256 << 20;

/// Places that matter.
#[derive(Debug)]
pub struct Options {
    /// Folder in which reads and writes count. Outside of it, they count for files that are neither of the system nor installed,
    /// cached or temporary.
    pub project: PathBuf,
    /// Places in which only writes count, also in the project.
    pub inputs: Vec<PathBuf>,
    /// Folders in which reads do not count.
    pub skipped: Vec<PathBuf>,
    /// Folders in which writes do not count either.
    pub own: Vec<PathBuf>,
    /// Files that the programs see in place of the project's files.
    pub layer: Layer,
    /// A path that an interpreter opens once it has started: folders that its process has listed by then do not count as reads of the
    /// program.
    pub started: Option<PathBuf>,
    /// The file to which the observer reports, while the programs run, their changes and reads of files that other programs may
    /// change, too: files outside of `private`, `own` and `skipped` that are not installed, cached or hidden. Without it, it reports none.
    pub report: Option<PathBuf>,
    /// A folder whose changes no other program sees.
    pub private: Option<PathBuf>,
    /// The digest of a file's content.
    pub digest: fn(&Path) -> io::Result<String>,
}

/// Everything that was observed. All paths are absolute and without links.
#[derive(Debug, Default)]
pub struct Seen {
    /// Files that were read, or whose size or times were queried, before the program itself changed them.
    pub files: BTreeMap<PathBuf, File>,
    /// Properties of other paths.
    pub facts: BTreeMap<PathBuf, Fact>,
    /// Folders that were listed: the names in them that the program had not created.
    pub listed: BTreeMap<PathBuf, Listed>,
    /// Paths that were created, changed, replaced or removed.
    pub written: BTreeSet<PathBuf>,
    /// The paths in `written` that did not exist before.
    pub made: BTreeSet<PathBuf>,
    /// Files that were opened to be read after the program had changed them.
    pub rewritten: BTreeSet<PathBuf>,
    /// Reasons for gaps in all of this.
    pub blind: BTreeSet<Blind>,
    /// Programs with set-user-ID that were started without its effect.
    pub privileged: BTreeSet<PathBuf>,
    /// Modules that were opened in folders of installed packages.
    pub modules: BTreeSet<(PathBuf, OsString)>,
    /// Files of which no digest could be taken before the program changed them.
    pub lost: BTreeSet<PathBuf>,
    /// Programs that were started and shared libraries that were opened outside of the project, or in an environment inside of it. Files
    /// that were created or changed after the observation began are not here.
    pub outside: BTreeMap<PathBuf, Outside>,
    /// True if programs used more paths than are remembered.
    pub is_cut: bool,
    /// True if the report on shared files is incomplete.
    pub lacks_shared: bool,
}

impl Seen {
    /// Adds an earlier observation, of a process from which the observed one was forked.
    pub fn add(&mut self, earlier: &Self) {
        for (path, file) in &earlier.files {
            if let Some(later) = self.files.get_mut(path) {
                later.is_changed |= file.is_changed || !file.stamp.has_content_of(later.stamp);
                later.is_opened |= file.is_opened;
                later.stamp = file.stamp;
            } else {
                self.facts.remove(path);
                self.files.insert(path.clone(), file.clone());
            }
        }
        for (path, fact) in earlier.facts.iter().filter(|(path, _)| !earlier.files.contains_key(*path)) {
            if !self.files.contains_key(path) {
                self.facts.insert(path.clone(), fact.clone());
            }
        }
        for (folder, listing) in &earlier.listed {
            let entry = self.listed.entry(folder.clone()).or_default();
            entry.opens += listing.opens;
            entry.names = listing.names.clone().or(entry.names.take());
        }
        for (path, outside) in &earlier.outside {
            let entry = self.outside.entry(path.clone()).or_insert(*outside);
            entry.is_started |= outside.is_started;
        }
        self.modules.extend(earlier.modules.iter().cloned());
        self.blind.extend(&earlier.blind);
        self.privileged.extend(earlier.privileged.iter().cloned());
        self.is_cut |= earlier.is_cut;
    }

    /// True if all paths that the programs have read, looked for and listed are unchanged for a program under `layer`. The paths
    /// `skipped` do not count.
    pub fn holds(&self, skipped: &[PathBuf], layer: &Layer) -> bool {
        let is_fact = |path: &Path, fact: &Fact| match (fact, super::walk::look(&layer.at(path))) {
            (Fact::Absent, State::Absent | State::Incomplete(_))
            | (Fact::File, State::File(_))
            | (Fact::Folder, State::Folder) => true,
            (Fact::Link(target), State::Link(now)) => *target == now,
            _ => false,
        };
        let is_same = |path: &Path, stamp: Stamp| {
            std::fs::metadata(layer.at(path)).is_ok_and(|metadata| Stamp::of(&metadata).has_content_of(stamp))
        };
        let has_names = |folder: &Path, names: &BTreeSet<OsString>| {
            let is_counted = |name: &&OsString| !skipped.contains(&folder.join(name));
            layer.entries(folder).is_ok_and(|entries| entries.keys().filter(is_counted).eq(names))
        };
        self.files.iter().all(|(path, file)| is_same(path, file.stamp))
            && self.outside.iter().all(|(path, outside)| is_same(path, outside.stamp))
            && self.facts.iter().all(|(path, fact)| is_fact(path, fact))
            && self
                .listed
                .iter()
                .all(|(folder, listing)| listing.names.as_ref().is_none_or(|names| has_names(folder, names)))
    }
}

/// A file that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct File {
    /// Its state when it was read first.
    pub stamp: Stamp,
    /// The digest of its content then, if the program has changed it later.
    pub digest: Option<String>,
    /// True if something else changed it meanwhile.
    pub is_changed: bool,
    /// True if the file was opened, false if only its size or times were queried.
    pub is_opened: bool,
}

/// A file outside of the project.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outside {
    /// Its state when it was used first.
    pub stamp: Stamp,
    /// True for a program that was started, false for a library that was opened.
    pub is_started: bool,
}

/// A property of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fact {
    /// It does not exist.
    Absent,
    /// The path is a file, and no other property was queried.
    File,
    /// It is a folder.
    Folder,
    /// It is a link with this target.
    Link(PathBuf),
}

/// A folder that was listed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Listed {
    /// Number of times that it was opened as a folder.
    pub opens: usize,
    /// The names in it, once it was listed.
    pub names: Option<BTreeSet<OsString>>,
}

/// Values that change with a file's content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    /// Size in bytes.
    pub size: u64,
    /// Time of the last change of the content, in nanoseconds since 1970.
    pub mtime: i64,
    /// Time of the last change of the content or the metadata.
    pub ctime: i64,
    /// Inode.
    pub inode: u64,
}

/// The relevance of a path for the observation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Interest {
    All,
    Writes,
    Nothing,
}

/// The state of a path before the program changed it.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Before {
    Absent,
    File(Stamp),
    Folder,
    Link(PathBuf),
    Other,
}

/// Collects the observations.
#[derive(Debug)]
pub(crate) struct Collector {
    options: Options,
    places: Places,
    pub(crate) seen: Seen,
    pub(crate) shared: SharedFiles,
    before: BTreeMap<PathBuf, Before>,
    /// Folders, with whether they are environments.
    environments: HashMap<PathBuf, bool>,
    /// Folders that do not exist, with the number of names that were looked for below each.
    sought: HashMap<PathBuf, usize>,
    /// Processes whose interpreter has not reported its start yet, with the folders that each has opened since it was
    /// executed.
    starting: HashMap<u32, Vec<PathBuf>>,
    /// Start of the observation, in nanoseconds since 1970.
    begun: i64,
}

impl Stamp {
    /// The state of a file.
    pub fn of(metadata: &Metadata) -> Self {
        let time = |seconds: i64, nanoseconds: i64| seconds.saturating_mul(1_000_000_000).saturating_add(nanoseconds);
        Self {
            size: metadata.size(),
            mtime: time(metadata.mtime(), metadata.mtime_nsec()),
            ctime: time(metadata.ctime(), metadata.ctime_nsec()),
            inode: metadata.ino(),
        }
    }

    /// True if the content is probably the same. Names and permissions may have changed.
    fn has_content_of(self, other: Self) -> bool {
        (self.size, self.mtime, self.inode) == (other.size, other.mtime, other.inode)
    }
}

impl Before {
    fn of(path: &Path) -> Self {
        match super::walk::look(path) {
            State::Absent | State::Incomplete(_) => Self::Absent,
            State::File(metadata) => Self::File(Stamp::of(&metadata)),
            State::Folder => Self::Folder,
            State::Link(target) => Self::Link(target),
            State::Other => Self::Other,
        }
    }
}

impl Collector {
    pub(crate) fn new(options: Options) -> Self {
        let places = Places::around(&options.project);
        let shared = SharedFiles::new(options.report.as_deref(), options.digest);
        Self {
            options,
            places,
            shared,
            seen: Seen::default(),
            before: BTreeMap::new(),
            environments: HashMap::new(),
            sought: HashMap::new(),
            starting: HashMap::new(),
            begun: since_1970(SystemTime::now()),
        }
    }

    pub(crate) fn layer(&self) -> &Layer {
        &self.options.layer
    }

    /// The relevance of a path without links.
    pub(crate) fn interest(&mut self, path: &Path) -> Interest {
        let is_below = |folders: &[PathBuf]| folders.iter().any(|folder| path.starts_with(folder));
        if is_below(&self.options.own) {
            return Interest::Nothing;
        }
        if is_below(&self.options.inputs) {
            return Interest::Writes;
        }
        let is_passed = match path.strip_prefix(&self.options.project) {
            Ok(inner) => inner.iter().any(|name| PASSED_OVER.iter().any(|folder| name == *folder)),
            Err(_) => !self.places.are_data(path),
        };
        if is_passed || is_below(&self.options.skipped) || self.is_environment(path) {
            return Interest::Nothing;
        }
        Interest::All
    }

    /// Notes a link, so that what is behind it counts.
    pub(crate) fn link(&mut self, link: &Path) {
        if self.is_inside(link) && self.interest(link) == Interest::All {
            self.places.link(link);
        }
    }

    /// True if other programs may change a path, which has this interest.
    pub(crate) fn is_shared(&self, path: &Path, interest: Interest) -> bool {
        let Options { private, skipped, own, .. } = &self.options;
        let is_closed = private.iter().chain(skipped).chain(own).any(|folder| path.starts_with(folder));
        !is_closed && (interest == Interest::All || is_temporary(path))
    }

    /// True if a path is in the project.
    pub(crate) fn is_inside(&self, path: &Path) -> bool {
        path.starts_with(&self.options.project)
    }

    /// True for a program or a library that is a part of the environment.
    pub(crate) fn is_installed(&self, path: &Path) -> bool {
        !self.is_inside(path) && self.places.are_installed(path)
    }

    /// True if a link to a path with this interest counts. Links on the way to the project itself do not count.
    pub(crate) fn has_link(&mut self, link: &Path, (end, interest): (&Path, Interest)) -> bool {
        if self.interest(link) != Interest::All {
            return false;
        }
        let is_own = |folders: &[PathBuf]| folders.iter().any(|folder| end.starts_with(folder));
        let Options { skipped, own, .. } = &self.options;
        let leads_away = !(self.is_inside(end) || is_own(skipped) || is_own(own));
        // A link in the root folder may be on the way to any path.
        let is_at_root = link.parent().is_none_or(|folder| folder.parent().is_none());
        self.is_inside(link) || leads_away && (interest == Interest::All || !is_at_root)
    }

    /// True if a folder on the way to the path, but not to the project, has an environment in it.
    fn is_environment(&mut self, path: &Path) -> bool {
        let project = &self.options.project;
        let folders = path.ancestors().skip(1).take_while(|folder| !project.starts_with(folder));
        for folder in folders {
            let entry = self.environments.get(folder).copied();
            let is_environment = entry.unwrap_or_else(|| ENVIRONMENT.iter().any(|mark| folder.join(mark).exists()));
            if entry.is_none() {
                self.environments.insert(folder.to_owned(), is_environment);
            }
            if is_environment {
                return true;
            }
        }
        false
    }

    /// Records the start of a program or the opening of a shared library, which may be outside of the project.
    pub(crate) fn used(&mut self, path: &Path, metadata: &Metadata, is_started: bool) {
        let Options { project, skipped, own, inputs, .. } = &self.options;
        let is_below = |folders: &[PathBuf]| folders.iter().any(|folder| path.starts_with(folder));
        if is_below(own) || is_below(skipped) || is_below(inputs) {
            return;
        }
        if path.starts_with(project) && !self.is_environment(path) {
            return;
        }
        let stamp = Stamp::of(metadata);
        let count = self.seen.outside.len();
        // A file that a compiler has just written belongs to the job, not to the machine.
        if stamp.ctime >= self.begun || (count >= MAX_OUTSIDE && !self.seen.outside.contains_key(path)) {
            return;
        }
        let entry = self.seen.outside.entry(path.to_owned()).or_insert(Outside { stamp, is_started });
        entry.is_started |= is_started;
    }

    /// True if there is no room for another path. Half of the room is reserved for paths in the project.
    fn is_full(&mut self, path: &Path) -> bool {
        let count = self.seen.files.len() + self.seen.facts.len() + self.before.len();
        let is_full = count >= if self.is_inside(path) { MAX_PATHS } else { MAX_PATHS / 2 };
        self.seen.is_cut |= is_full;
        is_full
    }

    /// Returns true if the program itself has created the path, or a folder on the way to it.
    pub(crate) fn is_own(&self, path: &Path) -> bool {
        if self.before.is_empty() {
            return false;
        }
        self.before.contains_key(path) || self.is_created(path)
    }

    /// True if the program itself has created the path, or a folder on the way to it. A folder that it only asked to create, as
    /// `os.makedirs(path, exist_ok=True)` does, was there before.
    fn is_created(&self, path: &Path) -> bool {
        path.ancestors().any(|path| self.before.get(path) == Some(&Before::Absent))
    }

    /// Records that a file is opened for reading, or that its size and times are queried.
    pub(crate) fn read(&mut self, path: &Path, metadata: &Metadata, is_opened: bool) {
        let stamp = Stamp::of(metadata);
        let earlier_state = self.before.get(path);
        // A call that would have changed the file may have failed.
        let is_untouched = earlier_state == Some(&Before::File(stamp));
        if !is_untouched && self.is_own(path) {
            if is_opened && matches!(earlier_state, Some(Before::File(_))) {
                self.seen.rewritten.insert(path.to_owned());
            }
            return;
        }
        if let Some(file) = self.seen.files.get_mut(path) {
            file.is_changed |= !file.stamp.has_content_of(stamp);
            file.is_opened |= is_opened;
        } else if !self.is_full(path) {
            self.seen.facts.remove(path);
            let file = File { stamp, digest: None, is_changed: false, is_opened };
            self.seen.files.insert(path.to_owned(), file);
        }
        if is_untouched {
            // The file is already open for writing, so no call would report its change.
            self.keep_digest(path);
        }
    }

    /// The highest folder on the way to the path that the program itself has created.
    fn made_folder(&self, path: &Path) -> Option<PathBuf> {
        let folders = path.ancestors().skip(1);
        folders.filter(|folder| self.before.get(*folder) == Some(&Before::Absent)).last().map(Path::to_owned)
    }

    /// Records a query of a property of a path.
    pub(crate) fn fact(&mut self, path: &Path, fact: Fact) {
        if !self.is_own(path) {
            self.keep_fact(path, fact);
        } else if fact == Fact::Absent && !self.before.contains_key(path) {
            // Before the program created the folder, nothing existed below it, either.
            if let Some(folder) = self.made_folder(path) {
                let count = self.sought.entry(folder.clone()).or_default();
                *count += 1;
                let path = if *count > MAX_SOUGHT { &folder } else { path };
                self.keep_fact(path, Fact::Absent);
            }
        }
    }

    fn keep_fact(&mut self, path: &Path, fact: Fact) {
        // Python looks at each folder on the way to its own, which another machine has elsewhere.
        if fact == Fact::Folder && !self.is_inside(path) {
            return;
        }
        let is_known = self.seen.files.contains_key(path) || self.seen.facts.contains_key(path);
        if !is_known && !self.is_full(path) {
            self.seen.facts.insert(path.to_owned(), fact);
        }
    }

    /// Records the search for a path below a folder that does not exist. The folder may appear later without this path.
    pub(crate) fn sought(&mut self, folder: &Path, path: &Path) {
        let count = self.sought.entry(folder.to_owned()).or_default();
        *count += usize::from(!self.seen.facts.contains_key(path));
        let path = if *count > MAX_SOUGHT { folder } else { path };
        if self.interest(path) == Interest::All {
            self.fact(path, Fact::Absent);
        }
    }

    /// Records that a process is about to execute another program.
    pub(crate) fn executed(&mut self, process: u32) {
        self.starting.insert(process, Vec::new());
    }

    /// True for the path that an interpreter opens once it has started.
    pub(crate) fn is_start(&self, path: &Path) -> bool {
        self.options.started.as_deref() == Some(path)
    }

    /// Records that a process opens a path, which may be the path that shows the start of its interpreter.
    pub(crate) fn told(&mut self, process: u32, path: &Path) {
        if !self.is_start(path) {
            return;
        }
        for folder in self.starting.remove(&process).unwrap_or_default() {
            if let Some(entry) = self.seen.listed.get_mut(&folder) {
                entry.opens = entry.opens.saturating_sub(1);
                if entry.opens == 0 {
                    self.seen.listed.remove(&folder);
                }
            }
        }
    }

    /// Records that a process opens a folder.
    pub(crate) fn opened(&mut self, process: u32, folder: &Path) {
        if self.is_created(folder) {
            return;
        }
        self.seen.listed.entry(folder.to_owned()).or_default().opens += 1;
        // An interpreter lists fewer folders at its start.
        if let Some(folders) = self.starting.get_mut(&process).filter(|folders| folders.len() < MAX_PATHS) {
            folders.push(folder.to_owned());
        }
    }

    /// Records the listing of a folder.
    pub(crate) fn listed(&mut self, folder: &Path) {
        // If the program has created the folder, all its entries come from the program.
        if self.before.get(folder) == Some(&Before::Absent) {
            self.keep_fact(folder, Fact::Absent);
        }
        if self.is_created(folder) || self.seen.listed.get(folder).is_some_and(|entry| entry.names.is_some()) {
            return;
        }
        let Ok(entries) = self.options.layer.entries(folder) else { return };
        let names = entries.into_keys();
        let counts = |name: &OsString| {
            let path = folder.join(name);
            self.before.get(&path) != Some(&Before::Absent) && !self.options.skipped.contains(&path)
        };
        let names = names.filter(counts).collect();
        self.seen.listed.entry(folder.to_owned()).or_default().names = Some(names);
    }

    /// Records the state of a path that is about to be created, changed or removed.
    pub(crate) fn write(&mut self, path: &Path) {
        if self.before.contains_key(path) || self.is_full(path) {
            return;
        }
        let state = Before::of(&self.options.layer.at(path));
        if let (Before::File(stamp), Some(file)) = (&state, self.seen.files.get_mut(path)) {
            file.is_changed |= !file.stamp.has_content_of(*stamp);
            self.keep_digest(path);
        }
        self.before.insert(path.to_owned(), state);
    }

    fn keep_digest(&mut self, path: &Path) {
        let Some(file) = self.seen.files.get_mut(path).filter(|file| file.digest.is_none()) else { return };
        file.digest = if file.stamp.size <= MAX_DIGESTED_BYTES {
            (self.options.digest)(&self.options.layer.at(path)).ok()
        } else {
            None
        };
        if file.digest.is_none() {
            self.seen.lost.insert(path.to_owned());
        }
    }

    /// The whole observation, once the program has ended.
    pub(crate) fn finish(mut self) -> Seen {
        self.seen.lacks_shared = self.shared.lacks_some();
        // A call may have failed, and a temporary file is gone.
        for (path, earlier_state) in self.before {
            let is_same = match (&earlier_state, Before::of(&self.options.layer.at(&path))) {
                (Before::File(earlier_stamp), Before::File(stamp)) => earlier_stamp.has_content_of(stamp),
                (Before::Other, Before::Other) => false,
                (earlier_state, state) => *earlier_state == state,
            };
            if is_same {
                continue;
            }
            if earlier_state == Before::Absent {
                self.seen.made.insert(path.clone());
            }
            self.seen.written.insert(path);
        }
        self.seen
    }
}

pub(crate) fn since_1970(time: SystemTime) -> i64 {
    time.duration_since(UNIX_EPOCH).ok().and_then(|duration| i64::try_from(duration.as_nanos()).ok()).unwrap_or(0)
}
