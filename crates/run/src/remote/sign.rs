//! Signatures of pushed records, which identify their authors.
//!
//! A key pair is Ed25519's. The secret key is in a file that only its owner can read, and goes nowhere else; the public
//! key is a line of text that teammates add to a file of trusted keys.

use std::{
    fmt, io,
    io::{Read as _, Write as _},
    os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _},
    path::Path,
    str::FromStr,
};

use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use fs_err as fs;
use ring::{
    rand::{SecureRandom as _, SystemRandom},
    signature::{ED25519, Ed25519KeyPair, KeyPair as _, UnparsedPublicKey},
};

use super::{RemoteError, Trusting};

/// Prefix of a public key, as a text.
const PUBLIC: &str = "ed25519:";
/// Prefix of the file of a secret key.
const SECRET: &str = "sweep-secret-key ed25519:";
/// Length of the secret seed, in bytes.
const SEED: usize = 32;
/// No file of keys is longer, in bytes.
const MAX_KEYS_BYTES: u64 = 1 << 20;

/// The half that verifies.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct PublicKey([u8; 32]);

/// The half that signs.
pub(super) struct SecretKey(Ed25519KeyPair);

/// Whose records are taken.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Trust {
    /// All records.
    Any,
    /// Records that one of these keys has signed.
    Keys(Vec<PublicKey>),
}

impl FromStr for PublicKey {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let bytes = BASE64.decode(text.strip_prefix(PUBLIC).ok_or(())?).map_err(drop)?;
        bytes.try_into().map(Self).map_err(drop)
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PUBLIC}{}", BASE64.encode(self.0))
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl PublicKey {
    /// True if this key has signed a text; `signature` is in base 64.
    pub(super) fn has_signed(&self, text: &str, signature: &str) -> bool {
        let Ok(signature) = BASE64.decode(signature) else { return false };
        UnparsedPublicKey::new(&ED25519, self.0).verify(text.as_bytes(), &signature).is_ok()
    }
}

impl fmt::Debug for SecretKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SecretKey({})", self.public())
    }
}

impl SecretKey {
    /// Reads it from its file, which only its owner may be able to read.
    pub(super) fn read(path: &Path) -> Result<Self, RemoteError> {
        let key_error = |reason: String| RemoteError::Key(format!("{}: {reason}", path.display()));
        let read_error = |error: io::Error| key_error(error.to_string());
        let file = std::fs::File::open(path).map_err(read_error)?;
        let mode = file.metadata().map_err(read_error)?.permissions().mode();
        if mode & 0o077 != 0 {
            return Err(key_error("others can read this secret key; restrict it with `chmod 600`".to_owned()));
        }
        let mut text = String::new();
        file.take(MAX_KEYS_BYTES).read_to_string(&mut text).map_err(read_error)?;
        let seed = text.strip_prefix(SECRET).and_then(|seed| BASE64.decode(seed.trim()).ok());
        let pair = seed.and_then(|seed| Ed25519KeyPair::from_seed_unchecked(&seed).ok());
        pair.map(Self)
            .ok_or_else(|| key_error("this is not a secret key; `sweep cache keygen FILE` creates one".to_owned()))
    }

    /// Returns the public half.
    pub(super) fn public(&self) -> PublicKey {
        let mut bytes = [0; 32];
        bytes.copy_from_slice(self.0.public_key().as_ref());
        PublicKey(bytes)
    }

    /// A signature in base 64, which always has the same length.
    pub(super) fn sign(&self, text: &str) -> String {
        BASE64.encode(self.0.sign(text.as_bytes()))
    }
}

/// Creates a key pair: writes the secret half to a new file that only its owner can read, and returns the public half.
pub fn keygen(path: &Path) -> Result<String, RemoteError> {
    let key_error = |reason: String| RemoteError::Key(format!("{}: {reason}", path.display()));
    let mut seed = [0; SEED];
    let random = SystemRandom::new().fill(&mut seed);
    random.map_err(|_| key_error("the system has no random numbers".to_owned()))?;
    let pair = Ed25519KeyPair::from_seed_unchecked(&seed).map_err(|error| key_error(error.to_string()))?;
    let mut options = std::fs::OpenOptions::new();
    let file = options.write(true).create_new(true).mode(0o600).open(path);
    let mut file = file.map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => key_error("the file already exists; existing keys are not replaced".to_owned()),
        _ => key_error(error.to_string()),
    })?;
    let text = format!("{SECRET}{}\n", BASE64.encode(seed));
    if let Err(error) = file.write_all(text.as_bytes()).and_then(|()| file.sync_all()) {
        // An incomplete key file is useless.
        let _ = fs::remove_file(path);
        return Err(key_error(error.to_string()));
    }
    Ok(SecretKey(pair).public().to_string())
}

impl Trust {
    /// Whom a user trusts.
    pub(super) fn read(trusting: &Trusting, own_key: Option<&SecretKey>) -> Result<Self, RemoteError> {
        let path = match trusting {
            Trusting::Any => return Ok(Self::Any),
            Trusting::Own => {
                let missing_key = || RemoteError::Key("`--remote-trust own` needs `--remote-key FILE`".to_owned());
                return Ok(Self::Keys(vec![own_key.ok_or_else(missing_key)?.public()]));
            }
            Trusting::Listed(path) => path,
        };
        let key_error = |reason: String| RemoteError::Key(format!("{}: {reason}", path.display()));
        let mut text = String::new();
        let result = fs::File::open(path).and_then(|file| file.take(MAX_KEYS_BYTES).read_to_string(&mut text));
        result.map_err(|error| RemoteError::Key(error.to_string()))?;
        let mut keys = Vec::new();
        for (index, line) in text.lines().enumerate() {
            let Some(word) = line.split_whitespace().next().filter(|word| !word.starts_with('#')) else { continue };
            let line_error = || key_error(format!("line {} does not begin with a public key, `{PUBLIC}…`", index + 1));
            keys.push(word.parse().map_err(|()| line_error())?);
        }
        if keys.is_empty() {
            return Err(key_error("there is no key in it".to_owned()));
        }
        Ok(Self::Keys(keys))
    }

    /// Checks that a record with this signature, or without one, is trusted.
    pub(super) fn allows(&self, signed: Option<PublicKey>) -> Result<(), String> {
        match (self, signed) {
            (Self::Any, _) => Ok(()),
            (Self::Keys(keys), Some(key)) if keys.contains(&key) => Ok(()),
            (Self::Keys(_), Some(key)) => Err(format!("it is signed by {key}, which is not trusted")),
            (Self::Keys(_), None) => Err("it is not signed, and only records signed by a trusted key are used".into()),
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A new key.
    pub(in crate::remote) fn key(folder: &Path, name: &str) -> SecretKey {
        keygen(&folder.join(name)).unwrap();
        SecretKey::read(&folder.join(name)).unwrap()
    }

    #[test]
    fn a_key_is_its_owners_alone_and_never_replaced_or_shown() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        let public = keygen(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(keygen(&path).unwrap_err().to_string().contains("not replaced"));
        let key = SecretKey::read(&path).unwrap();
        assert_eq!(key.public().to_string(), public);
        let secret = fs::read_to_string(&path).unwrap();
        let secret = secret.trim().strip_prefix(SECRET).unwrap();
        assert!(!format!("{key:?}").contains(secret));
        fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
        assert!(SecretKey::read(&path).unwrap_err().to_string().contains("chmod 600"));
    }

    #[test]
    fn a_signature_is_of_one_key_and_one_text() {
        let folder = tempfile::tempdir().unwrap();
        let (key, other) = (key(folder.path(), "a"), key(folder.path(), "b"));
        let signature = key.sign("text");
        assert!(key.public().has_signed("text", &signature));
        assert!(!key.public().has_signed("texts", &signature));
        assert!(!other.public().has_signed("text", &signature));
        assert!(!key.public().has_signed("text", "nonsense"));
    }

    #[test]
    fn trust_is_in_listed_keys_or_the_own_one() {
        let folder = tempfile::tempdir().unwrap();
        let (own, other) = (key(folder.path(), "a"), key(folder.path(), "b"));
        let list = folder.path().join("list");
        fs::write(&list, format!("# the team\n\n{} Ada\n", other.public())).unwrap();
        let listed = Trust::read(&Trusting::Listed(list.clone()), None).unwrap();
        listed.allows(Some(other.public())).unwrap();
        listed.allows(Some(own.public())).unwrap_err();
        listed.allows(None).unwrap_err();
        let only = Trust::read(&Trusting::Own, Some(&own)).unwrap();
        only.allows(Some(own.public())).unwrap();
        only.allows(Some(other.public())).unwrap_err();
        Trust::read(&Trusting::Own, None).unwrap_err();
        for (text, reason) in [("", "no key"), ("nonsense\n", "line 1"), ("ed25519:AAAA\n", "line 1")] {
            fs::write(&list, text).unwrap();
            let error = Trust::read(&Trusting::Listed(list.clone()), None).unwrap_err().to_string();
            assert!(error.contains(reason), "{error}");
        }
    }
}
