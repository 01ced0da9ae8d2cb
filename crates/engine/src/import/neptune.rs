//! Runs of Neptune, as its exporter writes them (<https://github.com/neptune-ai/neptune-exporter>): a folder for each project, and one or more
//! Parquet files for each run, `RUN_part_N.parquet`. A row is a value of an attribute; `float_series` are metrics, single values are parameters.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::File,
    path::{Path, PathBuf},
    sync::Arc,
};

use parquet::{
    data_type::Decimal,
    file::reader::{FileReader as _, SerializedFileReader},
    record::{Field, Row},
    schema::types::Type,
};
use sweep_job::Value;

use super::{End, ImportError, Run, Runs, entries, lenient, name_of};
use crate::{
    format::{count, unless_it_panics},
    stats::Better,
};

/// The columns that are read. Columns with files and histograms are ignored.
const COLUMNS: [&str; 11] = [
    "project_id",
    "run_id",
    "attribute_path",
    "attribute_type",
    "step",
    "timestamp",
    "int_value",
    "float_value",
    "string_value",
    "bool_value",
    "datetime_value",
];
/// The columns that every file of the exporter has.
const REQUIRED: [&str; 4] = ["run_id", "attribute_path", "attribute_type", "float_value"];
/// Namespaces that Neptune fills itself: the run's state, the load of the machine, and the source files.
const OWN: [&str; 3] = ["sys", "monitoring", "source_code"];
/// Usual namespaces of parameters, which are left out of their names.
const SETTINGS: [&str; 7] = ["params", "parameters", "config", "configs", "hparams", "hyperparameters", "args"];

/// A part of the export of a run.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Part {
    /// The folder and the name without the number of the part: the run.
    run: PathBuf,
    number: u32,
    file: PathBuf,
    /// False for a part that the exporter had not finished.
    is_whole: bool,
}

impl Part {
    /// The part of an export, by the file's name: `RUN_part_0.parquet`, or `….parquet.tmp` if it is unfinished.
    fn of(file: PathBuf) -> Option<Self> {
        let name = name_of(&file);
        let (stem, is_whole) = match name.strip_suffix(".parquet") {
            Some(stem) => (stem, true),
            None => (name.strip_suffix(".parquet.tmp")?, false),
        };
        let (run, number) = stem.rsplit_once("part_")?;
        let (run, number) = (file.with_file_name(run), number.parse().ok()?);
        Some(Self { run, number, file, is_whole })
    }
}

/// True for a folder with an export, or a file of one.
pub(super) fn detects(path: &Path) -> bool {
    parts(path).is_ok_and(|parts| !parts.is_empty())
}

/// The parts of all runs at a path: a file, a project, a folder with projects, or the folder above that (`data`).
fn parts(path: &Path) -> Result<Vec<Part>, ImportError> {
    if path.is_file() {
        return Ok(Part::of(path.to_owned()).into_iter().collect());
    }
    let mut folders = vec![path.to_owned()];
    for level in [path.to_owned(), path.join("data")] {
        let inner = if level.is_dir() { entries(&level)? } else { Vec::new() };
        folders.extend(inner.into_iter().filter(|inner| inner.is_dir()));
    }
    let mut parts = Vec::new();
    for folder in folders {
        let files = entries(&folder)?.into_iter().filter(|file| file.is_file());
        parts.extend(files.filter_map(Part::of));
    }
    parts.sort();
    Ok(parts)
}

/// Reads an export. `metrics` names attributes with single values that are metrics; other attributes are metrics if they have usual names
/// of metrics and their namespace does not contain parameters.
pub(super) fn read(path: &Path, metrics: &[String]) -> Result<Runs, ImportError> {
    let parts = parts(path)?;
    if parts.is_empty() {
        let reason =
            "it has no files `RUN_part_0.parquet`, as `neptune-exporter export` writes them to its `--data-path`";
        return Err(ImportError::format(path, reason));
    }
    let mut by_run: BTreeMap<PathBuf, Vec<Part>> = BTreeMap::new();
    for part in parts {
        by_run.entry(part.run.clone()).or_default().push(part);
    }
    let (mut runs, mut left_out) = (Runs::default(), LeftOut::default());
    for parts in by_run.into_values() {
        // The exporter gives the first part its name last.
        if !parts.iter().all(|part| part.is_whole) || parts.first().is_none_or(|part| part.number != 0) {
            runs.skip("its export is not finished");
            continue;
        }
        let mut read = Attributes::default();
        let result = parts.iter().try_for_each(|part| read.add(&part.file));
        match result {
            Ok(()) if read.is_trashed() => runs.skip("in the trash at its source"),
            Ok(()) => runs.runs.push(read.run(metrics, &mut left_out)),
            Err(error) => {
                runs.skip("a file of the run cannot be read");
                runs.notices.push(error.to_string());
            }
        }
    }
    runs.notices.extend(left_out.sentences());
    Ok(runs)
}

/// Attributes that are neither parameters nor metrics.
#[derive(Debug, Default)]
struct LeftOut {
    own: BTreeSet<String>,
    others: BTreeMap<String, BTreeSet<String>>,
    /// Metrics whose steps are not whole numbers.
    fractions: BTreeSet<String>,
}

impl LeftOut {
    fn sentences(&self) -> Vec<String> {
        let mut sentences = Vec::new();
        if !self.own.is_empty() {
            let attributes = count(self.own.len(), "attribute");
            sentences
                .push(format!("{attributes} of Neptune's own are left out: `sys/`, `monitoring/` and `source_code/`"));
        }
        if !self.others.is_empty() {
            let kinds = self.others.iter().map(|(kind, paths)| format!("{} of the type `{kind}`", paths.len()));
            sentences.push(format!(
                "attributes that are neither values nor metrics are left out: {}",
                kinds.collect::<Vec<_>>().join(", ")
            ));
        }
        if !self.fractions.is_empty() {
            let names = self.fractions.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
            sentences.push(format!("steps of {names} are not whole numbers: the points are numbered from 0"));
        }
        sentences
    }
}

/// A point of a series: the step in millionths, the time in milliseconds, and the value.
type Point = (i128, i64, f64);

/// The attributes of a run.
#[derive(Debug, Default)]
struct Attributes {
    project: String,
    run: String,
    values: BTreeMap<String, Value>,
    /// Times in milliseconds.
    times: BTreeMap<String, i64>,
    series: BTreeMap<String, Vec<Point>>,
    /// Attributes of other types, with these.
    others: BTreeMap<String, String>,
}

/// A row with the fields by the names of their columns.
struct Cells<'r>(BTreeMap<&'r str, &'r Field>);

impl Cells<'_> {
    fn text(&self, name: &str) -> Option<&str> {
        match self.0.get(name)? {
            Field::Str(text) => Some(text),
            _ => None,
        }
    }

    fn number(&self, name: &str) -> Option<f64> {
        match self.0.get(name)? {
            Field::Double(number) => Some(*number),
            Field::Float(number) => Some(f64::from(*number)),
            _ => None,
        }
    }

    fn milliseconds(&self, name: &str) -> Option<i64> {
        match self.0.get(name)? {
            Field::TimestampMillis(at) => Some(*at),
            Field::TimestampMicros(at) => Some(at.div_euclid(1000)),
            _ => None,
        }
    }

    /// A step in millionths.
    fn step(&self) -> Option<i128> {
        /// Digits after the decimal point.
        const SCALE: i32 = 6;
        match self.0.get("step")? {
            Field::Decimal(decimal) => {
                let whole = unscaled(decimal)?;
                let power = |digits: i32| 10_i128.checked_pow(u32::try_from(digits).ok()?);
                match decimal.scale() {
                    scale if scale <= SCALE => whole.checked_mul(power(SCALE - scale)?),
                    scale => Some(whole / power(scale - SCALE)?),
                }
            }
            _ => None,
        }
    }

    /// The value of an attribute with a single value.
    fn value(&self, kind: &str) -> Option<Value> {
        match (kind, self.0.get(format!("{kind}_value").as_str())?) {
            ("int", Field::Long(value)) => Some(Value::Int(*value)),
            ("float", Field::Double(value)) => Some(Value::Float(*value)),
            ("string", Field::Str(text)) => lenient::scalar(text),
            ("bool", Field::Bool(value)) => Some(Value::Bool(*value)),
            _ => None,
        }
    }
}

/// The digits of a decimal as a whole number; `None` if it has more than 16 bytes.
fn unscaled(decimal: &Decimal) -> Option<i128> {
    let bytes = decimal.data();
    let sign = if bytes.first()? & 0x80 == 0 { 0 } else { 0xff };
    let mut whole = [sign; 16];
    let begin = whole.len().checked_sub(bytes.len())?;
    whole[begin..].copy_from_slice(bytes);
    Some(i128::from_be_bytes(whole))
}

impl Attributes {
    /// Adds the rows of a file.
    fn add(&mut self, file: &Path) -> Result<(), ImportError> {
        // The reader of the library panics on some damaged files.
        unless_it_panics(|| self.read(file)).unwrap_or_else(|| Err(ImportError::format(file, "the file is damaged")))
    }

    fn read(&mut self, file: &Path) -> Result<(), ImportError> {
        let opened = File::open(file).map_err(|source| ImportError::Io { path: file.to_owned(), source })?;
        let explained = |error: parquet::errors::ParquetError| {
            ImportError::format(file, format!("{error}; the exporter writes Parquet with the compression `snappy`"))
        };
        let reader = SerializedFileReader::new(opened).map_err(explained)?;
        let schema = reader.metadata().file_metadata().schema();
        if let Some(name) = REQUIRED.iter().find(|name| !schema.get_fields().iter().any(|field| field.name() == **name))
        {
            return Err(ImportError::format(
                file,
                format!("it is not a file of `neptune-exporter`: it has no column `{name}`"),
            ));
        }
        let fields: Vec<Arc<Type>> =
            schema.get_fields().iter().filter(|field| COLUMNS.contains(&field.name())).cloned().collect();
        let projection = Type::group_type_builder(schema.name()).with_fields(fields).build().map_err(explained)?;
        for row in reader.get_row_iter(Some(projection)).map_err(explained)? {
            self.row(&row.map_err(explained)?);
        }
        Ok(())
    }

    fn row(&mut self, row: &Row) {
        let cells = Cells(row.get_column_iter().map(|(name, field)| (name.as_str(), field)).collect());
        let (Some(path), Some(kind)) = (cells.text("attribute_path"), cells.text("attribute_type")) else { return };
        if self.run.is_empty() {
            cells.text("run_id").unwrap_or_default().clone_into(&mut self.run);
            cells.text("project_id").unwrap_or_default().clone_into(&mut self.project);
        }
        match kind {
            "float_series" => {
                let at = cells.milliseconds("timestamp").unwrap_or_default();
                if let Some(value) = cells.number("float_value") {
                    let points = self.series.entry(path.to_owned()).or_default();
                    points.push((cells.step().unwrap_or_default(), at, value));
                }
            }
            "datetime" => {
                self.times.extend(cells.milliseconds("datetime_value").map(|at| (path.to_owned(), at)));
            }
            "int" | "float" | "string" | "bool" => {
                self.values.extend(cells.value(kind).map(|value| (path.to_owned(), value)));
            }
            other => {
                self.others.insert(path.to_owned(), other.to_owned());
            }
        }
    }

    fn is_trashed(&self) -> bool {
        self.values.get("sys/trashed") == Some(&Value::Bool(true))
    }

    /// The run that these attributes describe.
    fn run(mut self, metrics: &[String], left_out: &mut LeftOut) -> Run {
        /// Millionths in one step.
        const WHOLE: i128 = 1_000_000;
        let has_failed = self.values.get("sys/failed") == Some(&Value::Bool(true));
        let mut run = Run {
            id: std::mem::take(&mut self.run),
            name: self.values.get("sys/name").map(Value::to_string).unwrap_or_default(),
            end: if has_failed { End::Failed("failed".to_owned()) } else { End::Finished },
            started: self.times.remove("sys/creation_time"),
            seconds: self.values.get("sys/running_time").and_then(Value::as_f64).unwrap_or(0.0),
            ..Run::default()
        };
        run.params.extend(lenient::scalar(&self.project).map(|project| ("project".to_owned(), project)));
        let is_own = |path: &str| OWN.contains(&path.split('/').next().unwrap_or_default());
        let all = self.values.keys().chain(self.times.keys()).chain(self.series.keys()).chain(self.others.keys());
        left_out.own.extend(all.filter(|path| is_own(path)).cloned());
        for (path, kind) in self.others.into_iter().filter(|(path, _)| !is_own(path)) {
            left_out.others.entry(kind).or_default().insert(path);
        }
        for path in self.times.into_keys().filter(|path| !is_own(path)) {
            left_out.others.entry("datetime".to_owned()).or_default().insert(path);
        }
        for (path, value) in self.values.into_iter().filter(|(path, _)| !is_own(path)) {
            match value.as_f64().filter(|_| is_metric(&path, metrics)) {
                Some(number) => run.conclude(&path, number),
                None => {
                    let name = param_name(&path);
                    // Two namespaces may have the same name; the first one keeps its short form.
                    let name = if run.params.contains_key(&name) { path } else { name };
                    run.params.insert(name, value);
                }
            }
        }
        for (path, mut points) in self.series.into_iter().filter(|(path, _)| !is_own(path)) {
            points.sort_by_key(|(step, at, _)| (*step, *at));
            let is_whole = points.iter().all(|(step, ..)| step % WHOLE == 0);
            if !is_whole {
                left_out.fractions.insert(path.clone());
            }
            for (index, (step, _, value)) in points.into_iter().enumerate() {
                let step = if is_whole { u64::try_from(step / WHOLE).unwrap_or(0) } else { index as u64 };
                run.log(&path, step, value);
            }
        }
        run
    }
}

/// True for an attribute with a single number that is a metric.
fn is_metric(path: &str, metrics: &[String]) -> bool {
    let is_setting = path.split('/').any(|part| SETTINGS.contains(&part));
    metrics.iter().any(|name| name == path) || (!is_setting && Better::of_name(path).is_some())
}

/// The name of a parameter: its path with periods, without a usual namespace of parameters at its beginning.
fn param_name(path: &str) -> String {
    let inner = path.split_once('/').filter(|(first, _)| SETTINGS.contains(first)).map_or(path, |(_, inner)| inner);
    inner.replace('/', ".")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_parts_of_runs() {
        let part = |name: &str| Part::of(PathBuf::from("p").join(name)).map(|part| (part.number, part.is_whole));
        assert_eq!(part("RUN-1-0123456789abcdef_part_0.parquet"), Some((0, true)));
        assert_eq!(part("RUN-1-0123456789abcdef_part_12.parquet.tmp"), Some((12, false)));
        assert_eq!(part("part_0.parquet"), Some((0, true)));
        assert_eq!(part("table.parquet"), None);
        assert_eq!(part("part_x.parquet"), None);
    }

    #[test]
    fn single_numbers_are_metrics_by_their_names() {
        let wanted = ["score/mine".to_owned()];
        let paths = ["test/acc", "params/loss", "score/mine", "epochs"].map(|path| is_metric(path, &wanted));
        assert_eq!(paths, [true, false, true, false]);
        assert_eq!(["params/opt/lr", "opt/lr", "lr"].map(param_name), ["opt.lr", "opt.lr", "lr"]);
    }

    #[test]
    fn decimals_have_a_sign_and_a_scale() {
        let step = |value: i64, scale| {
            let field = Field::Decimal(Decimal::from_i64(value, 18, scale));
            Cells([("step", &field)].into()).step()
        };
        assert_eq!(
            [step(-1_500_000, 6), step(3, 0), step(25_000_000, 7)],
            [Some(-1_500_000), Some(3_000_000), Some(2_500_000)]
        );
    }
}
