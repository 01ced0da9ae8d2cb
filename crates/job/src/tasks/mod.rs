//! One file per task: its parameters, its metrics, and conflicts between parameters. The list of all is here.

mod architecture;
mod batch_size;
mod bench;
mod check;
mod command;
mod computing;
mod coordinates;
mod data;
mod eval;
mod generate;
mod gradprobe;
mod imported;
mod k1;
mod measured;
mod mock;
mod model;
mod optimizer;
mod pairs;
mod parity;
mod profile;
mod prune;
mod ticket;
mod tokenize;
mod train;

pub use architecture::{
    Ablation, AblationNet, Architecture, AttentionKind, AttentionWord, BlockSpec, Coupling, CouplingStart, CrossProj,
    CrossProjection, CrossSelect, CrossSpec, ExpertsSpec, GatePool, GateSpec, Keep, KvPruneSpec, Mechanism, NormKind,
    Parametrization, Parts, Position, PositionKind, RMlpSpec, RaCtApply, RaCtSpec, RaCtStatistic, RecipSpec,
    RecipTying, ReciprocalSpec, RopeScaling, RopeScalingKind, Selection, StepPruning,
};
pub use batch_size::{BatchSize, BatchSizes};
pub use bench::{
    Applying, BenchMaskUpdate, BenchMasking, BenchThreshold, Finding, Given, Making, MaskFormat, MaskMetrics,
    ScoreFormat, ScoreSource, SearchMetrics, ThresholdSearch, Timing, UpdateKind, Workload, WorkloadMetrics,
};
pub use check::{Check, Checking};
pub use command::{
    Booleans, Collect, Command, EnvironmentRole, FLAGS, FlagStyle, Found, Launch, MetricsFrom, Number, Pattern,
    Reading, STEP_NAMES, Shell, Texts, Tracks, complete_ranks, flag_arguments, ignored, inherited, input_name, is_fork,
    is_pattern, launched, leading_number, script_position,
};
pub use computing::{Autotune, Checkpointing, Computing, Fusing, Precision, Switch, TuningCache};
pub use coordinates::{Coordinates, Widening};
pub use data::{Corpus, Data, TokenFormat};
pub use eval::{Compression, Coverage, Eval, Evaluation, OneShot, Quantize, Rounding};
pub use generate::{Generate, Generating};
pub use gradprobe::{
    GradProbe, GradientSource, Judge, ProbeMode, ProbeOrder, ProbeThreshold, Probing, RoundMode, Storage, Strategy,
    Subject, ThresholdScope, Tuning,
};
pub use imported::Imported;
pub use k1::{
    AttentionForm, CausalMask, GradientNorm, K1, K1Computing, K1Data, K1Loop, K1Model, K1Optimizer, K1Precision,
    K1Update, LossReads, LossScaling, NetworkShape, NormScope, SelectionWay, Shift, Unchosen, UpdateRule, Words,
};
pub use measured::{
    ComputeMetrics, FusionMetrics, LoopMetrics, LossMetrics, NetworkMetrics, PeakMetrics, SampledMetrics, WorkerMetrics,
};
pub use mock::{Mock, MockEnd};
pub use model::{Activation, Model, ModelSize, SizeDims, dimension};
pub use optimizer::{AdamWFactors, DecayOn, LrSchedule, MuonScale, Optimizer, OptimizerKind};
pub use pairs::*;
pub use parity::{Comparing, Parity};
pub use profile::{Profile, Profiling};
pub use prune::{
    Formula, MaskPlan, PRUNED, Prune, PruneMethod, PrunePattern, PruneUpdate, Schedule, ScoreInput, ScoreKind,
    ScorePrecision, ThresholdMethod,
};
pub use ticket::Ticket;
pub use tokenize::{Tokenize, Tokenizing};
pub use train::{Train, Training};

/// Calls the macro `$callback` with every task: where it runs, and the type of its parameters.
///
/// Documentation has the same order. A task of the `lab` implements `sweep_lab`'s `Run`; a task of the `worker` needs
/// no network, or starts its own processes.
#[macro_export]
macro_rules! for_each_task {
    ($callback:ident) => {
        $callback! {
            lab Train;
            lab Eval;
            lab Tokenize;
            lab GradProbe;
            lab Generate;
            lab Check;
            lab Coordinates;
            lab Parity;
            lab K1;
            lab Profile;
            worker BatchSize;
            lab BenchThreshold;
            lab BenchMaskUpdate;
            lab BenchMasking;
            lab Pair;
            worker Command;
            worker Imported;
            worker Mock;
        }
    };
}
