//! Even functions of `r` that are zero beyond a bound, as polynomials between their kinks.

use super::{FRAC_PI_2, PI};

/// Chebyshev nodes of a piece.
const NODES: usize = 9;
/// Kinks that are kept. Each one is smoother than the one before by half an order.
const KINKS: usize = 4;
/// Last coefficients of a polynomial that is accurate, and the width of a piece that is not divided further.
const ACCURATE: f64 = 1e-5;
const NARROWEST: f64 = 0.02;
/// Widest panel of a quadrature, in standard deviations of the angle.
const PANEL: f64 = 5.0;
/// Widest panel in t = tan(φ / 2), for the first values, where kinks leave the real axis but stay near it.
const MAX_PANEL_WIDTH: f64 = 0.5;
/// A factor of the density that cannot matter.
const NEGLIGIBLE: f64 = 1e-11;

/// Positive nodes and weights of the Gauss–Legendre rule with 12 points on (−1, 1).
const RULE: [(f64, f64); 6] = [
    (0.125_233_408_511_468_9, 0.249_147_045_813_402_8),
    (0.367_831_498_998_180_2, 0.233_492_536_538_354_8),
    (0.587_317_954_286_617_4, 0.203_167_426_723_065_92),
    (0.769_902_674_194_304_7, 0.160_078_328_543_346_23),
    (0.904_117_256_370_474_9, 0.106_939_325_995_318_43),
    (0.981_560_634_246_719_2, 0.047_175_336_386_511_83),
];

/// The variable in which a piece is a polynomial, from 0 to 1.
#[derive(Clone, Copy, PartialEq)]
enum Variable {
    /// The square of `r`, for the first piece of an even function.
    Square,
    /// The root of the distance from a kink, to the right of which the function is a power series in it.
    Root,
    /// The distance from the left end.
    Distance,
}

/// A function on the interval from `from` to `to`.
struct Piece {
    from: f64,
    to: f64,
    variable: Variable,
    coefficients: [f64; NODES],
}

/// An even function of `r` that is zero beyond its bound.
pub(super) struct Pieces {
    bound: f64,
    pieces: Vec<Piece>,
}

/// A place that a panel must not contain: the angle, and `r` if the integrand has a kink there.
type Cut = (f64, Option<f64>);

impl Piece {
    fn new(from: f64, to: f64, variable: Variable, function: impl Fn(f64) -> f64) -> Self {
        let angle = |node: usize| PI * (node as f64 + 0.5) / NODES as f64;
        let mut piece = Self { from, to, variable, coefficients: [0.0; NODES] };
        let values: [f64; NODES] =
            std::array::from_fn(|node| function(piece.place(f64::midpoint(angle(node).cos(), 1.0))));
        for (order, coefficient) in piece.coefficients.iter_mut().enumerate() {
            let terms = values.iter().enumerate().map(|(node, value)| value * (order as f64 * angle(node)).cos());
            *coefficient = terms.sum::<f64>() * if order == 0 { 1.0 } else { 2.0 } / NODES as f64;
        }
        piece
    }

    /// `r` at a share, from 0 to 1, of the piece's own variable.
    fn place(&self, share: f64) -> f64 {
        let share = match self.variable {
            Variable::Square => share.sqrt(),
            Variable::Root => share * share,
            Variable::Distance => share,
        };
        self.from + (self.to - self.from) * share
    }

    /// The value at `r` (Clenshaw).
    fn value(&self, r: f64) -> f64 {
        let share = (r - self.from) / (self.to - self.from);
        let share = match self.variable {
            Variable::Square => share * share,
            Variable::Root => share.max(0.0).sqrt(),
            Variable::Distance => share,
        };
        let twice = 4.0 * share - 2.0;
        let (mut one, mut two) = (0.0, 0.0);
        for coefficient in self.coefficients[1..].iter().rev() {
            (one, two) = (coefficient + twice * one - two, one);
        }
        self.coefficients[0] + twice / 2.0 * one - two
    }
}

impl Pieces {
    /// 1 up to the bound.
    pub(super) fn constant(bound: f64) -> Self {
        Self { bound, pieces: vec![Piece::new(0.0, bound, Variable::Square, |_| 1.0)] }
    }

    /// A function up to the bound that is an integral of `next`. It has kinks where the largest `r′` that is reached
    /// passes a kink or the bound of `next`.
    pub(super) fn new(bound: f64, next: &Self, function: impl Fn(f64) -> f64) -> Self {
        let ends = next.kinks().chain([next.bound]);
        let mut cuts: Vec<f64> = ends.filter(|end| *end > 1.0).map(|end| (end * end - 1.0).sqrt()).collect();
        cuts.retain(|cut| *cut > 1e-3 * bound && *cut < bound * (1.0 - 1e-12));
        cuts.sort_by(f64::total_cmp);
        let kept = cuts.len().saturating_sub(KINKS);
        let mut ends = vec![0.0];
        ends.extend(&cuts[kept..]);
        ends.push(bound);
        let mut pieces = Vec::new();
        for ends in ends.windows(2) {
            let variable = if ends[0] == 0.0 { Variable::Square } else { Variable::Root };
            add(&mut pieces, ends[0], ends[1], variable, &function);
        }
        Self { bound, pieces }
    }

    fn kinks(&self) -> impl Iterator<Item = f64> {
        self.pieces.iter().filter(|piece| piece.variable == Variable::Root).map(|piece| piece.from)
    }

    /// ∫ cosᵖ(θ − shift) · value(|radius · sin θ|) dθ over the angles within π/2 of `shift`, which is not negative.
    pub(super) fn integral(&self, radius: f64, shift: f64, power: usize) -> f64 {
        let power = i32::try_from(power).unwrap_or(i32::MAX);
        let reach = NEGLIGIBLE.powf(1.0 / f64::from(power.max(1))).acos();
        let reach = if power < 2 { FRAC_PI_2 } else { reach };
        let width = (PANEL / 2.0 / f64::from(power + 1).sqrt()).min(MAX_PANEL_WIDTH);
        let cuts = self.cuts(radius, shift - reach, shift + reach);
        let (sin, cos) = shift.sin_cos();
        let mut sum = 0.0;
        for ends in cuts.windows(2) {
            let ((from, left), (to, right)) = (ends[0], ends[1]);
            let middle = (radius * f64::midpoint(from, to).sin()).abs();
            if middle > self.bound || to - from < 1e-14 {
                continue;
            }
            let Some(piece) = self.pieces.iter().find(|piece| middle <= piece.to).or(self.pieces.last()) else {
                continue;
            };
            // In t = tan(φ / 2), with φ = θ − shift, everything is rational.
            let integrand = |t: f64| {
                let scale = 1.0 / (1.0 + t * t);
                let (sine, cosine) = (2.0 * t * scale, (1.0 - t * t) * scale);
                2.0 * scale * cosine.powi(power) * piece.value((radius * (sine * cos + cosine * sin)).abs())
            };
            let (from, to) = (((from - shift) / 2.0).tan(), ((to - shift) / 2.0).tan());
            let is_rooted = |cut: Option<f64>| cut.is_some_and(|kink| middle > kink);
            sum += match (is_rooted(left), is_rooted(right)) {
                (false, false) => panels(from, to, width, integrand),
                (true, false) => rooted(from, to, width, integrand),
                (false, true) => rooted(to, from, width, integrand),
                (true, true) => {
                    let half = f64::midpoint(from, to);
                    rooted(from, half, width, integrand) + rooted(to, half, width, integrand)
                }
            };
        }
        sum
    }

    /// The ends, and the angles between them at which |radius · sin θ| passes the bound or a kink, in ascending order.
    fn cuts(&self, radius: f64, low: f64, high: f64) -> Vec<Cut> {
        let mut cuts = vec![(low, None), (high, None)];
        let starts = self.pieces.iter().skip(1).map(|piece| (piece.from, piece.variable == Variable::Root));
        for (end, is_kink) in starts.chain([(self.bound, false)]).filter(|(end, _)| *end < radius) {
            let angle = (end / radius).asin();
            let angles = [-PI + angle, -angle, angle, PI - angle].into_iter();
            cuts.extend(
                angles.filter(|angle| low < *angle && *angle < high).map(|angle| (angle, is_kink.then_some(end))),
            );
        }
        cuts.sort_by(|a, b| a.0.total_cmp(&b.0));
        cuts
    }
}

/// Adds a function on an interval, halved until its polynomials are accurate.
fn add(pieces: &mut Vec<Piece>, from: f64, to: f64, variable: Variable, function: &impl Fn(f64) -> f64) {
    let piece = Piece::new(from, to, variable, function);
    let tail = piece.coefficients[NODES - 1].abs() + piece.coefficients[NODES - 2].abs();
    if tail < ACCURATE || to - from < NARROWEST {
        pieces.push(piece);
        return;
    }
    let middle = f64::midpoint(from, to);
    add(pieces, from, middle, variable, function);
    add(pieces, middle, to, Variable::Distance, function);
}

/// An integral over panels that are narrow enough for the rule.
fn panels(from: f64, to: f64, width: f64, integrand: impl Fn(f64) -> f64) -> f64 {
    let count = ((to - from).abs() / width).ceil().max(1.0);
    let half = (to - from) / count / 2.0;
    let (mut sum, mut place) = (0.0, 0.5);
    while place < count {
        let middle = from + 2.0 * half * place;
        let pairs = RULE
            .iter()
            .map(|(node, weight)| weight * (integrand(middle - half * node) + integrand(middle + half * node)));
        sum += pairs.sum::<f64>() * half;
        place += 1.0;
    }
    sum
}

/// An integral, as a positive number, of a function that is a power series in the root of the distance from `from`.
fn rooted(from: f64, to: f64, width: f64, integrand: impl Fn(f64) -> f64) -> f64 {
    let length = to - from;
    let count = (length.abs() / width).max(1.0);
    panels(0.0, 1.0, 1.0 / count, |share| 2.0 * share * integrand(from + length * share * share)) * length.abs()
}
