//! Networks in the Hub's layout for GPT-2: a folder with `config.json` and `model.safetensors`.
//!
//! Linear weights are `[in, out]` there as here, so nothing is transposed. Names may carry the prefix `transformer.`,
//! numbers may be F32, F16 or BF16. `GPT2LMHeadModel.from_pretrained` reads the files of a GPT-2. Another network of
//! this program is written in the same form, but as model type `sweep-gpt`, with a description of its blocks and
//! without the prefix, so that no program mistakes it for a GPT-2.

use std::{
    collections::{BTreeMap, HashMap},
    io,
    path::Path,
};

use burn::tensor::{
    backend::{AutodiffBackend, Backend},
    bf16, f16,
};
use safetensors::{Dtype, SafeTensors, tensor::TensorView};
use serde::{Deserialize, Serialize};
use sweep_job::{
    Group as _,
    tasks::{Activation, Architecture, AttentionKind, BlockSpec, CrossProjection, Model, Selection},
};

use crate::{
    HubError, LabError,
    files::{self, Stored},
    model::{self, Gpt, GptDims, ParamInfo},
};

const CONFIG: &str = "config.json";
const WEIGHTS: &str = "model.safetensors";
const PREFIX: &str = "transformer.";
const GPT2: &str = "gpt2";
const OWN: &str = "sweep-gpt";
const HEAD: &str = "lm_head.weight";

/// The part of `config.json` that decides what is computed.
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
    /// Only of networks that are no GPT-2.
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
            layer_norm_epsilon: epsilon(),
            scale_attn_weights: true,
            scale_attn_by_inverse_layer_idx: false,
            add_cross_attention: false,
            tie_word_embeddings: true,
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
            (other, _) => return Err(format!("model_type `{other}` is not supported, only `{GPT2}` and `{OWN}`")),
        };
        let activation = match self.activation_function.as_str() {
            "gelu" => Activation::Gelu,
            "gelu_new" | "gelu_pytorch_tanh" => Activation::GeluNew,
            other => {
                return Err(format!("activation_function `{other}` is not supported, only `gelu` and `gelu_new`"));
            }
        };
        let requirements = [
            (self.layer_norm_epsilon == epsilon(), "layer_norm_epsilon must be 1e-5"),
            (self.scale_attn_weights, "scale_attn_weights must be true"),
            (!self.scale_attn_by_inverse_layer_idx, "scale_attn_by_inverse_layer_idx must be false"),
            (!self.add_cross_attention, "add_cross_attention must be false"),
            (self.tie_word_embeddings, "tie_word_embeddings must be true"),
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

/// The same for every number of a block's specification that its network uses later.
fn check_block(block: &BlockSpec) -> Result<(), String> {
    let BlockSpec { attention, mlp_hidden, reciprocal, gate, cross, ra_ct, recip: _, r_mlp: _, kv_prune: _ } = block;
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
    if let Some(ra_ct) = ra_ct {
        check("sweep.block.ra_ct.k", ra_ct.k, "ra_ct_k")?;
        check("sweep.block.ra_ct.alpha", ra_ct.alpha, "ra_ct_alpha")?;
    }
    Ok(())
}

/// The dimensions of the network in `folder`, and the strength of its mechanisms.
fn read_config(folder: &Path) -> Result<(GptDims, f64), HubError> {
    let path = folder.join(CONFIG);
    let text = fs_err::read_to_string(&path).map_err(HubError::Read)?;
    let config: Result<Config, _> = serde_json::from_str(&text);
    let result = config.map_err(|error| error.to_string()).and_then(|config| {
        let coupling = config.sweep.map_or(1.0, |network| network.coupling);
        if !(0.0..=1.0).contains(&coupling) {
            return Err(format!("coupling {coupling} is not between 0 and 1"));
        }
        Ok((config.dims()?, coupling))
    });
    result.map_err(|message| HubError::Config { path, message })
}

/// The dimensions of the network in `folder`.
pub fn read_dims(folder: &Path) -> Result<GptDims, HubError> {
    Ok(read_config(folder)?.0)
}

/// The network in `folder`.
pub fn load<B: Backend>(folder: &Path, device: &B::Device) -> Result<Gpt<B>, LabError> {
    let (dims, coupling) = read_config(folder)?;
    let path = folder.join(WEIGHTS);
    let weight_error = |message: String| HubError::Weights { path: path.clone(), message };
    let map = files::map(&path).map_err(HubError::Read)?;
    let bytes: &[u8] = map.as_deref().unwrap_or_default();
    let file = SafeTensors::deserialize(bytes).map_err(|error| weight_error(error.to_string()))?;
    let mut tensors = by_name(&file, &dims).map_err(weight_error)?;
    let mut network = Gpt::with_values(dims, device, |info| {
        let tensor =
            tensors.remove(&info.name).ok_or_else(|| weight_error(format!("tensor `{}` is missing", info.name)))?;
        Ok(numbers(info, &tensor).map_err(weight_error)?)
    })?;
    network.set_coupling(coupling);
    match tensors.into_keys().next() {
        Some(name) => {
            Err(weight_error(format!("tensor `{name}` is not part of a network with these dimensions")).into())
        }
        None => Ok(network),
    }
}

/// The file's tensors by their names without prefix, without redundant ones: masks that old files carry,
/// and the output layer where it repeats the token table.
fn by_name<'file>(file: &SafeTensors<'file>, dims: &GptDims) -> Result<BTreeMap<String, TensorView<'file>>, String> {
    let mut tensors = BTreeMap::new();
    for (full_name, tensor) in file.iter() {
        let name = full_name.strip_prefix(PREFIX).unwrap_or(full_name);
        if tensors.insert(name.to_owned(), tensor).is_some() {
            return Err(format!("tensor `{name}` appears twice, with and without the prefix `{PREFIX}`"));
        }
    }
    for block in 0..dims.n_layer {
        for buffer in ["attn.bias", "attn.masked_bias"] {
            tensors.remove(&format!("h.{block}.{buffer}"));
        }
    }
    if let (Some(head), Some(table)) = (tensors.remove(HEAD), tensors.get("wte.weight"))
        && (head.dtype() != table.dtype() || head.shape() != table.shape() || head.data() != table.data())
    {
        return Err(format!("tensor `{HEAD}` differs from `wte.weight`, but the two must be tied"));
    }
    Ok(tensors)
}

/// A tensor's numbers as 32-bit floats, if its shape is right.
fn numbers(info: &ParamInfo, tensor: &TensorView<'_>) -> Result<Vec<f32>, String> {
    if tensor.shape() != info.shape {
        return Err(format!("tensor `{}` has shape {:?}, expected {:?}", info.name, tensor.shape(), info.shape));
    }
    let data = tensor.data();
    let half = |convert: fn([u8; 2]) -> f32| data.as_chunks::<2>().0.iter().map(|bytes| convert(*bytes)).collect();
    match tensor.dtype() {
        Dtype::F32 => Ok(data.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect()),
        Dtype::F16 => Ok(half(|bytes| f16::from_le_bytes(bytes).to_f32())),
        Dtype::BF16 => Ok(half(|bytes| bf16::from_le_bytes(bytes).to_f32())),
        other => {
            Err(format!("tensor `{}` has element type {other:?}; only F32, F16 and BF16 are supported", info.name))
        }
    }
}

/// Writes `network` to `folder`, which is created.
pub fn save<B: AutodiffBackend>(network: &Gpt<B>, folder: &Path) -> Result<(), LabError> {
    let write_error = |path: &Path, source: io::Error| LabError::Write { path: path.to_owned(), source };
    std::fs::create_dir_all(folder).map_err(|error| write_error(folder, error))?;

    let path = folder.join(CONFIG);
    let config = serde_json::to_string_pretty(&Config::new(network.dims(), network.coupling()));
    let config = config.map_err(|error| write_error(&path, error.into()))?;
    std::fs::write(&path, config + "\n").map_err(|error| write_error(&path, error))?;

    let path = folder.join(WEIGHTS);
    let prefix = if network.dims().is_gpt2() { PREFIX } else { "" };
    let parameters = model::infos(network).into_iter().zip(model::values::<B, _>(network));
    let tensors = parameters.map(|(info, tensor)| {
        let name = format!("{prefix}{}", info.name);
        Stored { name, shape: info.shape, tensor }
    });
    // The Hub's own reader refuses files that do not name their format.
    let metadata = HashMap::from([("format".to_owned(), "pt".to_owned())]);
    files::write_tensors(&path, tensors.collect(), metadata, false)
}
