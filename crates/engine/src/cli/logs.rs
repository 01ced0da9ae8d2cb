//! `sweep logs`.

use std::{
    io::{self, Read as _, Write as _},
    path::Path,
    thread,
    time::Duration,
};

use clap::Args;
use serde::Serialize;

use super::{
    answer::{self, FormatArgs, answer},
    runs,
};
use crate::{
    error::{Error, Exit},
    format::clean_lines,
    record::Key,
    render::page::end_of,
    run::{
        RunFolder,
        watch::{Snapshot, State},
    },
};

#[derive(Debug, Args)]
pub(super) struct LogsArgs {
    /// The job: its step and point, or a prefix of its key.
    job: String,
    /// A run, by its folder's name. Default: the latest run that started the job.
    #[arg(long)]
    run: Option<String>,
    /// Follow the output until the job ends.
    #[arg(long, short)]
    follow: bool,
    /// Print the bytes unchanged, including terminal control sequences.
    #[arg(long)]
    raw: bool,
    #[command(flatten)]
    format: FormatArgs,
}

/// The JSON output: a job's log.
#[derive(Serialize)]
struct Output<'a> {
    job: &'a str,
    key: Key,
    run: String,
    /// The job's state as a word.
    state: &'static str,
    /// Path of the log.
    log: &'a str,
    /// The output, or its end.
    text: &'a str,
    /// True if `text` is all of it.
    whole: bool,
}

/// Maximum number of bytes of a log in JSON output, from its end.
const MAX_BYTES: u64 = 1 << 20;

/// Interval at which a followed log is polled.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

pub(super) fn logs(results: &Path, args: &LogsArgs) -> Result<Exit, Error> {
    let (folder, key) = runs::find_job(results, args.run.as_deref(), &args.job)?;
    if args.format.is_json() {
        return print_answer(results, args, &folder, key);
    }
    let read_error = || Error::io("cannot read the log");
    let mut file = fs_err::File::open(folder.log(key)).map_err(read_error())?;
    let mut buffer = vec![0; 1 << 16];
    // The beginning of a character whose end is still to come.
    let mut torn = Vec::new();
    loop {
        // Asked first, so that nothing is missed that the job writes before its end.
        let is_over = !args.follow || !is_running(&folder, key);
        loop {
            let count = file.read(&mut buffer).map_err(|error| read_error()(error))?;
            if count == 0 {
                break;
            }
            if !show(&buffer[..count], &mut torn, args.raw)? {
                return Ok(Exit::Done);
            }
        }
        if is_over {
            return Ok(Exit::Done);
        }
        thread::sleep(POLL_INTERVAL);
    }
}

/// Prints the log as JSON, after the job's end if it is followed.
fn print_answer(results: &Path, args: &LogsArgs, folder: &RunFolder, key: Key) -> Result<Exit, Error> {
    if args.raw {
        return Err(Error::Unknown(
            "JSON cannot contain the bytes of `--raw`: remove one of the two options".to_owned(),
        ));
    }
    while args.follow && is_running(folder, key) {
        thread::sleep(POLL_INTERVAL);
    }
    let snapshot = Snapshot::read(folder).map_err(Error::io("cannot read the run"))?;
    let job = snapshot.manifest.jobs.iter().zip(&snapshot.jobs).find(|(job, _)| job.key == key);
    let Some((job, state)) = job else {
        return Err(Error::Unknown(format!("run {} has no job {}", folder.name(), key.short())));
    };
    let path = folder.log(key);
    let tail = end_of(&path, MAX_BYTES);
    let (text, whole) = tail.as_ref().map_or(("", true), |tail| (tail.text.as_str(), tail.whole));
    let log = path.display().to_string();
    let output = Output { job: &job.label, key, run: folder.name(), state: state.word(), log: &log, text, whole };
    let next = match state {
        State::Failed { .. } | State::Stopped { .. } | State::Lost => {
            let show = answer::line(results, ["show", &job.label]);
            [show].into_iter().chain(answer::rerun(results, &snapshot, job)).collect()
        }
        State::Done { .. } | State::Cached => vec![answer::line(results, ["show", &job.label])],
        _ => vec![answer::line(results, ["status", &folder.name()])],
    };
    answer(&output, next).map(|()| Exit::Done)
}

/// Prints a part of a log; `false` if the output is closed.
fn show(bytes: &[u8], torn: &mut Vec<u8>, raw: bool) -> Result<bool, Error> {
    let mut stdout = io::stdout().lock();
    let result = if raw {
        stdout.write_all(bytes)
    } else {
        torn.extend_from_slice(bytes);
        let valid_length = match std::str::from_utf8(torn) {
            Err(error) if error.error_len().is_none() => error.valid_up_to(),
            _ => torn.len(),
        };
        let remainder = torn.split_off(valid_length);
        let text = clean_lines(&String::from_utf8_lossy(torn));
        *torn = remainder;
        stdout.write_all(text.as_bytes())
    };
    match result.and_then(|()| stdout.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(Error::io("cannot write the log")(error)),
    }
}

fn is_running(folder: &RunFolder, key: Key) -> bool {
    let Ok(snapshot) = Snapshot::read(folder) else { return false };
    let mut jobs = snapshot.manifest.jobs.iter().zip(&snapshot.jobs);
    (snapshot.live || snapshot.elsewhere)
        && jobs.any(|(job, state)| {
            job.key == key
                && matches!(
                    state,
                    State::Running { .. } | State::Retrying { .. } | State::Waiting(_) | State::Queued { .. }
                )
        })
}
