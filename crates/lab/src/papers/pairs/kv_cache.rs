//! `uses: pair/kv-cache`: attention token by token for several requests, with the keys and values of past tokens in a growing
//! tensor, in a preallocated one, or in pages that all requests share.

use std::time::Instant;

use burn::tensor::{Tensor, TensorData, activation::softmax, backend::Backend};
use sweep_job::{
    Outcome,
    tasks::{KvCache, KvCacheVariant},
};

use super::{Call, Contender, Left, Meter, flat, tensor};
use crate::{
    LabError,
    backend::{Compute, sync},
    measure::{self, heap},
    ops::Ops,
};

/// Keys or values of one layer.
enum Kept<B: Backend> {
    /// `[batch, heads, seen, width]`.
    Growing(Option<Tensor<B, 4>>),
    /// `[batch, heads, capacity, width]`. There is never a second handle to it while it is written to, or it would be copied.
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
    capacity: usize,
    page: usize,
}

impl<B: Ops> Kept<B> {
    fn new(variant: KvCacheVariant, room: Room, device: &B::Device) -> Self {
        match variant {
            KvCacheVariant::Concatenate => Self::Growing(None),
            KvCacheVariant::Preallocate => {
                Self::Whole(Some(owned([room.batch, room.heads, room.capacity, room.width], device)))
            }
            KvCacheVariant::Paged => Self::Pages(Vec::new()),
        }
    }

    /// Adds `new` `[batch, heads, 1, width]` at `position`; pages come from `free_pages`, or are new.
    fn add(&mut self, new: Tensor<B, 4>, position: usize, room: Room, free_pages: &mut Vec<Tensor<B, 4>>) {
        match self {
            Self::Growing(cache) => {
                *cache = Some(match cache.take() {
                    Some(earlier_tokens) => Tensor::cat(vec![earlier_tokens, new], 2),
                    None => new,
                });
            }
            Self::Whole(cache) => *cache = cache.take().map(|cache| B::put_token(cache, position, new)),
            Self::Pages(pages) => {
                let place = position % room.page;
                let page = if place == 0 { free_pages.pop() } else { pages.pop() };
                let page =
                    page.unwrap_or_else(|| owned([room.batch, room.heads, room.page, room.width], &new.device()));
                pages.push(B::put_token(page, place, new));
            }
        }
    }

    /// The tokens up to `token_count` in pieces.
    fn pieces(&self, token_count: usize, room: Room) -> Vec<Tensor<B, 4>> {
        match self {
            Self::Growing(cache) => cache.iter().cloned().collect(),
            Self::Whole(cache) => cache.iter().map(|cache| cache.clone().narrow(2, 0, token_count)).collect(),
            Self::Pages(pages) => {
                let piece = |(index, page): (usize, &Tensor<B, 4>)| {
                    let length = room.page.min(token_count - index * room.page);
                    if length == room.page { page.clone() } else { page.clone().narrow(2, 0, length) }
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

/// Zeros with allocated memory. A constant may have no memory until it is written to.
fn owned<B: Backend>(shape: [usize; 4], device: &B::Device) -> Tensor<B, 4> {
    Tensor::from_data(TensorData::zeros::<f32, _>(shape), device)
}

/// The caches of all layers of a request: keys and values.
type Caches<B> = Vec<[Kept<B>; 2]>;

struct Request<B: Backend> {
    /// Queries, keys and values of all its tokens, which are the same in all layers.
    given: [Tensor<B, 4>; 3],
    /// Its tokens.
    length: usize,
}

/// Outputs and times of decoding.
struct Decoded<B: Backend> {
    caches: Vec<Caches<B>>,
    /// By request, then by token.
    outputs: Vec<Vec<Tensor<B, 4>>>,
    /// Seconds of each token of each request, in order.
    times: Vec<f64>,
}

/// The tokens of request `index`.
fn tokens(pair: &KvCache, index: usize) -> usize {
    (pair.length * (pair.requests - index) / pair.requests).max(1)
}

fn room(pair: &KvCache) -> Room {
    let KvCache { batch_size: batch, n_head: heads, head_dim: width, length, page, capacity, .. } = *pair;
    Room { batch, heads, width, capacity: capacity.unwrap_or(length), page }
}

fn requests<B: Compute>(pair: &KvCache, seed: u64, device: &B::Device) -> Vec<Request<B>> {
    let request = |index| {
        let length = tokens(pair, index);
        let shape = [pair.batch_size, pair.n_head, length, pair.head_dim];
        Request { given: ["q", "k", "v"].map(|name| tensor::<B, 4>(seed, name, index, shape, 1.0, device)), length }
    };
    (0..pair.requests).map(request).collect()
}

/// Decodes all requests, token by token.
fn decode<B: Compute>(
    pair: &KvCache,
    requests: &[Request<B>],
    free_pages: &mut Vec<Tensor<B, 4>>,
    device: &B::Device,
) -> Result<Decoded<B>, LabError> {
    let room = room(pair);
    let layer = || [(); 2].map(|()| Kept::new(pair.variant, room, device));
    let mut caches: Vec<Caches<B>> = requests.iter().map(|_| (0..pair.n_layer).map(|_| layer()).collect()).collect();
    let mut outputs: Vec<Vec<_>> = requests.iter().map(|request| Vec::with_capacity(request.length)).collect();
    let mut times = Vec::new();
    for position in 0..pair.length {
        for (index, request) in requests.iter().enumerate().filter(|(_, request)| position < request.length) {
            let start = Instant::now();
            let [mut x, k, v] = request.given.each_ref().map(|tensor| tensor.clone().narrow(2, position, 1));
            for [keys, values] in &mut caches[index] {
                keys.add(k.clone(), position, room, free_pages);
                values.add(v.clone(), position, room, free_pages);
                let pieces = |cache: &Kept<B>| cache.pieces(position + 1, room);
                x = attend(&x, pieces(keys), pieces(values)).unwrap_or(x);
            }
            B::sync(device)?;
            times.push(start.elapsed().as_secs_f64());
            outputs[index].push(x);
        }
    }
    Ok(Decoded { caches, outputs, times })
}

impl Contender for KvCache {
    fn reference(&self) -> Self {
        Self { variant: KvCacheVariant::Concatenate, ..self.clone() }
    }

    fn ready<'a, B: Compute>(&'a self, seed: u64, device: &'a B::Device) -> Result<Call<'a, B>, LabError> {
        let requests = requests::<B>(self, seed, device);
        let mut free_pages = Vec::new();
        Ok(Box::new(move |meter: &mut Meter| {
            let Decoded { caches, outputs, mut times } = decode(self, &requests, &mut free_pages, device)?;
            let quarter = times.len() / 4;
            let mut ends = [times[..quarter].to_vec(), times[times.len() - quarter..].to_vec()];
            for (metric, times) in [&KvCache::TIME_TOKEN_FIRST, &KvCache::TIME_TOKEN_LAST].into_iter().zip(&mut ends) {
                meter.tell(metric, measure::median(times).unwrap_or(f64::NAN));
            }
            meter.tell(&KvCache::TIME_TOKEN, measure::median(&mut times).unwrap_or(f64::NAN));
            for cache in caches.into_iter().flatten().flatten() {
                if let Kept::Pages(pages) = cache {
                    free_pages.extend(pages);
                }
            }
            let outputs = outputs.into_iter().map(|outputs| flat(Tensor::cat(outputs, 2))).collect();
            Ok(Left::Device(Tensor::cat(outputs, 0)))
        }))
    }

    fn further<B: Compute>(&self, seed: u64, device: &B::Device, outcome: &mut Outcome) -> Result<(), LabError> {
        let requests = requests::<B>(self, seed, device);
        let decode_caches =
            || -> Result<Vec<Caches<B>>, LabError> { Ok(decode(self, &requests, &mut Vec::new(), device)?.caches) };
        sync::<B>(device)?;
        let start_memory = B::device_memory(device);
        let (caches, heap) = heap::counted(decode_caches);
        let caches = caches?;
        sync::<B>(device)?;
        let cache_bytes = match start_memory.zip(B::device_memory(device)) {
            Some((start_memory, end_memory)) => Some(end_memory.in_use.saturating_sub(start_memory.in_use) as f64),
            None => heap.map(|heap| heap.kept as f64),
        };
        drop(caches);
        if let Some(bytes) = cache_bytes {
            let tokens: usize = requests.iter().map(|request| request.length).sum();
            let numbers = 2 * self.batch_size * self.n_layer * self.n_head * self.head_dim * tokens;
            outcome.set(&KvCache::MEMORY_CACHE, bytes);
            outcome.set(&KvCache::CACHE_USED, (numbers * size_of::<f32>()) as f64 / bytes);
        }
        Ok(())
    }
}
