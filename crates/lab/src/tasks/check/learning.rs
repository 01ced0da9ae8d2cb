//! Gradients reach every parameter, steps change every parameter, and the loss falls.

use burn::{backend::Autodiff, module::AutodiffModule};

use super::{
    Assertion,
    checker::Checker,
    compare::{flat, largest, largest_difference, list},
};
use crate::{
    LabError,
    backend::Compute,
    device::read::host,
    model::{self, Network, Role},
};

/// Steps in which the loss must fall.
const STEPS: usize = 5;

impl<B: Compute> Checker<'_, B> {
    /// Gradients in training mode are finite and reach every parameter, and an optimizer step changes every parameter.
    pub(super) fn gradients_and_step<N: Network<Autodiff<B>>>(&self, network: &N) -> Result<Vec<Assertion>, LabError> {
        self.seed_dropout();
        let gradients = self.gradients(network, self.expected.dropout);
        let on_host: Vec<Option<Vec<f32>>> =
            gradients.iter().map(|gradient| gradient.clone().map(host).transpose()).collect::<Result<_, _>>()?;
        let mut assertions = vec![self.finite_gradients(&on_host), self.nonzero_gradients(&on_host)];
        drop(on_host);

        let old_values = model::values::<Autodiff<B>, _>(network);
        let next_network = self.optimizer().step::<Autodiff<B>, _>(network.clone(), gradients, self.expected.lr)?;
        let new_values = model::values::<Autodiff<B>, _>(&next_network);
        let mut names = Vec::new();
        for ((info, old_values), new_values) in self.parameters.iter().zip(old_values).zip(new_values) {
            // Experts that no token of the batch chooses do not change.
            if !self.is_unreached(info) && !info.is_of_expert() && host(old_values)? == host(new_values)? {
                names.push(info.name.as_str());
            }
        }
        let problem = (!names.is_empty()).then(|| format!("a step does not change {}", list(&names)));
        assertions.push(Assertion::unless("optimizer-step", problem, format!("{} tensors", self.parameters.len())));
        Ok(assertions)
    }

    fn finite_gradients(&self, gradients: &[Option<Vec<f32>>]) -> Assertion {
        let names: Vec<&str> = self
            .with_gradients(gradients)
            .filter(|(_, gradient)| gradient.iter().any(|number| !number.is_finite()))
            .map(|(info, _)| info.name.as_str())
            .collect();
        let problem = (!names.is_empty()).then(|| format!("not finite in {}", list(&names)));
        let maximum = gradients.iter().flatten().map(|gradient| largest(gradient)).fold(0.0, f32::max);
        Assertion::unless("finite-gradients", problem, format!("largest {maximum:.3e}"))
    }

    fn nonzero_gradients(&self, gradients: &[Option<Vec<f32>>]) -> Assertion {
        let (mut missing_names, mut unexpected_names) = (Vec::new(), Vec::new());
        let mut smallest = f32::INFINITY;
        for (info, gradient) in self.parameters.iter().zip(gradients) {
            let gradient = gradient.as_deref().unwrap_or_default();
            // Rows of positions beyond the sequence have no gradient; every other row of that table must have one.
            let unused_rows_only = |gradient: &[f32]| {
                let rows = gradient.chunks(self.expected.dims.d_model);
                rows.take(self.expected.batch[1]).any(|row| largest(row) == 0.0)
            };
            let magnitude = largest(gradient);
            if self.is_unreached(info) {
                if magnitude != 0.0 {
                    unexpected_names.push(info.name.as_str());
                }
                continue;
            }
            if magnitude == 0.0 && info.is_of_expert() {
                // No token of the batch may choose an expert.
                continue;
            }
            if magnitude == 0.0 || (info.role() == Role::PositionTable && unused_rows_only(gradient)) {
                missing_names.push(info.name.as_str());
            }
            smallest = smallest.min(magnitude);
        }
        let missing_problem = (!missing_names.is_empty()).then(|| format!("no gradient in {}", list(&missing_names)));
        let unexpected_problem = || {
            (!unexpected_names.is_empty())
                .then(|| format!("a gradient in {}, on which no loss can depend", list(&unexpected_names)))
        };
        let problem = missing_problem.or_else(unexpected_problem);
        Assertion::unless("nonzero-gradients", problem, format!("smallest of the tensors' largest {smallest:.3e}"))
    }

    /// A second forward and backward pass gives the gradients of the first.
    pub(super) fn second_round<N: Network<Autodiff<B>>>(&self, network: &N) -> Result<Assertion, LabError> {
        const TOLERANCE: f32 = 1e-5;
        let (first, second) = (self.gradients(network, 0.0), self.gradients(network, 0.0));
        let mut maximum = (0.0, "");
        for ((info, first), second) in self.parameters.iter().zip(first).zip(second) {
            let (Some(first), Some(second)) = (first, second) else { continue };
            let (first, second) = (host(first)?, host(second)?);
            let scale = largest(&first).max(f32::MIN_POSITIVE);
            let difference = largest_difference(&first, &second) / scale;
            if difference > maximum.0 || difference.is_nan() {
                maximum = (difference, info.name.as_str());
            }
        }
        let (difference, name) = maximum;
        let problem = (difference.is_nan() || difference > TOLERANCE)
            .then(|| format!("the gradient of {name} differs by {difference:.3e} of its largest number"));
        Ok(Assertion::unless("second-round", problem, format!("{difference:.3e}")))
    }

    /// Training mode differs from evaluation exactly if there is dropout.
    pub(super) fn dropout<N: Network<Autodiff<B>>>(&self, network: &N) -> Result<Assertion, LabError> {
        let p = self.expected.dropout;
        let (inputs, _) = self.batch.to_tensors::<Autodiff<B>>(self.device);
        let logits = |p| host(flat(network.logits(inputs.clone(), p).inner()));
        self.seed_dropout();
        let difference = largest_difference(&logits(p)?, &logits(0.0)?);
        let problem = ((difference != 0.0) != (p != 0.0))
            .then(|| format!("with probability {p} the logits of training and evaluation differ by {difference:.3e}"));
        Ok(Assertion::unless("dropout", problem, format!("{difference:.3e}")))
    }

    /// Steps on one batch, without dropout, lower its loss.
    pub(super) fn loss_falls<N>(&self, mut network: N) -> Result<Assertion, LabError>
    where
        N: Network<Autodiff<B>> + AutodiffModule<Autodiff<B>, InnerModule: Network<B>>,
    {
        let initial_loss = self.loss(&network.valid())?;
        let mut optimizer = self.optimizer();
        for _ in 0..STEPS {
            let gradients = self.gradients(&network, 0.0);
            network = optimizer.step::<Autodiff<B>, _>(network, gradients, self.expected.lr)?;
        }
        let final_loss = self.loss(&network.valid())?;
        let finding = format!("from {initial_loss:.4} to {final_loss:.4} nats in {STEPS} steps");
        Ok(Assertion::new("loss-falls", final_loss < initial_loss, finding))
    }
}
