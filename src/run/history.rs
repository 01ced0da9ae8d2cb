//! How long jobs took in earlier runs, from their journals: only the order of starts depends on it.

use std::{
    collections::HashMap,
    io::{Read as _, Seek as _, SeekFrom},
    path::Path,
};

use serde::Deserialize;

use super::folder::journals;
use crate::plan::Plan;

/// Seconds by the job's name.
#[derive(Debug, Clone, Default)]
pub struct History(HashMap<String, f64>);

/// As much of the journals is read, the latest first; a hint is not worth more.
const MOST: u64 = 8 << 20;

/// The part of a journal's line that says how long a job took.
#[derive(Deserialize)]
struct Line {
    label: Option<String>,
    event: Event,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Event {
    Done { seconds: Option<f64> },
}

impl History {
    /// What the journals below a results folder tell; what cannot be read tells nothing.
    pub fn read(results: &Path) -> Self {
        let mut seconds = HashMap::new();
        let mut left = MOST;
        for journal in journals(results).into_iter().rev() {
            if left == 0 {
                break;
            }
            let text = tail(&journal, left).unwrap_or_default();
            left -= (text.len() as u64).min(left);
            for line in text.split(|byte| *byte == b'\n') {
                if let Ok(Line { label: Some(label), event: Event::Done { seconds: Some(took) } }) =
                    serde_json::from_slice(line)
                {
                    // The latest run comes first, and it is the one that counts.
                    seconds.entry(label).or_insert(took);
                }
            }
        }
        Self(seconds)
    }

    /// How long each job of a plan may take, in milliseconds: as it took before, else as its step's jobs did on average, else
    /// as all did.
    pub(super) fn expect(&self, plan: &Plan) -> Vec<u64> {
        let known: Vec<Option<f64>> = plan.jobs().map(|(_, job)| self.0.get(&job.label.to_string()).copied()).collect();
        let mut of_step: HashMap<&str, (f64, usize)> = HashMap::new();
        let mut of_all = (0.0, 0);
        for ((_, job), seconds) in plan.jobs().zip(&known) {
            let Some(seconds) = seconds else { continue };
            let sum = of_step.entry(&job.label.step).or_default();
            *sum = (sum.0 + seconds, sum.1 + 1);
            of_all = (of_all.0 + seconds, of_all.1 + 1);
        }
        let mean = |(sum, count): (f64, usize)| (count > 0).then(|| sum / count as f64);
        let seconds = |step: &str, known: Option<f64>| {
            known.or_else(|| mean(*of_step.get(step)?)).or_else(|| mean(of_all)).unwrap_or(1.0)
        };
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturating, and a hint")]
        let milliseconds = |seconds: f64| ((seconds * 1e3) as u64).max(1);
        plan.jobs().zip(known).map(|((_, job), known)| milliseconds(seconds(&job.label.step, known))).collect()
    }
}

fn tail(path: &Path, most: u64) -> std::io::Result<Vec<u8>> {
    let mut file = fs_err::File::open(path)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(most)))?;
    let mut text = Vec::new();
    file.take(most).read_to_end(&mut text)?;
    Ok(text)
}
