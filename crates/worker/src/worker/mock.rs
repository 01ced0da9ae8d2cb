//! A job without a network, for tests of recipes and of the engine: a real process, the real protocol, a chosen end.

use std::{
    path::Path,
    sync::{Arc, atomic::AtomicBool},
    thread,
    time::Duration,
};

use rustix::process::{Signal, getpid, kill_process};
use signal_hook::consts::SIGTERM;
use sweep_job::{
    Failure, FailureKind, Job, Outcome, Progress, Report as _,
    tasks::{Mock, MockEnd},
};

use super::{Channel, Run};

impl Run for Mock {
    fn run(&self, job: &Job, channel: &mut Channel) -> Result<Outcome, Failure> {
        eprintln!("mock job: {self:?}");
        if fail_again(self.failures, &job.scratch)? {
            return Err(Failure { kind: FailureKind::Experiment, message: "it was told to fail at first".into() });
        }
        let pause = Duration::from_secs_f64(self.seconds / self.steps as f64);
        for step in 1..=self.steps {
            thread::sleep(pause);
            let total = self.steps as u64;
            channel.progress(Progress { done: step as u64, total, loss: Some(self.value), ..Progress::default() });
        }
        let mut outcome = Outcome::default();
        outcome.set(&Mock::VALUE, self.value);
        if let Some(input) = &self.input {
            let content = fs_err::read(&input.0)
                .map_err(|error| Failure { kind: FailureKind::Input, message: error.to_string() })?;
            outcome.set(&Mock::BYTES, content.len() as f64);
        }
        if let Some(text) = &self.text {
            fs_err::write(job.dir.join("text"), text)
                .map_err(|error| Failure { kind: FailureKind::Io, message: error.to_string() })?;
            outcome.artifacts.insert("text".to_owned(), "text".to_owned());
        }
        end(self.end, channel).map(|()| outcome)
    }
}

/// True if this attempt is one of the first `failures`, which must fail.
fn fail_again(failures: usize, scratch: &Path) -> Result<bool, Failure> {
    if failures == 0 {
        return Ok(false);
    }
    let path = scratch.join("attempts");
    let past_attempts = fs_err::read_to_string(&path).ok().and_then(|text| text.parse::<usize>().ok()).unwrap_or(0);
    let io = |error: std::io::Error| Failure { kind: FailureKind::Io, message: error.to_string() };
    fs_err::write(&path, (past_attempts + 1).to_string()).map_err(io)?;
    Ok(past_attempts < failures)
}

fn end(end: MockEnd, channel: &mut Channel) -> Result<(), Failure> {
    let survival_failure =
        |signal: &str| Err(Failure { kind: FailureKind::Crash, message: format!("it survived {signal}") });
    match end {
        MockEnd::Done => Ok(()),
        MockEnd::Noise => {
            println!("noise on standard output, which is the log's");
            Ok(())
        }
        MockEnd::Garbage => {
            channel.write(b"\x00\xff\x1b[2J not a message\n{\"done\":\n");
            let line = vec![b'x'; 1 << 20];
            for _ in 0..100 {
                channel.write(&line);
            }
            channel.write(b"\n");
            Ok(())
        }
        MockEnd::Fail => Err(Failure { kind: FailureKind::Experiment, message: "it was told to fail".into() }),
        MockEnd::Panic => panic!("it was told to panic"),
        MockEnd::Kill => {
            let _ = kill_process(getpid(), Signal::KILL);
            survival_failure("SIGKILL")
        }
        MockEnd::Segfault => {
            // The first only takes away the handler with which Rust reports a stack that is used up.
            let _ = kill_process(getpid(), Signal::SEGV);
            let _ = kill_process(getpid(), Signal::SEGV);
            survival_failure("SIGSEGV")
        }
        MockEnd::DeviceMemory => {
            let message = "CUDA_ERROR_OUT_OF_MEMORY: the device has 80.0 GiB, of which 12.3 MiB are free".into();
            Err(Failure { kind: FailureKind::Backend, message })
        }
        MockEnd::Devour => {
            let mut buffers: Vec<Vec<u8>> = Vec::new();
            loop {
                // Written to, so that the kernel has to find the memory.
                buffers.push(vec![1; 16 << 20]);
            }
        }
        MockEnd::Spin => loop {
            std::hint::spin_loop();
        },
        MockEnd::Deaf => {
            let signal = Arc::new(AtomicBool::new(false));
            let _ = signal_hook::flag::register(SIGTERM, signal);
            loop {
                thread::sleep(Duration::from_mins(1));
            }
        }
        MockEnd::Hang => loop {
            thread::sleep(Duration::from_mins(1));
        },
        MockEnd::Silent => std::process::exit(0),
    }
}
