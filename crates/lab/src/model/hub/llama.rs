//! The Hub's layout for Llama: names, shapes and `config.json` of `LlamaForCausalLM`.
//!
//! Linear weights are `[out, in]` there, and queries, keys and values have a matrix each.

use serde::{Deserialize, Serialize};
use sweep_job::tasks::{BlockSpec, NormKind, Parts, Position, RopeScaling};

use super::{activation, check, check_scaling};
use crate::model::{GptDims, ParamInfo, Role};

/// The word of `config.json` for the architecture.
pub(super) const MODEL_TYPE: &str = "llama";
/// Begins the names of all tensors but the output layer.
pub(super) const PREFIX: &str = "model.";
/// The token table, without the prefix.
pub(super) const TABLE: &str = "embed_tokens.weight";

/// The part of `config.json` that decides the computation.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Config {
    model_type: String,
    #[serde(default, skip_deserializing)]
    architectures: Vec<&'static str>,
    hidden_act: String,
    hidden_size: usize,
    intermediate_size: usize,
    num_hidden_layers: usize,
    num_attention_heads: usize,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    num_key_value_heads: Option<usize>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    head_dim: Option<usize>,
    max_position_embeddings: usize,
    vocab_size: usize,
    rms_norm_eps: f64,
    #[serde(default = "default_theta")]
    rope_theta: f64,
    #[serde(default)]
    rope_scaling: Option<Scaling>,
    /// Base and scaling of RoPE in files of transformers 5.
    #[serde(default, skip_serializing)]
    rope_parameters: Option<Scaling>,
    #[serde(default)]
    tie_word_embeddings: bool,
    #[serde(default)]
    attention_bias: bool,
    #[serde(default)]
    mlp_bias: bool,
}

/// A scaling of RoPE's frequencies.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Scaling {
    #[serde(alias = "type")]
    rope_type: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    rope_theta: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    factor: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    low_freq_factor: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    high_freq_factor: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    original_max_position_embeddings: Option<f64>,
}

fn default_theta() -> f64 {
    10_000.0
}

/// True for a Llama, with or without biases and a tied output layer, which other programs can read.
pub(super) fn is_llama(dims: &GptDims) -> bool {
    let Parts { norm_epsilon, kv_heads, bias, tie, position, .. } = dims.block.parts;
    let has_rope = matches!(position, Position::Rope { .. });
    let parts = Parts { norm_epsilon, kv_heads, bias, tie, position, ..Parts::LLAMA };
    has_rope && dims.block.is_plain() && dims.block.parts == parts
}

impl Config {
    /// The configuration of a network for which [`is_llama`] holds.
    pub(super) fn new(dims: &GptDims) -> Self {
        let parts = dims.block.parts;
        let (rope_theta, scaling) = match parts.position {
            Position::Rope { theta, scaling } => (theta, scaling),
            Position::Learned | Position::None => (default_theta(), None),
        };
        Self {
            model_type: MODEL_TYPE.into(),
            architectures: vec!["LlamaForCausalLM"],
            hidden_act: dims.activation.word().into(),
            hidden_size: dims.d_model,
            intermediate_size: dims.mlp_hidden(),
            num_hidden_layers: dims.n_layer,
            num_attention_heads: dims.n_head,
            num_key_value_heads: Some(parts.kv_heads(dims.n_head)),
            head_dim: None,
            max_position_embeddings: dims.block_size,
            vocab_size: dims.vocab_size,
            rms_norm_eps: parts.norm_epsilon,
            rope_theta,
            rope_scaling: scaling.map(Scaling::new),
            rope_parameters: None,
            tie_word_embeddings: parts.tie,
            attention_bias: parts.bias,
            mlp_bias: parts.bias,
        }
    }

    /// The dimensions, or the property that this program cannot compute.
    pub(super) fn dims(&self) -> Result<GptDims, String> {
        self.check_sizes()?;
        if self.attention_bias != self.mlp_bias {
            return Err("attention_bias and mlp_bias must be equal".into());
        }
        if let Some(width) = self.head_dim.filter(|width| width * self.num_attention_heads != self.hidden_size) {
            return Err(format!("head_dim {width} is not supported; it must be hidden_size / num_attention_heads"));
        }
        let rope = self.rope_parameters.as_ref().or(self.rope_scaling.as_ref());
        let theta = rope.and_then(|rope| rope.rope_theta).unwrap_or(self.rope_theta);
        check("rope_theta", theta, "rope_theta")?;
        let scaling = rope.map(Scaling::checked).transpose()?.flatten();
        scaling.map_or(Ok(()), check_scaling)?;
        let n_head = self.num_attention_heads;
        let parts = Parts {
            norm: NormKind::RmsNorm,
            norm_epsilon: self.rms_norm_eps,
            position: Position::Rope { theta, scaling },
            kv_heads: self.num_key_value_heads.filter(|heads| *heads != n_head),
            bias: self.attention_bias,
            tie: self.tie_word_embeddings,
            ..Parts::LLAMA
        };
        let dims = GptDims {
            n_layer: self.num_hidden_layers,
            n_head,
            d_model: self.hidden_size,
            block_size: self.max_position_embeddings,
            vocab_size: self.vocab_size,
            activation: activation("hidden_act", &self.hidden_act)?,
            block: BlockSpec { mlp_hidden: Some(self.intermediate_size), parts, ..BlockSpec::GPT2 },
        };
        dims.checked().map_err(|error| error.to_string())
    }

    fn check_sizes(&self) -> Result<(), String> {
        check("num_hidden_layers", self.num_hidden_layers, "n_layer")?;
        check("num_attention_heads", self.num_attention_heads, "n_head")?;
        check("hidden_size", self.hidden_size, "d_model")?;
        check("vocab_size", self.vocab_size, "vocab_size")?;
        check("intermediate_size", self.intermediate_size, "mlp_hidden")?;
        check("num_key_value_heads", self.num_key_value_heads.unwrap_or(1), "kv_heads")?;
        check("rms_norm_eps", self.rms_norm_eps, "norm_epsilon")?;
        check("max_position_embeddings", self.max_position_embeddings, "block_size").map_err(|message| {
            format!("{message}; write a smaller number there, which limits the context and changes nothing else")
        })
    }
}

impl Scaling {
    fn new(scaling: RopeScaling) -> Self {
        let empty = Self {
            rope_type: "linear".into(),
            rope_theta: None,
            factor: None,
            low_freq_factor: None,
            high_freq_factor: None,
            original_max_position_embeddings: None,
        };
        match scaling {
            RopeScaling::Linear { factor } => Self { factor: Some(factor), ..empty },
            RopeScaling::Llama3 { factor, low, high, original } => Self {
                rope_type: "llama3".into(),
                factor: Some(factor),
                low_freq_factor: Some(low),
                high_freq_factor: Some(high),
                original_max_position_embeddings: Some(original),
                ..empty
            },
        }
    }

    fn checked(&self) -> Result<Option<RopeScaling>, String> {
        let required = |name: &str, value: Option<f64>| value.ok_or_else(|| format!("rope_scaling has no `{name}`"));
        let factor = || required("factor", self.factor);
        Ok(match self.rope_type.as_str() {
            "default" => None,
            "linear" => Some(RopeScaling::Linear { factor: factor()? }),
            "llama3" => Some(RopeScaling::Llama3 {
                factor: factor()?,
                low: required("low_freq_factor", self.low_freq_factor)?,
                high: required("high_freq_factor", self.high_freq_factor)?,
                original: required("original_max_position_embeddings", self.original_max_position_embeddings)?,
            }),
            other => {
                return Err(format!("rope_type `{other}` is not supported, only `default`, `linear` and `llama3`"));
            }
        })
    }
}

/// The tensors that make up a parameter.
pub(super) struct Sources {
    /// Names without the prefix, and shapes.
    pub(super) tensors: Vec<ParamInfo>,
    /// True if the tensors are `[out, in]`, one part of the outputs after the other.
    pub(super) transposed: bool,
}

/// The tensors that make up the parameter `info` of a network of `dims`.
pub(super) fn sources(dims: &GptDims, info: &ParamInfo) -> Sources {
    let single = |name: &str| vec![name.to_owned()];
    let (names, widths) = match info.name.strip_prefix("h.").and_then(|rest| rest.split_once('.')) {
        None => {
            let name = match info.name.as_str() {
                "wte.weight" => TABLE,
                "ln_f.weight" => "norm.weight",
                other => other,
            };
            (single(name), Vec::new())
        }
        Some((block, rest)) => {
            let (layer, kind) = rest.rsplit_once('.').unwrap_or((rest, ""));
            let name = |place: &str| format!("layers.{block}.{place}.{kind}");
            let place = match layer {
                "ln_1" => "input_layernorm",
                "ln_2" => "post_attention_layernorm",
                "attn.c_proj" => "self_attn.o_proj",
                "mlp.c_gate" => "mlp.gate_proj",
                "mlp.c_fc" => "mlp.up_proj",
                "mlp.c_proj" => "mlp.down_proj",
                _ => "",
            };
            if layer == "attn.c_attn" {
                let shared = dims.d_model / dims.n_head * dims.block.parts.kv_heads(dims.n_head);
                let names = ["q_proj", "k_proj", "v_proj"].map(|part| name(&format!("self_attn.{part}")));
                (names.to_vec(), vec![dims.d_model, shared, shared])
            } else {
                (single(&name(place)), Vec::new())
            }
        }
    };
    let transposed = info.role() == Role::Linear;
    let outputs = info.shape.last().copied().unwrap_or(0);
    let widths = if widths.is_empty() { vec![outputs] } else { widths };
    let shape = |width: usize| match info.shape[..] {
        [inputs, _] if transposed => vec![width, inputs],
        [_] => vec![width],
        _ => info.shape.clone(),
    };
    let tensors = names.into_iter().zip(widths).map(|(name, width)| ParamInfo { name, shape: shape(width) }).collect();
    Sources { tensors, transposed }
}
