//! The methods of the papers, one folder each. The tasks that run them are in `tasks`.

pub mod gradprobe;
pub mod k1;
pub(crate) mod pairs;
