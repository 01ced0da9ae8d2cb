//! Attribution (K-1): the nodes that a step updates: the nodes with the largest gradients, or the nodes on the path
//! down along them.

use std::{
    cmp::{Ordering, Reverse},
    collections::BinaryHeap,
};

use burn::tensor::{Tensor, TensorData};
use sweep_job::tasks::{GradientNorm, K1Update, NormScope, SelectionWay, UpdateRule};

use super::network::{NODE_TENSORS, SHARED_TENSORS, TreeDims};
use crate::{
    LabError,
    device::read::{self, host, number},
    ops::Ops,
    optim::Gradients,
};

/// Factors of gradients on the path: a leaf's, its parent's, those above.
const PATH: [f64; 3] = [1.0, 0.15, 0.05];

/// Factors of the gradients of every node.
#[derive(Debug, Clone)]
pub enum Factors<B: Ops> {
    /// By node.
    Host(Vec<f64>),
    /// By node, `[nodes]`.
    Device(Tensor<B, 1>),
}

/// Finds the nodes that a step updates.
#[derive(Debug)]
pub struct Attribution<B: Ops> {
    dims: TreeDims,
    update: K1Update,
    device: B::Device,
    /// 1 if the node of the column belongs to the node of the row, `[nodes, nodes]`; only where descendants do.
    below: Option<Tensor<B, 2>>,
    /// Readings so far.
    reads: u64,
}

impl<B: Ops> Attribution<B> {
    /// For networks of `dims` on `device`.
    pub fn new(dims: TreeDims, update: &K1Update, device: &B::Device) -> Self {
        let below = (update.scope == NormScope::Subtree).then(|| {
            let nodes = dims.nodes();
            let mut numbers = vec![0.0_f32; nodes * nodes];
            for node in 0..nodes {
                dims.subtree(node).into_iter().for_each(|descendant| numbers[node * nodes + descendant] = 1.0);
            }
            Tensor::from_data(TensorData::new(numbers, [nodes, nodes]), device)
        });
        Self { dims, update: update.clone(), device: device.clone(), below, reads: 0 }
    }

    /// Number of reads from the device by [`choose`](Self::choose).
    pub fn reads(&self) -> u64 {
        self.reads
    }

    /// Factors of the gradients of the nodes, from all `gradients` of the network in its order.
    pub fn choose(&mut self, gradients: &Gradients<B>) -> Result<Factors<B>, LabError> {
        if self.update.update == UpdateRule::All {
            return Ok(Factors::Host(vec![1.0; self.dims.nodes()]));
        }
        let earlier_reads = read::reads();
        let factors = match self.update.selection {
            SelectionWay::ReadsSort | SelectionWay::ReadsHeap => self.on_host(&self.read_norms(gradients)?),
            SelectionWay::OneRead => {
                let norms = host(self.norms(gradients, self.update.norm))?;
                self.on_host(&norms.into_iter().map(f64::from).collect::<Vec<_>>())
            }
            SelectionWay::Device => Factors::Device(self.on_device(&self.norms(gradients, self.update.norm))),
        };
        self.reads += read::reads() - earlier_reads;
        Ok(factors)
    }

    /// The part `[1]` of the nodes chosen by one definition of the norm that the other one chooses, too.
    pub fn agreement(&self, gradients: &Gradients<B>) -> Tensor<B, 1> {
        let choice = |norm| self.on_device(&self.norms(gradients, norm)).greater_elem(0.0).float();
        let (left, right) = (choice(GradientNorm::RootOfSquares), choice(GradientNorm::SumOfNorms));
        (left.clone() * right).sum() / left.sum()
    }

    /// The gradients of a node's own tensors.
    fn own(gradients: &Gradients<B>, node: usize) -> impl Iterator<Item = &Tensor<B, 1>> {
        let first = SHARED_TENSORS + node * NODE_TENSORS;
        gradients.iter().skip(first).take(NODE_TENSORS).flatten()
    }

    /// The norm of every node, one reading for each of its tensors.
    fn read_norms(&self, gradients: &Gradients<B>) -> Result<Vec<f64>, LabError> {
        let norm = |node: usize| {
            let nodes = match self.update.scope {
                NormScope::Own => vec![node],
                NormScope::Subtree => self.dims.subtree(node),
            };
            let mut sum = 0.0;
            for gradient in nodes.into_iter().flat_map(|node| Self::own(gradients, node)) {
                let square = number(B::sum_of_squares(gradient.clone()))?;
                sum += match self.update.norm {
                    GradientNorm::RootOfSquares => square,
                    GradientNorm::SumOfNorms => square.sqrt(),
                };
            }
            Ok(match self.update.norm {
                GradientNorm::RootOfSquares => sum.sqrt(),
                GradientNorm::SumOfNorms => sum,
            })
        };
        (0..self.dims.nodes()).map(norm).collect()
    }

    /// The norm of every node, `[nodes]`.
    fn norms(&self, gradients: &Gradients<B>, norm: GradientNorm) -> Tensor<B, 1> {
        let nodes = self.dims.nodes();
        let square_sum = |gradient: &Option<Tensor<B, 1>>| match gradient {
            Some(gradient) => B::sum_of_squares(gradient.clone()),
            None => Tensor::zeros([1], &self.device),
        };
        let squares = Tensor::cat(gradients.iter().skip(SHARED_TENSORS).map(square_sum).collect(), 0);
        let squares = squares.reshape([nodes, NODE_TENSORS]);
        let summands = match norm {
            GradientNorm::RootOfSquares => squares,
            GradientNorm::SumOfNorms => squares.sqrt(),
        };
        let sums = summands.sum_dim(1);
        let sums = match &self.below {
            Some(below) => below.clone().matmul(sums),
            None => sums,
        };
        let sums = sums.reshape([nodes]);
        match norm {
            GradientNorm::RootOfSquares => sums.sqrt(),
            GradientNorm::SumOfNorms => sums,
        }
    }

    /// Chooses by `norms` on the host.
    fn on_host(&self, norms: &[f64]) -> Factors<B> {
        let mut factors = vec![0.0; norms.len()];
        match self.update.update {
            UpdateRule::All => factors.fill(1.0),
            UpdateRule::TopK => {
                let k = self.update.top_k;
                let nodes = match self.update.selection {
                    SelectionWay::ReadsHeap => by_heap(norms, k),
                    _ => by_sorting(norms, k),
                };
                for node in nodes {
                    factors[node] = 1.0;
                }
            }
            UpdateRule::Path => {
                let mut node = 0;
                for level in 0..self.dims.depth {
                    factors[node] = self.scale(level);
                    // Of equal nodes the first, as on the device.
                    let child =
                        self.dims.children(node).max_by(|left, right| larger_first(norms, *left, *right).reverse());
                    node = child.unwrap_or(node);
                }
            }
        }
        if self.update.scope == NormScope::Subtree {
            // Parents come before their children.
            for node in 1..factors.len() {
                factors[node] *= self.dims.parent(node).map_or(1.0, |parent| factors[parent]);
            }
        }
        Factors::Host(factors)
    }

    /// Chooses nodes by `norms` `[nodes]` on the device; returns a factor for each node, `[nodes]`.
    fn on_device(&self, norms: &Tensor<B, 1>) -> Tensor<B, 1> {
        let nodes = self.dims.nodes();
        let branching = self.dims.branching;
        let is_subtree = self.update.scope == NormScope::Subtree;
        let choice = match self.update.update {
            UpdateRule::TopK => B::largest(norms.clone().reshape([1, nodes]), self.update.top_k).reshape([nodes]),
            UpdateRule::All | UpdateRule::Path => norms.ones_like(),
        };
        if self.update.update != UpdateRule::Path && !is_subtree {
            return choice;
        }
        let is_path = self.update.update == UpdateRule::Path;
        // Level by level, each a row for every parent: a mask of the path, and the factor.
        let mut path_mask = Tensor::ones([1, 1], &self.device);
        let mut factor = Tensor::ones([1, 1], &self.device);
        let mut parts = Vec::with_capacity(self.dims.depth);
        for (level, range) in self.dims.levels().into_iter().enumerate() {
            let parents = if level == 0 { 1 } else { range.len() / branching };
            let columns = range.len() / parents;
            let level_part =
                |tensor: &Tensor<B, 1>| tensor.clone().narrow(0, range.start, range.len()).reshape([parents, columns]);
            let own_factor = if is_path {
                let mask = B::largest(level_part(norms), 1) * path_mask.reshape([parents, 1]);
                path_mask = mask.clone().reshape([1, range.len()]);
                mask * self.scale(level)
            } else {
                level_part(&choice)
            };
            let product = if is_subtree { own_factor * factor.reshape([parents, 1]) } else { own_factor };
            factor = product.clone().reshape([1, range.len()]);
            parts.push(product.reshape([range.len()]));
        }
        Tensor::cat(parts, 0)
    }

    /// Factor of gradients on the path at a level, counted from the root.
    fn scale(&self, level: usize) -> f64 {
        PATH[(self.dims.depth - 1 - level).min(PATH.len() - 1)]
    }
}

/// Larger norms first, of equal ones the first node.
fn larger_first(norms: &[f64], left: usize, right: usize) -> Ordering {
    norms[right].total_cmp(&norms[left]).then(left.cmp(&right))
}

/// The `k` nodes with the largest norms, by sorting all of them.
fn by_sorting(norms: &[f64], k: usize) -> Vec<usize> {
    let mut nodes: Vec<usize> = (0..norms.len()).collect();
    nodes.sort_unstable_by(|left, right| larger_first(norms, *left, *right));
    nodes.truncate(k);
    nodes
}

/// Returns the `k` nodes with the largest norms, by a heap of the `k` largest so far.
fn by_heap(norms: &[f64], k: usize) -> Vec<usize> {
    /// Ordered by norm, of equal ones the first node being the larger.
    #[derive(PartialEq)]
    struct Entry(f64, Reverse<usize>);

    impl Eq for Entry {}

    impl Ord for Entry {
        fn cmp(&self, other: &Self) -> Ordering {
            self.0.total_cmp(&other.0).then(self.1.cmp(&other.1))
        }
    }

    impl PartialOrd for Entry {
        fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
            Some(self.cmp(other))
        }
    }

    let mut heap = BinaryHeap::with_capacity(k + 1);
    for (node, norm) in norms.iter().enumerate() {
        heap.push(Reverse(Entry(*norm, Reverse(node))));
        if heap.len() > k {
            heap.pop();
        }
    }
    heap.into_iter().map(|Reverse(Entry(_, Reverse(node)))| node).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heap_and_sorting_choose_alike() {
        let norms = [0.5, 2.0, 2.0, 0.1, 3.0, 2.0, f64::INFINITY, 0.0];
        for k in 1..=norms.len() {
            let (mut heap, mut sorted) = (by_heap(&norms, k), by_sorting(&norms, k));
            heap.sort_unstable();
            sorted.sort_unstable();
            assert_eq!(heap, sorted, "{k}");
        }
        assert_eq!(by_sorting(&norms, 4), [6, 4, 1, 2]);
    }
}
