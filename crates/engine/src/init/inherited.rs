//! Variables that a script reads, with the values that they have where `sweep` runs. Jobs inherit them, but only `env` is in a key.

use serde_json::Value as Json;

use super::{Found, Parameter, Source};
use crate::format::is_secret;

/// Returns the value of a variable in the environment of `sweep`, which replaces the script's default. Variables without a default, such as
/// `HOME`, belong to the machine, and values of secrets must not be in a recipe.
pub(super) fn inherited(parameter: &Parameter) -> Option<Json> {
    if parameter.default.is_null() || is_secret(&parameter.name) {
        return None;
    }
    let text = std::env::var(&parameter.name).ok().filter(|text| !text.is_empty())?;
    // A number that has another form in a recipe stays a text.
    let number = serde_json::from_str(&text).ok().filter(Json::is_number);
    let written = number.as_ref().map(Json::to_string);
    let number = number.filter(|_| written.as_deref() == Some(text.as_str()));
    Some(number.unwrap_or(Json::String(text)))
}

impl Found {
    /// Replaces the defaults of variables that are set where `sweep` runs.
    pub(super) fn with_inherited(mut self) -> Self {
        if self.source == Source::Environment {
            for parameter in &mut self.parameters {
                if let Some(value) = inherited(parameter) {
                    parameter.default = value;
                }
            }
        }
        self
    }
}
