use super::*;
use crate::{Task, Value, Values};

const GPT2: SizeDims = SizeDims { n_layer: 12, n_head: 12, d_model: 768, block_size: 1024 };
const NANO: SizeDims = SizeDims { n_layer: 3, n_head: 4, d_model: 96, block_size: 64 };

fn step(ablation: Ablation) -> Architecture {
    Architecture { ablation, ..Architecture::default() }
}

#[test]
fn the_default_is_gpt2s_block() {
    assert_eq!(Architecture::default().block(GPT2), BlockSpec::GPT2);
    assert_eq!(step(Ablation::Step1).block(NANO), BlockSpec::GPT2);
}

#[test]
fn widths_are_whole_numbers_in_proportion() {
    let full = step(Ablation::Step10).block(GPT2);
    assert_eq!(full.mlp_hidden, Some(2048));
    assert_eq!(full.attention, AttentionKind::Latent { dim: 128 });
    assert_eq!(full.gate.unwrap().dim, 192);
    let nano = step(Ablation::Step10).block(NANO);
    assert_eq!(nano.mlp_hidden, Some(256));
    assert_eq!(nano.attention, AttentionKind::Latent { dim: 16 });
    assert_eq!(nano.gate.unwrap().dim, 24);
    assert_eq!(nano.cross.unwrap().projection, CrossProjection::Bottleneck { dim: 12 });
    assert_eq!(step(Ablation::Step5).block(NANO).reciprocal.unwrap(), ReciprocalSpec { alpha: 0.3, window: 4 });
    assert_eq!(step(Ablation::Step5).block(GPT2).reciprocal.unwrap().window, 64);
}

#[test]
fn single_parameters_override_the_step() {
    let changed = Architecture {
        ra: Some(false),
        attention: Some(AttentionWord::Standard),
        cross_proj: Some(CrossProj::Full),
        gate_dim: Some(7),
        ra_ct: Some(RaCtStatistic::Entropy),
        latent_recip: Some(true),
        ..step(Ablation::Step16)
    };
    let block = changed.block(GPT2);
    assert_eq!((block.attention, block.reciprocal), (AttentionKind::Standard, None));
    assert_eq!(block.cross.unwrap().projection, CrossProjection::Full);
    assert_eq!(block.gate.unwrap().dim, 7);
    assert_eq!(block.ra_ct.unwrap().statistic, RaCtStatistic::Entropy);
    assert_eq!(block.recip, Some(RecipSpec::default()));
}

#[test]
fn what_has_no_effect_is_a_conflict() {
    let names = |architecture: Architecture, init| -> Vec<&str> {
        architecture.conflicts(GPT2, init).iter().map(|conflict| conflict.params[0]).collect()
    };
    let loose = Architecture { ra_alpha: Some(0.1), cross_dim: Some(4), ..step(Ablation::Step3) };
    assert_eq!(names(loose.clone(), false), ["ra_alpha", "cross_dim"]);
    assert_eq!(names(loose, true), ["ablation", "ra_alpha", "cross_dim"]);
    let mixed = Architecture { ra_ct_alpha: Some(0.1), ..step(Ablation::Step13) };
    assert_eq!(names(mixed.clone(), false), ["ra_ct_alpha"]);
    assert_eq!(names(Architecture { ct_output_mix: Some(true), ..mixed }, false), Vec::<&str>::new());
    let standard = Architecture { latent_recip: Some(true), ..Architecture::default() };
    assert_eq!(names(standard, false), ["latent_recip"]);
    for ablation in Ablation::ALL {
        assert_eq!(step(*ablation).conflicts(NANO, false), Vec::new(), "step {ablation}");
    }
}

#[test]
fn a_gate_that_sees_the_future_is_not_trained() {
    let conflicts = |task: &str| {
        let given = Values::from([
            ("ablation".to_owned(), Value::Text("3".into())),
            ("gate_pool".to_owned(), Value::Text("sequence_mean".into())),
        ]);
        let info = Task::info(task).unwrap();
        info.conflicts(&info.complete(given)).len()
    };
    assert_eq!((conflicts("train"), conflicts("check")), (1, 0));
}

#[test]
fn a_step_may_be_written_as_a_number() {
    let param = Task::info("check").unwrap().param("ablation").unwrap();
    assert_eq!(param.check(&Value::Int(18)), Ok(Value::Text("18".into())));
    assert_eq!(param.check(&Value::Text("18".into())), Ok(Value::Text("18".into())));
    let error = param.check(&Value::Int(99)).unwrap_err().to_string();
    assert!(error.starts_with("`99` is not one of `0`, `1`, "), "{error}");
    let other = Task::info("check").unwrap().param("attention").unwrap();
    assert!(other.check(&Value::Int(0)).is_err());
}

#[test]
fn the_coupling_rises_from_0_to_1() {
    let after = |coupling_warmup, passed| Coupling { coupling_warmup, ..Coupling::default() }.after(passed);
    assert_eq!([after(0, 0), after(4, 0), after(4, 1), after(4, 4), after(4, 9)], [1.0, 0.0, 0.25, 1.0, 1.0]);
}

#[test]
fn the_unified_series_in_proportion() {
    let folded = |ablation, size| match step(ablation).block(size).attention {
        AttentionKind::Folded { rank, per_head, restart } => (rank, per_head, restart),
        other => panic!("{other:?}"),
    };
    assert_eq!(folded(Ablation::V1, GPT2), (4, false, false));
    assert_eq!(folded(Ablation::V8, GPT2), (8, false, true));
    assert_eq!(folded(Ablation::V16, NANO), (2, true, false));
    let v14 = step(Ablation::V14).block(GPT2);
    assert_eq!(v14.kv_prune, Some(KvPruneSpec { keep: Keep::Count(391), recency: 64 }));
    assert_eq!(v14.r_mlp, Some(RMlpSpec { low: 64, mixer: false, gate: false }));
    assert_eq!(step(Ablation::V10).block(GPT2).mlp_hidden, Some(4608));
    assert_eq!(step(Ablation::V13).block(NANO).r_mlp.unwrap().low, 144);
    assert_eq!(Ablation::V13.coupling_start(), CouplingStart::Delay);
    assert_eq!(Ablation::V16.coupling_start(), CouplingStart::Steady);
}

/// The messages of the conflicts of `train` with these parameters.
fn messages(given: &[(&str, Value)]) -> Vec<String> {
    let info = Task::info("train").unwrap();
    let given: Values = given.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
    let conflicts = info.conflicts(&info.complete(given));
    conflicts.into_iter().map(|conflict| format!("{}; {}", conflict.message, conflict.advice)).collect()
}

fn word(word: &str) -> Value {
    Value::Text(word.into())
}

#[test]
fn llama_by_parts() {
    let llama = Architecture {
        norm: NormKind::RmsNorm,
        position: PositionKind::Rope,
        kv_heads: Some(4),
        bias: false,
        glu: true,
        tie: false,
        ..Architecture::default()
    };
    let block = llama.block(GPT2);
    assert_eq!(block.parts, Parts { kv_heads: Some(4), ..Parts::LLAMA });
    assert_eq!(block.mlp_hidden, Some(2048), "two thirds of 3072");
    assert_eq!(Architecture { mlp_hidden: Some(500), ..llama.clone() }.block(GPT2).mlp_hidden, Some(500));
    assert_eq!(Architecture { kv_heads: Some(12), ..llama }.block(GPT2).parts, Parts::LLAMA, "as many as heads");
    assert_eq!((Parts::gated_width(1), Parts::gated_width(32), Parts::gated_width(96)), (8, 88, 256));
    let spec = serde_json::to_value(BlockSpec::GPT2).unwrap();
    assert!(spec.get("parts").is_none(), "GPT-2's description is that of before");
    let text = serde_json::to_string(&block).unwrap();
    assert_eq!(serde_json::from_str::<BlockSpec>(&text).unwrap(), block);
}

#[test]
fn parts_that_do_not_fit_are_conflicts() {
    for (given, expected) in [
        (vec![("kv_heads", Value::Int(3))], "`kv_heads: 3` does not divide `n_head: 4`"),
        (vec![("position", word("rope")), ("d_model", Value::Int(36))], "a head has a width of 9"),
        (
            vec![("position", word("rope")), ("attention", word("mla"))],
            "`position: rope` is not supported in multi-head latent attention; remove `position`, or write",
        ),
        (
            vec![("qk_norm", Value::Bool(true)), ("ablation", word("V1"))],
            "`qk_norm: true` is not supported in the reciprocal",
        ),
        (
            vec![("kv_heads", Value::Int(2)), ("ablation", word("8"))],
            "`kv_heads` is not supported in multi-head latent",
        ),
        (vec![("glu", Value::Bool(true)), ("ablation", word("V3"))], "`glu: true` is not supported in the MLP with"),
        (vec![("rope_theta", Value::Float(500.0))], "`rope_theta` has no effect here; write `position: rope`"),
        (vec![("rope_scaling", word("linear"))], "`rope_scaling` has no effect here; write `position: rope`"),
        (
            vec![("position", word("rope")), ("rope_scaling", word("linear")), ("rope_original", Value::Int(8))],
            "`rope_original` has no effect here; write `rope_scaling: llama3`",
        ),
        (
            vec![("position", word("rope")), ("init", word("folder"))],
            "`position` conflicts with `init`, whose folder determines it",
        ),
    ] {
        is_a_conflict(&given, expected);
    }
    let fits = vec![("precision", word("bf16")), ("norm", word("rmsnorm")), ("position", word("rope"))];
    assert_eq!(messages(&fits), Vec::<String>::new());
}

fn is_a_conflict(given: &[(&'static str, Value)], expected: &str) {
    let found = messages(given);
    assert!(found.len() == 1 && found[0].contains(expected), "{given:?}: {found:?}");
}

#[test]
fn settings_that_do_not_fit_the_optimizer_are_conflicts() {
    for (given, expected) in [
        (vec![("momentum", Value::Float(0.5))], "`momentum` has no effect here; write `optimizer: muon`"),
        (vec![("muon_scale", word("original")), ("optimizer", word("sgd"))], "`muon_scale` has no effect here"),
        (vec![("beta_2", Value::Float(0.5)), ("optimizer", word("sgd"))], "`beta_2` has no effect here"),
        (vec![("lr_decay", Value::Float(0.5))], "`lr_decay` has no effect here; write `lr_schedule: wsd`"),
        (
            vec![("min_lr_ratio", Value::Float(0.5)), ("lr_schedule", word("constant"))],
            "`min_lr_ratio` has no effect here",
        ),
        (
            vec![("prune", word("bitter3")), ("optimizer", word("lion"))],
            "the scores of `prune: bitter3` need Adam's moments, which `optimizer: lion` does not have",
        ),
        (
            vec![("optimizer", word("schedulefree"))],
            "`optimizer: schedulefree` replaces the schedule, but `lr_schedule` is `cosine`; write `lr_schedule: constant`",
        ),
        (
            vec![("optimizer", word("schedulefree")), ("lr_schedule", word("constant")), ("beta_1", Value::Float(0.0))],
            "`optimizer: schedulefree` divides by `beta_1`, which is 0",
        ),
        (vec![("optimizer", word("adafactor")), ("epsilon", Value::Float(0.1))], "`epsilon` has no effect here"),
        (
            vec![("adafactor_clip", Value::Float(2.0))],
            "`adafactor_clip` has no effect here; write `optimizer: adafactor`",
        ),
        (
            vec![("precondition_frequency", Value::Int(2))],
            "`precondition_frequency` has no effect here; write `optimizer: soap`",
        ),
        (
            vec![("precondition_limit", Value::Int(2)), ("optimizer", word("muon"))],
            "`precondition_limit` has no effect here; write `optimizer: soap`",
        ),
        (vec![("amsgrad", Value::Bool(true)), ("optimizer", word("soap"))], "`amsgrad` has no effect here"),
        (
            vec![("prune", word("bitter3")), ("optimizer", word("soap"))],
            "the scores of `prune: bitter3` need Adam's moments, which `optimizer: soap` does not have",
        ),
        (
            vec![("prune", word("bitter7")), ("optimizer", word("adafactor"))],
            "the scores of `prune: bitter7` need Adam's moments, which `optimizer: adafactor` does not have",
        ),
    ] {
        is_a_conflict(&given, expected);
    }
    for given in [
        vec![("prune", word("magnitude")), ("optimizer", word("muon"))],
        vec![("prune", word("movement")), ("optimizer", word("sgd"))],
        vec![("prune", word("bitter1")), ("optimizer", word("lion"))],
        vec![("prune", word("wanda")), ("optimizer", word("adafactor")), ("adafactor_decay", Value::Float(0.5))],
        vec![
            ("optimizer", word("schedulefree")),
            ("lr_schedule", word("constant")),
            ("beta_2", Value::Float(0.99)),
            ("prune", word("bitter2")),
        ],
        vec![
            ("optimizer", word("soap")),
            ("beta_1", Value::Float(0.95)),
            ("epsilon", Value::Float(1e-6)),
            ("precondition_frequency", Value::Int(1)),
            ("prune", word("wanda")),
            ("z_loss", Value::Float(1e-4)),
        ],
    ] {
        assert_eq!(messages(&given), Vec::<String>::new(), "{given:?}");
    }
}

#[test]
fn experts_that_cannot_be_are_conflicts() {
    for (given, expected) in [
        (
            vec![("experts", Value::Int(2)), ("experts_per_token", Value::Int(3))],
            "a token cannot choose 3 of 2 experts; choose an `experts_per_token` from 1 to 2",
        ),
        (vec![("experts_per_token", Value::Int(2))], "`experts_per_token` has no effect here; write `experts: 8`"),
        (vec![("balance_loss", Value::Float(0.0))], "`balance_loss` has no effect here; write `experts: 8`"),
        (
            vec![("experts", Value::Int(4)), ("mlp_gate", Value::Bool(true))],
            "`experts` does not combine with the head gate, which needs one MLP in a block",
        ),
        (
            vec![("experts", Value::Int(4)), ("ablation", word("V3"))],
            "`experts` does not combine with the reciprocal part of the MLP",
        ),
        (
            vec![("experts", Value::Int(4)), ("precision", word("bf16"))],
            "do not support `precision: bf16`; write `precision: mixed`",
        ),
    ] {
        is_a_conflict(&given, expected);
    }
    for given in [
        vec![("experts", Value::Int(1))],
        vec![
            ("experts", Value::Int(8)),
            ("experts_per_token", Value::Int(8)),
            ("balance_loss", Value::Float(0.0)),
            ("glu", Value::Bool(true)),
            ("precision", word("mixed")),
            ("ra", Value::Bool(true)),
        ],
    ] {
        assert_eq!(messages(&given), Vec::<String>::new(), "{given:?}");
    }
}

#[test]
fn parametrizations_that_cannot_be_are_conflicts() {
    let mup = ("parametrization", word("mup"));
    let base = ("mup_base_width", Value::Int(48));
    for (given, expected) in [
        (vec![mup.clone()], "write `mup_base_width`, such as the `d_model`"),
        (vec![base.clone()], "`mup_base_width` has no effect here; write `parametrization: mup`"),
        (
            vec![mup.clone(), base.clone(), ("attention", word("mla"))],
            "`parametrization: mup` is not defined for multi-head latent attention",
        ),
        (
            vec![mup.clone(), base.clone(), ("ra", Value::Bool(true))],
            "`parametrization: mup` is not defined for reciprocal attention",
        ),
        (
            vec![mup.clone(), base.clone(), ("optimizer", word("muon"))],
            "are not defined for `optimizer: muon`; write `optimizer: adamw`",
        ),
    ] {
        is_a_conflict(&given, expected);
    }
    for given in [
        vec![mup.clone(), base.clone()],
        vec![mup, base, ("optimizer", word("adamwspam")), ("experts", Value::Int(4)), ("glu", Value::Bool(true))],
    ] {
        assert_eq!(messages(&given), Vec::<String>::new(), "{given:?}");
    }
    let info = Task::info("coordinates").unwrap();
    let found = |given: Vec<(&str, Value)>| {
        let given = given.into_iter().map(|(name, value)| (name.to_owned(), value));
        let conflicts = info.conflicts(&info.complete(given.collect()));
        conflicts.iter().map(|conflict| conflict.params[0]).collect::<Vec<_>>()
    };
    assert_eq!(found(Vec::new()), Vec::<&str>::new());
    assert_eq!(found(vec![("init", Value::Text("folder".into()))]), ["init"]);
    assert_eq!(found(vec![("doublings", Value::Int(12))]), ["doublings"]);
    assert_eq!(found(vec![("length", Value::Int(100))]), ["length"]);
}

#[test]
fn value_embeddings_need_values_of_heads() {
    let given = |more: Vec<(&'static str, Value)>| [vec![("value_embeddings", Value::Int(2))], more].concat();
    for (more, expected) in [
        (vec![("attention", word("mla"))], "`value_embeddings` is not supported in multi-head latent attention"),
        (vec![("ablation", word("V1"))], "`value_embeddings` is not supported in the reciprocal attention"),
    ] {
        is_a_conflict(&given(more), expected);
    }
    for more in [Vec::new(), vec![("kv_heads", Value::Int(1)), ("position", word("rope")), ("ra", Value::Bool(true))]] {
        assert_eq!(messages(&given(more)), Vec::<String>::new());
    }
}
