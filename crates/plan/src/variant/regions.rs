//! Patches that each remove a marked region of the code, or that each make a commit.

use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use fs_err as fs;
use sweep_job::Ignore;

use crate::{
    host::{self, project_of},
    recipe::is_name,
};

/// Comments of languages.
const COMMENTS: [&str; 5] = ["#", "//", "--", ";", "%"];
/// The word after the comment at the beginning of a region.
const BEGIN: &str = "ablate:";
/// The word before the replacement of a region.
const ELSE: &str = "else";
/// The word at its end.
const END: &str = "end";
/// The statement of Python that does nothing.
const PASS: &str = "pass";
/// Largest file that is searched for regions, in bytes.
const MAX_FILE: u64 = 4 << 20;
/// Time for Git to show a commit, and its longest difference in bytes.
const GIT_TIMEOUT: Duration = Duration::from_mins(1);
const MAX_PATCH: usize = 64 << 20;

/// Reason for missing patches.
#[derive(Debug, thiserror::Error)]
pub enum RegionError {
    /// A file cannot be read.
    #[error("`{path}` cannot be read: {error}")]
    File {
        /// The file.
        path: String,
        /// The reason.
        error: io::Error,
    },
    /// A mark is wrong.
    #[error("{path}:{line}: {reason}")]
    Mark {
        /// The file.
        path: String,
        /// The line, from 1.
        line: usize,
        /// The defect.
        reason: String,
    },
    /// There are no marks.
    #[error("no region is marked: write `# ablate: NAME` before a part of the code, and `# end` after it")]
    None,
    /// There are no commits.
    #[error("`{0}` names no commits: write a range such as `main..feature`")]
    NoCommits(String),
    /// Git fails.
    #[error("the commit {0} cannot be shown by `git`")]
    Git(String),
}

/// A region of a file: the lines of its marks and of its replacement, from 0.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Region {
    name: String,
    begin: usize,
    otherwise: Option<usize>,
    end: usize,
}

/// The patches of the regions that files, and files in folders, have marked, by their names. A name that occurs several times is
/// one patch. Paths in the patches start from the project's folder.
///
/// # Errors
/// A file cannot be read, a mark is invalid, or no region is marked.
pub fn of_regions(paths: &[PathBuf]) -> Result<BTreeMap<String, Vec<u8>>, RegionError> {
    let mut patches: BTreeMap<String, Vec<u8>> = BTreeMap::new();
    for path in paths {
        let unreadable = |error| RegionError::File { path: path.display().to_string(), error };
        let real = fs::canonicalize(path).map_err(unreadable)?;
        let project = project_of(if real.is_dir() { &real } else { real.parent().unwrap_or(&real) });
        for file in files(&real).map_err(unreadable)? {
            // Data, and texts in other encodings, have no marks.
            let Ok(text) = String::from_utf8(fs::read(&file).map_err(unreadable)?) else { continue };
            let display_path = file.strip_prefix(&project).unwrap_or(&file).to_string_lossy().into_owned();
            let mark = |(line, reason): (usize, String)| RegionError::Mark {
                path: display_path.clone(),
                line: line + 1,
                reason,
            };
            let regions = regions(&text).map_err(mark)?;
            let mut names: Vec<&str> = regions.iter().map(|region| region.name.as_str()).collect();
            names.sort_unstable();
            names.dedup();
            for name in names {
                let changed_text = without(&text, &regions, name, file.extension().is_some_and(|end| end == "py"));
                let mut options = diffy::DiffOptions::new();
                // The marks alone are the context, so that the patches of neighbors go together.
                options.set_context_len(1);
                options
                    .set_original_filename(format!("a/{display_path}"))
                    .set_modified_filename(format!("b/{display_path}"));
                let difference = options.create_patch(&text, &changed_text).to_bytes();
                let patch = patches.entry(name.to_owned()).or_insert_with(|| format!("# {name}\n").into_bytes());
                patch.extend(difference);
            }
        }
    }
    if patches.is_empty() { Err(RegionError::None) } else { Ok(patches) }
}

/// The patches of the commits of a range of the repository in `folder`, in their order, each with its name. `reverts` turns them
/// around.
///
/// # Errors
/// There are no such commits, or Git fails.
pub fn of_commits(folder: &Path, range: &str, reverts: bool) -> Result<Vec<(String, Vec<u8>)>, RegionError> {
    let ask = |args: &[&str]| {
        let mut git = host::git(folder);
        host::ask(git.args(args), MAX_PATCH, Instant::now() + GIT_TIMEOUT).filter(host::Answer::is_whole)
    };
    let list = ask(&["log", "--no-merges", "--reverse", "--format=%H%x09%f", "--end-of-options", range]);
    let list = list.ok_or_else(|| RegionError::NoCommits(range.to_owned()))?;
    let mut patches: Vec<(String, Vec<u8>)> = Vec::new();
    for line in list.out().lines() {
        let (commit, subject) = line.split_once('\t').unwrap_or((line, ""));
        let mut args = vec!["show", "--format=", "--binary", "-M", "--no-color", "--no-ext-diff", "--no-textconv"];
        args.extend(reverts.then_some("-R"));
        args.extend(["--end-of-options", commit]);
        let difference = ask(&args).ok_or_else(|| RegionError::Git(commit.to_owned()))?;
        let short_id: String = commit.chars().take(8).collect();
        let mut name: String =
            subject.to_lowercase().chars().map(|char| if char == '.' { '-' } else { char }).take(60).collect();
        if !is_name(&name) || patches.iter().any(|(other, _)| *other == name) {
            name = format!("commit-{short_id}");
        }
        let patch = [format!("# {name}\n").into_bytes(), difference.text].concat();
        patches.push((name, patch));
    }
    if patches.is_empty() { Err(RegionError::NoCommits(range.to_owned())) } else { Ok(patches) }
}

/// The files that may have marks: the path itself, or the files in the folder, sorted.
fn files(path: &Path) -> io::Result<Vec<PathBuf>> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let ignore = Ignore::new(&[]).unwrap_or_default();
    let (mut paths, mut queue) = (Vec::new(), vec![path.to_owned()]);
    while let Some(folder) = queue.pop() {
        for entry in fs::read_dir(&folder)? {
            let entry = entry?;
            let (path, kind) = (entry.path(), entry.file_type()?);
            let name = entry.file_name();
            if ignore.is_ignored(&name.to_string_lossy(), kind.is_dir()) || name.as_encoded_bytes().starts_with(b".") {
                continue;
            }
            if kind.is_dir() {
                queue.push(path);
            } else if kind.is_file()
                && entry.metadata()?.len() <= MAX_FILE
                && path.extension().is_none_or(|end| end != "patch")
            {
                paths.push(path);
            }
        }
    }
    paths.sort();
    Ok(paths)
}

/// The words of a comment, if a line is one.
fn comment(line: &str) -> Option<&str> {
    let line = line.trim();
    COMMENTS.iter().find_map(|mark| line.strip_prefix(mark)).map(str::trim)
}

/// The regions of a text; or a line, from 0, with the defect of its mark.
fn regions(text: &str) -> Result<Vec<Region>, (usize, String)> {
    let mut finished_regions: Vec<Region> = Vec::new();
    let mut open_region: Option<Region> = None;
    for (at, line) in text.lines().enumerate() {
        let Some(words) = comment(line) else { continue };
        if let Some(name) = words.strip_prefix(BEGIN).map(str::trim) {
            if let Some(region) = open_region {
                return Err((at, format!("the region `{}` has not ended; regions cannot be nested", region.name)));
            }
            if !is_name(name) {
                return Err((at, format!("`{name}` is not a valid name: use letters, digits, `_` and `-`")));
            }
            open_region = Some(Region { name: name.to_owned(), begin: at, otherwise: None, end: at });
        } else if words == ELSE && open_region.as_ref().is_some_and(|region| region.otherwise.is_none()) {
            if let Some(region) = &mut open_region {
                region.otherwise = Some(at);
            }
        } else if words == END
            && let Some(region) = open_region.take()
        {
            finished_regions.push(Region { end: at, ..region });
        }
    }
    match open_region {
        Some(region) => Err((region.begin, format!("the region `{}` has no `end`", region.name))),
        None => Ok(finished_regions),
    }
}

/// A text without the regions of a name. Lines after `else` in a region, which are comments, are its replacement.
fn without(text: &str, regions: &[Region], name: &str, is_python: bool) -> String {
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let mut output = String::new();
    for (at, line) in lines.iter().enumerate() {
        let Some(region) =
            regions.iter().find(|region| region.name == name && (region.begin..=region.end).contains(&at))
        else {
            output.push_str(line);
            continue;
        };
        if at == region.begin || at == region.end || Some(at) == region.otherwise {
            output.push_str(line);
            if at == region.begin && is_python && region.otherwise.is_none() {
                output.extend(only_statement(&lines, region));
            }
        } else if region.otherwise.is_some_and(|else_line| at > else_line) {
            output.push_str(&uncommented(line));
        }
    }
    output
}

/// The statement that replaces a region, if a block of Python would be empty without the region.
fn only_statement(lines: &[&str], region: &Region) -> Option<String> {
    let is_code = |line: &&&str| !line.trim().is_empty() && comment(line).is_none();
    let indent = |line: &str| line.len() - line.trim_start().len();
    let line_before = lines[..region.begin].iter().rev().find(is_code)?;
    let line_inside = lines[region.begin..region.end].iter().find(is_code)?;
    let line_after = lines[region.end..].iter().find(is_code);
    let begins_block = line_before.trim_end().ends_with(':') && indent(line_inside) > indent(line_before);
    let is_alone = line_after.is_none_or(|line_after| indent(line_after) < indent(line_inside));
    let end = if lines[region.begin].ends_with("\r\n") { "\r\n" } else { "\n" };
    (begins_block && is_alone).then(|| format!("{}{PASS}{end}", &line_inside[..indent(line_inside)]))
}

/// A line without its comment mark and one space after it.
fn uncommented(line: &str) -> String {
    let indent = line.len() - line.trim_start().len();
    let (space, tail) = line.split_at(indent);
    let mark = COMMENTS.iter().find_map(|mark| tail.strip_prefix(mark));
    mark.map_or_else(|| line.to_owned(), |tail| format!("{space}{}", tail.strip_prefix(' ').unwrap_or(tail)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const CODE: &str = "def f(x):\n    # ablate: rope\n    x = rope(x)\n    # end\n    # ablate: norm\n    x = norm(x)\n    # else\n    # x = x * 2\n    # end\n    return x\n\nif True:\n    # ablate: log\n    print(1)\n    # end\n";

    #[test]
    fn regions_are_removed_or_replaced() {
        let regions = regions(CODE).unwrap();
        assert_eq!(regions.iter().map(|region| region.name.as_str()).collect::<Vec<_>>(), ["rope", "norm", "log"]);
        let rope = without(CODE, &regions, "rope", true);
        assert!(rope.contains("    # ablate: rope\n    # end\n    # ablate: norm\n    x = norm(x)\n"), "{rope}");
        let norm = without(CODE, &regions, "norm", true);
        assert!(norm.contains("    # ablate: norm\n    # else\n    x = x * 2\n    # end\n    return x"), "{norm}");
        let log = without(CODE, &regions, "log", true);
        assert!(log.ends_with("if True:\n    # ablate: log\n    pass\n    # end\n"), "a block has a statement: {log}");
    }

    #[test]
    fn a_wrong_mark_is_refused_with_its_line() {
        for (text, line, reason) in [
            ("# ablate: a\nx\n", 0, "has no `end`"),
            ("# ablate: a\n# ablate: b\n# end\n# end\n", 1, "has not ended"),
            ("x\n// ablate: no rope\n// end\n", 1, "is not a valid name"),
        ] {
            let (at, message) = regions(text).unwrap_err();
            assert_eq!(at, line, "{text}");
            assert!(message.contains(reason), "{message}");
        }
        assert_eq!(regions("# end\n# else\n"), Ok(Vec::new()), "other comments");
    }

    #[test]
    fn patches_of_neighbors_go_together() {
        let place = tempfile::tempdir().unwrap();
        let project = place.path().canonicalize().unwrap().join("project");
        fs::create_dir_all(&project).unwrap();
        fs::write(project.join("pyproject.toml"), "").unwrap();
        fs::write(project.join("model.py"), CODE).unwrap();
        fs::write(project.join("data.bin"), [255, 254]).unwrap();
        let patches = of_regions(std::slice::from_ref(&project)).unwrap();
        assert_eq!(patches.keys().collect::<Vec<_>>(), ["log", "norm", "rope"]);
        for (name, patch) in &patches {
            fs::write(project.join(format!("{name}.patch")), patch).unwrap();
        }
        let mut changed = CODE.to_owned();
        for name in ["rope", "norm", "log"] {
            changed = without(&changed, &regions(&changed).unwrap(), name, true);
        }
        let value = sweep_job::Value::List(
            ["log", "norm", "rope"].map(|name| sweep_job::Value::Text(format!("{name}.patch"))).into(),
        );
        let layer =
            super::super::Variants::default().layer(&value, &project, &project, &place.path().join("results")).unwrap();
        assert_eq!(fs::read_to_string(layer.at(&project.join("model.py"))).unwrap(), changed);
        assert!(matches!(of_regions(&[project.join("pyproject.toml")]), Err(RegionError::None)));
    }
}
