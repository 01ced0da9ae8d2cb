//! Pulls from remotes that are slow or redirect, and interrupted pulls: HTTP on the loopback interface.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{TcpListener, TcpStream},
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use rustix::process::Signal;

use crate::sandbox::{Ended, Running, Sandbox, list, until};

/// Job `slow`, whose object the server has; `other`, which is independent of it; and `after`, which needs it.
const RECIPE: &str = "
steps:
  slow: { uses: command, with: { run: 'head -c 300000 /dev/zero > big; echo x=1', outputs: [big] }, resources: { cpus: 1 } }
  other: { uses: mock, with: { value: 2 }, resources: { cpus: 1 } }
  after: { uses: mock, needs: slow, with: { value: 3 }, resources: { cpus: 1 } }
";

/// Answer of the server to a request for its object.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Manner {
    /// The object, in parts of this number of bytes every 200 ms; the whole rest at once when `go_on` is set.
    InParts(usize),
    /// A redirection to another server, at this port.
    Elsewhere(u16),
}

/// An S3 server with one object.
struct Server {
    port: u16,
    go_on: Arc<AtomicBool>,
    asked: Arc<AtomicUsize>,
}

impl Server {
    fn start(key: String, object: Vec<u8>, manner: Manner) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (go_on, asked) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let shared = (go_on.clone(), asked.clone());
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let (key, object, (go_on, asked)) = (key.clone(), object.clone(), shared.clone());
                thread::spawn(move || serve(&client, &key, &object, manner, &go_on, &asked));
            }
        });
        Self { port, go_on, asked }
    }

    fn spawn(&self, sandbox: &Sandbox, args: &[&str]) -> Running {
        let mut command = sandbox.command(&[args, &["--remote", "s3://bucket"]].concat());
        command
            .env("AWS_ENDPOINT_URL", format!("http://127.0.0.1:{}", self.port))
            .env("AWS_ACCESS_KEY_ID", "key")
            .env("AWS_SECRET_ACCESS_KEY", "secret of the test")
            .env("AWS_REGION", "us-east-1");
        Running::from(command.spawn().unwrap())
    }
}

/// Answers the requests of a connection until the client closes it.
fn serve(client: &TcpStream, key: &str, object: &[u8], manner: Manner, go_on: &AtomicBool, asked: &AtomicUsize) {
    let mut reader = BufReader::new(client.try_clone().unwrap());
    let mut client = client;
    loop {
        let (mut first, mut length) = (String::new(), 0);
        if reader.read_line(&mut first).unwrap_or(0) == 0 {
            return;
        }
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line).unwrap_or(0) == 0 || line == "\r\n" {
                break;
            }
            let line = line.to_lowercase();
            length = line.strip_prefix("content-length:").map_or(length, |rest| rest.trim().parse().unwrap());
        }
        let _ = std::io::copy(&mut (&mut reader).take(length), &mut std::io::sink());
        let is_asked = first.starts_with("GET") && first.contains(key);
        let answer = match manner {
            _ if first.starts_with("PUT") => "200 OK\r\nETag: \"x\"\r\nContent-Length: 0\r\n\r\n".to_owned(),
            Manner::Elsewhere(port) if is_asked => {
                format!("302 Found\r\nLocation: http://localhost:{port}/bucket\r\nContent-Length: 0\r\n\r\n")
            }
            Manner::InParts(_) if is_asked => format!(
                "200 OK\r\nETag: \"x\"\r\nLast-Modified: Thu, 01 Jan 2026 00:00:00 GMT\r\nContent-Length: {}\r\n\r\n",
                object.len()
            ),
            _ => "404 Not Found\r\nContent-Length: 0\r\n\r\n".to_owned(),
        };
        if client.write_all(format!("HTTP/1.1 {answer}").as_bytes()).is_err() {
            return;
        }
        let Manner::InParts(part) = manner else { continue };
        if !is_asked {
            continue;
        }
        asked.fetch_add(1, Ordering::SeqCst);
        let mut rest = object;
        while !rest.is_empty() {
            let count = if go_on.load(Ordering::SeqCst) { rest.len() } else { part.min(rest.len()) };
            let (now, later) = rest.split_at(count);
            rest = later;
            if client.write_all(now).is_err() {
                return;
            }
            thread::sleep(Duration::from_millis(200));
        }
    }
}

/// The key of the job `slow`, and the object that `sweep run --remote` writes for it.
fn object() -> (String, Vec<u8>) {
    let (sandbox, folder) = (Sandbox::with(RECIPE), tempfile::tempdir().unwrap());
    let remote = format!("file://{}", folder.path().display());
    let ended = sandbox.sweep(&["run", "recipe.yaml", "--only", "slow", "--remote", &remote]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let key = sandbox.records()["slow"]["key"].as_str().unwrap().to_owned();
    let object = fs_err::read(folder.path().join("records").join(&key[..2]).join(&key)).unwrap();
    (key, object)
}

/// Position in the journal of the first event of `kind` about the job `label`.
fn at(sandbox: &Sandbox, label: &str, kind: &str) -> Option<usize> {
    sandbox.events().iter().position(|(name, event)| name == label && event == kind)
}

/// The notes and warnings of a run.
fn remarks(ended: &Ended) -> String {
    let lines = ended.stderr.lines().filter(|line| line.starts_with("note: ") || line.starts_with("warning: "));
    lines.collect::<Vec<_>>().join("\n")
}

/// The only warning.
fn warning(ended: &Ended) -> &str {
    let warnings: Vec<&str> = ended.stderr.lines().filter(|line| line.starts_with("warning: ")).collect();
    assert_eq!(warnings.len(), 1, "{}", ended.stderr);
    warnings[0]
}

#[test]
fn a_slow_object_holds_up_its_own_job_and_no_other() {
    let (key, object) = object();
    let server = Server::start(key, object, Manner::InParts(1000));
    let sandbox = Sandbox::with(RECIPE);
    let run = server.spawn(&sandbox, &["run", "recipe.yaml"]);
    until("the other job is done", || at(&sandbox, "other", "done").is_some());
    let jobs = sandbox.status()["jobs"].as_array().unwrap().clone();
    let slow = jobs.into_iter().find(|job| job["job"] == "slow").unwrap();
    assert_eq!(slow["state"], "waiting");
    assert_message!(slow["says"].as_str().unwrap());
    server.go_on.store(true, Ordering::SeqCst);
    let ended = run.wait();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert_message!(remarks(&ended));
    assert_eq!(sandbox.starts().keys().collect::<Vec<_>>(), ["after", "other"], "{}", ended.stderr);
    assert!(at(&sandbox, "other", "done") < at(&sandbox, "slow", "done"));
    assert!(at(&sandbox, "slow", "done") < at(&sandbox, "after", "started"));
    assert_eq!(sandbox.sweep(&["cache", "verify"]).code, Some(0));
}

#[test]
fn an_object_that_takes_too_long_is_left_and_its_job_run() {
    let (key, object) = object();
    let server = Server::start(key, object, Manner::InParts(1));
    let sandbox = Sandbox::with(RECIPE);
    let ended = server.spawn(&sandbox, &["run", "recipe.yaml", "--remote-timeout", "5s"]).wait();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert_eq!(sandbox.starts().len(), 3, "{}", ended.stderr);
    assert_message!(warning(&ended), r"slowly: \S+ \w+ in" => "slowly: [size] in");
}

#[test]
fn what_trickles_is_given_up_long_before_its_time_is_over() {
    let (key, object) = object();
    let server = Server::start(key, object, Manner::InParts(1));
    let sandbox = Sandbox::with(RECIPE);
    let ended = server.spawn(&sandbox, &["run", "recipe.yaml"]).wait();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert_eq!(sandbox.starts().len(), 3, "{}", ended.stderr);
    assert_message!(warning(&ended), r"slowly: \S+ \w+ in" => "slowly: [size] in");
}

#[test]
fn an_interrupted_pull_leaves_nothing() {
    let (key, object) = object();
    let server = Server::start(key, object, Manner::InParts(1000));
    // SIGINT, which a run handles while it pulls in the background, and SIGKILL, which no process can handle.
    for (args, signal) in
        [(&["run", "recipe.yaml"][..], Signal::INT), (&["cache", "pull", "recipe.yaml"], Signal::KILL)]
    {
        let sandbox = Sandbox::with(RECIPE);
        let before = server.asked.load(Ordering::SeqCst);
        let pull = server.spawn(&sandbox, args);
        until("the object is asked for", || server.asked.load(Ordering::SeqCst) > before);
        if signal == Signal::INT {
            until("the run goes on without it", || at(&sandbox, "other", "done").is_some());
        }
        pull.signal(signal);
        pull.wait();
        let left: Vec<PathBuf> = list(&sandbox.path("results/store"));
        let left: Vec<_> =
            left.iter().filter(|path| path.file_name().unwrap().to_str().unwrap().starts_with(".tmp")).collect();
        assert!(left.is_empty(), "{left:?}");
        assert!(list(&sandbox.path("results/store/staging")).is_empty());
        assert!(!sandbox.records().contains_key("slow"));
    }
}

/// The client reports the missing server only after its retries, when other jobs have run. The run warns once.
#[test]
fn a_server_that_does_not_answer_is_one_warning() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = silent.local_addr().unwrap().port();
    drop(silent);
    let server = Server { port, go_on: Arc::default(), asked: Arc::default() };
    let sandbox = Sandbox::with(RECIPE);
    let ended = server.spawn(&sandbox, &["run", "recipe.yaml"]).wait();
    assert_eq!((ended.code, sandbox.starts().len()), (Some(0), 3), "{}", ended.stderr);
    assert_message!(warning(&ended));
}

#[test]
fn another_host_is_not_asked() {
    let (key, object) = object();
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = other.local_addr().unwrap().port();
    let server = Server::start(key, object, Manner::Elsewhere(port));
    let sandbox = Sandbox::with(RECIPE);
    let ended = server.spawn(&sandbox, &["run", "recipe.yaml"]).wait();
    assert_eq!((ended.code, sandbox.starts().len()), (Some(0), 3), "{}", ended.stderr);
    assert_message!(warning(&ended));
    other.set_nonblocking(true).unwrap();
    assert!(other.accept().is_err(), "it was asked");
}
