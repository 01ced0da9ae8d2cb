//! Results of earlier code that the present code repeats: the values with which a program is compared, and the record that it adopts.

use sweep_job::{Agreement, Beginning, Curve};

use crate::record::{Adopted, ReadSet, Record};

/// A record of a job with earlier code.
#[derive(Debug)]
pub struct Adoptable {
    /// The record.
    pub record: Record,
    /// The reads of its program, as they are now.
    pub read: ReadSet,
}

/// Points of a curve after the step of a trial that a program may be compared with.
const MAX_FURTHER_POINTS: usize = 100;
/// Points from which on a curve may have been thinned out.
pub const MIN_THINNED_POINTS: usize = 1000;

impl Adoptable {
    /// The first steps of the record; `None` if it has no value of them.
    pub(super) fn beginning(&self, after: u64) -> Option<Beginning> {
        let outcome = &self.record.outcome;
        let recorded = outcome.beginning.as_deref();
        let mut beginning = Beginning { after, ..Beginning::default() };
        for (name, curve) in &outcome.curves {
            let own = recorded.filter(|own| own.after >= after);
            let first = own.and_then(|own| own.curves.get(name));
            let is_thinned = curve.at.len() >= MIN_THINNED_POINTS;
            let curve = first.map_or_else(|| curve.clone(), |first| joined(first, curve));
            let end = curve.at.partition_point(|at| *at <= after).saturating_add(MAX_FURTHER_POINTS);
            let is_cut = end < curve.at.len();
            let curve = Curve {
                unit: curve.unit,
                at: curve.at.into_iter().take(end).collect(),
                values: curve.values.into_iter().take(end).collect(),
            };
            // First steps that were taken from a curve that had been thinned out lack points, too.
            let complete = if first.is_some() || is_thinned {
                Some(own.and_then(|own| own.complete.get(name)).copied().unwrap_or(0))
            } else {
                curve.at.last().copied().filter(|_| is_cut)
            };
            beginning.complete.extend(complete.map(|step| (name.clone(), step)));
            beginning.curves.insert(name.clone(), curve);
        }
        let states = recorded.iter().flat_map(|own| &own.states).filter(|(step, _)| **step <= after);
        beginning.states = states.map(|(step, digest)| (*step, digest.clone())).collect();
        let has_values = beginning.curves.values().any(|curve| curve.at.first().is_some_and(|at| *at <= after));
        has_values.then_some(beginning)
    }

    /// The record of a job whose program agreed with this one; `new` is the record that the job would have had.
    pub(super) fn adopted(&self, new: Record, agreement: &Agreement, after: u64) -> Record {
        let at = crate::host::clock::now();
        let adopted = Adopted::new(&self.record, agreement, after, new.provenance.seconds, at);
        let Record { key, identity, label, params, read, .. } = new;
        let Record { format, outcome, files, mut provenance, .. } = self.record.clone();
        provenance.adopted = Some(Box::new(adopted));
        Record { format, key, identity, label, params, outcome, files, read, provenance }
    }
}

/// All points of the first steps, and the later points of a curve.
fn joined(first: &Curve, curve: &Curve) -> Curve {
    let last = first.at.last().copied().unwrap_or(0);
    let rest = curve.at.partition_point(|at| *at <= last);
    Curve {
        unit: curve.unit,
        at: first.at.iter().chain(&curve.at[rest..]).copied().collect(),
        values: first.values.iter().chain(&curve.values[rest..]).copied().collect(),
    }
}
