//! A Cargo project whose program is `sweep` with additional tasks.

use std::{
    fmt,
    fs::Permissions,
    io,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use super::InitError;

/// The files of the project, of which `examples/own-lab` is tested, and `Cargo.toml` is written.
const FILES: [(&str, &str); 4] = [
    ("src/main.rs", include_str!("../../../../examples/own-lab/src/main.rs")),
    ("src/shapes.rs", include_str!("../../../../examples/own-lab/src/shapes.rs")),
    ("src/recurrence.rs", include_str!("../../../../examples/own-lab/src/recurrence.rs")),
    ("study.yaml", include_str!("../../../../examples/own-lab/study.yaml")),
];

/// The place of the sources of `sweep`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Engine {
    /// A clone.
    Folder(PathBuf),
    /// The URL of a Git repository.
    Git(String),
}

impl Engine {
    /// Reads a path or a URL. A path becomes absolute.
    pub fn new(text: &str) -> Result<Self, InitError> {
        if text.contains("://") || text.starts_with("git@") {
            return Ok(Self::Git(text.to_owned()));
        }
        let folder = Path::new(text).canonicalize().map_err(|_| InitError::NoEngine(text.into()))?;
        let has_sources = ["Cargo.toml", "src/lib.rs", "crates/engine"].iter().all(|name| folder.join(name).exists());
        if has_sources { Ok(Self::Folder(folder)) } else { Err(InitError::NoEngine(text.into())) }
    }
}

impl fmt::Display for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Strings of TOML and JSON have the same escapes.
        let (key, value) = match self {
            Self::Folder(folder) => ("path", folder.to_string_lossy()),
            Self::Git(url) => ("git", url.as_str().into()),
        };
        write!(f, "{key} = {}", serde_json::Value::from(value))
    }
}

/// A project to write.
#[derive(Debug)]
pub struct OwnLab {
    name: String,
    engine: Engine,
}

impl OwnLab {
    /// A project in `folder`, whose last part is the name of the package.
    pub fn new(folder: &Path, engine: Engine) -> Result<Self, InitError> {
        let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let allowed = |char: char| char.is_ascii_alphanumeric() || char == '-' || char == '_';
        // `sweep` is the name of the dependency.
        if !name.starts_with(|char: char| char.is_ascii_alphabetic()) || !name.chars().all(allowed) || name == "sweep" {
            return Err(InitError::PackageName(name));
        }
        Ok(Self { name, engine })
    }

    /// Writes the files to `folder`, which does not exist, and returns their names. After a failure, the folder is
    /// removed.
    pub fn write(&self, folder: &Path) -> io::Result<Vec<&'static str>> {
        let parent = folder.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or_else(|| Path::new("."));
        fs_err::create_dir_all(parent)?;
        let draft =
            tempfile::Builder::new().prefix(".new").permissions(Permissions::from_mode(0o755)).tempdir_in(parent)?;
        let names = self.fill(draft.path())?;
        fs_err::rename(draft.path(), folder)?;
        // The folder has another name now.
        let _ = draft.keep();
        Ok(names)
    }

    fn fill(&self, folder: &Path) -> io::Result<Vec<&'static str>> {
        let manifest = self.manifest();
        let ignored = "/results\n/target\n".to_owned();
        let written = [("Cargo.toml", manifest), (".gitignore", ignored)].into_iter();
        let files = written.chain(FILES.map(|(name, text)| (name, text.to_owned())));
        fs_err::create_dir(folder.join("src"))?;
        let mut names = Vec::new();
        for (name, text) in files {
            fs_err::write(folder.join(name), text)?;
            names.push(name);
        }
        if let Engine::Folder(engine) = &self.engine {
            // The versions of dependencies with which the clone was tested.
            let lock = engine.join("Cargo.lock");
            if lock.exists() {
                fs_err::copy(lock, folder.join("Cargo.lock"))?;
                names.push("Cargo.lock");
            }
        }
        Ok(names)
    }

    fn manifest(&self) -> String {
        let Self { name, engine } = self;
        format!(
            r#"[package]
name = "{name}"
version = "0.1.0"
edition = "2024"
publish = false

[features]
default = []
# GPUs: `cargo build --release --features wgpu`.
cuda = ["sweep/cuda"]
wgpu = ["sweep/wgpu"]

[dependencies]
sweep = {{ {engine}, default-features = false, features = ["cpu", "mcp", "remote", "ui"] }}

# A debug build must still train.
[profile.dev.package."*"]
opt-level = 3
debug = false
"#
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lab(folder: &str, engine: Engine) -> Result<OwnLab, InitError> {
        OwnLab::new(Path::new(folder), engine)
    }

    #[test]
    fn a_project_names_its_engine() {
        let engine = Engine::new("https://example.org/sweep.git").unwrap();
        let project = lab("some/my-lab", engine).unwrap();
        let manifest: toml::Table = toml::from_str(&project.manifest()).unwrap();
        assert_eq!(manifest["package"]["name"].as_str(), Some("my-lab"));
        assert_eq!(manifest["dependencies"]["sweep"]["git"].as_str(), Some("https://example.org/sweep.git"));
        let quoted = lab("lab", Engine::Folder("/a \"b\" \\".into())).unwrap().manifest();
        let manifest: toml::Table = toml::from_str(&quoted).unwrap();
        assert_eq!(manifest["dependencies"]["sweep"]["path"].as_str(), Some("/a \"b\" \\"));
    }

    #[test]
    fn a_project_is_written_whole_or_not_at_all() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("new/my-lab");
        let written = lab("my-lab", Engine::Git("git@example.org:sweep.git".into())).unwrap().write(&place).unwrap();
        assert_eq!(written.len(), 2 + FILES.len());
        assert!(written.iter().all(|name| place.join(name).is_file()));
        let place = folder.path().join("other");
        // The lock file of the clone is a folder, which cannot be copied.
        fs_err::create_dir_all(folder.path().join("clone/Cargo.lock")).unwrap();
        let engine = Engine::Folder(folder.path().join("clone"));
        assert!(lab("other", engine).unwrap().write(&place).is_err());
        let left: Vec<_> = fs_err::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert!(left.len() == 2 && !place.exists(), "{left:?}");
    }

    #[test]
    fn names_and_engines_are_checked() {
        let git = || Engine::Git("git@example.org:sweep.git".into());
        for name in ["7up", "a b", "", "sweep", "ä"] {
            assert!(matches!(lab(name, git()), Err(InitError::PackageName(_))), "{name}");
        }
        let empty = tempfile::tempdir().unwrap();
        assert!(matches!(Engine::new(empty.path().to_str().unwrap()), Err(InitError::NoEngine(_))));
        assert!(matches!(Engine::new("no/such/folder"), Err(InitError::NoEngine(_))));
        assert_eq!(Engine::new("git@example.org:sweep.git").unwrap(), git());
    }
}
