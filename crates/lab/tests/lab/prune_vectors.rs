//! Pruning by gradients, compared with PyTorch (`scripts/prune-vectors.py`), and in trainings.

use std::{collections::BTreeMap, path::Path};

use crate::{
    common::{Inner, Train, golden, host, merged, run, task},
    parts::{formula, numbers, tokens, values},
};
use burn::{
    backend::flex::FlexDevice,
    tensor::{Int, Tensor},
};
use serde::Deserialize;
use serde_json::{Value, json};
use sweep_job::{
    Task,
    tasks::{Computing, DecayOn, Optimizer, Prune, PruneMethod, PruneUpdate, ThresholdMethod},
};
use sweep_lab::{
    model::{self, Gpt, ParamInfo, hub},
    optim::{
        AdamW,
        gradient::{self, Dropout, Forward},
    },
    prune::Pruner,
};

/// Limit of relative errors of losses in single precision, against vectors in double precision.
const LIMIT: f64 = 1e-6;
/// The part that the vectors prune.
const SPARSITY: f64 = 0.6;

#[derive(Deserialize)]
struct Case {
    with: Value,
    snip: Vectors,
    /// A lottery ticket by two rounds.
    rounds: Vec<Vectors>,
    rigl: Vectors,
}

/// Masks, as numbers of kept weights and projections, and losses before each step.
#[derive(Deserialize)]
struct Vectors {
    masks: BTreeMap<String, (usize, f64)>,
    losses: Vec<f64>,
}

fn cases() -> BTreeMap<String, Case> {
    serde_json::from_str(&std::fs::read_to_string(golden("pruning.json")).unwrap()).unwrap()
}

/// A training as the script has it.
struct Training {
    network: Gpt<Train>,
    infos: Vec<ParamInfo>,
    optimizer: AdamW<Inner>,
    pruner: Pruner<Inner>,
}

impl Training {
    fn new(network: Gpt<Train>, prune: &Prune) -> Self {
        let infos = model::infos(&network);
        let optimizer =
            Optimizer { beta_1: 0.9, beta_2: 0.95, weight_decay: 0.1, decay_on: DecayOn::All, ..Optimizer::default() };
        Self { optimizer: AdamW::new(&optimizer, &infos), pruner: Pruner::new(prune, &infos), infos, network }
    }

    fn forward(&self) -> Forward<Inner> {
        let dropout = Dropout { p: 0.0, seed: 0, at: [0, 0] };
        Forward::new(&self.network, tokens(0), tokens(3), &Computing::default(), dropout)
    }

    /// Chooses masks, and sets pruned weights to 0.
    fn choose(mut self, sparsity: f64) -> Self {
        self.pruner.choose::<Train, _>(&self.network, &self.optimizer, sparsity).unwrap();
        self.network = self.pruner.apply::<Train, _>(self.network, &mut self.optimizer);
        self
    }

    /// The loss before a step, and the training after it, which replaces a `share` of the kept weights instead of the step.
    fn step_or_replace(mut self, share: Option<f64>) -> (f64, Self) {
        let forward = self.forward();
        let loss = f64::from(host(forward.loss())[0]);
        let gradients = forward.backward(1.0);
        if let Some(share) = share {
            self.network =
                self.pruner.replace::<Train, _>(self.network, &mut self.optimizer, &gradients, share).unwrap();
            return (loss, self);
        }
        let gradients = self.pruner.mask_gradients(gradients);
        self.network = self.pruner.step::<Train, _>(self.network, gradients, &mut self.optimizer, 1e-3, None).unwrap();
        (loss, self)
    }

    fn step(self) -> (f64, Self) {
        self.step_or_replace(None)
    }

    /// The losses are `expected`, with replacements where `prune` has them.
    fn compare_losses(mut self, name: &str, prune: &Prune, expected: &[f64]) -> Self {
        for (step, expected) in expected.iter().enumerate() {
            let (loss, next) = self.step_or_replace(prune.replaces_at(step, 12));
            let error = (loss - expected).abs() / expected;
            assert!(error < LIMIT, "{name}: loss {loss} of step {step}, not {expected}: {error:.1e}");
            self = next;
        }
        self
    }

    /// The weights that are not 0 are those of `expected`.
    fn compare_masks(&self, name: &str, expected: &BTreeMap<String, (usize, f64)>) {
        let mut compared = 0;
        for (info, weights) in self.infos.iter().zip(values(&self.network)) {
            let Some((kept, projection)) = expected.get(&info.name) else { continue };
            let mask: Vec<f64> = weights.iter().map(|weight| f64::from(u8::from(*weight != 0.0))).collect();
            assert_eq!(mask.iter().filter(|keep| **keep > 0.0).count(), *kept, "{name} {}", info.name);
            let found: f64 = mask.iter().zip(numbers("projection", mask.len())).map(|(a, b)| a * b).sum();
            assert!((found - projection).abs() < 1e-9, "{name} {}: {found}, not {projection}", info.name);
            compared += 1;
        }
        assert_eq!(compared, expected.len(), "{name}");
    }
}

fn settings(prune: PruneMethod) -> Prune {
    Prune { prune, ..Prune::default() }
}

/// Two batches of a sequence each.
fn batches() -> [(Tensor<Inner, 2, Int>, Tensor<Inner, 2, Int>); 2] {
    [0, 1].map(|row| (tokens(0).narrow(0, row, 1), tokens(3).narrow(0, row, 1)))
}

fn sensed(with: &Value, prune: &Prune) -> Training {
    let mut training = Training::new(formula(with), prune);
    training.pruner.sense(gradient::mean(&training.network, batches().into_iter(), &Computing::default()));
    training
}

#[test]
fn snip_is_what_pytorch_computes() {
    for (name, Case { with, snip, .. }) in cases() {
        for prune_update in PruneUpdate::ALL.iter().copied() {
            let prune = Prune { prune_update, ..settings(PruneMethod::Snip) };
            let training = sensed(&with, &prune).choose(SPARSITY);
            training.compare_masks(&name, &snip.masks);
            let training = training.compare_losses(&name, &prune, &snip.losses);
            training.compare_masks(&name, &snip.masks);
        }
    }
}

#[test]
fn gradients_that_scores_need_are_for_one_choice() {
    let mut training = sensed(&cases()["gpt2"].with, &settings(PruneMethod::Snip)).choose(SPARSITY);
    let again = training.pruner.choose::<Train, _>(&training.network, &training.optimizer, SPARSITY);
    assert_eq!(
        again.unwrap_err().to_string(),
        "`prune: snip` needs the gradient of `h.0.attn.c_attn.weight`, on which no loss depends: choose another `prune`, or \
         another architecture"
    );
}

#[test]
fn rounds_of_a_lottery_ticket_are_what_pytorch_computes() {
    for (name, Case { with, rounds, .. }) in cases() {
        let prune = settings(PruneMethod::None);
        let mut training = Training::new(formula(&with), &prune);
        for _ in 0..rounds[0].losses.len() {
            training = training.step().1;
        }
        for (Vectors { masks, losses }, sparsity) in rounds.iter().zip([0.3, 0.56]) {
            let trained = model::values(&training.network);
            training = Training::new(formula(&with), &prune);
            training.pruner = training.pruner.with_given_masks(true);
            let part = training.pruner.take_masks(&trained, sparsity).unwrap();
            assert!((part - sparsity).abs() < 1e-4, "{name}: {part}");
            training.network = training.pruner.apply::<Train, _>(training.network, &mut training.optimizer);
            training.compare_masks(&name, masks);
            training = training.compare_losses(&name, &prune, losses);
            training.compare_masks(&name, masks);
        }
    }
}

#[test]
fn rigl_is_what_pytorch_computes() {
    for (name, Case { with, rigl, .. }) in cases() {
        let prune = Prune { prune_every: 3, prune_ramp_end: Some(10), ..settings(PruneMethod::Rigl) };
        let mut training = Training::new(formula(&with), &prune);
        // The script's numbers, of which those with the highest ranks stay.
        let numbers = |info: &ParamInfo| {
            let numbers = numbers(&format!("{}.1", info.name), info.len());
            let mut order: Vec<usize> = (0..numbers.len()).collect();
            order.sort_by(|left, right| numbers[*left].total_cmp(&numbers[*right]));
            let mut mask = vec![1.0_f32; numbers.len()];
            let pruned =
                order.iter().zip(1..).take_while(|(_, count)| f64::from(*count) <= SPARSITY * mask.len() as f64);
            let pruned: Vec<usize> = pruned.map(|(place, _): (&usize, i32)| *place).collect();
            for place in pruned {
                mask[place] = 0.0;
            }
            Tensor::<Inner, 1>::from_floats(&mask[..], &FlexDevice)
        };
        let masks: Vec<Tensor<Inner, 1>> = training.infos.iter().map(numbers).collect();
        training.pruner.take_masks(&masks, 0.0).unwrap();
        training.network = training.pruner.apply::<Train, _>(training.network, &mut training.optimizer);
        training.compare_losses(&name, &prune, &rigl.losses).compare_masks(&name, &rigl.masks);
    }
}

#[test]
fn rigl_keeps_its_sparsity_in_every_layer() {
    for more in [
        json!({"sparsity": 0.8, "prune_every": 5}),
        json!({"sparsity": 0.05, "prune_every": 3, "prune_ramp_end": 30, "optimizer": "adamwspam"}),
        json!({"prune_tied_head": true, "optimizer": "muon", "precision": "mixed"}),
        json!({"sparsity": 0.6, "optimizer": "adafactor", "lr": 0.1, "prune_every": 4}),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let outcome = trained(&merged(json!({"prune": "rigl", "save": true}), &more), folder.path());
        let sparsity = more["sparsity"].as_f64().unwrap_or(0.5);
        assert!((outcome.metrics["sparsity"].value - sparsity).abs() < 1e-3, "{more}");
        let curve = &outcome.curves["sparsity"];
        assert_eq!((&curve.at[..], curve.values.len()), (&[0][..], 1), "{more}");
        let network: Gpt<Train> = hub::load(&folder.path().join("checkpoint"), &FlexDevice).unwrap();
        for (info, values) in model::infos(&network).iter().zip(values(&network)) {
            if info.prunable(more["prune_tied_head"] == true) {
                let zeros: Vec<bool> = values.iter().map(|weight| *weight == 0.0).collect();
                assert!((part(&zeros) - sparsity).abs() < 2e-3, "{more} {}: {}", info.name, part(&zeros));
            }
        }
        let losses = &outcome.curves["loss"].values;
        assert!(losses.last().unwrap() < &losses[0], "{more}: {losses:?}");
    }
}

#[test]
fn weights_that_come_are_new_and_random_masks_follow_from_the_seed() {
    let network = formula(&cases()["gpt2"].with);
    let drawn = |seed| {
        let mut training = Training::new(network.clone(), &settings(PruneMethod::Rigl));
        training.pruner = training.pruner.with_seed(seed);
        assert!((training.pruner.draw(SPARSITY, &FlexDevice) - SPARSITY).abs() < 1e-3);
        training.network = training.pruner.apply::<Train, _>(training.network, &mut training.optimizer);
        training
    };
    let training = drawn(1);
    assert_eq!(values(&training.network), values(&drawn(1).network));
    assert_ne!(values(&training.network), values(&drawn(2).network));
    let before = training.step().1;
    let places = |training: &Training| {
        values(&training.network)[2..].iter().map(|w| w.iter().map(|x| *x == 0.0).collect()).collect::<Vec<Vec<bool>>>()
    };
    let zeros = places(&before);
    let replaced = before.step_or_replace(Some(0.3)).1;
    for (index, (info, zeros)) in replaced.infos.iter().skip(2).zip(zeros).enumerate() {
        if !info.prunable(false) {
            continue;
        }
        // Those that went and those that came are 0, with their moments.
        let after = &places(&replaced)[index];
        assert!(stay(&zeros, after), "{}: only a step changes a new weight", info.name);
        let state = replaced.optimizer.state(index + 2).unwrap();
        for moment in [&state.moment_1, &state.moment_2] {
            let dead: Vec<bool> = host(moment.clone()).iter().map(|number| *number == 0.0).collect();
            assert!(stay(after, &dead), "{}", info.name);
        }
    }
    let came = replaced.step().1;
    let nonzero = |places: Vec<Vec<bool>>| places.concat().iter().filter(|zero| !**zero).count();
    assert_eq!(nonzero(places(&came)), nonzero(places(&drawn(1).step().1)), "as many as before");
}

/// The loop of a short training.
fn short() -> Value {
    json!({"batch_size": 4, "eval_batches": 2, "iters": 40, "dropout": 0, "warmup_iters": 4, "lr": 3e-3})
}

/// A short training of a small network.
fn trained(more: &Value, folder: &Path) -> sweep_job::Outcome {
    let network = json!({"n_layer": 2, "n_head": 2, "d_model": 32, "block_size": 16});
    run("train", merged(merged(short(), &network), more), folder).unwrap()
}

#[test]
fn snip_prunes_once_before_a_training() {
    for (more, expected) in [
        (json!({"sparsity": 0.8}), 0.8),
        (json!({"prune_pattern": "2:4", "precision": "mixed"}), 0.5),
        (json!({"sparsity": 0.8, "prune_tied_head": true, "optimizer": "muon", "calibration_batches": 2}), 0.8),
        (json!({"threshold": "histogram", "checkpointing": "segment:1", "optimizer": "adamwspam"}), 0.5),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let outcome = trained(&merged(json!({"prune": "snip"}), &more), folder.path());
        assert!((outcome.metrics["sparsity"].value - expected).abs() < 2e-3, "{more}");
        let curve = &outcome.curves["sparsity"];
        assert_eq!((&curve.at[..], curve.values.len()), (&[0][..], 1), "{more}");
        let losses = &outcome.curves["loss"].values;
        assert!(losses.last().unwrap() < &losses[0], "{more}: {losses:?}");
    }
}

#[test]
fn a_sampled_threshold_is_one_for_snip_too() {
    let Task::Train(train) = task("train", json!({"prune": "snip", "threshold": "sample_corrected"})) else {
        panic!("a training")
    };
    assert_eq!(train.prune.threshold, ThresholdMethod::SampleCorrected);
    let training = sensed(&cases()["llama"].with, &train.prune).choose(SPARSITY);
    let linear = training.infos.iter().zip(values(&training.network)).filter(|(info, _)| info.prunable(false));
    let weights: Vec<f32> = linear.flat_map(|(_, values)| values).collect();
    let pruned = weights.iter().filter(|weight| **weight == 0.0).count() as f64 / weights.len() as f64;
    assert!((pruned - SPARSITY).abs() < 0.05 && pruned <= SPARSITY, "{pruned}");
}

/// The places of the weights of linear layers that are 0 in a saved network.
fn zeros(folder: &Path) -> Vec<bool> {
    let network: Gpt<Train> = hub::load(&folder.join("checkpoint"), &FlexDevice).unwrap();
    let infos = model::infos(&network);
    let linear = infos.iter().zip(values(&network)).filter(|(info, _)| info.prunable(false));
    linear.flat_map(|(_, values)| values).map(|weight| weight == 0.0).collect()
}

fn part(zeros: &[bool]) -> f64 {
    zeros.iter().filter(|zero| **zero).count() as f64 / zeros.len() as f64
}

fn stay(before: &[bool], after: &[bool]) -> bool {
    before.len() == after.len() && before.iter().zip(after).all(|(before, after)| *after || !*before)
}

#[test]
fn a_recipe_can_prune_rewind_and_train_again() {
    let folders: [tempfile::TempDir; 5] = std::array::from_fn(|_| tempfile::tempdir().unwrap());
    let [dense, early, first, second, ramp] = folders.each_ref().map(tempfile::TempDir::path);
    let network = |folder: &Path| json!(folder.join("checkpoint"));
    trained(&json!({"save": true}), dense);
    trained(&json!({"save": true, "until": 5}), early);
    let more = json!({"save": true, "mask": network(dense), "mask_sparsity": 0.5});
    let outcome = trained(&more, first);
    assert!((outcome.metrics["sparsity"].value - 0.5).abs() < 1e-3);
    let curve = &outcome.curves["sparsity"];
    assert_eq!((&curve.at[..], curve.values.len()), (&[0][..], 1));
    let one = zeros(first);

    // The first weights of this round are early ones, and the zeros of the round before stay.
    let more = json!({"save": true, "mask": network(first), "mask_sparsity": 0.75, "init": network(early)});
    let outcome = run("train", merged(short(), &more), second).unwrap();
    let two = zeros(second);
    assert!((outcome.metrics["sparsity"].value - 0.75).abs() < 1e-3 && (part(&two) - 0.75).abs() < 1e-3);
    assert!(stay(&one, &two), "a weight has come back");

    // A ramp begins with the mask, and prunes more than it in the end.
    let more = json!({"save": true, "mask": network(first), "prune": "magnitude", "sparsity": 0.75, "prune_every": 4});
    let outcome = trained(&more, ramp);
    let three = zeros(ramp);
    assert!((part(&three) - 0.75).abs() < 1e-3 && stay(&one, &three), "a weight has come back");
    let sparsities = &outcome.curves["sparsity"].values;
    assert!(sparsities.is_sorted() && (sparsities[0] - 0.5).abs() < 1e-3, "{sparsities:?}");
    assert_ne!(two, three);
}

#[test]
fn a_mask_meets_every_score_and_pattern() {
    let dense = tempfile::tempdir().unwrap();
    let folder = tempfile::tempdir().unwrap();
    trained(&json!({"save": true, "prune": "magnitude", "sparsity": 0.3}), dense.path());
    let one = zeros(dense.path());
    for more in [
        json!({"prune": "none", "optimizer": "muon"}),
        json!({"prune": "movement"}),
        json!({"prune": "bitter5"}),
        json!({"prune": "bitter4", "optimizer": "adamwspam"}),
        json!({"prune": "wanda", "optimizer": "schedulefree", "lr_schedule": "constant"}),
        json!({"prune": "magnitude", "prune_pattern": "2:4", "precision": "mixed"}),
    ] {
        let given = json!({"save": true, "mask": dense.path().join("checkpoint"), "prune_every": 4});
        trained(&merged(given, &more), folder.path());
        let two = zeros(folder.path());
        assert!(stay(&one, &two), "{more}: a weight has come back");
        assert!(more["prune"] != "none" || one == two, "{more}");
    }
}

#[test]
fn fresh_weights_are_others() {
    let more = [json!({}), json!({"fresh_weights": true}), json!({"fresh_weights": true, "seed": 1})];
    let weights = more.map(|more| {
        let folder = tempfile::tempdir().unwrap();
        // The learning rate of the first iteration is 0.
        trained(&merged(json!({"save": true, "until": 1}), &more), folder.path());
        let network: Gpt<Train> = hub::load(&folder.path().join("checkpoint"), &FlexDevice).unwrap();
        values(&network).concat()
    });
    assert_ne!(weights[0], weights[1]);
    assert_ne!(weights[1], weights[2]);
}

#[test]
fn a_mask_of_another_network_is_an_error() {
    let dense = tempfile::tempdir().unwrap();
    trained(&json!({"save": true, "until": 2}), dense.path());
    let given = |more: Value| {
        let base = json!({"iters": 4, "eval_batches": 1, "block_size": 16, "mask": dense.path().join("checkpoint")});
        format!("{:?}", run("train", merged(base, &more), tempfile::tempdir().unwrap().path()).unwrap_err())
    };
    let wider = given(json!({"n_layer": 2, "n_head": 2, "d_model": 48}));
    assert!(wider.contains("`wte.weight` [256, 32] instead of `wte.weight` [256, 48]"), "{wider}");
    let deeper = given(json!({"n_layer": 3, "n_head": 2, "d_model": 32}));
    assert!(deeper.contains("the network in `mask` has other parameters than the one that is trained"), "{deeper}");
    let missing = given(json!({"mask": dense.path().join("nothing")}));
    assert!(missing.contains("nothing"), "{missing}");
}
