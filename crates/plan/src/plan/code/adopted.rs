//! The reads of an earlier run of a job, as its program finds them now.

use super::{ABSENT, BTreeMap, Code, Digests, FILE_ELSEWHERE, Manifests, ReadSet};
use crate::record::ReadFile;

impl Manifests {
    /// Returns the files and other paths of a set with their present state, for a job with this code; `None` if the set cannot
    /// be read, or if more than files of the code differ: a package, or the environment where it counts.
    pub fn now(&mut self, code: &Code, id: &str, digests: &mut Digests) -> Option<ReadSet> {
        let set = self.set(id)?;
        let state = self.state(&code.project, &code.site, vec![id.to_owned()], digests);
        let is_other = |(name, folder, version): &(String, String, String)| {
            set.packages.get(name).is_some_and(|then| then.folder == *folder && then.version != *version)
        };
        if state.packages.iter().any(is_other) || self.has_other_environment(&set, &state) {
            return None;
        }
        let mut now = ReadSet::clone(&set);
        let own = &set.own.left;
        let present: BTreeMap<&String, &String> = state.files.iter().map(|file| (&file.path, &file.digest)).collect();
        for (path, file) in &mut now.files {
            let is_kept = path.starts_with(FILE_ELSEWHERE) || own.contains_key(path);
            if let Some(digest) = present.get(path).filter(|_| !is_kept) {
                *file = ReadFile { digest: (*digest).clone(), by: file.by.take().filter(|_| *digest != ABSENT) };
            }
        }
        let present: BTreeMap<&String, &String> = state.facts.iter().map(|fact| (&fact.path, &fact.digest)).collect();
        for (path, fact) in &mut now.facts {
            if let Some(digest) = present.get(path).filter(|_| !own.contains_key(path)) {
                fact.clone_from(digest);
            }
        }
        Some(now)
    }
}
