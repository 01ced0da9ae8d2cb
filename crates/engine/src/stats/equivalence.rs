//! Probabilities that a difference is negligible, or matters in one direction.

use statrs::distribution::{ContinuousCDF as _, StudentsT};

use super::{Precision, Sample};

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
/// The posterior with the uninformative prior is Student's t distribution with n − 1 degrees of freedom around the
/// mean, as for the frequentist interval. `None` with one difference, if the spread is zero and the precision does not
/// explain it, or if a number is not finite.
pub fn odds(sample: &Sample, region: f64, precision: Precision) -> Option<Odds> {
    let sd = precision.spread(sample.sd?)?;
    if !sample.mean.is_finite() || region.is_nan() || region < 0.0 {
        return None;
    }
    if sd == 0.0 {
        let certain = |is: bool| if is { 1.0 } else { 0.0 };
        let (less, more) = (certain(sample.mean < -region), certain(sample.mean > region));
        return Some(Odds { less, equivalent: 1.0 - less - more, more });
    }
    let error = sd / (sample.n as f64).sqrt();
    let student = StudentsT::new(0.0, 1.0, (sample.n - 1) as f64).ok()?;
    let less = student.cdf((-region - sample.mean) / error);
    let more = student.sf((region - sample.mean) / error);
    Some(Odds { less, equivalent: (1.0 - less - more).max(0.0), more })
}
