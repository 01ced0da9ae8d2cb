//! The loop that receives system calls, records them, and lets them continue.

use std::{
    collections::HashSet,
    ffi::{OsStr, OsString},
    fs, io,
    os::{
        fd::{AsRawFd as _, OwnedFd},
        unix::{ffi::OsStringExt as _, fs::PermissionsExt as _},
    },
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use libc::{POLLIN, pollfd, seccomp_notif};

use super::{
    filter::{self, About, Blind, Call, Effect},
    kernel::{self, Arrival},
    places::SITES,
    process,
    seen::{Collector, Fact, Interest, Options, Seen},
    walk::{Place, State, Walker},
};

/// The end of a shared library's name, before its version.
const SHARED: &[u8] = b".so";
/// Time for processes that cannot be killed, once all others have ended.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Interval at which the loop checks the time, in milliseconds.
const INTERVAL: i32 = 500;
/// `openat2` resolves the path as if the folder were the root.
const RESOLVE_IN_ROOT: u64 = 0x10;
/// Maximum number of scripts that are interpreters of each other, as in the kernel.
const MAX_INTERPRETERS: usize = 5;
/// Bits of a program's mode that change its user or group.
const PRIVILEGES: u32 = 0o6000;

/// Observes the processes that a worker starts. Its loop runs in a separate thread.
#[derive(Debug)]
pub struct Supervisor {
    line: OwnedFd,
    collector: Collector,
    walker: Walker,
    /// Paths that need no record until something is created there.
    passed: HashSet<Passed>,
    /// Processes that only report the state of the project, such as `git status`.
    tellers: HashSet<u32>,
    /// Places at which the program has mounted something, which its own processes may serve: examining them could wait for these processes.
    mounts: Vec<PathBuf>,
    listeners: Vec<OwnedFd>,
    /// True if the listeners outlast the observation, which then ends with the line.
    outlasted: bool,
    /// True until the forked process has opened the path that shows its start.
    awaits_start: bool,
}

/// The reports on a process that outlasts its observation, and on the processes that it forks. While nothing observes them, a reported
/// call waits.
#[derive(Debug)]
pub struct Listener(OwnedFd);

impl Listener {
    /// A second handle of this listener.
    ///
    /// # Errors
    ///
    /// This process has too many open files.
    pub fn try_clone(&self) -> io::Result<Self> {
        self.0.try_clone().map(Self)
    }
}

/// A path, whether a link at its end is followed, and whether it is opened: of a library or of a module of a package, only that
/// is noted.
type Passed = (PathBuf, bool, bool);

/// The access that a call requests.
#[expect(clippy::struct_excessive_bools, reason = "the kernel's flags")]
#[derive(Debug, Clone, Copy)]
struct Access {
    reads: bool,
    writes: bool,
    creates: bool,
    truncates: bool,
    appends: bool,
    exclusive: bool,
    follows: bool,
    only_path: bool,
}

impl Access {
    fn of(flags: u64) -> Self {
        let has = |flag: i32| flags & u64::from(flag.cast_unsigned()) != 0;
        let mode = flags & u64::from(libc::O_ACCMODE.cast_unsigned());
        let is = |value: i32| mode == u64::from(value.cast_unsigned());
        let exclusive = has(libc::O_CREAT) && has(libc::O_EXCL);
        Self {
            reads: is(libc::O_RDONLY) || is(libc::O_RDWR),
            writes: is(libc::O_WRONLY) || is(libc::O_RDWR) || has(libc::O_TRUNC),
            creates: has(libc::O_CREAT),
            truncates: has(libc::O_TRUNC),
            appends: has(libc::O_APPEND),
            exclusive,
            follows: !has(libc::O_NOFOLLOW) && !exclusive,
            only_path: has(libc::O_PATH),
        }
    }

    /// Returns the access of a call of `creat`.
    fn creating() -> Self {
        Self::of(u64::from((libc::O_WRONLY | libc::O_CREAT | libc::O_TRUNC).cast_unsigned()))
    }
}

impl Supervisor {
    pub(crate) fn new(line: OwnedFd, options: Options) -> Self {
        Self {
            line,
            collector: Collector::new(options),
            walker: Walker::default(),
            passed: HashSet::new(),
            tellers: HashSet::new(),
            mounts: Vec::new(),
            listeners: Vec::new(),
            outlasted: false,
            awaits_start: false,
        }
    }

    pub(crate) fn of_fork(line: OwnedFd, options: Options, Listener(listener): Listener) -> Self {
        kernel::wake_up_here(&listener);
        Self { listeners: vec![listener], outlasted: true, awaits_start: true, ..Self::new(line, options) }
    }

    /// Answers all calls until the last process has ended, or the hook, if a forked process is observed.
    pub fn run(mut self) -> Seen {
        self.answer_all();
        self.collector.finish()
    }

    /// Answers all calls of a process that outlasts the observation, until the hook has ended. Also returns the listener, by which the
    /// processes that it forks are observed; `None` if no process was started under observation, or several were.
    pub fn run_outlasted(mut self) -> (Seen, Option<Listener>) {
        self.outlasted = true;
        let mut listeners = self.answer_all();
        let listener = listeners.pop().filter(|_| listeners.is_empty()).map(Listener);
        (self.collector.finish(), listener)
    }

    /// Answers all calls, and returns the listeners whose processes have not ended.
    fn answer_all(&mut self) -> Vec<OwnedFd> {
        let poll = |descriptor: &OwnedFd| pollfd { fd: descriptor.as_raw_fd(), events: POLLIN, revents: 0 };
        let mut listeners = std::mem::take(&mut self.listeners);
        // The line is the last descriptor.
        let mut descriptors: Vec<pollfd> = listeners.iter().chain([&self.line]).map(poll).collect();
        let mut closing_time: Option<Instant> = None;
        while !descriptors.is_empty() && closing_time.is_none_or(|time| time.elapsed() < TIMEOUT) {
            if !kernel::wait(&mut descriptors, INTERVAL) {
                continue;
            }
            for (listener, _) in
                listeners.iter().zip(&descriptors).filter(|(_, descriptor)| descriptor.revents & POLLIN != 0)
            {
                self.answer(listener);
            }
            // A closed listener may still have a last report.
            let is_done: Vec<bool> = descriptors
                .iter()
                .map(|descriptor| descriptor.revents != 0 && descriptor.revents & POLLIN == 0)
                .collect();
            let is_called = closing_time.is_none() && descriptors.last().is_some_and(|line| line.revents != 0);
            if !is_called && !is_done.contains(&true) {
                continue;
            }
            let mut flags = is_done.into_iter();
            listeners.retain(|_| !flags.next().unwrap_or(false));
            if is_called {
                match kernel::receive(&self.line) {
                    Arrival::Listener(listener) => {
                        kernel::wake_up_here(&listener);
                        listeners.push(listener);
                        // The process is a new one, not a fork.
                        self.awaits_start = false;
                    }
                    Arrival::Refused => drop(self.collector.seen.blind.insert(Blind::Unreported)),
                    Arrival::Closed if self.outlasted => return listeners,
                    Arrival::Closed => closing_time = Some(Instant::now()),
                }
            }
            descriptors = listeners.iter().map(poll).collect();
            descriptors.extend(closing_time.is_none().then(|| poll(&self.line)));
        }
        listeners
    }

    fn answer(&mut self, listener: &OwnedFd) {
        let Some(report) = kernel::report(listener) else { return };
        if self.awaits_start {
            self.awaits_start = !self.is_start(&report);
        } else if self.note(&report, listener).is_none() && kernel::is_waiting(listener, report.id) {
            self.collector.seen.blind.insert(Blind::Memory);
        }
        kernel::go_on(listener, report.id);
    }

    /// True if a call opens the path that shows the start of a forked process.
    fn is_start(&self, report: &seccomp_notif) -> bool {
        let Call::Open { folder, path, .. } = filter::understand(&report.data) else { return false };
        let arguments = &report.data.args;
        let path = process::path(report, folder.map(|folder| arguments[folder]), arguments[path]);
        path.flatten().is_some_and(|path| self.collector.is_start(&path))
    }

    /// Records a call before it continues; returns `None` if the memory of its process cannot be read.
    fn note(&mut self, report: &seccomp_notif, listener: &OwnedFd) -> Option<()> {
        let arguments = &report.data.args;
        let path = |folder: Option<usize>, path: usize| {
            process::path(report, folder.map(|folder| arguments[folder]), arguments[path])
        };
        let call = filter::understand(&report.data);
        if matches!(call, Call::Open { .. } | Call::OpenHow | Call::Stat { .. } | Call::List)
            && self.is_teller(report.pid)
        {
            return Some(());
        }
        match call {
            Call::Open { folder, path: index, flags } => {
                let access = flags.map_or_else(Access::creating, |flags| Access::of(arguments[flags] & 0xFFFF_FFFF));
                if let Some(path) = path(folder, index)? {
                    self.collector.told(report.pid, &path);
                    self.open(report.pid, &path, access);
                }
            }
            Call::OpenHow => {
                let mut options = [0; 24];
                let count = kernel::memory(report.pid, arguments[2], &mut options).ok()?;
                let number =
                    |offset: usize| options[offset..].first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
                if count == options.len() && number(16) & RESOLVE_IN_ROOT != 0 {
                    self.collector.seen.blind.insert(Blind::View);
                }
                if let Some(path) = path(Some(0), 1)? {
                    self.open(report.pid, &path, Access::of(number(0)));
                }
            }
            Call::Exec { folder, path: index, flags } => {
                let follows = !has(flags.map(|flags| arguments[flags]), libc::AT_SYMLINK_NOFOLLOW);
                if let Some(path) = path(folder, index)? {
                    self.collector.executed(report.pid);
                    self.exec(report.pid, &path, follows);
                    self.tellers.remove(&report.pid);
                    if path.file_name() == Some(OsStr::new("git")) && process::tells(report.pid, arguments[index + 1]) {
                        self.tellers.insert(report.pid);
                    }
                }
            }
            Call::Stat { folder, path: index, flags, follows, about } => {
                let follows = follows && !has(flags.map(|flags| arguments[flags]), libc::AT_SYMLINK_NOFOLLOW);
                if let Some(path) = path(folder, index)? {
                    self.stat(report.pid, &path, follows, about);
                }
            }
            Call::List => {
                if let Some(folder) = process::descriptor(report.pid, arguments[0])
                    && self.collector.interest(&folder) == Interest::All
                    && kernel::is_waiting(listener, report.id)
                {
                    self.collector.listed(&folder);
                }
            }
            Call::Write { folder, path: index, effect } => {
                if let Some(path) = path(folder, index)? {
                    self.write(report.pid, &path, effect);
                }
            }
            Call::Two { folders, paths, moves } => {
                let (source, target) = folders.map_or((None, None), |(source, target)| (Some(source), Some(target)));
                if let (Some(source), Some(target)) = (path(source, paths.0)?, path(target, paths.1)?) {
                    self.take(report.pid, &source, moves);
                    self.replace(report.pid, &target);
                    self.write(report.pid, &target, Effect::Removes);
                }
            }
            Call::Blind(blind) => {
                if i64::from(report.data.nr) == libc::SYS_mount
                    && let Some(place) = path(None, 1)?
                {
                    self.mounts.push(place);
                }
                self.collector.seen.blind.insert(blind);
            }
        }
        Some(())
    }

    /// Returns true if a process, or the process of a thread, only reports the state of the project.
    fn is_teller(&self, process: u32) -> bool {
        if self.tellers.is_empty() || self.tellers.contains(&process) {
            return !self.tellers.is_empty();
        }
        let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
        let group = status.lines().find_map(|line| line.strip_prefix("Tgid:")?.trim().parse().ok());
        group.is_some_and(|group: u32| self.tellers.contains(&group))
    }

    /// Resolves a path, unless it needs no record. Records the links on the way.
    fn place(&mut self, process: u32, path: &Path, follows: bool) -> Option<(Place, Interest)> {
        if self.mounts.iter().any(|mount| path.starts_with(mount)) {
            return None;
        }
        let collector = &self.collector;
        let look = |path: &Path| process::look(process, path, collector.layer(), collector.is_own(path));
        let place = self.walker.walk(path, follows, &look);
        place.links.iter().for_each(|(link, _)| self.collector.link(link));
        let mut interest = self.collector.interest(&place.path);
        let full_interest = interest;
        if interest == Interest::All && is_library(&place.path, false) && self.collector.is_installed(&place.path) {
            interest = Interest::Nothing;
        }
        for (link, target) in &place.links {
            if self.collector.has_link(link, (&place.path, full_interest)) {
                self.collector.fact(link, Fact::Link(target.clone()));
                if interest == Interest::Nothing {
                    interest = Interest::Writes;
                }
            }
        }
        Some((place, interest))
    }

    fn open(&mut self, process: u32, path: &Path, access: Access) {
        let key = (path.to_owned(), access.follows, true);
        if !access.writes && self.passed.contains(&key) {
            return;
        }
        let Some((place, interest)) = self.place(process, path, access.follows) else { return };
        let is_fleeting = place.is_fleeting();
        let Place { path: real_path, state, .. } = place;
        let is_shared = self.collector.is_shared(&real_path, interest);
        if is_shared && !access.only_path {
            self.share(&real_path, &state, access);
        }
        if let State::File(metadata) = &state
            && access.reads
            && !access.only_path
        {
            let is_of_package = self.package(path);
            if is_of_package && names_folders(&real_path) {
                self.collector.read(&real_path, metadata, true);
            }
            if interest != Interest::All && is_library(&real_path, is_of_package) {
                self.collector.used(&real_path, metadata, false);
            }
        }
        if interest == Interest::Nothing {
            if !access.writes {
                if !(is_fleeting || is_shared && self.collector.shared.is_own(&real_path)) {
                    self.passed.insert(key);
                }
            } else if is_shared || matches!(state, State::Absent) {
                self.forget(path, false);
            }
            return;
        }
        let is_read = interest == Interest::All;
        match &state {
            // With this descriptor, the file's size can be queried, and the file can be executed, without another path.
            State::File(metadata) if access.only_path && is_read => self.collector.read(&real_path, metadata, false),
            State::File(metadata) if access.reads && !access.truncates && !access.exclusive && is_read => {
                self.collector.read(&real_path, metadata, true);
            }
            State::Folder if is_read => {
                self.collector.fact(&real_path, Fact::Folder);
                // `O_DIRECTORY` is a safeguard: a folder can be listed without it.
                if !access.only_path {
                    self.collector.opened(process, &real_path);
                }
            }
            // The absence of a file that is only written or created exclusively does not matter.
            State::Absent if is_read && access.reads && !access.truncates && !access.exclusive => {
                self.collector.fact(&real_path, Fact::Absent);
            }
            State::Incomplete(full_path) if is_read => self.collector.sought(&real_path, full_path),
            State::Link(target) if is_read && !access.exclusive => {
                self.collector.fact(&real_path, Fact::Link(target.clone()));
            }
            _ => {}
        }
        let changes = matches!(state, State::File(_)) || (access.creates && matches!(state, State::Absent));
        if access.writes && changes && !access.only_path {
            self.forget(path, false);
            self.collector.write(&real_path);
        }
    }

    /// Reports the opening of a file that other programs may change.
    fn share(&mut self, path: &Path, state: &State, access: Access) {
        let metadata = match state {
            State::File(metadata) => Some(metadata),
            State::Absent if access.creates => None,
            _ => return,
        };
        let shared = &mut self.collector.shared;
        if !access.writes {
            if let Some(metadata) = metadata {
                shared.reads(path, metadata);
            }
        } else if access.truncates || access.exclusive {
            shared.replaces(path, metadata, access.reads);
        } else if access.appends {
            shared.appends(path, metadata);
        }
    }

    /// Records the start of a program. The kernel itself opens the interpreter of a script, and reports no call.
    fn exec(&mut self, process: u32, path: &Path, follows: bool) {
        let mut program = Some(path.to_owned());
        for _ in 0..=MAX_INTERPRETERS {
            let Some(path) = program.take() else { return };
            let Some((Place { path: real_path, state, .. }, interest)) = self.place(process, &path, follows) else {
                return;
            };
            let is_counted = interest == Interest::All && !self.collector.is_installed(&real_path);
            match &state {
                State::File(metadata) => {
                    if metadata.permissions().mode() & PRIVILEGES != 0 {
                        self.collector.seen.privileged.insert(real_path.clone());
                    }
                    if is_counted {
                        self.collector.read(&real_path, metadata, true);
                    } else {
                        self.collector.used(&real_path, metadata, true);
                    }
                    program = process::interpreter(process, &real_path);
                }
                State::Absent if is_counted => self.collector.fact(&real_path, Fact::Absent),
                State::Incomplete(full_path) if is_counted => self.collector.sought(&real_path, full_path),
                _ => {}
            }
        }
    }

    fn stat(&mut self, process: u32, path: &Path, follows: bool, about: About) {
        let key = (path.to_owned(), follows, false);
        if self.passed.contains(&key) {
            return;
        }
        let Some((place, interest)) = self.place(process, path, follows) else { return };
        let is_fleeting = place.is_fleeting();
        let Place { path: real_path, state, .. } = place;
        if interest == Interest::Nothing {
            if !is_fleeting {
                self.passed.insert(key);
            }
            return;
        }
        if interest != Interest::All {
            return;
        }
        match state {
            State::File(metadata) if about == About::All => self.collector.read(&real_path, &metadata, false),
            State::File(_) => self.collector.fact(&real_path, Fact::File),
            State::Folder => self.collector.fact(&real_path, Fact::Folder),
            State::Absent => self.collector.fact(&real_path, Fact::Absent),
            State::Incomplete(full_path) => self.collector.sought(&real_path, &full_path),
            State::Link(target) => self.collector.fact(&real_path, Fact::Link(target)),
            State::Other => {}
        }
    }

    /// Records that another path gets the content of `path`.
    fn take(&mut self, process: u32, path: &Path, moves: bool) {
        let Some((Place { path: real_path, state, .. }, interest)) = self.place(process, path, false) else { return };
        if interest == Interest::All
            && let State::File(metadata) = &state
        {
            self.collector.read(&real_path, metadata, true);
        }
        if moves {
            self.forget(path, !matches!(state, State::File(_)));
            if interest != Interest::Nothing {
                self.walker.forget(&real_path);
                self.collector.write(&real_path);
            }
        }
    }

    /// Records that a path gets the content of another path.
    fn replace(&mut self, process: u32, path: &Path) {
        let Some((Place { path: real_path, state, .. }, interest)) = self.place(process, path, false) else { return };
        if self.collector.is_shared(&real_path, interest) {
            let earlier = if let State::File(metadata) = &state { Some(metadata) } else { None };
            self.collector.shared.replaces(&real_path, earlier, false);
        }
    }

    /// Records that a path is created, changed or removed.
    fn write(&mut self, process: u32, path: &Path, effect: Effect) {
        let Some((Place { path: real_path, state, .. }, interest)) =
            self.place(process, path, effect == Effect::Changes)
        else {
            return;
        };
        self.forget(path, effect == Effect::Creates || matches!(state, State::Folder | State::Link(_)));
        self.walker.forget(&real_path);
        if effect == Effect::Creates && matches!(state, State::Absent) && self.collector.is_shared(&real_path, interest)
        {
            self.collector.shared.creates_folder(&real_path);
        }
        if interest != Interest::Nothing && !matches!(state, State::Incomplete(_)) {
            self.collector.write(&real_path);
        }
    }

    /// Discards the remembered state of a path that is about to change, and of all other paths if some may lead through it.
    fn forget(&mut self, path: &Path, forgets_all: bool) {
        self.walker.forget(path);
        if forgets_all {
            self.passed.clear();
        }
        for (follows, is_opened) in [(false, false), (false, true), (true, false), (true, true)] {
            self.passed.remove(&(path.to_owned(), follows, is_opened));
        }
    }

    /// Records the installed package of an open file; true if the file is in a folder of packages.
    fn package(&mut self, path: &Path) -> bool {
        let bytes = path.as_os_str().as_encoded_bytes();
        let position = SITES.iter().find_map(|site| {
            let site = site.as_bytes();
            Some((bytes.windows(site.len()).position(|part| part == site)?, site.len()))
        });
        let Some((start, length)) = position else { return false };
        let (folder, inner) = (&bytes[..start + length - 1], &bytes[start + length..]);
        let inner = inner.strip_prefix(b"__pycache__/").unwrap_or(inner);
        let component = inner.split(|byte| *byte == b'/').next().unwrap_or_default();
        let endings = [".dist-info", ".egg-info", ".pth", ".egg-link"];
        if endings.iter().any(|end| component.ends_with(end.as_bytes())) {
            return true;
        }
        let is_file = component.len() == inner.len();
        let stem = component.split(|byte| *byte == b'.').next().unwrap_or_default();
        let module = if is_file { stem } else { component };
        let text = |bytes: &[u8]| OsString::from_vec(bytes.to_vec());
        self.collector.seen.modules.insert((PathBuf::from(text(folder)), text(module)));
        true
    }
}

/// True for a file in a folder of packages that leads Python to packages elsewhere, as an editable installation has it.
fn names_folders(path: &Path) -> bool {
    const MAX_BYTES: u64 = 1 << 20;
    let name = path.file_name().unwrap_or_default().as_encoded_bytes();
    let is_short = || fs::metadata(path).is_ok_and(|metadata| metadata.len() <= MAX_BYTES);
    let has_paths =
        || fs::read(path).is_ok_and(|text| text.split(|byte| *byte == b'\n').any(|line| line.starts_with(b"/")));
    name.starts_with(b"__editable__")
        || [&b".pth"[..], b".egg-link"].iter().any(|end| name.ends_with(end)) && is_short() && has_paths()
}

fn has(flags: Option<u64>, flag: i32) -> bool {
    flags.is_some_and(|flags| flags & u64::from(flag.cast_unsigned()) != 0)
}

/// True for the name of a shared library: `libc.so.6`. False for an extension module of an installed package, because the package's version
/// identifies it. Libraries that a package contains, such as CUDA's, may belong to several packages.
fn is_library(path: &Path, is_of_package: bool) -> bool {
    let name = path.file_name().unwrap_or_default().as_encoded_bytes();
    let is_version = |version: &[u8]| matches!(version, [] | [b'.', b'0'..=b'9', ..]);
    let mut positions = name.windows(SHARED.len()).enumerate().filter(|(_, part)| *part == SHARED);
    let is_shared = positions.any(|(start, _)| is_version(&name[start + SHARED.len()..]));
    is_shared && (!is_of_package || name.starts_with(b"lib"))
}
