//! The filter of the system calls that the kernel reports, as a classic BPF program.

use libc::{c_long, sock_filter};

/// A system call as the observer understands it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Call {
    /// Opens a file: indexes of the folder's descriptor, of the path and of the flags; `None` for a call without it.
    Open { folder: Option<usize>, path: usize, flags: Option<usize> },
    /// Opens a file with a structure of options.
    OpenHow,
    /// Starts a program.
    Exec { folder: Option<usize>, path: usize, flags: Option<usize> },
    /// Queries properties of a file. `follows` is false if the query is about a link itself.
    Stat { folder: Option<usize>, path: usize, flags: Option<usize>, follows: bool, about: About },
    /// Lists a folder that is open.
    List,
    /// Creates, changes or removes a path.
    Write { folder: Option<usize>, path: usize, effect: Effect },
    /// Two paths: the first is the source, the second is created or replaced.
    Two { folders: Option<(usize, usize)>, paths: (usize, usize), moves: bool },
    /// Hides the program's further actions from the observer.
    Blind(Blind),
}

/// The property that a call queries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum About {
    /// Size and times.
    All,
    /// Existence and permissions.
    Existence,
}

/// The effect of a call on one path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effect {
    /// Changes the content or the times.
    Changes,
    /// Creates it.
    Creates,
    /// Removes it.
    Removes,
}

/// A reason for which the observation has gaps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Blind {
    /// The program opens files through `io_uring`.
    Uring,
    /// The program sees another file system than the worker: `chroot`, a mount, a namespace.
    View,
    /// The program opens files by handles.
    Handle,
    /// A program for another kind of processor, such as 32-bit code.
    Foreign,
    /// The memory of a process cannot be read.
    Memory,
    /// The program runs, but the kernel reports nothing of it.
    Unreported,
}

impl Blind {
    /// The reason in words.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Uring => "it uses `io_uring`, whose operations the kernel does not report",
            Self::View => "it changes its root, its mounts or its namespaces",
            Self::Handle => "it opens files by their handles",
            Self::Foreign => "it starts 32-bit code",
            Self::Memory => "it denies other processes the view of its memory",
            Self::Unreported => "the kernel does not report its system calls",
        }
    }
}

/// The architecture in the kernel's reports.
#[cfg(target_arch = "x86_64")]
const ARCHITECTURE: u32 = 0xC000_003E;
#[cfg(target_arch = "aarch64")]
const ARCHITECTURE: u32 = 0xC000_00B7;
/// Numbers of `open` and `openat` of the architecture's 32-bit code.
#[cfg(target_arch = "x86_64")]
const FOREIGN: [u32; 2] = [5, 295];
#[cfg(target_arch = "aarch64")]
const FOREIGN: [u32; 2] = [5, 322];
/// Calls of x86-64 from this number on belong to the x32 interface.
const X32: u32 = 0x4000_0000;

/// Returned for calls that need no report.
const ALLOW: u32 = libc::SECCOMP_RET_ALLOW;
/// Returned for calls that are reported to the observer.
const REPORT: u32 = libc::SECCOMP_RET_USER_NOTIF;

/// The calls that have the same number of arguments everywhere.
const COMMON: &[(c_long, Call)] = &[
    (libc::SYS_openat, Call::Open { folder: Some(0), path: 1, flags: Some(2) }),
    (libc::SYS_openat2, Call::OpenHow),
    (libc::SYS_execve, Call::Exec { folder: None, path: 0, flags: None }),
    (libc::SYS_execveat, Call::Exec { folder: Some(0), path: 1, flags: Some(4) }),
    (libc::SYS_newfstatat, Call::Stat { folder: Some(0), path: 1, flags: Some(3), follows: true, about: About::All }),
    (libc::SYS_statx, Call::Stat { folder: Some(0), path: 1, flags: Some(2), follows: true, about: About::All }),
    (libc::SYS_faccessat, Call::Stat { folder: Some(0), path: 1, flags: None, follows: true, about: About::Existence }),
    (
        libc::SYS_faccessat2,
        Call::Stat { folder: Some(0), path: 1, flags: Some(3), follows: true, about: About::Existence },
    ),
    (
        libc::SYS_readlinkat,
        Call::Stat { folder: Some(0), path: 1, flags: None, follows: false, about: About::Existence },
    ),
    (libc::SYS_chdir, Call::Stat { folder: None, path: 0, flags: None, follows: true, about: About::Existence }),
    (libc::SYS_getdents64, Call::List),
    (libc::SYS_truncate, Call::Write { folder: None, path: 0, effect: Effect::Changes }),
    (libc::SYS_utimensat, Call::Write { folder: Some(0), path: 1, effect: Effect::Changes }),
    (libc::SYS_mkdirat, Call::Write { folder: Some(0), path: 1, effect: Effect::Creates }),
    (libc::SYS_mknodat, Call::Write { folder: Some(0), path: 1, effect: Effect::Creates }),
    (libc::SYS_symlinkat, Call::Write { folder: Some(1), path: 2, effect: Effect::Creates }),
    (libc::SYS_unlinkat, Call::Write { folder: Some(0), path: 1, effect: Effect::Removes }),
    (libc::SYS_renameat, Call::Two { folders: Some((0, 2)), paths: (1, 3), moves: true }),
    (libc::SYS_renameat2, Call::Two { folders: Some((0, 2)), paths: (1, 3), moves: true }),
    (libc::SYS_linkat, Call::Two { folders: Some((0, 2)), paths: (1, 3), moves: false }),
    (libc::SYS_io_uring_setup, Call::Blind(Blind::Uring)),
    (libc::SYS_chroot, Call::Blind(Blind::View)),
    (libc::SYS_pivot_root, Call::Blind(Blind::View)),
    (libc::SYS_mount, Call::Blind(Blind::View)),
    (libc::SYS_move_mount, Call::Blind(Blind::View)),
    (libc::SYS_setns, Call::Blind(Blind::View)),
    (libc::SYS_open_by_handle_at, Call::Blind(Blind::Handle)),
];

/// The calls of x86-64 that newer architectures do without.
#[cfg(target_arch = "x86_64")]
const OWN: &[(c_long, Call)] = &[
    (libc::SYS_open, Call::Open { folder: None, path: 0, flags: Some(1) }),
    (libc::SYS_creat, Call::Open { folder: None, path: 0, flags: None }),
    (libc::SYS_stat, Call::Stat { folder: None, path: 0, flags: None, follows: true, about: About::All }),
    (libc::SYS_lstat, Call::Stat { folder: None, path: 0, flags: None, follows: false, about: About::All }),
    (libc::SYS_access, Call::Stat { folder: None, path: 0, flags: None, follows: true, about: About::Existence }),
    (libc::SYS_readlink, Call::Stat { folder: None, path: 0, flags: None, follows: false, about: About::Existence }),
    (libc::SYS_getdents, Call::List),
    (libc::SYS_utime, Call::Write { folder: None, path: 0, effect: Effect::Changes }),
    (libc::SYS_utimes, Call::Write { folder: None, path: 0, effect: Effect::Changes }),
    (libc::SYS_futimesat, Call::Write { folder: Some(0), path: 1, effect: Effect::Changes }),
    (libc::SYS_mkdir, Call::Write { folder: None, path: 0, effect: Effect::Creates }),
    (libc::SYS_mknod, Call::Write { folder: None, path: 0, effect: Effect::Creates }),
    (libc::SYS_symlink, Call::Write { folder: None, path: 1, effect: Effect::Creates }),
    (libc::SYS_unlink, Call::Write { folder: None, path: 0, effect: Effect::Removes }),
    (libc::SYS_rmdir, Call::Write { folder: None, path: 0, effect: Effect::Removes }),
    (libc::SYS_rename, Call::Two { folders: None, paths: (0, 1), moves: true }),
    (libc::SYS_link, Call::Two { folders: None, paths: (0, 1), moves: false }),
];
#[cfg(target_arch = "aarch64")]
const OWN: &[(c_long, Call)] = &[];

/// The call of a report.
pub(crate) fn understand(data: &libc::seccomp_data) -> Call {
    if data.arch != ARCHITECTURE {
        return Call::Blind(Blind::Foreign);
    }
    let number = c_long::from(data.nr);
    let entry = OWN.iter().chain(COMMON).find(|(call, _)| *call == number);
    // `unshare` is reported only if it is for a namespace of mounts.
    entry.map_or(Call::Blind(if number == libc::SYS_unshare { Blind::View } else { Blind::Foreign }), |(_, call)| *call)
}

/// A part of the program.
fn part(code: u32, value: u32, yes: u8, no: u8) -> sock_filter {
    // The codes are constants below 2^16.
    #[expect(clippy::cast_possible_truncation, reason = "codes of classic BPF have 16 bits")]
    let code = code as u16;
    sock_filter { code, jt: yes, jf: no, k: value }
}

fn load(offset: usize) -> sock_filter {
    part(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, u32::try_from(offset).unwrap_or(u32::MAX), 0, 0)
}

fn answer(value: u32) -> sock_filter {
    part(libc::BPF_RET | libc::BPF_K, value, 0, 0)
}

/// Skips the next `skipped` parts unless the loaded number is this one.
fn unless(value: u32, skipped: u8) -> sock_filter {
    part(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, value, 0, skipped)
}

/// Reports a call if an argument has one of these bits; `is_inverted`, if it has none of them.
fn by_bits(number: c_long, argument: usize, bits: u32, is_inverted: bool) -> Vec<sock_filter> {
    let (yes, no) = if is_inverted { (ALLOW, REPORT) } else { (REPORT, ALLOW) };
    vec![
        unless(number_of(number), 4),
        // The lower half: both architectures are little-endian.
        load(std::mem::offset_of!(libc::seccomp_data, args) + 8 * argument),
        part(libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K, bits, 0, 1),
        answer(yes),
        answer(no),
    ]
}

fn number_of(call: c_long) -> u32 {
    u32::try_from(call).unwrap_or(u32::MAX)
}

pub(crate) fn program() -> Vec<sock_filter> {
    let empty_path = u32::try_from(libc::AT_EMPTY_PATH).unwrap_or(0);
    let mounts = u32::try_from(libc::CLONE_NEWNS).unwrap_or(0);
    let mut parts = vec![
        load(std::mem::offset_of!(libc::seccomp_data, arch)),
        part(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, ARCHITECTURE, 6, 0),
        load(std::mem::offset_of!(libc::seccomp_data, nr)),
    ];
    for number in FOREIGN {
        parts.extend([unless(number, 1), answer(REPORT)]);
    }
    parts.extend([answer(ALLOW), load(std::mem::offset_of!(libc::seccomp_data, nr))]);
    parts.extend([part(libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K, X32, 0, 1), answer(REPORT)]);
    // The opening of an open file has been reported already.
    parts.extend(by_bits(libc::SYS_newfstatat, 3, empty_path, true));
    parts.extend(by_bits(libc::SYS_statx, 2, empty_path, true));
    parts.extend(by_bits(libc::SYS_unshare, 0, mounts, false));
    for (number, _) in OWN.iter().chain(COMMON) {
        parts.extend([unless(number_of(*number), 1), answer(REPORT)]);
    }
    parts.push(answer(ALLOW));
    parts
}
