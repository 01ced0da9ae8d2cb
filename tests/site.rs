//! The site of the documentation: every page is in it, and every link leads somewhere.

#![expect(clippy::unwrap_used, reason = "in a test a panic is the message")]

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    process::Command,
};

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// The files of a folder with an extension, by name.
fn files(folder: &Path, extension: &str) -> BTreeMap<String, String> {
    let entries = fs_err::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let fitting = entries.filter(|path| path.extension().is_some_and(|end| end == extension));
    let name = |path: &Path| path.file_name().unwrap().to_str().unwrap().to_owned();
    fitting.map(|path| (name(&path), fs_err::read_to_string(&path).unwrap())).collect()
}

/// A page without its blocks of code.
fn prose(text: &str) -> String {
    let mut inside = false;
    let mut kept = String::new();
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            inside = !inside;
        } else if !inside {
            kept.extend([line, "\n"]);
        }
    }
    kept
}

/// The targets of the links and pictures of a page.
fn links(text: &str) -> Vec<String> {
    // Without code: `f[0](x)` is none.
    let text: String = prose(text).split('`').step_by(2).collect();
    text.split("](").skip(1).filter_map(|rest| Some(rest.split(')').next()?.to_owned())).collect()
}

/// The anchors of a page's headings, as GitHub and mdbook make them.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for heading in prose(text).lines().filter_map(|line| Some(line.strip_prefix('#')?.trim_start_matches('#').trim())) {
        let kept = heading.to_lowercase();
        let kept = kept.chars().filter(|char| char.is_alphanumeric() || " -_".contains(*char));
        let anchor: String = kept.map(|char| if char == ' ' { '-' } else { char }).collect();
        let again = (1..).map(|n| format!("{anchor}-{n}"));
        let free = std::iter::once(anchor.clone()).chain(again).find(|name| !found.contains(name));
        found.extend(free);
    }
    found
}

#[test]
fn every_page_is_in_the_summary() {
    let pages = files(&root().join("docs"), "md");
    let listed: BTreeSet<String> = links(&pages["SUMMARY.md"]).into_iter().collect();
    let there: BTreeSet<String> = pages.into_keys().filter(|name| name != "SUMMARY.md").collect();
    assert_eq!(listed, there);
}

#[test]
fn every_link_between_pages_leads_somewhere() {
    let mut pages: BTreeMap<PathBuf, String> = files(&root().join("docs"), "md")
        .into_iter()
        .map(|(name, text)| (root().join("docs").join(name), text))
        .collect();
    pages.extend(files(&root(), "md").into_iter().map(|(name, text)| (root().join(name), text)));
    let mut seen = 0;
    for (path, text) in &pages {
        for link in links(text).into_iter().filter(|link| !link.contains("://") && !link.starts_with("mailto:")) {
            seen += 1;
            let (file, anchor) = link.split_once('#').unwrap_or((&link, ""));
            let target = if file.is_empty() { path.clone() } else { path.parent().unwrap().join(file) };
            assert!(target.exists(), "{}: there is no {link}", path.display());
            if !anchor.is_empty() {
                let text = fs_err::read_to_string(&target).unwrap();
                assert!(anchors(&text).contains(anchor), "{}: there is no heading for {link}", path.display());
            }
        }
    }
    assert!(seen > 60, "{seen}");
}

/// The program that makes the site, or none where scripts/test-deps.sh has not installed it.
fn mdbook() -> Option<PathBuf> {
    let kept = std::env::home_dir().map(|home| home.join(".cache/sweep/mdbook/bin/mdbook"));
    let found = std::env::var_os("MDBOOK").map(PathBuf::from).or(kept).filter(|path| path.exists());
    if found.is_none() {
        eprintln!("not tested: scripts/test-deps.sh has not installed mdbook");
    }
    found
}

/// The values of an attribute in a page of HTML.
fn values<'t>(html: &'t str, attribute: &str) -> Vec<&'t str> {
    let opening = format!(" {attribute}=\"");
    html.split(opening.as_str()).skip(1).filter_map(|rest| rest.split('"').next()).collect()
}

#[test]
fn the_site_builds_and_its_links_lead_somewhere() {
    let Some(mdbook) = mdbook() else { return };
    let folder = tempfile::tempdir().unwrap();
    let site = folder.path().join("book");
    let output = Command::new(mdbook).arg("build").arg(root()).arg("--dest-dir").arg(&site).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr) + String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && !said.contains("WARN") && !said.contains("ERROR"), "{said}");
    let pages = files(&site, "html");
    let ids: BTreeMap<&str, BTreeSet<&str>> =
        pages.iter().map(|(name, html)| (name.as_str(), values(html, "id").into_iter().collect())).collect();
    // These two repeat the others: one for printing, one for addresses that do not exist.
    let own = pages.iter().filter(|(name, _)| !["print.html", "404.html", "toc.html"].contains(&name.as_str()));
    let mut seen = 0;
    for (name, html) in own {
        let main = html.split("<main>").nth(1).unwrap_or_default().split("</main>").next().unwrap_or_default();
        let targets = values(main, "href").into_iter().chain(values(main, "src"));
        for link in targets.filter(|link| !link.contains("://")) {
            seen += 1;
            let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
            // The site lies beside the folders of the repository.
            let target = match file.strip_prefix("../") {
                Some(rest) => root().join(rest),
                None => site.join(if file.is_empty() { name } else { file }),
            };
            assert!(target.exists(), "{name}: there is no {link}");
            if !anchor.is_empty() && !file.starts_with("../") {
                let page = if file.is_empty() { name.as_str() } else { file };
                assert!(ids[page].contains(anchor), "{name}: there is no heading for {link}");
            }
        }
    }
    assert!(seen > 100, "{seen}");
}

#[test]
fn the_citation_has_the_version_of_the_program() {
    let citation = fs_err::read_to_string(root().join("CITATION.cff")).unwrap();
    let version = citation.lines().find_map(|line| line.strip_prefix("version: ")).unwrap();
    assert_eq!(version, env!("CARGO_PKG_VERSION"));
}

#[test]
fn the_notes_of_a_release_are_its_section_of_the_changelog() {
    let notes = |version: &str| Command::new(root().join("scripts/release-notes.sh")).arg(version).output().unwrap();
    let there = notes("Unreleased");
    let text = String::from_utf8(there.stdout).unwrap();
    assert!(there.status.success() && text.contains("### ") && !text.contains("\n## "), "{text}");
    let missing = notes("0.0.0-missing");
    assert!(!missing.status.success() && missing.stdout.is_empty());
    assert!(String::from_utf8_lossy(&missing.stderr).contains("has no section for 0.0.0-missing"));
}
