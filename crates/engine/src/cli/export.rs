//! `sweep export`.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use jiff::Timestamp;

use super::{ChangeArgs, destination, print};
use crate::{
    error::{Error, Exit},
    export::{Exported, croissant, mlflow, tensorboard, units::unify},
    format::{clean, count, say},
    host::project_of,
    plan::Plan,
    query::{Question, Records},
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
    /// Artifacts that a data set with Croissant metadata contains.
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    files: Vec<String>,
    #[command(flatten)]
    changes: ChangeArgs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Target {
    /// Event files with curves and metrics, one folder per job.
    Tensorboard,
    /// A file store of `MLflow`: one experiment per step, one run per job.
    Mlflow,
    /// A data set with Croissant metadata: tables of records and curves as CSV, and the files that `--files` names.
    Croissant,
}

pub(super) fn export(results: &Path, args: &ExportArgs) -> Result<Exit, Error> {
    let store = Store::open(results)?;
    let (folder, paths) = destination(args.output.as_deref(), &args.paths);
    if !args.files.is_empty() && args.to != Target::Croissant {
        return Err(Error::Unknown("`--files` is an option of `sweep export croissant`".to_owned()));
    }
    let plan = if paths.is_empty() { None } else { Some(args.changes.prepare(results, paths, &[], false)?.plan) };
    let keys = match &plan {
        None => store.keys().map_err(Error::io("cannot read the store"))?,
        Some(plan) => plan.jobs().map(|(_, job)| job.key).collect(),
    };
    let mut records: Vec<Record> = Vec::new();
    for key in keys {
        records.extend(store.get(key)?);
    }
    let notices = if args.to == Target::Croissant { Vec::new() } else { unify(&mut records) };
    let result = match args.to {
        Target::Tensorboard => tensorboard::export(&records, folder),
        Target::Mlflow => mlflow::export(&records, folder),
        Target::Croissant => return data_set(&store, plan.as_deref(), &records, folder, args),
    };
    let mut exported = result.map_err(Error::io("cannot write the export"))?;
    exported.notices.extend(notices);
    tell(exported, folder)
}

/// Prints the result of an export.
fn tell(Exported { jobs, notices }: Exported, folder: &Path) -> Result<Exit, Error> {
    for notice in notices {
        say(format_args!("note: {}", clean(&notice)));
    }
    print(&format!("{} in {}\n", count(jobs, "job"), folder.display()))?;
    Ok(Exit::Done)
}

/// Writes the records as a data set with Croissant metadata.
fn data_set(
    store: &Store,
    plan: Option<&Plan>,
    records: &[Record],
    folder: &Path,
    args: &ExportArgs,
) -> Result<Exit, Error> {
    const CITATION: &str = "CITATION.cff";
    let all = Records::new(store, plan).map_err(Error::io("cannot read the store"))?;
    // Those of a query, with the ones that tell jobs and their times.
    let usual = all.ask(&Question::default(), false)?;
    let mut select = vec!["label".to_owned(), "key".to_owned()];
    select.extend(
        usual.columns.into_iter().map(|column| column.name).filter(|name| !["label", "key"].contains(&name.as_str())),
    );
    select.extend(["started", "seconds"].map(str::to_owned));
    let table = all.ask(&Question { select, ..Question::default() }, false)?;
    let of_curves = Question { select: vec!["key".to_owned()], ..Question::default() };
    let curves = all.curves(&of_curves, &[], store, false)?;
    let recipe = match plan {
        Some(_) => destination(args.output.as_deref(), &args.paths).1.first().map(PathBuf::as_path),
        None => None,
    };
    let beside = recipe.and_then(Path::parent).unwrap_or(Path::new("")).to_owned();
    let places = [beside.join(CITATION), project_of(&beside).join(CITATION)];
    let studies = plan.map(|plan| plan.studies.as_slice()).unwrap_or_default();
    let contents = croissant::Contents {
        studies: studies.iter().map(|study| study.recipe.name.clone()).collect(),
        about: studies.iter().find_map(|study| study.recipe.about.clone()),
        records: &table,
        curves: &curves,
        with_files: records,
        artifacts: &args.files,
        last: records.iter().map(|record| record.provenance.started).max().unwrap_or(Timestamp::UNIX_EPOCH),
        citation: places.iter().find_map(|path| fs_err::read_to_string(path).ok()),
    };
    tell(croissant::export(&contents, store, folder).map_err(Error::io("cannot write the export"))?, folder)
}
