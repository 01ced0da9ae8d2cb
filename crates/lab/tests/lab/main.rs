//! Tests of the lab in one program: every program of tests links all of Burn.

#![expect(clippy::unwrap_used, reason = "in a test a panic is the message")]

mod backend;
mod benches;
mod common;
mod compression;
mod computing;
mod coordinates;
mod data;
#[cfg(any(feature = "cuda", feature = "wgpu"))]
mod device;
mod generate;
mod golden;
mod gradprobe;
mod hub;
mod k1;
mod networks;
mod objective;
mod ops;
mod optim;
mod parity;
mod parts;
mod pins;
mod prune;
mod prune_vectors;
mod reads;
mod resume;
mod state;
mod steps;
mod surgery;
mod tokenize;
mod train;
mod transformers;
mod until;
