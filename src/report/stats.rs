//! What can be said of a few numbers.

/// Mean and spread of some numbers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sample {
    /// How many.
    pub n: usize,
    /// Their mean.
    pub mean: f64,
    /// Their standard deviation, with n − 1 in the denominator; `None` for a single number.
    pub sd: Option<f64>,
}

impl Sample {
    /// Of these numbers; `None` if there are none.
    pub fn new(values: &[f64]) -> Option<Self> {
        let n = values.len();
        if n == 0 {
            return None;
        }
        let mean = values.iter().sum::<f64>() / n as f64;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        let sd = (n > 1).then(|| (squares / (n - 1) as f64).sqrt());
        // Equal numbers differ from their mean by a rounding; that is no spread.
        let sd = sd.map(|sd| if sd <= 1e-12 * mean.abs() { 0.0 } else { sd });
        Some(Self { n, mean, sd })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn textbook() {
        let sample = Sample::new(&[2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]).unwrap();
        assert_eq!((sample.n, sample.mean), (8, 5.0));
        assert!((sample.sd.unwrap() - (32.0_f64 / 7.0).sqrt()).abs() < 1e-15);
        assert_eq!(Sample::new(&[0.1, 0.1, 0.1]).unwrap().sd, Some(0.0));
        assert_eq!(Sample::new(&[3.0]), Some(Sample { n: 1, mean: 3.0, sd: None }));
        assert_eq!(Sample::new(&[]), None);
    }
}
