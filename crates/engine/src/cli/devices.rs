//! `sweep devices`.

use sweep_job::{Backend, BackendChoice, Device, Unit};

use super::print;
use crate::{
    error::{Error, Exit},
    format::quantity,
    host,
};

pub(super) fn devices() -> Result<Exit, Error> {
    let probe = host::devices::probe()?;
    let chosen = probe.choose(BackendChoice::Auto).ok();
    let is_chosen = |found: &Device| {
        chosen.as_ref().is_some_and(|chosen| (chosen.backend, chosen.index) == (found.backend, found.index))
    };
    let is_backend = |backend| chosen.as_ref().is_some_and(|chosen| chosen.backend == backend);
    let mut lines = Vec::new();
    for found in &probe.devices {
        let mut facts = vec![found.name.clone()];
        if !found.driver.is_empty() {
            facts.push(format!("driver {}", found.driver));
        }
        facts.extend(found.memory.map(|bytes| quantity(bytes as f64, Unit::Bytes)));
        let remark = if is_chosen(found) {
            "taken by `--backend auto`".to_owned()
        } else if found.software {
            format!("imitated by software, slower than the CPU backend: only with `--backend {}`", found.backend)
        } else if found.backend == Backend::Cuda && is_backend(found.backend) {
            "for jobs at the same time".to_owned()
        } else if is_backend(found.backend) {
            "not used: all jobs compute on the best one".to_owned()
        } else {
            format!("only with `--backend {}`", found.backend)
        };
        lines.push(format!("{:<5} {}  ({remark})", found.backend.name(), facts.join(", ")));
    }
    for rejected in &probe.rejected {
        lines.push(format!("{:<5} none: {}; {}", rejected.backend.name(), rejected.reason, rejected.advice));
    }
    if lines.is_empty() {
        lines.push("this build has no lab, so it computes on nothing: build with the feature `cpu`".to_owned());
    }
    print(&(lines.join("\n") + "\n"))?;
    Ok(Exit::Done)
}
