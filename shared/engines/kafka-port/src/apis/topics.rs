//! CreateTopics, DeleteTopics, CreatePartitions.

use std::collections::BTreeMap;

use kafka_protocol::error::ResponseError;
use kafka_protocol::messages::create_partitions_request::CreatePartitionsTopic;
use kafka_protocol::messages::create_partitions_response::CreatePartitionsTopicResult;
use kafka_protocol::messages::create_topics_request::CreatableTopic;
use kafka_protocol::messages::create_topics_response::CreatableTopicResult;
use kafka_protocol::messages::delete_topics_response::DeletableTopicResult;
use kafka_protocol::messages::{
    CreatePartitionsRequest, CreatePartitionsResponse, CreateTopicsRequest, CreateTopicsResponse,
    DeleteTopicsRequest, DeleteTopicsResponse, TopicName,
};
use kafka_protocol::protocol::StrBytes;
use uuid::Uuid;

use super::{Reply, code, configs};
use crate::core::{Core, error_of};
use crate::wire::frame::Header;

/// An error code with its text for people.
type TopicRefusal = (ResponseError, &'static str);

/// Text of a change that the store refuses.
const NOT_STORED: &str = "too many partitions, or the storage failed";

/// Kafka's rule: 1 to 249 of letters, digits, dot, underscore and hyphen, and not only dots.
pub(crate) fn is_legal_name(name: &str) -> bool {
    let legal = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-');
    (1..=249).contains(&name.len()) && name != "." && name != ".." && name.bytes().all(legal)
}

pub(crate) fn create(core: &Core, header: &Header, request: CreateTopicsRequest) -> Reply {
    let begun = request.topics.into_iter().map(|topic| {
        let wanted = check(core, &topic).map(|(partitions, settings)| {
            let creating = (!request.validate_only).then(|| {
                core.topics
                    .create(topic.name.as_str(), partitions, settings)
            });
            (partitions, creating)
        });
        (topic.name, wanted)
    });
    let begun: Vec<_> = begun.collect();
    let header = header.clone();
    Reply::later(async move {
        let mut results = Vec::with_capacity(begun.len());
        for (name, wanted) in begun {
            let result = CreatableTopicResult::default()
                .with_name(name)
                .with_configs(Some(Vec::new()));
            let created = match wanted {
                Ok((partitions, None)) => Ok((Uuid::nil(), partitions)),
                Ok((partitions, Some(creating))) => match creating.await {
                    Ok(id) => Ok((id, partitions)),
                    Err(error) => Err((error_of(&error), NOT_STORED)),
                },
                Err(refused) => Err(refused),
            };
            results.push(match created {
                Ok((id, partitions)) => result
                    .with_topic_id(id)
                    .with_num_partitions(partitions)
                    .with_replication_factor(1),
                Err((error, message)) => result
                    .with_error_code(error.code())
                    .with_error_message(Some(StrBytes::from_static_str(message))),
            });
        }
        header.encode(&CreateTopicsResponse::default().with_topics(results))
    })
}

/// The partitions and settings of a topic that may be made.
fn check(
    core: &Core,
    topic: &CreatableTopic,
) -> Result<(i32, BTreeMap<String, String>), TopicRefusal> {
    let name = topic.name.as_str();
    if !is_legal_name(name) {
        return Err((
            ResponseError::InvalidTopicException,
            "not a legal topic name",
        ));
    }
    if core.topics.get(name).is_some() {
        return Err((
            ResponseError::TopicAlreadyExists,
            "the topic exists already",
        ));
    }
    let partitions = match topic.num_partitions {
        _ if !topic.assignments.is_empty() => i32::try_from(topic.assignments.len()).unwrap_or(0),
        -1 => core.config.default_partitions,
        n => n,
    };
    if partitions < 1 {
        return Err((
            ResponseError::InvalidPartitions,
            "at least one partition is needed",
        ));
    }
    if topic.assignments.is_empty() && !matches!(topic.replication_factor, -1 | 1) {
        return Err((
            ResponseError::InvalidReplicationFactor,
            "this is a single-node broker: the replication factor can only be 1",
        ));
    }
    let mut settings = BTreeMap::new();
    for config in &topic.configs {
        let Some(value) = &config.value else { continue };
        if !configs::is_topic_setting(&config.name, value) {
            return Err((
                ResponseError::InvalidConfig,
                "unknown topic setting, or not a value for it",
            ));
        }
        settings.insert(config.name.to_string(), value.to_string());
    }
    Ok((partitions, settings))
}

pub(crate) fn delete(core: &Core, header: &Header, request: DeleteTopicsRequest) -> Reply {
    let by_name = request
        .topic_names
        .into_iter()
        .map(|name| (Some(name), Uuid::nil()));
    let by_either = request.topics.into_iter().map(|t| (t.name, t.topic_id));
    let begun = by_name.chain(by_either).map(|(name, id)| {
        let found = match name {
            Some(name) => Ok(name),
            None => core
                .topics
                .name_of(id)
                .map(|name| TopicName(StrBytes::from_string(name)))
                .ok_or(ResponseError::UnknownTopicId),
        };
        let deleting = found.clone().map(|name| core.topics.delete(&name));
        (found.ok(), id, deleting)
    });
    let begun: Vec<_> = begun.collect();
    let header = header.clone();
    Reply::later(async move {
        let mut responses = Vec::with_capacity(begun.len());
        for (name, id, deleting) in begun {
            let deleted = match deleting {
                Ok(deleting) => deleting.await.map_err(|e| error_of(&e)),
                Err(error) => Err(error),
            };
            let result = DeletableTopicResult::default()
                .with_name(name)
                .with_topic_id(id)
                .with_error_code(code(deleted));
            responses.push(result);
        }
        header.encode(&DeleteTopicsResponse::default().with_responses(responses))
    })
}

pub(crate) fn add_partitions(
    core: &Core,
    header: &Header,
    request: CreatePartitionsRequest,
) -> Reply {
    let begun = request.topics.into_iter().map(|topic| {
        let more = more_of(core, &topic);
        let adding = more.map(|more| {
            (!request.validate_only).then(|| core.topics.add_partitions(&topic.name, more))
        });
        (topic.name, adding)
    });
    let begun: Vec<_> = begun.collect();
    let header = header.clone();
    Reply::later(async move {
        let mut results = Vec::with_capacity(begun.len());
        for (name, adding) in begun {
            let added = match adding {
                Ok(None) => Ok(()),
                Ok(Some(adding)) => adding.await.map_err(|e| (error_of(&e), NOT_STORED)),
                Err(refused) => Err(refused),
            };
            let text = added.err().map(|(_, text)| StrBytes::from_static_str(text));
            let result = CreatePartitionsTopicResult::default()
                .with_name(name)
                .with_error_code(code(added.map_err(|(error, _)| error)))
                .with_error_message(text);
            results.push(result);
        }
        header.encode(&CreatePartitionsResponse::default().with_results(results))
    })
}

/// How many partitions a topic is to get.
fn more_of(core: &Core, topic: &CreatePartitionsTopic) -> Result<i32, TopicRefusal> {
    let existing = core.topics.get(&topic.name).ok_or((
        ResponseError::UnknownTopicOrPartition,
        "there is no such topic",
    ))?;
    let more = i64::from(topic.count) - i64::from(existing.partitions);
    let more = i32::try_from(more).unwrap_or(0);
    match more < 1 {
        true => Err((
            ResponseError::InvalidPartitions,
            "a topic's partitions can only become more",
        )),
        false => Ok(more),
    }
}
