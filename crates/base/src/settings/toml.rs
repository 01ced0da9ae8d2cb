//! A text of TOML in which single values are replaced, and every other byte stays.

use std::collections::BTreeMap;

use sweep_job::Value;
use toml_edit::{Array, Datetime, DocumentMut, InlineTable, Item, TableLike, Value as Toml};

use super::{SettingsError, rest};

/// The text with other values at these paths.
///
/// # Errors
/// A key has no value in the text, or a value is null, which TOML does not have.
pub(super) fn with(text: &str, replaced: &BTreeMap<String, Value>) -> Result<String, SettingsError> {
    let mut document: DocumentMut =
        text.parse().map_err(|error: toml_edit::TomlError| SettingsError::Invalid(error.to_string()))?;
    for (path, value) in replaced {
        let place = in_table(document.as_table_mut(), path).ok_or_else(|| SettingsError::fixed(path))?;
        let decor = place.decor().clone();
        let date = match value {
            Value::Text(text) if place.is_datetime() => text.parse::<Datetime>().ok().map(Toml::from),
            _ => None,
        };
        *place = date.or_else(|| toml(value)).ok_or_else(|| SettingsError::Null(path.clone()))?;
        *place.decor_mut() = decor;
    }
    Ok(document.to_string())
}

fn in_table<'t>(table: &'t mut dyn TableLike, path: &str) -> Option<&'t mut Toml> {
    table.iter_mut().find_map(|(key, item)| match rest(path, key.get())? {
        "" => item.as_value_mut(),
        rest => in_item(item, rest),
    })
}

fn in_item<'i>(item: &'i mut Item, path: &str) -> Option<&'i mut Toml> {
    match item {
        Item::Table(table) => in_table(table, path),
        Item::ArrayOfTables(tables) => {
            tables.iter_mut().enumerate().find_map(|(at, table)| in_table(table, rest(path, &at.to_string())?))
        }
        Item::Value(value) => in_value(value, path),
        Item::None => None,
    }
}

fn in_value<'v>(value: &'v mut Toml, path: &str) -> Option<&'v mut Toml> {
    match value {
        Toml::InlineTable(table) => in_table(table, path),
        Toml::Array(items) => items.iter_mut().enumerate().find_map(|(at, item)| match rest(path, &at.to_string())? {
            "" => Some(item),
            rest => in_value(item, rest),
        }),
        _ => None,
    }
}

/// A value as TOML; `None` for null, and for a value with null in it.
fn toml(value: &Value) -> Option<Toml> {
    Some(match value {
        Value::Null => return None,
        Value::Bool(value) => Toml::from(*value),
        Value::Int(value) => Toml::from(*value),
        Value::Float(value) => Toml::from(*value),
        Value::Text(text) => Toml::from(text.as_str()),
        Value::List(items) => Toml::from(items.iter().map(toml).collect::<Option<Array>>()?),
        Value::Map(entries) => {
            let entries = entries.iter().map(|(key, value)| Some((key.as_str(), toml(value)?)));
            Toml::from(entries.collect::<Option<InlineTable>>()?)
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_value_is_replaced_and_every_other_byte_stays() {
        let text = "# rates\nlr = 0.1  # of Adam\n[model]\ndims = [8, 9]\nname = 'a'\n[[layers]]\nunits = 1\n[[layers]]\nunits = 2\n";
        for (path, value, line, expected) in [
            ("lr", Value::Float(1e-7), "lr = 0.1  # of Adam", "lr = 0.0000001  # of Adam"),
            ("lr", Value::Text("auto".into()), "lr = 0.1  #", "lr = \"auto\"  #"),
            ("model.dims.1", Value::Int(3), "[8, 9]", "[8, 3]"),
            ("model.dims", Value::List(vec![Value::Int(3)]), "[8, 9]", "[3]"),
            ("layers.1.units", Value::Bool(true), "units = 2", "units = true"),
        ] {
            let copy = with(text, &BTreeMap::from([(path.to_owned(), value)])).unwrap();
            assert_eq!(copy, text.replace(line, expected));
        }
        for value in ["a\\b", "a\"b'c", "a\nb", "\u{7f}"] {
            let copy = with(text, &BTreeMap::from([("model.name".to_owned(), Value::Text(value.to_owned()))])).unwrap();
            let mut copy: DocumentMut = copy.parse().unwrap();
            assert_eq!(in_table(copy.as_table_mut(), "model.name").and_then(|place| place.as_str()), Some(value));
        }
        for (path, value) in [("lr", Value::Null), ("model.depth", Value::Int(1)), ("model", Value::Int(1))] {
            with(text, &BTreeMap::from([(path.to_owned(), value)])).unwrap_err();
        }
    }
}
