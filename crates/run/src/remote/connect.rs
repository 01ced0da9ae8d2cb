//! HTTP to a remote: to the named host, and to no other.

use std::{error::Error, time::Duration};

use object_store::{
    ClientConfigKey, ClientOptions,
    client::{HttpClient, HttpConnector},
};
use reqwest::{Client, NoProxy, Proxy, Url, redirect::Policy};

/// Longest time until there is a connection.
const CONNECT: Duration = Duration::from_secs(5);
/// Maximum number of redirects on one host; more are a loop.
const MAX_REDIRECTS: usize = 5;

/// Makes clients that do not leave their host.
#[derive(Debug, Clone, Copy)]
pub(super) struct Connector {
    /// Longest time without data.
    pub(super) silence: Duration,
}

/// The remote redirects requests to another address.
#[derive(Debug, thiserror::Error)]
#[error("it redirects to another host, {0}, which is not followed")]
struct Elsewhere(String);

impl HttpConnector for Connector {
    /// Connects like the library's own connector, with the options that an environment can set.
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        let http_error =
            |error: reqwest::Error| object_store::Error::Generic { store: "HTTP", source: Box::new(error) };
        let is_on = |key| options.get_config_value(&key).is_some_and(|value| value == "true");
        // An error means that there is a provider already, this one: nothing else installs any.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut client = Client::builder();
        if let Some(address) = options.get_config_value(&ClientConfigKey::ProxyUrl) {
            let excludes = options.get_config_value(&ClientConfigKey::ProxyExcludes);
            let excludes = excludes.and_then(|excludes| NoProxy::from_string(&excludes));
            client = client.proxy(Proxy::all(address).map_err(http_error)?.no_proxy(excludes));
        }
        let client = client
            .user_agent(concat!("sweep/", env!("CARGO_PKG_VERSION")))
            .http1_only()
            .connect_timeout(CONNECT)
            .read_timeout(self.silence)
            .https_only(!is_on(ClientConfigKey::AllowHttp))
            .danger_accept_invalid_certs(is_on(ClientConfigKey::AllowInvalidCertificates))
            .redirect(Policy::custom(|attempt| {
                let host = |url: &Url| url.origin();
                let first_url = attempt.previous().first();
                if first_url.is_none_or(|first_url| host(first_url) != host(attempt.url())) {
                    let redirect = Elsewhere(attempt.url().host_str().unwrap_or("none").to_owned());
                    return attempt.error(redirect);
                }
                if attempt.previous().len() > MAX_REDIRECTS { attempt.stop() } else { attempt.follow() }
            }))
            .build()
            .map_err(http_error)?;
        Ok(HttpClient::new(client))
    }
}

/// Reason why a redirect was not followed, if that is the cause of an error.
pub(super) fn elsewhere(error: &object_store::Error) -> Option<String> {
    let mut cause: Option<&(dyn Error + 'static)> = Some(error);
    while let Some(error) = cause {
        if let Some(redirect) = error.downcast_ref::<Elsewhere>() {
            return Some(redirect.to_string());
        }
        cause = error.source();
    }
    None
}
