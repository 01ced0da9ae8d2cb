//! A project in a temporary folder, and a client that writes the protocol's lines itself.

use std::{
    fs,
    io::{BufRead as _, BufReader, Write as _},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

/// Maximum number of bytes of an answer: four bytes are about a token.
pub(crate) const MAX_ANSWER_BYTES: usize = 4 * 1000;

/// A study of six jobs with a table and two claims, of which one is supported.
pub(crate) const STUDY: &str = "\
name: study
about: Does the value grow with the width?
params: { seconds: 0 }
steps:
  train:
    uses: mock
    with: { value: '${{ matrix.width }}', seconds: '${{ params.seconds }}' }
    matrix: { width: [1, 2], seed: [0, 1, 2] }
metrics: { value: { deterministic: true } }
tables:
  widths: { from: train, rows: [width], cells: [value] }
claims:
  doubled:
    says: Twice the width is twice the value.
    ratio: { metric: value, of: { step: train, width: 2 }, to: { step: train, width: 1 } }
    expect: { at_least: 1.9 }
  tripled:
    says: Twice the width is three times the value.
    ratio: { metric: value, of: { step: train, width: 2 }, to: { step: train, width: 1 } }
    expect: { at_least: 3 }
";

/// A folder with a project in it, so that there is something outside of the project.
pub(crate) struct Project {
    folder: tempfile::TempDir,
}

impl Project {
    /// A project with `study.yaml`.
    pub(crate) fn new() -> Self {
        let project = Self { folder: tempfile::tempdir().unwrap() };
        project.write("study.yaml", STUDY);
        project
    }

    pub(crate) fn root(&self) -> PathBuf {
        self.folder.path().join("project")
    }

    /// The folder that the project is in.
    pub(crate) fn outside(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.root().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        fs_err::create_dir_all(path.parent().unwrap()).unwrap();
        fs_err::write(path, text).unwrap();
    }

    /// The program in the project's folder, not started yet.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sweep-engine"));
        command.args(args).current_dir(self.root()).env("NO_COLOR", "1");
        command.env_remove("SWEEP_RESULTS").env_remove("SWEEP_LOG");
        // Each project acts as a separate machine, so that tests do not wait for each other.
        command.env("SWEEP_LOCKS", self.folder.path());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        command
    }

    /// The lines of the journals of all sessions.
    pub(crate) fn journal(&self) -> Vec<Value> {
        let sessions = fs::read_dir(self.path("results/mcp")).unwrap().map(|entry| entry.unwrap().path());
        let mut sessions: Vec<PathBuf> = sessions.collect();
        sessions.sort();
        sessions.iter().flat_map(|session| lines(&session.join("calls.jsonl"))).collect()
    }

    /// The names of the runs, the oldest first.
    pub(crate) fn runs(&self) -> Vec<String> {
        let entries = fs::read_dir(self.path("results/runs")).into_iter().flatten().flatten();
        let mut names: Vec<String> = entries.map(|entry| entry.file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    /// The number of records.
    pub(crate) fn records(&self) -> usize {
        let ended = self.command(&["query", "--format", "json", "--select", "label"]).output().unwrap();
        let answer: Value = serde_json::from_slice(&ended.stdout).unwrap();
        answer["records"].as_array().unwrap().len()
    }
}

/// The values of a file of JSON lines.
pub(crate) fn lines(path: &Path) -> Vec<Value> {
    let text = fs_err::read_to_string(path).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Waits until something holds.
pub(crate) fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < Duration::from_mins(2), "{what}: it did not happen");
        thread::sleep(Duration::from_millis(50));
    }
}

/// A client, connected to a separate server.
pub(crate) struct Client {
    pub(crate) child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    id: u64,
    /// Bytes of the arguments and answers of all calls.
    pub(crate) bytes: usize,
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Client {
    /// Starts `sweep mcp` with these arguments, and connects.
    pub(crate) fn start(project: &Project, args: &[&str]) -> Self {
        let mut child = project.command(&[&["mcp"], args].concat()).spawn().unwrap();
        let (input, output) = (child.stdin.take(), BufReader::new(child.stdout.take().unwrap()));
        let mut client = Self { child, input, output, id: 0, bytes: 0 };
        let about = json!({ "name": "test", "version": "1" });
        let params = json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": about });
        let answer = client.request("initialize", &params);
        assert_eq!(answer["result"]["serverInfo"]["name"], "sweep", "{answer}");
        client.bytes += answer["result"]["instructions"].as_str().unwrap().len();
        client.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }).to_string());
        client
    }

    /// Writes a line.
    pub(crate) fn send(&mut self, line: &str) {
        let input = self.input.as_mut().unwrap();
        writeln!(input, "{line}").unwrap();
        input.flush().unwrap();
    }

    /// Asks and answers the whole answer.
    pub(crate) fn request(&mut self, method: &str, params: &Value) -> Value {
        self.id += 1;
        let id = self.id;
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }).to_string());
        self.answer(id)
    }

    /// The answer to a request; other lines are skipped.
    pub(crate) fn answer(&mut self, id: u64) -> Value {
        loop {
            let mut line = String::new();
            assert!(self.output.read_line(&mut line).unwrap() > 0, "the server has ended");
            let value: Value = serde_json::from_str(&line).unwrap();
            if value["id"] == id {
                return value;
            }
        }
    }

    /// Calls a tool and returns its answer.
    #[expect(clippy::needless_pass_by_value, reason = "the calls write their arguments in place")]
    pub(crate) fn call(&mut self, tool: &str, arguments: Value) -> Value {
        let answer = self.request("tools/call", &json!({ "name": tool, "arguments": arguments }));
        let result = &answer["result"];
        assert_eq!(result["isError"], false, "{answer:#}");
        assert_eq!(result["structuredContent"], Value::Null, "an answer is sent once");
        let text = result["content"][0]["text"].as_str().unwrap();
        assert!(text.len() <= MAX_ANSWER_BYTES, "{tool}: {} bytes", text.len());
        self.bytes += arguments.to_string().len() + text.len();
        serde_json::from_str(text).unwrap()
    }

    /// Calls a tool, and then for each following part of its answer.
    pub(crate) fn parts(&mut self, tool: &str, mut arguments: Value) -> Vec<Value> {
        let mut parts = vec![self.call(tool, arguments.clone())];
        while let Some(next) = parts.last().map(|part| part["next"].clone()).filter(Value::is_string) {
            assert_ne!(next, arguments["cursor"], "the parts end: {parts:#?}");
            arguments["cursor"] = next;
            parts.push(self.call(tool, arguments.clone()));
        }
        parts
    }

    /// Calls a tool that refuses, and answers the error.
    #[expect(clippy::needless_pass_by_value, reason = "the calls write their arguments in place")]
    pub(crate) fn refused(&mut self, tool: &str, arguments: Value) -> Value {
        let answer = self.request("tools/call", &json!({ "name": tool, "arguments": arguments }));
        assert_eq!(answer["result"]["isError"], true, "{answer:#}");
        let text = answer["result"]["content"][0]["text"].as_str().unwrap();
        assert!(text.len() <= MAX_ANSWER_BYTES, "{tool}: {} bytes", text.len());
        serde_json::from_str::<Value>(text).unwrap()["error"].clone()
    }

    /// Calls `status` until the run is over.
    pub(crate) fn wait(&mut self) -> Value {
        loop {
            let status = self.call("status", json!({ "wait_seconds": 30 }));
            if !["starting", "running", "stopping"].contains(&status["state"].as_str().unwrap()) {
                return status;
            }
        }
    }

    /// Closes the server's input, and waits for its end.
    pub(crate) fn close(mut self) {
        drop(self.input.take());
        assert!(self.child.wait().unwrap().success());
    }
}
