//! Quotas of this user on disks, from the command `quota`, where there is one.

use std::{process::Command, time::Instant};

use super::ask::{Children, Limits, converse};

/// Maximum length of the output that is read, in bytes.
const MAX_ANSWER_BYTES: usize = 1 << 16;

/// A limit of the space that this user may use on a disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Quota {
    /// The disk.
    pub disk: String,
    /// Bytes in use.
    pub used: u64,
    /// Bytes that may be used.
    pub limit: u64,
}

/// The quotas of this user; empty if the system has no `quota`, or if it has printed nothing by `until`.
pub(crate) fn ask(until: Instant) -> Vec<Quota> {
    let mut command = Command::new("quota");
    command.arg("-w").env("LC_ALL", "C");
    // `quota` exits with an error for a user who is over a limit, but still prints the limit.
    let limits = Limits { most: MAX_ANSWER_BYTES, until, children: Children::Awaited };
    converse(&mut command, None, limits).map(|answer| parse(&answer.out())).unwrap_or_default()
}

/// Parses the lines of `quota -w`: the disk; the used blocks of 1 KiB, with `*` over the quota; the quota; and the
/// limit.
fn parse(text: &str) -> Vec<Quota> {
    let line = |line: &str| {
        let mut words = line.split_whitespace();
        let disk = words.next()?.to_owned();
        let mut kibibytes = || words.next()?.trim_end_matches('*').parse::<u64>().ok()?.checked_mul(1 << 10);
        let (used, quota, limit) = (kibibytes()?, kibibytes()?, kibibytes()?);
        // The quota (soft limit) can be exceeded for some days, the limit never.
        let limit = if quota > 0 { quota } else { limit };
        (limit > 0).then_some(Quota { disk, used, limit })
    };
    text.lines().filter_map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lines_of_quota_are_read() {
        let text = "Disk quotas for user me (uid 1000): \n     Filesystem   blocks   quota   limit   grace   files   quota   limit   grace\n\
                    nfs:/home  1048576* 1000000 2000000   6days    1234       0       0\n      /dev/sda1      20       0    4096              1       0       0\n\
                    /dev/sdb1      20       0       0              1       0       0\nnone\n";
        let quota = |disk: &str, used, limit| Quota { disk: disk.to_owned(), used, limit };
        assert_eq!(parse(text), [quota("nfs:/home", 1 << 30, 1_024_000_000), quota("/dev/sda1", 20 << 10, 4 << 20)]);
        assert_eq!(parse("Disk quotas for user root (uid 0): none\n"), []);
    }
}
