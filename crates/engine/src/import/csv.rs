//! Runs in delimited text: a row for each run, or a row for each step of each run. A column is a metric, a parameter, the step, the run's
//! identifier or its state.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    path::Path,
};

use sweep_job::{
    Value,
    tasks::{Number, STEP_NAMES},
};

use super::{End, ImportError, Run, Runs, lenient, percent::Scale, tensorboard, text};
use crate::{
    format::{clean, count, fields, separator},
    stats::Better,
};

/// Names of columns with identifiers and with names of runs, the most specific first.
const IDENTIFIERS: [&str; 5] = ["run_id", "run", "id", "run_name", "name"];
/// Names of columns with states, as exports of W&B and `MLflow` have them.
const STATES: [&str; 2] = ["state", "status"];

/// A table of texts.
pub(super) struct Table {
    pub(super) columns: Vec<String>,
    /// Each row has a cell for each column.
    pub(super) rows: Vec<Vec<String>>,
    /// Number of lines of rows with another number of cells, which are left out.
    uneven: usize,
    /// Number of lines after a quotation mark that has no second one, which are left out.
    unquoted: usize,
}

/// Reads a table with a header.
pub(super) fn table(path: &Path) -> Result<Table, ImportError> {
    let text = text(path)?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    let mut lines = rows(text);
    let header =
        lines.next().ok_or_else(|| ImportError::format(path, "it is empty: a header and rows are expected"))?;
    let by = separator(header.as_bytes());
    let columns: Vec<String> = fields(header.as_bytes(), by).into_iter().map(|name| name.trim().to_owned()).collect();
    let unique: BTreeSet<&String> = columns.iter().collect();
    if unique.len() < columns.len() {
        return Err(ImportError::format(path, "two columns of its header have one name: rename one of them"));
    }
    let mut table = Table { columns, rows: Vec::new(), uneven: 0, unquoted: 0 };
    for line in lines {
        let row = fields(line.as_bytes(), by);
        // A quotation mark without a second one joins all further lines into one row.
        let is_open = !line.matches('"').count().is_multiple_of(2);
        let number = line.lines().filter(|line| !line.trim().is_empty()).count();
        if is_open {
            table.unquoted += number;
        } else if row.len() == table.columns.len() {
            table.rows.push(row);
        } else {
            table.uneven += number;
        }
    }
    Ok(table)
}

/// The nonempty rows of a text. A line break in quotes does not end a row.
fn rows(text: &str) -> impl Iterator<Item = &str> {
    let mut quoted = false;
    let lines = text.split(move |char: char| {
        quoted ^= char == '"';
        char == '\n' && !quoted
    });
    lines.map(|line| line.trim_end_matches('\r')).filter(|line| !line.trim().is_empty())
}

/// True for the name of a column with steps.
pub(super) fn is_step(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    STEP_NAMES.contains(&lower.trim_start_matches('_'))
}

/// The place of the name of a column with steps: `step` takes precedence over `epoch`, which several rows may share.
pub(super) fn step_place(names: &[&str]) -> Option<usize> {
    let is = |name: &str, step: &str| name.trim_start_matches('_').eq_ignore_ascii_case(step);
    STEP_NAMES.iter().find_map(|step| names.iter().position(|name| is(name, step)))
}

/// True for a file of delimited text.
pub(super) fn detects(path: &Path) -> bool {
    path.is_file()
        && path.extension().is_some_and(|end| ["csv", "tsv"].iter().any(|known| end.eq_ignore_ascii_case(known)))
}

/// The meaning of the columns, as their places.
struct Columns {
    metrics: Vec<usize>,
    params: Vec<usize>,
    step: Option<usize>,
    id: Option<usize>,
    state: Option<usize>,
}

/// Reads the runs of a file. `metrics` names the columns with metrics; if it is empty, numeric columns with usual names of metrics are
/// metrics.
pub(super) fn read(path: &Path, metrics: &[String]) -> Result<Runs, ImportError> {
    let table = table(path)?;
    if let Some(runs) = chart(&table) {
        return Ok(runs);
    }
    let columns = columns(path, &table, metrics)?;
    let mut runs = Runs::default();
    if table.uneven > 0 {
        runs.skipped.insert("the row has another number of cells than the header".to_owned(), table.uneven);
    }
    if table.unquoted > 0 {
        let reason = "a quotation mark in this line, or in an earlier line, is not closed";
        runs.skipped.insert(reason.to_owned(), table.unquoted);
    }
    let scales: Vec<Scale> = columns.metrics.iter().map(|place| Scale::of(&table, *place)).collect();
    let mut places: HashMap<Vec<String>, usize> = HashMap::new();
    let mut copies: HashMap<String, usize> = HashMap::new();
    let mut unread = BTreeMap::new();
    for row in &table.rows {
        let cells: Vec<&str> = match columns.id {
            Some(id) => vec![row[id].trim()],
            None => columns.params.iter().map(|place| row[*place].trim()).collect(),
        };
        // `1` and `1.0` are one value of a parameter, but two identifiers.
        let is_named = columns.id.is_some();
        let group: Vec<String> =
            cells.iter().map(|cell| if is_named { (*cell).to_owned() } else { plain(cell) }).collect();
        let known = columns.step.and_then(|_| places.get(&group).copied());
        let place = known.unwrap_or(runs.runs.len());
        if known.is_none() {
            let own = columns.id.map_or_else(|| digest(&cells), |id| row[id].trim().to_owned());
            let copy = copies.entry(own.clone()).and_modify(|copy| *copy += 1).or_insert(1);
            let id = if *copy == 1 { own } else { format!("{own}-{copy}") };
            places.insert(group, place);
            runs.runs.push(begun(id, row, &table, &columns));
        }
        let step = columns.step.and_then(|step| row[step].trim().parse().ok());
        for (place_of_metric, scale) in columns.metrics.iter().zip(&scales) {
            let (name, cell) = (&table.columns[*place_of_metric], row[*place_of_metric].trim());
            let Some(value) = scale.value(cell) else {
                if !cell.is_empty() {
                    unread.entry(name).or_insert((0, cell)).0 += 1;
                }
                continue;
            };
            match step {
                Some(step) => runs.runs[place].log(name, lenient::step(step), value),
                None => runs.runs[place].conclude(name, value),
            }
        }
    }
    let percent = columns.metrics.iter().zip(&scales).filter_map(|(place, scale)| scale.notice(&table.columns[*place]));
    let texts = unread.into_iter().map(|(name, (number, first))| {
        format!(
            "left out: {} of `{}` without a number, such as `{}`",
            count(number, "value"),
            clean(name),
            clean(first)
        )
    });
    runs.notices.extend(percent.chain(texts));
    Ok(runs)
}

/// The text of a cell with its number, if it has one, in the shortest form.
fn plain(cell: &str) -> String {
    let cell = cell.trim();
    match lenient::scalar(cell) {
        Some(Value::Int(int)) => int.to_string(),
        Some(Value::Float(float)) => float.to_string(),
        _ => cell.to_owned(),
    }
}

/// The runs of a chart that was exported from W&B, in which each run has columns: `RUN - METRIC`, `RUN - METRIC__MIN` and
/// `RUN - METRIC__MAX`, of which the first counts. `None` for another table.
fn chart(table: &Table) -> Option<Runs> {
    let is_bound = |name: &str| name.ends_with("__MIN") || name.ends_with("__MAX");
    let mut series = Vec::new();
    for (place, name) in table.columns.iter().enumerate().skip(1).filter(|(_, name)| !is_bound(name)) {
        let (run, metric) = name.rsplit_once(" - ")?;
        table.columns.contains(&format!("{name}__MIN")).then_some(())?;
        series.push((place, run, metric));
    }
    let is_step = |row: &&Vec<String>| Number::parse(&row[0]).and_then(Number::step).is_some();
    let has_steps = table.rows.iter().all(|row| is_step(&row));
    let mut runs: BTreeMap<&str, Run> = BTreeMap::new();
    for (place, name, metric) in &series {
        let new =
            || Run { id: (*name).to_owned(), params: tensorboard::named(name).into_iter().collect(), ..Run::default() };
        let run = runs.entry(name).or_insert_with(new);
        for (row, cells) in (0..).zip(&table.rows) {
            let Some(number) = Number::parse(&cells[*place]) else { continue };
            let step = Number::parse(&cells[0]).and_then(Number::step).filter(|_| has_steps).unwrap_or(row);
            run.log(metric, step, number.value);
        }
    }
    let mut runs = Runs { runs: runs.into_values().collect(), ..Runs::default() };
    if runs.runs.is_empty() {
        return None;
    }
    if !has_steps {
        let name = clean(&table.columns[0]);
        runs.notices.push(format!("`{name}` has values that are not steps: the rows are counted instead"));
    }
    runs.notices.push(
        "an exported chart has a sample of the points, and no parameters but those in names of runs such as `lr=0.1`: the logs \
         `run-ID.wandb` have all"
            .to_owned(),
    );
    Some(runs)
}

/// The identifier of a run without one: a digest of its parameters.
fn digest(params: &[&str]) -> String {
    const DIGITS: usize = 10;
    blake3::hash(params.join("\u{1f}").as_bytes()).to_hex()[..DIGITS].to_owned()
}

/// The end that a word of a column of states stands for, as programs and batch systems write it; `None` for other words.
fn end(word: &str) -> Option<End> {
    const FINISHED: &str = "finished completed complete success succeeded successful ok done passed ended";
    const RUNNING: &str = "running pending queued scheduled waiting paused preempting started created in_progress";
    const FAILED: &str = "failed fail failure crashed killed error errored canceled cancelled aborted pruned preempted \
                          timeout timed_out diverged interrupted stopped terminated oom out_of_memory node_fail";
    let word = word.trim().to_ascii_lowercase();
    let plain = word.replace(' ', "_");
    let is_in = |words: &str| words.split_whitespace().any(|known| known == plain);
    if word.is_empty() || is_in(FINISHED) {
        Some(End::Finished)
    } else if is_in(RUNNING) {
        Some(End::Running)
    } else {
        is_in(FAILED).then_some(End::Failed(word))
    }
}

fn begun(id: String, row: &[String], table: &Table, columns: &Columns) -> Run {
    let params =
        columns.params.iter().filter_map(|place| Some((table.columns[*place].clone(), lenient::scalar(&row[*place])?)));
    let end = columns.state.and_then(|place| end(&row[place])).unwrap_or_default();
    Run { id, params: params.collect(), end, ..Run::default() }
}

impl Table {
    /// True if a column has numbers, and nothing else.
    fn has_numbers(&self, place: usize) -> bool {
        let cells = || self.rows.iter().map(|row| row[place].trim()).filter(|cell| !cell.is_empty());
        cells().next().is_some() && cells().all(|cell| Number::parse(cell).is_some())
    }

    /// True for the column that `DataFrame.to_csv` of pandas adds: it numbers the rows.
    fn is_index(&self, place: usize) -> bool {
        let name = &self.columns[place];
        let is_unnamed = name.strip_prefix("Unnamed: ").is_some_and(|number| number.parse::<usize>().is_ok());
        (name.is_empty() || is_unnamed) && self.has_numbers(place) && self.distinct(&[place]) == self.rows.len()
    }

    /// The place of the first of these names that a column has.
    fn place(&self, names: &[&str]) -> Option<usize> {
        names.iter().find_map(|name| self.columns.iter().position(|column| column.eq_ignore_ascii_case(name)))
    }

    /// Number of different rows, by some of their columns.
    fn distinct(&self, places: &[usize]) -> usize {
        let rows: BTreeSet<Vec<String>> =
            self.rows.iter().map(|row| places.iter().map(|place| plain(&row[*place])).collect()).collect();
        rows.len()
    }
}

/// The columns with metrics.
fn metrics(path: &Path, table: &Table, wanted: &[String]) -> Result<Vec<usize>, ImportError> {
    let listed = || table.columns.iter().map(|name| format!("`{}`", clean(name))).collect::<Vec<_>>().join(", ");
    let place = |name: &String| {
        table.columns.iter().position(|column| column == name).ok_or_else(|| ImportError::NoName {
            kind: "metric",
            name: name.clone(),
            help: format!("the columns are {}", listed()),
        })
    };
    let usual = |place: &usize| Better::of_name(&table.columns[*place]).is_some() && table.has_numbers(*place);
    let found: Vec<usize> = if wanted.is_empty() {
        (0..table.columns.len()).filter(usual).collect()
    } else {
        wanted.iter().map(place).collect::<Result<_, _>>()?
    };
    if found.is_empty() {
        let reason =
            format!("no column of numbers has a common name of a metric; name them with `--metric`: {}", listed());
        return Err(ImportError::format(path, reason));
    }
    Ok(found)
}

fn columns(path: &Path, table: &Table, wanted: &[String]) -> Result<Columns, ImportError> {
    let metrics = metrics(path, table, wanted)?;
    let all = || 0..table.columns.len();
    let is_metric = |place: &usize| metrics.contains(place);
    // A column with other words is a parameter, such as a state of a country.
    let is_state = |place: &usize| !is_metric(place) && table.rows.iter().all(|row| end(&row[*place]).is_some());
    let state = STATES.iter().filter_map(|name| table.place(&[*name])).find(is_state);
    let names: Vec<&str> = table.columns.iter().map(String::as_str).collect();
    let step = step_place(&names).filter(|place| !is_metric(place));
    let is_known = |place: &usize| is_metric(place) || Some(*place) == state || table.is_index(*place);
    let others: Vec<usize> = all().filter(|place| !is_known(place) && !is_step(&table.columns[*place])).collect();
    // `epoch` beside `step` counts the rows of a run, too, unless each run has a different value.
    let also = all().filter(|place| is_step(&table.columns[*place]) && Some(*place) != step && !is_known(place));
    let runs = table.distinct(&others);
    let also: Vec<usize> =
        also.filter(|place| table.distinct(&[others.as_slice(), &[*place]].concat()) > runs).collect();
    let rest = |place: &usize| !is_known(place) && !also.contains(place);
    let without_step: Vec<usize> = all().filter(|place| rest(place) && Some(*place) != step).collect();
    // A column of steps whose rows are all of different runs is a parameter.
    let step = step
        .filter(|step| table.distinct(&without_step) < table.distinct(&[without_step.as_slice(), &[*step]].concat()));
    let id = table.place(&IDENTIFIERS).filter(|place| {
        let runs = if step.is_some() { table.distinct(&without_step) } else { table.rows.len() };
        rest(place) && Some(*place) != step && runs > 1 && table.distinct(&[*place]) == runs
    });
    // Without a step, each row is a run.
    let is_param = |place: &usize| if step.is_some() { rest(place) && Some(*place) != step } else { !is_known(place) };
    let params = all().filter(|place| is_param(place) && Some(*place) != id).collect();
    Ok(Columns { metrics, params, step, id, state })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs(text: &str, metrics: &[&str]) -> Result<Runs, ImportError> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("runs.csv");
        std::fs::write(&path, text).unwrap();
        let metrics: Vec<String> = metrics.iter().map(|name| (*name).to_owned()).collect();
        read(&path, &metrics)
    }

    #[test]
    fn rows_of_steps_are_curves_and_rows_of_runs_are_not() {
        let read = runs("lr,seed,step,loss\n0.1,0,1,3\n0.1,0,2,2\n0.2,0,1,4\n0.2,0,2,\n", &[]).unwrap();
        assert_eq!(read.runs.len(), 2);
        assert_eq!(read.runs[0].series["loss"].by_step, [(1, 3.0), (2, 2.0)].into());
        assert_eq!(read.runs[1].series["loss"].last(), Some(4.0), "an empty cell is no value");
        let read = runs("lr,seed,epoch,loss\n0.1,0,5,3\n0.1,1,5,2\n0.2,0,9,4\n", &[]).unwrap();
        assert_eq!(read.runs.len(), 3);
        assert!(read.runs[0].params.contains_key("epoch"), "a parameter: each row is a run of its own");
    }

    #[test]
    fn an_epoch_beside_a_step_is_neither_the_step_nor_a_parameter() {
        let read = runs("epoch,step,train_loss,val_loss\n0,0,4,\n0,1,3,\n0,1,,5\n1,2,2,\n", &[]).unwrap();
        assert_eq!((read.runs.len(), read.runs[0].params.len()), (1, 0));
        assert_eq!(read.runs[0].series["train_loss"].by_step, [(0, 4.0), (1, 3.0), (2, 2.0)].into());
        let read = runs("lr,epoch,step,loss\n1,0,1,3\n1,1,2,2\n2,0,1,4\n", &[]).unwrap();
        assert_eq!(read.runs.iter().map(|run| run.params.len()).collect::<Vec<_>>(), [1, 1]);
        let read = runs("lr,epoch,step,loss\n1,5,10,3\n2,9,20,4\n", &[]).unwrap();
        assert_eq!(read.runs[0].params.len(), 3, "each row is a run of its own");
    }

    #[test]
    fn a_chart_of_several_runs_has_columns_for_each() {
        let header = "\"Step\",\"a - x - val/loss\",\"a - x - val/loss__MIN\",\"a - x - val/loss__MAX\",\"lr: 0.2 - val/loss\",\"lr: 0.2 - val/loss__MIN\",\"lr: 0.2 - val/loss__MAX\"\n";
        let read = runs(&format!("{header}0,0.9,0.9,0.9,,,\n5,0.8,0.7,0.9,0.5,0.5,0.5\n"), &[]).unwrap();
        let found: Vec<_> = read
            .runs
            .iter()
            .map(|run| (run.id.as_str(), run.params.len(), run.series["val/loss"].by_step.clone()))
            .collect();
        assert_eq!(found, [("a - x", 0, [(0, 0.9), (5, 0.8)].into()), ("lr: 0.2", 1, [(5, 0.5)].into())]);
        let read = runs(&format!("{}0.5,1,1,1,,,\n", header.replace("Step", "Relative Time (Process)")), &[]).unwrap();
        assert!(read.notices[0].contains("the rows are counted"), "{:?}", read.notices);
    }

    #[test]
    fn equal_rows_are_repetitions_with_identifiers_of_their_own() {
        let read = runs("lr;loss\n0,1;3\n0,1;4\n", &[]).unwrap();
        let ids: BTreeSet<&str> = read.runs.iter().map(|run| run.id.as_str()).collect();
        assert_eq!(ids.len(), 2);
        assert_eq!(
            runs("Name,State,x,val_acc\na,finished,1,0.5\nb,crashed,1,0.1\n", &[]).unwrap().runs[1].end,
            End::Failed("crashed".into())
        );
    }

    #[test]
    fn columns_without_usual_names_are_asked_for() {
        let error = runs("a,b\n1,2\n", &[]).unwrap_err().to_string();
        assert!(error.ends_with("name them with `--metric`: `a`, `b`"), "{error}");
        assert_eq!(runs("a,b\n1,2\n", &["b"]).unwrap().runs[0].series["b"].last(), Some(2.0));
        assert!(runs("a,a\n1,2\n", &["a"]).is_err());
        let read = runs("a,\"the\nloss\"\n1,2\nx,1,2\n", &["the\nloss"]).unwrap();
        assert_eq!((read.runs.len(), read.skipped.values().sum::<usize>()), (1, 1));
    }

    #[test]
    fn percent_is_read_and_texts_among_numbers_are_counted() {
        let read = runs("lr,acc\n1,95%\n2,96.5 %\n", &[]).unwrap();
        assert_eq!(read.runs[1].series["acc"].last(), Some(96.5));
        assert_eq!(read.notices, ["`acc` is in percent: 95 % is 95"]);
        let read = runs("lr,acc\n1,0.5\n2,oom\n3,\n", &["acc"]).unwrap();
        assert_eq!(read.notices, ["left out: 1 value of `acc` without a number, such as `oom`"]);
    }

    #[test]
    fn the_index_of_a_data_frame_is_no_parameter() {
        for name in ["", "Unnamed: 0"] {
            let read =
                runs(&format!("{name},lr,step,loss\n0,0.1,1,3\n1,0.1,2,2\n2,0.2,1,4\n3,0.2,2,3\n"), &[]).unwrap();
            assert_eq!(read.runs.len(), 2, "`{name}`");
            assert_eq!(read.runs[0].params.keys().collect::<Vec<_>>(), ["lr"]);
        }
        let read = runs("Unnamed: 0,loss\n1,3\n1,4\n", &[]).unwrap();
        assert!(read.runs[0].params.contains_key("Unnamed: 0"), "it does not number the rows");
    }

    #[test]
    fn lines_after_a_stray_quotation_mark_are_counted() {
        let read = runs("loss,disk\n1,a\n2,5\"\n3,b\n4,c\n", &[]).unwrap();
        assert_eq!((read.runs.len(), read.skipped.values().copied().collect::<Vec<_>>()), (1, vec![3]));
        let read = runs("loss,disk\n1,a\n2,5\"\n3,6\",x\n4,c\n", &[]).unwrap();
        assert_eq!((read.runs.len(), read.skipped.values().copied().collect::<Vec<_>>()), (2, vec![2]));
    }

    #[test]
    fn only_columns_of_known_words_are_states() {
        let ends = |text: &str| runs(text, &[]).unwrap().runs.into_iter().map(|run| run.end).collect::<Vec<_>>();
        assert_eq!(ends("state,loss\nok,1\nDone,2\nsucceeded,3\n,4\n"), vec![End::Finished; 4]);
        assert_eq!(ends("status,loss\nFAIL,1\nWAITING,2\n"), [End::Failed("fail".into()), End::Running]);
        let read = runs("state,status,loss\nCA,ok,1\nNY,killed,2\n", &[]).unwrap();
        assert!(read.runs.iter().all(|run| run.params.contains_key("state") && !run.params.contains_key("status")));
        assert_eq!(read.runs[1].end, End::Failed("killed".into()));
    }

    #[test]
    fn the_value_of_a_run_is_that_of_its_last_step_in_any_order_of_rows() {
        let read = runs("lr,step,loss\n1,90,1\n1,50,2\n2,10,3\n1,10,4\n2,90,5\n2,50,6\n", &["loss"]).unwrap();
        let last: Vec<Option<f64>> = read.runs.iter().map(|run| run.series["loss"].last()).collect();
        assert_eq!(last, [Some(1.0), Some(5.0)]);
        let summary = runs("run,step,loss\na,,0.5\na,2,1\na,1,2\n", &["loss"]).unwrap();
        assert_eq!(summary.runs[0].series["loss"].last(), Some(0.5), "a value without a step is the result");
        let chart = "Step,a - loss,a - loss__MIN,a - loss__MAX\n20,1,1,1\n10,2,2,2\n";
        assert_eq!(runs(chart, &[]).unwrap().runs[0].series["loss"].last(), Some(1.0));
    }

    #[test]
    fn rows_of_one_run_may_write_a_number_in_two_ways() {
        let read = runs("lr,step,loss\n1,1,4\n1.0,2,3\n0.10,1,4\n1e-1,2,2\n", &["loss"]).unwrap();
        let steps: Vec<usize> = read.runs.iter().map(|run| run.series["loss"].by_step.len()).collect();
        assert_eq!(steps, [2, 2]);
    }
}
