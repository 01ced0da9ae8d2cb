//! The network: a token and a position table, nodes joined as a tree, final LayerNorm, output layer with a bias.
//!
//! Nodes are counted level by level from the root, 0: the children of node `p` are the `branching` nodes from `branching * p + 1` on.

use std::ops::Range;

use burn::{
    module::{Module, Param},
    tensor::{Int, Tensor, TensorData, backend::Backend},
};
use rand::Rng;
use sweep_job::tasks::{Activation, AttentionForm, CausalMask, K1Model, Shift};

use crate::{
    model::{Attention, Embedding, Linear, Mlp, Norm, ParamInfo, cross_entropy},
    ops::{
        Ops, autocast,
        plain::{self, dropout},
    },
    rng,
};

/// Added to the score of a key that a query must not see; its exponential is 0.
const HIDDEN: f32 = -1e30;

/// The dimensions of a network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TreeDims {
    /// Number of nodes from the root to a leaf, including both.
    pub depth: usize,
    /// Number of children of an inner node.
    pub branching: usize,
    /// Width of the residual stream.
    pub d_model: usize,
    /// Attention heads.
    pub n_head: usize,
    /// Width of the feed-forward layer.
    pub d_ff: usize,
    /// Rows of the token table and of the output layer.
    pub vocab_size: usize,
    /// Tokens in a sequence.
    pub block_size: usize,
}

/// Number of parameter tensors before the tensors of the first node, in the network's order.
pub const SHARED_TENSORS: usize = 6;
/// Parameters of a node.
pub const NODE_TENSORS: usize = 12;

impl TreeDims {
    /// The dimensions that a recipe requests.
    pub fn new(model: &K1Model) -> Self {
        let [depth, branching] = model.depth_and_branching();
        let K1Model { d_model, n_head, d_ff, vocab_size, block_size, .. } = *model;
        Self { depth, branching, d_model, n_head, d_ff, vocab_size, block_size }
    }

    /// The nodes of every level, from the root on.
    pub fn levels(&self) -> Vec<Range<usize>> {
        let mut levels = Vec::with_capacity(self.depth);
        let (mut first, mut width) = (0, 1);
        for _ in 0..self.depth {
            levels.push(first..first + width);
            first += width;
            width *= self.branching;
        }
        levels
    }

    /// All nodes.
    pub fn nodes(&self) -> usize {
        self.levels().last().map_or(0, |level| level.end)
    }

    /// The children of a node; empty for a leaf.
    pub fn children(&self, node: usize) -> Range<usize> {
        let first = self.branching * node + 1;
        let nodes = self.nodes();
        first.min(nodes)..(first + self.branching).min(nodes)
    }

    /// The parent of a node; `None` for the root.
    pub fn parent(&self, node: usize) -> Option<usize> {
        Some(node.checked_sub(1)? / self.branching)
    }

    /// A node and all its descendants.
    pub fn subtree(&self, node: usize) -> Vec<usize> {
        let mut nodes = vec![node];
        let mut index = 0;
        while let Some(&node) = nodes.get(index) {
            nodes.extend(self.children(node));
            index += 1;
        }
        nodes
    }

    /// The parameters that belong to no node, in the network's order.
    pub fn shared_parameters(&self) -> Vec<ParamInfo> {
        let Self { d_model: d, vocab_size, block_size, .. } = *self;
        let shapes: [(&str, &[usize]); SHARED_TENSORS] = [
            ("wte.weight", &[vocab_size, d]),
            ("wpe.weight", &[block_size, d]),
            ("ln_f.weight", &[d]),
            ("ln_f.bias", &[d]),
            ("head.weight", &[d, vocab_size]),
            ("head.bias", &[vocab_size]),
        ];
        shapes.map(|(name, shape)| ParamInfo { name: format!("shared.{name}"), shape: shape.to_vec() }).into()
    }

    /// The parameters of a node, in the network's order.
    pub fn node_parameters(&self, node: usize) -> Vec<ParamInfo> {
        let Self { d_model: d, d_ff, .. } = *self;
        let shapes: [(&str, &[usize]); NODE_TENSORS] = [
            ("attn.c_attn.weight", &[d, 3 * d]),
            ("attn.c_attn.bias", &[3 * d]),
            ("attn.c_proj.weight", &[d, d]),
            ("attn.c_proj.bias", &[d]),
            ("ln_1.weight", &[d]),
            ("ln_1.bias", &[d]),
            ("mlp.c_fc.weight", &[d, d_ff]),
            ("mlp.c_fc.bias", &[d_ff]),
            ("mlp.c_proj.weight", &[d_ff, d]),
            ("mlp.c_proj.bias", &[d]),
            ("ln_2.weight", &[d]),
            ("ln_2.bias", &[d]),
        ];
        shapes.map(|(name, shape)| ParamInfo { name: format!("nodes.{node}.{name}"), shape: shape.to_vec() }).into()
    }

    /// Number of shared parameters, and number of parameters of a node.
    pub fn numbers(&self) -> [usize; 2] {
        let count = |infos: Vec<ParamInfo>| infos.iter().map(ParamInfo::len).sum();
        [count(self.shared_parameters()), count(self.node_parameters(0))]
    }

    /// Number of all parameters.
    pub fn parameters(&self) -> usize {
        let [shared, node] = self.numbers();
        shared + self.nodes() * node
    }
}

/// Parameters that belong to no node.
#[derive(Module, Debug)]
pub struct Shared<B: Backend> {
    /// The token table `[vocab, d_model]`.
    pub wte: Embedding<B>,
    /// The position table `[block_size, d_model]`.
    pub wpe: Embedding<B>,
    /// Normalization before the output layer.
    pub ln_f: Norm<B>,
    /// The output layer `[d_model, vocab]`.
    pub head: Linear<B>,
}

/// A transformer block that normalizes after each of its parts has been added.
#[derive(Module, Debug)]
pub struct Node<B: Backend> {
    /// Self-attention.
    pub attn: Attention<B>,
    /// Normalization after attention.
    pub ln_1: Norm<B>,
    /// The feed-forward layer.
    pub mlp: Mlp<B>,
    /// Normalization after the feed-forward layer.
    pub ln_2: Norm<B>,
}

/// A network.
#[derive(Module, Debug)]
pub struct TreeNetwork<B: Backend> {
    /// Parameters that belong to no node.
    pub shared: Shared<B>,
    /// The nodes, level by level.
    pub nodes: Vec<Node<B>>,
    /// Summand of the scores `[1, block_size * block_size]`; `None` if every forward pass computes it.
    pub(crate) mask: Option<Tensor<B, 2>>,
    #[module(skip)]
    pub(crate) dims: TreeDims,
}

/// Settings of a forward pass.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Way {
    /// Implementation of attention.
    pub attention: AttentionForm,
    /// The probability of dropout.
    pub dropout: f64,
}

/// Values that all nodes of a forward pass share.
struct Flow<B: Backend> {
    batch: usize,
    mask: Tensor<B, 2>,
    way: Way,
}

impl<B: Ops> Node<B> {
    /// `x` `[batch * length, d_model]` after the node.
    fn forward(&self, x: Tensor<B, 2>, flow: &Flow<B>) -> Tensor<B, 2> {
        let Flow { batch, mask, way: Way { attention, dropout: p } } = flow;
        let attention_output = match attention {
            AttentionForm::Kernel => self.attn.forward(x.clone(), *batch, mask, None, None, *p),
            AttentionForm::Explicit => {
                let qkv = self.attn.c_attn.forward(x.clone());
                let attend = |qkv: &Tensor<B, 2>, mask: &Tensor<B, 2>| {
                    plain::causal_attention(qkv, *batch, self.attn.n_head, mask, *p)
                };
                let context = match autocast::cast_format::<B>() {
                    None => attend(&qkv, mask),
                    Some(format) => attend(&qkv.clone().cast(format), &mask.clone().cast(format)).cast(qkv.dtype()),
                };
                dropout(self.attn.c_proj.forward(context), *p)
            }
        };
        let x = self.ln_1.forward(B::add(x, attention_output));
        let mlp_output = self.mlp.forward(x.clone(), Activation::Gelu, *p);
        self.ln_2.forward(B::add(x, mlp_output))
    }
}

impl<B: Backend> TreeNetwork<B> {
    /// A network with random weights: matrices by Xavier's uniform rule, gains 1, biases 0.
    pub fn random(dims: TreeDims, causal_mask: CausalMask, seed: u64, device: &B::Device) -> Self {
        let maker = Maker::<B> { seed, device };
        let mut infos = dims.shared_parameters().into_iter();
        let mut next_info = || infos.next();
        let shared = Shared {
            wte: Embedding { weight: maker.tensor(next_info()) },
            wpe: Embedding { weight: maker.tensor(next_info()) },
            ln_f: Norm::layer_norm(maker.tensor(next_info()), maker.tensor(next_info())),
            head: Linear { weight: maker.tensor(next_info()), bias: Some(maker.tensor(next_info())) },
        };
        let node = |node| {
            let mut infos = dims.node_parameters(node).into_iter();
            let mut linear = || Linear { weight: maker.tensor(infos.next()), bias: Some(maker.tensor(infos.next())) };
            let (c_attn, c_proj) = (linear(), linear());
            let ln_1 = Norm::layer_norm(maker.tensor(infos.next()), maker.tensor(infos.next()));
            let mut linear = || Linear { weight: maker.tensor(infos.next()), bias: Some(maker.tensor(infos.next())) };
            let mlp = Mlp { c_fc: linear(), c_gate: None, c_proj: linear() };
            let ln_2 = Norm::layer_norm(maker.tensor(infos.next()), maker.tensor(infos.next()));
            Node {
                attn: Attention {
                    c_attn,
                    c_proj,
                    q_norm: None,
                    k_norm: None,
                    value_mix: None,
                    n_head: dims.n_head,
                    kv_heads: dims.n_head,
                    score_factor: 1.0,
                },
                ln_1,
                mlp,
                ln_2,
            }
        };
        let mask = (causal_mask == CausalMask::Cached).then(|| mask(dims.block_size, device));
        Self { shared, nodes: (0..dims.nodes()).map(node).collect(), mask, dims }
    }

    /// The network's dimensions.
    pub fn dims(&self) -> &TreeDims {
        &self.dims
    }
}

impl<B: Ops> TreeNetwork<B> {
    /// Logits `[batch, length, vocab]` of the token after each of `tokens` `[batch, length]`.
    pub fn logits(&self, tokens: Tensor<B, 2, Int>, way: Way) -> Tensor<B, 3> {
        let [batch, length] = tokens.dims();
        let device = tokens.device();
        let TreeDims { d_model, block_size, vocab_size, .. } = self.dims;
        let positions = self.shared.wpe.weight.val();
        let positions = if length == block_size { positions } else { positions.narrow(0, 0, length) };
        // A sequence as one row, so that adding the positions repeats a row.
        let x = self.shared.wte.forward(tokens).reshape([batch, length * d_model]);
        let x = (x + positions.reshape([1, length * d_model])).reshape([batch * length, d_model]);
        let mask = match &self.mask {
            Some(mask) if length == block_size => mask.clone(),
            _ => mask(length, &device),
        };
        let result = self.result(0, x, &Flow { batch, mask, way });
        let hidden = self.shared.ln_f.forward(result);
        self.shared.head.forward(hidden).reshape([batch, length, vocab_size])
    }

    /// The mean cross-entropy, `[1]`, in nats, of the logits after `tokens` against `targets`, both `[batch, length]`, each
    /// target being the token after.
    pub fn loss(&self, tokens: Tensor<B, 2, Int>, targets: Tensor<B, 2, Int>, shift: Shift, way: Way) -> Tensor<B, 1> {
        let logits = self.logits(tokens, way);
        match shift {
            Shift::One => cross_entropy(logits, targets),
            Shift::Two => {
                let [_, length] = targets.dims();
                cross_entropy(logits.narrow(1, 0, length - 1), targets.narrow(1, 1, length - 1))
            }
        }
    }

    /// Result for `x` at `node`: the output of a leaf, or the mean of the results of an inner node's children for its output.
    fn result(&self, node: usize, x: Tensor<B, 2>, flow: &Flow<B>) -> Tensor<B, 2> {
        let output = self.nodes[node].forward(x, flow);
        let children = self.dims.children(node);
        let count = children.len() as f64;
        let results = children.map(|child| self.result(child, output.clone(), flow));
        match results.reduce(B::add) {
            None => output,
            Some(result) if count == 1.0 => result,
            Some(sum) => sum * count.recip(),
        }
    }
}

/// Summand of the scores of `length` queries, `[1, length * length]`: 0 on and below the diagonal.
fn mask<B: Backend>(length: usize, device: &B::Device) -> Tensor<B, 2> {
    let end = i64::try_from(length).unwrap_or(i64::MAX);
    let places = Tensor::<B, 1, Int>::arange(0..end, device);
    let queries = places.clone().reshape([length, 1]).expand([length, length]);
    let keys = places.reshape([1, length]).expand([length, length]);
    let square = Tensor::zeros([length, length], device).mask_fill(keys.greater(queries), HIDDEN);
    square.reshape([1, length * length])
}

/// Makes parameters.
struct Maker<'a, B: Backend> {
    seed: u64,
    device: &'a B::Device,
}

impl<B: Backend> Maker<'_, B> {
    /// The parameter that `info` describes; there is one for each, by construction.
    fn tensor<const D: usize>(&self, info: Option<ParamInfo>) -> Param<Tensor<B, D>> {
        let info = info.unwrap_or(ParamInfo { name: String::new(), shape: vec![0; D] });
        let shape: [usize; D] = std::array::from_fn(|dim| info.shape[dim]);
        Param::from_tensor(Tensor::from_data(TensorData::new(initial_values(&info, self.seed), shape), self.device))
    }
}

/// The initial values of a parameter, row by row. Every tensor has a separate random stream, named after it.
fn initial_values(info: &ParamInfo, seed: u64) -> Vec<f32> {
    let [rows, columns] = info.shape[..] else {
        let gain = info.name.ends_with(".weight");
        return vec![f32::from(u8::from(gain)); info.len()];
    };
    let bound = (6.0 / (rows + columns) as f32).sqrt();
    let mut rng = rng::stream(seed, "init", &info.name, &[]);
    (0..info.len()).map(|_| rng.random_range(-bound..bound)).collect()
}
