//! The memory limit of a plan: a short text can describe very many jobs.

use sweep_job::{Unit, Value};

use super::{Point, dimension::Values};
use crate::{
    format::quantity,
    recipe::{Collector, Problem, Sources, Span},
};

/// The least memory of a name, a place and a number, in bytes.
const ENTRY: u64 = 64;

/// The remaining memory for a plan, approximately: the size of its values as texts, and a little for each.
#[derive(Debug, Clone)]
pub struct Room {
    whole: u64,
    left: u64,
    /// True if it has been reported that there is not enough.
    said: bool,
}

impl Default for Room {
    /// Enough for a million jobs whose values are short.
    fn default() -> Self {
        Self::of(1 << 30)
    }
}

impl Room {
    /// Room for `bytes` bytes.
    pub fn of(bytes: u64) -> Self {
        Self { whole: bytes, left: bytes, said: false }
    }

    /// Reserves `bytes`; returns false and reports a problem, once, if the budget is exhausted.
    pub(super) fn take(&mut self, bytes: u64, span: Span, sources: &Sources, problems: &mut Collector) -> bool {
        if let Some(remaining_bytes) = self.left.checked_sub(bytes) {
            self.left = remaining_bytes;
            return true;
        }
        self.left = 0;
        if !std::mem::replace(&mut self.said, true) {
            let limit = quantity(self.whole as f64, Unit::Bytes);
            let message = format!("the planned jobs would need more than {limit} of memory");
            let help = "use fewer values. Write a long text to a file and list the file in `inputs`. The limit of a bundle \
                        grows with its size.";
            problems.push(span, Problem::new(sources, span, message, "too much").help(help));
        }
        false
    }
}

/// Size of a value in memory.
pub(super) fn weight(value: &Value) -> u64 {
    match value {
        Value::Text(text) => ENTRY + text.len() as u64,
        Value::List(items) => ENTRY + items.iter().map(weight).sum::<u64>(),
        Value::Map(entries) => {
            ENTRY + entries.iter().map(|(name, value)| name.len() as u64 + weight(value)).sum::<u64>()
        }
        _ => ENTRY,
    }
}

/// Size of the values of an assignment in memory.
pub(super) fn weight_of(values: &Values) -> u64 {
    values.iter().map(|(name, value)| name.len() as u64 + weight(&value.value)).sum()
}

/// Size of the product of points and assignments in memory.
pub(super) fn product_of(points: &[Point], assignments: &[Values]) -> u64 {
    let point_bytes: u64 = points.iter().map(|point| weight_of(&point.values)).sum();
    let assignment_bytes: u64 = assignments.iter().map(weight_of).sum();
    let (point_bytes, assignment_bytes) =
        (point_bytes.saturating_mul(assignments.len() as u64), assignment_bytes.saturating_mul(points.len() as u64));
    point_bytes.saturating_add(assignment_bytes)
}
