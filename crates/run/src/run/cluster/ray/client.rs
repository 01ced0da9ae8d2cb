//! Ray's Jobs API over HTTP.

use std::{fmt, sync::OnceLock, time::Duration};

use reqwest::{
    Client, Method, Response,
    header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue},
    redirect::Policy,
};
use serde::Deserialize;
use serde_json::{Map, Value};
use tokio::runtime::{Builder, Runtime};

use super::api::{ApiError, JobDetails};

/// Longest time until there is a connection.
const CONNECT: Duration = Duration::from_secs(5);
/// Longest time of a request.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum size of a response in bytes.
const MAX_ANSWER_BYTES: usize = 64 << 20;

/// Reason why no request is possible.
pub(super) const MISSING: Option<&str> = None;

/// A client of the Jobs API at an address. The client connects at the first request.
pub(super) struct Api {
    address: String,
    /// The connection, or the reason why it failed.
    connection: OnceLock<Result<(Runtime, Client), String>>,
}

impl fmt::Debug for Api {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Api").field("address", &self.address).finish_non_exhaustive()
    }
}

impl Api {
    pub(super) fn new(address: &str) -> Self {
        Self { address: address.trim_end_matches('/').to_owned(), connection: OnceLock::new() }
    }

    /// Returns the version of Ray on the cluster.
    pub(super) fn version(&self) -> Result<String, ApiError> {
        let answer = self.request(Method::GET, "/api/version", None)?;
        let version: Value = parsed(&answer)?;
        Ok(version["ray_version"].as_str().unwrap_or("unknown").to_owned())
    }

    /// Submits a job; `request` has its identifier.
    pub(super) fn submit(&self, request: &Map<String, Value>) -> Result<(), ApiError> {
        self.request(Method::POST, "/api/jobs/", Some(Value::Object(request.clone()).to_string())).map(drop)
    }

    /// Returns all jobs that the cluster lists.
    pub(super) fn jobs(&self) -> Result<Vec<JobDetails>, ApiError> {
        let answer = self.request(Method::GET, "/api/jobs/", None)?;
        let jobs: Vec<Value> = parsed(&answer)?;
        // Other programs may have submitted jobs of an unknown kind, which are skipped.
        Ok(jobs.into_iter().filter_map(|job| serde_json::from_value(job).ok()).collect())
    }

    /// Stops a job. A job that has ended is not an error.
    pub(super) fn stop(&self, id: &str) -> Result<(), ApiError> {
        match self.request(Method::POST, &format!("/api/jobs/{id}/stop"), None) {
            Err(ApiError::Refused(_)) | Ok(_) => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn request(&self, method: Method, path: &str, body: Option<String>) -> Result<Vec<u8>, ApiError> {
        let connection = self.connection.get_or_init(connect);
        let (runtime, client) = connection.as_ref().map_err(|error| ApiError::Refused(error.clone()))?;
        let mut request = client.request(method, format!("{}{path}", self.address));
        if let Some(body) = body {
            request = request.header("content-type", "application/json").body(body);
        }
        let plain = |error: &reqwest::Error| {
            let mut cause: &dyn std::error::Error = error;
            while let Some(source) = cause.source() {
                cause = source;
            }
            format!("{}: {cause}", self.address)
        };
        let answered = runtime.block_on(async {
            let response = request.send().await?;
            let status = response.status();
            Ok((status, read(response).await?))
        });
        let (status, body) = answered.map_err(|error| ApiError::Unreachable(plain(&error)))?;
        let Some(body) = body else {
            return Err(ApiError::Refused(format!(
                "the answer of {} is longer than {} MiB",
                self.address,
                MAX_ANSWER_BYTES >> 20
            )));
        };
        if status.is_success() {
            return Ok(body);
        }
        let text_of_body = String::from_utf8_lossy(&body);
        let line = text_of_body.lines().rev().map(str::trim).find(|line| !line.is_empty()).unwrap_or("without a word");
        let text = format!("{status}: {}", line.chars().take(300).collect::<String>());
        // Ray reports every exception as a server error, even if the client has caused it.
        let own = status.is_server_error() && !line.contains("already exists");
        Err(if own { ApiError::Unreachable(text) } else { ApiError::Refused(text) })
    }
}

/// Reads the body of a response; `None` if it is too long.
async fn read(mut response: Response) -> Result<Option<Vec<u8>>, reqwest::Error> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await? {
        if body.len() + chunk.len() > MAX_ANSWER_BYTES {
            return Ok(None);
        }
        body.extend_from_slice(&chunk);
    }
    Ok(Some(body))
}

fn parsed<T: for<'a> Deserialize<'a>>(body: &[u8]) -> Result<T, ApiError> {
    serde_json::from_slice(body).map_err(|error| ApiError::Unreachable(format!("its answer cannot be read: {error}")))
}

fn connect() -> Result<(Runtime, Client), String> {
    // An error means that there is a provider already, this one: nothing else installs any.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let runtime = Builder::new_current_thread().enable_all().build().map_err(|error| error.to_string())?;
    let client = Client::builder()
        .user_agent(concat!("sweep/", env!("CARGO_PKG_VERSION")))
        .http1_only()
        .connect_timeout(CONNECT)
        .timeout(TIMEOUT)
        // Headers must not follow to another host.
        .redirect(Policy::none())
        .default_headers(headers()?)
        .build()
        .map_err(|error| error.to_string())?;
    Ok((runtime, client))
}

/// Returns the headers from the environment. Their values are stored nowhere else.
fn headers() -> Result<HeaderMap, String> {
    let mut headers = HeaderMap::new();
    let mut insert = |name: HeaderName, value: &str, variable: &str| {
        let value = HeaderValue::from_str(value);
        let mut value = value.map_err(|_| format!("`{variable}` has a value that cannot be a header"))?;
        value.set_sensitive(true);
        headers.insert(name, value);
        Ok::<(), String>(())
    };
    if let Ok(token) = std::env::var("RAY_AUTH_TOKEN") {
        insert(AUTHORIZATION, &format!("Bearer {}", token.trim()), "RAY_AUTH_TOKEN")?;
    }
    if let Ok(text) = std::env::var("RAY_JOB_HEADERS") {
        let bad = || "`RAY_JOB_HEADERS` must be a JSON object of texts".to_owned();
        let given: std::collections::BTreeMap<String, String> = serde_json::from_str(&text).map_err(|_| bad())?;
        for (name, value) in given {
            insert(name.parse().map_err(|_| bad())?, &value, "RAY_JOB_HEADERS")?;
        }
    }
    Ok(headers)
}
