//! Jobs on machines that share no folder with this one: their inputs and their results go through a remote store.

use std::{collections::HashSet, sync::Arc};

use fs_err as fs;
use sweep_job::{Failure, FailureKind};

use super::{JobExecutor, JobId, Stage};
use crate::{
    plan::Digests,
    record::Key,
    run::{
        RunFolder,
        exchange::{Exchange, SentJob, needed},
        job_specs,
    },
};

/// State of the exchange.
#[derive(Debug)]
pub(super) struct Afar {
    exchange: Arc<dyn Exchange>,
    /// Records that are known to be in the exchange.
    there: HashSet<Key>,
    /// Reasons why records cannot be used, each of which is reported once.
    said: HashSet<String>,
}

impl Afar {
    pub(super) fn new(exchange: Arc<dyn Exchange>) -> Self {
        Self { exchange, there: HashSet::new(), said: HashSet::new() }
    }
}

impl JobExecutor<'_, '_> {
    /// Returns the name of a submission in the remote store.
    fn sent_job(&self, job: usize, run: &str) -> SentJob {
        SentJob {
            jobs_name: self.session.cluster.jobs_name().to_owned(),
            run: run.to_owned(),
            key: self.session.state.key(job),
            submission: self.jobs[job].submissions,
        }
    }

    /// Uploads the inputs of a job to the remote store: the records of needed jobs, and its specification. Returns the
    /// arguments with which its machine takes it; `None` where machines share the results folder.
    pub(super) fn hand_over(&mut self, job: usize) -> Result<Option<String>, String> {
        let Some(afar) = &mut self.afar else { return Ok(None) };
        let folder = &self.session.options.folder;
        let mut spec = job_specs::read_at(folder.path(), self.job_specs[job]).map_err(|error| error.to_string())?;
        for need in needed(&spec) {
            if afar.there.contains(&need) {
                continue;
            }
            if !afar.exchange.has(need)? {
                afar.exchange.send(self.session.state.store, need)?;
            }
            afar.there.insert(need);
        }
        let exchange = Arc::clone(&afar.exchange);
        // The identity has all needed jobs.
        (spec.needs, spec.lists) = (Vec::new(), Vec::new());
        let text = serde_json::to_vec(&spec).map_err(|error| error.to_string())?;
        let sent_job = self.sent_job(job, &folder.name());
        exchange.put_text(&sent_job.spec(), &text)?;
        let SentJob { jobs_name, run, key, submission } = sent_job;
        Ok(Some(format!("exec-remote {run} --jobs-name {jobs_name} --submission {submission} --key {key}")))
    }

    /// Downloads the results of a job that has ended in the queue. Missing results are requested again.
    pub(super) fn receive(&mut self, job: usize) {
        let (Some(afar), Stage::Sent(sent)) = (&self.afar, &self.jobs[job].stage) else { return };
        let (exchange, run) = (Arc::clone(&afar.exchange), sent.run.clone());
        let key = self.session.state.key(job);
        let sent_job = self.sent_job(job, &run);
        let folder = RunFolder::named(&self.session.options.results, &run);
        let texts = [(sent_job.said(), folder.part(key)), (sent_job.log(), folder.log(key))];
        for (name, path) in texts {
            let Ok(Some(text)) = exchange.text(&name) else { continue };
            let mut content = fs::read(&path).unwrap_or_default();
            // A sweep that takes over already has the texts of the earlier one.
            if content.ends_with(&text) {
                continue;
            }
            content.extend(text);
            if let Some(folder) = path.parent() {
                let _ = fs::create_dir_all(folder);
            }
            // The texts are only for people, so a failed write is ignored.
            let _ = fs::write(&path, content);
        }
        self.bring(job);
    }

    /// Downloads the record of a job, if the local store has none and the remote store has one.
    pub(super) fn bring(&mut self, job: usize) {
        let Some(afar) = &self.afar else { return };
        let (exchange, key) = (Arc::clone(&afar.exchange), self.session.state.key(job));
        if self.session.state.store.contains(key) {
            return;
        }
        match exchange.bring(self.session.state.store, key) {
            Ok(true) => {
                if let Some(afar) = &mut self.afar {
                    afar.there.insert(key);
                }
                self.refuse_other_code(job);
            }
            Ok(false) => {}
            Err(reason) => {
                let label = self.session.state.plan.job(JobId::new(job)).label.to_string();
                let text = format!("the result of {label} in {}: {reason}", exchange.name());
                if self.afar.as_mut().is_some_and(|afar| afar.said.insert(text.clone())) {
                    self.session.state.notice(text);
                }
            }
        }
    }

    /// Condemns the record of a job whose program has read files that differ from this machine's: the image of its
    /// machine may have another state of the project.
    fn refuse_other_code(&mut self, job: usize) {
        let (plan, store, id) = (self.session.state.plan, self.session.state.store, JobId::new(job));
        let key = self.session.state.key(job);
        let (mut manifests, mut digests) = (store.manifests(), Digests::open(store.digests()));
        if plan.job(id).code.is_none() || !plan.has_other_code(id, &mut manifests, &mut digests) {
            return;
        }
        let file = plan.changed_file(id, &mut manifests, &mut digests);
        let file = file.map_or_else(|| "a file".to_owned(), |file| format!("`{file}`"));
        let message = format!(
            "its program read a {file} on its machine that differs from the one here; update the project in its image"
        );
        // If the record cannot be condemned, the plan passes it over.
        let _ = store.condemn(key, || true);
        self.jobs[job].last = Some((0.0, Failure { kind: FailureKind::Changed, message }));
    }
}
