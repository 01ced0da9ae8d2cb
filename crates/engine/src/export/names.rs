//! Names in the form that another program accepts: different names stay different, and most stay as they are.
//!
//! A character that the other program does not accept becomes `_x0040_`, with its number, as in Office Open XML; a name that
//! already contains such a text is written so, too. Names that differ only in case get different forms, for file systems
//! that do not distinguish case, and a long name ends with its digest.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
};

/// Bytes of the longest name: less than a file system takes, with an ending, and less than `MLflow` takes.
const MAX_NAME_BYTES: usize = 200;
/// Bytes of the end of a shortened name: a line and a digest.
const END: usize = 17;

/// Names, and their replacements.
#[derive(Debug, Default)]
pub(super) struct Names {
    changed: BTreeMap<String, String>,
}

impl Names {
    /// The forms of all names of a kind; `is_plain` is true for characters that the other program takes. A `/` among those
    /// separates folders.
    pub(super) fn new<'n>(names: impl IntoIterator<Item = &'n str>, is_plain: impl Fn(char) -> bool) -> Self {
        let names: BTreeSet<&str> = names.into_iter().collect();
        let mut forms: BTreeMap<&str, String> = names.iter().map(|name| (*name, escaped(name, &is_plain))).collect();
        // A file cannot have files below it.
        let files: BTreeSet<String> = forms.values().map(|form| form.to_lowercase()).collect();
        for form in forms.values_mut() {
            let lowercase = form.to_lowercase();
            let is_blocked = lowercase.match_indices('/').any(|(index, _)| files.contains(&lowercase[..index]));
            if is_blocked {
                *form = form.replace('/', &code('/'));
            }
        }
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        for form in forms.values() {
            *counts.entry(form.to_lowercase()).or_default() += 1;
        }
        for form in forms.values_mut() {
            if counts.get(&form.to_lowercase()).is_some_and(|count| *count > 1) {
                *form = form.chars().map(|char| if is_lower(char) { char.to_string() } else { code(char) }).collect();
            }
        }
        let mut changed: BTreeMap<String, String> = BTreeMap::new();
        let mut taken_forms = BTreeSet::new();
        for (name, form) in forms {
            let mut form = shortened(name, form);
            // Another name looks like this form.
            if !taken_forms.insert(form.to_lowercase()) {
                form = ended(name, &form);
                taken_forms.insert(form.clone());
            }
            if name != form {
                changed.insert(name.to_owned(), form);
            }
        }
        Self { changed }
    }

    /// The form of one of the names.
    pub(super) fn of<'n>(&'n self, name: &'n str) -> &'n str {
        self.changed.get(name).map_or(name, String::as_str)
    }

    /// The names that have another form.
    pub(super) fn changed(&self) -> impl Iterator<Item = (&str, &str)> {
        self.changed.iter().map(|(name, form)| (name.as_str(), form.as_str()))
    }
}

/// A name whose characters are all plain, and no part of which leads elsewhere.
fn escaped(name: &str, is_plain: impl Fn(char) -> bool) -> String {
    let mut form = String::with_capacity(name.len());
    for (index, char) in name.char_indices() {
        let (head, tail) = (&name[..index], &name[index + char.len_utf8()..]);
        let is_edge = |text: &str, edge: Option<char>| text.is_empty() || edge == Some('/');
        let is_kept = match char {
            '_' => !begins_with_code(tail),
            '/' => is_plain('/') && !is_edge(head, head.chars().next_back()) && !tail.is_empty(),
            // Two names of folders have no letters: `.` and `..`. Others that begin so are hidden.
            '.' => !is_edge(head, head.chars().next_back()),
            // Some systems remove it.
            ' ' => is_plain(' ') && !is_edge(head, head.chars().next_back()) && !is_edge(tail, tail.chars().next()),
            char => is_plain(char),
        };
        if is_kept { form.push(char) } else { form += &code(char) }
    }
    if form.is_empty() { "_x_".to_owned() } else { form }
}

/// The text in place of a character.
fn code(char: char) -> String {
    let mut text = String::new();
    let _ = write!(text, "_x{:04x}_", u32::from(char));
    text
}

/// True if the text after a `_` would be read as the rest of a code.
fn begins_with_code(text: &str) -> bool {
    let rest = text.strip_prefix(['x', 'X']);
    rest.is_some_and(|rest| rest.trim_start_matches(|char: char| char.is_ascii_hexdigit()).starts_with('_'))
}

fn is_lower(char: char) -> bool {
    char.to_lowercase().eq([char])
}

/// Returns a form that is short enough. A form that looks like a shortened one is shortened, too.
fn shortened(name: &str, form: String) -> String {
    let is_end = |end: &[u8]| end[0] == b'_' && end[1..].iter().all(u8::is_ascii_hexdigit);
    let looks_shortened =
        form.len() > MAX_NAME_BYTES - 4 && form.as_bytes().last_chunk::<END>().is_some_and(|end| is_end(end));
    if form.len() <= MAX_NAME_BYTES && !looks_shortened {
        return form;
    }
    ended(name, &form)
}

/// The beginning of a form, and the digest of the name.
fn ended(name: &str, form: &str) -> String {
    let beginning = &form[..form.floor_char_boundary(MAX_NAME_BYTES - END)];
    format!("{beginning}_{}", &blake3::hash(name.as_bytes()).to_hex()[..END - 1])
}

/// Returns sentences about changed names, with a limit, because many names may have changed.
pub(super) fn notices(names: &BTreeMap<String, String>, program: &str) -> Vec<String> {
    /// Maximum number of names that are listed.
    const MAX_NAMES: usize = 10;
    let mut lines: Vec<String> =
        names.iter().take(MAX_NAMES).map(|(name, form)| format!("`{name}` is `{form}` in {program}")).collect();
    if names.len() > MAX_NAMES {
        lines.push(format!("{} more names have another form in {program}", names.len() - MAX_NAMES));
    }
    lines
}

/// Extends a map of names by the names of a kind that have another form.
pub(super) fn add(map: &mut BTreeMap<String, String>, names: &Names) {
    map.extend(names.changed().map(|(name, form)| (name.to_owned(), form.to_owned())));
}

/// Adds `prefix` to a name that begins with one of `prefixes`, because it could be mistaken for a name of another kind.
pub(super) fn apart<'n>(name: &'n str, prefix: &str, prefixes: [&str; 2]) -> Cow<'n, str> {
    if prefixes.iter().any(|prefix| name.starts_with(prefix)) {
        Cow::Owned(format!("{prefix}{name}"))
    } else {
        Cow::Borrowed(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(char: char) -> bool {
        char.is_alphanumeric() || "_-. /:".contains(char)
    }

    fn forms<const N: usize>(names: [&str; N]) -> Vec<String> {
        let names_of_program = Names::new(names, plain);
        names.iter().map(|name| names_of_program.of(name).to_owned()).collect()
    }

    #[test]
    fn different_names_have_different_forms() {
        assert_eq!(
            forms(["точность", "скорость", "a:b", "a_b", "r@5", "r#5", "time.step"]),
            ["точность", "скорость", "a:b", "a_b", "r_x0040_5", "r_x0023_5", "time.step"]
        );
        let long_name = |end: &str| "ы".repeat(300) + end;
        let (first, second) = (long_name("1"), long_name("2"));
        let short_form = forms([&first])[0].clone();
        let names = [
            "",
            "_x_",
            "_X_",
            "r@5",
            "r_x0040_5",
            "r_x0040_5_",
            "r_X0040_5",
            "R@5",
            "loss",
            "Loss",
            "LOSS",
            "_x004C_oss",
            "_x004c_oss",
            "train",
            "train/loss",
            "train_loss",
            "train_x002F_loss",
            "Train/loss",
            "/etc/passwd",
            "etc/passwd",
            "../etc",
            "..",
            ".",
            "a//b",
            "a/b",
            "a/",
            "a",
            " a",
            "a ",
            &first,
            &second,
            &short_form,
            "ß",
            "SS",
            "ss",
            "İ",
            "i",
        ];
        let all_forms = forms(names);
        let lowercase_forms: BTreeSet<String> = all_forms.iter().map(|form| form.to_lowercase()).collect();
        assert_eq!(lowercase_forms.len(), names.len(), "{all_forms:#?}");
        for form in &all_forms {
            assert!(form.len() <= MAX_NAME_BYTES && !form.is_empty(), "{form}");
            let is_below = all_forms.iter().any(|other| other.starts_with(&format!("{form}/")));
            assert!(!is_below, "{form} is a file and a folder");
            assert!(form.split('/').all(|part| !part.is_empty() && !part.starts_with('.')), "{form}");
        }
    }

    #[test]
    fn a_form_depends_on_the_names_only() {
        let names = ["Loss", "loss", "a/b", "a"];
        let mut reversed_names = names;
        reversed_names.reverse();
        let (first, second) = (Names::new(names, plain), Names::new(reversed_names, plain));
        assert!(names.iter().all(|name| first.of(name) == second.of(name)));
    }

    #[test]
    fn names_of_two_kinds_stay_apart() {
        let metric = |name| apart(name, "metrics/", ["metrics/", "curves/"]).into_owned();
        let names = ["loss", "curves/loss", "metrics/loss", "metrics/curves/loss"].map(metric);
        assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), 4);
        assert!(!names.iter().any(|name| name.starts_with("curves/")));
    }
}
