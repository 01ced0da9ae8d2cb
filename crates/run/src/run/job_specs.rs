//! The jobs of a run in its folder, one per line, for the processes that run them on other machines. Lists of jobs that
//! many of them need are in a separate file, once each.

use std::{
    collections::HashMap,
    io::{self, BufRead as _, BufReader, BufWriter, Seek as _, SeekFrom, Write as _},
    path::Path,
    sync::Arc,
};

use fs_err as fs;
use serde::{Deserialize, Serialize};

use crate::{
    plan::{JobId, ListId, Plan, SerializedJob},
    record::{Key, KeyList},
};

/// The file in a run's folder. Batch jobs that an earlier version submitted read it under this name.
const FILE: &str = "orders.jsonl";

/// The file of the shared lists; missing if there are no lists.
const LISTS: &str = "needs.jsonl";

/// Jobs that many jobs need: a line of that file.
#[derive(Debug, Serialize, Deserialize)]
struct List {
    /// Their places in the plan.
    jobs: Vec<usize>,
    keys: Vec<Key>,
}

/// All job specifications of a run.
pub(super) struct JobSpecs {
    pub(super) jobs: Vec<SerializedJob>,
    /// The places of the jobs of the shared lists, by the lists' numbers.
    pub(super) lists: HashMap<usize, Vec<usize>>,
}

/// A file of lines that is being written.
struct Lines {
    file: BufWriter<fs::File>,
    at: u64,
}

impl Lines {
    fn create(path: &Path) -> io::Result<Self> {
        Ok(Self { file: BufWriter::new(fs::File::create(path)?), at: 0 })
    }

    /// Adds a line, and returns its offset.
    fn add(&mut self, line: &impl Serialize) -> io::Result<u64> {
        let mut text = serde_json::to_vec(line)?;
        text.push(b'\n');
        self.file.write_all(&text)?;
        self.at += text.len() as u64;
        Ok(self.at - text.len() as u64)
    }

    /// The file is synced, because other machines may read it at once.
    fn finish(self) -> io::Result<()> {
        self.file.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()
    }
}

/// Writes every job of `plan`, in its order, and returns the offset of each.
pub(super) fn write(plan: &Plan, folder: &Path) -> io::Result<Vec<u64>> {
    let mut numbers: HashMap<ListId, usize> = HashMap::new();
    let mut lists = None;
    for list in plan.jobs().flat_map(|(id, _)| plan.written_needs(id).0) {
        if numbers.contains_key(&list) {
            continue;
        }
        let lists = match &mut lists {
            Some(lists) => lists,
            none => none.insert(Lines::create(&folder.join(LISTS))?),
        };
        let jobs = plan.list(list).iter().copied().map(JobId::index).collect();
        let keys = plan.list(list).iter().map(|id| plan.job(*id).key).collect();
        let at = usize::try_from(lists.add(&List { jobs, keys })?).map_err(io::Error::other)?;
        numbers.insert(list, at);
    }
    lists.map(Lines::finish).transpose()?;
    let mut lines = Lines::create(&folder.join(FILE))?;
    let places: io::Result<Vec<u64>> =
        plan.jobs().map(|(id, _)| lines.add(&plan.serialize_job(id, |list| numbers[&list]))).collect();
    lines.finish()?;
    places
}

/// Writes a job alone, at place 0. The specification has all keys that the job needs.
pub fn write_one(spec: &SerializedJob, folder: &Path) -> io::Result<()> {
    let mut lines = Lines::create(&folder.join(FILE))?;
    lines.add(spec)?;
    lines.finish()
}

/// True if the specifications in a folder contain a text.
pub fn names(folder: &Path, text: &str) -> bool {
    fs::read_to_string(folder.join(FILE)).is_ok_and(|specs| specs.contains(text))
}

/// The job that begins at this place.
pub(super) fn read_at(folder: &Path, at: u64) -> io::Result<SerializedJob> {
    let line = |file: &str, at: u64| -> io::Result<String> {
        let mut file = fs::File::open(folder.join(file))?;
        file.seek(SeekFrom::Start(at))?;
        let mut line = String::new();
        BufReader::new(file).read_line(&mut line)?;
        Ok(line)
    };
    let mut spec: SerializedJob = serde_json::from_str(&line(FILE, at)?)?;
    for list in &spec.lists {
        let list: List = serde_json::from_str(&line(LISTS, *list as u64)?)?;
        spec.identity.needs.push(Arc::new(KeyList::new(list.keys)));
    }
    Ok(spec)
}

/// All job specifications.
pub(super) fn read(folder: &Path) -> io::Result<JobSpecs> {
    let (mut lists, mut keys) = (HashMap::new(), HashMap::new());
    match fs::read_to_string(folder.join(LISTS)) {
        Ok(text) => {
            let mut at = 0;
            for line in text.split_inclusive('\n') {
                let list: List = serde_json::from_str(line)?;
                lists.insert(at, list.jobs);
                keys.insert(at, Arc::new(KeyList::new(list.keys)));
                at += line.len();
            }
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    let lines = BufReader::new(fs::File::open(folder.join(FILE))?).lines();
    let jobs = lines.map(|line| {
        let mut spec: SerializedJob = serde_json::from_str(&line?)?;
        for list in spec.lists.iter().filter_map(|list| keys.get(list)) {
            spec.identity.needs.push(Arc::clone(list));
        }
        Ok(spec)
    });
    Ok(JobSpecs { jobs: jobs.collect::<io::Result<_>>()?, lists })
}
