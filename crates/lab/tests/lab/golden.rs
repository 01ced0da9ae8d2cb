//! Comparison with PyTorch and Hugging Face transformers: forward, backward, AdamW, and the pruning masks.

use crate::common::{Inner, Tensors, Train, golden, host, ids, relative_error};
use burn::{
    backend::flex::FlexDevice,
    tensor::{Tensor, f16},
};
use sweep_job::tasks::{DecayOn, Optimizer, Prune, PruneMethod, ScorePrecision};
use sweep_lab::{
    model::{self, Gpt, Network, cross_entropy, hub},
    optim::AdamW,
    prune::{self, Choice, Goal, Group, HostSelect, Inputs, Layers, Moments, OnePassSelect, Select, by_layer},
};

/// Loss on the reference batch, which predicts every token from those before it.
fn loss(network: &Gpt<Train>, tokens: &[i32], shape: [usize; 2]) -> Tensor<Train, 1> {
    let [batch, length] = shape;
    let logits = network.logits(ids(tokens, shape), 0.0);
    let vocab = logits.dims()[2];
    let targets = ids(tokens, shape).slice([0..batch, 1..length]);
    cross_entropy(logits.slice([0..batch, 0..length - 1, 0..vocab]), targets)
}

struct Reference {
    expected: Tensors,
    network: Gpt<Train>,
    tokens: Vec<i32>,
    shape: [usize; 2],
}

fn reference() -> Reference {
    let expected = Tensors::read(&golden("gpt2/expected.safetensors"));
    let network = hub::load(&golden("gpt2"), &FlexDevice).unwrap();
    let (tokens, shape) = (expected.ints("input_ids"), expected.shape("input_ids"));
    Reference { network, tokens, shape: [shape[0], shape[1]], expected }
}

#[test]
fn forward_and_loss() {
    let Reference { expected, network, tokens, shape } = reference();
    let logits = network.logits(ids(&tokens, shape), 0.0).inner();
    let numbers = logits.shape().num_elements();
    let error = relative_error(&host(logits.reshape([numbers])), &expected.floats("logits"));
    assert!(error < 1e-4, "logits differ by {error:.2e}");
    let loss = host(loss(&network, &tokens, shape).inner());
    let error = relative_error(&loss, &expected.floats("loss"));
    assert!(error < 1e-5, "loss differs by {error:.2e}");
}

#[test]
fn gradients() {
    let Reference { expected, network, tokens, shape } = reference();
    let mut gradients = loss(&network, &tokens, shape).backward();
    let gradients = model::gradients(&network, &mut gradients);
    for (info, gradient) in model::infos(&network).into_iter().zip(gradients) {
        let wanted = expected.floats(&format!("grad.transformer.{}", info.name));
        let error = relative_error(&host(gradient.unwrap()), &wanted);
        assert!(error < 1e-4, "gradient of {} differs by {error:.2e}", info.name);
    }
}

#[test]
fn three_steps_of_adamw() {
    let Reference { expected, mut network, tokens, shape } = reference();
    let settings = Optimizer {
        beta_1: 0.9,
        beta_2: 0.95,
        epsilon: 1e-8,
        weight_decay: 0.1,
        decay_on: DecayOn::All,
        ..Optimizer::default()
    };
    let infos = model::infos(&network);
    let before: Vec<Vec<f32>> = model::values(&network).into_iter().map(host).collect();
    let mut optimizer = AdamW::<Inner>::new(&settings, &infos);
    let mut losses = Vec::new();
    for _ in 0..3 {
        let loss = loss(&network, &tokens, shape);
        losses.extend(host(loss.clone().inner()));
        let mut gradients = loss.backward();
        let gradients = model::gradients(&network, &mut gradients);
        network = optimizer.step::<Train, _>(network, gradients, 1e-3).unwrap();
    }
    let error = relative_error(&losses, &expected.floats("losses"));
    assert!(error < 1e-5, "losses {losses:?} differ by {error:.2e}");
    for ((info, values), before) in infos.iter().zip(model::values(&network)).zip(before) {
        let (mut found, mut wanted) = (host(values), expected.floats(&format!("after3.transformer.{}", info.name)));
        if info.name.ends_with("c_attn.bias") {
            // A bias of the keys adds the same number to all scores of a query, so its gradient is 0 but for rounding,
            // and Adam makes steps of full size from it: only their size can be compared.
            let keys = found.len() / 3..2 * found.len() / 3;
            for ((found, wanted), before) in
                found[keys.clone()].iter().zip(&wanted[keys.clone()]).zip(&before[keys.clone()])
            {
                assert!((found - before).abs() < 3.1e-3 && (wanted - before).abs() < 3.1e-3, "{}", info.name);
            }
            found.drain(keys.clone());
            wanted.drain(keys);
        }
        let error = relative_error(&found, &wanted);
        assert!(error < 1e-4, "{} differs by {error:.2e} after three steps", info.name);
    }
}

const PARTS: [&str; 3] = ["a", "b", "c"];

/// The reference was computed at this step.
const STEP: i32 = 137;

/// Selection of `selector` from the reference's weights and moments for the scores of `settings`.
fn chosen(
    selector: &dyn Select<Inner>,
    settings: &Prune,
    expected: &Tensors,
    groups: &[Group],
) -> Vec<Option<Choice<Inner>>> {
    let inputs = |part: &str| {
        let [weights, first, second] = ["w", "m", "v"]
            .map(|what| Tensor::<Inner, 1>::from_floats(&expected.floats(&format!("{what}.{part}"))[..], &FlexDevice));
        let moments = Some(Moments { first, second, bias_correction_1: 1.0 - 0.9_f64.powi(STEP) });
        Inputs { name: part.to_owned(), weights, moments, origin: None, mask: None }
    };
    let mut layers = Layers::new(settings, PARTS.map(inputs).into());
    selector.select(&mut layers, &Goal { groups, seed: 0 }).unwrap()
}

#[test]
fn thresholds_and_masks_of_every_variant() {
    let expected = Tensors::read(&golden("bitter.safetensors"));
    let variants: Vec<PruneMethod> =
        PruneMethod::ALL.iter().copied().filter(|method| method.word().starts_with("bitter")).collect();
    assert_eq!(variants.len(), 10);
    for prune in variants {
        for sparsity in [0.1, 0.5, 0.9] {
            let groups: Vec<Group> = if prune == PruneMethod::Bitter4 {
                (0..3).map(|part| Group { layers: part..part + 1, sparsity: by_layer(sparsity, part, 3) }).collect()
            } else {
                vec![Group { layers: 0..3, sparsity }]
            };
            let settings = Prune { prune, ..Prune::default() };
            let by_host = chosen(&HostSelect::new(&settings), &settings, &expected, &groups);
            let one_pass = chosen(&OnePassSelect::new(&settings), &settings, &expected, &groups);
            for (one_pass, by_host) in one_pass.iter().flatten().zip(by_host.iter().flatten()) {
                assert_eq!(one_pass.threshold.to_bits(), by_host.threshold.to_bits(), "{prune} at {sparsity}");
                let masks = [one_pass, by_host].map(|choice| host(choice.mask.clone()));
                assert_eq!(masks[0], masks[1], "{prune} at {sparsity}");
                assert_eq!(one_pass.pruned, Some(masks[0].iter().filter(|stays| **stays == 0.0).count()));
            }
            for (part, choice) in PARTS.into_iter().zip(one_pass) {
                let Choice { threshold, mask, .. } = choice.unwrap();
                let case = format!("{prune}.{sparsity}");
                let name = format!("{case}.threshold");
                let name = if prune == PruneMethod::Bitter4 { format!("{name}.{part}") } else { name };
                let wanted = expected.floats(&name)[0];
                assert!((threshold - wanted).abs() <= 1e-6 * wanted.abs(), "{name}: {threshold} is not {wanted}");
                compare_masks(
                    &settings,
                    &expected,
                    part,
                    threshold,
                    &host(mask),
                    &expected.bytes(&format!("{case}.mask.{part}")),
                );
            }
        }
    }
}

/// The masks are equal but where a score is within one unit in the last place of the threshold.
fn compare_masks(settings: &Prune, expected: &Tensors, part: &str, threshold: f32, found: &[f32], wanted: &[u8]) {
    let different: Vec<usize> = (0..wanted.len()).filter(|at| found[*at] != f32::from(wanted[*at])).collect();
    if different.is_empty() {
        return;
    }
    let [w, m, v] = ["w", "m", "v"]
        .map(|what| Tensor::<Inner, 1>::from_floats(&expected.floats(&format!("{what}.{part}"))[..], &FlexDevice));
    let moments = Moments { first: m, second: v, bias_correction_1: 1.0 - 0.9_f64.powi(STEP) };
    let scores = host(prune::scores(settings, w, Some(moments), None));
    for at in different {
        let near = threshold.next_down()..=threshold.next_up();
        assert!(near.contains(&scores[at]), "{} at {threshold}: {part}[{at}] = {}", settings.prune, scores[at]);
    }
}

#[test]
fn scores_in_16_bits_are_near_those_in_32() {
    let expected = Tensors::read(&golden("bitter.safetensors"));
    let groups = [Group { layers: 0..3, sparsity: 0.5 }];
    for prune in [PruneMethod::Magnitude, PruneMethod::Bitter3, PruneMethod::Bitter7, PruneMethod::Bitter8] {
        let settings = Prune { prune, score_epsilon: 1e-5, ..Prune::default() };
        let choices = |score_precision| {
            let settings = Prune { score_precision, ..settings.clone() };
            chosen(&HostSelect::new(&settings), &settings, &expected, &groups)
        };
        let (half, single) = (choices(ScorePrecision::F16), choices(ScorePrecision::F32));
        for (half, single) in half.into_iter().flatten().zip(single.into_iter().flatten()) {
            assert_eq!(f16::from_f32(half.threshold).to_f32(), half.threshold, "{prune}: a number of 16 bits");
            let error = relative_error(&[half.threshold], &[single.threshold]);
            assert!(error < 2e-3, "{prune}: threshold differs by {error:.2e}");
            let (half, single) = (host(half.mask), host(single.mask));
            let differing = half.iter().zip(&single).filter(|(half, single)| half != single).count();
            assert!(differing * 100 <= single.len(), "{prune}: {differing} of {}", single.len());
        }
    }
}
