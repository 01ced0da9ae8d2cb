//! Resources: the texts of recipes, and tables and verdicts of reports.

use std::{
    borrow::Cow,
    fs, io,
    path::{Path, PathBuf},
};

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use rmcp::model::{Resource, ResourceContents, ResourceTemplate};
use serde_json::{Map, Value};

use super::{
    session::Session,
    tool::{Fault, FaultKind, Tool},
};

/// Beginnings of addresses. A path follows.
const RECIPES: &str = "sweep://recipes/";
const REPORTS: &str = "sweep://reports/";
const ANSWERS: &str = "sweep://answers/";

/// Largest resource, in bytes.
const MAX_RESOURCE_BYTES: u64 = 256 << 10;

/// Maximum depth of the listed folders, below the folder of all reports.
const MAX_DEPTH: usize = 4;

/// Bytes of a path that an address has in another form.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'/').remove(b'.').remove(b'-').remove(b'_').remove(b'~');

/// The address of a file.
pub(super) fn address(kind: &str, path: &str) -> String {
    format!("{kind}{}", utf8_percent_encode(path, ENCODED))
}

/// All resources: recipes, then the tables and verdicts of reports.
pub(super) fn list(session: &Session) -> Vec<Resource> {
    let recipes = session.project.recipes(&[&session.results]).into_iter().map(|recipe| {
        let resource = Resource::new(address(RECIPES, &recipe.path), recipe.path.clone()).with_mime_type("text/yaml");
        match recipe.about {
            Some(about) => resource.with_description(about),
            None => resource,
        }
    });
    let reports = session.results.join("reports");
    let mut files = Vec::new();
    if !session.permissions.one_bit {
        walk(&reports, &reports, 0, &mut files);
    }
    files.sort();
    let reports = files.into_iter().map(|path| {
        let kind = media(Path::new(&path));
        Resource::new(address(REPORTS, &path), path).with_mime_type(kind)
    });
    recipes.chain(reports).collect()
}

/// The forms of addresses.
pub(super) fn templates() -> Vec<ResourceTemplate> {
    vec![
        ResourceTemplate::new(format!("{RECIPES}{{+path}}"), "recipe")
            .with_description("A recipe or sweep file, by its path from the project's folder")
            .with_mime_type("text/yaml"),
        ResourceTemplate::new(format!("{REPORTS}{{+path}}"), "report")
            .with_description("A table (`tables/NAME.md`, `.csv`, `.tex`) or the verdicts (`claims.json`) of a report"),
        ResourceTemplate::new(format!("{ANSWERS}{{tool}}"), "answer")
            .with_description("The JSON Schema of the answers of a tool")
            .with_mime_type("application/json"),
    ]
}

/// The JSON Schema of a tool's answers, if `uri` is its address.
pub(super) fn of_answers(tools: &[Tool], uri: &str) -> Option<ResourceContents> {
    let tool = tools.iter().find(|tool| uri.strip_prefix(ANSWERS) == Some(tool.name))?;
    let text = Value::Object(Map::clone(&tool.output)).to_string();
    Some(ResourceContents::text(text, uri).with_mime_type("application/json"))
}

/// The text of a resource.
pub(super) fn read(session: &Session, uri: &str) -> Result<ResourceContents, Fault> {
    let not_found = || {
        let fault = Fault::new(FaultKind::NotFound, format!("there is no resource `{uri}`"));
        fault.help("`resources/list` lists the addresses")
    };
    let decode = |path: &str| percent_decode_str(path).decode_utf8().map(Cow::into_owned).map_err(|_| not_found());
    if session.permissions.one_bit && uri.starts_with(REPORTS) {
        return Err(not_found());
    }
    let file = if let Some(path) = uri.strip_prefix(RECIPES) {
        let path = session.project.inside(&decode(path)?)?;
        let is_yaml = path.extension().is_some_and(|extension| extension == "yaml" || extension == "yml");
        if is_yaml { session.project.root().join(path) } else { return Err(not_found()) }
    } else if let Some(path) = uri.strip_prefix(REPORTS) {
        let root = session.results.join("reports");
        inside(&root, &decode(path)?).filter(|path| is_shown(path)).ok_or_else(not_found)?
    } else {
        return Err(not_found());
    };
    let size = fs::metadata(&file).map_err(|_| not_found())?.len();
    if size > MAX_RESOURCE_BYTES {
        let fault = Fault::new(
            FaultKind::Failed,
            format!("`{uri}` has {size} bytes, more than the {MAX_RESOURCE_BYTES} that are sent"),
        );
        return Err(fault.help("`report` and `query` answer in parts"));
    }
    let text = fs::read_to_string(&file).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => not_found(),
        _ => Fault::io("cannot read the resource")(error),
    })?;
    Ok(ResourceContents::text(text, uri).with_mime_type(media(&file)))
}

/// Returns the file at `path` below `root`, if it is still below `root` after all links are resolved.
fn inside(root: &Path, path: &str) -> Option<PathBuf> {
    let root = fs::canonicalize(root).ok()?;
    let file = fs::canonicalize(root.join(path)).ok()?;
    (file.starts_with(&root) && file.is_file()).then_some(file)
}

/// True for tables and verdicts.
fn is_shown(path: &Path) -> bool {
    path.extension().is_some_and(|extension| ["md", "csv", "tex"].iter().any(|candidate| extension == *candidate))
        || path.file_name().is_some_and(|name| name == "claims.json")
}

fn media(path: &Path) -> &'static str {
    match path.extension().and_then(|end| end.to_str()) {
        Some("json") => "application/json",
        Some("md") => "text/markdown",
        Some("csv") => "text/csv",
        Some("yaml" | "yml") => "text/yaml",
        _ => "text/plain",
    }
}

/// The Markdown tables and the verdicts below a folder, as paths relative to the folder of all reports.
fn walk(root: &Path, folder: &Path, depth: usize, files: &mut Vec<String>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let Ok(kind) = entry.file_type() else { continue };
        let path = entry.path();
        if kind.is_dir() && depth < MAX_DEPTH {
            walk(root, &path, depth + 1, files);
        } else if kind.is_file()
            && is_shown(&path)
            && path.extension().is_none_or(|extension| extension != "csv" && extension != "tex")
        {
            files.extend(path.strip_prefix(root).ok().and_then(Path::to_str).map(str::to_owned));
        }
    }
}
