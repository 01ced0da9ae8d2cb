//! A folder whose files replace files of a project.

use std::path::{Path, PathBuf};

use fs_err as fs;
use sweep_job::Ignore;

use super::{VariantError, draft::Draft, place, revision};

/// Adds the files of `folder`, at the same paths below `at`, a folder of the project. Files that a worktree of the project's repository
/// lacks are removed from the project, too.
pub(super) fn add(draft: &mut Draft, folder: &Path, at: &Path) -> Result<(), VariantError> {
    let real = fs::canonicalize(folder).map_err(VariantError::file(folder))?;
    if revision::is_worktree(&real, draft.project()) {
        return revision::add_worktree(draft, &real);
    }
    let ignore = Ignore::new(&[]).unwrap_or_default();
    let mut queue = vec![PathBuf::new()];
    while let Some(inner_path) = queue.pop() {
        let path = real.join(&inner_path);
        for entry in fs::read_dir(&path).map_err(VariantError::file(&path))? {
            let entry = entry.map_err(VariantError::file(&path))?;
            let inner_path = inner_path.join(entry.file_name());
            let is_folder = entry.path().is_dir();
            if ignore.is_ignored(&inner_path.to_string_lossy(), is_folder) {
                continue;
            }
            if is_folder {
                queue.push(inner_path);
                continue;
            }
            let place = place(draft.project(), &at.join(&inner_path)).ok_or_else(|| VariantError::Outside {
                what: "`folder`".into(),
                path: inner_path.display().to_string(),
                project: draft.project().display().to_string(),
            })?;
            draft.copy(&place, &entry.path()).map_err(VariantError::file(&entry.path()))?;
        }
    }
    Ok(())
}
