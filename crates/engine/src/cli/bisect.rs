//! `sweep bisect`.

use std::path::{Path, PathBuf};

use clap::Args;

use super::{
    BackendArg,
    answer::{FormatArgs, answer},
    print,
    propose::number_text,
};
use crate::{
    error::{Error, Exit},
    format::count,
    propose::{Bisection, Effect, Found, bisect},
    store::Store,
};

#[derive(Debug, Args)]
pub(super) struct BisectArgs {
    /// The recipe. Each revision runs the program of the step that measures; the files of the project are not changed.
    recipe: PathBuf,
    /// A revision before the change.
    #[arg(long, value_name = "REVISION")]
    good: String,
    /// A revision after the change.
    #[arg(long, value_name = "REVISION", default_value = "HEAD")]
    bad: String,
    /// The metric that changed.
    #[arg(long, value_name = "METRIC")]
    metric: String,
    /// The step that measures. Default: the only step with seeds.
    #[arg(long, value_name = "STEP")]
    step: Option<String>,
    /// Select the configurations of the step by values of axes; can be repeated. The mean over them is compared.
    #[arg(long, value_name = "AXIS=VALUE")]
    at: Vec<String>,
    /// Maximum number of seeds for each revision.
    #[arg(long, value_name = "N", default_value = "16", value_parser = clap::value_parser!(u16).range(2..=32))]
    most: u16,
    /// Backend to compute on. `auto` selects CUDA, else a hardware GPU through wgpu, else the CPU.
    #[arg(long, value_name = "BACKEND", default_value = "auto")]
    backend: BackendArg,
    #[command(flatten)]
    format: FormatArgs,
}

pub(super) fn run(results: &Path, args: &BisectArgs) -> Result<Exit, Error> {
    let bisection = Bisection {
        recipe: args.recipe.clone(),
        good: args.good.clone(),
        bad: args.bad.clone(),
        step: args.step.clone(),
        at: args.at.clone(),
        metric: args.metric.clone(),
        most: usize::from(args.most),
        backend: args.backend.choice(),
    };
    let store = Store::open(results)?;
    let result = bisect(&bisection, &store).map_err(Error::proposal(args.recipe.display().to_string()))?;
    if args.format.is_json() {
        answer(&result, Vec::new())?;
    } else {
        print(&text(&result, &args.metric))?;
    }
    Ok(if result.first.len() == 1 { Exit::Done } else { Exit::Refuted })
}

fn text(result: &Found, metric: &str) -> String {
    let Found { whole, first, effect: change, looks, revisions } = result;
    let mut lines = Vec::new();
    match first.as_slice() {
        [revision] => lines.push(format!("{} changed {metric}: {}", revision.commit, revision.subject)),
        candidates => {
            lines.push(format!("one of {} changed {metric}:", count(candidates.len(), "revision")));
            lines.extend(candidates.iter().map(|revision| format!("  {} {}", revision.commit, revision.subject)));
        }
    }
    if let Some(change) = change {
        lines.push(format!("  its change:  {}", difference(change)));
    }
    lines.push(format!("  good to bad: {}", difference(whole)));
    lines.push(format!("  {} of {} measured", count(looks.len(), "revision"), revisions.saturating_sub(1)));
    lines.join("\n") + "\n"
}

/// A difference of means with its 95 % interval.
fn difference(effect: &Effect) -> String {
    let interval = match (effect.low, effect.high) {
        (Some(low), Some(high)) => format!(" [{}, {}]", number_text(low), number_text(high)),
        _ => String::new(),
    };
    let sign = if effect.mean > 0.0 { "+" } else { "" };
    format!("{sign}{}{interval}, {}", number_text(effect.mean), count(effect.seeds.len(), "seed"))
}
