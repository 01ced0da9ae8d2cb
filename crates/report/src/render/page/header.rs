//! Head of a report, as of a paper: the title, the question, who ran it, where and when, a summary of the verdicts, and the contents.

use maud::{Markup, html};

use super::{Contents, Laid};
use crate::{
    analysis::{State, Verdict, tally},
    format::clean,
    recipe::Recipe,
    render::{part, prose},
};

/// Names that a sentence lists at most.
const MAX_NAMES: usize = 6;
/// Tables or figures that the contents list at most.
const MAX_LISTED: usize = 24;

impl Laid<'_> {
    /// The head of the page.
    pub(super) fn header(&self) -> Markup {
        let Contents { study, verdicts, .. } = self.contents;
        let recipe = &study.recipe;
        let tally = self.jobs.tally();
        html! {
            div .top { h1 { (clean(&recipe.name)) } @if self.jobs.live { span .pill.running { "▸ live" } } }
            @if let Some(about) = &recipe.about { p .about { (prose::markup(about)) } }
            @if let Some(part) = part(recipe) { p .note .part { (clean(&part)) } }
            @if let Some(cite) = &recipe.cite { p .note { "about " cite { (clean(&cite.to_string())) } } }
            (self.byline())
            @if !verdicts.is_empty() { p .abstract { (prose::markup(&abstract_of(recipe, verdicts))) } }
            div .status {
                p .summary { (tally.words()) }
                @if self.jobs.live {
                    span .note #age { }
                    button .plain #pause type="button" hidden { "Pause" }
                }
            }
            (tally.bar())
            (self.contents_list())
        }
    }

    fn byline(&self) -> Markup {
        let particulars = self.byline.map(|byline| byline.0.as_slice()).unwrap_or_default();
        html! {
            @if !particulars.is_empty() {
                dl .byline { @for (name, value) in particulars { div { dt { (name) } dd { (value) } } } }
            }
        }
    }

    /// Links to the sections, and to the tables and figures in them.
    fn contents_list(&self) -> Markup {
        let Contents { tables, figures, verdicts, decisions, .. } = self.contents;
        html! {
            nav .contents aria-label="Contents" {
                ul {
                    @if !verdicts.is_empty() { li { a href="#claims" { "Claims" } } }
                    @if !tables.is_empty() {
                        li { a href="#tables" { "Tables" }
                            (list("table", tables.iter().map(|table| (table.name.as_str(), table.title.as_str()))))
                        }
                    }
                    @if !figures.is_empty() {
                        li { a href="#figures" { "Figures" }
                            (list("figure", figures.iter().map(|figure| (figure.name.as_str(), figure.title.as_str()))))
                        }
                    }
                    @if !decisions.is_empty() { li { a href="#search" { "Search" } } }
                    li { a href="#steps" { "Steps" } }
                    li { a href="#jobs" { "Jobs" } }
                    @if self.setup.is_some() { li { a href="#setup" { "Setup" } } }
                    li { a href="#asked" { "Recipe" } }
                }
            }
        }
    }
}

/// Links to the first tables or figures, which are named by their titles, and the number of the others.
fn list<'a>(kind: &str, parts: impl ExactSizeIterator<Item = (&'a str, &'a str)>) -> Markup {
    let number = parts.len();
    html! {
        @if number > 1 {
            ol { @for (name, title) in parts.take(MAX_LISTED) { li { a href={ "#" (kind) "-" (name) } { (prose::markup(title)) } } } }
            @if number > MAX_LISTED { p .note { "and " (number - MAX_LISTED) " more" } }
        }
    }
}

/// The verdicts in a paragraph: their numbers, and the claims of each state by name.
fn abstract_of(recipe: &Recipe, verdicts: &[Verdict]) -> String {
    let tally = tally(verdicts).unwrap_or_else(|| "no claims".to_owned());
    let name = recipe.scale.as_ref().map_or(String::new(), |scale| format!(" at the scale {}", clean(scale)));
    let mut sentences = vec![format!("The study makes {tally}{name}.")];
    for (state, word) in [
        (State::Supported, "Supported"),
        (State::Refuted, "Refuted"),
        (State::Tied, "Tied"),
        (State::Undecided, "Undecided"),
    ] {
        let of: Vec<&Verdict> = verdicts.iter().filter(|verdict| verdict.state == state).collect();
        if of.is_empty() {
            continue;
        }
        let names = of.iter().take(MAX_NAMES).map(|verdict| {
            let text = verdict.says.as_deref().unwrap_or(&verdict.claim);
            text.trim().trim_end_matches('.').to_owned()
        });
        let names = names.collect::<Vec<_>>().join("; ");
        let more = if of.len() > MAX_NAMES { format!("; and {} more", of.len() - MAX_NAMES) } else { String::new() };
        sentences.push(format!("{word}: {names}{more}."));
    }
    sentences.join(" ")
}
