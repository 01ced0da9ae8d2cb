//! `scales`: named settings of a recipe's params and axes, one of which a request chooses.

use serde_json::{Value as Json, json};

use super::{Lower, sweep::axes};
use crate::recipe::{
    compose::Overlay,
    keys::{Custom, Mapping as _, Text, mapping},
    node::{Entry, Node},
    problem::suggest,
    schema::{NAME, named, whole},
    source::Spanned,
};

/// The name of the scale that is a recipe's plain values.
pub(in crate::recipe) const PLAIN: &str = "quick";

mapping! {
    /// The keys of a scale.
    struct ScaleKeys = "scale" {
        /// A description of the scale for readers: its size and its cost.
        about: Text,
        /// New values for params.
        ///
        /// An entry `iters: 1000` has the effect of `--set iters=1000` on this recipe.
        set: Custom = Custom { schema: || named("literal"), accepts: "name to value" },
        /// New values for axes: `AXIS` for the axis in all steps, `STEP.AXIS` for the axis of one step.
        ///
        /// The entries have the same form as those of `axes` in a sweep file.
        axes: Custom = Custom { schema: axes, accepts: "axis to values" },
    }
}

/// A named setting of a recipe.
#[derive(Debug)]
pub(in crate::recipe) struct Scale {
    /// The scale's name.
    pub(in crate::recipe) name: Spanned<String>,
    /// The scale's description.
    pub(in crate::recipe) about: Option<String>,
    /// The scale's changes to the recipe.
    pub(in crate::recipe) changes: Overlay,
}

/// The schema of `scales`. A recipe that extends another one can remove a scale with `null`.
pub(in crate::recipe) fn scales_schema() -> Json {
    let mut scale = ScaleKeys::schema();
    scale["type"] = json!(["object", "null"]);
    json!({
        "type": "object",
        "propertyNames": {
            "type": "string",
            "pattern": whole(NAME),
            "not": { "const": PLAIN },
            "patternErrorMessage": "A name begins with a letter or `_` and continues with letters, digits, `-` and `_`.",
        },
        "additionalProperties": scale,
    })
}

impl Lower<'_> {
    /// Reads the scales of a recipe.
    pub(in crate::recipe) fn scales(&mut self, node: &Node) -> Vec<Scale> {
        let entries = self.entries(node, "`scales`");
        entries.iter().filter_map(|entry| self.scale(entry)).collect()
    }

    fn scale(&mut self, entry: &Entry) -> Option<Scale> {
        let name = &entry.key;
        self.check_name(name, "scale");
        if name.value == PLAIN {
            let message = format!("`{PLAIN}` is the scale of the recipe's plain values");
            self.problem(name.span, message, "reserved", "give the scale another name");
            return None;
        }
        let keys = ScaleKeys::read(self, &entry.value, "a scale")?;
        let changes =
            Overlay { set: self.changes(keys.set.node(), "`set`"), axes: self.changes(keys.axes.node(), "`axes`") };
        Some(Scale { name: name.clone(), about: keys.about.value, changes })
    }

    /// Reports a scale that no recipe of the request has.
    pub(in crate::recipe) fn unknown_scale(&mut self, name: &Spanned<String>, recipes: &[String], known: &[String]) {
        let message = match recipes {
            [one] => format!("recipe `{one}` has no scale `{}`", name.value),
            _ => format!("none of the recipes has a scale `{}`", name.value),
        };
        let names = std::iter::once(PLAIN).chain(known.iter().map(String::as_str));
        let help = suggest(&name.value, "scales", names).unwrap_or_default();
        self.problem(name.span, message, "unknown scale", format!("{help}; `{PLAIN}` is the recipe as it is written"));
    }
}
