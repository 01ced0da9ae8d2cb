//! A model of a disk: the changes of each operation, and whether a power failure can undo them.
//!
//! The strict model of crash consistency (as in ALICE, Pillai et al. 2014): data of a file are on the disk once the file was synced, names
//! once their folder was; other changes may be on the disk completely, in part, in any order, or not at all. A rename is one change of one
//! or two folders.

use std::{
    collections::{BTreeMap, HashMap},
    ffi::{OsStr, OsString},
    io,
    path::{Component, Path, PathBuf},
    time::SystemTime,
};

use fs_err as fs;
use sweep_base::host::files::{File, Operation, set_times};

use crate::random::Random;

/// Number of a file or a folder.
type Node = usize;

/// The folder in which everything happens.
const ROOT: Node = 0;

#[derive(Debug, Clone)]
enum Change {
    Data { node: Node, at: u64, bytes: Vec<u8> },
    Length { node: Node, length: u64 },
    Name { folder: Node, name: OsString, node: Option<Node> },
}

/// The changes of one operation.
#[derive(Debug)]
struct Step {
    changes: Vec<Change>,
    is_durable: bool,
}

#[derive(Debug, Default)]
struct State {
    /// The names in a folder; `None` for a file.
    names: Option<BTreeMap<OsString, Node>>,
    /// Steps that a power failure can undo.
    pending: Vec<usize>,
    touched: Option<SystemTime>,
}

/// The disk.
#[derive(Debug)]
pub(crate) struct Disk {
    root: PathBuf,
    nodes: Vec<State>,
    steps: Vec<Step>,
    handles: HashMap<u64, Node>,
}

/// The part of unsynced changes that a power failure leaves.
#[derive(Debug, Clone, Copy)]
enum Left {
    Nothing,
    Everything,
    Half,
    Beginning(usize),
    AllBut(usize),
    Only(usize),
}

impl Disk {
    /// A disk with an empty folder.
    pub(crate) fn new(root: &Path) -> Self {
        let folder = State { names: Some(BTreeMap::new()), ..State::default() };
        Self { root: root.to_owned(), nodes: vec![folder], steps: Vec::new(), handles: HashMap::new() }
    }

    fn node(&self, path: &Path) -> Option<Node> {
        let mut node = ROOT;
        for part in path.strip_prefix(&self.root).ok()?.components() {
            let Component::Normal(name) = part else { return None };
            node = *self.nodes[node].names.as_ref()?.get(name)?;
        }
        Some(node)
    }

    fn place<'p>(&self, path: &'p Path) -> Option<(Node, &'p OsStr)> {
        Some((self.node(path.parent()?)?, path.file_name()?))
    }

    fn step(&mut self, changes: Vec<Change>) {
        let number = self.steps.len();
        for change in &changes {
            match change {
                Change::Data { node, .. } | Change::Length { node, .. } => self.nodes[*node].pending.push(number),
                Change::Name { folder, name, node } => {
                    self.nodes[*folder].pending.push(number);
                    let names = self.nodes[*folder].names.get_or_insert_default();
                    match node {
                        Some(node) => names.insert(name.clone(), *node),
                        None => names.remove(name),
                    };
                }
            }
        }
        self.steps.push(Step { changes, is_durable: false });
    }

    fn make(&mut self, path: &Path, state: State) -> Option<Node> {
        let (folder, name) = self.place(path)?;
        self.nodes.push(state);
        let node = self.nodes.len() - 1;
        self.step(vec![Change::Name { folder, name: name.to_owned(), node: Some(node) }]);
        Some(node)
    }

    /// Notes an operation that has taken place, at a time.
    pub(crate) fn note(&mut self, operation: &Operation<'_>, now: SystemTime) {
        match *operation {
            Operation::Look(_) | Operation::Lock(_) => {}
            Operation::Open { path, handle, creates, truncates } => {
                let found = self.node(path);
                let Some(node) = found.or_else(|| creates.then(|| self.make(path, State::default()))?) else { return };
                if found.is_none() {
                    self.nodes[node].touched = Some(now);
                } else if truncates {
                    self.step(vec![Change::Length { node, length: 0 }]);
                }
                self.handles.insert(handle, node);
            }
            Operation::Write { handle, at, bytes } => {
                let Some(node) = self.handles.get(&handle).copied() else { return };
                self.step(vec![Change::Data { node, at, bytes: bytes.to_owned() }]);
            }
            Operation::SetLength { handle, length } => {
                let Some(node) = self.handles.get(&handle).copied() else { return };
                self.step(vec![Change::Length { node, length }]);
            }
            Operation::Sync(handle) => {
                if let Some(node) = self.handles.get(&handle).copied() {
                    self.sync(node);
                }
            }
            Operation::SyncAll => (0..self.nodes.len()).for_each(|node| self.sync(node)),
            Operation::Rename { from, to } => {
                let (Some(node), Some((old, old_name)), Some((new, new_name))) =
                    (self.node(from), self.place(from), self.place(to))
                else {
                    return;
                };
                let old_name = Change::Name { folder: old, name: old_name.to_owned(), node: None };
                let new_name = Change::Name { folder: new, name: new_name.to_owned(), node: Some(node) };
                self.step(vec![old_name, new_name]);
            }
            Operation::Link { from, to } => {
                let (Some(node), Some((folder, name))) = (self.node(from), self.place(to)) else { return };
                self.step(vec![Change::Name { folder, name: name.to_owned(), node: Some(node) }]);
            }
            Operation::Remove(path) | Operation::RemoveFolder(path) => {
                let Some((folder, name)) = self.place(path) else { return };
                self.step(vec![Change::Name { folder, name: name.to_owned(), node: None }]);
            }
            Operation::MakeFolder(path) => {
                self.make(path, State { names: Some(BTreeMap::new()), ..State::default() });
            }
            Operation::Touch(handle) => {
                if let Some(node) = self.handles.get(&handle) {
                    self.nodes[*node].touched = Some(now);
                }
            }
        }
    }

    /// Path of an open file, as it is now; for messages and for the choice of a planted bug.
    pub(crate) fn path(&self, handle: u64) -> Option<PathBuf> {
        let node = *self.handles.get(&handle)?;
        // Joined with the empty path of the file itself, its own path ends with a slash.
        self.below(ROOT, node).map(|path| self.root.join(path).components().collect())
    }

    fn below(&self, folder: Node, wanted: Node) -> Option<PathBuf> {
        if folder == wanted {
            return Some(PathBuf::new());
        }
        let names = self.nodes[folder].names.as_ref()?;
        names.iter().find_map(|(name, node)| Some(Path::new(name).join(self.below(*node, wanted)?)))
    }

    fn sync(&mut self, node: Node) {
        for step in std::mem::take(&mut self.nodes[node].pending) {
            self.steps[step].is_durable = true;
        }
    }

    /// Everything that a handle's file or folder has is on the disk from now on.
    pub(crate) fn sync_handle(&mut self, handle: u64) {
        if let Some(node) = self.handles.get(&handle).copied() {
            self.sync(node);
        }
    }

    /// Makes a state that a power failure leaves, in the empty folder `to`.
    pub(crate) fn fail(&self, to: &Path, random: &mut Random) -> io::Result<()> {
        let count = self.steps.iter().filter(|step| !step.is_durable).count();
        let one = random.below(count.max(1));
        let left = match random.below(8) {
            0 => Left::Nothing,
            1 => Left::Everything,
            2 | 3 => Left::Half,
            4 => Left::Beginning(one),
            5 | 6 => Left::AllBut(one),
            _ => Left::Only(one),
        };
        let mut content: Vec<Vec<u8>> = vec![Vec::new(); self.nodes.len()];
        let mut names: Vec<BTreeMap<&OsStr, Node>> = vec![BTreeMap::new(); self.nodes.len()];
        let mut number = 0;
        for step in &self.steps {
            let mut is_torn = false;
            if !step.is_durable {
                let is_left = match left {
                    Left::Nothing => false,
                    Left::Everything => true,
                    Left::Half => random.below(2) == 0,
                    Left::Beginning(end) => number < end,
                    Left::AllBut(lost) => number != lost,
                    Left::Only(left) => number == left,
                };
                number += 1;
                if !is_left {
                    continue;
                }
                is_torn = random.below(4) == 0;
            }
            for change in &step.changes {
                match change {
                    Change::Data { node, at, bytes } => {
                        let (content, at) = (&mut content[*node], usize::try_from(*at).unwrap_or(usize::MAX));
                        content.resize(content.len().max(at + bytes.len()), 0);
                        // A torn write has the length of the whole one, and zeros at its end.
                        let written = if is_torn { random.below(bytes.len() + 1) } else { bytes.len() };
                        content[at..at + written].copy_from_slice(&bytes[..written]);
                    }
                    Change::Length { node, length } => {
                        content[*node].resize(usize::try_from(*length).unwrap_or(usize::MAX), 0);
                    }
                    Change::Name { folder, name, node: Some(node) } => {
                        names[*folder].insert(name, *node);
                    }
                    Change::Name { folder, name, node: None } => {
                        names[*folder].remove(name.as_os_str());
                    }
                }
            }
        }
        self.build(ROOT, to, &content, &names, &mut HashMap::new())
    }

    fn build(
        &self,
        folder: Node,
        to: &Path,
        content: &[Vec<u8>],
        names: &[BTreeMap<&OsStr, Node>],
        built: &mut HashMap<Node, PathBuf>,
    ) -> io::Result<()> {
        for (name, node) in &names[folder] {
            let path = to.join(name);
            if let Some(first) = built.get(node) {
                // A folder has one name; an unsynced rename may have left both.
                if self.nodes[*node].names.is_none() {
                    fs::hard_link(first, &path)?;
                }
                continue;
            }
            built.insert(*node, path.clone());
            if self.nodes[*node].names.is_some() {
                fs::create_dir(&path)?;
                self.build(*node, &path, content, names, built)?;
            } else {
                fs::write(&path, &content[*node])?;
                if let Some(touched) = self.nodes[*node].touched {
                    set_times(&File::open(&path)?, Some(touched))?;
                }
            }
        }
        Ok(())
    }
}
