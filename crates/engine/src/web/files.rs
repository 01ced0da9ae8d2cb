//! The reports' files, and no others.

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use axum::{
    extract::{Path as UrlPath, State},
    http::header,
    response::{IntoResponse as _, Redirect, Response},
};

use super::{Site, not_found, read};

/// File types of a report, and their media types.
const KINDS: [(&str, &str); 8] = [
    ("html", "text/html; charset=utf-8"),
    ("csv", "text/csv; charset=utf-8"),
    ("md", "text/plain; charset=utf-8"),
    ("tex", "text/plain; charset=utf-8"),
    ("json", "application/json"),
    ("svg", "image/svg+xml"),
    ("png", "image/png"),
    ("pdf", "application/pdf"),
];

/// A picture that is opened on its own must not run anything either.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; sandbox";

pub(super) async fn report(State(site): State<Arc<Site>>, UrlPath(path): UrlPath<String>) -> Response {
    let Some(kind) = kind(&path) else {
        // A folder is its page.
        let plain = path.chars().all(|char| char.is_ascii_alphanumeric() || "_-./=,+".contains(char));
        return if plain && !path.contains("..") && !path.contains("//") && !path.starts_with('/') {
            Redirect::temporary(&format!("/reports/{}/index.html", path.trim_end_matches('/'))).into_response()
        } else {
            not_found("The report does not exist.")
        };
    };
    let root = site.results.join("reports");
    match read(move || inside(&root, &path).and_then(std::fs::read)).await {
        Ok(Ok(bytes)) => {
            let mut response =
                ([(header::CONTENT_TYPE, kind), (header::CACHE_CONTROL, "no-cache")], bytes).into_response();
            if !kind.starts_with("text/html") {
                response
                    .headers_mut()
                    .insert(header::CONTENT_SECURITY_POLICY, header::HeaderValue::from_static(POLICY));
            }
            response
        }
        Ok(Err(_)) => not_found("The report does not exist."),
        Err(response) => response,
    }
}

fn kind(path: &str) -> Option<&'static str> {
    let end = Path::new(path).extension()?.to_str()?;
    KINDS.iter().find(|(known, _)| *known == end).map(|(_, kind)| *kind)
}

/// Returns the file at `path` below `root`, if it is still below `root` after all links are resolved.
fn inside(root: &Path, path: &str) -> io::Result<PathBuf> {
    let root = std::fs::canonicalize(root)?;
    let file = std::fs::canonicalize(root.join(path.trim_start_matches('/')))?;
    if file.starts_with(&root) && file.is_file() { Ok(file) } else { Err(io::ErrorKind::NotFound.into()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_outside_is_inside() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("reports");
        fs_err::create_dir_all(root.join("a")).unwrap();
        fs_err::write(root.join("a/index.html"), "page").unwrap();
        fs_err::write(folder.path().join("secret.html"), "secret").unwrap();
        std::os::unix::fs::symlink(folder.path().join("secret.html"), root.join("link.html")).unwrap();
        std::os::unix::fs::symlink(folder.path(), root.join("up")).unwrap();
        std::os::unix::fs::symlink(root.join("a/index.html"), root.join("own.html")).unwrap();
        assert!(inside(&root, "a/index.html").is_ok() && inside(&root, "own.html").is_ok());
        for outside in [
            "../secret.html",
            "a/../../secret.html",
            "link.html",
            "up/secret.html",
            "/etc/passwd",
            "a",
            "",
            "a/index.html/x",
        ] {
            assert!(inside(&root, outside).is_err(), "{outside}");
        }
    }
}
