//! `sweep demo` and `sweep examples`.

use std::path::{Path, PathBuf};

use clap::{Args, Parser as _, ValueEnum as _};

use super::{BackendArg, Cli, Command, print, run};
use crate::{
    error::{Error, Exit},
    format::{count, say},
    shipped,
};

#[derive(Debug, Args)]
pub(super) struct DemoArgs {
    /// The folder to copy to.
    #[arg(value_name = "DIR", default_value = "sweep-demo")]
    folder: PathBuf,
    /// Backend to compute on. `auto` selects CUDA, else a hardware GPU through wgpu, else the CPU.
    #[arg(long, value_name = "BACKEND", default_value = "auto")]
    backend: BackendArg,
}

#[derive(Debug, Args)]
pub(super) struct ExamplesArgs {
    /// The folder to copy to.
    #[arg(value_name = "DIR", default_value = "sweep-examples")]
    folder: PathBuf,
}

/// Copies the shipped files, and runs the demo among them.
pub(super) fn demo(results: &Path, args: &DemoArgs) -> Result<Exit, Error> {
    shipped::copy(&args.folder)?;
    let recipe = args.folder.join(shipped::DEMO);
    say(format_args!("running: sweep run {}", recipe.display()));
    let backend = args.backend.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned());
    // Read as if it had been typed, so that defaults are declared once.
    let typed = ["sweep".into(), "run".into(), recipe.into_os_string(), "--backend".into(), backend.into()];
    match Cli::try_parse_from(typed).map(|cli| cli.command) {
        Ok(Command::Run(args)) => run::run(results, &args),
        _ => Ok(Exit::Usage),
    }
}

/// Copies the shipped files.
pub(super) fn examples(args: &ExamplesArgs) -> Result<Exit, Error> {
    let files = shipped::copy(&args.folder)?;
    print(&format!("{} in {}\n", count(files, "file"), args.folder.display()))?;
    say(format_args!("next: cd {} && sweep plan {}", args.folder.display(), shipped::DEMO));
    Ok(Exit::Done)
}
