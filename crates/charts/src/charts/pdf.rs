//! A PDF canvas: one page with the content of the SVG as vectors. Letters are outlines of the embedded font, so the file is the
//! same on every machine and needs no font.

use std::{collections::BTreeSet, convert::Infallible, fmt::Write as _};

use ab_glyph::{Font as _, FontRef, OutlineCurve, Point, ScaleFont as _};
use plotters::prelude::*;
use plotters_backend::{BackendColor, BackendCoord, BackendStyle, BackendTextStyle, DrawingErrorKind};

use super::{
    Area, Drawn,
    letters::{FONT, Letters, turned},
};

/// Distance of a control point from the end of a quarter of a circle, as a part of the radius.
const QUARTER: f32 = 0.552_284_8;

/// Draws and returns the PDF, whose page has this width in points; `None` if there was nothing to draw.
pub(super) fn pdf(size: (u32, u32), width: f32, draw: impl FnOnce(&Area<Pdf<'_>>) -> Drawn) -> Option<Vec<u8>> {
    let font = FontRef::try_from_slice(FONT).ok()?;
    let (mut content, mut opacities) = (String::new(), BTreeSet::new());
    let scale = width / size.0 as f32;
    let height = size.1 as f32 * scale;
    // From units downwards to points upwards.
    let _ = writeln!(content, "{scale:.5} 0 0 {:.5} 0 {height:.2} cm 1 J 1 j", -scale);
    let is_drawn = {
        let canvas = Pdf { content: &mut content, opacities: &mut opacities, size, font };
        matches!(draw(&canvas.into_drawing_area()), Ok(Ok(())))
    };
    is_drawn.then(|| file(&content, &opacities, (width, height)))
}

/// The file with one page.
fn file(content: &str, opacities: &BTreeSet<u8>, (width, height): (f32, f32)) -> Vec<u8> {
    let states = opacities.iter().fold(String::new(), |mut states, percent| {
        let part = f32::from(*percent) / 100.0;
        let _ = write!(states, "/A{percent} << /ca {part} /CA {part} >> ");
        states
    });
    let objects = [
        "<< /Type /Catalog /Pages 2 0 R >>".to_owned(),
        "<< /Type /Pages /Kids [3 0 R] /Count 1 >>".to_owned(),
        format!(
            "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 {width:.2} {height:.2}] /Contents 4 0 R \
             /Resources << /ExtGState << {states}>> >> >>"
        ),
        format!("<< /Length {} >>\nstream\n{content}\nendstream", content.len() + 1),
    ];
    let mut text = "%PDF-1.4\n".to_owned();
    let mut places = Vec::new();
    for (index, object) in objects.iter().enumerate() {
        places.push(text.len());
        let _ = write!(text, "{} 0 obj\n{object}\nendobj\n", index + 1);
    }
    let start = text.len();
    let count = objects.len() + 1;
    let _ = write!(text, "xref\n0 {count}\n0000000000 65535 f \n");
    for place in places {
        let _ = writeln!(text, "{place:010} 00000 n ");
    }
    let _ = write!(text, "trailer\n<< /Size {count} /Root 1 0 R >>\nstartxref\n{start}\n%%EOF\n");
    text.into_bytes()
}

/// A page that can be drawn on.
pub(super) struct Pdf<'a> {
    content: &'a mut String,
    /// The opacities in use, in percent.
    opacities: &'a mut BTreeSet<u8>,
    size: (u32, u32),
    font: FontRef<'static>,
}

type Done = Result<(), DrawingErrorKind<Infallible>>;

/// The use of a path.
#[derive(Clone, Copy)]
enum Use {
    Fill,
    /// Width of the line.
    Stroke(u32),
}

impl Pdf<'_> {
    /// Draws a path of PDF operators in a color.
    fn paint(&mut self, path: &str, color: BackendColor, how: Use) {
        if path.is_empty() || color.alpha <= 0.0 {
            return;
        }
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 0 to 100")]
        let percent = (color.alpha.clamp(0.0, 1.0) * 100.0).round() as u8;
        self.opacities.insert(percent);
        let (red, green, blue) = color.rgb;
        let [red, green, blue] = [red, green, blue].map(|part| f32::from(part) / 255.0);
        let _ = match how {
            Use::Fill => writeln!(self.content, "/A{percent} gs {red:.3} {green:.3} {blue:.3} rg {path}f"),
            Use::Stroke(width) => {
                writeln!(self.content, "/A{percent} gs {red:.3} {green:.3} {blue:.3} RG {} w {path}S", width.max(1))
            }
        };
    }
}

/// A path along some points. A line of one unit covers the unit that it is in.
fn path(points: impl IntoIterator<Item = BackendCoord>, how: Use, closed: bool) -> String {
    let offset = if matches!(how, Use::Stroke(_)) { 0.5 } else { 0.0 };
    let mut path = String::new();
    for (index, (x, y)) in points.into_iter().enumerate() {
        let operator = if index == 0 { 'm' } else { 'l' };
        let _ = write!(path, "{} {} {operator} ", x as f32 + offset, y as f32 + offset);
    }
    if closed && !path.is_empty() {
        path.push_str("h ");
    }
    path
}

fn how<S: BackendStyle>(style: &S, fill: bool) -> Use {
    if fill { Use::Fill } else { Use::Stroke(style.stroke_width()) }
}

impl DrawingBackend for Pdf<'_> {
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
        self.paint(&path([(x, y), (x + 1, y), (x + 1, y + 1), (x, y + 1)], Use::Fill, true), color, Use::Fill);
        Ok(())
    }

    fn draw_line<S: BackendStyle>(&mut self, from: BackendCoord, to: BackendCoord, style: &S) -> Done {
        self.draw_path([from, to], style)
    }

    fn draw_rect<S: BackendStyle>(&mut self, from: BackendCoord, to: BackendCoord, style: &S, fill: bool) -> Done {
        let how = how(style, fill);
        self.paint(&path([from, (to.0, from.1), to, (from.0, to.1)], how, true), style.color(), how);
        Ok(())
    }

    fn draw_path<S: BackendStyle, I: IntoIterator<Item = BackendCoord>>(&mut self, points: I, style: &S) -> Done {
        let how = how(style, false);
        self.paint(&path(points, how, false), style.color(), how);
        Ok(())
    }

    fn draw_circle<S: BackendStyle>(&mut self, center: BackendCoord, radius: u32, style: &S, fill: bool) -> Done {
        let how = how(style, fill);
        let offset = if fill { 0.0 } else { 0.5 };
        let (x, y, r) = (center.0 as f32 + offset, center.1 as f32 + offset, radius as f32);
        let k = QUARTER * r;
        let mut path = format!("{} {y} m ", x + r);
        for (right, down) in [(0.0, 1.0), (-1.0, 0.0), (0.0, -1.0), (1.0, 0.0_f32)] {
            // From the end of the quarter before, which is a right angle back.
            let (from_x, from_y) = (down, -right);
            let first = (x + from_x * r + right * k, y + from_y * r + down * k);
            let second = (x + right * r + from_x * k, y + down * r + from_y * k);
            let end = (x + right * r, y + down * r);
            let _ = write!(path, "{} {} {} {} {} {} c ", first.0, first.1, second.0, second.1, end.0, end.1);
        }
        path.push_str("h ");
        self.paint(&path, style.color(), how);
        Ok(())
    }

    fn fill_polygon<S: BackendStyle, I: IntoIterator<Item = BackendCoord>>(&mut self, points: I, style: &S) -> Done {
        self.paint(&path(points, Use::Fill, true), style.color(), Use::Fill);
        Ok(())
    }

    fn draw_text<S: BackendTextStyle>(&mut self, text: &str, style: &S, (left, top): BackendCoord) -> Done {
        let Letters { glyphs, base, scale } = Letters::new(&self.font, text, style, 1.0);
        let scaled_font = self.font.as_scaled(scale);
        let (across, high) = (scaled_font.h_scale_factor(), scaled_font.v_scale_factor());
        let transform = style.transform();
        let mut path = String::new();
        for (id, offset) in glyphs {
            let place = |Point { x, y }: Point| {
                let (x, y) = turned(&transform, (offset + x * across, base - y * high));
                (left as f32 + x, top as f32 + y)
            };
            let curves = self.font.outline(id).map_or_else(Vec::new, |outline| outline.curves);
            outline(&mut path, &curves, place);
        }
        self.paint(&path, style.color(), Use::Fill);
        Ok(())
    }
}

/// Adds the outline of a letter to a path.
fn outline(path: &mut String, curves: &[OutlineCurve], place: impl Fn(Point) -> (f32, f32)) {
    let mut last: Option<Point> = None;
    for curve in curves {
        let (from, to) = match curve {
            OutlineCurve::Line(from, to) | OutlineCurve::Quad(from, _, to) | OutlineCurve::Cubic(from, _, _, to) => {
                (*from, *to)
            }
        };
        if last != Some(from) {
            let (x, y) = place(from);
            let _ = write!(path, "{x:.2} {y:.2} m ");
        }
        let (x, y) = place(to);
        let _ = match curve {
            OutlineCurve::Line(..) => write!(path, "{x:.2} {y:.2} l "),
            OutlineCurve::Quad(_, middle, _) => {
                // The quadratic curve is written as a cubic one, whose control points are two thirds of the way from each
                // end to the quadratic control point.
                let (begin, control) = (place(from), place(*middle));
                let third = |end: f32, control: f32| end + (control - end) * 2.0 / 3.0;
                let one = (third(begin.0, control.0), third(begin.1, control.1));
                let two = (third(x, control.0), third(y, control.1));
                write!(path, "{:.2} {:.2} {:.2} {:.2} {x:.2} {y:.2} c ", one.0, one.1, two.0, two.1)
            }
            OutlineCurve::Cubic(_, one, two, _) => {
                let (one, two) = (place(*one), place(*two));
                write!(path, "{:.2} {:.2} {:.2} {:.2} {x:.2} {y:.2} c ", one.0, one.1, two.0, two.1)
            }
        };
        last = Some(to);
    }
}
