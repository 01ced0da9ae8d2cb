//! The devices of this machine that the lab can compute on, found without starting a runtime.
//!
//! A missing driver makes the libraries below panic on the first tensor; probing first turns that into an error
//! message.

#[cfg(feature = "wgpu")]
use std::{sync::mpsc, thread, time::Duration};

use sweep_job::{Backend, Device, Probe, Rejected};

use crate::LabError;

/// Returns the devices of this machine for `backend`, best first, or the reason why no device was found.
pub fn probe(backend: Backend) -> Probe {
    let devices = match backend {
        Backend::Cuda => cuda(),
        Backend::Wgpu => wgpu_devices(),
        Backend::Cpu => Ok(vec![cpu()]),
    };
    match devices {
        Ok(devices) => Probe { devices, rejected: Vec::new() },
        Err(rejection) => Probe { devices: Vec::new(), rejected: vec![rejection] },
    }
}

/// The processor, which is always there.
fn cpu() -> Device {
    Device {
        backend: Backend::Cpu,
        index: 0,
        name: cpu_name(),
        driver: String::new(),
        software: false,
        memory: main_memory(),
        chosen: None,
    }
}

/// Returns the machine's memory in bytes, as Linux reports it.
fn main_memory() -> Option<u64> {
    let text = fs_err::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? << 10)
}

impl From<Rejected> for LabError {
    fn from(rejection: Rejected) -> Self {
        Self::Backend { backend: rejection.backend, reason: rejection.reason, advice: rejection.advice }
    }
}

/// The result for a backend that this build does not contain.
#[cfg(any(test, not(all(feature = "cuda", feature = "wgpu"))))]
pub(crate) fn not_built(backend: Backend) -> Rejected {
    Rejected {
        backend,
        reason: format!("this build has no {backend} backend"),
        advice: format!("build with the feature `{backend}`"),
    }
}

/// Returns the processor's name, as Linux reports it; elsewhere its architecture.
fn cpu_name() -> String {
    let name = fs_err::read_to_string("/proc/cpuinfo").ok().and_then(|text| {
        let line = text.lines().find(|line| line.starts_with("model name"))?;
        Some(line.split_once(':')?.1.trim().to_owned())
    });
    name.unwrap_or_else(|| std::env::consts::ARCH.to_owned())
}

#[cfg(not(feature = "cuda"))]
pub(crate) fn cuda() -> Result<Vec<Device>, Rejected> {
    Err(not_built(Backend::Cuda))
}

/// Returns the NVIDIA GPUs that the driver reports, or the reason why none was found.
#[cfg(feature = "cuda")]
pub(crate) fn cuda() -> Result<Vec<Device>, Rejected> {
    let rejection = |reason: &str, advice: &str| Rejected {
        backend: Backend::Cuda,
        reason: reason.to_owned(),
        advice: advice.to_owned(),
    };
    let advice = "install the driver, or choose `--backend cpu`";
    let driver = cuda::Driver::load().ok_or_else(|| rejection("no NVIDIA driver responds", advice))?;
    let devices = driver
        .devices()
        .map_err(|problem| rejection(&format!("the NVIDIA driver is installed, but {problem}"), advice))?;
    if devices.is_empty() {
        return Err(rejection(
            "the NVIDIA driver shows no GPU",
            "check `CUDA_VISIBLE_DEVICES`, or choose `--backend cpu`",
        ));
    }
    if !cuda::has_compiler() {
        return Err(rejection(
            "the NVIDIA driver responds, but the run-time compiler `libnvrtc` is missing",
            "install it with the CUDA toolkit, or choose `--backend cpu`",
        ));
    }
    Ok(devices)
}

/// The calls of the CUDA driver that a probe needs.
#[cfg(feature = "cuda")]
#[expect(unsafe_code, reason = "the driver is a C library that may be missing, so it is loaded and called by name")]
mod cuda {
    use std::ffi::{CStr, c_char, c_int, c_uint, c_void};

    use libloading::Library;
    use sweep_job::{Backend, Device};

    /// A call into the driver.
    macro_rules! unsafe_call {
        ($call:expr) => {{
            // SAFETY: the pointers are to live values of the declared types, lengths are passed with buffers, and `cuInit`
            // comes before every other call.
            unsafe { $call }
        }};
    }

    /// A loaded driver.
    pub(super) struct Driver(Library);

    impl Driver {
        /// The driver, if it is installed.
        pub(super) fn load() -> Option<Self> {
            let names = if cfg!(windows) { ["nvcuda.dll", "nvcuda.dll"] } else { ["libcuda.so.1", "libcuda.so"] };
            names.into_iter().find_map(open).map(Self)
        }

        /// The GPUs, each of which has been started once; or the problem, as the rest of a sentence.
        pub(super) fn devices(&self) -> Result<Vec<Device>, String> {
            let mut version: c_int = 0;
            let mut count: c_int = 0;
            self.call::<unsafe extern "C" fn(c_uint) -> c_int>("cuInit", |init| unsafe_call!(init(0)))?;
            self.call::<unsafe extern "C" fn(*mut c_int) -> c_int>("cuDriverGetVersion", |get| {
                unsafe_call!(get(&raw mut version))
            })?;
            self.call::<unsafe extern "C" fn(*mut c_int) -> c_int>("cuDeviceGetCount", |get| {
                unsafe_call!(get(&raw mut count))
            })?;
            let driver = format!("CUDA {}.{}", version / 1000, version % 1000 / 10);
            (0..count).map(|index| self.device(index, driver.clone())).collect()
        }

        /// The GPU `index`, after a context on it was made and given back: a failure there would happen in every job.
        fn device(&self, index: c_int, driver: String) -> Result<Device, String> {
            let mut device: c_int = 0;
            let mut name: [c_char; 256] = [0; 256];
            let mut bytes: usize = 0;
            let mut context: *mut c_void = std::ptr::null_mut();
            self.call::<unsafe extern "C" fn(*mut c_int, c_int) -> c_int>("cuDeviceGet", |get| {
                unsafe_call!(get(&raw mut device, index))
            })?;
            self.call::<unsafe extern "C" fn(*mut c_char, c_int, c_int) -> c_int>("cuDeviceGetName", |get| {
                unsafe_call!(get(name.as_mut_ptr(), 255, device))
            })?;
            self.call::<unsafe extern "C" fn(*mut usize, c_int) -> c_int>("cuDeviceTotalMem_v2", |get| {
                unsafe_call!(get(&raw mut bytes, device))
            })?;
            self.call::<unsafe extern "C" fn(*mut *mut c_void, c_int) -> c_int>(
                "cuDevicePrimaryCtxRetain",
                |retain| unsafe_call!(retain(&raw mut context, device)),
            )?;
            self.call::<unsafe extern "C" fn(c_int) -> c_int>("cuDevicePrimaryCtxRelease_v2", |release| {
                unsafe_call!(release(device))
            })?;
            // SAFETY: the driver has ended the name with a zero within the buffer's length, which was passed to it.
            let name = unsafe { CStr::from_ptr(name.as_ptr()) }.to_string_lossy().into_owned();
            Ok(Device {
                backend: Backend::Cuda,
                index: usize::try_from(index).unwrap_or_default(),
                name,
                driver,
                software: false,
                memory: u64::try_from(bytes).ok(),
                chosen: None,
            })
        }

        /// Calls a function of the driver, whose result 0 is success.
        fn call<F: Copy>(&self, name: &str, call: impl FnOnce(F) -> c_int) -> Result<(), String> {
            // SAFETY: every caller names a function together with its type in the CUDA driver API, unchanged since CUDA 7.
            let function = unsafe { self.0.get::<F>(name.as_bytes()) };
            let function = function.map_err(|_| format!("it is too old: it has no `{name}`"))?;
            match call(*function) {
                0 => Ok(()),
                code => Err(format!("`{name}` fails with error {code}{}", explained(code))),
            }
        }
    }

    /// Meanings of the most common codes.
    fn explained(code: c_int) -> &'static str {
        match code {
            2 => " (out of memory)",
            3 => " (not initialized)",
            35 | 803 => " (driver and library versions do not match)",
            46 => " (another process uses the GPU exclusively)",
            100 => " (no GPU)",
            999 => " (unknown)",
            _ => "",
        }
    }

    /// True if the compiler that turns kernels into machine code can be loaded.
    pub(super) fn has_compiler() -> bool {
        if cfg!(windows) {
            return true;
        }
        ["libnvrtc.so", "libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so.11"]
            .into_iter()
            .any(|name| open(name).is_some())
    }

    fn open(name: &str) -> Option<Library> {
        // SAFETY: loading runs the library's initializers; these are the vendor's own libraries, found by the system's
        // search path, as every CUDA program loads them.
        unsafe { Library::new(name).ok() }
    }
}

#[cfg(not(feature = "wgpu"))]
fn wgpu_devices() -> Result<Vec<Device>, Rejected> {
    Err(not_built(Backend::Wgpu))
}

#[cfg(feature = "wgpu")]
fn wgpu_devices() -> Result<Vec<Device>, Rejected> {
    Ok(wgpu()?.into_iter().enumerate().map(|(index, adapter)| adapter.into_device(index)).collect())
}

/// A graphics adapter.
#[cfg(feature = "wgpu")]
pub(crate) struct Adapter {
    /// Kind of the device.
    pub(crate) kind: wgpu::DeviceType,
    /// True if a device could be created on it.
    starts: bool,
    name: String,
    driver: String,
}

#[cfg(feature = "wgpu")]
impl Adapter {
    /// Lower is better; a software adapter is worst.
    fn rank(&self) -> u8 {
        match self.kind {
            wgpu::DeviceType::DiscreteGpu => 0,
            wgpu::DeviceType::IntegratedGpu => 1,
            wgpu::DeviceType::VirtualGpu => 2,
            wgpu::DeviceType::Other => 3,
            wgpu::DeviceType::Cpu => 4,
        }
    }

    fn into_device(self, index: usize) -> Device {
        Device {
            backend: Backend::Wgpu,
            index,
            software: self.kind == wgpu::DeviceType::Cpu,
            name: self.name,
            driver: self.driver,
            // wgpu does not report the memory.
            memory: None,
            chosen: None,
        }
    }
}

/// Returns the graphics adapters, best first, or the reason why none was found.
#[cfg(feature = "wgpu")]
pub(crate) fn wgpu() -> Result<Vec<Adapter>, Rejected> {
    const TIMEOUT: Duration = Duration::from_secs(10);
    let rejection = |reason: &str| Rejected {
        backend: Backend::Wgpu,
        reason: reason.to_owned(),
        advice: "install a Vulkan driver, or choose `--backend cpu`".to_owned(),
    };
    // Runs in a separate thread, because a broken driver may hang or crash its caller.
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || sender.send(list_adapters()));
    let mut adapters = receiver.recv_timeout(TIMEOUT).map_err(|_| rejection("the graphics driver does not respond"))?;
    if adapters.is_empty() {
        return Err(rejection("no graphics adapter responds"));
    }
    // An adapter that is listed but does not start would fail in every job.
    adapters.retain(|adapter| adapter.starts);
    if adapters.is_empty() {
        return Err(rejection("the graphics driver shows an adapter, but cannot start it"));
    }
    adapters.sort_by_key(Adapter::rank);
    Ok(adapters)
}

#[cfg(feature = "wgpu")]
fn list_adapters() -> Vec<Adapter> {
    use cubecl::wgpu::{AutoGraphicsApi, GraphicsApi};

    // The one graphics interface that the runtime itself will use.
    let backends = wgpu::Backends::from(AutoGraphicsApi::backend());
    let instance = wgpu::Instance::new(wgpu::InstanceDescriptor {
        backends,
        ..wgpu::InstanceDescriptor::new_without_display_handle()
    });
    let adapters = cubecl::future::block_on(instance.enumerate_adapters(backends));
    adapters
        .into_iter()
        .map(|adapter| {
            let info = adapter.get_info();
            let starts = cubecl::future::block_on(adapter.request_device(&wgpu::DeviceDescriptor::default())).is_ok();
            let driver = format!("{} {}", info.driver, info.driver_info);
            Adapter { kind: info.device_type, starts, name: info.name, driver: driver.trim().to_owned() }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_backend_is_found_or_rejected_with_a_reason() {
        for backend in Backend::ALL {
            let Probe { devices, rejected } = probe(backend);
            assert!(devices.is_empty() != rejected.is_empty(), "{backend}");
            assert!(devices.iter().all(|device| device.backend == backend));
            assert!(rejected.iter().all(|rejection| rejection.backend == backend && !rejection.reason.is_empty()));
        }
        let cpu = &probe(Backend::Cpu).devices[0];
        assert!(!cpu.name.is_empty() && cpu.memory.is_none_or(|bytes| bytes > 1 << 26), "{cpu:?}");
    }
}
