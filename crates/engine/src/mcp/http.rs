//! The server on a loopback address: requests without the token, for another host name or from a web page are refused.

use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use axum::{
    Router,
    body::Body,
    extract::{Request, State},
    http::{HeaderValue, StatusCode, header},
    middleware::{self, Next},
    response::{IntoResponse as _, Response},
};
use futures_util::StreamExt as _;
use rmcp::transport::streamable_http_server::{
    StreamableHttpServerConfig, StreamableHttpService, session::local::LocalSessionManager,
};
use tokio::{
    net::TcpListener,
    signal::unix::{SignalKind, signal},
    sync::watch,
};

use super::handler::Server;
use crate::web::{Names, Token, clients::Client, connections};

/// Largest request, in bytes.
const MAX_REQUEST_BYTES: usize = 1 << 20;

/// Time for connections to end when the server does.
const GRACE: Duration = Duration::from_secs(2);

/// Rules for requests.
#[derive(Debug)]
struct Guard {
    names: Names,
    token: Token,
}

pub(super) async fn serve(server: Server, port: u16, token: Token, ready: impl FnOnce(SocketAddr)) -> io::Result<i32> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut hangup = signal(SignalKind::hangup())?;
    let host = Ipv4Addr::LOCALHOST;
    let listener = TcpListener::bind((host, port)).await?;
    let (close, closing) = watch::channel(false);
    let config = StreamableHttpServerConfig::default()
        .enforce_origin_validation()
        .with_max_request_body_bytes(MAX_REQUEST_BYTES);
    let cancellation = config.cancellation_token.clone();
    let service =
        StreamableHttpService::new(move || Ok(server.clone()), Arc::new(LocalSessionManager::default()), config);
    let guard = Guard { names: Names::new(host.into()), token };
    let router =
        Router::new().route_service("/mcp", service).layer(middleware::from_fn_with_state(Arc::new(guard), check));
    ready(listener.local_addr()?);
    let server_task = tokio::spawn(connections::serve(listener, router, closing));
    let kind = tokio::select! {
        _ = interrupt.recv() => SignalKind::interrupt(),
        _ = terminate.recv() => SignalKind::terminate(),
        _ = hangup.recv() => SignalKind::hangup(),
    };
    cancellation.cancel();
    let _ = close.send(true);
    // A connection that does not end is not waited for.
    let _ = tokio::time::timeout(GRACE, server_task).await;
    Ok(kind.as_raw_value())
}

/// Refuses a stream of events to a client that has reached its limit of open streams.
fn limited(response: Response, client: Option<Client>) -> Response {
    let kind = response.headers().get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    if !kind.is_some_and(|kind| kind.starts_with("text/event-stream")) {
        return response;
    }
    let Some(stream) = client.and_then(|client| client.stream()) else {
        let retry_header = [(header::RETRY_AFTER, "5")];
        return (StatusCode::SERVICE_UNAVAILABLE, retry_header, "too many streams are open\n").into_response();
    };
    response.map(|body| {
        Body::from_stream(body.into_data_stream().map(move |part| {
            let _ = &stream;
            part
        }))
    })
}

/// Refuses requests that are not for this server.
async fn check(State(guard): State<Arc<Guard>>, request: Request, next: Next) -> Response {
    let headers = request.headers();
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok());
    let host = host.or_else(|| request.uri().host());
    let client = request.extensions().get::<Client>().cloned();
    let mut response = if !host.is_some_and(|host| guard.names.answers(host)) {
        (StatusCode::MISDIRECTED_REQUEST, "unknown host name\n").into_response()
    } else if headers.contains_key(header::ORIGIN) {
        (StatusCode::FORBIDDEN, "requests from web pages are refused\n").into_response()
    } else if !guard.token.is_in(headers) {
        let challenge = [(header::WWW_AUTHENTICATE, "Bearer")];
        (StatusCode::UNAUTHORIZED, challenge, "the header `Authorization: Bearer TOKEN` is missing or wrong\n")
            .into_response()
    } else {
        limited(next.run(request).await, client)
    };
    response.headers_mut().insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}
