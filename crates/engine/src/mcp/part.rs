//! Parts of answers that are longer than an agent should read at once.
//!
//! An answer is a tree of JSON values. Its items, in the order of its text, are the elements of its lists and the lines of its texts; short
//! values are not divided. A part has as many items as fit, within their objects. The cursor is the number of items in the earlier parts.

use serde_json::{Map, Value};

/// Maximum number of bytes of an answer, about 1,000 tokens.
pub(super) const MAX_BYTES: usize = 4000;
/// Bytes that are left for the cursor.
const CURSOR_BYTES: usize = 100;
/// Maximum number of bytes of an item; a larger value is divided, unless it is a number.
const MAX_ITEM_BYTES: usize = 800;
/// Maximum number of bytes of a field that each part of its object has.
const MAX_FIELD_BYTES: usize = 200;
/// Maximum number of bytes of all fields that each part of an object has; the fields of a larger object are items.
const MAX_FIELDS_BYTES: usize = 1200;

/// A part of an answer.
#[derive(Debug, PartialEq)]
pub(super) struct Part {
    pub(super) value: Value,
    /// Number of items that this part and the parts before it have.
    pub(super) end: usize,
    /// Number of items that follow.
    pub(super) remaining: usize,
}

/// Returns the part of `answer` that begins after `skip` items. It has at least one item if there is one.
pub(super) fn part(answer: Value, skip: usize) -> Part {
    if skip == 0 && size(&answer) <= MAX_BYTES {
        return Part { value: answer, end: 0, remaining: 0 };
    }
    let mut walk = Walk { skip, budget: MAX_BYTES - CURSOR_BYTES, passed: 0, kept: 0, remaining: 0 };
    let value = match answer {
        Value::Object(fields) => walk.fields(fields).0,
        other => walk.value(other).unwrap_or_default(),
    };
    Part { value, end: walk.passed, remaining: walk.remaining }
}

/// Bytes of a value as JSON.
fn size(value: &Value) -> usize {
    value.to_string().len()
}

/// State of the walk over an answer.
struct Walk {
    /// Number of items that earlier parts have.
    skip: usize,
    /// Number of bytes for further values.
    budget: usize,
    /// Number of items that earlier parts or this one have.
    passed: usize,
    /// Number of items of this part.
    kept: usize,
    /// Number of items that follow.
    remaining: usize,
}

impl Walk {
    /// The value or its items of this part; `None` if it has none.
    fn value(&mut self, value: Value) -> Option<Value> {
        if size(&value) <= MAX_ITEM_BYTES {
            return self.item(value);
        }
        match value {
            Value::Array(items) => Some(self.list(items)).filter(|items| !items.is_empty()).map(Value::Array),
            Value::String(text) => {
                let kept: Vec<Value> =
                    pieces(&text).into_iter().filter_map(|piece| self.item(Value::from(piece))).collect();
                let text: String = kept.iter().filter_map(Value::as_str).collect();
                (!kept.is_empty()).then_some(Value::String(text))
            }
            Value::Object(fields) => {
                let budget = self.budget;
                let (value, has_items) = self.fields(fields);
                if !has_items {
                    self.budget = budget;
                }
                has_items.then_some(value)
            }
            number => self.item(number),
        }
    }

    /// An item, if it belongs to this part.
    fn item(&mut self, item: Value) -> Option<Value> {
        if self.passed < self.skip {
            self.passed += 1;
            return None;
        }
        let bytes = size(&item) + 1;
        if self.remaining > 0 || (self.kept > 0 && bytes > self.budget) {
            self.remaining += 1;
            return None;
        }
        self.passed += 1;
        self.kept += 1;
        self.budget = self.budget.saturating_sub(bytes);
        Some(item)
    }

    /// The elements of a list that belong to this part, or their items.
    fn list(&mut self, elements: Vec<Value>) -> Vec<Value> {
        elements.into_iter().filter_map(|element| self.value(element)).collect()
    }

    /// The short fields of an object, and the items of its long ones. False if this part has none of its items.
    fn fields(&mut self, fields: Map<String, Value>) -> (Value, bool) {
        let bytes_of = |name: &str, value: &Value| name.len() + size(value) + 4;
        let is_short = |value: &Value| size(value) <= MAX_FIELD_BYTES;
        let short_bytes: usize =
            fields.iter().filter(|(_, value)| is_short(value)).map(|(name, value)| bytes_of(name, value)).sum();
        let is_map = short_bytes > MAX_FIELDS_BYTES;
        let kept_before = self.kept;
        let mut part = Map::new();
        if !is_map {
            self.budget = self.budget.saturating_sub(short_bytes);
        }
        for (name, value) in fields {
            if !is_map && is_short(&value) {
                part.insert(name, value);
                continue;
            }
            // The schema may require the field.
            let empty = (!is_map && value.is_string()).then(|| Value::String(String::new()));
            self.budget = self.budget.saturating_sub(name.len() + 6);
            let divided = match value {
                // The meaning of fields depends on their object, so an object is kept together.
                Value::Object(fields) if !is_map => Some(self.fields(fields).0),
                // A list is divided between its elements, however few they are.
                Value::Array(items) if !is_map => Some(Value::Array(self.list(items))),
                value => self.value(value),
            };
            part.extend(divided.or(empty).map(|value| (name, value)));
        }
        (Value::Object(part), self.kept > kept_before)
    }
}

/// The lines of a text, with their ends; lines that are longer than an item are divided between characters.
fn pieces(text: &str) -> Vec<&str> {
    let mut pieces = Vec::new();
    for mut line in text.split_inclusive('\n') {
        // In JSON, a byte may take six: `\u0001`.
        while line.len() > MAX_ITEM_BYTES / 6 && size(&Value::from(line)) > MAX_ITEM_BYTES {
            let (piece, rest) = line.split_at(line.floor_char_boundary(MAX_ITEM_BYTES / 6));
            pieces.push(piece);
            line = rest;
        }
        pieces.push(line);
    }
    pieces
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    /// All parts of an answer.
    fn parts(answer: &Value) -> Vec<Value> {
        let mut parts = Vec::new();
        let mut skip = 0;
        loop {
            let Part { value, end, remaining } = part(answer.clone(), skip);
            parts.push(value);
            if remaining == 0 {
                return parts;
            }
            assert!(end > skip, "each part has an item: {answer}");
            skip = end;
        }
    }

    /// The values of a list in all parts, one after the other.
    fn joined(parts: &[Value], pointer: &str) -> Vec<Value> {
        parts.iter().filter_map(|part| part.pointer(pointer)?.as_array()).flatten().cloned().collect()
    }

    #[test]
    fn short_answers_are_whole() {
        let answer = json!({ "valid": true, "mistakes": [] });
        assert_eq!(part(answer.clone(), 0), Part { value: answer, end: 0, remaining: 0 });
    }

    #[test]
    fn lists_texts_and_nested_lists_are_divided_and_pairs_are_not() {
        let rows: Vec<Value> = (0..900).map(|row| json!([row, "abc"])).collect();
        let steps: Vec<Value> =
            (0..90).map(|step| json!({ "name": format!("step{step}"), "values": [1, 2, 3] })).collect();
        let text = (0..300).map(|line| format!("| line {line} | ü |\n")).collect::<Vec<_>>().concat();
        let answer = json!({ "title": "t", "interval": [0.5, 1.5], "rows": rows, "recipes": [{ "name": "r", "steps": steps }], "text": text });
        let parts = parts(&answer);
        assert!(parts.len() > 3 && parts.iter().all(|part| size(part) <= MAX_BYTES));
        assert!(parts.iter().all(|part| part["title"] == "t" && part["interval"] == json!([0.5, 1.5])));
        assert_eq!(joined(&parts, "/rows"), rows);
        assert_eq!(joined(&parts, "/recipes/0/steps"), steps);
        let texts: String = parts.iter().filter_map(|part| part["text"].as_str()).collect();
        assert_eq!(texts, text);
    }

    #[test]
    fn a_line_without_end_and_control_characters_are_divided() {
        let text = "\u{1}ä".repeat(4000);
        let parts = parts(&json!({ "error": { "kind": "failed", "message": text } }));
        assert!(parts.iter().all(|part| size(part) <= MAX_BYTES));
        let texts: String = parts.iter().filter_map(|part| part["error"]["message"].as_str()).collect();
        assert_eq!(texts, text);
    }

    /// A tree of JSON values.
    fn tree() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            "[a-z\\n\u{0}]{0,40}".prop_map(Value::from),
            "[a-z\\n\u{0}]{0,3000}".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 200, 20, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..20).prop_map(Value::from),
                proptest::collection::vec(("[a-z]{1,12}", inner), 0..20)
                    .prop_map(|fields| Value::Object(fields.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn parts_of_any_answer_end(inner in tree()) {
            let answer = json!({ "answer": inner });
            let parts = parts(&answer);
            // Nested objects may have more fields than fit; nothing is lost, and a part is never far beyond the bound.
            prop_assert!(parts.iter().all(|part| size(part) <= 3 * MAX_BYTES));
        }
    }
}
