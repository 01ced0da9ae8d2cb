//! Ignored files in input folders: files of version control, editors and caches, and files that a recipe names, with patterns as in
//! `.gitignore`.

use std::{
    collections::HashMap,
    path::Path,
    sync::{Arc, LazyLock, Mutex, PoisonError},
};

use regex::{Regex, RegexBuilder};

/// Patterns that hold in every input folder.
pub const IGNORED: &[&str] = &[
    ".git",
    ".hg",
    ".svn",
    ".bzr",
    ".jj",
    ".DS_Store",
    "._*",
    ".directory",
    ".Trash*/",
    "Thumbs.db",
    "desktop.ini",
    ".idea/",
    ".vscode/",
    ".~lock.*#",
    "~$*",
    ".fuse_hidden*",
    "*.swp",
    "*.swo",
    "*.swx",
    "*~",
    ".#*",
    "#*#",
    ".nfs*",
    "__pycache__/",
    ".ipynb_checkpoints/",
    ".pytest_cache/",
    ".mypy_cache/",
    ".ruff_cache/",
    // The locks of all sweeps on a machine, which have no content.
    "sweep-machine.lock",
    "sweep-machine.gate",
];

/// Largest size of a compiled pattern, in bytes.
const MAX_PATTERN_BYTES: usize = 1 << 20;
/// Number of compiled lists of patterns that are kept for the next job with the same list.
const MAX_COMPILED: usize = 64;

/// Patterns of ignored files. Later patterns take precedence.
#[derive(Debug, Clone, Default)]
pub struct Ignore(Arc<[Rule]>);

#[derive(Debug, Clone)]
struct Rule {
    regex: Regex,
    /// True if the pattern brings back files of earlier ones.
    is_negated: bool,
    folders_only: bool,
    /// True if the pattern is about paths from the input folder, not about names.
    is_anchored: bool,
}

impl Ignore {
    /// The patterns that hold everywhere, and these. The error is a phrase with the pattern.
    pub fn new(patterns: &[String]) -> Result<Self, String> {
        Self::compiled(IGNORED.iter().copied().chain(patterns.iter().map(String::as_str)).collect())
    }

    /// These patterns alone. The error is a phrase with the pattern.
    pub fn only(patterns: &[String]) -> Result<Self, String> {
        Self::compiled(patterns.iter().map(String::as_str).collect())
    }

    /// Compiles a list of patterns once: a plan asks for the list of each job, and the jobs of a step have the same.
    fn compiled(patterns: Vec<&str>) -> Result<Self, String> {
        static COMPILED: LazyLock<Mutex<HashMap<String, Ignore>>> = LazyLock::new(Mutex::default);
        let list = patterns.join("\0");
        let mut compiled = COMPILED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = compiled.get(&list) {
            return Ok(known.clone());
        }
        let ignore = Self(patterns.into_iter().map(Rule::new).collect::<Result<_, _>>()?);
        if compiled.len() == MAX_COMPILED {
            compiled.clear();
        }
        compiled.insert(list, ignore.clone());
        Ok(ignore)
    }

    /// True if a path below `folder`, or a folder on the way to it, is ignored.
    pub fn covers(&self, folder: &Path, path: &Path) -> bool {
        let inner = if self.0.is_empty() { None } else { path.strip_prefix(folder).ok() };
        inner.is_some_and(|inner| {
            let mut parts = inner.ancestors().filter(|part| !part.as_os_str().is_empty()).enumerate();
            parts.any(|(above, part)| self.is_ignored(&part.to_string_lossy(), above > 0 || path.is_dir()))
        })
    }

    /// Returns true if the file or folder at `path`, relative to the input folder, is not part of the content. Callers do
    /// not query paths below an ignored folder.
    pub fn is_ignored(&self, path: &str, is_folder: bool) -> bool {
        let name = path.rsplit('/').next().unwrap_or(path);
        let matches = |rule: &&Rule| {
            (is_folder || !rule.folders_only) && rule.regex.is_match(if rule.is_anchored { path } else { name })
        };
        self.0.iter().rev().find(matches).is_some_and(|rule| !rule.is_negated)
    }

    /// True if names alone decide, not the place below the input folder.
    pub fn is_by_name(&self) -> bool {
        self.0.iter().all(|rule| !rule.is_anchored)
    }
}

impl Rule {
    fn new(pattern: &str) -> Result<Self, String> {
        let bad = |reason: &str| format!("the pattern `{pattern}` {reason}");
        let (is_negated, rest) = pattern.strip_prefix('!').map_or((false, pattern), |rest| (true, rest));
        let (folders_only, rest) = rest.strip_suffix('/').map_or((false, rest), |rest| (true, rest));
        let is_anchored = rest.contains('/');
        let rest = rest.strip_prefix('/').unwrap_or(rest);
        if rest.is_empty() {
            return Err(bad("names nothing"));
        }
        if rest.split('/').any(|part| matches!(part, "" | "." | "..")) {
            return Err(bad("has a part that is empty, `.` or `..`, which no path in the folder has"));
        }
        let regex = RegexBuilder::new(&translated(rest).map_err(bad)?).size_limit(MAX_PATTERN_BYTES).build();
        let regex = regex.map_err(|_| bad("has a range of characters that cannot be used, or is too long"))?;
        Ok(Self { regex, is_negated, folders_only, is_anchored })
    }
}

/// A regular expression for a pattern.
fn translated(pattern: &str) -> Result<String, &'static str> {
    let mut regex = String::from("(?s)^");
    let mut rest = pattern.chars().peekable();
    let mut begins_part = true;
    while let Some(char) = rest.next() {
        let began = std::mem::replace(&mut begins_part, char == '/');
        match char {
            '*' if rest.next_if_eq(&'*').is_some() => match (began, rest.peek()) {
                (true, Some('/')) => {
                    rest.next();
                    regex.push_str("(?:.*/)?");
                    begins_part = true;
                }
                (true, None) => regex.push_str(".*"),
                // Elsewhere, `**` is treated as a single star, as in Git.
                _ => regex.push_str("[^/]*"),
            },
            '*' => regex.push_str("[^/]*"),
            '?' => regex.push_str("[^/]"),
            '[' => class(&mut rest, &mut regex)?,
            '\\' => {
                let escaped = rest.next().ok_or("ends with a backslash")?;
                regex.push_str(&regex::escape(escaped.encode_utf8(&mut [0; 4])));
            }
            char => regex.push_str(&regex::escape(char.encode_utf8(&mut [0; 4]))),
        }
    }
    regex.push('$');
    Ok(regex)
}

/// Translates a set of characters, after its bracket.
fn class(rest: &mut std::iter::Peekable<std::str::Chars<'_>>, regex: &mut String) -> Result<(), &'static str> {
    regex.push_str("(?:[");
    if rest.next_if(|char| matches!(char, '!' | '^')).is_some() {
        regex.push_str("^/");
    }
    let mut is_first = true;
    loop {
        match rest.next().ok_or("has a `[` without its `]`")? {
            ']' if !is_first => break,
            '-' => regex.push('-'),
            '\\' => {
                let escaped = rest.next().ok_or("ends with a backslash")?;
                regex.push_str(&regex::escape(escaped.encode_utf8(&mut [0; 4])));
            }
            char => {
                if matches!(char, '[' | ']' | '&' | '~' | '^') {
                    regex.push('\\');
                }
                regex.push(char);
            }
        }
        is_first = false;
    }
    regex.push_str("])");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ignored(patterns: &[&str], path: &str, is_folder: bool) -> bool {
        let patterns: Vec<String> = patterns.iter().map(|text| (*text).to_owned()).collect();
        Ignore::new(&patterns).unwrap().is_ignored(path, is_folder)
    }

    #[test]
    fn traces_of_tools_are_no_content_and_everything_else_is() {
        for (path, is_folder) in [
            (".git", true),
            (".git", false),
            ("a/b/.DS_Store", false),
            ("a/.train.py.swp", false),
            ("x.swp", false),
            ("notes~", false),
            (".#lock", false),
            ("#autosave#", false),
            ("src/__pycache__", true),
            (".ipynb_checkpoints", true),
        ] {
            assert!(ignored(&[], path, is_folder), "{path}");
        }
        for (path, is_folder) in [
            ("README.md", false),
            (".gitignore", false),
            (".gitattributes", false),
            (".venv", true),
            (".env", false),
            ("__pycache__", false),
            ("a.bak", false),
            ("git", true),
            ("a~b", false),
            ("#1", false),
            ("x.swp.txt", false),
            ("labels/train.cache", false),
        ] {
            assert!(!ignored(&[], path, is_folder), "{path}");
        }
    }

    #[test]
    fn patterns_are_those_of_git() {
        for (pattern, path, is_folder, matches) in [
            ("*.cache", "labels/train.cache", false, true),
            ("*.cache", "labels/train.cache2", false, false),
            ("/a", "a", false, true),
            ("/a", "b/a", false, false),
            ("b/a", "b/a", false, true),
            ("b/a", "c/b/a", false, false),
            ("**/a", "c/b/a", false, true),
            ("**/a", "a", false, true),
            ("b/**", "b/c/d", false, true),
            ("b/**/d", "b/d", false, true),
            ("b/**/d", "b/c/e/d", false, true),
            ("b/*/d", "b/c/e/d", false, false),
            ("out/", "out", true, true),
            ("out/", "out", false, false),
            ("?.txt", "é.txt", false, true),
            ("[a-c].txt", "b.txt", false, true),
            ("[!a-c].txt", "b.txt", false, false),
            ("[]x].txt", "].txt", false, true),
            (r"\*.txt", "*.txt", false, true),
            (r"\*.txt", "a.txt", false, false),
            ("#notes", "#notes", false, true),
            ("a b", "a b", false, true),
            ("(a|b)", "a", false, false),
            ("(a|b)", "(a|b)", false, true),
        ] {
            assert_eq!(ignored(&[pattern], path, is_folder), matches, "{pattern} {path}");
        }
        assert!(!ignored(&["!.git"], ".git", true), "a recipe brings back what is ignored otherwise");
        assert!(!ignored(&["*.txt", "!keep.txt"], "keep.txt", false));
        assert!(ignored(&["!keep.txt", "*.txt"], "keep.txt", false), "the last pattern counts");
    }

    #[test]
    fn a_pattern_that_can_match_nothing_is_refused() {
        for pattern in ["", "!", "/", "a//b", "../a", "./a", "a[", "a\\", "[z-a]"] {
            let error = Ignore::new(&[pattern.to_owned()]).unwrap_err();
            assert!(error.starts_with(&format!("the pattern `{pattern}`")), "{error}");
        }
    }
}
