//! The system calls of the observer.

use std::{
    ffi::{CStr, c_void},
    io, mem,
    os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd, RawFd},
};

use libc::{c_int, c_uint, c_ulong, sock_filter, sock_fprog};

/// The socket that carries a listener from the program's process to the worker.
pub(crate) struct Line {
    pub(crate) here: OwnedFd,
    pub(crate) there: OwnedFd,
}

/// A message about a process that was started.
pub(crate) enum Arrival {
    /// The listener of its filter.
    Listener(OwnedFd),
    /// The kernel has refused the filter.
    Refused,
    /// No process is started any more.
    Closed,
}

/// Maximum length of a path, in bytes.
const MAX_PATH_LENGTH: usize = libc::PATH_MAX as usize;
/// Pages of memory are at least this large.
const PAGE: usize = 4096;
/// Asks for the wake-up on the same processor (Linux 6.6).
const SYNC_WAKE_UP: u64 = 1;

impl Line {
    pub(crate) fn open() -> io::Result<Self> {
        let mut ends = [0; 2];
        // SAFETY: `ends` has room for the two descriptors.
        let status =
            unsafe { libc::socketpair(libc::AF_UNIX, libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC, 0, ends.as_mut_ptr()) };
        if status < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel has just created both, and nothing else owns them.
        let [here, there] = ends.map(|end| unsafe { OwnedFd::from_raw_fd(end) });
        Ok(Self { here, there })
    }
}

/// True if the kernel can report system calls to a supervisor.
pub(crate) fn is_supported() -> bool {
    let action: u32 = libc::SECCOMP_RET_USER_NOTIF;
    let operation: c_uint = libc::SECCOMP_GET_ACTION_AVAIL;
    // SAFETY: the kernel reads the number that the pointer leads to.
    let has_action = unsafe { libc::syscall(libc::SYS_seccomp, operation, 0 as c_uint, &raw const action) == 0 };
    // SAFETY: all zeros is a value of this structure of numbers.
    let mut sizes: libc::seccomp_notif_sizes = unsafe { mem::zeroed() };
    let operation: c_uint = libc::SECCOMP_GET_NOTIF_SIZES;
    // SAFETY: the kernel writes the structure that the pointer leads to.
    let has_sizes = unsafe { libc::syscall(libc::SYS_seccomp, operation, 0 as c_uint, &raw mut sizes) == 0 };
    // A kernel with longer reports would write beyond the end of this program's structures.
    let fits = usize::from(sizes.seccomp_notif) <= size_of::<libc::seccomp_notif>()
        && usize::from(sizes.seccomp_notif_resp) <= size_of::<libc::seccomp_notif_resp>();
    has_action && has_sizes && fits
}

/// True if a child's filter can be installed, its calls are reported, and its memory can be read.
pub(crate) fn can_observe(program: &[sock_filter]) -> bool {
    /// A path that does not matter.
    const ASKED: &CStr = c"/";
    /// Time for the report, in milliseconds.
    const TIMEOUT: c_int = 5_000;
    let Ok(Line { here, there }) = Line::open() else { return false };
    // SAFETY: the child makes system calls only, allocates nothing, and ends before it returns.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let _ = install(there.as_raw_fd(), program, true);
        // SAFETY: the path is a text that ends with 0, and `_exit` runs nothing of this process.
        unsafe {
            libc::syscall(libc::SYS_faccessat, libc::AT_FDCWD, ASKED.as_ptr(), libc::F_OK);
            libc::_exit(0);
        }
    }
    drop(there);
    if child < 0 {
        return false;
    }
    let is_read = match receive(&here) {
        Arrival::Listener(listener) => {
            let mut descriptors = [libc::pollfd { fd: listener.as_raw_fd(), events: libc::POLLIN, revents: 0 }];
            let report = if wait(&mut descriptors, TIMEOUT) { report(&listener) } else { None };
            report.is_some_and(|report| {
                let text = path(report.pid, report.data.args[1]);
                go_on(&listener, report.id);
                text.is_ok_and(|text| text.as_deref() == Some(ASKED.to_bytes()))
            })
        }
        Arrival::Refused | Arrival::Closed => false,
    };
    // SAFETY: the process is a child of this one that nothing else waits for; without a listener it cannot wait itself.
    while unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) } < 0 && errno() == libc::EINTR {}
    is_read
}

/// Installs the filter in this process, and sends its listener, or the fact that it could not be installed. Runs between
/// `fork` and `exec`: makes system calls only, and allocates nothing.
pub(crate) fn install(line: RawFd, program: &[sock_filter], is_required: bool) -> io::Result<()> {
    let listener = listen(program);
    let message: u8 = u8::from(listener.is_ok());
    send(line, message, listener.as_ref().ok().copied())?;
    match listener {
        Ok(listener) => {
            // SAFETY: this process owns the descriptor, and the worker has its own one now.
            unsafe { libc::close(listener) };
            Ok(())
        }
        Err(error) if is_required => Err(error),
        Err(_) => Ok(()),
    }
}

fn listen(program: &[sock_filter]) -> io::Result<RawFd> {
    let program =
        sock_fprog { len: u16::try_from(program.len()).unwrap_or(u16::MAX), filter: program.as_ptr().cast_mut() };
    let operation: c_uint = libc::SECCOMP_SET_MODE_FILTER;
    let set = |flags: c_ulong| {
        // SAFETY: the program and its parts live until the call returns, and the kernel only reads them.
        unsafe { libc::syscall(libc::SYS_seccomp, operation, flags, &raw const program) }
    };
    let flags = libc::SECCOMP_FILTER_FLAG_NEW_LISTENER;
    // A call that is being reported is not interrupted by signals (Linux 5.19).
    let register = |()| {
        let listener = set(flags | libc::SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV);
        if listener < 0 && errno() == libc::EINVAL { set(flags) } else { listener }
    };
    // A user with the right to do so keeps programs with set-user-ID working.
    let mut listener = register(());
    if listener < 0 && errno() == libc::EACCES {
        let [one, zero]: [c_ulong; 2] = [1, 0];
        // SAFETY: the call has numbers as arguments only.
        unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, one, zero, zero, zero) };
        listener = register(());
    }
    RawFd::try_from(listener).ok().filter(|listener| *listener >= 0).ok_or_else(io::Error::last_os_error)
}

fn errno() -> c_int {
    io::Error::last_os_error().raw_os_error().unwrap_or(0)
}

/// Room for a control message with one descriptor, with the alignment that the kernel requires.
#[repr(C, align(8))]
struct Control([u8; 64]);

#[expect(clippy::cast_possible_truncation, reason = "the size of one descriptor")]
const FD_BYTES: u32 = size_of::<RawFd>() as u32;

fn send(line: RawFd, mut byte: u8, descriptor: Option<RawFd>) -> io::Result<()> {
    let mut part = libc::iovec { iov_base: (&raw mut byte).cast(), iov_len: 1 };
    let mut control = Control([0; 64]);
    // SAFETY: all zeros is a value of this structure of numbers and pointers.
    let mut message: libc::msghdr = unsafe { mem::zeroed() };
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    if let Some(descriptor) = descriptor {
        message.msg_control = control.0.as_mut_ptr().cast();
        // SAFETY: computes a length.
        message.msg_controllen = unsafe { libc::CMSG_SPACE(FD_BYTES) } as _;
        // SAFETY: the message has the room for one header with a descriptor, which is aligned for it.
        unsafe {
            let header = libc::CMSG_FIRSTHDR(&raw const message);
            (*header).cmsg_level = libc::SOL_SOCKET;
            (*header).cmsg_type = libc::SCM_RIGHTS;
            (*header).cmsg_len = libc::CMSG_LEN(FD_BYTES) as _;
            libc::CMSG_DATA(header).cast::<RawFd>().write_unaligned(descriptor);
        }
    }
    // SAFETY: everything that the message leads to lives until the call returns.
    let count = unsafe { libc::sendmsg(line, &raw const message, libc::MSG_NOSIGNAL) };
    if count < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Receives a message of a process that was started.
pub(crate) fn receive(line: &OwnedFd) -> Arrival {
    let mut byte = 0_u8;
    let mut part = libc::iovec { iov_base: (&raw mut byte).cast(), iov_len: 1 };
    let mut control = Control([0; 64]);
    // SAFETY: all zeros is a value of this structure of numbers and pointers.
    let mut message: libc::msghdr = unsafe { mem::zeroed() };
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    message.msg_control = control.0.as_mut_ptr().cast();
    message.msg_controllen = control.0.len() as _;
    // SAFETY: everything that the message leads to lives until the call returns.
    let count = unsafe { libc::recvmsg(line.as_raw_fd(), &raw mut message, libc::MSG_CMSG_CLOEXEC) };
    if count <= 0 {
        return Arrival::Closed;
    }
    // SAFETY: the kernel has filled the message; a header is read only if there is one, and it has one descriptor then, which
    // belongs to this process alone.
    unsafe {
        let header = libc::CMSG_FIRSTHDR(&raw const message);
        if byte == 0 || header.is_null() || (*header).cmsg_type != libc::SCM_RIGHTS {
            return Arrival::Refused;
        }
        Arrival::Listener(OwnedFd::from_raw_fd(libc::CMSG_DATA(header).cast::<RawFd>().read_unaligned()))
    }
}

/// Requests the wake-up on the same processor, with which a report is several times cheaper. Older kernels lack this option.
pub(crate) fn wake_up_here(listener: &OwnedFd) {
    // SAFETY: the argument is a number.
    unsafe { libc::ioctl(listener.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_SET_FLAGS, SYNC_WAKE_UP) };
}

/// The next report; `None` if its process has been ended meanwhile.
pub(crate) fn report(listener: &OwnedFd) -> Option<libc::seccomp_notif> {
    // SAFETY: all zeros is a value of this structure of numbers, and the kernel requires zeros.
    let mut report: libc::seccomp_notif = unsafe { mem::zeroed() };
    // SAFETY: the kernel writes a report into the structure, and at most as many bytes as the structure has.
    let status = unsafe { libc::ioctl(listener.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_RECV, &raw mut report) };
    (status == 0).then_some(report)
}

/// True if the process of a report still waits for its answer, so that its number and its memory are still its own.
pub(crate) fn is_waiting(listener: &OwnedFd, id: u64) -> bool {
    // SAFETY: the kernel reads the number that the pointer leads to.
    unsafe { libc::ioctl(listener.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_ID_VALID, &raw const id) == 0 }
}

/// Lets the call of a report continue.
pub(crate) fn go_on(listener: &OwnedFd, id: u64) {
    // SAFETY: all zeros is a value of this structure of numbers.
    let mut response: libc::seccomp_notif_resp = unsafe { mem::zeroed() };
    response.id = id;
    response.flags = u32::try_from(libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE).unwrap_or(1);
    // SAFETY: the kernel reads the structure. Without a process that waits, it refuses, which needs no answer.
    unsafe { libc::ioctl(listener.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_SEND, &raw mut response) };
}

/// Reads bytes of a process's memory, as far as they can be read; an error if none can.
pub(crate) fn memory(process: u32, address: u64, buffer: &mut [u8]) -> io::Result<usize> {
    let address = usize::try_from(address).map_err(io::Error::other)?;
    let pid = libc::pid_t::try_from(process).map_err(io::Error::other)?;
    // The memory after the end of the page may not be mapped, so it is a separate part.
    let page_bytes = (PAGE - address % PAGE).min(buffer.len());
    let local = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    let ranges = [(address, page_bytes), (address.saturating_add(page_bytes), buffer.len() - page_bytes)];
    let parts = ranges.map(|(start, length)| libc::iovec { iov_base: start as *mut c_void, iov_len: length });
    // SAFETY: the kernel writes at most the length of `buffer` into it; the other addresses are of another process, and the
    // kernel checks them.
    let count = unsafe { libc::process_vm_readv(pid, &raw const local, 1, parts.as_ptr(), 2, 0) };
    usize::try_from(count).map_err(|_| io::Error::last_os_error())
}

/// Reads a path from a process's memory; `None` for a null pointer, or for a path that is too long for the kernel.
pub(crate) fn path(process: u32, address: u64) -> io::Result<Option<Vec<u8>>> {
    if address == 0 {
        return Ok(None);
    }
    let mut path = vec![0; 256];
    let mut length = 0;
    loop {
        let count = match memory(process, address.saturating_add(length as u64), &mut path[length..]) {
            // The kernel will refuse the call, too.
            Err(error) if error.raw_os_error() == Some(libc::EFAULT) => return Ok(None),
            count => count?,
        };
        let end = path[length..length + count].iter().position(|byte| *byte == 0);
        if let Some(end) = end {
            path.truncate(length + end);
            return Ok(Some(path));
        }
        length += count;
        if count == 0 || length >= MAX_PATH_LENGTH {
            return Ok(None);
        }
        path.resize(MAX_PATH_LENGTH.min(length + 1024), 0);
    }
}

/// Waits until one of these has something to read or is closed by the other side; false if the time is over.
pub(crate) fn wait(descriptors: &mut [libc::pollfd], milliseconds: c_int) -> bool {
    let count = libc::nfds_t::try_from(descriptors.len()).unwrap_or(0);
    // SAFETY: the kernel reads and writes the structures of `descriptors` only.
    unsafe { libc::poll(descriptors.as_mut_ptr(), count, milliseconds) > 0 }
}
