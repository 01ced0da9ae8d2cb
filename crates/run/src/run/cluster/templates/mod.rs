//! Any batch system with commands that submit, list and cancel, through templates of these commands.

mod fill;
mod ids;

use std::{
    collections::{BTreeMap, HashSet},
    path::Path,
    process::Command,
    sync::{Mutex, OnceLock, PoisonError},
    time::{Duration, Instant},
};

use regex::Regex;

use self::{
    fill::{Fields, fill, words},
    ids::Kept,
};
use super::{
    Allocated, BatchId, BatchJob, CancelScope, Cluster, EndCause, Ending, Opening, QueuedJob, QueuedState, Refusal,
    Work, job_tag, script,
};
use crate::{
    host::ask::{self, Answer, Children, Limits},
    recipe::executor::batch::{Argument, CommandTemplates, Phase, whole_word},
};

/// Time limit of a command.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum size in bytes of a command's output.
const MAX_ANSWER_BYTES: usize = 64 << 20;
/// Maximum number of jobs that are named in one command.
const CHUNK: usize = 500;
/// Longest name of a job.
const MAX_ID_LENGTH: usize = 200;

/// A batch system by its templates, as far as the jobs of one store are concerned.
#[derive(Debug)]
pub(super) struct Templates {
    opening: Opening,
    commands: CommandTemplates,
    patterns: Patterns,
    kept: Kept,
    /// True if the output of `status` has the jobs' labels.
    labels: bool,
    /// Reason why it cannot be used.
    missing: Option<String>,
    known: Mutex<Known>,
}

/// State of the last poll.
#[derive(Debug, Default)]
struct Known {
    /// Exit codes of jobs that have ended.
    exits: BTreeMap<String, i32>,
    /// Jobs that have not ended.
    live: Vec<String>,
}

/// The regular expressions of the templates; `None` for expressions that the recipe does not set.
#[derive(Debug)]
struct Patterns {
    id: Option<Regex>,
    job: Option<Regex>,
    states: Vec<(Regex, Phase)>,
    ended: Option<Regex>,
    full: Option<Regex>,
    unreachable: Option<Regex>,
    none: Option<Regex>,
}

impl Patterns {
    /// The expressions were checked when the settings were read.
    fn new(templates: &CommandTemplates) -> Self {
        let regex = |text: &str| Regex::new(text).ok().filter(|_| !text.is_empty());
        let maybe = |text: &Option<String>| text.as_deref().and_then(regex);
        let states = templates.states.iter();
        Self {
            id: regex(&templates.id),
            job: regex(&templates.job),
            states: states.filter_map(|(word, phase)| Some((regex(&whole_word(word))?, *phase))).collect(),
            ended: maybe(&templates.ended),
            full: maybe(&templates.full),
            unreachable: maybe(&templates.unreachable),
            none: maybe(&templates.none),
        }
    }

    fn phase(&self, word: &str) -> Option<Phase> {
        self.states.iter().find(|(regex, _)| regex.is_match(word)).map(|(_, phase)| *phase)
    }
}

impl Templates {
    /// The system with these templates. Without templates, the system of the latest run is used, which accepts queries but no
    /// jobs.
    pub(super) fn new(opening: Opening, templates: CommandTemplates) -> Self {
        let kept = Kept::new(&opening.results);
        let missing = missing(&templates);
        let templates = if templates.submit.is_empty() { kept.templates().unwrap_or(templates) } else { templates };
        let patterns = Patterns::new(&templates);
        let labels = patterns.job.as_ref().is_some_and(|job| job.capture_names().flatten().any(|name| name == "label"));
        Self { opening, commands: templates, patterns, kept, labels, missing, known: Mutex::default() }
    }

    /// Runs a command to its end.
    fn run(&self, words: &[String], input: Option<&str>) -> Result<Answer, String> {
        let Some((program, arguments)) = words.split_first() else { return Err("the command is empty".to_owned()) };
        let mut command = Command::new(program);
        // Words in the language of the texts that are looked for.
        command.args(arguments).env("LC_ALL", "C");
        let patience = self.commands.patience.unwrap_or(TIMEOUT);
        // A command may start a service that keeps running.
        let limits = Limits { most: MAX_ANSWER_BYTES, until: Instant::now() + patience, children: Children::Left };
        let result = ask::converse(&mut command, input.map(|input| input.as_bytes().to_vec()), limits);
        let answer = result.map_err(|error| format!("{program}: {error}"))?;
        if answer.status.is_none() {
            return Err(format!("{program} does not respond within {} s", patience.as_secs_f64()));
        }
        if !answer.is_whole() {
            return Err(format!("the output of {program} is longer than {} MiB", MAX_ANSWER_BYTES >> 20));
        }
        Ok(answer)
    }

    /// True if a command has failed because the system does not respond.
    fn is_unreachable(&self, answer: &Answer) -> bool {
        let is_in = |text: &str| self.patterns.unreachable.as_ref().is_some_and(|regex| regex.is_match(text));
        !answer.succeeded() && (is_in(&answer.complaint) || is_in(&answer.out()))
    }

    /// The fields that all commands have.
    fn names(&self) -> Fields {
        let mut fields: Fields = [("name".to_owned(), self.opening.jobs_name.clone())].into();
        fields.extend(user().map(|user| ("user".to_owned(), user)));
        fields
    }

    /// The fields of a job, and its options.
    fn fields(&self, job: &BatchJob<'_>, script: &Path, text: &str) -> (Fields, Vec<String>) {
        let request_of_step = self.commands.of_step(job.step);
        let mut fields = self.names();
        fields.extend(request_of_step.values);
        let request = &job.request;
        let label = job_tag::label(&self.opening.jobs_name, &job.tag);
        let short = format!("{}-{}", self.opening.jobs_name, &blake3::hash(label.as_bytes()).to_hex()[..16]);
        let json = serde_json::Value::from(text).to_string();
        let mut set = |name: &str, value: Option<String>| fields.extend(value.map(|value| (name.to_owned(), value)));
        set("script", Some(script.display().to_string()));
        set("script-json", Some(json));
        set("output", Some(job.output.display().to_string()));
        set("folder", Some(job.folder.display().to_string()));
        set("label", Some(label));
        set("short", Some(short));
        set("cpus", Some(request.cpus.to_string()));
        let members = if let Work::Pilot { members, .. } = job.work { members } else { 1 };
        set("members", (members > 1).then(|| members.to_string()));
        set("single", (members <= 1).then(|| "true".to_owned()));
        set("remote", self.opening.remote.clone());
        set("slots", (request.cpus > 1).then(|| request.cpus.to_string()));
        set("gpus", (request.gpus > 0).then(|| request.gpus.to_string()));
        set("exclusive", request.exclusive.then(|| "true".to_owned()));
        let mebibytes = |bytes: u64| bytes.div_ceil(1 << 20).max(1).to_string();
        set("memory-bytes", request.memory.map(|bytes| bytes.to_string()));
        set("memory-mib", request.memory.map(mebibytes));
        let cpus = request.cpus.max(1) as u64;
        set("memory-mib-per-cpu", request.memory.map(|bytes| mebibytes(bytes.div_ceil(cpus))));
        let seconds = request_of_step.time.or(request.time).map(|time| time.as_secs().max(1));
        set("seconds", seconds.map(|seconds| seconds.to_string()));
        set("minutes", seconds.map(|seconds| seconds.div_ceil(60).to_string()));
        let hms = |seconds: u64| format!("{}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60);
        set("hms", seconds.map(hms));
        let after =
            job.after.iter().filter_map(|id| fill(&self.commands.after, &[("id".to_owned(), id.to_string())].into()));
        let after: Vec<String> = after.collect();
        set("after", (!after.is_empty()).then(|| after.join(&self.commands.join)));
        (fields, request_of_step.options)
    }

    /// Runs a command on jobs: on all at once if it has `${ids}`, else on one after the other.
    fn on_jobs(&self, command: &[Argument], ids: &[BatchId]) -> Result<(), String> {
        let at_once = command.iter().any(|argument| *argument == Argument::One("${ids}".to_owned()));
        for chunk in ids.chunks(if at_once { CHUNK } else { 1 }) {
            let named: Vec<String> = chunk.iter().map(BatchId::to_string).collect();
            let mut fields = self.names();
            fields.extend(named.first().map(|id| ("id".to_owned(), id.clone())));
            let words = words(command, &fields, &[("ids", &named)])?;
            let answer = self.run(&words, None)?;
            // The command also fails for jobs that have ended meanwhile, which is not an error.
            if self.is_unreachable(&answer) {
                return Err(format!("{}: {}", words[0], last_words(&answer)));
            }
        }
        Ok(())
    }

    /// The jobs in the output of `status`.
    fn jobs_in(&self, text: &str) -> Result<(Vec<QueuedJob>, Known), String> {
        let tags = if self.labels { BTreeMap::new() } else { self.kept.tags().map_err(|error| error.to_string())? };
        let (mut jobs, mut known) = (Vec::new(), Known::default());
        let Some(pattern) = &self.patterns.job else { return Err("there is no template for `job`".to_owned()) };
        for captures in pattern.captures_iter(text) {
            let group = |name| captures.name(name).map_or("", |group| group.as_str().trim());
            let (id, word) = (group("id"), group("state"));
            let tag = if self.labels {
                job_tag::tag_in(&self.opening.jobs_name, group("label"))
            } else {
                tags.get(id).cloned()
            };
            let Some(tag) = tag.filter(|_| is_id(id)) else { continue };
            let phase = self.patterns.phase(word);
            let exit: Option<i32> = group("exit").parse().ok();
            let state = state(phase, word, exit);
            if state.is_live() {
                known.live.push(id.to_owned());
            } else if let Some(exit) = exit {
                known.exits.insert(id.to_owned(), exit);
            }
            let id = BatchId::from(id.to_owned());
            jobs.push(QueuedJob { id, state, reason: word.to_owned(), tag, orphaned: false });
        }
        Ok((jobs, known))
    }

    fn known(&self) -> std::sync::MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Cluster for Templates {
    fn system(&self) -> &str {
        if self.commands.system.is_empty() { "the batch system" } else { &self.commands.system }
    }

    fn unavailable(&self) -> Option<&str> {
        self.missing.as_deref()
    }

    /// The resources that the script of the batch job names.
    fn allocated(&self) -> Option<Allocated> {
        script::allocated()
    }

    fn jobs_name(&self) -> &str {
        &self.opening.jobs_name
    }

    fn cancel_command(&self) -> String {
        let live = self.known().live.clone();
        let fields: Fields = [("id".to_owned(), live.join(" "))].into();
        let words = words(&self.commands.cancel, &fields, &[("ids", &live)]);
        words.map(|words| words.join(" ")).unwrap_or_default()
    }

    fn has_members(&self) -> bool {
        self.commands.has_members()
    }

    fn has_shared_folder(&self) -> bool {
        !self.commands.uses_remote()
    }

    fn keeps_dependencies(&self) -> bool {
        self.commands.keeps_dependencies()
    }

    fn submit(&self, job: &BatchJob<'_>) -> Result<BatchId, Refusal> {
        let result = self.kept.keep_templates(&self.commands).and_then(|()| script::write(job));
        let (script, text) = result.map_err(|error| Refusal::No(error.to_string()))?;
        let (fields, options) = self.fields(job, &script, &text);
        let no_value = |template: String| Refusal::No(format!("a field of `{template}` has no value for this job"));
        let words = words(&self.commands.submit, &fields, &[("options", &options)]).map_err(no_value)?;
        let input = self.commands.input.as_ref();
        let input = input.map(|input| fill(input, &fields).ok_or_else(|| no_value("input".to_owned()))).transpose()?;
        let answer = self.run(&words, input.as_deref()).map_err(Refusal::Unreachable)?;
        if !answer.succeeded() {
            let complaint = complaint(&answer);
            let full = self.patterns.full.as_ref().is_some_and(|full| full.is_match(&complaint));
            return Err(match (self.is_unreachable(&answer), full) {
                (true, _) => Refusal::Unreachable(complaint),
                (false, true) => Refusal::Full(complaint),
                (false, false) => Refusal::No(complaint),
            });
        }
        let out = answer.out();
        let id = self.patterns.id.as_ref().and_then(|id| id.captures(&out)).and_then(|captures| captures.get(1));
        let Some(id) = id.map(|id| id.as_str()).filter(|id| is_id(id)) else {
            let out: String = out.trim().chars().take(200).collect();
            return Err(Refusal::Unreachable(format!("{} answered {out:?}, in which there is no job", words[0])));
        };
        let id = BatchId::from(id.to_owned());
        if !self.labels {
            // Without its line the job would be submitted again; the lock of its key keeps it from running twice.
            self.kept.add(&id, &job.tag).map_err(|error| Refusal::Unreachable(error.to_string()))?;
        }
        Ok(id)
    }

    fn poll(&self) -> Result<Vec<QueuedJob>, String> {
        let words = words(&self.commands.status, &self.names(), &[]);
        let words = words.map_err(|template| format!("a field of `{template}` has no value"))?;
        let answer = self.run(&words, None)?;
        let nothing = self.patterns.none.as_ref().is_some_and(|none| none.is_match(&complaint(&answer)));
        if !answer.succeeded() && !nothing {
            return Err(format!("{}: {}", words[0], last_words(&answer)));
        }
        let (jobs, known) = self.jobs_in(&answer.out())?;
        if !self.labels {
            let all: HashSet<String> = jobs.iter().map(|job| job.id.to_string()).collect();
            // A file that is larger than necessary does no harm.
            let _ = self.kept.shrink(&all);
        }
        *self.known() = known;
        Ok(jobs)
    }

    fn cancel(&self, ids: &[BatchId], scope: CancelScope) -> Result<(), String> {
        match scope {
            CancelScope::Pending | CancelScope::All => self.on_jobs(&self.commands.cancel, ids),
            CancelScope::Interrupt if self.commands.interrupt.is_empty() => Ok(()),
            CancelScope::Interrupt => self.on_jobs(&self.commands.interrupt, ids),
        }
    }

    fn why_pending(&self, reason: &str) -> Option<&str> {
        let held = self.patterns.phase(reason) == Some(Phase::Held);
        held.then_some("it is held until a user releases it")
    }

    fn ending(&self, id: &BatchId, word: &str) -> Ending {
        let exit =
            self.known().exits.get(id.as_str()).copied().or_else(|| word.strip_prefix("exit code ")?.parse().ok());
        let cause = match (self.patterns.phase(word), exit) {
            (Some(Phase::TimeLimit), _) => EndCause::TimeLimit,
            (Some(Phase::OutOfMemory), _) => EndCause::OutOfMemory,
            (Some(Phase::Lost), _) => EndCause::Lost(word.to_owned()),
            // A shell reports a signal as 128 plus its number.
            (_, Some(code @ 129..=192)) => EndCause::Signal(code - 128),
            (_, Some(code)) if code != 0 => EndCause::Exit(code),
            _ => EndCause::Other(word.to_owned()),
        };
        Ending { cause, node: String::new(), reason: String::new() }
    }

    fn remembered(&self, id: &BatchId) -> Option<QueuedState> {
        if self.commands.history.is_empty() {
            return None;
        }
        let fields: Fields = [("id".to_owned(), id.to_string())].into();
        let words = words(&self.commands.history, &fields, &[]).ok()?;
        let answer = self.run(&words, None).ok().filter(Answer::succeeded)?;
        // If the system reuses numbers, the last line belongs to this job.
        let out = answer.out();
        let captures = self.patterns.ended.as_ref()?.captures_iter(&out).last()?;
        let group = |name| captures.name(name).map(|group| group.as_str().trim());
        let exit: Option<i32> = group("exit").and_then(|exit| exit.parse().ok());
        let phase = group("state").and_then(|word| self.patterns.phase(word));
        match (phase, exit) {
            (Some(_), _) => Some(state(phase, group("state").unwrap_or_default(), exit)),
            (None, Some(0)) => Some(QueuedState::Completed),
            (None, Some(code)) => Some(QueuedState::Failed(format!("exit code {code}"))),
            (None, None) => None,
        }
    }
}

/// The name of this process's user. The environment may lack it or have another one, and a query for another user's
/// jobs shows none of ours.
fn user() -> Option<String> {
    static USER: OnceLock<Option<String>> = OnceLock::new();
    let ask = || {
        let answer = ask::ask(Command::new("id").arg("-un"), 1000, Instant::now() + TIMEOUT)?;
        Some(String::from_utf8_lossy(&answer.text).trim().to_owned()).filter(|name| !name.is_empty())
    };
    USER.get_or_init(ask).clone()
}

/// Returns the state that a word means. An unknown word counts as the state of a job that has not ended: systems have few words for ends,
/// and a job that seems to have ended would be submitted again.
fn state(phase: Option<Phase>, word: &str, exit: Option<i32>) -> QueuedState {
    match phase {
        Some(Phase::Pending | Phase::Held) => QueuedState::Pending,
        Some(Phase::Running) | None => QueuedState::Running,
        Some(Phase::Completed) if exit.is_some_and(|exit| exit != 0) => QueuedState::Failed(word.to_owned()),
        Some(Phase::Completed) => QueuedState::Completed,
        Some(Phase::Canceled) => QueuedState::Canceled,
        Some(Phase::Failed) => QueuedState::Failed(word.to_owned()),
        Some(Phase::Ended | Phase::TimeLimit | Phase::OutOfMemory | Phase::Lost) => QueuedState::Ended(word.to_owned()),
    }
}

/// True if a text can be the name of a job. The name becomes an argument of commands.
fn is_id(text: &str) -> bool {
    let plain = |char: char| char.is_ascii_alphanumeric() || "._-[]@".contains(char);
    text.len() <= MAX_ID_LENGTH
        && text.starts_with(|char: char| char.is_ascii_alphanumeric())
        && text.chars().all(plain)
}

/// Reason why the templates cannot be used on this machine.
fn missing(templates: &CommandTemplates) -> Option<String> {
    let Some(program) = templates.submit.first().and_then(|first| first.texts().first()) else {
        return Some("it has no templates; write `executor: { batch: { preset: sge } }` in a sweep file".to_owned());
    };
    let is_there = if program.contains('/') {
        Path::new(program).is_file()
    } else {
        let path = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
    };
    (!is_there).then(|| format!("no `{program}` is on the PATH; run on a machine that can submit jobs"))
}

/// Returns the stderr of a command in one line.
fn complaint(answer: &Answer) -> String {
    let out = answer.out();
    let lines = answer.complaint.lines().chain(out.lines()).map(str::trim).filter(|line| !line.is_empty());
    let lines: Vec<&str> = lines.take(5).collect();
    let text = if lines.is_empty() { "it failed without a message".to_owned() } else { lines.join("; ") };
    text.chars().take(400).collect()
}

fn last_words(answer: &Answer) -> String {
    answer.last_words().unwrap_or("it ended without a message").chars().take(400).collect()
}
