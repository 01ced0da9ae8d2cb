//! Access rules: the requests that are answered, and the permissions of the browser for the answer.
//!
//! A page from elsewhere can make a browser request this server under its own host name that resolves to this machine
//! (DNS rebinding), and would then be allowed to read the answer. The server therefore answers only to certain names:
//! the loopback addresses and `localhost`; if it listens for other machines, any address and this machine's name.

use std::{net::IpAddr, sync::Arc};

use axum::{
    extract::{Request, State},
    http::{HeaderValue, Method, StatusCode, header},
    middleware::Next,
    response::{IntoResponse as _, Response},
};

/// The host names to which the server answers.
#[derive(Debug)]
pub(crate) struct Names {
    loopback: bool,
    machine: String,
}

/// Headers of every answer. The pages have a stricter policy of their own.
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

    /// True if a `Host` header names this server. The port makes no difference: it may be forwarded.
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
pub(super) async fn check(State(names): State<Arc<Names>>, request: Request, next: Next) -> Response {
    let host = request.headers().get(header::HOST).and_then(|host| host.to_str().ok());
    let host = host.or_else(|| request.uri().host());
    let mut response = if !host.is_some_and(|host| names.answers(host)) {
        (StatusCode::MISDIRECTED_REQUEST, "unknown host name\n").into_response()
    } else if ![Method::GET, Method::HEAD].contains(request.method()) {
        (StatusCode::METHOD_NOT_ALLOWED, [(header::ALLOW, "GET, HEAD")], "this server is read-only\n").into_response()
    } else {
        next.run(request).await
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
