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
use crate::core::Core;
use crate::log::flusher::Lsn;
use crate::log::meta::MetaRecord;
use crate::log::topics::is_legal_name;
use crate::wire::frame::Header;

/// An error code with its text for people.
type TopicRefusal = (ResponseError, &'static str);

pub(crate) fn create(core: &mut Core, header: &Header, request: CreateTopicsRequest) -> Reply {
    let mut wait_for = 0;
    let mut results = Vec::with_capacity(request.topics.len());
    for topic in request.topics {
        let result = CreatableTopicResult::default().with_name(topic.name.clone());
        results.push(
            match create_one(core, &topic, request.validate_only, &mut wait_for) {
                Ok((id, partitions)) => result
                    .with_topic_id(id)
                    .with_num_partitions(partitions)
                    .with_replication_factor(1)
                    .with_configs(Some(Vec::new())),
                Err((error, message)) => result
                    .with_error_code(error.code())
                    .with_error_message(Some(StrBytes::from_static_str(message)))
                    .with_configs(Some(Vec::new())),
            },
        );
    }
    let response = CreateTopicsResponse::default().with_topics(results);
    Reply::Durable(wait_for, header.encode(&response))
}

fn create_one(
    core: &mut Core,
    topic: &CreatableTopic,
    validate_only: bool,
    wait_for: &mut Lsn,
) -> Result<(Uuid, i32), TopicRefusal> {
    let name = topic.name.as_str();
    if !is_legal_name(name) {
        return Err((
            ResponseError::InvalidTopicException,
            "not a legal topic name",
        ));
    }
    if core.store.topics.get(name).is_some() {
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
    if validate_only {
        return Ok((Uuid::nil(), partitions));
    }
    let created = core.store.create_topic(name, partitions, settings);
    let (id, lsn) = created.map_err(|e| (e, "too many partitions, or the storage failed"))?;
    *wait_for = lsn.max(*wait_for);
    Ok((id, partitions))
}

pub(crate) fn delete(core: &mut Core, header: &Header, request: DeleteTopicsRequest) -> Reply {
    let by_name = request
        .topic_names
        .into_iter()
        .map(|name| (Some(name), Uuid::nil()));
    let by_either = request.topics.into_iter().map(|t| (t.name, t.topic_id));
    let mut wait_for = 0;
    let mut responses = Vec::new();
    for (name, id) in by_name.chain(by_either) {
        let result = DeletableTopicResult::default();
        let found = match name {
            Some(name) => Ok(name),
            None => core
                .store
                .topics
                .name_of(id)
                .map(|n| TopicName(StrBytes::from_string(n.to_owned())))
                .ok_or(ResponseError::UnknownTopicId),
        };
        let deleted = found.clone().and_then(|name| delete_one(core, &name));
        wait_for = deleted.unwrap_or(0).max(wait_for);
        responses.push(
            result
                .with_name(found.ok())
                .with_topic_id(id)
                .with_error_code(code(deleted.map(|_| ()))),
        );
    }
    let response = DeleteTopicsResponse::default().with_responses(responses);
    Reply::Durable(wait_for, header.encode(&response))
}

fn delete_one(core: &mut Core, name: &str) -> Result<Lsn, ResponseError> {
    let topic = core
        .store
        .topics
        .get(name)
        .ok_or(ResponseError::UnknownTopicOrPartition)?;
    let logs = topic.logs.clone();
    let lsn = core.store.change(MetaRecord::TopicDeleted {
        name: name.to_owned(),
    })?;
    for log in logs {
        core.log_gone(log);
    }
    Ok(lsn)
}

pub(crate) fn add_partitions(
    core: &mut Core,
    header: &Header,
    request: CreatePartitionsRequest,
) -> Reply {
    let mut wait_for = 0;
    let mut results = Vec::with_capacity(request.topics.len());
    for topic in request.topics {
        let added = add_to_one(core, &topic, request.validate_only);
        wait_for = added.unwrap_or(0).max(wait_for);
        let result = CreatePartitionsTopicResult::default()
            .with_name(topic.name)
            .with_error_code(code(added.map(|_| ()).map_err(|(error, _)| error)))
            .with_error_message(added.err().map(|(_, text)| StrBytes::from_static_str(text)));
        results.push(result);
    }
    let response = CreatePartitionsResponse::default().with_results(results);
    Reply::Durable(wait_for, header.encode(&response))
}

fn add_to_one(
    core: &mut Core,
    topic: &CreatePartitionsTopic,
    validate_only: bool,
) -> Result<Lsn, TopicRefusal> {
    let existing = core.store.topics.get(&topic.name);
    let existing = existing
        .ok_or((
            ResponseError::UnknownTopicOrPartition,
            "there is no such topic",
        ))?
        .logs
        .len();
    let more = i64::from(topic.count) - i64::try_from(existing).unwrap_or(i64::MAX);
    let more = i32::try_from(more).unwrap_or(0);
    if more < 1 {
        return Err((
            ResponseError::InvalidPartitions,
            "a topic's partitions can only become more",
        ));
    }
    if validate_only {
        return Ok(0);
    }
    let added = core.store.add_partitions(&topic.name, more);
    added.map_err(|e| (e, "too many partitions, or the storage failed"))
}
