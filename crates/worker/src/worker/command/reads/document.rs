//! Files that are JSON documents: one or more objects over several lines, and lists of objects.

use serde_json::{Map, Value};
use sweep_job::tasks::STEP_NAMES;

use super::super::report::{Series, number, parse_all, values, whole};

/// The values of a document.
#[derive(Debug, Default, PartialEq)]
pub(in super::super) struct Document {
    /// Objects of a list, each with the values of a step.
    pub(super) records: Vec<Map<String, Value>>,
    /// Lists of numbers by their paths: the values of all steps.
    lists: Vec<(String, Vec<f64>)>,
    /// The other values, which are final values.
    rest: Map<String, Value>,
}

impl Document {
    /// Parses a text; `None` if it is not a document, or has no number.
    pub(in super::super) fn of(text: &[u8]) -> Option<Self> {
        let mut all = parse_all(text).ok()?;
        let document = match all.pop()? {
            Value::Object(entries) if all.is_empty() => Self::of_object(entries),
            Value::Array(items) if all.is_empty() => Self { records: objects(items)?, ..Self::default() },
            last => {
                all.push(last);
                Self { records: objects(all)?, ..Self::default() }
            }
        };
        let has_number = |entries: &Map<String, Value>| entries.values().any(has_number);
        let is_empty =
            document.lists.is_empty() && !document.records.iter().any(has_number) && !has_number(&document.rest);
        (!is_empty).then_some(document)
    }

    /// Reads an object with one list of objects (`log_history` in the state of a trainer), with lists of numbers (the history of Keras), or
    /// without lists.
    fn of_object(mut rest: Map<String, Value>) -> Self {
        if let Some(records) = of_steps(&rest) {
            return Self { records, ..Self::default() };
        }
        let is_list = |value: &Value| matches!(value, Value::Array(items) if items.len() > 1 && items.iter().all(Value::is_object));
        let names: Vec<String> =
            rest.iter().filter(|(_, value)| is_list(value)).map(|(name, _)| name.clone()).collect();
        let records = match names.as_slice() {
            [one] => match rest.remove(one) {
                Some(Value::Array(items)) => objects(items).unwrap_or_default(),
                _ => Vec::new(),
            },
            _ => Vec::new(),
        };
        let mut lists = Vec::new();
        if records.is_empty() {
            take_lists("", &mut rest, &mut lists);
        } else {
            // The last records already have the final step.
            rest.retain(|name, _| !STEP_NAMES.contains(&name.as_str()));
        }
        Self { records, lists, rest }
    }

    /// Adds the lists and the other values. A list with the name of a step has the steps of the lists of its length.
    pub(super) fn add_to(self, sink: &mut Series) {
        let is_step = |(name, _): &&(String, Vec<f64>)| STEP_NAMES.contains(&name.as_str());
        let steps: Vec<(usize, Vec<Option<u64>>)> = self
            .lists
            .iter()
            .filter(is_step)
            .map(|(_, list)| (list.len(), list.iter().map(|step| whole(&Value::from(*step))).collect()))
            .collect();
        for (name, list) in self.lists.iter().filter(|list| !is_step(list)) {
            if let Some(word) = PARTS
                .iter()
                .find(|word| name.to_ascii_lowercase().split(['_', '.', '/', '-']).any(|part| part == **word))
            {
                sink.once(name, || {
                    format!("`{name}` is a list with a value for each {word}, and no curve: no value of it")
                });
                continue;
            }
            let of_length =
                steps.iter().find(|(length, steps)| *length == list.len() && steps.iter().all(Option::is_some));
            for (step, value) in (1_u64..).zip(list) {
                let place = usize::try_from(step - 1).unwrap_or(usize::MAX);
                let step = of_length.and_then(|(_, steps)| *steps.get(place)?).unwrap_or(step);
                sink.at(step);
                sink.point(step, name, *value, None);
            }
        }
        values("", &self.rest, &[], None, sink);
    }
}

/// Words in the names of lists whose items are not steps.
const PARTS: [&str; 10] =
    ["class", "classes", "client", "dataset", "fold", "folds", "label", "per", "seed", "threshold"];

/// True for an object whose keys are steps.
pub(super) fn has_steps(entries: &Map<String, Value>) -> bool {
    of_steps(entries).is_some()
}

/// The entries of an object whose keys are steps, each with its step: `{"epoch_1": {"loss": 0.5}, "epoch_2": {"loss": 0.4}}`.
fn of_steps(entries: &Map<String, Value>) -> Option<Vec<Map<String, Value>>> {
    let step = |key: &String| {
        let digits = key.trim_start_matches(|char: char| !char.is_ascii_digit());
        let word = key[..key.len() - digits.len()].trim_end_matches(['_', '-', ' ', ':']).to_ascii_lowercase();
        let is_step = word.is_empty() || STEP_NAMES.contains(&word.as_str());
        digits.parse::<u64>().ok().filter(|_| is_step)
    };
    let record = |(key, value): (&String, &Value)| {
        let mut record = value.as_object()?.clone();
        let step = step(key)?;
        if !STEP_NAMES.iter().any(|name| record.contains_key(*name)) {
            record.insert(STEP_NAMES[0].to_owned(), Value::from(step));
        }
        Some((step, record))
    };
    let mut records: Vec<(u64, Map<String, Value>)> = entries.iter().map(record).collect::<Option<_>>()?;
    records.sort_by_key(|(step, _)| *step);
    (records.len() > 1).then(|| records.into_iter().map(|(_, record)| record).collect())
}

/// The objects of a list; `None` if it has other items.
fn objects(items: Vec<Value>) -> Option<Vec<Map<String, Value>>> {
    let object = |item| match item {
        Value::Object(entries) => Some(entries),
        _ => None,
    };
    items.into_iter().map(object).collect()
}

/// Moves the lists of two numbers or more out of an object.
fn take_lists(prefix: &str, entries: &mut Map<String, Value>, lists: &mut Vec<(String, Vec<f64>)>) {
    entries.retain(|name, value| {
        let name = format!("{prefix}{name}");
        match value {
            Value::Object(inner) => {
                take_lists(&format!("{name}."), inner, lists);
                true
            }
            Value::Array(items) if items.len() > 1 => match items.iter().map(number).collect() {
                Some(list) => {
                    lists.push((name, list));
                    false
                }
                None => true,
            },
            _ => true,
        }
    });
}

/// True for a number, or an object that has one.
fn has_number(value: &Value) -> bool {
    match value {
        Value::Object(inner) => inner.values().any(has_number),
        value => number(value).is_some(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_has_records_lists_and_values_of_the_end() {
        let shape = |text: &str| {
            let document = Document::of(text.as_bytes())?;
            let mut lists: Vec<String> =
                document.lists.iter().map(|(name, list)| format!("{name} {}", list.len())).collect();
            let mut rest: Vec<String> = document.rest.keys().cloned().collect();
            lists.sort();
            rest.sort();
            Some((document.records.len(), lists.join(","), rest.join(",")))
        };
        let of = |records: usize, lists: &str, rest: &str| Some((records, lists.to_owned(), rest.to_owned()));
        assert_eq!(shape("[\n{\"epoch\": 1, \"loss\": NaN},\n{\"epoch\": 2, \"loss\": 0.5}\n]"), of(2, "", ""));
        assert_eq!(shape("{\n \"loss\": 1\n}\n{\n \"loss\": 2\n}"), of(2, "", ""));
        assert_eq!(shape("{\n \"loss\": 1,\n \"val\": {\"acc\": 2}\n}"), of(0, "", "loss,val"));
        let history =
            "{\"loss\": [0.5, 0.4], \"val\": {\"acc\": [1, 2, 3]}, \"name\": \"x\", \"one\": [1], \"best\": 1}";
        assert_eq!(shape(history), of(0, "loss 2,val.acc 3", "best,name,one,val"));
        let trainer = "{\n\"best_metric\": 0.4, \"epoch\": 2.0, \"global_step\": 2, \"log_history\": [{\"step\": 1, \"loss\": 0.5}, {\"step\": 2, \"loss\": 0.4}]}";
        assert_eq!(shape(trainer), of(2, "", "best_metric"));
        assert_eq!(shape("{\"1\": {\"loss\": 1}, \"10\": {\"loss\": 3}, \"2\": {\"loss\": 2}}"), of(3, "", ""));
        assert_eq!(shape("{\"epoch_1\": {\"loss\": 1}, \"epoch_2\": {\"loss\": 2}}"), of(2, "", ""));
        assert_eq!(shape("{\"fold1\": {\"loss\": 1}, \"fold2\": {\"loss\": 2}}"), of(0, "", "fold1,fold2"));
        for text in ["", "{", "[1, 2]", "[{\"a\": 1}, 2]", "{\"a\": \"x\"}", "[]", "3"] {
            assert_eq!(shape(text), None, "{text}");
        }
    }
}
