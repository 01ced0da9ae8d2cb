//! Follows a file or a folder whose path has `*`: programs name their folders after the time or after their parameters.

use std::{
    io,
    path::{Path, PathBuf},
};

use glob::Pattern;

use super::{
    super::report::{Follower, Series},
    follower_of,
};

/// Follower of the first file or folder that matches.
pub(super) struct Globbed {
    kind: &'static str,
    place: String,
    pattern: String,
    inner: Option<(PathBuf, Box<dyn Follower>)>,
}

impl Globbed {
    /// The follower for `place`, which is the end of `path`.
    pub(super) fn new(kind: &str, place: &str, path: &Path) -> Self {
        let kind = ["csv", "jsonl", "tensorboard"].into_iter().find(|known| *known == kind).unwrap_or_default();
        Self { kind, place: place.to_owned(), pattern: escaped(path, place), inner: None }
    }
}

impl Follower for Globbed {
    fn poll(&mut self, sink: &mut Series) -> io::Result<()> {
        if self.inner.is_none() {
            let found = found(&self.pattern).into_iter().next();
            self.inner = found.and_then(|path| Some((path.clone(), follower_of(self.kind)?(path))));
        }
        self.inner.as_mut().map_or(Ok(()), |(_, inner)| inner.poll(sink))
    }

    fn finish(&mut self, sink: &mut Series) -> io::Result<()> {
        self.poll(sink)?;
        let count = found(&self.pattern).len();
        let Some((path, inner)) = &mut self.inner else { return Ok(()) };
        if count > 1 {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            sink.once("several", || {
                format!(
                    "{count} paths match `{}` of `reads`, of which only one is read, with the name `{name}`",
                    self.place
                )
            });
        }
        inner.finish(sink)
    }

    fn silence(&self, series: &Series) -> Vec<String> {
        match &self.inner {
            Some((_, inner)) => inner.silence(series),
            None => vec![format!("`{}` of `reads: {}` was not written: no value of it", self.place, self.kind)],
        }
    }
}

/// The paths in the folder `root` that match `place`.
pub(in super::super) fn matching(root: &Path, place: &str) -> Vec<PathBuf> {
    found(&escaped(&root.join(place), place))
}

/// The pattern for a path that ends with the pattern `place`.
fn escaped(path: &Path, place: &str) -> String {
    let path = path.to_string_lossy();
    let root = path.strip_suffix(place).unwrap_or_default();
    format!("{}{place}", Pattern::escape(root))
}

/// The existing paths that match, in their order.
fn found(pattern: &str) -> Vec<PathBuf> {
    glob::glob(pattern).map(|paths| paths.flatten().collect()).unwrap_or_default()
}
