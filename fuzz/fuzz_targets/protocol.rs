#![no_main]

#[path = "../entries.rs"]
#[allow(dead_code, reason = "each target uses one")]
mod entries;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    entries::protocol(bytes);
});
