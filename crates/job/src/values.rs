//! Parameters by name, in little memory: a plan has them for each of its jobs, of which there may be a million.

use std::{cmp::Ordering, fmt, vec};

use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{MapAccess, Visitor},
};

use crate::Value;

/// A name. Up to 24 bytes need no allocation.
pub type Name = compact_str::CompactString;

/// Parameters by name, sorted by name: a list, because the smallest node of a tree has room for eleven, and many jobs have a few.
///
/// Defaults of a task are not copied: they are looked up for parameters without a value.
#[derive(Clone, Default)]
pub struct Values {
    /// Sorted by name.
    own: Vec<(Name, Value)>,
    /// Sorted by name. A default that is also in `own` does not count.
    defaults: &'static [(Name, Value)],
}

impl Values {
    /// Creates an empty set of values.
    pub const fn new() -> Self {
        Self { own: Vec::new(), defaults: &[] }
    }

    /// These values, with the values of `defaults` for parameters without a value.
    pub(crate) fn or(mut self, defaults: &'static Self) -> Self {
        self.copy_defaults();
        self.own.shrink_to_fit();
        Self { own: self.own, defaults: &defaults.own }
    }

    /// Number of parameters.
    pub fn len(&self) -> usize {
        self.iter().count()
    }

    /// Returns true if there are no values.
    pub fn is_empty(&self) -> bool {
        self.own.is_empty() && self.defaults.is_empty()
    }

    /// The value of a parameter.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.given(name).or_else(|| found(self.defaults, name))
    }

    /// The value of a parameter, unless it is a default that [`TaskInfo::complete`](crate::TaskInfo::complete) has added.
    pub fn given(&self, name: &str) -> Option<&Value> {
        found(&self.own, name)
    }

    /// The value of a parameter, to change it.
    pub fn get_mut(&mut self, name: &str) -> Option<&mut Value> {
        let place = match place(&self.own, name) {
            Ok(place) => place,
            Err(place) => {
                let default = found(self.defaults, name)?.clone();
                self.own.insert(place, (name.into(), default));
                place
            }
        };
        self.own.get_mut(place).map(|(_, value)| value)
    }

    /// Returns true if the parameter is present.
    pub fn contains_key(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// Sets a parameter, and returns its earlier value.
    pub fn insert(&mut self, name: impl Into<Name>, value: Value) -> Option<Value> {
        let name = name.into();
        match place(&self.own, &name) {
            Ok(place) => Some(std::mem::replace(&mut self.own[place].1, value)),
            Err(place) => {
                let default = found(self.defaults, &name).cloned();
                self.own.insert(place, (name, value));
                default
            }
        }
    }

    /// Removes a parameter, and returns its value.
    pub fn remove(&mut self, name: &str) -> Option<Value> {
        self.copy_defaults();
        place(&self.own, name).ok().map(|place| self.own.remove(place).1)
    }

    /// Keeps the parameters for which this is true.
    pub fn retain(&mut self, mut keeps: impl FnMut(&Name, &mut Value) -> bool) {
        self.copy_defaults();
        self.own.retain_mut(|(name, value)| keeps(name, value));
        self.own.shrink_to_fit();
    }

    /// The parameters, by name.
    pub fn iter(&self) -> Iter<'_> {
        self.into_iter()
    }

    /// The names.
    pub fn keys(&self) -> impl Iterator<Item = &Name> {
        self.iter().map(|(name, _)| name)
    }

    /// The values, by name.
    pub fn values(&self) -> impl Iterator<Item = &Value> {
        self.iter().map(|(_, value)| value)
    }

    /// The values, by name, to change them.
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut Value> {
        self.copy_defaults();
        self.own.iter_mut().map(|(_, value)| value)
    }

    /// Copies the defaults into the values.
    fn copy_defaults(&mut self) {
        if !self.defaults.is_empty() {
            self.own = self.iter().map(|(name, value)| (name.clone(), value.clone())).collect();
            self.defaults = &[];
        }
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
        Self { own: all, defaults: &[] }
    }
}

/// The place of a name in a sorted list, or the place where it would be.
fn place(all: &[(Name, Value)], name: &str) -> Result<usize, usize> {
    all.binary_search_by(|(other, _)| other.as_str().cmp(name))
}

/// The value of a name in a sorted list.
fn found<'a>(all: &'a [(Name, Value)], name: &str) -> Option<&'a Value> {
    place(all, name).ok().map(|place| &all[place].1)
}

impl PartialEq for Values {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other)
    }
}

/// The parameters, by name.
#[derive(Debug, Clone)]
pub struct Iter<'a> {
    own: &'a [(Name, Value)],
    defaults: &'a [(Name, Value)],
}

impl<'a> Iterator for Iter<'a> {
    type Item = (&'a Name, &'a Value);

    fn next(&mut self) -> Option<Self::Item> {
        let order = match (self.own, self.defaults) {
            ([], []) => return None,
            ([_, ..], []) => Ordering::Less,
            ([], [_, ..]) => Ordering::Greater,
            ([(own, _), ..], [(default, _), ..]) => own.cmp(default),
        };
        let from = if order == Ordering::Greater { &mut self.defaults } else { &mut self.own };
        let ((name, value), rest) = from.split_first()?;
        *from = rest;
        if order == Ordering::Equal {
            self.defaults = &self.defaults[1..];
        }
        Some((name, value))
    }
}

impl<'a> IntoIterator for &'a Values {
    type Item = (&'a Name, &'a Value);
    type IntoIter = Iter<'a>;

    fn into_iter(self) -> Iter<'a> {
        Iter { own: &self.own, defaults: self.defaults }
    }
}

impl IntoIterator for Values {
    type Item = (Name, Value);
    type IntoIter = vec::IntoIter<(Name, Value)>;

    fn into_iter(mut self) -> Self::IntoIter {
        self.copy_defaults();
        self.own.into_iter()
    }
}

impl<N: Into<Name>> FromIterator<(N, Value)> for Values {
    fn from_iter<I: IntoIterator<Item = (N, Value)>>(all: I) -> Self {
        Self::sorted(all.into_iter().map(|(name, value)| (name.into(), value)).collect())
    }
}

impl<N: Into<Name>> Extend<(N, Value)> for Values {
    fn extend<I: IntoIterator<Item = (N, Value)>>(&mut self, more: I) {
        self.copy_defaults();
        let mut all = std::mem::take(&mut self.own);
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
    use std::{collections::BTreeMap, sync::LazyLock};

    use super::*;

    /// A call of one of the methods.
    type Change<'a> = &'a dyn Fn(&mut Values) -> Option<Value>;

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
    fn defaults_are_values_until_others_are_set() {
        static DEFAULTS: LazyLock<Values> = LazyLock::new(|| numbers(&[("a", 1), ("c", 3), ("e", 5)]));
        let with = |own: &[(&str, i64)]| numbers(own).or(&DEFAULTS);
        let copied = |own: &[(&str, i64)]| numbers(&[&[("a", 1), ("c", 3), ("e", 5)], own].concat());
        for own in [&[][..], &[("a", 7)], &[("b", 2), ("c", 8)], &[("e", 9), ("f", 6)], &[("0", 0)]] {
            let (values, copied) = (with(own), copied(own));
            assert_eq!(values, copied);
            assert_eq!((values.len(), values.is_empty()), (copied.len(), false));
            assert_eq!(serde_json::to_string(&values).unwrap(), serde_json::to_string(&copied).unwrap());
            assert!(values.clone().into_iter().eq(copied.clone()));
            for name in ["0", "a", "b", "c", "d", "e", "f"] {
                assert_eq!(values.get(name), copied.get(name));
                assert_eq!(values.contains_key(name), copied.contains_key(name));
                let change = |values: &Values, change: Change<'_>| {
                    let mut values = values.clone();
                    (change(&mut values), values)
                };
                let changes: [Change<'_>; 5] = [
                    &|values| values.insert(name, Value::Int(4)),
                    &|values| values.remove(name),
                    &|values| Some(std::mem::replace(values.get_mut(name)?, Value::Null)),
                    &|values| {
                        values.retain(|other, _| other != name);
                        None
                    },
                    &|values| {
                        values.extend([(name, Value::Null)]);
                        None
                    },
                ];
                for all in changes {
                    assert_eq!(change(&values, all), change(&copied, all));
                }
            }
        }
        assert_eq!((with(&[("a", 1)]).given("a"), with(&[]).given("a")), (Some(&Value::Int(1)), None));
        assert_ne!(with(&[]), numbers(&[("a", 1), ("c", 3)]));
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
