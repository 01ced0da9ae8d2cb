//! The way from a path to a file, link by link, as the kernel goes it.

use std::{
    collections::{HashMap, VecDeque},
    ffi::{OsStr, OsString},
    fs::{self, Metadata},
    io,
    path::{Component, Path, PathBuf},
};

/// Most links on one way, as in the kernel.
const MOST_LINKS: usize = 40;

/// The end of a way.
#[derive(Debug)]
pub(crate) struct Place {
    /// The path without links: of what is there, or of the first name that does not exist.
    pub(crate) path: PathBuf,
    pub(crate) state: State,
    /// The links on the way, with their targets.
    pub(crate) links: Vec<(PathBuf, PathBuf)>,
}

/// The state of a path.
#[derive(Debug)]
pub(crate) enum State {
    Absent,
    /// It and a name that the program wants in it do not exist: only the first is a fact.
    Incomplete,
    File(Metadata),
    Folder,
    /// A link that was not to be followed.
    Link(PathBuf),
    /// A device, a pipe or a socket, or a path that cannot be looked at.
    Other,
}

/// What is known of a path that others lead through.
#[derive(Debug, Clone)]
enum Step {
    Folder,
    Link(PathBuf),
}

/// Follows paths, and remembers the folders and links on the ways.
#[derive(Debug, Default)]
pub(crate) struct Walker {
    known: HashMap<PathBuf, Step>,
}

impl Walker {
    /// Forgets a path that is about to change, and all of them if it is one that others lead through.
    pub(crate) fn forget(&mut self, path: &Path) {
        if self.known.remove(path).is_some() {
            self.known.clear();
        }
    }

    /// Follows an absolute path to its end. `follows` is false if a link at the end is the end.
    pub(crate) fn walk(&mut self, path: &Path, follows: bool) -> Place {
        let mut open: VecDeque<OsString> = names(path).collect();
        let wants_folder = path.as_os_str().as_encoded_bytes().ends_with(b"/");
        let mut at = PathBuf::from("/");
        let mut links: Vec<(PathBuf, PathBuf)> = Vec::new();
        while let Some(name) = open.pop_front() {
            if name == ".." {
                at.pop();
                continue;
            }
            at.push(&name);
            let is_last = open.is_empty();
            let step = match self.known.get(&at) {
                Some(step) => step.clone(),
                None => match look(&at) {
                    State::Folder => {
                        self.known.insert(at.clone(), Step::Folder);
                        Step::Folder
                    }
                    State::Link(target) => {
                        // The last name is looked at each time: it may be made anew.
                        if !is_last {
                            self.known.insert(at.clone(), Step::Link(target.clone()));
                        }
                        Step::Link(target)
                    }
                    State::Absent if !is_last => return Place { path: at, state: State::Incomplete, links },
                    state => return Place { path: at, state, links },
                },
            };
            match step {
                Step::Folder if is_last => return Place { path: at, state: State::Folder, links },
                Step::Folder => {}
                Step::Link(target) if is_last && !follows && !wants_folder => {
                    return Place { path: at, state: State::Link(target), links };
                }
                Step::Link(target) => {
                    if links.len() == MOST_LINKS {
                        return Place { path: at, state: State::Other, links };
                    }
                    links.push((at.clone(), target.clone()));
                    if target.is_absolute() {
                        at = PathBuf::from("/");
                    } else {
                        at.pop();
                    }
                    for name in names(&target).collect::<Vec<_>>().into_iter().rev() {
                        open.push_front(name);
                    }
                }
            }
        }
        Place { path: at, state: State::Folder, links }
    }
}

/// The names of a path, without the root and without `.`.
fn names(path: &Path) -> impl Iterator<Item = OsString> {
    path.components().filter_map(|component| match component {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some(OsStr::new("..").to_owned()),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    })
}

/// The state of a path, without following it.
pub(crate) fn look(path: &Path) -> State {
    match fs::symlink_metadata(path) {
        Ok(metadata) if metadata.is_dir() => State::Folder,
        Ok(metadata) if metadata.is_file() => State::File(metadata),
        Ok(metadata) if metadata.is_symlink() => match fs::read_link(path) {
            Ok(target) => State::Link(target),
            Err(_) => State::Other,
        },
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => State::Absent,
        Ok(_) | Err(_) => State::Other,
    }
}
