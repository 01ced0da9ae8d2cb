//! Trees: folders by content, as lists of entries with the digests of files.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Component, Path},
};

use fs_err as fs;
use serde::{Deserialize, Serialize};

use crate::{plan::digest_of, record::path_text};

/// A folder: its entries, sorted by path.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tree {
    /// Files and links, sorted by path.
    pub entries: Vec<Entry>,
}

/// A file or a link of a tree.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Entry {
    /// Its path in the tree, which stays in it.
    pub path: String,
    #[serde(flatten)]
    /// The content of the file, or the target of the link.
    pub content: Content,
}

/// Content of an entry.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Content {
    /// A file.
    File {
        /// BLAKE3 digest of its bytes, in hexadecimal.
        blob: String,
        /// True if it may be executed.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        executable: bool,
    },
    /// A link to this path.
    Link(String),
    /// An empty folder.
    Folder,
}

impl Tree {
    /// The tree of these entries.
    pub fn new(mut entries: Vec<Entry>) -> Self {
        entries.sort_unstable();
        Self { entries }
    }

    /// The digest of its entries.
    pub fn digest(&self) -> String {
        let mut hasher = blake3::Hasher::new();
        let mut add = |text: &str| {
            hasher.update(&(text.len() as u64).to_le_bytes());
            hasher.update(text.as_bytes());
        };
        for Entry { path, content } in &self.entries {
            add(path);
            match content {
                Content::File { blob, executable } => {
                    add(if *executable { "program" } else { "file" });
                    add(blob);
                }
                Content::Link(target) => {
                    add("link");
                    add(target);
                }
                Content::Folder => add("folder"),
            }
        }
        hasher.finalize().to_hex().to_string()
    }

    /// The digests of its files.
    pub fn blobs(&self) -> impl Iterator<Item = &str> {
        self.entries.iter().filter_map(|entry| match &entry.content {
            Content::File { blob, .. } => Some(blob.as_str()),
            Content::Link(_) | Content::Folder => None,
        })
    }

    /// The first entry that would leave the tree, or that lies below another one.
    pub fn defect(&self) -> Option<&str> {
        let mut paths: BTreeSet<&Path> = BTreeSet::new();
        for Entry { path, content } in &self.entries {
            let (path, text) = (Path::new(path.as_str()), path.as_str());
            let normal = |path: &Path| path.components().all(|part| matches!(part, Component::Normal(_)));
            let bad_blob = matches!(content, Content::File { blob, .. } if !is_digest(blob));
            let leaves = matches!(content, Content::Link(target) if !stays(path, Path::new(target)));
            if text.is_empty() || !normal(path) || bad_blob || leaves || !paths.insert(path) {
                return Some(text);
            }
        }
        let is_below = |entry: &&Entry| Path::new(&entry.path).ancestors().skip(1).any(|folder| paths.contains(folder));
        self.entries.iter().find(is_below).map(|entry| entry.path.as_str())
    }
}

/// True if a link at `path` stays in the folder that `path` begins in.
pub(super) fn stays(path: &Path, target: &Path) -> bool {
    let mut depth = path.components().count().saturating_sub(1);
    for part in target.components() {
        match part {
            Component::Normal(_) => depth += 1,
            Component::CurDir => {}
            Component::ParentDir if depth > 0 => depth -= 1,
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => return false,
        }
    }
    true
}

/// The folder with the lists of trees, beside that with the trees.
pub const LISTS: &str = "lists";

/// The digests of the files of a tree as they were sent, by their paths as text; empty if `tree` is not a tree with a list.
pub fn sent_files(tree: &Path) -> BTreeMap<String, String> {
    let list = || {
        let name = tree.file_name().filter(|name| name.to_str().is_some_and(is_digest))?;
        let text = fs::read(tree.parent()?.parent()?.join(LISTS).join(name)).ok()?;
        serde_json::from_slice::<Tree>(&text).ok().filter(|tree| Some(tree.digest().as_str()) == name.to_str())
    };
    let entries = list().unwrap_or_default().entries.into_iter();
    let file = |Entry { path, content }: Entry| match content {
        Content::File { blob, .. } => {
            let path = Path::new(&path);
            Some((path_text(path), digest_of(path, &blob)))
        }
        Content::Link(_) | Content::Folder => None,
    };
    entries.filter_map(file).collect()
}

/// True if a text is a digest in hexadecimal.
pub fn is_digest(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str) -> Entry {
        Entry { path: path.into(), content: Content::File { blob: "0".repeat(64), executable: false } }
    }

    fn link(path: &str, to: &str) -> Entry {
        Entry { path: path.into(), content: Content::Link(to.into()) }
    }

    #[test]
    fn a_digest_is_of_the_entries_in_any_order() {
        let tree = Tree::new(vec![file("a"), file("b/c")]);
        assert_eq!(tree.digest(), Tree::new(vec![file("b/c"), file("a")]).digest());
        for other in [vec![file("a")], vec![file("a"), file("b/d")], vec![file("a"), link("b/c", "a")]] {
            assert_ne!(tree.digest(), Tree::new(other).digest());
        }
    }

    #[test]
    fn nothing_leaves_a_tree() {
        assert_eq!(Tree::new(vec![file("a"), file("b/c"), link("b/d", "../a")]).defect(), None);
        let hostile_entries = [
            vec![file("../a")],
            vec![file("/a")],
            vec![file("")],
            vec![file("a/../../b")],
            vec![link("a", "/etc/passwd")],
            vec![link("b/a", "../../x")],
            vec![file("a"), file("a")],
            vec![link("a", "."), file("a/b")],
            vec![Entry { path: "a".into(), content: Content::File { blob: "../x".into(), executable: false } }],
        ];
        for entries in hostile_entries {
            assert!(Tree::new(entries.clone()).defect().is_some(), "{entries:?}");
        }
    }
}
