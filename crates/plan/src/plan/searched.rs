//! Points of steps that decisions have chosen so far.

use std::collections::{BTreeMap, HashMap};

use sweep_job::Value;

use super::Point;

/// The decided configurations of all steps, by the index of the recipe and of the step.
pub type AllSearched = BTreeMap<(usize, usize), Searched>;

/// The decided configurations of a step.
#[derive(Debug, Clone, Default)]
pub struct Searched {
    /// The axes whose values are chosen.
    axes: Vec<String>,
    /// The configurations of each batch.
    batches: Vec<Vec<Vec<Value>>>,
    /// The largest number of configurations that may still be added.
    pub left: usize,
    /// By the configuration's text: its batch and its place in the batch.
    places: HashMap<String, (usize, usize)>,
}

impl Searched {
    /// Creates a search without decisions; `left` configurations may be added.
    pub fn new(axes: Vec<String>, left: usize) -> Self {
        Self { axes, left, ..Self::default() }
    }

    /// Adds a batch of configurations that are not there yet; afterwards `left` more may be added.
    pub fn add(&mut self, points: Vec<Vec<Value>>, left: usize) {
        let batch = self.batches.len();
        for (index, point) in points.iter().enumerate() {
            self.places.insert(text(point.iter()), (batch, index));
        }
        self.batches.push(points);
        self.left = left;
    }

    /// The axes whose values are chosen.
    pub fn axes(&self) -> &[String] {
        &self.axes
    }

    /// The batches that are decided.
    pub fn batches(&self) -> &[Vec<Vec<Value>>] {
        &self.batches
    }

    /// All configurations, by batch.
    pub fn points(&self) -> impl Iterator<Item = &Vec<Value>> {
        self.batches.iter().flatten()
    }

    /// The number of the batch that a point of the step belongs to.
    pub fn batch_of(&self, point: &Point) -> Option<usize> {
        self.place(point).map(|(batch, _)| batch)
    }

    /// The batch of a point of the step, and the place of its configuration in the batch.
    pub fn place(&self, point: &Point) -> Option<(usize, usize)> {
        let values: Option<Vec<&Value>> = self.axes.iter().map(|axis| point.get(axis)).collect();
        self.places.get(&text(values?.into_iter())).copied()
    }
}

/// A text that equal values share. Texts are quoted, so that `1` and `"1"` differ.
fn text<'v>(values: impl Iterator<Item = &'v Value>) -> String {
    let texts = values.map(|value| match value {
        Value::Text(text) => format!("{text:?}"),
        other => other.to_string(),
    });
    texts.collect::<Vec<_>>().join("\0")
}
