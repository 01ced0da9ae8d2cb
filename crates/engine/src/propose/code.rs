//! The code of jobs that no key of a sealed job contains before it has run: files and packages that earlier jobs were
//! observed to read, and programs that commands name.
//!
//! A granted level is for this code. After a change, some results of sealed seeds would come from one program, and the others from a
//! program that was written after the first were seen.

use std::{
    collections::{BTreeMap, BTreeSet},
    env, io,
    path::{Path, PathBuf},
    time::UNIX_EPOCH,
};

use fs_err as fs;
use sweep_job::Value;

use crate::plan::{Job, JobId, Plan};

/// Bytes of the largest file whose content is compared. A larger one is compared by its size and its time.
const MAX_COMPARED_BYTES: u64 = 64 << 20;

/// Files and packages by name, each with its digest or version.
pub(super) type Code = BTreeMap<String, String>;

/// The present code of some jobs of a plan.
pub(super) fn code(plan: &Plan, jobs: impl IntoIterator<Item = JobId>) -> io::Result<Code> {
    let mut code = Code::new();
    let mut words = BTreeSet::new();
    for job in jobs.into_iter().map(|id| plan.job(id)) {
        if let Some(job_code) = &job.code {
            let variant = job_code.site.layer.name().map(|name| format!("variant {}: ", name.to_string_lossy()));
            let name = |path: &String| format!("{}{path}", variant.as_deref().unwrap_or_default());
            code.extend(job_code.files.iter().map(|file| (name(&file.path), file.digest.clone())));
            let packages = job_code.packages.iter();
            code.extend(packages.map(|(name, _, version)| (format!("package {name}"), version.clone())));
        }
        named(job, &mut words);
    }
    for file in words.iter().filter_map(|word| program(word)) {
        let digest = digest(&file)?;
        code.insert(file.display().to_string(), digest);
    }
    Ok(code)
}

/// The words of a command: of its arguments, of its script, and of its environment.
fn named(job: &Job, words: &mut BTreeSet<String>) {
    let mut open_values: Vec<&Value> =
        ["argv", "run", "env"].iter().filter_map(|param| job.values.get(param)).collect();
    while let Some(value) = open_values.pop() {
        match value {
            Value::Text(text) => {
                let is_between = |char: char| char.is_whitespace() || "'\"`;&|()<>=$,".contains(char);
                words.extend(text.split(is_between).filter(|word| !word.is_empty()).map(str::to_owned));
            }
            Value::List(items) => open_values.extend(items),
            Value::Map(items) => open_values.extend(items.values()),
            Value::Null | Value::Bool(_) | Value::Int(_) | Value::Float(_) => {}
        }
    }
}

/// The file that a word names: an absolute path, or a program on the path. Other files are in the job's folder, so they are
/// declared inputs.
fn program(word: &str) -> Option<PathBuf> {
    let path = Path::new(word);
    if path.is_absolute() {
        return path.is_file().then(|| path.to_owned());
    }
    if word.contains('/') {
        return None;
    }
    env::split_paths(&env::var_os("PATH")?).map(|folder| folder.join(word)).find(|path| path.is_file())
}

/// The digest of a file, or `unreadable` for a file that this user may not read, which a word may name by chance.
fn digest(path: &Path) -> io::Result<String> {
    match digest_of(path) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok("unreadable".to_owned()),
        digest => digest,
    }
}

fn digest_of(path: &Path) -> io::Result<String> {
    let facts = fs::metadata(path)?;
    if facts.len() > MAX_COMPARED_BYTES {
        let modification_time = facts.modified()?.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
        return Ok(format!("{} bytes, changed at {modification_time}", facts.len()));
    }
    let mut hasher = blake3::Hasher::new();
    hasher.update_reader(fs::File::open(path)?)?;
    Ok(hasher.finalize().to_hex().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_name_programs_on_the_path_and_absolute_files() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("tool");
        fs::write(&file, "1").unwrap();
        assert_eq!(program(file.to_str().unwrap()), Some(file.clone()));
        assert!(program("sh").is_some_and(|path| path.is_absolute()));
        for word in ["inputs/train.sh", "no-such-program-anywhere", "/no/such/file", "/"] {
            assert_eq!(program(word), None, "{word}");
        }
        let old_digest = digest(&file).unwrap();
        fs::write(&file, "2").unwrap();
        assert_ne!(digest(&file).unwrap(), old_digest);
    }
}
