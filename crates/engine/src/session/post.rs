//! A message as a request to an HTTP server.

use super::notify::Message;

/// Sends a message as JSON. `text` is the key of Slack and Mattermost, `content` the key of Discord.
#[cfg(feature = "remote")]
pub(super) fn post(address: &str, message: &Message) -> Result<(), String> {
    use std::{error::Error as _, time::Duration};

    use serde_json::json;

    /// Longest time of a request.
    const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

    let Message { event, study, title, text } = message;
    let whole = format!("{title}\n{text}");
    let body = json!({ "text": whole, "content": whole, "title": title, "event": event, "study": study });
    // The address may be a secret, so no message has it.
    let failed = |error: reqwest::Error| {
        let error = error.without_url();
        let source = error.source().map(|source| format!(": {source}")).unwrap_or_default();
        format!("`webhook`: {error}{source}")
    };
    // Another client of this process may have installed it.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| format!("`webhook`: {error}"))?;
    runtime.block_on(async {
        let client = reqwest::Client::builder().timeout(REQUEST_TIMEOUT).build().map_err(failed)?;
        let request = client.post(address).header("Content-Type", "application/json").body(body.to_string());
        let response = request.send().await.map_err(failed)?;
        let status = response.status();
        if status.is_success() { Ok(()) } else { Err(format!("`webhook` answered {status}")) }
    })
}

/// Fails: this program has no client for HTTP.
#[cfg(not(feature = "remote"))]
pub(super) fn post(_: &str, _: &Message) -> Result<(), String> {
    Err("`webhook` needs a program with the feature `remote`".to_owned())
}
