//! `sweep export`.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};

use super::{ChangeArgs, Prepared, destination, print};
use crate::{
    error::{Error, Exit},
    export::{Exported, mlflow, tensorboard},
    format::{clean, count, say},
    record::Record,
    store::Store,
};

#[derive(Debug, Args)]
pub(super) struct ExportArgs {
    /// The other program.
    #[arg(value_enum)]
    to: Target,
    /// Recipes or sweep files whose records are exported. Default: all records.
    #[arg(value_name = "RECIPE", required_unless_present = "output")]
    paths: Vec<PathBuf>,
    /// The folder to write to.
    #[arg(long, short, value_name = "DIR")]
    output: Option<PathBuf>,
    #[command(flatten)]
    changes: ChangeArgs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Target {
    /// Event files with curves and metrics, one folder per job.
    Tensorboard,
    /// The layout of its file store: one experiment per step, one run per job.
    Mlflow,
}

pub(super) fn export(results: &Path, args: &ExportArgs) -> Result<Exit, Error> {
    let store = Store::open(results)?;
    let (folder, paths) = destination(args.output.as_deref(), &args.paths);
    let keys = if paths.is_empty() {
        store.keys().map_err(Error::io("cannot read the store"))?
    } else {
        let Prepared { plan, .. } = args.changes.prepare(results, paths, &[], false)?;
        plan.jobs().map(|(_, job)| job.key).collect()
    };
    let mut records: Vec<Record> = Vec::new();
    for key in keys {
        records.extend(store.get(key)?);
    }
    let result = match args.to {
        Target::Tensorboard => tensorboard::export(&records, folder),
        Target::Mlflow => mlflow::export(&records, folder),
    };
    let Exported { jobs, notices } = result.map_err(Error::io("cannot write the export"))?;
    for notice in notices {
        say(format_args!("note: {}", clean(&notice)));
    }
    print(&format!("{} in {}\n", count(jobs, "job"), folder.display()))?;
    Ok(Exit::Done)
}
