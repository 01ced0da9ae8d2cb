//! Verification of records: each is compared with what was written.

use std::io;

use super::{Origin, Record, Store, origin::ORIGIN};
use crate::record;
use crate::record::Key;

/// Result of a verification.
#[derive(Debug, Default, PartialEq)]
pub struct Verified {
    /// Records in all.
    pub records: usize,
    /// Files whose digests are right.
    pub files: usize,
    /// Records with files without digests.
    pub without_digests: usize,
    /// Records that bear no digest of their own.
    pub unsealed: usize,
    /// Defects.
    pub defects: Vec<Defect>,
}

/// A record that is not what was written.
#[derive(Debug, PartialEq)]
pub struct Defect {
    /// Its key.
    pub key: Key,
    /// The defect, as a phrase.
    pub reason: String,
}

impl Store {
    /// Computes all keys and digests again and compares.
    pub fn verify(&self) -> io::Result<Verified> {
        let mut verified = Verified::default();
        for key in self.keys()? {
            verified.records += 1;
            match self.verify_one(key, &mut verified) {
                Ok(reasons) => verified.defects.extend(reasons.into_iter().map(|reason| Defect { key, reason })),
                Err(error) => verified.defects.push(Defect { key, reason: error.to_string() }),
            }
        }
        Ok(verified)
    }

    fn verify_one(&self, key: Key, verified: &mut Verified) -> io::Result<Vec<String>> {
        let text = match self.text(key) {
            Ok(Some(text)) => text,
            Ok(None) if self.condemned(key).exists() => {
                return Ok(vec!["its record was taken back, because its files were damaged or its times disturbed; its job will run again".into()]);
            }
            Ok(None) => return Ok(vec!["it has no record.json".into()]),
            Err(error) => return Ok(vec![error.to_string()]),
        };
        let record = match Record::parse(&text, &self.record(key), key) {
            Ok(record) => record,
            Err(error) => return Ok(vec![error.to_string()]),
        };
        verified.unsealed += usize::from(!Record::has_digest(&text));
        let mut reasons: Vec<String> = wrong_key(&record).into_iter().collect();
        if let Err(error) = Origin::read(&self.folder(key)) {
            reasons.push(format!("{ORIGIN} cannot be read: {error}"));
        }
        let files = self.files(key);
        let found = if files.is_dir() { record::of_folder(&files)? } else { std::collections::BTreeMap::new() };
        if record.files.is_empty() && !found.is_empty() {
            verified.without_digests += 1;
            return Ok(reasons);
        }
        for (name, written) in &record.files {
            match found.get(name) {
                None => reasons.push(format!("the file {name} is missing")),
                Some(now) if now == written => verified.files += 1,
                Some(now) => reasons.push(format!("the file {name} was {written} and is {now}")),
            }
        }
        reasons.extend(
            found
                .keys()
                .filter(|name| !record.files.contains_key(*name))
                .map(|name| format!("the file {name} does not belong to the record")),
        );
        Ok(reasons)
    }
}

/// Description of a record that is not that of its key.
pub(crate) fn wrong_key(record: &Record) -> Option<String> {
    match record.identity.key() {
        Ok(key) if key == record.key => None,
        Ok(key) => Some(format!("its identity has the key {}", key.short())),
        Err(error) => Some(format!("its identity has no key: {error}")),
    }
}
