//! Numbers in lines whose layout names them: objects within objects, tables, `val_acc improved from 0.80 to 0.81`,
//! `valid_0's l2: 0.198`, and the summary of COCO.

use std::{collections::BTreeMap, sync::LazyLock};

use regex::Regex;
use sweep_job::tasks::{Number, Pattern, Reading};

use super::{
    STEPS,
    columns::{Columns, Row},
    joined,
    names::own_split,
    patterns::STEP,
    regex,
};
use crate::stats::Better;

/// A number of a line: the name of its metric, and the pattern that reads it.
pub(super) type Placed = (String, String);

/// A key of an object, with the bracket of an inner object; a bracket alone.
static TOKEN: LazyLock<Regex> = LazyLock::new(|| {
    regex(
        r#"(?:"(?<double>[^"\\]*)"|'(?<single>[^'\\]*)')(?:(?<colon>\s*:\s*)(?<inner>\{)?)?|(?<open>\{)|(?<close>\})"#,
    )
});
/// A metric that has changed for the better.
static IMPROVED: LazyLock<Regex> = LazyLock::new(|| {
    regex(
        r"(?:^|[^A-Za-z0-9_])(?<name>[A-Za-z][A-Za-z0-9_@/-]*)[ \t]+(?<verb>improved|decreased|increased|dropped|reduced)[ \t]+from[ \t]+\S+[ \t]+to[ \t]+[-+]?\.?\d",
    )
});
/// A metric of a data set, as gradient boosting names it.
static OWNED: LazyLock<Regex> =
    LazyLock::new(|| regex(r"(?<set>[A-Za-z][A-Za-z0-9_-]*)'s[ \t]+(?<name>[A-Za-z][A-Za-z0-9_@-]*)[ \t]*[:=]"));
/// A metric at a step: `Valid MRR at step 300: 0.61`.
static AT_STEP: LazyLock<Regex> = LazyLock::new(|| {
    regex(
        r"(?i)(?:^|[^A-Za-z0-9_])(?<name>[A-Za-z][A-Za-z0-9_@-]*(?: [A-Za-z][A-Za-z0-9_@-]*){0,2}) (?<at>at|after|for) (?<word>step|epoch|iteration|iter) \d+[ \t]*[:=]",
    )
});
/// A meter: the value of the latest batch, and in parentheses the mean so far.
static METER: LazyLock<Regex> = LazyLock::new(|| {
    regex(
        r"(?:^|[^A-Za-z0-9_])(?<name>[A-Za-z][A-Za-z0-9_@/-]*)[ \t]*:?[ \t]+[-+]?[.\d][.\deE+-]*[ \t]*\([ \t]*[-+]?[.\d][.\deE+-]*[ \t]*\)",
    )
});
/// A line of the summary of COCO.
static COCO: LazyLock<Regex> = LazyLock::new(|| {
    regex(
        r"\((?<name>A[PR])\)\s*@\[\s*IoU=(?<iou>[\d.:]+)\s*\|\s*area=\s*(?<area>\w+)\s*\|\s*maxDets=\s*(?<count>\d+)\s*\]\s*=",
    )
});
/// A line of the evaluation of TREC over all queries.
static TREC: LazyLock<Regex> = LazyLock::new(|| regex(r"^(?<name>[A-Za-z][A-Za-z0-9_.@-]*)\s+all\s+[-+]?\.?\d\S*\s*$"));
/// The accuracy in the report of scikit-learn, with the number of examples.
static TOTAL: LazyLock<Regex> = LazyLock::new(|| regex(r"^\s+accuracy\s{4,}[\d.]+\s+\d+\s*$"));
/// A line with averages over classes in the report of scikit-learn.
static AVERAGES: LazyLock<Regex> =
    LazyLock::new(|| regex(r"^\s*(?<kind>macro|micro|samples|weighted) avg\s+[\d.]+\s+[\d.]+\s+[\d.]+\s+\d+\s*$"));
/// The name of a column; empty if the column's heading is a sign.
static COLUMN: LazyLock<Regex> = LazyLock::new(|| regex(r"^(?:[A-Za-z][A-Za-z0-9_@/ .^-]*)?$"));

/// The bars between the cells of a table, and a class of them.
const BARS: [char; 3] = ['|', '│', '┃'];
const BAR: &str = "[|│┃]";
const CELL: &str = "[^|│┃]*";
/// The entries of an object that a pattern skips, with two levels of inner objects.
const SKIPPED: &str = r"(?:[^{}]|\{(?:[^{}]|\{[^{}]*\})*\})*?";

/// The layouts of an output's lines.
#[derive(Default)]
pub(super) struct Layouts {
    /// The names of the columns of the table that the lines are in.
    columns: Vec<String>,
    /// The subject of the latest row.
    row: Row,
    /// The table without bars that the lines are in.
    spaced: Columns,
    /// True for each pattern that has read a number of its line.
    known: BTreeMap<String, bool>,
}

impl Layouts {
    /// The numbers of a line of such a layout; none for any other line.
    pub(super) fn numbers(&mut self, line: &str) -> Vec<Placed> {
        (self.row, self.spaced.row) = (Row::default(), Row::default());
        let mut placed = if line.contains(BARS) { self.of_table(line) } else { Vec::new() };
        placed.extend(of_coco(line));
        placed.extend(of_trec(line));
        placed.extend(of_averages(line));
        if placed.is_empty() {
            placed = self.spaced.numbers(line);
            self.row = std::mem::take(&mut self.spaced.row);
        }
        if placed.is_empty() {
            placed = of_object(line).into_iter().chain(of_words(line)).chain(of_meters(line)).collect();
        }
        placed.into_iter().filter(|(_, pattern)| self.reads(pattern, line)).collect()
    }

    /// The subject of the latest line, if it is a row of a table.
    pub(super) fn row(&mut self) -> Row {
        std::mem::take(&mut self.row)
    }

    /// True if a pattern reads a number of a line; of lines with the same pattern, the first decides.
    fn reads(&mut self, pattern: &str, line: &str) -> bool {
        *self.known.entry(pattern.to_owned()).or_insert_with(|| {
            let found = Pattern::new(pattern).ok().and_then(|pattern| pattern.find(line));
            found.is_some_and(|found| found.parts.iter().all(|(_, part)| matches!(part, Reading::Number(_))))
        })
    }

    /// The numbers of a row of a table whose header was a line before.
    fn of_table(&mut self, line: &str) -> Vec<Placed> {
        let text = line.trim();
        let cells: Vec<&str> = text.trim_matches(BARS).split(BARS).map(str::trim).collect();
        if text.chars().all(|char| BARS.contains(&char) || "-+:=─━┼╇┿ ".contains(char)) {
            return Vec::new();
        }
        if cells.len() == self.columns.len() && cells.iter().any(|cell| is_number(cell)) {
            let placed = of_metric(&self.columns, &cells, text);
            if !placed.is_empty() {
                return placed;
            }
        }
        let numbers = cells.iter().filter(|cell| is_number(cell)).count();
        if cells.len() != self.columns.len() || numbers == 0 {
            let are_names = cells.len() > 1
                && cells.iter().filter(|cell| !cell.is_empty()).count() > 1
                && cells.iter().all(|cell| COLUMN.is_match(cell));
            let names = cells.iter().map(|cell| joined(&cell.split_whitespace().collect::<Vec<_>>()));
            self.columns = if are_names { names.collect() } else { Vec::new() };
            return Vec::new();
        }
        let row = Row::of(&self.columns, &cells);
        if numbers < cells.len() && (row.label.is_none() || numbers < 2) {
            // A row of other texts does not end its table.
            return Vec::new();
        }
        self.row = row;
        let step = STEPS.iter().find_map(|step| self.columns.iter().position(|column| column == step));
        let bar = |has_bar: bool| if has_bar { BAR } else { "" };
        let (first, last) = (bar(text.starts_with(BARS)), bar(text.ends_with(BARS)));
        let named = self.columns.iter().enumerate().filter(|(_, name)| !name.is_empty());
        let named = named.filter(|(index, _)| Some(*index) != step && is_number(cells[*index]));
        let placed = named.map(|(index, name)| {
            let cell = |at: usize| match at {
                at if at == index || Some(at) == step => format!(r"\s*{{{}}}{CELL}", self.columns[at]),
                // Texts of a row name its subject.
                at if !is_number(cells[at]) => format!(r"\s*{}\s*", regex::escape(cells[at])),
                _ => CELL.to_owned(),
            };
            let cells: Vec<String> = (0..self.columns.len()).map(cell).collect();
            (name.clone(), format!(r"^\s*{first}{}{last}\s*$", cells.join(BAR)))
        });
        placed.collect()
    }
}

/// The number of a row whose table has a column with the names of metrics: `| valid | accuracy | 0.6 |` below `| split | metric |
/// value |`. Of the columns `min` and `max`, the better one counts.
fn of_metric(columns: &[String], cells: &[&str], text: &str) -> Vec<Placed> {
    let column = |name: &str| columns.iter().position(|column| column.trim_end_matches('.') == name);
    let Some(metric) = column("metric") else { return Vec::new() };
    let best = || match Better::of_name(cells[metric]) {
        Some(Better::More) => column("max"),
        Some(Better::Less) => column("min"),
        None => None,
    };
    let Some(value) = column("value").or_else(best).filter(|at| is_number(cells[*at])) else { return Vec::new() };
    let first = Some(cells[0]).filter(|first| metric > 0 && !first.is_empty() && !is_number(first));
    let name = joined(&cells[metric].split_whitespace().collect::<Vec<_>>());
    let name = match first {
        Some(split) if own_split(split).is_some() => format!("{}_{name}", joined(&[split])),
        Some(set) => format!("{}.{name}", joined(&set.split_whitespace().collect::<Vec<_>>())),
        None => name,
    };
    let bar = |has_bar: bool| if has_bar { BAR } else { "" };
    let cell = |(at, cell): (usize, &&str)| match at {
        at if at == value => format!(r"\s*{{{name}}}{CELL}"),
        at if at == metric || at == 0 && first.is_some() => format!(r"\s*{}\s*", regex::escape(cell)),
        _ => CELL.to_owned(),
    };
    let row: Vec<String> = cells.iter().enumerate().map(cell).collect();
    let (start, end) = (bar(text.starts_with(BARS)), bar(text.ends_with(BARS)));
    vec![(name.clone(), format!(r"^\s*{start}{}{end}\s*$", row.join(BAR)))]
}

/// The number of a line of the summary of COCO: `ap`, `ap50`, `ap_small`, `ar_100`.
fn of_coco(line: &str) -> Option<Placed> {
    let found = COCO.captures(line)?;
    let (short, iou, area, count) = (&found["name"], &found["iou"], &found["area"], &found["count"]);
    let threshold = if iou.contains(':') { "" } else { iou.trim_start_matches("0.") };
    let size = if area == "all" { String::new() } else { format!("_{area}") };
    let most = if short == "AR" && area == "all" { format!("_{count}") } else { String::new() };
    let name = format!("{}{threshold}{size}{most}", short.to_ascii_lowercase());
    let iou = regex::escape(iou);
    let pattern =
        format!(r"\({short}\)\s*@\[\s*IoU={iou}\s*\|\s*area=\s*{area}\s*\|\s*maxDets=\s*{count}\s*\]\s*=\s*{{{name}}}");
    Some((name, pattern))
}

/// True for a line that has the measure of an evaluation, whatever its name.
pub(super) fn is_evaluation(line: &str) -> bool {
    TREC.is_match(line)
}

/// The number of a line of `trec_eval`: `map`, `p_10`, `ndcg_cut_10`; no counts.
fn of_trec(line: &str) -> Option<Placed> {
    let found = TREC.captures(line)?;
    let name = joined(&[&found["name"]]);
    let pattern = format!(r"^{}\s+all\s+{{{name}}}\s*$", regex::escape(&found["name"]));
    (!name.starts_with("num_")).then_some((name, pattern))
}

/// The averages in the report of scikit-learn: `macro_avg_f1_score`.
fn of_averages(line: &str) -> Vec<Placed> {
    if TOTAL.is_match(line) {
        return vec![("accuracy".to_owned(), r"^\s*accuracy\s+{accuracy}\s+\d+\s*$".to_owned())];
    }
    let Some(found) = AVERAGES.captures(line) else { return Vec::new() };
    let columns = ["precision", "recall", "f1_score"];
    let placed = |column: &str| {
        let name = format!("{}_avg_{column}", &found["kind"]);
        let cell = |other: &&str| if *other == column { format!("{{{name}}}") } else { r"\S+".to_owned() };
        let cells: Vec<String> = columns.iter().map(cell).collect();
        (name.clone(), format!(r"^\s*{} avg\s+{}\s+\d+\s*$", &found["kind"], cells.join(r"\s+")))
    };
    columns.into_iter().map(placed).collect()
}

/// True for the text of a cell that is a number, also with a remark: `0.51 ± 0.02`.
fn is_number(cell: &str) -> bool {
    cell.split_whitespace().next().is_some_and(|word| Number::parse(word).is_some())
}

/// The numbers within inner objects of an object of JSON or Python, by their paths: `val.loss`.
fn of_object(line: &str) -> Vec<Placed> {
    if line.matches('{').count() < 2 {
        return Vec::new();
    }
    let (mut placed, mut step, mut has_inner) = (Vec::new(), None, false);
    // The keys of the open objects, the outermost without one.
    let mut open: Vec<&str> = Vec::new();
    for token in TOKEN.captures_iter(line) {
        let key = token.name("double").or_else(|| token.name("single")).map_or("", |key| key.as_str());
        if token.name("close").is_some() {
            open.pop();
        } else if token.name("open").is_some() || token.name("inner").is_some() {
            has_inner |= token.name("inner").is_some();
            open.push(key);
        } else if token.name("colon").is_some() && !open.is_empty() {
            let keys: Vec<&str> = open[1..].iter().copied().chain([key]).collect();
            if open.len() == 1 && STEPS.contains(&key) {
                step = step.or(Some(key).filter(|_| placed.is_empty()));
            } else if keys.iter().all(|key| !key.is_empty()) {
                placed.push(keys);
            }
        }
    }
    if !has_inner {
        return Vec::new();
    }
    let entry = |key: &str| format!(r#"{SKIPPED}['"]{}['"]\s*:\s*"#, regex::escape(key));
    let pattern = |keys: Vec<&str>| {
        let name = keys.join(".").replace(|char: char| !(char.is_alphanumeric() || "_-./@#%+".contains(char)), "_");
        let path: Vec<String> = keys.iter().map(|key| entry(key)).collect();
        let step = step.map_or_else(String::new, |step| format!("{}{{{step}}}", entry(step)));
        let pattern = format!(r"^[^{{]*\{{{step}{}{{{name}}}", path.join(r"\{"));
        (name, pattern)
    };
    placed.into_iter().map(pattern).collect()
}

/// The means of the meters of a line that has several: one alone could be a mean with its deviation. Lines that begin with another word,
/// such as lines of a test, have separate meters.
fn of_meters(line: &str) -> Vec<Placed> {
    let meters: Vec<_> = METER.captures_iter(line).map(|found| found["name"].to_owned()).collect();
    if meters.len() < 2 {
        return Vec::new();
    }
    let text = line.trim_start();
    let first = &text[..text.find(|char: char| !char.is_ascii_alphanumeric()).unwrap_or(0)];
    let start = format!(r"^\s*{first}{}", if first.is_empty() { "" } else { r"\W.*?" });
    let tag = own_split(first).map(|(tag, _)| joined(&[tag]) + "_").unwrap_or_default();
    let placed = |meter: String| {
        let name = tag.clone() + &joined(&[&meter]);
        let number = r"[-+]?[.\d][.\deE+-]*";
        let pattern = format!(r"{start}\b{}\s*:?\s+{number}\s*\(\s*{{{name}}}\s*\)", regex::escape(&meter));
        (name, pattern)
    };
    meters.into_iter().filter(|meter| meter != first).map(placed).collect()
}

/// The numbers of words around them.
fn of_words(line: &str) -> Vec<Placed> {
    let improved = IMPROVED.captures(line).map(|found| {
        let name = joined(&[&found["name"]]);
        let step = STEP
            .captures(line)
            .filter(|step| step.get(0).map(|step| step.end()) <= found.get(0).map(|found| found.end()));
        let step = step.map_or_else(String::new, |step| {
            format!(r"{}\s*[:=#]?\s*{{{}}}.*?", &step["word"], step["word"].to_ascii_lowercase())
        });
        let boundary = if step.is_empty() { "(?:^|[^A-Za-z0-9_])" } else { "[^A-Za-z0-9_]" };
        let words = regex::escape(&found["name"]);
        let pattern = format!(r"{step}{boundary}{words}\s+{}\s+from\s+\S+\s+to\s+{{{name}}}", &found["verb"]);
        (name, pattern)
    });
    let owned = OWNED.captures_iter(line).map(|found| {
        let (set, word) = (&found["set"], &found["name"]);
        let name = format!("{set}.{}", joined(&[word]));
        let (set, word) = (regex::escape(set), regex::escape(word));
        let pattern = format!(r"(?:^|[^A-Za-z0-9_-]){set}'s\s+{word}\s*[:=]\s*{{{name}}}");
        (name, pattern)
    });
    let at_step = AT_STEP.captures(line).map(|found| {
        let name = joined(&found["name"].split(' ').collect::<Vec<_>>());
        let (words, word) = (regex::escape(&found["name"]), &found["word"]);
        let step = word.to_ascii_lowercase();
        let at = &found["at"];
        let pattern = format!(r"(?:^|[^A-Za-z0-9_]){words} {at} {word} {{{step}}}\s*[:=]\s*{{{name}}}");
        (name, pattern)
    });
    improved.into_iter().chain(owned).chain(at_step).collect()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// The names and values of the numbers in the last line that has some.
    pub(in super::super) fn read(lines: &str) -> Vec<(String, f64)> {
        let mut layouts = Layouts::default();
        let lines = lines.lines().map(|line| (line, layouts.numbers(line)));
        let (line, placed) = lines.filter(|(_, placed)| !placed.is_empty()).last().unwrap_or_default();
        let value = |pattern: &str| match Pattern::new(pattern).unwrap().find(line).unwrap().parts.remove(0).1 {
            Reading::Number(number) => number.value,
            other => panic!("{pattern}: {other:?}"),
        };
        placed.iter().map(|(name, pattern)| (name.clone(), value(pattern))).collect()
    }

    #[test]
    fn numbers_of_inner_objects_have_their_paths() {
        let expected = [("train.loss", 0.5), ("val.loss", 0.61), ("val.acc", 0.1)];
        let expected = expected.map(|(name, value)| (name.to_owned(), value));
        for line in [
            r#"{"epoch": 1, "train": {"loss": 0.5}, "val": {"loss": 0.61, "acc": 0.1}}"#,
            r#"INFO {"train": {"loss": 0.5}, "val": {"loss": 0.61, "acc": 0.1}, "epoch": 1}"#,
            "{'epoch': 1, 'train': {'x': {}, 'loss': np.float64(0.5)}, 'val': {'loss': 0.61, 'acc': 0.1}}",
        ] {
            let found: Vec<_> = read(line).into_iter().filter(|(name, _)| name != "epoch").collect();
            assert_eq!(found, expected, "{line}");
        }
        let outer = read(r#"{"val": {"loss": 0.6}, "loss": 0.5}"#);
        assert_eq!(outer, [("val.loss".to_owned(), 0.6), ("loss".to_owned(), 0.5)]);
        assert_eq!(read(r#"{"loss": 0.5, "acc": 0.1}"#), []);
        assert_eq!(read(r#"{"all": [{"loss": 0.5}], "a": {"b": "x"}}"#), []);
    }

    #[test]
    fn rows_of_tables_have_the_names_of_their_header() {
        let expected = [("loss".to_owned(), 0.4), ("val_acc".to_owned(), 0.9)];
        for table in [
            "| epoch | loss | val acc |\n|-------|------|-----|\n| 1 | 0.5 | 0.8 |\n| 2 | 0.4 | 0.9 |",
            "epoch | loss | val_acc\n------+------+----\n1 | 0.5 | 0.8\n2 | 0.4 ± 0.1 | 0.9",
            "┃ epoch ┃ loss ┃ val_acc ┃\n│ 2 │ 0.4 │ 0.9 │",
        ] {
            assert_eq!(read(table), expected, "{table}");
        }
        for text in ["| loss | 0.25 |", "| name | value |\n| loss | 0.5 |", "a: 1 | b: 2"] {
            assert_eq!(read(text), [], "{text}");
        }
    }

    #[test]
    fn words_around_a_number_name_it() {
        let one = |line: &str| read(line).pop();
        assert_eq!(one("val_acc improved from 0.80000 to 0.81"), Some(("val_acc".to_owned(), 0.81)));
        assert_eq!(
            one("Epoch 3: val_loss improved from inf to 0.52345, saving model to m.h5"),
            Some(("val_loss".to_owned(), 0.52345))
        );
        assert_eq!(one("x     Valid MRR at step 300: 0.611"), Some(("valid_mrr".to_owned(), 0.611)));
        let coco = " Average Precision  (AP) @[ IoU=0.50:0.95 | area=   all | maxDets=100 ] = 0.611";
        assert_eq!(one(coco), Some(("ap".to_owned(), 0.611)));
        assert_eq!(one(&coco.replace("0.50:0.95", "0.75     ")), Some(("ap75".to_owned(), 0.611)));
        let burn = "| Split | Metric   | Min.     | Epoch    | Max.     | Epoch    |\n| Valid | Accuracy | 50.0 | 1 | 61.1 | 3 |";
        assert_eq!(one(burn), Some(("valid_accuracy".to_owned(), 61.1)));
        let harness = "|Tasks|Version|Metric| |Value | |Stderr|\n|-----|------:|------|---|-----:|---|-----:|\n|arc_easy| 1|acc |↑ |0.611|± |0.0101|";
        assert_eq!(one(harness), Some(("arc_easy.acc".to_owned(), 0.611)));
        assert_eq!(one("P_10                  \tall\t0.4000"), Some(("p_10".to_owned(), 0.4)));
        assert_eq!(one("num_q                 \tall\t50"), None);
        assert_eq!(one("map                   \t301\t0.4"), None);
        let meters = read("Test: [20/20]\tTime 0.1 (0.2)\tLoss: 0.25 (0.35)\tAcc@1: 50.0 (55.0)");
        assert_eq!(meters[1..], [("test_loss".to_owned(), 0.35), ("test_acc_1".to_owned(), 55.0)]);
        let meters = read("Epoch: [1][20/20]\tLoss 2.5e-1 (3.5e-1)\tAcc@1 50.0 (55.0)");
        assert_eq!(meters, [("loss".to_owned(), 0.35), ("acc_1".to_owned(), 55.0)]);
        assert_eq!(read("Accuracy: 0.91 (0.02)"), [], "a mean with its deviation");
        let both = read("[10]\tvalid_0's l2: 0.198\tvalid_1's l2: 0.3");
        assert_eq!(both, [("valid_0.l2".to_owned(), 0.198), ("valid_1.l2".to_owned(), 0.3)]);
    }
}
