//! The jobs of a run in its folder, one a line, for the processes that run them elsewhere.

use std::{
    io::{self, BufRead as _, BufReader, BufWriter, Seek as _, SeekFrom, Write as _},
    path::Path,
};

use fs_err as fs;

use crate::plan::{Frozen, Plan};

/// The file in a run's folder.
const FILE: &str = "orders.jsonl";

/// Writes every job of a plan, in its order, and answers where each begins.
pub(super) fn write(plan: &Plan, folder: &Path) -> io::Result<Vec<u64>> {
    let mut places = Vec::with_capacity(plan.len());
    let mut at = 0;
    let mut file = BufWriter::new(fs::File::create(folder.join(FILE))?);
    for (id, _) in plan.jobs() {
        let mut line = serde_json::to_vec(&plan.freeze(id))?;
        line.push(b'\n');
        places.push(at);
        at += line.len() as u64;
        file.write_all(&line)?;
    }
    // Other machines read it as soon as they are asked to.
    file.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()?;
    Ok(places)
}

/// The job that begins at this place.
pub(super) fn read_at(folder: &Path, at: u64) -> io::Result<Frozen> {
    let mut file = fs::File::open(folder.join(FILE))?;
    file.seek(SeekFrom::Start(at))?;
    let mut line = String::new();
    BufReader::new(file).read_line(&mut line)?;
    Ok(serde_json::from_str(&line)?)
}

/// All of them.
pub(super) fn read(folder: &Path) -> io::Result<Vec<Frozen>> {
    let lines = BufReader::new(fs::File::open(folder.join(FILE))?).lines();
    lines.map(|line| Ok(serde_json::from_str(&line?)?)).collect()
}
