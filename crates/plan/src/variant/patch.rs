//! Patches: unified differences, also in the form of Git with renames, modes and binary files.

use std::{
    ffi::OsStr,
    os::unix::ffi::{OsStrExt as _, OsStringExt as _},
    path::{Path, PathBuf},
};

use diffy::{
    Patch,
    patch_set::{FileMode, FileOperation, FilePatch, ParseOptions, PatchKind, PatchSet},
};

use super::{
    VariantError,
    draft::{Content, Draft},
    is_direct, is_place,
};

/// The first words of a file's part in a patch of Git.
const OF_GIT: &[u8] = b"diff --git ";

/// The folders from which the paths of a patch may start.
pub(super) struct Roots<'a> {
    /// The project's path in its repository.
    pub(super) prefix: &'a Path,
    /// The recipe's path in the project.
    pub(super) inner: &'a Path,
}

/// A patch that is being applied.
struct Applied<'a> {
    roots: &'a Roots<'a>,
    draft: &'a mut Draft,
    name: &'a str,
}

impl Roots<'_> {
    /// Applies the patch `text`, the content of the file `name`, to a draft.
    ///
    /// # Errors
    /// The text is no patch, or a part of it does not fit.
    pub(super) fn apply(&self, draft: &mut Draft, name: &str, text: &[u8]) -> Result<(), VariantError> {
        let mut applied = Applied { roots: self, draft, name };
        let is_of_git = text.split(|byte| *byte == b'\n').any(|line| line.starts_with(OF_GIT));
        let options = if is_of_git { ParseOptions::gitdiff() } else { ParseOptions::unidiff() };
        let mut count = 0;
        for part in PatchSet::parse_bytes(text, options) {
            let part = part.map_err(|error| applied.no_patch(&error.to_string()))?;
            applied.part(&part)?;
            count += 1;
        }
        if count == 0 { Err(applied.no_patch("it changes no file")) } else { Ok(()) }
    }

    /// The places in the project that a path of a patch may mean, the likeliest first.
    fn places(&self, path: &[u8]) -> Vec<PathBuf> {
        let path = Path::new(OsStr::from_bytes(path.split(|byte| *byte == b'\t').next().unwrap_or(path)));
        let mut names = path.components();
        let first_length = names.next().map(|name| name.as_os_str().len());
        let tail = names.as_path();
        // `a/` and `b/`, and other sides: `i/`, `w/`, `c/`, `o/`.
        let candidates = if first_length == Some(1) { [tail, path] } else { [path, tail] };
        let mut places = Vec::new();
        for path in candidates {
            let path = path.strip_prefix(".").unwrap_or(path);
            places.extend(path.strip_prefix(self.prefix).ok().map(Path::to_owned));
            places.extend([path.to_owned(), self.inner.join(path)]);
        }
        places.retain(|place| is_place(place));
        places
    }
}

impl Applied<'_> {
    fn no_patch(&self, reason: &str) -> VariantError {
        VariantError::NoPatch { patch: self.name.to_owned(), reason: reason.to_owned() }
    }

    fn conflict(&self, file: &Path, reason: String) -> VariantError {
        VariantError::Conflict {
            patch: self.name.to_owned(),
            file: file.display().to_string(),
            reason,
            after: Vec::new(),
        }
    }

    fn part(&mut self, part: &FilePatch<'_, [u8]>) -> Result<(), VariantError> {
        if [part.old_mode(), part.new_mode()].contains(&Some(&FileMode::Gitlink)) {
            return Err(self.no_patch("it changes the commit of a submodule; use a revision"));
        }
        match part.operation() {
            FileOperation::Create(path) => {
                let place = self.new_place(path)?;
                match self.content(&place)? {
                    Content::Gone => {}
                    _ => return Err(self.conflict(&place, "it creates the file, which already exists".into())),
                }
                self.change(part, &place, place.clone(), &Content::Gone)
            }
            FileOperation::Delete(path) => {
                let (place, content) = self.existing(&[path])?;
                if let PatchKind::Text(patch) = part.patch() {
                    self.text(patch, &place, &bytes_of(&content))?;
                }
                self.draft.remove(&place);
                Ok(())
            }
            FileOperation::Modify { original, modified } => {
                let (place, content) = self.existing(&[modified, original])?;
                self.change(part, &place, place.clone(), &content)
            }
            FileOperation::Rename { from, to } => {
                let (source, content) = self.existing(&[from])?;
                let target = self.beside(&source, from, to)?;
                self.change(part, &source, target, &content)?;
                self.draft.remove(&source);
                Ok(())
            }
            FileOperation::Copy { from, to } => {
                let (source, content) = self.existing(&[from])?;
                let target = self.beside(&source, from, to)?;
                self.change(part, &source, target, &content)
            }
        }
    }

    /// Applies the part to the content `before` of `old`, and puts the result at the place `new`.
    fn change(
        &mut self,
        part: &FilePatch<'_, [u8]>,
        source: &Path,
        target: PathBuf,
        original: &Content,
    ) -> Result<(), VariantError> {
        let bytes = bytes_of(original);
        let bytes = match part.patch() {
            PatchKind::Text(patch) => self.text(patch, source, &bytes)?,
            PatchKind::Binary(patch) => {
                let result = patch.apply(&bytes);
                result
                    .map_err(|error| self.conflict(source, format!("{error} (`git diff --binary` has the content)")))?
            }
        };
        let content = match (part.new_mode(), original) {
            (Some(FileMode::Symlink), _) | (None, Content::Link(_)) => {
                Content::Link(PathBuf::from(std::ffi::OsString::from_vec(bytes)))
            }
            (Some(mode), _) => Content::File { bytes, is_executable: *mode == FileMode::Executable },
            (None, Content::File { is_executable, .. }) => Content::File { bytes, is_executable: *is_executable },
            (None, Content::Gone) => Content::File { bytes, is_executable: false },
        };
        self.draft.set(target, content);
        Ok(())
    }

    /// The content with the hunks of a text. Ends of lines may differ: the file keeps its own.
    fn text(&self, patch: &Patch<'_, [u8]>, place: &Path, original: &[u8]) -> Result<Vec<u8>, VariantError> {
        let first_error = match diffy::apply_bytes(original, patch) {
            Ok(new_text) => return Ok(new_text),
            Err(error) => error,
        };
        let plain_patch = without_returns(&patch.to_bytes());
        if let Ok(patch) = Patch::from_bytes(&plain_patch)
            && let Ok(new_text) = diffy::apply_bytes(&without_returns(original), &patch)
        {
            return Ok(if has_returns(original) { with_returns(&new_text) } else { new_text });
        }
        if diffy::apply_bytes(original, &patch.reverse()).is_ok() {
            return Err(self.conflict(place, "its changes are already applied".into()));
        }
        // The number of the hunk is in the error's text alone.
        let text = first_error.to_string();
        let number: Option<usize> = text.rsplit('#').next().and_then(|number| number.trim().parse().ok());
        let hunk = number.and_then(|number| patch.hunks().get(number.checked_sub(1)?));
        let reason = match (number, hunk) {
            (Some(number), Some(hunk)) => {
                format!("hunk {number} of {}, for line {}, does not fit", patch.hunks().len(), hunk.old_range().start())
            }
            _ => text,
        };
        Err(self.conflict(place, reason))
    }

    fn content(&self, place: &Path) -> Result<Content, VariantError> {
        self.draft.content(place).map_err(VariantError::file(place))
    }

    /// The first existing file among the places that these paths may mean.
    fn existing(&self, paths: &[&[u8]]) -> Result<(PathBuf, Content), VariantError> {
        let mut places: Vec<PathBuf> = paths.iter().flat_map(|path| self.roots.places(path)).collect();
        places.retain(|place| is_direct(self.draft.project(), place));
        for place in &places {
            match self.draft.content(place) {
                Ok(Content::Gone) => {}
                Ok(content) => return Ok((place.clone(), content)),
                // A folder of this name.
                Err(error) if self.draft.project().join(place).is_dir() => drop(error),
                Err(error) => return Err(VariantError::file(place)(error)),
            }
        }
        match places.first() {
            Some(place) => Err(self.conflict(place, "there is no such file".into())),
            None => Err(self.outside(paths.first().copied().unwrap_or_default())),
        }
    }

    /// The place of a created file.
    fn new_place(&self, path: &[u8]) -> Result<PathBuf, VariantError> {
        let places = self.roots.places(path);
        let has_folder = |place: &&PathBuf| {
            let folder = place.parent().filter(|folder| !folder.as_os_str().is_empty());
            folder.is_some_and(|folder| self.draft.project().join(folder).is_dir())
        };
        let place = places.iter().find(has_folder).or_else(|| places.first());
        place.cloned().ok_or_else(|| self.outside(path))
    }

    /// The place of a new name, which starts where the old one does.
    fn beside(&self, source: &Path, from: &[u8], to: &[u8]) -> Result<PathBuf, VariantError> {
        let index = self.roots.places(from).iter().position(|place| place == source);
        let places = self.roots.places(to);
        let place = index.and_then(|index| places.get(index)).or_else(|| places.first());
        place.cloned().ok_or_else(|| self.outside(to))
    }

    fn outside(&self, path: &[u8]) -> VariantError {
        VariantError::Outside {
            what: format!("`{}`", self.name),
            path: String::from_utf8_lossy(path).into_owned(),
            project: self.draft.project().display().to_string(),
        }
    }
}

fn bytes_of(content: &Content) -> Vec<u8> {
    match content {
        Content::File { bytes, .. } => bytes.clone(),
        Content::Link(target) => target.as_os_str().as_bytes().to_vec(),
        Content::Gone => Vec::new(),
    }
}

fn has_returns(text: &[u8]) -> bool {
    text.windows(2).any(|pair| pair == b"\r\n")
}

fn without_returns(text: &[u8]) -> Vec<u8> {
    let lines = text.split_inclusive(|byte| *byte == b'\n');
    lines
        .flat_map(|line| line.strip_suffix(b"\r\n").map_or_else(|| line.to_vec(), |line| [line, b"\n"].concat()))
        .collect()
}

fn with_returns(text: &[u8]) -> Vec<u8> {
    let lines = text.split_inclusive(|byte| *byte == b'\n');
    lines
        .flat_map(|line| line.strip_suffix(b"\n").map_or_else(|| line.to_vec(), |line| [line, b"\r\n"].concat()))
        .collect()
}
