//! The concrete Burn backends, which only this file names.
//!
//! All computations are written once, generic over [`Compute`], and reached through `dispatch`. Burn's own `fusion`
//! feature is disabled, because it makes every type a fusing one: here each backend exists both as it is and inside
//! `Fusion`, so that fusion is a parameter of the job.
//!
//! The unit tests of this package compute on the CPU: every further backend means that all computations are compiled
//! once more, which takes minutes. The tests in `tests/` have all backends.
//!
//! `auto` selects CUDA if a driver responds, else a hardware adapter that wgpu finds, else the CPU. A software adapter has to
//! be requested by name, because it is slower than the CPU backend.

pub(crate) mod probe;
pub(crate) mod profiled;

use burn::backend::{Autodiff, Flex, autodiff::checkpoint::strategy::CheckpointStrategy};
#[cfg(all(any(feature = "cuda", feature = "wgpu"), not(test)))]
use burn::tensor::Tensor;
#[cfg(all(any(feature = "cuda", feature = "wgpu"), not(test)))]
use sweep_job::tasks::{MaskFormat, Prune, ThresholdSearch};
use sweep_job::{
    Backend, Job,
    tasks::{Autotune, Computing, TuningCache},
};

use crate::{LabError, ops, prune::Selects};
#[cfg(all(any(feature = "cuda", feature = "wgpu"), not(test)))]
use crate::{
    prune::{DeviceSelect, Inputs, Masks, Moments, Select, gpu},
    selection::Found,
};

/// Requirements of the lab on a Burn backend beyond its operations.
pub trait Compute: Selects {
    /// True if an operation has finished when the call that starts it returns. Then single steps can be timed without
    /// waiting for the device.
    const SYNCHRONOUS: bool;

    /// The backend, as recipes name it.
    const BACKEND: Backend;

    /// Memory that the device's allocator has handed out; `None` if Burn has no allocator for the device. Does not wait for the device.
    fn device_memory(_device: &Self::Device) -> Option<DeviceMemory> {
        None
    }

    /// Executes the queued operations without waiting for them, so that later operations are not fused with them. Does
    /// nothing on backends that do not fuse.
    fn flush(_device: &Self::Device) {}

    /// Bytes that a single tensor can have: drivers limit how much a kernel may be given at once.
    fn largest_tensor(_device: &Self::Device) -> usize {
        usize::MAX
    }
}

/// Memory that a device's allocator has given out, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeviceMemory {
    /// In tensors.
    pub in_use: u64,
    /// Taken from the driver.
    pub reserved: u64,
}

impl Compute for Flex {
    const SYNCHRONOUS: bool = true;
    const BACKEND: Backend = Backend::Cpu;
}

/// An NVIDIA GPU, through kernels that are compiled at run time.
#[cfg(all(feature = "cuda", not(test)))]
type Cuda = burn_cubecl::CubeBackend<cubecl::cuda::CudaRuntime, f32, i32, u8>;

/// A GPU through Vulkan, Metal or DX12.
#[cfg(all(feature = "wgpu", not(test)))]
type Wgpu = burn_cubecl::CubeBackend<cubecl::wgpu::WgpuRuntime, f32, i32, u32>;

/// Implementation of `Selects` on a GPU.
#[cfg(all(any(feature = "cuda", feature = "wgpu"), not(test)))]
macro_rules! kernels {
    () => {
        fn selector(settings: &Prune) -> Box<dyn Select<Self>> {
            DeviceSelect::selector(settings)
        }

        fn masks(format: Option<MaskFormat>, _: &[Inputs<Self>]) -> Option<Masks<Self>> {
            gpu::masks(format)
        }

        fn stream(
            inputs: &[Inputs<Self>],
            settings: Option<&Prune>,
            method: ThresholdSearch,
            k: usize,
            seed: u64,
            masks: &mut Masks<Self>,
        ) -> Option<Result<Found, LabError>> {
            gpu::stream(inputs, settings, method, k, seed, masks)
        }

        fn stream_floor(inputs: &[Inputs<Self>], settings: Option<&Prune>, _: &mut Masks<Self>) -> Option<()> {
            gpu::stream_floor(inputs, settings);
            Some(())
        }
    };
}

/// A backend without and with `Fusion`.
#[cfg(all(any(feature = "cuda", feature = "wgpu"), not(test)))]
macro_rules! gpu {
    ($backend:ty, $runtime:ty, $name:path) => {
        impl ops::Ops for $backend {
            fn adamw_step(
                step: &ops::AdamWStep<Self>,
                parameter: ops::Parameter<'_, Self>,
            ) -> (Tensor<Self, 1>, ops::AdamWState<Self>) {
                if step.fused == Some(true) {
                    ops::cube::fused_adamw_step::<Self, burn_fusion::Fusion<$backend>>(step, parameter)
                } else {
                    ops::cube::adamw_step(step, parameter)
                }
            }
        }

        impl Selects for $backend {
            kernels!();

            fn fused_scores(
                settings: &Prune,
                weights: Tensor<Self, 1>,
                moments: Option<Moments<Self>>,
                origin: Option<Tensor<Self, 1>>,
            ) -> Tensor<Self, 1> {
                gpu::fused_scores::<Self, burn_fusion::Fusion<$backend>>(settings, weights, moments, origin)
            }
        }

        impl Compute for $backend {
            const SYNCHRONOUS: bool = false;
            const BACKEND: Backend = $name;

            fn device_memory(device: &Self::Device) -> Option<DeviceMemory> {
                allocated::<$runtime>(device)
            }

            fn largest_tensor(device: &Self::Device) -> usize {
                largest_page::<$runtime>(device)
            }
        }

        impl ops::Ops for burn_fusion::Fusion<$backend> {
            fn adamw_step(
                step: &ops::AdamWStep<Self>,
                parameter: ops::Parameter<'_, Self>,
            ) -> (Tensor<Self, 1>, ops::AdamWState<Self>) {
                if step.fused == Some(false) {
                    ops::cube::adamw_step(step, parameter)
                } else {
                    ops::plain::adamw_step(step, parameter)
                }
            }
        }

        impl Selects for burn_fusion::Fusion<$backend> {
            kernels!();
        }

        impl Compute for burn_fusion::Fusion<$backend> {
            const SYNCHRONOUS: bool = false;
            const BACKEND: Backend = $name;

            fn flush(device: &Self::Device) {
                burn_fusion::get_client::<$backend>(device).sync(|| ());
            }

            fn device_memory(device: &Self::Device) -> Option<DeviceMemory> {
                allocated::<$runtime>(device)
            }

            fn largest_tensor(device: &Self::Device) -> usize {
                largest_page::<$runtime>(device)
            }
        }
    };
}

#[cfg(all(feature = "cuda", not(test)))]
gpu!(Cuda, cubecl::cuda::CudaRuntime, Backend::Cuda);

#[cfg(all(feature = "wgpu", not(test)))]
gpu!(Wgpu, cubecl::wgpu::WgpuRuntime, Backend::Wgpu);

#[cfg(all(any(feature = "cuda", feature = "wgpu"), not(test)))]
fn largest_page<R: cubecl::Runtime>(device: &R::Device) -> usize {
    usize::try_from(R::client(device).properties().memory.max_page_size).unwrap_or(usize::MAX)
}

#[cfg(all(any(feature = "cuda", feature = "wgpu"), not(test)))]
fn allocated<R: cubecl::Runtime>(device: &R::Device) -> Option<DeviceMemory> {
    let usage = R::client(device).memory_usage().ok()?;
    Some(DeviceMemory { in_use: usage.bytes_in_use, reserved: usage.bytes_reserved })
}

impl<B: Selects, C: CheckpointStrategy> Selects for Autodiff<B, C> {}

impl<B: Compute, C: CheckpointStrategy> Compute for Autodiff<B, C> {
    const SYNCHRONOUS: bool = B::SYNCHRONOUS;
    const BACKEND: Backend = B::BACKEND;
}

/// Waits until the device has finished all queued work.
pub(crate) fn sync<B: Compute>(device: &B::Device) -> Result<(), LabError> {
    Ok(B::sync(device)?)
}

/// Work that runs on any backend.
pub trait BackendTask {
    /// Result type.
    type Output;
    /// Does the work on `device`.
    fn run<B: Compute>(self, device: &B::Device) -> Result<Self::Output, LabError>;
}

/// `B` with gradients.
pub type Trained<B> = Autodiff<B>;

/// Does `work` on the first device of the job's backend, without fusion; returns an error of one sentence if the backend has no
/// device.
pub fn compute<W: BackendTask>(job: &Job, work: W) -> Result<W::Output, LabError> {
    dispatch_eager(job.backend.unwrap_or(Backend::Cpu), work)
}

/// Backend and settings with which a job computes.
#[derive(Debug, Clone, Copy)]
#[cfg_attr(
    any(test, not(any(feature = "cuda", feature = "wgpu"))),
    expect(dead_code, reason = "only GPUs have kernels to fuse and to choose among")
)]
pub(crate) struct ExecutionTarget {
    backend: Backend,
    fusion: bool,
    autotune: Autotune,
    cache: TuningCache,
}

impl ExecutionTarget {
    /// Returns the target on `backend` with the settings of `computing`.
    pub(crate) fn new(backend: Backend, computing: &Computing) -> Self {
        let Computing { fusion, autotune, autotune_cache, .. } = *computing;
        Self { backend, fusion: fusion.fuses_network(), autotune, cache: autotune_cache }
    }
}

impl From<Backend> for ExecutionTarget {
    fn from(backend: Backend) -> Self {
        Self::new(backend, &Computing::default())
    }
}

/// Does `work` on the first device of a backend; returns an error of one sentence if the backend has no device.
///
/// The backend is probed first, because the libraries below panic when the driver is missing.
pub(crate) fn dispatch<W: BackendTask>(place: ExecutionTarget, work: W) -> Result<W::Output, LabError> {
    match place {
        #[cfg(all(feature = "cuda", not(test)))]
        ExecutionTarget { backend: Backend::Cuda, fusion: true, .. } => {
            work.run::<burn_fusion::Fusion<Cuda>>(&cuda_device(place)?)
        }
        #[cfg(all(feature = "wgpu", not(test)))]
        ExecutionTarget { backend: Backend::Wgpu, fusion: true, .. } => {
            work.run::<burn_fusion::Fusion<Wgpu>>(&wgpu_device(place)?)
        }
        target => dispatch_eager(target, work),
    }
}

/// Does `work` like [`dispatch`], without fusion. It is a separate function because every further type of backend costs
/// minutes of compilation.
pub(crate) fn dispatch_eager<W: BackendTask>(
    place: impl Into<ExecutionTarget>,
    work: W,
) -> Result<W::Output, LabError> {
    let place = place.into();
    match place.backend {
        Backend::Cpu => {
            ops::compute_on_this_thread();
            work.run::<Flex>(&burn::backend::flex::FlexDevice)
        }
        #[cfg(all(feature = "cuda", not(test)))]
        Backend::Cuda => work.run::<Cuda>(&cuda_device(place)?),
        #[cfg(all(feature = "wgpu", not(test)))]
        Backend::Wgpu => work.run::<Wgpu>(&wgpu_device(place)?),
        #[cfg(any(test, not(all(feature = "cuda", feature = "wgpu"))))]
        backend => Err(probe::not_built(backend).into()),
    }
}

/// Does `work` like [`dispatch_eager`], and records every operation for a profile.
pub(crate) fn dispatch_profiled<W: BackendTask>(backend: Backend, work: W) -> Result<W::Output, LabError> {
    match backend {
        Backend::Cpu => {
            ops::compute_on_this_thread();
            work.run::<profiled::Profiled<Flex>>(&burn::backend::flex::FlexDevice)
        }
        #[cfg(all(feature = "cuda", not(test)))]
        Backend::Cuda => work.run::<profiled::Profiled<Cuda>>(&cuda_device(backend.into())?),
        #[cfg(all(feature = "wgpu", not(test)))]
        Backend::Wgpu => work.run::<profiled::Profiled<Wgpu>>(&wgpu_device(backend.into())?),
        #[cfg(any(test, not(all(feature = "cuda", feature = "wgpu"))))]
        backend => Err(probe::not_built(backend).into()),
    }
}

/// Returns the first CUDA device, configured for `place`.
#[cfg(all(feature = "cuda", not(test)))]
fn cuda_device(place: ExecutionTarget) -> Result<cubecl::cuda::CudaDevice, LabError> {
    probe::cuda().map_err(LabError::from)?;
    configure(place);
    Ok(cubecl::cuda::CudaDevice::new(0))
}

/// Returns the best adapter, configured for `place`.
#[cfg(all(feature = "wgpu", not(test)))]
fn wgpu_device(place: ExecutionTarget) -> Result<cubecl::wgpu::WgpuDevice, LabError> {
    let adapters = probe::wgpu().map_err(LabError::from)?;
    configure(place);
    Ok(best(&adapters))
}

/// The device for the best of `adapters`, which are sorted, best first.
#[cfg(all(feature = "wgpu", not(test)))]
fn best(adapters: &[probe::Adapter]) -> cubecl::wgpu::WgpuDevice {
    use cubecl::wgpu::WgpuDevice;
    use wgpu::DeviceType;
    match adapters.first().map(|adapter| adapter.kind) {
        Some(DeviceType::DiscreteGpu) => WgpuDevice::DiscreteGpu(0),
        Some(DeviceType::IntegratedGpu) => WgpuDevice::IntegratedGpu(0),
        Some(DeviceType::VirtualGpu) => WgpuDevice::VirtualGpu(0),
        Some(DeviceType::Cpu) => WgpuDevice::Cpu,
        Some(DeviceType::Other) | None => WgpuDevice::DefaultDevice,
    }
}

/// Configures how many kernels the kernel library times, and makes it keep the results in the user's cache folder. By
/// default the cache is in `target` next to the nearest `Cargo.toml`; another folder in a `cubecl.toml` is respected.
///
/// The settings are the process's, so the first job of a process decides.
#[cfg(all(any(feature = "cuda", feature = "wgpu"), not(test)))]
fn configure(place: ExecutionTarget) {
    use std::{env, path::PathBuf, sync::Once};

    use cubecl::config::{CubeClRuntimeConfig, RuntimeConfig as _, autotune::AutotuneLevel, cache::CacheConfig};

    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let mut config = CubeClRuntimeConfig::from_current_dir().override_from_env();
        config.autotune.level = match place.autotune {
            Autotune::Minimal => AutotuneLevel::Minimal,
            Autotune::Balanced => AutotuneLevel::Balanced,
            Autotune::Extensive => AutotuneLevel::Extensive,
            Autotune::Full => AutotuneLevel::Full,
        };
        let home = env::var_os("XDG_CACHE_HOME")
            .map(PathBuf::from)
            .or_else(|| env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache")));
        let folder = match place.cache {
            TuningCache::Cold => Some(env::temp_dir().join(format!("sweep-kernels-{}", std::process::id()))),
            TuningCache::Warm => home.map(|home| home.join("sweep").join("kernels")),
        };
        let is_default = matches!(config.autotune.cache, CacheConfig::Target);
        if let Some(folder) = folder.filter(|_| is_default || place.cache == TuningCache::Cold) {
            config.autotune.cache = CacheConfig::File(folder);
        }
        CubeClRuntimeConfig::set(config);
    });
}
