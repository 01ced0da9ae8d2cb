//! The server on a loopback address: the requests that it answers.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
    os::unix::fs::PermissionsExt as _,
    path::PathBuf,
    process::Child,
};

use serde_json::json;

use crate::client::Project;

/// A server, ended when it is dropped.
pub(crate) struct Server {
    child: Child,
    pub(crate) port: u16,
    pub(crate) token: String,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Server {
    pub(crate) fn start(project: &Project, args: &[&str]) -> Self {
        let mut child = project.command(&[&["mcp", "--http", "0"], args].concat()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let port = line.trim().strip_prefix("http://127.0.0.1:").and_then(|rest| rest.strip_suffix("/mcp")).unwrap();
        let token = fs_err::read_to_string(token_file(project)).unwrap().trim().to_owned();
        Self { child, port: port.parse().unwrap(), token }
    }

    /// Sends `initialize` with these headers, and answers the code and the body.
    fn ask(&self, path: &str, headers: &[(&str, &str)], body: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        let mut head = format!("POST {path} HTTP/1.1\r\nConnection: close\r\nContent-Length: {}\r\n", body.len());
        head += "Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n";
        for (name, value) in headers {
            head.extend([name, ": ", value, "\r\n"]);
        }
        stream.write_all(format!("{head}\r\n{body}").as_bytes()).unwrap();
        let mut answer = Vec::new();
        // A refused request that is large is not read to its end.
        let _ = stream.read_to_end(&mut answer);
        let answer = String::from_utf8_lossy(&answer).into_owned();
        (answer.split(' ').nth(1).unwrap().parse().unwrap(), answer)
    }
}

/// The token of the only session.
fn token_file(project: &Project) -> PathBuf {
    let session = fs_err::read_dir(project.path("results/mcp")).unwrap().next().unwrap().unwrap();
    session.path().join("token")
}

fn initialize() -> String {
    let about = json!({ "name": "test", "version": "1" });
    let params = json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": about });
    json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params }).to_string()
}

#[test]
fn only_requests_with_the_token_for_this_machine_are_answered() {
    let project = Project::new();
    let server = Server::start(&project, &[]);
    let own = format!("127.0.0.1:{}", server.port);
    let bearer = format!("Bearer {}", server.token);
    let code = |headers: &[(&str, &str)]| server.ask("/mcp", headers, &initialize()).0;
    let good = [("Host", own.as_str()), ("Authorization", bearer.as_str())];
    let (answered, text) = server.ask("/mcp", &good, &initialize());
    assert_eq!(answered, 200, "{text}");
    assert!(text.contains("\"name\":\"sweep\""), "{text}");
    assert_eq!(code(&[("Host", &own)]), 401);
    let basic = format!("Basic {}", server.token);
    for wrong in ["Bearer", "Bearer ", "Bearer x", &bearer[..bearer.len() - 1], &basic, &server.token] {
        assert_eq!(code(&[("Host", &own), ("Authorization", wrong)]), 401, "{wrong}");
    }
    for host in ["evil.example", "127.0.0.1.evil.example", "10.0.0.1", ""] {
        assert_eq!(code(&[("Host", host), ("Authorization", &bearer)]), 421, "{host}");
    }
    for origin in ["http://evil.example", "null", "http://localhost:3000", &format!("http://{own}")] {
        assert_eq!(code(&[good[0], good[1], ("Origin", origin)]), 403, "{origin}");
    }
    assert_eq!(server.ask("/other", &good, &initialize()).0, 404);
    let hostile = ["{", "null", "[]", &"[".repeat(100_000)];
    for body in hostile {
        let (code, text) = server.ask("/mcp", &good, body);
        assert!((400..500).contains(&code), "{}: {text}", &body[..1]);
    }
    assert_eq!(server.ask("/mcp", &good, &" ".repeat(2 << 20)).0, 413);
    assert_eq!(code(&good), 200, "it still answers");
}

#[test]
fn the_token_is_the_users_only() {
    let project = Project::new();
    let server = Server::start(&project, &[]);
    let mode = fs_err::metadata(token_file(&project)).unwrap().permissions().mode();
    assert_eq!((mode & 0o777, server.token.len()), (0o600, 64));
    drop(server);
    project.write("short", "secret\n");
    let ended = project.command(&["mcp", "--http", "0", "--token-file", "short"]).output().unwrap();
    assert_eq!(ended.status.code(), Some(2));
}
