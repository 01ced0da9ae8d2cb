//! The frame that all pages share.

use maud::{DOCTYPE, Markup, PreEscaped, html};

/// Scripts of all pages.
const SCRIPTS: [&str; 9] = [
    include_str!("base.js"),
    include_str!("numbers.js"),
    include_str!("tables.js"),
    include_str!("detail.js"),
    include_str!("address.js"),
    include_str!("rows.js"),
    include_str!("means.js"),
    include_str!("chooser.js"),
    include_str!("jobs.js"),
];

/// Scripts of pages with charts.
const CHARTS: [&str; 5] = [
    include_str!("axes.js"),
    include_str!("chart.js"),
    include_str!("curves.js"),
    include_str!("overlay.js"),
    include_str!("linked.js"),
];

/// A page.
pub struct Layout<'a> {
    /// Title of the window.
    pub title: &'a str,
    /// Mark that distinguishes this page from another version of it; may be empty.
    pub mark: &'a str,
    /// Everything above the contents.
    pub header: Markup,
    /// The contents.
    pub main: Markup,
    /// JSON for the script.
    pub data: &'a str,
    /// Script of the page, after the script of the list of jobs.
    pub script: &'a str,
    /// True if it has charts: interactive figures, or curves of jobs.
    pub charts: bool,
    /// True if it connects to its server.
    pub connect: bool,
}

impl Layout<'_> {
    /// Its text.
    pub fn render(&self) -> String {
        // In a script element JSON must not end the element; `<` is only in its texts.
        let data = self.data.replace('<', "\\u003c");
        // The author of the data cannot know it in advance.
        let mut hasher = blake3::Hasher::new();
        hasher.update(data.as_bytes()).update(self.main.0.as_bytes()).update(self.header.0.as_bytes());
        let nonce = &hasher.finalize().to_hex()[..32];
        let connect = if self.connect { "; connect-src 'self'" } else { "" };
        let policy = format!(
            "default-src 'none'; script-src 'nonce-{nonce}'; style-src 'nonce-{nonce}'; base-uri 'none'; form-action 'none'{connect}"
        );
        let page = html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    meta charset="utf-8";
                    meta http-equiv="Content-Security-Policy" content=(policy);
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    meta name="referrer" content="no-referrer";
                    @if !self.mark.is_empty() { meta name="mark" content=(self.mark); }
                    title { (self.title) " · sweep" }
                    style nonce=(nonce) {
                        @if self.charts { (PreEscaped(include_str!("uplot/uPlot.min.css"))) }
                        (PreEscaped(include_str!("page.css")))
                    }
                }
                body {
                    header { (self.header) }
                    main { (self.main) }
                    script type="application/json" id="data" { (PreEscaped(data)) }
                    @if self.charts { script nonce=(nonce) { (PreEscaped(include_str!("uplot/uPlot.iife.min.js"))) } }
                    script nonce=(nonce) {
                        @for part in SCRIPTS { (PreEscaped(part)) }
                        @if self.charts { @for part in CHARTS { (PreEscaped(part)) } }
                        (PreEscaped(self.script))
                    }
                }
            }
        };
        page.into_string()
    }
}

/// The list of jobs, which the script fills; `more` stands below it.
pub fn list_section(more: &Markup) -> Markup {
    html! {
        section id="jobs" {
            h2 { "Jobs" }
            form .filter {
                label for="filter" { "Show jobs whose name has" }
                input id="filter" type="search" autocomplete="off" spellcheck="false" placeholder="Filter: seed=0 lr=0.1 loss<2.5" aria-describedby="filter-help";
                label for="step" { "Step" }
                select id="step" autocomplete="off" {}
                label for="state" { "State" }
                select id="state" autocomplete="off" {}
                label for="group" { "Groups" }
                select id="group" autocomplete="off" {}
            }
            p .hidden #filter-help { "Words of names, values as seed=0 or lr=0.1|0.2, ranges as lr=0.001..0.1, and comparisons as loss<2.5; all of them must hold." }
            p .note #filter-note role="status" hidden {}
            details .columns #columns { summary { "Columns" } div #columns-body {} }
            p .note { span #shown role="status" {} span #restricted {} span .printed #how {} " " button .plain type="button" id="unpick" hidden { "Choose no jobs" } " " span #pair hidden {} }
            p .note #means role="status" hidden {}
            p .hidden #keys { "Arrow keys move from job to job, Page Up and Page Down to other pages; Enter opens a \
                job, Escape closes it." }
            div .panel {
                div .scroll tabindex="0" role="region" aria-label="Jobs" aria-describedby="keys" {
                    table .jobs { thead { tr #jobs-head {} } tbody #jobs-body {} }
                }
            }
            p .pages #pages hidden {
                button .plain type="button" id="earlier" { "Earlier" }
                button .plain type="button" id="later" { "Later" }
            }
            (more)
            div #overlay hidden {}
            div #plots {}
            noscript { p { "The list of jobs needs JavaScript; everything else does not." } }
        }
    }
}
