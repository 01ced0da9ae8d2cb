//! Access rules: the accepted requests, and the permissions of the browser for the responses.
//!
//! A page from elsewhere can make a browser request this server under its own host name that resolves to this machine
//! (DNS rebinding), and would then be allowed to read the answer. The server therefore answers only to certain names:
//! the loopback addresses and `localhost`; if it listens for other machines, any address and this machine's name.
//!
//! Actions need the token of the server, which other users of the machine do not have. It is in a header that a page of another origin can send only after
//! a preflight request, which is refused.

use std::{
    io::{self, Read as _},
    net::IpAddr,
    sync::Arc,
};

use axum::{
    extract::{Request, State},
    http::{HeaderMap, HeaderValue, Method, StatusCode, header},
    middleware::Next,
    response::{IntoResponse as _, Response},
};

/// The host names to which the server answers.
#[derive(Debug)]
pub(crate) struct Names {
    loopback: bool,
    machine: String,
}

/// Beginning of the paths of actions.
const ACTIONS: &str = "/act/";

/// The secret that requests must contain. Digests are compared, so that the comparison takes the same time for every wrong secret.
#[derive(Debug)]
pub(crate) struct Token(blake3::Hash);

/// Access rules of a server of pages.
#[derive(Debug)]
pub(super) struct Guard {
    pub(super) names: Names,
    /// The token of actions; without one the server is read-only.
    pub(super) token: Option<Token>,
}

/// A new secret: 64 hexadecimal digits.
pub(crate) fn secret() -> io::Result<String> {
    let mut bytes = [0; 32];
    fs_err::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(blake3::hash(&bytes).to_hex().to_string())
}

impl Token {
    pub(crate) fn new(token: &str) -> Self {
        Self(blake3::hash(token.as_bytes()))
    }

    /// True if a request has it.
    pub(crate) fn is_in(&self, headers: &HeaderMap) -> bool {
        let authorization = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        let authorization = authorization
            .and_then(|value| value.split_once(' '))
            .filter(|(kind, _)| kind.eq_ignore_ascii_case("bearer"));
        authorization.is_some_and(|(_, token)| blake3::hash(token.trim().as_bytes()) == self.0)
    }
}

impl Guard {
    /// The response to a request for a forbidden action; `None` if it is allowed. `host` is the host that the request names.
    fn refusal(&self, headers: &HeaderMap, host: &str) -> Option<Response> {
        let Some(token) = &self.token else { return Some(read_only()) };
        let text = |name: &str| headers.get(name).map(|value| value.to_str().unwrap_or("?"));
        let is_own = |origin: &str| origin.split_once("://").is_some_and(|(_, authority)| authority == host);
        if text("origin").is_some_and(|origin| !is_own(origin))
            || text("sec-fetch-site").is_some_and(|site| site != "same-origin")
        {
            return Some((StatusCode::FORBIDDEN, "requests from other pages are refused\n").into_response());
        }
        let challenge = [(header::WWW_AUTHENTICATE, "Bearer")];
        let text = "the token is missing or wrong: open the address with `#token=` that `sweep ui` has printed\n";
        (!token.is_in(headers)).then(|| (StatusCode::UNAUTHORIZED, challenge, text).into_response())
    }
}

fn read_only() -> Response {
    (StatusCode::METHOD_NOT_ALLOWED, [(header::ALLOW, "GET, HEAD")], "this server is read-only\n").into_response()
}

/// Headers of every response. Pages add a stricter policy.
const HEADERS: [(header::HeaderName, &str); 5] = [
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    (header::HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
];

impl Names {
    /// Of a server that listens on an address.
    pub(crate) fn new(host: IpAddr) -> Self {
        let machine = rustix::system::uname().nodename().to_string_lossy().to_lowercase();
        Self { loopback: host.is_loopback(), machine }
    }

    /// True if a `Host` header names this server. The port is ignored, because it may be forwarded.
    pub(crate) fn answers(&self, host: &str) -> bool {
        let (name, port) = match host.rfind(':') {
            Some(colon) if !host[colon..].contains(']') => (&host[..colon], &host[colon + 1..]),
            _ => (host, ""),
        };
        if !port.chars().all(|char| char.is_ascii_digit()) {
            return false;
        }
        let name = name.trim_end_matches('.').to_lowercase();
        let bare = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(&name);
        match bare.parse::<IpAddr>() {
            Ok(address) => !self.loopback || address.is_loopback(),
            Err(_) => name == "localhost" || (!self.loopback && !name.is_empty() && name == self.machine),
        }
    }
}

/// Refuses requests that are not for this server, and requests that could change data.
pub(super) async fn check(State(guard): State<Arc<Guard>>, request: Request, next: Next) -> Response {
    let host = request.headers().get(header::HOST).and_then(|host| host.to_str().ok());
    let host = host.or_else(|| request.uri().host());
    let host = host.filter(|host| guard.names.answers(host));
    let is_action = request.method() == Method::POST && request.uri().path().starts_with(ACTIONS);
    let refusal = match host {
        None => Some((StatusCode::MISDIRECTED_REQUEST, "unknown host name\n").into_response()),
        Some(host) if is_action => guard.refusal(request.headers(), host),
        Some(_) => (![Method::GET, Method::HEAD].contains(request.method())).then(read_only),
    };
    let mut response = match refusal {
        Some(refusal) => refusal,
        None => next.run(request).await,
    };
    for (name, value) in HEADERS {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_that_nobody_else_can_have() {
        let names = |loopback| Names { loopback, machine: "box".into() };
        for name in ["localhost", "localhost:8080", "LOCALHOST.", "127.0.0.1:1", "[::1]:80", "[::1]", "127.9.9.9"] {
            assert!(names(true).answers(name), "{name}");
        }
        for other in [
            "evil.example",
            "evil.example:80",
            "localhost.evil.example",
            "192.168.0.7",
            "",
            "127.0.0.1.evil.example",
            "localhost:80@evil",
            "box",
        ] {
            assert!(!names(true).answers(other), "{other}");
        }
        assert!(names(false).answers("192.168.0.7:80") && names(false).answers("box:80"));
        assert!(!names(false).answers("evil.example") && !names(false).answers(""));
    }
}
