//! Metadata, DescribeCluster, FindCoordinator: there is only one node.

use std::collections::BTreeMap;

use kafka_protocol::error::ResponseError;
use kafka_protocol::messages::describe_cluster_response::DescribeClusterBroker;
use kafka_protocol::messages::find_coordinator_response::Coordinator;
use kafka_protocol::messages::metadata_request::{MetadataRequest, MetadataRequestTopic};
use kafka_protocol::messages::metadata_response::{
    MetadataResponse, MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic,
};
use kafka_protocol::messages::{
    DescribeClusterRequest, DescribeClusterResponse, FindCoordinatorRequest,
    FindCoordinatorResponse, TopicName,
};
use kafka_protocol::protocol::StrBytes;

use super::Reply;
use crate::core::{Core, Endpoint, NODE};
use crate::log::flusher::Lsn;
use crate::log::topics::{Topic, is_legal_name};
use crate::wire::frame::Header;

/// Kafka's number for "authorized operations were not requested".
const UNKNOWN_OPERATIONS: i32 = i32::MIN;

pub(crate) fn metadata(
    core: &mut Core,
    endpoint: &Endpoint,
    header: &Header,
    request: MetadataRequest,
) -> Reply {
    // In version 0 an empty list means all topics; later null does.
    let all = match &request.topics {
        None => true,
        Some(topics) => topics.is_empty() && header.version == 0,
    };
    let may_create =
        core.config.auto_create_topics && (header.version < 4 || request.allow_auto_topic_creation);
    let mut wait_for = 0;
    let topics = if all {
        let topics = core.store.topics.iter();
        topics
            .map(|(name, topic)| found(&StrBytes::from_string(name.clone()), topic))
            .collect()
    } else {
        let wanted = request.topics.unwrap_or_default();
        wanted
            .into_iter()
            .map(|t| look_up(core, t, may_create, &mut wait_for))
            .collect()
    };
    let broker = MetadataResponseBroker::default()
        .with_node_id(NODE)
        .with_host(endpoint.host.clone())
        .with_port(endpoint.port);
    let response = MetadataResponse::default()
        .with_brokers(vec![broker])
        .with_cluster_id(Some(StrBytes::from_string(core.store.cluster_id.clone())))
        .with_controller_id(NODE)
        .with_topics(topics)
        .with_cluster_authorized_operations(UNKNOWN_OPERATIONS);
    Reply::Durable(wait_for, header.encode(&response))
}

fn look_up(
    core: &mut Core,
    wanted: MetadataRequestTopic,
    may_create: bool,
    wait_for: &mut Lsn,
) -> MetadataResponseTopic {
    let response = MetadataResponseTopic::default().with_topic_id(wanted.topic_id);
    let name = match wanted.name {
        Some(name) => name.0,
        None => match core.store.topics.name_of(wanted.topic_id) {
            Some(name) => StrBytes::from_string(name.to_owned()),
            None => return response.with_error_code(ResponseError::UnknownTopicId.code()),
        },
    };
    if let Some(topic) = core.store.topics.get(&name) {
        return found(&name, topic);
    }
    let response = response.with_name(Some(TopicName(name.clone())));
    if !is_legal_name(&name) {
        return response.with_error_code(ResponseError::InvalidTopicException.code());
    }
    if !may_create {
        return response.with_error_code(ResponseError::UnknownTopicOrPartition.code());
    }
    let partitions = core.config.default_partitions;
    match core.store.create_topic(&name, partitions, BTreeMap::new()) {
        Ok((_, lsn)) => *wait_for = lsn.max(*wait_for),
        Err(error) => return response.with_error_code(error.code()),
    }
    match core.store.topics.get(&name) {
        Some(topic) => found(&name, topic),
        None => response.with_error_code(ResponseError::UnknownServerError.code()),
    }
}

fn found(name: &StrBytes, topic: &Topic) -> MetadataResponseTopic {
    let partitions = (0..).zip(&topic.logs).map(|(index, _)| {
        MetadataResponsePartition::default()
            .with_partition_index(index)
            .with_leader_id(NODE)
            .with_leader_epoch(0)
            .with_replica_nodes(vec![NODE])
            .with_isr_nodes(vec![NODE])
    });
    MetadataResponseTopic::default()
        .with_name(Some(TopicName(name.clone())))
        .with_topic_id(topic.id)
        .with_partitions(partitions.collect())
        .with_topic_authorized_operations(UNKNOWN_OPERATIONS)
}

pub(crate) fn describe_cluster(
    core: &Core,
    endpoint: &Endpoint,
    header: &Header,
    request: &DescribeClusterRequest,
) -> Reply {
    const BROKERS: i8 = 1;
    let response = DescribeClusterResponse::default()
        .with_endpoint_type(request.endpoint_type)
        .with_cluster_authorized_operations(UNKNOWN_OPERATIONS);
    if request.endpoint_type != BROKERS {
        let error = ResponseError::UnsupportedEndpointType.code();
        return Reply::Ready(header.encode(&response.with_error_code(error)));
    }
    let broker = DescribeClusterBroker::default()
        .with_broker_id(NODE)
        .with_host(endpoint.host.clone())
        .with_port(endpoint.port);
    let response = response
        .with_cluster_id(StrBytes::from_string(core.store.cluster_id.clone()))
        .with_controller_id(NODE)
        .with_brokers(vec![broker]);
    Reply::Ready(header.encode(&response))
}

/// Answers for groups and for transactional ids. InitProducerId refuses transactions, with an error that clients take
/// as final.
pub(crate) fn find_coordinator(
    endpoint: &Endpoint,
    header: &Header,
    request: FindCoordinatorRequest,
) -> Reply {
    let response = FindCoordinatorResponse::default();
    let response = if header.version < 4 {
        response
            .with_node_id(NODE)
            .with_host(endpoint.host.clone())
            .with_port(endpoint.port)
    } else {
        let here = |key: StrBytes| {
            Coordinator::default()
                .with_key(key)
                .with_node_id(NODE)
                .with_host(endpoint.host.clone())
                .with_port(endpoint.port)
        };
        response.with_coordinators(request.coordinator_keys.into_iter().map(here).collect())
    };
    Reply::Ready(header.encode(&response))
}
