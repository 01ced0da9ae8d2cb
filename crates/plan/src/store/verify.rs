//! Verification of records: each is compared with its digests.

use std::{collections::HashMap, io};

use fs_err as fs;
use serde::Serialize;
use sweep_job::{TaskSpec, tasks::Command};

use super::{Origin, Record, Store, origin::ORIGIN};
use crate::plan::Manifests;
use crate::record;
use crate::record::{Key, Line, Manifest};

/// The list of manifests.
struct Lists {
    manifests: Manifests,
    /// True if every line has a digest, and none can be lost.
    is_sealed: bool,
    /// Lines of earlier versions, by the keys of their records.
    by_record: HashMap<Key, Vec<Manifest>>,
}

/// Result of a verification.
#[derive(Debug, Default, PartialEq, Serialize)]
pub struct Verified {
    /// Records in all.
    pub records: usize,
    /// Files whose digests are right.
    pub files: usize,
    /// Records with files without digests.
    pub without_digests: usize,
    /// Records that do not contain their digest.
    pub unsealed: usize,
    /// Records of programs that name no list of read files, in a store whose list does not show missing lines.
    pub unlisted: usize,
    /// Defects.
    pub defects: Vec<Defect>,
    /// Defects of the list of manifests, each as a sentence.
    pub damaged_lines: Vec<String>,
}

/// A record that differs from its digests.
#[derive(Debug, PartialEq, Serialize)]
pub struct Defect {
    /// The record's key.
    pub key: Key,
    /// The defect, as a phrase.
    pub reason: String,
}

impl Store {
    /// Computes all keys and digests again and compares.
    pub fn verify(&self) -> io::Result<Verified> {
        let mut report = Verified::default();
        let mut lists = self.verify_list(&mut report.damaged_lines)?;
        for key in self.keys()? {
            report.records += 1;
            match self.verify_one(key, &mut lists, &mut report) {
                Ok(reasons) => report.defects.extend(reasons.into_iter().map(|reason| Defect { key, reason })),
                Err(error) => report.defects.push(Defect { key, reason: error.to_string() }),
            }
        }
        Ok(report)
    }

    /// Reads the list of manifests line by line.
    fn verify_list(&self, damaged_lines: &mut Vec<String>) -> io::Result<Lists> {
        let path = self.manifest_list();
        let text = match fs::read(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            text => text?,
        };
        // Sets without a list show that one was lost.
        let is_sealed = !text.is_empty() || !self.sets().is_dir();
        let mut lists = Lists { manifests: self.listed_manifests(), is_sealed, by_record: HashMap::new() };
        for (number, line) in text.split(|byte| *byte == b'\n').enumerate().filter(|(_, line)| !line.is_empty()) {
            match Line::parse(line) {
                Line::Sealed(_) => {}
                Line::Unsealed(manifest) => {
                    lists.is_sealed = false;
                    lists.by_record.entry(manifest.record).or_default().push(manifest);
                }
                Line::Damaged => damaged_lines.push(format!(
                    "{}:{}: the line is damaged; `sweep cache gc` removes it",
                    path.display(),
                    number + 1
                )),
            }
        }
        Ok(lists)
    }

    /// Checks the list of the files that the program of a record read.
    fn verify_read(record: &Record, lists: &mut Lists, report: &mut Verified) -> Vec<String> {
        let manifests = lists.by_record.remove(&record.key).unwrap_or_default();
        let base = record.identity.base_key().ok();
        let is_of_it = |manifest: &Manifest| Some(manifest.base) == base && manifest.code == record.identity.code;
        let mut reasons = Vec::new();
        if manifests.iter().any(|manifest| !is_of_it(manifest)) {
            reasons.push("its line in the list of manifests is that of another job".to_owned());
        }
        let latest_set = manifests.last().map(|manifest| &manifest.set);
        if let Some(set) = &record.read
            && !lists.manifests.lists(record.key, set)
        {
            let remedy = "`sweep plan` writes it again from the record";
            reasons.push(format!("its line in the list of manifests is missing or damaged; {remedy}"));
        }
        if record.read.as_ref().or(latest_set).is_some_and(|set| !lists.manifests.has_set(set)) {
            reasons.push(
                "the list of the files that its program read is missing or damaged, so its job runs again".to_owned(),
            );
        }
        let is_program = record.identity.task == <Command as TaskSpec>::NAME;
        report.unlisted += usize::from(is_program && record.read.is_none() && latest_set.is_none() && !lists.is_sealed);
        reasons
    }

    fn verify_one(&self, key: Key, lists: &mut Lists, report: &mut Verified) -> io::Result<Vec<String>> {
        let text = match self.text(key) {
            Ok(Some(text)) => text,
            Ok(None) if self.condemned(key).exists() => {
                return Ok(vec!["its record was taken back, because its files were damaged or its times disturbed; its job will run again".into()]);
            }
            Ok(None) => return Ok(vec!["it has no record.json".into()]),
            Err(error) => return Ok(vec![error.to_string()]),
        };
        let record = match Record::parse(&text, &self.record_file(key), key) {
            Ok(record) => record,
            Err(error) => return Ok(vec![error.to_string()]),
        };
        report.unsealed += usize::from(!Record::has_digest(&text));
        let mut reasons: Vec<String> = wrong_key(&record).into_iter().collect();
        reasons.extend(Self::verify_read(&record, lists, report));
        if let Err(error) = Origin::read(&self.folder(key)) {
            reasons.push(format!("{ORIGIN} cannot be read: {error}"));
        }
        let files = self.files(key);
        let actual_files = if files.is_dir() { record::of_folder(&files)? } else { std::collections::BTreeMap::new() };
        if record.files.is_empty() && !actual_files.is_empty() {
            report.without_digests += 1;
            return Ok(reasons);
        }
        for (name, expected) in &record.files {
            match actual_files.get(name) {
                None => reasons.push(format!("the file {name} is missing")),
                Some(actual) if actual == expected => report.files += 1,
                Some(actual) => reasons.push(format!("the file {name} was {expected} and is {actual}")),
            }
        }
        reasons.extend(
            actual_files
                .keys()
                .filter(|name| !record.files.contains_key(*name))
                .map(|name| format!("the file {name} does not belong to the record")),
        );
        Ok(reasons)
    }
}

/// Description of a record that does not match its key; `None` if it matches.
pub fn wrong_key(record: &Record) -> Option<String> {
    match record.identity.key() {
        Ok(key) if key == record.key => None,
        Ok(key) => Some(format!("its identity has the key {}", key.short())),
        Err(error) => Some(format!("its identity has no key: {error}")),
    }
}
