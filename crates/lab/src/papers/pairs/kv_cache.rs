//! `uses: pair/kv-cache`: attention token by token, with the keys and values of past tokens in a growing tensor, in a
//! preallocated one, or in pages.

use std::time::Instant;

use burn::tensor::{Tensor, activation::softmax, backend::Backend};
use sweep_job::tasks::{KvCache, KvCacheVariant};

use super::{Call, Contender, Left, flat, tensor};
use crate::{LabError, backend::Compute, measure};

/// Keys or values of one layer.
enum Kept<B: Backend> {
    /// `[batch, heads, seen, width]`.
    Growing(Option<Tensor<B, 4>>),
    /// `[batch, heads, length, width]`. There is never a second handle to it while it is written to, or it would be copied.
    Whole(Option<Tensor<B, 4>>),
    /// Each `[batch, heads, page, width]`.
    Pages(Vec<Tensor<B, 4>>),
}

/// Allocation of a cache.
#[derive(Debug, Clone, Copy)]
struct Room {
    batch: usize,
    heads: usize,
    width: usize,
    length: usize,
    page: usize,
}

impl<B: Backend> Kept<B> {
    fn new(variant: KvCacheVariant, room: Room, device: &B::Device) -> Self {
        match variant {
            KvCacheVariant::Concatenate => Self::Growing(None),
            KvCacheVariant::Preallocate => {
                Self::Whole(Some(Tensor::zeros([room.batch, room.heads, room.length, room.width], device)))
            }
            KvCacheVariant::Paged => Self::Pages(Vec::new()),
        }
    }

    /// Adds `new` `[batch, heads, 1, width]` at `position`; pages come from `free`, or are new.
    fn add(&mut self, new: Tensor<B, 4>, position: usize, room: Room, free: &mut Vec<Tensor<B, 4>>) {
        let put = |kept: Tensor<B, 4>, place: usize, new: Tensor<B, 4>| {
            kept.slice_assign([0..room.batch, 0..room.heads, place..place + 1, 0..room.width], new)
        };
        match self {
            Self::Growing(kept) => {
                *kept = Some(match kept.take() {
                    Some(before) => Tensor::cat(vec![before, new], 2),
                    None => new,
                });
            }
            Self::Whole(kept) => *kept = kept.take().map(|kept| put(kept, position, new)),
            Self::Pages(pages) => {
                let place = position % room.page;
                let page = if place == 0 { free.pop() } else { pages.pop() };
                let page = page
                    .unwrap_or_else(|| Tensor::zeros([room.batch, room.heads, room.page, room.width], &new.device()));
                pages.push(put(page, place, new));
            }
        }
    }

    /// The tokens up to `seen` in pieces.
    fn pieces(&self, seen: usize, room: Room) -> Vec<Tensor<B, 4>> {
        match self {
            Self::Growing(kept) => kept.iter().cloned().collect(),
            Self::Whole(kept) => kept.iter().map(|kept| kept.clone().narrow(2, 0, seen)).collect(),
            Self::Pages(pages) => {
                let piece = |(index, page): (usize, &Tensor<B, 4>)| {
                    let used = room.page.min(seen - index * room.page);
                    if used == room.page { page.clone() } else { page.clone().narrow(2, 0, used) }
                };
                pages.iter().enumerate().map(piece).collect()
            }
        }
    }
}

/// Attention of `query` `[batch, heads, 1, width]` to keys and values that lie in pieces.
fn attend<B: Backend>(
    query: &Tensor<B, 4>,
    keys: Vec<Tensor<B, 4>>,
    values: Vec<Tensor<B, 4>>,
) -> Option<Tensor<B, 4>> {
    #[expect(clippy::cast_precision_loss, reason = "a width")]
    let scale = (query.dims()[3] as f32).sqrt().recip();
    let scores = keys.into_iter().map(|keys| query.clone().matmul(keys.swap_dims(2, 3)) * scale).collect();
    let weights = softmax(Tensor::cat(scores, 3), 3);
    let mut place = 0;
    let parts = values.into_iter().map(|values| {
        let length = values.dims()[2];
        place += length;
        weights.clone().narrow(3, place - length, length).matmul(values)
    });
    parts.reduce(|sum, part| sum + part)
}

impl Contender for KvCache {
    fn reference(&self) -> Self {
        Self { variant: KvCacheVariant::Concatenate, ..self.clone() }
    }

    fn ready<'a, B: Compute>(&'a self, seed: u64, device: &'a B::Device) -> Result<Call<'a, B>, LabError> {
        let Self { batch_size: batch, n_layer, n_head: heads, head_dim: width, length, page, .. } = *self;
        let room = Room { batch, heads, width, length, page };
        let [q, k, v] =
            ["q", "k", "v"].map(|name| tensor::<B, 4>(seed, name, 0, [batch, heads, length, width], 1.0, device));
        let mut free = Vec::new();
        Ok(Box::new(move |meter| {
            let mut layers: Vec<[Kept<B>; 2]> =
                (0..n_layer).map(|_| [(); 2].map(|()| Kept::new(self.variant, room, device))).collect();
            let mut outputs = Vec::with_capacity(length);
            let mut times = Vec::with_capacity(length);
            for position in 0..length {
                let started = Instant::now();
                let now = |all: &Tensor<B, 4>| all.clone().narrow(2, position, 1);
                let (k, v) = (now(&k), now(&v));
                let mut x = now(&q);
                for [keys, values] in &mut layers {
                    keys.add(k.clone(), position, room, &mut free);
                    values.add(v.clone(), position, room, &mut free);
                    let pieces = |kept: &Kept<B>| kept.pieces(position + 1, room);
                    x = attend(&x, pieces(keys), pieces(values)).unwrap_or(x);
                }
                B::sync(device)?;
                times.push(started.elapsed().as_secs_f64());
                outputs.push(x);
            }
            let quarter = length / 4;
            let mut ends = [times[..quarter].to_vec(), times[length - quarter..].to_vec()];
            for (metric, times) in [&KvCache::TIME_TOKEN_FIRST, &KvCache::TIME_TOKEN_LAST].into_iter().zip(&mut ends) {
                meter.tell(metric, measure::median(times).unwrap_or(f64::NAN));
            }
            meter.tell(&KvCache::TIME_TOKEN, measure::median(&mut times).unwrap_or(f64::NAN));
            for kept in layers.into_iter().flatten() {
                if let Kept::Pages(pages) = kept {
                    free.extend(pages);
                }
            }
            Ok(Left::Device(flat(Tensor::cat(outputs, 2))))
        }))
    }
}
