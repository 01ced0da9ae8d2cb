//! Statistics of small samples: means, intervals, tests and their corrections.
//!
//! `sample.rs` has means with Student's t intervals, `student.rs` their quantiles and levels, `blocks.rs` Tukey's test of all rows at once
//! with the distribution in `range.rs`, `dunnett.rs` Dunnett's test of rows against one row, `sequential.rs` the levels of repeated looks,
//! `power.rs` the numbers of seeds, `replication.rs` the errors of means over crossed factors and folds, `items.rs` errors of means over
//! items of a test set in clusters, `rates.rs` shares of runs, `robust.rs` quantiles and means of the middle half, `equivalence.rs` the
//! probabilities of negligible differences, `aggregate.rs` aggregates over tasks, and `importance.rs` the shares of factors in the
//! differences between configurations; `online.rs` has the levels of tests without an end, `survival.rs` times to a target, `profile.rs`
//! performance profiles, `components.rs` components of variance, `scaling.rs` power laws and the agreement of rankings, and `constant.rs`
//! power laws with a constant. `docs/statistics.md` explains the choices and has simulated error rates.

mod aggregate;
mod better;
mod blocks;
mod chi;
mod components;
mod constant;
mod draws;
mod dunnett;
pub mod effects;
mod equivalence;
pub mod factorial;
mod importance;
mod items;
pub mod online;
mod power;
mod profile;
mod range;
mod rates;
mod replication;
mod robust;
mod sample;
mod scaling;
mod sequential;
mod solve;
mod student;
mod survival;
#[cfg(test)]
pub mod tests;

pub use sweep_job::Precision;

pub use self::{
    aggregate::{Tasks, interquartile_mean},
    better::Better,
    blocks::{Blocks, Groups, reach},
    components::{Components, components, variance_of},
    draws::Draws,
    dunnett::{dunnett_quantile, dunnett_sf},
    equivalence::{Odds, odds},
    importance::{Factor, Importance, MIN_CONFIGURATIONS, Share, importance},
    items::{ItemError, Runs, Signs, clustered},
    power::{
        Simulated, WANTED, power, power_of_range, power_unpaired, sd_interval, seeds_needed, seeds_needed_unpaired,
        sequential_power,
    },
    profile::{MAX_FACTOR, profile_scores},
    range::{range_quantile, range_sf},
    rates::Rates,
    replication::{ErrorOfMean, Leveled, SharedSeeds, crossed, shared_seeds, variance_of_folds},
    robust::{is_carried_by_one, middle_mean, quantile_of, sign_test, without_outliers},
    sample::{Estimate, Quartiles, Sample, correlation},
    scaling::{Agreement, LawNumber, PowerLaw, agreement},
    sequential::{RAISE, constant_level, error_rate, extension_level},
    student::{LEVEL, holm},
    survival::{LogRank, TimeToEvent, log_rank, median_time, pseudo_times, restricted_mean, survival},
};
pub use self::{
    sample::{estimate, mean, welch},
    student::{level_of, quantile},
};
