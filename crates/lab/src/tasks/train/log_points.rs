//! Log points of a training: the numbers that are read from the device, and the curves that they extend.

use sweep_job::{Progress, Unit, tasks::Train};

use super::Trainer;
use crate::{
    LabError,
    backend::Compute,
    optim::{self, Reading},
};

impl<B: Compute> Trainer<'_, B> {
    /// Reads the numbers of a log point, and returns the progress.
    pub(super) fn log(&mut self, done: usize) -> Result<Progress, LabError> {
        let Train { training, optimizer, .. } = self.train;
        let rate = optim::learning_rate(optimizer, done - 1, training.iters);
        self.curves.push("lr", Unit::One, done as u64, rate * self.optimizer.rate_factor());
        if let Some(Reading { norm, spikes }) = self.optimizer.reading()? {
            self.curves.push("grad_norm", Unit::One, done as u64, norm);
            self.curves.push("spikes", Unit::Count, done as u64, spikes);
        }
        let loss = self.read_loss(done)?;
        let tokens_per_s = self.clock.close().map(|steps_per_s| steps_per_s * self.tokens_per_step());
        let total = training.end() as u64;
        Ok(Progress { done: done as u64, total, loss: Some(loss), tokens_per_s, ..Progress::default() })
    }

    /// The mean training loss since the last reading, which must be finite.
    fn read_loss(&mut self, done: usize) -> Result<f64, LabError> {
        let readings = self.loss.count;
        let loss = self.loss.read()?;
        if !loss.is_finite() {
            let word = if readings > 1 { "by" } else { "at" };
            return Err(LabError::diverged("loss", loss, format!("{word} iteration {done}")));
        }
        self.curves.push("loss", Unit::Nats, done as u64, loss);
        Ok(loss)
    }
}
