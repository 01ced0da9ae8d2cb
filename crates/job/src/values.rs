//! Parameters by name, in little memory: a plan has them for each of its jobs, of which there may be a million.

use std::{fmt, slice, vec};

use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{MapAccess, Visitor},
};

use crate::Value;

/// A name; one of up to 24 bytes needs no memory of its own.
pub type Name = compact_str::CompactString;

/// Parameters by name, sorted by name: a list, because the smallest node of a tree has room for eleven, and many jobs have a few.
#[derive(Clone, PartialEq, Default)]
pub struct Values(Vec<(Name, Value)>);

impl Values {
    /// None.
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// Number of parameters.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The value of a parameter.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.place(name).ok().map(|place| &self.0[place].1)
    }

    /// The value of a parameter, to change it.
    pub fn get_mut(&mut self, name: &str) -> Option<&mut Value> {
        self.place(name).ok().map(|place| &mut self.0[place].1)
    }

    /// True if the parameter is there.
    pub fn contains_key(&self, name: &str) -> bool {
        self.place(name).is_ok()
    }

    /// Sets a parameter; answers its earlier value.
    pub fn insert(&mut self, name: impl Into<Name>, value: Value) -> Option<Value> {
        let name = name.into();
        match self.place(&name) {
            Ok(place) => Some(std::mem::replace(&mut self.0[place].1, value)),
            Err(place) => {
                self.0.insert(place, (name, value));
                None
            }
        }
    }

    /// Removes a parameter; answers its value.
    pub fn remove(&mut self, name: &str) -> Option<Value> {
        self.place(name).ok().map(|place| self.0.remove(place).1)
    }

    /// Keeps the parameters for which this is true.
    pub fn retain(&mut self, mut keeps: impl FnMut(&Name, &mut Value) -> bool) {
        self.0.retain_mut(|(name, value)| keeps(name, value));
        self.0.shrink_to_fit();
    }

    /// The parameters, by name.
    pub fn iter(&self) -> Iter<'_> {
        self.into_iter()
    }

    /// The names.
    pub fn keys(&self) -> impl DoubleEndedIterator<Item = &Name> {
        self.0.iter().map(|(name, _)| name)
    }

    /// The values, by name.
    pub fn values(&self) -> impl DoubleEndedIterator<Item = &Value> {
        self.0.iter().map(|(_, value)| value)
    }

    /// The values, by name, to change them.
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut Value> {
        self.0.iter_mut().map(|(_, value)| value)
    }

    fn place(&self, name: &str) -> Result<usize, usize> {
        self.0.binary_search_by(|(other, _)| other.as_str().cmp(name))
    }

    /// Of parameters in any order; of several with one name, the last counts.
    fn sorted(mut all: Vec<(Name, Value)>) -> Self {
        // Stable: among equal names the order stays.
        all.sort_by(|(one, _), (other, _)| one.cmp(other));
        all.dedup_by(|later, earlier| {
            let same = later.0 == earlier.0;
            if same {
                std::mem::swap(later, earlier);
            }
            same
        });
        all.shrink_to_fit();
        Self(all)
    }
}

/// The parameters, by name.
type Iter<'a> = std::iter::Map<slice::Iter<'a, (Name, Value)>, fn(&'a (Name, Value)) -> (&'a Name, &'a Value)>;

impl<'a> IntoIterator for &'a Values {
    type Item = (&'a Name, &'a Value);
    type IntoIter = Iter<'a>;

    fn into_iter(self) -> Iter<'a> {
        let pair: fn(&'a (Name, Value)) -> (&'a Name, &'a Value) = |(name, value)| (name, value);
        self.0.iter().map(pair)
    }
}

impl IntoIterator for Values {
    type Item = (Name, Value);
    type IntoIter = vec::IntoIter<(Name, Value)>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<N: Into<Name>> FromIterator<(N, Value)> for Values {
    fn from_iter<I: IntoIterator<Item = (N, Value)>>(all: I) -> Self {
        Self::sorted(all.into_iter().map(|(name, value)| (name.into(), value)).collect())
    }
}

impl<N: Into<Name>> Extend<(N, Value)> for Values {
    fn extend<I: IntoIterator<Item = (N, Value)>>(&mut self, more: I) {
        let mut all = std::mem::take(&mut self.0);
        all.extend(more.into_iter().map(|(name, value)| (name.into(), value)));
        *self = Self::sorted(all);
    }
}

impl<N: Into<Name>, const COUNT: usize> From<[(N, Value); COUNT]> for Values {
    fn from(all: [(N, Value); COUNT]) -> Self {
        all.into_iter().collect()
    }
}

impl fmt::Debug for Values {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self).finish()
    }
}

impl Serialize for Values {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self)
    }
}

impl<'de> Deserialize<'de> for Values {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;

        impl<'de> Visitor<'de> for Reader {
            type Value = Values;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Values, A::Error> {
                let mut all = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    all.push(entry);
                }
                Ok(Values::sorted(all))
            }
        }

        deserializer.deserialize_map(Reader)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn numbers(all: &[(&str, i64)]) -> Values {
        all.iter().map(|(name, value)| (*name, Value::Int(*value))).collect()
    }

    #[test]
    fn they_are_sorted_and_have_one_value_each() {
        let mut values = numbers(&[("b", 1), ("a", 2), ("b", 3), ("c", 4), ("b", 5)]);
        assert_eq!(values, numbers(&[("a", 2), ("b", 5), ("c", 4)]));
        assert_eq!(values.insert("aa", Value::Int(6)), None);
        assert_eq!(values.insert("a".to_owned(), Value::Int(7)), Some(Value::Int(2)));
        assert_eq!(values.keys().collect::<Vec<_>>(), ["a", "aa", "b", "c"]);
        values.extend([("b", Value::Int(8)), ("0", Value::Int(9))]);
        assert_eq!(values.get("b"), Some(&Value::Int(8)));
        assert_eq!(values.remove("b"), Some(Value::Int(8)));
        assert_eq!(values.remove("b"), None);
        assert_eq!((values.get("b"), values.len()), (None, 4));
        values.retain(|name, _| name == "a");
        assert_eq!(values, numbers(&[("a", 7)]));
    }

    #[test]
    fn the_json_is_that_of_a_map() {
        let long = "a name of more than twenty-four bytes";
        for values in [Values::new(), numbers(&[("z", 1), (long, 2), ("a", 3)])] {
            let as_map: BTreeMap<&str, &Value> = values.iter().map(|(name, value)| (name.as_str(), value)).collect();
            let text = serde_json::to_string(&values).unwrap();
            assert_eq!(text, serde_json::to_string(&as_map).unwrap());
            assert_eq!(serde_json::from_str::<Values>(&text).unwrap(), values);
        }
        assert_eq!(serde_json::from_str::<Values>(r#"{"b":1,"a":2,"b":3}"#).unwrap(), numbers(&[("a", 2), ("b", 3)]));
        assert!(serde_json::from_str::<Values>("[]").is_err());
    }
}
