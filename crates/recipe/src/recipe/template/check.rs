//! Checks of the names in templates.

use sweep_job::{Value, tasks::FLAGS};

use super::{Known, MAX_VALUE_BYTES, Names, Piece, Scope, Template, TemplateKind, too_long};
use crate::recipe::{
    foreign,
    problem::{Collector, Problem, suggest},
    source::Sources,
};

/// Reports every expression with an unknown name, and every value that params make too long.
pub fn check_references(
    template: &Template,
    params: &Names,
    known: Known<'_>,
    sources: &Sources,
    problems: &mut Collector,
) {
    for reference in template.references() {
        let span = reference.span;
        let name = reference.name.as_str();
        let problem = match (&reference.scope, known) {
            (Scope::Params, _) if !params.contains_key(name) => {
                Problem::new(sources, span, format!("unknown param `{name}`"), "no param has this name")
                    .maybe_help(suggest(name, "params", params.keys().map(String::as_str)))
                    .maybe_help(params.is_empty().then(|| "this recipe has no `params`".into()))
            }
            (Scope::Matrix, Known { axes: None, .. }) => {
                Problem::new(sources, span, "an axis cannot be used here", "only `params` are known here")
            }
            (Scope::Matrix, Known { axes: Some(axes), .. }) if !axes.contains(&name) => {
                Problem::new(sources, span, format!("unknown axis `{name}`"), "no axis has this name")
                    .maybe_help(suggest(name, "axes of this step", axes.iter().copied()))
                    .maybe_help(axes.is_empty().then(|| "this step has no `matrix`".into()))
            }
            (Scope::Flags, Known { flags, .. }) if !flags || !template.has_item(span) => {
                let message = "`${{ flags }}` cannot be used here";
                Problem::new(sources, span, message, "not an item of the `argv` of a `command`")
                    .help(format!("write it as a whole argument: `argv: [python, train.py, \"{FLAGS}\"]`"))
            }
            (Scope::Needs(..), Known { needs: None, .. }) => {
                let message = "results of jobs cannot be used here";
                Problem::new(sources, span, message, "only `params` are known here")
                    .help("results are known only after the job has run; use them in `with`")
            }
            (Scope::Needs(step, _), Known { needs: Some(needs), .. }) if !needs.contains(&step.as_str()) => {
                let message = format!("this step does not need the step `{step}`");
                Problem::new(sources, span, message, "not in `needs`").help(
                    suggest(step, "needed steps", needs.iter().copied())
                        .unwrap_or_else(|| format!("add `needs: [{step}]`")),
                )
            }
            _ => continue,
        };
        problems.push(span, problem);
    }
    check_foreign(template, params, known, false, sources, problems);
    let size = template.size(params, &Names::new());
    if size > MAX_VALUE_BYTES {
        too_long(template, size, sources, problems);
    }
}

/// Reports names that are known here, but written in the notation of another tool, which would stay plain text.
/// An item of a list may be a text such as `params.lr` for its own reasons, for example as an argument of a program.
fn check_foreign(
    template: &Template,
    params: &Names,
    known: Known<'_>,
    is_item: bool,
    sources: &Sources,
    problems: &mut Collector,
) {
    let mut check = |text: &str| {
        let shift = sources.slice(template.span).find(text);
        for reference in foreign::references(text).into_iter().chain(foreign::bare(text).filter(|_| !is_item)) {
            let is_known = match reference.scope {
                "params" => params.contains_key(reference.name),
                _ => known.axes.is_some_and(|axes| axes.contains(&reference.name)),
            };
            if !is_known {
                continue;
            }
            // A value that is nothing else has one mistake, although it has the wrong type, too.
            let shift = shift.filter(|_| reference.len < text.len());
            let span = shift.map_or(template.span, |shift| template.span.part(shift + reference.start, reference.len));
            let quote = &text[reference.start..reference.start + reference.len];
            let problem = Problem::new(sources, span, format!("`{quote}` is not an expression"), "plain text");
            let help = format!("write `${{{{ {}.{} }}}}`", reference.scope, reference.name);
            problems.push(span, problem.help(help));
        }
    };
    match &template.kind {
        TemplateKind::Literal(Value::Text(text)) => check(text),
        TemplateKind::Mixed(pieces) => {
            for piece in pieces {
                if let Piece::Text(text) = piece {
                    check(text);
                }
            }
        }
        TemplateKind::Literal(_) | TemplateKind::Whole(_) => {}
        TemplateKind::List(items) => {
            for item in items {
                check_foreign(item, params, known, true, sources, problems);
            }
        }
        TemplateKind::Map(entries) => {
            for (_, value) in entries {
                check_foreign(value, params, known, false, sources, problems);
            }
        }
    }
}
