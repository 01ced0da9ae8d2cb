//! The values of `params` as arguments of a program.

use std::collections::BTreeMap;

use super::Command;
use crate::{
    Conflict, ParamType, Spelling, Value, Values,
    params::{self, choice},
};

/// The item of `argv` that stands for the values of `params`.
pub const FLAGS: &str = "${{ flags }}";

choice! {
    /// The form of arguments.
    pub enum FlagStyle {
        /// `--name value`.
        Dashes = "dashes",
        /// `--name=value`.
        Equals = "equals",
        /// `name=value`, with the quotes that Hydra needs.
        Hydra = "hydra",
        /// `--name=value`, and a list as comma-separated items: `--name=1,2`.
        Commas = "commas",
        /// `--name=value`, once for each item of a list: `--name=1 --name=2`.
        Repeat = "repeat",
    }
}

choice! {
    /// The form of `true` and `false`.
    pub enum Booleans {
        /// `--name` for `true`, nothing for `false`.
        Flag = "flag",
        /// `--name` for `true`, `--no-name` for `false`.
        NoFlag = "no-flag",
        /// `true` and `false` like other values.
        Value = "value",
        /// `True` and `False` like other values, and lists as Python writes them.
        Python = "python",
    }
}

/// The program and its arguments, if the values of `params` are among them. Other parameters need not be there.
pub fn flag_arguments(values: &Values) -> Option<Vec<String>> {
    fn part<T: ParamType>(values: &Values, name: &str) -> Option<T> {
        values.get(name).and_then(T::from_value)
    }
    let command = Command {
        argv: part(values, "argv")?,
        params: part(values, "params").unwrap_or_default(),
        flags: part(values, "flags").unwrap_or(FlagStyle::Dashes),
        booleans: part(values, "booleans").unwrap_or(Booleans::Flag),
        hyphens: part(values, "hyphens").unwrap_or_default(),
        ..Command::default()
    };
    command.has_flags().then(|| command.arguments())
}

impl Command {
    /// The program and its arguments, with the values of `params` in the place of [`FLAGS`].
    pub fn arguments(&self) -> Vec<String> {
        let mut arguments = Vec::with_capacity(self.argv.len());
        for item in &self.argv {
            if item.0 == FLAGS {
                self.spread("", &self.params, &mut arguments);
            } else {
                arguments.push(item.0.clone());
            }
        }
        arguments
    }

    fn has_flags(&self) -> bool {
        self.argv.iter().any(|item| item.0 == FLAGS)
    }

    fn spread(&self, prefix: &str, values: &BTreeMap<String, Value>, to: &mut Vec<String>) {
        for (name, value) in values {
            let name = if self.hyphens { name.replace('_', "-") } else { name.clone() };
            let name = format!("{prefix}{name}");
            match value {
                Value::Map(inner) => self.spread(&format!("{name}."), inner, to),
                _ if self.flags == FlagStyle::Hydra => to.push(format!("{name}={}", hydra(value))),
                Value::Null => {}
                Value::Bool(value) if !self.booleans.are_values() => match (value, self.booleans) {
                    (true, _) => to.push(format!("--{name}")),
                    (false, Booleans::NoFlag) => to.push(format!("--{}", negated(&name))),
                    (false, _) => {}
                },
                Value::List(items) if self.flags == FlagStyle::Dashes => {
                    to.push(format!("--{name}"));
                    to.extend(items.iter().map(|item| self.plain(item)));
                }
                Value::List(items) if self.flags == FlagStyle::Repeat => {
                    to.extend(items.iter().map(|item| format!("--{name}={}", self.plain(item))));
                }
                Value::List(items) if self.flags == FlagStyle::Commas => {
                    let items: Vec<String> = items.iter().map(|item| csv(self.plain(item))).collect();
                    to.push(format!("--{name}={}", items.join(",")));
                }
                value => {
                    let value = self.plain(value);
                    if self.flags != FlagStyle::Dashes || is_like_a_flag(&value) {
                        to.push(format!("--{name}={value}"));
                    } else {
                        to.extend([format!("--{name}"), value]);
                    }
                }
            }
        }
    }

    /// A value as an argument: text as it is, a list as JSON or as Python writes it.
    fn plain(&self, value: &Value) -> String {
        match value {
            Value::List(_) | Value::Map(_) | Value::Bool(_) if self.booleans == Booleans::Python => python(value),
            Value::List(_) | Value::Map(_) => json(value),
            value => value.spelled(Spelling::Written),
        }
    }

    pub(super) fn check_flags(&self, conflicts: &mut Vec<Conflict>) {
        let mut conflict = |params: &[&'static str], message: String, advice: &str| {
            conflicts.push(Conflict { params: params.into(), message, advice: advice.into() });
        };
        if !self.has_flags() {
            let given = [
                ("flags", self.flags != FlagStyle::Dashes),
                ("booleans", self.booleans != Booleans::Flag),
                ("hyphens", self.hyphens),
            ];
            for (name, _) in given.into_iter().filter(|(_, given)| *given) {
                let message = format!("`{name}` has no effect: no item of `argv` is `\"{FLAGS}\"`");
                conflict(&[name], message, "add that item to `argv`, or remove the key");
            }
            return;
        }
        if self.flags == FlagStyle::Hydra && matches!(self.booleans, Booleans::NoFlag | Booleans::Python) {
            let message = format!("`booleans: {}` has no effect with `flags: hydra`", self.booleans.word());
            conflict(&["booleans"], message, "remove `booleans`: Hydra reads `name=true` and `name=false`");
        }
        if self.argv.first().is_some_and(|program| program.0 == FLAGS) {
            let message = format!("`\"{FLAGS}\"` is in the place of the program's name");
            conflict(&["argv"], message, "write the program as the first item of `argv`");
        }
        if let Some(name) = bad_name(&self.params) {
            let message = format!("`{}` cannot be the name of a flag", name.escape_debug());
            conflict(&["params"], message, "use a name without spaces and `=`");
        }
        if self.flags == FlagStyle::Dashes
            && let Some((name, item)) = item_like_a_flag("", &self.params)
        {
            let shown = item.escape_debug();
            let message = format!("the item `{shown}` of the list `{name}` would be read as a separate flag");
            let advice = "write `flags: equals`, which passes a list as one argument, or read `SWEEP_PARAMS`";
            conflict(&["params"], message, advice);
        }
        let mut arguments = Vec::new();
        self.spread("", &self.params, &mut arguments);
        if let Some(error) = arguments.iter().find_map(|argument| params::passable(argument).err()) {
            conflict(&["params"], format!("`params`: {error}"), "read the values from the file `SWEEP_PARAMS` instead");
        }
    }
}

/// `no-name`; of a path its last name is negated, as parsers of nested options do.
fn negated(name: &str) -> String {
    match name.rsplit_once('.') {
        Some((path, last)) => format!("{path}.no-{last}"),
        None => format!("no-{name}"),
    }
}

impl Booleans {
    /// True if `true` and `false` are values of flags.
    fn are_values(self) -> bool {
        matches!(self, Self::Value | Self::Python)
    }
}

/// True for an argument that parsers take for a flag. Negative numbers are not flags, but argparse before Python 3.14
/// recognizes them only without an exponent.
fn is_like_a_flag(argument: &str) -> bool {
    let Some(rest) = argument.strip_prefix('-') else { return false };
    let (whole, part) = rest.split_once('.').unwrap_or((rest, rest));
    let are_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    part.is_empty() || !are_digits(whole) || !are_digits(part)
}

/// A value as Python writes it.
fn python(value: &Value) -> String {
    match value {
        Value::Null => "None".to_owned(),
        Value::Bool(true) => "True".to_owned(),
        Value::Bool(false) => "False".to_owned(),
        Value::List(items) => format!("[{}]", items.iter().map(python).collect::<Vec<_>>().join(", ")),
        Value::Map(entries) => {
            let entries = entries.iter().map(|(key, value)| format!("{}: {}", json(key), python(value)));
            format!("{{{}}}", entries.collect::<Vec<_>>().join(", "))
        }
        // A JSON string is also a string of Python.
        Value::Text(text) => json(text),
        Value::Int(_) | Value::Float(_) => value.spelled(Spelling::Written),
    }
}

fn json(value: &(impl serde::Serialize + ?Sized)) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

/// An item of a list with commas, in the quotes of CSV if it needs them: absl reads such lists as CSV.
fn csv(item: String) -> String {
    let needs_quotes = item.contains([',', '"', '\n', '\r']);
    if needs_quotes { format!("\"{}\"", item.replace('"', "\"\"")) } else { item }
}

/// A value as Hydra's grammar of overrides reads it back.
fn hydra(value: &Value) -> String {
    match value {
        Value::Text(text) => {
            let lower = text.to_lowercase();
            let keyword = ["true", "false", "null", "nan", "inf"].contains(&lower.trim_start_matches(['+', '-']));
            if is_word(text) && !keyword && text.parse::<f64>().is_err() {
                return text.clone();
            }
            quoted(text)
        }
        Value::List(items) => {
            format!("[{}]", items.iter().map(hydra).collect::<Vec<_>>().join(","))
        }
        Value::Map(entries) => {
            let key = |key: &str| if is_word(key) { key.to_owned() } else { quoted(key) };
            let entries = entries.iter().map(|(name, value)| format!("{}:{}", key(name), hydra(value)));
            format!("{{{}}}", entries.collect::<Vec<_>>().join(","))
        }
        value => value.spelled(Spelling::Written),
    }
}

/// True for a text that Hydra reads without quotes.
fn is_word(text: &str) -> bool {
    let plain = |char: char| char.is_ascii_alphanumeric() || "_-/.:%@+?|".contains(char);
    !text.is_empty() && text.chars().all(plain)
}

/// A text in single quotes. Only a backslash before a quote is special in Hydra.
fn quoted(text: &str) -> String {
    let mut out = String::from("'");
    let mut slashes = 0;
    for char in text.chars() {
        match char {
            '\\' => slashes += 1,
            '\'' => {
                out.extend(std::iter::repeat_n('\\', slashes + 1));
                slashes = 0;
            }
            _ => slashes = 0,
        }
        out.push(char);
    }
    out.extend(std::iter::repeat_n('\\', slashes));
    out.push('\'');
    out
}

/// A list, by its path, with a text that parsers take for a flag.
fn item_like_a_flag<'a>(prefix: &str, values: &'a BTreeMap<String, Value>) -> Option<(String, &'a str)> {
    values.iter().find_map(|(name, value)| match value {
        Value::Map(inner) => item_like_a_flag(&format!("{prefix}{name}."), inner),
        Value::List(items) => {
            // A dash alone is standard input.
            let item = items.iter().filter_map(Value::as_text).find(|item| *item != "-" && is_like_a_flag(item))?;
            Some((format!("{prefix}{name}"), item))
        }
        _ => None,
    })
}

/// A name, also of an inner map, that cannot be part of a flag.
fn bad_name(values: &BTreeMap<String, Value>) -> Option<&str> {
    values.iter().find_map(|(name, value)| {
        let bad =
            name.is_empty() || name.contains(|char: char| char.is_whitespace() || char.is_control() || char == '=');
        match value {
            _ if bad => Some(name.as_str()),
            Value::Map(inner) => bad_name(inner),
            _ => None,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Scalar;

    fn spread(json: &str, set: impl FnOnce(&mut Command)) -> Vec<String> {
        let mut command = Command {
            argv: ["train", FLAGS, "end"].map(|item| Scalar(item.into())).into(),
            params: serde_json::from_str(json).unwrap(),
            ..Command::default()
        };
        set(&mut command);
        let arguments = command.arguments();
        assert_eq!((arguments[0].as_str(), arguments.last().map(String::as_str)), ("train", Some("end")));
        arguments[1..arguments.len() - 1].to_vec()
    }

    const VALUES: &str =
        r#"{"lr":0.1,"big_net":true,"bias":false,"opt":{"lr":2,"name":"a b"},"layers":[1,2],"none":null}"#;

    #[test]
    fn dashes() {
        let found = spread(VALUES, |_| {});
        assert_eq!(found, ["--big_net", "--layers", "1", "2", "--lr", "0.1", "--opt.lr", "2", "--opt.name", "a b"]);
        let found = spread(VALUES, |command| {
            command.hyphens = true;
            command.booleans = Booleans::NoFlag;
        });
        assert_eq!(found[..2], ["--no-bias", "--big-net"]);
    }

    #[test]
    fn values_like_flags_are_joined_to_their_name() {
        let json = r#"{"a":"-x","b":-3,"c":"-1e3","d":"-.5","e":"-","f":"-1."}"#;
        assert_eq!(
            spread(json, |_| {}),
            ["--a=-x", "--b", "-3", "--c=-1e3", "--d", "-.5", "--e=-", "--f=-1."],
            "argparse knows only some negative numbers"
        );
    }

    #[test]
    fn numbers_arrive_as_they_are_written() {
        let json = r#"{"a":0.0,"b":2,"c":-0.00001,"d":[1,-2e-6,3.0],"e":1e-3,"f":[]}"#;
        let dashes =
            ["--a", "0.0", "--b", "2", "--c", "-0.00001", "--d", "1", "-0.000002", "3.0", "--e", "0.001", "--f"];
        assert_eq!(spread(json, |_| {}), dashes);
        let equals = spread(json, |command| command.flags = FlagStyle::Equals);
        assert_eq!(equals, ["--a=0.0", "--b=2", "--c=-0.00001", "--d=[1,-2e-6,3.0]", "--e=0.001", "--f=[]"]);
        let hydra = spread(json, |command| command.flags = FlagStyle::Hydra);
        assert_eq!(hydra, ["a=0.0", "b=2", "c=-0.00001", "d=[1,-0.000002,3.0]", "e=0.001", "f=[]"]);
    }

    #[test]
    fn booleans_of_python_are_values_with_capitals() {
        let json = r#"{"a":true,"b":false,"c":[true,null,"it's",1.0],"d":null,"e":"true"}"#;
        let found = spread(json, |command| {
            command.flags = FlagStyle::Equals;
            command.booleans = Booleans::Python;
        });
        assert_eq!(found, ["--a=True", "--b=False", r#"--c=[True, None, "it's", 1.0]"#, "--e=true"]);
        let found = spread(json, |command| command.booleans = Booleans::Python);
        assert_eq!(found[..4], ["--a", "True", "--b", "False"]);
    }

    #[test]
    fn an_item_of_a_list_that_would_be_a_flag_is_a_mistake() {
        let conflicts = |json: &str, flags: FlagStyle| {
            let argv = ["train", FLAGS].map(|item| Scalar(item.into())).into();
            let command = Command { argv, flags, params: serde_json::from_str(json).unwrap(), ..Command::default() };
            let mut conflicts = Vec::new();
            command.check_flags(&mut conflicts);
            conflicts.into_iter().map(|conflict| conflict.message).collect::<Vec<_>>()
        };
        let message = "the item `-a` of the list `o.x` would be read as a separate flag";
        assert_eq!(conflicts(r#"{"o":{"x":["b","-a"]}}"#, FlagStyle::Dashes), [message]);
        assert_eq!(conflicts(r#"{"o":{"x":["b","-a"]}}"#, FlagStyle::Equals), [""; 0]);
        assert_eq!(conflicts(r#"{"x":["-1",-2e-6,"a-b","-"]}"#, FlagStyle::Dashes), [""; 0]);
    }

    #[test]
    fn equals() {
        let found = spread(VALUES, |command| {
            command.flags = FlagStyle::Equals;
            command.booleans = Booleans::Value;
        });
        let expected = ["--bias=false", "--big_net=true", "--layers=[1,2]", "--lr=0.1", "--opt.lr=2", "--opt.name=a b"];
        assert_eq!(found, expected);
    }

    #[test]
    fn lists_with_commas_or_repeated() {
        let json = r#"{"lr":0.1,"ks":[1,2],"names":["a","b,c"],"none":null,"empty":[]}"#;
        let found = spread(json, |command| command.flags = FlagStyle::Commas);
        assert_eq!(found, ["--empty=", "--ks=1,2", "--lr=0.1", r#"--names=a,"b,c""#]);
        let found = spread(json, |command| command.flags = FlagStyle::Repeat);
        assert_eq!(found, ["--ks=1", "--ks=2", "--lr=0.1", "--names=a", "--names=b,c"]);
    }

    #[test]
    fn hydra() {
        let found = spread(
            r#"{"a":"x/y","b":"true","c":"it's","d":["p","q r"],"e":null,"f":"","g":false,"h":"1e3","i":"c:\\x\\","o":{"lr":1}}"#,
            |command| command.flags = FlagStyle::Hydra,
        );
        let expected = [
            "a=x/y",
            "b='true'",
            r"c='it\'s'",
            "d=[p,'q r']",
            "e=null",
            "f=''",
            "g=false",
            "h='1e3'",
            r"i='c:\x\\'",
            "o.lr=1",
        ];
        assert_eq!(found, expected);
    }
}
