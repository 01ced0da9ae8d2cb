//! The values of an axis, as they are typed on the command line, as YAML.

use super::scalar;

/// Words that YAML reads as a boolean or as no value.
const BOOLEANS_AND_NULLS: [&str; 12] =
    ["true", "True", "TRUE", "false", "False", "FALSE", "null", "Null", "NULL", "None", "none", "~"];

/// A list of values for YAML. Values are separated by commas outside of quotes and brackets; a text that YAML would read as
/// something else is quoted. A list or a map is as it is typed.
pub(super) fn values(text: &str) -> String {
    let items = items(text);
    match items.as_slice() {
        [item] if item.starts_with(['[', '{']) => (*item).to_owned(),
        items => format!("[{}]", items.iter().map(|item| value(item)).collect::<Vec<_>>().join(", ")),
    }
}

/// The same values for a parameter that takes a text: `true`, `false` and `null` reach it as they are typed, and so do several
/// lists or maps unless it `takes_lists`. With `is_text_type`, which is known of its type, `1.10` and `007` do, too.
pub(super) fn texts(text: &str, takes_lists: bool, is_text_type: bool) -> String {
    let items = items(text);
    let is_text = |item: &str| items.len() > 1 && !takes_lists && item.starts_with(['[', '{']);
    let quoted = |item: &&str| match *item {
        item if BOOLEANS_AND_NULLS.contains(&item) || is_text_type && is_respelled(item) => format!("\"{item}\""),
        item if is_text(item) => scalar::text(item),
        item => item.to_owned(),
    };
    items.iter().map(quoted).collect::<Vec<_>>().join(",")
}

/// True for a number that a command line would have in another spelling: `1.10`, `1e3`, `007`.
fn is_respelled(item: &str) -> bool {
    let is_integer = item.parse::<i64>().is_ok_and(|value| value.to_string() == item);
    item.parse::<f64>().is_ok_and(|value| !is_integer && value.to_string() != item)
}

/// The same values for a setting that is a text: all of them reach it as they are typed, except for `null`.
pub(super) fn all_texts(text: &str) -> String {
    let items = items(text);
    let is_generated = |item: &str| items.len() == 1 && item.starts_with('{');
    let quoted = |item: &&str| match *item {
        "null" => "null".to_owned(),
        item if item.starts_with(['"', '\'']) || item.contains("${{") || is_generated(item) => item.to_owned(),
        item => scalar::quoted(item),
    };
    items.iter().map(quoted).collect::<Vec<_>>().join(",")
}

/// The same values for a setting that is a list: a single list is one value.
pub(super) fn lists(text: &str) -> String {
    match items(text).as_slice() {
        [item] if item.starts_with('[') => format!("[{item}]"),
        _ => text.to_owned(),
    }
}

/// The parts of a text between commas, without the spaces around them.
fn items(text: &str) -> Vec<&str> {
    let (mut items, mut begin) = (Vec::new(), 0);
    let (mut open, mut quote, mut is_escaped) = (Vec::new(), None, false);
    for (index, char) in text.char_indices() {
        if quote == Some('"') && (is_escaped || char == '\\') {
            is_escaped = !is_escaped;
            continue;
        }
        let is_first = text[begin..index].trim().is_empty();
        match (quote, char) {
            (Some(end), char) if char == end => quote = None,
            (None, '"' | '\'') if is_first || !open.is_empty() => quote = Some(char),
            (None, '[' | '{') if is_first || !open.is_empty() => open.push(char),
            (None, ']' | '}') => {
                open.pop();
            }
            (None, ',') if open.is_empty() => {
                items.push(text[begin..index].trim());
                begin = index + 1;
            }
            _ => {}
        }
    }
    items.push(text[begin..].trim());
    items
}

/// A value, quoted if YAML would read something else.
fn value(item: &str) -> String {
    let is_plain = |char: char| char.is_ascii_alphanumeric() || "_-+./ ".contains(char);
    let ends = |open: char, close: char| item.len() > 1 && item.starts_with(open) && item.ends_with(close);
    let is_yaml = ends('[', ']') || ends('{', '}') || ends('"', '"') || ends('\'', '\'') || item.contains("${{");
    let is_sign_alone = item.starts_with("- ") || item == "-";
    if is_yaml || item == "~" || item.chars().all(is_plain) && !is_sign_alone && !item.is_empty() {
        return item.to_owned();
    }
    scalar::text(item)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn typed_values_are_what_they_look_like() {
        for (typed, yaml) in [
            ("1e-3, 0.01", "[1e-3, 0.01]"),
            ("a,b c,true", "[a, b c, true]"),
            ("[1, 2]", "[1, 2]"),
            ("{ logspace: [1, 2, 3] }", "{ logspace: [1, 2, 3] }"),
            ("[1,2],[3,4]", "[[1,2], [3,4]]"),
            ("{a: 1},{a: 2}", "[{a: 1}, {a: 2}]"),
            ("a: b,c", "[\"a: b\", c]"),
            ("a #b,#c", "[\"a #b\", \"#c\"]"),
            ("*.txt,@x,%s,&y,!z", "[\"*.txt\", \"@x\", \"%s\", \"&y\", \"!z\"]"),
            ("1], w: [2", "[\"1]\", \"w: [2\"]"),
            ("a\nb,c", "[\"a\\nb\", c]"),
            ("'a,b',\"c, d\"", "['a,b', \"c, d\"]"),
            ("it's,x", "[\"it's\", x]"),
            (",x", "[\"\", x]"),
            ("1:30,x=1", "[\"1:30\", \"x=1\"]"),
            ("${{ params.x }},b", "[${{ params.x }}, b]"),
            ("-1,-", "[-1, \"-\"]"),
            (r#""a\",b",c"#, r#"["a\",b", c]"#),
            (r#""a\\",b"#, r#"["a\\", b]"#),
        ] {
            assert_eq!(values(typed), yaml, "{typed}");
        }
    }

    #[test]
    fn a_setting_that_is_a_text_stays_one() {
        assert_eq!(values(&all_texts("1e-3,true,a,null")), r#"["1e-3", "true", "a", null]"#);
        assert_eq!(values(&all_texts("a\\b\"c,d")), r#"["a\\b\"c", "d"]"#);
        assert_eq!(values(&all_texts("'a,b',[1]")), r#"['a,b', "[1]"]"#);
        assert_eq!(values(&all_texts("{ file: names.txt }")), "{ file: names.txt }");
        assert_eq!(values(&lists("[3]")), "[[3]]");
        assert_eq!(values(&lists("[3],[4]")), "[[3], [4]]");
    }

    #[test]
    fn a_parameter_that_takes_a_text_gets_booleans_as_they_are_typed() {
        assert_eq!(values(&texts("true,False,null,1,a", false, false)), "[\"true\", \"False\", \"null\", 1, a]");
        assert_eq!(values(&texts("yes,no", false, false)), "[yes, no]");
        assert_eq!(values(&texts("1.10,1e3,007,2,0.5", false, true)), r#"["1.10", "1e3", "007", 2, 0.5]"#);
        assert_eq!(values(&texts("[1,2],{\"a\": 1}", false, false)), r#"["[1,2]", "{\"a\": 1}"]"#);
        assert_eq!(values(&texts("[1,2],[3]", true, false)), "[[1,2], [3]]");
    }
}
