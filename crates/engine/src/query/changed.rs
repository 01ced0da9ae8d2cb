//! Parameters, inputs and code in which jobs of two sides differ, each once for all jobs with the same difference.

use std::collections::BTreeSet;

use serde::Serialize;
use sweep_job::{Name, Task, Value, Values};

use super::{
    contents::Contents,
    diff::SideJob,
    difference::{Difference, differences},
    explain::{CONTENT, file_of, is_content, program},
};
use crate::{
    format::clean_lines,
    record::{ABSENT, Identity, UNKNOWN, fact, without_keys},
};

/// Most lines of a difference that are kept.
const MAX_LINES: usize = 400;
/// Longest line that is kept, in bytes.
const MAX_LINE: usize = 500;

/// Something that differs.
#[derive(Debug, Serialize)]
pub struct Change {
    /// The parameter, the flag or the line of it, `backend`, `task`, `task revision`, or the path of a file.
    pub what: String,
    /// Old and new value. For a file, a value is the word `content` and a digest.
    pub values: [String; 2],
    /// The jobs.
    pub jobs: Vec<String>,
    /// The lines of a file that differ.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lines: Option<Lines>,
}

/// The lines in which two contents of a file differ.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
pub struct Lines {
    /// The difference as in a patch: lines that begin with a blank, `-`, `+` or `@@`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub shown: Vec<String>,
    /// Number of further lines.
    #[serde(skip_serializing_if = "is_zero")]
    pub left_out: usize,
    /// The reason for missing lines.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unknown: Option<String>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(number: &usize) -> bool {
    *number == 0
}

impl Change {
    /// True if the content of a file differs, which is reported without digests.
    pub fn is_content(&self) -> bool {
        let [before, after] = &self.values;
        is_content(before, after)
    }
}

/// A field that differs.
struct Field {
    what: String,
    values: [String; 2],
    /// The path and the digests of a file.
    file: Option<ChangedFile>,
}

/// The path and the digests of a file.
type ChangedFile = (String, [String; 2]);

/// The differences between jobs of the same name.
pub(super) fn changes(common_jobs: &[(&String, &SideJob, &SideJob)]) -> Vec<Change> {
    let mut found: Vec<(Change, Option<ChangedFile>)> = Vec::new();
    let mut contents = Contents::new();
    for (label, first_job, second_job) in common_jobs {
        let (Some(first_identity), Some(second_identity)) = (&first_job.identity, &second_job.identity) else {
            continue;
        };
        contents.add(&first_job.values);
        contents.add(&second_job.values);
        let mut fields = changed(first_identity, second_identity, [&first_job.values, &second_job.values]);
        fields.extend(changed_code(first_job, second_job));
        for Field { what, values, file } in fields {
            match found.iter_mut().find(|(change, _)| change.what == what && change.values == values) {
                Some((change, _)) => change.jobs.push((*label).clone()),
                None => found.push((Change { what, values, jobs: vec![(*label).clone()], lines: None }, file)),
            }
        }
    }
    let with_lines = |(change, file): (Change, Option<ChangedFile>)| {
        let lines = file.map(|(path, digests)| lines(&path, digests, &mut contents));
        Change { lines, ..change }
    };
    found.into_iter().map(with_lines).collect()
}

/// The fields in which two identities differ, except needed jobs.
fn changed(before: &Identity, after: &Identity, values: [&Values; 2]) -> Vec<Field> {
    let mut fields = Vec::new();
    let mut add = |field: &str, before: String, after: String| {
        if before != after {
            fields.push(Field { what: field.to_owned(), values: [before, after], file: None });
        }
    };
    add("task", before.task.to_string(), after.task.to_string());
    add("task revision", before.revision.to_string(), after.revision.to_string());
    add("program", program(before), program(after));
    let backend = |identity: &Identity| identity.backend.map_or("none", |backend| backend.name()).to_owned();
    add("backend", backend(before), backend(after));
    let names: BTreeSet<&Name> = before.params.keys().chain(after.params.keys()).collect();
    for name in names {
        let text = |identity: &Identity| match identity.params.get(name) {
            Some(value) => without_keys(&value.to_string()),
            None => {
                let param = Task::info(&identity.task).and_then(|task| task.param(name));
                param.map_or_else(|| "–".to_owned(), |param| format!("{} (default)", (param.default)()))
            }
        };
        // An explicit default counts as the same value.
        let value = |identity: &Identity| -> Option<Value> {
            let default = || Some((Task::info(&identity.task)?.param(name)?.default)());
            identity.params.get(name).cloned().or_else(default)
        };
        if value(before) == value(after) {
            continue;
        }
        match (before.params.get(name), after.params.get(name)) {
            (Some(old), Some(new)) => {
                for Difference { what, old, new } in differences(name, old, new) {
                    add(&what, without_keys(&old), without_keys(&new));
                }
            }
            _ => add(name, text(before), text(after)),
        }
    }
    let inputs: BTreeSet<&String> = before.inputs.keys().chain(after.inputs.keys()).collect();
    for name in inputs {
        let digests = [before, after].map(|identity| identity.inputs.get(name));
        if digests[0] == digests[1] {
            continue;
        }
        let path = values.iter().rev().find_map(|values| file_of(values, name));
        let shown = digests.map(|digest| digest.map_or_else(|| "–".to_owned(), |digest| content(digest)));
        let file = match (&path, digests) {
            (Some(path), [Some(before), Some(after)]) => Some((path.clone(), [before.clone(), after.clone()])),
            _ => None,
        };
        fields.push(Field { what: path.unwrap_or_else(|| format!("content of {name}")), values: shown, file });
    }
    fields
}

/// The files that both jobs were observed to read, with other contents, and other properties of paths.
fn changed_code(first_job: &SideJob, second_job: &SideJob) -> Vec<Field> {
    let (Some(first), Some(second)) = (&first_job.code, &second_job.code) else { return Vec::new() };
    let mut fields = Vec::new();
    for (path, before) in &first.files {
        let Some(after) = second.files.get(path).filter(|after| after.digest != before.digest) else { continue };
        // A file that a job changes itself is not code.
        if first.own.left.contains_key(path) || second.own.left.contains_key(path) {
            continue;
        }
        let digests = [before.digest.clone(), after.digest.clone()];
        let values = digests.each_ref().map(|digest| content(digest));
        let file = values.iter().all(|value| value.starts_with(CONTENT)).then(|| (path.clone(), digests));
        fields.push(Field { what: path.clone(), values, file });
    }
    for (path, before) in &first.facts {
        let Some(after) = second.facts.get(path).filter(|after| fact::is_other(before, after)) else { continue };
        let (what, before, after) = fact::change(path, before, after, CONTENT);
        fields.push(Field { what, values: [before, after], file: None });
    }
    // Known environments have the packages, too.
    if first_job.environment.is_none() || second_job.environment.is_none() {
        for (name, before) in &first.packages {
            let is_other =
                |after: &&sweep_job::Package| after.folder == before.folder && after.version != before.version;
            if let Some(after) = second.packages.get(name).filter(is_other) {
                let values = [before.version.clone(), after.version.clone()];
                fields.push(Field { what: name.clone(), values, file: None });
            }
        }
    }
    fields
}

/// A digest for people.
fn content(digest: &str) -> String {
    match digest {
        ABSENT => "gone".to_owned(),
        UNKNOWN => UNKNOWN.to_owned(),
        digest => format!("{CONTENT}{}", digest.chars().take(12).collect::<String>()),
    }
}

/// The lines in which the contents of a file differ.
fn lines(path: &str, digests: [String; 2], contents: &mut Contents) -> Lines {
    let [before, after] = digests.map(|digest| contents.text(path, &digest));
    let unknown = |side: &str| Lines {
        unknown: Some(format!("neither a file here nor a commit has the content of {side}")),
        ..Lines::default()
    };
    match (before, after) {
        (Some(before), Some(after)) => of_texts(&before, &after),
        (Some(_), None) => unknown("B"),
        (None, Some(_)) => unknown("A"),
        (None, None) => unknown("A and B"),
    }
}

fn of_texts(before: &str, after: &str) -> Lines {
    let patch = diffy::create_patch(before, after).to_string();
    // The names of the files, which the caller has.
    let patch: Vec<&str> = patch.lines().skip_while(|line| !line.starts_with("@@")).collect();
    let cut = |line: &&str| clean_lines(&line[..line.floor_char_boundary(MAX_LINE)]);
    let shown: Vec<String> = patch.iter().take(MAX_LINES).map(cut).collect();
    Lines { left_out: patch.len() - shown.len(), shown, unknown: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_a_difference_are_safe_to_print_and_bounded() {
        let lines = of_texts("a\nb\nc\n", "a\n\u{1b}[2Jx\nc\n");
        assert_eq!(lines.shown, ["@@ -1,3 +1,3 @@", " a", "-b", "+\\u{1b}[2Jx", " c"]);
        let long = "line\n".repeat(1000);
        let lines = of_texts("", &long);
        assert_eq!((lines.shown.len(), lines.left_out), (MAX_LINES, 601));
    }
}
