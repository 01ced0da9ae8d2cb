//! The part of a training that several trainings have in common: from which iteration each parameter acts.

use std::collections::BTreeMap;

use super::{Train, Training};
use crate::{
    Group, TaskSpec, Value, Values,
    task::NEVER,
    tasks::{LrSchedule, Optimizer, OptimizerKind, Prune},
};

/// Parameters that change neither weights nor curves.
const OF_NO_STATE: [&str; 4] = ["save", "breakdown", "trace", "ceiling"];
/// Parameters of pruning that act on a mask that another network gives, from the first iteration on.
const OF_GIVEN_MASKS: [&str; 2] = ["prune_tied_head", "mask_every"];
/// Parameters of SPAM that act from the first reset on.
const OF_RESETS: [&str; 3] = ["spam_interval", "spam_warmup", "spam_reset_all"];
/// Parameters of SPAM's clipping of elements.
const OF_CLIPPING: [&str; 2] = ["spam_theta", "spam_clip_after"];

/// For the parameters that do not act from the first iteration on, the iteration, counted from 0, from which they do.
pub(super) fn acts_from(train: &Train) -> BTreeMap<String, u64> {
    let Training { iters, log_every, eval_every, .. } = train.training;
    let mut found: BTreeMap<String, u64> = BTreeMap::new();
    let mut late = |names: &[&str], from: u64| found.extend(names.iter().map(|name| ((*name).to_owned(), from)));
    late(&OF_NO_STATE, NEVER);
    // A point of an iteration is in the state after it.
    late(&["log_every"], log_every as u64 - 1);
    late(&["eval_every", "eval_batches"], (eval_every as u64).checked_sub(1).unwrap_or(NEVER));
    schedule(&train.optimizer, iters, &mut late);
    soap(&train.optimizer, &mut late);
    let mut pruning: Vec<&str> = Prune::PARAMS.iter().map(|param| param.name).collect();
    if train.ticket.mask.is_some() {
        pruning.retain(|name| !OF_GIVEN_MASKS.contains(name));
    }
    late(&pruning, train.prune.first_update(iters).map_or(NEVER, |first| first as u64));
    spam(&train.optimizer, &mut late);
    found
}

/// In the prefix, `lr_decay` may become its default, with which the learning rate may fall earlier.
fn schedule(optimizer: &Optimizer, iters: usize, late: &mut impl FnMut(&[&str], u64)) {
    // The default of `lr_schedule` conflicts with Schedule-Free.
    if optimizer.optimizer != OptimizerKind::ScheduleFree {
        late(&["lr_schedule"], optimizer.warmup_iters as u64);
    }
    let by_default = Optimizer { lr_decay: Optimizer::default().lr_decay, ..optimizer.clone() };
    let decay_start = optimizer.decay_start(iters).min(by_default.decay_start(iters));
    late(&["min_lr_ratio"], if optimizer.lr_schedule == LrSchedule::Constant { NEVER } else { decay_start as u64 });
    late(&["lr_decay"], if optimizer.lr_schedule == LrSchedule::Wsd { decay_start as u64 } else { NEVER });
}

/// SOAP begins with its first gradient, so that its bases change for the first time after `precondition_frequency` further ones. In
/// the prefix, the parameter may become its default.
fn soap(optimizer: &Optimizer, late: &mut impl FnMut(&[&str], u64)) {
    if optimizer.optimizer == OptimizerKind::Soap {
        let frequency = optimizer.precondition_frequency.min(Optimizer::default().precondition_frequency);
        late(&["precondition_frequency"], frequency as u64);
    }
}

fn spam(optimizer: &Optimizer, late: &mut impl FnMut(&[&str], u64)) {
    if optimizer.optimizer != OptimizerKind::AdamWSpam {
        let all = Optimizer::PARAMS.iter().map(|param| param.name).filter(|name| name.starts_with("spam_"));
        late(&all.collect::<Vec<&str>>(), NEVER);
    } else if !optimizer.spam_reference {
        late(&OF_RESETS, (optimizer.spam_interval as u64).checked_sub(1).unwrap_or(NEVER));
        late(&OF_CLIPPING, optimizer.spam_clip_after.max(1) as u64);
    }
}

/// The parameters of a training whose only purpose is the state of this one after `step` iterations.
pub(super) fn prefix(values: &Values, step: u64) -> Option<Values> {
    let train = Train::build(values)?;
    let until = i64::try_from(step).ok().filter(|_| step > 0 && step < train.training.iters as u64)?;
    let late: Vec<String> =
        acts_from(&train).into_iter().filter_map(|(name, from)| (from >= step).then_some(name)).collect();
    let mut prefix = values.clone();
    for param in Train::GROUPS.iter().flat_map(|group| group.iter()) {
        if param.cosmetic || late.iter().any(|name| name == param.name) {
            prefix.insert(param.name.to_owned(), (param.default)());
        }
    }
    prefix.insert("until".to_owned(), Value::Int(until));
    // Its evaluation is not requested.
    if late.iter().any(|name| name == "eval_batches") {
        prefix.insert("eval_batches".to_owned(), Value::Int(1));
    }
    Some(prefix)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Task;

    fn values(given: &[(&str, Value)]) -> Values {
        let given = given.iter().map(|(name, value)| ((*name).to_owned(), value.clone()));
        Task::info("train").unwrap().complete(given.collect())
    }

    fn from(given: &[(&str, Value)], name: &str) -> Option<u64> {
        Train::acts_from(&values(given)).get(name).copied()
    }

    fn text(text: &str) -> Value {
        Value::Text(text.into())
    }

    #[test]
    fn parameters_act_from_the_first_iteration_that_depends_on_them() {
        let pruned = [("prune", text("bitter3")), ("iters", Value::Int(60))];
        assert_eq!(from(&pruned, "prune"), Some(10), "warm-up 6, every 10");
        assert_eq!(from(&pruned, "sparsity"), Some(10));
        assert_eq!(
            from(&[("prune", text("bitter3")), ("prune_every", Value::Int(7))], "prune"),
            Some(21),
            "from 20 on"
        );
        assert_eq!(from(&[], "sparsity"), Some(NEVER), "nothing is pruned");
        assert_eq!((from(&[], "lr"), from(&[], "seed"), from(&[], "iters")), (None, None, None));
        let masked = [("prune", text("bitter3")), ("mask", text("network")), ("iters", Value::Int(60))];
        let found = ["mask", "mask_sparsity", "prune_tied_head", "sparsity"].map(|name| from(&masked, name));
        assert_eq!(found, [None, None, None, Some(10)]);
        assert_eq!(from(&pruned, "prune_tied_head"), Some(10));
        assert_eq!(from(&[("prune", text("snip"))], "sparsity"), Some(0), "before the first step");
        assert_eq!(from(&[("eval_every", Value::Int(12))], "eval_batches"), Some(11));
        assert_eq!(from(&[], "eval_batches"), Some(NEVER), "only at the end");
        assert_eq!(from(&[], "spam_theta"), Some(NEVER));
        assert_eq!((from(&[], "min_lr_ratio"), from(&[], "lr_decay")), (Some(20), Some(NEVER)));
        let wsd = |part| [("lr_schedule", text("wsd")), ("lr_decay", Value::Float(part))];
        assert_eq!((from(&wsd(0.5), "min_lr_ratio"), from(&wsd(0.5), "lr_decay")), (Some(100), Some(100)));
        assert_eq!(from(&wsd(0.1), "lr_decay"), Some(160), "by default the learning rate falls from 160 on");
        assert_eq!(from(&wsd(0.1), "lr_schedule"), Some(20));
        assert_eq!(from(&[("lr_schedule", text("constant"))], "min_lr_ratio"), Some(NEVER));
        let free = [("lr_schedule", text("constant")), ("optimizer", text("schedulefree"))];
        assert_eq!(from(&free, "lr_schedule"), None, "a prefix with another schedule would conflict");
        let soap = |frequency| [("optimizer", text("soap")), ("precondition_frequency", Value::Int(frequency))];
        assert_eq!(from(&soap(4), "precondition_frequency"), Some(4));
        assert_eq!(from(&soap(25), "precondition_frequency"), Some(10), "by default the bases change from 10 on");
        let spam = |reference| [("optimizer", text("adamwspam")), ("spam_reference", Value::Bool(reference))];
        assert_eq!((from(&spam(false), "spam_interval"), from(&spam(false), "spam_theta")), (Some(999), Some(20)));
        assert_eq!(from(&spam(true), "spam_interval"), None, "the reference counts in another way");
    }

    #[test]
    fn every_name_is_a_parameter() {
        let info = Task::info("train").unwrap();
        for name in Train::acts_from(&values(&[("optimizer", text("adamwspam"))])).keys() {
            assert!(info.param(name).is_some(), "{name}");
        }
    }

    #[test]
    fn the_prefix_of_all_methods_is_one_job() {
        let info = Task::info("train").unwrap();
        let method =
            |prune| values(&[("prune", text(prune)), ("lr", Value::Float(0.002)), ("save", Value::Bool(true))]);
        let prefix = |prune, step| Train::prefix(&method(prune), step).map(|values| info.identity(&values));
        let expected =
            Values::from([("eval_batches", Value::Int(1)), ("lr", Value::Float(0.002)), ("until", Value::Int(20))]);
        assert_eq!(prefix("bitter4", 20), Some(expected));
        assert_eq!(prefix("bitter4", 20), prefix("none", 20));
        assert_eq!(prefix("bitter4", 20), prefix("movement", 20));
        assert_ne!(prefix("bitter4", 21), prefix("movement", 21));
        assert_eq!((prefix("none", 200), prefix("none", 0)), (None, None));
        let built = info.build(&Train::prefix(&method("bitter4"), 20).unwrap());
        assert!(built.is_some());
    }
}
