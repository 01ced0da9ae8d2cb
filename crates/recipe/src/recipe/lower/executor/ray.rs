//! `executor: { ray: … }`: the address of a Ray cluster, and the custom resources of jobs.

use std::{collections::BTreeMap, time::Duration};

use serde_json::{Value as Json, json};
use sweep_job::Value;

use super::Settings;
use crate::recipe::{
    keys::{Custom, Mapping as _, Text, TimeSpan, mapping},
    lower::Lower,
    node::{Entry, Node, NodeKind},
    schema::reference,
    source::Spanned,
};

/// A Ray cluster, with the settings of jobs.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Ray {
    /// The address of the Jobs API, `http://HOST:PORT`; that of the environment if it is missing.
    pub address: Option<String>,
    /// Custom resources of every job.
    pub resources: BTreeMap<String, f64>,
    /// Additional custom resources of the jobs of individual steps.
    pub steps: Vec<(String, BTreeMap<String, f64>)>,
    /// Timeout for the first response of the cluster in a run.
    pub answers_within: Option<Duration>,
}

impl Ray {
    /// Custom resources of a step's jobs; without a step, those of every job.
    pub fn of_step(&self, step: Option<&str>) -> BTreeMap<String, f64> {
        let step_resources = self.steps.iter().filter(|(name, _)| Some(name.as_str()) == step);
        self.resources.clone().into_iter().chain(step_resources.flat_map(|(_, amounts)| amounts.clone())).collect()
    }
}

mapping! {
    /// The keys of `ray`.
    struct RayKeys = "ray" {
        /// The address of the Jobs API: `http://HOST:8265`. Default: `RAY_API_SERVER_ADDRESS`, else `RAY_ADDRESS`, else `http://127.0.0.1:8265`.
        ///
        /// A token is read from `RAY_AUTH_TOKEN`, and further headers from `RAY_JOB_HEADERS`.
        address: Text = Text {
            schema: || json!({ "type": "string", "pattern": "^https?://[^/@?#]+/?$" }),
            accepts: "`http://HOST:PORT` or `https://HOST:PORT`",
        },
        /// Custom resources of every job, for example `{ "accelerator_type:A100": 0.001 }`.
        resources: Custom = Custom { schema: resources, accepts: "name to a number" },
        /// Additional custom resources of the jobs of individual steps.
        steps: Custom = Custom { schema: steps, accepts: "step to `{ resources: … }`" },
        /// The maximum time until the first response of the cluster in a run; after that, the run ends. Default:
        /// `10m`.
        ///
        /// Later requests are repeated until the cluster responds. Jobs of earlier runs continue in Ray.
        answers_within = "answers-within": TimeSpan = TimeSpan { zero: false },
    }
}

fn resources() -> Json {
    json!({ "type": "object", "additionalProperties": { "type": "number", "exclusiveMinimum": 0 } })
}

fn steps() -> Json {
    let of_step =
        json!({ "type": "object", "properties": { "resources": resources() }, "additionalProperties": false });
    json!({ "type": "object", "propertyNames": reference("name"), "additionalProperties": of_step })
}

impl Settings for Ray {
    fn read(lower: &mut Lower<'_>, node: &Node) -> (Self, Vec<Spanned<String>>) {
        let keys = RayKeys::read_or_empty(lower, node, "`ray`");
        let address = keys.address.spanned();
        if let Some(address) = &address
            && let Err(why) = check_address(&address.value)
        {
            let help = "write `http://HOST:PORT`, for example `http://127.0.0.1:8265`";
            lower.problem(address.span, format!("`address` cannot be used: {why}"), "not an address", help);
        }
        let (mut own, mut named) = (Vec::new(), Vec::new());
        for Entry { key, value } in keys.steps.node().map(|node| lower.entries(node, "`steps`")).unwrap_or_default() {
            named.push(key.clone());
            let entries = lower.map(value, "a step of `ray`", &["resources"]).unwrap_or_default();
            let resources = entries.iter().find(|entry| entry.key.value == "resources").map(|entry| &entry.value);
            own.push((key.value.clone(), amounts(lower, resources)));
        }
        let resources = amounts(lower, keys.resources.node());
        let address = address.map(|address| address.value);
        let answers_within = keys.answers_within.value;
        (Self { address, resources, steps: own, answers_within }, named)
    }
}

/// Checks that a text is the address of a server without a path, credentials or a query.
///
/// # Errors
/// The reason why the text is not such an address.
pub fn check_address(address: &str) -> Result<(), &'static str> {
    let host = address.strip_prefix("http://").or_else(|| address.strip_prefix("https://"));
    let host = host.ok_or("it does not begin with `http://` or `https://`")?.trim_end_matches('/');
    if host.contains('@') {
        return Err("it contains credentials, which are read from the environment");
    }
    let plain = |char: char| char.is_ascii_alphanumeric() || ".-_:[]".contains(char);
    if host.is_empty() || !host.chars().all(plain) { Err("it must end with the port") } else { Ok(()) }
}

fn amounts(lower: &mut Lower<'_>, node: Option<&Node>) -> BTreeMap<String, f64> {
    let mut amounts = BTreeMap::new();
    for Entry { key, value } in node.map(|node| lower.entries(node, "`resources`")).unwrap_or_default() {
        let amount = match &value.kind {
            NodeKind::Scalar(number @ (Value::Int(_) | Value::Float(_))) => number.as_f64(),
            _ => None,
        };
        match amount.filter(|amount| *amount > 0.0 && amount.is_finite()) {
            Some(amount) => drop(amounts.insert(key.value.clone(), amount)),
            None => {
                let message = format!("`{}` must be a number greater than 0", key.value);
                lower.problem(value.span, message, "not an amount", "write a number, for example `0.5`");
            }
        }
    }
    amounts
}
