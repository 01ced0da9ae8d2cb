//! Scales: the chosen setting of each recipe, applied before all other changes.

use std::slice;

use super::{Disposition, Loader, overlay::entry, stem};
use crate::recipe::{
    lower::{Lower, PLAIN, Scale},
    source::Spanned,
};

/// The recipes of a wanted scale.
struct Group {
    name: Spanned<String>,
    /// The number of recipes that have it.
    having: usize,
    /// The recipes that do not.
    lacking: Vec<String>,
    /// The scales of all of them.
    known: Vec<String>,
}

impl Group {
    /// Adds a recipe with its scales to the group of the scale that is wanted for it.
    fn add(groups: &mut Vec<Self>, name: &Spanned<String>, scale_names: Vec<String>, recipe: String) {
        let place = groups.iter().position(|group| group.name.span == name.span).unwrap_or_else(|| {
            groups.push(Self { name: name.clone(), having: 0, lacking: Vec::new(), known: Vec::new() });
            groups.len() - 1
        });
        let Some(group) = groups.get_mut(place) else { return };
        if scale_names.contains(&name.value) {
            group.having += 1;
        } else {
            group.lacking.push(recipe);
        }
        group.known.extend(scale_names);
    }
}

impl Loader {
    /// Applies the wanted scale of each recipe, and checks all others: a mistake in a scale shows before it is chosen.
    pub(super) fn scale(&mut self, recipes: &mut [Disposition]) {
        let mut groups: Vec<Group> = Vec::new();
        for recipe in recipes {
            let scales = self.scales_of(recipe);
            let wanted = recipe.wanted.clone().filter(|wanted| wanted.value != PLAIN);
            if let Some(wanted) = &wanted {
                let names = scales.iter().map(|scale| scale.name.value.clone()).collect();
                Group::add(&mut groups, wanted, names, stem(&recipe.path));
            }
            for Scale { name, changes, .. } in scales {
                if wanted.as_ref().is_some_and(|wanted| wanted.value == name.value) {
                    changes.apply(slice::from_mut(recipe), &self.sources, &mut self.problems);
                    recipe.scale = Some(name);
                } else {
                    let mut copy = Disposition::new(recipe.path.clone(), recipe.node.clone(), None);
                    changes.apply(slice::from_mut(&mut copy), &self.sources, &mut self.problems);
                }
            }
        }
        for Group { name, having, lacking, mut known } in groups {
            if having == 0 {
                known.sort_unstable();
                known.dedup();
                Lower::new(&mut self.sources, &mut self.problems).unknown_scale(&name, &lacking, &known);
            } else if !lacking.is_empty() {
                let have = if lacking.len() == 1 { "has" } else { "have" };
                let run = if lacking.len() == 1 { "runs at its" } else { "run at their" };
                let message =
                    format!("{} {have} no scale `{}`, and {run} plain values", lacking.join(", "), name.value);
                let help = "add the scale under `scales:`, or leave the recipes out";
                self.problems.warn(&self.sources, name.span, message, help);
            }
        }
    }

    /// Returns the scales of a recipe. The scales of a recipe with an unreadable base are unknown.
    fn scales_of(&mut self, recipe: &mut Disposition) -> Vec<Scale> {
        if entry(&mut recipe.node, "extends").is_some() {
            return Vec::new();
        }
        let Some(node) = entry(&mut recipe.node, "scales").cloned() else { return Vec::new() };
        Lower::new(&mut self.sources, &mut self.problems).scales(&node)
    }
}
