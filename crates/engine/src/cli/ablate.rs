//! `sweep ablate`.

use std::path::{Path, PathBuf};

use clap::Args;
use fs_err as fs;
use serde::Serialize;

use super::{
    answer::{FormatArgs, answer},
    print,
};
use crate::{
    error::{Error, Exit},
    format::quoted_path,
    host::replaced::{Outlives, Readers, replace},
    variant::{of_commits, of_regions},
};

#[derive(Debug, Args)]
pub(super) struct AblateArgs {
    /// Files with marked regions, or folders of such files. A region begins after `# ablate: NAME` and ends at `# end`; after
    /// `# else`, it has the lines that replace it, as comments.
    #[arg(required_unless_present = "commits")]
    paths: Vec<PathBuf>,
    /// A range of commits, such as `main..feature`; each commit becomes a patch.
    #[arg(long, value_name = "RANGE", conflicts_with = "paths")]
    commits: Option<String>,
    /// Reverse the patches: each removes its commit from the present state of the project.
    #[arg(long, requires = "commits")]
    revert: bool,
    /// The folder for the patches.
    #[arg(long, value_name = "DIR", default_value = "ablations")]
    out: PathBuf,
    /// Replace existing patches with the same names.
    #[arg(long)]
    replace: bool,
    #[command(flatten)]
    format: FormatArgs,
}

/// The files that were written.
#[derive(Serialize)]
struct Written<'a> {
    patches: &'a [PathBuf],
}

pub(super) fn ablate(args: &AblateArgs) -> Result<Exit, Error> {
    let patches: Vec<(String, Vec<u8>)> = match &args.commits {
        Some(range) => of_commits(Path::new("."), range, args.revert)?,
        None => of_regions(&args.paths)?.into_iter().collect(),
    };
    let files: Vec<PathBuf> = patches.iter().map(|(name, _)| args.out.join(format!("{name}.patch"))).collect();
    let is_other = |(file, patch): &(&PathBuf, &Vec<u8>)| fs::read(file).is_ok_and(|content| content != **patch);
    let mut targets = files.iter().zip(patches.iter().map(|(_, patch)| patch));
    if !args.replace
        && let Some((file, _)) = targets.clone().find(is_other)
    {
        return Err(Error::OtherPatch(file.clone()));
    }
    let context = "cannot write a patch";
    fs::create_dir_all(&args.out).map_err(Error::io(context))?;
    targets
        .try_for_each(|(file, patch)| replace(file, patch, Readers::All, Outlives::Process))
        .map_err(Error::io(context))?;
    if args.format.is_json() {
        answer(&Written { patches: &files }, Vec::new())?;
        return Ok(Exit::Done);
    }
    let names: Vec<&str> = patches.iter().map(|(name, _)| name.as_str()).collect();
    let folder = quoted_path(&args.out);
    print(&format!(
        "{} {} in {folder}: {}\nablate them in a step of a recipe:\n  ablate: {{ design: add-one, patches: {folder}/*.patch }}\n",
        patches.len(),
        if patches.len() == 1 { "patch" } else { "patches" },
        names.join(", "),
    ))?;
    Ok(Exit::Done)
}
