//! The execution of plans: scheduler, executors, hosts, batch systems, remotes, and the display of progress.

pub mod doctor;
pub mod host_server;
pub mod hosts;
pub mod progress;
pub mod remote;
pub mod run;

use sweep_base::{format, host, record};
use sweep_plan::{plan, store, variant};
use sweep_recipe::recipe;
