//! Signed texts in the form of DSSE (<https://github.com/secure-systems-lab/dsse>, version 1.0.2): a JSON object with the text in base 64 and
//! signatures over the text and its type.

use std::path::Path;

use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use serde::{Deserialize, Serialize};

use super::{
    Envelope, RemoteError, Signer, Trusting,
    sign::{PublicKey, SecretKey, Trust},
};

/// The JSON of an envelope.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Signed {
    payload_type: String,
    payload: String,
    signatures: Vec<Signature>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Signature {
    /// The public key as `sweep cache keygen` prints it. DSSE leaves the form of identifiers open.
    #[serde(default)]
    keyid: String,
    sig: String,
}

/// The text that is signed: type and payload, each after its length in bytes.
fn encoded(payload_type: &str, payload: &str) -> String {
    format!("DSSEv1 {} {payload_type} {} {payload}", payload_type.len(), payload.len())
}

/// Signs a text of a type (a media type) with the secret key in a file; returns one line of JSON.
///
/// # Errors
/// The key cannot be read, or others can read it.
pub fn seal_text(payload_type: &str, payload: &str, key: &Path) -> Result<String, RemoteError> {
    let key = SecretKey::read(key)?;
    let signature = Signature { keyid: key.public().to_string(), sig: key.sign(&encoded(payload_type, payload)) };
    let signed =
        Signed { payload_type: payload_type.to_owned(), payload: BASE64.encode(payload), signatures: vec![signature] };
    let text = serde_json::to_string(&signed).map_err(|error| RemoteError::Envelope(error.to_string()))?;
    Ok(text + "\n")
}

/// Opens an envelope and checks its signatures. `trusted` is a file with public keys, one in a line; without it, no signer is known to be
/// trusted. Signatures by keys of other kinds are not checked, and their signers are not in the result.
///
/// # Errors The text is not an envelope, a signature does not belong to its key, no signature is by an Ed25519 key, or the file of keys
/// cannot be read.
pub fn open_text(text: &str, trusted: Option<&Path>) -> Result<Envelope, RemoteError> {
    let invalid = |reason: String| RemoteError::Envelope(reason);
    let signed: Signed =
        serde_json::from_str(text.trim()).map_err(|error| invalid(format!("it is not a DSSE envelope: {error}")))?;
    let payload = BASE64.decode(&signed.payload).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    let payload = payload.ok_or_else(|| invalid("its payload is not base64 text".to_owned()))?;
    let claim = encoded(&signed.payload_type, &payload);
    let trust = trusted.map(|path| Trust::read(&Trusting::Listed(path.to_owned()), None)).transpose()?;
    let mut signers = Vec::new();
    for Signature { keyid, sig } in &signed.signatures {
        let Ok(key) = keyid.parse::<PublicKey>() else { continue };
        if !key.has_signed(&claim, sig) {
            return Err(invalid(format!("its signature is not that of {key}")));
        }
        let is_trusted = trust.as_ref().is_some_and(|trust| trust.allows(Some(key)).is_ok());
        signers.push(Signer { key: key.to_string(), is_trusted });
    }
    if signers.is_empty() {
        return Err(invalid("no signature in it is by a key of `sweep cache keygen`".to_owned()));
    }
    Ok(Envelope { payload_type: signed.payload_type, payload, signers })
}

#[cfg(test)]
mod tests {
    use fs_err as fs;

    use super::*;
    use crate::remote::sign::keygen;

    #[test]
    fn an_envelope_is_of_one_text_and_one_key() {
        let folder = tempfile::tempdir().unwrap();
        let (own, other) = (folder.path().join("own"), folder.path().join("other"));
        let public = keygen(&own).unwrap();
        let list = folder.path().join("keys");
        fs::write(&list, format!("{public} Ada\n")).unwrap();
        let text = seal_text("text/plain", "größe", &own).unwrap();
        let opened = open_text(&text, None).unwrap();
        assert_eq!((opened.payload.as_str(), opened.payload_type.as_str()), ("größe", "text/plain"));
        assert_eq!(opened.signers, [Signer { key: public.clone(), is_trusted: false }]);
        assert!(open_text(&text, Some(&list)).unwrap().signers[0].is_trusted);
        let public_of_other = keygen(&other).unwrap();
        let foreign = seal_text("text/plain", "größe", &other).unwrap();
        assert!(!open_text(&foreign, Some(&list)).unwrap().signers[0].is_trusted);
        for (from, to) in [
            ("text/plain", "text/plaid"),
            (BASE64.encode("größe").as_str(), BASE64.encode("grösse").as_str()),
            (public.as_str(), public_of_other.as_str()),
        ] {
            let changed = text.replace(from, to);
            assert_ne!(changed, text);
            let error = open_text(&changed, None).unwrap_err().to_string();
            assert!(error.contains("its signature is not that of ed25519:"), "{error}");
        }
        let unknown = text.replace(&public, "another kind");
        assert!(open_text(&unknown, None).unwrap_err().to_string().contains("no signature in it is by a key"));
        assert!(open_text("{}", None).unwrap_err().to_string().contains("not a DSSE envelope"));
    }

    #[test]
    fn the_signed_text_has_lengths_in_bytes() {
        // The example of the specification of DSSE.
        let encoded = encoded("http://example.com/HelloWorld", "hello world");
        assert_eq!(encoded, "DSSEv1 29 http://example.com/HelloWorld 11 hello world");
        assert_eq!(super::encoded("a", "ö"), "DSSEv1 1 a 2 ö");
    }
}
