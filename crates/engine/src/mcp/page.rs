//! Pages of long answers, with cursors.

use schemars::JsonSchema;
use serde::Deserialize;

use super::tool::{Fault, FaultKind};

/// Default number of items of a page.
const USUAL: usize = 20;

/// Maximum number of items of a page.
const MAX_ITEMS: usize = 200;

/// The beginning of a cursor.
const MARK: &str = "from-";

/// The part of a long answer that a call wants.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
pub struct Page {
    /// The `next` of an earlier answer, for what follows it.
    #[serde(default)]
    pub cursor: Option<String>,
    /// Number of items. Default: 20.
    #[serde(default)]
    #[schemars(range(min = 1, max = 200))]
    pub limit: Option<usize>,
}

/// A place in a long answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cursor {
    /// Index of the first item.
    pub from: usize,
    /// Number of items.
    pub limit: usize,
}

impl Page {
    /// Reads the cursor.
    pub fn cursor(&self) -> Result<Cursor, Fault> {
        let start = match &self.cursor {
            None => Some(0),
            Some(text) => text.strip_prefix(MARK).and_then(|number| number.parse().ok()),
        };
        let cursor_fault = || Fault::new(FaultKind::Arguments, "the cursor is not one of this tool");
        let start = start.ok_or_else(|| cursor_fault().help("give the `next` of an earlier answer, or none"))?;
        Ok(Cursor { from: start, limit: self.limit.unwrap_or(USUAL).clamp(1, MAX_ITEMS) })
    }
}

impl Cursor {
    /// The items of the page, and the cursor of the next one.
    pub fn take<T>(self, items: impl IntoIterator<Item = T>) -> (Vec<T>, Option<String>) {
        let mut items = items.into_iter().skip(self.from);
        let page: Vec<T> = items.by_ref().take(self.limit).collect();
        let next = items.next().map(|_| format!("{MARK}{}", self.from + page.len()));
        (page, next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_follow_each_other() {
        let mut page = Page { cursor: None, limit: Some(3) };
        let mut pages = Vec::new();
        loop {
            let (items, next) = page.cursor().unwrap_or_else(|fault| panic!("{fault}")).take(0..7);
            pages.push(items);
            let Some(next) = next else { break };
            page.cursor = Some(next);
        }
        assert_eq!(pages, [vec![0, 1, 2], vec![3, 4, 5], vec![6]]);
    }

    #[test]
    fn other_texts_are_no_cursors() {
        for text in ["", "3", "from-", "from--1", "from-1e3", "from-99999999999999999999999"] {
            let page = Page { cursor: Some(text.to_owned()), limit: None };
            assert_eq!(page.cursor().map_err(|fault| fault.kind), Err(FaultKind::Arguments), "{text}");
        }
    }
}
