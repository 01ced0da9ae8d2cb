//! Checks of hosts for `sweep doctor`: the login, the program, the clock, the folder, GPUs, and results that wait there.

use std::thread;

use sweep_job::Unit;

use super::operations::connect_and_probe;
use crate::{
    format::{count, quantity},
    host::finding::Finding,
    hosts::{Probe, SpoolState},
    recipe::executor::ssh::SshHost,
    store::Store,
};

/// Difference of two clocks above which times of records are misleading, in seconds.
const SKEW: f64 = 2.0;

/// Checks all hosts at once, for jobs with `gpus` GPUs. The names of findings begin with the name of the host.
pub(super) fn examine(store: &Store, hosts: &[SshHost], gpus: usize) -> Vec<Finding> {
    let checked = thread::scope(|scope| {
        let checks: Vec<_> = hosts.iter().map(|host| scope.spawn(move || of_host(store, host, gpus))).collect();
        checks.into_iter().map(thread::ScopedJoinHandle::join).collect::<Vec<_>>()
    });
    let named = hosts.iter().zip(checked).flat_map(|(host, findings)| {
        let name = host.host.clone();
        findings.unwrap_or_default().into_iter().map(move |finding| {
            let full_name = if finding.name.is_empty() { name.clone() } else { format!("{name}: {}", finding.name) };
            Finding { name: full_name, help: finding.help.replace("HOST", &name), ..finding }
        })
    });
    named.collect()
}

fn of_host(store: &Store, host: &SshHost, gpus: usize) -> Vec<Finding> {
    let (connection, probe) = match connect_and_probe(store, host) {
        Ok(Ok(connected)) => connected,
        Ok(Err(error)) => {
            let help = "until then, the other hosts do its work";
            return vec![Finding::failed("", error.to_string(), help)];
        }
        Err(error) => {
            let help = "choose a results folder that this user can write to (`--results`)";
            return vec![Finding::failed("", error.to_string(), help)];
        }
    };
    let mut findings = vec![machine(&probe), clock(&probe), of_gpus(host, &probe, gpus)];
    match connection.examine() {
        Ok(host_findings) => findings.extend(host_findings),
        Err(error) => findings.push(Finding::failed("folder", error.to_string(), "run `sweep doctor` again")),
    }
    findings.push(spool(&probe));
    findings
}

/// Describes the machine of a host on which the program runs.
fn machine(probe: &Probe) -> Finding {
    let Probe { version, cpus, memory, system, workdir, .. } = probe;
    let memory = quantity(*memory as f64, Unit::Bytes);
    let (cores, workdir) = (count(*cpus, "core"), workdir.display());
    Finding::good("", format!("version {version} runs there, in {workdir}: {cores}, {memory} of memory, {system}"))
}

fn clock(probe: &Probe) -> Finding {
    let (skew, side) = (probe.skew.abs(), if probe.skew > 0.0 { "ahead of" } else { "behind" });
    if skew > SKEW {
        let says = format!("it is {skew:.0} s {side} that of this machine");
        Finding::doubtful("clock", says, "synchronize the clocks (NTP); times of records would mislead")
    } else {
        Finding::good("clock", "it agrees with that of this machine")
    }
}

fn of_gpus(host: &SshHost, probe: &Probe, gpus: usize) -> Finding {
    let gpus_seen = probe.gpus.len();
    let names = if probe.gpu_names.is_empty() { String::new() } else { format!(": {}", probe.gpu_names.join(", ")) };
    let says = format!("it shows {}{names}", count(gpus_seen, "GPU"));
    let gpus_declared = host.gpus.unwrap_or(0);
    if gpus_declared > gpus_seen {
        let help = "correct `gpus` of the host, or install the driver there (`ssh HOST nvidia-smi`)";
        Finding::failed("GPUs", format!("{says}, and {gpus_declared} are declared"), help)
    } else if gpus > gpus_seen {
        let help = "jobs with more GPUs run on other hosts; the driver must be installed (`ssh HOST nvidia-smi`)";
        Finding::doubtful("GPUs", format!("{says}, and {gpus} were requested"), help)
    } else {
        Finding::good("GPUs", says)
    }
}

/// The results on a host that wait for the next run.
fn spool(probe: &Probe) -> Finding {
    let number = |state: SpoolState| probe.jobs.iter().filter(|job| job.state == state).count();
    let (running, recorded) = (number(SpoolState::Running), number(SpoolState::Recorded));
    let says = format!("{} of this store on it, {} not fetched yet", count(running, "job"), count(recorded, "result"));
    if running + recorded > 0 {
        let help = "the next run with this host takes over the jobs; `sweep hosts cancel` ends them";
        return Finding { help: help.to_owned(), ..Finding::good("spool", says) };
    }
    Finding::good("spool", says)
}
