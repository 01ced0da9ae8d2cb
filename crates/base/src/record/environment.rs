//! The environment of a program, outside of its project: the programs that it started, the shared libraries that it opened, and
//! packages of Python.
//!
//! A record names its environment by an identifier; the store keeps each environment once, because thousands of jobs
//! share one. Programs and libraries are identified by the build IDs that linkers compute from their content, which are
//! the same on each machine, or else by digests.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::{UNKNOWN, manifest::digest_of, text_path};
use crate::format::{clean, count};

/// Version of an environment's JSON. 1: first.
const ENVIRONMENT_FORMAT: u32 = 1;
/// Before a build ID.
const BUILD: &str = "build:";
/// Before a digest of a content.
const CONTENT: &str = "content:";
/// Digits of an identifier that people see.
const DIGITS: usize = 12;
/// The end of a shared library's name, before its version.
const SHARED: &str = ".so";

/// The programs, libraries and packages that a program used outside of its project.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Environment {
    format: u32,
    /// Path at which the machine found the program that the recipe names; links are not followed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// Programs that were started, by their paths without links, with escapes for bytes that are not text.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub programs: BTreeMap<String, Part>,
    /// Shared libraries that were opened, likewise.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub libraries: BTreeMap<String, Part>,
    /// Versions of the packages of Python that were imported, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub packages: BTreeMap<String, String>,
    /// Image of the container, if the container engine reports it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container: Option<String>,
    /// True for the environment of a host to which the job was sent: its paths are paths of the host.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_elsewhere: bool,
}

/// A program or a library.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Part {
    /// `build:` and the build ID, `content:` and the digest of a file without one, or `unknown`.
    pub id: String,
    /// The part's version, if it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
}

/// A program, library, package or container of an environment, as it is compared.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Value {
    /// Equal for equal content, on any machine.
    id: String,
    /// Path, for programs and libraries.
    path: Option<String>,
    /// Version and identifier for people.
    shown: String,
}

impl Value {
    fn whole(&self) -> String {
        self.path.as_ref().map_or_else(|| self.shown.clone(), |path| format!("{path} ({})", self.shown))
    }
}

/// A thing whose values differ between environments: its name, and the values on each side.
pub(crate) type Differing = (String, [Vec<String>; 2]);

impl Part {
    /// Creates a part with a build ID.
    pub fn of_build(id: &str) -> Self {
        Self { id: format!("{BUILD}{id}"), version: None }
    }

    /// Creates a part with the digest of its content.
    pub fn of_content(digest: &str) -> Self {
        Self { id: format!("{CONTENT}{digest}"), version: None }
    }

    /// Creates a part that changed while it was used.
    pub fn unknown() -> Self {
        Self { id: UNKNOWN.to_owned(), version: None }
    }

    fn shown(&self) -> String {
        let id = shown_id(&self.id);
        self.version.as_ref().map_or(id.clone(), |version| format!("{version}, {id}"))
    }
}

/// An identifier for people: `build 0123456789ab`.
pub fn shown_id(id: &str) -> String {
    match id.split_once(':') {
        Some((kind @ ("build" | "content"), digits)) => {
            format!("{kind} {}", digits.chars().take(DIGITS).collect::<String>())
        }
        _ => id.to_owned(),
    }
}

impl Default for Environment {
    fn default() -> Self {
        Self {
            format: ENVIRONMENT_FORMAT,
            command: None,
            programs: BTreeMap::new(),
            libraries: BTreeMap::new(),
            packages: BTreeMap::new(),
            container: None,
            is_elsewhere: false,
        }
    }
}

impl Environment {
    /// Reads an environment; `None` if the text is not an environment of this version with the identifier `id`.
    pub fn parse(text: &[u8], id: &str) -> Option<Self> {
        let environment: Self = serde_json::from_slice(text).ok()?;
        (environment.format == ENVIRONMENT_FORMAT && environment.id() == id).then_some(environment)
    }

    /// The environment's identifier: the digest of all that it has.
    pub fn id(&self) -> String {
        let place = if self.is_elsewhere { "elsewhere" } else { "here" };
        let command = self.command.iter().map(|path| ["command", path, "", ""]);
        let container = self.container.iter().map(|image| ["container", image, "", ""]);
        let packages = self.packages.iter().map(|(name, version)| ["package", name, version, ""]);
        let part = |kind: &'static str| {
            move |(path, part): (&'_ String, &'_ Part)| {
                [kind.to_owned(), path.clone(), part.id.clone(), part.version.clone().unwrap_or_default()]
            }
        };
        let programs: Vec<[String; 4]> = self.programs.iter().map(part("program")).collect();
        let libraries: Vec<[String; 4]> = self.libraries.iter().map(part("library")).collect();
        let parts = programs.iter().chain(&libraries).map(|line| line.each_ref().map(String::as_str));
        digest_of(std::iter::once([place, "", "", ""]).chain(command).chain(container).chain(packages).chain(parts))
    }

    /// The programs and libraries with their identifiers, each named by its kind and its path.
    pub fn parts(&self) -> impl Iterator<Item = (String, &str, &str)> {
        let programs = self.programs.iter().map(|(path, part)| ("program", path, part));
        let libraries = self.libraries.iter().map(|(path, part)| ("library", path, part));
        programs.chain(libraries).map(|(kind, path, part)| (format!("{kind} {path}"), path.as_str(), part.id.as_str()))
    }

    /// The values of each thing in it. Things are named without paths and versions, which differ between machines.
    fn values(&self) -> BTreeMap<String, BTreeSet<Value>> {
        let mut values: BTreeMap<String, BTreeSet<Value>> = BTreeMap::new();
        let mut add = |name: String, id: &str, path: Option<&String>, shown: String| {
            values.entry(name).or_default().insert(Value { id: id.to_owned(), path: path.cloned(), shown });
        };
        for (name, version) in &self.packages {
            add(format!("package {name}"), version, None, version.clone());
        }
        for (path, part) in &self.programs {
            add(format!("program {}", program_name(path)), &part.id, Some(path), part.shown());
        }
        for (path, part) in &self.libraries {
            add(format!("library {}", library_name(path)), &part.id, Some(path), part.shown());
        }
        if let Some(image) = &self.container {
            add("container".to_owned(), image, None, image.clone());
        }
        values
    }

    /// The things that differ between two groups of environments.
    pub fn differences(first: &[&Self], second: &[&Self]) -> Vec<Differing> {
        if first.is_empty() || second.is_empty() {
            return Vec::new();
        }
        let sides = [first, second].map(|side| {
            let mut values_by_name: BTreeMap<String, BTreeSet<Value>> = BTreeMap::new();
            for (name, values) in side.iter().flat_map(|environment| environment.values()) {
                values_by_name.entry(name).or_default().extend(values);
            }
            values_by_name
        });
        let names: BTreeSet<&String> = sides.iter().flat_map(BTreeMap::keys).collect();
        let mut differences = Vec::new();
        for name in names {
            let values = sides.each_ref().map(|side| side.get(name));
            if ids(values[0]) == ids(values[1]) {
                continue;
            }
            differences.push(match at_one_path(values) {
                Some((path, texts)) => {
                    let kind = name.split(' ').next().unwrap_or_default();
                    (format!("{kind} {path}"), texts.map(|text| vec![text]))
                }
                None => (name.clone(), values.map(shown)),
            });
        }
        // Things that people know by their versions come first.
        differences.sort_by_key(|(name, _)| ORDER.iter().position(|kind| name.starts_with(kind)));
        differences
    }

    /// Returns the things that several environments have in different states. A thing that only some of the environments use is
    /// not a conflict.
    pub fn conflicts(all: &[&Self]) -> Vec<String> {
        let mut states: BTreeMap<String, BTreeSet<BTreeSet<String>>> = BTreeMap::new();
        for (name, values) in all.iter().flat_map(|environment| environment.values()) {
            states.entry(name).or_default().insert(values.into_iter().map(|value| value.id).collect());
        }
        let is_conflict = |states: &BTreeSet<BTreeSet<String>>| {
            let largest = states.iter().max_by_key(|state| state.len());
            largest.is_some_and(|largest| states.iter().any(|state| !state.is_subset(largest)))
        };
        let mut names: Vec<String> =
            states.into_iter().filter(|(_, states)| is_conflict(states)).map(|(name, _)| name).collect();
        names.sort_by_key(|name| ORDER.iter().position(|kind| name.starts_with(kind)));
        names
    }

    /// A sentence without its end: the program, and the numbers of other things.
    pub fn short(&self) -> String {
        let mut parts = Vec::new();
        if let Some(command) = &self.command {
            let version = self.programs.values().find_map(|part| part.version.as_deref());
            let version = version.map_or_else(String::new, |version| format!(" ({})", clean(version)));
            parts.push(format!("{}{version}", clean(command)));
        }
        parts.push(count(self.programs.len(), "program"));
        let libc = self.libraries.iter().find(|(path, _)| library_name(path) == "libc");
        let libc = libc.and_then(|(_, part)| part.version.as_deref());
        let libc = libc.map_or_else(String::new, |version| format!(" (libc: {})", clean(version)));
        let libraries = if self.libraries.len() == 1 { "library" } else { "libraries" };
        parts.push(format!("{} {libraries}{libc}", self.libraries.len()));
        parts.push(count(self.packages.len(), "package"));
        parts.extend(self.container.as_deref().map(|image| format!("container {}", clean(image))));
        parts.join(", ")
    }

    /// The whole environment, with one program, library or package in each line.
    pub fn lines(&self) -> Vec<String> {
        let mut lines: Vec<String> = Vec::new();
        lines.extend(self.command.iter().map(|path| format!("command {path}")));
        lines.extend(self.container.iter().map(|image| format!("container {image}")));
        lines.extend(self.packages.iter().map(|(name, version)| format!("package {name} {version}")));
        let part = |kind: &str, path: &str, part: &Part| format!("{kind} {path} ({})", part.shown());
        lines.extend(self.programs.iter().map(|(path, program)| part("program", path, program)));
        lines.extend(self.libraries.iter().map(|(path, library)| part("library", path, library)));
        lines.into_iter().map(|line| clean(&line).into_owned()).collect()
    }
}

/// The order in which kinds of things are shown.
const ORDER: [&str; 4] = ["container", "program", "package", "library"];

/// The path of a program or library that is the only one of its name on both sides, at the same path, with its values.
fn at_one_path(values: [Option<&BTreeSet<Value>>; 2]) -> Option<(&str, [String; 2])> {
    let only_value = |values: Option<&'_ BTreeSet<Value>>| values.filter(|values| values.len() == 1)?.first().cloned();
    let path = values[0]?.first()?.path.as_deref()?;
    let [first, second] = values.map(only_value);
    let (first, second) = (first?, second?);
    (second.path.as_deref() == Some(path)).then_some((path, [first.shown, second.shown]))
}

fn shown(values: Option<&BTreeSet<Value>>) -> Vec<String> {
    values.map_or_else(|| vec!["none".to_owned()], |values| values.iter().map(Value::whole).collect())
}

fn ids(values: Option<&BTreeSet<Value>>) -> BTreeSet<&str> {
    values.into_iter().flatten().map(|value| value.id.as_str()).collect()
}

fn file_name(path: &str) -> String {
    let path = text_path(path);
    path.file_name().map(|name| super::path_text(name.as_ref())).unwrap_or_default()
}

/// The name of a program without its version: `python` for `/usr/bin/python3.11`.
fn program_name(path: &str) -> String {
    let name = file_name(path);
    let stem = name.trim_end_matches(|char: char| char.is_ascii_digit() || char == '.' || char == '-');
    if stem.is_empty() { name } else { stem.to_owned() }
}

/// The name of a shared library without its version: `libcudart` for `libcudart.so.12.1.105`.
fn library_name(path: &str) -> String {
    let name = file_name(path);
    name.split_once(SHARED).map_or(name.clone(), |(stem, _)| stem.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(change: impl FnOnce(&mut Environment)) -> Environment {
        let mut environment = Environment::default();
        environment.programs.insert("/usr/bin/python3.11".to_owned(), Part::of_build("aa"));
        environment.libraries.insert("/lib/libfoo.so.1.2".to_owned(), Part::of_content("bb"));
        environment.packages.insert("numpy".to_owned(), "1.24".to_owned());
        change(&mut environment);
        environment
    }

    fn same() -> Environment {
        environment(|_| {})
    }

    #[test]
    fn an_environment_is_known_by_its_contents() {
        let text = serde_json::to_vec(&same()).unwrap();
        assert_eq!(Environment::parse(&text, &same().id()), Some(same()));
        for other in [
            environment(|other| other.is_elsewhere = true),
            environment(|other| other.command = Some("/usr/bin/python3".to_owned())),
            environment(|other| other.container = Some("image".to_owned())),
            environment(|other| drop(other.packages.insert("numpy".to_owned(), "2.1".to_owned()))),
            environment(|other| drop(other.programs.insert("/usr/bin/python3.11".to_owned(), Part::of_build("ab")))),
            environment(|other| drop(other.libraries.insert("/lib/libbar.so".to_owned(), Part::unknown()))),
        ] {
            assert_ne!(other.id(), same().id(), "{other:?}");
            assert_eq!(Environment::parse(&text, &other.id()), None);
        }
        assert_eq!(Environment::parse(b"{", &same().id()), None);
    }

    #[test]
    fn the_same_content_at_another_path_is_no_difference() {
        let other = environment(|other| {
            let part = other.programs.remove("/usr/bin/python3.11").unwrap();
            other.programs.insert("/opt/bin/python3.11".to_owned(), part);
            other.command = Some("/opt/bin/python".to_owned());
        });
        assert!(Environment::differences(&[&same()], &[&other]).is_empty());
        assert!(Environment::conflicts(&[&same(), &other]).is_empty());
        assert!(Environment::differences(&[&same()], &[]).is_empty(), "nothing is known of one side");
    }

    #[test]
    fn versions_in_names_are_versions_of_one_thing() {
        let other = environment(|other| {
            other.programs = [("/usr/bin/python3.12".to_owned(), Part::of_build("ac"))].into();
            other.libraries = [("/lib/libfoo.so.2".to_owned(), Part::of_content("bc"))].into();
            other.packages.insert("numpy".to_owned(), "2.1".to_owned());
            other.packages.insert("more".to_owned(), "1".to_owned());
        });
        let differences = Environment::differences(&[&same()], &[&other]);
        let lines: Vec<String> =
            differences.iter().map(|(name, [a, b])| format!("{name}: {} → {}", a.join(", "), b.join(", "))).collect();
        assert_eq!(
            lines,
            [
                "program python: /usr/bin/python3.11 (build aa) → /usr/bin/python3.12 (build ac)",
                "package more: none → 1",
                "package numpy: 1.24 → 2.1",
                "library libfoo: /lib/libfoo.so.1.2 (content bb) → /lib/libfoo.so.2 (content bc)",
            ]
        );
        let conflicts = Environment::conflicts(&[&same(), &other]);
        assert_eq!(conflicts, ["program python", "package numpy", "library libfoo"], "`more` is used by one of them");
    }

    #[test]
    fn names_may_contain_anything() {
        assert_eq!(library_name(r"/x/lib\xff.so.1"), r"lib\xff");
        assert_eq!(program_name("/x/7"), "7");
        assert_eq!(program_name("/"), "");
        let other = environment(|other| {
            other.libraries.insert(r"/x/lib\x1b[31m.so".to_owned(), Part::unknown());
            other.command = Some("/x/\u{202e}python".to_owned());
        });
        assert!(other.lines().iter().all(|line| !line.chars().any(char::is_control)));
        assert!(!other.short().contains('\u{202e}'), "{}", other.short());
    }
}
