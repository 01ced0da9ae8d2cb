//! The kinds of stores, and the kind of a path.

use std::{io::Read as _, path::Path};

use super::{
    ImportError, Runs, csv, folders, hydra, mlflow, neptune, optuna,
    sqlite::{Database, SqliteError, State},
    tensorboard, trackio, wandb,
};

/// A kind of store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Logs of Weights & Biases.
    Wandb,
    /// A file store or a database of `MLflow`.
    Mlflow,
    /// A database of trackio.
    Trackio,
    /// Event files of `TensorBoard`.
    Tensorboard,
    /// Delimited text.
    Csv,
    /// A database or a journal of Optuna.
    Optuna,
    /// Folders of jobs of Hydra.
    Hydra,
    /// Parquet files of Neptune's exporter.
    Neptune,
    /// Folders with logs and settings.
    Folders,
}

impl Kind {
    /// The words of the command line, and the names of the programs.
    pub const ALL: [(&'static str, &'static str, Self); 9] = [
        ("wandb", "Weights & Biases", Self::Wandb),
        ("mlflow", "MLflow", Self::Mlflow),
        ("trackio", "trackio", Self::Trackio),
        ("tensorboard", "TensorBoard", Self::Tensorboard),
        ("csv", "CSV", Self::Csv),
        ("optuna", "Optuna", Self::Optuna),
        ("hydra", "Hydra", Self::Hydra),
        ("neptune", "Neptune", Self::Neptune),
        ("folders", "folders with logs", Self::Folders),
    ];

    /// The kind of a word.
    pub fn of_word(word: &str) -> Option<Self> {
        Self::ALL.iter().find(|(name, ..)| *name == word).map(|(.., kind)| *kind)
    }

    /// The word on the command line.
    pub fn word(self) -> &'static str {
        Self::ALL.iter().find(|(.., kind)| *kind == self).map_or("", |(word, ..)| word)
    }

    /// The name of the program.
    pub fn title(self) -> &'static str {
        Self::ALL.iter().find(|(.., kind)| *kind == self).map_or("", |(_, title, _)| title)
    }

    /// All words, separated by commas.
    pub fn words() -> String {
        Self::ALL.map(|(word, ..)| word).join(", ")
    }
}

/// True for a file that begins like a database.
fn is_database(path: &Path) -> bool {
    let mut magic = [0; 15];
    let mut begins = || std::fs::File::open(path).and_then(|mut file| file.read_exact(&mut magic));
    path.is_file() && begins().is_ok() && &magic == b"SQLite format 3"
}

/// The kind of a database.
fn kind_of_database(database: &Database) -> Option<Kind> {
    if optuna::is_database(database) {
        Some(Kind::Optuna)
    } else if mlflow::is_database(database) {
        Some(Kind::Mlflow)
    } else if trackio::is_database(database) {
        Some(Kind::Trackio)
    } else {
        None
    }
}

/// The databases of a path: the file, or all databases in the folder.
fn databases(path: &Path) -> Result<Vec<std::path::PathBuf>, ImportError> {
    if is_database(path) {
        return Ok(vec![path.to_owned()]);
    }
    let inner = if path.is_dir() { super::entries(path)? } else { Vec::new() };
    Ok(inner.into_iter().filter(|inner| is_database(inner)).collect())
}

/// A kind with the test for its stores.
type Detector = (Kind, fn(&Path) -> bool);

/// Finds the kind of store that a path has.
pub fn kind_of(path: &Path) -> Result<Kind, ImportError> {
    std::fs::metadata(path).map_err(|source| ImportError::Io { path: path.to_owned(), source })?;
    let records: [Detector; 3] =
        [(Kind::Mlflow, mlflow::detects), (Kind::Wandb, wandb::detects), (Kind::Neptune, neptune::detects)];
    let mut kinds: Vec<Kind> = records.iter().filter(|(_, detects)| detects(path)).map(|(kind, _)| *kind).collect();
    for database in databases(path)? {
        let kind = settled(&database, &mut || Ok(kind_of_database(&Database::open(&database)?)))?;
        kinds.extend(kind.filter(|kind| !kinds.contains(kind)));
    }
    match kinds.as_slice() {
        [kind] => return Ok(*kind),
        [] => {}
        several => {
            let words = several.iter().map(|kind| kind.word()).collect::<Vec<_>>().join(", ");
            return Err(ImportError::Several { path: path.to_owned(), words });
        }
    }
    // Jobs of Hydra and runs of other programs may have event files, too.
    let detectors: [Detector; 5] = [
        (Kind::Csv, csv::detects),
        (Kind::Hydra, hydra::detects),
        (Kind::Tensorboard, tensorboard::detects),
        (Kind::Folders, folders::detects),
        (Kind::Optuna, |path| path.is_file() && !is_database(path) && optuna::detects_journal(path)),
    ];
    if let Some((kind, _)) = detectors.iter().find(|(_, detects)| detects(path)) {
        return Ok(*kind);
    }
    Err(ImportError::Unknown(path.to_owned()))
}

/// Reads the runs of a store. `metrics` names the columns of a CSV file, and the single values of Neptune, that are metrics.
pub fn read(kind: Kind, path: &Path, metrics: &[String]) -> Result<Runs, ImportError> {
    std::fs::metadata(path).map_err(|source| ImportError::Io { path: path.to_owned(), source })?;
    let mut runs = match kind {
        Kind::Csv => csv::read(path, metrics)?,
        Kind::Wandb => wandb::read(path)?,
        Kind::Hydra => hydra::read(path)?,
        Kind::Folders => folders::read(path)?,
        Kind::Neptune => neptune::read(path, metrics)?,
        Kind::Tensorboard => tensorboard::read(path)?,
        Kind::Mlflow if mlflow::detects(path) => {
            let mut runs = mlflow::read(path)?;
            let also = databases(path)?.into_iter().map(|database| format!("`{}`", super::name_of(&database)));
            let also = also.collect::<Vec<_>>().join(", ");
            if !also.is_empty() {
                runs.notices
                    .push(format!("the folder has databases, too, which are not read; name one to import it: {also}"));
            }
            runs
        }
        Kind::Optuna if path.is_file() && !is_database(path) => optuna::read_journal(path)?,
        Kind::Mlflow => of_databases(path, kind, mlflow::read_database)?,
        Kind::Optuna => of_databases(path, kind, optuna::read_database)?,
        Kind::Trackio => of_databases(path, kind, trackio::read_database)?,
    };
    if runs.runs.is_empty() {
        let skipped: Vec<String> =
            runs.skipped.iter().map(|(reason, number)| format!("{number} left out: {reason}")).collect();
        let skipped = if skipped.is_empty() { String::new() } else { format!(" ({})", skipped.join("; ")) };
        return Err(ImportError::format(path, format!("there are no runs of {}{skipped}", kind.title())));
    }
    runs.runs.sort_by(|one, other| (one.started, &one.id).cmp(&(other.started, &other.id)));
    Ok(runs)
}

/// Reads the runs of all databases of a kind at a path.
fn of_databases(
    path: &Path,
    kind: Kind,
    read: fn(&Database) -> Result<Runs, ImportError>,
) -> Result<Runs, ImportError> {
    let mut all = Runs::default();
    for file in databases(path)? {
        let read = settled(&file, &mut || {
            let database = Database::open(&file)?;
            if kind_of_database(&database) == Some(kind) { read(&database).map(Some) } else { Ok(None) }
        })?;
        let Some(Runs { runs, better, skipped, notices }) = read else {
            // A file that the user named must have the tables; other files of a folder are skipped.
            if file == path {
                let reason = format!("it lacks the tables of {}", kind.title());
                return Err(SqliteError::Format { path: file, reason }.into());
            }
            continue;
        };
        all.runs.extend(runs);
        all.notices.extend(notices);
        for (metric, better) in better {
            all.direct(&metric, better);
        }
        for (reason, number) in skipped {
            *all.skipped.entry(reason).or_default() += number;
        }
    }
    Ok(all)
}

/// Reads a database again if it was written meanwhile: it is read without locks, so its pages would be of different states.
fn settled<T>(file: &Path, read: &mut dyn FnMut() -> Result<T, ImportError>) -> Result<T, ImportError> {
    const MAX_TRIES: usize = 5;
    for _ in 0..MAX_TRIES {
        let before = State::of(file)?;
        let result = read();
        if State::of(file)? == before {
            return result;
        }
    }
    Err(SqliteError::Busy(file.to_owned()).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_database_that_is_written_is_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.db");
        let (wal, journal) = (folder.path().join("a.db-wal"), folder.path().join("a.db-journal"));
        std::fs::write(&path, [0; 512]).unwrap();
        let mut tries = 0;
        let result = settled(&path, &mut || {
            tries += 1;
            match tries {
                1 => std::fs::write(&path, [0; 1024]).unwrap(),
                2 => std::fs::write(&wal, [1; 32]).unwrap(),
                3 => std::fs::write(&journal, "").unwrap(),
                _ => std::fs::write(&wal, [1; 64]).unwrap(),
            }
            if tries < 4 { Err(ImportError::NoMetrics) } else { Ok(tries) }
        });
        assert_eq!(
            result.unwrap(),
            4,
            "what is added to the log changes nothing, and an error may be due to the change"
        );
        let mut length = 0;
        let error = settled(&path, &mut || {
            length += 1;
            std::fs::write(&path, vec![0; length]).unwrap();
            Ok(())
        });
        assert!(error.unwrap_err().to_string().contains("'.backup COPY'"));
        assert_eq!(length, 5);
    }
}
