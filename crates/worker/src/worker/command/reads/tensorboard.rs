//! Follows the event files of `TensorBoard` in a folder and its subfolders.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    fs::File,
    io::{self, BufReader, Read as _, Seek as _, SeekFrom},
    path::{Path, PathBuf},
};

use super::super::report::{Follower, Series};
use crate::format::event_file::{FOOTER, HEADER, content_length, is_whole, scalars};

/// Maximum length of a record, in bytes: a longer record is not a scalar, and is skipped.
const MAX_RECORD_LENGTH: u64 = 4 << 20;
/// Maximum numbers of event files of a folder, and of levels of subfolders.
const MAX_FILES: usize = 1000;
const MAX_LEVELS: usize = 8;
/// Bytes that one look reads of a file at most, so that other followers have their turn.
const MAX_AT_ONCE: u64 = 16 << 20;

/// Follower of a folder, or of one file.
pub(super) struct EventFiles {
    path: PathBuf,
    files: BTreeMap<PathBuf, EventFile>,
    /// The series with the files that have them.
    series: BTreeMap<String, PathBuf>,
    /// True if there are more files or levels of folders than are read.
    is_cut: bool,
}

/// A file that is being followed.
struct EventFile {
    /// Bytes that were read.
    offset: u64,
    /// Text before the names of its series.
    prefix: String,
    /// True if its framing is damaged: where the next record begins is unknown.
    damaged: bool,
}

impl EventFiles {
    pub(super) fn new(path: PathBuf) -> Self {
        Self { path, files: BTreeMap::new(), series: BTreeMap::new(), is_cut: false }
    }

    /// Finds new files. Links are not followed: they may lead in circles.
    fn find(&mut self, folder: &Path, level: usize) {
        let Ok(entries) = std::fs::read_dir(folder) else { return };
        for entry in entries.flatten() {
            let (path, Ok(kind)) = (entry.path(), entry.file_type()) else { continue };
            if kind.is_dir() && level < MAX_LEVELS {
                self.find(&path, level + 1);
            } else if kind.is_dir() {
                self.is_cut = true;
            } else if kind.is_file() && is_event_file(&path) && !self.files.contains_key(&path) {
                if self.files.len() < MAX_FILES {
                    self.add(path);
                } else {
                    self.is_cut = true;
                }
            }
        }
    }

    fn add(&mut self, path: PathBuf) {
        let relative_folder = path.parent().and_then(|folder| folder.strip_prefix(&self.path).ok());
        let names =
            relative_folder.into_iter().flat_map(Path::components).map(|name| name.as_os_str().to_string_lossy());
        let prefix: String = names.filter(|name| !is_of_a_run(name)).flat_map(|name| [name, "/".into()]).collect();
        if let Entry::Vacant(place) = self.files.entry(path) {
            place.insert(EventFile { offset: 0, prefix, damaged: false });
        }
    }

    /// Reads the new data; returns true if there may be more.
    fn look(&mut self, sink: &mut Series) -> io::Result<bool> {
        let path = self.path.clone();
        match std::fs::metadata(&path) {
            Ok(metadata) if metadata.is_file() => self.add(path),
            Ok(_) => self.find(&path, 0),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(error),
        }
        if self.is_cut {
            sink.once("files", || {
                format!(
                    "more event files than {MAX_FILES}, or below more than {MAX_LEVELS} levels of folders, are not read"
                )
            });
        }
        if self.files.iter().any(|(path, file)| file.is_shorter(path)) {
            sink.restart();
            self.series.clear();
            for file in self.files.values_mut() {
                (file.offset, file.damaged) = (0, false);
            }
        }
        let mut has_more = false;
        for (path, file) in &mut self.files {
            match file.read(path, &mut self.series, sink) {
                Ok(has_rest) => has_more |= has_rest,
                Err(error) => {
                    let display = path.display();
                    sink.once(&display.to_string(), || format!("`{display}` cannot be read: {error}"));
                }
            }
        }
        Ok(has_more)
    }
}

impl Follower for EventFiles {
    fn poll(&mut self, sink: &mut Series) -> io::Result<()> {
        self.look(sink).map(drop)
    }

    fn finish(&mut self, sink: &mut Series) -> io::Result<()> {
        while self.look(sink)? {}
        Ok(())
    }

    fn silence(&self, series: &Series) -> Vec<String> {
        let name = self.path.file_name().unwrap_or_default().to_string_lossy();
        let absence = match (self.path.exists(), self.files.is_empty()) {
            (false, _) => "was not written",
            (true, true) => "has no event file",
            (true, false) => "has no numbers",
        };
        let text = || format!("`{name}` of `reads: tensorboard` {absence}: no value of it");
        series.is_silent().then(text).into_iter().collect()
    }
}

impl EventFile {
    /// True if the file is shorter than the part that was read.
    fn is_shorter(&self, path: &Path) -> bool {
        std::fs::metadata(path).is_ok_and(|data| data.len() < self.offset)
    }

    /// Reads the complete records that were added; returns true if there may be more.
    fn read(&mut self, path: &Path, series: &mut BTreeMap<String, PathBuf>, sink: &mut Series) -> io::Result<bool> {
        let length = std::fs::metadata(path)?.len();
        if self.damaged || length < self.offset + (HEADER + FOOTER) as u64 {
            return Ok(false);
        }
        let mut file = BufReader::new(File::open(path)?);
        file.seek(SeekFrom::Start(self.offset))?;
        let end = self.offset.saturating_add(MAX_AT_ONCE);
        let mut content = Vec::new();
        while self.offset < end {
            let mut header = [0; HEADER];
            if length - self.offset < (HEADER + FOOTER) as u64 {
                return Ok(false);
            }
            file.read_exact(&mut header)?;
            let display = path.display();
            let Some(size) = content_length(header) else {
                self.damaged = true;
                let text = || format!("`{display}` is damaged from byte {}: the rest is not read", self.offset);
                sink.once(&display.to_string(), text);
                return Ok(false);
            };
            let Some(next_offset) =
                size.checked_add((HEADER + FOOTER) as u64).and_then(|size| size.checked_add(self.offset))
            else {
                self.damaged = true;
                return Ok(false);
            };
            if next_offset > length {
                // Its end is still to be written.
                return Ok(false);
            }
            if size > MAX_RECORD_LENGTH {
                file.seek(SeekFrom::Start(next_offset))?;
            } else {
                content.resize(usize::try_from(size).unwrap_or(0) + FOOTER, 0);
                file.read_exact(&mut content)?;
                let (event, footer) = content.split_at(content.len() - FOOTER);
                if is_whole(event, footer) {
                    self.pass_on(event, path, series, sink);
                } else {
                    sink.once(&format!("sum of {display}"), || {
                        format!("`{display}` has a damaged record, which is skipped")
                    });
                }
            }
            self.offset = next_offset;
        }
        Ok(true)
    }

    fn pass_on(&self, event: &[u8], path: &Path, series: &mut BTreeMap<String, PathBuf>, sink: &mut Series) {
        let (step, scalars) = scalars(event);
        for scalar in scalars {
            let name = format!("{}{}", self.prefix, scalar.tag);
            sink.point(step, &name, scalar.value, None);
            match series.get(&name) {
                Some(known_path) if known_path == path => {}
                Some(_) => sink.once(&format!("files of {name}"), || {
                    format!("`{name}` is in several event files: its points are put together")
                }),
                None => {
                    series.insert(name, path.to_owned());
                }
            }
        }
    }
}

/// True for the name of an event file.
pub(in super::super) fn is_event_file(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().contains("tfevents"))
}

/// Returns true if the name of a folder only identifies a run by a version or a date, like `version_0` or
/// `Nov22_11-04-07_host`. Names like `train` and `validation` identify the data of a measurement.
fn is_of_a_run(name: &str) -> bool {
    let version = name.strip_prefix("version_").is_some_and(|number| number.chars().all(|char| char.is_ascii_digit()));
    version || name.chars().filter(char::is_ascii_digit).count() >= 4
}
