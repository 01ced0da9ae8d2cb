//! `if`: a condition on params and axes that keeps a point or drops it.
//!
//! Comparisons (`==`, `!=`, `<`, `<=`, `>`, `>=`) of params, axes, numbers, `'text'`, `true`, `false` and `null`,
//! joined by `&&`, `||`, `!` and parentheses. No functions, no arithmetic: a recipe is not a program.

use sweep_job::Value;

use super::{
    problem::{Collector, Problem, suggest},
    source::{Sources, Span},
    template::{Names, Reference, Scope},
};

/// A condition whose names are known.
#[derive(Debug, Clone)]
pub struct Condition {
    span: Span,
    root: Node,
}

/// A condition on the columns of a table, whose names have no prefix.
#[derive(Debug, Clone)]
pub struct Filter {
    root: Node,
}

/// Resolver of the names in a condition.
struct Look<'a> {
    up: &'a dyn Fn(&Reference) -> Value,
    /// Treats a missing value as neither smaller nor larger than anything, instead of as a mistake.
    lenient: bool,
}

#[derive(Debug, Clone)]
enum Node {
    Or(Box<Node>, Box<Node>),
    And(Box<Node>, Box<Node>),
    Not(Box<Node>),
    Compare(Box<Node>, Comparison, Box<Node>),
    Literal(Value),
    Reference(Reference),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Comparison {
    Equal,
    Unequal,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

#[derive(Debug, Clone, PartialEq)]
enum Token {
    Symbol(&'static str),
    Word(String),
    Literal(Value),
}

/// Longest first, so that `<=` is not read as `<`.
const SYMBOLS: [&str; 11] = ["&&", "||", "==", "!=", "<=", ">=", "<", ">", "!", "(", ")"];
/// The form of a condition, for messages.
const COMPARISONS: &str =
    "write comparisons of `params.NAME`, `matrix.AXIS`, numbers and 'text', joined by `&&`, `||` and `!`";
/// Maximum nesting of parentheses and negations, which bounds the recursion.
const MAX_DEPTH: usize = 64;

impl Condition {
    /// Reads a condition, with or without `${{ }}` around it, and reports names that are unknown.
    pub(super) fn parse(
        text: &str,
        span: Span,
        axes: &[&str],
        params: &Names,
        sources: &Sources,
        problems: &mut Collector,
    ) -> Option<Self> {
        let inner = text.trim().strip_prefix("${{").and_then(|rest| rest.strip_suffix("}}")).unwrap_or(text);
        // Quotes and escapes shift the text relative to the source. In that case the whole value is marked.
        let shift = sources.slice(span).find(inner);
        let mark = |start: usize, len: usize| shift.map_or(span, |shift| span.part(shift + start, len));
        let reference = |word: &str, start: usize, len: usize| {
            let (scope, name) = match word.split_once('.')? {
                ("params", name) => (Scope::Params, name),
                ("matrix", name) => (Scope::Matrix, name),
                _ => return None,
            };
            Some(Reference { scope, name: name.to_owned(), span: mark(start, len) })
        };
        let root = match parse(inner, &reference) {
            Ok(root) => root,
            Err((message, start, len)) => {
                let span = mark(start, len.max(1));
                let word = inner.get(start..start + len).unwrap_or_default();
                let help = match word {
                    "and" => "write `&&` for `and`".to_owned(),
                    "or" => "write `||` for `or`".to_owned(),
                    "not" => "write `!` for `not`".to_owned(),
                    "=" => "write `==`".to_owned(),
                    name if axes.contains(&name) => format!("write `matrix.{name}` for the axis"),
                    name if params.contains_key(name) => format!("write `params.{name}` for the param"),
                    _ => COMPARISONS.to_owned(),
                };
                let problem = Problem::new(sources, span, format!("`if` cannot be read: {message}"), "here").help(help);
                problems.push(span, problem);
                return None;
            }
        };
        let condition = Self { span, root };
        for reference in condition.references() {
            let (kind, names): (_, Vec<&str>) = if reference.scope == Scope::Params {
                ("params", params.keys().map(String::as_str).collect())
            } else {
                ("axes of this step", axes.to_vec())
            };
            if !names.contains(&reference.name.as_str()) {
                let message = format!("unknown name `{}`", reference.name);
                let problem = Problem::new(sources, reference.span, message, format!("not one of the {kind}"))
                    .maybe_help(suggest(&reference.name, kind, names));
                problems.push(reference.span, problem);
                return None;
            }
        }
        Some(condition)
    }

    /// Every name in it.
    pub fn references(&self) -> Vec<&Reference> {
        let mut references = Vec::new();
        self.root.references(&mut references);
        references
    }

    /// True if it holds; an error if it compares values that cannot be compared. An axis that a point does not have is
    /// null.
    pub fn holds(&self, params: &Names, matrix: &Names, sources: &Sources) -> Result<bool, (Span, Problem)> {
        let failed = |message: String| {
            let problem = Problem::new(sources, self.span, message, "in this condition")
                .help("compare numbers with numbers; `==` and `!=` compare anything");
            (self.span, problem)
        };
        let up = |reference: &Reference| {
            let names = if reference.scope == Scope::Params { params } else { matrix };
            names.get(&reference.name).map_or(Value::Null, |value| value.value.clone())
        };
        truth(&self.root, &Look { up: &up, lenient: false }).map_err(failed)
    }
}

impl Filter {
    /// Reads a condition. The error is a phrase with the mistake and its place in the text.
    pub fn parse(text: &str) -> Result<Self, String> {
        let reference = |word: &str, _: usize, _: usize| {
            Some(Reference { scope: Scope::Matrix, name: word.to_owned(), span: Span::default() })
        };
        let root = parse(text, &reference).map_err(|(message, start, len)| {
            let part: String = text.get(start..).unwrap_or_default().chars().take(len.min(40)).collect();
            if part.is_empty() { message } else { format!("{message}, at `{part}`") }
        })?;
        Ok(Self { root })
    }

    /// The columns that it refers to.
    pub fn names(&self) -> Vec<&str> {
        let mut references = Vec::new();
        self.root.references(&mut references);
        references.into_iter().map(|reference| reference.name.as_str()).collect()
    }

    /// True if it holds for these values of the columns; a missing value is null, which equals nothing else and has no
    /// order.
    pub fn holds(&self, value: &dyn Fn(&str) -> Value) -> Result<bool, String> {
        let up = |reference: &Reference| value(&reference.name);
        truth(&self.root, &Look { up: &up, lenient: true })
    }
}

fn truth(root: &Node, look: &Look<'_>) -> Result<bool, String> {
    match root.value(look)? {
        Value::Bool(holds) => Ok(holds),
        other => Err(format!("a condition is true or false, not {} `{other}`", other.kind())),
    }
}

impl Node {
    fn references<'a>(&'a self, references: &mut Vec<&'a Reference>) {
        match self {
            Self::Or(left, right) | Self::And(left, right) | Self::Compare(left, _, right) => {
                left.references(references);
                right.references(references);
            }
            Self::Not(inner) => inner.references(references),
            Self::Reference(reference) => references.push(reference),
            Self::Literal(_) => {}
        }
    }

    fn value(&self, look: &Look<'_>) -> Result<Value, String> {
        let truth = |node: &Self| match node.value(look)? {
            Value::Bool(truth) => Ok(truth),
            other => Err(format!("expected true or false, found {} `{other}`", other.kind())),
        };
        Ok(match self {
            Self::Or(left, right) => Value::Bool(truth(left)? || truth(right)?),
            Self::And(left, right) => Value::Bool(truth(left)? && truth(right)?),
            Self::Not(inner) => Value::Bool(!truth(inner)?),
            Self::Literal(value) => value.clone(),
            Self::Reference(reference) => (look.up)(reference),
            Self::Compare(left, comparison, right) => {
                let (left, right) = (left.value(look)?, right.value(look)?);
                let absent = matches!((&left, &right), (Value::Null, _) | (_, Value::Null));
                if look.lenient && absent && !matches!(comparison, Comparison::Equal | Comparison::Unequal) {
                    return Ok(Value::Bool(false));
                }
                Value::Bool(compare(&left, *comparison, &right)?)
            }
        })
    }
}

fn compare(left: &Value, comparison: Comparison, right: &Value) -> Result<bool, String> {
    let order = || match (left.as_f64(), right.as_f64()) {
        (Some(left), Some(right)) => Ok((left, right)),
        _ => Err(format!("{} `{left}` and {} `{right}` have no order", left.kind(), right.kind())),
    };
    Ok(match comparison {
        Comparison::Equal => left == right,
        Comparison::Unequal => left != right,
        Comparison::Less => order().map(|(left, right)| left < right)?,
        Comparison::LessOrEqual => order().map(|(left, right)| left <= right)?,
        Comparison::Greater => order().map(|(left, right)| left > right)?,
        Comparison::GreaterOrEqual => order().map(|(left, right)| left >= right)?,
    })
}

/// Message, offset, and length of a mistake in bytes.
type Mistake = (String, usize, usize);

fn tokens(text: &str) -> Result<Vec<(Token, usize, usize)>, Mistake> {
    let mut tokens = Vec::new();
    let mut at = 0;
    while let Some(first) = text[at..].chars().next() {
        let tail = &text[at..];
        if first.is_whitespace() {
            at += first.len_utf8();
            continue;
        }
        let (token, len) = if let Some(symbol) = SYMBOLS.iter().find(|symbol| tail.starts_with(**symbol)) {
            (Token::Symbol(symbol), symbol.len())
        } else if first == '\'' || first == '"' {
            let end = tail[1..].find(first).ok_or_else(|| ("unterminated text".to_owned(), at, tail.len()))?;
            (Token::Literal(Value::Text(tail[1..=end].to_owned())), end + 2)
        } else {
            let stop = |char: char| char.is_whitespace() || "&|=!<>()'\"".contains(char);
            let len = tail.find(stop).unwrap_or(tail.len());
            if len == 0 {
                return Err((format!("unexpected `{first}`"), at, first.len_utf8()));
            }
            (word(&tail[..len]), len)
        };
        tokens.push((token, at, len));
        at += len;
    }
    Ok(tokens)
}

fn word(text: &str) -> Token {
    Token::Literal(match text {
        "true" => Value::Bool(true),
        "false" => Value::Bool(false),
        "null" => Value::Null,
        text => match (text.parse::<i64>(), text.parse::<f64>()) {
            (Ok(int), _) => Value::Int(int),
            (_, Ok(float)) if float.is_finite() => Value::Float(float),
            _ => return Token::Word(text.to_owned()),
        },
    })
}

/// The reference that a word names, given its offset and length; `None` if it is not a name.
type Refer<'a> = &'a dyn Fn(&str, usize, usize) -> Option<Reference>;

struct Parser<'a> {
    tokens: &'a [(Token, usize, usize)],
    next: usize,
    depth: usize,
    end: usize,
    refer: Refer<'a>,
}

fn parse(text: &str, refer: Refer<'_>) -> Result<Node, Mistake> {
    let tokens = tokens(text)?;
    let mut parser = Parser { tokens: &tokens, next: 0, depth: 0, end: text.len(), refer };
    let root = parser.or()?;
    match parser.tokens.get(parser.next) {
        None => Ok(root),
        Some((_, start, len)) => Err(("expected an operator".to_owned(), *start, *len)),
    }
}

impl Parser<'_> {
    fn take(&mut self, symbol: &str) -> bool {
        let found = matches!(self.tokens.get(self.next), Some((Token::Symbol(found), ..)) if *found == symbol);
        self.next += usize::from(found);
        found
    }

    fn or(&mut self) -> Result<Node, Mistake> {
        let mut left = self.and()?;
        while self.take("||") {
            left = Node::Or(Box::new(left), Box::new(self.and()?));
        }
        Ok(left)
    }

    fn and(&mut self) -> Result<Node, Mistake> {
        let mut left = self.comparison()?;
        while self.take("&&") {
            left = Node::And(Box::new(left), Box::new(self.comparison()?));
        }
        Ok(left)
    }

    fn comparison(&mut self) -> Result<Node, Mistake> {
        let left = self.term()?;
        let comparison = [
            ("==", Comparison::Equal),
            ("!=", Comparison::Unequal),
            ("<=", Comparison::LessOrEqual),
            (">=", Comparison::GreaterOrEqual),
            ("<", Comparison::Less),
            (">", Comparison::Greater),
        ]
        .into_iter()
        .find(|(symbol, _)| self.take(symbol));
        match comparison {
            Some((_, comparison)) => Ok(Node::Compare(Box::new(left), comparison, Box::new(self.term()?))),
            None => Ok(left),
        }
    }

    fn term(&mut self) -> Result<Node, Mistake> {
        let Some((token, start, len)) = self.tokens.get(self.next) else {
            return Err(("it ends too early".to_owned(), self.end.saturating_sub(1), 1));
        };
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(("it is nested too deeply".to_owned(), *start, *len));
        }
        self.next += 1;
        let node = match token {
            Token::Symbol("!") => Node::Not(Box::new(self.term()?)),
            Token::Symbol("(") => {
                let inner = self.or()?;
                if !self.take(")") {
                    return Err(("a parenthesis is not closed".to_owned(), *start, *len));
                }
                inner
            }
            Token::Symbol(symbol) => return Err((format!("`{symbol}` has no left operand"), *start, *len)),
            Token::Literal(value) => Node::Literal(value.clone()),
            Token::Word(word) => {
                let Some(reference) = (self.refer)(word, *start, *len) else {
                    return Err((format!("`{word}` is not a name; text requires quotes: '{word}'"), *start, *len));
                };
                Node::Reference(reference)
            }
        };
        self.depth -= 1;
        Ok(node)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recipe::source::Spanned;

    fn holds(text: &str) -> Result<bool, String> {
        let mut sources = Sources::default();
        let source = sources.add("test", text);
        let span = Span { source, start: 0, len: u32::try_from(text.len()).unwrap() };
        let value = |value| Spanned::new(value, span);
        let params = Names::from([("deep".into(), value(Value::Bool(true))), ("n".into(), value(Value::Int(3)))]);
        let matrix =
            Names::from([("lr".into(), value(Value::Float(1e-3))), ("how".into(), value(Value::Text("a".into())))]);
        let mut problems = Collector::default();
        let Some(condition) = Condition::parse(text, span, &["lr", "how", "absent"], &params, &sources, &mut problems)
        else {
            return Err(problems.fail::<()>().unwrap_err().to_string());
        };
        condition.holds(&params, &matrix, &sources).map_err(|(_, problem)| problem.to_string())
    }

    #[test]
    fn what_holds() {
        for (text, expected) in [
            ("matrix.lr < 1e-2", true),
            ("${{ matrix.lr == 0.001 }}", true),
            ("matrix.how == 'a' && !(params.n > 3)", true),
            ("matrix.how != \"a\" || params.deep", true),
            ("params.n >= 3 && params.n <= 2", false),
            ("false || true && false", false),
            ("!params.deep", false),
            ("matrix.absent == null", true),
            ("params.n == '3'", false),
        ] {
            assert_eq!(holds(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn what_cannot_be_read() {
        for (text, part) in [
            ("matrix.lr <", "ends too early"),
            ("matrix.how == a", "text requires quotes"),
            ("(params.deep", "not closed"),
            ("params.deep params.n", "expected an operator"),
            ("== 3", "no left operand"),
            ("'a", "unterminated text"),
            ("matrix.rl < 1", "unknown name `rl`"),
            ("matrix.how < 3", "have no order"),
            ("params.n", "true or false"),
            ("", "ends too early"),
            (&"(".repeat(10_000), "too deeply"),
        ] {
            let error = holds(text).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
