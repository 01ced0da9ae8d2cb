//! The fuzz targets' entry points on their corpora and on mutations of them: seconds of the work that `cargo fuzz` does
//! for hours with a nightly toolchain.

#![expect(clippy::unwrap_used, reason = "in a test a panic is the message")]

use std::path::PathBuf;

use proptest::{prelude::*, sample::Index};

#[path = "../../../fuzz/entries.rs"]
#[expect(unreachable_pub, reason = "it is shared with the targets")]
mod entries;

/// A target's seeds.
fn corpus(target: &str) -> Vec<Vec<u8>> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let mut paths: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths.iter().map(|path| std::fs::read(path).unwrap()).collect()
}

/// Change of a seed.
#[derive(Debug, Clone)]
enum Change {
    /// A byte becomes another one.
    Byte(Index, u8),
    /// A text that is difficult for parsers is inserted.
    Insert(Index, &'static [u8]),
    /// A part is taken out.
    Remove(Index, usize),
    /// A part is there twice.
    Double(Index, usize),
    /// The rest is missing.
    Cut(Index),
}

const TOKENS: &[&[u8]] = &[
    b"${{",
    b"}}",
    b"params.",
    b"matrix.a",
    b"&a",
    b"*a",
    b"<<: ",
    b"[",
    b"{",
    b"]",
    b"}",
    b"\"",
    b"'",
    b"#",
    b": ",
    b"- ",
    b"\n",
    b"\n  ",
    b"\t",
    b"!!binary ",
    b"|",
    b">-",
    b"? ",
    b"---\n",
    b"%YAML 1.1\n",
    b"\x00",
    b"\xff",
    b"\x1b[2J",
    b"\xe2\x80\xae",
    b".nan",
    b"1e999",
    b"-0.0",
    b"99999999999999999999",
    b"null",
    b"~",
    b"range",
    b"steps",
    b"1h",
    b"GiB",
];

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        (any::<Index>(), any::<u8>()).prop_map(|(at, byte)| Change::Byte(at, byte)),
        (any::<Index>(), proptest::sample::select(TOKENS)).prop_map(|(at, token)| Change::Insert(at, token)),
        (any::<Index>(), 1usize..40).prop_map(|(at, length)| Change::Remove(at, length)),
        (any::<Index>(), 1usize..40).prop_map(|(at, length)| Change::Double(at, length)),
        any::<Index>().prop_map(Change::Cut),
    ]
}

fn apply(mut text: Vec<u8>, changes: &[Change]) -> Vec<u8> {
    for change in changes {
        let place = |at: &Index| at.index(text.len() + 1);
        match change {
            Change::Byte(at, byte) if !text.is_empty() => {
                let at = at.index(text.len());
                text[at] = *byte;
            }
            Change::Byte(..) => {}
            Change::Insert(at, token) => {
                let at = place(at);
                text.splice(at..at, token.iter().copied());
            }
            Change::Remove(at, length) => {
                let at = place(at);
                let end = (at + length).min(text.len());
                text.drain(at..end);
            }
            Change::Double(at, length) => {
                let at = place(at);
                let part = text[at..(at + length).min(text.len())].to_vec();
                text.splice(at..at, part);
            }
            Change::Cut(at) => {
                let at = place(at);
                text.truncate(at);
            }
        }
    }
    text
}

/// Runs an entry point on every seed, and on mutations of them.
fn try_out(target: &'static str, cases: u32, entry: fn(&[u8]) -> bool) {
    let corpus = corpus(target);
    let accepted = corpus.iter().filter(|seed| entry(seed)).count();
    assert!(accepted > 0, "no seed of {target} is accepted, so its mutations test the first check only");
    // More cases, for a search of minutes or hours without a nightly toolchain.
    let times = std::env::var("SWEEP_FUZZ_TIMES").map_or(1, |times| times.parse().unwrap());
    let config = ProptestConfig { cases: cases * times, failure_persistence: None, ..ProptestConfig::default() };
    let inputs = (proptest::sample::select(corpus), proptest::collection::vec(change(), 1..8));
    proptest!(config, |((seed, changes) in inputs)| {
        entry(&apply(seed, &changes));
    });
}

#[test]
fn recipes() {
    try_out("recipe", 3_000, entries::recipe);
}

#[test]
fn messages() {
    try_out("protocol", 5_000, entries::protocol);
}

#[test]
fn records() {
    try_out("record", 5_000, entries::record);
}

#[test]
fn units() {
    try_out("units", 5_000, entries::units);
}

#[test]
fn journals() {
    try_out("journal", 3_000, entries::journal);
}

#[test]
fn manifests() {
    try_out("manifests", 3_000, entries::manifests);
}

#[test]
fn bundles() {
    try_out("bundle", 500, entries::bundle);
}

#[test]
fn patches() {
    try_out("patch", 500, entries::patch);
}

#[test]
fn event_files() {
    try_out("events", 1_000, entries::events);
}

#[test]
fn tables() {
    try_out("csv", 1_000, entries::csv);
}

#[test]
fn json_lines() {
    try_out("jsonl", 1_000, entries::jsonl);
}
