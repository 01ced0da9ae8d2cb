//! The tag that a job carries as its comment, by which it is recognized: Slurm may reuse a number, and the submitter
//! may have died before it recorded the number. Systems without comments carry it in the job's name, as a label.

use std::{fmt, str::FromStr};

use crate::record::Key;

/// `RUN|KEY|SUBMISSION`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct JobTag {
    /// The name of the run whose folder has the job's specification.
    pub run: String,
    /// The job.
    pub key: Key,
    /// The number of the submission in that run, from 1.
    pub submission: u32,
}

impl fmt::Display for JobTag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}|{}|{}", self.run, self.key, self.submission)
    }
}

impl FromStr for JobTag {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let mut parts = text.splitn(3, '|');
        let (Some(run), Some(key), Some(submission)) = (parts.next(), parts.next(), parts.next()) else {
            return Err(());
        };
        // The run's name becomes a part of a path.
        let plain = !run.is_empty() && run.chars().all(|char| char.is_ascii_alphanumeric() || char == '-');
        if !plain {
            return Err(());
        }
        let (key, submission) = (key.parse().map_err(|_| ())?, submission.parse().map_err(|_| ())?);
        Ok(Self { run: run.to_owned(), key, submission })
    }
}

/// The name of a batch job that contains its tag and the name of all jobs of its store, in letters, digits, `-` and `_`.
pub(super) fn label(jobs_name: &str, tag: &str) -> String {
    format!("{jobs_name}_{}", tag.replace(['|', ':'], "_"))
}

/// The tag in a label; `None` if the label belongs to a job of another store or of another program.
pub(super) fn tag_in(jobs_name: &str, label: &str) -> Option<String> {
    let tag = label.strip_prefix(jobs_name)?.strip_prefix('_')?;
    let tag = tag.strip_prefix("pilot_").map_or_else(|| tag.to_owned(), |tag| format!("pilot:{tag}"));
    Some(tag.replace('_', "|"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_has_the_tag() {
        let tag = format!("20260101T000000Z-7|{}|2", "ab".repeat(32));
        let name = label("sweep-1234abcd", &tag);
        assert!(name.chars().all(|char| char.is_ascii_alphanumeric() || "-_".contains(char)), "{name}");
        assert_eq!(tag_in("sweep-1234abcd", &name), Some(tag.clone()));
        assert_eq!(tag_in("sweep-1234abce", &name), None);
        assert_eq!(tag_in("sweep-1234abc", &name), None);
        let pilot = format!("pilot:{tag}");
        assert_eq!(tag_in("sweep-1", &label("sweep-1", &pilot)), Some(pilot));
        assert_eq!(tag_in("sweep-1", "anything"), None);
    }
}
