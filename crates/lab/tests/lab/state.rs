//! The state of a training is saved and restored without losing a bit.

use std::path::Path;

use crate::common::{Inner, Small, Train};
use burn::backend::flex::FlexDevice;
use sweep_job::tasks::{Optimizer, OptimizerKind, Prune, PruneMethod, ThresholdMethod};
use sweep_lab::{
    StateError,
    files::Snapshot,
    model::{self, ParamInfo},
    optim::{self, AdamW},
    prune::Pruner,
};

struct Training {
    network: Small<Train>,
    infos: Vec<ParamInfo>,
    optimizer: AdamW<Inner>,
    pruner: Pruner<Inner>,
}

impl Training {
    fn new(optimizer: &Optimizer, prune: &Prune) -> Self {
        let network = Small::random("weights");
        let infos = model::infos(&network);
        Self {
            optimizer: AdamW::new(optimizer, &infos),
            pruner: Pruner::new(prune, &infos).with_seed(3).starting_from::<Train, _>(&network),
            network,
            infos,
        }
    }

    fn run(mut self, iters: std::ops::Range<u64>) -> Self {
        for iter in iters {
            let scale = if iter % 17 == 16 { 30.0 } else { 1.0 };
            let gradients = self.pruner.mask_gradients(self.network.gradients(iter, scale));
            let (gradients, _) = self.optimizer.guard(gradients);
            let gradients = optim::clip_global_norm(gradients, 1.0);
            self.network = self.optimizer.step::<Train, _>(self.network, gradients, 0.01).unwrap();
            self.network = self.pruner.apply::<Train, _>(self.network, &mut self.optimizer);
            if iter % 5 == 0 {
                let sparsity = 0.01 * iter as f64;
                self.pruner.choose::<Train, _>(&self.network, &self.optimizer, sparsity).unwrap();
                self.network = self.pruner.apply::<Train, _>(self.network, &mut self.optimizer);
            }
        }
        self
    }

    fn snapshot(&self) -> Snapshot<Inner> {
        let mut snapshot = Snapshot::default();
        self.optimizer.store(&mut snapshot, &self.infos);
        self.pruner.store(&mut snapshot, &self.infos);
        snapshot
    }

    fn restore(&mut self, path: &Path) -> Result<(), StateError> {
        let mut snapshot = Snapshot::read(path, &FlexDevice)?;
        self.optimizer.restore(&mut snapshot, &self.infos)?;
        self.pruner.restore(&mut snapshot, &self.infos)?;
        snapshot.finish()
    }

    fn bits(&self) -> Vec<u32> {
        self.network.weights().concat().into_iter().map(f32::to_bits).collect()
    }
}

fn optimizer(optimizer: OptimizerKind, amsgrad: bool) -> Optimizer {
    Optimizer { optimizer, amsgrad: Some(amsgrad), spam_interval: 27, spam_warmup: 8, ..Optimizer::default() }
}

fn prune(prune: PruneMethod) -> Prune {
    Prune { prune, threshold: ThresholdMethod::Sample, sample_fraction: 0.3, ..Prune::default() }
}

#[test]
fn a_restored_training_continues_bit_for_bit() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state");
    let optimizers = [(OptimizerKind::AdamW, false), (OptimizerKind::AdamW, true), (OptimizerKind::AdamWSpam, true)];
    let methods = [PruneMethod::None, PruneMethod::Movement, PruneMethod::Bitter5, PruneMethod::Bitter8];
    for (kind, amsgrad) in optimizers {
        for method in methods {
            let (optimizer, prune) = (optimizer(kind, amsgrad), prune(method));
            // In the middle of the warm-up after a reset.
            let first = Training::new(&optimizer, &prune).run(0..31);
            first.snapshot().write(&path).unwrap();
            let mut second = Training::new(&optimizer, &prune);
            second.network = first.network.clone();
            let mut without = Training::new(&optimizer, &prune);
            without.network = first.network.clone();
            second.restore(&path).unwrap();

            let expected = first.run(31..70).bits();
            assert_eq!(second.run(31..70).bits(), expected, "{kind}, amsgrad {amsgrad}, {method}");
            assert_ne!(without.run(31..70).bits(), expected, "the state matters");
        }
    }
}

#[test]
fn a_state_that_does_not_fit_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state");
    let plain = || Training::new(&optimizer(OptimizerKind::AdamW, false), &prune(PruneMethod::None));
    let refused = |mut training: Training| training.restore(&path).unwrap_err().to_string();

    assert!(matches!(plain().restore(&path).unwrap_err(), StateError::Read(_)));
    std::fs::write(&path, "no state").unwrap();
    assert!(refused(plain()).starts_with(&path.display().to_string()));

    plain().run(0..3).snapshot().write(&path).unwrap();
    plain().restore(&path).unwrap();
    let with_amsgrad = Training::new(&optimizer(OptimizerKind::AdamW, true), &prune(PruneMethod::None));
    assert_eq!(
        refused(with_amsgrad),
        "the moments of `first` do not match this optimizer: check whether `amsgrad` is the same"
    );
    let with_spam = Training::new(&optimizer(OptimizerKind::AdamWSpam, false), &prune(PruneMethod::None));
    assert_eq!(refused(with_spam), "the state has no `spam.count`");
    let moving = Training::new(&optimizer(OptimizerKind::AdamW, false), &prune(PruneMethod::Movement));
    assert_eq!(refused(moving), "the state has no `origin.first`");
    let mut longer = plain();
    longer.infos[0].shape = vec![50];
    assert_eq!(refused(longer), "`moment_1.first` has 48 elements, expected 50");

    // Before the first masks, all methods have the same state.
    plain().run(1..4).snapshot().write(&path).unwrap();
    let moving = || Training::new(&optimizer(OptimizerKind::AdamW, false), &prune(PruneMethod::Movement));
    moving().restore(&path).unwrap();
    moving().run(1..4).snapshot().write(&path).unwrap();
    plain().restore(&path).unwrap();

    let spam = Training::new(&optimizer(OptimizerKind::AdamWSpam, false), &prune(PruneMethod::None));
    spam.run(0..3).snapshot().write(&path).unwrap();
    assert_eq!(refused(plain()), "`spam.norms` is not part of this training");
}
