//! Mixtures of experts, value embeddings and the maximal update parametrization, compared with PyTorch (`scripts/network-vectors.py`), and combined with everything that a training has.

use std::path::Path;

use crate::{
    common::{Train, host, merged, relative_error, run, task},
    parts::{follow, formula, networks, numbers, tokens},
};
use burn::{
    backend::{Flex, flex::FlexDevice},
    module::AutodiffModule,
    tensor::Tensor,
};
use serde_json::{Value, json};
use sweep_job::{
    Outcome, Task, Value as Given,
    tasks::{Checkpointing, Computing, Precision},
};
use sweep_lab::{
    model::{self, Auxiliary, Gpt, Network, Role, hub},
    optim::gradient::{Derived, Dropout, Forward},
};

/// The pass of a training with the auxiliary losses of `with`.
fn forward(network: &Gpt<Train>, with: &Value, computing: &Computing) -> Forward<Flex> {
    let Task::Train(train) = task("train", with.clone()) else { panic!("a training") };
    let dropout = Dropout { p: 0.0, seed: 0, at: [0, 0] };
    let derived = Derived { auxiliary: Auxiliary::new(&train.optimizer), ..Derived::default() };
    Forward::of(network, [tokens(0), tokens(3)], computing, dropout, derived)
}

#[test]
fn losses_and_gradients_are_those_of_pytorch() {
    let cases = networks();
    assert_eq!(cases.len(), 12);
    for (name, case) in cases {
        follow(&name, case, |network, with| forward(network, with, &Computing::default()));
    }
}

/// The gradients of all parameters, one after the other.
fn gradients(network: &Gpt<Train>, with: &Value, computing: &Computing) -> Vec<f32> {
    forward(network, with, computing).backward(0.5).into_iter().flatten().flat_map(host).collect()
}

#[test]
fn experts_with_checkpointing_and_in_a_shorter_format() {
    for with in networks().into_values().map(|case| case.with) {
        let network = formula(&with);
        // So large that a segment without it would show.
        let with = if with["experts"].is_null() { with } else { merged(with, &json!({"balance_loss": 3.0})) };
        let plain = Computing::default();
        let loss = host(forward(&network, &with, &plain).loss());
        let expected = gradients(&network, &with, &plain);
        for (checkpointing, precision, limit) in [
            (Checkpointing::Segment1, Precision::F32, 1e-5),
            (Checkpointing::Segment2, Precision::F32, 1e-5),
            (Checkpointing::Balanced, Precision::F32, 1e-5),
            (Checkpointing::Off, Precision::Mixed, 0.1),
            (Checkpointing::Segment1, Precision::Mixed, 0.1),
        ] {
            let computing = Computing { checkpointing, precision, ..Computing::default() };
            let error = relative_error(&host(forward(&network, &with, &computing).loss()), &loss);
            assert!(error < 0.05, "{with} {checkpointing} {precision}: the loss differs by {error:.1e}");
            let error = relative_error(&gradients(&network, &with, &computing), &expected);
            assert!(error < limit, "{with} {checkpointing} {precision}: the gradients differ by {error:.1e}");
        }
    }
}

/// A dense network and one with a single expert that has the same weights.
fn dense_and_expert(more: &Value) -> [Gpt<Train>; 2] {
    [json!({}), json!({"experts": 1})].map(|experts| {
        let size = json!({"n_layer": 2, "n_head": 4, "d_model": 32, "block_size": 12});
        let Task::Train(train) = task("train", merged(merged(size, more), &experts)) else { panic!("a training") };
        let dims = model::GptDims::new(&train.model, &train.architecture, 40).unwrap();
        #[expect(clippy::cast_possible_truncation, reason = "weights are in single precision")]
        let weights = |info: &model::ParamInfo| {
            let name = info.name.replace(".experts.0", "");
            numbers(&name, info.len()).into_iter().map(|number| 0.3 * number as f32).collect()
        };
        Gpt::with_values(dims, &FlexDevice, |info| Ok(weights(info))).unwrap()
    })
}

#[test]
fn one_expert_is_the_dense_network_to_the_bit() {
    for more in [
        json!({}),
        json!({"glu": true, "activation": "silu", "norm": "rmsnorm", "position": "rope", "bias": false}),
        json!({"ra": true}),
        json!({"attention": "mla"}),
    ] {
        let [dense, expert] = dense_and_expert(&more);
        for checkpointing in [Checkpointing::Off, Checkpointing::Segment1] {
            let computing = Computing { checkpointing, ..Computing::default() };
            let [of_dense, of_expert] = [(&dense, json!({})), (&expert, json!({"experts": 1, "balance_loss": 0.5}))]
                .map(|(network, with)| forward(network, &with, &computing));
            assert_eq!(host(of_dense.loss()), host(of_expert.loss()), "{more}");
            let infos = model::infos(&expert);
            let of_expert = of_expert.backward(1.0).into_iter().zip(&infos);
            let (of_router, of_expert): (Vec<_>, Vec<_>) = of_expert.partition(|(_, info)| info.role() == Role::Router);
            for (gradient, _) in of_router {
                assert!(gradient.is_none_or(|gradient| host(gradient).iter().all(|number| *number == 0.0)), "{more}");
            }
            for (of_dense, (of_expert, info)) in of_dense.backward(1.0).into_iter().zip(of_expert) {
                assert_eq!(of_dense.map(host), of_expert.map(host), "{more} {}", info.name);
            }
        }
    }
}

#[test]
fn only_chosen_experts_count() {
    let with = networks().remove("gpt2+experts").unwrap().with;
    let network = formula(&with);
    let logits = |network: &Gpt<Train>| {
        let logits = network.valid().logits(tokens(0), 0.0);
        let numbers = logits.shape().num_elements();
        host(logits.reshape([numbers]))
    };
    let expected = logits(&network);
    // A router that ranks the last expert below all others for every token: no value of that expert changes a logit.
    let infos = model::infos(&network);
    let without_last = |network: Gpt<Train>, value: f32| {
        model::map_values::<Train, _>(network, &mut |index, values| match infos[index].name.as_str() {
            name if name.contains(".mlp.experts.3.") => values.full_like(value),
            _ => values,
        })
    };
    let forced = |network: Gpt<Train>| {
        let zero_gains = |name: &str| name.contains("ln_2.weight");
        model::map_values::<Train, _>(network, &mut |index, values| {
            let info = &infos[index];
            if zero_gains(&info.name) {
                // Every token has the bias of the normalization as input.
                return values.zeros_like();
            }
            if info.name.contains("ln_2.bias") {
                return values.ones_like();
            }
            if info.role() != Role::Router {
                return values;
            }
            let row = [0.3_f32, 0.2, 0.1, -0.4];
            let rows: Vec<f32> = (0..values.dims()[0]).map(|place| row[place % 4]).collect();
            Tensor::from_floats(&rows[..], &FlexDevice)
        })
    };
    let [small, large] = [0.0, 1e6].map(|value| logits(&without_last(forced(network.clone()), value)));
    assert_eq!(small, large);
    assert!(small.iter().all(|number| number.is_finite()));
    let changed = logits(&without_last(network, 1.0));
    assert!(relative_error(&changed, &expected) > 1e-3, "elsewhere some token chooses the last expert");
}

fn trained(more: &Value, folder: &Path) -> Outcome {
    let base = json!({
        "n_layer": 2, "n_head": 2, "d_model": 32, "block_size": 16, "batch_size": 4, "eval_batches": 2, "iters": 40,
        "dropout": 0, "warmup_iters": 4, "lr": 0.01, "experts": 4, "mlp_hidden": 48,
    });
    run("train", merged(base, more), folder).unwrap()
}

#[test]
fn trainings_with_experts() {
    let folder = tempfile::tempdir().unwrap();
    let untrained = trained(&json!({"iters": 1}), folder.path()).metrics["loss"].value;
    for more in [
        json!({"save": true}),
        json!({"grad_accumulation": 2, "precision": "mixed", "checkpointing": "segment:1", "dropout": 0.1}),
        json!({"experts_per_token": 1, "optimizer": "muon", "attention": "mla"}),
        json!({"optimizer": "soap", "beta_1": 0.95, "glu": true, "ra": true}),
        json!({"optimizer": "adafactor", "lr": 0.05, "norm": "rmsnorm", "position": "rope", "bias": false}),
        json!({"ablation": "V2", "optimizer": "adamwspam"}),
    ] {
        let outcome = trained(&more, folder.path());
        let loss = outcome.metrics["loss"].value;
        assert!(loss < untrained - 0.5, "{more}: {loss} instead of {untrained}");
    }
    let outcome = trained(&json!({}), folder.path());
    let value = |name: &str| outcome.metrics[name].value;
    // An expert has two matrices and two biases.
    let expert = 2.0 * 32.0 * 48.0 + 48.0 + 32.0;
    assert!((value("parameters") - value("parameters.active") - 2.0 * 2.0 * expert).abs() < 0.5);

    let checkpoint = folder.path().join("checkpoint");
    let init = json!({"init": checkpoint, "eval_batches": 2});
    let evaluated = run("eval", merged(init.clone(), &json!({"batch_size": 4})), folder.path()).unwrap();
    let saved = trained(&json!({"save": true}), folder.path()).metrics["loss"].value;
    assert!((evaluated.metrics["loss"].value - saved).abs() < 1e-5);
    for compression in [
        json!({"quantize": "int8", "rounding": "gptq", "calibration_batches": 4}),
        json!({"post_prune": "sparsegpt", "post_sparsity": 0.5, "calibration_batches": 4}),
        json!({"post_prune": "wanda", "post_sparsity": 0.5, "calibration_batches": 4}),
        json!({"quantize": "int4"}),
    ] {
        let loss = run("eval", merged(init.clone(), &compression), folder.path()).unwrap().metrics["loss"].value;
        assert!(loss < untrained, "{compression}: {loss}");
    }
}

#[test]
fn routers_are_not_pruned() {
    let folder = tempfile::tempdir().unwrap();
    for prune in ["magnitude", "bitter7", "wanda", "snip", "rigl"] {
        trained(&json!({"prune": prune, "sparsity": 0.9, "save": true, "iters": 30}), folder.path());
        let network: Gpt<Train> = hub::load(&folder.path().join("checkpoint"), &FlexDevice).unwrap();
        let (mut routers, mut experts) = (0, 0);
        for (info, values) in model::infos(&network).iter().zip(model::values(&network)) {
            let zeros = host(values).into_iter().filter(|number| *number == 0.0).count();
            if info.role() == Role::Router {
                routers += 1;
                assert_eq!(zeros, 0, "{prune}: {}", info.name);
            } else if info.is_of_expert() && info.role() == Role::Linear {
                experts += zeros;
            }
        }
        assert_eq!(routers, 2);
        assert!(experts > 2 * 4 * 2 * 32 * 48 / 2, "{prune}: {experts}");
    }
}

#[test]
fn experts_that_cannot_be_are_mistakes() {
    let info = Task::info("train").unwrap();
    for bad in [f64::NAN, f64::INFINITY, -1.0, 1e9] {
        assert!(info.param("balance_loss").unwrap().check(&Given::Float(bad)).is_err(), "{bad}");
    }
    for bad in [0, -1, 100_000] {
        assert!(info.param("experts").unwrap().check(&Given::Int(bad)).is_err(), "{bad}");
        assert!(info.param("experts_per_token").unwrap().check(&Given::Int(bad)).is_err(), "{bad}");
    }
}

#[test]
fn the_checks_hold_and_backends_agree() {
    let size = json!({"n_layer": 2, "n_head": 2, "d_model": 32, "block_size": 32, "experts": 4});
    for more in [json!({}), json!({"experts": 16, "experts_per_token": 1}), json!({"experts": 1}), json!({"glu": true})]
    {
        run("check", merged(size.clone(), &more), Path::new(".")).unwrap();
    }
    run("parity", merged(size, &json!({"balance_loss": 0.5})), Path::new(".")).unwrap();
}

#[test]
fn value_embeddings_are_in_the_first_and_last_blocks() {
    let dims = |more: &Value| {
        let size = json!({"n_layer": 5, "n_head": 4, "d_model": 32, "block_size": 12});
        let Task::Train(train) = task("train", merged(size, more)) else { panic!("a training") };
        model::GptDims::new(&train.model, &train.architecture, 40).unwrap()
    };
    let mixed = |blocks: usize| -> Vec<String> {
        let names = dims(&json!({"value_embeddings": blocks})).parameters().into_iter().map(|info| info.name);
        names.filter_map(|name| Some(name.strip_suffix(".attn.value_mix")?.to_owned())).collect()
    };
    assert_eq!(mixed(0), Vec::<String>::new());
    assert_eq!(mixed(2), ["h.0", "h.1", "h.3", "h.4"]);
    assert_eq!(mixed(3).len(), 5);
    assert_eq!(mixed(1000).len(), 5);
    let shared = dims(&json!({"value_embeddings": 1, "kv_heads": 2}));
    let network = Gpt::<Train>::random(shared, 3, &FlexDevice).unwrap();
    assert_eq!(model::infos(&network), shared.parameters());
    for (info, values) in model::infos(&network).into_iter().zip(model::values(&network)) {
        if info.role() == Role::ValueTable {
            assert_eq!((info.shape, info.name.as_str()), (vec![40, 16], "vte.weight"));
        } else if info.name.ends_with("value_mix") {
            assert_eq!(host(values), [0.5, 0.5]);
        }
    }
}

#[test]
fn trainings_with_value_embeddings() {
    let folder = tempfile::tempdir().unwrap();
    let base = json!({"experts": null, "n_layer": 3, "value_embeddings": 1});
    for more in [
        json!({"save": true}),
        json!({"grad_accumulation": 2, "precision": "mixed", "checkpointing": "segment:2", "dropout": 0.1}),
        json!({"precision": "bf16", "checkpointing": "segment:1", "optimizer": "muon"}),
        json!({"ablation": "7", "mlp_hidden": null}),
        json!({"position": "rope", "kv_heads": 1, "prune": "wanda", "calibration_batches": 2, "glu": true}),
        json!({"parametrization": "mup", "mup_base_width": 16, "experts": 2}),
    ] {
        let loss = trained(&merged(base.clone(), &more), folder.path()).metrics["loss"].value;
        assert!(loss < 4.9, "{more}: {loss}");
    }
    let init =
        json!({"init": folder.path().join("checkpoint"), "eval_batches": 2, "quantize": "int8", "rounding": "gptq"});
    run("eval", merged(init, &json!({"calibration_batches": 2})), folder.path()).unwrap();
    let size = json!({"n_layer": 3, "n_head": 2, "d_model": 32, "block_size": 32, "value_embeddings": 1});
    for more in [json!({}), json!({"ra": true, "mlp_gate": true})] {
        run("check", merged(size.clone(), &more), Path::new(".")).unwrap();
        run("parity", merged(size.clone(), &more), Path::new(".")).unwrap();
    }
}

#[test]
fn other_tasks_take_the_networks_too() {
    let folder = tempfile::tempdir().unwrap();
    for more in [
        json!({"experts": 3, "glu": true}),
        json!({"value_embeddings": 1, "kv_heads": 1}),
        json!({"parametrization": "mup", "mup_base_width": 16, "experts": 2, "value_embeddings": 1}),
    ] {
        let size = json!({"n_layer": 2, "n_head": 2, "d_model": 32, "block_size": 16});
        let network = merged(size, &more);
        run("profile", merged(network.clone(), &json!({"steps": 1, "batch_size": 2})), folder.path()).unwrap();
        let probing =
            json!({"batch_size": 2, "num_batches": 2, "eval_batches": 2, "eval_batch_size": 2, "strategy": "wanda"});
        run("gradprobe", merged(network.clone(), &probing), folder.path()).unwrap();
        trained(
            &merged(merged(json!({"experts": null, "mlp_hidden": null, "save": true, "iters": 5}), &network), &more),
            folder.path(),
        );
        let checkpoint = json!({"init": folder.path().join("checkpoint")});
        run("generate", merged(checkpoint.clone(), &json!({"max_new_tokens": 20})), folder.path()).unwrap();
        run("eval", merged(checkpoint, &json!({"coverage": "whole", "stride": 16})), folder.path()).unwrap();
    }
}
