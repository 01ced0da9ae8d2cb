//! Ray, through its Jobs API. Results come through the shared results folder.

mod api;
#[cfg(feature = "remote")]
mod client;
#[cfg(not(feature = "remote"))]
#[path = "absent.rs"]
mod client;

use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use fs_err as fs;
use serde_json::{Map, Value, json};

use self::{
    api::{ApiError, JobDetails},
    client::{Api, MISSING},
};
use super::{
    Allocated, BatchId, BatchJob, CancelScope, Cluster, EndCause, Ending, Opening, QueuedJob, QueuedState, Refusal,
    job_tag, script,
};
use crate::{
    format::quoted_path,
    host::finding::Finding,
    recipe::executor::ray::{Ray, check_address},
};

/// The address of a cluster on this machine.
const LOCAL: &str = "http://127.0.0.1:8265";

/// Timeout for the first response of the cluster.
const FIRST_ANSWER: Duration = Duration::from_mins(10);

/// A Ray cluster, as far as the jobs of one store are concerned.
#[derive(Debug)]
pub(super) struct RayJobs {
    opening: Opening,
    settings: Ray,
    address: String,
    /// Reason why the address cannot be used.
    unusable: Option<String>,
    api: Api,
    /// The jobs of the last poll, by their identifiers.
    known: Mutex<BTreeMap<String, JobDetails>>,
}

impl RayJobs {
    /// The cluster at the address of the settings, of the environment, or of the latest run of the store.
    pub(super) fn new(opening: Opening, settings: Ray) -> Self {
        let variable = |name: &str| std::env::var(name).ok().filter(|text| !text.is_empty());
        let address_given = settings.address.clone().or_else(|| variable("RAY_API_SERVER_ADDRESS"));
        let address_given = address_given.or_else(|| variable("RAY_ADDRESS"));
        let kept_address = || fs::read_to_string(kept(&opening)).ok().map(|text| text.trim().to_owned());
        let address = address_given.or_else(kept_address).unwrap_or_else(|| LOCAL.to_owned());
        let help = "write the address of the Jobs API, for example `http://127.0.0.1:8265`";
        let unusable = check_address(&address).err();
        let unusable = unusable.map(|why| format!("the address {address:?} cannot be used: {why}; {help}"));
        let unusable = MISSING.map(str::to_owned).or(unusable);
        Self { api: Api::new(&address), opening, settings, address, unusable, known: Mutex::default() }
    }

    fn known(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, JobDetails>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The request for a job.
    fn request(&self, job: &BatchJob<'_>, label: &str) -> std::io::Result<Map<String, Value>> {
        let (script, _) = script::write(job)?;
        let mut request = Map::new();
        let mut set = |name: &str, value: Value| drop(request.insert(name.to_owned(), value));
        // Ray's own log of the job is on the machine that runs it.
        set("entrypoint", json!(format!("exec /bin/sh {} >>{} 2>&1", quoted_path(&script), quoted_path(&job.output))));
        set("submission_id", json!(label));
        set("metadata", json!({ "job_submission_id": label, "sweep": job.tag }));
        set("entrypoint_num_cpus", json!(job.request.cpus));
        if job.request.gpus > 0 {
            let share = job.request.gpu_share.map(|thousandths| f64::from(thousandths) / 1000.0);
            set("entrypoint_num_gpus", share.map_or_else(|| json!(job.request.gpus), |share| json!(share)));
        }
        if let Some(memory) = job.request.memory {
            set("entrypoint_memory", json!(memory));
        }
        let resources = self.settings.of_step(job.step);
        if !resources.is_empty() {
            set("entrypoint_resources", json!(resources));
        }
        Ok(request)
    }
}

/// The file with the address of the latest run, so that other commands find the cluster.
fn kept(opening: &Opening) -> PathBuf {
    opening.results.join("ray").join("address")
}

impl Cluster for RayJobs {
    fn system(&self) -> &'static str {
        "Ray"
    }

    fn unavailable(&self) -> Option<&str> {
        self.unusable.as_deref()
    }

    /// The script of a job names its resources for every system.
    fn allocated(&self) -> Option<Allocated> {
        script::allocated()
    }

    fn jobs_name(&self) -> &str {
        &self.opening.jobs_name
    }

    fn cancel_command(&self) -> String {
        let known = self.known();
        let live_jobs = known.iter().filter(|(_, job)| ["PENDING", "RUNNING"].contains(&job.status.as_str()));
        let stop = live_jobs.map(|(id, _)| format!("ray job stop --no-wait --address {} {id}", self.address));
        stop.collect::<Vec<_>>().join("; ")
    }

    fn keeps_dependencies(&self) -> bool {
        false
    }

    fn first_answer_within(&self) -> Option<Duration> {
        Some(self.settings.answers_within.unwrap_or(FIRST_ANSWER))
    }

    fn submit(&self, job: &BatchJob<'_>) -> Result<BatchId, Refusal> {
        let label = job_tag::label(&self.opening.jobs_name, &job.tag);
        let path = kept(&self.opening);
        let keep = || {
            if let Some(folder) = path.parent() {
                fs::create_dir_all(folder)?;
            }
            fs::write(&path, &self.address)
        };
        let request = keep().and_then(|()| self.request(job, &label));
        let request = request.map_err(|error| Refusal::No(error.to_string()))?;
        match self.api.submit(&request) {
            // An earlier request has arrived, although its response was lost.
            Err(ApiError::Refused(text)) if text.contains("already exists") => Ok(BatchId::from(label)),
            Ok(()) => Ok(BatchId::from(label)),
            Err(ApiError::Unreachable(text)) => Err(Refusal::Unreachable(text)),
            Err(ApiError::Refused(text)) => Err(Refusal::No(text)),
        }
    }

    fn poll(&self) -> Result<Vec<QueuedJob>, String> {
        let jobs = self.api.jobs().map_err(ApiError::into_text)?;
        let (mut queue, mut known) = (Vec::new(), BTreeMap::new());
        for job in jobs {
            let Some(label) = job.submission_id.clone() else { continue };
            let Some(tag) = job_tag::tag_in(&self.opening.jobs_name, &label) else { continue };
            let state = match job.status.as_str() {
                "PENDING" => QueuedState::Pending,
                "SUCCEEDED" => QueuedState::Completed,
                "STOPPED" => QueuedState::Canceled,
                "FAILED" => QueuedState::Failed(job.status.clone()),
                // States of later versions of Ray.
                _ => QueuedState::Running,
            };
            queue.push(QueuedJob {
                id: BatchId::from(label.clone()),
                state,
                reason: String::new(),
                tag,
                orphaned: false,
            });
            known.insert(label, job);
        }
        *self.known() = known;
        Ok(queue)
    }

    /// A pending job is stopped as a running one is. Ray sends no signal but SIGTERM and SIGKILL.
    fn cancel(&self, ids: &[BatchId], scope: CancelScope) -> Result<(), String> {
        if scope == CancelScope::Interrupt {
            return Ok(());
        }
        for id in ids {
            self.api.stop(id.as_str()).map_err(ApiError::into_text)?;
        }
        Ok(())
    }

    fn why_pending(&self, _: &str) -> Option<&str> {
        None
    }

    fn ending(&self, id: &BatchId, word: &str) -> Ending {
        let job = self.known().get(id.as_str()).cloned();
        let message = job.as_ref().and_then(|job| job.message.clone()).unwrap_or_default();
        let line: String = message.lines().next().unwrap_or_default().chars().take(300).collect();
        let cause = match job.and_then(|job| job.driver_exit_code) {
            Some(code @ ..=-1) => EndCause::Signal(-code),
            Some(code @ 1..) => EndCause::Exit(code),
            // The cluster had no room for the job for too long.
            _ if message.contains("failed to start within") => EndCause::NotStarted,
            _ if line.is_empty() => EndCause::Other(word.to_owned()),
            // The job's process could not be started, or its machine was lost.
            _ => EndCause::Lost(line),
        };
        Ending { cause, node: String::new(), reason: String::new() }
    }

    fn remembered(&self, _: &BatchId) -> Option<QueuedState> {
        None
    }

    fn examine(&self, _: usize) -> Vec<Finding> {
        match self.api.version() {
            Ok(version) => vec![Finding::good("Ray", format!("version {version} at {}", self.address))],
            Err(error) => {
                let help = "the Jobs API needs Ray 2.9 or later with its dashboard (`pip install 'ray[default]'`)";
                vec![Finding::doubtful("Ray", error.into_text(), help)]
            }
        }
    }
}
