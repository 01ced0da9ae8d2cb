//! The client in a program that was built without HTTP.

use serde_json::{Map, Value};

use super::api::{ApiError, JobDetails};

/// Reason why no request is possible.
pub(super) const MISSING: Option<&str> = Some("this program was built without HTTP; build it with `--features remote`");

/// A client that reaches nothing.
#[derive(Debug)]
pub(super) struct Api;

#[expect(clippy::unused_self, reason = "the interface of the client")]
impl Api {
    pub(super) fn new(_: &str) -> Self {
        Self
    }

    pub(super) fn version(&self) -> Result<String, ApiError> {
        Err(refused())
    }

    pub(super) fn submit(&self, _: &Map<String, Value>) -> Result<(), ApiError> {
        Err(refused())
    }

    pub(super) fn jobs(&self) -> Result<Vec<JobDetails>, ApiError> {
        Err(refused())
    }

    pub(super) fn stop(&self, _: &str) -> Result<(), ApiError> {
        Err(refused())
    }
}

fn refused() -> ApiError {
    ApiError::Refused(MISSING.unwrap_or_default().to_owned())
}
