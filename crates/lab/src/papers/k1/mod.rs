//! The hierarchy of paper 002 (K-1): a tree of transformer blocks of which a part is updated in each step.
//!
//! [`network`] is the tree, of which a row of blocks is a special case; [`attribution`] finds the nodes that a step
//! updates, and [`step`] updates them. The training loop is `tasks/k1.rs`.

pub mod attribution;
pub mod network;
pub mod step;

pub use attribution::{Attribution, Factors};
pub use network::{Node, Shared, TreeDims, TreeNetwork, Way};
pub use step::Optimizers;
