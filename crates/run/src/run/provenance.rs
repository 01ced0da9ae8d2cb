//! Provenance of a run: the program, its arguments, and the state of the Git repository that contains the recipe. It is
//! determined once, before the first job starts, and kept in the run's folder, from which every engine of the run reads it.

mod git;

use std::{
    io,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use fs_err as fs;
use serde::{Deserialize, Serialize};

use crate::{
    format::masked,
    host::{
        self, elf,
        replaced::{Outlives, Readers, replace},
    },
    plan::Plan,
    record::{GitState, RunConditions},
};

/// The file in a run's folder.
const FILE: &str = "provenance.json";

/// The file in a run's folder with the differences from the commit.
const DIFF: &str = "diff.patch";

/// Longest difference that is kept, in bytes.
const MAX_DIFF_LENGTH: usize = 1 << 20;

/// Timeout for all calls of Git.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Provenance of a run.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct RunProvenance {
    /// Version of the `sweep` program.
    pub sweep: String,
    /// Build ID of the program, which its linker has computed from its content; BLAKE3 digest of the file of a program
    /// without one. In hexadecimal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub program: Option<String>,
    /// Name of the user who started the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// State of the Git repository.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub git: Option<GitState>,
    /// Arguments of the command line; arguments that look like secrets are masked.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub arguments: Vec<String>,
}

/// Provenance of a run before it has a folder.
#[derive(Debug)]
pub struct FoundProvenance {
    own: RunProvenance,
    diff: Vec<u8>,
}

impl FoundProvenance {
    /// Writes the provenance to the run's folder. Errors are ignored, because a run does not need it, and other writes report a
    /// full disk.
    pub fn keep(&self, folder: &Path) {
        let _ = self.own.write(folder, &self.diff);
    }
}

impl RunProvenance {
    /// Determines the provenance of a run of this process. Undeterminable parts are absent.
    pub fn determine(plan: &Plan) -> FoundProvenance {
        let files: Vec<PathBuf> = plan.sources().files().map(|(path, _)| path.to_owned()).collect();
        let state = git::state(&files, MAX_DIFF_LENGTH, Instant::now() + TIMEOUT);
        let (git, diff) = state.map_or((None, Vec::new()), |(git, diff)| (Some(git), diff));
        let provenance = Self {
            sweep: env!("CARGO_PKG_VERSION").to_owned(),
            program: program_id().ok(),
            user: host::user(),
            git,
            arguments: masked(std::env::args_os().skip(1)),
        };
        FoundProvenance { own: provenance, diff }
    }

    fn write(&self, folder: &Path, diff: &[u8]) -> io::Result<()> {
        let mut text = serde_json::to_vec_pretty(self)?;
        text.push(b'\n');
        replace(&folder.join(FILE), &text, Readers::All, Outlives::Process)?;
        if diff.is_empty() {
            return Ok(());
        }
        // Only the owner may read the difference, because its author did not mean to publish it.
        replace(&folder.join(DIFF), diff, Readers::Owner, Outlives::Process)
    }

    /// Reads the provenance from the run's folder; empty if the file is missing or unreadable.
    pub fn read(folder: &Path) -> Self {
        let text = fs::read(folder.join(FILE)).ok();
        text.and_then(|text| serde_json::from_slice(&text).ok()).unwrap_or_default()
    }

    /// The part that the records of the run's jobs have, except for the places of the jobs in the run.
    pub(super) fn of_jobs(self, folder: &Path) -> RunConditions {
        let name = folder.file_name().map(|name| name.to_string_lossy().into_owned());
        let Self { program, user, git, arguments, .. } = self;
        RunConditions { name, round: None, position: None, program, user, git, arguments }
    }
}

/// The ID of this program. Its file is read whole only if it has no build ID.
fn program_id() -> io::Result<String> {
    let program = host::program()?;
    if let Some(id) = elf::build_id(&program)? {
        return Ok(id);
    }
    let mut hasher = blake3::Hasher::new();
    hasher.update_reader(fs::File::open(program)?)?;
    Ok(hasher.finalize().to_hex().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_known_by_the_id_that_its_linker_gave_it() {
        let id = program_id().unwrap();
        assert!(id.len() >= 16 && id.bytes().all(|byte| byte.is_ascii_hexdigit()), "{id}");
        assert_eq!(program_id().unwrap(), id);
        if let Some(build_id) = elf::build_id(&host::program().unwrap()).unwrap() {
            assert_eq!(id, build_id);
        }
    }
}
