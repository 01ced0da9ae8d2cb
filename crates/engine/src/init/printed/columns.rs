//! Rows of tables whose columns are apart by spaces, tabs or commas, such as `epoch  train_loss  valid_loss`.

use std::sync::LazyLock;

use regex::Regex;
use sweep_job::tasks::Number;

use super::{STEPS, joined, layouts::Placed, regex};
use crate::stats::Better;

/// The end of a header with a progress bar behind it.
static PROGRESS: LazyLock<Regex> = LazyLock::new(|| regex(r":\s*\d+%\s*\|.*$"));
/// The name of a column.
static NAME: LazyLock<Regex> = LazyLock::new(|| regex(r"^(?:#|\.?[A-Za-z%][A-Za-z0-9_@/ .^()#%-]*)$"));
/// A text that names a row.
static LABEL: LazyLock<Regex> = LazyLock::new(|| regex(r"^[A-Za-z][A-Za-z0-9_ ./-]*$"));
/// Names of columns whose numbers grow from row to row, besides those of steps.
const SERIES: [&str; 22] = [
    "#",
    "batch",
    "cycle",
    "ep",
    "episode",
    "epochs",
    "gen",
    "generation",
    "i",
    "it",
    "iters",
    "itr",
    "n",
    "round",
    "samples",
    "steps",
    "t",
    "time",
    "timestep",
    "timesteps",
    "tokens",
    "update",
];
/// Marks behind the best number of a column.
const MARKS: [char; 2] = ['*', '†'];
/// Cells without a value.
const ABSENT: [&str; 4] = ["NA", "None", "null", "-"];
/// Maximum number of columns.
const MAX_COLUMNS: usize = 100;

/// A separator of cells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Separator {
    Comma,
    Tab,
    /// Two spaces or more, so that names may have one.
    Wide,
    Spaces,
}

impl Separator {
    const ALL: [Self; 4] = [Self::Comma, Self::Tab, Self::Wide, Self::Spaces];

    fn of_header(self, line: &str) -> Vec<&str> {
        match self {
            Self::Comma => line.split(',').map(str::trim).collect(),
            Self::Tab => line.split('\t').map(str::trim).collect(),
            Self::Wide => line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect(),
            Self::Spaces => line.split_whitespace().collect(),
        }
    }

    fn of_row(self, line: &str) -> Vec<&str> {
        if self == Self::Wide { Self::Spaces.of_header(line) } else { self.of_header(line) }
    }

    /// The regular expressions of a cell of `row` and of the gap between two cells.
    fn expressions(self, row: &str) -> (&'static str, &'static str) {
        match self {
            // Optional spaces would make `1,2` a number with a decimal comma.
            Self::Comma if row.contains(", ") => ("[^,]*", r",\s+"),
            Self::Comma => ("[^,]*", ","),
            Self::Tab => (r"[^\t]*", r"\s*\t\s*"),
            Self::Wide | Self::Spaces => (r"\S+", r"\s+"),
        }
    }
}

/// The subject of a row of a table.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Row {
    /// The text that names it: `lm` below `model`.
    pub(super) label: Option<String>,
    /// The first column and its cell, if no column has steps: `mtry` and `2`.
    pub(super) key: Option<(String, String)>,
}

impl Row {
    /// The subject of a row with these cells, which may have the number of the row before them.
    pub(super) fn of(names: &[String], cells: &[&str]) -> Self {
        let cells = &cells[cells.len() - names.len()..];
        let is_text = |cell: &&&str| Number::parse(cell.trim_end_matches(MARKS)).is_none() && !ABSENT.contains(*cell);
        let texts = || cells.iter().filter(is_text);
        let numbers = cells.len() - texts().count();
        let label = texts().find(|cell| LABEL.is_match(cell)).filter(|_| numbers > 1 || names.len() > 2);
        let is_series = |name: &String| STEPS.contains(&name.as_str()) || SERIES.contains(&name.as_str());
        let is_key = label.is_none() && !names.iter().any(is_series) && !names[0].is_empty();
        Self {
            label: label.map(|label| joined(&label.split_whitespace().collect::<Vec<_>>())),
            key: is_key.then(|| (names[0].clone(), cells[0].to_owned())),
        }
    }
}

/// The table that the lines are in.
#[derive(Debug, Default)]
pub(super) struct Columns {
    /// The names of the latest header, for each separator.
    headers: Vec<(Separator, Vec<String>)>,
    /// The subject of the latest row.
    pub(super) row: Row,
}

impl Columns {
    /// The numbers of a row; none for any other line, which may be the header of the rows below.
    pub(super) fn numbers(&mut self, line: &str) -> Vec<Placed> {
        let text = line.trim();
        if !text.is_empty() && text.chars().all(|char| "-=+─━_ ".contains(char)) {
            return Vec::new();
        }
        // The types of columns below their names.
        if text.split_whitespace().all(|cell| cell.starts_with('<') && cell.ends_with('>')) {
            return Vec::new();
        }
        if let Some((placed, row)) = self.headers.iter().find_map(|(separator, names)| row(*separator, names, text)) {
            self.row = row;
            return placed;
        }
        // A row of texts, such as the name of a class, belongs to the table.
        let is_inside = self.headers.iter().any(|(separator, names)| {
            let cells = separator.of_row(text);
            cells.len() == names.len() && cells.iter().any(|cell| Number::parse(cell).is_some())
        });
        if !is_inside {
            self.headers = headers(&PROGRESS.replace(text, ""));
        }
        Vec::new()
    }
}

/// The names of columns that a line may have.
fn headers(text: &str) -> Vec<(Separator, Vec<String>)> {
    // The report of scikit-learn has a row for each class.
    if text.ends_with("support") {
        return Vec::new();
    }
    let header = |separator: Separator| {
        let cells = separator.of_header(text);
        let are_names = (2..=MAX_COLUMNS).contains(&cells.len())
            && cells.iter().all(|cell| NAME.is_match(cell) && Number::parse(cell).is_none());
        let name = |cell: &&str| joined(&cell.replace(['(', ')'], " ").split_whitespace().collect::<Vec<_>>());
        let names: Vec<String> = cells.iter().map(name).collect();
        // A sentence such as `Finished Training` is no header.
        let has_known = || {
            names.iter().any(|name| {
                STEPS.contains(&name.as_str())
                    || Better::of_name(name).is_some()
                    || name == "metric"
                    || name == ".metric"
            })
        };
        (are_names && (separator != Separator::Spaces || has_known())).then_some((separator, names))
    };
    Separator::ALL.into_iter().filter_map(header).collect()
}

/// The numbers of a row, which may have the number of the row before its cells.
fn row(separator: Separator, names: &[String], text: &str) -> Option<(Vec<Placed>, Row)> {
    let cells = separator.of_row(text);
    let has_index = cells.len() == names.len() + 1 && cells[0].bytes().all(|byte| byte.is_ascii_digit());
    let is_number = |cell: &str| Number::parse(cell.trim_end_matches(MARKS)).is_some();
    let numbers = cells.iter().filter(|cell| is_number(cell) || ABSENT.contains(cell)).count();
    if !(has_index || cells.len() == names.len()) {
        return None;
    }
    let offset = usize::from(has_index);
    // `Accuracy: 0.5` and `Epoch 3` are no rows.
    let is_name = |cell: &&&str| {
        let name = cell.to_ascii_lowercase();
        cell.ends_with(':') || cell.contains('=') || STEPS.contains(&name.as_str()) || Better::of_name(&name).is_some()
    };
    if !names.iter().any(|name| name.trim_start_matches('.') == "metric") && cells.iter().any(|cell| is_name(&cell)) {
        return None;
    }
    if let Some(placed) = of_metric(separator, names, &cells, text) {
        return Some((vec![placed], Row::default()));
    }
    if numbers * 2 < cells.len() {
        return None;
    }
    let step = STEPS.iter().find_map(|step| names.iter().position(|name| name == step)).map(|step| step + offset);
    let (cell, gap) = separator.expressions(text);
    // A comma must be next to the number that it ends.
    let mark = if separator == Separator::Comma { "" } else { "[*†]?" };
    let placed = names.iter().enumerate().map(|(index, name)| (index + offset, name));
    let placed = placed.filter(|(at, name)| Some(*at) != step && !name.is_empty() && is_number(cells[*at]));
    let pattern = |(at, name): (usize, &String)| {
        let expression = |(other, text): (usize, &&str)| match other {
            other if other == at => format!("{{{name}}}{mark}"),
            other if Some(other) == step => format!("{{{}}}", names[other - offset]),
            // Texts of a row name its subject, such as a class, so the pattern contains them.
            _ if text.chars().all(char::is_alphabetic) && !text.is_empty() && !ABSENT.contains(text) => {
                regex::escape(text)
            }
            _ => cell.to_owned(),
        };
        let cells: Vec<String> = cells.iter().enumerate().map(expression).collect();
        (name.clone(), format!(r"^\s*{}\s*$", cells.join(gap)))
    };
    Some((placed.map(pattern).collect(), Row::of(names, &cells)))
}

/// The number of a row whose table has a column with the names of metrics, as tibbles of R's yardstick have.
fn of_metric(separator: Separator, names: &[String], cells: &[&str], text: &str) -> Option<Placed> {
    let offset = cells.len() - names.len();
    let column = |wanted: &[&str]| names.iter().position(|name| wanted.contains(&name.trim_start_matches('.')));
    let (metric, value) = (column(&["metric"])? + offset, column(&["value", "estimate"])? + offset);
    Number::parse(cells[value])?;
    let name = joined(&[cells[metric]]);
    let (cell, gap) = separator.expressions(text);
    let expression = |(at, text): (usize, &&str)| match at {
        at if at == value => format!("{{{name}}}"),
        at if at == metric => regex::escape(text),
        _ => cell.to_owned(),
    };
    let row: Vec<String> = cells.iter().enumerate().map(expression).collect();
    Some((name.clone(), format!(r"^\s*{}\s*$", row.join(gap))))
}

#[cfg(test)]
mod tests {
    use super::{super::layouts::tests::read, *};

    #[test]
    fn rows_have_the_names_of_their_header() {
        let expected = [("train_loss".to_owned(), 0.3), ("val_loss".to_owned(), 0.6)];
        for table in [
            "epoch train_loss val_loss\n0 0.5 0.7\n1 0.3 0.6",
            "epoch,train_loss,val_loss\n1,0.3,0.6",
            "epoch\ttrain_loss\tval_loss\n1\t0.3\t0.6",
            "  epoch    Train Loss    Val Loss\n-------  ------------  ----------\n      1           0.3         0.6",
            "   epoch  train_loss  val_loss\n0      1         0.5       0.7\n1      2         0.3       0.6",
        ] {
            assert_eq!(read(table), expected, "{table}");
        }
        let marked = read("epoch  train_loss  val_loss\n1  0.5  0.7*\n2  0.3  0.6*");
        assert_eq!(marked, expected);
        let fastai = read(
            "epoch     train_loss  valid_loss  accuracy  time    \n0         0.3         0.6         0.9       00:03",
        );
        assert_eq!(fastai.len(), 3);
        let detection = "Class Images Instances Box(P R mAP50 mAP50-95): 100%|███| 1/1 [00:00]\nall 4 17 0.8 0.6 0.5 0.4\ndog 1 2 0.1 0.1 0.1 0.1";
        let names = headers("Class Images Box(P R mAP50 mAP50-95)").pop().map(|(_, names)| names.join(" "));
        assert_eq!(names.as_deref(), Some("class images box_p r map50 map50_95"));
        let (mut columns, mut all) = (Columns::default(), Vec::new());
        for line in detection.lines() {
            all.push(columns.numbers(line));
        }
        let map = &all[1].iter().find(|(name, _)| name == "map50").unwrap().1;
        assert!(map.contains("all") && !all[2].iter().any(|(_, pattern)| pattern == map), "{map}");
    }

    #[test]
    fn tibbles_have_a_metric_in_a_row() {
        let tibble = "# A tibble: 2 × 3\n  .metric  .estimator .estimate\n  <chr>    <chr>          <dbl>\n1 accuracy binary         0.333\n2 roc_auc  binary         0.4";
        assert_eq!(read(tibble), [("roc_auc".to_owned(), 0.4)]);
    }

    #[test]
    fn prose_has_no_columns() {
        for text in [
            "Finished Training\nAccuracy: 0.5",
            "Test Results\nacc: 0.5\nf1: 0.4",
            "Using cpu\nloss 1.5",
            "device cuda\nlr 0.1\nacc 0.5",
            "Best accuracy\nEpoch 3",
            "training has begun\nloss 0.5 now",
            "a b\nc d",
            "1 2 3\n4 5 6",
            "loss, acc\n0.5",
        ] {
            assert_eq!(read(text), [], "{text}");
        }
    }
}
