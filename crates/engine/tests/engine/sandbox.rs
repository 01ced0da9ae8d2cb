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

/// End of a run of the program.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// Longer than anything here may take, even on a machine that is busy with other things.
const TIMEOUT: Duration = Duration::from_mins(5);

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
        let mut command = Command::new(env!("CARGO_BIN_EXE_sweep-engine"));
        command.args(args).current_dir(self.folder.path()).env("NO_COLOR", "1");
        command.env_remove("SWEEP_RESULTS").env_remove("SWEEP_LOG").env_remove("SWEEP_OBSERVE");
        // Each sandbox acts as a separate machine, so that tests do not wait for each other.
        command.env("SWEEP_LOCKS", self.folder.path());
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

    /// The folders of all runs, the oldest first. Two runs of one second are named by their processes, and the second may
    /// have the smaller number.
    fn run_folders(&self) -> Vec<PathBuf> {
        let mut runs = list(&self.path("results/runs"));
        runs.sort_by_cached_key(|run| {
            let name = run.file_name().unwrap().to_str().unwrap();
            let begun = fs_err::metadata(run.join("plan.json")).and_then(|plan| plan.modified()).ok();
            (name.chars().take("20260101T000000Z".len()).collect::<String>(), begun)
        });
        runs
    }

    /// The names of all runs, the oldest first.
    pub(crate) fn runs(&self) -> Vec<String> {
        let name = |path: &PathBuf| path.file_name().unwrap().to_str().unwrap().to_owned();
        self.run_folders().iter().map(name).collect()
    }

    /// The journals' lines of a kind of event, or all of them for `""`, in the order of the runs.
    pub(crate) fn journal(&self, kind: &str) -> Vec<Value> {
        let mut lines: Vec<Value> = self.run_folders().iter().flat_map(|run| journal(run)).collect();
        lines.retain(|line| kind.is_empty() || !line["event"][kind].is_null());
        lines
    }

    /// Every event of every run, as (label, kind), in the order of the runs.
    pub(crate) fn events(&self) -> Vec<(String, String)> {
        let kind = |line: &Value| line["event"].as_object().unwrap().keys().next().unwrap().clone();
        let label = |line: &Value| line["label"].as_str().unwrap_or_default().to_owned();
        self.journal("").iter().map(|line| (label(line), kind(line))).collect()
    }

    /// The end of the latest run: how many jobs were cached, done and so on, without those kinds that have none.
    pub(crate) fn tally(&self) -> Vec<(&'static str, u64)> {
        let ended = self.journal("ended").pop().expect("a run has ended");
        // Without a stopped job, its number is left out.
        let count = |kind| (kind, ended["event"]["ended"][kind].as_u64().unwrap_or(0));
        ["cached", "done", "failed", "tolerated", "stopped", "skipped"]
            .map(count)
            .into_iter()
            .filter(|(_, n)| *n > 0)
            .collect()
    }

    /// Asserts that everything is in the store already: no run begins.
    pub(crate) fn assert_all_cached(&self, args: &[&str]) {
        let before = self.runs();
        let ended = self.sweep(&[&["run"], args].concat());
        assert_eq!((ended.code, self.runs()), (Some(0), before), "{}", ended.stderr);
    }

    /// The state that the plan has for each job: `cached`, `to run`, `in reserve` or `blocked`.
    pub(crate) fn planned(&self, args: &[&str]) -> BTreeMap<String, String> {
        let ended = self.sweep(&[&["plan", "--format", "json"], args].concat());
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        let plan: Value = serde_json::from_str(&ended.stdout).unwrap();
        let text = |job: &Value, name: &str| job[name].as_str().unwrap().to_owned();
        plan["jobs"].as_array().unwrap().iter().map(|job| (text(job, "label"), text(job, "state"))).collect()
    }

    /// The number of jobs of a plan that are cached, and of those that are to run.
    pub(crate) fn plan_tally(&self, args: &[&str]) -> (usize, usize) {
        let planned = self.planned(args);
        let count = |state: &str| planned.values().filter(|planned| *planned == state).count();
        (count("cached"), count("to run"))
    }

    /// The state of the latest run, as `sweep status` has it for machines.
    pub(crate) fn status(&self) -> Value {
        let ended = self.sweep(&["status", "--format", "json"]);
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        serde_json::from_str(&ended.stdout).unwrap()
    }

    /// The reason for which a job failed last: `kind` and `message`.
    pub(crate) fn failure(&self, label: &str) -> Value {
        let failed = self.journal("failed").into_iter().rfind(|line| line["label"] == label);
        failed.expect("the job has failed")["event"]["failed"]["failure"].clone()
    }

    /// The jobs that were skipped in the latest run, each with the job that it needed; not those that a stop has skipped.
    pub(crate) fn skipped(&self) -> BTreeMap<String, String> {
        let run = list(&self.path("results/runs")).pop().unwrap();
        let plan: Value = serde_json::from_slice(&fs_err::read(run.join("plan.json")).unwrap()).unwrap();
        let text = |value: &Value| value["label"].as_str().unwrap().to_owned();
        let lines = journal(&run).into_iter();
        let skipped = lines.filter_map(|line| {
            let because = usize::try_from(line["event"]["skipped"]["because"].as_u64()?).unwrap();
            Some((text(&line), text(&plan["jobs"][because])))
        });
        skipped.collect()
    }

    /// Number of starts of each job, over all runs.
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
        let begun = Instant::now();
        let code = loop {
            match self.0.try_wait().unwrap() {
                Some(status) => break status.code(),
                None if begun.elapsed() < TIMEOUT => thread::sleep(Duration::from_millis(5)),
                None => {
                    let _ = self.0.kill();
                    panic!("the program has not ended: {}{}", stdout.join().unwrap(), stderr.join().unwrap());
                }
            }
        };
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

/// The lines of a run's journal.
fn journal(run: &Path) -> Vec<Value> {
    let journal = fs_err::read_to_string(run.join("journal.jsonl")).unwrap_or_default();
    // A line that is being written has no end yet.
    let lines = journal.split_inclusive('\n').filter(|line| line.ends_with('\n'));
    lines.map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The root of the repository.
pub(crate) fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// A folder's entries, sorted; none if there is no folder.
pub(crate) fn list(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let mut paths: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.sort();
    paths
}

/// A changed record, with the digest of its new content.
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
        assert!(begun.elapsed() < TIMEOUT, "waited in vain until {what}");
        thread::sleep(Duration::from_millis(5));
    }
}
