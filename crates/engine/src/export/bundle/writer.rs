//! The archive of a bundle while it is written.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::{self, Write},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use fs_err as fs;
use tar::{Builder, EntryType, Header};

use super::{AllNeeded, BundledJob, Places, Sum, TOP, limits};
use crate::{plan::Digests, record::Key, run::RunFolder};

/// Maximum number of runs that are read for the reason why a job has no result.
const MAX_RUNS: usize = 20;

/// Writes an archive and remembers its files.
pub(super) struct Writer<'a, W: Write> {
    pub(super) archive: Builder<W>,
    pub(super) files: BTreeMap<String, Sum>,
    pub(super) places: &'a Places,
}

impl<W: Write> Writer<'_, W> {
    pub(super) fn add(&mut self, name: &str, content: &[u8]) -> io::Result<()> {
        self.add_with_mode(name, content, 0o644)
    }

    /// Adds a file, unless the archive already contains it.
    fn add_with_mode(&mut self, name: &str, content: &[u8], mode: u32) -> io::Result<()> {
        if self.files.contains_key(name) {
            return Ok(());
        }
        let mut header = Header::new_gnu();
        header.set_entry_type(EntryType::Regular);
        header.set_size(content.len() as u64);
        header.set_mode(mode);
        header.set_mtime(0);
        self.archive.append_data(&mut header, format!("{TOP}/{name}"), content)?;
        self.files.insert(name.to_owned(), Sum::of(content));
        Ok(())
    }

    /// Adds the files that jobs read, up to a total of `limit` bytes, and returns the files that are left out.
    pub(super) fn needed(
        &mut self,
        needed: &AllNeeded,
        digests: &mut Digests,
        limit: u64,
    ) -> io::Result<BTreeMap<PathBuf, u64>> {
        let mut left_out_files = BTreeMap::new();
        let mut total = 0;
        for needed in needed.iter() {
            let place = &needed.place;
            let files = needed.files(digests).unwrap_or_default();
            let sizes: Vec<u64> = files.iter().filter_map(|(path, _)| Some(fs::metadata(path).ok()?.len())).collect();
            let bytes: u64 = sizes.iter().sum();
            // A file that was removed after planning is left out, too.
            let fits =
                u64::saturating_add(total, bytes) <= limit && !sizes.iter().any(|size| *size > limits::MAX_FILE_BYTES);
            if !fits || files.is_empty() || sizes.len() < files.len() {
                left_out_files.insert(place.clone(), bytes);
                continue;
            }
            total += bytes;
            for (path, inner) in files {
                let is_executable = fs::metadata(&path)?.permissions().mode() & 0o100 != 0;
                let place = if inner.as_os_str().is_empty() { place.clone() } else { place.join(inner) };
                self.add_with_mode(
                    &self.places.name(&place),
                    &fs::read(&path)?,
                    if is_executable { 0o755 } else { 0o644 },
                )?;
            }
        }
        Ok(left_out_files)
    }

    /// Adds a file without paths of this machine, if it is a text.
    fn add_without_paths(&mut self, name: &str, content: Vec<u8>) -> io::Result<()> {
        match String::from_utf8(content) {
            Ok(text) => self.add(name, self.places.without_paths(&text).as_bytes()),
            Err(error) => self.add(name, error.as_bytes()),
        }
    }

    /// Adds the files below a folder, in the order of their names.
    pub(super) fn folder(&mut self, source: &Path, target: &Path) -> io::Result<()> {
        let mut entries: Vec<PathBuf> =
            fs::read_dir(source)?.map(|entry| Ok(entry?.path())).collect::<io::Result<_>>()?;
        entries.sort_unstable();
        for path in entries {
            let Some(name) = path.file_name() else { continue };
            if path.is_dir() {
                self.folder(&path, &target.join(name))?;
            } else {
                self.add_without_paths(&target.join(name).display().to_string(), fs::read(&path)?)?;
            }
        }
        Ok(())
    }

    /// Adds the reasons of the latest runs for jobs without results, which tables show.
    pub(super) fn runs(&mut self, results: &Path, jobs: &[BundledJob]) -> io::Result<()> {
        let open_keys: BTreeSet<Key> = jobs.iter().filter(|job| !job.done).map(|job| job.key).collect();
        for run in RunFolder::all(results).iter().rev().take(MAX_RUNS) {
            let events = run.events().unwrap_or_default();
            if events.iter().any(|line| line.key.is_some_and(|key| open_keys.contains(&key))) {
                for name in ["plan.json", "journal.jsonl"] {
                    self.add_without_paths(&format!("runs/{}/{name}", run.name()), fs::read(run.path().join(name))?)?;
                }
            }
        }
        Ok(())
    }
}
