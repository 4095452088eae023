//! Committed offsets of all groups, as plain data; the store makes them durable.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Longest metadata string a commit may carry, as Kafka's `offset.metadata.max.bytes`.
pub(crate) const MAX_METADATA_BYTES: usize = 4096;

/// One group's position in one partition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Committed {
    #[serde(rename = "t")]
    pub(crate) topic: String,
    #[serde(rename = "p")]
    pub(crate) partition: i32,
    #[serde(rename = "o")]
    pub(crate) offset: i64,
    #[serde(rename = "e")]
    pub(crate) leader_epoch: i32,
    #[serde(rename = "m", default, skip_serializing_if = "String::is_empty")]
    pub(crate) metadata: String,
}

/// Offsets by group, topic and partition. Bounded by the number of groups that the coordinator
/// admits times the partitions that exist.
#[derive(Debug, Default)]
pub(crate) struct Offsets {
    groups: BTreeMap<String, BTreeMap<String, BTreeMap<i32, Committed>>>,
}

impl Offsets {
    pub(crate) fn commit(&mut self, group: &str, items: Vec<Committed>) {
        if !self.groups.contains_key(group) {
            self.groups.insert(group.to_owned(), BTreeMap::new());
        }
        let Some(topics) = self.groups.get_mut(group) else {
            return;
        };
        for item in items {
            match topics.get_mut(&item.topic) {
                Some(partitions) => {
                    partitions.insert(item.partition, item);
                }
                None => {
                    let topic = item.topic.clone();
                    topics.insert(topic, BTreeMap::from([(item.partition, item)]));
                }
            }
        }
    }

    pub(crate) fn get(&self, group: &str, topic: &str, partition: i32) -> Option<&Committed> {
        self.groups.get(group)?.get(topic)?.get(&partition)
    }

    /// The offset of a partition before which a group has committed everything: 0 if it has committed only in other
    /// partitions of the topic, `None` if in none.
    pub(crate) fn position(&self, group: &str, topic: &str, partition: i32) -> Option<i64> {
        let partitions = self.groups.get(group)?.get(topic)?;
        Some(partitions.get(&partition).map_or(0, |at| at.offset))
    }

    /// All commits of a group, by topic.
    pub(crate) fn of_group(
        &self,
        group: &str,
    ) -> impl Iterator<Item = (&String, &BTreeMap<i32, Committed>)> {
        self.groups.get(group).into_iter().flatten()
    }

    pub(crate) fn contains(&self, group: &str) -> bool {
        self.groups.contains_key(group)
    }

    pub(crate) fn groups(&self) -> impl Iterator<Item = &String> {
        self.groups.keys()
    }

    /// How many groups have offsets.
    pub(crate) fn len(&self) -> usize {
        self.groups.len()
    }

    pub(crate) fn remove_group(&mut self, group: &str) {
        self.groups.remove(group);
    }

    pub(crate) fn remove(&mut self, group: &str, topic: &str, partition: i32) {
        if let Some(partitions) = self.groups.get_mut(group).and_then(|t| t.get_mut(topic)) {
            partitions.remove(&partition);
        }
    }

    /// Removes a deleted topic from every group, so that a new topic of that name starts without offsets.
    pub(crate) fn remove_topic(&mut self, topic: &str) {
        for topics in self.groups.values_mut() {
            topics.remove(topic);
        }
    }

    /// A copy for the snapshot.
    pub(crate) fn export(&self) -> Vec<(String, Vec<Committed>)> {
        let flat = |topics: &BTreeMap<String, BTreeMap<i32, Committed>>| {
            topics
                .values()
                .flat_map(BTreeMap::values)
                .cloned()
                .collect()
        };
        self.groups
            .iter()
            .map(|(group, topics)| (group.clone(), flat(topics)))
            .collect()
    }
}
