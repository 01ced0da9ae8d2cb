//! Networks in the layout of the Hugging Face Hub: a folder with `config.json` and `model.safetensors`, or with several
//! files of tensors and their index.
//!
//! Numbers may be F32, F16 or BF16. `GPT2LMHeadModel.from_pretrained` reads the files of a GPT-2, whose linear weights are `[in, out]`
//! there as here, and `LlamaForCausalLM` reads the files of a Llama (`llama.rs`). Another network of this program is written like a GPT-2,
//! but as model type `sweep-gpt`, with a description of its blocks and without the prefix of names, so that no program mistakes it for a
//! GPT-2.

mod llama;
mod weights;

use std::{
    collections::{BTreeMap, HashMap},
    path::Path,
};

use burn::tensor::{
    Tensor,
    backend::{AutodiffBackend, Backend},
};
use safetensors::tensor::TensorView;
use serde::{Deserialize, Serialize};
use sweep_job::{
    Group as _,
    tasks::{
        Activation, Architecture, AttentionKind, BlockSpec, CrossProjection, Model, Parts, Position, RopeScaling,
        Selection,
    },
};

use self::weights::{WEIGHTS, Weights, numbers, write_error};

use crate::{
    HubError, LabError,
    files::{self, Stored},
    model::{self, Gpt, GptDims, ParamInfo},
};

const CONFIG: &str = "config.json";
const PREFIX: &str = "transformer.";
const GPT2: &str = "gpt2";
const OWN: &str = "sweep-gpt";
const HEAD: &str = "lm_head.weight";

/// The part of `config.json` that decides the computation.
#[derive(Debug, Serialize, Deserialize)]
#[expect(clippy::struct_excessive_bools, reason = "the file has these switches")]
struct Config {
    model_type: String,
    #[serde(default, skip_deserializing)]
    architectures: Vec<&'static str>,
    activation_function: String,
    n_embd: usize,
    n_head: usize,
    n_layer: usize,
    n_positions: usize,
    vocab_size: usize,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    n_inner: Option<usize>,
    #[serde(default = "epsilon")]
    layer_norm_epsilon: f64,
    #[serde(default = "yes")]
    scale_attn_weights: bool,
    #[serde(default)]
    scale_attn_by_inverse_layer_idx: bool,
    #[serde(default)]
    add_cross_attention: bool,
    #[serde(default = "yes")]
    tie_word_embeddings: bool,
    /// Only for networks that are not a GPT-2.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    sweep: Option<Own>,
}

/// Description of a network of this program that is not a GPT-2.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Own {
    /// Specification of a block.
    block: BlockSpec,
    /// Strength of its mechanisms.
    coupling: f64,
}

fn epsilon() -> f64 {
    model::LAYER_NORM_EPSILON
}

fn yes() -> bool {
    true
}

impl Config {
    fn new(dims: &GptDims, coupling: f64) -> Self {
        let is_gpt2 = dims.is_gpt2();
        Self {
            model_type: if is_gpt2 { GPT2 } else { OWN }.into(),
            architectures: if is_gpt2 { vec!["GPT2LMHeadModel"] } else { Vec::new() },
            activation_function: dims.activation.word().into(),
            n_embd: dims.d_model,
            n_head: dims.n_head,
            n_layer: dims.n_layer,
            n_positions: dims.block_size,
            vocab_size: dims.vocab_size,
            n_inner: dims.block.mlp_hidden,
            layer_norm_epsilon: dims.block.parts.norm_epsilon,
            scale_attn_weights: true,
            scale_attn_by_inverse_layer_idx: false,
            add_cross_attention: false,
            tie_word_embeddings: dims.block.parts.tie,
            sweep: (!is_gpt2).then_some(Own { block: dims.block, coupling }),
        }
    }

    /// Returns an error if a size is outside the limits of recipes: later steps allocate memory in proportion to these
    /// sizes.
    fn check_sizes(&self) -> Result<(), String> {
        check("n_layer", self.n_layer, "n_layer")?;
        check("n_head", self.n_head, "n_head")?;
        check("n_embd", self.n_embd, "d_model")?;
        check("n_positions", self.n_positions, "block_size")?;
        check("vocab_size", self.vocab_size, "vocab_size")?;
        if let Some(inner) = self.n_inner {
            check("n_inner", inner, "mlp_hidden")?;
        }
        self.sweep.map_or(Ok(()), |network| check_block(&network.block))
    }

    /// The dimensions, or the property that this program cannot compute.
    fn dims(&self) -> Result<GptDims, String> {
        self.check_sizes()?;
        let block = match (self.model_type.as_str(), self.sweep) {
            (GPT2, None) => BlockSpec::GPT2,
            (OWN, Some(Own { block, .. })) => block,
            (OWN, None) => return Err(format!("a network of model_type `{OWN}` requires the key `sweep`")),
            (GPT2, Some(_)) => return Err(format!("a network of model_type `{GPT2}` must not have the key `sweep`")),
            (other, _) => {
                let llama = llama::MODEL_TYPE;
                return Err(format!("model_type `{other}` is not supported, only `{GPT2}`, `{llama}` and `{OWN}`"));
            }
        };
        let activation = activation("activation_function", &self.activation_function)?;
        let Parts { norm_epsilon, tie, .. } = block.parts;
        let requirements = [
            (self.layer_norm_epsilon == norm_epsilon, "layer_norm_epsilon must be 1e-5 or that of the key `sweep`"),
            (self.scale_attn_weights, "scale_attn_weights must be true"),
            (!self.scale_attn_by_inverse_layer_idx, "scale_attn_by_inverse_layer_idx must be false"),
            (!self.add_cross_attention, "add_cross_attention must be false"),
            (self.tie_word_embeddings == tie, "tie_word_embeddings must be true, or as in the key `sweep`"),
        ];
        if let Some((_, requirement)) = requirements.into_iter().find(|(holds, _)| !holds) {
            return Err(requirement.into());
        }
        let dims = GptDims {
            n_layer: self.n_layer,
            n_head: self.n_head,
            d_model: self.n_embd,
            block_size: self.n_positions,
            vocab_size: self.vocab_size,
            activation,
            block: BlockSpec { mlp_hidden: self.n_inner.filter(|inner| *inner != 4 * self.n_embd), ..block },
        };
        dims.checked().map_err(|error| error.to_string())
    }
}

/// An error if `number`, which the file has at `key`, is not in the range of the recipes' parameter `param`.
fn check(key: &str, number: impl Into<serde_json::Value>, param: &str) -> Result<(), String> {
    let number = number.into();
    let param = [Model::PARAMS, Architecture::PARAMS].into_iter().flatten().find(|info| info.name == param);
    match (param.and_then(|param| param.bounds), number.as_f64()) {
        (Some(bounds), Some(value)) if !(bounds.min..=bounds.max).contains(&value) => {
            Err(format!("{key} {number} is not supported; it must be {bounds}"))
        }
        _ => Ok(()),
    }
}

/// Checks every number of a block's specification that its network uses later, as [`check`] does.
fn check_block(block: &BlockSpec) -> Result<(), String> {
    let BlockSpec {
        attention,
        mlp_hidden,
        reciprocal,
        gate,
        cross,
        ra_ct,
        experts,
        parts,
        recip: _,
        r_mlp: _,
        kv_prune: _,
    } = block;
    check_parts(parts)?;
    if let AttentionKind::Latent { dim } = attention {
        check("sweep.block.attention.latent.dim", *dim, "latent_dim")?;
    }
    if let Some(hidden) = mlp_hidden {
        check("sweep.block.mlp_hidden", *hidden, "mlp_hidden")?;
    }
    if let Some(reciprocal) = reciprocal {
        check("sweep.block.reciprocal.window", reciprocal.window, "ra_window")?;
    }
    if let Some(gate) = gate {
        check("sweep.block.gate.dim", gate.dim, "gate_dim")?;
    }
    if let Some(cross) = cross {
        if let CrossProjection::Bottleneck { dim } = cross.projection {
            check("sweep.block.cross.projection.bottleneck.dim", dim, "cross_dim")?;
        }
        match cross.select {
            Selection::TopK { k } => check("sweep.block.cross.select.top_k.k", k, "cross_k")?,
            Selection::Rms { tau } => check("sweep.block.cross.select.rms.tau", tau, "cross_tau")?,
            Selection::All => {}
        }
    }
    if let Some(experts) = experts {
        check("sweep.block.experts.count", experts.count, "experts")?;
        check("sweep.block.experts.per_token", experts.per_token, "experts_per_token")?;
    }
    if let Some(ra_ct) = ra_ct {
        check("sweep.block.ra_ct.k", ra_ct.k, "ra_ct_k")?;
        check("sweep.block.ra_ct.alpha", ra_ct.alpha, "ra_ct_alpha")?;
    }
    Ok(())
}

/// Checks every number of the parts, as [`check`] does.
fn check_parts(parts: &Parts) -> Result<(), String> {
    check("sweep.block.parts.norm_epsilon", parts.norm_epsilon, "norm_epsilon")?;
    check("sweep.block.parts.value_embeddings", parts.value_embeddings, "value_embeddings")?;
    if let Some(width) = parts.mup_base_width {
        check("sweep.block.parts.mup_base_width", width, "mup_base_width")?;
    }
    check("sweep.block.parts.logit_cap", parts.logit_cap, "logit_cap")?;
    check("sweep.block.parts.kv_heads", parts.kv_heads.unwrap_or(1), "kv_heads")?;
    match parts.position {
        Position::Rope { theta, scaling } => {
            check("sweep.block.parts.position.rope.theta", theta, "rope_theta")?;
            scaling.map_or(Ok(()), check_scaling)
        }
        Position::Learned | Position::None => Ok(()),
    }
}

/// Checks a scaling of RoPE's frequencies, as [`check`] does.
fn check_scaling(scaling: RopeScaling) -> Result<(), String> {
    let (RopeScaling::Linear { factor } | RopeScaling::Llama3 { factor, .. }) = scaling;
    check("the factor of RoPE's scaling", factor, "rope_factor")?;
    match scaling {
        RopeScaling::Llama3 { low, high, .. } if low.is_nan() || high.is_nan() || low >= high => {
            Err(format!("low_freq_factor {low} must be less than high_freq_factor {high}"))
        }
        RopeScaling::Llama3 { original, .. } => check("original_max_position_embeddings", original, "rope_original"),
        RopeScaling::Linear { .. } => Ok(()),
    }
}

/// The activation function that `config.json` names `word`, at `key`.
fn activation(key: &str, word: &str) -> Result<Activation, String> {
    match word {
        "gelu_pytorch_tanh" => Ok(Activation::GeluNew),
        "swish" => Ok(Activation::Silu),
        _ => Activation::ALL.iter().copied().find(|known| known.word() == word).ok_or_else(|| {
            let known: Vec<String> = Activation::ALL.iter().map(|known| format!("`{known}`")).collect();
            format!("{key} `{word}` is not supported, only {}", known.join(", "))
        }),
    }
}

/// The layout of a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Layout {
    Gpt2,
    Llama,
}

impl Layout {
    /// Prefix of the names of tensors.
    fn prefix(self) -> &'static str {
        match self {
            Self::Gpt2 => PREFIX,
            Self::Llama => llama::PREFIX,
        }
    }

    /// The tensors that make up the parameter `info`.
    fn sources(self, dims: &GptDims, info: &ParamInfo) -> llama::Sources {
        match self {
            Self::Gpt2 => llama::Sources { tensors: vec![info.clone()], transposed: false },
            Self::Llama => llama::sources(dims, info),
        }
    }

    /// Removes redundant tensors: constants that old files carry, and the output layer where it repeats the token table.
    fn remove_redundant(self, tensors: &mut BTreeMap<String, TensorView<'_>>, dims: &GptDims) -> Result<(), String> {
        for block in 0..dims.n_layer {
            let buffers = match self {
                Self::Gpt2 => [format!("h.{block}.attn.bias"), format!("h.{block}.attn.masked_bias")].to_vec(),
                Self::Llama => vec![format!("layers.{block}.self_attn.rotary_emb.inv_freq")],
            };
            for buffer in buffers {
                tensors.remove(&buffer);
            }
        }
        if !dims.block.parts.tie {
            return Ok(());
        }
        let table = if self == Self::Llama { llama::TABLE } else { "wte.weight" };
        if let (Some(head), Some(values)) = (tensors.remove(HEAD), tensors.get(table))
            && (head.dtype() != values.dtype() || head.shape() != values.shape() || head.data() != values.data())
        {
            return Err(format!("tensor `{HEAD}` differs from `{table}`, but the two must be tied"));
        }
        Ok(())
    }
}

/// The content of `config.json`.
struct Described {
    dims: GptDims,
    /// Strength of the mechanisms.
    coupling: f64,
    layout: Layout,
}

fn describe(text: &str) -> Result<Described, String> {
    #[derive(Deserialize)]
    struct Kind {
        model_type: String,
    }

    let message = |error: serde_json::Error| error.to_string();
    let kind: Kind = serde_json::from_str(text).map_err(message)?;
    if kind.model_type == llama::MODEL_TYPE {
        let config: llama::Config = serde_json::from_str(text).map_err(message)?;
        return Ok(Described { dims: config.dims()?, coupling: 1.0, layout: Layout::Llama });
    }
    let config: Config = serde_json::from_str(text).map_err(message)?;
    let coupling = config.sweep.map_or(1.0, |network| network.coupling);
    if !(0.0..=1.0).contains(&coupling) {
        return Err(format!("coupling {coupling} is not between 0 and 1"));
    }
    Ok(Described { dims: config.dims()?, coupling, layout: Layout::Gpt2 })
}

fn read_config(folder: &Path) -> Result<Described, HubError> {
    let path = folder.join(CONFIG);
    let text = fs_err::read_to_string(&path).map_err(HubError::Read)?;
    describe(&text).map_err(|message| HubError::Config { path, message })
}

/// The dimensions of the network in `folder`.
pub fn read_dims(folder: &Path) -> Result<GptDims, HubError> {
    Ok(read_config(folder)?.dims)
}

/// The network in `folder`.
pub fn load<B: Backend>(folder: &Path, device: &B::Device) -> Result<Gpt<B>, LabError> {
    let Described { dims, coupling, layout } = read_config(folder)?;
    let weights = Weights::open(folder)?;
    let mut tensors = weights.tensors(layout.prefix())?;
    layout.remove_redundant(&mut tensors, &dims).map_err(|message| weights.error(message))?;
    let mut network = Gpt::with_values(dims, device, |info| {
        let sources = layout.sources(&dims, info);
        Ok(values(info, &sources, &mut tensors).map_err(|message| weights.error(message))?)
    })?;
    network.set_coupling(coupling);
    match tensors.into_keys().next() {
        Some(name) => {
            Err(weights.error(format!("tensor `{name}` is not part of a network with these dimensions")).into())
        }
        None => Ok(network),
    }
}

/// The numbers of the parameter `info`, from its `sources`, which are taken out of `tensors`.
fn values(
    info: &ParamInfo,
    sources: &llama::Sources,
    tensors: &mut BTreeMap<String, TensorView<'_>>,
) -> Result<Vec<f32>, String> {
    let mut stored = Vec::with_capacity(info.len());
    for source in &sources.tensors {
        let tensor = tensors.remove(&source.name).ok_or_else(|| format!("tensor `{}` is missing", source.name))?;
        stored.append(&mut numbers(source, &tensor)?);
    }
    let [inputs, outputs] = info.shape[..] else { return Ok(stored) };
    if !sources.transposed {
        return Ok(stored);
    }
    let mut values = vec![0.0; stored.len()];
    for (output, row) in stored.chunks_exact(inputs).enumerate() {
        for (input, number) in row.iter().enumerate() {
            values[input * outputs + output] = *number;
        }
    }
    Ok(values)
}

/// Writes `network` to `folder`, which is created.
pub fn save<B: AutodiffBackend>(network: &Gpt<B>, folder: &Path) -> Result<(), LabError> {
    std::fs::create_dir_all(folder).map_err(|error| write_error(folder, error))?;
    let dims = network.dims();
    let layout = if llama::is_llama(dims) { Layout::Llama } else { Layout::Gpt2 };

    let path = folder.join(CONFIG);
    let config = match layout {
        Layout::Llama => serde_json::to_string_pretty(&llama::Config::new(dims)),
        Layout::Gpt2 => serde_json::to_string_pretty(&Config::new(dims, network.coupling())),
    };
    let config = config.map_err(|error| write_error(&path, error.into()))?;
    std::fs::write(&path, config + "\n").map_err(|error| write_error(&path, error))?;

    let has_prefix = layout == Layout::Llama || dims.is_gpt2();
    let full_name = |name: String| match name.as_str() {
        HEAD => name,
        _ if has_prefix => format!("{}{name}", layout.prefix()),
        _ => name,
    };
    let parameters = model::infos(network).into_iter().zip(model::values::<B, _>(network));
    let tensors = parameters.flat_map(|(info, tensor)| {
        let llama::Sources { tensors, transposed } = layout.sources(dims, &info);
        let rows = match info.shape[..] {
            [inputs, outputs] if transposed => tensor.reshape([inputs, outputs]).transpose().reshape([info.len()]),
            _ => tensor,
        };
        parts(&rows, tensors).into_iter().map(|stored| Stored { name: full_name(stored.name), ..stored })
    });
    // The Hub's own reader refuses files that do not name their format.
    let metadata = HashMap::from([("format".to_owned(), "pt".to_owned())]);
    files::write_tensors(&folder.join(WEIGHTS), tensors.collect(), metadata, false)
}

/// The tensors `infos`, whose values are concatenated in `numbers`.
fn parts<B: Backend>(numbers: &Tensor<B, 1>, infos: Vec<ParamInfo>) -> Vec<Stored<B>> {
    let mut start = 0;
    let cut = |info: ParamInfo| {
        let length = info.len();
        let tensor =
            if length == numbers.dims()[0] { numbers.clone() } else { numbers.clone().narrow(0, start, length) };
        start += length;
        Stored { name: info.name, shape: info.shape, tensor }
    };
    infos.into_iter().map(cut).collect()
}
