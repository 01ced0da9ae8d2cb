//! A report as one HTML page: the request, verdicts, tables, figures, the graph of steps, and every job.
//!
//! The page needs no network and, as long as the details of all jobs fit into it, no other file; for a larger study it
//! has a line for every job, and the details are in other pages. Everything from a recipe or a record is escaped, and
//! the page's policy allows no script except its own.
//!
//! The scripts: `base.js` has elements, `numbers.js` numbers as texts, `tables.js` tables that sort, `detail.js` an open job, `address.js` the
//! view in the address, `rows.js` columns and filters, `means.js` groups and their means, `chooser.js` the choice of columns, `jobs.js` the
//! list, `axes.js` the marks of axes, `chart.js` charts, `curves.js` mean curves, `overlay.js` curves of many jobs, `linked.js` plots that
//! restrict the list, and `page.js` the report itself. They share one scope.

mod columns;
mod detail;
mod evidence;
mod followed;
mod graph;
mod header;
mod layout;
mod list;
mod report;
mod search;
mod tally;

use std::{
    borrow::Cow,
    collections::{BTreeMap, HashSet},
    fmt::Write as _,
    io::Read as _,
    ops::Range,
    path::Path,
};

use maud::{Markup, PreEscaped, html};

pub use self::{
    columns::{Heading, Headings},
    detail::{Detail, Tail, WHOLE, end_of, tail},
    followed::{FollowedRun, LiveCurve},
    graph::{Node, draw},
    layout::{Layout, list_section},
    list::{Head, Line, Place, STATES, quantiles},
    report::notebook,
    tally::Tally,
};
use self::{evidence::Places, list::Jobs, report::Medium};
use super::{
    Figure,
    setup::{Byline, Setup},
};
use crate::{
    analysis::{Account, Results, Table, Verdict, chance_of_error},
    format::{clean, clean_lines, count},
    host,
    plan::{JobId, Plan, Study},
    record::{Key, Record},
    store::Store,
};

/// Maximum size of the page in bytes, for any number of jobs.
const LIMIT: usize = 1_900_000;
/// Maximum size of a page with details in bytes, unless it has a single job.
const PART: usize = 1_000_000;
/// Maximum length of the displayed recipe, in bytes; a longer recipe is cut.
const MAX_ASKED: usize = 60_000;

/// Contents of the page.
#[derive(Debug, Clone, Copy)]
pub(super) struct Contents<'a> {
    pub(super) plan: &'a Plan,
    pub(super) study: &'a Study,
    pub(super) results: &'a Results,
    pub(super) store: &'a Store,
    pub(super) tables: &'a [Table],
    pub(super) figures: &'a [Figure],
    pub(super) verdicts: &'a [Verdict],
    /// The decisions of a search.
    pub(super) decisions: &'a [Account],
    /// The jobs that will not run because of these decisions, each with the reason.
    pub(super) ruled_out: &'a BTreeMap<JobId, String>,
}

/// The page, and the pages beside it.
#[derive(Debug)]
pub(super) struct Pages {
    /// `index.html`.
    pub(super) index: String,
    /// `jobs/1.html` and so on.
    pub(super) parts: Vec<String>,
    /// The experimental setup in Markdown. `None` while a run changes it.
    pub(super) setup: Option<String>,
}

/// The pages, which bear `mark`.
pub(super) fn render(contents: &Contents<'_>, mark: &str) -> Pages {
    let Contents { plan, study, results, store, tables, figures, verdicts, decisions, .. } = contents;
    let places = Places::new(contents);
    let evidence = |verdict: &Verdict| places.evidence(verdict);
    let report = html! {
        @if !verdicts.is_empty() { (report::claims(verdicts, chance_of_error(verdicts, study.recipe.family).as_deref(), Medium::Page, evidence)) }
        @if !tables.is_empty() { (report::tables(tables, Medium::Page)) }
        @if !figures.is_empty() { (report::figures(figures, Medium::Page)) }
        @if !decisions.is_empty() { (search::section(decisions)) }
    };
    let asked = asked(study);
    let records = results.records(plan, store, study.steps.iter().flatten().map(|(_, id)| *id));
    let jobs = Jobs::new(contents, &records);
    let lines = jobs.lines.iter().map(|line| serde_json::to_string(line).unwrap_or_default()).collect();
    let details = list::details(contents, &records, &jobs.curves);
    let setup = (!jobs.live).then(|| Setup::new(plan, study, store, verdicts, &records));
    let live = jobs.live.then(|| Byline::of_live(plan, study, &records, &jobs.runs));
    let byline = setup.as_ref().map(|setup| &setup.byline).or(live.as_ref());
    Laid { contents, jobs: &jobs, lines, details, report, byline, setup: setup.as_ref(), asked, mark }.pages()
}

/// A text that changes with the inputs of the page: the recipe, its changes, the records with their notes, this program. `None` while a
/// job is not done, because then a run may change its state.
pub(super) fn mark(plan: &Plan, study: &Study, results: &Results, store: &Store) -> Option<String> {
    let mut hasher = blake3::Hasher::new();
    for text in study.recipe.sources.texts().chain([env!("CARGO_PKG_VERSION"), &study.recipe.name]) {
        hasher.update(text.as_bytes()).update(&[0]);
    }
    for (point, id) in study.steps.iter().flatten() {
        let (key, stamp) = (plan.job(*id).key, results.stamp(*id)?);
        hasher.update(format!("{key} {stamp} {point}\0").as_bytes());
    }
    let keys: HashSet<Key> = study.steps.iter().flatten().map(|(_, id)| plan.job(*id).key).collect();
    for (key, notes) in store.all_notes().iter().filter(|(key, _)| keys.contains(key)) {
        hasher.update(format!("{key} {}\0", serde_json::to_string(notes).ok()?).as_bytes());
    }
    Some(hasher.finalize().to_hex()[..32].to_owned())
}

/// True if a page contains a mark.
pub(super) fn has_mark(page: &Path, mark: &str) -> bool {
    let mut head = Vec::new();
    let read = fs_err::File::open(page).and_then(|file| file.take(1000).read_to_end(&mut head));
    read.is_ok() && String::from_utf8_lossy(&head).contains(mark)
}

/// The records of the recipe's jobs.
pub(super) type Records<'a> = BTreeMap<JobId, Cow<'a, Record>>;

/// The rendered contents, before they are distributed over pages.
struct Laid<'a> {
    contents: &'a Contents<'a>,
    jobs: &'a Jobs,
    /// The jobs' lines as JSON, and the details of each.
    lines: Vec<String>,
    details: Vec<String>,
    report: Markup,
    byline: Option<&'a Byline>,
    setup: Option<&'a Setup>,
    asked: Markup,
    mark: &'a str,
}

impl Laid<'_> {
    fn pages(&self) -> Pages {
        let lines = &self.lines;
        let without_jobs = self.index(0, &[]).len();
        let room = LIMIT.saturating_sub(without_jobs);
        // `<` is escaped in six bytes.
        let size = |text: &String| text.len() + 5 * text.matches('<').count() + 20;
        let total: usize = lines.iter().chain(&self.details).map(size).sum();
        if total <= room {
            return self.with_parts(self.index(lines.len(), &[]), Vec::new());
        }
        let (mut begins, mut length) = (Vec::new(), PART);
        for (index, (line, detail)) in lines.iter().zip(&self.details).enumerate() {
            let job_size = size(line) + size(detail);
            if length + job_size > PART {
                begins.push(index);
                length = 0;
            }
            length += job_size;
        }
        let part_names: Vec<(usize, String)> =
            begins.iter().enumerate().map(|(number, begin)| (*begin, format!("jobs/{}.html", number + 1))).collect();
        let mut room_left = room.saturating_sub(60 * part_names.len());
        let fitting = lines.iter().take_while(|line| {
            let line_size = size(line);
            let fits = line_size <= room_left;
            room_left = room_left.saturating_sub(line_size);
            fits
        });
        let shown_jobs = fitting.count();
        let ends = begins.iter().skip(1).copied().chain([lines.len()]);
        let parts = begins.iter().zip(ends).map(|(begin, end)| self.part(*begin..end));
        self.with_parts(self.index(shown_jobs, &part_names), parts.collect())
    }

    fn with_parts(&self, index: String, parts: Vec<String>) -> Pages {
        Pages { index, parts, setup: self.setup.map(Setup::markdown) }
    }

    fn index(&self, shown_jobs: usize, parts: &[(usize, String)]) -> String {
        let recipe = &self.contents.study.recipe;
        let name = clean(&recipe.name);
        let at = self.jobs.live.then(host::clock::now);
        let data = self.data(0..shown_jobs, parts.is_empty(), parts, at);
        let nodes = recipe.steps.iter().zip(&self.jobs.tallies).map(|(step, tally)| Node {
            name: step.name.value.clone(),
            about: step.task.name.to_owned(),
            needs: step.needs.iter().map(|need| need.step).collect(),
            tally: *tally,
        });
        let nodes: Vec<Node> = nodes.collect();
        let more = html! {
            @if shown_jobs < self.jobs.lines.len() && !parts.is_empty() {
                p .note { "The list has the first " (shown_jobs) " of " (count(self.jobs.lines.len(), "job")) "." }
            }
            @if !parts.is_empty() {
                details {
                    summary { "All jobs with everything that is known of them, in " (count(parts.len(), "page")) }
                    p { @for (index, (begin, path)) in parts.iter().enumerate() {
                        @let end = parts.get(index + 1).map_or(self.jobs.lines.len(), |(next, _)| *next);
                        a href=(path) { (begin + 1) " to " (end) } " "
                    } }
                }
            }
        };
        let main = html! {
            (self.report)
            section id="steps" { h2 { "Steps" } (draw(&nodes)) }
            (list_section(&more))
            @if let Some(setup) = self.setup { (setup.section()) }
            (self.asked)
        };
        Layout {
            title: &name,
            mark: self.mark,
            header: self.header(),
            main,
            data: &data,
            script: include_str!("page.js"),
            charts: self.contents.figures.iter().any(|figure| figure.data.is_some())
                || self.has_curves()
                || !self.jobs.columns.columns.is_empty(),
            connect: false,
        }
        .render()
    }

    fn part(&self, range: Range<usize>) -> String {
        let name = clean(&self.contents.study.recipe.name);
        let (from, to) = (range.start + 1, range.end);
        let data = self.data(range, true, &[], None);
        let header = html! {
            nav .crumbs aria-label="Where this is" { a href="../index.html" { (name) } span { "jobs " (from) " to " (to) } }
            h1 { (name) ": jobs " (from) " to " (to) }
        };
        let main = list_section(&PreEscaped(String::new()));
        let title = format!("{name}: jobs {from} to {to}");
        Layout {
            title: &title,
            mark: "",
            header,
            main,
            data: &data,
            script: include_str!("page.js"),
            charts: self.has_curves(),
            connect: false,
        }
        .render()
    }

    /// True if a job has curves.
    fn has_curves(&self) -> bool {
        // Quotes in a text of the JSON are escaped, so this matches only a key.
        self.details.iter().any(|detail| detail.contains("\"curves\":"))
    }

    /// The data of a page as JSON: the lines of some jobs, and their details if the page contains them.
    fn data(
        &self,
        jobs: Range<usize>,
        is_whole: bool,
        parts: &[(usize, String)],
        at: Option<jiff::Timestamp>,
    ) -> String {
        let Jobs { steps, columns, lines, .. } = self.jobs;
        let recipe = &self.contents.study.recipe;
        let (seeds, repeats) = (recipe.seeds(), recipe.repetitions());
        let quantiles = list::quantiles();
        let axes = recipe.axes().iter().map(|axis| clean(axis).into_owned()).collect();
        let head = Head {
            live: at.is_some(),
            at,
            steps,
            states: STATES,
            columns,
            seeds: &seeds,
            repeats: &repeats,
            axes,
            quantiles,
            parts,
        };
        let mut text = serde_json::to_string(&head).unwrap_or_else(|_| "{}".to_owned());
        text.pop();
        let _ = write!(text, ",\"jobs\":[{}],\"details\":{{", self.lines[jobs.clone()].join(","));
        // Points may be the same job.
        let mut keys = HashSet::new();
        for job in jobs.filter(|_| is_whole) {
            let key = &lines[job].3;
            if keys.insert(key) {
                let separator = if keys.len() > 1 { "," } else { "" };
                let _ = write!(text, "{separator}\"{key}\":{}", self.details[job]);
            }
        }
        text.push_str("}}");
        text
    }
}

/// Description of the recipe.
fn asked(study: &Study) -> Markup {
    let recipe = &study.recipe;
    let mut texts: Vec<u16> = recipe.steps.iter().map(|step| step.name.span.source).collect();
    texts.extend(recipe.tables.iter().map(|table| table.name.span.source));
    texts.extend(recipe.figures.iter().map(|figure| figure.name.span.source));
    texts.extend(recipe.claims.iter().map(|claim| claim.name.span.source));
    texts.extend(recipe.params.values().map(|value| value.span.source));
    texts.sort_unstable();
    texts.dedup();
    let (typed, files): (Vec<u16>, Vec<u16>) =
        texts.into_iter().partition(|source| recipe.sources.name(*source).starts_with("--"));
    html! {
        section .asked id="asked" {
            h2 { "Recipe" }
            @if !recipe.params.is_empty() {
                dl { @for (name, value) in &recipe.params { dt { (clean(name)) } dd { (clean(&value.value.to_string())) } } }
            }
            @for source in typed { p { code { (clean(recipe.sources.name(source))) } } }
            @for source in files {
                @let text = recipe.sources.text(source);
                @let end = text.floor_char_boundary(MAX_ASKED);
                details {
                    summary { (clean(recipe.sources.name(source))) }
                    pre tabindex="0" role="region" aria-label=(clean(recipe.sources.name(source))) {
                        (clean_lines(&text[..end])) @if end < text.len() { "…" }
                    }
                }
            }
        }
    }
}
