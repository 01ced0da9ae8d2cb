//! Steps and their axes.

use serde_json::{Value, json};
use sweep_job::{Task, TaskInfo};

use super::{
    params::with_name,
    shapes::{
        NAME, Reach, SIZE, SPAN_OF_TIME, described, named, object, one_expression, one_of_forms, reference, some, whole,
    },
};
use crate::recipe::{
    ABLATE_KEYS, ADAPTIVE_KEYS, AXIS_FORMS, CPUS, DRAW_FORMS, Design, GPUS, NEED_KEYS, RANDOM_KEYS, RESOURCE_KEYS,
    RETRIES, STEP_KEYS,
};

pub(super) fn step() -> Value {
    let mut needs = need(&["string", "object", "array"]);
    needs["items"] = reference("need");
    needs["uniqueItems"] = json!(true);
    let adaptive = object(
        ADAPTIVE_KEYS,
        &["min", "max", "until"],
        vec![
            ("min", described("How many seeds every point has.", reference("number"))),
            ("max", described("How many seeds a point may get.", reference("number"))),
            (
                "budget",
                span_of_time("No more seeds are added when those beyond `min` have taken so long, all together."),
            ),
            (
                "until",
                json!({
                    "const": "decided",
                    "description": "Seeds are added while a claim, or a comparison with `decide: true`, is undecided.",
                }),
            ),
        ],
    );
    let mut seeds = adaptive;
    seeds["type"] = json!(["integer", "string", "object"]);
    seeds["minimum"] = json!(1);
    seeds["pattern"] = json!(one_expression(Reach::Params));
    seeds["patternErrorMessage"] = json!("Expected a number of seeds, or `${{ params.NAME }}`.");
    let mut schema = object(
        STEP_KEYS,
        &[],
        vec![
            ("uses", uses()),
            (
                "needs",
                described(
                    "The step, or the list of steps, that must be done before. Steps join on the axes that both have.",
                    needs,
                ),
            ),
            ("matrix", reference("matrix")),
            ("seeds", described("How many seeds: adds the axis `seed` with 0, 1, …, the same for every point.", seeds)),
            ("ablate", ablate()),
            (
                "if",
                json!({
                    "type": "string",
                    "minLength": 1,
                    "description": "A condition on params and axes, for example `matrix.lr < 1e-3 && params.deep`; points for which it does not hold are left out.",
                }),
            ),
            ("with", json!({ "type": "object", "description": "The task's parameters." })),
            ("resources", described("What a job takes of the machine.", resources())),
            (
                "exclusive",
                json!({
                    "type": "boolean",
                    "description": "Whether nothing else runs meanwhile, so that what the job measures means something; `false` if left out.",
                }),
            ),
            ("timeout", span_of_time("How long a job may take; it is ended when that has passed.")),
            ("heartbeat", span_of_time("How long a job may show no sign of life; it is ended when that has passed.")),
            (
                "retries",
                json!({
                    "type": "integer",
                    "minimum": RETRIES.start(),
                    "maximum": RETRIES.end(),
                    "description": "How often a job that failed is started again; 0 if left out.",
                }),
            ),
            (
                "continue-on-error",
                json!({
                    "type": "boolean",
                    "description": "Whether a failure neither stops the run nor changes its exit code; jobs that need the job are skipped all the same. `false` if left out.",
                }),
            ),
        ],
    );
    schema["type"] = json!(["object", "null"]);
    schema["allOf"] = Task::ALL.iter().map(by_task).collect();
    schema
}

/// Schema of `with` and of the axes that set parameters, for a step that uses `task`.
fn by_task(task: &TaskInfo) -> Value {
    // An axis with a parameter's name sets it, unless `with` says otherwise; then its values can be anything.
    let axes: Vec<Value> = task
        .params()
        .map(|param| {
            let parameter = json!({ "$ref": format!("#/definitions/{}/properties/{}", with_name(task), param.name) });
            json!({
                "if": { "properties": { "with": { "not": { "required": [param.name] } } } },
                "then": { "properties": { "matrix": { "properties": { param.name: { "items": parameter } } } } },
            })
        })
        .collect();
    json!({
        "if": { "required": ["uses"], "properties": { "uses": { "const": task.name } } },
        "then": { "properties": { "with": reference(&with_name(task)) }, "allOf": axes },
    })
}

fn uses() -> Value {
    let (hidden, listed): (Vec<&TaskInfo>, Vec<&TaskInfo>) = Task::ALL.iter().partition(|task| task.hidden);
    let names: Vec<&str> = listed.iter().map(|task| task.name).collect();
    let about: Vec<&str> = listed.iter().map(|task| task.about).collect();
    let hidden: Vec<&str> = hidden.iter().map(|task| task.name).collect();
    json!({
        "description": "The task. `sweep tasks` lists them, `sweep tasks NAME` shows one.",
        "type": "string",
        // The words are offered, the pattern is only accepted: that is what hidden means.
        "anyOf": [
            { "enum": names, "enumDescriptions": about },
            { "pattern": format!("^(?:{})$", hidden.join("|")), "patternErrorMessage": format!("Tasks: {}.", names.join(", ")) },
        ],
    })
}

/// Schema of a reference in `needs`; `types` are the forms accepted here.
pub(super) fn need(types: &[&str]) -> Value {
    let entries = vec![
        ("step", described("The step.", reference("name"))),
        ("where", described("Only the step's points that have these values.", reference("selection"))),
    ];
    let mut schema = object(NEED_KEYS, &["step"], entries);
    schema["type"] = json!(types);
    schema["pattern"] = json!(whole(NAME));
    schema
}

fn resources() -> Value {
    let cpus = json!({
        "type": "integer",
        "minimum": CPUS.start(),
        "maximum": CPUS.end(),
        "description": "Cores that a job keeps busy; all of them if left out.",
    });
    let gpus = json!({
        "type": "integer",
        "minimum": GPUS.start(),
        "maximum": GPUS.end(),
        "description": "GPUs of its own; if left out, one for a job that computes on GPUs. A job that computes on the CPU gets none.",
    });
    let memory = json!({
        "type": "string",
        "pattern": whole(SIZE),
        "patternErrorMessage": "Expected a size with its unit, such as `4GiB` or `512MB`.",
        "description": "Main memory that is kept free for the job while it runs, such as `4GiB`.",
    });
    object(RESOURCE_KEYS, &[], vec![("cpus", cpus), ("gpus", gpus), ("memory", memory)])
}

/// `30m`, `1h30m`, `90s`.
pub(super) fn span_of_time(description: &str) -> Value {
    json!({
        "type": "string",
        "pattern": whole(SPAN_OF_TIME),
        "patternErrorMessage": "Expected a span of time with its unit, such as `30m`, `1h30m` or `90s`.",
        "description": description,
    })
}

pub(super) fn matrix() -> Value {
    let zip = described("Axes that go together, first with first, second with second.", some(named("axis")));
    let random = object(
        RANDOM_KEYS,
        &["n", "axes"],
        vec![
            ("n", described("How many points.", reference("number"))),
            ("seed", described("Seed of the draws; 0 if left out.", reference("value"))),
            ("axes", described("How each axis is drawn.", some(named("draw")))),
        ],
    );
    let list = || json!({ "type": "array", "items": reference("assignment") });
    let mut schema = named("axis");
    schema["description"] = json!("What varies: the points are the product of the axes.");
    schema["properties"] = json!({
        "zip": zip,
        "random": described("Points drawn at random; the same every time.", random),
        "include": described("Points added, or points given further values.", list()),
        "exclude": described("Points left out: those that have all values of one entry.", list()),
    });
    schema
}

pub(super) fn axis() -> Value {
    let numbers = |text: &str, least: usize, most: usize| {
        let items = json!({ "type": "array", "minItems": least, "maxItems": most, "items": reference("number") });
        described(text, items)
    };
    let mut schema = one_of_forms(
        AXIS_FORMS,
        vec![
            ("range", numbers("`[from, to]` or `[from, to, step]`: without `to`.", 2, 3)),
            ("linspace", numbers("`[from, to, n]`: `n` numbers, both ends included, equally far apart.", 3, 3)),
            ("logspace", numbers("`[from, to, n]`: `n` numbers, both ends included, with equal ratios.", 3, 3)),
        ],
    );
    schema["type"] = json!(["array", "object", "string"]);
    schema["items"] = reference("value");
    schema["minItems"] = json!(1);
    schema["pattern"] = json!(format!(r"^\s*\$\{{\{{\s*needs\.{NAME}\.axes\.{NAME}\s*\}}\}}\s*$"));
    schema["patternErrorMessage"] = json!("An axis is a list, or another step's: `${{ needs.STEP.axes.AXIS }}`.");
    schema
}

pub(super) fn draw() -> Value {
    let two = |text: &str| {
        described(text, json!({ "type": "array", "minItems": 2, "maxItems": 2, "items": reference("number") }))
    };
    let choice = json!({ "type": "array", "minItems": 1, "items": reference("value") });
    one_of_forms(
        DRAW_FORMS,
        vec![
            ("uniform", two("`[from, to]`: every number between them is as likely.")),
            ("log_uniform", two("`[from, to]`: every ratio is as likely.")),
            ("choice", described("Every one of these is as likely.", choice)),
        ],
    )
}

fn ablate() -> Value {
    let words = Design::WORDS.map(|(word, _)| word);
    let schema = object(
        ABLATE_KEYS,
        &["design", "baseline", "factors"],
        vec![
            ("design", json!({ "enum": words, "description": "Which combinations of the factors." })),
            ("baseline", described("The factors' values to start from.", some(named("value")))),
            (
                "factors",
                described("The value, or the list of values, that each factor is changed to.", some(named("value"))),
            ),
        ],
    );
    described("An ablation design: what is changed against a baseline.", schema)
}
