//! The optimizer's step for all or some nodes of a tree.

use burn::{
    backend::Autodiff,
    tensor::{ElementConversion, Tensor},
};
use sweep_job::tasks::{K1Optimizer, Unchosen};

use super::{
    attribution::Factors,
    network::{NODE_TENSORS, Node, SHARED_TENSORS, Shared, TreeDims, TreeNetwork},
};
use crate::{
    LabError,
    backend::Compute,
    optim::{AdamW, Gradients, StepContext},
};

/// An AdamW for the shared parameters and one for each node, so that each counts its own steps: the bias correction of
/// a frozen node's moments does not include the steps that it skipped.
#[derive(Debug)]
pub struct Optimizers<B: Compute> {
    lr: f64,
    unchosen: Unchosen,
    shared: AdamW<B>,
    nodes: Vec<AdamW<B>>,
}

impl<B: Compute> Optimizers<B> {
    /// Optimizers for a network with the dimensions `dims`. `unchosen` is the treatment of nodes with the factor 0.
    pub fn new(settings: &K1Optimizer, unchosen: Unchosen, dims: &TreeDims) -> Self {
        let lr = settings.lr;
        let settings = settings.settings();
        let node = |node| AdamW::new(&settings, &dims.node_parameters(node));
        let shared = AdamW::new(&settings, &dims.shared_parameters());
        Self { lr, unchosen, shared, nodes: (0..dims.nodes()).map(node).collect() }
    }

    /// Makes a step with `gradients` times `clip` (shape `[1]`). The gradients of each node are also multiplied by its
    /// factor in `factors`. A constant factor changes little, because AdamW divides by the root mean square of the
    /// gradients. With the factor 0, a node is skipped if unchosen nodes are frozen; else the moments of earlier steps
    /// still move it.
    pub fn step(
        &mut self,
        network: TreeNetwork<Autodiff<B>>,
        mut gradients: Gradients<B>,
        factors: &Factors<B>,
        clip: Option<&Tensor<B, 1>>,
    ) -> Result<TreeNetwork<Autodiff<B>>, LabError> {
        let lr = self.lr;
        let TreeNetwork { shared, nodes, mask, dims } = network;
        let mut node_gradients = gradients.split_off(SHARED_TENSORS).into_iter();
        let context = |gradient_factor| StepContext { gradient_factor, ..StepContext::default() };
        let shared =
            self.shared.step_with::<Autodiff<B>, Shared<Autodiff<B>>>(shared, gradients, lr, context(clip.cloned()))?;
        let step = |((index, node), adam): ((usize, Node<Autodiff<B>>), &mut AdamW<B>)| {
            let gradients: Gradients<B> = node_gradients.by_ref().take(NODE_TENSORS).collect();
            let node_factor = match factors {
                Factors::Host(factors) => match factors.get(index).copied().unwrap_or(1.0) {
                    0.0 if self.unchosen == Unchosen::Frozen => return Ok(node),
                    1.0 => None,
                    factor => {
                        let device = node.ln_1.weight.val().device();
                        Some(Tensor::from_floats([factor.elem::<f32>()], &device))
                    }
                },
                Factors::Device(factors) => Some(factors.clone().narrow(0, index, 1)),
            };
            let factor = match (node_factor, clip) {
                (Some(node_factor), Some(clip)) => Some(node_factor * clip.clone()),
                (node_factor, clip) => node_factor.or_else(|| clip.cloned()),
            };
            adam.step_with::<Autodiff<B>, Node<Autodiff<B>>>(node, gradients, lr, context(factor))
        };
        let nodes = nodes.into_iter().enumerate().zip(&mut self.nodes).map(step).collect::<Result<_, LabError>>()?;
        Ok(TreeNetwork { shared, nodes, mask, dims })
    }
}
