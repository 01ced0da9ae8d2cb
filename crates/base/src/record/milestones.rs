//! Milestones of a job: the times at which it reached certain steps.

use serde::{Deserialize, Serialize};

/// Most milestones that are kept of a job.
const MAX_MILESTONES: usize = 32;

/// A number of steps, and the time at which they were done.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Milestone {
    /// Number of completed steps, including the steps of the state from which the job continued.
    pub step: u64,
    /// Time since the start of the job's process, in seconds.
    pub seconds: f64,
}

/// Milestones of a job in ascending order, a few of all that it has reported.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Milestones(Vec<Milestone>);

impl Milestones {
    /// Adds a milestone. A milestone that does not come after the last one is ignored.
    pub fn reach(&mut self, step: u64, seconds: f64) {
        let is_next = self.0.last().is_none_or(|last| last.step < step && last.seconds < seconds);
        if !is_next || !seconds.is_finite() || seconds < 0.0 {
            return;
        }
        self.0.push(Milestone { step, seconds });
        if self.0.len() > MAX_MILESTONES {
            // Every second one; the first and the last stay.
            let mut number = 0;
            self.0.retain(|_| {
                number += 1;
                number % 2 == 1
            });
        }
    }

    /// True if there are no milestones.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the plausible milestones: those from a file may be in any order, and implausible ones are skipped.
    pub fn sound(&self) -> impl Iterator<Item = Milestone> + '_ {
        let mut last: Option<Milestone> = None;
        self.0.iter().copied().filter(move |milestone| {
            let is_later = last.is_none_or(|last| last.step < milestone.step && last.seconds < milestone.seconds);
            let is_sound = is_later && milestone.seconds.is_finite() && milestone.seconds >= 0.0;
            if is_sound {
                last = Some(*milestone);
            }
            is_sound
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_of_many_are_kept_and_the_first_and_the_last_are_among_them() {
        let mut milestones = Milestones::default();
        for step in 0..1000_u32 {
            milestones.reach(u64::from(step), f64::from(step) + 1.0);
            let sound_milestones: Vec<Milestone> = milestones.sound().collect();
            assert!(sound_milestones.len() <= MAX_MILESTONES);
            assert_eq!(
                (sound_milestones[0].step, sound_milestones[sound_milestones.len() - 1].step),
                (0, u64::from(step))
            );
        }
        // The program restarts its count, and the clock stands still.
        milestones.reach(5, 2000.0);
        milestones.reach(2000, 3.0);
        milestones.reach(2000, f64::NAN);
        assert_eq!(milestones.sound().last().unwrap().step, 999);
    }

    #[test]
    fn what_a_file_says_is_not_believed() {
        let text =
            r#"[{"step":5,"seconds":1.0},{"step":4,"seconds":2.0},{"step":6,"seconds":-1.0},{"step":9,"seconds":3.0}]"#;
        let milestones: Milestones = serde_json::from_str(text).unwrap();
        assert_eq!(milestones.sound().map(|milestone| milestone.step).collect::<Vec<_>>(), [5, 9]);
    }
}
