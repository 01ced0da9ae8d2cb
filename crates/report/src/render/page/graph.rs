//! The steps of a recipe and their dependencies, as a small drawing.

use maud::{Markup, html};

use super::tally::Tally;
use crate::format::{clean, shortened};

const BOX: (usize, usize) = (178, 58);
const GAP: (usize, usize) = (40, 18);

/// Maximum length of a name in a box, in characters.
const MAX_NAME_LENGTH: usize = 16;

/// Maximum length of the text below the name, in characters.
const MAX_TEXT_LENGTH: usize = 25;

/// A step in the drawing.
#[derive(Debug)]
pub struct Node {
    /// Its name.
    pub name: String,
    /// Description; may be empty.
    pub about: String,
    /// The steps that it needs, by their index.
    pub needs: Vec<usize>,
    /// States of its jobs.
    pub tally: Tally,
}

/// Draws steps from left to right, each to the right of the steps that it needs.
pub fn draw(nodes: &[Node]) -> Markup {
    // A needed step may be further down; there is no cycle, or there would be no plan.
    let mut column = vec![0; nodes.len()];
    for _ in 0..nodes.len() {
        for (index, node) in nodes.iter().enumerate() {
            column[index] = node.needs.iter().map(|need| column[*need] + 1).max().unwrap_or(0);
        }
    }
    let mut rows = vec![0; nodes.len() + 1];
    let mut at = Vec::with_capacity(nodes.len());
    for column in &column {
        at.push((column * (BOX.0 + GAP.0) + 4, rows[*column] * (BOX.1 + GAP.1) + 4));
        rows[*column] += 1;
    }
    let width = (column.iter().max().unwrap_or(&0) + 1) * (BOX.0 + GAP.0) - GAP.0 + 8;
    let height = rows.iter().max().unwrap_or(&1) * (BOX.1 + GAP.1) - GAP.1 + 8;
    html! {
        div .scroll tabindex="0" role="region" aria-label="Steps and what they need" {
            svg .graph width=(width) height=(height) viewBox={ "0 0 " (width) " " (height) } {
                @for (index, node) in nodes.iter().enumerate() {
                    @for need in &node.needs {
                        @let (x1, y1) = (at[*need].0 + BOX.0, at[*need].1 + BOX.1 / 2);
                        @let (x2, y2) = (at[index].0, at[index].1 + BOX.1 / 2);
                        @let middle = usize::midpoint(x1, x2);
                        path .edge d={ "M" (x1) " " (y1) " C" (middle) " " (y1) " " (middle) " " (y2) " " (x2) " " (y2) } {}
                    }
                }
                @for (node, at) in nodes.iter().zip(&at) { (boxed(node, *at)) }
            }
        }
    }
}

fn boxed(node: &Node, (x, y): (usize, usize)) -> Markup {
    let name = clean(&node.name);
    let Tally { done, all, .. } = node.tally;
    let counts = format!("{done} of {all} done");
    let with_about = format!("{counts} · {}", node.about);
    let fits = !node.about.is_empty() && with_about.chars().count() <= MAX_TEXT_LENGTH;
    let visible_text = if fits { with_about } else { counts };
    // The label for screen readers begins with the visible text.
    let short = shortened(&name, MAX_NAME_LENGTH);
    let label_text = format!("{short} {visible_text}: {}", node.tally.words());
    html! {
        a href="#jobs" class=(node.tally.class()) data-step=(name) aria-label=(label_text) {
            rect .node x=(x) y=(y) width=(BOX.0) height=(BOX.1) rx="9" {}
            text .mark aria-hidden="true" x=(x + 12) y=(y + 21) { (node.tally.mark()) }
            text x=(x + 30) y=(y + 21) { (short) " " }
            text .small x=(x + 12) y=(y + 38) { (visible_text) }
            @for (class, from, to) in node.tally.parts(BOX.0 - 24) {
                rect class=(class) x=(x + 12 + from) y=(y + BOX.1 - 12) width=(to - from) height="4" {}
            }
        }
    }
}
