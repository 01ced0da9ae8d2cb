//! Unusable data is rejected, with the file, the place and the numbers.

use std::path::Path;

use crate::common::{merged, run};
use serde_json::{Value, json};
use sweep_job::{Failure, FailureKind};

/// Parameters of a tiny network, and `more`.
fn small(more: &Value) -> Value {
    let base = json!({"n_layer": 1, "n_head": 1, "d_model": 8, "block_size": 8, "batch_size": 2, "eval_batches": 1});
    merged(base, more)
}

/// Reason why an evaluation on `data` fails, without the folder's name.
fn message(data: &Path, more: &Value) -> String {
    let given = merged(small(more), &json!({"data": data}));
    let Failure { kind, message } = run("eval", given, Path::new(".")).unwrap_err();
    assert_eq!(kind, FailureKind::Input, "{message}");
    message.replace(&data.parent().unwrap().display().to_string(), "DIR")
}

#[test]
fn files_that_are_not_what_they_should_be() {
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str, bytes: &[u8]| {
        let path = dir.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    };
    let ids = |ids: &[u16]| -> Vec<u8> { ids.iter().flat_map(|id| id.to_le_bytes()).collect() };

    let missing = message(&dir.path().join("none.txt"), &json!({}));
    assert!(missing.starts_with("cannot read the data: ") && missing.contains("DIR/none.txt"), "{missing}");

    let broken = [b"fine ".repeat(50), vec![0xff], b" text".to_vec()].concat();
    assert_eq!(message(&file("broken.txt", &broken), &json!({})), "DIR/broken.txt: not UTF-8 from byte 250 on");

    assert_eq!(
        message(&file("odd.bin", &[0; 7]), &json!({})),
        "DIR/odd.bin: 7 bytes is not a multiple of 2, the size of a token"
    );

    let short = file("short.txt", &b"x".repeat(79));
    let wanted =
        "DIR/short.txt: the held-out part has 7 tokens, but one window needs 9 (the sequence and the token after it)";
    assert_eq!(message(&short, &json!({})), wanted);
    assert_eq!(
        message(&file("empty.bin", &[]), &json!({})),
        wanted.replace("short.txt", "empty.bin").replace("has 7", "has 0")
    );

    let mut large = vec![5; 200];
    large[185] = 300;
    let large = file("large.bin", &ids(&large));
    let wanted = "DIR/large.bin: token 185 has id 300, but the network supports only ids below 300";
    assert_eq!(message(&large, &json!({"vocab_size": 300})), wanted);

    let text = file("text.txt", &b"abcdefgh".repeat(20));
    let wanted = "DIR/text.txt: token 144 has id 97, but the network supports only ids below 97";
    assert_eq!(message(&text, &json!({"vocab_size": 97})), wanted);

    let folder = dir.path().join("folder");
    std::fs::create_dir(&folder).unwrap();
    assert_eq!(message(&folder, &json!({"tokens": "bytes"})), "DIR/folder: is a folder; `tokens: bytes` needs a file");
    assert!(message(&folder, &json!({})).contains("train.bin"));
}

#[test]
fn the_shipped_text_is_no_file_of_ids() {
    let failure = run("eval", small(&json!({"tokens": "uint16"})), Path::new(".")).unwrap_err();
    assert_eq!(failure.message, "kjv: is text, which `tokens: uint16` does not fit");
}

#[test]
fn a_folder_of_ids_is_read_from_two_files() {
    let dir = tempfile::tempdir().unwrap();
    let ids = |seed: u16| -> Vec<u8> { (0..300_u16).flat_map(|id| (id * seed % 40).to_le_bytes()).collect() };
    std::fs::write(dir.path().join("train.bin"), ids(3)).unwrap();
    std::fs::write(dir.path().join("val.bin"), ids(7)).unwrap();
    let given = small(&json!({"data": dir.path(), "vocab_size": 40, "iters": 3, "dropout": 0}));
    let outcome = run("train", given, dir.path()).unwrap();
    let loss = outcome.metrics["loss"].value;
    assert!((loss - 40_f64.ln()).abs() < 0.2, "{loss}");
}
