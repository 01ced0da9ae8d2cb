//! Topics of the setup about machines, programs and the state of the code.

use std::collections::BTreeSet;

use sweep_job::{Backend, Unit};

use super::{Sources, Topic, digits, listed};
use crate::format::{clean, count, quantity};

impl Sources<'_> {
    pub(super) fn hardware(&self) -> Topic {
        let mut topic = Topic::new("hardware");
        let hosts: BTreeSet<&str> = self.provenances().map(|provenance| provenance.host.as_str()).collect();
        topic.lacks_for_imported("hardware", &self.imported);
        if hosts.is_empty() {
            if self.imported.is_empty() {
                topic.lacks("there are no records");
            }
            return topic;
        }
        let machines = self.values(|conditions| {
            let machine = &conditions.machine;
            let cpu = machine
                .cpu
                .as_deref()
                .map_or_else(|| "a processor of unknown model".to_owned(), |cpu| clean(cpu).into_owned());
            let cores = match machine.cores {
                Some(cores) if cores > machine.usable => format!("{} of {}", machine.usable, count(cores, "core")),
                _ => count(machine.usable, "core"),
            };
            let memory = machine
                .memory
                .map_or_else(String::new, |memory| format!(", {} of memory", quantity(memory as f64, Unit::Bytes)));
            let governor = machine
                .governor
                .as_deref()
                .map_or_else(String::new, |name| format!(", frequency governor {}", clean(name)));
            Some(format!("{cpu} ({cores}{memory}{governor})"))
        });
        let text = format!("The jobs ran on {}", count(hosts.len(), "machine"));
        topic.say(if machines.is_empty() {
            format!("{text}.")
        } else {
            format!("{text}: {}.", listed(machines.iter().map(String::as_str)))
        });
        let devices: BTreeSet<String> = self
            .provenances()
            .filter_map(|provenance| provenance.device.as_ref().filter(|device| device.backend != Backend::Cpu))
            .map(|device| {
                let memory = device
                    .memory
                    .map_or_else(String::new, |memory| format!(", {} of memory", quantity(memory as f64, Unit::Bytes)));
                let driver = if device.driver.is_empty() {
                    String::new()
                } else {
                    format!(", driver {}", clean(&device.driver))
                };
                format!("{} ({}{memory}{driver})", clean(&device.name), device.backend.name())
            })
            .collect();
        if !devices.is_empty() {
            topic.say(format!("They computed on {}.", listed(devices.iter().map(String::as_str))));
        }
        if machines.is_empty() {
            topic.lacks("processor, cores and memory");
        } else if self.conditions().any(|(_, conditions)| conditions.machine.governor.is_none()) {
            topic.lacks("frequency governor, which the system does not show");
        }
        topic
    }

    pub(super) fn software(&self) -> Topic {
        let mut topic = Topic::new("software");
        let versions: BTreeSet<&str> = self.provenances().map(|provenance| provenance.sweep.as_str()).collect();
        topic.lacks_for_imported("software", &self.imported);
        if versions.is_empty() {
            if self.imported.is_empty() {
                topic.lacks("there are no records");
            }
            return topic;
        }
        let programs = self.values(|conditions| conditions.run.program.as_deref().map(digits));
        let digest =
            if programs.is_empty() { String::new() } else { format!(" (build {})", listed(programs.iter().copied())) };
        topic.say(format!("They were run by sweep {}{digest}.", listed(versions.iter().copied())));
        let systems = self.values(|conditions| {
            let machine = &conditions.machine;
            let kernel =
                machine.kernel.as_deref().map_or_else(String::new, |kernel| format!(", kernel {}", clean(kernel)));
            Some(format!("{}{kernel}", clean(machine.os.as_deref()?)))
        });
        if systems.is_empty() {
            topic.lacks("operating system");
        } else {
            topic.say(format!("The operating system was {}.", listed(systems.iter().map(String::as_str))));
        }
        let pythons = self.values(|conditions| {
            let interpreter = conditions.interpreter.as_ref()?;
            let packages = interpreter
                .packages
                .as_deref()
                .map_or_else(String::new, |list| format!(" (packages of digest {})", digits(list)));
            Some(format!("{}{packages}", clean(interpreter.python.as_deref()?)))
        });
        if !pythons.is_empty() {
            topic.say(format!("Programs used Python {}.", listed(pythons.iter().map(String::as_str))));
        }
        let commands = self.records.iter().filter(|record| record.identity.task == "command").count();
        let known = self
            .conditions()
            .filter(|(_, conditions)| {
                conditions.interpreter.as_ref().is_some_and(|interpreter| interpreter.python.is_some())
            })
            .count();
        if commands > known {
            topic.lacks(format!("versions of the programs of {}", count(commands - known, "job")));
        }
        if programs.is_empty() {
            topic.lacks("digest of the program");
        }
        topic
    }

    pub(super) fn code(&self) -> Topic {
        let mut topic = Topic::new("state of the code");
        let states = self.values(|conditions| {
            let git = conditions.run.git.as_ref()?;
            let state = match (git.dirty, &git.diff) {
                (Some(false), _) => "without uncommitted changes".to_owned(),
                (_, Some(diff)) => format!(
                    "with uncommitted changes (digest of the differences {}, kept in the run's folder)",
                    digits(diff)
                ),
                (Some(true), None) => "with files that are not tracked".to_owned(),
                (None, None) => "with changes that are not known".to_owned(),
            };
            Some(format!("{} {state}", clean(digits(&git.commit))))
        });
        if !states.is_empty() {
            topic.say(format!("The recipe was at Git commit {}.", listed(states.iter().map(String::as_str))));
        }
        let unknown =
            self.records.len() - self.conditions().filter(|(_, conditions)| conditions.run.git.is_some()).count();
        topic.lacks_for_imported("code", &self.imported);
        if unknown > 0 || self.records.is_empty() && self.imported.is_empty() {
            topic.lacks(format!("commit for {}: no Git repository, or an earlier version", count(unknown, "record")));
        }
        topic
    }
}
