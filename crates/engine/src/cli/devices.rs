//! `sweep devices`.

use clap::Args;
use serde::Serialize;
use sweep_job::{Backend, BackendChoice, Device, Probe, Rejected, Unit};

use super::{
    answer::{FormatArgs, answer},
    print,
};
use crate::{
    error::{Error, Exit},
    format::quantity,
    host,
};

#[derive(Debug, Args)]
pub(super) struct DevicesArgs {
    #[command(flatten)]
    format: FormatArgs,
}

/// The JSON output.
#[derive(Serialize)]
struct Found<'a> {
    devices: Vec<FoundDevice<'a>>,
    /// The backends without a device.
    rejected: &'a [Rejected],
}

/// A device, and its use by `auto`.
#[derive(Serialize)]
struct FoundDevice<'a> {
    #[serde(flatten)]
    device: &'a Device,
    /// True if `--backend auto` takes it.
    auto: bool,
    says: String,
}

pub(super) fn devices(args: &DevicesArgs) -> Result<Exit, Error> {
    let probe = host::devices::probe()?;
    let devices = found(&probe);
    if args.format.is_json() {
        answer(&Found { devices, rejected: &probe.rejected }, Vec::new())?;
    } else {
        print(&text(&devices, &probe.rejected))?;
    }
    Ok(Exit::Done)
}

fn found(probe: &Probe) -> Vec<FoundDevice<'_>> {
    let choice = probe.choose(BackendChoice::Auto).ok();
    let is_chosen = |device: &Device| {
        choice.as_ref().is_some_and(|choice| (choice.backend, choice.index) == (device.backend, device.index))
    };
    let is_backend = |backend| choice.as_ref().is_some_and(|choice| choice.backend == backend);
    let describe = |device: &Device| {
        if is_chosen(device) {
            "selected by `--backend auto`".to_owned()
        } else if device.software {
            format!("emulated in software, slower than the CPU backend: only with `--backend {}`", device.backend)
        } else if device.backend == Backend::Cuda && is_backend(device.backend) {
            "for jobs at the same time".to_owned()
        } else if is_backend(device.backend) {
            "not used: all jobs compute on the best device".to_owned()
        } else {
            format!("only with `--backend {}`", device.backend)
        }
    };
    let devices = probe.devices.iter();
    devices.map(|device| FoundDevice { device, auto: is_chosen(device), says: describe(device) }).collect()
}

fn text(devices: &[FoundDevice<'_>], rejections: &[Rejected]) -> String {
    let mut lines = Vec::new();
    for FoundDevice { device, says, .. } in devices {
        let mut facts = vec![device.name.clone()];
        if !device.driver.is_empty() {
            facts.push(format!("driver {}", device.driver));
        }
        facts.extend(device.memory.map(|bytes| quantity(bytes as f64, Unit::Bytes)));
        lines.push(format!("{:<5} {}  ({says})", device.backend.name(), facts.join(", ")));
    }
    for rejection in rejections {
        lines.push(format!("{:<5} none: {}; {}", rejection.backend.name(), rejection.reason, rejection.advice));
    }
    if lines.is_empty() {
        lines.push("this build has no lab, so it has no backend: build with the feature `cpu`".to_owned());
    }
    lines.join("\n") + "\n"
}
