//! Turns of measurements: rounds of repetitions, and a drawn order within each round.
//!
//! The load of a machine drifts. If all repetitions of one variant ran before all repetitions of another, the drift would look like a
//! difference between the variants. In rounds, every variant runs once before any runs again.

use std::collections::{BTreeMap, HashMap, HashSet};

use serde::{Deserialize, Serialize};
use sweep_job::Value;

use super::{Job, JobId, Plan, Point, Study};
use crate::{
    recipe::{Dimension, Recipe},
    record::Key,
};

/// Prefix of the text whose digest draws the order. Another one would be another order.
const DRAW: &str = "sweep round 1";

/// Place of a job in the order of a measuring step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Turn {
    /// The number of the measuring step in the plan.
    pub group: usize,
    /// The round, from 0: the rank of the job's repetition.
    pub round: usize,
    /// The drawn position in the round, from 0.
    pub position: usize,
}

/// Gives the jobs of measuring steps their turns. A job of several such steps has its turn in the first.
pub(super) fn assign(studies: &[Study], jobs: &mut [Job]) {
    let mut group = 0;
    for study in studies {
        for (index, points) in study.steps.iter().enumerate() {
            if !study.recipe.measures(index) {
                continue;
            }
            let rounds = rounds(&study.recipe, index, points);
            let mut of_step: BTreeMap<usize, Vec<JobId>> = BTreeMap::new();
            let mut distinct_ids = HashSet::new();
            for ((_, id), round) in points.iter().zip(rounds) {
                if jobs[id.index()].turn.is_none() && distinct_ids.insert(*id) {
                    of_step.entry(round).or_default().push(*id);
                }
            }
            let step = &study.recipe.steps[index].name.value;
            for (round, mut ids) in of_step {
                ids.sort_by_cached_key(|id| draw(&study.recipe.name, step, round, jobs[id.index()].key));
                for (position, id) in ids.into_iter().enumerate() {
                    jobs[id.index()].turn = Some(Turn { group, round, position });
                }
            }
            group += 1;
        }
    }
}

/// A number that no author, no machine and no order of arrival has chosen.
fn draw(recipe: &str, step: &str, round: usize, key: Key) -> [u8; 32] {
    *blake3::hash(format!("{DRAW}\n{recipe}\n{step}\n{round}\n{key}").as_bytes()).as_bytes()
}

/// The round of each point of a step: the rank of its repetition among the points that agree on all other axes. An axis that is zipped with
/// the axis of repetitions belongs to the repetition.
fn rounds(recipe: &Recipe, step: usize, points: &[(Point, JobId)]) -> Vec<usize> {
    let Some(axis) = recipe.repeats(step) else { return vec![0; points.len()] };
    let zipped_axes: Vec<&str> = recipe.steps[step]
        .matrix
        .dimensions
        .iter()
        .filter(|dimension| matches!(dimension, Dimension::Zip(_)))
        .map(|dimension| dimension.axes().iter().map(|axis| axis.value.as_str()).collect::<Vec<&str>>())
        .find(|axes| axes.contains(&axis))
        .unwrap_or_default();
    let mut numbers: HashMap<String, usize> = HashMap::new();
    let mut repetitions: Vec<Vec<&Value>> = Vec::new();
    let mut of_point = Vec::with_capacity(points.len());
    for (point, _) in points {
        let other_values =
            point.values.iter().filter(|(name, _)| name != axis && !zipped_axes.contains(&name.as_str()));
        let other_values: Vec<String> = other_values.map(|(name, value)| format!("{name}={:?}", value.value)).collect();
        let next = numbers.len();
        let number = *numbers.entry(other_values.join("\u{0}")).or_insert(next);
        if number == next {
            repetitions.push(Vec::new());
        }
        repetitions[number].extend(point.get(axis));
        of_point.push(number);
    }
    let ranks: Vec<HashMap<String, usize>> = repetitions.into_iter().map(ranks).collect();
    let rank = |(point, number): (&Point, usize)| {
        point.get(axis).and_then(|value| ranks[number].get(&format!("{value:?}"))).copied().unwrap_or(0)
    };
    points.iter().map(|(point, _)| point).zip(of_point).map(rank).collect()
}

/// The rank of each value: by size if all are numbers, else in the order of the text.
fn ranks(values: Vec<&Value>) -> HashMap<String, usize> {
    let mut texts = HashSet::new();
    let mut values: Vec<(String, Option<f64>)> =
        values.into_iter().map(|value| (format!("{value:?}"), value.as_f64())).collect();
    values.retain(|(text, _)| texts.insert(text.clone()));
    if values.iter().all(|(_, number)| number.is_some()) {
        values.sort_by(|(_, a), (_, b)| a.unwrap_or(0.0).total_cmp(&b.unwrap_or(0.0)));
    }
    values.into_iter().enumerate().map(|(rank, (text, _))| (text, rank)).collect()
}

impl Plan {
    /// The jobs in the plan's order, except that the jobs of each measuring step are in the order of their turns.
    pub fn in_turn(&self) -> Vec<JobId> {
        let mut groups: BTreeMap<usize, Vec<(Turn, JobId)>> = BTreeMap::new();
        for (id, job) in self.jobs() {
            if let Some(turn) = job.turn {
                groups.entry(turn.group).or_default().push((turn, id));
            }
        }
        let mut order: Vec<JobId> = self.jobs().map(|(id, _)| id).collect();
        for members in groups.into_values() {
            let places: Vec<JobId> = members.iter().map(|(_, id)| *id).collect();
            let mut sorted = members;
            sorted.sort_unstable();
            for (place, (_, id)) in places.into_iter().zip(sorted) {
                order[place.index()] = id;
            }
        }
        order
    }
}
