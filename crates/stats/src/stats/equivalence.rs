//! Probabilities that a difference is negligible, or matters in one direction.

use statrs::distribution::{ContinuousCDF as _, StudentsT};

use super::ErrorOfMean;

/// Posterior probabilities of a true mean difference; they add up to 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Odds {
    /// Probability that it is below the region of practical equivalence.
    pub less: f64,
    /// Probability that it is inside.
    pub equivalent: f64,
    /// Probability that it is above.
    pub more: f64,
}

/// The odds of the true mean difference being below −`region`, between −`region` and `region`, and above. `region` is
/// in the unit of the differences and not negative.
///
/// The posterior with the uninformative prior is Student's t distribution around the mean, as for the frequentist
/// interval. `None` if a number is not finite.
pub fn odds(mean: f64, ErrorOfMean { error, freedom }: ErrorOfMean, region: f64) -> Option<Odds> {
    if !mean.is_finite() || !error.is_finite() || region.is_nan() || region < 0.0 {
        return None;
    }
    if error == 0.0 {
        let certain = |is: bool| if is { 1.0 } else { 0.0 };
        let (less, more) = (certain(mean < -region), certain(mean > region));
        return Some(Odds { less, equivalent: 1.0 - less - more, more });
    }
    let student = StudentsT::new(0.0, 1.0, freedom).ok()?;
    let less = student.cdf((-region - mean) / error);
    let more = student.sf((region - mean) / error);
    Some(Odds { less, equivalent: (1.0 - less - more).max(0.0), more })
}
