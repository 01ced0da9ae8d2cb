//! The order in which the steps of a recipe can be connected, and their points.

use std::collections::{BTreeMap, BTreeSet};

use petgraph::{Direction, algo::tarjan_scc, graph::DiGraph};

use super::{
    Point, Room,
    dimension::Context,
    effects::check_effects,
    expand,
    searched::Searched,
    selection::{check_selection, resolved, selected},
};
use crate::recipe::{Claim, Collector, Problem, Recipe, Span};

/// The points of a recipe.
pub(super) struct Expanded {
    /// The order in which the steps can be connected.
    pub(super) order: Vec<usize>,
    /// The points of every step.
    pub(super) points: Vec<Vec<Point>>,
    /// For each step whose points decisions choose, the largest number of points that they may still add.
    pub(super) left: BTreeMap<usize, usize>,
}

/// The points of every step of a recipe, and the order in which the steps can be connected. `searched` has the decided
/// configurations of a step.
pub(super) fn expand_all<'s>(
    recipe: &Recipe,
    searched: &dyn Fn(usize) -> Option<&'s Searched>,
    problems: &mut Collector,
    room: &mut Room,
) -> Expanded {
    let order = step_order(recipe, problems);
    let mut points: Vec<Vec<Point>> = vec![Vec::new(); recipe.steps.len()];
    let mut left = BTreeMap::new();
    for step in &order {
        let earlier = |name: &str| recipe.step(name).map(|(index, _)| points[index].as_slice());
        let (params, sources) = (&recipe.params, &recipe.sources);
        let searched = searched(*step);
        let (problems, room) = (&mut *problems, &mut *room);
        let mut context = Context { params, sources, problems, room, earlier: &earlier, searched };
        let step_points = expand::expand(&recipe.steps[*step], &mut context);
        if recipe.steps[*step].matrix.suggested().is_some() {
            let per_configuration = expand::per_configuration(&recipe.steps[*step], &mut context);
            left.insert(
                *step,
                per_configuration.saturating_mul(searched.map_or_else(|| open(recipe, *step), |state| state.left)),
            );
        }
        points[*step] = step_points;
    }
    for table in &recipe.tables {
        for (step, selection) in table.selections() {
            check_selection(recipe, step, &selection, &points[step], problems);
        }
    }
    for figure in &recipe.figures {
        check_selection(recipe, figure.from.value, &figure.only, &points[figure.from.value], problems);
    }
    for effects in recipe.effects() {
        let selection = resolved(recipe, &effects.of.only);
        let points = points[effects.of.step].iter().filter(|point| selected(point, &selection));
        // The points of a step with `suggest` are chosen later, so the step cannot be checked yet.
        if recipe.steps[effects.of.step].matrix.suggested().is_none() {
            check_effects(recipe, effects, points, problems);
        }
    }
    for need in recipe.steps.iter().flat_map(|step| &step.needs) {
        check_selection(recipe, need.step, &need.only, &points[need.step], problems);
    }
    for (step, selection) in recipe.claims.iter().flat_map(Claim::selections) {
        check_selection(recipe, step, &selection, &points[step], problems);
    }
    Expanded { order, points, left }
}

/// The number of configurations of a step of which none is decided.
pub(crate) fn open(recipe: &Recipe, step: usize) -> usize {
    let search = |step: usize| recipe.steps[step].search.as_ref();
    let confirm = recipe.steps[step].confirms.and_then(search).and_then(|search| search.confirm.as_ref());
    let suggest = search(step).and_then(|search| search.suggest.as_ref());
    match (suggest, confirm) {
        (Some(suggest), _) => suggest.batch.saturating_mul(suggest.batches),
        (None, Some(confirm)) => confirm.top,
        (None, None) => 0,
    }
}

/// The steps, each after the steps that it needs, otherwise in the order of the text. Steps of a cycle, and steps that need
/// them, are left out. Cycles are reported.
fn step_order(recipe: &Recipe, problems: &mut Collector) -> Vec<usize> {
    let mut graph = DiGraph::<usize, Span>::new();
    let nodes: Vec<_> = (0..recipe.steps.len()).map(|index| graph.add_node(index)).collect();
    for (index, step) in recipe.steps.iter().enumerate() {
        for need in &step.needs {
            graph.add_edge(nodes[need.step], nodes[index], need.span);
        }
    }
    for mut component in tarjan_scc(&graph) {
        if component.len() > 1 || graph.contains_edge(component[0], component[0]) {
            component.sort_unstable();
            report_cycle(recipe, &graph, &component, problems);
        }
    }
    let mut waiting_for: Vec<usize> = recipe.steps.iter().map(|step| step.needs.len()).collect();
    let mut ready_steps: BTreeSet<usize> = (0..waiting_for.len()).filter(|index| waiting_for[*index] == 0).collect();
    let mut order = Vec::with_capacity(recipe.steps.len());
    while let Some(index) = ready_steps.pop_first() {
        order.push(index);
        for dependent in graph.neighbors(nodes[index]) {
            let step = graph[dependent];
            waiting_for[step] -= 1;
            if waiting_for[step] == 0 {
                ready_steps.insert(step);
            }
        }
    }
    order
}

fn report_cycle(
    recipe: &Recipe,
    graph: &DiGraph<usize, Span>,
    component: &[petgraph::graph::NodeIndex],
    problems: &mut Collector,
) {
    let name = |node: petgraph::graph::NodeIndex| recipe.steps[graph[node]].name.value.as_str();
    // The path goes from a step to a needed step inside the component, until it reaches a step again.
    let mut path = vec![component[0]];
    let closing_node = loop {
        let last_node = path[path.len() - 1];
        let mut needed_nodes =
            graph.neighbors_directed(last_node, Direction::Incoming).filter(|node| component.contains(node));
        let Some(next_node) = needed_nodes.next() else { return };
        if let Some(start) = path.iter().position(|node| *node == next_node) {
            path.drain(..start);
            break next_node;
        }
        path.push(next_node);
    };
    let chain: Vec<_> = path.iter().chain([&closing_node]).map(|node| format!("`{}`", name(*node))).collect();
    let last_node = path[path.len() - 1];
    let span = graph.find_edge(closing_node, last_node).map_or_else(Span::default, |edge| graph[edge]);
    let message = format!("the steps need each other: {}", chain.join(" needs "));
    let problem =
        Problem::new(&recipe.sources, span, message, "this closes the cycle").help("remove one of these `needs`");
    problems.push(span, problem);
}
