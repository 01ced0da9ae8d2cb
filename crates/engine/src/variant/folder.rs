//! A folder whose files stand in place of those of a project.

use std::path::{Path, PathBuf};

use fs_err as fs;
use sweep_job::Ignore;

use super::{VariantError, draft::Draft, place, revision};

/// Adds the files of `folder`, at the same paths below `at`, a folder of the project. Of a worktree of the project's repository,
/// files that it does not have are not in the project either.
pub(super) fn add(draft: &mut Draft, folder: &Path, at: &Path) -> Result<(), VariantError> {
    let real = fs::canonicalize(folder).map_err(VariantError::file(folder))?;
    if revision::is_worktree(&real, draft.project()) {
        return revision::add_worktree(draft, &real);
    }
    let ignore = Ignore::new(&[]).unwrap_or_default();
    let mut open = vec![PathBuf::new()];
    while let Some(inner) = open.pop() {
        let path = real.join(&inner);
        for entry in fs::read_dir(&path).map_err(VariantError::file(&path))? {
            let entry = entry.map_err(VariantError::file(&path))?;
            let inner = inner.join(entry.file_name());
            let is_folder = entry.path().is_dir();
            if ignore.is_ignored(&inner.to_string_lossy(), is_folder) {
                continue;
            }
            if is_folder {
                open.push(inner);
                continue;
            }
            let place = place(draft.project(), &at.join(&inner)).ok_or_else(|| VariantError::Outside {
                what: "`folder`".into(),
                path: inner.display().to_string(),
                project: draft.project().display().to_string(),
            })?;
            draft.copy(&place, &entry.path()).map_err(VariantError::file(&entry.path()))?;
        }
    }
    Ok(())
}
