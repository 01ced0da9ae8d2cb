//! Schemas of tables, figures and claims.

use serde_json::{Value, json};
use sweep_job::Task;

use super::shapes::{described, object, reference, some, text_of};
use crate::recipe::{
    BACKEND_NAMES, Better, CLAIM_KEYS, COMPARE_KEYS, COMPARED_KEYS, EXPECT_KEYS, FIGURE_KEYS, FigureKind, ORDER_KEYS,
    ROOF_KEYS, TABLE_KEYS, VALUE_KEYS,
};

pub(super) fn table() -> Value {
    let mut metrics: Vec<&str> = Vec::new();
    let mut docs: Vec<String> = Vec::new();
    for (task, metric) in Task::ALL.iter().flat_map(|task| task.metrics().map(move |metric| (task, metric))) {
        let doc = format!("{}: {}", task.name, metric.doc);
        match metrics.iter().position(|known| *known == metric.name) {
            Some(known) => docs[known] = format!("{} {doc}", docs[known]),
            None => {
                metrics.push(metric.name);
                docs.push(doc);
            }
        }
    }
    // A task with metrics of its own choosing (`command`) makes every name possible; which step a table is about, a
    // schema cannot see. The declared ones are still offered.
    let cells = json!({
        "type": ["string", "array"],
        "minLength": 1,
        "minItems": 1,
        "items": { "anyOf": [{ "enum": metrics, "enumDescriptions": docs }, { "type": "string", "minLength": 1 }] },
    });
    let pair = json!({ "type": "array", "minItems": 2, "maxItems": 2, "items": reference("value") });
    let compare = object(
        COMPARE_KEYS,
        &["axis", "pairs"],
        vec![
            (
                "show",
                json!({
                    "enum": ["difference", "ratio"],
                    "description": "Whether a pair is shown as a difference or as a ratio; `difference` if left out.",
                }),
            ),
            (
                "noise",
                described(
                    "The axis along which the same job is repeated: differences below its noise are shown as such.",
                    reference("name"),
                ),
            ),
            (
                "decide",
                json!({
                    "type": "boolean",
                    "description": "Whether a step with `seeds: { min, max, until: decided }` gets more of them until chance cannot explain the differences.",
                }),
            ),
            ("axis", described("The axis.", reference("name"))),
            (
                "pairs",
                json!({
                    "type": "array",
                    "minItems": 1,
                    "items": pair,
                    "description": "A value of the axis, and the one that it is compared with.",
                }),
            ),
        ],
    );
    let words: Vec<&str> = Better::WORDS.iter().map(|(word, _)| *word).collect();
    let best = json!({ "type": "object", "additionalProperties": { "enum": words } });
    let paper = json!({ "type": "array", "minItems": 1, "items": { "type": "object", "minProperties": 1 } });
    let mut schema = object(
        TABLE_KEYS,
        &[],
        vec![
            ("title", text_of("The heading.")),
            ("from", described("The step.", reference("name"))),
            ("where", described("Only points that have these values.", reference("selection"))),
            ("rows", described("The axes that make the rows.", reference("names"))),
            ("columns", described("The axes whose values have columns of their own.", reference("names"))),
            ("cells", described("The metrics shown; axes that are neither rows nor columns are averaged.", cells)),
            (
                "compare",
                described("Shows differences instead of the metrics themselves, a row for each pair.", compare),
            ),
            (
                "best",
                described(
                    "Metric to `min`, `max` or `none`: which value is marked. Losses, times and sizes are best small, rates large.",
                    best,
                ),
            ),
            (
                "paper",
                described(
                    "What the paper measured: values of axes, and of metrics, which are shown beside ours.",
                    paper,
                ),
            ),
            (
                "claims",
                described(
                    "Instead of a step: claims with a `ratio`, each a row with its sides, the paper's value and the verdict.",
                    reference("names"),
                ),
            ),
        ],
    );
    schema["type"] = json!(["object", "null"]);
    schema
}

pub(super) fn figure() -> Value {
    let words = FigureKind::WORDS.map(|(word, _)| word);
    let best: Vec<&str> = Better::WORDS.iter().map(|(word, _)| *word).collect();
    let roof = |text: &str| json!({ "type": ["string", "number"], "minLength": 1, "exclusiveMinimum": 0, "description": text });
    let roofs = object(
        ROOF_KEYS,
        &[],
        vec![
            ("compute", roof("Operations a second: a metric, or a number.")),
            ("bandwidth", roof("Bytes a second: a metric, or a number.")),
        ],
    );
    let mut schema = object(
        FIGURE_KEYS,
        &[],
        vec![
            ("title", text_of("The heading.")),
            ("from", described("The step.", reference("name"))),
            ("where", described("Only points that have these values.", reference("selection"))),
            ("kind", json!({ "enum": words, "description": "What is drawn." })),
            (
                "x",
                text_of(
                    "To the right: `iteration` for `line`, an axis for `bar` and `heat`, else a metric; not for `timeline`.",
                ),
            ),
            (
                "y",
                text_of(
                    "Upwards: a curve for `line`, an axis for `heat`, else a metric; not for `histogram` and `timeline`.",
                ),
            ),
            ("value", text_of("The metric that a `heat` map shows.")),
            ("roofs", described("For `roofline`: what the device can do at most.", roofs)),
            (
                "best",
                described(
                    "For `pareto`: metric to `min` or `max`. If left out, losses, times and sizes are best small, rates large.",
                    json!({ "type": "object", "additionalProperties": { "enum": best } }),
                ),
            ),
            ("color", described("The axis whose values have a color each.", reference("name"))),
            (
                "band",
                json!({
                    "enum": ["ci95", "none"],
                    "description": "Whether the 95 % confidence interval is drawn around what is averaged.",
                    "default": "ci95",
                }),
            ),
        ],
    );
    // The other keys are required only if the author writes `kind`, and not if a base does.
    let required = |kinds: &[&str], present: &[&str], keys: &[&str]| {
        json!({
            "if": { "required": present, "properties": { "kind": { "enum": kinds } } },
            "then": { "required": keys },
        })
    };
    schema["allOf"] = json!([
        required(&["bar", "heat", "line", "pareto", "roofline", "scatter"], &["kind", "x"], &["y"]),
        required(&["roofline"], &["kind", "x"], &["roofs"]),
    ]);
    schema["type"] = json!(["object", "null"]);
    schema
}

pub(super) fn claim() -> Value {
    let metric = || described("The metric.", json!({ "type": "string", "minLength": 1 }));
    let compared = |text: &str| {
        let entries = vec![
            ("metric", metric()),
            ("of", described("The points.", reference("side"))),
            ("to", described("The points that they are compared with.", reference("side"))),
        ];
        described(text, object(COMPARED_KEYS, &["metric", "of", "to"], entries))
    };
    let value = object(
        VALUE_KEYS,
        &["metric", "of"],
        vec![("metric", metric()), ("of", described("The points.", reference("side")))],
    );
    let order = object(
        ORDER_KEYS,
        &["metric", "step", "axis", "ascending"],
        vec![
            ("metric", metric()),
            ("step", described("The step.", reference("name"))),
            ("where", described("Only points that have these values.", reference("selection"))),
            ("axis", described("The axis whose values are ranked.", reference("name"))),
            (
                "ascending",
                json!({
                    "type": "array",
                    "minItems": 2,
                    "items": reference("value"),
                    "description": "The values, that with the smallest metric first.",
                }),
            ),
        ],
    );
    let expect = object(
        EXPECT_KEYS,
        &[],
        vec![
            ("at_least", json!({ "type": "number", "description": "The smallest value, included." })),
            ("at_most", json!({ "type": "number", "description": "The largest value, included." })),
        ],
    );
    // A bare `enum` would judge a list, too.
    let hardware = json!({
        "anyOf": [{ "enum": BACKEND_NAMES }, { "type": "array", "items": { "enum": BACKEND_NAMES } }],
        "description": "The backends that it is about; elsewhere it is undecided.",
    });
    let mut schema = object(
        CLAIM_KEYS,
        &[],
        vec![
            ("says", text_of("The statement in words.")),
            ("value", described("The mean of a metric.", value)),
            ("ratio", compared("How many times as large a metric is.")),
            ("difference", compared("How much larger a metric is.")),
            ("order", described("How the values of an axis rank.", order)),
            ("expect", described("What the number must be.", some(expect))),
            ("paper", json!({ "type": "number", "description": "What the paper measured." })),
            ("hardware", hardware),
        ],
    );
    schema["type"] = json!(["object", "null"]);
    schema
}

/// A claim says exactly one thing, and what is expected of it.
pub(super) fn one_statement() -> Value {
    let expecting = ["value", "ratio", "difference"].map(|word| json!({ "required": [word, "expect"] }));
    let order = json!({ "required": ["order"], "not": { "required": ["expect"] } });
    json!({ "type": "object", "oneOf": expecting.into_iter().chain([order]).collect::<Vec<_>>() })
}

pub(super) fn side() -> Value {
    json!({
        "type": "object",
        "required": ["step"],
        "properties": { "step": reference("name") },
        "propertyNames": reference("name"),
        "additionalProperties": reference("value"),
    })
}
