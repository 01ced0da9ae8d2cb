//! Responses of Ray's Jobs API, with only the used fields.

use serde::Deserialize;

/// A job, as the API shows it. Fields that are missing or of another type are as if they were not there.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct JobDetails {
    pub(super) submission_id: Option<String>,
    pub(super) status: String,
    pub(super) message: Option<String>,
    pub(super) driver_exit_code: Option<i32>,
}

/// The reason why a request failed.
#[derive(Debug)]
#[cfg_attr(not(feature = "remote"), expect(dead_code, reason = "without HTTP, every request is refused"))]
pub(super) enum ApiError {
    /// The request timed out, or the server is temporarily unavailable.
    Unreachable(String),
    /// The server has refused it.
    Refused(String),
}

impl ApiError {
    /// The reason in words.
    pub(super) fn into_text(self) -> String {
        match self {
            Self::Unreachable(text) | Self::Refused(text) => text,
        }
    }
}
