//! Lines of headings of a table.

use super::{GAP, Numbers, escape, line};
use crate::analysis::Table;

/// The headings of a table.
pub(super) struct Header {
    /// Headings of the labels.
    axes: Vec<String>,
    columns: Vec<Heading>,
}

/// The headings of a column, from the headings that it shares with its neighbors to its own.
struct Heading {
    shared: Vec<String>,
    own: String,
}

impl Header {
    /// Headings of a table: above the metrics stand the values on the column axes. A metric that all columns have stands above them.
    pub(super) fn new(table: &Table) -> Self {
        let titles = table.column_titles();
        let is_one_metric = titles.len() > 1 && titles.iter().all(|title| title.text == titles[0].text);
        let columns = titles.into_iter().map(|title| {
            let (mut shared, text) = (title.point, title.text);
            match shared.pop_if(|_| is_one_metric) {
                Some(own) => {
                    shared.insert(0, text);
                    Heading { shared, own }
                }
                None => Heading { shared, own: text },
            }
        });
        Self { axes: table.axes.clone(), columns: columns.collect() }
    }

    /// Widths of the labels and of the columns by their own headings, in characters.
    pub(super) fn widths(&self) -> Vec<usize> {
        let own = self.columns.iter().map(|heading| &heading.own);
        self.axes.iter().chain(own).map(|text| text.chars().count() + GAP).collect()
    }

    /// Makes the last column of a group wider if the columns have less room than the heading that they share.
    pub(super) fn widen(&self, widths: &mut [usize]) {
        let all: Vec<usize> = (0..widths.len()).collect();
        for level in 0..self.levels() {
            for (label, range) in self.groups(&all, level) {
                let room: usize = widths[range.clone()].iter().sum();
                widths[range.end - 1] += (label.chars().count() + GAP).saturating_sub(room);
            }
        }
    }

    /// The lines above some of the columns, which are counted with the labels.
    pub(super) fn lines(&self, columns: &[usize], numbers: Numbers) -> String {
        let mut text = String::new();
        for level in 0..self.levels() {
            let groups = self.groups(columns, level);
            let labels = vec![String::new(); self.axes.len()];
            let headings = groups
                .iter()
                .map(|(label, range)| format!("\\multicolumn{{{}}}{{c}}{{{}}}", range.len(), escape(label)));
            text += &line(&labels.into_iter().chain(headings).collect::<Vec<_>>());
            // In LaTeX columns count from 1.
            let rules = groups.iter().map(|(_, range)| format!("\\cmidrule(lr){{{}-{}}}", range.start + 1, range.end));
            text += &rules.collect::<String>();
            text.push('\n');
        }
        let own = columns.iter().map(|column| match column.checked_sub(self.axes.len()) {
            None => escape(&self.axes[*column]),
            Some(column) if numbers == Numbers::Siunitx => format!("{{{}}}", escape(&self.columns[column].own)),
            Some(column) => escape(&self.columns[column].own),
        });
        text + &line(&own.collect::<Vec<_>>())
    }

    fn levels(&self) -> usize {
        self.columns.iter().map(|heading| heading.shared.len()).max().unwrap_or(0)
    }

    /// Headings that neighbors among `columns` share at a level, with the places of these neighbors in `columns`.
    fn groups(&self, columns: &[usize], level: usize) -> Vec<(&str, std::ops::Range<usize>)> {
        let shared = |place: usize| {
            let shared = &self.columns[columns[place] - self.axes.len()].shared;
            &shared[..shared.len().min(level + 1)]
        };
        let mut groups: Vec<(&str, std::ops::Range<usize>)> = Vec::new();
        for place in self.axes.len()..columns.len() {
            match groups.last_mut() {
                Some((_, range)) if shared(range.start) == shared(place) => range.end = place + 1,
                _ => groups.push((shared(place).get(level).map_or("", String::as_str), place..place + 1)),
            }
        }
        groups
    }
}
