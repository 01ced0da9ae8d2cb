//! `sweep query`.

use std::{
    io::{self, BufWriter, IsTerminal as _, Write as _},
    path::{Path, PathBuf},
};

use clap::Args;
use serde::Serialize;
use serde_json::json;

use super::{ChangeArgs, Prepared, answer::answer, print};
use crate::{
    error::{Error, Exit},
    query::{Answer, Format, Question, Records},
    recipe::Filter,
    store::Store,
};

#[derive(Debug, Args)]
pub(super) struct QueryArgs {
    /// Recipes or sweep files whose jobs are listed. Default: all records.
    #[arg(value_name = "RECIPE")]
    paths: Vec<PathBuf>,
    #[command(flatten)]
    changes: ChangeArgs,
    /// Condition on records, such as `loss < 2.5 && prune != 'none'`; can be repeated.
    #[arg(long = "where", value_name = "CONDITION", value_parser = Filter::parse)]
    filters: Vec<Filter>,
    /// Columns: axes, metrics, parameters, `label`, `task`, `key`, `started`, `seconds`, `backend`, `device`, `host`.
    #[arg(long, value_name = "A,B,…", value_delimiter = ',')]
    select: Vec<String>,
    /// Columns to sort by; `-loss` sorts in descending order.
    #[arg(long, value_name = "A,-B,…", value_delimiter = ',', allow_hyphen_values = true)]
    sort: Vec<String>,
    /// Maximum number of records.
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
    /// List the points of curves instead of metrics: of all curves, or of the given ones.
    #[arg(long, value_name = "A,B,…", value_delimiter = ',', num_args = 0.., require_equals = true)]
    curves: Option<Vec<String>>,
    /// Output format of the records.
    #[arg(long, value_enum, default_value = "table")]
    format: Format,
    /// Write to this file.
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// The JSON output.
#[derive(Serialize)]
struct Rows<'a> {
    records: &'a Answer,
}

pub(super) fn query(results: &Path, args: QueryArgs) -> Result<Exit, Error> {
    if args.format == Format::Parquet && args.output.is_none() && io::stdout().is_terminal() {
        return Err(Error::Unknown("a Parquet file cannot be printed to a terminal; add `--output FILE`".to_owned()));
    }
    let plan = if args.paths.is_empty() {
        None
    } else {
        let Prepared { plan, .. } = args.changes.prepare(results, &args.paths, &[], false)?;
        Some(plan)
    };
    let store = Store::open(results)?;
    let records = Records::new(&store, plan.as_deref()).map_err(Error::io("cannot read the store"))?;
    let QueryArgs { filters, select, sort, limit, curves, format, output, .. } = args;
    let question = Question { filters, select, sort, limit };
    let result = match curves {
        Some(names) => records.curves(&question, &names, &store, format == Format::Table)?,
        None => records.ask(&question, format == Format::Table)?,
    };
    match output {
        Some(path) => {
            let write = || -> io::Result<()> {
                let mut file = BufWriter::new(fs_err::File::create(&path)?);
                result.write(format, &mut file)?;
                file.flush()
            };
            write().map_err(Error::io("cannot write the answer"))?;
            if format == Format::Json {
                answer(&json!({ "output": path, "records": result.rows.len() }), Vec::new())?;
            }
        }
        None if format == Format::Json => answer(&Rows { records: &result }, Vec::new())?,
        None if format == Format::Parquet => {
            result.write(format, &mut io::stdout()).map_err(Error::io("cannot write the answer"))?;
        }
        None => {
            let mut text = Vec::new();
            result.write(format, &mut text).map_err(Error::io("cannot write the answer"))?;
            print(&String::from_utf8_lossy(&text))?;
        }
    }
    Ok(Exit::Done)
}
