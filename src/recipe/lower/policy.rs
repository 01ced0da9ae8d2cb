//! A job's resources and failure policy: none of it part of a key.

use std::{ops::RangeInclusive, time::Duration};

use sweep_job::{
    Value,
    units::{UnitError, parse_bytes, parse_seconds},
};

use super::{Lower, find};
use crate::recipe::{
    Policy, Resources,
    node::{Entry, Node, NodeKind},
};

/// The keys of `resources`.
pub(crate) const RESOURCE_KEYS: &[&str] = &["cpus", "gpus", "memory"];
/// Numbers of cores that a job can declare.
pub(crate) const CPUS: RangeInclusive<i64> = 1..=4096;
/// Numbers of GPUs that a job can declare.
pub(crate) const GPUS: RangeInclusive<i64> = 0..=1024;
/// Numbers of retries that a job can declare.
pub(crate) const RETRIES: RangeInclusive<i64> = 0..=100;

impl Lower<'_> {
    /// `resources: { cpus, gpus, memory }`.
    pub(super) fn resources(&mut self, node: &Node) -> Resources {
        let keys = self.map(node, "`resources`", RESOURCE_KEYS).unwrap_or_default();
        let cpus = find(keys, "cpus").and_then(|node| {
            let help = "write the number of cores that a job keeps busy, for example `cpus: 1`";
            self.whole(node, "cpus", &CPUS, "not a number of cores", help)
        });
        let gpus = find(keys, "gpus").and_then(|node| {
            let help = "write the number of GPUs that a job has for itself, for example `gpus: 1`";
            self.whole(node, "gpus", &GPUS, "not a number of GPUs", help)
        });
        let memory = find(keys, "memory").and_then(|node| {
            let help = "write a size with its unit, for example `memory: 4GiB` or `memory: 512MB`";
            self.with_unit(node, "memory", parse_bytes, "not a size", help)
        });
        Resources { cpus, gpus, memory, exclusive: false }
    }

    /// The keys of a step that say what becomes of its jobs; `exclusive` goes with the resources.
    pub(super) fn policy(&mut self, keys: &[Entry]) -> Policy {
        let mut span_of_time = |key: &'static str| {
            let node = find(keys, key)?;
            let help = format!("write a span of time with its unit, for example `{key}: 30m`, `1h30m` or `90s`");
            let seconds = self.with_unit(node, key, parse_seconds, "not a span of time", &help)?;
            if seconds == 0.0 {
                let message = format!("`{key}` must be longer than nothing");
                self.problem(node.span, message, "no time at all", help);
                return None;
            }
            Some(Duration::from_secs_f64(seconds))
        };
        let (timeout, heartbeat) = (span_of_time("timeout"), span_of_time("heartbeat"));
        let retries = find(keys, "retries").and_then(|node| {
            let help = "write how often a job that failed is started again, for example `retries: 2`";
            self.whole(node, "retries", &RETRIES, "not a number of retries", help)
        });
        let tolerated = find(keys, "continue-on-error").is_some_and(|node| self.flag(node, "continue-on-error"));
        Policy { retries: retries.unwrap_or(0), timeout, heartbeat, tolerated }
    }

    /// `true` or `false`.
    pub(super) fn flag(&mut self, node: &Node, key: &str) -> bool {
        if let NodeKind::Scalar(Value::Bool(flag)) = node.kind {
            return flag;
        }
        let message = format!("`{key}` must be true or false, found {}", node.describe());
        self.problem(node.span, message, "neither true nor false", format!("write `{key}: true`, or leave it out"));
        false
    }

    fn whole<T: TryFrom<i64>>(
        &mut self,
        node: &Node,
        key: &str,
        range: &RangeInclusive<i64>,
        label: &str,
        help: &str,
    ) -> Option<T> {
        match &node.kind {
            NodeKind::Scalar(Value::Int(number)) if range.contains(number) => T::try_from(*number).ok(),
            _ => {
                let message = format!("`{key}` must be an integer from {} to {}", range.start(), range.end());
                self.problem(node.span, message, label, help);
                None
            }
        }
    }

    pub(super) fn with_unit<T>(
        &mut self,
        node: &Node,
        key: &str,
        parse: impl Fn(&str) -> Result<T, UnitError>,
        label: &str,
        help: &str,
    ) -> Option<T> {
        let parsed = match &node.kind {
            NodeKind::Scalar(Value::Text(text)) => parse(text),
            NodeKind::Scalar(Value::Int(_) | Value::Float(_)) => Err(UnitError::NoUnit),
            _ => Err(UnitError::NoNumber),
        };
        match parsed {
            Ok(value) => Some(value),
            Err(error) => {
                self.problem(node.span, format!("`{key}` cannot be read: {error}"), label, help);
                None
            }
        }
    }
}
