//! Files in the results folder for a batch system by command templates: the tags of jobs, where the system cannot show
//! them, and the templates, so that other commands can query the jobs of a run.

use std::{
    collections::{BTreeMap, HashSet},
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use fs_err as fs;
use serde::{Deserialize, Serialize};

use crate::{
    host::replaced::{Outlives, Readers, replace},
    recipe::executor::batch::CommandTemplates,
    run::cluster::BatchId,
};

/// Size above which the file of tags is written anew, in bytes.
const LARGE: u64 = 4 << 20;

/// The folder with both files.
#[derive(Debug, Clone)]
pub(super) struct Kept(PathBuf);

/// A line of the file of tags.
#[derive(Serialize, Deserialize)]
struct Line {
    id: BatchId,
    tag: String,
}

impl Kept {
    pub(super) fn new(results: &Path) -> Self {
        Self(results.join("batch"))
    }

    fn tags_file(&self) -> PathBuf {
        self.0.join("jobs.jsonl")
    }

    fn templates_file(&self) -> PathBuf {
        self.0.join("templates.json")
    }

    /// The templates of the latest run.
    pub(super) fn templates(&self) -> Option<CommandTemplates> {
        serde_json::from_slice(&fs::read(self.templates_file()).ok()?).ok()
    }

    /// Keeps the templates of a run.
    pub(super) fn keep_templates(&self, templates: &CommandTemplates) -> io::Result<()> {
        if self.templates().as_ref() == Some(templates) {
            return Ok(());
        }
        fs::create_dir_all(&self.0)?;
        replace(&self.templates_file(), &serde_json::to_vec(templates)?, Readers::Owner, Outlives::Machine)
    }

    /// The tags of submitted jobs. A line that a crash has cut is left out.
    pub(super) fn tags(&self) -> io::Result<BTreeMap<String, String>> {
        let text = match fs::read_to_string(self.tags_file()) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(BTreeMap::new()),
            text => text?,
        };
        let lines = text.lines().filter_map(|line| serde_json::from_str::<Line>(line).ok());
        Ok(lines.map(|line| (line.id.to_string(), line.tag)).collect())
    }

    /// Adds a submitted job. The caller must hold the lock for submissions.
    pub(super) fn add(&self, id: &BatchId, tag: &str) -> io::Result<()> {
        fs::create_dir_all(&self.0)?;
        let mut file = fs::OpenOptions::new().create(true).append(true).open(self.tags_file())?;
        // A new line first, because a crash may have cut the last one.
        let line = serde_json::to_string(&Line { id: id.clone(), tag: tag.to_owned() })?;
        file.write_all(format!("\n{line}").as_bytes())?;
        file.sync_data()
    }

    /// Removes the jobs that are not in `known`, if the file has become large.
    pub(super) fn shrink(&self, known: &HashSet<String>) -> io::Result<()> {
        if fs::metadata(self.tags_file()).is_ok_and(|file| file.len() < LARGE) {
            return Ok(());
        }
        let mut text = String::new();
        for (id, tag) in self.tags()?.into_iter().filter(|(id, _)| known.contains(id)) {
            text += &serde_json::to_string(&Line { id: BatchId::from(id), tag })?;
            text.push('\n');
        }
        replace(&self.tags_file(), text.as_bytes(), Readers::Owner, Outlives::Machine)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_outlive_a_cut_line() {
        let folder = tempfile::tempdir().unwrap();
        let ids = Kept::new(folder.path());
        assert!(ids.tags().unwrap().is_empty());
        ids.add(&BatchId::from(7), "run|key|1").unwrap();
        let mut file = fs::OpenOptions::new().append(true).open(ids.tags_file()).unwrap();
        file.write_all(b"\n{\"id\":8,\"ta").unwrap();
        ids.add(&BatchId::from("9.server".to_owned()), "run|other|1").unwrap();
        let tags = ids.tags().unwrap();
        assert_eq!(tags.keys().collect::<Vec<_>>(), ["7", "9.server"]);
        let templates = CommandTemplates { system: "x".into(), ..CommandTemplates::default() };
        assert_eq!(ids.templates(), None);
        ids.keep_templates(&templates).unwrap();
        assert_eq!(ids.templates(), Some(templates));
    }
}
