//! The parts of an installation that are examined.

use std::collections::BTreeMap;

use serde::Deserialize;
use triad_kafka::WantedTopic;

/// The parts of an installation, as the Terraform module names them in `TRIAD_SETUP` and in its output `triad`. A part
/// that is not named is not examined.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct Parts {
    /// The topics.
    #[serde(default)]
    pub topics: Vec<TopicPart>,
    /// The functions' names in Lambda, by function: `submission`, `agent-payment`, …
    #[serde(default)]
    pub functions: BTreeMap<String, String>,
    /// SHA-256 in hex of each function's policy as JSON, by the name of its role.
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
