//! The catalogue: topics by name, their partitions' logs, their settings.

use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasher, RandomState};

use uuid::Uuid;

use super::meta::LogId;

/// A topic.
#[derive(Debug, Clone)]
pub(crate) struct Topic {
    pub(crate) id: Uuid,
    /// Settings given at creation, as text, in Kafka's names.
    pub(crate) configs: BTreeMap<String, String>,
    /// The log of each partition.
    pub(crate) logs: Vec<LogId>,
}

impl Topic {
    /// A numeric setting, if the topic has it and it is not negative.
    pub(crate) fn number(&self, name: &str) -> Option<u64> {
        self.configs.get(name)?.parse().ok()
    }

    pub(crate) fn log(&self, partition: i32) -> Option<LogId> {
        self.logs.get(usize::try_from(partition).ok()?).copied()
    }
}

/// All topics, by name and by id.
#[derive(Debug, Default)]
pub(crate) struct Topics {
    by_name: BTreeMap<String, Topic>,
    by_id: HashMap<Uuid, String>,
}

impl Topics {
    pub(crate) fn get(&self, name: &str) -> Option<&Topic> {
        self.by_name.get(name)
    }

    pub(crate) fn name_of(&self, id: Uuid) -> Option<&str> {
        self.by_id.get(&id).map(String::as_str)
    }

    pub(crate) fn log(&self, name: &str, partition: i32) -> Option<LogId> {
        self.by_name.get(name)?.log(partition)
    }

    /// The topic and partition of a log.
    pub(crate) fn place(&self, id: LogId) -> Option<(&str, &Topic, i32)> {
        self.by_name.iter().find_map(|(name, topic)| {
            let (partition, _) = (0..).zip(&topic.logs).find(|(_, log)| **log == id)?;
            Some((name.as_str(), topic, partition))
        })
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&String, &Topic)> {
        self.by_name.iter()
    }

    pub(crate) fn insert(&mut self, name: String, topic: Topic) {
        self.by_id.insert(topic.id, name.clone());
        self.by_name.insert(name, topic);
    }

    pub(crate) fn add_logs(&mut self, name: &str, logs: &[LogId]) {
        if let Some(topic) = self.by_name.get_mut(name) {
            topic.logs.extend_from_slice(logs);
        }
    }

    pub(crate) fn remove(&mut self, name: &str) -> Option<Topic> {
        let topic = self.by_name.remove(name)?;
        self.by_id.remove(&topic.id);
        Some(topic)
    }
}

/// Kafka's rule: 1 to 249 of letters, digits, dot, underscore and hyphen, and not only dots.
pub(crate) fn is_legal_name(name: &str) -> bool {
    let legal = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-');
    (1..=249).contains(&name.len()) && name != "." && name != ".." && name.bytes().all(legal)
}

/// A unique id; not secret.
pub(crate) fn fresh_uuid() -> Uuid {
    // The standard library seeds each `RandomState` from the system's random source.
    let half = |n: u64| RandomState::new().hash_one(n);
    uuid::Builder::from_u128((u128::from(half(1)) << 64) | u128::from(half(2)))
        .with_variant(uuid::Variant::RFC4122)
        .with_version(uuid::Version::Random)
        .into_uuid()
}
