//! Messages about a run.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpListener,
    os::unix::fs::PermissionsExt as _,
    thread,
};

use serde_json::Value;

use crate::sandbox::Sandbox;

const STUDY: &str = "\
name: notified
steps:
  good:
    uses: command
    matrix: { x: [1, 2] }
    with: { run: 'echo loss=$X', env: { X: '${{ matrix.x }}' } }
  bad:
    uses: command
    matrix: { x: [1, 2, 3] }
    with: { run: 'echo broken $X >&2; exit 3', env: { X: '${{ matrix.x }}' } }
  infinite:
    uses: command
    with: { run: 'echo loss=nan' }
claims:
  low: { value: { metric: loss, of: { step: good, x: 1 } }, expect: { at_most: 5 } }
notify:
  NOTIFY
";

/// Takes `count` requests, and answers each with `status`; the bodies.
fn listen(count: usize, status: &'static str) -> (String, thread::JoinHandle<Vec<Value>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}/hook", listener.local_addr().unwrap());
    let serve = move || {
        let mut bodies = Vec::new();
        for _ in 0..count {
            let (mut stream, _) = listener.accept().unwrap();
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            let mut length = 0;
            loop {
                let mut line = String::new();
                reader.read_line(&mut line).unwrap();
                if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
                    length = value.trim().parse().unwrap();
                }
                if line.trim().is_empty() {
                    break;
                }
            }
            let mut body = vec![0; length];
            reader.read_exact(&mut body).unwrap();
            bodies.push(serde_json::from_slice(&body).unwrap());
            write!(stream, "HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n").unwrap();
        }
        bodies
    };
    (address, thread::spawn(serve))
}

#[test]
fn each_occasion_reaches_the_webhook_whose_address_is_in_the_environment() {
    let sandbox = Sandbox::with(&STUDY.replace("NOTIFY", "webhook: $HOOK"));
    // Two of the three failures come within a minute of the first, and are told together at the end.
    let (address, server) = listen(5, "204 No Content");
    let output = sandbox.command(&["run", "recipe.yaml", "--jobs", "1"]).env("HOOK", &address).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(5), "{stderr}");
    assert!(!stderr.contains("notify"), "{stderr}");
    let bodies = server.join().unwrap();
    let mut events: Vec<&str> = bodies.iter().map(|body| body["event"].as_str().unwrap()).collect();
    events.sort_unstable();
    assert_eq!(events, ["divergence", "end", "failure", "failure", "verdict"]);
    let text = |event: &str| {
        let of_event = bodies.iter().filter(|body| body["event"] == event);
        assert!(of_event.clone().all(|body| body["study"] == "notified" && body["text"] == body["content"]));
        of_event.map(|body| body["text"].as_str().unwrap()).collect::<Vec<_>>().join("\n")
    };
    let failures = text("failure");
    assert!(failures.contains("bad x=1") && failures.contains("2 more jobs"), "{failures}");
    assert!(text("divergence").contains("`loss` diverged"), "{}", text("divergence"));
    assert!(text("verdict").contains("`low` is "), "{}", text("verdict"));
    assert!(text("end").contains("3 done, 3 failed"), "{}", text("end"));
}

#[test]
fn a_message_that_cannot_be_sent_is_a_warning_without_the_address() {
    let sandbox = Sandbox::with(&STUDY.replace("NOTIFY", "{ webhook: $HOOK, on: end }"));
    let (address, server) = listen(1, "403 Forbidden");
    let secret = format!("{address}/SECRET");
    let output = sandbox.command(&["run", "recipe.yaml"]).env("HOOK", &secret).output().unwrap();
    server.join().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.contains("warning: a message of `notify` was not sent: `webhook` answered 403"), "{stderr}");
    assert!(!stderr.contains("SECRET"), "{stderr}");
    // No variable, and nothing is lost.
    let sandbox = Sandbox::with(&STUDY.replace("NOTIFY", "{ webhook: $HOOK, on: end }"));
    let ended = sandbox.sweep(&["run", "recipe.yaml"]);
    assert_eq!((ended.code, sandbox.records().len()), (Some(5), 3));
    assert!(ended.stderr.contains("`$HOOK`, the address of `webhook`, is not set"), "{}", ended.stderr);
}

/// Programs of this test take the places of `notify-send` and `sendmail`.
#[test]
fn commands_have_the_message_in_their_environment_and_mail_on_standard_input() {
    let notify = "{ command: 'echo \"$SWEEP_EVENT|$SWEEP_STUDY|$SWEEP_TITLE\" >> told', desktop: true, mail: me@example.org, on: [end] }";
    let sandbox = Sandbox::with(&STUDY.replace("NOTIFY", notify));
    for (name, script) in [
        ("notify-send", "#!/bin/sh\nprintf '%s\\n' \"$@\" > shown\n"),
        ("sendmail", "#!/bin/sh\n{ printf '%s\\n' \"$@\"; cat; } > letter\n"),
    ] {
        sandbox.write(&format!("bin/{name}"), script);
        let path = sandbox.path(&format!("bin/{name}"));
        fs_err::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    let path = format!("{}:{}", sandbox.path("bin").display(), std::env::var("PATH").unwrap());
    let output = sandbox.command(&["run", "recipe.yaml"]).env("PATH", path).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(!stderr.contains("notify"), "{stderr}");
    assert_eq!(sandbox.read("told"), "end|notified|sweep: notified has ended\n");
    assert!(sandbox.read("shown").starts_with("--app-name=sweep\n--\nsweep: notified has ended\n6 jobs: "));
    let letter = sandbox.read("letter");
    assert!(
        letter.starts_with("-i\n--\nme@example.org\nTo: me@example.org\nSubject: sweep: notified has ended\n"),
        "{letter}"
    );
    // A run that finds everything done, but for the failed jobs of another step, tells of nothing.
    fs_err::remove_file(sandbox.path("told")).unwrap();
    assert_eq!(sandbox.sweep(&["run", "recipe.yaml", "--only", "good"]).code, Some(0));
    assert!(!sandbox.path("told").exists());
}

#[test]
fn addresses_that_are_none_are_mistakes() {
    for (notify, mistake) in [
        ("{ on: end }", "`notify` has no destination"),
        ("{ webhook: example.org }", "`webhook` must be an address, found `example.org`"),
        ("{ mail: '-oQ/tmp' }", "`mail` must be an address"),
        ("{ mail: \"a@b.c\\nBcc: d@e.f\" }", "`mail` must be an address"),
        ("{ desktop: true, on: [ends] }", "ends"),
    ] {
        let ended = Sandbox::with(&STUDY.replace("NOTIFY", notify)).sweep(&["plan", "recipe.yaml"]);
        assert_eq!(ended.code, Some(3), "{notify}: {}", ended.stderr);
        assert!(ended.stderr.contains(mistake), "{notify}: {}", ended.stderr);
    }
}
