//! Arguments of a command line without secrets.

use std::ffi::OsString;

use super::clean;

/// Text in the place of a secret.
pub const MASK: &str = "***";

/// Longest argument, and most arguments, that are kept.
const MAX_ARGUMENT_LENGTH: usize = 2000;
const MAX_ARGUMENTS: usize = 200;

/// Parts of the names of variables with confidential values.
const SECRETS: &[&str] = &[
    "TOKEN",
    "SECRET",
    "PASSWORD",
    "PASSWD",
    "PASSPHRASE",
    "CREDENTIAL",
    "CREDENTIALS",
    "APIKEY",
    "API_KEY",
    "ACCESS_KEY",
    "PRIVATE_KEY",
];

/// Returns the arguments as text. Values after a name that looks like the name of a secret are masked, and so are the
/// passwords and the queries of addresses.
pub fn masked(arguments: impl Iterator<Item = OsString>) -> Vec<String> {
    let mut words = Vec::new();
    let mut secret = false;
    for argument in arguments.take(MAX_ARGUMENTS) {
        let argument = argument.to_string_lossy();
        if secret && !argument.starts_with('-') {
            words.push(MASK.to_owned());
            secret = false;
            continue;
        }
        // The value of `--api-key VALUE` is the next argument.
        secret = argument.strip_prefix("--").is_some_and(|name| !name.contains('=') && is_secret(name));
        let argument = without_queries(&without_values(&argument));
        let end = argument.floor_char_boundary(MAX_ARGUMENT_LENGTH);
        words.push(clean(&argument[..end]).into_owned());
    }
    words
}

/// True if a name looks like the name of a secret: it contains one of the words as a whole word.
pub fn is_secret(name: &str) -> bool {
    let name = format!("_{}_", name.to_uppercase().replace('-', "_"));
    SECRETS.iter().any(|word| name.contains(&format!("_{word}_")))
}

/// The argument up to the first value of a secret: `env={HF_TOKEN: ***`.
fn without_values(argument: &str) -> String {
    let mut begin = None;
    for (at, char) in argument.char_indices().chain([(argument.len(), '\0')]) {
        if char.is_alphanumeric() || char == '_' || char == '-' {
            begin = begin.or(Some(at));
            continue;
        }
        let Some(word) = begin.take().map(|begin| &argument[begin..at]) else { continue };
        let rest = argument[at..].trim_start_matches(|char: char| char.is_whitespace() || "\"'".contains(char));
        if is_secret(word) && rest.starts_with(['=', ':']) {
            let end = argument.len() - rest.len() + 1;
            return format!("{}{MASK}", &argument[..end]);
        }
    }
    argument.to_owned()
}

/// An address without its password and its query, which may be a signature.
fn without_queries(argument: &str) -> String {
    let Some((before, address)) = argument.split_once("://") else { return argument.to_owned() };
    let end = address.find(['/', '?', '#']).unwrap_or(address.len());
    let (place, path) = address.split_at(end);
    let place = place.rsplit_once('@').map_or_else(|| place.to_owned(), |(_, host)| format!("{MASK}@{host}"));
    let path = path.split_once('?').map_or_else(|| path.to_owned(), |(path, _)| format!("{path}?{MASK}"));
    format!("{before}://{place}{path}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_have_names() {
        for name in ["HF_TOKEN", "token", "wandb-api-key", "DB_PASSWORD", "AWS_SECRET_ACCESS_KEY", "CREDENTIALS"] {
            assert!(is_secret(name), "{name}");
        }
        for name in ["MAX_TOKENS", "TOKENIZER", "KEY", "API", "SECRETARY", "lr"] {
            assert!(!is_secret(name), "{name}");
        }
    }

    #[test]
    fn what_looks_like_a_secret_is_masked_and_all_else_stays() {
        let masked = |arguments: &[&str]| masked(arguments.iter().map(OsString::from)).join(" ");
        for (words, expected) in [
            (&["run", "a.yaml", "--jobs", "2"][..], "run a.yaml --jobs 2"),
            (&["--set", "lr=0.1", "--set", "max_tokens=5"], "--set lr=0.1 --set max_tokens=5"),
            (&["--set", "hf-token=abc", "--set", "n=1"], "--set hf-token=*** --set n=1"),
            (&["--set=api_key=abc"], "--set=api_key=***"),
            (&["--axis", "train.token=abc,def"], "--axis train.token=***"),
            (&["--set", "env={HF_TOKEN: abc, N: 1}"], "--set env={HF_TOKEN:***"),
            (&["--set", "env={\"DB_PASSWORD\" : \"abc\"}"], "--set env={\"DB_PASSWORD\" :***"),
            (&["--api-key", "abc", "x"], "--api-key *** x"),
            (&["--password", "--jobs", "2"], "--password --jobs 2"),
            (&["--remote", "s3://id:abc@host/path"], "--remote s3://***@host/path"),
            (&["--remote", "https://host/path?X-Amz-Signature=abc"], "--remote https://host/path?***"),
            (&["--remote", "file:///a@b/c"], "--remote file:///a@b/c"),
            (&["token", "credentials.yaml"], "token credentials.yaml"),
        ] {
            assert_eq!(masked(words), expected);
        }
        assert!(masked(&["x".repeat(5000).as_str()]).len() == MAX_ARGUMENT_LENGTH);
    }
}
