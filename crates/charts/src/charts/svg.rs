//! The SVG canvas: the library's, with letters of the size that the other canvases draw.

use plotters::prelude::*;
use plotters_backend::{
    BackendColor, BackendCoord, BackendStyle, BackendTextStyle, DrawingErrorKind, FontFamily, FontStyle, FontTransform,
    text_anchor::Pos,
};

/// The library takes the size of a text as the height of its line, and writes letters of `1 / LINE` of it.
const LINE: f64 = 1.24;

/// An SVG that can be drawn on.
pub(super) struct Svg<'a>(SVGBackend<'a>);

impl<'a> Svg<'a> {
    /// Appends the drawing of this size to a text.
    pub(super) fn new(text: &'a mut String, size: (u32, u32)) -> Self {
        Self(SVGBackend::with_string(text, size))
    }
}

type Failure<'a> = <SVGBackend<'a> as DrawingBackend>::ErrorType;
type Done<'a> = Result<(), DrawingErrorKind<Failure<'a>>>;

impl<'a> DrawingBackend for Svg<'a> {
    type ErrorType = Failure<'a>;

    fn get_size(&self) -> (u32, u32) {
        self.0.get_size()
    }

    fn ensure_prepared(&mut self) -> Done<'a> {
        self.0.ensure_prepared()
    }

    fn present(&mut self) -> Done<'a> {
        self.0.present()
    }

    fn draw_pixel(&mut self, point: BackendCoord, color: BackendColor) -> Done<'a> {
        self.0.draw_pixel(point, color)
    }

    fn draw_line<S: BackendStyle>(&mut self, from: BackendCoord, to: BackendCoord, style: &S) -> Done<'a> {
        self.0.draw_line(from, to, style)
    }

    fn draw_rect<S: BackendStyle>(&mut self, from: BackendCoord, to: BackendCoord, style: &S, fill: bool) -> Done<'a> {
        self.0.draw_rect(from, to, style, fill)
    }

    fn draw_path<S: BackendStyle, I: IntoIterator<Item = BackendCoord>>(&mut self, path: I, style: &S) -> Done<'a> {
        self.0.draw_path(path, style)
    }

    fn draw_circle<S: BackendStyle>(&mut self, center: BackendCoord, radius: u32, style: &S, fill: bool) -> Done<'a> {
        self.0.draw_circle(center, radius, style, fill)
    }

    fn fill_polygon<S: BackendStyle, I: IntoIterator<Item = BackendCoord>>(
        &mut self,
        points: I,
        style: &S,
    ) -> Done<'a> {
        self.0.fill_polygon(points, style)
    }

    fn draw_text<S: BackendTextStyle>(&mut self, text: &str, style: &S, place: BackendCoord) -> Done<'a> {
        self.0.draw_text(text, &Line(style), place)
    }
}

/// The style of a text, with the height of its line as the size.
struct Line<'s, S>(&'s S);

impl<S: BackendTextStyle> BackendTextStyle for Line<'_, S> {
    type FontError = S::FontError;

    fn color(&self) -> BackendColor {
        self.0.color()
    }

    fn size(&self) -> f64 {
        self.0.size() * LINE
    }

    fn transform(&self) -> FontTransform {
        self.0.transform()
    }

    fn style(&self) -> FontStyle {
        self.0.style()
    }

    fn anchor(&self) -> Pos {
        self.0.anchor()
    }

    fn family(&self) -> FontFamily<'_> {
        self.0.family()
    }

    fn layout_box(&self, text: &str) -> Result<((i32, i32), (i32, i32)), Self::FontError> {
        self.0.layout_box(text)
    }

    fn draw<R, F: FnMut(i32, i32, BackendColor) -> Result<(), R>>(
        &self,
        text: &str,
        place: BackendCoord,
        draw: F,
    ) -> Result<Result<(), R>, Self::FontError> {
        self.0.draw(text, place, draw)
    }
}

#[cfg(test)]
mod tests {
    use ab_glyph::FontRef;

    use super::{
        super::letters::{FONT, Letters},
        *,
    };

    #[test]
    fn letters_have_one_size_in_all_forms() {
        let (digits, style) = ("0000000000", ("sans-serif", 13).into_font().color(&BLACK));
        let mut text = String::new();
        {
            let root = Svg::new(&mut text, (200, 50)).into_drawing_area();
            root.draw_text(digits, &style, (0, 0)).unwrap();
            root.present().unwrap();
        }
        let (_, rest) = text.split_once("font-size=\"").unwrap();
        let size: f64 = rest.split_once('"').unwrap().0.parse().unwrap();
        assert!((size - 13.0).abs() < 1e-9, "{text}");
        // A digit of the embedded font is 1303 of 2048 units wide.
        let font = FontRef::try_from_slice(FONT).unwrap();
        let letters = Letters::new(&font, digits, &style, 2.0);
        let last = 9.0 * 26.0 * 1303.0 / 2048.0;
        assert!((letters.glyphs[9].1 - last).abs() < 0.05, "{} instead of {last}", letters.glyphs[9].1);
    }
}
