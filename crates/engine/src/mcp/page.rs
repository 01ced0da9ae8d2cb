//! Pages of long answers, with cursors.

use schemars::JsonSchema;
use serde::Deserialize;

use super::tool::{Fault, FaultKind};

/// Default number of items of a page.
const USUAL: usize = 20;

/// Maximum number of items of a page.
const MAX_ITEMS: usize = 200;

/// The beginning of a cursor. The index of the page's first item follows.
const MARK: &str = "from-";
/// Mark before the number of items of the page's answer that earlier parts have.
const PART: char = '+';

/// The part of a long answer that a call wants.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
pub struct Page {
    /// `next` of an earlier answer.
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
            Some(text) => parse(text).map(|(start, _)| start),
        };
        let cursor_fault = || Fault::new(FaultKind::Arguments, "the cursor does not belong to this tool");
        let start = start.ok_or_else(|| cursor_fault().help("pass the `next` of an earlier answer, or no cursor"))?;
        Ok(Cursor { from: start, limit: self.limit.unwrap_or(USUAL).clamp(1, MAX_ITEMS) })
    }
}

/// The index of a page's first item, and the number of items of its answer that earlier parts have.
fn parse(cursor: &str) -> Option<(usize, usize)> {
    let numbers = cursor.strip_prefix(MARK)?;
    let (start, skip) = numbers.split_once(PART).unwrap_or((numbers, "0"));
    // `parse` accepts a sign.
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    (is_number(start) && is_number(skip)).then(|| Some((start.parse().ok()?, skip.parse().ok()?)))?
}

/// The number of items of a page's answer that parts before `cursor` have; 0 for a text that is no cursor.
pub(super) fn skipped(cursor: Option<&str>) -> usize {
    cursor.and_then(parse).map_or(0, |(_, skip)| skip)
}

/// The cursor of the part of a page's answer after `skip` items; `cursor` is that of an earlier part.
pub(super) fn next_part(cursor: Option<&str>, skip: usize) -> String {
    let start = cursor.and_then(parse).map_or(0, |(start, _)| start);
    format!("{MARK}{start}{PART}{skip}")
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
    fn a_cursor_of_a_part_is_one_of_its_page() {
        let page = Page { cursor: Some("from-20+7".to_owned()), limit: None };
        assert_eq!(page.cursor().map(|cursor| cursor.from).ok(), Some(20));
        assert_eq!(skipped(page.cursor.as_deref()), 7);
        assert_eq!(next_part(page.cursor.as_deref(), 9), "from-20+9");
        assert_eq!(next_part(None, 9), "from-0+9");
    }

    #[test]
    fn other_texts_are_no_cursors() {
        for text in [
            "",
            "3",
            "from-",
            "from--1",
            "from-+1",
            "from-1+",
            "from-1+2+3",
            "from-1+-2",
            "from-1e3",
            "from-99999999999999999999999",
        ] {
            let page = Page { cursor: Some(text.to_owned()), limit: None };
            assert_eq!(page.cursor().map_err(|fault| fault.kind), Err(FaultKind::Arguments), "{text}");
        }
    }
}
