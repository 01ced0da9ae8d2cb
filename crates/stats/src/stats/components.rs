//! Components of variance: the parts of several random sources, such as the seeds of the data order and of the initialization, in
//! the variance of a single measurement.

use std::collections::BTreeMap;

use statrs::distribution::{ChiSquared, ContinuousCDF as _, FisherSnedecor};

use super::{Estimate, LEVEL, Leveled, solve::root};

/// The parts of random sources in the variance of a measurement.
#[derive(Debug, Clone, PartialEq)]
pub struct Components {
    /// The variance of each factor, in the order of the levels, with its 95 % interval. Never below zero.
    pub factors: Vec<Estimate>,
    /// The variance that no single factor explains: interactions and further sources; `None` with a single factor.
    pub rest: Option<Estimate>,
}

/// A mean square with its degrees of freedom.
#[derive(Debug, Clone, Copy)]
struct MeanSquare {
    value: f64,
    freedom: f64,
}

/// The components of values at crossed levels of random factors, with one value for each combination (analysis of variance). The interval
/// of a factor is the interval of a difference of two mean squares (Ting and others, 1990), of which the second contains the factor's
/// interactions. The rest is the sum of the components of the interactions of two factors and of the residual. Its interval, and the
/// interval of a single factor, use the chi-squared distribution with Satterthwaite's degrees of freedom. `None` if a combination is
/// missing or occurs twice, or if a factor has one level.
pub fn components(values: &[Leveled]) -> Option<Components> {
    let factors = values.first()?.0.len();
    let cells = values.len() as f64;
    let mean = values.iter().map(|(_, value)| value).sum::<f64>() / cells;
    let whole: f64 = values.iter().map(|(_, value)| (value - mean).powi(2)).sum();
    let mut squares = Vec::new();
    let (mut explained, mut used, mut combinations) = (0.0, 0.0, 1_usize);
    for factor in 0..factors {
        let mut groups: BTreeMap<usize, Vec<f64>> = BTreeMap::new();
        for (levels, value) in values {
            groups.entry(*levels.get(factor)?).or_default().push(*value);
        }
        let (levels, freedom) = (groups.len(), groups.len() as f64 - 1.0);
        if levels < 2 {
            return None;
        }
        let sum: f64 = groups.values().map(|group| group.len() as f64 * (mean_of(group) - mean).powi(2)).sum();
        squares.push((MeanSquare { value: sum / freedom, freedom }, cells / levels as f64));
        (explained, used) = (explained + sum, used + freedom);
        combinations = combinations.checked_mul(levels)?;
    }
    let mut distinct: Vec<&Vec<usize>> = values.iter().map(|(levels, _)| levels).collect();
    distinct.sort_unstable();
    distinct.dedup();
    if factors == 0 || combinations != values.len() || distinct.len() != values.len() {
        return None;
    }
    if let [(only, _)] = squares.as_slice() {
        return Some(Components { factors: vec![variance(*only)], rest: None });
    }
    let rest = MeanSquare { value: (whole - explained).max(0.0) / (cells - 1.0 - used), freedom: cells - 1.0 - used };
    let interactions = Interactions::new(values, &squares, rest);
    let errors: Vec<MeanSquare> =
        (0..factors).map(|factor| interactions.as_ref().map_or(rest, |of| of.error(factor))).collect();
    let rest = interactions.map_or(rest, |of| of.sum(&squares, cells).unwrap_or(rest));
    let factors =
        squares.into_iter().zip(errors).map(|((square, per), error)| difference(square, error, per)).collect();
    Some(Components { factors, rest: Some(variance(rest)) })
}

/// The interactions of more than two factors.
struct Interactions {
    /// The mean square of each pair of factors.
    pairs: BTreeMap<(usize, usize), MeanSquare>,
    /// The mean square of the higher interactions and of the residual.
    higher: MeanSquare,
    factors: usize,
}

impl Interactions {
    /// The interactions; `None` with two factors, whose interaction is the rest.
    fn new(values: &[Leveled], squares: &[(MeanSquare, f64)], rest: MeanSquare) -> Option<Self> {
        let factors = squares.len();
        if factors < 3 {
            return None;
        }
        let sum = |of: MeanSquare| of.value * of.freedom;
        let mean = values.iter().map(|(_, value)| value).sum::<f64>() / values.len() as f64;
        let pair = |first: usize, second: usize| {
            let mut groups: BTreeMap<(usize, usize), Vec<f64>> = BTreeMap::new();
            for (levels, value) in values {
                groups.entry((levels[first], levels[second])).or_default().push(*value);
            }
            let between: f64 = groups.values().map(|group| group.len() as f64 * (mean_of(group) - mean).powi(2)).sum();
            let [(first, _), (second, _)] = [squares[first], squares[second]];
            let freedom = first.freedom * second.freedom;
            MeanSquare { value: (between - sum(first) - sum(second)).max(0.0) / freedom, freedom }
        };
        let pairs: BTreeMap<(usize, usize), MeanSquare> = (0..factors)
            .flat_map(|first| (first + 1..factors).map(move |second| (first, second)))
            .map(|(first, second)| ((first, second), pair(first, second)))
            .collect();
        let freedom = rest.freedom - pairs.values().map(|of| of.freedom).sum::<f64>();
        let higher = (sum(rest) - pairs.values().map(|of| sum(*of)).sum::<f64>()).max(0.0);
        Some(Self { pairs, higher: MeanSquare { value: higher / freedom, freedom }, factors })
    }

    /// The expected mean square of a factor with zero variance: the mean squares of its interactions minus the higher ones. If the higher
    /// ones are not smaller, they are pooled.
    fn error(&self, factor: usize) -> MeanSquare {
        let pairs = self.pairs.iter().filter(|((first, second), _)| *first == factor || *second == factor);
        let own: Vec<MeanSquare> = pairs.map(|(_, of)| *of).collect();
        let less = (-(self.factors as f64 - 2.0), self.higher);
        let error = combined(own.iter().map(|of| (1.0, *of)).chain([less]));
        if error.value > self.higher.value {
            return error;
        }
        let freedom = own.iter().chain([&self.higher]).map(|of| of.freedom).sum::<f64>();
        let sum = own.iter().chain([&self.higher]).map(|of| of.value * of.freedom).sum::<f64>();
        MeanSquare { value: sum / freedom, freedom }
    }

    /// The sum of the components of the interactions and of the residual; `None` if its estimate is not above zero.
    fn sum(&self, squares: &[(MeanSquare, f64)], cells: f64) -> Option<MeanSquare> {
        let levels = |factor: usize| squares[factor].0.freedom + 1.0;
        let parts: Vec<(f64, MeanSquare)> =
            self.pairs.iter().map(|((first, second), of)| (levels(*first) * levels(*second) / cells, *of)).collect();
        let rest = 1.0 - parts.iter().map(|(part, _)| part).sum::<f64>();
        Some(combined(parts.into_iter().chain([(rest, self.higher)]))).filter(|sum| sum.value > 0.0)
    }
}

/// A combination of mean squares, with Satterthwaite's degrees of freedom.
fn combined(terms: impl Iterator<Item = (f64, MeanSquare)> + Clone) -> MeanSquare {
    let value: f64 = terms.clone().map(|(by, of)| by * of.value).sum();
    let spread: f64 = terms.map(|(by, of)| (by * of.value).powi(2) / of.freedom).sum();
    MeanSquare { value, freedom: value.powi(2) / spread }
}

/// The variance of independent values with its 95 % interval; `None` with fewer than two.
pub fn variance_of(values: &[f64]) -> Option<Estimate> {
    let freedom = values.len().checked_sub(1).filter(|freedom| *freedom > 0)? as f64;
    let mean = mean_of(values);
    let value = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / freedom;
    Some(variance(MeanSquare { value, freedom }))
}

fn mean_of(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

fn variance(of: MeanSquare) -> Estimate {
    let [low, high] = [f64::midpoint(1.0, LEVEL), (1.0 - LEVEL) / 2.0].map(|q| of.value / chi_quantile(q, of.freedom));
    Estimate { value: of.value, low: Some(low), high: Some(high), p: None }
}

/// The component (first − second)/per with the interval of Ting and others. Ends below zero are zero.
fn difference(first: MeanSquare, second: MeanSquare, per: f64) -> Estimate {
    let (upper, lower) = (f64::midpoint(1.0, LEVEL), (1.0 - LEVEL) / 2.0);
    let reach = |of: MeanSquare, q: f64| 1.0 / chi_quantile(q, of.freedom);
    let (g1, g2) = (1.0 - reach(first, upper), 1.0 - reach(second, upper));
    let (h1, h2) = (reach(first, lower) - 1.0, reach(second, lower) - 1.0);
    let [high, low] = [upper, lower].map(|q| f_quantile(q, first.freedom, second.freedom));
    let g12 = ((high - 1.0).powi(2) - (g1 * high).powi(2) - h2 * h2) / high;
    let h12 = ((1.0 - low).powi(2) - (h1 * low).powi(2) - g2 * g2) / low;
    let (a, b) = (first.value / per, second.value / per);
    let below = (g1 * a).powi(2) + (h2 * b).powi(2) + g12 * a * b;
    let above = (h1 * a).powi(2) + (g2 * b).powi(2) + h12 * a * b;
    let value = a - b;
    let end = |end: f64| Some(end.max(0.0));
    Estimate {
        value: value.max(0.0),
        low: end(value - below.max(0.0).sqrt()),
        high: end(value + above.max(0.0).sqrt()),
        p: None,
    }
}

/// Quantile of the chi-squared distribution, divided by its degrees of freedom.
fn chi_quantile(q: f64, freedom: f64) -> f64 {
    let Ok(chi) = ChiSquared::new(freedom) else { return f64::NAN };
    root(|log| chi.cdf(log.exp() * freedom) - q, -60.0, 20.0, 1e-12).exp()
}

fn f_quantile(q: f64, first: f64, second: f64) -> f64 {
    let Ok(ratio) = FisherSnedecor::new(first, second) else { return f64::NAN };
    root(|log| ratio.cdf(log.exp()) - q, -60.0, 60.0, 1e-12).exp()
}
