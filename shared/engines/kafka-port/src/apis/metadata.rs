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
use triad_sqlite::topics::{TopicError, TopicShape, Topics};

use super::Reply;
use super::topics::is_legal_name;
use crate::core::{Core, Endpoint, NODE, error_of};
use crate::wire::frame::Header;

/// Kafka's number for "authorized operations were not requested".
const UNKNOWN_OPERATIONS: i32 = i32::MIN;

/// A topic of the answer, or one that is to be made first.
enum Wanted {
    Known(Box<MetadataResponseTopic>),
    Missing(StrBytes, Box<MetadataResponseTopic>),
}

pub(crate) fn metadata(
    core: &Core,
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
    let wanted: Vec<Wanted> = if all {
        let topics = core.topics.all().into_iter();
        topics.map(|topic| Wanted::Known(found(&topic))).collect()
    } else {
        let wanted = request.topics.unwrap_or_default();
        wanted
            .into_iter()
            .map(|t| look_up(&core.topics, t, may_create))
            .collect()
    };
    let broker = MetadataResponseBroker::default()
        .with_node_id(NODE)
        .with_host(endpoint.host.clone())
        .with_port(endpoint.port);
    let response = MetadataResponse::default()
        .with_brokers(vec![broker])
        .with_cluster_id(Some(StrBytes::from_string(core.topics.cluster_id())))
        .with_controller_id(NODE)
        .with_cluster_authorized_operations(UNKNOWN_OPERATIONS);
    let (topics, partitions) = (core.topics.clone(), core.config.default_partitions);
    let header = header.clone();
    Reply::later(async move {
        let mut all = Vec::with_capacity(wanted.len());
        for wanted in wanted {
            all.push(match wanted {
                Wanted::Known(topic) => *topic,
                Wanted::Missing(name, response) => {
                    create(&topics, &name, partitions, *response).await
                }
            });
        }
        header.encode(&response.with_topics(all))
    })
}

fn look_up(topics: &Topics, wanted: MetadataRequestTopic, may_create: bool) -> Wanted {
    let response = MetadataResponseTopic::default().with_topic_id(wanted.topic_id);
    let refused = |error: ResponseError| {
        Wanted::Known(Box::new(response.clone().with_error_code(error.code())))
    };
    let name = match wanted.name {
        Some(name) => name.0,
        None => match topics.name_of(wanted.topic_id) {
            Some(name) => StrBytes::from_string(name),
            None => return refused(ResponseError::UnknownTopicId),
        },
    };
    if let Some(topic) = topics.get(&name) {
        return Wanted::Known(found(&topic));
    }
    let response = response.with_name(Some(TopicName(name.clone())));
    if !is_legal_name(&name) {
        let error = ResponseError::InvalidTopicException.code();
        return Wanted::Known(Box::new(response.with_error_code(error)));
    }
    if !may_create {
        let error = ResponseError::UnknownTopicOrPartition.code();
        return Wanted::Known(Box::new(response.with_error_code(error)));
    }
    Wanted::Missing(name, Box::new(response))
}

/// Makes a topic that a client asks for. Another client may have made it in between.
async fn create(
    topics: &Topics,
    name: &str,
    partitions: i32,
    response: MetadataResponseTopic,
) -> MetadataResponseTopic {
    let error = match topics.create(name, partitions, BTreeMap::new()).await {
        Ok(_) | Err(TopicError::Exists) => ResponseError::UnknownServerError,
        Err(error) => error_of(&error),
    };
    match topics.get(name) {
        Some(topic) => *found(&topic),
        None => response.with_error_code(error.code()),
    }
}

fn found(topic: &TopicShape) -> Box<MetadataResponseTopic> {
    let partitions = (0..topic.partitions).map(|index| {
        MetadataResponsePartition::default()
            .with_partition_index(index)
            .with_leader_id(NODE)
            .with_leader_epoch(0)
            .with_replica_nodes(vec![NODE])
            .with_isr_nodes(vec![NODE])
    });
    let name = StrBytes::from_string(topic.name.clone());
    let response = MetadataResponseTopic::default()
        .with_name(Some(TopicName(name)))
        .with_topic_id(topic.id)
        .with_partitions(partitions.collect())
        .with_topic_authorized_operations(UNKNOWN_OPERATIONS);
    Box::new(response)
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
        .with_cluster_id(StrBytes::from_string(core.topics.cluster_id()))
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
