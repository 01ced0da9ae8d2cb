//! `family` in `claims`: the correction of verdicts for their number.

use serde_json::{Value as Json, json};

use super::Lower;
use crate::recipe::{
    keys::{Shape as _, Word},
    node::{Entry, NodeKind},
    schema::reference,
};

/// The key of `claims` that is not the name of a claim.
pub(super) const FAMILY: &str = "family";

/// Correction of a recipe's verdicts for the number of its claims.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Family {
    /// Each claim is judged by itself.
    #[default]
    None,
    /// Holm's correction: the probability of any wrong verdict is at most that of one claim.
    Holm,
}

impl Family {
    /// The words in recipes.
    const WORDS: &'static [(&'static str, Self)] = &[("none", Self::None), ("holm", Self::Holm)];
}

/// The schema of `claims`: name to claim, and the correction for the number of claims.
pub(in crate::recipe) fn claims_schema(claim: &Json) -> Json {
    let words: Vec<&str> = Family::WORDS.iter().map(|(word, _)| *word).collect();
    let family = json!({
        "enum": words,
        "description": "The correction of verdicts for the number of claims.",
    });
    json!({
        "type": "object",
        "propertyNames": reference("name"),
        "properties": { FAMILY: family },
        "additionalProperties": claim,
    })
}

impl Lower<'_> {
    /// Reads the correction for the number of claims.
    pub(super) fn family(&mut self, entry: &Entry) -> Option<Family> {
        if matches!(entry.value.kind, NodeKind::Map(_)) {
            let help = "give the claim another name";
            let message = "`family` sets the correction for the number of claims and cannot be the name of a claim";
            self.problem(entry.key.span, message, "reserved", help);
            return None;
        }
        Word(Family::WORDS).read(self, &entry.value, FAMILY)
    }
}
