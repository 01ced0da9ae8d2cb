//! Parzen estimators: densities of configurations as mixtures of one kernel for each observation and one for the prior.
//!
//! A kernel is the product of its axes: a normal distribution, cut off at the bounds, on a numeric axis, and a table of probabilities on a
//! choice. All axes of a kernel belong to the same observation, so the estimate has the observations' correlations. Widths and weights
//! follow Optuna 5: on each axis, a kernel reaches to the farther one of its neighbors.

use super::{
    Domain, Point, Space,
    draw::{index, truncated_normal},
    space::Line,
};
use crate::stats::Draws;

/// Weight of the prior, as a number of observations.
const PRIOR: f64 = 1.0;
/// Number of the most recent observations that have full weight.
const RECENT: usize = 25;
/// The least probability: its logarithm is finite.
const MIN_PROBABILITY: f64 = 1e-300;

/// A density of configurations.
#[derive(Debug)]
pub(super) struct Parzen<'s> {
    space: &'s Space,
    /// The weights of the kernels, which sum to 1; the prior's is the last.
    weights: Vec<f64>,
    /// The axes of the kernels.
    columns: Vec<Column>,
}

/// An axis of all kernels.
#[derive(Debug)]
enum Column {
    /// Normal distributions.
    Line { line: Line, mu: Vec<f64>, sigma: Vec<f64> },
    /// Probabilities of the choices, for each kernel.
    Choice(Vec<Vec<f64>>),
}

impl<'s> Parzen<'s> {
    /// The density of these observations, the oldest first.
    pub(super) fn new(space: &'s Space, observations: &[&Point]) -> Self {
        let n = observations.len();
        let mut weights = age_weights(n);
        weights.push(PRIOR);
        let sum: f64 = weights.iter().sum();
        for weight in &mut weights {
            *weight /= sum;
        }
        let column = |(axis, domain): (usize, &Domain)| {
            let places: Vec<f64> = observations.iter().map(|point| place(domain, point, axis)).collect();
            match (domain.line(), domain) {
                (None, Domain::Choice { values }) => Column::Choice(choices(&places, values.len())),
                (line, _) => normals(line.unwrap_or(Line { low: 0.0, high: 0.0, bin: None }), places),
            }
        };
        let columns = space.axes.iter().map(|axis| &axis.domain).enumerate().map(column).collect();
        Self { space, weights, columns }
    }

    /// A configuration drawn from the density.
    pub(super) fn draw(&self, draws: &mut Draws) -> Point {
        let kernel = index(draws, &self.weights);
        let domains = self.space.axes.iter().map(|axis| &axis.domain);
        let value = |(domain, column): (&Domain, &Column)| match column {
            Column::Line { line, mu, sigma } => {
                domain.value(truncated_normal(draws, mu[kernel], sigma[kernel], line.low, line.high))
            }
            Column::Choice(rows) => domain.value(index(draws, &rows[kernel]) as f64),
        };
        domains.zip(&self.columns).map(value).collect()
    }

    /// The logarithm of the density at a configuration; the probability of values that are counted.
    pub(super) fn log_density(&self, point: &Point) -> f64 {
        let domains = self.space.axes.iter().map(|axis| &axis.domain).enumerate();
        let places: Vec<f64> = domains.map(|(axis, domain)| place(domain, point, axis)).collect();
        let terms: Vec<f64> = (0..self.weights.len())
            .map(|kernel| {
                let axes = self.columns.iter().zip(&places);
                libm::log(self.weights[kernel])
                    + axes.map(|(column, place)| column.log_density(kernel, *place)).sum::<f64>()
            })
            .collect();
        let max_term = terms.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        max_term + libm::log(terms.iter().map(|term| libm::exp(term - max_term)).sum::<f64>())
    }
}

impl Column {
    fn log_density(&self, kernel: usize, place: f64) -> f64 {
        match self {
            Self::Choice(rows) => {
                #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "an index as a place")]
                let choice = rows[kernel].get(place as usize);
                libm::log(choice.copied().unwrap_or(0.0).max(MIN_PROBABILITY))
            }
            Self::Line { line, mu, sigma } => {
                let (mu, sigma) = (mu[kernel], sigma[kernel]);
                let inside_mass = mass((line.low - mu) / sigma, (line.high - mu) / sigma).max(MIN_PROBABILITY);
                match line.bin {
                    Some(bin) => {
                        let (from, to) = ((place - bin / 2.0 - mu) / sigma, (place + bin / 2.0 - mu) / sigma);
                        libm::log(mass(from, to).max(MIN_PROBABILITY)) - libm::log(inside_mass)
                    }
                    None => {
                        let z = (place - mu) / sigma;
                        -0.5 * z * z
                            - libm::log(sigma)
                            - 0.5 * libm::log(std::f64::consts::TAU)
                            - libm::log(inside_mass)
                    }
                }
            }
        }
    }
}

/// The place of a configuration on an axis.
fn place(domain: &Domain, point: &Point, axis: usize) -> f64 {
    point.get(axis).map_or(0.0, |value| domain.place(value))
}

/// The probability of the standard normal distribution between two bounds. Computed on the side of the tail, so that a small
/// probability is not the difference of two large numbers.
fn mass(from: f64, to: f64) -> f64 {
    let tail = |z: f64| 0.5 * libm::erfc(z * std::f64::consts::FRAC_1_SQRT_2);
    if from > 0.0 { tail(from) - tail(to) } else { tail(-to) - tail(-from) }
}

/// Weights of observations by their age: the most recent ones count fully, earlier ones less the older they are.
fn age_weights(n: usize) -> Vec<f64> {
    let old_count = n.saturating_sub(RECENT);
    let min_weight = 1.0 / n.max(1) as f64;
    let ramp = |index: usize| {
        if old_count == 1 {
            min_weight
        } else {
            min_weight + (1.0 - min_weight) * index as f64 / (old_count - 1) as f64
        }
    };
    (0..n).map(|index| if index < old_count { ramp(index) } else { 1.0 }).collect()
}

/// The normal distributions of observations, and the prior, which is as wide as the axis.
fn normals(line: Line, mut mu: Vec<f64>) -> Column {
    let (n, range) = (mu.len(), line.high - line.low);
    // No kernel is so narrow that nothing but its own observation is likely.
    let narrowest = range / (2.0 + n as f64).min(100.0);
    let width = |width: f64| width.clamp(narrowest, range).max(f64::MIN_POSITIVE);
    let mut sigma: Vec<f64> = reaches(&mu, line).into_iter().map(width).collect();
    mu.push(f64::midpoint(line.low, line.high));
    sigma.push(range.max(f64::MIN_POSITIVE));
    Column::Line { line, mu, sigma }
}

/// The distances of observations to the farther one of their neighbors. The bounds are neighbors of a single observation
/// only.
fn reaches(mu: &[f64], line: Line) -> Vec<f64> {
    let mut order: Vec<usize> = (0..mu.len()).collect();
    order.sort_by(|a, b| mu[*a].total_cmp(&mu[*b]));
    let mut reaches = vec![0.0; mu.len()];
    for (at, kernel) in order.iter().enumerate() {
        let gap_below = at.checked_sub(1).map(|previous| mu[*kernel] - mu[order[previous]]);
        let gap_above = order.get(at + 1).map(|next| mu[*next] - mu[*kernel]);
        reaches[*kernel] = match (gap_below, gap_above) {
            (Some(gap_below), Some(gap_above)) => f64::max(gap_below, gap_above),
            (Some(gap), None) | (None, Some(gap)) => gap,
            (None, None) => f64::max(mu[*kernel] - line.low, line.high - mu[*kernel]),
        };
    }
    reaches
}

/// The probabilities of choices in the kernels of observations and in the prior, whose probabilities are equal.
fn choices(places: &[f64], count: usize) -> Vec<Vec<f64>> {
    let prior_weight = PRIOR / (places.len() as f64 + 1.0);
    let total = 1.0 + prior_weight * count as f64;
    let row =
        |place: &f64| (0..count).map(|choice| (prior_weight + f64::from(choice as f64 == *place)) / total).collect();
    let prior = vec![1.0 / count.max(1) as f64; count];
    places.iter().map(row).chain([prior]).collect()
}

#[cfg(test)]
mod tests {
    use sweep_job::Value;

    use super::*;
    use crate::suggest::space::Axis;

    fn space() -> Space {
        let axis = |name: &str, domain| Axis { name: name.into(), domain };
        Space {
            axes: vec![
                axis("n", Domain::Int { low: 0, high: 12, log: false, step: 3 }),
                axis("c", Domain::Choice { values: vec![Value::Int(1), Value::Int(2), Value::Int(3)] }),
            ],
        }
    }

    #[test]
    fn the_probabilities_of_a_finite_space_sum_to_one() {
        let space = space();
        let points = [vec![Value::Int(3), Value::Int(1)], vec![Value::Int(12), Value::Int(3)]];
        let parzen = Parzen::new(&space, &points.iter().collect::<Vec<_>>());
        let mut total = 0.0;
        let mut expected = std::collections::BTreeMap::new();
        for n in (0..=12).step_by(3) {
            for c in 1..=3 {
                let probability = libm::exp(parzen.log_density(&vec![Value::Int(n), Value::Int(c)]));
                total += probability;
                expected.insert((n, c), probability);
            }
        }
        assert!((total - 1.0).abs() < 1e-12, "{total}");
        // Draws follow them.
        let mut draws = Draws::new(7);
        let mut counts = std::collections::BTreeMap::new();
        for _ in 0..40_000 {
            let point = parzen.draw(&mut draws);
            let [Value::Int(n), Value::Int(c)] = point[..] else { panic!("{point:?}") };
            *counts.entry((n, c)).or_insert(0_u32) += 1;
        }
        for (place, probability) in expected {
            let share = f64::from(counts.get(&place).copied().unwrap_or(0)) / 40_000.0;
            let error = (probability * (1.0 - probability) / 40_000.0).sqrt();
            assert!((share - probability).abs() < 5.0 * error, "{place:?}: {share} for {probability}");
        }
    }

    #[test]
    fn a_density_integrates_to_one() {
        let domain = Domain::Float { low: 1e-4, high: 1.0, log: true, step: None };
        let space = Space { axes: vec![Axis { name: "lr".into(), domain: domain.clone() }] };
        let points = [vec![Value::Float(0.001)], vec![Value::Float(0.9)], vec![Value::Float(1e-4)]];
        let parzen = Parzen::new(&space, &points.iter().collect::<Vec<_>>());
        let line = domain.line().unwrap();
        let cells = 20_000;
        let width = (line.high - line.low) / f64::from(cells);
        let at = |cell: i32| vec![domain.value(line.low + width * (f64::from(cell) + 0.5))];
        let total: f64 = (0..cells).map(|cell| libm::exp(parzen.log_density(&at(cell))) * width).sum();
        assert!((total - 1.0).abs() < 1e-6, "{total}");
    }

    /// The tail of the normal distribution, from `math.erfc` of Python, on both sides.
    #[test]
    fn masses_are_exact_in_the_tails() {
        assert!((mass(5.0, 6.0) / 2.856_649_842_341_569e-7 - 1.0).abs() < 1e-12);
        assert!((mass(-6.0, -5.0) / mass(5.0, 6.0) - 1.0).abs() < 1e-12);
        assert!((mass(-1.0, 1.0) - 0.682_689_492_137_085_9).abs() < 1e-15);
    }

    #[test]
    fn a_kernel_reaches_to_its_farther_neighbor() {
        let line = Line { low: 0.0, high: 10.0, bin: None };
        assert_eq!(reaches(&[4.0], line), [6.0]);
        assert_eq!(reaches(&[4.0, 1.0, 9.0, 8.0], line), [4.0, 3.0, 1.0, 4.0]);
        assert!(reaches(&[], line).is_empty());
    }

    #[test]
    fn recent_observations_count_fully() {
        assert_eq!(age_weights(3), [1.0; 3]);
        let weights = age_weights(27);
        assert!((weights[0] - 1.0 / 27.0).abs() < 1e-15 && weights[1] == 1.0 && weights.len() == 27);
    }
}
