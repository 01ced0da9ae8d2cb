//! Records in a remote: a folder, and a real S3-speaking server on loopback.

use std::{
    io::{Read as _, Write as _},
    net::{TcpListener, TcpStream},
    path::PathBuf,
    process::{Child, Command, Stdio},
    thread,
};

use crate::{
    messages::Transcript,
    sandbox::{Ended, Running, Sandbox, list, until},
};

const RECIPE: &str = "
steps:
  a: { uses: mock, matrix: { value: [1, 2, 3] }, with: { text: kept } }
  b: { uses: mock, needs: a, with: { value: 4 } }
tables: { t: { from: a, rows: [value], cells: [value] } }
";

const KEY: &str = "access-key-of-the-test";
const SECRET: &str = "secret-of-the-test-that-nobody-may-see";
/// One that the server does not know.
const OTHER_SECRET: &str = "another secret";

/// An S3 server; ended by its number when dropped.
struct Server {
    process: Child,
    folder: tempfile::TempDir,
    port: u16,
}

impl Server {
    /// `None`, and the reason on standard error, where none is installed.
    fn start() -> Option<Self> {
        let home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
        let own = home.join(".cache/sweep/s3s-fs/bin/s3s-fs");
        let program = if own.is_file() { own } else { PathBuf::from("s3s-fs") };
        let folder = tempfile::tempdir().unwrap();
        fs_err::create_dir(folder.path().join("bucket")).unwrap();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let started = Command::new(program)
            .args(["--host", "127.0.0.1", "--port", &port.to_string(), "--access-key", KEY, "--secret-key", SECRET])
            .arg(folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let process = match started {
            Ok(process) => process,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                eprintln!("not run: there is no s3s-fs here; scripts/test-deps.sh installs it");
                return None;
            }
            Err(error) => panic!("{error}"),
        };
        let server = Self { process, folder, port };
        until("the server listens", || TcpStream::connect(("127.0.0.1", port)).is_ok());
        Some(server)
    }

    /// A command with the server's address and credentials in its environment.
    fn command(&self, sandbox: &Sandbox, args: &[&str]) -> Command {
        with_credentials(sandbox.command(args), self.port, SECRET)
    }

    fn sweep(&self, sandbox: &Sandbox, args: &[&str]) -> Ended {
        Running::from(self.command(sandbox, args).spawn().unwrap()).wait()
    }

    /// The files of all records.
    fn objects(&self) -> Vec<PathBuf> {
        let shards = list(&self.folder.path().join("bucket/lab/records"));
        shards.iter().flat_map(|shard| list(shard)).collect()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn with_credentials(mut command: Command, port: u16, secret: &str) -> Command {
    command
        .env("AWS_ENDPOINT_URL", format!("http://127.0.0.1:{port}"))
        .env("AWS_ACCESS_KEY_ID", KEY)
        .env("AWS_SECRET_ACCESS_KEY", secret)
        .env("AWS_REGION", "us-east-1");
    command
}

const REMOTE: [&str; 2] = ["--remote", "s3://bucket/lab"];

fn run() -> Vec<&'static str> {
    [&["run", "recipe.yaml"], &REMOTE[..]].concat()
}

/// Asserts that a sandbox has a whole store with the four records, of which `ran` were run here.
fn has_all(sandbox: &Sandbox, ended: &Ended, ran: usize) {
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert_eq!((sandbox.records().len(), sandbox.starts().len()), (4, ran), "{}", ended.stderr);
    assert_eq!(sandbox.sweep(&["cache", "verify"]).code, Some(0));
}

#[test]
fn two_checkouts_share_results() {
    let Some(server) = Server::start() else { return };
    let (first, second) = (Sandbox::with(RECIPE), Sandbox::with(RECIPE));
    let one = server.sweep(&first, &run());
    has_all(&first, &one, 4);
    assert_eq!(server.objects().len(), 4);
    let two = server.sweep(&second, &run());
    has_all(&second, &two, 0);
    assert_message!(two.stderr);
    // But for the footnote that says so, they see the same.
    let own: Vec<&str> = two.stdout.lines().filter(|line| !line.contains("s3://bucket/lab")).collect();
    assert_eq!(one.stdout.lines().collect::<Vec<_>>(), own);
    assert_message!(two.stdout.lines().filter(|line| line.contains("s3://bucket/lab")).collect::<String>());
    assert_eq!(first.records(), second.records());
    // The credentials are nowhere.
    for sandbox in [&first, &second] {
        let grep = Command::new("grep").args(["-rlE", &format!("{SECRET}|{KEY}")]).arg(sandbox.path("")).output();
        assert_eq!(String::from_utf8_lossy(&grep.unwrap().stdout), "");
    }
}

#[test]
fn records_are_pushed_and_pulled_by_hand() {
    let Some(server) = Server::start() else { return };
    let (first, second) = (Sandbox::with(RECIPE), Sandbox::with(RECIPE));
    assert_eq!(first.sweep(&["run", "recipe.yaml"]).code, Some(0));
    let mut said = Transcript::default();
    let mut cache = |sandbox: &Sandbox, args: &[&str]| {
        let ended = server.sweep(sandbox, &[&["cache"], args, &REMOTE[..]].concat());
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        said.add(&args.join(" "), &ended.stderr);
    };
    cache(&first, &["push", "b"]);
    assert_eq!(server.objects().len(), 1);
    cache(&first, &["push"]);
    assert_eq!(server.objects().len(), 4);
    cache(&second, &["pull", "recipe.yaml"]);
    assert_eq!(first.records(), second.records());
    cache(&second, &["pull"]);
    assert_eq!(first.records(), second.records());
    assert_message!(said);
}

/// The lines of `sweep note` about the job `a/value=1`, below the heading.
fn notes(sandbox: &Sandbox) -> String {
    let ended = sandbox.sweep(&["note", "a/value=1"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    ended.stdout.lines().skip(1).collect::<Vec<_>>().join("\n")
}

#[test]
fn notes_are_pushed_and_pulled_with_their_records() {
    let Some(server) = Server::start() else { return };
    let first = Sandbox::with(RECIPE);
    assert_eq!(first.sweep(&["run", "recipe.yaml"]).code, Some(0));
    let ended = first.sweep(&["note", "a/value=1", "diverges\nlate <b>", "--tag", "best", "--tag", "paper"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let pushed = server.sweep(&first, &[&["cache", "push"], &REMOTE[..]].concat());
    assert_eq!((pushed.code, server.objects().len()), (Some(0), 4), "{}", pushed.stderr);
    // By a pull by hand, and by a run that takes the records instead of running the jobs.
    for args in [[&["cache", "pull", "recipe.yaml"], &REMOTE[..]].concat(), run()] {
        let second = Sandbox::with(RECIPE);
        let ended = server.sweep(&second, &args);
        assert_eq!((ended.code, second.starts().len()), (Some(0), 0), "{}", ended.stderr);
        assert!(notes(&first).contains("tags: best, paper"), "{}", notes(&first));
        assert_eq!(notes(&second), notes(&first), "{args:?}");
        assert_eq!(second.sweep(&["cache", "verify"]).code, Some(0));
        // Own notes stay when the record is pulled again.
        assert_eq!(second.sweep(&["note", "a/value=1", "seen here", "--tag", "own"]).code, Some(0));
        let own = notes(&second);
        let ended = server.sweep(&second, &[&["cache", "pull"], &REMOTE[..]].concat());
        assert_eq!((ended.code, notes(&second)), (Some(0), own), "{}", ended.stderr);
    }
    // A later note does not follow its record, and the command says so.
    assert!(!pushed.stderr.contains("tags and notes"), "{}", pushed.stderr);
    let pushed = server.sweep(&first, &[&["cache", "push"], &REMOTE[..]].concat());
    assert!(pushed.stderr.contains("note: 1 record there already with the tags and notes"), "{}", pushed.stderr);
}

#[test]
fn a_damaged_object_is_not_used_and_replaced() {
    let Some(server) = Server::start() else { return };
    let first = Sandbox::with(RECIPE);
    has_all(&first, &server.sweep(&first, &run()), 4);
    // One byte of a number in the record: still JSON, still the same key, only wrong.
    let damaged = server.objects().into_iter().find(|object| {
        let bytes = fs_err::read(object).unwrap();
        String::from_utf8_lossy(&bytes).contains("\"value=1\"") || String::from_utf8_lossy(&bytes).contains("a/value=1")
    });
    let damaged = damaged.unwrap();
    let whole = fs_err::read(&damaged).unwrap();
    let mut bytes = whole.clone();
    let at = bytes.windows(11).position(|window| window == b"\"value\": 1.").unwrap();
    bytes[at + 9] = b'7';
    fs_err::write(&damaged, &bytes).unwrap();
    let second = Sandbox::with(RECIPE);
    let ended = server.sweep(&second, &run());
    has_all(&second, &ended, 1);
    assert_message!(warning(&ended), r"record \w+" => "record [key]");
    assert_eq!(first.records()["a/value=1"]["outcome"], second.records()["a/value=1"]["outcome"]);
    // The new record replaces the damaged object. A truncated object is rejected like a changed one.
    fs_err::write(&damaged, &whole[..whole.len() / 2]).unwrap();
    let third = Sandbox::with(RECIPE);
    has_all(&third, &server.sweep(&third, &run()), 1);
    let fourth = Sandbox::with(RECIPE);
    has_all(&fourth, &server.sweep(&fourth, &run()), 0);
}

#[test]
fn a_missing_object_is_run_and_pushed() {
    let Some(server) = Server::start() else { return };
    let first = Sandbox::with(RECIPE);
    has_all(&first, &server.sweep(&first, &run()), 4);
    fs_err::remove_file(&server.objects()[0]).unwrap();
    let second = Sandbox::with(RECIPE);
    has_all(&second, &server.sweep(&second, &run()), 1);
    assert_eq!(server.objects().len(), 4);
}

/// The only warning.
fn warning(ended: &Ended) -> &str {
    let warnings: Vec<&str> = ended.stderr.lines().filter(|line| line.starts_with("warning: ")).collect();
    assert_eq!(warnings.len(), 1, "{}", ended.stderr);
    warnings[0]
}

/// One warning, everything run and kept here.
fn degraded(sandbox: &Sandbox, ended: &Ended) -> String {
    has_all(sandbox, ended, 4);
    assert!(!ended.stderr.contains(SECRET) && !ended.stderr.contains(OTHER_SECRET), "{}", ended.stderr);
    warning(ended).to_owned()
}

#[test]
fn refused_credentials_and_a_server_that_is_gone_are_one_warning() {
    let Some(server) = Server::start() else { return };
    let sandbox = Sandbox::with(RECIPE);
    let command = with_credentials(sandbox.command(&run()), server.port, OTHER_SECRET);
    assert_message!(degraded(&sandbox, &Running::from({ command }.spawn().unwrap()).wait()));
    assert!(server.objects().is_empty());
    let port = server.port;
    drop(server);
    let sandbox = Sandbox::with(RECIPE);
    let command = with_credentials(sandbox.command(&run()), port, SECRET);
    assert_message!(degraded(&sandbox, &Running::from({ command }.spawn().unwrap()).wait()));
    let push = with_credentials(sandbox.command(&["cache", "push", "--remote", "s3://bucket"]), port, SECRET);
    assert_eq!(Running::from({ push }.spawn().unwrap()).wait().code, Some(1));
}

#[test]
fn a_server_killed_in_the_middle_of_an_upload_has_no_half_object() {
    let Some(server) = Server::start() else { return };
    let sandbox = Sandbox::with(
        "steps: { a: { uses: command, with: { run: 'head -c 60000000 /dev/urandom > big; echo x=1', outputs: [big] } } }",
    );
    // Between both: it lets some of the upload through, and then the server dies.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let between = listener.local_addr().unwrap().port();
    let (target, pid) = (server.port, server.process.id());
    thread::spawn(move || {
        let total = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
        for client in listener.incoming().map_while(Result::ok) {
            let Ok(upstream) = TcpStream::connect(("127.0.0.1", target)) else { continue };
            let (mut down, mut back) = (client.try_clone().unwrap(), upstream.try_clone().unwrap());
            thread::spawn(move || std::io::copy(&mut back, &mut down));
            let total = total.clone();
            let (mut client, mut upstream) = (client, upstream);
            thread::spawn(move || {
                let mut buffer = vec![0; 1 << 16];
                while let Ok(count @ 1..) = client.read(&mut buffer) {
                    if total.fetch_add(count, std::sync::atomic::Ordering::SeqCst) > 20_000_000 {
                        let pid = rustix::process::Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
                        let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
                    }
                    if upstream.write_all(&buffer[..count]).is_err() {
                        return;
                    }
                }
            });
        }
    });
    let command = with_credentials(sandbox.command(&run()), between, SECRET);
    let ended = Running::from({ command }.spawn().unwrap()).wait();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert_message!(warning(&ended));
    assert_eq!(sandbox.records().len(), 1, "here it is");
    assert!(server.objects().is_empty(), "{:?}", server.objects());
    // A server that lives takes it.
    let Some(next) = Server::start() else { return };
    let push = next.sweep(&sandbox, &[&["cache", "push"], &REMOTE[..]].concat());
    assert_eq!((push.code, next.objects().len()), (Some(0), 1), "{}", push.stderr);
    let other = Sandbox::with(&sandbox.read("recipe.yaml"));
    let pulled = next.sweep(&other, &run());
    assert_eq!((pulled.code, other.starts().len()), (Some(0), 0), "{}", pulled.stderr);
    assert_eq!(other.sweep(&["cache", "verify"]).code, Some(0));
}

#[test]
fn a_folder_is_a_remote_and_mistakes_are_usage() {
    let (first, second) = (Sandbox::with(RECIPE), Sandbox::with(RECIPE));
    let folder = tempfile::tempdir().unwrap();
    let remote = format!("file://{}", folder.path().display());
    has_all(&first, &first.sweep(&["run", "recipe.yaml", "--remote", &remote]), 4);
    let second_run = second.command(&["run", "recipe.yaml"]).env("SWEEP_REMOTE", &remote).spawn().unwrap();
    has_all(&second, &Running::from(second_run).wait(), 0);
    let mut said = Transcript::default();
    for address in ["bucket", "s3://key:secret@bucket", "file:///no/such/folder", "ftp://x/y"] {
        let ended = first.sweep(&["run", "recipe.yaml", "--remote", address]);
        assert_eq!(ended.code, Some(2), "{address}: {}", ended.stderr);
        said.add(address, &ended.stderr);
    }
    assert_message!(said);
}
