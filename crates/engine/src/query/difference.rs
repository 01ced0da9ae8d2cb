//! Differences between two values of a parameter, down to the argument, the key or the line that changed.

use sweep_job::Value;

/// A difference between two values of a parameter.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Difference {
    /// The flag, the key or the line: `--steps`, `env.LR`, `run, line 3`; or the parameter.
    pub(super) what: String,
    /// The earlier value.
    pub(super) old: String,
    /// The current value.
    pub(super) new: String,
}

/// Text for a missing value.
const NONE: &str = "(absent)";

/// The differences of two values of the parameter `name`, of which there is at least one.
pub(super) fn differences(name: &str, old: &Value, new: &Value) -> Vec<Difference> {
    let differences = match (old, new) {
        (Value::List(old), Value::List(new)) => of_arguments(name, old, new),
        (Value::Map(old), Value::Map(new)) => {
            let keys = old.keys().chain(new.keys().filter(|key| !old.contains_key(*key)));
            let changed_keys = keys.filter(|key| old.get(*key) != new.get(*key));
            changed_keys.map(|key| difference(format!("{name}.{key}"), old.get(key), new.get(key))).collect()
        }
        (Value::Text(old), Value::Text(new)) if old.contains('\n') || new.contains('\n') => of_lines(name, old, new),
        _ => Vec::new(),
    };
    if differences.is_empty() { vec![difference(name.to_owned(), Some(old), Some(new))] } else { differences }
}

fn difference(what: String, old: Option<&Value>, new: Option<&Value>) -> Difference {
    let text = |value: Option<&Value>| value.map_or_else(|| NONE.to_owned(), ToString::to_string);
    Difference { what, old: text(old), new: text(new) }
}

/// An argument, under the flag to which it belongs, or under its position.
struct Argument {
    name: String,
    value: String,
}

/// The arguments of a list: `--steps 400` and `--steps=400` are both the value `400` of `--steps`.
fn arguments(name: &str, items: &[Value]) -> Vec<Argument> {
    let mut arguments: Vec<Argument> = Vec::new();
    let mut flag: Option<String> = None;
    let mut position = 0;
    for item in items {
        let text = item.to_string();
        if is_flag(&text) {
            if let Some(flag) = flag.take() {
                arguments.push(Argument { name: flag, value: "given".to_owned() });
            }
            match text.split_once('=') {
                Some((name, value)) => arguments.push(Argument { name: name.to_owned(), value: value.to_owned() }),
                None => flag = Some(text),
            }
        } else if let Some(flag) = flag.take() {
            arguments.push(Argument { name: flag, value: text });
        } else {
            position += 1;
            arguments.push(Argument { name: format!("{name}, word {position}"), value: text });
        }
    }
    arguments.extend(flag.map(|name| Argument { name, value: "given".to_owned() }));
    arguments
}

/// True for `-x` and `--name`, but not for a negative number.
fn is_flag(text: &str) -> bool {
    text.strip_prefix('-').is_some_and(|rest| rest.starts_with(|char: char| char == '-' || char.is_ascii_alphabetic()))
}

fn of_arguments(name: &str, old: &[Value], new: &[Value]) -> Vec<Difference> {
    let (old_arguments, mut new_arguments) = (arguments(name, old), arguments(name, new));
    let mut differences = Vec::new();
    for Argument { name, value } in old_arguments {
        match new_arguments.iter().position(|argument| argument.name == name) {
            Some(index) => {
                let new = new_arguments.remove(index).value;
                if new != value {
                    differences.push(Difference { what: name, old: value, new });
                }
            }
            None => differences.push(Difference { what: name, old: value, new: NONE.to_owned() }),
        }
    }
    differences.extend(new_arguments.into_iter().map(|Argument { name, value }| Difference {
        what: name,
        old: NONE.to_owned(),
        new: value,
    }));
    differences
}

/// The first line that differs, and how many others do.
fn of_lines(name: &str, old: &str, new: &str) -> Vec<Difference> {
    let (old_lines, new_lines): (Vec<&str>, Vec<&str>) = (old.lines().collect(), new.lines().collect());
    let index = old_lines.iter().zip(&new_lines).take_while(|(old_line, new_line)| old_line == new_line).count();
    let line = |lines: &[&str]| lines.get(index).map_or_else(|| NONE.to_owned(), |line| line.trim().to_owned());
    let what = format!("{name}, line {}", index + 1);
    let (old, new) = (line(&old_lines), line(&new_lines));
    if old == new { Vec::new() } else { vec![Difference { what, old, new }] }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(words: &str) -> Value {
        Value::List(words.split(' ').map(|word| Value::Text(word.to_owned())).collect())
    }

    fn shown(name: &str, old: &Value, new: &Value) -> Vec<String> {
        let each = differences(name, old, new);
        each.into_iter().map(|Difference { what, old, new }| format!("{what} {old} → {new}")).collect()
    }

    #[test]
    fn the_flag_that_changed_is_named() {
        let old = list("python train.py --steps 200 --lr=0.1 --bias -1");
        assert_eq!(shown("argv", &old, &list("python train.py --steps 400 --lr=0.1 --bias -1")), ["--steps 200 → 400"]);
        assert_eq!(
            shown("argv", &old, &list("python other.py --lr=0.2 --bias -1 --fast")),
            ["argv, word 2 train.py → other.py", "--steps 200 → (absent)", "--lr 0.1 → 0.2", "--fast (absent) → given"]
        );
        // Only the order is different.
        assert_eq!(shown("argv", &list("a --x 1 --y 2"), &list("a --y 2 --x 1")).len(), 1);
    }

    #[test]
    fn the_line_that_changed_is_named() {
        let (old, new) = (Value::Text("a\nb 1\nc".to_owned()), Value::Text("a\nb 2\nc".to_owned()));
        assert_eq!(shown("run", &old, &new), ["run, line 2 b 1 → b 2"]);
    }
}
