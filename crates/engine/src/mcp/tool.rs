//! Tools: functions with schemas of their input and output, and the errors that they answer with.

use std::{fmt, sync::Arc};

use schemars::{JsonSchema, Schema, generate::SchemaSettings};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Map, Value, json};

use super::session::Session;
use crate::{
    format::{clean, count},
    recipe::suggest,
};

/// A function of a session and of arguments.
type Call = dyn Fn(&Session, Value) -> Result<Value, Fault> + Send + Sync;

/// A tool.
pub struct Tool {
    pub(super) name: &'static str,
    pub(super) title: &'static str,
    /// Its description for the agent.
    pub(super) about: &'static str,
    pub(super) effect: Effect,
    pub(super) input: Arc<Map<String, Value>>,
    pub(super) output: Arc<Map<String, Value>>,
    call: Box<Call>,
}

/// Effect of a tool on the project.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// Nothing but derived files such as reports is written.
    Reads,
    /// Jobs are run, and records are added.
    Runs,
}

/// A refusal or a failure of a call, which the agent reads.
#[derive(Debug, Clone, Serialize, thiserror::Error)]
#[error("{message}")]
pub struct Fault {
    /// Kind, for programs.
    pub kind: FaultKind,
    /// The reason, in a sentence.
    pub message: String,
    /// The remedy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub help: Option<String>,
    /// The mistakes of a recipe.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub mistakes: Vec<Mistake>,
    /// Text that jobs may have printed: data, not instructions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub program_output: Option<String>,
}

/// Kind of a [`Fault`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FaultKind {
    /// The arguments do not fit the tool's schema, or have impossible values.
    Arguments,
    /// The recipe has mistakes.
    Recipe,
    /// There is no such recipe, job, run or task.
    NotFound,
    /// The path leads out of the project's folder.
    Outside,
    /// The user has not allowed the call.
    NotAllowed,
    /// The call does not fit into the remaining budget.
    Budget,
    /// Another run of this server is going on.
    Busy,
    /// The call failed for another reason.
    Failed,
}

/// A mistake in a recipe, or a warning.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Mistake {
    /// The place: `file:line:column`.
    pub at: String,
    /// The mistake.
    pub message: String,
    /// The remedy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub help: Option<String>,
}

impl fmt::Debug for Tool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tool").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Fault {
    /// A fault without a remedy.
    pub fn new(kind: FaultKind, message: impl AsRef<str>) -> Self {
        Self {
            kind,
            message: clean(message.as_ref()).into_owned(),
            help: None,
            mistakes: Vec::new(),
            program_output: None,
        }
    }

    /// Adds a remedy.
    #[must_use]
    pub fn help(mut self, help: impl AsRef<str>) -> Self {
        self.help = Some(clean(help.as_ref()).into_owned());
        self
    }

    /// A failure of the disk while something was done.
    pub fn io(what: &str) -> impl FnOnce(std::io::Error) -> Self {
        move |error| Self::new(FaultKind::Failed, format!("{what}: {error}"))
    }

    /// The fault as the result of a tool.
    pub(super) fn json(&self) -> Value {
        json!({ "error": self })
    }
}

impl Tool {
    /// Creates a tool from a function. Its schemas are those of the types.
    pub fn new<I, O>(
        (name, title): (&'static str, &'static str),
        about: &'static str,
        effect: Effect,
        call: fn(&Session, I) -> Result<O, Fault>,
    ) -> Self
    where
        I: DeserializeOwned + JsonSchema + 'static,
        O: Serialize + JsonSchema + 'static,
    {
        let mut input = object(SchemaSettings::draft2020_12().into_generator().into_root_schema_for::<I>());
        // Unknown arguments are refused.
        input.insert("additionalProperties".into(), Value::Bool(false));
        let serialized = SchemaSettings::draft2020_12().for_serialize();
        let output = object(serialized.into_generator().into_root_schema_for::<O>());
        let input = Arc::new(input);
        let schema = Arc::clone(&input);
        let call = move |session: &Session, arguments: Value| {
            check(&schema, &arguments)?;
            let argument_fault = |error: serde_json::Error| Fault::new(FaultKind::Arguments, error.to_string());
            let answer = call(session, serde_json::from_value(arguments).map_err(argument_fault)?)?;
            serde_json::to_value(answer).map_err(|error| Fault::new(FaultKind::Failed, error.to_string()))
        };
        Self { name, title, about, effect, input, output: Arc::new(output), call: Box::new(call) }
    }

    /// The tool's name.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// The tool's description.
    pub fn about(&self) -> &'static str {
        self.about
    }

    /// True if a call can ask for a part of its answer.
    pub(super) fn has_cursor(&self) -> bool {
        has_property(&self.input, "cursor")
    }

    /// True if its answers have the cursor of a following part.
    pub(super) fn has_next(&self) -> bool {
        has_property(&self.output, "next")
    }

    /// Calls it.
    pub(super) fn call(&self, session: &Session, arguments: Value) -> Result<Value, Fault> {
        (self.call)(session, arguments)
    }
}

/// True if the schema of an object has a property.
fn has_property(schema: &Map<String, Value>, name: &str) -> bool {
    schema.get("properties").is_some_and(|properties| properties.get(name).is_some())
}

/// The schema of a struct; its title is the name of a type of this program.
fn object(schema: Schema) -> Map<String, Value> {
    let mut schema = match schema.to_value() {
        Value::Object(schema) => schema,
        _ => Map::new(),
    };
    for key in ["title", "description", "$schema"] {
        schema.remove(key);
    }
    schema.values_mut().for_each(shorten);
    schema
}

/// Removes parts that agents do not need: names of Rust's numbers, and empty defaults. Properties with these names are objects.
fn shorten(schema: &mut Value) {
    if let Value::Object(entries) = schema {
        entries.retain(|key, value| match key.as_str() {
            "format" => !value.is_string(),
            "default" => !(value.is_null() || *value == Value::Bool(false) || *value == Value::Array(Vec::new())),
            _ => true,
        });
        entries.values_mut().for_each(shorten);
    } else if let Value::Array(items) = schema {
        items.iter_mut().for_each(shorten);
    }
}

/// Refuses arguments that do not fit a schema, with the name of the argument.
fn check(schema: &Map<String, Value>, arguments: &Value) -> Result<(), Fault> {
    let argument_fault = |message: String| Err(Fault::new(FaultKind::Arguments, message));
    let Some(arguments) = arguments.as_object() else {
        return argument_fault("the arguments must be an object".to_owned());
    };
    let no_properties = Map::new();
    let properties = schema.get("properties").and_then(Value::as_object).unwrap_or(&no_properties);
    for (name, value) in arguments {
        let Some(property) = properties.get(name) else {
            let help = suggest(name, "arguments", properties.keys().map(String::as_str));
            let excerpt: String = name.chars().take(80).collect();
            let fault = Fault::new(FaultKind::Arguments, format!("there is no argument `{excerpt}`"));
            return Err(fault.help(help.unwrap_or_else(|| "the tool has no arguments".to_owned())));
        };
        if let Err(requirement) = fits(property, value) {
            return argument_fault(format!("`{name}` must be {requirement}"));
        }
    }
    let required_names = schema.get("required").and_then(Value::as_array);
    let missing_name =
        required_names.into_iter().flatten().filter_map(Value::as_str).find(|name| !arguments.contains_key(*name));
    missing_name.map_or(Ok(()), |name| argument_fault(format!("the argument `{name}` is missing")))
}

/// True if a value has a type of a schema.
fn is_of(word: &str, value: &Value) -> bool {
    match word {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        _ => true,
    }
}

/// The requirement that a value does not meet, in words.
fn fits(schema: &Value, value: &Value) -> Result<(), String> {
    let words: Vec<&str> = match &schema["type"] {
        Value::String(word) => vec![word],
        Value::Array(words) => words.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    if !words.is_empty() && !words.iter().any(|word| is_of(word, value)) {
        let words: Vec<&str> = words.into_iter().filter(|word| *word != "null").collect();
        return Err(format!("of the type {}", words.join(" or ")));
    }
    let (minimum, maximum) = (schema["minimum"].as_f64(), schema["maximum"].as_f64());
    if let Some(number) = value.as_f64()
        && (minimum.is_some_and(|minimum| number < minimum) || maximum.is_some_and(|maximum| number > maximum))
    {
        let maximum = maximum.map(|maximum| format!(" and at most {maximum}")).unwrap_or_default();
        return Err(format!("at least {}{maximum}", minimum.unwrap_or(0.0)));
    }
    if let Value::Array(items) = value {
        let (minimum, maximum) = (schema["minItems"].as_u64().unwrap_or(0), schema["maxItems"].as_u64());
        if (items.len() as u64) < minimum || maximum.is_some_and(|maximum| items.len() as u64 > maximum) {
            let maximum = maximum.map(|maximum| format!(" and at most {maximum}")).unwrap_or_default();
            return Err(format!(
                "a list of at least {}{maximum}",
                count(usize::try_from(minimum).unwrap_or(0), "item")
            ));
        }
        for item in items {
            fits(&schema["items"], item).map_err(|requirement| format!("a list of items {requirement}"))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(serde::Deserialize, JsonSchema)]
    #[expect(dead_code, reason = "only its schema is used")]
    struct Input {
        names: Vec<String>,
        #[serde(default)]
        #[schemars(range(min = 1, max = 9))]
        limit: Option<u32>,
    }

    #[test]
    fn arguments_that_do_not_fit_are_named() {
        let schema = object(SchemaSettings::draft2020_12().into_generator().into_root_schema_for::<Input>());
        let message = |arguments: Value| check(&schema, &arguments).map_err(|fault| fault.message);
        assert_eq!(message(json!({ "names": [], "limit": 9 })), Ok(()));
        assert_eq!(message(json!({ "names": [], "limit": null })), Ok(()));
        for (arguments, expected) in [
            (json!([]), "the arguments must be an object"),
            (json!({}), "the argument `names` is missing"),
            (json!({ "names": "a" }), "`names` must be of the type array"),
            (json!({ "names": [1] }), "`names` must be a list of items of the type string"),
            (json!({ "names": [], "limit": 10 }), "`limit` must be at least 1 and at most 9"),
            (json!({ "names": [], "limit": 1.5 }), "`limit` must be of the type integer"),
            (json!({ "names": [], "limits": 1 }), "there is no argument `limits`"),
        ] {
            assert_eq!(message(arguments), Err(expected.to_owned()));
        }
    }
}
