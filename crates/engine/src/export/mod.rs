//! Output for other programs: bundles, `MLflow` file stores, `TensorBoard` event files.

pub mod bundle;
pub mod mlflow;
pub mod tensorboard;
