//! The program `sweep` as a library: for a program that has the engine, the lab, and [tasks](job::AddedTask) of its own.
//!
//! `sweep new --lab NAME` writes such a project; `examples/own-lab` is what it writes.
//!
//! ```no_run
//! use sweep::job::{AddedTask, Failure, Group as _, Job, MetricInfo, Outcome, Param, Report, TaskInfo, TaskSpec, Values};
//!
//! sweep::params! {
//!     /// Settings of the task.
//!     pub struct Square {
//!         /// The number to square.
//!         x: f64 = 1.0, in -1e9..=1e9;
//!     }
//! }
//!
//! sweep::metrics! {
//!     impl Square {
//!         /// The square.
//!         SQUARE: One = "square";
//!     }
//! }
//!
//! impl TaskSpec for Square {
//!     const NAME: &'static str = "square";
//!     const ABOUT: &'static str = "squares a number";
//!     const GROUPS: &'static [&'static [Param]] = &[Self::PARAMS];
//!     const METRICS: &'static [&'static [MetricInfo]] = &[Self::DECLARED];
//!     const ON_DEVICE: bool = false;
//!
//!     fn build(values: &Values) -> Option<Self> {
//!         Self::from_values(values)
//!     }
//! }
//!
//! impl AddedTask for Square {
//!     fn run(&self, _: &Job, _: &mut dyn Report) -> Result<Outcome, Failure> {
//!         let mut outcome = Outcome::default();
//!         outcome.set(&Self::SQUARE, self.x * self.x);
//!         Ok(outcome)
//!     }
//! }
//!
//! fn main() -> std::process::ExitCode {
//!     sweep::main(&[TaskInfo::added::<Square>()])
//! }
//! ```

#[cfg(feature = "cpu")]
mod on_burn;

use std::process::ExitCode;

#[doc(inline)]
pub use sweep_job as job;
pub use sweep_job::{choice, metrics, params};
#[cfg(feature = "cpu")]
#[doc(inline)]
pub use sweep_lab as lab;
#[cfg(feature = "cpu")]
pub use sweep_lab::burn;

/// Runs the program with the arguments of this process. Recipes may use the tasks in `added`, beside those of the lab and the
/// engine.
pub fn main(added: &[job::TaskInfo]) -> ExitCode {
    #[cfg(feature = "cpu")]
    let lab = Some(on_burn::LAB);
    #[cfg(not(feature = "cpu"))]
    let lab = None;
    sweep_engine::cli::main(lab, added)
}
