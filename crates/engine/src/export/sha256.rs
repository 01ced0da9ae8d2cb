//! SHA-256 digests, by which standards name files.

use std::{
    fmt::Write as _,
    io::{self, Read},
};

use sha2::{Digest as _, Sha256};

/// The digest of the rest of a stream, in hexadecimal digits.
pub(super) fn sha256(mut content: impl Read) -> io::Result<String> {
    const BUFFER_BYTES: usize = 1 << 16;
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; BUFFER_BYTES];
    loop {
        match content.read(&mut buffer) {
            Ok(0) => break,
            Ok(bytes) => hasher.update(&buffer[..bytes]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    let mut hex = String::new();
    for byte in hasher.finalize() {
        // Writing to a text cannot fail.
        let _ = write!(hex, "{byte:02x}");
    }
    Ok(hex)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_digest_is_that_of_the_standard() {
        // The examples of FIPS 180-2.
        let expected = [
            ("abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"),
            ("", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"),
        ];
        for (content, digest) in expected {
            assert_eq!(sha256(content.as_bytes()).unwrap(), digest);
        }
    }
}
