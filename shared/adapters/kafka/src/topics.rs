//! The topics of an installation with their settings: makes those that are missing, and tells how existing ones differ.

use std::collections::BTreeMap;

use rdkafka::admin::{
    AdminClient, AdminOptions, ConfigResource, NewTopic, OwnedResourceSpecifier, ResourceSpecifier,
    TopicReplication,
};
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::RDKafkaErrorCode;

use crate::admin::{OPERATION_WITHIN, REQUEST_WITHIN, why_not};
use crate::config::KafkaConfig;
use crate::context::{Context, explain};
use crate::error::{KafkaError, advice_about_topic, unusable};
use crate::first_token::{await_token, give_token};

/// Differences that one error lists; the rest is counted.
const LISTED: usize = 10;

/// A topic that [`create_topics`] is to create: its name and its number of partitions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Topic {
    /// The topic's name.
    pub name: String,
    /// How many partitions it is to have; 1 or more.
    pub partitions: i32,
}

/// Creates the topics that are missing, with the brokers' default replication. A topic that exists is left as
/// it is, whatever number of partitions it has. Takes at most about 20 s.
///
/// # Errors
/// [`KafkaError::Refused`] for the first topic that cannot be created (others may be created);
/// [`KafkaError::Settings`], [`KafkaError::Unreachable`] or [`KafkaError::Login`] if the brokers
/// cannot be asked.
pub async fn create_topics(config: &KafkaConfig, topics: &[Topic]) -> Result<(), KafkaError> {
    let topics = topics.iter().cloned().map(WantedTopic::plain);
    create(config, &topics.collect::<Vec<_>>()).await
}

/// A topic as an installation needs it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WantedTopic {
    /// The topic's name without the installation's prefix.
    pub name: String,
    /// How many partitions it has; 1 or more.
    pub partitions: i32,
    /// Copies of each partition. `None`: as many as the brokers give to a new topic.
    pub replication: Option<i32>,
    /// Settings by Kafka's names, such as `retention.ms`. The topic has the brokers' defaults for all others.
    pub settings: BTreeMap<String, String>,
}

impl WantedTopic {
    /// A topic with the brokers' defaults.
    #[must_use]
    pub fn plain(Topic { name, partitions }: Topic) -> Self {
        Self {
            name,
            partitions,
            replication: None,
            settings: BTreeMap::new(),
        }
    }
}

/// Difference between an existing topic, or one that is missing, and what is wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TopicDifference {
    /// There is no such topic, or the login may not see it; its name in Kafka.
    Missing(String),
    /// The topic with this name in Kafka has another value.
    Other {
        /// Name in Kafka.
        name: String,
        /// `partitions`, `replication`, or the name of a setting.
        what: String,
        /// The value that it has; empty if it has none.
        found: String,
        /// The value that is wanted.
        wanted: String,
    },
}

impl std::fmt::Display for TopicDifference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Missing(name) => write!(f, "topic {name} does not exist"),
            Self::Other {
                name,
                what,
                found,
                wanted,
            } => write!(f, "topic {name}: {what} is {found:?} and not {wanted:?}"),
        }
    }
}

/// Makes the topics that are missing. Makes none if an existing one differs from what is wanted: it may be another
/// program's. Takes at most about 40 s. Returns how many it has made.
///
/// # Errors
/// [`KafkaError::Refused`] with the differences, or for the first topic that cannot be made;
/// [`KafkaError::Settings`], [`KafkaError::Unreachable`] or [`KafkaError::Login`] if the brokers cannot be asked.
pub async fn make_topics(
    config: &KafkaConfig,
    wanted: &[WantedTopic],
) -> Result<usize, KafkaError> {
    let (missing, other): (Vec<_>, Vec<_>) = compare_topics(config, wanted)
        .await?
        .into_iter()
        .partition(|difference| matches!(difference, TopicDifference::Missing(_)));
    if !other.is_empty() {
        let listed: Vec<String> = other.iter().take(LISTED).map(ToString::to_string).collect();
        let more = match other.len().saturating_sub(LISTED) {
            0 => String::new(),
            more => format!("\n  and {more} more"),
        };
        return Err(KafkaError::Refused(format!(
            "topics exist that differ from what is asked for:\n  {}{more}\nNo topic was made. If they are this installation's, change them (kafka-configs) or ask for what they have; if they are another program's, use another prefix",
            listed.join("\n  ")
        )));
    }
    let is_missing = |topic: &&WantedTopic| {
        let name = config.in_kafka(&topic.name);
        missing.contains(&TopicDifference::Missing(name))
    };
    let new: Vec<WantedTopic> = wanted.iter().filter(is_missing).cloned().collect();
    create(config, &new).await?;
    Ok(new.len())
}

/// Creates topics. One that exists is left as it is.
pub(crate) async fn create(config: &KafkaConfig, topics: &[WantedTopic]) -> Result<(), KafkaError> {
    if topics.is_empty() {
        return Ok(());
    }
    let (admin, options) = admin(config)?;
    let names: Vec<String> = topics.iter().map(|t| config.in_kafka(&t.name)).collect();
    let new: Vec<NewTopic<'_>> = topics
        .iter()
        .zip(&names)
        .map(|(topic, name)| {
            let copies = TopicReplication::Fixed(topic.replication.unwrap_or(-1));
            let settings = topic.settings.iter();
            settings.fold(
                NewTopic::new(name, topic.partitions, copies),
                |new, (name, value)| new.set(name, value),
            )
        })
        .collect();
    let results = match admin.create_topics(&new, &options).await {
        Ok(results) => results,
        Err(error) => return Err(why_not(config, error).await),
    };
    for result in results {
        match result {
            Ok(_) | Err((_, RDKafkaErrorCode::TopicAlreadyExists)) => {}
            Err((topic, code)) => {
                let advice = advice_about_topic(Some(code));
                return Err(KafkaError::Refused(format!(
                    "topic {topic} cannot be made: {code}{advice}"
                )));
            }
        }
    }
    Ok(())
}

/// How the topics of the brokers differ from those that are wanted, in the order of these. Takes at most about 20 s.
///
/// # Errors
/// [`KafkaError::Refused`] if the login may not read a topic's settings; [`KafkaError::Settings`],
/// [`KafkaError::Unreachable`] or [`KafkaError::Login`] if the brokers cannot be asked.
pub async fn compare_topics(
    config: &KafkaConfig,
    wanted: &[WantedTopic],
) -> Result<Vec<TopicDifference>, KafkaError> {
    let asked = config.clone();
    // `shapes` blocks.
    let looked = tokio::task::spawn_blocking(move || shapes(&asked)).await;
    let shapes = looked.map_err(|e| KafkaError::Refused(e.to_string()))??;
    let there: Vec<(&WantedTopic, String)> = wanted
        .iter()
        .map(|topic| (topic, config.in_kafka(&topic.name)))
        .collect();
    let with_settings = there
        .iter()
        .filter(|(topic, name)| !topic.settings.is_empty() && shapes.contains_key(name));
    let asked: Vec<&str> = with_settings.map(|(_, name)| name.as_str()).collect();
    let settings = settings_of(config, &asked).await?;
    let mut differences = Vec::new();
    for (topic, name) in there {
        let Some((partitions, replication)) = shapes.get(&name) else {
            differences.push(TopicDifference::Missing(name));
            continue;
        };
        let other = |what: &str, found: String, wanted: String| TopicDifference::Other {
            name: name.clone(),
            what: what.to_owned(),
            found,
            wanted,
        };
        if *partitions != topic.partitions {
            let (found, wanted) = (partitions.to_string(), topic.partitions.to_string());
            differences.push(other("partitions", found, wanted));
        }
        if let Some(copies) = topic.replication.filter(|copies| copies != replication) {
            differences.push(other(
                "replication",
                replication.to_string(),
                copies.to_string(),
            ));
        }
        for (setting, value) in &topic.settings {
            let found = settings.get(&name).and_then(|all| all.get(setting));
            if found != Some(value) {
                differences.push(other(
                    setting,
                    found.cloned().unwrap_or_default(),
                    value.clone(),
                ));
            }
        }
    }
    Ok(differences)
}

/// Partitions and copies of each topic that the login may see, by its name in Kafka. Blocks the thread.
fn shapes(config: &KafkaConfig) -> Result<BTreeMap<String, (i32, i32)>, KafkaError> {
    let client: BaseConsumer<Context> = config
        .client(&[("group.id", "triad-reader")])
        .create_with_context(config.context())
        .map_err(|e| unusable(&e))?;
    await_token(&client);
    let seen = client
        .fetch_metadata(None, REQUEST_WITHIN)
        .map_err(|e| explain(&client, &config.brokers, &e))?;
    let count = |n: usize| i32::try_from(n).unwrap_or(i32::MAX);
    let shape = seen.topics().iter().map(|topic| {
        let partitions = topic.partitions();
        let copies = partitions.first().map_or(0, |p| p.replicas().len());
        (
            topic.name().to_owned(),
            (count(partitions.len()), count(copies)),
        )
    });
    Ok(shape.collect())
}

/// The settings of topics, by their names in Kafka.
async fn settings_of(
    config: &KafkaConfig,
    names: &[&str],
) -> Result<BTreeMap<String, BTreeMap<String, String>>, KafkaError> {
    if names.is_empty() {
        return Ok(BTreeMap::new());
    }
    let (admin, options) = admin(config)?;
    let asked: Vec<_> = names
        .iter()
        .map(|name| ResourceSpecifier::Topic(name))
        .collect();
    let described = match admin.describe_configs(&asked, &options).await {
        Ok(described) => described,
        Err(error) => return Err(why_not(config, error).await),
    };
    let mut all = BTreeMap::new();
    for (asked, described) in names.iter().zip(described) {
        let ConfigResource { specifier, entries } = described.map_err(|code| {
            KafkaError::Refused(format!(
                "the settings of topic {asked} cannot be read: {code}; the login needs the right to describe a topic's configuration"
            ))
        })?;
        // The answers need not be in the order of the questions.
        let OwnedResourceSpecifier::Topic(name) = specifier else {
            continue;
        };
        let entries = entries
            .into_iter()
            .filter_map(|entry| Some((entry.name, entry.value?)));
        all.insert(name, entries.collect());
    }
    Ok(all)
}

fn admin(config: &KafkaConfig) -> Result<(AdminClient<Context>, AdminOptions), KafkaError> {
    let admin: AdminClient<Context> = config
        .client(&[])
        .create_with_context(config.context())
        .map_err(|e| unusable(&e))?;
    give_token(admin.inner(), &config.brokers)?;
    let options = AdminOptions::new()
        .operation_timeout(Some(OPERATION_WITHIN))
        .request_timeout(Some(REQUEST_WITHIN));
    Ok((admin, options))
}
