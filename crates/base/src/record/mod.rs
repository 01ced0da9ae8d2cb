//! Finished jobs: the identity that decides a job's result, the key that names it, and its record.
//!
//! `key.rs` has identity and key, `needed.rs` lists of keys that identities share, `alike.rs` jobs that compute the
//! same under different keys, `prefix.rs` the keys of states, and `deferred.rs` values that one job takes from another:
//! until the job runs, such a value is a text with the other job's key.
//!
//! `record.rs` is the record with its digest, `files.rs` has the digests of its files, `remarks.rs` lists diverged
//! values, `milestones.rs` has the times of steps, `conditions.rs` the conditions under which the job ran, and
//! `adopted.rs` the mark of an adopted record. `sample.rs` creates a record for tests.
//!
//! `manifest.rs` has the files that a program was observed to read, `fact.rs` properties of other paths, and
//! `environment.rs` the programs and libraries that it used outside of its project.

mod adopted;
mod alike;
mod conditions;
mod deferred;
mod environment;
pub mod fact;
mod files;
mod key;
mod manifest;
mod milestones;
mod needed;
mod prefix;
#[expect(clippy::module_inception, reason = "the module's main type")]
mod record;
mod remarks;
mod sample;

#[doc(hidden)]
pub use self::sample::sample;
pub use self::{
    adopted::Adopted,
    conditions::{Conditions, Exclusivity, GitState, GpuUse, Interpreter, Machine, RunConditions, SeedPlan},
    deferred::{Product, Unresolved, resolve},
    environment::{Environment, Part},
    files::Digest,
    key::{BadKey, Identity, Key},
    manifest::{Manifest, Own, ReadFile, ReadSet},
    milestones::{Milestone, Milestones},
    needed::{KeyList, Needed},
    prefix::Prefixes,
    record::{LogPart, MeasuredAgain, Provenance, RECORD_FORMAT, Record, RecordError, Started},
    remarks::Remarks,
};
pub use self::{
    alike::Needs,
    deferred::{Deferred, check, is_open, preview, taken, waits, without_keys},
    environment::shown_id,
    files::of_folder,
    key::{digest_name, input_paths},
    manifest::{ABSENT, ELSEWHERE, FILE_ELSEWHERE, Line, Observation, UNKNOWN, code_digest, path_text, text_path},
    remarks::{depends_on_machine, is_about_machine},
};
