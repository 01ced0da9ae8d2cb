//! Packages of Python in a folder of an environment, by the names of their metadata. Nothing is imported.

use std::{collections::BTreeMap, path::Path};

use fs_err as fs;

/// Names of the metadata's folders, or files, end so.
const ENDS: [&str; 2] = [".dist-info", ".egg-info"];

/// The packages that are installed in a folder: their normalized names, with their versions.
pub fn installed(folder: &Path) -> BTreeMap<String, String> {
    let mut packages = BTreeMap::new();
    let Ok(entries) = fs::read_dir(folder) else { return packages };
    for entry in entries.filter_map(Result::ok) {
        let name = entry.file_name();
        packages.extend(name.to_str().and_then(named));
    }
    packages
}

/// Name and version in the name of a package's metadata: `numpy-2.1.0.dist-info`, `six-1.16-py3.11.egg-info`.
pub fn named(metadata: &str) -> Option<(String, String)> {
    let stem = ENDS.iter().find_map(|end| metadata.strip_suffix(end))?;
    let mut parts = stem.splitn(3, '-');
    Some((normalized(parts.next()?), parts.next()?.to_owned()))
}

/// A name as packages are compared: in lower case, with `-` for runs of `-`, `_` and `.`.
pub fn normalized(name: &str) -> String {
    let words = name.split(['-', '_', '.']).filter(|word| !word.is_empty());
    words.map(str::to_lowercase).collect::<Vec<_>>().join("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_versions_are_in_the_names_of_folders() {
        let entry = |name: &str, version: &str| Some((name.to_owned(), version.to_owned()));
        assert_eq!(named("numpy-2.1.0.dist-info"), entry("numpy", "2.1.0"));
        assert_eq!(named("Ruamel.Yaml_clib-0.2.dist-info"), entry("ruamel-yaml-clib", "0.2"));
        assert_eq!(named("six-1.16.0-py3.11.egg-info"), entry("six", "1.16.0"));
        assert_eq!(named("numpy"), None);
        assert_eq!(named("broken.dist-info"), None);
    }
}
