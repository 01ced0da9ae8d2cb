//! `sweep cache`: lists, checks, removes and transfers records.

mod lists;

use std::{
    collections::{BTreeSet, HashSet},
    fs::File,
    io::{self, BufReader},
    path::{Path, PathBuf},
};

use clap::{Args, Subcommand};
use serde_json::json;
use sweep_job::{Backend, Unit, units::parse_seconds};

pub(super) use self::lists::Refused;
use self::lists::{Checked, Listed, ListedRecord, Removal, all, label};
use super::{
    answer::{self, FormatArgs, answer},
    destination, print,
    remote::{self, RemoteArgs},
    rerun::{RerunArgs, rerun},
    runs,
};
use crate::{
    batches::{Batches, alike},
    error::{Error, Exit},
    format::{clean, count, duration, quantity, say},
    host::{
        self,
        replaced::{Outlives, Readers, replace_with},
    },
    plan::Plan,
    propose::{ProposeError, kept_for_questions},
    recipe::{Draft, Request},
    record::{Key, Prefixes},
    remote::keygen,
    run::{Disposition, RunFolder},
    session::SessionError,
    store::{Garbage, Origin, State, Store, StoreError},
};

#[derive(Debug, Args)]
pub(super) struct CacheArgs {
    #[command(subcommand)]
    command: CacheCommand,
    #[command(flatten)]
    format: FormatArgs,
}

/// Changes to the recipes' values.
#[derive(Debug, Args)]
struct Values {
    /// Scale of the recipes: the name of an entry of their `scales`.
    #[arg(long, value_name = "NAME")]
    scale: Option<String>,
    /// Set a param of the recipes; can be repeated.
    #[arg(long, value_name = "PARAM=VALUE")]
    set: Vec<String>,
    /// Replace the values of an axis, in all steps or in one; can be repeated.
    #[arg(long = "axis", value_name = "[STEP.]AXIS=A,B,…")]
    axes: Vec<String>,
}

#[derive(Debug, Subcommand)]
enum CacheCommand {
    /// List the records.
    Ls {
        /// Prefix of the jobs' names: a step, or a step and a part of its point.
        job: Option<String>,
    },
    /// Recompute all keys and digests, and list the differences; with `--rerun`, run some jobs of recipes again instead.
    Verify {
        #[command(flatten)]
        rerun: RerunArgs,
        #[command(flatten)]
        values: Values,
    },
    /// List the records that neither the given recipes nor recent runs need; with `--yes`, remove them.
    Gc {
        /// Recipes whose records are kept, for all backends.
        #[arg(value_name = "RECIPE")]
        recipes: Vec<PathBuf>,
        #[command(flatten)]
        values: Values,
        /// Age of runs, such as `30d`: younger runs keep the records of all their jobs.
        #[arg(long, value_name = "TIME", default_value = "30d", value_parser = seconds)]
        recent: f64,
        /// Remove the listed records.
        #[arg(long)]
        yes: bool,
    },
    /// List the records of jobs; with `--yes`, remove them, so that the jobs run again.
    Rm {
        /// Jobs, by name or key prefix, or recipes for all of their jobs.
        #[arg(required = true, value_name = "JOB|RECIPE")]
        which: Vec<String>,
        #[command(flatten)]
        values: Values,
        /// Remove the listed records.
        #[arg(long)]
        yes: bool,
    },
    /// Write records to a tar archive, for transfer to another machine.
    Export {
        /// Jobs, by name or key prefix, or recipes for all of their jobs.
        #[arg(required = true, value_name = "JOB|RECIPE")]
        which: Vec<String>,
        /// The archive.
        #[arg(long, short, value_name = "FILE")]
        output: Option<PathBuf>,
        #[command(flatten)]
        values: Values,
    },
    /// Upload the records that a remote does not have yet.
    Push {
        #[command(flatten)]
        remote: RemoteArgs,
        /// Jobs, by name or key prefix, or recipes for all of their jobs. Default: all records.
        #[arg(value_name = "JOB|RECIPE")]
        which: Vec<String>,
        #[command(flatten)]
        values: Values,
    },
    /// Download records from a remote; each record is checked against its key and digests.
    Pull {
        #[command(flatten)]
        remote: RemoteArgs,
        /// Recipes whose records are downloaded. Default: all records of the remote.
        #[arg(value_name = "RECIPE")]
        recipes: Vec<PathBuf>,
        #[command(flatten)]
        values: Values,
    },
    /// Create a key pair that signs pushed records: write the secret key to a new file, print the public key.
    Keygen {
        /// The file of the secret key.
        file: PathBuf,
    },
    /// Let several machines use this store on a shared file system: its locks then hold on all machines.
    Share,
    /// Add the records of an archive that the store lacks; each record is checked against its key and digests.
    Import {
        /// The archive.
        file: PathBuf,
    },
}

fn seconds(text: &str) -> Result<f64, String> {
    parse_seconds(text).map_err(|error| format!("{error}; write `30d`, `12h` or `0s`"))
}

pub(super) fn cache(results: &Path, args: &CacheArgs) -> Result<Exit, Error> {
    let store = Store::open(results)?;
    let format = args.format;
    match &args.command {
        CacheCommand::Ls { job } => ls(&store, job.as_deref().unwrap_or_default(), format),
        CacheCommand::Verify { rerun, values } => match rerun.rerun {
            None => verify(&store, format),
            Some(n) => run_again(&store, n, rerun, values, format),
        },
        CacheCommand::Gc { recipes, values, recent, yes } => {
            let mut reached = reached(&store, recipes, values, *recent)?;
            reached.extend(kept_for_questions(&store).map_err(ProposeError::from)?.into_keys());
            let garbage = store.garbage(&reached).map_err(Error::io("cannot read the store"))?;
            remove(&store, &garbage, *yes, format)
        }
        CacheCommand::Rm { which, values, yes } => {
            // With one of the same computation left, the job would not run again.
            let keys = recorded(&store, which, values)?;
            let keys = alike(&store, &keys).map_err(Error::io("cannot read the store"))?;
            let kept = kept_for_questions(&store).map_err(ProposeError::from)?;
            if let Some((key, question)) = keys.iter().find_map(|key| kept.get_key_value(key)) {
                return Err(Error::Sealed { record: key.short(), question: *question });
            }
            let garbage = store.records_with_states(&keys).map_err(Error::io("cannot read the store"))?;
            remove(&store, &garbage, *yes, format)
        }
        CacheCommand::Export { which, output, values } => match destination(output.as_deref(), which) {
            (_, []) => Err(Error::NoDestination),
            (file, which) => export(&store, file, which, values, format),
        },
        CacheCommand::Push { remote, which, values } => {
            let keys = (!which.is_empty()).then(|| recorded(&store, which, values)).transpose()?;
            remote::push_all(&store, remote, keys.map(|keys| keys.into_iter().collect()), format)
        }
        CacheCommand::Pull { remote, recipes, values } => {
            let mut keys = BTreeSet::new();
            for backend in Backend::ALL {
                if !recipes.is_empty() {
                    keys.extend(keys_of(&store, recipes, values, backend)?);
                }
            }
            remote::pull_all(&store, remote, (!recipes.is_empty()).then(|| keys.into_iter().collect()), format)
        }
        CacheCommand::Keygen { file } => {
            let public = keygen(file)?;
            if format.is_json() {
                answer(&json!({ "public_key": public, "secret_key_file": file }), Vec::new())?;
            } else {
                print(&format!("{public}\n"))?;
            }
            say(format_args!("the secret key is in {}; the public key is for files of trusted keys", file.display()));
            Ok(Exit::Done)
        }
        CacheCommand::Share => {
            if !store.share().map_err(Error::io("cannot write to the store"))? {
                return Err(Error::from(SessionError::NotShared));
            }
            say(format_args!("the store can be used by several machines"));
            if format.is_json() {
                answer(&json!({ "shared": true }), Vec::new())?;
            }
            Ok(Exit::Done)
        }
        CacheCommand::Import { file } => import(&store, file, format),
    }
}

fn ls(store: &Store, beginning: &str, format: FormatArgs) -> Result<Exit, Error> {
    let mut records = store.index().map_err(StoreError::from)?;
    records.retain(|record| record.label.starts_with(beginning));
    records.sort_by(|a, b| (&a.label, a.started).cmp(&(&b.label, b.started)));
    let mut states = store.states().map_err(StoreError::from)?;
    states.retain(|state| state.label.starts_with(beginning));
    if format.is_json() {
        let listed = Listed { records: records.iter().map(ListedRecord::from).collect(), states: all(&states) };
        return answer(&listed, Vec::new()).map(|()| Exit::Done);
    }
    let lines = records.iter().map(|record| {
        let made = record.started.strftime("%Y-%m-%d %H:%M");
        let bytes = record.bytes;
        let size = if bytes > 0 { format!("  {}", quantity(bytes as f64, Unit::Bytes)) } else { String::new() };
        let took = duration(record.seconds);
        format!("{}  {made}  {took:>12}  {}{size}\n", record.key.short(), clean(&record.label))
    });
    print(&lines.collect::<String>())?;
    print(&states.iter().map(state_line).collect::<String>())?;
    let bytes: u64 = states.iter().map(State::bytes).sum();
    let size = quantity(bytes as f64, Unit::Bytes);
    let and = if states.is_empty() { String::new() } else { format!(", {} ({size})", count(states.len(), "state")) };
    say(format_args!("{}{and}", count(records.len(), "record")));
    Ok(Exit::Done)
}

/// A state in a list: its key, its size, its step, and the job that has left it.
fn state_line(state: &State) -> String {
    let size = quantity(state.bytes() as f64, Unit::Bytes);
    let made = state.kept.strftime("%Y-%m-%d %H:%M");
    format!("{}  {made}  {size:>12}  state after step {} of {}\n", state.key.short(), state.step, clean(&state.label))
}

fn verify(store: &Store, format: FormatArgs) -> Result<Exit, Error> {
    let verified = store.verify().map_err(Error::io("cannot read the store"))?;
    let defects = verified.defects.len() + verified.damaged_lines.len();
    let exit = if defects == 0 { Exit::Done } else { Exit::Failure };
    if format.is_json() {
        return answer(&Checked { good: defects == 0, verified }, Vec::new()).map(|()| exit);
    }
    let lines = verified.defects.iter().map(|defect| format!("{}  {}\n", defect.key.short(), clean(&defect.reason)));
    let of_list = verified.damaged_lines.iter().map(|line| format!("{}\n", clean(line)));
    print(&lines.chain(of_list).collect::<String>())?;
    if verified.unlisted > 0 {
        let (records, name) =
            (count(verified.unlisted, "record"), if verified.unlisted == 1 { "names" } else { "name" });
        say(format_args!(
            "note: {records} of programs {name} no list of the files that the program read; a list that an earlier version wrote \
             and that was lost cannot be detected"
        ));
    }
    if verified.unsealed > 0 {
        let (records, have) = (count(verified.unsealed, "record"), if verified.unsealed == 1 { "has" } else { "have" });
        say(format_args!("note: {records} of an earlier version {have} no digest: changes to them cannot be detected"));
    }
    if verified.without_digests > 0 {
        let records = count(verified.without_digests, "record");
        say(format_args!("note: {records} of an earlier version have files without digests"));
    }
    let (records, files) = (count(verified.records, "record"), count(verified.files, "file"));
    say(format_args!("{records} with {files} looked at: {}", count(defects, "defect")));
    Ok(exit)
}

/// Runs jobs of recipes that have records again, on the first backend for which there are any.
fn run_again(store: &Store, n: usize, args: &RerunArgs, values: &Values, format: FormatArgs) -> Result<Exit, Error> {
    for backend in Backend::ALL {
        let plan = plan_of(store, &args.recipes, values, backend)?;
        if plan.jobs().any(|(_, job)| store.contains(job.key)) {
            let reruns = rerun(store, &plan, backend, n, args)?;
            if format.is_json() {
                answer(&reruns, Vec::new())?;
            } else {
                print(&reruns.text())?;
            }
            return Ok(reruns.exit());
        }
    }
    Err(Error::Unknown("none of these jobs has a record".into()))
}

/// The keys that may still be looked up.
fn reached(store: &Store, recipes: &[PathBuf], values: &Values, recent: f64) -> Result<HashSet<Key>, Error> {
    let mut reached = HashSet::new();
    for backend in Backend::ALL.iter().filter(|_| !recipes.is_empty()) {
        let plan = plan_of(store, recipes, values, *backend)?;
        reached.extend(plan.jobs().map(|(_, job)| job.key));
        reached.extend(states_for(store, &plan).map_err(Error::io("cannot read the store"))?);
    }
    let now = host::clock::now();
    for folder in RunFolder::all(store.results()) {
        // A run that was killed while it began has no plan and no record.
        let Ok(manifest) = folder.manifest() else { continue };
        if folder.is_live() || now.duration_since(manifest.at).as_secs_f64() <= recent {
            let jobs = manifest.jobs.iter().filter(|job| job.wanted != Disposition::No);
            reached.extend(jobs.map(|job| job.key));
        }
    }
    Ok(reached)
}

/// The keys of the states from which the jobs of a plan can continue, or which they leave.
fn states_for(store: &Store, plan: &Plan) -> io::Result<Vec<Key>> {
    let steps = store.state_steps()?;
    let mut keys = Vec::new();
    for (_, job) in plan.jobs() {
        let Some(prefixes) = Prefixes::of(job.task, &job.values) else { continue };
        for step in steps.iter().filter(|step| prefixes.contains(**step)) {
            keys.push(prefixes.key(&job.identity, *step)?);
        }
        keys.extend(prefixes.left(&job.identity)?.map(|(_, key)| key));
    }
    Ok(keys)
}

/// The keys of all jobs of recipes or sweep files.
fn keys_of(store: &Store, paths: &[PathBuf], values: &Values, backend: Backend) -> Result<Vec<Key>, Error> {
    Ok(plan_of(store, paths, values, backend)?.jobs().map(|(_, job)| job.key).collect())
}

/// The plan of recipes or sweep files.
fn plan_of(store: &Store, paths: &[PathBuf], values: &Values, backend: Backend) -> Result<Plan, Error> {
    let names: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
    let name = names.join(", ");
    let draft = Draft::load(&Request {
        paths,
        set: &values.set,
        axes: &values.axes,
        scale: values.scale.as_deref(),
        only: &[],
    })
    .map_err(Error::recipe(name.clone()))?;
    let (_, plan) = Batches::plan(draft, backend, store).map_err(Error::search(name))?;
    Ok(plan)
}

/// Lists records and files, and removes them if it is confirmed.
fn remove(store: &Store, garbage: &Garbage, yes: bool, format: FormatArgs) -> Result<Exit, Error> {
    if format.is_json() {
        let removed = Removal::new(store, garbage, yes);
        if yes && !garbage.is_empty() {
            store.remove(garbage)?;
        }
        let next = (!yes && !garbage.is_empty()).then(|| answer::again(&["--yes"], &[]));
        return answer(&removed, next.into_iter().collect()).map(|()| Exit::Done);
    }
    let size = |bytes: u64| quantity(bytes as f64, Unit::Bytes);
    let line = |(key, bytes): &(Key, u64)| {
        let label = label(store, *key);
        format!("{}  {:>9}  {}\n", key.short(), size(*bytes), clean(&label))
    };
    print(&garbage.records.iter().map(line).collect::<String>())?;
    print(&garbage.states.iter().map(state_line).collect::<String>())?;
    let mut parts = vec![count(garbage.records.len(), "record")];
    if !garbage.states.is_empty() {
        parts.push(count(garbage.states.len(), "state"));
    }
    if !garbage.leftovers.is_empty() {
        parts.push(format!("what {} left", count(garbage.leftovers.len(), "unfinished job")));
    }
    if !garbage.temporary.is_empty() {
        parts.push(count(garbage.temporary.len(), "temporary file"));
    }
    let what = format!("{}, {}", parts.join(" and "), size(garbage.bytes()));
    if garbage.is_empty() {
        say(format_args!("nothing to remove"));
    } else if yes {
        store.remove(garbage)?;
        say(format_args!("removed {what}"));
    } else {
        say(format_args!("would remove {what}; `--yes` removes it"));
    }
    Ok(Exit::Done)
}

/// The keys of the records that are named: by jobs, or by recipes.
fn recorded(store: &Store, which: &[String], values: &Values) -> Result<BTreeSet<Key>, Error> {
    let mut keys = BTreeSet::new();
    for name in which {
        if Path::new(name).is_file() {
            for backend in Backend::ALL {
                let all = keys_of(store, &[PathBuf::from(name)], values, backend)?;
                keys.extend(all.into_iter().filter(|key| store.contains(*key)));
            }
        } else {
            keys.insert(runs::find_record(store, name)?.key);
        }
    }
    if keys.is_empty() {
        return Err(Error::Unknown("none of these jobs has a record".into()));
    }
    Ok(keys)
}

fn export(store: &Store, file: &Path, which: &[String], values: &Values, format: FormatArgs) -> Result<Exit, Error> {
    let keys = recorded(store, which, values)?;
    // An archive is there whole or not at all.
    replace_with(file, Readers::Owner, Outlives::Machine, |out| store.export(&keys, out))?;
    say(format_args!("{} in {}", count(keys.len(), "record"), file.display()));
    if format.is_json() {
        answer(&json!({ "file": file, "records": keys.len() }), Vec::new())?;
    }
    Ok(Exit::Done)
}

fn import(store: &Store, file: &Path, format: FormatArgs) -> Result<Exit, Error> {
    let archive = File::open(file).map_err(|error: io::Error| Error::io("cannot read the archive")(error))?;
    let name = file.file_name().unwrap_or(file.as_os_str()).to_string_lossy();
    let imported = store.import(BufReader::new(archive), &Origin::new(&format!("the archive {name}")))?;
    for (key, reason) in &imported.refused {
        say(format_args!("refused {}: {}", key.short(), clean(reason)));
    }
    let (added, refused) = (count(imported.added, "record"), imported.refused.len());
    say(format_args!("{added} added, {} already known, {refused} refused", imported.known));
    if format.is_json() {
        let refused = Refused::all(&imported.refused);
        let imported = json!({ "added": imported.added, "known": imported.known, "refused": refused });
        answer(&imported, Vec::new())?;
    }
    Ok(if refused == 0 { Exit::Done } else { Exit::Failure })
}
