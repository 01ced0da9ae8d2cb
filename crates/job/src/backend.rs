//! Where a job computes, and how that was decided.

use serde::{Deserialize, Serialize};

/// What the user asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum BackendChoice {
    /// The best that the machine has: CUDA, else a hardware GPU through wgpu, else the CPU.
    #[default]
    Auto,
    /// This one or an error.
    Only(Backend),
}

/// A way to compute.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Backend {
    /// An NVIDIA GPU.
    Cuda,
    /// A GPU through Vulkan, Metal or DX12.
    Wgpu,
    /// The processor.
    Cpu,
}

/// A device that a probe found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Device {
    /// The backend that reaches it.
    pub backend: Backend,
    /// Its index among the backend's devices.
    pub index: usize,
    /// Its name, as the driver gives it.
    pub name: String,
    /// The driver and its version; empty where there is none.
    pub driver: String,
    /// Whether it is a program that imitates a GPU (llvmpipe); `auto` does not choose those.
    pub software: bool,
}

/// What a machine has to compute on.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Probe {
    /// The devices found, best first.
    pub devices: Vec<Device>,
    /// The backends without a device, each with the reason.
    pub rejected: Vec<Rejected>,
}

/// A backend that cannot be used here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rejected {
    /// The backend.
    pub backend: Backend,
    /// Why not, as a phrase: "no NVIDIA driver answers".
    pub reason: String,
    /// What the user can do about it.
    pub advice: String,
}

impl Backend {
    /// Every backend, in `auto`'s order of preference.
    pub const ALL: [Self; 3] = [Self::Cuda, Self::Wgpu, Self::Cpu];

    /// Its name on the command line and in records.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cuda => "cuda",
            Self::Wgpu => "wgpu",
            Self::Cpu => "cpu",
        }
    }
}

impl std::fmt::Display for Backend {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

impl Probe {
    /// The device that `choice` means on this machine, or why there is none.
    pub fn choose(&self, choice: BackendChoice) -> Result<&Device, Rejected> {
        match choice {
            BackendChoice::Auto => self.devices.iter().find(|device| !device.software).ok_or_else(|| Rejected {
                backend: Backend::Cpu,
                reason: "this build has no backend".into(),
                advice: "build with the feature `cpu`, `wgpu` or `cuda`".into(),
            }),
            BackendChoice::Only(backend) => {
                self.devices.iter().find(|device| device.backend == backend).ok_or_else(|| {
                    self.rejected.iter().find(|rejected| rejected.backend == backend).cloned().unwrap_or_else(|| {
                        Rejected {
                            backend,
                            reason: format!("this build has no {backend} backend"),
                            advice: format!("build with the feature `{backend}`"),
                        }
                    })
                })
            }
        }
    }
}
