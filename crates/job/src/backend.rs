//! The backend and device of a job, and their selection.

use serde::{Deserialize, Serialize};

/// The user's choice of backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum BackendChoice {
    /// The best backend of the machine: CUDA, else a hardware GPU through wgpu, else the CPU.
    #[default]
    Auto,
    /// This backend, or an error.
    Only(Backend),
}

/// The software that computes.
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
    /// The device's name, as the driver reports it.
    pub name: String,
    /// The driver and its version; empty without a driver.
    pub driver: String,
    /// True for a software implementation of a GPU (such as llvmpipe), which `auto` does not choose.
    pub software: bool,
    /// Its memory in bytes; for the CPU, the memory of the machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<u64>,
    /// The reason why it was chosen, as a phrase; absent before that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chosen: Option<String>,
}

/// The devices of a machine.
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
    /// The reason, as a phrase: "no NVIDIA driver answers".
    pub reason: String,
    /// The remedy, as a phrase.
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
    /// Returns the device for `choice` on this machine with the reason, or the reason why no device fits.
    pub fn choose(&self, choice: BackendChoice) -> Result<Device, Rejected> {
        match choice {
            BackendChoice::Auto => {
                let device = self.devices.iter().find(|device| !device.software).cloned().ok_or_else(|| Rejected {
                    backend: Backend::Cpu,
                    reason: "this build has no backend".into(),
                    advice: "build with the feature `cpu`, `wgpu` or `cuda`".into(),
                })?;
                let mut better = self.passed_over(device.backend);
                better.insert(0, format!("`--backend auto` takes {}", preference(device.backend)));
                Ok(Device { chosen: Some(better.join("; ")), ..device })
            }
            BackendChoice::Only(backend) => {
                let device =
                    self.devices.iter().find(|device| device.backend == backend).cloned().ok_or_else(|| {
                        self.rejected.iter().find(|rejected| rejected.backend == backend).cloned().unwrap_or_else(
                            || Rejected {
                                backend,
                                reason: format!("this build has no {backend} backend"),
                                advice: format!("build with the feature `{backend}`"),
                            },
                        )
                    })?;
                Ok(Device { chosen: Some(format!("requested with `--backend {backend}`")), ..device })
            }
        }
    }

    /// The reasons why the backends that `auto` prefers to `chosen` were not chosen, each as a phrase.
    pub fn passed_over(&self, chosen: Backend) -> Vec<String> {
        let preferred = Backend::ALL.into_iter().take_while(|backend| *backend != chosen);
        let reason = |backend: Backend| {
            let rejected = self.rejected.iter().find(|rejected| rejected.backend == backend);
            let imitated = self.devices.iter().find(|device| device.backend == backend && device.software);
            match (rejected, imitated) {
                (Some(rejected), _) => Some(rejected.reason.clone()),
                (None, Some(device)) => Some(format!("{backend} only in software ({})", device.name)),
                (None, None) => None,
            }
        };
        preferred.filter_map(reason).collect()
    }
}

/// Returns the reason for which `auto` chooses a backend.
const fn preference(backend: Backend) -> &'static str {
    match backend {
        Backend::Cuda => "an NVIDIA GPU first",
        Backend::Wgpu => "a hardware GPU before the CPU",
        Backend::Cpu => "the CPU where there is no GPU",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device(backend: Backend, software: bool) -> Device {
        Device {
            backend,
            index: 0,
            name: if software { "llvmpipe" } else { "real" }.into(),
            driver: String::new(),
            software,
            memory: None,
            chosen: None,
        }
    }

    #[test]
    fn auto_takes_the_best_that_is_no_imitation_and_says_why() {
        let none =
            Rejected { backend: Backend::Cuda, reason: "no NVIDIA driver responds".into(), advice: String::new() };
        let only_software = Probe {
            devices: vec![device(Backend::Wgpu, true), device(Backend::Cpu, false)],
            rejected: vec![none.clone()],
        };
        let chosen = only_software.choose(BackendChoice::Auto).unwrap();
        assert_eq!(chosen.backend, Backend::Cpu);
        assert_eq!(
            chosen.chosen.as_deref(),
            Some(
                "`--backend auto` takes the CPU where there is no GPU; no NVIDIA driver responds; wgpu only in \
                 software (llvmpipe)"
            )
        );
        let by_name = only_software.choose(BackendChoice::Only(Backend::Wgpu)).unwrap();
        assert_eq!(by_name.chosen.as_deref(), Some("requested with `--backend wgpu`"));
        assert_eq!(only_software.choose(BackendChoice::Only(Backend::Cuda)).unwrap_err(), none);

        let hardware =
            Probe { devices: vec![device(Backend::Wgpu, false), device(Backend::Cpu, false)], rejected: vec![none] };
        assert_eq!(hardware.choose(BackendChoice::Auto).unwrap().backend, Backend::Wgpu);
        let all = Backend::ALL.map(|backend| device(backend, false)).to_vec();
        assert_eq!(
            Probe { devices: all, rejected: vec![] }.choose(BackendChoice::Auto).unwrap().backend,
            Backend::Cuda
        );
    }
}
