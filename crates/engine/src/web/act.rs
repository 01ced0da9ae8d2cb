//! Actions of the pages: to stop a job of a live run, to run jobs without a result again, to explain a job, to extend a run by further
//! values of an axis (`extend.rs`), and to write notes.
//!
//! They are requests with POST below `/act/`, and `guard.rs` has checked that they have the token of the server and come from one of its
//! pages. They respond with the equivalent command for a shell.

use std::{
    os::unix::process::CommandExt as _,
    path::Path,
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use axum::{
    extract::{Path as UrlPath, State},
    http::{StatusCode, header},
    response::{IntoResponse as _, Response},
};
use serde::Deserialize;
use serde_json::json;

use super::{
    Site,
    extend::{self, Wish},
    read, runs,
};
use crate::{
    format::{MASK, clean, clean_lines, quoted},
    host::program,
    plan,
    run::{
        RunFolder, RunProvenance, StopError, request_stop,
        watch::{Snapshot, State as JobState},
    },
    store::{NoteChange, NoteError, Store},
};

/// Number and interval of the checks whether a run that was started has ended at once.
const BEGINNING_CHECKS: u32 = 10;
const BEGINNING_INTERVAL: Duration = Duration::from_millis(50);

/// The run that this server has started last.
#[derive(Debug, Default)]
pub(super) struct Started(Mutex<Option<Child>>);

/// A command that was carried out.
pub(super) struct Done {
    pub(super) command: String,
    /// The command's output; empty if it continues to run.
    pub(super) text: String,
}

/// A change of the notes on a record, as a page sends it.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum NoteForm {
    Tag(String),
    Untag(String),
    Note(String),
    Remove(usize),
}

/// Refusal of an action.
#[derive(Debug, thiserror::Error)]
pub(super) enum Refusal {
    #[error("there is no such job in a run of this folder")]
    Unknown,
    #[error(transparent)]
    Stop(#[from] StopError),
    #[error("the run is live: it does its jobs itself")]
    Live,
    #[error("every job of the run has a result: nothing has to run again")]
    Whole,
    #[error("the run was started by a version that did not keep its arguments: run its recipe in a shell")]
    NoArguments,
    #[error("a run that was started here is still in progress: wait for its end, or stop it")]
    Busy,
    #[error("the run did not begin: {0}")]
    NotBegun(String),
    #[error("the explanation failed: {0}")]
    Explanation(String),
    #[error("the page sent an unexpected request: reload the page ({0})")]
    Form(String),
    #[error("no step of the run has the axis `{0}`")]
    NoAxis(String),
    #[error("name the values to add, separated by commas, as in `4,5`; they have at most {max} bytes", max = super::extend::MAX_VALUES)]
    NoValues,
    #[error("`{0}` already has all these values")]
    NothingNew(String),
    #[error("such a run cannot be planned:\n{0}")]
    Plan(String),
    #[error("the job has no result: notes are on results")]
    NoRecord,
    #[error(transparent)]
    Note(#[from] NoteError),
    #[error("the command cannot be started: {0}")]
    Io(#[from] std::io::Error),
}

impl Refusal {
    fn status(&self) -> StatusCode {
        match self {
            Self::Unknown => StatusCode::NOT_FOUND,
            Self::Form(_) | Self::NoValues => StatusCode::BAD_REQUEST,
            Self::Io(_) | Self::Stop(StopError::Io(_)) | Self::Note(NoteError::Io(_)) => {
                StatusCode::INTERNAL_SERVER_ERROR
            }
            _ => StatusCode::CONFLICT,
        }
    }
}

/// Requests the end of a job of a live run.
pub(super) async fn stop(State(site): State<Arc<Site>>, UrlPath((run, key)): UrlPath<(String, String)>) -> Response {
    answer(read(move || stop_job(&site, &run, &key)).await)
}

/// Runs the jobs of a run that have no result again.
pub(super) async fn run_again(State(site): State<Arc<Site>>, UrlPath(run): UrlPath<String>) -> Response {
    answer(read(move || start_again(&site, &run, None)).await)
}

/// Runs one job of a run again.
pub(super) async fn run_job_again(
    State(site): State<Arc<Site>>,
    UrlPath((run, key)): UrlPath<(String, String)>,
) -> Response {
    answer(read(move || start_again(&site, &run, Some(&key))).await)
}

/// Explains why a job runs, by the recipe as it is now.
pub(super) async fn explain(State(site): State<Arc<Site>>, UrlPath((run, key)): UrlPath<(String, String)>) -> Response {
    answer(read(move || explain_job(&site, &run, &key)).await)
}

/// Extends a run by further values of an axis, or shows the plan of such a run.
pub(super) async fn extend(State(site): State<Arc<Site>>, UrlPath(run): UrlPath<String>, body: String) -> Response {
    answer(read(move || extend_run(&site, &run, &body)).await)
}

/// Adds or removes a tag or a note of a job's record.
pub(super) async fn note(
    State(site): State<Arc<Site>>,
    UrlPath((run, key)): UrlPath<(String, String)>,
    body: String,
) -> Response {
    answer(read(move || note_job(&site, &run, &key, &body)).await)
}

/// The command that was carried out and its output, as JSON, or the reason why none was.
fn answer(result: Result<Result<Done, Refusal>, Response>) -> Response {
    let (status, body) = match result {
        Ok(Ok(Done { command, text })) => {
            (StatusCode::OK, json!({ "command": clean(&command), "text": clean_lines(&text) }))
        }
        Ok(Err(refusal)) => (refusal.status(), json!({ "error": clean_lines(&refusal.to_string()) })),
        Err(response) => return response,
    };
    let headers = [(header::CACHE_CONTROL, "no-store"), (header::CONTENT_TYPE, "application/json")];
    (status, headers, body.to_string()).into_response()
}

/// A run as it is now.
fn snapshot(site: &Site, run: &str) -> Result<(RunFolder, Snapshot), Refusal> {
    let folder = runs::find(&site.results, run).ok_or(Refusal::Unknown)?;
    let snapshot = Snapshot::read(&folder).map_err(|_| Refusal::Unknown)?;
    Ok((folder, snapshot))
}

fn stop_job(site: &Site, run: &str, key: &str) -> Result<Done, Refusal> {
    let (folder, snapshot) = snapshot(site, run)?;
    let index = index(&snapshot, key)?;
    request_stop(&folder, &snapshot, index)?;
    let label = &snapshot.manifest.jobs[index].label;
    let words = ["stop", "--run", &folder.name(), label].map(str::to_owned);
    Ok(Done { command: line(site, &words), text: String::new() })
}

/// The job with this short key, by its index in the run's plan.
fn index(snapshot: &Snapshot, key: &str) -> Result<usize, Refusal> {
    snapshot.manifest.jobs.iter().position(|job| job.key.short() == key).ok_or(Refusal::Unknown)
}

/// Starts a run with the arguments of an earlier one, whose jobs are cached if they have a result.
fn start_again(site: &Site, run: &str, key: Option<&str>) -> Result<Done, Refusal> {
    let (folder, snapshot) = snapshot(site, run)?;
    let job = key.map(|key| index(&snapshot, key)).transpose()?;
    if snapshot.live || snapshot.elsewhere {
        return Err(Refusal::Live);
    }
    let has_result = |state: &JobState| matches!(state, JobState::Done { .. } | JobState::Cached);
    let is_whole = match job {
        Some(job) => has_result(&snapshot.jobs[job]),
        None => snapshot.jobs.iter().filter(|state| state.is_selected()).all(has_result),
    };
    if is_whole {
        return Err(Refusal::Whole);
    }
    if snapshot.manifest.typed.is_empty() {
        return Err(Refusal::NoArguments);
    }
    let mut words = vec!["run".to_owned()];
    words.extend(snapshot.manifest.typed.iter().cloned().chain(options_of(&folder)));
    words.extend(job.into_iter().flat_map(|job| ["--only".to_owned(), snapshot.manifest.jobs[job].label.clone()]));
    site.started.start(&site.results, &words)?;
    Ok(Done { command: line(site, &words), text: String::new() })
}

/// Options of `sweep run` that do not change the plan, and options with a value.
const FLAGS: [&str; 5] = ["--fail-fast", "--keep-going", "--strict", "--remeasure", "--detach"];
const WITH_VALUES: [&str; 10] = [
    "--jobs",
    "-j",
    "--executor",
    "--hosts",
    "--pilot",
    "--poll",
    "--remote",
    "--remote-key",
    "--remote-trust",
    "--remote-timeout",
];

/// The options with which a run was started that say how it runs its jobs, and not which.
fn options_of(folder: &RunFolder) -> Vec<String> {
    options(&RunProvenance::read(folder.path()).arguments)
}

fn options(arguments: &[String]) -> Vec<String> {
    let mut options = Vec::new();
    // Arguments after `--` are those of a program.
    let mut words = arguments.iter().take_while(|word| *word != "--");
    while let Some(word) = words.next() {
        let name = word.split_once('=').map_or(word.as_str(), |(name, _)| name);
        if FLAGS.contains(&word.as_str()) {
            options.push(word.clone());
        } else if WITH_VALUES.contains(&name) {
            let value = if name == word { words.next() } else { None };
            // The provenance has a mask in the place of a secret.
            if !word.contains(MASK) && !value.is_some_and(|value| value.contains(MASK)) {
                options.extend([word].into_iter().chain(value).cloned());
            }
        }
    }
    options
}

fn explain_job(site: &Site, run: &str, key: &str) -> Result<Done, Refusal> {
    let (_, snapshot) = snapshot(site, run)?;
    let label = &snapshot.manifest.jobs[index(&snapshot, key)?].label;
    let words = plan::explanation_words(&snapshot.manifest.typed, label).ok_or(Refusal::NoArguments)?;
    let output = command(&site.results)?.args(&words).stdin(Stdio::null()).output()?;
    if !output.status.success() {
        return Err(Refusal::Explanation(text(&output.stderr)));
    }
    Ok(Done { command: line(site, &words), text: text(&output.stdout) })
}

fn extend_run(site: &Site, run: &str, body: &str) -> Result<Done, Refusal> {
    let wish: Wish = serde_json::from_str(body).map_err(|error| Refusal::Form(error.to_string()))?;
    let (folder, snapshot) = snapshot(site, run)?;
    if snapshot.live || snapshot.elsewhere {
        return Err(Refusal::Live);
    }
    if snapshot.manifest.typed.is_empty() {
        return Err(Refusal::NoArguments);
    }
    let arguments = extend::arguments(&snapshot, &wish)?;
    let run = [vec!["run".to_owned()], arguments.clone(), options_of(&folder)].concat();
    if wish.go {
        site.started.start(&site.results, &run)?;
        return Ok(Done { command: line(site, &run), text: String::new() });
    }
    let output = command(&site.results)?.arg("plan").args(&arguments).stdin(Stdio::null()).output()?;
    if !output.status.success() {
        return Err(Refusal::Plan(text(&output.stderr)));
    }
    Ok(Done { command: line(site, &run), text: text(&output.stdout) })
}

fn note_job(site: &Site, run: &str, key: &str, body: &str) -> Result<Done, Refusal> {
    let form: NoteForm = serde_json::from_str(body).map_err(|error| Refusal::Form(error.to_string()))?;
    let (_, snapshot) = snapshot(site, run)?;
    let key = snapshot.manifest.jobs[index(&snapshot, key)?].key;
    let store = Store::new(&site.results);
    if !store.contains(key) {
        return Err(Refusal::NoRecord);
    }
    let (change, words) = match form {
        NoteForm::Tag(tag) => (NoteChange::Tag(tag.clone()), vec![format!("--tag={tag}")]),
        NoteForm::Untag(tag) => (NoteChange::Untag(tag.clone()), vec![format!("--untag={tag}")]),
        NoteForm::Note(text) => (NoteChange::Add(text.clone()), vec!["--".to_owned(), text]),
        NoteForm::Remove(number) => (NoteChange::Remove(number), vec![format!("--remove={number}")]),
    };
    store.note(key, &[change])?;
    let words = [vec!["note".to_owned(), key.short()], words].concat();
    Ok(Done { command: line(site, &words), text: String::new() })
}

/// The output of a command.
fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).trim_end().to_owned()
}

/// The command line of this program with these words, for a shell.
fn line(site: &Site, words: &[String]) -> String {
    let words = words.iter().map(|word| quoted(word));
    std::iter::once(site.program.clone()).chain(words).collect::<Vec<_>>().join(" ")
}

/// This program, with the results folder of the server.
fn command(results: &Path) -> std::io::Result<Command> {
    let mut command = Command::new(program()?);
    command.arg0("sweep").arg("--results").arg(results).env("NO_COLOR", "1");
    Ok(command)
}

impl Started {
    /// Starts this program in a separate process group: the run continues when the server ends.
    fn start(&self, results: &Path, words: &[String]) -> Result<(), Refusal> {
        let mut last_run = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(child) = &mut *last_run
            && child.try_wait()?.is_none()
        {
            return Err(Refusal::Busy);
        }
        let folder = results.join("ui");
        fs_err::create_dir_all(&folder)?;
        let log = fs_err::File::create(folder.join("run.log"))?.into_file();
        let mut command = command(results)?;
        command.args(words).stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).process_group(0);
        let child = last_run.insert(command.spawn()?);
        // A recipe that is not found or invalid ends the program at once; an exit code from 5 on is that of a run.
        for _ in 0..BEGINNING_CHECKS {
            std::thread::sleep(BEGINNING_INTERVAL);
            match child.try_wait()? {
                Some(status) if status.code().is_some_and(|code| (1..5).contains(&code)) => {
                    return Err(Refusal::NotBegun(text(&fs_err::read(folder.join("run.log"))?)));
                }
                Some(_) => break,
                None => {}
            }
        }
        Ok(())
    }
}
