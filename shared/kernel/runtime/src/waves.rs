//! Batches in waves: one event of each order at a time, in the order of arrival.

use std::collections::{HashMap, HashSet};
use std::hash::Hash;

/// Splits items into waves: no wave holds two items of the same key, and the items of one key are in successive
/// waves, in their order.
pub(crate) fn waves<K: Eq + Hash + Clone, T>(items: Vec<(K, T)>) -> Vec<Vec<(K, T)>> {
    let mut next: HashMap<K, usize> = HashMap::new();
    let mut waves: Vec<Vec<(K, T)>> = Vec::new();
    for (key, item) in items {
        let wave = next.entry(key.clone()).or_default();
        if waves.len() == *wave {
            waves.push(Vec::new());
        }
        waves[*wave].push((key, item));
        *wave += 1;
    }
    waves
}

/// Keys whose earlier event must be redelivered: their later ones must wait for it.
#[derive(Debug)]
pub(crate) struct HeldKeys<K>(HashSet<K>);

impl<K: Eq + Hash + Clone> HeldKeys<K> {
    pub(crate) fn new() -> Self {
        Self(HashSet::new())
    }

    pub(crate) fn hold(&mut self, key: &K) {
        self.0.insert(key.clone());
    }

    pub(crate) fn holds(&self, key: &K) -> bool {
        self.0.contains(key)
    }
}

#[cfg(test)]
mod tests {
    use super::waves;

    #[test]
    fn each_wave_has_one_of_a_key_and_order_is_kept() {
        let w = waves(vec![("a", 1), ("b", 2), ("a", 3), ("a", 4), ("b", 5)]);
        assert_eq!(
            w,
            [
                vec![("a", 1), ("b", 2)],
                vec![("a", 3), ("b", 5)],
                vec![("a", 4)]
            ]
        );
    }
}
