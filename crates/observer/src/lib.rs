//! Observes which files of a project, and which data outside of it, a program and all its children read, look for, list and write,
//! and which programs and shared libraries outside of it they use.
//!
//! The kernel reports their system calls (seccomp user notification, Linux 5.0) to a thread of the worker, which examines the paths before
//! it lets each call continue. Any program in any language is observed, and the state of a file before the program changes it is known. A
//! program whose worker ends cannot open files any more; the worker ends its tree with it.
//!
//! The crate also gives programs private views of folders, so that their files stay separate.

#![cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]

mod filter;
#[expect(unsafe_code, reason = "system calls that no safe crate has")]
mod kernel;
mod layer;
mod mounts;
mod places;
mod process;
mod seen;
mod shared;
mod supervisor;
#[expect(unsafe_code, reason = "mounts between `fork` and `exec`")]
mod view;
mod walk;

use std::{
    io,
    os::{
        fd::{AsRawFd as _, OwnedFd},
        unix::process::CommandExt as _,
    },
    process::Command,
    sync::{Arc, OnceLock},
};

pub use self::{
    filter::Blind,
    layer::Layer,
    seen::{Fact, File, Listed, Options, Outside, PASSED_OVER, Seen, Stamp},
    supervisor::{Listener, Supervisor},
    view::{Shared, View},
};

/// Puts programs under observation before they start. The supervisor's loop ends after the last of these is dropped and all
/// processes have ended.
#[derive(Debug, Clone)]
pub struct Hook {
    line: Arc<OwnedFd>,
    is_required: bool,
}

/// True if this process can observe programs that it starts. A first call tries it with a child that ends at once: the kernel may be too
/// old, a container may forbid filters, another observer may receive the calls of this process, or the memory of processes may be hidden.
pub fn is_supported() -> bool {
    static KNOWN: OnceLock<bool> = OnceLock::new();
    *KNOWN.get_or_init(|| kernel::is_supported() && kernel::can_observe(&filter::program()))
}

/// Prepares the observation of programs: the hook for each, and the supervisor, whose loop must run before one is started.
pub fn observe(options: Options) -> io::Result<(Hook, Supervisor)> {
    let kernel::Line { here, there } = kernel::Line::open()?;
    Ok((Hook { line: Arc::new(there), is_required: false }, Supervisor::new(here, options)))
}

/// Prepares the observation of a process that a process under `listener` forks, and of all its children. Calls of the process before it
/// opens the path `started` of `options` do not count. The observation ends with its hook, so all its processes must have ended before.
pub fn observe_fork(listener: &Listener, options: Options) -> io::Result<(Hook, Supervisor)> {
    let kernel::Line { here, there } = kernel::Line::open()?;
    let hook = Hook { line: Arc::new(there), is_required: false };
    Ok((hook, Supervisor::of_fork(here, options, listener.try_clone()?)))
}

impl Hook {
    /// Returns this hook for a program that must not start without observation.
    #[must_use]
    pub fn required(self) -> Self {
        Self { is_required: true, ..self }
    }

    /// Makes the kernel report the calls of a program, once it is started.
    #[expect(unsafe_code, reason = "a process can put only itself under a filter, between `fork` and `exec`")]
    pub fn install(&self, command: &mut Command) {
        let (line, program) = (Arc::clone(&self.line), filter::program());
        let is_required = self.is_required;
        let install = move || kernel::install(line.as_raw_fd(), &program, is_required);
        // SAFETY: the closure makes system calls only; it neither allocates nor takes a lock that another thread may hold.
        unsafe {
            command.pre_exec(install);
        }
    }
}
