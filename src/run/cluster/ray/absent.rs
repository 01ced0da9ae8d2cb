//! The client in a program that was built without HTTP.

use serde_json::{Map, Value};

/// Reason why nothing can be asked.
pub(super) const MISSING: Option<&str> = Some("this program was built without HTTP; build it with `--features remote`");

/// A client that reaches nothing.
#[derive(Debug)]
pub(super) struct Api;

/// A job, as the API shows it.
#[derive(Debug, Clone)]
pub(super) struct JobDetails {
    pub(super) submission_id: Option<String>,
    pub(super) status: String,
    pub(super) message: Option<String>,
    pub(super) driver_exit_code: Option<i32>,
}

/// The reason why a request has no answer.
#[derive(Debug)]
#[expect(dead_code, reason = "every request is refused")]
pub(super) enum ApiError {
    Unreachable(String),
    Refused(String),
}

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
