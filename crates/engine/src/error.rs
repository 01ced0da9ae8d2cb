//! Every failure that ends the program, and its exit code.

use std::{
    io,
    path::{Path, PathBuf},
    process::ExitCode,
};

use sweep_job::TasksError;

use crate::{
    analysis::design::DesignError,
    batches::SearchError,
    export::bundle::BundleError,
    host::{devices::DeviceError, log::FilterError},
    import::ImportError,
    init::InitError,
    plan::{NothingSelected, PlanError},
    propose::{LedgerError, ProposeError},
    query::QueryError,
    recipe::{Problems, RecipeError},
    remote::RemoteError,
    run::StopError,
    session::SessionError,
    shipped::CopyError,
    store::{GcError, NoteError, StoreError, TransferError},
    variant::RegionError,
};

/// Exit status of the program. The numbers are part of the interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// Everything is done.
    Done,
    /// A bug, or the disk or a driver failed.
    Failure,
    /// The command line is invalid. (clap ends the program with the same code.)
    Usage,
    /// A recipe is invalid.
    Recipe,
    /// `--only` names nothing.
    NothingSelected,
    /// A job failed.
    JobFailed,
    /// `--strict`: a claim is refuted.
    Refuted,
    /// A job in an allocation did not find the records that it needs.
    Blocked,
    /// A signal ended it.
    Interrupted(i32),
}

/// Failure that ends the program.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The program adds tasks that cannot be added.
    #[error(transparent)]
    Tasks(#[from] TasksError),
    /// The filter of the log is invalid.
    #[error(transparent)]
    Log(#[from] FilterError),
    /// The recipe cannot be read.
    #[error("cannot read the recipe {}: {source}", .path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// There is no such file.
    #[error("{}: {help}", no_recipe(path))]
    NoRecipe {
        /// The file.
        path: PathBuf,
        /// Similar names, or the existing names.
        help: String,
    },
    /// A script stands where a recipe is needed, and no study of it has run.
    #[error(
        "`{}` is a script, and no study of it has run: `sweep run {} --axis NAME=A,B` runs one, `sweep new {}` writes a recipe",
        .0.display(), .0.display(), .0.display()
    )]
    NoStudy(PathBuf),
    /// A recipe is invalid.
    #[error("{name} is not a valid recipe")]
    Recipe {
        /// Name of the file.
        name: String,
        /// The mistakes.
        problems: Problems,
    },
    /// The file is not a plan.
    #[error("{} is not a plan that `sweep plan --format json` printed: {reason}", .path.display())]
    NoPlan {
        /// The file.
        path: PathBuf,
        /// The mistake.
        reason: String,
    },
    /// The recipes describe other jobs than when the plan was saved.
    #[error("the plan {} is stale: {total}: {changes}; plan the recipes again with `sweep plan`", .path.display())]
    StalePlan {
        /// The file.
        path: PathBuf,
        /// Number of differences.
        total: String,
        /// The first of them.
        changes: String,
    },
    /// Nothing has a name that the user gave.
    #[error("{message}; {help}")]
    NotFound {
        /// The name that does not exist.
        message: String,
        /// The nearest name, and the names that exist.
        help: String,
    },
    /// A request that cannot be met.
    #[error("{0}")]
    Unknown(String),
    /// The records lack the requested columns or values.
    #[error(transparent)]
    Query(#[from] QueryError),
    /// The seeds of a difference cannot be computed.
    #[error(transparent)]
    Design(#[from] DesignError),
    /// Nothing was removed.
    #[error(transparent)]
    Gc(#[from] GcError),
    /// Records did not travel.
    #[error(transparent)]
    Transfer(#[from] TransferError),
    /// A bundle was not written or not read.
    #[error(transparent)]
    Bundle(#[from] BundleError),
    /// A record is part of an open question.
    #[error(
        "the record {record} belongs to question {question} of the ledger, which is open; conclude it with its `sweep propose` first"
    )]
    Sealed {
        /// First digits of its key.
        record: String,
        /// Number of the question.
        question: usize,
    },
    /// A proposal has no answer.
    #[error(transparent)]
    Propose(#[from] ProposeError),
    /// There are no patches to write.
    #[error(transparent)]
    Regions(#[from] RegionError),
    /// Another patch has the name.
    #[error("{} exists with other content: remove it, or add `--replace`", .0.display())]
    OtherPatch(PathBuf),
    /// Flags of scripts were given with recipes.
    #[error(
        "`--seeds`, `--python` and arguments after `--` are for scripts and command lines; to change the seeds of a recipe, write \
         `--axis seed=0,1,2`"
    )]
    ForScripts,
    /// Several recipes, or none, were to be measured.
    #[error("`sweep measure` takes one recipe")]
    OneRecipe,
    /// Not one step has files to measure.
    #[error(
        "{}", if .0.is_empty() {
            "no finished job of the recipe keeps files: list them in `outputs` of the step, and run it".to_owned()
        } else {
            format!("several steps keep files ({}): select one with `--only STEP`", .0)
        }
    )]
    NoFiles(String),
    /// A script was given beside another script or a recipe.
    #[error("{} is a script: run each script with a separate command, and recipes with another", .0.display())]
    OneScript(std::path::PathBuf),
    /// A program in a language whose parameters are not read.
    #[error(
        "{} is a program, not a recipe, and the parameters of programs in its language are not read: write its command line with a \
         place for each value, as in `sweep run --axis lr=0.1,0.2 -- {by}`",
        .path.display()
    )]
    UnreadProgram {
        /// The file.
        path: PathBuf,
        /// The command line that starts it.
        by: String,
    },
    /// No recipe was written for a script.
    #[error(transparent)]
    Init(#[from] InitError),
    /// Runs of another program were not imported.
    #[error(transparent)]
    Import(#[from] ImportError),
    /// Shipped files were not copied.
    #[error(transparent)]
    Copy(#[from] CopyError),
    /// An export without a destination.
    #[error("the export has no destination: write `--output FILE`")]
    NoDestination,
    /// The bundle's commands were not confirmed.
    #[error("the bundle's commands were not run: {0}")]
    NotConfirmed(&'static str),
    /// A job cannot be stopped.
    #[error(transparent)]
    Stop(#[from] StopError),
    /// Notes cannot be changed so.
    #[error(transparent)]
    Note(#[from] NoteError),
    /// A remote cannot be used.
    #[error(transparent)]
    Remote(#[from] RemoteError),
    /// Nothing was selected.
    #[error(transparent)]
    NothingSelected(#[from] NothingSelected),
    /// There is no device.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// The store cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A plan cannot run.
    #[error(transparent)]
    Session(SessionError),
    /// The store could not be written any more while jobs ran, or no process could be started.
    #[error("the run was stopped: {0}; stored records are complete, and the next run continues from there")]
    Broken(String),
    /// The backend of jobs that this machine only submits is unknown here.
    #[error(
        "choose a backend with `--backend cuda`, `wgpu` or `cpu`: the jobs run on other machines, so `auto` cannot choose one"
    )]
    BackendElsewhere,
    /// No executor and no sweep file has this name.
    #[error("`{name}` is neither an executor nor a sweep file; the executors are {known}")]
    UnknownExecutor {
        /// The name.
        name: String,
        /// The executors.
        known: String,
    },
    /// A name is not a valid name of a host.
    #[error("`{name}` is not a host: {reason}; write a host name that `ssh` accepts, such as `box1` or `me@box1`")]
    Host {
        /// The name.
        name: String,
        /// The reason.
        reason: &'static str,
    },
    /// Two executors were selected.
    #[error("`--hosts` runs jobs by SSH, and excludes `--executor {0}`: keep one of them")]
    HostsElsewhere(String),
    /// A key could not be computed.
    #[error("cannot compute a job's key: {0}")]
    Key(#[source] serde_json::Error),
    /// An I/O error.
    #[error("{what}: {source}")]
    Io {
        /// The failed operation.
        what: &'static str,
        /// Error of the system.
        source: io::Error,
    },
}

impl Exit {
    /// The number.
    pub fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Failure => 1,
            Self::Usage => 2,
            Self::Recipe => 3,
            Self::NothingSelected => 4,
            Self::JobFailed => 5,
            Self::Refuted => 6,
            Self::Blocked => 75,
            Self::Interrupted(signal) => u8::try_from(128 + signal).unwrap_or(130),
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

impl Error {
    /// The exit code that this failure means.
    pub fn exit(&self) -> Exit {
        match self {
            Self::Read { source, .. } if source.kind() == io::ErrorKind::InvalidData => Exit::Recipe,
            Self::Tasks(_)
            | Self::Log(_)
            | Self::Read { .. }
            | Self::NoRecipe { .. }
            | Self::NotFound { .. }
            | Self::NoPlan { .. }
            | Self::StalePlan { .. }
            | Self::Unknown(_)
            | Self::Query(QueryError::UnknownColumn { .. } | QueryError::Condition(_))
            | Self::Design(_)
            | Self::Bundle(
                BundleError::NothingDone | BundleError::Signature(RemoteError::Absent | RemoteError::Key(_)),
            )
            | Self::ForScripts
            | Self::OneRecipe
            | Self::NoFiles(_)
            | Self::OneScript(_)
            | Self::UnreadProgram { .. }
            | Self::NoStudy(_)
            | Self::Init(_)
            | Self::Import(_)
            | Self::Copy(CopyError::Differs { .. })
            | Self::NoDestination
            | Self::NotConfirmed(_)
            | Self::BackendElsewhere
            | Self::Remote(RemoteError::Address(..) | RemoteError::Absent | RemoteError::Key(_))
            | Self::UnknownExecutor { .. }
            | Self::Host { .. }
            | Self::HostsElsewhere(_)
            | Self::Regions(RegionError::Mark { .. } | RegionError::None | RegionError::NoCommits(_))
            | Self::OtherPatch(_)
            | Self::Device(DeviceError::Rejected(_)) => Exit::Usage,
            Self::Session(error) if error.is_usage() => Exit::Usage,
            Self::Stop(error) => {
                if matches!(error, StopError::Io(_)) {
                    Exit::Failure
                } else {
                    Exit::Usage
                }
            }
            Self::Note(error) => {
                if matches!(error, NoteError::Io(_)) {
                    Exit::Failure
                } else {
                    Exit::Usage
                }
            }
            Self::Propose(error) => Self::exit_of(error),
            Self::Recipe { .. } => Exit::Recipe,
            Self::NothingSelected(_) => Exit::NothingSelected,
            Self::Device(DeviceError::Probe(_))
            | Self::Regions(RegionError::File { .. } | RegionError::Git(_))
            | Self::Query(QueryError::Store(_))
            | Self::Store(_)
            | Self::Session(_)
            | Self::Broken(_)
            | Self::Gc(_)
            | Self::Transfer(_)
            | Self::Bundle(_)
            | Self::Remote(RemoteError::Broken(..) | RemoteError::Envelope(_) | RemoteError::Local(_))
            | Self::Sealed { .. }
            | Self::Copy(CopyError::Io { .. })
            | Self::Key(_)
            | Self::Io { .. } => Exit::Failure,
        }
    }

    /// The exit code of a proposal without an answer.
    fn exit_of(error: &ProposeError) -> Exit {
        match error {
            ProposeError::Recipe(_) => Exit::Recipe,
            ProposeError::NothingSelected(_) => Exit::NothingSelected,
            ProposeError::Elsewhere
            | ProposeError::Several
            | ProposeError::NoDelta { .. }
            | ProposeError::NoRevision(_)
            | ProposeError::NoRange { .. }
            | ProposeError::NoStep { .. }
            | ProposeError::NoSeeds(_)
            | ProposeError::Searches(_)
            | ProposeError::NoMetric { .. }
            | ProposeError::Least
            | ProposeError::Unpaired(_)
            | ProposeError::Unobserved(_)
            | ProposeError::NothingSealed(_)
            | ProposeError::Device(DeviceError::Rejected(_)) => Exit::Usage,
            ProposeError::Failed(_) => Exit::JobFailed,
            ProposeError::Interrupted(signal) => Exit::Interrupted(*signal),
            ProposeError::Search(_)
            | ProposeError::Store(_)
            | ProposeError::Ledger(
                LedgerError::Io(_) | LedgerError::Broken { .. } | LedgerError::Secret(_) | LedgerError::Raced,
            )
            | ProposeError::Bundle(_)
            | ProposeError::Run(_)
            | ProposeError::Device(DeviceError::Probe(_))
            | ProposeError::Key(_)
            | ProposeError::Io(_)
            | ProposeError::NoDifference { .. }
            | ProposeError::Changed { .. }
            | ProposeError::Removed { .. }
            | ProposeError::LeftOut { .. }
            | ProposeError::Foreign { .. }
            | ProposeError::Broken(_) => Exit::Failure,
        }
    }

    /// The failure, and its remedy if it has a separate one.
    pub fn parts(&self) -> (String, Option<&str>) {
        match self {
            Self::NotFound { message, help } => (message.clone(), Some(help)),
            Self::NoRecipe { path, help } => (no_recipe(path), Some(help)),
            other => (other.to_string(), None),
        }
    }

    /// A failure of the disk while something was done.
    pub fn io(what: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { what, source }
    }

    /// A failure to read recipes.
    pub fn recipe(name: String) -> impl FnOnce(RecipeError) -> Self {
        move |error| match error {
            RecipeError::Read { path, source } => Self::Read { path, source },
            RecipeError::Invalid(problems) => Self::Recipe { name, problems },
        }
    }

    /// A failure to judge a proposal about these recipes.
    pub fn proposal(name: String) -> impl FnOnce(ProposeError) -> Self {
        move |error| match error {
            ProposeError::Recipe(error) => Self::recipe(name)(error),
            ProposeError::Search(error) => Self::search(name)(error),
            ProposeError::Store(error) => Self::Store(error),
            ProposeError::NothingSelected(error) => Self::NothingSelected(error),
            ProposeError::Device(error) => Self::Device(error),
            error => Self::Propose(error),
        }
    }

    /// A failure to plan recipes, or to continue a search.
    pub fn search(name: String) -> impl FnOnce(SearchError) -> Self {
        move |error| match error {
            SearchError::Plan(error) => Self::plan(name)(error),
            SearchError::Store(error) => Self::Store(error),
            source @ (SearchError::Io(_) | SearchError::Ask { .. }) => {
                Self::Session(SessionError::Search { name, source })
            }
        }
    }

    /// A failure to plan recipes.
    pub fn plan(name: String) -> impl FnOnce(PlanError) -> Self {
        move |error| match error {
            PlanError::Invalid(problems) => Self::Recipe { name, problems },
            PlanError::Key(source) => Self::Key(source),
        }
    }
}

impl From<SessionError> for Error {
    fn from(error: SessionError) -> Self {
        match error {
            SessionError::Search { name, source } => Self::search(name)(source),
            SessionError::Store(error) => Self::Store(error),
            SessionError::NothingSelected(error) => Self::NothingSelected(error),
            SessionError::Device(error) => Self::Device(error),
            SessionError::Remote(error) => Self::Remote(error),
            SessionError::Io { what, source } => Self::Io { what, source },
            error => Self::Session(error),
        }
    }
}

fn no_recipe(path: &Path) -> String {
    format!("there is no recipe `{}`", path.display())
}
