//! Description of the machine and its load, for the conditions of a job: operating system, processor, governors,
//! processor time. In a container, `/proc` shows most of these for the host. Facts that a system does not expose are
//! `None`.

use std::{collections::BTreeSet, fs, time::Instant};

use super::counters::{self, Lately};

/// Operating system and architecture: `Linux x86_64`.
pub fn os() -> String {
    let name = rustix::system::uname();
    format!("{} {}", name.sysname().to_string_lossy(), name.machine().to_string_lossy())
}

/// Release of the kernel.
pub fn kernel() -> String {
    rustix::system::uname().release().to_string_lossy().into_owned()
}

/// Returns the image of the container in which this process runs, if the container's engine exposes it: Podman in a
/// file, Apptainer in a variable. Other engines do not expose it inside the container.
pub fn container() -> Option<String> {
    let image = |variable| std::env::var(variable).ok().filter(|image| !image.is_empty());
    let image_path = ["APPTAINER_CONTAINER", "SINGULARITY_CONTAINER"].into_iter().find_map(image);
    image_path.or_else(|| container_in(&fs::read_to_string("/run/.containerenv").ok()?))
}

/// The image in the text of Podman's file.
fn container_in(text: &str) -> Option<String> {
    let value = |name: &str| {
        let mut lines = text.lines().filter_map(|line| line.split_once('='));
        let (_, value) = lines.find(|(key, _)| *key == name)?;
        Some(value.trim_matches('"')).filter(|value| !value.is_empty())
    };
    let image = value("image")?;
    Some(value("imageid").map_or_else(|| image.to_owned(), |id| format!("{image} ({id})")))
}

/// Model of the processor.
pub fn cpu_model() -> Option<String> {
    cpu_model_in(&fs::read_to_string("/proc/cpuinfo").ok()?)
}

/// The model in the text of `/proc/cpuinfo`, whose words differ between architectures.
fn cpu_model_in(text: &str) -> Option<String> {
    ["model name", "cpu model", "Model", "Hardware", "cpu"].into_iter().find_map(|key| {
        let mut lines = text.lines().filter_map(|line| line.split_once(':'));
        lines
            .find(|(name, value)| name.trim() == key && !value.trim().is_empty())
            .map(|(_, value)| value.trim().to_owned())
    })
}

/// Cores (logical processors) of the machine, whether or not this process may use them.
pub fn cores() -> Option<usize> {
    let text = fs::read_to_string("/proc/stat").ok()?;
    Some(cores_in(&text)).filter(|cores| *cores > 0)
}

fn cores_in(text: &str) -> usize {
    let is_core_line =
        |line: &&str| line.strip_prefix("cpu").is_some_and(|tail| tail.starts_with(|char: char| char.is_ascii_digit()));
    text.lines().filter(is_core_line).count()
}

/// Frequency governors of the processors (`powersave`); different ones are joined by `+`.
pub fn governor() -> Option<String> {
    let processors = fs::read_dir("/sys/devices/system/cpu").ok()?;
    let governors: BTreeSet<String> = processors
        .filter_map(|entry| fs::read_to_string(entry.ok()?.path().join("cpufreq/scaling_governor")).ok())
        .map(|text| text.trim().to_owned())
        .filter(|text| !text.is_empty())
        .collect();
    (!governors.is_empty()).then(|| governors.into_iter().collect::<Vec<_>>().join("+"))
}

/// Load of the machine at an instant.
#[derive(Debug, Clone, Copy)]
pub struct Load {
    at: Instant,
    /// Load average over one minute.
    pub average: Option<f64>,
    /// Processor time that all cores have spent busy, in clock ticks.
    busy: Option<u64>,
}

/// Use of the machine's cores over a span of time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Use {
    /// Mean number of cores that the given processes kept busy.
    pub own: f64,
    /// Mean number of cores that all other processes kept busy. `None` if the span is too short for the kernel's clock,
    /// or if the kernel's counters are unknown.
    pub foreign: Option<f64>,
}

/// Shortest span over which the use of cores by other processes is determined, in clock ticks: the kernel counts whole
/// ticks on each core.
const MIN_TICKS: f64 = 20.0;

impl Load {
    /// The load now.
    pub fn now() -> Self {
        let average = counters::text("/proc/loadavg").and_then(|text| text.split(' ').next()?.parse().ok());
        let busy = counters::text("/proc/stat").and_then(|text| busy(&text));
        Self { at: Instant::now(), average, busy }
    }

    /// The load, at most 10 ms ago. Saves reads if many jobs start at once.
    pub fn lately() -> Self {
        static LATELY: Lately<Load> = Lately::new();
        LATELY.get(Self::now)
    }

    /// Use of the cores since `earlier`, given the processor time in seconds (`own`) of some processes since then.
    /// `None` if no time has passed.
    pub fn since(self, earlier: Self, own: f64) -> Option<Use> {
        let seconds = (self.at - earlier.at).as_secs_f64();
        if seconds <= 0.0 {
            return None;
        }
        let rate = rustix::param::clock_ticks_per_second().max(1) as f64;
        let busy = self.busy.zip(earlier.busy).and_then(|(new, old)| Some(new.checked_sub(old)? as f64 / rate));
        let foreign = busy.filter(|_| seconds * rate >= MIN_TICKS).map(|busy| (busy - own).max(0.0) / seconds);
        Some(Use { own: own / seconds, foreign })
    }
}

/// Number of clock ticks in which cores were neither idle nor waiting for a disk. Stolen ticks, which a hypervisor
/// took, count, because the job could not use them.
fn busy(text: &str) -> Option<u64> {
    // user, nice, system, idle, iowait, irq, softirq, steal; user includes the time of guests.
    let fields: Vec<u64> =
        text.strip_prefix("cpu ")?.lines().next()?.split_whitespace().map_while(|field| field.parse().ok()).collect();
    let [user, nice, system, _, _, interrupts @ ..] = fields.as_slice() else { return None };
    Some(user + nice + system + interrupts.iter().take(3).sum::<u64>())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn busy_ticks_are_those_that_no_core_idled() {
        let text = "cpu  10 1 5 1000 50 2 3 4 7 0\ncpu0 5 0 0 0 0 0 0 0 0 0\ncpu1 1 1 1\nintr 5\ncpuset 1\n";
        assert_eq!(busy(text), Some(10 + 1 + 5 + 2 + 3 + 4), "without idle, disk and guests, which are part of user");
        assert_eq!(busy("cpu  10 1 5 1000 50\n"), Some(16), "an old kernel");
        assert_eq!(busy("cpu  10 1\n"), None);
        assert_eq!(busy(""), None);
        assert_eq!(cores_in(text), 2);
    }

    #[test]
    fn a_container_is_known_by_its_image() {
        let podman = "engine=\"podman-4.9\"\nname=\"x\"\nimage=\"docker.io/python:3.12\"\nimageid=\"ab12\"\n";
        assert_eq!(container_in(podman).as_deref(), Some("docker.io/python:3.12 (ab12)"));
        assert_eq!(container_in("image=\"x\"\n").as_deref(), Some("x"));
        assert_eq!(container_in(""), None, "an engine that says nothing, as Podman without its own privileges");
    }

    #[test]
    fn a_processor_is_named_on_any_architecture() {
        assert_eq!(cpu_model_in("processor\t: 0\nmodel name\t: AMD EPYC\n").as_deref(), Some("AMD EPYC"));
        assert_eq!(
            cpu_model_in("processor : 0\nHardware : BCM2835\nModel : Raspberry Pi 4\n").as_deref(),
            Some("Raspberry Pi 4")
        );
        assert_eq!(cpu_model_in("processor: 0\n"), None);
    }

    #[test]
    fn other_processes_are_what_is_busy_beyond_the_own() {
        let rate = rustix::param::clock_ticks_per_second();
        let at = Instant::now();
        let start = Load { at, average: None, busy: Some(100) };
        let now = |seconds: f64, busy: u64| Load {
            at: at + Duration::from_secs_f64(seconds),
            average: None,
            busy: Some(busy),
        };
        let usage = now(10.0, 100 + 13 * rate).since(start, 10.0).unwrap();
        assert!((usage.own - 1.0).abs() < 1e-9 && (usage.foreign.unwrap() - 0.3).abs() < 1e-9, "{usage:?}");
        assert_eq!(now(10.0, 100).since(start, 1.0).unwrap().foreign, Some(0.0), "never less than nothing");
        assert_eq!(now(0.01, 103).since(start, 0.0).unwrap().foreign, None, "too short for a clock of ticks");
        assert_eq!(now(10.0, 50).since(start, 0.0).unwrap().foreign, None, "a counter that went back");
        assert_eq!(Load { busy: None, ..now(10.0, 0) }.since(start, 0.0).unwrap().foreign, None);
    }

    #[test]
    fn this_machine_is_described() {
        assert!(os().starts_with("Linux") && !kernel().is_empty());
        assert!(cores().is_some_and(|cores| cores >= 1));
        let load = Load::now();
        assert!(load.average.is_some() && load.busy.is_some());
    }
}
