//! What this machine has to compute on, asked without starting a runtime.
//!
//! A missing driver makes the libraries below panic on the first tensor; asking first turns that into one sentence.

#[cfg(feature = "wgpu")]
use std::{sync::mpsc, thread, time::Duration};

use sweep_job::{Backend, Device, Probe, Rejected};

use crate::LabError;

/// What this machine has to compute on, best first; the CPU, which is always there, last.
pub fn probe() -> Probe {
    let mut probe = Probe::default();
    match cuda() {
        Ok(devices) => probe.devices.extend(devices),
        Err(rejected) => probe.rejected.push(rejected),
    }
    match wgpu_devices() {
        Ok(devices) => probe.devices.extend(devices),
        Err(rejected) => probe.rejected.push(rejected),
    }
    probe.devices.push(Device {
        backend: Backend::Cpu,
        index: 0,
        name: cpu_name(),
        driver: String::new(),
        software: false,
    });
    probe
}

impl From<Rejected> for LabError {
    fn from(rejected: Rejected) -> Self {
        Self::Backend { backend: rejected.backend, reason: rejected.reason, advice: rejected.advice }
    }
}

/// The answer for a backend that this build leaves out.
#[cfg(not(all(feature = "cuda", feature = "wgpu")))]
pub(crate) fn not_built(backend: Backend) -> Rejected {
    Rejected {
        backend,
        reason: format!("this build has no {backend} backend"),
        advice: format!("build with the feature `{backend}`"),
    }
}

/// The processor's name, as Linux gives it; elsewhere its architecture.
fn cpu_name() -> String {
    let named = fs_err::read_to_string("/proc/cpuinfo").ok().and_then(|text| {
        let line = text.lines().find(|line| line.starts_with("model name"))?;
        Some(line.split_once(':')?.1.trim().to_owned())
    });
    named.unwrap_or_else(|| std::env::consts::ARCH.to_owned())
}

#[cfg(not(feature = "cuda"))]
pub(crate) fn cuda() -> Result<Vec<Device>, Rejected> {
    Err(not_built(Backend::Cuda))
}

/// The NVIDIA GPUs that the driver shows, or why there are none.
#[cfg(feature = "cuda")]
pub(crate) fn cuda() -> Result<Vec<Device>, Rejected> {
    let rejected = |reason: &str, advice: &str| Rejected {
        backend: Backend::Cuda,
        reason: reason.to_owned(),
        advice: advice.to_owned(),
    };
    let advice = "install the driver, or choose `--backend cpu`";
    let driver = cuda::Driver::load().ok_or_else(|| rejected("no NVIDIA driver answers", advice))?;
    let devices = driver.devices().ok_or_else(|| rejected("the NVIDIA driver is there, but does not start", advice))?;
    if devices.is_empty() {
        return Err(rejected(
            "the NVIDIA driver shows no GPU",
            "check `CUDA_VISIBLE_DEVICES`, or choose `--backend cpu`",
        ));
    }
    if !cuda::has_compiler() {
        return Err(rejected(
            "the NVIDIA driver answers, but the run-time compiler `libnvrtc` is missing",
            "install it with the CUDA toolkit, or choose `--backend cpu`",
        ));
    }
    Ok(devices)
}

/// The four calls of the CUDA driver that a probe needs.
#[cfg(feature = "cuda")]
#[expect(unsafe_code, reason = "the driver is a C library that may be missing, so it is loaded and called by name")]
mod cuda {
    use std::ffi::{CStr, c_char, c_int, c_uint};

    use libloading::Library;
    use sweep_job::{Backend, Device};

    /// A loaded driver.
    pub(super) struct Driver(Library);

    impl Driver {
        /// The driver, if it is installed.
        pub(super) fn load() -> Option<Self> {
            let names = if cfg!(windows) { ["nvcuda.dll", "nvcuda.dll"] } else { ["libcuda.so.1", "libcuda.so"] };
            names.into_iter().find_map(open).map(Self)
        }

        /// The GPUs, or `None` if the driver does not start.
        pub(super) fn devices(&self) -> Option<Vec<Device>> {
            let mut version: c_int = 0;
            let mut count: c_int = 0;
            // SAFETY: the four signatures are those of the CUDA driver API, unchanged since CUDA 2.0; 0 is success; the
            // pointers are to live values of the declared types; `cuInit` comes before every other call.
            unsafe {
                let init = self.0.get::<unsafe extern "C" fn(c_uint) -> c_int>(b"cuInit\0").ok()?;
                let driver_version =
                    self.0.get::<unsafe extern "C" fn(*mut c_int) -> c_int>(b"cuDriverGetVersion\0").ok()?;
                let device_count =
                    self.0.get::<unsafe extern "C" fn(*mut c_int) -> c_int>(b"cuDeviceGetCount\0").ok()?;
                if init(0) != 0 || driver_version(&raw mut version) != 0 || device_count(&raw mut count) != 0 {
                    return None;
                }
            }
            let driver = format!("CUDA {}.{}", version / 1000, version % 1000 / 10);
            (0..count)
                .map(|index| {
                    Some(Device {
                        backend: Backend::Cuda,
                        index: usize::try_from(index).ok()?,
                        name: self.device_name(index)?,
                        driver: driver.clone(),
                        software: false,
                    })
                })
                .collect()
        }

        fn device_name(&self, index: c_int) -> Option<String> {
            let mut device: c_int = 0;
            let mut name: [c_char; 256] = [0; 256];
            // SAFETY: as above; the buffer's length is passed, and the driver ends the name with a zero within it.
            unsafe {
                let get = self.0.get::<unsafe extern "C" fn(*mut c_int, c_int) -> c_int>(b"cuDeviceGet\0").ok()?;
                let get_name = self
                    .0
                    .get::<unsafe extern "C" fn(*mut c_char, c_int, c_int) -> c_int>(b"cuDeviceGetName\0")
                    .ok()?;
                if get(&raw mut device, index) != 0 || get_name(name.as_mut_ptr(), 255, device) != 0 {
                    return None;
                }
                Some(CStr::from_ptr(name.as_ptr()).to_string_lossy().into_owned())
            }
        }
    }

    /// Whether the compiler that turns kernels into machine code can be loaded.
    pub(super) fn has_compiler() -> bool {
        if cfg!(windows) {
            return true;
        }
        ["libnvrtc.so", "libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so.11"]
            .into_iter()
            .any(|name| open(name).is_some())
    }

    fn open(name: &str) -> Option<Library> {
        // SAFETY: loading runs the library's initialisers; these are the vendor's own libraries, found by the system's
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
    /// What kind of device it is.
    pub(crate) kind: wgpu::DeviceType,
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
        }
    }
}

/// The graphics adapters, best first, or why there are none.
#[cfg(feature = "wgpu")]
pub(crate) fn wgpu() -> Result<Vec<Adapter>, Rejected> {
    const PATIENCE: Duration = Duration::from_secs(10);
    let rejected = |reason: &str| Rejected {
        backend: Backend::Wgpu,
        reason: reason.to_owned(),
        advice: "install a Vulkan driver, or choose `--backend cpu`".to_owned(),
    };
    // In a thread of its own: a broken driver may hang or crash its caller.
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || sender.send(list_adapters()));
    let mut adapters = receiver.recv_timeout(PATIENCE).map_err(|_| rejected("the graphics driver does not answer"))?;
    if adapters.is_empty() {
        return Err(rejected("no graphics adapter answers"));
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
            let driver = format!("{} {}", info.driver, info.driver_info);
            Adapter { kind: info.device_type, name: info.name, driver: driver.trim().to_owned() }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cpu_is_always_there_and_last() {
        let probe = probe();
        assert_eq!(probe.devices.last().map(|device| device.backend), Some(Backend::Cpu));
        for backend in [Backend::Cuda, Backend::Wgpu] {
            let found = probe.devices.iter().any(|device| device.backend == backend);
            let rejected = probe.rejected.iter().any(|rejected| rejected.backend == backend);
            assert!(found != rejected, "{backend} is either found or rejected with a reason");
        }
    }
}
