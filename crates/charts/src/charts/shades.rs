//! Shades: a scale of colors for numbers.

use plotters::prelude::*;

/// Viridis (van der Walt and Smith 2015) at equal distances: larger values are brighter, also for color-blind people
/// and in grayscale.
const SHADES: [(u8, u8, u8); 5] = [(68, 1, 84), (59, 82, 139), (33, 145, 140), (94, 201, 98), (253, 231, 37)];

/// The color of a share, from dark to bright.
pub(super) fn shade(share: f64) -> RGBColor {
    let place = share.clamp(0.0, 1.0) * (SHADES.len() - 1) as f64;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 0 to the last but one")]
    let index = (place as usize).min(SHADES.len() - 2);
    let (from, to, part) = (SHADES[index], SHADES[index + 1], place - index as f64);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between two bytes")]
    let mix = |from: u8, to: u8| (f64::from(from) + (f64::from(to) - f64::from(from)) * part).round() as u8;
    RGBColor(mix(from.0, to.0), mix(from.1, to.1), mix(from.2, to.2))
}
