//! A session: the project, the user's permissions and bounds, and the runs that were started.

use std::{
    ffi::OsString,
    fmt, io,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use fs_err as fs;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::{
    account::{Account, Bounds, Usage},
    journal::{Journal, Line, kept},
    project::Project,
    tool::{Fault, FaultKind},
};
use crate::{
    format::count,
    host::{clock, program},
    run::RunFolder,
};

/// Interval between looks while a call waits.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Time in which a supervisor writes its first account.
const START: Duration = Duration::from_secs(20);

/// Permissions of the user.
#[derive(Debug, Clone, Default)]
pub struct Permissions {
    /// Recipes, and folders of recipes, that may be run, from the project's folder.
    pub runs: Vec<PathBuf>,
    /// True if steps may run programs.
    pub programs: bool,
    /// True if jobs may run elsewhere than on this machine.
    pub executors: bool,
    /// True if no results are shown, and proposals are answered with one bit.
    pub one_bit: bool,
}

/// Work that is done by a separate process.
#[derive(Debug)]
pub enum Work<'a> {
    /// A saved plan.
    Plan(&'a str),
    /// A command of this program, with its arguments.
    Command(Vec<OsString>),
}

/// A session of a server. Clients of one server share it.
pub struct Session {
    /// The project's folder.
    pub project: Project,
    /// The folder of records and reports.
    pub results: PathBuf,
    /// Permissions of the user.
    pub permissions: Permissions,
    /// Bounds of all runs together.
    pub bounds: Bounds,
    name: String,
    folder: PathBuf,
    journal: Journal,
    closing: AtomicBool,
    runs: Mutex<Vec<Started>>,
}

/// A run that was started.
struct Started {
    account: PathBuf,
    supervisor: Child,
    over: bool,
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Session {
    /// Begins a session, with a folder for its journal below the results folder.
    pub fn open(project: Project, results: &Path, permissions: Permissions, bounds: Bounds) -> io::Result<Self> {
        let sessions = results.join("mcp");
        fs::create_dir_all(&sessions)?;
        let name = format!("{}-{}", clock::now().strftime("%Y%m%dT%H%M%SZ"), std::process::id());
        // The name may be taken: the clock may have been set back since an earlier process with the same id.
        let names = std::iter::once(name.clone()).chain((2..1000).map(|number| format!("{name}-{number}")));
        let is_free = |name: &String| fs::create_dir(sessions.join(name)).is_ok();
        let no_folder = || io::Error::other(format!("no folder can be made in `{}`", sessions.display()));
        let name = names.into_iter().find(is_free).ok_or_else(no_folder)?;
        let folder = sessions.join(&name);
        let journal = Journal::create(&folder)?;
        Ok(Self {
            project,
            results: results.to_owned(),
            permissions,
            bounds,
            name,
            folder,
            journal,
            closing: AtomicBool::new(false),
            runs: Mutex::new(Vec::new()),
        })
    }

    /// The folder of the session's journal.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Ends the waiting of calls. Runs continue.
    pub(super) fn close(&self) {
        self.closing.store(true, Ordering::Relaxed);
    }

    /// True if the user allows to run a recipe, by its path from the project's folder.
    pub fn may_run(&self, recipe: &Path) -> bool {
        self.permissions.runs.iter().any(|folder| recipe.starts_with(folder))
    }

    /// Adds a call to the journal.
    pub(super) fn note(
        &self,
        tool: &str,
        arguments: &Value,
        answer: Result<&Value, Value>,
        start: Instant,
    ) -> io::Result<()> {
        let run = answer.as_ref().ok().and_then(|answer| answer["run"].as_str());
        let folder = run.map(|run| RunFolder::named(&self.results, run));
        let line = Line {
            at: clock::now(),
            session: &self.name,
            tool,
            arguments: kept(arguments),
            run,
            error: answer.err(),
            seconds: start.elapsed().as_secs_f64(),
        };
        self.journal.add(&line, folder.as_ref().map(RunFolder::path))
    }

    /// Calls `look` until it returns a value, for at most `seconds`.
    pub fn wait<T>(&self, seconds: f64, mut look: impl FnMut() -> Option<T>) -> Option<T> {
        let start = Instant::now();
        loop {
            let value = look();
            if value.is_some() || self.closing.load(Ordering::Relaxed) || start.elapsed().as_secs_f64() >= seconds {
                return value;
            }
            thread::sleep(POLL_INTERVAL);
        }
    }

    fn runs(&self) -> MutexGuard<'_, Vec<Started>> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Usage of all runs so far.
    pub fn usage(&self) -> Usage {
        let mut usage = Usage::default();
        for run in self.runs().iter_mut() {
            usage += run.account().usage;
        }
        usage
    }

    /// The bounds of the jobs that may still run.
    pub fn left(&self) -> Bounds {
        self.bounds.without(self.usage())
    }

    /// Starts work of at most `jobs` jobs, and returns its number in this session.
    pub fn start(&self, work: Work<'_>, jobs: usize) -> Result<usize, Fault> {
        let remaining = self.left();
        let mut runs = self.runs();
        if runs.iter_mut().any(|run| !run.account().ended) {
            let busy_fault = Fault::new(FaultKind::Busy, "a run of this server is in progress");
            return Err(busy_fault.help("`status` with `wait_seconds` waits for it, `stop` ends it"));
        }
        let excess = match (jobs > remaining.jobs, remaining.seconds <= 0.0) {
            (true, _) => Some(format!(
                "{} could run, and {} left of the budget of {}",
                count(jobs, "job"),
                if remaining.jobs == 1 { "1 is".to_owned() } else { format!("{} are", remaining.jobs) },
                count(self.bounds.jobs, "job")
            )),
            (_, true) => Some("the time of the budget is used up".to_owned()),
            _ => None,
        };
        if let Some(message) = excess {
            let fault = Fault::new(FaultKind::Budget, message);
            return Err(fault.help("run a part (`only`, `axes`), or ask the user for a larger budget"));
        }
        let number = runs.len() + 1;
        let place = |end: &str| self.folder.join(format!("run-{number}.{end}"));
        let context = "cannot start the run";
        let account = place("json");
        let command = match work {
            Work::Plan(plan) => {
                let plan_path = place("plan.json");
                fs::write(&plan_path, plan).map_err(Fault::io(context))?;
                vec!["run".into(), "--plan".into(), plan_path.into_os_string()]
            }
            Work::Command(command) => command,
        };
        let supervisor = Command::new(program().map_err(Fault::io(context))?)
            .arg("--results")
            .arg(&self.results)
            .args(["exec-bounded", "--max-jobs", &remaining.jobs.to_string()])
            .args([
                "--max-seconds",
                &remaining.seconds.to_string(),
                "--max-gpu-hours",
                &remaining.gpu_hours.to_string(),
            ])
            .arg("--account")
            .arg(&account)
            .arg("--")
            .args(command)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(fs::File::create(place("supervisor.log")).map_err(Fault::io(context))?.into_file())
            .spawn()
            .map_err(Fault::io(context))?;
        let mut new_run = Started { account, supervisor, over: false };
        let start = Instant::now();
        while !new_run.account.exists() && !new_run.is_over() && start.elapsed() < START {
            thread::sleep(POLL_INTERVAL / 5);
        }
        runs.push(new_run);
        Ok(number)
    }

    /// Requests the end of the current run; returns the run's number.
    pub fn stop(&self) -> Option<usize> {
        let mut runs = self.runs();
        let place = runs.iter_mut().position(|run| !run.account().ended)?;
        let pid = i32::try_from(runs[place].supervisor.id()).ok().and_then(Pid::from_raw)?;
        // The process has not been reaped, so its id is still valid.
        let _ = kill_process(pid, Signal::TERM);
        Some(place + 1)
    }

    /// The account of a run of this session, by its number.
    pub fn account(&self, number: usize) -> Option<Account> {
        self.runs().get_mut(number.checked_sub(1)?).map(Started::account)
    }

    /// The standard output of a run of this session.
    pub fn output(&self, number: usize) -> io::Result<String> {
        fs::read_to_string(self.folder.join(format!("run-{number}.out")))
    }

    /// The number of the run that has this folder.
    pub fn number_of(&self, run: &str) -> Option<usize> {
        let mut runs = self.runs();
        let place = runs.iter_mut().position(|candidate| candidate.account().runs.iter().any(|name| name == run));
        place.map(|place| place + 1)
    }

    /// The number of the latest run.
    pub fn latest(&self) -> Option<usize> {
        Some(self.runs().len()).filter(|number| *number > 0)
    }
}

impl Started {
    /// True if the supervisor has ended.
    fn is_over(&mut self) -> bool {
        self.over = self.over || matches!(self.supervisor.try_wait(), Ok(Some(_)) | Err(_));
        self.over
    }

    /// The account as it is now.
    fn account(&mut self) -> Account {
        // Asked first: an account that is finished meanwhile is then read to its end.
        let is_over = self.is_over();
        let mut account = Account::read(&self.account).unwrap_or_default();
        account.ended |= is_over;
        account
    }
}
