//! Agreement of documentation and code: its recipes plan, and its tables are the declarations.

#![expect(clippy::unwrap_used, reason = "in a test a panic is the message")]

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    path::{Path, PathBuf},
};

use sweep_engine::{
    plan::Plan,
    recipe::{Declaration, Draft, Key, Request, schema},
};
use sweep_job::{Backend, Param, Task, TaskInfo};

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn plan(path: &Path, text: String) -> Plan {
    let draft = Draft::parse(path, text, &[]).unwrap_or_else(|problems| panic!("{}", problems.render(false, 100)));
    match Plan::new(draft, Backend::Cpu) {
        Ok(plan) => plan,
        Err(sweep_engine::plan::PlanError::Invalid(problems)) => panic!("{}", problems.render(false, 100)),
        Err(error) => panic!("{error}"),
    }
}

/// The README and the pages of the documentation.
fn pages() -> Vec<PathBuf> {
    let entries = std::fs::read_dir(root().join("docs")).unwrap().map(|entry| entry.unwrap().path());
    let mut pages: Vec<PathBuf> = entries.filter(|path| path.extension().is_some_and(|end| end == "md")).collect();
    pages.push(root().join("README.md"));
    pages.sort();
    pages
}

/// The blocks of YAML of a page.
fn blocks(text: &str) -> Vec<&str> {
    text.split("```yaml\n").skip(1).map(|rest| rest.split("```").next().unwrap()).collect()
}

#[test]
fn every_shipped_recipe_plans() {
    let mut count = 0;
    for entry in std::fs::read_dir(root().join("recipes")).unwrap() {
        let path = entry.unwrap().path();
        assert!(!plan(&path, std::fs::read_to_string(&path).unwrap()).is_empty(), "{}", path.display());
        count += 1;
    }
    assert!(count >= 2, "bitter and check, at least");
}

#[test]
fn every_shipped_sweep_plans() {
    for entry in std::fs::read_dir(root().join("sweeps")).unwrap() {
        let paths = [entry.unwrap().path()];
        let draft = Draft::load(&Request { paths: &paths, ..Request::default() }).unwrap();
        assert!(!Plan::new(draft, Backend::Cpu).unwrap().is_empty(), "{}", paths[0].display());
    }
}

#[test]
fn everything_in_the_documentation_plans() {
    // The files that the examples read.
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("example")).unwrap();
    for name in ["train.py", "corpus.txt"] {
        std::fs::write(folder.path().join("example").join(name), "").unwrap();
        std::fs::write(folder.path().join(name), "").unwrap();
    }
    std::fs::create_dir(folder.path().join("conf")).unwrap();
    std::fs::write(folder.path().join("conf/a.yaml"), "optim: { lr: 0.1 }\nlayers: [{ units: 8 }]\n").unwrap();
    // Blocks that build upon another recipe build upon the first one of the reference.
    let first = blocks(&std::fs::read_to_string(root().join("docs/recipe.md")).unwrap())[0].to_owned();
    std::fs::write(folder.path().join("example.yaml"), first).unwrap();
    let (mut recipes, mut sweeps) = (0, 0);
    for file in pages() {
        for block in blocks(&std::fs::read_to_string(&file).unwrap()) {
            let has = |key: &str| block.lines().any(|line| line.starts_with(key));
            if has("steps:") || has("extends:") {
                recipes += 1;
                plan(&folder.path().join("other.yaml"), block.to_owned());
            } else if has("recipe:") || has("recipes:") {
                sweeps += 1;
                let path = folder.path().join("sweep.yaml");
                std::fs::write(&path, block).unwrap();
                let draft = Draft::load(&Request { paths: &[path], ..Request::default() });
                let draft = draft.unwrap_or_else(|problems| panic!("{}: {block}\n{problems:?}", file.display()));
                assert!(!Plan::new(draft, Backend::Cpu).unwrap().is_empty(), "{block}");
            }
        }
    }
    assert!(recipes > 30, "{recipes}");
    assert!(sweeps > 0, "sweep files are shown, too");
}

#[test]
fn the_generated_parts_are_the_declarations() {
    let mut parts: Vec<(String, String)> =
        schema::declarations().iter().map(|mapping| (format!("keys: {}", mapping.name), keys(mapping))).collect();
    parts.extend(tasks());
    make(&parts);
}

#[test]
fn a_parameter_group_is_printed_once() {
    let text: String = tasks().into_iter().map(|(_, text)| text).collect();
    let shared = shared();
    let first: Vec<&str> = shared.iter().map(|(group, _)| group[0].name).collect();
    assert!(first.contains(&"model") && first.contains(&"data"), "{first:?}");
    for (group, _) in &shared {
        let heading = format!("\n## Parameter group `{}`\n", group[0].name);
        assert_eq!(text.matches(&heading).count(), 1, "a group's first parameter names it: {heading}");
        for param in *group {
            let row = format!("\n| `{}` | ", param.name);
            let declared = listed().flat_map(|task| task.groups).map(|group| names(group)).collect::<BTreeSet<_>>();
            let declared = declared.iter().filter(|group| group.contains(&param.name)).count();
            let metrics = listed().filter(|task| task.metric(param.name).is_some()).count();
            assert!(text.matches(&row).count() <= declared + metrics, "`{}` is printed again", param.name);
        }
    }
}

#[test]
fn every_promise_has_its_test() {
    let text = std::fs::read_to_string(root().join("docs/promises.md")).unwrap();
    let named: Vec<(&str, &str)> =
        text.split('`').skip(1).step_by(2).filter_map(|code| code.split_once("::")).collect();
    assert!(named.len() > 40, "{named:?}");
    for (file, name) in named {
        let path = if file.contains('/') {
            root().join(file)
        } else {
            root().join("crates/engine/tests/engine").join(file).with_extension("rs")
        };
        let path = if path.exists() { path } else { path.with_extension("").join("mod.rs") };
        let source = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        assert!(source.contains(&format!("fn {name}(")), "{} has no test `{name}`", path.display());
    }
    let (guarantees, tests) = text.split_once("\n## Tests of the guarantees\n").unwrap();
    let guarantees: Vec<&str> =
        guarantees.lines().filter_map(|line| line.strip_prefix("- **")?.split_once("** ").map(|(id, _)| id)).collect();
    // Limits have names that end with a point.
    let guarantees: Vec<&str> = guarantees.into_iter().filter(|id| !id.contains(['.', ' '])).collect();
    let rows: Vec<Vec<&str>> = tests.lines().filter(|line| line.starts_with("| ")).skip(2).map(cells).collect();
    let proven: Vec<&str> = rows.iter().map(|row| row[0]).collect();
    assert_eq!(guarantees, proven, "each guarantee has a row, in the order of the page");
    assert!(rows.iter().all(|row| row[1].contains("::")), "each row names tests");
}

#[test]
fn every_path_in_the_documentation_exists() {
    let files = std::fs::read_dir(root().join("docs")).unwrap().map(|entry| entry.unwrap().path());
    let files =
        files.chain(["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md"].map(|file| root().join(file)));
    let mut seen = 0;
    for file in files.filter(|file| file.extension().is_some_and(|end| end == "md")) {
        let text = std::fs::read_to_string(&file).unwrap();
        for code in text.split('`').skip(1).step_by(2) {
            let ours =
                ["crates/", "src/", "tests/", "scripts/", "benches/"].iter().any(|folder| code.starts_with(folder));
            // `X` stands for a name that the reader chooses; `file::test` and commands are no paths.
            if !ours || code.contains("/X") || !code.chars().all(|char| char.is_alphanumeric() || "/._-".contains(char))
            {
                continue;
            }
            seen += 1;
            assert!(root().join(code).exists(), "{}: there is no `{code}`", file.display());
        }
    }
    assert!(seen > 30, "{seen}");
}

/// The cells of a row of a table.
fn cells(row: &str) -> Vec<&str> {
    row.trim().trim_matches('|').split(" | ").map(str::trim).collect()
}

#[test]
fn the_page_of_performance_has_results_and_no_history() {
    let text = std::fs::read_to_string(root().join("docs/performance.md")).unwrap();
    let lower = text.to_lowercase();
    let history =
        ["before", "earlier", "formerly", "previously", "no longer", "used to", "was tried", "were tried", "at first"];
    for words in history {
        assert!(!lower.contains(words), "docs/performance.md tells a history: `{words}`");
    }
    let mut results = 0;
    for section in text.split("\n## ").skip(1) {
        let title = section.lines().next().unwrap();
        for part in section.split("\n### ") {
            let lines = part.lines().skip(1).filter(|line| !line.is_empty());
            let (rows, prose): (Vec<&str>, Vec<&str>) = lines.partition(|line| line.starts_with('|'));
            let sentences = (prose.join(" ") + " ").matches(". ").count();
            assert!(sentences <= 4, "{title}: the method takes {sentences} sentences");
            let [header, _, results_of @ ..] = &rows[..] else { panic!("{title} has no table") };
            let header = cells(header);
            assert!(header.first() == Some(&"workload") && header.last() == Some(&"command"), "{title}: {header:?}");
            assert!(header.contains(&"processor"), "{title}: {header:?}");
            for row in results_of {
                let row = cells(row);
                assert_eq!(row.len(), header.len(), "{title}: {row:?}");
                assert!(row[1].contains(|char: char| char.is_ascii_digit()), "{title}: no figure: {row:?}");
                let command = row.last().unwrap();
                let is_named = ["`", "the same", "as for"].iter().any(|start| command.starts_with(start));
                assert!(is_named, "{title}: no command: {row:?}");
                results += 1;
            }
        }
    }
    assert!(results > 30, "{results}");
}

/// The text between `<!-- NAME … -->` and `<!-- /NAME -->`, as a range of the file's text.
fn between(text: &str, name: &str) -> Option<std::ops::Range<usize>> {
    let start = text.find(&format!("<!-- {name} "))?;
    let end = text.find(&format!("<!-- /{name} -->"))?;
    Some(start + text[start..].find('\n')? + 1..end)
}

/// Writes what is made from declarations into the pages that have a place for it, or holds the pages to it.
fn make(parts: &[(String, String)]) {
    let mut pages: BTreeMap<String, String> = pages()
        .into_iter()
        .filter(|path| path.parent().is_some_and(|folder| folder.ends_with("docs")))
        .map(|path| (path.file_name().unwrap().to_str().unwrap().to_owned(), std::fs::read_to_string(path).unwrap()))
        .collect();
    for (page, text) in &pages {
        for place in text.lines().filter_map(|line| line.strip_prefix("<!-- keys: ")?.strip_suffix(" -->")) {
            let is_made = parts.iter().any(|(name, _)| name.strip_prefix("keys: ") == Some(place));
            assert!(is_made, "{page} has a place for the keys of `{place}`, which are not declared");
        }
    }
    for (name, made) in parts {
        let page = pages.keys().find(|page| between(&pages[*page], name).is_some());
        let page = page.unwrap_or_else(|| panic!("no page in docs/ has a place for `{name}`")).clone();
        let made = linked(made, &page, &pages);
        let place = between(&pages[&page], name).unwrap();
        if std::env::var_os("UPDATE_DOCS").is_some() {
            pages.get_mut(&page).unwrap().replace_range(place, &made);
            std::fs::write(root().join("docs").join(&page), &pages[&page]).unwrap();
        } else {
            assert!(pages[&page][place] == *made, "{page} is stale at `{name}`: UPDATE_DOCS=1 cargo test --test docs");
        }
    }
}

/// A generated text for a page: declarations link to headings of the reference without a page, and these can be on another one.
fn linked(made: &str, page: &str, pages: &BTreeMap<String, String>) -> String {
    let mut parts = made.split("](#");
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let anchor = part.split(')').next().unwrap();
        let others =
            pages.keys().filter(|name| name.starts_with("recipe") || name.starts_with("tasks")).map(String::as_str);
        let mut candidates = std::iter::once(page).chain(others);
        // What is generated now may not be in the page yet.
        let there = candidates.find(|name| has_heading(&pages[*name], anchor)).unwrap_or(page);
        text += if there == page { "](#" } else { "](" };
        if there != page {
            text.extend([there, "#"]);
        }
        text += part;
    }
    text
}

/// True if a page has a heading with this anchor.
fn has_heading(page: &str, anchor: &str) -> bool {
    let headings = page.lines().filter(|line| line.starts_with('#')).map(|line| line.trim_start_matches('#').trim());
    headings.map(str::to_lowercase).any(|heading| {
        let kept = heading.chars().filter(|char| char.is_alphanumeric() || " -_".contains(*char));
        kept.map(|char| if char == ' ' { '-' } else { char }).collect::<String>() == anchor
    })
}

/// The table of a mapping's keys.
fn keys(mapping: &Declaration) -> String {
    let column = if mapping.name == "figure-kinds" { "kind" } else { "key" };
    let mut text = format!("| {column} | accepts | meaning |\n| --- | --- | --- |\n");
    for Key { name, doc, details, accepts, required, .. } in &mapping.keys {
        let required = if *required { "; required" } else { "" };
        let meaning = format!("{doc} {details}");
        writeln!(text, "| `{name}` | {}{required} | {} |", cell(accepts), cell(meaning.trim())).unwrap();
    }
    text
}

/// A text in a table: a bar would end the cell.
fn cell(text: &str) -> String {
    text.replace('|', r"\|")
}

fn rows(params: impl IntoIterator<Item = &'static Param>) -> String {
    let mut text = String::from("| parameter | default | accepts | meaning |\n| --- | --- | --- | --- |\n");
    for param in params {
        let default = match (param.default)() {
            sweep_job::Value::Null => "–".to_owned(),
            value => format!("`{value}`"),
        };
        writeln!(text, "| `{}` | {default} | {} | {} |", param.name, param.accepts(), param.doc).unwrap();
    }
    text
}

fn listed() -> impl Iterator<Item = &'static TaskInfo> {
    Task::all().iter().filter(|task| !task.hidden)
}

fn names(group: &[Param]) -> Vec<&'static str> {
    group.iter().map(|param| param.name).collect()
}

/// The groups of parameters that several tasks have, each once, with these tasks; the first parameter names a group.
fn shared() -> Vec<(&'static [Param], Vec<&'static str>)> {
    let mut groups: Vec<(&'static [Param], Vec<&'static str>)> = Vec::new();
    for (task, group) in listed().flat_map(|task| task.groups.iter().map(move |group| (task.name, *group))) {
        match groups.iter_mut().find(|(known, _)| names(known) == names(group)) {
            Some((_, tasks)) => tasks.push(task),
            None => groups.push((group, vec![task])),
        }
    }
    groups.retain(|(_, tasks)| tasks.len() > 1);
    groups
}

/// The generated part of the documentation that has a task.
fn part_of(task: &TaskInfo) -> &'static str {
    match (task.name, task.name.split_once('/')) {
        ("command" | "imported", _) => "tasks: programs",
        ("profile", _) | (_, Some(("bench", _))) => "tasks: measurements",
        (_, Some(("pair", _))) => "tasks: pairs",
        _ => "tasks: networks",
    }
}

/// The generated parts about tasks: the list of all, the tasks, and the groups of parameters.
fn tasks() -> Vec<(String, String)> {
    let mut list = String::from("| task | purpose |\n| --- | --- |\n");
    let mut parts: BTreeMap<&str, String> = BTreeMap::new();
    for task in listed() {
        let anchor: String = task.name.chars().filter(|char| char.is_alphanumeric() || "-_".contains(*char)).collect();
        writeln!(list, "| [`{}`](#{anchor}) | {} |", task.name, cell(&purpose(task))).unwrap();
        parts.entry(part_of(task)).or_default().push_str(&described(task));
    }
    let mut groups = String::new();
    for (group, tasks) in shared() {
        let tasks: Vec<String> = tasks.iter().map(|task| format!("`{task}`")).collect();
        write!(groups, "\n## Parameter group `{}`\n\n", group[0].name).unwrap();
        write!(groups, "Of {}.\n\n{}", tasks.join(", "), rows(group)).unwrap();
    }
    parts.extend([("tasks", list), ("tasks: parameters", groups)]);
    parts.into_iter().map(|(name, text)| (name.to_owned(), text)).collect()
}

/// The purpose of a task in a sentence.
fn purpose(task: &TaskInfo) -> String {
    let mut about = task.about.chars();
    let capital: String = about.next().into_iter().flat_map(char::to_uppercase).chain(about).collect();
    capital + "."
}

/// A task with its parameters and metrics.
fn described(task: &TaskInfo) -> String {
    let mut text = format!("\n## `{}`\n\n{}\n", task.name, purpose(task));
    let shared = shared();
    let of_several = |group: &[Param]| shared.iter().any(|(known, _)| names(known) == names(group));
    let (groups, own): (Vec<&[Param]>, Vec<&[Param]>) = task.groups.iter().partition(|group| of_several(group));
    let links: Vec<String> =
        groups.iter().map(|group| format!("[`{0}`](#parameter-group-{0})", group[0].name)).collect();
    if !links.is_empty() {
        write!(text, "\nParameter groups: {}.\n", links.join(", ")).unwrap();
    }
    if !own.is_empty() {
        write!(text, "\n{}", rows(own.into_iter().flatten())).unwrap();
    }
    text += "\n| metric | unit | meaning |\n| --- | --- | --- |\n";
    for metric in task.metrics() {
        writeln!(text, "| `{}` | {} | {} |", metric.name, metric.unit, metric.doc).unwrap();
    }
    if task.open_metrics {
        text += "| any other name |  | what the program reports |\n";
    }
    text
}
