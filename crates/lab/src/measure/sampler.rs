//! Samples of the process and its device, taken ten times a second by a separate thread: resident memory and processor
//! time, and for a GPU the utilization that its driver reports.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use sweep_job::{Backend, MetricInfo, Outcome, tasks::SampledMetrics};

use super::rss;

/// Interval between two samples.
const INTERVAL: Duration = Duration::from_millis(100);

/// The values that were measured, and the reasons why others were not, by the name of the metric.
#[derive(Debug, Default, Clone, PartialEq)]
pub struct Sampled {
    /// Measured values.
    pub metrics: BTreeMap<&'static str, (&'static MetricInfo, f64)>,
    /// Reasons for the others.
    pub absent: BTreeMap<&'static str, String>,
}

impl Sampled {
    /// Adds the values and reasons to an outcome.
    pub fn describe(self, outcome: &mut Outcome) {
        for (metric, value) in self.metrics.into_values() {
            outcome.set(metric, value);
        }
        for (name, reason) in self.absent {
            outcome.facts.insert(format!("absent.{name}"), reason);
        }
    }
}

/// The metrics that only a GPU's driver can measure.
const OF_A_DRIVER: [&MetricInfo; 3] =
    [&SampledMetrics::UTILIZATION_COMPUTE, &SampledMetrics::UTILIZATION_MEMORY, &SampledMetrics::MEMORY_DEVICE_USED];

/// A thread that looks.
#[derive(Debug)]
pub struct Sampler {
    stop: Option<mpsc::Sender<()>>,
    paused: Arc<AtomicBool>,
    thread: Option<JoinHandle<Sampled>>,
}

impl Sampler {
    /// Begins to sample this process, and the GPU on which `backend` computes.
    pub fn start(backend: Backend) -> Self {
        Self::with(move || Gpu::find(backend, Path::new("/sys/class/drm")))
    }

    fn with(find: impl FnOnce() -> Result<Gpu, String> + Send + 'static) -> Self {
        let paused = Arc::new(AtomicBool::new(false));
        let (stop_sender, stop_receiver) = mpsc::channel::<()>();
        let pause_flag = Arc::clone(&paused);
        let thread = std::thread::Builder::new().name("sampler".into()).spawn(move || {
            let mut log = Log::new(find());
            while stop_receiver.recv_timeout(INTERVAL) == Err(mpsc::RecvTimeoutError::Timeout) {
                log.look(pause_flag.load(Ordering::Relaxed));
            }
            log.look(pause_flag.load(Ordering::Relaxed));
            log.finish()
        });
        Self { stop: Some(stop_sender), paused, thread: thread.ok() }
    }

    /// Ignores the time until [`resume`](Self::resume).
    pub fn pause(&self) {
        self.paused.store(true, Ordering::Relaxed);
    }

    /// Counts again.
    pub fn resume(&self) {
        self.paused.store(false, Ordering::Relaxed);
    }

    /// Ends the sampling, and returns the measurements.
    pub fn finish(mut self) -> Sampled {
        drop(self.stop.take());
        self.thread.take().and_then(|thread| thread.join().ok()).unwrap_or_default()
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        drop(self.stop.take());
    }
}

/// Samples.
struct Log {
    gpu: Result<Gpu, String>,
    series: BTreeMap<&'static str, (&'static MetricInfo, Series)>,
    /// Time of the last reading of processor time, and its value.
    last: (Instant, Option<f64>),
    /// Sampled seconds, and seconds of processor time in them.
    processor: (f64, f64),
}

#[derive(Default, Clone, Copy)]
struct Series {
    sum: f64,
    count: f64,
    most: f64,
}

impl Series {
    fn add(&mut self, value: f64) {
        self.sum += value;
        self.count += 1.0;
        self.most = self.most.max(value);
    }

    fn mean(self) -> f64 {
        self.sum / self.count
    }
}

impl Log {
    fn new(gpu: Result<Gpu, String>) -> Self {
        Self { gpu, series: BTreeMap::new(), last: (Instant::now(), processor_seconds()), processor: (0.0, 0.0) }
    }

    fn look(&mut self, is_paused: bool) {
        let reading = (Instant::now(), processor_seconds());
        let last_reading = std::mem::replace(&mut self.last, reading);
        if is_paused {
            return;
        }
        if let (Some(seconds), Some(earlier_seconds)) = (reading.1, last_reading.1) {
            self.processor.0 += reading.0.duration_since(last_reading.0).as_secs_f64();
            self.processor.1 += seconds - earlier_seconds;
        }
        if let Some(bytes) = rss::current() {
            self.add(&SampledMetrics::MEMORY_MEAN, bytes);
        }
        for (metric, value) in self.gpu.as_ref().map(Gpu::look).unwrap_or_default() {
            self.add(metric, value);
            if *metric == SampledMetrics::MEMORY_DEVICE_USED {
                self.add(&SampledMetrics::MEMORY_DEVICE_USED_MEAN, value);
            }
        }
    }

    fn add(&mut self, metric: &'static MetricInfo, value: f64) {
        self.series.entry(metric.name).or_insert((metric, Series::default())).1.add(value);
    }

    fn finish(self) -> Sampled {
        const PROCESSOR: &MetricInfo = &SampledMetrics::UTILIZATION_CPU;
        let mut measurements = Sampled::default();
        for (&name, &(metric, series)) in &self.series {
            let is_peak = *metric == SampledMetrics::MEMORY_DEVICE_USED;
            measurements.metrics.insert(name, (metric, if is_peak { series.most } else { series.mean() }));
        }
        let (seconds, busy_seconds) = self.processor;
        if seconds > 0.0 {
            let cores = std::thread::available_parallelism().map_or(1, usize::from) as f64;
            measurements.metrics.insert(PROCESSOR.name, (PROCESSOR, busy_seconds / seconds / cores));
        } else {
            measurements
                .absent
                .insert(PROCESSOR.name, "this system does not report the processor time of a process".into());
        }
        let memory_name = SampledMetrics::MEMORY_MEAN.name;
        if !measurements.metrics.contains_key(memory_name) {
            measurements.absent.insert(memory_name, "this system does not report the memory of a process".into());
        }
        let names = OF_A_DRIVER.into_iter().chain([&SampledMetrics::MEMORY_DEVICE_USED_MEAN]).map(|metric| metric.name);
        for name in names.filter(|name| !self.series.contains_key(name)) {
            let reason = self.gpu.as_ref().err().cloned().unwrap_or_else(|| "the driver does not report it".into());
            measurements.absent.insert(name, reason);
        }
        measurements
    }
}

/// Seconds of processor time of all threads of this process.
#[expect(clippy::unnecessary_wraps, reason = "as what else is measured, which may be missing")]
fn processor_seconds() -> Option<f64> {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Some(time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9)
}

/// A GPU whose driver reports its utilization.
enum Gpu {
    /// NVIDIA's management library, and the GPU's place in its list.
    #[cfg(feature = "cuda")]
    Nvidia(Box<nvml_wrapper::Nvml>, u32),
    /// The folder of an AMD GPU, `/sys/class/drm/card0/device`.
    Amd(PathBuf),
}

impl Gpu {
    /// Returns the GPU on which `backend` computes, or the reason why it cannot be sampled.
    fn find(backend: Backend, cards: &Path) -> Result<Self, String> {
        match backend {
            Backend::Cpu => Err("the CPU backend computes on no GPU".into()),
            Backend::Cuda => nvidia(),
            Backend::Wgpu => amd(cards)
                .ok_or("only AMD's driver reports the utilization of a GPU through sysfs")
                .or_else(|reason| nvidia().map_err(|_| reason.to_owned())),
        }
    }

    /// Returns the current values of the GPU.
    fn look(&self) -> Vec<(&'static MetricInfo, f64)> {
        match self {
            #[cfg(feature = "cuda")]
            Self::Nvidia(nvml, index) => {
                let Ok(device) = nvml.device_by_index(*index) else { return Vec::new() };
                let mut values = Vec::new();
                if let Ok(rates) = device.utilization_rates() {
                    values.push((OF_A_DRIVER[0], f64::from(rates.gpu) / 100.0));
                    values.push((OF_A_DRIVER[1], f64::from(rates.memory) / 100.0));
                }
                if let Ok(memory) = device.memory_info() {
                    values.push((OF_A_DRIVER[2], memory.used as f64));
                }
                values
            }
            Self::Amd(folder) => {
                let files = [("gpu_busy_percent", 100.0), ("mem_busy_percent", 100.0), ("mem_info_vram_used", 1.0)];
                let read = |(file, unit): (&str, f64)| Some(number(&folder.join(file))? / unit);
                let pairs = OF_A_DRIVER.into_iter().zip(files);
                pairs.filter_map(|(metric, file)| Some((metric, read(file)?))).collect()
            }
        }
    }
}

#[cfg(not(feature = "cuda"))]
fn nvidia() -> Result<Gpu, String> {
    Err("this build has no CUDA backend".into())
}

/// The GPU that CUDA calls the first, in NVIDIA's own list.
#[cfg(feature = "cuda")]
fn nvidia() -> Result<Gpu, String> {
    let nvml =
        nvml_wrapper::Nvml::init().map_err(|error| format!("NVIDIA's management library does not respond: {error}"))?;
    let device_list = std::env::var("CUDA_VISIBLE_DEVICES").unwrap_or_default();
    let device_name = device_list.split(',').next().unwrap_or_default().trim();
    let index = match device_name.parse() {
        Ok(index) => index,
        Err(_) if device_name.is_empty() => 0,
        Err(_) => nvml
            .device_by_uuid(device_name)
            .and_then(|device| device.index())
            .map_err(|error| format!("NVIDIA's management library does not list the GPU `{device_name}`: {error}"))?,
    };
    nvml.device_by_index(index).map_err(|error| format!("NVIDIA's management library has no GPU {index}: {error}"))?;
    Ok(Gpu::Nvidia(Box::new(nvml), index))
}

/// Returns the first AMD GPU among `cards` whose driver reports its utilization.
fn amd(cards: &Path) -> Option<Gpu> {
    let mut folders: Vec<PathBuf> =
        std::fs::read_dir(cards).ok()?.filter_map(|entry| Some(entry.ok()?.path().join("device"))).collect();
    folders.sort();
    let amd = |folder: &PathBuf| {
        let vendor = std::fs::read_to_string(folder.join("vendor")).unwrap_or_default();
        vendor.trim() == "0x1002" && number(&folder.join("gpu_busy_percent")).is_some()
    };
    folders.into_iter().find(amd).map(Gpu::Amd)
}

fn number(file: &Path) -> Option<f64> {
    std::fs::read_to_string(file).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amd_is_read_from_sysfs() {
        let cards = tempfile::tempdir().unwrap();
        let write = |card: &str, file: &str, text: &str| {
            let folder = cards.path().join(card).join("device");
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(folder.join(file), text).unwrap();
        };
        write("card0", "vendor", "0x8086\n");
        write("card0", "gpu_busy_percent", "99\n");
        write("card1", "vendor", "0x1002\n");
        write("card1", "gpu_busy_percent", "57\n");
        write("card1", "mem_info_vram_used", "1048576\n");
        let path = cards.path().to_owned();
        let sampler = Sampler::with(move || Gpu::find(Backend::Wgpu, &path));
        std::thread::sleep(INTERVAL * 3);
        let Sampled { metrics, absent } = sampler.finish();
        assert_eq!(metrics["utilization.compute"], (&SampledMetrics::UTILIZATION_COMPUTE, 0.57));
        assert_eq!(metrics["memory.device.used"], (&SampledMetrics::MEMORY_DEVICE_USED, 1_048_576.0));
        assert_eq!(metrics["memory.device.used.mean"].1, 1_048_576.0);
        assert_eq!(absent["utilization.memory"], "the driver does not report it");
        assert!(metrics["memory.mean"].1 > 1e6);
    }

    #[test]
    fn what_cannot_be_measured_is_absent_with_a_reason() {
        let Sampled { metrics, absent } = Sampler::start(Backend::Cpu).finish();
        for name in OF_A_DRIVER.map(|metric| metric.name) {
            assert_eq!(absent[name], "the CPU backend computes on no GPU");
            assert!(!metrics.contains_key(name));
        }
    }

    #[test]
    fn work_is_seen_and_pauses_are_not() {
        let spin = |time: Duration| {
            let start = Instant::now();
            while start.elapsed() < time {}
        };
        let sampler = Sampler::with(|| Err("none".into()));
        sampler.pause();
        std::thread::sleep(INTERVAL * 4);
        sampler.resume();
        spin(INTERVAL * 4);
        let utilization = sampler.finish().metrics["utilization.cpu"].1;
        // Other tests of this process run beside it, so there may be more.
        assert!(utilization > 0.0, "{utilization}");
    }
}
