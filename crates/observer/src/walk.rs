//! The way from a path to a file, link by link, as the kernel goes it.

use std::{
    collections::{HashMap, VecDeque},
    ffi::{OsStr, OsString},
    fs::{self, Metadata},
    io,
    path::{Component, Path, PathBuf},
};

/// Maximum number of links in a path, as in the kernel.
const MAX_LINKS: usize = 40;
/// The folder of processes, with links to the open files of each.
const PROCESSES: &str = "/proc";

/// The end of a way.
#[derive(Debug)]
pub(crate) struct Place {
    /// The path without links: the path of the existing file, or of the first name that does not exist.
    pub(crate) path: PathBuf,
    pub(crate) state: State,
    /// The links on the way, with their targets.
    pub(crate) links: Vec<(PathBuf, PathBuf)>,
}

impl Place {
    /// True if the path may lead elsewhere later although no file is changed.
    pub(crate) fn is_fleeting(&self) -> bool {
        self.links.iter().any(|(link, _)| link.starts_with(PROCESSES))
    }
}

/// The state of a path.
#[derive(Debug)]
pub(crate) enum State {
    Absent,
    /// Neither the path nor the given path below it, which the program names, exists.
    Incomplete(PathBuf),
    File(Metadata),
    Folder,
    /// A link that was not to be followed.
    Link(PathBuf),
    /// A device, a pipe or a socket, or a path whose state cannot be read.
    Other,
}

/// A remembered component of a path: a folder or a link.
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
    /// Forgets a path that is about to change, and all paths if others lead through it.
    pub(crate) fn forget(&mut self, path: &Path) {
        if self.known.remove(path).is_some() {
            self.known.clear();
        }
    }

    /// Follows an absolute path to its end. `follows` is false if a link at the end is the end; `look` gives the state of a
    /// path that is not remembered.
    pub(crate) fn walk(&mut self, path: &Path, follows: bool, look: &dyn Fn(&Path) -> State) -> Place {
        let mut components: VecDeque<OsString> = names(path).collect();
        let wants_folder = path.as_os_str().as_encoded_bytes().ends_with(b"/");
        let mut place = PathBuf::from("/");
        let mut links: Vec<(PathBuf, PathBuf)> = Vec::new();
        while let Some(name) = components.pop_front() {
            if name == ".." {
                place.pop();
                continue;
            }
            place.push(&name);
            let is_last = components.is_empty();
            let step = match self.known.get(&place) {
                Some(step) => step.clone(),
                None => match look(&place) {
                    State::Folder => {
                        self.known.insert(place.clone(), Step::Folder);
                        Step::Folder
                    }
                    State::Link(target) => {
                        // The last name is examined each time, because it may be replaced. So are the links of processes,
                        // which lead elsewhere with each folder that a process enters and each file that it opens.
                        if !is_last && !place.starts_with(PROCESSES) {
                            self.known.insert(place.clone(), Step::Link(target.clone()));
                        }
                        Step::Link(target)
                    }
                    State::Absent if !is_last => {
                        // Behind `..` the rest of the path is not a place below this one.
                        let is_below = components.iter().all(|name| name != "..");
                        let full_path = if is_below {
                            place.join(components.into_iter().collect::<PathBuf>())
                        } else {
                            place.clone()
                        };
                        return Place { path: place, state: State::Incomplete(full_path), links };
                    }
                    state => return Place { path: place, state, links },
                },
            };
            match step {
                Step::Folder if is_last => return Place { path: place, state: State::Folder, links },
                Step::Folder => {}
                Step::Link(target) if is_last && !follows && !wants_folder => {
                    return Place { path: place, state: State::Link(target), links };
                }
                Step::Link(target) => {
                    if links.len() == MAX_LINKS {
                        return Place { path: place, state: State::Other, links };
                    }
                    links.push((place.clone(), target.clone()));
                    if target.is_absolute() {
                        place = PathBuf::from("/");
                    } else {
                        place.pop();
                    }
                    for name in names(&target).collect::<Vec<_>>().into_iter().rev() {
                        components.push_front(name);
                    }
                }
            }
        }
        Place { path: place, state: State::Folder, links }
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
