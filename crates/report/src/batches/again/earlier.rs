//! The results of earlier jobs, for a run whose jobs may have them.

use super::Recall;
use crate::{
    plan::{Code, JobId, Plan},
    run::{Adoptable, EarlierResults},
    store::{Store, StoreError},
};

/// The results of earlier jobs that hold for a job, once the jobs that it needs have run again.
struct Earlier<'s> {
    store: &'s Store,
    /// Read at the first request.
    recall: Option<Recall<'s>>,
}

/// The results of the earlier jobs of a store.
pub fn earlier_results(store: &Store) -> Box<dyn EarlierResults + '_> {
    Box::new(Earlier { store, recall: None })
}

impl<'s> Earlier<'s> {
    fn recall(&mut self, plan: &Plan) -> Result<&mut Recall<'s>, StoreError> {
        let recall = match self.recall.take() {
            Some(recall) => recall,
            None => Recall::new(self.store, &plan.jobs().map(|(_, job)| job.task.name).collect())?,
        };
        // Needed jobs may have new records, so missing results are looked up again.
        recall.known.origins.results.borrow_mut().retain(|_, products| products.is_some());
        Ok(self.recall.insert(recall))
    }
}

impl EarlierResults for Earlier<'_> {
    fn refresh(&mut self) {
        self.recall = None;
    }

    fn adoptable(&mut self, plan: &Plan, id: JobId, code: &Code) -> Result<Option<Adoptable>, StoreError> {
        self.recall(plan)?.adoptable(plan.job(id), code)
    }

    fn holds(&mut self, plan: &Plan, id: JobId) -> Result<bool, StoreError> {
        let (job, store) = (plan.job(id), self.store);
        let recall = self.recall(plan)?;
        let Some(adoption) = recall.find(job)? else { return Ok(false) };
        let is_made = adoption.make(store)?.is_some();
        if is_made {
            recall.is_made(&adoption);
        }
        Ok(is_made)
    }
}
