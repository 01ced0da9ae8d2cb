//! Lines of text as glyphs of the embedded font, for the canvases that draw letters themselves.

use ab_glyph::{Font as _, FontRef, GlyphId, PxScale, ScaleFont as _};
use plotters_backend::{
    BackendTextStyle, FontTransform,
    text_anchor::{HPos, VPos},
};

/// `DejaVu` Sans; see `font/LICENSE`.
pub(super) const FONT: &[u8] = include_bytes!("font/DejaVuSans-subset.ttf");

/// Height of its letter x, for a size of 1.
const X_HEIGHT: f32 = 0.547;

/// Points of 1/72 inch for each pixel of 1/96 inch.
const POINTS: f32 = 0.75;

/// A line of text around its anchor, before it is turned.
pub(super) struct Letters {
    /// The glyphs, each with its distance to the right of the anchor.
    pub(super) glyphs: Vec<(GlyphId, f32)>,
    /// Distance of the baseline below the anchor.
    pub(super) base: f32,
    /// Size of the font.
    pub(super) scale: PxScale,
}

impl Letters {
    /// Lays a text out, at `zoom` units of the canvas for a unit of the drawing.
    pub(super) fn new<S: BackendTextStyle>(font: &FontRef<'_>, text: &str, style: &S, zoom: f32) -> Self {
        #[expect(clippy::cast_possible_truncation, reason = "the size of a font")]
        let size = style.size() as f32 * zoom;
        let scaled_font = font.as_scaled(font.pt_to_px_scale(size * POINTS).unwrap_or_else(|| size.into()));
        let ids: Vec<GlyphId> = text.chars().map(|char| scaled_font.glyph_id(char)).collect();
        let wide: f32 = ids.iter().map(|id| scaled_font.h_advance(*id)).sum();
        let anchor = style.anchor();
        let mut offset = match anchor.h_pos {
            HPos::Left => 0.0,
            HPos::Center => -wide / 2.0,
            HPos::Right => -wide,
        };
        // As in the SVG: `dy` of `0.76em`, `0.5ex` and `-0.5ex`.
        let base = match anchor.v_pos {
            VPos::Top => 0.76 * size,
            VPos::Center => 0.5 * X_HEIGHT * size,
            VPos::Bottom => -0.5 * X_HEIGHT * size,
        };
        let glyphs = ids.into_iter().map(|id| {
            let place = offset;
            offset += scaled_font.h_advance(id);
            (id, place)
        });
        Self { glyphs: glyphs.collect(), base, scale: scaled_font.scale() }
    }
}

/// A place relative to the anchor, turned as the text is.
pub(super) fn turned(transform: &FontTransform, (x, y): (f32, f32)) -> (f32, f32) {
    match transform {
        FontTransform::None => (x, y),
        FontTransform::Rotate90 => (-y, x),
        FontTransform::Rotate180 => (-x, -y),
        FontTransform::Rotate270 => (y, -x),
    }
}
