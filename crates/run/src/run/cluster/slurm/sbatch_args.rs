//! The arguments of `sbatch` for a batch job.

use crate::{
    recipe::executor::slurm::SlurmRequest,
    run::cluster::{BatchId, BatchJob},
};

/// The arguments for a batch job; `asked` are the executor's settings for it.
pub(super) fn arguments(job: &BatchJob<'_>, asked: &SlurmRequest) -> Vec<String> {
    // In a file's name Slurm takes `%` for a pattern.
    let output = job.output.display().to_string().replace('%', "%%");
    let mut arguments = vec!["--comment".to_owned(), job.tag.clone()];
    arguments.extend(["--output".to_owned(), output]);
    arguments.extend(["--chdir".to_owned(), job.folder.display().to_string()]);
    // A node that dies takes its jobs with it, not the run: they are safe to start again.
    arguments.extend(["--open-mode=append", "--requeue"].map(str::to_owned));
    if !job.after.is_empty() {
        let ids: Vec<String> = job.after.iter().map(BatchId::to_string).collect();
        arguments.push(format!("--dependency=afterok:{}", ids.join(":")));
        arguments.push("--kill-on-invalid-dep=yes".to_owned());
    }
    arguments.extend(resources(job, asked));
    arguments
}

fn resources(job: &BatchJob<'_>, slurm_request: &SlurmRequest) -> Vec<String> {
    let request = &job.request;
    let (nodes, processes) = (request.nodes, request.processes);
    let mut arguments = vec![format!("--nodes={nodes}")];
    if processes > 1 || nodes > 1 {
        arguments.push(format!("--ntasks-per-node={processes}"));
    } else {
        arguments.push("--ntasks=1".to_owned());
    }
    arguments.push(format!("--cpus-per-task={}", (request.cpus / processes).max(1)));
    if let Some(memory) = request.memory {
        arguments.push(format!("--mem={}M", memory.div_ceil(1 << 20).max(1)));
    }
    match (&slurm_request.gres, request.gpus) {
        (Some(gres), _) => arguments.push(format!("--gres={gres}")),
        (None, 0) => {}
        (None, gpus) => arguments.push(format!("--gres=gpu:{gpus}")),
    }
    if request.exclusive {
        arguments.push("--exclusive".to_owned());
    }
    if let Some(time) = slurm_request.time.or(request.time) {
        arguments.push(format!("--time={}", time.as_secs().div_ceil(60).max(1)));
    }
    let options =
        [("partition", &slurm_request.partition), ("account", &slurm_request.account), ("qos", &slurm_request.qos)];
    let options = options.into_iter().filter_map(|(name, value)| Some(format!("--{name}={}", value.as_ref()?)));
    arguments.extend(options.chain(slurm_request.options.iter().cloned()));
    arguments
}
