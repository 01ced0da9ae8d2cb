//! A job without a network, for tests of recipes and of the engine: real process, real protocol, chosen end.

use std::{path::Path, thread, time::Duration};

use rustix::process::{Signal, getpid, kill_process};
use sweep_job::{
    Failure, FailureKind, Outcome, Progress, Report, Unit,
    tasks::{Mock, MockEnd},
};

pub(super) fn run(mock: &Mock, folder: &Path, report: &mut dyn Report) -> Result<Outcome, Failure> {
    eprintln!("mock job: {mock:?}");
    let pause = Duration::from_secs_f64(mock.seconds / mock.steps as f64);
    for step in 1..=mock.steps {
        thread::sleep(pause);
        let total = mock.steps as u64;
        report.progress(Progress { done: step as u64, total, loss: Some(mock.value), tokens_per_s: None });
    }
    let mut outcome = Outcome::default();
    outcome.metric("value", mock.value, Unit::One);
    if let Some(input) = &mock.input {
        let content =
            fs_err::read(&input.0).map_err(|error| Failure { kind: FailureKind::Input, message: error.to_string() })?;
        outcome.metric("bytes", content.len() as f64, Unit::Bytes);
    }
    if let Some(text) = &mock.text {
        fs_err::write(folder.join("text"), text)
            .map_err(|error| Failure { kind: FailureKind::Io, message: error.to_string() })?;
        outcome.artifacts.insert("text".to_owned(), "text".to_owned());
    }
    match mock.end {
        MockEnd::Done => Ok(outcome),
        MockEnd::Noise => {
            println!("noise on standard output, which is the log's");
            Ok(outcome)
        }
        MockEnd::Fail => Err(Failure { kind: FailureKind::Experiment, message: "it was told to fail".into() }),
        MockEnd::Panic => panic!("it was told to panic"),
        MockEnd::Kill => {
            let _ = kill_process(getpid(), Signal::KILL);
            Err(Failure { kind: FailureKind::Crash, message: "it survived SIGKILL".into() })
        }
        MockEnd::Hang => loop {
            thread::sleep(Duration::from_mins(1));
        },
        MockEnd::Silent => std::process::exit(0),
    }
}
