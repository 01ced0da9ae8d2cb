//! The concrete Burn backends, named here and nowhere else.
//!
//! Everything that computes is written once, generic over [`Compute`], and reached through `dispatch`. The eager types
//! are used: Burn's own `fusion` feature stays off, so that fusion can later be a choice per job.

use burn::backend::{Autodiff, Flex, autodiff::checkpoint::strategy::CheckpointStrategy};
use sweep_job::Backend;

use crate::{LabError, ops, prune::Selects};

/// What the lab needs to know about a Burn backend beyond its operations.
pub trait Compute: Selects {
    /// Whether an operation has finished when the call that starts it returns. Then single steps can be timed without
    /// waiting for the device.
    const SYNCHRONOUS: bool;
}

impl Compute for Flex {
    const SYNCHRONOUS: bool = true;
}

/// An NVIDIA GPU, through kernels that are compiled at run time.
#[cfg(feature = "cuda")]
type Cuda = burn_cubecl::CubeBackend<cubecl::cuda::CudaRuntime, f32, i32, u8>;

#[cfg(feature = "cuda")]
impl ops::Ops for Cuda {}

#[cfg(feature = "cuda")]
impl Selects for Cuda {}

#[cfg(feature = "cuda")]
impl Compute for Cuda {
    const SYNCHRONOUS: bool = false;
}

/// A GPU through Vulkan, Metal or DX12.
#[cfg(feature = "wgpu")]
type Wgpu = burn_cubecl::CubeBackend<cubecl::wgpu::WgpuRuntime, f32, i32, u32>;

#[cfg(feature = "wgpu")]
impl ops::Ops for Wgpu {}

#[cfg(feature = "wgpu")]
impl Selects for Wgpu {}

#[cfg(feature = "wgpu")]
impl Compute for Wgpu {
    const SYNCHRONOUS: bool = false;
}

impl<B: Selects, C: CheckpointStrategy> Selects for Autodiff<B, C> {}

impl<B: Compute, C: CheckpointStrategy> Compute for Autodiff<B, C> {
    const SYNCHRONOUS: bool = B::SYNCHRONOUS;
}

/// Work that runs on any backend.
pub(crate) trait Work {
    /// What it gives.
    type Output;
    /// Does the work on `device`.
    fn run<B: Compute>(self, device: &B::Device) -> Result<Self::Output, LabError>;
}

/// Does `work` on the first device of `backend`; an error in one sentence if there is none.
///
/// The backend is probed first, because the libraries below panic when the driver is missing.
pub(crate) fn dispatch<W: Work>(backend: Backend, work: W) -> Result<W::Output, LabError> {
    match backend {
        Backend::Cpu => {
            ops::compute_on_this_thread();
            work.run::<Flex>(&burn::backend::flex::FlexDevice)
        }
        #[cfg(feature = "cuda")]
        Backend::Cuda => {
            crate::probe::cuda().map_err(LabError::from)?;
            keep_tuning_out_of_the_way();
            work.run::<Cuda>(&cubecl::cuda::CudaDevice::new(0))
        }
        #[cfg(feature = "wgpu")]
        Backend::Wgpu => {
            let adapters = crate::probe::wgpu().map_err(LabError::from)?;
            keep_tuning_out_of_the_way();
            work.run::<Wgpu>(&wgpu_device(&adapters))
        }
        #[cfg(not(all(feature = "cuda", feature = "wgpu")))]
        absent => Err(crate::probe::not_built(absent).into()),
    }
}

/// The device that stands for the best of `adapters`, which are sorted, best first.
#[cfg(feature = "wgpu")]
fn wgpu_device(adapters: &[crate::probe::Adapter]) -> cubecl::wgpu::WgpuDevice {
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

/// Lets the kernel library keep what it learns about kernels in the user's cache folder. By default that goes to
/// `target` next to the nearest `Cargo.toml`; a `cubecl.toml` that says otherwise is respected.
#[cfg(any(feature = "cuda", feature = "wgpu"))]
fn keep_tuning_out_of_the_way() {
    use std::{env, path::PathBuf, sync::Once};

    use cubecl::config::{CubeClRuntimeConfig, RuntimeConfig as _, cache::CacheConfig};

    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let mut config = CubeClRuntimeConfig::from_current_dir().override_from_env();
        let cache = env::var_os("XDG_CACHE_HOME")
            .map(PathBuf::from)
            .or_else(|| env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache")));
        if let (CacheConfig::Target, Some(cache)) = (&config.autotune.cache, cache) {
            config.autotune.cache = CacheConfig::File(cache.join("sweep").join("kernels"));
        }
        CubeClRuntimeConfig::set(config);
    });
}
