//! Metrics that several tasks measure, declared once.

use crate::metric::metrics;

/// Quality on held-out tokens.
#[derive(Debug)]
pub struct LossMetrics;

/// Metrics of a training loop.
#[derive(Debug)]
pub struct LoopMetrics;

/// Metrics of the worker process as a whole.
#[derive(Debug)]
pub struct WorkerMetrics;

/// Samples of the worker process and its device, taken by a thread of their own.
#[derive(Debug)]
pub struct SampledMetrics;

/// Counts of Burn's kernel fusion.
#[derive(Debug)]
pub struct FusionMetrics;

/// Size of a network.
#[derive(Debug)]
pub struct NetworkMetrics;

/// Achieved floating-point throughput.
#[derive(Debug)]
pub struct ComputeMetrics;

/// Measured limits of a device.
#[derive(Debug)]
pub struct PeakMetrics;

metrics! {
    impl LossMetrics {
        /// Mean cross-entropy per token on the held-out tokens, with the final weights.
        LOSS: Nats = "loss";
        /// `exp(loss)`.
        PERPLEXITY: One = "perplexity";
    }
}

metrics! {
    impl LoopMetrics {
        /// Mean training loss over the last logging interval.
        TRAIN_LOSS: Nats = "train_loss";
        /// Median time of an optimizer step. Excludes evaluation and the warm-up steps, as the throughput does.
        TIME_STEP: Seconds = "time.step";
        /// 5th percentile of the time of an optimizer step. On an asynchronous device, a percentile of the means
        /// between readings.
        TIME_STEP_P5: Seconds = "time.step.p5";
        /// 95th percentile of the time of an optimizer step, computed as `time.step.p5`.
        TIME_STEP_P95: Seconds = "time.step.p95";
        /// Time of the first optimizer step of the training, including kernel compilation, autotuning and filling of
        /// caches.
        TIME_FIRST_STEP: Seconds = "time.first_step";
        /// Mean time per step that the loop waits for batches. Requires `breakdown`, as do the other parts of a step.
        /// The parts exclude the warm-up steps and earlier attempts.
        TIME_DATA: Seconds = "time.data";
        /// Mean time per step of the forward passes. Requires `breakdown`.
        TIME_FORWARD: Seconds = "time.forward";
        /// Mean time per step of the backward passes. Requires `breakdown`.
        TIME_BACKWARD: Seconds = "time.backward";
        /// Mean time per step of gradient clipping and the optimizer. Requires `breakdown`.
        TIME_OPTIMIZER: Seconds = "time.optimizer";
        /// Time of the training loop, including evaluation. Excludes work of earlier attempts that was lost.
        TIME_TRAIN: Seconds = "time.train";
    }
}

metrics! {
    impl WorkerMetrics {
        /// Peak resident memory of the worker process.
        MEMORY_PEAK: Bytes = "memory.peak", Resolution(4096.0);
    }
}

metrics! {
    impl SampledMetrics {
        /// Mean resident memory of the worker process during training or pruning, sampled ten times per second. Covers
        /// the last attempt.
        MEMORY_MEAN: Bytes = "memory.mean";
        /// Peak device memory in use by all processes during training or pruning, as reported by the driver.
        MEMORY_DEVICE_USED: Bytes = "memory.device.used";
        /// Mean device memory in use by all processes over the same samples.
        MEMORY_DEVICE_USED_MEAN: Bytes = "memory.device.used.mean";
        /// Fraction of the time in which the device was computing, as reported by the driver.
        UTILIZATION_COMPUTE: Fraction = "utilization.compute";
        /// Fraction of the time in which device memory was being read or written, as reported by the driver.
        UTILIZATION_MEMORY: Fraction = "utilization.memory";
        /// Processor time of the worker process divided by the elapsed time times the number of cores.
        UTILIZATION_CPU: Fraction = "utilization.cpu";
    }
}

metrics! {
    impl FusionMetrics {
        /// Operations of the first step that ran in fused kernels, as reported by Burn; 0 without `fusion`.
        OPERATIONS: Count = "fusion.operations";
        /// Fused kernels that the first step launched.
        KERNELS: Count = "fusion.kernels";
        /// Operations of the first step that the fusion backend ran individually.
        UNFUSED: Count = "fusion.unfused";
    }
}

metrics! {
    impl NetworkMetrics {
        /// Number of parameters of the network; tied parameters count once.
        PARAMETERS: Count = "parameters";
        /// Number of parameters that compute a token: all parameters without `experts`; else the parameters outside
        /// of experts and of `experts_per_token` experts.
        ACTIVE: Count = "parameters.active";
    }
}

metrics! {
    impl ComputeMetrics {
        /// Floating-point operations per second. Each multiplication in a matrix product counts as 2 operations.
        /// Includes the forward pass and all required gradients; excludes recomputation by checkpointing.
        FLOPS: FlopsPerSecond = "compute.flops";
    }
}

metrics! {
    impl PeakMetrics {
        /// Floating-point operations per second of one large matrix product on this device. In `train`, requires
        /// `ceiling`.
        FLOPS: FlopsPerSecond = "peak.compute";
        /// Bytes that a copy on this device reads and writes per second. In `train`, requires `ceiling`.
        BANDWIDTH: BytesPerSecond = "peak.bandwidth";
    }
}
