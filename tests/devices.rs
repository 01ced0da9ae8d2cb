//! Devices: the choice of `auto` and its reason, and drivers with all kinds of defects. Needs the lab, and a C compiler
//! for defective drivers.
#![cfg(feature = "cpu")]
#![expect(clippy::unwrap_used, reason = "in a test a panic is the message")]

use std::{
    ffi::OsStr,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use serde_json::{Value, json};

/// Runs the program with no NVIDIA driver but the one that `env` may bring.
fn sweep(folder: &Path, args: &[&str], env: &[(&str, &OsStr)]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_sweep"))
        .args(args)
        .current_dir(folder)
        .env_remove("SWEEP_RESULTS")
        .envs(env.iter().copied())
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The line of `sweep devices` about a backend.
fn line(folder: &Path, backend: &str, env: &[(&str, &OsStr)]) -> String {
    let output = sweep(folder, &["devices"], env);
    let devices = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{devices}{}", text(&output.stderr));
    let mut lines = devices.lines().filter(|line| line.starts_with(backend));
    let line = lines.next().unwrap_or_else(|| panic!("no {backend} in {devices}")).to_owned();
    assert_eq!(lines.next(), None, "{devices}");
    assert!(devices.lines().any(|line| line.starts_with("cpu ") && line.contains("GiB")), "{devices}");
    line
}

/// A shared library from C.
fn library(folder: &Path, name: &str, source: &str) -> PathBuf {
    let (code, library) = (folder.join("driver.c"), folder.join(name));
    std::fs::write(&code, source).unwrap();
    let built = Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&code).status().unwrap();
    assert!(built.success());
    library
}

#[cfg(feature = "wgpu")]
#[test]
fn a_broken_graphics_driver_is_one_sentence() {
    let folder = tempfile::tempdir().unwrap();
    let manifest = folder.path().join("driver.json");
    let found = |content: &str| {
        std::fs::write(&manifest, content).unwrap();
        let path = manifest.as_os_str();
        line(folder.path(), "wgpu", &[("VK_DRIVER_FILES", path), ("VK_ICD_FILENAMES", path)])
    };
    let advice = "install a Vulkan driver, or choose `--backend cpu`";
    let nothing = format!("wgpu  none: no graphics adapter responds; {advice}");
    assert_eq!(found("{ this is no JSON"), nothing);
    let with = |library: &Path| json!({"file_format_version": "1.0.0", "ICD": {"library_path": library, "api_version": "1.3.0"}});
    assert_eq!(found(&with(Path::new("/nowhere/driver.so")).to_string()), nothing);

    // What follows needs the Vulkan loader; without it no driver is loaded.
    let crashes = library(
        folder.path(),
        "crashes.so",
        "#include <stdlib.h>\n__attribute__((constructor)) void f(void) { abort(); }",
    );
    let crashed = found(&with(&crashes).to_string());
    if crashed == nothing {
        eprintln!("not tested: there is no Vulkan loader; scripts/test-deps.sh installs it");
        return;
    }
    assert_eq!(
        crashed,
        "wgpu  none: the graphics driver crashed the process that probed it (signal: 6 (SIGABRT)); repair or remove \
         the driver, or choose `--backend cpu`"
    );
    let hangs = library(
        folder.path(),
        "hangs.so",
        "#include <unistd.h>\n__attribute__((constructor)) void f(void) { for (;;) sleep(1000); }",
    );
    let hung = found(&with(&hangs).to_string());
    assert!(hung.starts_with("wgpu  none: the graphics driver does not respond"), "{hung}");
}

#[cfg(feature = "cuda")]
#[test]
fn a_missing_or_broken_cuda_driver_is_one_sentence() {
    let folder = tempfile::tempdir().unwrap();
    // An NVIDIA driver that does not start stands before a real one, if this machine has one.
    let source = "int cuInit(unsigned flags) { return CODE; }";
    for (code, sentence) in
        [("999", "`cuInit` fails with error 999 (unknown)"), ("100", "`cuInit` fails with error 100 (no GPU)")]
    {
        library(folder.path(), "libcuda.so.1", &source.replace("CODE", code));
        let found = line(folder.path(), "cuda", &[("LD_LIBRARY_PATH", folder.path().as_os_str())]);
        let wanted = format!(
            "cuda  none: the NVIDIA driver is installed, but {sentence}; install the driver, or choose `--backend cpu`"
        );
        assert_eq!(found, wanted);
    }
    library(folder.path(), "libcuda.so.1", "int nothing;");
    let found = line(folder.path(), "cuda", &[("LD_LIBRARY_PATH", folder.path().as_os_str())]);
    assert!(found.contains("it is too old: it has no `cuInit`"), "{found}");
    let found = line(folder.path(), "cuda", &[]);
    assert!(found.starts_with("cuda  none: no NVIDIA driver responds") || !found.contains("none"), "{found}");
}

/// The one device, and the reason, of the records of a run with `auto`.
#[test]
fn auto_takes_no_imitation_and_says_why() {
    let folder = tempfile::tempdir().unwrap();
    let devices = text(&sweep(folder.path(), &["devices"], &[]).stdout);
    let hardware = |line: &&str| (line.starts_with("cuda") || line.starts_with("wgpu")) && line.contains("selected by");
    if let Some(line) = devices.lines().find(hardware) {
        eprintln!("not tested: this machine has a GPU: {line}");
        return;
    }
    let tiny = "n_layer: 1, n_head: 2, d_model: 16, block_size: 8";
    let recipe = format!("steps: {{ parity: {{ uses: parity, with: {{ {tiny} }} }} }}");
    std::fs::write(folder.path().join("recipe.yaml"), recipe).unwrap();
    let output = sweep(folder.path(), &["run", "recipe.yaml"], &[]);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    let first = said.lines().next().unwrap();
    assert!(first.starts_with("cpu · "), "{said}");
    let record = std::fs::read_dir(folder.path().join("results/store")).unwrap().find_map(|shard| {
        let job = std::fs::read_dir(shard.unwrap().path()).ok()?.next()?.unwrap().path();
        serde_json::from_slice::<Value>(&std::fs::read(job.join("record.json")).ok()?).ok()
    });
    let device = &record.unwrap()["provenance"]["device"];
    let chosen = device["chosen"].as_str().unwrap();
    assert!(chosen.starts_with("`--backend auto` takes the CPU where there is no GPU"), "{device}");
    if cfg!(feature = "cuda") {
        assert!(chosen.contains("NVIDIA driver") && first.contains("NVIDIA driver"), "{chosen} {first}");
    }
    if devices.contains("llvmpipe") {
        assert!(
            chosen.contains("wgpu only in software (llvmpipe") && first.contains("wgpu only in software"),
            "{chosen} {first}"
        );
    }
}

/// Raising the batch ends at the limit of memory, in a process that the bench survives.
#[test]
fn a_batch_that_does_not_fit_ends_the_search_and_not_the_job() {
    let folder = tempfile::tempdir().unwrap();
    let recipe = "
steps:
  knee:
    uses: bench/batch-size
    with: { n_layer: 2, n_head: 2, d_model: 64, block_size: 64, factor: 16, last: 65536, iters: 3, min_gain: 0, memory: 256MiB, dropout: 0 }
";
    std::fs::write(folder.path().join("recipe.yaml"), recipe).unwrap();
    let output = sweep(folder.path(), &["run", "recipe.yaml", "--backend", "cpu"], &[]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let record = std::fs::read_dir(folder.path().join("results/store")).unwrap().find_map(|shard| {
        let job = std::fs::read_dir(shard.unwrap().path()).ok()?.next()?.unwrap().path();
        serde_json::from_slice::<Value>(&std::fs::read(job.join("record.json")).ok()?).ok()
    });
    let outcome = &record.unwrap()["outcome"];
    let stopped = outcome["facts"]["stopped by"].as_str().unwrap();
    // On a busy machine a larger batch may happen to be slower before it is too large.
    assert!(stopped.starts_with("memory: a batch of ") || stopped.starts_with("throughput: "), "{outcome}");
    let largest = outcome["metrics"]["batch.largest"]["value"].as_f64().unwrap();
    assert!((1.0..65536.0).contains(&largest), "{outcome}");
    assert_eq!(outcome["curves"]["tokens_per_s"]["at"][0], 1);
}
