//! Verification of a bundle: digests, keys, and everything that is derived from the records.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    path::{Path, PathBuf},
};

use fs_err as fs;
use serde::Serialize;

use super::{BundleError, Contents, ITEMS, Sum, latex, places};
use crate::{
    analysis::Results,
    batches::{Batches, SearchError},
    plan::{Digests, Manifests, Plan, Room, hidden, normal, relative},
    recipe::{Draft, RecipeError, Request},
    record::Record,
    render::{Page, Report},
    store::{Decision, Store, wrong_key},
};

/// More files than this that differ are counted only.
const MAX_DIFFERING_FILES: usize = 50;

/// A bundle that is unpacked.
#[derive(Debug)]
pub struct Opened {
    folder: PathBuf,
    bytes: u64,
    /// Contents that it declares.
    pub contents: Contents,
}

/// Result of a verification.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
pub struct Verified {
    /// Jobs whose keys follow from the recipe.
    pub jobs: usize,
    /// Records whose keys follow from their content.
    pub records: usize,
    /// Tables that follow from the records.
    pub tables: usize,
    /// Figures that do.
    pub figures: usize,
    /// Verdicts that do.
    pub verdicts: usize,
    /// Defects.
    pub defects: Vec<String>,
}

impl Opened {
    pub(super) fn new(folder: PathBuf, contents: Contents, bytes: u64) -> Self {
        Self { folder, bytes, contents }
    }

    /// The folder with its files.
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Reads the recipe.
    pub fn draft(&self) -> Result<Draft, RecipeError> {
        let request = &self.contents.request;
        let paths: Vec<PathBuf> = request.paths.iter().map(|path| self.root().join(path)).collect();
        let scale = request.scale.as_deref();
        Draft::load(&Request { paths: &paths, set: &request.set, axes: &request.axes, scale, only: &[] })
    }

    /// Plans the recipe, whose number of jobs is limited by the size of the bundle.
    pub fn plan(&self, draft: Draft) -> Result<Plan, SearchError> {
        let room = || Room::of(super::limits::meant(self.bytes));
        // A separate, empty store: the store of the bundle is built only from valid records.
        let folder = tempfile::tempdir()?;
        let store = Store::new(folder.path());
        if draft.again().is_some() {
            self.lay_out(&store)?;
        }
        Batches::plan_with(draft, self.contents.backend, &store, &|| self.digests(), &room)
    }

    /// Copies the records and decisions that searches follow from to a store. Invalid ones are reported later.
    fn lay_out(&self, store: &Store) -> io::Result<()> {
        for job in self.contents.jobs.iter().filter(|job| job.done) {
            let path = self.folder.join("records").join(format!("{}.json", job.key));
            let text = fs::read(&path).unwrap_or_default();
            if Record::parse(&text, &path, job.key).is_ok_and(|record| wrong_key(&record).is_none()) {
                let folder = store.folder(job.key);
                fs::create_dir_all(&folder)?;
                fs::write(folder.join("record.json"), text)?;
            }
        }
        self.lay_out_decisions(store)
    }

    /// Copies the decisions of searches to a store, without which it is not known why jobs have no result.
    fn lay_out_decisions(&self, store: &Store) -> io::Result<()> {
        let decisions_folder = self.folder.join(super::DECISIONS);
        for entry in fs::read_dir(&decisions_folder).into_iter().flatten().flatten() {
            let decision = fs::read(entry.path()).ok().and_then(|text| serde_json::from_slice::<Decision>(&text).ok());
            if let Some(decision) = decision {
                store.create()?;
                store.keep_decision(&decision)?;
            }
        }
        Ok(())
    }

    /// The digests of the input files as they were when the bundle was written.
    fn digests(&self) -> Digests {
        let Contents { inputs, root, code, variants, absolute, read, .. } = &self.contents;
        let digests = if self.is_relative() {
            let digests_by_path = inputs.iter().map(|(place, digest)| (self.place(place), digest.clone())).collect();
            let digest_of = |place: &PathBuf| inputs.get(place).cloned();
            let hidden_digests =
                absolute.iter().filter_map(|(path, place)| Some((path.clone(), digest_of(place)?))).collect();
            Digests::locked(digests_by_path, self.root(), self.root()).with_hidden(hidden_digests)
        } else {
            Digests::locked(inputs.clone(), self.root(), root.clone())
        };
        let present_paths = read.keys().map(|place| normal(&self.place(place))).collect();
        digests
            .with_present(present_paths)
            .with_manifests(Manifests::locked(code.clone()).with_variants(variants.clone()))
    }

    /// True if the paths in the bundle are relative to the recipe.
    fn is_relative(&self) -> bool {
        self.contents.format >= super::RELATIVE
    }

    /// The path at which an input file of the recipe is read now. An earlier form of bundles has no input files: there it is the one on the
    /// machine that wrote it.
    pub(super) fn present(&self, path: &Path) -> PathBuf {
        let Contents { root, absolute, .. } = &self.contents;
        match path.strip_prefix(self.root()) {
            Ok(inner) if !self.is_relative() => normal(&root.join(inner)),
            Ok(_) => normal(path),
            Err(_) => {
                let input_path = absolute.get(&hidden(path)).map(|place| self.place(place));
                input_path.filter(|input_path| input_path.exists()).unwrap_or_else(|| normal(path))
            }
        }
    }

    /// The path of an input file as the bundle's author would write it.
    pub(super) fn shown(&self, path: &Path) -> String {
        let is_own = path.starts_with(&self.folder);
        let place = if is_own { relative(path, &self.root()) } else { path.to_owned() };
        place.display().to_string()
    }

    /// Takes the files that the bundle does not have from a folder.
    pub fn supply(&self, folder: &Path) -> io::Result<()> {
        let Contents { inputs, read, .. } = &self.contents;
        places::supply(inputs.iter().chain(read), |place| self.place(place), folder)
    }

    /// Files that jobs were observed to read, and that are neither in the bundle nor supplied.
    pub fn without_code(&self) -> Vec<String> {
        let missing_files = self.contents.read.keys().filter(|place| !self.place(place).exists());
        missing_files.map(|place| place.display().to_string()).collect()
    }

    /// The path here of a file at a place from the folder of the recipes.
    fn place(&self, place: &Path) -> PathBuf {
        self.folder.join(places::name(self.contents.above, place))
    }

    /// The folder of the recipes.
    fn root(&self) -> PathBuf {
        self.folder.join(places::name(self.contents.above, Path::new("")))
    }

    /// The bundle's results, in the layout of a results folder.
    fn results(&self) -> PathBuf {
        self.folder.join("results")
    }

    /// A bundle's store, once it is verified.
    pub fn store(&self) -> Store {
        Store::new(&self.results())
    }

    /// Recomputes everything, and compares.
    pub fn verify(&self, plan: &Plan) -> Result<Verified, BundleError> {
        let mut verification = Verified::default();
        self.files(&mut verification)?;
        self.jobs(plan, &mut verification);
        self.records(&mut verification)?;
        self.reports(plan, &mut verification)?;
        Ok(verification)
    }

    /// Checks that every file is unchanged, and that there are no other files.
    fn files(&self, verification: &mut Verified) -> io::Result<()> {
        let mut file_names = BTreeSet::new();
        names(&self.folder, Path::new(""), &mut file_names)?;
        file_names.remove(super::CONTENTS);
        for (name, sum) in &self.contents.files {
            if !file_names.remove(name) {
                verification.defects.push(format!("{name} is missing"));
            } else if Sum::of(&fs::read(self.folder.join(name))?) != *sum {
                verification.defects.push(format!("{name} has changed since it was bundled: its digest differs"));
            }
        }
        verification.defects.extend(file_names.iter().map(|name| format!("{name} does not belong to the bundle")));
        Ok(())
    }

    /// Checks that the recipe results in the jobs of the bundle.
    fn jobs(&self, plan: &Plan, verification: &mut Verified) {
        let mut listed_keys: BTreeMap<&str, _> =
            self.contents.jobs.iter().map(|job| (job.label.as_str(), job.key)).collect();
        for (_, job) in plan.jobs() {
            let label = job.label.to_string();
            match listed_keys.remove(label.as_str()) {
                Some(key) if key == job.key => verification.jobs += 1,
                Some(key) => verification.defects.push(format!(
                    "{label} has the key {} by its recipe, and {} in the bundle",
                    job.key.short(),
                    key.short()
                )),
                None => verification.defects.push(format!("{label} is not in the bundle's list of jobs")),
            }
        }
        verification.defects.extend(listed_keys.keys().map(|label| format!("{label} is not a job of the recipe")));
    }

    /// Checks that the records belong to the jobs, and arranges them in the layout of a store.
    fn records(&self, verification: &mut Verified) -> io::Result<()> {
        let store = self.store();
        for job in self.contents.jobs.iter().filter(|job| job.done) {
            let path = self.folder.join("records").join(format!("{}.json", job.key));
            let Ok(text) = fs::read(&path) else {
                verification.defects.push(format!("{} has no record", job.label));
                continue;
            };
            let defect = match Record::parse(&text, &path, job.key) {
                Ok(record) => wrong_key(&record),
                Err(error) => Some(error.to_string()),
            };
            if let Some(reason) = defect {
                verification.defects.push(format!("the record of {} is invalid: {reason}", job.label));
                continue;
            }
            let folder = store.folder(job.key);
            fs::create_dir_all(&folder)?;
            fs::write(folder.join("record.json"), text)?;
            if let Some(origin) = &job.origin {
                origin.write(&folder)?;
            }
            copy_files(&self.folder.join(ITEMS).join(job.key.to_string()), &store.files(job.key))?;
            verification.records += 1;
        }
        Ok(())
    }

    /// Checks that tables, figures and verdicts follow from the records.
    fn reports(&self, plan: &Plan, verification: &mut Verified) -> Result<(), BundleError> {
        let (results, runs) = (self.results(), self.folder.join("runs"));
        if runs.is_dir() {
            fs::create_dir_all(&results)?;
            fs::rename(runs, results.join("runs"))?;
        }
        let store = self.store();
        self.lay_out_decisions(&store)?;
        let job_results = Results::read(plan, &store)?;
        for study in &plan.studies {
            let report = Report::new(plan, study, &job_results, &store);
            let new_folder = report.write(&results, Page::Anew)?;
            let bundled_folder = self.folder.join("reports").join(&study.recipe.report);
            let mut names = BTreeSet::new();
            for part in ["tables", "figures"] {
                for folder in [&new_folder, &bundled_folder] {
                    let entries = fs::read_dir(folder.join(part)).into_iter().flatten().flatten();
                    names.extend(entries.map(|entry| Path::new(part).join(entry.file_name())));
                }
            }
            if [&new_folder, &bundled_folder].iter().any(|folder| folder.join("claims.json").is_file()) {
                names.insert(PathBuf::from("claims.json"));
            }
            // A PNG and a PDF have the content of their SVG.
            names.retain(|name| name.extension().is_none_or(|end| end != "png" && end != "pdf"));
            let differing_names: Vec<&PathBuf> =
                names.iter().filter(|name| !agree(&new_folder.join(name), &bundled_folder.join(name))).collect();
            for name in differing_names.iter().take(MAX_DIFFERING_FILES) {
                let name = study.recipe.report.join(name);
                verification.defects.push(format!("{} does not follow from the records", name.display()));
            }
            if differing_names.len() > MAX_DIFFERING_FILES {
                verification.defects.push(format!("and {} more files", differing_names.len() - MAX_DIFFERING_FILES));
            }
            let count_agreeing = |part: &str, end: &str| {
                let names_of_part = names.iter().filter(|name| {
                    name.starts_with(part) && name.extension().is_some_and(|extension| extension == end)
                });
                names_of_part.filter(|name| !differing_names.contains(name)).count()
            };
            verification.tables += count_agreeing("tables", "csv");
            verification.figures += count_agreeing("figures", "svg");
            if !differing_names.iter().any(|name| name.as_path() == Path::new("claims.json")) {
                verification.verdicts += report.verdicts.len();
            }
        }
        Ok(())
    }
}

/// The names of all files below a folder.
fn names(folder: &Path, inner: &Path, file_names: &mut BTreeSet<String>) -> io::Result<()> {
    for entry in fs::read_dir(folder.join(inner))? {
        let entry = entry?;
        let name = inner.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            names(folder, &name, file_names)?;
        } else {
            file_names.insert(name.display().to_string());
        }
    }
    Ok(())
}

/// True if two files have the same results.
fn agree(new_file: &Path, bundled_file: &Path) -> bool {
    match (fs::read_to_string(new_file), fs::read_to_string(bundled_file)) {
        (Ok(first), Ok(second)) => {
            let is_rounded = new_file.extension().is_some_and(|end| end == "md" || end == "tex");
            let agree = if is_rounded { is_rounding } else { is_close };
            same(&results_in(new_file, first), &results_in(bundled_file, second), agree)
        }
        _ => false,
    }
}

/// Copies the files below a folder, if there is one.
fn copy_files(source: &Path, target: &Path) -> io::Result<()> {
    if !source.is_dir() {
        return Ok(());
    }
    let mut file_names = BTreeSet::new();
    names(source, Path::new(""), &mut file_names)?;
    for name in file_names {
        let place = target.join(&name);
        fs::create_dir_all(place.parent().unwrap_or(target))?;
        fs::copy(source.join(&name), place)?;
    }
    Ok(())
}

/// The part of a file that follows from the records alone: the rows of a table, and verdicts without their explanation. The rest is
/// prose, which another version of the program may phrase in another way.
fn results_in(path: &Path, text: String) -> String {
    let lines = |is_row: fn(&str) -> bool| text.lines().filter(|line| is_row(line)).collect::<Vec<_>>().join("\n");
    match path.extension().and_then(|end| end.to_str()) {
        Some("md") => lines(|line| line.starts_with('|')),
        // Earlier versions have smaller letters.
        Some("svg") => without_font_sizes(&text),
        // Signs are in mathematical mode, which would split numbers.
        Some("tex") => latex::rows(&text).replace('$', ""),
        Some("json") => match serde_json::from_str::<Vec<serde_json::Map<String, serde_json::Value>>>(&text) {
            Ok(mut verdicts) => {
                for verdict in &mut verdicts {
                    // Earlier versions have no words for the range, no other choices, and none about the paper's number.
                    for explanation in ["because", "choices", "expected", "paper_within"] {
                        verdict.remove(explanation);
                    }
                }
                serde_json::to_string(&verdicts).unwrap_or(text)
            }
            Err(_) => text,
        },
        _ => text,
    }
}

/// An SVG without the sizes of its letters.
fn without_font_sizes(svg: &str) -> String {
    let mut parts = svg.split(" font-size=\"");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |kept, part| kept + part.split_once('"').map_or(part, |(_, rest)| rest))
}

/// True if two texts differ only in numbers that agree in pairs.
fn same(first: &str, second: &str, agree: fn(&str, &str) -> bool) -> bool {
    let words = |text| str::split(text, |char: char| !(char.is_alphanumeric() || "+-._".contains(char)));
    first == second
        || (words(first).count() == words(second).count()
            && words(first).zip(words(second)).all(|(first, second)| first == second || agree(first, second)))
}

/// True if two numbers differ in the last digits only, in which the logarithms of two machines may differ.
fn is_close(first: &str, second: &str) -> bool {
    match (first.parse::<f64>(), second.parse::<f64>()) {
        (Ok(first), Ok(second)) => (first - second).abs() <= 1e-9 * first.abs().max(second.abs()),
        _ => false,
    }
}

/// Returns true if one number is the other number with fewer digits. Another version of the program may show another number
/// of digits; the numbers themselves are in the table's CSV file.
fn is_rounding(first: &str, second: &str) -> bool {
    let unit = |number: &str| {
        let (mantissa, exponent) = number.split_once('e').unwrap_or((number, "0"));
        let decimals = mantissa.split_once('.').map_or(0, |(_, decimals)| decimals.len());
        Some(10.0_f64.powi(exponent.parse::<i32>().ok()? - i32::try_from(decimals).ok()?))
    };
    match (first.parse::<f64>(), second.parse::<f64>(), unit(first), unit(second)) {
        (Ok(first_number), Ok(second_number), Some(unit), Some(other_unit)) => {
            unit.to_bits() != other_unit.to_bits() && (first_number - second_number).abs() <= unit.max(other_unit)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_agree_up_to_what_machines_differ_in() {
        assert!(same("a,1.0000000000001,b", "a,1.0000000000002,b", is_close));
        assert!(same("{\"value\": 0.5}", "{\"value\": 0.5}", is_close));
        for (first, second) in [("a,1.0", "a,1.001"), ("1.0 ± 0.1", "1.0 ± 0.2"), ("a", "b"), ("1 2", "1"), ("-1", "1")]
        {
            assert!(!same(first, second, is_close), "{first} {second}");
        }
    }

    #[test]
    fn letters_of_another_size_are_the_same_figure() {
        let figure = |size: &str, x: &str| {
            let svg = format!(
                "<svg><text x=\"{x}\" font-size=\"{size}\" fill=\"#222222\">\nLoss\n</text><line x1=\"{x}\"/></svg>"
            );
            results_in(Path::new("figures/loss.svg"), svg)
        };
        assert_eq!(figure("10.483870967741936", "14"), figure("13", "14"));
        assert_ne!(figure("13", "14"), figure("13", "15"));
    }

    #[test]
    fn a_number_with_fewer_digits_is_the_same_in_a_table() {
        assert!(same("| 3.2 ± 0.3 |", "| 3.20 ± 0.25 |", is_rounding));
        for (first, second) in [("1.0 ± 0.1", "1.0 ± 0.2"), ("3.2", "3.41"), ("3", "5.1"), ("a", "b")] {
            assert!(!same(first, second, is_rounding), "{first} {second}");
        }
    }
}
