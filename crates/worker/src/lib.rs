//! The worker process, which runs programs and observes them.

pub mod worker;

use sweep_base::{format, host, record};
use sweep_plan::{plan, store};
use sweep_report::batches;
use sweep_run::run;
