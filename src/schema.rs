//! The JSON Schemas of recipes and sweep files: with them an editor completes and checks a file while it is typed.
//!
//! It is made from what the reader goes by: the lists of keys in [`crate::recipe`] and the declarations of the tasks. It
//! says what can be said without looking a name up: keys, shapes, types, ranges and words. Whether a step, a param or an
//! axis exists is for `sweep plan`.
//!
//! Draft 7 is what the YAML server of VS Code and its relatives is written for. Alternatives of one type are written as
//! a list of types rather than as `anyOf`, because the server then says what is wrong instead of "matches no schema".

use serde_json::{Map, Value, json};
use sweep_job::{Kind, Param, Task, TaskInfo};

use crate::recipe::{
    ABLATE_KEYS, ADAPTIVE_KEYS, AXIS_FORMS, BACKEND_NAMES, Better, CLAIM_KEYS, COMPARE_KEYS, COMPARED_KEYS, CPUS,
    DRAW_FORMS, Design, EXECUTOR_KEYS, EXPECT_KEYS, FIGURE_KEYS, FigureKind, GPUS, NEED_KEYS, ORDER_KEYS, RANDOM_KEYS,
    RECIPE_KEYS, RESOURCE_KEYS, RETRIES, SLURM_KEYS, SLURM_STEP_KEYS, STEP_KEYS, SUMMARY_KEYS, SWEEP_KEYS, TABLE_KEYS,
    VALUE_KEYS,
};

/// What [`crate::recipe::is_name`] takes.
const NAME: &str = "[A-Za-z_][A-Za-z0-9_-]*";
/// What [`sweep_job::units::parse_seconds`] takes.
const SPAN_OF_TIME: &str = r"\s*(?:[0-9]+(?:\.[0-9]+)?\s*(?:ms|s|min|m|h|d)\s*)+";
/// What [`sweep_job::units::parse_bytes`] takes.
const SIZE: &str = r"\s*[0-9]+(?:\.[0-9]+)?\s*(?:[kKMGT]?B|[KMGT]iB)\s*";
/// Whether a text has an expression in it.
const EXPRESSION: &str = r"\$\{\{";

/// Where an expression may look names up.
#[derive(Debug, Clone, Copy)]
enum Reach {
    /// Nowhere: the value is written out.
    Nowhere,
    /// In the recipe's params: in a matrix, where there are no axes yet.
    Params,
    /// In params, axes and needed steps: in `with`.
    Everywhere,
}

/// A schema as a text, as `docs/recipe.schema.json` and `docs/sweep.schema.json` have it.
pub fn text(mut schema: Value) -> String {
    // Whether maps keep their order depends on how serde_json was built; the file does not.
    schema.sort_all_objects();
    let mut text = String::new();
    write(&schema, 0, &mut text);
    text + "\n"
}

/// Writes whatever fits on one line; lines of two brackets would make four thousand.
fn write(value: &Value, indent: usize, text: &mut String) {
    const WIDTH: usize = 120;
    let line = value.to_string();
    let children: Vec<(String, &Value)> = match value {
        Value::Object(entries) => entries.iter().map(|(key, value)| (format!("{}: ", json!(key)), value)).collect(),
        Value::Array(items) => items.iter().map(|item| (String::new(), item)).collect(),
        _ => Vec::new(),
    };
    if children.is_empty() || indent + line.len() <= WIDTH {
        text.push_str(&line);
        return;
    }
    let (open, close) = if value.is_object() { ('{', '}') } else { ('[', ']') };
    text.push(open);
    for (index, (key, child)) in children.iter().enumerate() {
        text.push_str(if index == 0 { "\n" } else { ",\n" });
        text.push_str(&" ".repeat(indent + 2));
        text.push_str(key);
        write(child, indent + 2, text);
    }
    text.push('\n');
    text.push_str(&" ".repeat(indent));
    text.push(close);
}

/// The schema of a recipe.
pub fn recipe() -> Value {
    let mut schema = object(
        RECIPE_KEYS,
        &[],
        vec![
            ("name", described("Names the report's folder; the file's name if left out.", reference("name"))),
            ("about", text_of("The question that the study answers, for readers.")),
            ("extends", text_of("A recipe that this one changes and adds to; a path from this file's folder.")),
            (
                "params",
                described(
                    "Values for the whole study; `--set name=value` overrides one. `${{ params.NAME }}` stands for it.",
                    named("literal"),
                ),
            ),
            ("steps", described("What to run: a task each, at every point of its matrix.", named("step"))),
            ("tables", described("What to print: metrics of a step by its axes.", named("table"))),
            ("figures", described("What to draw of a step's metrics and curves.", named("figure"))),
            (
                "claims",
                described("Statements about metrics, which a run supports, refutes or cannot decide.", named("claim")),
            ),
        ],
    );
    let Value::Object(entries) = &mut schema else { return schema };
    // What extends a recipe may leave out what that one has, and take a step or a table away with `null`.
    let whole = |least: usize, required: &[&str]| json!({ "minProperties": least, "additionalProperties": { "type": "object", "required": required } });
    entries.insert("if".into(), json!({ "not": { "required": ["extends"] } }));
    entries.insert(
        "then".into(),
        json!({
            "required": ["steps"],
            "properties": {
                "steps": whole(1, &["uses"]),
                "tables": { "additionalProperties": {
                    "type": "object",
                    "required": ["cells"],
                    "if": { "required": ["claims"] },
                    "then": { "propertyNames": { "enum": SUMMARY_KEYS } },
                    "else": { "required": ["from"] },
                } },
                "figures": whole(0, &["from", "kind", "x"]),
                "claims": { "additionalProperties": one_statement() },
            },
        }),
    );
    entries.insert("$schema".into(), json!("http://json-schema.org/draft-07/schema#"));
    entries.insert("title".into(), json!("A recipe of sweep"));
    entries.insert("description".into(), json!("One study: values, steps, what varies, and the tables to print."));
    let mut definitions = json!({
        "name": name(),
        "names": { "type": ["string", "array"], "pattern": self::whole(NAME), "items": reference("name") },
        "literal": value("literal", Reach::Nowhere),
        "value": value("value", Reach::Params),
        "number": a_number(),
        "selection": described("Axis to a value, or to a list of values.", named("value")),
        "assignment": described("Axis to value.", named("value")),
        "step": step(),
        "need": need(&["string", "object"]),
        "matrix": matrix(),
        "axis": axis(),
        "draw": draw(),
        "table": table(),
        "figure": figure(),
        "claim": claim(),
        "side": side(),
    });
    for task in Task::ALL {
        definitions[with_name(task)] = with(task);
    }
    entries.insert("definitions".into(), definitions);
    schema
}

/// The schema of a sweep file.
pub fn sweep() -> Value {
    let axis_name = json!({
        "type": "string",
        "pattern": whole(&format!(r"{NAME}(?:\.{NAME})?")),
        "patternErrorMessage": "`AXIS`, or `STEP.AXIS`.",
    });
    let path = || json!({ "type": "string", "minLength": 1 });
    let mut axes = json!({ "type": "object", "additionalProperties": reference("axis") });
    axes["propertyNames"] = axis_name;
    let recipes = json!({ "type": ["array", "string"], "minItems": 1, "minLength": 1, "items": path() });
    let only = json!({ "type": ["array", "string"], "items": { "type": "string" } });
    let mut schema = object(
        SWEEP_KEYS,
        &[],
        vec![
            ("name", described("Names the reports' folder; the file's name if left out.", reference("name"))),
            ("about", text_of("What this is for, for readers.")),
            ("recipe", described("The recipe; a path from this file's folder.", path())),
            ("recipes", described("The recipes; paths from this file's folder.", recipes)),
            ("set", described("Other values for params.", named("literal"))),
            ("axes", described("Other values for axes: `AXIS`, or `STEP.AXIS` for those of one step.", axes)),
            ("only", described("A part of the recipes: `STEP`, or `STEP/AXIS=VALUE,…`, and what that needs.", only)),
            ("executor", executor()),
        ],
    );
    schema["oneOf"] = json!([{ "required": ["recipe"] }, { "required": ["recipes"] }]);
    schema["$schema"] = json!("http://json-schema.org/draft-07/schema#");
    schema["title"] = json!("A sweep file of sweep");
    schema["description"] = json!("Recipes, and what is different in them.");
    schema["definitions"] = json!({
        "name": name(),
        "literal": value("literal", Reach::Nowhere),
        "value": value("value", Reach::Params),
        "number": a_number(),
        "axis": axis(),
    });
    schema
}

/// `executor` of a sweep file.
fn executor() -> Value {
    let of_step = object(SLURM_STEP_KEYS, &[], slurm_request());
    let mut entries = slurm_request();
    let steps = json!({ "type": "object", "propertyNames": reference("name"), "additionalProperties": of_step });
    entries.push(("steps", described("The same for the jobs of single steps.", steps)));
    let slurm = described("What is asked of Slurm for every job.", object(SLURM_KEYS, &[], entries));
    let mut schema = object(EXECUTOR_KEYS, &["slurm"], vec![("slurm", slurm)]);
    schema["type"] = json!(["string", "object"]);
    schema["pattern"] = json!(whole("local|slurm"));
    schema["patternErrorMessage"] = json!("Expected `local` or `slurm`.");
    described("How the jobs get their processes: `local`, `slurm`, or a map with what is asked of Slurm.", schema)
}

fn slurm_request() -> Vec<(&'static str, Value)> {
    let options = json!({ "type": ["array", "string"], "items": { "type": "string", "pattern": "^-" } });
    vec![
        ("partition", text_of("`--partition`.")),
        ("account", text_of("`--account`.")),
        ("qos", text_of("`--qos`.")),
        ("gres", text_of("`--gres`, in the place of the GPUs that `resources` asks for.")),
        ("time", span_of_time("`--time`, in the place of what follows from a job's `timeout`.")),
        ("options", described("Further options of `sbatch`, one an entry, as they are.", options)),
    ]
}

fn name() -> Value {
    json!({
        "type": "string",
        "pattern": whole(NAME),
        "patternErrorMessage": "A name begins with a letter or `_` and goes on with letters, digits, `-` and `_`.",
    })
}

fn a_number() -> Value {
    json!({
        "type": ["number", "string"],
        "pattern": one_expression(Reach::Params),
        "patternErrorMessage": "Expected a number, or `${{ params.NAME }}`.",
    })
}

// ---- Steps ----------------------------------------------------------------------------------------------------------

fn step() -> Value {
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

/// What a step that uses `task` may have in `with`, and on the axes that set its parameters.
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

/// What `needs` names; `types` are the forms accepted here.
fn need(types: &[&str]) -> Value {
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
fn span_of_time(description: &str) -> Value {
    json!({
        "type": "string",
        "pattern": whole(SPAN_OF_TIME),
        "patternErrorMessage": "Expected a span of time with its unit, such as `30m`, `1h30m` or `90s`.",
        "description": description,
    })
}

// ---- What varies ----------------------------------------------------------------------------------------------------

fn matrix() -> Value {
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

fn axis() -> Value {
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

fn draw() -> Value {
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

// ---- Tables ---------------------------------------------------------------------------------------------------------

fn table() -> Value {
    let mut metrics: Vec<&str> = Vec::new();
    let mut docs: Vec<String> = Vec::new();
    for (task, metric) in Task::ALL.iter().flat_map(|task| task.metrics.iter().map(move |metric| (task, metric))) {
        let doc = format!("{}: {}", task.name, metric.doc);
        match metrics.iter().position(|known| *known == metric.name) {
            Some(known) => docs[known] = format!("{}; {doc}", docs[known]),
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

fn figure() -> Value {
    let words = FigureKind::WORDS.map(|(word, _)| word);
    let best: Vec<&str> = Better::WORDS.iter().map(|(word, _)| *word).collect();
    let mut schema = object(
        FIGURE_KEYS,
        &[],
        vec![
            ("title", text_of("The heading.")),
            ("from", described("The step.", reference("name"))),
            ("where", described("Only points that have these values.", reference("selection"))),
            ("kind", json!({ "enum": words, "description": "What is drawn." })),
            ("x", text_of("To the right: `iteration` for `line`, an axis for `bar` and `heat`, else a metric.")),
            ("y", text_of("Upwards: a curve for `line`, an axis for `heat`, else a metric; not for `histogram`.")),
            ("value", text_of("The metric that a `heat` map shows.")),
            (
                "best",
                described(
                    "For `pareto`: metric to `min` or `max`. If left out, losses, times and sizes are best small, rates large.",
                    json!({ "type": "object", "additionalProperties": { "enum": best } }),
                ),
            ),
            ("color", described("The axis whose values have a colour each.", reference("name"))),
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
    // Only an author who writes `kind` himself, and not a base, must write the rest.
    schema["if"] = json!({ "required": ["kind", "x"], "properties": { "kind": { "enum": ["bar", "line", "pareto", "scatter"] } } });
    schema["then"] = json!({ "required": ["y"] });
    schema["type"] = json!(["object", "null"]);
    schema
}

// ---- Claims ---------------------------------------------------------------------------------------------------------

fn claim() -> Value {
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
fn one_statement() -> Value {
    let expecting = ["value", "ratio", "difference"].map(|word| json!({ "required": [word, "expect"] }));
    let order = json!({ "required": ["order"], "not": { "required": ["expect"] } });
    json!({ "type": "object", "oneOf": expecting.into_iter().chain([order]).collect::<Vec<_>>() })
}

fn side() -> Value {
    json!({
        "type": "object",
        "required": ["step"],
        "properties": { "step": reference("name") },
        "propertyNames": reference("name"),
        "additionalProperties": reference("value"),
    })
}

// ---- Parameters -----------------------------------------------------------------------------------------------------

fn with_name(task: &TaskInfo) -> String {
    // A `/` would have to be escaped in every reference.
    format!("with-{}", task.name.replace('/', "-"))
}

fn with(task: &TaskInfo) -> Value {
    let properties: Map<String, Value> = task.params().map(|param| (param.name.to_owned(), parameter(param))).collect();
    json!({ "type": "object", "properties": properties, "additionalProperties": false })
}

fn parameter(param: &Param) -> Value {
    let accepts = param.accepts();
    let mut schema = kind(param.kind, param.nullable);
    if let Kind::Path(built_in) = param.kind
        && !built_in.is_empty()
    {
        schema["examples"] = json!(built_in);
    }
    // A number with its unit, or an expression.
    let written = match (param.unit, param.kind) {
        (Some("s"), Kind::Float) => Some(SPAN_OF_TIME),
        (Some("B"), Kind::Int) => Some(SIZE),
        _ => None,
    };
    if let (Some(written), Some(expression)) = (written, expression(Reach::Everywhere)) {
        schema["pattern"] = json!(whole(&format!("(?:{written}|{expression})")));
    }
    if schema.get("pattern").is_some() {
        schema["patternErrorMessage"] = json!(format!("Expected {accepts}, or an expression."));
    }
    if let Some(bounds) = param.bounds {
        if bounds.min != f64::MIN {
            schema["minimum"] = number(bounds.min);
        }
        if bounds.max != f64::MAX {
            schema["maximum"] = number(bounds.max);
        }
    }
    let default = (param.default)();
    let shown = match &default {
        sweep_job::Value::Null => String::new(),
        default => format!("; `{default}` if left out"),
    };
    schema["description"] = json!(format!("{}\n\nAccepts {accepts}{shown}.", param.doc));
    if default != sweep_job::Value::Null {
        schema["default"] = match default.as_f64() {
            Some(default) => number(default),
            None => serde_json::to_value(default).unwrap_or_default(),
        };
    }
    schema
}

/// What a kind of parameter accepts, or an expression in its place.
fn kind(kind: Kind, nullable: bool) -> Value {
    let null = if nullable { Some("null") } else { None };
    let types = |names: &[&'static str]| -> Vec<&str> { names.iter().copied().chain(null).collect() };
    let typed =
        |name: &'static str| json!({ "type": types(&[name, "string"]), "pattern": one_expression(Reach::Everywhere) });
    match kind {
        Kind::Bool => typed("boolean"),
        Kind::Int => typed("integer"),
        Kind::Float => typed("number"),
        Kind::Text | Kind::Path(_) | Kind::Inside => {
            json!({ "type": types(&["string"]), "minLength": 1, "pattern": text_pattern(Reach::Everywhere) })
        }
        Kind::Scalar => {
            json!({ "type": types(&["string", "number", "boolean"]), "pattern": text_pattern(Reach::Everywhere) })
        }
        Kind::Choice(words) => {
            let numbers = words.iter().filter_map(|word| word.parse::<i64>().ok()).map(|number| json!(number));
            let words: Vec<Value> =
                words.iter().map(|word| json!(word)).chain(numbers).chain(null.map(|_| Value::Null)).collect();
            json!({ "anyOf": [{ "enum": words }, { "type": "string", "pattern": EXPRESSION }] })
        }
        Kind::List(item) => json!({
            "type": types(&["array", "string"]),
            "items": self::kind(*item, false),
            "pattern": one_expression(Reach::Everywhere),
        }),
        Kind::Map(value) => json!({ "type": types(&["object"]), "additionalProperties": self::kind(*value, false) }),
    }
}

/// `1` for `1.0`: how a recipe's author would write it.
pub(crate) fn number(value: f64) -> Value {
    let text = sweep_job::Value::Float(value).to_string();
    text.parse::<i64>().map_or_else(|_| json!(value), Value::from)
}

// ---- Shapes ---------------------------------------------------------------------------------------------------------

/// A map in which exactly the reader's `keys` may stand. Each of them is in `entries`, with what it may have.
fn object(keys: &[&str], required: &[&str], entries: Vec<(&str, Value)>) -> Value {
    debug_assert!(
        keys.len() == entries.len() && entries.iter().all(|(key, _)| keys.contains(key)),
        "the recipe's reader knows the keys {keys:?}; the schema describes {:?}",
        entries.iter().map(|(key, _)| key).collect::<Vec<_>>()
    );
    let properties: Map<String, Value> = entries.into_iter().map(|(key, schema)| (key.to_owned(), schema)).collect();
    let mut schema = json!({ "type": "object", "properties": properties, "additionalProperties": false });
    if !required.is_empty() {
        schema["required"] = json!(required);
    }
    schema
}

/// A map with one of these keys.
fn one_of_forms(forms: &[&str], entries: Vec<(&str, Value)>) -> Value {
    let mut schema = object(forms, &[], entries);
    schema["minProperties"] = json!(1);
    schema["maxProperties"] = json!(1);
    schema
}

/// A map whose keys the author chooses.
fn named(definition: &str) -> Value {
    json!({ "type": "object", "propertyNames": reference("name"), "additionalProperties": reference(definition) })
}

/// A map with something in it.
fn some(mut map: Value) -> Value {
    map["minProperties"] = json!(1);
    map
}

/// A scalar or a list of values, with expressions as far as they reach.
fn value(definition: &str, reach: Reach) -> Value {
    json!({
        "type": ["null", "boolean", "number", "string", "array"],
        "pattern": text_pattern(reach),
        "patternErrorMessage": match reach {
            Reach::Nowhere => "An expression cannot be used here; write the value itself.",
            Reach::Params | Reach::Everywhere => "Only `${{ params.NAME }}` can be used here.",
        },
        "items": reference(definition),
    })
}

fn text_of(description: &str) -> Value {
    json!({ "type": "string", "description": description })
}

fn reference(definition: &str) -> Value {
    json!({ "$ref": format!("#/definitions/{definition}") })
}

/// A schema with a description. Beside a `$ref` draft 7 ignores everything.
fn described(text: &str, mut schema: Value) -> Value {
    if schema.get("$ref").is_some() {
        schema = json!({ "allOf": [schema] });
    }
    schema["description"] = json!(text);
    schema
}

fn whole(pattern: &str) -> String {
    format!("^{pattern}$")
}

/// An expression: `${{ params.NAME }}`.
fn expression(reach: Reach) -> Option<String> {
    let names = match reach {
        Reach::Nowhere => return None,
        Reach::Params => format!(r"params\.{NAME}"),
        Reach::Everywhere => {
            format!(r"(?:(?:params|matrix)\.{NAME}|needs\.{NAME}\.(?:metrics|artifacts)\.[^\s{{}}$]+)")
        }
    };
    Some(format!(r"{EXPRESSION}\s*{names}\s*\}}\}}"))
}

/// A text that is one expression, so that the value keeps its type.
fn one_expression(reach: Reach) -> String {
    whole(&expression(reach).unwrap_or_default())
}

/// A text in which every expression is whole.
fn text_pattern(reach: Reach) -> String {
    let expression = expression(reach).map(|expression| format!("|{expression}")).unwrap_or_default();
    whole(&format!(r"(?:[^$]|\$(?!\{{\{{){expression})*"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recipe::is_name;

    /// `object` compares the keys of the schema with those of the reader.
    #[test]
    fn the_schema_and_the_reader_know_the_same_keys() {
        assert!(recipe()["definitions"]["step"]["properties"]["uses"].is_object());
    }

    #[test]
    fn every_reference_has_its_definition() {
        fn references<'a>(schema: &'a Value, found: &mut Vec<&'a str>) {
            match schema {
                Value::Object(entries) => {
                    found.extend(entries.get("$ref").and_then(Value::as_str));
                    entries.values().for_each(|value| references(value, found));
                }
                Value::Array(items) => items.iter().for_each(|item| references(item, found)),
                _ => {}
            }
        }
        for schema in [recipe(), sweep()] {
            let mut found = Vec::new();
            references(&schema, &mut found);
            for reference in found {
                assert!(schema.pointer(reference.trim_start_matches('#')).is_some(), "{reference}");
            }
        }
    }

    #[test]
    fn names_are_the_readers() {
        let pattern = recipe()["definitions"]["name"].clone();
        let validator = jsonschema::draft7::new(&pattern).expect("a schema");
        for name in ["a", "_", "a-b_c9", "", "9a", "-a", "a b", "ä", "../x", "a\n"] {
            assert_eq!(validator.is_valid(&json!(name)), is_name(name), "{name:?}");
        }
    }
}
