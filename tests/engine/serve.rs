//! `sweep ui` as those see it who are no browser: who is answered, and what is never given away.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
    time::Duration,
};

use rustix::process::Signal;

use crate::sandbox::{Running, Sandbox};

/// A server, and its port.
fn serve(sandbox: &Sandbox) -> (Running, u16) {
    let mut child = sandbox.command(&["ui", "--port", "0"]).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    let port = line.trim().strip_prefix("http://127.0.0.1:").and_then(|rest| rest.strip_suffix('/')).unwrap();
    (Running::from(child), port.parse().unwrap())
}

/// Asks, and answers the whole answer.
fn ask(port: u16, method: &str, path: &str, host: &str) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    write!(stream, "{method} {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    String::from_utf8_lossy(&answer).into_owned()
}

fn code(answer: &str) -> u16 {
    answer.split(' ').nth(1).unwrap().parse().unwrap()
}

fn study() -> Sandbox {
    let sandbox = Sandbox::with(
        "name: served\nsteps: { a: { uses: mock, matrix: { seed: [0, 1] } } }\ntables: { t: { from: a, cells: [value] } }\n",
    );
    assert_eq!(sandbox.sweep(&["run", "recipe.yaml"]).code, Some(0));
    sandbox
}

#[test]
fn only_this_machine_is_answered_and_nothing_can_be_changed() {
    let sandbox = study();
    let (_server, port) = serve(&sandbox);
    let own = format!("127.0.0.1:{port}");
    let answer = ask(port, "GET", "/", &own);
    assert_eq!(code(&answer), 200);
    for header in
        ["x-content-type-options: nosniff", "x-frame-options: DENY", "cross-origin-resource-policy: same-origin"]
    {
        assert!(answer.contains(header), "{header}: {answer}");
    }
    assert!(answer.contains("default-src 'none'") && answer.contains("\"recipe\":\"served\""));
    for host in ["localhost:1", "[::1]"] {
        assert_eq!(code(&ask(port, "GET", "/", host)), 200, "{host}");
    }
    // A page from elsewhere whose name leads here.
    for host in ["evil.example", &format!("evil.example:{port}"), "127.0.0.1.evil.example", "10.0.0.1", ""] {
        for path in ["/", "/events", "/reports/served/index.html"] {
            assert_eq!(code(&ask(port, "GET", path, host)), 421, "{host}{path}");
        }
    }
    for method in ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"] {
        assert_eq!(code(&ask(port, method, "/", &own)), 405, "{method}");
    }
}

#[test]
fn reports_are_given_and_nothing_else() {
    let sandbox = study();
    sandbox.write("secret.html", "secret");
    std::os::unix::fs::symlink(sandbox.path("secret.html"), sandbox.path("results/reports/served/link.html")).unwrap();
    std::os::unix::fs::symlink(sandbox.path("."), sandbox.path("results/reports/up")).unwrap();
    let (_server, port) = serve(&sandbox);
    let get = |path: &str| ask(port, "GET", path, "localhost");
    assert!(get("/reports/served/index.html").contains("2 of 2 jobs done"));
    assert!(get("/reports/served/tables/t.csv").contains("text/csv"));
    assert!(get("/reports/served").to_lowercase().contains("location: /reports/served/index.html"));
    for path in [
        "/reports/../secret.html",
        "/reports/%2e%2e/%2e%2e/secret.html",
        "/reports/..%2f..%2fsecret.html",
        "/reports//etc/hostname.html",
        "/reports/%2fetc%2fpasswd.html",
        "/reports/served/link.html",
        "/reports/up/secret.html",
        "/reports/up/results/store/index.jsonl.html",
        "/reports/served/index.html%00.html",
        "/reports/../store/index.jsonl",
        "/runs/../store",
        "/runs/%2e%2e",
        "/runs/%2e%2e%2fstore/jobs/000000000000",
        "/recipe.yaml",
    ] {
        let answer = get(path);
        assert!([400, 404].contains(&code(&answer)) && !answer.contains("secret\n"), "{path}: {answer}");
        assert!(!answer.ends_with("secret"), "{path}");
    }
    // A run that is not there is said to be so, whatever its name is.
    for path in ["/runs/x", "/runs/<script>", "/compare?a=x&b=%3Cscript%3E", "/compare"] {
        let answer = get(path);
        assert!(code(&answer) >= 400 && !answer.contains("<script>"), "{path}: {answer}");
    }
}

#[test]
fn a_run_is_told_as_it_goes_and_the_server_ends_at_once() {
    let sandbox = Sandbox::with("name: told\nsteps: { a: { uses: mock, with: { seconds: 600, steps: 600 } } }\n");
    let run = sandbox.start(&["run", "recipe.yaml"]);
    crate::sandbox::until("the job runs", || !sandbox.journal("started").is_empty());
    let (server, port) = serve(&sandbox);
    let name = fs_err::read_dir(sandbox.path("results/runs")).unwrap().next().unwrap().unwrap().file_name();
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(Duration::from_mins(1))).unwrap();
    write!(stream, "GET /runs/{}/events HTTP/1.1\r\nHost: localhost\r\n\r\n", name.to_string_lossy()).unwrap();
    let mut lines = BufReader::new(&stream).lines().map_while(Result::ok);
    assert!(lines.any(|line| line.contains("content-type: text/event-stream")));
    assert!(lines.any(|line| line.starts_with("data: {") && line.contains("\"state\":\"live\"")));
    run.signal(Signal::KILL);
    assert!(lines.any(|line| line.starts_with("data: {") && line.contains("\"state\":\"killed\"")));
    server.signal(Signal::INT);
    assert_eq!(server.wait().code, Some(0));
}

#[test]
fn a_port_that_is_taken_is_one_sentence() {
    let sandbox = Sandbox::new();
    let (_server, port) = serve(&sandbox);
    let ended = sandbox.sweep(&["ui", "--port", &port.to_string()]);
    assert_eq!(ended.code, Some(1));
    assert!(ended.stderr.starts_with("error: cannot serve") && ended.stderr.contains("--port 0"), "{}", ended.stderr);
}
