//! A job's identity: the contents of its key.

use std::{collections::BTreeMap, fmt, path::Path, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sweep_job::{Backend, Kind, Name, Part, TaskInfo, Value, Values, tasks::input_name};

use crate::{
    host,
    record::{deferred, needed::Needed},
};

/// A job's name in the store: the BLAKE3 digest of its [`Identity`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key([u8; 32]);

/// Everything that decides a job's result. The JSON of an identity is canonical: fields in this order, maps sorted, defaults
/// omitted.
///
/// The identity excludes the step's name, labels, the paths of inputs (their content is), time-outs, worker counts, the program's version.
/// A task that computes something else from the same parameters raises its revision; the revision of a task that the program adds changes
/// with the program.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Identity {
    /// Version of this form; raised when the JSON of the same job changes.
    pub format: u32,
    /// The task's name.
    pub task: Name,
    /// The task's revision.
    pub revision: u32,
    /// Backend, for tasks that compute on a device.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub backend: Option<Backend>,
    /// The parameters that differ from their defaults.
    #[serde(skip_serializing_if = "Values::is_empty", default)]
    pub params: Values,
    /// The digests of the input files, by parameter; for a list, by `parameter.1`, `parameter.2`, …
    #[serde(skip_serializing_if = "BTreeMap::is_empty", default)]
    pub inputs: BTreeMap<String, String>,
    /// Digest of the code that an earlier run of the job was observed to read, as it is now.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub code: Option<String>,
    /// Digest of the program, for tasks that it [adds](TaskInfo::is_added).
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub program: Option<String>,
    /// The keys of the jobs that it needs, sorted. Last, see [`Identity::key`].
    #[serde(skip_serializing_if = "Needed::is_empty", default)]
    pub needs: Needed,
}

/// [`Identity::format`].
const FORMAT: u32 = 1;

impl Identity {
    /// The identity of a job whose parameters are complete and checked. `inputs` holds the digests of its input files.
    pub fn new(
        task: &TaskInfo,
        values: &Values,
        backend: Option<Backend>,
        inputs: BTreeMap<String, String>,
        needs: Needed,
    ) -> Self {
        let mut params = task.identity(values);
        params.retain(|name, _| !inputs.contains_key(name.as_str()));
        for param in task.params().filter(|param| param.kind == Kind::Folder) {
            // The location of the folder is not part of the key.
            if let Some(folder) = params.get_mut(param.name).filter(|value| **value != Value::Null) {
                *folder = Value::Bool(true);
            }
        }
        for param in task.params().filter(|param| matches!(param.kind, Kind::List(Kind::Path(_)))) {
            // A program finds the inputs of a list by name, and their origin is not part of the key.
            if let Some(Value::List(paths)) = params.get_mut(param.name) {
                let input_paths = paths.iter_mut().filter(|path| !path.as_text().is_some_and(deferred::is_open));
                for path in input_paths {
                    let name = path.as_text().and_then(|path| input_name(Path::new(path)));
                    *path = name.map_or(Value::Null, |name| Value::Text(name.to_owned()));
                }
            }
        }
        Self {
            format: FORMAT,
            task: Name::const_new(task.name),
            revision: task.revision_of(values, backend),
            backend,
            params,
            inputs,
            code: None,
            program: program_of(task),
            needs,
        }
    }

    /// Returns true unless `task`, which is the identity's, was added by another program than this.
    pub fn has_this_program(&self, task: &TaskInfo) -> bool {
        self.program == program_of(task)
    }

    /// The key without code, under which the store keeps the manifests of the job's runs.
    pub fn base_key(&self) -> Result<Key, serde_json::Error> {
        if self.code.is_none() { self.key() } else { Self { code: None, ..self.clone() }.key() }
    }

    /// The identity's digest.
    pub fn key(&self) -> Result<Key, serde_json::Error> {
        if self.needs.is_empty() {
            return Key::of_json(self);
        }
        let mut hasher = blake3::Hasher::new();
        // Inserts the serialized keys of needed jobs, which many identities share: n jobs may need the same n jobs.
        let head = serde_json::to_vec(&Self { needs: Needed::default(), ..self.clone() })?;
        hasher.update(head.strip_suffix(b"}").unwrap_or(&head));
        hasher.update(br#","needs":"#);
        for (index, keys) in self.needs.json().enumerate() {
            hasher.update(if index == 0 { b"[" } else { b"," });
            hasher.update(keys);
        }
        hasher.update(b"]}");
        Ok(Key(*hasher.finalize().as_bytes()))
    }
}

/// The digest of this program, if it adds `task`.
fn program_of(task: &TaskInfo) -> Option<String> {
    task.is_added().then(|| host::program_digest().to_owned())
}

impl Key {
    /// The digest of a value's JSON.
    pub fn of_json(value: &impl Serialize) -> serde_json::Result<Self> {
        let mut hasher = blake3::Hasher::new();
        serde_json::to_writer(&mut hasher, value)?;
        Ok(Self(*hasher.finalize().as_bytes()))
    }

    /// Returns the first hexadecimal digits, for people, enough to identify a job of a store.
    pub fn short(&self) -> String {
        self.to_string()[..12].to_owned()
    }

    /// The key's first byte.
    pub fn first(self) -> u8 {
        self.0[0]
    }

    /// The key's hexadecimal digits.
    pub fn digits(self) -> [u8; 64] {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut digits = [0; 64];
        for (pair, byte) in digits.chunks_exact_mut(2).zip(self.0) {
            (pair[0], pair[1]) = (DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]);
        }
        digits
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(str::from_utf8(&self.digits()).unwrap_or_default())
    }
}

/// A text that is not a key.
#[derive(Debug, thiserror::Error)]
#[error("`{0}` is not a key of 64 hexadecimal digits")]
pub struct BadKey(String);

impl FromStr for Key {
    type Err = BadKey;

    fn from_str(text: &str) -> Result<Self, BadKey> {
        let bad = || BadKey(text.chars().take(80).collect());
        if text.len() != 64 || !text.is_ascii() {
            return Err(bad());
        }
        let mut bytes = [0; 32];
        for (index, byte) in bytes.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&text[2 * index..2 * index + 2], 16).map_err(|_| bad())?;
        }
        Ok(Self(bytes))
    }
}

impl Serialize for Key {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Key {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// Parts of a parameter's value that name a file or folder, and not something built in.
pub fn input_paths(kind: Kind, value: &mut Value) -> Vec<(Option<Part>, &mut String)> {
    match (kind, value) {
        (Kind::Path(built_in), Value::Text(text)) => {
            if built_in.contains(&text.as_str()) {
                Vec::new()
            } else {
                vec![(None, text)]
            }
        }
        (Kind::List(kind), Value::List(items)) => {
            let parts = items.iter_mut().enumerate().flat_map(|(index, item)| {
                let paths = input_paths(*kind, item).into_iter();
                paths.map(move |(_, path)| (Some(Part::Item(index)), path))
            });
            parts.collect()
        }
        _ => Vec::new(),
    }
}

/// The name under which an identity has the digest of an input.
pub fn digest_name(param: &str, part: Option<&Part>) -> String {
    match part {
        Some(Part::Item(index)) => format!("{param}.{}", index + 1),
        Some(Part::Key(key)) => format!("{param}.{key}"),
        None => param.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use sweep_job::Task;

    use super::*;

    fn identity(params: &[(&str, Value)], needs: Vec<Key>) -> Identity {
        let task = Task::info("train").unwrap();
        let values = params.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
        Identity::new(task, &task.complete(values), Some(Backend::Cpu), BTreeMap::new(), needs.into())
    }

    #[test]
    fn the_json_of_an_identity_is_pinned() {
        let json = serde_json::to_string(&identity(&[("iters", Value::Int(7)), ("lr", Value::Float(1e-3))], vec![]));
        let expected = r#"{"format":1,"task":"train","revision":4,"backend":"cpu","params":{"iters":7,"lr":0.001}}"#;
        assert_eq!(json.unwrap(), expected);
    }

    #[test]
    fn the_key_is_the_digest_of_the_whole_json() {
        let keys: Vec<Key> =
            (0..5).map(|seed| identity(&[("seed", Value::Int(seed))], vec![]).key().unwrap()).collect();
        for needs in [vec![], keys[..1].to_vec(), keys] {
            let identity = identity(&[], needs);
            let digest = blake3::hash(serde_json::to_string(&identity).unwrap().as_bytes());
            assert_eq!(identity.key().unwrap().to_string(), digest.to_hex().as_str());
        }
    }

    #[test]
    fn a_default_written_out_is_the_same_job() {
        let explicit_identity =
            identity(&[("iters", Value::Int(200)), ("model", Value::Text("gpt2-nano".into()))], vec![]);
        assert_eq!(explicit_identity.key().unwrap(), identity(&[], vec![]).key().unwrap());
    }

    #[test]
    fn every_field_changes_the_key() {
        let base = identity(&[], vec![]);
        let key = base.key().unwrap();
        let identities = [
            Identity { revision: base.revision + 1, ..base.clone() },
            Identity { backend: Some(Backend::Cuda), ..base.clone() },
            Identity { inputs: BTreeMap::from([("data".into(), "00".into())]), ..base.clone() },
            Identity { code: Some("00".into()), ..base.clone() },
            Identity { program: Some("00".into()), ..base.clone() },
            identity(&[("seed", Value::Int(1))], vec![]),
            identity(&[], vec![key]),
        ];
        for other in identities {
            assert_ne!(other.key().unwrap(), key, "{other:?}");
        }
    }

    #[test]
    fn keys_are_read_back() {
        let key = identity(&[], vec![]).key().unwrap();
        assert_eq!(key.to_string().parse::<Key>().unwrap(), key);
        assert!("xyz".parse::<Key>().is_err());
        assert!("é".repeat(32).parse::<Key>().is_err());
    }
}
