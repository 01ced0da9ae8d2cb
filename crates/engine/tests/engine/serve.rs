//! `sweep ui` for clients other than browsers: the requests that are answered, and the files that are never served.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
    time::Duration,
};

use rustix::process::Signal;

use crate::sandbox::{Running, Sandbox};

/// A server, and its port.
pub(crate) fn serve(sandbox: &Sandbox) -> (Running, u16) {
    let mut child = sandbox.command(&["ui", "--port", "0"]).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    let port = line.trim().strip_prefix("http://127.0.0.1:").and_then(|rest| rest.strip_suffix('/')).unwrap();
    (Running::from(child), port.parse().unwrap())
}

/// Asks, and answers the whole answer.
pub(crate) fn ask(port: u16, method: &str, path: &str, host: &str) -> String {
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
    let report = sandbox.read("results/reports/served/index.html");
    assert!(get("/reports/served/index.html").ends_with(&report));
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
    let page = ask(port, "GET", &format!("/runs/{}", name.to_string_lossy()), "localhost");
    assert!(page.contains("<dt>Run by</dt>") && page.contains("<dt>Version</dt>"), "{page}");
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
    assert_message!(ended.stderr);
}

/// A run of many jobs that were cached, which has ended.
fn large_run(sandbox: &Sandbox, jobs: usize) {
    let jobs: Vec<serde_json::Value> = (0..jobs)
        .map(|job| {
            serde_json::json!({
                "label": format!("step/value={job},note=a point of a step with more than one axis"),
                "key": format!("{job:064x}"),
                "wanted": "cached",
                "demand": { "cpus": 1, "gpus": 0, "memory": 0, "exclusive": false },
            })
        })
        .collect();
    let manifest = serde_json::json!({
        "format": 1, "recipe": "large", "at": "2026-01-01T00:00:00Z", "pid": 1, "host": "here",
        "limits": { "cpus": 2, "gpus": 0, "memory": 0, "jobs": 2 }, "jobs": jobs,
    });
    sandbox.write("results/runs/20260101T000000Z-1/plan.json", &manifest.to_string());
    sandbox.write("results/runs/20260101T000000Z-1/journal.jsonl", "");
}

/// A process's resident memory, in MiB.
fn resident(server: &Running) -> u64 {
    let status = fs_err::read_to_string(format!("/proc/{}/status", server.pid())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().strip_suffix(" kB").unwrap().trim().parse::<u64>().unwrap() / 1024
}

/// Asks for the events of the large run; how many jobs' lines came, and whether the stream said that it ends.
fn events_of_large_run(port: u16) -> (usize, bool) {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(Duration::from_mins(1))).unwrap();
    write!(stream, "GET /runs/20260101T000000Z-1/events HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        .unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let answer = String::from_utf8_lossy(&answer);
    (answer.matches("a point of a step").count(), answer.contains("event: end"))
}

#[test]
fn many_pages_of_an_ended_run_take_as_much_as_one() {
    const JOBS: usize = 4000;
    let sandbox = Sandbox::new();
    large_run(&sandbox, JOBS);
    let (server, port) = serve(&sandbox);
    assert_eq!(events_of_large_run(port), (JOBS, true));
    let one = resident(&server);
    let most = std::thread::scope(|scope| {
        let pages: Vec<_> = (0..200).map(|_| scope.spawn(move || events_of_large_run(port))).collect();
        let mut most = 0;
        while !pages.iter().all(std::thread::ScopedJoinHandle::is_finished) {
            most = most.max(resident(&server));
            std::thread::sleep(Duration::from_millis(10));
        }
        assert!(pages.into_iter().all(|page| page.join().unwrap() == (JOBS, true)));
        most
    });
    assert!(most < one + 100, "{most} MiB with 200 pages, {one} MiB with one");
    // Once told, it is not looked at again.
    let stat = || fs_err::read_to_string(format!("/proc/{}/stat", server.pid())).unwrap();
    let ticks = || {
        stat().rsplit(") ").next().unwrap().split(' ').skip(11).take(2).map(|n| n.parse::<u64>().unwrap()).sum::<u64>()
    };
    let before = ticks();
    std::thread::sleep(Duration::from_secs(2));
    assert!(ticks() - before < 20, "the server is busy with nothing");
    server.signal(Signal::INT);
    assert_eq!(server.wait().code, Some(0));
}

/// A server that may have 64 files open, fewer than the connections that its clients make.
fn with_few_files(sandbox: &Sandbox) -> (Running, u16) {
    let mut command = std::process::Command::new("sh");
    command.args(["-c", "ulimit -n 64; exec \"$0\" ui --port 0", env!("CARGO_BIN_EXE_sweep-engine")]);
    command.current_dir(sandbox.path(".")).env_remove("SWEEP_RESULTS").stdout(std::process::Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    let port: u16 = line.trim().rsplit(':').next().unwrap().trim_end_matches('/').parse().unwrap();
    let server = Running::from(child);
    (server, port)
}

#[test]
fn whoever_never_finishes_a_request_is_cut_and_others_are_answered() {
    let sandbox = study();
    let (server, port) = with_few_files(&sandbox);
    let half: Vec<TcpStream> = (0..100)
        .map(|_| {
            let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
            stream.set_read_timeout(Some(Duration::from_mins(1))).unwrap();
            stream.write_all(b"GET / HTTP/1.1\r\nHost: local").unwrap();
            stream
        })
        .collect();
    assert_eq!(code(&ask(port, "GET", "/", "localhost")), 200, "after those before it were cut");
    for mut stream in half {
        let mut rest = Vec::new();
        let ended = stream.read_to_end(&mut rest);
        let late = ended
            .is_err_and(|error| matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut));
        assert!(!late, "a half request is cut");
    }
    server.signal(Signal::INT);
    assert_eq!(server.code(), Some(0));
}

#[test]
fn open_streams_of_one_client_keep_no_page_from_others() {
    let sandbox = study();
    let (server, port) = with_few_files(&sandbox);
    let open: Vec<TcpStream> = (0..80)
        .map(|_| {
            let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
            stream.set_read_timeout(Some(Duration::from_mins(1))).unwrap();
            stream.write_all(b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
            stream
        })
        .collect();
    assert_eq!(code(&ask(port, "GET", "/", "localhost")), 200);
    // A further one has the state, and asks again.
    let further = ask(port, "GET", "/events", "localhost");
    assert!(
        code(&further) == 200 && further.contains("retry: 5000") && further.contains("\"recipe\":\"served\""),
        "{further}"
    );
    // A closed stream frees its place.
    drop(open);
    crate::sandbox::until("a stream stays open", || {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        stream.set_read_timeout(Some(Duration::from_mins(1))).unwrap();
        stream.write_all(b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
        let mut lines = BufReader::new(&stream).lines().map_while(Result::ok);
        lines.find(|line| line.starts_with("retry:") || line.starts_with("data:")).unwrap().starts_with("data:")
    });
    server.signal(Signal::INT);
    assert_eq!(server.code(), Some(0));
}

#[test]
fn six_hundred_idle_clients_do_not_keep_one_from_its_pages() {
    let sandbox = study();
    let run = sandbox.runs().remove(0);
    let (server, port) = serve(&sandbox);
    let connect = |request: &str| {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        stream.set_read_timeout(Some(Duration::from_mins(1))).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        stream
    };
    // More than the server's connections in each way: without a request, after an answer, with an open stream of events.
    let events = format!("GET /runs/{run}/events HTTP/1.1\r\nHost: localhost\r\n\r\n");
    for request in ["", "GET /favicon.ico HTTP/1.1\r\nHost: localhost\r\n\r\n", &events] {
        let mut idle: Vec<TcpStream> = (0..600).map(|_| connect(request)).collect();
        if !request.is_empty() {
            let mut first = [0; 12];
            idle[0].read_exact(&mut first).unwrap();
            assert_eq!(&first, if request == events { b"HTTP/1.1 200" } else { b"HTTP/1.1 204" });
        }
        for path in ["/".to_owned(), format!("/runs/{run}")] {
            assert_eq!(code(&ask(port, "GET", &path, "localhost")), 200, "{path} beside 600 of {request:?}");
        }
    }
    server.signal(Signal::INT);
    assert_eq!(server.wait().code, Some(0));
}

/// Sends a request with these header lines, and returns the answer.
fn post(port: u16, path: &str, headers: &[&str]) -> String {
    post_body(port, path, headers, "")
}

/// The same with a body.
fn post_body(port: u16, path: &str, headers: &[&str], body: &str) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    let headers: Vec<String> = headers.iter().map(|header| (*header).to_owned() + "\r\n").collect();
    let (headers, length) = (headers.concat(), body.len());
    write!(stream, "POST {path} HTTP/1.1\r\nConnection: close\r\nContent-Length: {length}\r\n{headers}\r\n{body}")
        .unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    String::from_utf8_lossy(&answer).into_owned()
}

/// A server, its port and the token of its actions.
fn serve_acting(sandbox: &Sandbox, args: &[&str]) -> (Running, u16, Option<String>) {
    let mut child = sandbox.command(&[&["ui", "--port", "0"], args].concat()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    let port = line.trim().trim_end_matches('/').rsplit(':').next().unwrap().parse().unwrap();
    let mut stderr = BufReader::new(child.stderr.as_mut().unwrap()).lines();
    let mut token = None;
    for line in stderr.by_ref().map_while(Result::ok) {
        token = token.or_else(|| line.split_once("#token=").map(|(_, token)| token.to_owned()));
        if line.contains("Ctrl-C") {
            break;
        }
    }
    (Running::from(child), port, token)
}

const ACTED: &str = "
name: acted
steps:
  slow: { uses: mock, matrix: { seed: [1] }, with: { seconds: 600, steps: 600 }, resources: { cpus: 1 } }
  broken: { uses: command, with: { run: 'test -e MENDED && echo x=1' }, resources: { cpus: 1 } }
";

/// A live run with a running and a failed job, and a server of its pages.
struct Acted {
    sandbox: Sandbox,
    run: Running,
    server: Running,
    port: u16,
    /// The headers with the host name, the token and the origin of the server's own pages.
    headers: [String; 3],
    /// The name of the run.
    name: String,
}

impl Acted {
    fn start() -> Self {
        let sandbox = Sandbox::new();
        let mended = sandbox.path("mended");
        sandbox.write("recipe.yaml", &ACTED.replace("MENDED", mended.to_str().unwrap()));
        let run = sandbox.start(&["run", "recipe.yaml", "--jobs=2", "--keep-going"]);
        crate::sandbox::until("a job runs and another has failed", || {
            !sandbox.journal("progress").is_empty() && !sandbox.journal("failed").is_empty()
        });
        let (server, port, token) = serve_acting(&sandbox, &[]);
        let headers = [
            format!("Host: 127.0.0.1:{port}"),
            format!("Authorization: Bearer {}", token.unwrap()),
            format!("Origin: http://127.0.0.1:{port}"),
        ];
        let name = sandbox.runs().remove(0);
        Self { sandbox, run, server, port, headers, name }
    }

    /// The path of the actions on a job.
    fn path(&self, label: &str) -> String {
        let plan = self.sandbox.read(&format!("results/runs/{}/plan.json", self.name));
        let plan: serde_json::Value = serde_json::from_str(&plan).unwrap();
        let job = plan["jobs"].as_array().unwrap().iter().find(|job| job["label"] == label).unwrap();
        format!("/act/runs/{}/jobs/{}", self.name, &job["key"].as_str().unwrap()[..12])
    }

    /// Sends a request with the token.
    fn act(&self, path: &str) -> String {
        post(self.port, path, &self.headers.each_ref().map(String::as_str))
    }
}

#[test]
fn actions_without_the_token_from_other_pages_and_on_unknown_jobs_are_refused() {
    let acted = Acted::start();
    let Acted { sandbox, port, headers: [host, token, own], name, .. } = &acted;
    let stop = format!("{}/stop", acted.path("slow/seed=1"));
    for (headers, expected) in [
        (vec![host.as_str()], 401),
        (vec![host, "Authorization: Bearer 0000"], 401),
        (vec![host, "Authorization: Basic 0000"], 401),
        (vec![host, own], 401),
        (vec![host, token, "Origin: https://evil.example"], 403),
        (vec![host, token, "Origin: null"], 403),
        (vec![host, token, "Origin: http://127.0.0.1:1"], 403),
        (vec![host, token, own, "Sec-Fetch-Site: cross-site"], 403),
        (vec![host, token, own, "Sec-Fetch-Site: same-site"], 403),
        (vec!["Host: evil.example", token], 421),
        (vec![token], 421),
    ] {
        let answer = post(*port, &stop, &headers);
        assert_eq!(code(&answer), expected, "{headers:?}: {answer}");
    }
    for (path, expected) in [
        (format!("/act/runs/{name}/jobs/000000000000/stop"), 404),
        (format!("/act/runs/{name}/jobs/..%2f..%2f/stop"), 404),
        (stop.replace(name, "nothing"), 404),
        (format!("{}/stop", acted.path("broken")), 409),
        (format!("/act/runs/{name}"), 409),
        (format!("/runs/{name}"), 405),
    ] {
        assert_eq!(code(&acted.act(&path)), expected, "{path}");
    }
    assert_eq!(code(&post(*port, &format!("{}/explain", acted.path("broken")), &[host])), 401);
    for method in ["GET", "PUT", "OPTIONS"] {
        assert_eq!(code(&ask(*port, method, &stop, &format!("127.0.0.1:{port}"))), 405, "{method}");
    }
    assert!(sandbox.journal("stopped").is_empty());
}

#[test]
fn a_job_is_stopped_and_run_again_by_requests_with_the_token() {
    let acted = Acted::start();
    let (sandbox, name) = (&acted.sandbox, &acted.name);
    let answer = acted.act(&format!("{}/explain", acted.path("broken")));
    let text = sandbox.sweep(&["explain", "recipe.yaml", "broken"]).stdout;
    let body: serde_json::Value = serde_json::from_str(answer.split("\r\n\r\n").nth(1).unwrap()).unwrap();
    let expected = (Some("sweep explain recipe.yaml broken"), Some(text.trim_end()));
    assert_eq!((body["command"].as_str(), body["text"].as_str()), expected);

    let stop = format!("{}/stop", acted.path("slow/seed=1"));
    let answer = acted.act(&stop);
    let command = format!("\"command\":\"sweep stop --run {name} slow/seed=1\"");
    assert!(code(&answer) == 200 && answer.contains(&command), "{answer}");
    crate::sandbox::until("the job has stopped", || sandbox.journal("stopped").len() == 1);
    crate::sandbox::until("the run has ended", || sandbox.journal("ended").len() == 1);
    assert_eq!(code(&acted.act(&stop)), 409, "it has stopped");

    // The failed job runs again in a separate run, which outlives the server.
    sandbox.write("mended", "");
    let mut answer = String::new();
    crate::sandbox::until("the process of the run has ended", || {
        answer = acted.act(&acted.path("broken"));
        code(&answer) != 409
    });
    let command = "\"command\":\"sweep run recipe.yaml --jobs=2 --keep-going --only broken\"";
    assert!(code(&answer) == 200 && answer.contains(command), "with the options of the run: {answer}");
    crate::sandbox::until("it is done", || sandbox.journal("done").iter().any(|line| line["label"] == "broken"));
    crate::sandbox::until("the second run has ended", || sandbox.journal("ended").len() == 2);
    let second = format!("/act/runs/{}", sandbox.runs()[1]);
    crate::sandbox::until("it has nothing to run again", || {
        acted.act(&second).contains("every job of the run has a result")
    });
    let Acted { server, run, .. } = acted;
    assert_eq!(run.wait().code, Some(5));
    server.signal(Signal::INT);
    assert_eq!(server.wait().code, Some(0));
}

#[test]
fn a_run_is_extended_and_records_get_notes_by_requests_with_the_token() {
    let sandbox = Sandbox::with(
        "name: grown\nsteps: { a: { uses: mock, matrix: { value: [1, 2], seed: [0, 1] } } }\ntables: { t: { from: a, rows: [value], cells: [value] } }\n",
    );
    assert_eq!(sandbox.sweep(&["run", "recipe.yaml"]).code, Some(0));
    let name = sandbox.runs().remove(0);
    let (_server, port, token) = serve_acting(&sandbox, &[]);
    let host = format!("Host: 127.0.0.1:{port}");
    let token = format!("Authorization: Bearer {}", token.unwrap());
    let act = |path: &str, body: &str| {
        let answer = post_body(port, path, &[&host, &token], body);
        let text = answer.split("\r\n\r\n").nth(1).unwrap();
        (code(&answer), serde_json::from_str::<serde_json::Value>(text).unwrap_or_default())
    };
    let extend = format!("/act/runs/{name}/extend");
    let body = |axis: &str, values: &str, go: bool| {
        serde_json::json!({ "step": "a", "axis": axis, "values": values, "go": go }).to_string()
    };
    assert_eq!(code(&post_body(port, &extend, &[&host], &body("seed", "2", true))), 401);
    for (body, expected, reason) in [
        ("{}".to_owned(), 400, "reload the page"),
        (body("seed", " ", false), 400, "name the values"),
        (body("seed", "1", false), 409, "already has all these values"),
        (body("lr", "1", false), 409, "no step of the run has the axis `lr`"),
        (body("value", "<b>x", false), 409, "cannot be planned"),
    ] {
        let (status, answer) = act(&extend, &body);
        assert_eq!(status, expected, "{answer}");
        assert!(answer["error"].as_str().unwrap().contains(reason), "{answer}");
    }
    assert_eq!(act(&extend, &"x".repeat(20_000)).0, 413);
    // First the plan, then the run.
    let (status, answer) = act(&extend, &body("seed", "2,3", false));
    let command = "sweep run recipe.yaml --axis seed=0,1,2,3";
    assert_eq!((status, answer["command"].as_str()), (200, Some(command)), "{answer}");
    let planned = sandbox.sweep(&["plan", "recipe.yaml", "--axis", "seed=0,1,2,3"]).stdout;
    assert_eq!(answer["text"].as_str(), Some(planned.trim_end()));
    assert_eq!(sandbox.runs().len(), 1);
    assert_eq!(act(&extend, &body("seed", "2,3", true)).1["command"].as_str(), Some(command));
    crate::sandbox::until("the further seeds are done", || sandbox.records().len() == 8);
    // A run that does not begin is not told as carried out.
    crate::sandbox::until("the second run has ended", || sandbox.journal("ended").len() == 2);
    let recipe = sandbox.read("recipe.yaml");
    sandbox.write("recipe.yaml", "steps: [");
    let (status, answer) = act(&extend, &body("seed", "4", true));
    let error = answer["error"].as_str().unwrap_or_default();
    let is_told = error.starts_with("the run did not begin: ") && error.contains("recipe.yaml is not a valid recipe");
    assert!(status == 409 && is_told, "{status} {answer}");
    sandbox.write("recipe.yaml", &recipe);

    // Tags and notes.
    let record = sandbox.records().remove("a/value=1,seed=0").unwrap();
    let key = record["key"].as_str().unwrap()[..12].to_owned();
    let path = format!("/act/runs/{name}/jobs/{key}/note");
    assert_eq!(code(&post_body(port, &path, &[&host], r#"{"tag":"best"}"#)), 401);
    let hostile = "<img src=x onerror=alert(1)>\u{1b}[2J";
    let (status, answer) = act(&path, r#"{"tag":"best"}"#);
    assert_eq!((status, answer["command"].as_str()), (200, Some(format!("sweep note {key} --tag=best").as_str())));
    assert_eq!(act(&path, &serde_json::json!({ "note": hostile }).to_string()).0, 200);
    assert_eq!(act(&path, r#"{"tag":"a b"}"#).0, 409);
    assert_eq!(act(&path, r#"{"remove":7}"#).0, 409);
    let shown = sandbox.sweep(&["show", &key]).stdout;
    assert!(shown.contains("tags: best") && shown.contains("<img src=x onerror=alert(1)>\\u{1b}[2J"), "{shown}");
    let detail = ask(port, "GET", &format!("/runs/{name}/jobs/{key}"), "localhost");
    assert!(detail.contains("\"tags\":[\"best\"]") && !detail.contains('\u{1b}'), "{detail}");
    assert_eq!(act(&path, r#"{"untag":"best"}"#).0, 200);
    assert_eq!(act(&path, r#"{"remove":1}"#).0, 200);
    assert!(!sandbox.sweep(&["show", &key]).stdout.contains("tags"));
}

#[test]
fn two_jobs_are_compared_and_nonsense_is_refused() {
    let sandbox = study();
    let (_server, port) = serve(&sandbox);
    let keys: Vec<String> =
        sandbox.records().values().map(|record| record["key"].as_str().unwrap()[..12].to_owned()).collect();
    let page = ask(port, "GET", &format!("/compare/jobs?jobs={},{}&run=%3Cimg%3E", keys[0], keys[1]), "localhost");
    assert!(
        code(&page) == 200 && page.contains("a/seed=0") && page.contains("<code>seed</code>: 0 (default) → 1"),
        "{page}"
    );
    assert!(!page.contains("<img>"));
    for asked in [
        "",
        "?jobs=",
        "?jobs=x,y",
        "?jobs=../..,....",
        &format!("?jobs={0},{0}", keys[0]),
        "?jobs=000000000000,111111111111",
    ] {
        assert_eq!(code(&ask(port, "GET", &format!("/compare/jobs{asked}"), "localhost")), 404, "{asked}");
    }
}

#[test]
fn a_server_for_other_machines_acts_only_if_told_to() {
    let sandbox = study();
    let name = sandbox.runs().remove(0);
    let path = format!("/act/runs/{name}");
    let (_server, port, token) = serve_acting(&sandbox, &["--host", "0.0.0.0"]);
    let host = format!("Host: 127.0.0.1:{port}");
    assert_eq!((token, code(&post(port, &path, &[&host, "Authorization: Bearer x"]))), (None, 405));
    let (_server, port, token) = serve_acting(&sandbox, &["--host", "0.0.0.0", "--act"]);
    let host = format!("Host: 127.0.0.1:{port}");
    assert_eq!(code(&post(port, &path, &[&host])), 401);
    let answer = post(port, &path, &[&host, &format!("Authorization: Bearer {}", token.unwrap())]);
    assert!(code(&answer) == 409 && answer.contains("every job of the run has a result"), "{answer}");
}
