//! The steps of a recipe and what they need, as a small drawing.

use std::collections::BTreeMap;

use maud::{Markup, html};

use crate::{plan::Study, text::clean};

const BOX: (usize, usize) = (188, 46);
const GAP: (usize, usize) = (56, 18);

/// Steps from left to right, each right of those that it needs; `states` has the jobs done and all jobs of each.
pub(super) fn draw(study: &Study, states: &BTreeMap<&str, (usize, usize)>) -> Markup {
    let steps = &study.recipe.steps;
    // A step that is needed may stand further down; there is no circle, or there would be no plan.
    let mut column = vec![0; steps.len()];
    for _ in 0..steps.len() {
        for (index, step) in steps.iter().enumerate() {
            column[index] = step.needs.iter().map(|need| column[need.step] + 1).max().unwrap_or(0);
        }
    }
    let mut rows = vec![0; steps.len() + 1];
    let mut at = Vec::with_capacity(steps.len());
    for column in &column {
        at.push((column * (BOX.0 + GAP.0) + 4, rows[*column] * (BOX.1 + GAP.1) + 4));
        rows[*column] += 1;
    }
    let width = (column.iter().max().unwrap_or(&0) + 1) * (BOX.0 + GAP.0) - GAP.0 + 8;
    let height = rows.iter().max().unwrap_or(&1) * (BOX.1 + GAP.1) - GAP.1 + 8;
    html! {
        div .scroll tabindex="0" role="region" aria-label="Steps and what they need" {
            svg .graph width=(width) height=(height) viewBox={ "0 0 " (width) " " (height) } {
                @for (index, step) in steps.iter().enumerate() {
                    @for need in &step.needs {
                        @let (x1, y1) = (at[need.step].0 + BOX.0, at[need.step].1 + BOX.1 / 2);
                        @let (x2, y2) = (at[index].0, at[index].1 + BOX.1 / 2);
                        @let middle = usize::midpoint(x1, x2);
                        path d={ "M" (x1) " " (y1) " C" (middle) " " (y1) " " (middle) " " (y2) " " (x2) " " (y2) } {}
                    }
                }
                @for (index, step) in steps.iter().enumerate() {
                    @let (x, y) = at[index];
                    @let name = clean(&step.name.value);
                    @let (done, all) = states.get(step.name.value.as_str()).copied().unwrap_or_default();
                    @let class = if done == all { "done" } else if done > 0 { "begun" } else { "open" };
                    a href="#jobs" data-step=(name) aria-label={ (name) ": " (done) " of " (all) " done; show its jobs" } {
                        rect class=(class) x=(x) y=(y) width=(BOX.0) height=(BOX.1) rx="6" {}
                        text x=(x + 12) y=(y + 20) { (short(&name)) }
                        text .small x=(x + 12) y=(y + 37) { (done) " of " (all) " done · " (step.task.name) }
                    }
                }
            }
        }
    }
}

/// As much of a name as a box has room for.
fn short(name: &str) -> String {
    const MOST: usize = 20;
    if name.chars().count() <= MOST { name.to_owned() } else { name.chars().take(MOST - 1).chain(['…']).collect() }
}
