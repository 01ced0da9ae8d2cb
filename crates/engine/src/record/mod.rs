//! Finished jobs: the identity that decides a job's result, the key that names it, and its record.

mod conditions;
mod deferred;
pub(crate) mod fact;
mod files;
mod key;
mod manifest;
mod milestones;
mod needed;
mod prefix;
#[expect(clippy::module_inception, reason = "the module's main type")]
mod record;

#[cfg(test)]
pub(crate) use self::record::tests::sample;
pub use self::{
    conditions::{Conditions, Exclusivity, GitState, GpuUse, Interpreter, Machine, RunConditions, SeedPlan},
    deferred::{Product, Unresolved, resolve},
    files::Digest,
    key::{BadKey, Identity, Key},
    manifest::{Manifest, Own, ReadFile, ReadSet},
    milestones::{Milestone, Milestones},
    needed::{KeyList, Needed},
    prefix::Prefixes,
    record::{Provenance, RECORD_FORMAT, Record, RecordError, Started},
};
pub(crate) use self::{
    deferred::{Deferred, check, is_open, preview, taken, without_keys},
    files::of_folder,
    key::{digest_name, input_paths},
    manifest::{ABSENT, ELSEWHERE, Observation, UNKNOWN, code_digest, other_code, path_text, text_path},
};
