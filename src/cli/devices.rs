//! `sweep devices`.

use sweep_job::BackendChoice;

use super::print;
use crate::{
    device,
    error::{Error, Exit},
};

pub(super) fn devices() -> Result<Exit, Error> {
    let probe = device::probe()?;
    let chosen = probe.choose(BackendChoice::Auto).ok();
    let mut lines = Vec::new();
    for found in &probe.devices {
        let driver = if found.driver.is_empty() { String::new() } else { format!(", driver {}", found.driver) };
        let remark = match (chosen == Some(found), found.software) {
            (true, _) => "  (taken by `--backend auto`)".to_owned(),
            (_, true) => format!("  (imitated by software: only with `--backend {}`)", found.backend),
            _ => String::new(),
        };
        lines.push(format!("{:<5} {}{driver}{remark}", found.backend.name(), found.name));
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
