//! Settings of this process that another process of the user can change, and that child processes inherit: limits,
//! priorities, processor affinity and the like.

use std::collections::BTreeMap;

use super::counters::text;

/// Settings in files of the kernel, each with its name for people. Settings of a thread are read in the thread that starts processes.
const FILES: [(&str, &str); 6] = [
    ("the resource limits", "/proc/self/limits"),
    ("`oom_score_adj`", "/proc/self/oom_score_adj"),
    ("`coredump_filter`", "/proc/self/coredump_filter"),
    ("the control group", "/proc/self/cgroup"),
    ("the autogroup", "/proc/self/autogroup"),
    ("the timer slack", "/proc/self/timerslack_ns"),
];
/// Settings in lines of `/proc/thread-self/status`.
const LINES: [(&str, &str); 2] = [("the processor affinity", "Cpus_allowed:"), ("the memory nodes", "Mems_allowed:")];
/// Settings in fields of `/proc/thread-self/stat`, counted from the field after the state.
const FIELDS: [(&str, usize); 3] =
    [("the nice value", 15), ("the real-time priority", 36), ("the scheduling policy", 37)];

/// The settings of this process, by their names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings(BTreeMap<&'static str, Option<String>>);

impl Settings {
    /// Returns the present settings. The kernel need not have all of them.
    pub fn now() -> Self {
        let mut values: BTreeMap<_, _> = FILES.into_iter().map(|(name, path)| (name, text(path))).collect();
        let status = text("/proc/thread-self/status").unwrap_or_default();
        values.extend(LINES.map(|(name, prefix)| {
            let line = status.lines().find_map(|line| line.strip_prefix(prefix));
            (name, line.map(|value| value.trim().to_owned()))
        }));
        let stat = text("/proc/thread-self/stat").unwrap_or_default();
        // The program's name is in parentheses and may contain anything; the state follows.
        let fields: Vec<&str> =
            stat.rsplit_once(')').map_or("", |(_, fields)| fields).split_whitespace().skip(1).collect();
        values.extend(FIELDS.map(|(name, place)| (name, fields.get(place).map(|field| (*field).to_owned()))));
        values.insert("the class of input and output", io_priority().map(|class| class.to_string()));
        Self(values)
    }

    /// The names of the settings that differ.
    pub fn differences(&self, other: &Self) -> Vec<&'static str> {
        self.0.iter().filter(|(name, value)| other.0.get(*name) != Some(*value)).map(|(name, _)| *name).collect()
    }
}

/// Class and level with which this thread reads and writes disks.
#[expect(unsafe_code, reason = "no crate has a safe form of this system call")]
fn io_priority() -> Option<libc::c_long> {
    /// A process or thread by its number; 0 is the calling one.
    const PROCESS: libc::c_int = 1;
    // SAFETY: the call takes two numbers and touches no memory of this process.
    let priority = unsafe { libc::syscall(libc::SYS_ioprio_get, PROCESS, 0) };
    (priority >= 0).then_some(priority)
}

#[cfg(test)]
mod tests {
    use rustix::process::{Resource, getpriority_process, getrlimit, nice, setrlimit};

    use super::*;

    #[test]
    fn a_change_of_each_kind_is_found() {
        // Settings of a thread are read in the calling thread.
        let thread = std::thread::spawn(|| {
            let old_settings = Settings::now();
            assert_eq!(Settings::now().differences(&old_settings), Vec::<&str>::new());
            nice(1).unwrap();
            let new_settings = Settings::now();
            assert_eq!(new_settings.differences(&old_settings), ["the nice value"]);
            let priority = getpriority_process(None).unwrap();
            assert_eq!(new_settings.0["the nice value"], Some(priority.to_string()));
            let limit = getrlimit(Resource::Core);
            setrlimit(Resource::Core, rustix::process::Rlimit { current: Some(0), ..limit }).unwrap();
            let score: i32 = old_settings.0["`oom_score_adj`"].as_deref().unwrap().trim().parse().unwrap();
            std::fs::write("/proc/self/oom_score_adj", (score + 1).min(1000).to_string()).unwrap();
            let names = Settings::now().differences(&old_settings);
            std::fs::write("/proc/self/oom_score_adj", score.to_string()).unwrap();
            let _ = setrlimit(Resource::Core, limit);
            (limit.current == Some(0), names)
        });
        let (limited_before, names) = thread.join().unwrap();
        assert!(names.contains(&"`oom_score_adj`"), "{names:?}");
        assert!(limited_before || names.contains(&"the resource limits"), "{names:?}");
    }
}
