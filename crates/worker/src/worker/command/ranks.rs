//! The processes of a program that is started as several: their ranks, their rendezvous and their GPUs.

use std::{io, net::TcpListener, process};

use sweep_job::tasks::Launch;

/// The rendezvous of the processes of a job, on this machine.
pub(super) struct Ranks {
    launch: Launch,
    count: usize,
    port: u16,
    /// Threads of each.
    threads: usize,
    /// The GPUs of the job, as `CUDA_VISIBLE_DEVICES` names them.
    gpus: Vec<String>,
}

impl Ranks {
    /// Prepares `count` processes that share `threads` threads.
    pub(super) fn new(launch: Launch, count: usize, threads: usize) -> io::Result<Self> {
        // Free now: the first rank listens on it in a moment.
        let port = TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port();
        let gpus = std::env::var("CUDA_VISIBLE_DEVICES").unwrap_or_default();
        let gpus = gpus.split(',').map(str::trim).filter(|gpu| !gpu.is_empty()).map(str::to_owned).collect();
        Ok(Self { launch, count, port, threads: (threads / count.max(1)).max(1), gpus })
    }

    /// Sets the variables of a process, as `torchrun` names them.
    pub(super) fn describe(&self, rank: usize, program: &mut process::Command) {
        for name in ["SWEEP_RANK", "RANK", "LOCAL_RANK"] {
            program.env(name, rank.to_string());
        }
        for name in ["WORLD_SIZE", "LOCAL_WORLD_SIZE"] {
            program.env(name, self.count.to_string());
        }
        program.env("MASTER_ADDR", "127.0.0.1").env("MASTER_PORT", self.port.to_string());
        program.env("SWEEP_THREADS", self.threads.to_string());
        if std::env::var_os("OMP_NUM_THREADS").is_none() {
            program.env("OMP_NUM_THREADS", self.threads.to_string());
        }
        if self.launch == Launch::Processes && !self.gpus.is_empty() {
            program.env("CUDA_VISIBLE_DEVICES", self.gpus_of(rank).join(","));
        }
    }

    /// The GPUs of a process: an equal share.
    fn gpus_of(&self, rank: usize) -> &[String] {
        let start_of = |rank: usize| rank * self.gpus.len() / self.count.max(1);
        self.gpus.get(start_of(rank)..start_of(rank + 1)).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gpus_are_shared_out() {
        let ranks = |count, gpus: &[&str]| Ranks {
            launch: Launch::Processes,
            count,
            port: 1,
            threads: 1,
            gpus: gpus.iter().map(ToString::to_string).collect(),
        };
        let gpu_lists = |ranks: &Ranks| (0..ranks.count).map(|rank| ranks.gpus_of(rank).join(",")).collect::<Vec<_>>();
        assert_eq!(gpu_lists(&ranks(2, &["5", "7"])), ["5", "7"]);
        assert_eq!(gpu_lists(&ranks(2, &["0", "1", "2", "3"])), ["0,1", "2,3"]);
        assert_eq!(gpu_lists(&ranks(3, &["4"])), ["", "", "4"]);
    }
}
