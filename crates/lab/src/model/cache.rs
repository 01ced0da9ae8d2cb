//! The cache of past tokens for decoding.

use burn::tensor::{Tensor, backend::Backend};

/// Values of past tokens that a network keeps to compute the next position alone.
///
/// MLA keeps latent keys and values, which all heads share; reciprocal attention the queries that its band reaches;
/// cross-token aggregation its projected hidden numbers; the head gate a running sum.
#[derive(Debug)]
pub struct Cache<B: Backend> {
    /// Tokens seen.
    pub(crate) length: usize,
    pub(crate) blocks: Vec<BlockCache<B>>,
}

impl<B: Backend> Cache<B> {
    /// Nothing seen, by a network of `n_layer` blocks.
    pub fn new(n_layer: usize) -> Self {
        Self { length: 0, blocks: (0..n_layer).map(|_| BlockCache::default()).collect() }
    }

    /// Tokens seen.
    pub fn len(&self) -> usize {
        self.length
    }

    /// True if no token was seen.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Numbers kept, of all sequences.
    pub fn numbers(&self) -> usize {
        let count = |block: &BlockCache<B>| {
            let heads = [&block.keys, &block.values, &block.queries].into_iter().flatten();
            let rows = [&block.gathered, &block.pooled, &block.mass].into_iter().flatten();
            heads.map(|tensor| tensor.shape().num_elements()).sum::<usize>()
                + rows.map(|tensor| tensor.shape().num_elements()).sum::<usize>()
        };
        self.blocks.iter().map(count).sum()
    }
}

/// Cache of one block.
#[derive(Debug)]
pub(crate) struct BlockCache<B: Backend> {
    /// `[batch, heads or 1, seen, width]`.
    pub(crate) keys: Option<Tensor<B, 4>>,
    /// `[batch, heads or 1, seen, width]`.
    pub(crate) values: Option<Tensor<B, 4>>,
    /// The last queries, `[batch, heads, up to window + 1, width]`.
    pub(crate) queries: Option<Tensor<B, 4>>,
    /// Source of cross-token aggregation, `[batch, seen, width]`.
    pub(crate) gathered: Option<Tensor<B, 3>>,
    /// The sum of the head gate's input, `[batch, 1, width]`.
    pub(crate) pooled: Option<Tensor<B, 3>>,
    /// The attention that each key has had, `[batch * heads, 1, seen]`.
    pub(crate) mass: Option<Tensor<B, 3>>,
}

impl<B: Backend> Default for BlockCache<B> {
    fn default() -> Self {
        Self { keys: None, values: None, queries: None, gathered: None, pooled: None, mass: None }
    }
}

/// Appends `new` to the content of `buffer` along `dim`, and returns the whole content.
pub(crate) fn append<B: Backend, const D: usize>(
    buffer: &mut Option<Tensor<B, D>>,
    new: Tensor<B, D>,
    dim: usize,
) -> Tensor<B, D> {
    let content = match buffer.take() {
        Some(old_content) => Tensor::cat(vec![old_content, new], dim),
        None => new,
    };
    buffer.insert(content).clone()
}
