//! Fail points: places before each write at which tests can kill the engine or report that the disk is full. In a
//! release build only the writes remain.
//!
//! `SWEEP_FAILPOINTS=kill@7` kills the process at the seventh point, `full@7` makes that write and every later one fail like a full disk,
//! `kill=2@ledger: ` kills the process at the second point whose name begins with `ledger: `, `trace=FILE` appends the points' names to a
//! file, `slow=3@NAME` waits 3 s at the point of this name, `panic@NAME` panics there. `SWEEP_CLOCK=-3600` sets the clock back an hour.

use std::io::{self, Write};

/// A place where the engine may break.
#[cfg(not(debug_assertions))]
#[expect(clippy::unnecessary_wraps, reason = "in a build for tests it may fail")]
pub fn point(_: &'static str) -> io::Result<()> {
    Ok(())
}

/// Writes a text; when tested, in two pieces, so that it can be torn.
pub fn write_all(to: &mut impl Write, text: &[u8], before: &'static str, within: &'static str) -> io::Result<()> {
    point(before)?;
    if cfg!(debug_assertions) {
        let (first_half, second_half) = text.split_at(text.len() / 2);
        to.write_all(first_half)?;
        point(within)?;
        to.write_all(second_half)
    } else {
        let _ = within;
        to.write_all(text)
    }
}

#[cfg(debug_assertions)]
pub use self::armed::point;

#[cfg(debug_assertions)]
mod armed {
    use std::{
        fs::OpenOptions,
        io::{self, Write as _},
        sync::{
            LazyLock,
            atomic::{AtomicU64, Ordering},
        },
        thread,
        time::Duration,
    };

    enum Fault {
        None,
        Kill(u64),
        KillNamed(u64, String),
        Full(u64),
        Trace(String),
        Slow(Duration, String),
        Panic(String),
    }

    static FAULT: LazyLock<Fault> = LazyLock::new(|| {
        let text = std::env::var("SWEEP_FAILPOINTS").unwrap_or_default();
        let number = |text: &str| text.parse().unwrap_or(u64::MAX);
        if let Some((seconds, name)) = text.strip_prefix("slow=").and_then(|rest| rest.split_once('@')) {
            return Fault::Slow(Duration::from_secs(number(seconds)), name.to_owned());
        }
        if let Some(name) = text.strip_prefix("panic@") {
            return Fault::Panic(name.to_owned());
        }
        if let Some((count, name)) = text.strip_prefix("kill=").and_then(|rest| rest.split_once('@')) {
            return Fault::KillNamed(number(count), name.to_owned());
        }
        match (text.strip_prefix("kill@"), text.strip_prefix("full@"), text.strip_prefix("trace=")) {
            (Some(at), ..) => Fault::Kill(number(at)),
            (_, Some(at), _) => Fault::Full(number(at)),
            (.., Some(path)) => Fault::Trace(path.to_owned()),
            _ => Fault::None,
        }
    });

    static COUNT: AtomicU64 = AtomicU64::new(0);
    static NAMED: AtomicU64 = AtomicU64::new(0);

    fn kill() {
        let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
    }

    /// A place where the engine may break.
    ///
    /// # Panics
    ///
    /// If the fault is a panic.
    pub fn point(name: &'static str) -> io::Result<()> {
        let count = COUNT.fetch_add(1, Ordering::SeqCst) + 1;
        match &*FAULT {
            Fault::Kill(at) if count == *at => kill(),
            Fault::KillNamed(at, beginning)
                if name.starts_with(beginning) && NAMED.fetch_add(1, Ordering::SeqCst) + 1 == *at =>
            {
                kill();
            }
            Fault::Full(at) if count >= *at => return Err(io::ErrorKind::StorageFull.into()),
            Fault::Slow(time, at) if at == name => thread::sleep(*time),
            Fault::Panic(at) if at == name => panic!("the fail point `{name}` panics"),
            Fault::Trace(path) => {
                let mut file = OpenOptions::new().create(true).append(true).open(path)?;
                writeln!(file, "{name}")?;
            }
            _ => {}
        }
        Ok(())
    }
}
