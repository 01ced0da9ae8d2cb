//! Checks of this machine.

use std::path::Path;

use super::Finding;
use crate::{
    format::{count, quantity},
    host::{
        devices,
        folder::{self, Folder},
        lab, machine, observation,
    },
    run::cluster::trial::on_path,
};
use sweep_job::Unit;

/// Checks the results folder; for jobs on this machine, also its resources and devices.
pub(super) fn examine(results: &Path, jobs_here: bool) -> Vec<Finding> {
    let mut findings = Vec::new();
    if jobs_here {
        findings.push(resources());
        findings.extend(gpus());
        findings.push(if on_path("python3") {
            Finding::good("python", "`python3` is on the PATH")
        } else {
            Finding::doubtful("python", "there is no `python3` on the PATH", "recipes whose steps start Python need it")
        });
        findings.extend([observation(), views()]);
    }
    findings.extend(folder::examine(&Folder {
        path: results,
        name: "results folder",
        unwritable: "choose a results folder that this user can write to (`--results`)",
        little_room: "remove unneeded records (`sweep cache gc`), or use another disk",
    }));
    findings
}

fn resources() -> Finding {
    let memory = quantity(machine::memory() as f64, Unit::Bytes);
    Finding::good("machine", format!("{}, {memory} of memory", count(machine::cpus(), "core")))
}

/// The observation of the files that programs read.
fn observation() -> Finding {
    if observation::check().is_ok() {
        return Finding::good("reads", "the kernel reports the files that programs read");
    }
    let help = "list the files that programs need in `inputs`: otherwise, only the files of Python are known; \
        containers need a profile that allows seccomp user notification (Linux 5.5)";
    Finding::doubtful("reads", "the kernel does not report the files that programs read", help)
}

/// The private views of projects.
fn views() -> Finding {
    let result = tempfile::tempdir().and_then(|place| sweep_observer::View::check(&place.path().join("check")));
    match result {
        Ok(()) => Finding::good("views", "programs can run in private views of their projects"),
        Err(error) => {
            let message = format!("programs cannot run in private views of their projects: {error}");
            let help = "a program with `project` writes to the project itself, and `code` and `outputs` in a project need a view; allow \
                        user namespaces";
            Finding::doubtful("views", message, help)
        }
    }
}

/// The devices of the lab, or, without the lab, the GPUs that programs can use.
fn gpus() -> Vec<Finding> {
    let nvidia = machine::nvidia_gpus().len();
    let mut findings = vec![Finding::good(
        "GPUs",
        match nvidia {
            0 => "no NVIDIA driver shows a GPU; programs run on the CPU".to_owned(),
            _ => format!("the driver shows {}", count(nvidia, "GPU")),
        },
    )];
    if lab::is_installed() {
        match devices::probe() {
            Ok(probe) => {
                let names: Vec<&str> = probe.devices.iter().map(|device| device.name.as_str()).collect();
                findings.push(Finding::good("devices", names.join(", ")));
                for rejection in &probe.rejected {
                    let message = format!("{}: {}", rejection.backend.name(), rejection.reason);
                    findings.push(Finding::doubtful("devices", message, &rejection.advice));
                }
            }
            Err(error) => {
                let help = "`sweep devices` shows more; `--backend cpu` needs no driver";
                findings.push(Finding::failed("devices", error.to_string(), help));
            }
        }
    }
    findings
}
