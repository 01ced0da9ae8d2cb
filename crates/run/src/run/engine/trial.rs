//! Jobs whose program is compared with an earlier run of it, whose result may hold.

use std::time::Instant;

use sweep_job::{Agreement, Failure, FailureKind, Trial};

use super::{LocalExecutor, NotStored, Retry, Stored};
use crate::{
    format::clean,
    plan::JobId,
    record::{ReadSet, Record},
    run::{RunEvent, adoption::Adoptable, reads::Reads, scheduler::Event},
    store::Pending,
};

/// A comparison that an attempt makes.
pub(in crate::run) struct Comparing {
    after: u64,
    earlier: Adoptable,
    /// Its result, if the earlier run holds.
    agreement: Option<Agreement>,
}

impl Comparing {
    /// Records that the program agrees with the earlier run.
    pub(super) fn agree(&mut self, agreement: Agreement) {
        self.agreement = Some(agreement);
    }

    /// True if the result of the earlier run holds.
    pub(super) fn is_agreed(&self) -> bool {
        self.agreement.is_some()
    }

    /// The files that the programs of the earlier run and of this run have read.
    pub(super) fn read(&self, own: ReadSet) -> ReadSet {
        self.earlier.read.clone().joined(own)
    }
}

/// Stores the result of a job: the result of the earlier run with which its program has `agreed`, else its own.
pub(super) fn commit(
    agreed: Option<&Comparing>,
    pending: Pending,
    record: Record,
    mut notes: Vec<String>,
) -> Result<Stored, NotStored> {
    let agreed = agreed.and_then(|comparing| Some((comparing, comparing.agreement.as_ref()?)));
    let record = match agreed {
        Some((Comparing { after, earlier, .. }, agreement)) => {
            let record = earlier.adopted(record, agreement, *after);
            let record = pending.commit_adopted(record, earlier.record.key).map_err(NotStored::Store)?;
            record.ok_or(NotStored::Removed)?
        }
        None => pending.commit(record).map_err(NotStored::Store)?,
    };
    notes.extend(record.provenance.adopted.iter().map(|adopted| adopted.sentences().join("; ")));
    Ok((Box::new(record), notes))
}

impl LocalExecutor<'_, '_> {
    /// The comparison that a job makes, as its worker gets it and as the engine remembers it.
    pub(super) fn trial(&mut self, job: usize, reads: &Reads) -> (Option<Box<Trial>>, Option<Box<Comparing>>) {
        let id = JobId::new(job);
        let planned_job = self.state.plan.job(id);
        let Some(policy) = planned_job.policy.adopt.filter(|_| planned_job.is_program()) else { return (None, None) };
        let after = policy.after;
        if planned_job.code.is_none() {
            let text = "`adopt` has no effect: with `tracks: declared` it is not known which code the program reads"
                .to_owned();
            self.state.tell(&RunEvent::Note { job, text });
            return (None, None);
        }
        let earlier = self.adoptable(job, reads);
        let beginning = earlier.as_ref().and_then(|earlier| earlier.beginning(after));
        if let Some(earlier) = &earlier {
            let from = earlier.record.key.short();
            let text = match beginning {
                Some(_) => format!(
                    "compared with record {from} of earlier code: if the steps up to {after} are bit-identical, that record holds"
                ),
                None => format!(
                    "record {from} of earlier code has no value up to step {after}, so the program runs to its end"
                ),
            };
            self.state.tell(&RunEvent::Note { job, text });
        }
        let comparing = earlier
            .filter(|_| beginning.is_some())
            .map(|earlier| Box::new(Comparing { after, earlier, agreement: None }));
        (Some(Box::new(Trial { after, earlier: beginning })), comparing)
    }

    /// The record with earlier code that a job may adopt.
    fn adoptable(&mut self, job: usize, reads: &Reads) -> Option<Adoptable> {
        let id = JobId::new(job);
        let code = reads.code().filter(|code| !code.hosted)?;
        if self.state.plan.is_alone() || self.unadoptable.contains(&job) {
            return None;
        }
        match self.earlier.as_mut()?.adoptable(self.state.plan, id, code) {
            Ok(record) => record,
            Err(error) => {
                let text = format!("no earlier result is adopted: {}", clean(&error.to_string()));
                self.state.tell(&RunEvent::Note { job, text });
                None
            }
        }
    }

    /// Lets a job run again at once, to its end, because the earlier result with which it agreed was removed or changed meanwhile.
    pub(super) fn run_in_full(&mut self, job: usize, seconds: f64) -> Event {
        if self.scheduler.is_stopping() {
            return self.give_up(job);
        }
        let text = "the earlier result was removed or its files were changed: it runs again, to its end";
        self.state.tell(&RunEvent::Note { job, text: text.to_owned() });
        self.unadoptable.insert(job);
        self.repeated.insert(job);
        let failure = Failure { kind: FailureKind::Changed, message: text.to_owned() };
        self.retrying.insert(job, Retry { at: Some(Instant::now()), seconds, failure });
        Event::Later(job)
    }
}
