//! The keys of needed jobs in a job's identity, in lists that identities share.

use std::{
    iter,
    ops::Range,
    sync::{Arc, OnceLock},
};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::record::Key;

/// Keys, sorted, each once.
#[derive(Debug, Default)]
pub struct KeyList {
    keys: Box<[Key]>,
    /// The concatenated JSON of the keys. Thousands of identities may have the same list, and each is hashed.
    json: OnceLock<Box<[u8]>>,
}

/// The bytes of a key's JSON: 64 digits, two quotes and a comma.
const STRIDE: usize = 67;

impl KeyList {
    /// The keys in their order. Each is listed once.
    pub fn new(mut keys: Vec<Key>) -> Self {
        keys.sort_unstable();
        keys.dedup();
        Self { keys: keys.into(), json: OnceLock::new() }
    }

    /// The JSON of some of the keys, with commas between them.
    fn json(&self, range: &Range<usize>) -> &[u8] {
        let json = self.json.get_or_init(|| {
            let mut json = Vec::with_capacity(STRIDE * self.keys.len());
            for key in &self.keys {
                json.push(b'"');
                json.extend(key.digits());
                json.extend(br#"","#);
            }
            json.into()
        });
        json.get(STRIDE * range.start..STRIDE * range.end - 1).unwrap_or_default()
    }
}

/// The keys of needed jobs from several lists, sorted, each once.
#[derive(Debug, Clone, Default)]
pub struct Needed(Vec<Arc<KeyList>>);

impl Needed {
    /// True if there are no keys.
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|list| list.keys.is_empty())
    }

    /// True if a key is among them.
    pub fn contains(&self, key: Key) -> bool {
        self.0.iter().any(|list| list.keys.binary_search(&key).is_ok())
    }

    /// The keys in their order.
    pub fn iter(&self) -> impl Iterator<Item = Key> + '_ {
        self.runs().flat_map(|(list, range)| list.keys[range].iter().copied())
    }

    /// Their JSON in pieces: the inner part of a list, without the commas between the pieces.
    pub fn json(&self) -> impl Iterator<Item = &[u8]> {
        self.runs().map(|(list, range)| list.json(&range))
    }

    /// Adds the keys of a list.
    pub fn push(&mut self, list: Arc<KeyList>) {
        self.0.push(list);
    }

    /// The lists merged: runs of keys that are in one list, preceded by the remaining keys of the others.
    fn runs(&self) -> impl Iterator<Item = (&KeyList, Range<usize>)> {
        let mut starts = vec![0; self.0.len()];
        iter::from_fn(move || {
            let heads = self.0.iter().zip(&starts).enumerate();
            let heads = heads.filter_map(|(index, (list, start))| Some((*list.keys.get(*start)?, index)));
            let (first_key, index) = heads.clone().min()?;
            let next_key = heads.filter(|(_, other)| *other != index).map(|(key, _)| key).min();
            let (list, start) = (&self.0[index], starts[index]);
            let end = next_key.map_or(list.keys.len(), |next_key| {
                start + list.keys[start..].partition_point(|key| *key < next_key).max(1)
            });
            starts[index] = end;
            // A key in several lists counts once.
            for (list, start) in self.0.iter().zip(&mut starts) {
                *start += usize::from(list.keys.get(*start) == Some(&first_key));
            }
            Some((list.as_ref(), start..end))
        })
    }
}

impl From<Vec<Key>> for Needed {
    fn from(keys: Vec<Key>) -> Self {
        if keys.is_empty() { Self::default() } else { Self(vec![Arc::new(KeyList::new(keys))]) }
    }
}

impl FromIterator<Arc<KeyList>> for Needed {
    fn from_iter<I: IntoIterator<Item = Arc<KeyList>>>(lists: I) -> Self {
        Self(lists.into_iter().collect())
    }
}

impl PartialEq for Needed {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Serialize for Needed {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter())
    }
}

impl<'de> Deserialize<'de> for Needed {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Vec::deserialize(deserializer).map(|keys: Vec<Key>| keys.into())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn key(number: u8) -> Key {
        format!("{number:02x}").repeat(32).parse().unwrap()
    }

    proptest! {
        #[test]
        fn lists_are_merged_and_what_is_in_several_counts_once(
            lists in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..40), 0..5),
        ) {
            let keys = |list: &Vec<u8>| list.iter().map(|number| key(*number)).collect::<Vec<Key>>();
            let parts: Needed = lists.iter().map(|list| Arc::new(KeyList::new(keys(list)))).collect();
            let single_list = Needed::from(lists.iter().flat_map(keys).collect::<Vec<Key>>());
            prop_assert_eq!(&parts, &single_list);
            prop_assert_eq!(parts.is_empty(), lists.concat().is_empty());
            prop_assert!(lists.concat().iter().all(|number| parts.contains(key(*number))));
            let json = serde_json::to_string(&parts).unwrap();
            prop_assert_eq!(&json, &serde_json::to_string(&single_list).unwrap());
            let pieces: Vec<&[u8]> = parts.json().collect();
            prop_assert_eq!(format!("[{}]", String::from_utf8(pieces.join(&b","[..])).unwrap()), json);
        }
    }
}
