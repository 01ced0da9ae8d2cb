//! The tag that a job carries as its comment, by which it is recognized: Slurm may reuse a number, and the submitter
//! may have died before it recorded the number.

use std::{fmt, str::FromStr};

use crate::record::Key;

/// `RUN|KEY|SUBMISSION`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct JobTag {
    /// The name of the run whose folder has the job's specification.
    pub(crate) run: String,
    /// The job.
    pub(crate) key: Key,
    /// The how manieth submission of that run it is, from 1.
    pub(crate) submission: u32,
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
        // It will be a part of a path.
        let plain = !run.is_empty() && run.chars().all(|char| char.is_ascii_alphanumeric() || char == '-');
        if !plain {
            return Err(());
        }
        let (key, submission) = (key.parse().map_err(|_| ())?, submission.parse().map_err(|_| ())?);
        Ok(Self { run: run.to_owned(), key, submission })
    }
}
