//! What leaves the store for other programs: bundles, MLflow's file store, TensorBoard's event files.

pub mod bundle;
pub mod mlflow;
pub mod tensorboard;
