//! The first steps of a program, which show whether a change of its code changes its result.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::Curve;

/// The first steps of a program.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Beginning {
    /// The last of these steps.
    pub after: u64,
    /// The curves. In a record they end at `after`, and a curve that the record has as a whole is omitted.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub curves: BTreeMap<String, Curve>,
    /// BLAKE3 digests of the checkpoints that the program declared, by their steps.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub states: BTreeMap<u64, String>,
    /// The last step up to which a curve has all of its points, for curves that lack later ones.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub complete: BTreeMap<String, u64>,
}

/// A request to compare the first steps of a program with the first steps of an earlier run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// The last step that must be equal.
    pub after: u64,
    /// The earlier run; `None` if there is none, and the first steps are only recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub earlier: Option<Beginning>,
}

/// A successful comparison: the program was ended, and the result of the earlier run holds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Agreement {
    /// The last step that was compared.
    pub step: u64,
    /// The numbers of equal values, by the names of their curves.
    pub values: BTreeMap<String, usize>,
    /// The steps whose checkpoints have equal digests.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub states: Vec<u64>,
}
