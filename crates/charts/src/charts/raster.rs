//! A raster canvas: draws the content of the SVG as a PNG at twice the size, with an embedded font, so that the image
//! is the same on every machine.

use std::convert::Infallible;

use ab_glyph::{Font as _, FontRef, point};
use plotters::prelude::*;
use plotters_backend::{BackendColor, BackendCoord, BackendStyle, BackendTextStyle, DrawingErrorKind};
use tiny_skia::{FillRule, Paint, Path, PathBuilder, Pixmap, PremultipliedColorU8, Stroke, Transform};

use super::{
    Area, Drawn,
    letters::{FONT, Letters, turned},
};

/// Pixels per unit of the drawing.
const SCALE: f32 = 2.0;

/// Draws and returns the PNG; `None` if there was nothing to draw.
pub(super) fn png(size: (u32, u32), draw: impl FnOnce(&Area<Raster<'_>>) -> Drawn) -> Option<Vec<u8>> {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a small whole number")]
    let mut pixmap = Pixmap::new(size.0 * SCALE as u32, size.1 * SCALE as u32)?;
    let font = FontRef::try_from_slice(FONT).ok()?;
    let is_drawn = {
        let root = Raster { pixmap: &mut pixmap, size, font }.into_drawing_area();
        matches!(draw(&root), Ok(Ok(())))
    };
    if is_drawn { pixmap.encode_png().ok() } else { None }
}

/// Pixels that can be drawn on.
pub(super) struct Raster<'a> {
    pixmap: &'a mut Pixmap,
    size: (u32, u32),
    font: FontRef<'static>,
}

type Done = Result<(), DrawingErrorKind<Infallible>>;

impl Raster<'_> {
    fn fill(&mut self, path: Option<Path>, color: BackendColor) {
        if let Some(path) = path {
            self.pixmap.fill_path(&path, &paint(color), FillRule::Winding, scaled(0.0), None);
        }
    }

    fn stroke(&mut self, path: Option<Path>, style: &impl BackendStyle) {
        if let Some(path) = path {
            let stroke = Stroke { width: style.stroke_width().max(1) as f32, ..Stroke::default() };
            // A line of one unit covers the unit that it is in.
            self.pixmap.stroke_path(&path, &paint(style.color()), &stroke, scaled(0.5), None);
        }
    }

    /// Blends a color into a pixel.
    fn blend(&mut self, x: i64, y: i64, color: BackendColor, coverage: f32) {
        let (width, height) = (i64::from(self.pixmap.width()), i64::from(self.pixmap.height()));
        if x < 0 || y < 0 || x >= width || y >= height {
            return;
        }
        let Ok(index) = usize::try_from(y * width + x) else { return };
        let pixel = &mut self.pixmap.pixels_mut()[index];
        let alpha = f64::from(coverage) * color.alpha;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between two bytes")]
        let mix = |below: u8, above: u8| (f64::from(below) * (1.0 - alpha) + f64::from(above) * alpha).round() as u8;
        let (red, green, blue) = color.rgb;
        let mixed = PremultipliedColorU8::from_rgba(
            mix(pixel.red(), red),
            mix(pixel.green(), green),
            mix(pixel.blue(), blue),
            mix(pixel.alpha(), u8::MAX),
        );
        if let Some(mixed) = mixed {
            *pixel = mixed;
        }
    }
}

fn paint(color: BackendColor) -> Paint<'static> {
    let mut paint = Paint { anti_alias: true, ..Paint::default() };
    let (red, green, blue) = color.rgb;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 0 to 255")]
    paint.set_color_rgba8(red, green, blue, (color.alpha.clamp(0.0, 1.0) * 255.0).round() as u8);
    paint
}

fn scaled(offset: f32) -> Transform {
    Transform::from_row(SCALE, 0.0, 0.0, SCALE, offset * SCALE, offset * SCALE)
}

fn polygon(points: impl IntoIterator<Item = BackendCoord>, closed: bool) -> Option<Path> {
    let mut path = PathBuilder::new();
    for (index, (x, y)) in points.into_iter().enumerate() {
        let (x, y) = (x as f32, y as f32);
        if index == 0 { path.move_to(x, y) } else { path.line_to(x, y) }
    }
    if closed {
        path.close();
    }
    path.finish()
}

impl DrawingBackend for Raster<'_> {
    type ErrorType = Infallible;

    fn get_size(&self) -> (u32, u32) {
        self.size
    }

    fn ensure_prepared(&mut self) -> Done {
        Ok(())
    }

    fn present(&mut self) -> Done {
        Ok(())
    }

    fn draw_pixel(&mut self, (x, y): BackendCoord, color: BackendColor) -> Done {
        self.fill(polygon([(x, y), (x + 1, y), (x + 1, y + 1), (x, y + 1)], true), color);
        Ok(())
    }

    fn draw_line<S: BackendStyle>(&mut self, from: BackendCoord, to: BackendCoord, style: &S) -> Done {
        self.stroke(polygon([from, to], false), style);
        Ok(())
    }

    fn draw_rect<S: BackendStyle>(&mut self, from: BackendCoord, to: BackendCoord, style: &S, fill: bool) -> Done {
        let path = polygon([from, (to.0, from.1), to, (from.0, to.1)], true);
        if fill {
            self.fill(path, style.color());
        } else {
            self.stroke(path, style);
        }
        Ok(())
    }

    fn draw_path<S: BackendStyle, I: IntoIterator<Item = BackendCoord>>(&mut self, path: I, style: &S) -> Done {
        self.stroke(polygon(path, false), style);
        Ok(())
    }

    fn draw_circle<S: BackendStyle>(&mut self, center: BackendCoord, radius: u32, style: &S, fill: bool) -> Done {
        let path = PathBuilder::from_circle(center.0 as f32, center.1 as f32, radius as f32);
        if fill {
            self.fill(path, style.color());
        } else {
            self.stroke(path, style);
        }
        Ok(())
    }

    fn fill_polygon<S: BackendStyle, I: IntoIterator<Item = BackendCoord>>(&mut self, points: I, style: &S) -> Done {
        self.fill(polygon(points, true), style.color());
        Ok(())
    }

    fn draw_text<S: BackendTextStyle>(&mut self, text: &str, style: &S, (x, y): BackendCoord) -> Done {
        let font = self.font.clone();
        let Letters { glyphs, base, scale } = Letters::new(&font, text, style, SCALE);
        let (left, top) = (x as f32 * SCALE, y as f32 * SCALE);
        for (id, offset) in glyphs {
            let glyph = id.with_scale_and_position(scale, point(offset, base));
            let Some(outline) = font.outline_glyph(glyph) else { continue };
            let bounds = outline.px_bounds();
            outline.draw(|x, y, coverage| {
                let place = (bounds.min.x + x as f32, bounds.min.y + y as f32);
                let (x, y) = turned(&style.transform(), place);
                #[expect(clippy::cast_possible_truncation, reason = "a picture is smaller")]
                self.blend((left + x).round() as i64, (top + y).round() as i64, style.color(), coverage);
            });
        }
        Ok(())
    }
}
