//! Values with expressions: `${{ params.x }}`, `${{ matrix.x }}`, `${{ needs.step.metrics.x }}` and `${{ flags }}`.

use std::collections::BTreeMap;

use sweep_job::{Part, Spelling, Value, tasks::FLAGS};

mod check;

pub use self::check::check_references;
use super::{
    node::{Node, NodeKind},
    problem::{Collector, Problem},
    source::{Sources, Span, Spanned},
};
use crate::record::Product;

/// A value that may have expressions in it.
#[derive(Debug, Clone)]
pub struct Template {
    /// Place in the source.
    pub span: Span,
    kind: TemplateKind,
}

#[derive(Debug, Clone)]
enum TemplateKind {
    /// No expression.
    Literal(Value),
    /// A single expression: the value keeps its type.
    Whole(Reference),
    /// Text with expressions in it.
    Mixed(Vec<Piece>),
    /// A list with expressions in its items.
    List(Vec<Template>),
    /// A map with expressions in its values.
    Map(Vec<(String, Template)>),
}

#[derive(Debug, Clone)]
enum Piece {
    Text(String),
    Reference(Reference),
}

/// Reference of an expression.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reference {
    /// The part before the name.
    pub scope: Scope,
    /// The name after the scope; the name of an artifact may contain dots and slashes.
    pub name: String,
    /// The whole expression.
    pub span: Span,
}

/// Scope of a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scope {
    /// The recipe's `params`.
    Params,
    /// The step's axes.
    Matrix,
    /// Results of the jobs of a needed step, which are known after the jobs have run.
    Needs(String, Product),
    /// The values of a program's `params`, as arguments; it has no name.
    Flags,
}

/// Names that are known at a place: axes and needed steps. `None` if the place allows none.
#[derive(Debug, Clone, Copy, Default)]
pub struct Known<'a> {
    /// The axes.
    pub axes: Option<&'a [&'a str]>,
    /// The needed steps.
    pub needs: Option<&'a [&'a str]>,
    /// True where `${{ flags }}` may be an item of a list.
    pub flags: bool,
}

/// Names and their values, each with the place for messages about the value.
pub type Names = BTreeMap<String, Spanned<Value>>;

/// Maximum length of a value with inserted expressions, in bytes.
pub const MAX_VALUE_BYTES: usize = 1 << 20;

/// Length of a value's text in bytes. Numbers are not counted.
pub(crate) fn text_size(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Int(_) | Value::Float(_) => 0,
        Value::Text(text) => text.len(),
        Value::List(items) => items.iter().map(text_size).fold(0, usize::saturating_add),
        Value::Map(entries) => {
            entries.iter().map(|(key, value)| key.len() + text_size(value)).fold(0, usize::saturating_add)
        }
    }
}

/// Reports a value that is too long with its expressions filled in.
pub fn too_long(template: &Template, size: usize, sources: &Sources, problems: &mut Collector) {
    let message = format!("this value has {size} bytes with its expressions filled in; the limit is {MAX_VALUE_BYTES}");
    let problem = Problem::new(sources, template.span, message, "too long");
    problems.push(template.span, problem.help("write a long text to a file, and list the file in `inputs`"));
}

impl Template {
    /// Reads a value; expressions are parsed, but not resolved.
    pub fn parse(node: &Node, sources: &Sources, problems: &mut Collector) -> Option<Self> {
        if let Some(span) = map_in(node) {
            problems.push(
                span,
                Problem::new(sources, span, "a map is not allowed here", "expected a scalar or a list")
                    .help("write a number, a text, `true`, `false`, or a list of them"),
            );
            return None;
        }
        Self::parse_any(node, sources, problems)
    }

    /// Reads a value that may be a map.
    pub fn parse_any(node: &Node, sources: &Sources, problems: &mut Collector) -> Option<Self> {
        let kind = match &node.kind {
            NodeKind::Scalar(Value::Text(text)) if text.contains("${{") => {
                parse_text(text, node.span, sources, problems)?
            }
            NodeKind::Scalar(value) => TemplateKind::Literal(value.clone()),
            NodeKind::List(items) => {
                let items = items.iter().filter_map(|item| Self::parse_any(item, sources, problems));
                TemplateKind::List(items.collect())
            }
            NodeKind::Map(entries) => {
                let entries = entries.iter().filter_map(|entry| {
                    Some((entry.key.value.clone(), Self::parse_any(&entry.value, sources, problems)?))
                });
                TemplateKind::Map(entries.collect())
            }
        };
        Some(Self { span: node.span, kind })
    }

    /// A value without expressions.
    pub fn literal(value: Value, span: Span) -> Self {
        Self { span, kind: TemplateKind::Literal(value) }
    }

    /// The value of an axis.
    pub(super) fn axis(name: &str, span: Span) -> Self {
        Self { span, kind: TemplateKind::Whole(Reference { scope: Scope::Matrix, name: name.to_owned(), span }) }
    }

    /// A map of values.
    pub(super) fn map(entries: Vec<(String, Self)>, span: Span) -> Self {
        Self { span, kind: TemplateKind::Map(entries) }
    }

    /// Every expression in it.
    pub fn references(&self) -> Vec<&Reference> {
        match &self.kind {
            TemplateKind::Literal(_) => Vec::new(),
            TemplateKind::Whole(reference) => vec![reference],
            TemplateKind::Mixed(pieces) => pieces
                .iter()
                .filter_map(|piece| match piece {
                    Piece::Reference(reference) => Some(reference),
                    Piece::Text(_) => None,
                })
                .collect(),
            TemplateKind::List(items) => items.iter().flat_map(Self::references).collect(),
            TemplateKind::Map(entries) => entries.iter().flat_map(|(_, value)| value.references()).collect(),
        }
    }

    /// True if an expression is, as a whole, an item of this list.
    fn has_item(&self, expression: Span) -> bool {
        let TemplateKind::List(items) = &self.kind else { return false };
        let is = |item: &Self| matches!(&item.kind, TemplateKind::Whole(reference) if reference.span == expression);
        items.iter().any(is)
    }

    /// A part of it, if it is literal and not the result of an expression.
    pub fn part(&self, part: &Part) -> Option<&Self> {
        match (&self.kind, part) {
            (TemplateKind::List(items), Part::Item(index)) => items.get(*index),
            (TemplateKind::Map(entries), Part::Key(key)) => {
                entries.iter().find(|(name, _)| name == key).map(|(_, value)| value)
            }
            _ => None,
        }
    }

    /// Length of its text with inserted expressions, in bytes. Unknown expressions are not counted.
    pub fn size(&self, params: &Names, matrix: &Names) -> usize {
        let of = |reference: &Reference| {
            let value = match reference.scope {
                Scope::Params => params.get(&reference.name),
                Scope::Matrix => matrix.get(&reference.name),
                Scope::Needs(..) | Scope::Flags => None,
            };
            value.map_or(0, |value| text_size(&value.value))
        };
        match &self.kind {
            TemplateKind::Literal(value) => text_size(value),
            TemplateKind::Whole(reference) => of(reference),
            TemplateKind::Mixed(pieces) => pieces
                .iter()
                .map(|piece| match piece {
                    Piece::Text(text) => text.len(),
                    Piece::Reference(reference) => of(reference),
                })
                .fold(0, usize::saturating_add),
            TemplateKind::List(items) => {
                items.iter().map(|item| item.size(params, matrix)).fold(0, usize::saturating_add)
            }
            TemplateKind::Map(entries) => {
                entries.iter().map(|(_, value)| value.size(params, matrix)).fold(0, usize::saturating_add)
            }
        }
    }

    /// Returns the value, with its original place: for `${{ params.iters }}` the place of the value of `iters`. `None`
    /// if a name is unknown or the text is too long, which [`check_references`] has reported, if a result is not known
    /// yet, or if the point lacks an axis.
    pub fn resolve(&self, params: &Names, matrix: &Names) -> Option<Spanned<Value>> {
        self.resolve_with(params, matrix, Spelling::Canonical, &|_| None)
    }

    /// Resolves the value with `needs`, which returns results of needed jobs. Numbers within texts are in a spelling. In a
    /// list, an expression whose value is a list inserts all of its items. A map lacks the entries whose axes the point
    /// lacks.
    pub fn resolve_with(
        &self,
        params: &Names,
        matrix: &Names,
        spelling: Spelling,
        needs: &dyn Fn(&Reference) -> Option<Value>,
    ) -> Option<Spanned<Value>> {
        let look_up = |reference: &Reference| match reference.scope {
            Scope::Params => params.get(&reference.name).cloned(),
            Scope::Matrix => matrix.get(&reference.name).cloned(),
            Scope::Needs(..) => needs(reference).map(|value| Spanned::new(value, self.span)),
            Scope::Flags => Some(Spanned::new(Value::Text(FLAGS.to_owned()), self.span)),
        };
        let resolved = |part: &Self| Some(part.resolve_with(params, matrix, spelling, needs)?.value);
        match &self.kind {
            TemplateKind::Literal(value) => Some(Spanned::new(value.clone(), self.span)),
            TemplateKind::Whole(reference) => look_up(reference),
            // A text that was reported as too long is not built.
            TemplateKind::Mixed(_) if self.size(params, matrix) > MAX_VALUE_BYTES => None,
            TemplateKind::Mixed(pieces) => {
                let mut text = String::new();
                for piece in pieces {
                    match piece {
                        Piece::Text(piece) => text.push_str(piece),
                        Piece::Reference(reference) => text.push_str(&look_up(reference)?.value.spelled(spelling)),
                    }
                }
                Some(Spanned::new(Value::Text(text), self.span))
            }
            TemplateKind::List(templates) => {
                let mut items = Vec::with_capacity(templates.len());
                for template in templates {
                    match (resolved(template)?, &template.kind) {
                        (Value::List(several), TemplateKind::Whole(Reference { scope: Scope::Needs(..), .. })) => {
                            items.extend(several);
                        }
                        (item, _) => items.push(item),
                    }
                }
                Some(Spanned::new(Value::List(items), self.span))
            }
            TemplateKind::Map(entries) => {
                let entries = entries.iter().filter(|(_, value)| !value.is_left_out(matrix));
                let entries = entries.map(|(key, value)| Some((key.clone(), resolved(value)?)));
                Some(Spanned::new(Value::Map(entries.collect::<Option<_>>()?), self.span))
            }
        }
    }

    /// True if this is the value of an axis that a point lacks, so that the point has no such value.
    pub fn is_left_out(&self, matrix: &Names) -> bool {
        matches!(&self.kind, TemplateKind::Whole(reference) if reference.is_lacking(matrix))
    }

    /// An expression within a text or a list whose axis a point lacks.
    pub fn lacking(&self, matrix: &Names) -> Option<&Reference> {
        match &self.kind {
            TemplateKind::Literal(_) | TemplateKind::Whole(_) => None,
            TemplateKind::Mixed(_) => self.references().into_iter().find(|reference| reference.is_lacking(matrix)),
            TemplateKind::List(items) => items.iter().find_map(|item| match &item.kind {
                TemplateKind::Whole(reference) => Some(reference).filter(|reference| reference.is_lacking(matrix)),
                _ => item.lacking(matrix),
            }),
            TemplateKind::Map(entries) => entries.iter().find_map(|(_, value)| value.lacking(matrix)),
        }
    }

    /// True if numbers in its value have two [spellings](Spelling).
    pub fn is_respelled(&self, params: &Names, matrix: &Names) -> bool {
        let of = |reference: &Reference| match reference.scope {
            Scope::Params => params.get(&reference.name).is_some_and(|value| value.value.is_respelled()),
            Scope::Matrix => matrix.get(&reference.name).is_some_and(|value| value.value.is_respelled()),
            Scope::Needs(..) | Scope::Flags => false,
        };
        match &self.kind {
            TemplateKind::Literal(value) => value.is_respelled(),
            TemplateKind::Whole(reference) => of(reference),
            TemplateKind::Mixed(_) => self.references().into_iter().any(of),
            TemplateKind::List(items) => items.iter().any(|item| item.is_respelled(params, matrix)),
            TemplateKind::Map(entries) => entries.iter().any(|(_, value)| value.is_respelled(params, matrix)),
        }
    }
}

impl Reference {
    /// True for an axis that a point lacks.
    fn is_lacking(&self, matrix: &Names) -> bool {
        self.scope == Scope::Matrix && !matrix.contains_key(&self.name)
    }
}

/// The place of a map in a value, outside of which it may only have lists.
fn map_in(node: &Node) -> Option<Span> {
    match &node.kind {
        NodeKind::Map(_) => Some(node.span),
        NodeKind::List(items) => items.iter().find_map(map_in),
        NodeKind::Scalar(_) => None,
    }
}

fn parse_text(text: &str, span: Span, sources: &Sources, problems: &mut Collector) -> Option<TemplateKind> {
    // Quotes and escapes shift the text relative to the source. In that case the whole value is marked.
    let shift = sources.slice(span).find(text);
    let mark = |start: usize, len: usize| shift.map_or(span, |shift| span.part(shift + start, len));
    let mut pieces = Vec::new();
    let mut rest = 0;
    while let Some(offset) = text[rest..].find("${{") {
        let start = rest + offset;
        if start > rest {
            pieces.push(Piece::Text(text[rest..start].to_owned()));
        }
        let Some(length) = text[start..].find("}}") else {
            let span = mark(start, text.len() - start);
            problems.push(span, Problem::new(sources, span, "unterminated expression", "`}}` is missing"));
            return None;
        };
        let span = mark(start, length + 2);
        pieces.push(Piece::Reference(parse_reference(&text[start + 3..start + length], span, sources, problems)?));
        rest = start + length + 2;
    }
    if rest < text.len() {
        pieces.push(Piece::Text(text[rest..].to_owned()));
    }
    Some(match <[Piece; 1]>::try_from(pieces) {
        Ok([Piece::Reference(reference)]) => TemplateKind::Whole(reference),
        Ok(pieces) => TemplateKind::Mixed(pieces.into()),
        Err(pieces) => TemplateKind::Mixed(pieces),
    })
}

/// List of valid expressions, for messages.
const EXPRESSIONS: &str = "an expression is `${{ params.NAME }}`, `${{ matrix.AXIS }}`, `${{ needs.STEP.metrics.NAME }}`, \
                           `${{ needs.STEP.curves.NAME }}` or `${{ needs.STEP.artifacts.NAME }}`";

fn parse_reference(body: &str, span: Span, sources: &Sources, problems: &mut Collector) -> Option<Reference> {
    let body = body.trim();
    if body == "flags" {
        return Some(Reference { scope: Scope::Flags, name: String::new(), span });
    }
    let (scope, name) = body.split_once('.').unwrap_or((body, ""));
    let found = match scope {
        "params" => Some((Scope::Params, name)).filter(|_| super::is_name(name)),
        "matrix" => Some((Scope::Matrix, name)).filter(|_| super::is_name(name)),
        "needs" => parse_needs(name),
        _ => {
            let problem = Problem::new(sources, span, format!("unknown expression `{body}`"), "not a known name");
            let help = if super::is_name(body) {
                format!("write `${{{{ params.{body} }}}}` for a param, `${{{{ matrix.{body} }}}}` for an axis")
            } else {
                EXPRESSIONS.to_owned()
            };
            problems.push(span, problem.help(help));
            return None;
        }
    };
    let Some((scope, name)) = found else {
        let operators = ['+', '-', '*', '/', '%', '(', '[', '|', '<', '>', '=', '?'];
        let (message, label, help) = if body.contains(char::is_whitespace) && body.contains(operators) {
            let help = "write the result as a param or an axis of its own, or let the program compute it";
            (format!("`{body}` is a computation, but an expression must be a single name"), "not a single name", help)
        } else {
            (format!("`{body}` names nothing"), "expected a name after the dot", EXPRESSIONS)
        };
        problems.push(span, Problem::new(sources, span, message, label).help(help));
        return None;
    };
    Some(Reference { scope, name: name.to_owned(), span })
}

/// Parses `STEP.metrics.NAME`, `STEP.curves.NAME` or `STEP.artifacts.NAME`.
fn parse_needs(text: &str) -> Option<(Scope, &str)> {
    let (step, rest) = text.split_once('.')?;
    let (product, name) = rest.split_once('.')?;
    let product = match product {
        "metrics" => Product::Metric,
        "curves" => Product::Curve,
        "artifacts" => Product::Artifact,
        _ => return None,
    };
    let printable = !name.is_empty() && name.chars().all(|char| !char.is_whitespace() && !"{}$".contains(char));
    (super::is_name(step) && printable).then(|| (Scope::Needs(step.to_owned(), product), name))
}
