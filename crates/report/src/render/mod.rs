//! Reports: formats of tables and verdicts.
//!
//! `figure.rs` makes charts of a study, `page/` writes the report page, which `live.rs` rewrites during a run, `setup.rs` the
//! experimental setup, and `overview.rs` the page of several recipes that ran as one.

pub mod csv;
mod figure;
mod json;
mod latex;
mod live;
mod markdown;
pub mod overview;
pub mod page;
mod prose;
mod setup;
mod terminal;

use std::{
    io,
    path::{Path, PathBuf},
    slice,
};

use fs_err as fs;

pub use self::prose::markup as sentence;
pub use self::{
    figure::Figure,
    json::ReportData,
    live::{Live, beside},
};
pub use self::{
    figure::empty_figures,
    markdown::escape as markdown_text,
    terminal::{RULED, narrow},
};
use crate::{
    analysis::{
        Results, Table, Verdict, accounts, analyze, chance_of_error, reached,
        search::{self, Decided, stopped_by},
    },
    format::clean,
    host::replaced::{Outlives, Readers, replace},
    plan::{Plan, Study},
    recipe::{self, Recipe},
    store::Store,
};

/// The tables and figures of a recipe and the verdicts on its claims, computed from the records in the store.
#[derive(Debug)]
pub struct Report<'a> {
    /// Its folder, below the folder of all reports.
    pub folder: PathBuf,
    /// The tables, in the order of the recipe; tables of claims come last.
    pub tables: Vec<Table>,
    /// The verdicts, in the order of the recipe.
    pub verdicts: Vec<Verdict>,
    plan: &'a Plan,
    study: &'a Study,
    results: &'a Results,
    store: &'a Store,
    /// The decisions of searches that hold for the present results.
    decided: Vec<Decided>,
}

/// Rule for writing the page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Page {
    /// In any case.
    Anew,
    /// Unless a page of the same recipe with the same records exists and all jobs are done. The check does not read the records.
    IfStale,
}

/// Output format of tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// For a terminal.
    Term,
    /// GitHub's Markdown.
    Md,
    /// LaTeX, with the package `booktabs`.
    Latex,
    /// LaTeX, with the packages `booktabs` and `siunitx`, which aligns numbers at their decimal points.
    LatexSiunitx,
    /// Comma-separated values in the unit of the metric, one line a cell.
    Csv,
    /// HTML without script, with figures as SVG, for a notebook.
    Html,
}

/// The files that a table is written to: their endings and their formats.
const TABLE_FILES: [(&str, Format); 3] = [("md", Format::Md), ("tex", Format::Latex), ("csv", Format::Csv)];

impl<'a> Report<'a> {
    /// Makes the tables of a recipe and judges its claims. Figures are drawn where they are written.
    pub fn new(plan: &'a Plan, study: &'a Study, results: &'a Results, store: &'a Store) -> Self {
        let (tables, verdicts) = analyze(plan, study, results, store);
        // The next run repeats a decision that cannot be read.
        let decided = search::decided(plan, study, results.measured(), store).unwrap_or_default();
        Self { folder: study.recipe.report.clone(), tables, verdicts, plan, study, results, store, decided }
    }

    /// The recipe's name.
    pub fn name(&self) -> &str {
        &self.study.recipe.name
    }

    /// The reason why its folder has another name than the recipe; `None` if flags are the reason.
    pub fn why_apart(&self) -> Option<String> {
        let (_, other) = self.study.recipe.taken.as_ref()?;
        let other = clean(other);
        let (name, folder) = (self.name(), self.folder.display());
        Some(format!("`{name}` is also the name of {other}, so the report of this recipe is in `{folder}`"))
    }

    /// The part that the report covers, if it is not the whole study.
    fn part(&self) -> Option<String> {
        part(&self.study.recipe)
    }

    /// The number of claims and the expected number of verdicts that are wrong by chance, in words.
    fn chance_of_error(&self) -> Option<String> {
        chance_of_error(&self.verdicts, self.study.recipe.family)
    }

    /// True if there is nothing to show.
    pub fn is_empty(&self) -> bool {
        self.tables.is_empty() && self.study.recipe.figures.is_empty() && self.verdicts.is_empty()
    }

    /// All tables and verdicts as a text, in HTML also the figures. CSV has no place for verdicts.
    pub fn render(&self, format: Format) -> String {
        if format == Format::Html {
            let (part, note) = (self.part(), self.chance_of_error());
            let figures = self.figures();
            return page::notebook(part.as_deref(), &self.tables, &figures, &self.verdicts, note.as_deref());
        }
        let mut texts: Vec<String> = self.tables.iter().map(|table| render(table, format)).collect();
        if let (Format::Md, Some(part)) = (format, self.part()) {
            texts.insert(0, markdown::remark(&part));
        }
        if !self.verdicts.is_empty() {
            let note = self.chance_of_error();
            match format {
                Format::Term => texts.push(terminal::verdicts(&self.verdicts, note)),
                Format::Md => texts.push(markdown::verdicts(&self.verdicts, note)),
                Format::Latex | Format::LatexSiunitx => texts.push(latex::verdicts(&self.verdicts, note)),
                Format::Csv | Format::Html => {}
            }
        }
        texts.join("\n")
    }

    /// Answers to the checklist of a conference, as Markdown.
    pub fn checklist(&self) -> String {
        let Self { plan, study, results, store, verdicts, .. } = self;
        let records = results.records(plan, store, study.steps.iter().flatten().map(|(_, id)| *id));
        let setup = setup::Setup::new(plan, study, store, verdicts, &records);
        let recipe = plan.sources().files().map(|(path, _)| path).next().unwrap_or(Path::new(""));
        setup::checklist(&setup, self.name(), recipe.parent().unwrap_or(Path::new("")))
    }

    /// Writes the page to `results/reports/<folder>/index.html`, every table below `tables`, as Markdown, LaTeX and CSV, and figures and
    /// verdicts beside them; returns the folder.
    pub fn write(&self, results: &Path, page: Page) -> io::Result<PathBuf> {
        let folder = results.join("reports").join(&self.folder);
        fs::create_dir_all(&folder)?;
        recipe::register(&self.study.recipe, results)?;
        self.write_drawn(&folder, page)?;
        self.clear(&folder)?;
        let tables = folder.join("tables");
        if !self.tables.is_empty() {
            fs::create_dir_all(&tables)?;
        }
        for table in &self.tables {
            for (end, format) in TABLE_FILES {
                let mut text = render(table, format);
                if let (Format::Md, Some(part)) = (format, self.part()) {
                    text = format!("{}\n{text}", markdown::remark(&part));
                }
                written(&tables.join(format!("{}.{end}", table.name)), text)?;
            }
        }
        if !self.verdicts.is_empty() {
            let mut text = serde_json::to_string_pretty(&self.verdicts).map_err(io::Error::from)?;
            text.push('\n');
            written(&folder.join("claims.json"), &text)?;
        }
        Ok(folder)
    }
}

impl Report<'_> {
    /// Writes the page and the figures, which are drawn for it.
    fn write_drawn(&self, folder: &Path, page: Page) -> io::Result<()> {
        let Self { plan, study, results, store, tables, verdicts, .. } = self;
        let (index, figures_folder) = (folder.join("index.html"), folder.join("figures"));
        let mark = page::mark(plan, study, results, store);
        if let (Page::IfStale, Some(mark)) = (page, &mark)
            && page::has_mark(&index, mark)
            && setup::is_there(folder)
            && study
                .recipe
                .figures
                .iter()
                .all(|figure| figures_folder.join(format!("{}.svg", figure.name.value)).is_file())
        {
            return Ok(());
        }
        let figures = self.figures();
        if figures.iter().any(|figure| figure.svg.is_ok()) {
            fs::create_dir_all(&figures_folder)?;
        }
        for figure in &figures {
            let svg = figure.svg.as_ref().ok().map(String::as_bytes);
            for (end, content) in [("svg", svg), ("png", figure.png.as_deref()), ("pdf", figure.pdf.as_deref())] {
                let path = figures_folder.join(format!("{}.{end}", figure.name));
                match content {
                    Some(content) => written(&path, content)?,
                    None => remove_if_there(&path)?,
                }
            }
        }
        let decisions = &accounts(study, &self.decided);
        let ruled_out = &stopped_by(plan, &self.decided);
        let figures = &figures;
        let contents = page::Contents { plan, study, results, store, tables, figures, verdicts, decisions, ruled_out };
        let pages = page::render(&contents, mark.as_deref().unwrap_or_default());
        let parts = folder.join("jobs");
        if !pages.parts.is_empty() {
            fs::create_dir_all(&parts)?;
        }
        for (number, text) in pages.parts.iter().enumerate() {
            replace_if_other(&parts.join(format!("{}.html", number + 1)), text)?;
        }
        if let Some(setup) = &pages.setup {
            written(&folder.join(setup::FILE), setup)?;
        }
        written(&index, &pages.index)?;
        // An earlier report may have had more pages with details.
        for number in pages.parts.len() + 1.. {
            match fs::remove_file(parts.join(format!("{number}.html"))) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
                removed => removed?,
            }
        }
        Ok(())
    }

    /// Draws the figures. Reads the records of jobs whose curves a figure shows.
    fn figures(&self) -> Vec<Figure> {
        let Self { plan, study, results, store, .. } = self;
        let reached = reached(plan, study, &self.decided, results.measured());
        let lines = study.recipe.figures.iter().filter(|figure| figure.chart.has_curves());
        let jobs =
            lines.flat_map(|figure| figure::points(figure, study)).flat_map(|(_, id)| [Some(id), reached.get(id)]);
        let records = results.records(plan, store, jobs.flatten().copied());
        let done = figure::Done { measured: results.measured(), records: &records, reached: &reached };
        study.recipe.figures.iter().map(|figure| Figure::new(figure, study, done)).collect()
    }

    /// Removes files of an earlier report that this report will not write.
    fn clear(&self, folder: &Path) -> io::Result<()> {
        let tables = self.tables.iter().flat_map(|table| TABLE_FILES.map(|(end, _)| format!("{}.{end}", table.name)));
        let figures = self.study.recipe.figures.iter();
        let figure_files =
            figures.flat_map(|figure| ["svg", "png", "pdf"].map(|end| format!("{}.{end}", figure.name.value)));
        let kept_files = [("tables", tables.collect()), ("figures", figure_files.collect())];
        let kept: [(&str, Vec<String>); 2] = kept_files;
        for (name, kept) in kept {
            let entries = match fs::read_dir(folder.join(name)) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                entries => entries?,
            };
            for entry in entries {
                let entry = entry?;
                let name = entry.file_name();
                let name = name.to_string_lossy();
                let ours = [".md", ".tex", ".csv", ".svg", ".png", ".pdf"].iter().any(|end| name.ends_with(end));
                if ours && !kept.iter().any(|kept| *kept == *name) {
                    fs::remove_file(entry.path())?;
                }
            }
        }
        if self.verdicts.is_empty() { remove_if_there(&folder.join("claims.json")) } else { Ok(()) }
    }
}

/// The scale of a recipe's report, and the part that it covers if flags select something else than the whole study.
fn part(recipe: &Recipe) -> Option<String> {
    let flags = &recipe.flags;
    let part = format!("Part or variant of the study {}, not its whole report: {flags}", recipe.name);
    let part = Some(part).filter(|_| !flags.is_empty());
    let scale = recipe.scale.as_ref().map(|scale| match recipe.about_scale() {
        Some(about) => format!("At the scale `{scale}`: {}", about.trim()),
        None => format!("At the scale `{scale}`"),
    });
    match (scale, part) {
        (Some(scale), Some(part)) => Some(format!("{}. {part}", scale.trim_end_matches('.'))),
        (scale, part) => scale.or(part),
    }
}

/// A table as a text.
pub fn render(table: &Table, format: Format) -> String {
    match format {
        Format::Term => terminal::render(table),
        Format::Md => markdown::render(table),
        Format::Latex => latex::render(table, latex::Numbers::Text),
        Format::LatexSiunitx => latex::render(table, latex::Numbers::Siunitx),
        Format::Csv => csv::render(table),
        Format::Html => page::notebook(None, slice::from_ref(table), &[], &[], None),
    }
}

/// Writes a file like [`written`], unless it has this text already.
fn replace_if_other(path: &Path, text: &str) -> io::Result<()> {
    if fs::read(path).is_ok_and(|before| before == text.as_bytes()) { Ok(()) } else { written(path, text) }
}

fn remove_if_there(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Replaces a file of a report, which is for everyone who may read its folder.
fn written(path: &Path, content: impl AsRef<[u8]>) -> io::Result<()> {
    replace(path, content.as_ref(), Readers::All, Outlives::Process)
}
