//! Messages about a run, to the places that `notify` of its recipes names.

use std::{
    collections::{BTreeMap, HashSet},
    io::{self, Write as _},
    process::{Command, Stdio},
    sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel},
    thread,
    time::{Duration, Instant},
};

use sweep_job::FailureKind;

use super::post::post;
use crate::{
    format::{clean, clean_lines, count, say},
    plan::{JobId, Plan, Study},
    progress,
    recipe::{Notify, Occasion},
    run::{Observer, RunEvent, Summary},
};

/// Shortest interval between two messages of an occasion; those between them are counted in the next one.
const MIN_INTERVAL: Duration = Duration::from_mins(1);
/// Longest time that the end of a run waits for messages to be sent.
const SEND_TIMEOUT: Duration = Duration::from_secs(20);
/// Longest text of a message, in characters.
const MAX_TEXT_LENGTH: usize = 2000;
/// Paths of `sendmail`, in addition to the `PATH`.
const SENDMAIL: &[&str] = &["sendmail", "/usr/sbin/sendmail", "/usr/lib/sendmail"];

/// Sends messages about a run.
#[derive(Debug, Default)]
pub struct Notifier {
    studies: Vec<Subscription>,
    sending: Vec<Receiver<Result<(), String>>>,
}

/// A study with `notify`.
#[derive(Debug)]
struct Subscription {
    study: String,
    notify: Notify,
    jobs: HashSet<usize>,
    /// For each occasion, the time of the last message and the number of unsent messages since then.
    sent: BTreeMap<Occasion, (Instant, usize)>,
}

/// A way to send a message; the error is a sentence.
type Send = Box<dyn FnOnce(&Message) -> Result<(), String> + std::marker::Send>;

/// A message.
#[derive(Debug, Clone)]
pub(super) struct Message {
    pub(super) event: &'static str,
    pub(super) study: String,
    pub(super) title: String,
    pub(super) text: String,
}

impl Notifier {
    /// Finds the studies of a plan that have `notify`.
    pub(super) fn new(plan: &Plan) -> Self {
        Self { studies: plan.studies.iter().filter_map(Subscription::of).collect(), sending: Vec::new() }
    }

    /// Takes the jobs of a plan that has grown.
    pub(super) fn follow(&mut self, plan: &Plan) {
        for (subscription, study) in self.studies.iter_mut().zip(plan.studies.iter().filter_map(Subscription::of)) {
            subscription.jobs = study.jobs;
        }
    }

    /// Reports a job to the studies that have it.
    fn job(&mut self, plan: &Plan, job: usize, occasion: Occasion, what: &str) {
        let name = progress::name(plan.job(JobId::new(job)));
        let now = Instant::now();
        for subscription in &mut self.studies {
            if !subscription.jobs.contains(&job) || !subscription.notify.on.contains(&occasion) {
                continue;
            }
            if let Some((last, unsent)) = subscription.sent.get_mut(&occasion)
                && now.duration_since(*last) < MIN_INTERVAL
            {
                *unsent += 1;
                continue;
            }
            let unsent = subscription.sent.insert(occasion, (now, 0)).map_or(0, |(_, unsent)| unsent);
            let more = if unsent > 0 { format!(" ({} before it)", count(unsent, "more job")) } else { String::new() };
            let title = format!("{}: {name}", subscription.study);
            self.sending.extend(subscription.send(occasion, &title, &format!("{name}: {what}{more}")));
        }
    }

    /// Reports the end of a run and the verdicts on the claims of each study, each as a sentence, and waits until all messages are
    /// sent. Messages that cannot be sent are warnings.
    pub fn conclude(mut self, summary: &Summary, verdicts: &BTreeMap<String, Vec<String>>) {
        for subscription in &mut self.studies {
            for (occasion, (_, unsent)) in std::mem::take(&mut subscription.sent) {
                if unsent > 0 {
                    let title = format!("{}: {}", subscription.study, occasion.word());
                    let text = format!("{}: {}", occasion.word(), count(unsent, "more job"));
                    self.sending.extend(subscription.send(occasion, &title, &text));
                }
            }
            let Subscription { study, notify, .. } = &*subscription;
            if notify.on.contains(&Occasion::End) {
                let end = if summary.interrupted.is_some() { "was interrupted" } else { "has ended" };
                let title = format!("{study} {end}");
                self.sending.extend(subscription.send(Occasion::End, &title, &progress::summary(summary)));
            }
            if let Some(sentences) = verdicts.get(study).filter(|sentences| !sentences.is_empty())
                && notify.on.contains(&Occasion::Verdict)
            {
                let title = format!("{study}: {}", count(sentences.len(), "verdict"));
                self.sending.extend(subscription.send(Occasion::Verdict, &title, &sentences.join("\n")));
            }
        }
    }

    /// Waits until all messages are sent.
    fn wait(&mut self) {
        let deadline = Instant::now() + SEND_TIMEOUT;
        let mut warnings = HashSet::new();
        for sending in std::mem::take(&mut self.sending) {
            let problem = match sending.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(Ok(())) => continue,
                Ok(Err(problem)) => problem,
                Err(RecvTimeoutError::Timeout) => "it takes too long".to_owned(),
                Err(RecvTimeoutError::Disconnected) => "it ended without an answer".to_owned(),
            };
            if warnings.insert(problem.clone()) {
                say(format_args!("warning: a message of `notify` was not sent: {}", clean(&problem)));
            }
        }
    }
}

impl Drop for Notifier {
    /// A run that is left, or that ends with an error, sends its messages, too.
    fn drop(&mut self) {
        self.wait();
    }
}

impl Observer for Notifier {
    fn on(&mut self, plan: &Plan, event: &RunEvent) {
        match event {
            RunEvent::Failed { job, failure, tolerated: false, .. } => {
                let occasion = if failure.kind == FailureKind::Stalled { Occasion::Stall } else { Occasion::Failure };
                self.job(plan, *job, occasion, &failure.message);
            }
            RunEvent::Done { job, outcome, .. } => {
                let diverged: Vec<String> = outcome.diverged().map(|(name, _)| format!("`{name}`")).collect();
                if !diverged.is_empty() {
                    self.job(plan, *job, Occasion::Divergence, &format!("{} diverged", diverged.join(", ")));
                }
            }
            _ => {}
        }
    }
}

impl Subscription {
    fn of(study: &Study) -> Option<Self> {
        let notify = study.recipe.notify.clone()?;
        let jobs = study.steps.iter().flatten().map(|(_, id)| id.index()).collect();
        Some(Self { study: study.recipe.name.clone(), notify, jobs, sent: BTreeMap::new() })
    }

    /// Sends a message to every place, each in a separate thread.
    fn send(&self, occasion: Occasion, title: &str, text: &str) -> Vec<Receiver<Result<(), String>>> {
        let text: String = clean_lines(text).chars().take(MAX_TEXT_LENGTH).collect();
        let title = format!("sweep: {}", clean(title));
        let message = Message { event: occasion.word(), study: self.study.clone(), title, text };
        let Notify { command, webhook, desktop, mail, .. } = self.notify.clone();
        let mut sending = Vec::new();
        let mut start = |send: Send| {
            let (sender, receiver): (Sender<Result<(), String>>, _) = channel();
            let message = message.clone();
            let work = move || drop(sender.send(send(&message)));
            // Without a thread the receiver is disconnected, which is reported at the end.
            let _ = thread::Builder::new().name("notify".into()).spawn(work);
            sending.push(receiver);
        };
        if let Some(command) = command {
            start(Box::new(move |message| run(Command::new("/bin/sh").args(["-c", &command]), message, None)));
        }
        if desktop {
            start(Box::new(|message| {
                let Message { title, text, .. } = message;
                run(Command::new("notify-send").args(["--app-name=sweep", "--", title, text]), message, None)
            }));
        }
        if let Some(mailbox) = mail {
            start(Box::new(move |message| send_mail(&mailbox, message)));
        }
        if let Some(address) = webhook {
            start(Box::new(move |message| post(&resolved(&address)?, message)));
        }
        sending
    }
}

/// An address, or that in the variable which `$NAME` names.
fn resolved(address: &str) -> Result<String, String> {
    let Some(name) = address.strip_prefix('$') else { return Ok(address.to_owned()) };
    std::env::var(name).map_err(|_| format!("`${name}`, the address of `webhook`, is not set"))
}

/// Runs a command with a message in its environment, and `input` on its standard input.
fn run(command: &mut Command, message: &Message, input: Option<&str>) -> Result<(), String> {
    let Message { event, study, title, text } = message;
    let program = command.get_program().to_string_lossy().into_owned();
    let failed = |error: io::Error| format!("`{program}` cannot be run: {error}");
    command.env("SWEEP_EVENT", event).env("SWEEP_STUDY", study).env("SWEEP_TITLE", title).env("SWEEP_TEXT", text);
    command
        .stdin(if input.is_some() { Stdio::piped() } else { Stdio::null() })
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let mut child = command.spawn().map_err(failed)?;
    if let (Some(input), Some(mut stdin)) = (input, child.stdin.take()) {
        // A write error is ignored: a program that does not read its input reports this by its exit code.
        let _ = stdin.write_all(input.as_bytes());
    }
    let output = child.wait_with_output().map_err(failed)?;
    if output.status.success() {
        return Ok(());
    }
    let stderr = String::from_utf8_lossy(&output.stderr);
    let last = stderr.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
    Err(format!("`{program}` ended with {}: {last}", output.status))
}

fn send_mail(mailbox: &str, message: &Message) -> Result<(), String> {
    let Message { title, text, .. } = message;
    let subject: String =
        title.chars().map(|char| if char.is_ascii() && !char.is_control() { char } else { '?' }).collect();
    let letter = format!(
        "To: {mailbox}\nSubject: {subject}\nMIME-Version: 1.0\nContent-Type: text/plain; charset=utf-8\n\
         Content-Transfer-Encoding: 8bit\n\n{text}\n"
    );
    let mut problem = String::new();
    for program in SENDMAIL {
        match run(Command::new(program).args(["-i", "--", mailbox]), message, Some(&letter)) {
            Err(error) if error.contains("cannot be run") => problem = error,
            result => return result,
        }
    }
    Err(problem)
}
