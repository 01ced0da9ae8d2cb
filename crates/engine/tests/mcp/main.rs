//! `sweep mcp` as agents use it: real processes and mock jobs, on standard input and output and on a loopback address.

#![expect(clippy::unwrap_used, reason = "in a test a panic is the message")]

mod client;
mod http;
mod limits;
mod page;
mod parts;
mod propose;
mod sdk;
mod ten;
mod tools;
