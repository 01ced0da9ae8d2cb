//! Templates of commands with the fields of a job.

use std::collections::BTreeMap;

use crate::recipe::executor::batch::Argument;

/// Values of fields, by name. A field without a value is not in it.
pub(super) type Fields = BTreeMap<String, String>;

/// Fills a template; `None` if one of its fields has no value. A part in `[[` and `]]` is left out instead.
pub(super) fn fill(template: &str, fields: &Fields) -> Option<String> {
    let mut text = String::with_capacity(template.len());
    let mut tail = template;
    while let Some((before, (part, after))) =
        tail.split_once("[[").and_then(|(before, after)| Some((before, after.split_once("]]")?)))
    {
        text += &plain(before, fields)?;
        text += &plain(part, fields).unwrap_or_default();
        tail = after;
    }
    text += &plain(tail, fields)?;
    Some(text)
}

/// Fills a text without optional parts. `${` without an end is text.
fn plain(template: &str, fields: &Fields) -> Option<String> {
    let mut text = String::with_capacity(template.len());
    let mut tail = template;
    while let Some((before, after)) = tail.split_once("${") {
        text.push_str(before);
        let Some((name, after)) = after.split_once('}') else {
            text.push_str("${");
            tail = after;
            continue;
        };
        text.push_str(match name.split_once('?') {
            Some((name, text)) => fields.get(name).map(|_| text)?,
            None => fields.get(name)?,
        });
        tail = after;
    }
    text.push_str(tail);
    Some(text)
}

/// The words of a command. A field that stands alone and is one of `lists` is replaced by all of its values.
///
/// # Errors
/// The first argument whose field has no value.
pub(super) fn words(command: &[Argument], fields: &Fields, lists: &[(&str, &[String])]) -> Result<Vec<String>, String> {
    let mut words = Vec::new();
    for argument in command {
        match argument {
            Argument::One(text) => {
                let list = lists.iter().find(|(name, _)| text.strip_prefix("${") == Some(&format!("{name}}}")));
                match list {
                    Some((_, values)) => words.extend(values.iter().cloned()),
                    None => words.push(fill(text, fields).ok_or_else(|| text.clone())?),
                }
            }
            Argument::Together(texts) => {
                let words_filled: Option<Vec<String>> = texts.iter().map(|text| fill(text, fields)).collect();
                words.extend(words_filled.unwrap_or_default());
            }
        }
    }
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn templates_are_filled() {
        let fields: Fields = [("a", "1"), ("b", "${a}")].map(|(name, value)| (name.into(), value.into())).into();
        assert_eq!(fill("x${a}-${b}y", &fields).as_deref(), Some("x1-${a}y"), "a value is no template");
        assert_eq!(fill("$a ${", &fields).as_deref(), Some("$a ${"));
        assert_eq!(fill("${c}", &fields), None);
        assert_eq!(fill("x[[:${a}]][[:${c}]]y[[${a?yes}]][[${c?no}]] [[", &fields).as_deref(), Some("x:1yyes [["));
        let one = |text: &str| Argument::One(text.into());
        let together = |texts: &[&str]| Argument::Together(texts.iter().map(|text| (*text).into()).collect());
        let command = [one("q"), together(&["-c", "${c}"]), together(&["-a", "${a}"]), one("${more}")];
        let more = ["m".to_owned(), "n ${a}".to_owned()];
        let words_of = |command: &[Argument]| words(command, &fields, &[("more", &more)]);
        assert_eq!(words_of(&command).unwrap(), ["q", "-a", "1", "m", "n ${a}"]);
        assert_eq!(words_of(&[one("-x${c}")]).unwrap_err(), "-x${c}");
    }
}
