//! Columns of numbers in percent, in which some values may lack the percent sign.

use sweep_job::tasks::Number;

use super::csv::Table;
use crate::format::clean;

/// The scale of a column in which numbers may be in percent.
pub(super) struct Scale {
    /// Numbers of values with and without a percent sign.
    signed: usize,
    unsigned: usize,
    /// True if the values without a sign are fractions: none of them is above 1, and some value with a sign is.
    has_fractions: bool,
}

impl Scale {
    /// The scale of the column at `place`.
    pub(super) fn of(table: &Table, place: usize) -> Self {
        let numbers = table.rows.iter().filter_map(|row| Number::parse(&row[place]));
        let (signed, unsigned): (Vec<Number>, Vec<Number>) = numbers.partition(|number| number.unit.is_some());
        let is_fraction = |number: &Number| number.value.abs() <= 1.0 || !number.value.is_finite();
        let has_fractions = !unsigned.is_empty() && unsigned.iter().all(is_fraction) && !signed.iter().all(is_fraction);
        Self { signed: signed.len(), unsigned: unsigned.len(), has_fractions }
    }

    /// The number of a cell, in percent if the column has percent signs.
    pub(super) fn value(&self, cell: &str) -> Option<f64> {
        const PERCENT: f64 = 100.0;
        let cell = cell.trim();
        let number = Number::parse(cell)?;
        if number.unit.is_some() || !self.has_fractions {
            return Some(number.value);
        }
        // The decimal point moves without rounding: 0.57 is 57 %, and not 56.99999999999999 %.
        let moved = format!("{cell}e2").parse().ok();
        Some(moved.unwrap_or(number.value * PERCENT))
    }

    /// The sentence about a column in percent, whose name is `name`.
    pub(super) fn notice(&self, name: &str) -> Option<String> {
        let Self { signed, unsigned, has_fractions } = self;
        let all = signed + unsigned;
        let name = clean(name);
        match (signed, unsigned) {
            (0, _) => None,
            (_, 0) => Some(format!("`{name}` is in percent: 95 % is 95")),
            _ if *has_fractions => Some(format!(
                "`{name}` is in percent: 95 % is 95; {unsigned} of {all} values have no percent sign and are at most 1: they are \
                 fractions, and 0.95 is 95"
            )),
            _ => Some(format!(
                "`{name}` is in percent: 95 % is 95; {unsigned} of {all} values have no percent sign and are read as percent, too"
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fractions_beside_percentages_are_percentages_and_named() {
        let values = |cells: [&str; 3]| {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("runs.csv");
            std::fs::write(&path, format!("acc\n{}\n", cells.join("\n"))).unwrap();
            let scale = Scale::of(&super::super::csv::table(&path).unwrap(), 0);
            (cells.map(|cell| scale.value(cell).unwrap()), scale.notice("acc").unwrap_or_default())
        };
        let (fractions, notice) = values(["95%", "0.57", "9.4e-1"]);
        assert_eq!(fractions, [95.0, 57.0, 94.0]);
        assert!(notice.contains("2 of 3 values have no percent sign and are at most 1"), "{notice}");
        let (percent, notice) = values(["95%", "57", "0.9"]);
        assert_eq!(percent, [95.0, 57.0, 0.9]);
        assert!(notice.contains("2 of 3 values have no percent sign and are read as percent"), "{notice}");
        // All values may be fractions of a percent.
        assert_eq!(values(["0.95%", "0.57", "0.9"]).0, [0.95, 0.57, 0.9]);
        assert_eq!(values(["0.95", "0.57", "0.9"]), ([0.95, 0.57, 0.9], String::new()));
    }
}
