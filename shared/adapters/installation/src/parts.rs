//! The parts of an installation that are examined.

use std::collections::BTreeMap;
use std::io::Read as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::read::GzDecoder;
use serde::Deserialize;
use triad_kafka::WantedTopic;

/// Largest text of the parts when it is decompressed, in bytes, inclusive: 1 MiB.
const MAX_BYTES: u64 = 1024 * 1024;

/// The parts of an installation, as the Terraform module names them in `TRIAD_SETUP` and in its output `triad`. A part
/// that is not named is not examined.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Parts {
    /// The topics.
    #[serde(default)]
    pub topics: Vec<TopicPart>,
    /// The functions' names in Lambda, by function: `submission`, `agent-payment`, …
    #[serde(default)]
    pub functions: BTreeMap<String, String>,
    /// SHA-256 in hex of each function's policy, by the name of its role.
    #[serde(default)]
    pub policies: BTreeMap<String, String>,
    /// The schedule of the Supervisor.
    #[serde(default)]
    pub schedule: Option<Schedule>,
    /// Names of the alarms.
    #[serde(default)]
    pub alarms: Vec<String>,
    /// ARN of the SNS topic for alerts.
    #[serde(default)]
    pub alerts_topic_arn: Option<String>,
    /// Base URLs of the agents' services, by agent.
    #[serde(default)]
    pub agents: BTreeMap<String, String>,
}

impl Parts {
    /// Reads the parts: JSON, or its gzip in base64, which fits into the environment of a function.
    ///
    /// # Errors
    /// Why the text is neither, for people.
    pub fn read(text: &str) -> Result<Self, String> {
        if text.trim_start().starts_with('{') {
            return serde_json::from_str(text).map_err(|e| e.to_string());
        }
        let packed = STANDARD.decode(text.trim());
        let packed = packed.map_err(|e| format!("is neither JSON nor base64: {e}"))?;
        let mut json = String::new();
        let read = GzDecoder::new(&*packed)
            .take(MAX_BYTES)
            .read_to_string(&mut json);
        read.map_err(|e| format!("is not the gzip of a text: {e}"))?;
        serde_json::from_str(&json).map_err(|e| e.to_string())
    }
}

/// A topic of an installation.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TopicPart {
    /// The topic's name without the installation's prefix.
    pub name: String,
    /// Its partitions.
    pub partitions: i32,
    /// Copies of each partition; absent: the brokers' default.
    #[serde(default)]
    pub replication: Option<i32>,
    /// Its settings by Kafka's names.
    #[serde(default)]
    pub settings: BTreeMap<String, String>,
}

impl From<TopicPart> for WantedTopic {
    fn from(part: TopicPart) -> Self {
        let TopicPart {
            name,
            partitions,
            replication,
            settings,
        } = part;
        Self {
            name,
            partitions,
            replication,
            settings,
        }
    }
}

/// A schedule of EventBridge Scheduler.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Schedule {
    /// Its group.
    pub group: String,
    /// Its name.
    pub name: String,
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    #[test]
    fn parts_are_read_as_json_and_as_the_module_packs_them() {
        let json = r#"{"functions": {"scheduler": "shop-scheduler"}, "alarms": [], "topics":
            [{"name": "orders", "partitions": 8, "replication": null, "settings": {}}],
            "schedule": {"group": "shop", "name": "shop-supervisor"}}"#;
        let parts = Parts::read(json).expect("JSON");
        let mut gzip = GzEncoder::new(Vec::new(), Compression::default());
        gzip.write_all(json.as_bytes()).expect("it is packed");
        let packed = STANDARD.encode(gzip.finish().expect("it is packed"));
        assert_eq!(Parts::read(&packed), Ok(parts));
        for bad in ["", "x", "{", "e30="] {
            assert!(Parts::read(bad).is_err(), "{bad}");
        }
    }
}
