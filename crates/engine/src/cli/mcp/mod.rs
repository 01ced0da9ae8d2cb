//! `sweep mcp`: the tools for agents; one file per tool.
//!
//! A tool is a function of the session and of typed input; it is listed in [`tools`]. Its schemas come from the types.

mod bounded;
mod describe;
mod explain;
mod ledger;
mod plan;
mod propose;
mod query;
mod report;
mod run;
mod status;
mod stop;
mod study;
mod validate;

use std::{
    io::{self, IsTerminal as _, Write as _},
    net::SocketAddr,
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};

use clap::Args;
use sweep_job::units::parse_seconds;

pub(super) use self::bounded::{ExecBoundedArgs, bounded};
use super::print;
use crate::{
    error::{Error, Exit},
    format::say,
    mcp::{self, Bounds, Fault, FaultKind, Mistake, Permissions, Project, Session, Tool},
    recipe::Problems,
    store::Store,
    web::secret,
};

#[derive(Debug, Args)]
pub(super) struct McpArgs {
    /// The project's folder. Clients cannot read files outside of this folder; `--results` is relative to it.
    #[arg(long, value_name = "DIR", default_value = ".")]
    project: PathBuf,
    /// Serve at `http://127.0.0.1:PORT/mcp` instead of standard input and output; 0 selects a free port.
    #[arg(long, value_name = "PORT", num_args = 0..=1, default_missing_value = "7879")]
    http: Option<u16>,
    /// With `--http`: the file with the token that requests must have. Default: a new token in the session's folder.
    #[arg(long, value_name = "FILE", requires = "http")]
    token_file: Option<PathBuf>,
    /// Allow runs of this recipe, or of the recipes in this folder; can be repeated. Default: no recipe can be run.
    #[arg(long, value_name = "PATH")]
    allow_run: Vec<String>,
    /// Allow steps and samplers that run programs.
    #[arg(long)]
    allow_programs: bool,
    /// Allow jobs that run elsewhere, through the executor of a sweep file.
    #[arg(long)]
    allow_executors: bool,
    /// Show no results, and answer proposals with one bit: accepted or not.
    #[arg(long)]
    one_bit: bool,
    /// Maximum number of jobs started in all runs of this server.
    #[arg(long, value_name = "N", default_value_t = 100)]
    max_jobs: usize,
    /// Maximum total duration of all runs, such as `30m` or `8h`.
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = time)]
    max_time: f64,
    /// Maximum GPU time, in hours; a job on two GPUs counts twice.
    #[arg(long, value_name = "HOURS", default_value = "1", value_parser = hours)]
    max_gpu_hours: f64,
}

fn time(text: &str) -> Result<f64, String> {
    let seconds = parse_seconds(text).ok().filter(|seconds| seconds.is_finite() && *seconds > 0.0);
    seconds.ok_or_else(|| "it must be a span of time such as `90s`, `30m` or `8h`".to_owned())
}

fn hours(text: &str) -> Result<f64, String> {
    let hours = text.parse().ok().filter(|hours: &f64| hours.is_finite() && *hours >= 0.0);
    hours.ok_or_else(|| "it must be a number of hours, such as `0.5`".to_owned())
}

/// All tools, in the order of the list that agents see.
pub(super) fn tools() -> Vec<Tool> {
    vec![
        describe::tool(),
        validate::tool(),
        plan::tool(),
        run::tool(),
        status::tool(),
        stop::tool(),
        report::tool(),
        explain::tool(),
        query::tool(),
        propose::tool(),
        ledger::tool(),
    ]
}

/// The tools of a server; without those that show results if `one_bit`.
fn tools_of(one_bit: bool) -> Vec<Tool> {
    /// Tools that show results.
    const RESULTS: [&str; 4] = ["report", "explain", "query", "ledger"];
    let is_shown = |tool: &Tool| !one_bit || !RESULTS.contains(&tool.name());
    tools().into_iter().filter(is_shown).collect()
}

pub(super) fn mcp(results: &Path, args: &McpArgs) -> Result<Exit, Error> {
    let project = Project::open(&args.project).map_err(Error::io("cannot open the project's folder"))?;
    // Paths of recipes and results start from it, also those of the processes that run jobs.
    std::env::set_current_dir(project.root()).map_err(Error::io("cannot open the project's folder"))?;
    Store::open(results)?;
    let allowed_paths = args.allow_run.iter().map(|path| project.inside(path));
    let runs =
        allowed_paths.collect::<Result<_, Fault>>().map_err(|fault| Error::Unknown(format!("--allow-run: {fault}")))?;
    let permissions =
        Permissions { runs, programs: args.allow_programs, executors: args.allow_executors, one_bit: args.one_bit };
    let bounds = Bounds { jobs: args.max_jobs, seconds: args.max_time, gpu_hours: args.max_gpu_hours };
    let session = Session::open(project, results, permissions, bounds);
    let session = session.map_err(Error::io("cannot write the journal of calls"))?;
    let Some(port) = args.http else {
        if io::stdin().is_terminal() {
            say(format_args!("this server speaks the Model Context Protocol: an agent starts it; see docs/agents.md"));
        }
        mcp::serve_stdio(session, tools_of(args.one_bit)).map_err(Error::io("cannot serve"))?;
        return Ok(Exit::Done);
    };
    let token = token(args.token_file.as_deref(), session.folder())?;
    let announce = |address: SocketAddr| {
        let _ = print(&format!("http://{address}/mcp\n"));
        say(format_args!("the token that requests must have is in `{}`; Ctrl-C ends the server", token.0.display()));
    };
    let signal = mcp::serve_http(session, tools_of(args.one_bit), port, &token.1, announce)
        .map_err(Error::io("cannot serve (another port may be free; `--http 0` takes one that is)"))?;
    Ok(if signal == signal_hook::consts::SIGINT { Exit::Done } else { Exit::Interrupted(signal) })
}

/// The token and its file: a given file, or a new one that only the user can read.
fn token(token_file: Option<&Path>, folder: &Path) -> Result<(PathBuf, String), Error> {
    const MIN_TOKEN_LENGTH: usize = 16;
    if let Some(path) = token_file {
        let text = fs_err::read_to_string(path).map_err(Error::io("cannot read the token"))?;
        let token = text.trim();
        if token.len() < MIN_TOKEN_LENGTH || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
            let path = path.display();
            let message = format!(
                "`{path}` has no token: write at least {MIN_TOKEN_LENGTH} visible ASCII characters in one line"
            );
            return Err(Error::Unknown(message));
        }
        return Ok((path.to_owned(), token.to_owned()));
    }
    let make = || -> io::Result<(PathBuf, String)> {
        let token = secret()?;
        let path = folder.join("token");
        let mut file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
        writeln!(file, "{token}")?;
        Ok((path, token))
    };
    make().map_err(Error::io("cannot write the token"))
}

/// A failure of a command as the fault of a tool.
fn fault(error: Error) -> Fault {
    match error {
        Error::Recipe { name, problems } => {
            let mistakes = mistakes(&problems);
            let fault = Fault::new(FaultKind::Recipe, format!("`{name}` has mistakes: nothing was run"));
            Fault { mistakes, ..fault.help("correct them, and call `validate`") }
        }
        Error::NotFound { .. } | Error::Unknown(_) => Fault::new(FaultKind::NotFound, error.to_string()),
        Error::NothingSelected(_) => Fault::new(FaultKind::Arguments, error.to_string()),
        _ if error.exit() == Exit::Usage => Fault::new(FaultKind::Arguments, error.to_string()),
        _ => Fault::new(FaultKind::Failed, error.to_string()),
    }
}

/// The mistakes of recipes, with their places.
fn mistakes(problems: &Problems) -> Vec<Mistake> {
    let mistake = |problem: &crate::recipe::Problem| Mistake {
        at: problem.place().to_string(),
        message: problem.to_string(),
        help: miette::Diagnostic::help(problem).map(|help| help.to_string()),
    };
    problems.iter().map(mistake).collect()
}
