//! The signed statement about a bundle, in a file beside it: an in-toto statement (<https://in-toto.io/Statement/v1>) with the predicate
//! SLSA Provenance v1 (<https://slsa.dev/provenance/v1>) in a DSSE envelope.
//!
//! The subject is the archive. The predicate has the request and, by their digests, the recipes and the files that jobs read. A file has one
//! envelope in a line, so that others can add theirs.

use std::{
    io::{self, BufReader},
    path::{Path, PathBuf},
};

use fs_err as fs;
use serde::Serialize;
use serde_json::{Value, json};

use super::{BundleError, Contents, SOURCES, TOP};
use crate::{
    export::sha256,
    host::archive::{self, Item},
    remote::{Envelope, open_text, seal_text},
};

/// The end of the file's name, as in-toto recommends it.
const END: &str = ".intoto.jsonl";
const STATEMENT_TYPE: &str = "https://in-toto.io/Statement/v1";
const PAYLOAD_TYPE: &str = "application/vnd.in-toto+json";
const PREDICATE_TYPE: &str = "https://slsa.dev/provenance/v1";
/// The kind of the build: a study from its recipe. The number is the version of the predicate's parameters.
const BUILD_TYPE: &str = "urn:sweep:study:1";
const BUILDER: &str = "urn:sweep:engine";
/// Bytes of a file with statements at most.
const MAX_BYTES: u64 = 256 << 20;

/// A statement about a bundle whose signature is correct.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Attested {
    /// The public key of its signer.
    pub signer: String,
    /// True if the key is in the list of trusted keys.
    pub trusted: bool,
    /// The type of the predicate.
    pub predicate: String,
}

/// The file with the statements about an archive.
pub fn statement_file(archive: &Path) -> PathBuf {
    let mut name = archive.as_os_str().to_owned();
    name.push(END);
    name.into()
}

/// The signed statement about an archive that has just been written, as a line of text. `key` is the file of the secret key.
pub fn attest(archive: &Path, contents: &Contents, key: &Path) -> Result<String, BundleError> {
    let statement = statement(archive, contents)?;
    Ok(seal_text(PAYLOAD_TYPE, &statement.to_string(), key)?)
}

fn statement(archive: &Path, contents: &Contents) -> Result<Value, BundleError> {
    let name = archive.file_name().unwrap_or_default().to_string_lossy();
    let digest = sha256(fs::File::open(archive)?)?;
    let mut sources = Vec::new();
    archive::each(BufReader::new(fs::File::open(archive)?), |Item { path, entry, .. }| {
        let inner = path.strip_prefix(TOP).unwrap_or(&path).to_owned();
        if inner.starts_with(SOURCES) {
            sources.push(json!({ "name": inner.display().to_string(), "digest": { "sha256": sha256(entry)? } }));
        }
        Ok::<(), BundleError>(())
    })?;
    let request = &contents.request;
    let times = |[started, ended]: [jiff::Timestamp; 2]| json!({ "startedOn": started.to_string(), "finishedOn": ended.to_string() });
    let metadata = contents.span.map_or_else(|| json!({}), times);
    Ok(json!({
        "_type": STATEMENT_TYPE,
        "subject": [{ "name": name, "digest": { "sha256": digest } }],
        "predicateType": PREDICATE_TYPE,
        "predicate": {
            "buildDefinition": {
                "buildType": BUILD_TYPE,
                "externalParameters": {
                    "recipes": request.paths, "set": request.set, "axes": request.axes, "scale": request.scale,
                },
                "internalParameters": { "backend": contents.backend.name(), "environment": contents.environment },
                "resolvedDependencies": sources,
            },
            "runDetails": {
                "builder": { "id": BUILDER, "version": { "sweep": contents.sweep } },
                "metadata": metadata,
            },
        },
    }))
}

/// The statements in the file beside an archive, and defects: changed texts, statements about other files, and with `trusted`, a file
/// with public keys, the absence of a statement that one of these keys has signed.
pub fn attested(archive: &Path, trusted: Option<&Path>) -> Result<(Vec<Attested>, Vec<String>), BundleError> {
    let file = statement_file(archive);
    let (mut statements, mut defects) = (Vec::new(), Vec::new());
    let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
    match fs::metadata(&file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            if trusted.is_some() {
                defects.push(format!("there is no signed statement about it: `{name}` does not exist"));
            }
            return Ok((statements, defects));
        }
        Err(error) => return Err(error.into()),
        Ok(metadata) if metadata.len() > MAX_BYTES => {
            let (bytes, limit) = (metadata.len(), MAX_BYTES);
            return Err(BundleError::TooLarge(format!("`{name}` has {bytes} bytes, of at most {limit}")));
        }
        Ok(_) => {}
    }
    let digest = sha256(fs::File::open(archive)?)?;
    let text = fs::read_to_string(&file)?;
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    for (index, line) in lines {
        let place = format!("`{name}`, line {}", index + 1);
        match open_text(line, trusted) {
            Ok(envelope) => match predicate(&envelope, &digest) {
                Ok(predicate) => statements.extend(envelope.signers.into_iter().map(|signer| Attested {
                    signer: signer.key,
                    trusted: signer.is_trusted,
                    predicate: predicate.clone(),
                })),
                Err(reason) => defects.push(format!("{place}: {reason}")),
            },
            Err(crate::remote::RemoteError::Envelope(reason)) => defects.push(format!("{place}: {reason}")),
            Err(error) => return Err(error.into()),
        }
    }
    if let Some(list) = trusted.filter(|_| !statements.iter().any(|statement| statement.trusted)) {
        defects.push(format!("no statement about it is signed by a key in {}", list.display()));
    }
    Ok((statements, defects))
}

/// The type of the predicate of a statement about the archive with this digest, or the reason why the statement is not valid.
fn predicate(envelope: &Envelope, digest: &str) -> Result<String, String> {
    if envelope.payload_type != PAYLOAD_TYPE {
        return Err(format!("it has the type `{}`, not `{PAYLOAD_TYPE}`", envelope.payload_type));
    }
    let statement: Value =
        serde_json::from_str(&envelope.payload).map_err(|error| format!("its statement is not JSON: {error}"))?;
    if statement["_type"] != STATEMENT_TYPE {
        return Err(format!("it is not a statement of the type {STATEMENT_TYPE}"));
    }
    let subjects = statement["subject"].as_array().map(Vec::as_slice).unwrap_or_default();
    if !subjects.iter().any(|subject| subject["digest"]["sha256"] == digest) {
        let names = subjects.iter().filter_map(|subject| subject["name"].as_str()).collect::<Vec<_>>().join(", ");
        return Err(format!("the statement is about a file with different content: {names}"));
    }
    Ok(statement["predicateType"].as_str().unwrap_or("unknown").to_owned())
}
