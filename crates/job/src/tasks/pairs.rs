//! `uses: pair/…`: the pairs of paper 004's chapter 13. Each task does one thing in several ways, of which one is the
//! baseline; all get the same inputs and must give the same output.

use super::Checkpointing;
use crate::{
    Conflict, Group, MetricInfo, Param, Task, Unit, Values,
    params::{choice, params},
};

params! {
    /// How a pair is measured.
    pub struct Protocol {
        /// Calls that are not timed, before those that are.
        warmups: usize = 5, in 5..=100_000;
        /// Timed calls.
        calls: usize = 20, in 1..=1_000_000;
        /// Seed of inputs and weights.
        seed: u64 = 0, in 0..=9_007_199_254_740_991_i64;
        /// Whether to keep what five further calls did, and when, as the artifact `trace`: trace-event JSON, which Perfetto
        /// opens.
        trace: bool = false;
    }
}

/// One thing that can be done in several ways.
#[derive(Debug, Clone, PartialEq)]
pub struct Pair {
    /// How it is measured.
    pub protocol: Protocol,
    /// What is measured.
    pub way: Way,
}

/// The things, each with its way and its sizes.
#[derive(Debug, Clone, PartialEq)]
#[expect(missing_docs, reason = "each has the name of its parameters")]
pub enum Way {
    Accumulation(Accumulation),
    Activations(Activations),
    Allocator(Allocator),
    Attention(Attention),
    Autograd(Autograd),
    Bandwidth(Bandwidth),
    Checkpoints(Checkpoints),
    Dataloader(Dataloader),
    Intensity(Intensity),
    KvCache(KvCache),
    Leak(Leak),
    Matmul(Matmul),
    NumberFormat(NumberFormat),
    Regional(Regional),
    Sharding(Sharding),
}

impl Pair {
    /// The name of the artifact that `trace` keeps.
    pub const TRACE: &'static str = "trace";
}

/// The declaration of a pair's task.
pub(crate) trait Declared: Group {
    /// What `uses` says.
    const NAME: &'static str;
    /// What it does.
    const ABOUT: &'static str;
    /// What it measures.
    const METRICS: &'static [MetricInfo];
    /// Its parameters.
    const GROUPS: &'static [&'static [Param]] = &[Self::PARAMS, Protocol::PARAMS];

    /// As one of all.
    fn into_way(self) -> Way;

    /// What is wrong with the parameters taken together.
    fn conflicts(&self) -> Vec<Conflict> {
        Vec::new()
    }

    /// The task, from checked values.
    fn task(values: &Values) -> Option<Task> {
        let protocol = Protocol::from_values(values)?;
        Some(Task::Pair(Pair { protocol, way: Self::from_values(values)?.into_way() }))
    }
}

const fn info(name: &'static str, unit: Unit, doc: &'static str) -> MetricInfo {
    MetricInfo { name, unit, doc }
}

/// What every pair measures, and more.
macro_rules! declared {
    ($group:ident, $way:ident, $name:literal, $about:literal, [$($own:expr),* $(,)?] $(, $conflicts:expr)?) => {
        impl Declared for $group {
            const NAME: &'static str = $name;
            const ABOUT: &'static str = $about;
            const METRICS: &'static [MetricInfo] = &[
                info("time.call", Unit::Seconds, "median time of a call"),
                info("time.call.mean", Unit::Seconds, "mean time of a call"),
                info("time.call.std", Unit::Seconds, "standard deviation of the times of calls"),
                info("time.call.iqr", Unit::Seconds, "distance of the quartiles of the times of calls"),
                info("time.call.p75", Unit::Seconds, "time below which 75 % of the calls lie"),
                info("time.first", Unit::Seconds, "mean time of the first four calls, before any warm-up"),
                info(
                    "memory.call",
                    Unit::Bytes,
                    "the most that the first call on its inputs needs beyond what was there before: of the heap, counted, or \
                     what the device's allocator has taken from the driver",
                ),
                info("allocations", Unit::Count, "allocations on the heap in that call"),
                info("memory.peak", Unit::Bytes, "largest resident memory of the worker process"),
                info(
                    "error.output",
                    Unit::Fraction,
                    "largest difference of the first call's output from the baseline's, over the largest number there",
                ),
                info("error.allowed", Unit::Fraction, "what `error.output` may be; with more the job fails"),
                $($own),*
            ];

            fn into_way(self) -> Way {
                Way::$way(self)
            }

            $(fn conflicts(&self) -> Vec<Conflict> {
                let conflicts: fn(&Self) -> Vec<Conflict> = $conflicts;
                conflicts(self)
            })?
        }
    };
}

fn conflict(params: Vec<&'static str>, message: String, advice: &str) -> Conflict {
    Conflict { params, message, advice: advice.to_owned() }
}

const FLOPS: MetricInfo = info("compute.flops", Unit::FlopsPerSecond, "floating-point operations a second");

choice! {
    /// How batches are prepared.
    pub enum DataloaderVariant {
        /// By the training itself, each when it is needed.
        Sync = "sync",
        /// By threads that are started anew for every epoch.
        Workers = "workers",
        /// By threads that stay from one epoch to the next, and prepare its first batches meanwhile.
        Persistent = "persistent",
    }
}

params! {
    /// Training on samples that have to be prepared. A call is an epoch.
    pub struct Dataloader {
        /// How batches are prepared; the baseline is `sync`.
        variant: DataloaderVariant = DataloaderVariant::Sync;
        /// Threads that prepare batches, except with `sync`.
        workers: usize = 2, in 1..=256;
        /// Batches that each of them may have waiting.
        prefetch: usize = 2, in 1..=1024;
        /// Samples of an epoch.
        samples: usize = 512, in 1..=10_000_000;
        /// Numbers of a sample.
        width: usize = 256, in 1..=65_536;
        /// Rounds of preparation: `x ← tanh(1.1 x) + sin(0.5 x)`, less its mean.
        rounds: usize = 16, in 0..=10_000;
        /// Samples of a batch.
        batch_size: usize = 64, in 1..=1_000_000;
        /// Hidden width of the MLP that is trained.
        hidden: usize = 128, in 1..=65_536;
    }
}

declared!(
    Dataloader,
    Dataloader,
    "pair/dataloader",
    "trains on samples that are prepared by the training itself or by threads ahead of it; the same batches in the same order",
    [info("time.data", Unit::Seconds, "time that a call waits for batches")]
);

choice! {
    /// How memory is read.
    pub enum BandwidthVariant {
        /// With a stride, around the end.
        Strided = "strided",
        /// In its order.
        Contiguous = "contiguous",
    }
}

params! {
    /// `c[j] = (a[j] + b[j]) / 2` for every `j`, in two orders.
    pub struct Bandwidth {
        /// In which order; the baseline is `strided`.
        variant: BandwidthVariant = BandwidthVariant::Strided;
        /// Numbers of each array.
        numbers: usize = 4_194_304, in 1..=1_073_741_824;
        /// Distance of one number from the next.
        stride: usize = 8191, in 1..=1_073_741_824;
        /// Passes over all numbers in a call.
        passes: usize = 2, in 1..=10_000;
    }
}

declared!(
    Bandwidth,
    Bandwidth,
    "pair/bandwidth",
    "reads and writes memory with a stride or in its order; a loop of its own on the CPU, Burn's `select` on GPUs",
    [
        info("bandwidth", Unit::BytesPerSecond, "bytes that have to be read and written a second"),
        info("peak.bandwidth", Unit::BytesPerSecond, "bytes that a copy reads and writes a second"),
        info("peak.ratio", Unit::Fraction, "`bandwidth` over `peak.bandwidth`"),
    ],
    |pair| {
        let (mut a, mut b) = (pair.numbers, pair.stride);
        while b > 0 {
            (a, b) = (b, a % b);
        }
        if a == 1 {
            return Vec::new();
        }
        let message = format!("a stride of {} does not reach all of {} numbers", pair.stride, pair.numbers);
        vec![conflict(vec!["stride", "numbers"], message, "choose an odd `stride` and a power of 2 for `numbers`")]
    }
);

choice! {
    /// Formats of weights, activations and gradients.
    pub enum FormatVariant {
        /// All in single precision.
        F32 = "f32",
        /// Matrix products in bfloat16, all else in single precision.
        Mixed = "mixed",
        /// All in bfloat16, but the weights that are updated.
        Bf16 = "bf16",
        /// All in half precision, but the weights that are updated.
        F16 = "f16",
    }
}

params! {
    /// Training an MLP by SGD. A call is a step.
    pub struct NumberFormat {
        /// In which format; the baseline is `f32`.
        variant: FormatVariant = FormatVariant::F32;
        /// Width of inputs and outputs.
        width: usize = 256, in 1..=65_536;
        /// Hidden width.
        hidden: usize = 512, in 1..=65_536;
        /// Rows of a micro-batch.
        batch_size: usize = 128, in 1..=1_000_000;
        /// Micro-batches of a step.
        micro_batches: usize = 4, in 1..=10_000;
    }
}

declared!(
    NumberFormat,
    NumberFormat,
    "pair/precision",
    "trains an MLP in single, mixed and half precision",
    [info("loss", Unit::One, "loss of the first call: mean squared error")]
);

params! {
    /// The forward and backward pass of a GPT-2.
    pub struct Checkpoints {
        /// What is computed again; the baseline is `off`.
        variant: Checkpointing = Checkpointing::Off;
        /// Blocks.
        n_layer: usize = 8, in 1..=1024;
        /// Attention heads; must divide `d_model`.
        n_head: usize = 4, in 1..=1024;
        /// Width of the residual stream.
        d_model: usize = 128, in 1..=65_536;
        /// Tokens of a sequence.
        block_size: usize = 128, in 1..=16_384, unit "tokens";
        /// Rows of the token table.
        vocab_size: usize = 256, in 2..=1_000_000;
        /// Sequences.
        batch_size: usize = 4, in 1..=1_000_000, unit "sequences";
    }
}

declared!(
    Checkpoints,
    Checkpoints,
    "pair/training",
    "trains a GPT-2 that keeps its activations or computes them again",
    [info("loss", Unit::Nats, "loss of the first call")],
    |pair| {
        if pair.d_model.is_multiple_of(pair.n_head) {
            return Vec::new();
        }
        let message = format!("d_model {} is not a multiple of n_head {}", pair.d_model, pair.n_head);
        vec![conflict(vec!["n_head", "d_model"], message, "choose a `d_model` that the heads can share")]
    }
);

params! {
    /// A matrix product in tiles of the inner dimension.
    pub struct Intensity {
        /// Columns of A that are multiplied at a time, each result added to C; 0 multiplies all at once.
        k_tile: usize = 0, in 0..=65_536;
        /// Rows and columns.
        size: usize = 512, in 1..=65_536;
    }
}

declared!(
    Intensity,
    Intensity,
    "pair/arithmetic-intensity",
    "multiplies matrices whole or in tiles that read and write the result again",
    [
        FLOPS,
        info("intensity", Unit::One, "operations for each byte that has to be read and written"),
        info("peak.compute", Unit::FlopsPerSecond, "floating-point operations a second of a large product"),
        info("peak.bandwidth", Unit::BytesPerSecond, "bytes that a copy reads and writes a second"),
    ],
    |pair| {
        if pair.k_tile == 0 || pair.size.is_multiple_of(pair.k_tile) {
            return Vec::new();
        }
        let message = format!("{} columns are no whole number of tiles of {}", pair.size, pair.k_tile);
        vec![conflict(vec!["k_tile", "size"], message, "choose a `k_tile` that divides `size`")]
    }
);

choice! {
    /// What the backward pass of an MLP gets.
    pub enum ActivationsVariant {
        /// What the forward pass has kept.
        Kept = "kept",
        /// The hidden activations computed again.
        Recomputed = "recomputed",
    }
}

params! {
    /// The forward and backward pass of an MLP with one hidden layer.
    pub struct Activations {
        /// What the backward pass gets; the baseline is `kept`.
        variant: ActivationsVariant = ActivationsVariant::Kept;
        /// Width of inputs and outputs.
        width: usize = 256, in 1..=65_536;
        /// Hidden width.
        hidden: usize = 512, in 1..=65_536;
        /// Rows of the batch.
        batch_size: usize = 32, in 1..=1_000_000;
    }
}

declared!(
    Activations,
    Activations,
    "pair/memory-profiling",
    "keeps the hidden activations of an MLP for the backward pass, or computes them again",
    [info("memory.activations", Unit::Bytes, "what the hidden activations take")]
);

choice! {
    /// What leaks.
    pub enum LeakPattern {
        /// Tensors that are put into a list.
        Tensors = "tensors",
        /// Losses that are summed with their graphs, instead of as numbers after their backward pass.
        Losses = "losses",
        /// Inference that notes a graph.
        Inference = "inference",
    }
}

choice! {
    /// Whether it does.
    pub enum LeakVariant {
        /// It leaks.
        Leaking = "leaking",
        /// What is not needed any more is dropped.
        Fixed = "fixed",
    }
}

params! {
    /// Iterations after each of which memory should be as before.
    pub struct Leak {
        /// Whether it leaks; the baseline does.
        variant: LeakVariant = LeakVariant::Leaking;
        /// What leaks.
        pattern: LeakPattern = LeakPattern::Tensors;
        /// Iterations of a call.
        iterations: usize = 20, in 2..=100_000;
        /// Rows and columns of the tensors.
        width: usize = 256, in 1..=65_536;
    }
}

declared!(
    Leak,
    Leak,
    "pair/leak",
    "repeats something that leaks memory, and the same without the leak",
    [info(
        "memory.slope",
        Unit::Bytes,
        "what an iteration leaves behind: slope of the bytes in use over the iterations"
    )]
);

choice! {
    /// How attention is computed.
    pub enum AttentionVariant {
        /// All scores, then all probabilities, then the result.
        Naive = "naive",
        /// Block by block, with a running softmax.
        Flash = "flash",
    }
}

params! {
    /// Attention over whole sequences, without a mask, for inference.
    pub struct Attention {
        /// How it is computed; the baseline is `naive`.
        variant: AttentionVariant = AttentionVariant::Naive;
        /// Sequences.
        batch_size: usize = 1, in 1..=65_536, unit "sequences";
        /// Heads.
        n_head: usize = 4, in 1..=1024;
        /// Tokens of a sequence.
        length: usize = 1536, in 4..=1_048_576, unit "tokens";
        /// Width of a head.
        head_dim: usize = 64, in 1..=1024;
    }
}

declared!(
    Attention,
    Attention,
    "pair/attention",
    "computes attention with all scores in memory, or block by block",
    [info(
        "memory.exponent",
        Unit::One,
        "slope of log `memory.call` over log `length`, from calls with half, three quarters and all of the tokens",
    )]
);

choice! {
    /// Where keys and values are kept.
    pub enum KvCacheVariant {
        /// In a tensor that is copied to a longer one for every token.
        Concatenate = "concatenate",
        /// In a tensor that has room for all tokens from the beginning.
        Preallocate = "preallocate",
        /// In pages that are taken when they are needed.
        Paged = "paged",
    }
}

params! {
    /// Attention, token by token, with a cache. A call decodes a sequence.
    pub struct KvCache {
        /// Where keys and values are kept; the baseline is `concatenate`.
        variant: KvCacheVariant = KvCacheVariant::Concatenate;
        /// Sequences.
        batch_size: usize = 1, in 1..=65_536, unit "sequences";
        /// Layers.
        n_layer: usize = 2, in 1..=1024;
        /// Heads.
        n_head: usize = 4, in 1..=1024;
        /// Width of a head.
        head_dim: usize = 64, in 1..=1024;
        /// Tokens that are decoded.
        length: usize = 256, in 4..=1_048_576, unit "tokens";
        /// Tokens of a page.
        page: usize = 64, in 1..=65_536, unit "tokens";
    }
}

declared!(
    KvCache,
    KvCache,
    "pair/kv-cache",
    "decodes token by token with keys and values in a growing tensor, in one with room for all, or in pages",
    [
        info("time.token", Unit::Seconds, "median time of a token"),
        info("time.token.first", Unit::Seconds, "median time of a token of the first quarter"),
        info("time.token.last", Unit::Seconds, "median time of a token of the last quarter"),
    ]
);

choice! {
    /// How matrices are multiplied.
    pub enum MatmulVariant {
        /// Three loops over rows, columns and the inner dimension; on the CPU only.
        Naive = "naive",
        /// The same in tiles that stay in the cache, on all cores; on the CPU only.
        Tiled = "tiled",
        /// The backend's product, then each operation of the epilogue by itself.
        Library = "library",
        /// The same with the epilogue in one pass: a loop on the CPU, Burn's fusion on GPUs.
        Fused = "fused",
    }
}

params! {
    /// `((A B + bias)₊ + residual) · 0.125`.
    pub struct Matmul {
        /// How; the baseline is `library`.
        variant: MatmulVariant = MatmulVariant::Library;
        /// Rows and columns of all five matrices.
        size: usize = 512, in 1..=65_536;
    }
}

declared!(
    Matmul,
    Matmul,
    "pair/matmul",
    "multiplies matrices by loops, by tiles, or by the library, with an epilogue",
    [FLOPS]
);

choice! {
    /// Where memory comes from.
    pub enum AllocatorVariant {
        /// The system's allocator, and back to it.
        System = "system",
        /// A pool of freed blocks by size class, powers of two.
        Pool = "pool",
    }
}

params! {
    /// Taking, touching and giving back blocks of memory of the host.
    pub struct Allocator {
        /// Where it comes from; the baseline is `system`.
        variant: AllocatorVariant = AllocatorVariant::System;
        /// Blocks of a call, taken and given back one after the other.
        blocks: usize = 1000, in 1..=10_000_000;
        /// Smallest size of a block, in bytes.
        least: usize = 524_288, in 1..=1_073_741_824, unit "B";
        /// Largest size of a block, in bytes.
        most: usize = 1_048_576, in 1..=1_073_741_824, unit "B";
    }
}

declared!(
    Allocator,
    Allocator,
    "pair/allocator",
    "takes and gives back memory of the host, from the system or from a pool",
    [
        info("hit_rate", Unit::Fraction, "part of the blocks that the pool had"),
        info("efficiency", Unit::Fraction, "bytes asked for over bytes given"),
    ],
    |pair| {
        if pair.least <= pair.most {
            return Vec::new();
        }
        let message = format!("no block has at least {} and at most {} bytes", pair.least, pair.most);
        vec![conflict(vec!["least", "most"], message, "exchange the two")]
    }
);

choice! {
    /// How gradients are accumulated.
    pub enum AccumulationVariant {
        /// The losses are summed, and one backward pass goes through all their graphs.
        OneGraph = "one_graph",
        /// Every micro-batch has its backward pass, and its gradients are added.
        Each = "each",
    }
}

params! {
    /// The gradients of an MLP over several micro-batches.
    pub struct Accumulation {
        /// How they are accumulated; the baseline is `one_graph`.
        variant: AccumulationVariant = AccumulationVariant::OneGraph;
        /// Micro-batches.
        micro_batches: usize = 8, in 1..=10_000;
        /// Rows of a micro-batch.
        batch_size: usize = 256, in 1..=1_000_000;
        /// Width of all layers.
        width: usize = 128, in 1..=65_536;
        /// Layers.
        n_layer: usize = 4, in 1..=1024;
    }
}

declared!(
    Accumulation,
    Accumulation,
    "pair/accumulation",
    "accumulates gradients with the graphs of all micro-batches kept, or one at a time",
    []
);

choice! {
    /// Where weights, gradients and moments are.
    pub enum ShardingVariant {
        /// All on the device.
        Whole = "whole",
        /// A part of each with every rank, which gathers one layer's weights at a time.
        Sharded = "sharded",
        /// Weights and gradients on the device, moments on the host.
        Offloaded = "offloaded",
    }
}

params! {
    /// A step of Adam on a stack of square layers. Ranks are logical: one device does the work of all, one after the other.
    pub struct Sharding {
        /// Where weights, gradients and moments are; the baseline is `whole`.
        variant: ShardingVariant = ShardingVariant::Whole;
        /// Ranks that share with `sharded`.
        shards: usize = 4, in 1..=4096;
        /// Layers.
        n_layer: usize = 8, in 1..=1024;
        /// Width of all layers.
        width: usize = 256, in 1..=65_536;
        /// Rows of the batch.
        batch_size: usize = 16, in 1..=1_000_000;
    }
}

declared!(
    Sharding,
    Sharding,
    "pair/sharding",
    "makes a step of Adam with everything on the device, a shard of it with each logical rank, or the moments on the host",
    [
        info("memory.state", Unit::Bytes, "weights, gradients and moments on the device, measured; of one rank"),
        info("memory.model", Unit::Bytes, "the same as counted on paper: 16 bytes for each weight, over the ranks"),
        info("bytes.gathered", Unit::Bytes, "weights that ranks get from others, or moments that move, in a call"),
    ],
    |pair| {
        if (pair.width * pair.width).is_multiple_of(pair.shards) {
            return Vec::new();
        }
        let message = format!("{} ranks cannot share the {} weights of a layer", pair.shards, pair.width * pair.width);
        vec![conflict(vec!["shards", "width"], message, "choose a power of 2 for both")]
    }
);

choice! {
    /// How operations become kernels.
    pub enum FusingVariant {
        /// One by one.
        Eager = "eager",
        /// Runs of them fused into one, by Burn, on GPUs.
        Fused = "fused",
    }
}

params! {
    /// A training step of an MLP: forward and backward pass, and SGD.
    pub struct Autograd {
        /// How operations become kernels; the baseline is `eager`. The CPU has no kernels to fuse.
        variant: FusingVariant = FusingVariant::Eager;
        /// Width of inputs and outputs.
        width: usize = 256, in 1..=65_536;
        /// Hidden width.
        hidden: usize = 512, in 1..=65_536;
        /// Rows of the batch.
        batch_size: usize = 16, in 1..=1_000_000;
    }
}

declared!(Autograd, Autograd, "pair/autograd", "makes training steps with operations one by one, or fused", []);

choice! {
    /// How a network meets sequences of changing length.
    pub enum RegionalVariant {
        /// Operations one by one, at their lengths.
        Eager = "eager",
        /// Operations fused, at their lengths: every new length is compiled and tuned.
        Fused = "fused",
        /// Operations fused, every sequence padded to the longest: one length is compiled.
        Padded = "padded",
    }
}

params! {
    /// A transformer block that meets sequences of changing length, for inference. A call is one sequence.
    pub struct Regional {
        /// How it meets them; the baseline is `fused`. The CPU compiles nothing, so there `fused` is `eager`.
        variant: RegionalVariant = RegionalVariant::Fused;
        /// Width of the residual stream.
        d_model: usize = 128, in 1..=65_536;
        /// Attention heads; must divide `d_model`.
        n_head: usize = 4, in 1..=1024;
        /// Hidden width of the MLP.
        hidden: usize = 512, in 1..=262_144;
        /// Sequences.
        batch_size: usize = 2, in 1..=65_536, unit "sequences";
        /// The longest sequence; the lengths go round a quarter, half, three quarters and all of it.
        length: usize = 128, in 4..=1_048_576, unit "tokens";
    }
}

declared!(
    Regional,
    Regional,
    "pair/regional-compile",
    "runs a transformer block on sequences of changing length, compiled for each of them or for one",
    [],
    |pair| {
        let mut conflicts = Vec::new();
        if !pair.d_model.is_multiple_of(pair.n_head) {
            let message = format!("d_model {} is not a multiple of n_head {}", pair.d_model, pair.n_head);
            conflicts.push(conflict(vec!["n_head", "d_model"], message, "choose a `d_model` that the heads can share"));
        }
        if !pair.length.is_multiple_of(4) {
            let message = format!("a length of {} has no quarters", pair.length);
            conflicts.push(conflict(vec!["length"], message, "choose a multiple of 4"));
        }
        conflicts
    }
);
