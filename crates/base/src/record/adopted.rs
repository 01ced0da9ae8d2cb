//! The mark of a record that was adopted: earlier code made it, and the present code repeated its first steps bit for
//! bit.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use sweep_job::Agreement;

use super::{Key, Record};
use crate::format::{count, duration};

/// The source of a record that was adopted after a change of the code.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Adopted {
    /// Key of the record of the job that ran to its end.
    pub from: Key,
    /// Time of the adoption.
    pub at: Timestamp,
    /// The step in the recipe (`adopt: { after }`) up to which the curves had to be equal.
    pub after: u64,
    /// The last step that was compared.
    pub step: u64,
    /// The last step of the earlier run.
    pub end: u64,
    /// Duration of the run that was compared, in seconds.
    pub seconds: f64,
    /// Number of bit-identical values of each curve, by its name.
    pub values: BTreeMap<String, usize>,
    /// The steps whose states are bit-identical.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub states: Vec<u64>,
}

impl Adopted {
    /// The mark of a record that is adopted from `earlier`. The present code took `seconds` to repeat its first steps.
    pub fn new(earlier: &Record, agreement: &Agreement, after: u64, seconds: f64, at: Timestamp) -> Self {
        let Agreement { step, values, states } = agreement.clone();
        let ends = earlier.outcome.curves.values().filter_map(|curve| curve.at.last().copied());
        let end = ends.max().unwrap_or(step).max(step);
        Self { from: earlier.origin(), at, after, step, end, seconds, values, states }
    }

    /// Returns two sentences without periods: the source, and the compared values and states.
    pub fn sentences(&self) -> Vec<String> {
        let Self { from, step, end, seconds, values, states, .. } = self;
        let values: Vec<String> =
            values.iter().map(|(name, number)| format!("{} of `{name}`", count(*number, "value"))).collect();
        let states: Vec<String> = states.iter().map(u64::to_string).collect();
        let states = match states.as_slice() {
            [] => "no states were compared".to_owned(),
            [one] => format!("the state at step {one} as well"),
            all => format!("the states at steps {} as well", all.join(", ")),
        };
        vec![
            format!(
                "adopted from record {}, made with earlier code: the present code ran up to step {step} of {end}, in {}",
                from.short(),
                duration(*seconds)
            ),
            format!("bit-identical up to there: {}; {states}", values.join(", ")),
        ]
    }
}
