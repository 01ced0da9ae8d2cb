//! A folder with a recipe in it, and the program run in that folder.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use serde_json::Value;

/// A temporary folder to run the program in.
pub(crate) struct Sandbox {
    folder: tempfile::TempDir,
}

/// How a run of the program ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// Longer than anything here may take, even on a machine that is busy with other things.
const PATIENCE: Duration = Duration::from_mins(2);

impl Sandbox {
    /// An empty folder.
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    /// A folder with `recipe.yaml`.
    pub(crate) fn with(recipe: &str) -> Self {
        let sandbox = Self::new();
        sandbox.write("recipe.yaml", recipe);
        sandbox
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        fs_err::create_dir_all(path.parent().unwrap()).unwrap();
        fs_err::write(path, text).unwrap();
    }

    pub(crate) fn read(&self, name: &str) -> String {
        fs_err::read_to_string(self.path(name)).unwrap()
    }

    /// The program with these arguments, not started yet.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sweep"));
        command.args(args).current_dir(self.folder.path()).env("NO_COLOR", "1");
        command.env_remove("SWEEP_RESULTS").env_remove("SWEEP_LOG");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Runs the program to its end.
    pub(crate) fn sweep(&self, args: &[&str]) -> Ended {
        Running(self.command(args).spawn().unwrap()).wait()
    }

    /// Starts the program.
    pub(crate) fn start(&self, args: &[&str]) -> Running {
        Running(self.command(args).spawn().unwrap())
    }

    /// Every record in the store, by label.
    pub(crate) fn records(&self) -> BTreeMap<String, Value> {
        let mut records = BTreeMap::new();
        for folder in list(&self.path("results/store")).iter().filter(|name| name.file_name().unwrap().len() == 2) {
            for job in list(folder) {
                let text = fs_err::read(job.join("record.json")).expect("a folder in the store is a whole record");
                let record: Value = serde_json::from_slice(&text).unwrap();
                records.insert(record["label"].as_str().unwrap().to_owned(), record);
            }
        }
        records
    }

    /// The names of all runs, the oldest first.
    pub(crate) fn runs(&self) -> Vec<String> {
        let name = |path: &PathBuf| path.file_name().unwrap().to_str().unwrap().to_owned();
        list(&self.path("results/runs")).iter().map(name).collect()
    }

    /// The journals' lines of a kind of event, or all of them for `""`, in the order of the runs.
    pub(crate) fn journal(&self, kind: &str) -> Vec<Value> {
        let mut lines = Vec::new();
        for run in list(&self.path("results/runs")) {
            let journal = fs_err::read_to_string(run.join("journal.jsonl")).unwrap_or_default();
            // A line that is being written has no end yet.
            for line in journal.split_inclusive('\n').filter(|line| line.ends_with('\n')) {
                let line: Value = serde_json::from_str(line).unwrap();
                if kind.is_empty() || !line["event"][kind].is_null() {
                    lines.push(line);
                }
            }
        }
        lines
    }

    /// Every event of every run, as (label, kind), in the order of the runs.
    pub(crate) fn events(&self) -> Vec<(String, String)> {
        let kind = |line: &Value| line["event"].as_object().unwrap().keys().next().unwrap().clone();
        let label = |line: &Value| line["label"].as_str().unwrap_or_default().to_owned();
        self.journal("").iter().map(|line| (label(line), kind(line))).collect()
    }

    /// How often each job was started, over all runs.
    pub(crate) fn starts(&self) -> BTreeMap<String, usize> {
        let mut starts = BTreeMap::new();
        for (label, _) in self.events().into_iter().filter(|(_, kind)| kind == "started") {
            *starts.entry(label).or_default() += 1;
        }
        starts
    }

    /// Worker processes whose program was started in this folder.
    pub(crate) fn workers(&self) -> Vec<u32> {
        let own = fs_err::canonicalize(self.folder.path()).unwrap();
        let processes = list(Path::new("/proc")).into_iter().filter_map(|path| {
            let pid: u32 = path.file_name()?.to_str()?.parse().ok()?;
            let arguments = std::fs::read(path.join("cmdline")).ok()?;
            let worker = arguments.split(|byte| *byte == 0).nth(1) == Some(b"worker");
            (worker && std::fs::read_link(path.join("cwd")).ok()? == own).then_some(pid)
        });
        processes.collect()
    }
}

/// A started program; ended when dropped.
pub(crate) struct Running(Child);

impl From<Child> for Running {
    fn from(child: Child) -> Self {
        Self(child)
    }
}

impl Running {
    pub(crate) fn pid(&self) -> u32 {
        self.0.id()
    }

    /// Sends it a signal.
    pub(crate) fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_raw(i32::try_from(self.pid()).unwrap()).unwrap();
        rustix::process::kill_process(pid, signal).unwrap();
    }

    /// Waits for the end of a program whose output goes elsewhere; its exit code.
    pub(crate) fn code(mut self) -> Option<i32> {
        let mut ended = None;
        until("the program ends", || {
            ended = self.0.try_wait().unwrap();
            ended.is_some()
        });
        ended.unwrap().code()
    }

    /// Waits for its end.
    pub(crate) fn wait(mut self) -> Ended {
        let mut stdout = self.0.stdout.take().unwrap();
        let mut stderr = self.0.stderr.take().unwrap();
        let stdout = thread::spawn(move || read(&mut stdout));
        let stderr = thread::spawn(move || read(&mut stderr));
        let mut code = None;
        until("the program ends", || match self.0.try_wait().unwrap() {
            Some(status) => {
                code = status.code();
                true
            }
            None => false,
        });
        Ended { code, stdout: stdout.join().unwrap(), stderr: stderr.join().unwrap() }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn read(stream: &mut impl std::io::Read) -> String {
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

/// A folder's entries, sorted; none if there is no folder.
pub(crate) fn list(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let mut paths: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.sort();
    paths
}

/// A record that was changed, with the digest of what it says now.
pub(crate) fn sealed(record: &str) -> String {
    let (brace, rest) = record.split_once('\n').unwrap();
    let (digest, body) = rest.split_once('\n').unwrap();
    assert!(digest.starts_with("  \"digest\": "), "{record}");
    format!("{brace}\n  \"digest\": \"{}\",\n{body}", blake3::hash(body.as_bytes()).to_hex())
}

/// Waits until something holds.
pub(crate) fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < PATIENCE, "waited in vain until {what}");
        thread::sleep(Duration::from_millis(5));
    }
}
