//! Claims, tables and figures of a report, in its page and in a notebook.

use maud::{Markup, PreEscaped, html};

use super::Figure;
use crate::{
    analysis::{Table, Verdict},
    format::clean,
    render::prose,
};

/// Maximum number of rows of a table; further rows are not shown.
const MAX_ROWS: usize = 300;
/// Number of columns above which a table is printed in landscape format.
const WIDE: usize = 8;
/// Maximum size of a drawing in the page, in bytes.
const MAX_DRAWN: usize = 300_000;

/// The document in which a report is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Medium {
    /// The report's page, with its script and with files beside it.
    Page,
    /// A notebook, which has no script, and may contain the report several times.
    Notebook,
}

impl Medium {
    /// The identifier of an element. `None` in a notebook, which may have elements of the same name.
    fn id(self, id: impl Into<String>) -> Option<String> {
        (self == Self::Page).then(|| id.into())
    }

    /// Words that lead to a file of the report.
    fn file(self, path: &str, words: &str) -> Markup {
        match self {
            Self::Page => html! { a href=(path) { (words) } },
            Self::Notebook => html! { (words) " (" code { (path) } " in the folder of the report)" },
        }
    }
}

/// A report as a part of another document: an element with a style that applies to nothing else.
pub fn notebook(
    part: Option<&str>,
    tables: &[Table],
    figures: &[Figure],
    verdicts: &[Verdict],
    note: Option<&str>,
) -> String {
    let medium = Medium::Notebook;
    let report = html! {
        div .sweep-report {
            style { (PreEscaped(include_str!("notebook.css"))) }
            @if let Some(part) = part { p .note { (part) } }
            @if !verdicts.is_empty() { (claims(verdicts, note, medium, |_| html! {})) }
            @if !tables.is_empty() { (self::tables(tables, medium)) }
            @if !figures.is_empty() { (self::figures(figures, medium)) }
        }
    };
    report.into_string() + "\n"
}

/// The verdicts on claims, each with its jobs as `evidence` shows them; `note` applies to all of them.
pub(super) fn claims(
    verdicts: &[Verdict],
    note: Option<&str>,
    medium: Medium,
    evidence: impl Fn(&Verdict) -> Markup,
) -> Markup {
    html! {
        section id=[medium.id("claims")] {
            h2 { "Claims" }
            div .cards {
            @for verdict in verdicts {
                @let (sign, class, word) = (verdict.state.sign(), verdict.state.word(), verdict.word());
                article class={ "claim " (class) } {
                    h3 { span class={ "pill " (class) } { span aria-hidden="true" { (sign) } " " (word) } " " (verdict.claim) }
                    @if let Some(says) = &verdict.says { p { (prose::markup(says)) } }
                    @if verdict.invariant { p .because { "an invariant: it is true by construction" } }
                    p .because {
                        (prose::markup(&verdict.because))
                        @if let Some(paper) = verdict.paper.filter(|_| verdict.paper_within.is_none()) { "; the paper has " (paper) }
                    }
                    @if let Some(agreement) = verdict.agreement() {
                        p .because {
                            (agreement) " – "
                            @for (index, choice) in verdict.choices.iter().enumerate() {
                                @if index > 0 { ", " }
                                span aria-hidden="true" { (choice.state.sign()) } " " (choice.choice) " (" (choice.state.word()) ")"
                            }
                        }
                    }
                    @if !verdict.devices.is_empty() { p .because { "on " (clean(&verdict.devices.join(", "))) } }
                    (evidence(verdict))
                }
            }
            }
            @if let Some(note) = note { p .note { (prose::markup(note)) } }
        }
    }
}

pub(super) fn tables(tables: &[Table], medium: Medium) -> Markup {
    html! {
        section id=[medium.id("tables")] {
            h2 { "Tables" }
            @for table in tables {
                @let headings = table.headings();
                figure .table .wide[headings.len() > WIDE] id=[medium.id(format!("table-{}", table.name))] {
                    figcaption { (prose::markup(&table.title)) }
                    div .scroll tabindex="0" role="region" aria-label=(table.title) {
                        table .sortable {
                            thead {
                                tr {
                                    @for (title, name) in table.titles().iter().zip(&headings) {
                                        th scope="col" title=[(title != name).then_some(name)] {
                                            @match medium {
                                                Medium::Page => button type="button" { (clean(title)) },
                                                Medium::Notebook => (clean(title)),
                                            }
                                        }
                                    }
                                }
                            }
                            tbody {
                                @for row in table.rows.iter().take(MAX_ROWS) {
                                    tr {
                                        @for (index, text) in table.texts(row).enumerate() {
                                            @if index < table.axes.len() {
                                                // An empty heading would not be accessible.
                                                th scope="row" { @if text.is_empty() { "\"\"" } @else { (text) } }
                                            } @else {
                                                @let column = index - table.axes.len();
                                                @let value = row.cells[column].value(table.columns[column].show);
                                                td data-value=[value] { (text) }
                                            }
                                        }
                                    }
                                }
                            }
                        }
                    }
                    @for note in &table.notes { p .note { (prose::markup(note)) } }
                    (files(medium, "tables", &table.name, &[("csv", "CSV"), ("tex", "LaTeX"), ("md", "Markdown")]))
                    @if table.rows.len() > MAX_ROWS {
                        p .note {
                            "The first " (MAX_ROWS) " of " (table.rows.len()) " rows; "
                            (medium.file(&format!("tables/{}.csv", table.name), "all of them")) "."
                        }
                    }
                }
            }
        }
    }
}

/// Links to the files of a table or a figure beside the page, each with the end of its name.
fn files(medium: Medium, folder: &str, name: &str, ends: &[(&str, &str)]) -> Markup {
    html! {
        @if medium == Medium::Page && !ends.is_empty() {
            p .note .files {
                @for (end, kind) in ends {
                    a href={ (folder) "/" (name) "." (end) } aria-label={ (kind) " of " (name) } { (kind) } " "
                }
            }
        }
    }
}

pub(super) fn figures(figures: &[Figure], medium: Medium) -> Markup {
    html! {
        section id=[medium.id("figures")] {
            h2 { "Figures" }
            div .figures {
                @for figure in figures {
                    // A drawing for a paper has no title of its own.
                    @let is_paper = figure.pdf.is_some();
                    figure .figure .paper[is_paper] id=[medium.id(format!("figure-{}", figure.name))] {
                        @if is_paper { figcaption { (prose::markup(&figure.title)) } }
                        @match &figure.svg {
                            Ok(svg) if svg.len() > MAX_DRAWN => p .note {
                                (medium.file(&format!("figures/{}.svg", figure.name), &figure.title)) " has too much in it for this page."
                            },
                            // Safe, because this program has drawn it and has escaped every text in it.
                            Ok(svg) => {
                                div .drawing role="img" tabindex=[(medium == Medium::Page).then_some("0")] aria-label=(figure.title) { (PreEscaped(svg)) }
                                @let data = figure.data.as_ref().filter(|_| medium == Medium::Page);
                                @if let Some(text) = data.and_then(|data| serde_json::to_string(data).ok()) {
                                    // JSON must not end the script element. `<` occurs only in texts, where it can be
                                    // escaped.
                                    script .points type="application/json" { (PreEscaped(text.replace('<', "\\u003c"))) }
                                }
                            },
                            Err(empty) => p .note { (figure.title) ": there is nothing to draw, because " (empty) "." },
                        }
                        @let ends = [(figure.svg.is_ok(), ("svg", "SVG")), (figure.png.is_some(), ("png", "PNG")), (is_paper, ("pdf", "PDF"))];
                        @let ends: Vec<(&str, &str)> = ends.into_iter().filter(|(is_there, _)| *is_there).map(|(_, end)| end).collect();
                        (files(medium, "figures", &figure.name, &ends))
                    }
                }
            }
        }
    }
}
