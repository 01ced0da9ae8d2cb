//! The contract between the engine and the lab: the tasks with their parameters and metrics, and the protocol between a
//! worker process and the engine.
//!
//! The engine resolves a recipe's step to a [`Task`] and sends it to a worker as a [`Job`]; the worker answers with
//! [`Message`]s, the last of which carries an [`Outcome`]. Neither side needs the other's dependencies: this crate has
//! only serde below it.

mod backend;
mod beginning;
mod ignore;
mod lab;
mod metric;
mod metric_map;
mod observed;
mod outcome;
mod params;
mod protocol;
mod reported;
mod task;
pub mod tasks;
mod unit;
pub mod units;
mod value;
mod values;

pub use backend::{Backend, BackendChoice, Device, Probe, Rejected};
pub use beginning::{Agreement, Beginning, Trial};
pub use ignore::{IGNORED, Ignore};
pub use lab::Lab;
pub use metric::{MetricInfo, Precision};
pub use metric_map::{Metrics, current_name, same_metric};
pub use observed::{FileStamp, Observed, ObservedFile, Outside, Package, Tool};
pub use outcome::{Curve, Metric, Outcome};
pub use params::{Bounds, Folder, Group, Inside, Kind, Param, ParamError, ParamType, Part, Path, Scalar, Variable};
pub use protocol::{Failure, FailureKind, Job, LIVE_SERIES, Live, Message, PROTOCOL, Progress, Report, Speeds};
pub use reported::{Aggregates, Reported, ReportedSource};
pub use task::{AddedTask, Conflict, NEVER, Reach, Task, TaskInfo, TaskSpec, TasksError};
pub use unit::Unit;
pub use value::{Spelling, Value};
pub use values::{Name, Values};

/// Paths that the macros of this crate write into other crates.
#[doc(hidden)]
pub mod declared {
    pub use serde;

    pub use crate::params::first;
}
