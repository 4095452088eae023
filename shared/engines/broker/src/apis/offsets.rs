//! Offsets: the beginnings and ends of logs, and the commits of groups.

use kafka_protocol::error::ResponseError;
use kafka_protocol::messages::list_offsets_response::{
    ListOffsetsPartitionResponse, ListOffsetsTopicResponse,
};
use kafka_protocol::messages::offset_commit_request::OffsetCommitRequestPartition;
use kafka_protocol::messages::offset_commit_response::{
    OffsetCommitResponsePartition, OffsetCommitResponseTopic,
};
use kafka_protocol::messages::offset_delete_response::{
    OffsetDeleteResponsePartition, OffsetDeleteResponseTopic,
};
use kafka_protocol::messages::offset_fetch_response::{
    OffsetFetchResponseGroup, OffsetFetchResponsePartition, OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic, OffsetFetchResponseTopics,
};
use kafka_protocol::messages::offset_for_leader_epoch_response::{
    EpochEndOffset, OffsetForLeaderTopicResult,
};
use kafka_protocol::messages::{
    ListOffsetsRequest, ListOffsetsResponse, OffsetCommitRequest, OffsetCommitResponse,
    OffsetDeleteRequest, OffsetDeleteResponse, OffsetFetchRequest, OffsetFetchResponse,
    OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse, TopicName,
};
use kafka_protocol::protocol::StrBytes;

use super::{Reply, code};
use crate::core::Core;
use crate::group::messages::Caller;
use crate::log::flusher::Flush;
use crate::log::meta::MetaRecord;
use crate::offsets::{Committed, MAX_METADATA_BYTES};
use crate::wire::frame::Header;

const LATEST: i64 = -1;
const EARLIEST: i64 = -2;
/// The only leader epoch.
const EPOCH: i32 = 0;

pub(crate) fn list(core: &mut Core, header: &Header, request: ListOffsetsRequest) -> Reply {
    let epoch = if header.version >= 4 { EPOCH } else { -1 };
    let topics = request.topics.into_iter().map(|topic| {
        let partitions = topic.partitions.iter().map(|p| {
            let response =
                ListOffsetsPartitionResponse::default().with_partition_index(p.partition_index);
            match find(core, &topic.name, p.partition_index, p.timestamp) {
                Ok((offset, timestamp)) => response
                    .with_offset(offset)
                    .with_timestamp(timestamp)
                    .with_leader_epoch(if offset < 0 { -1 } else { epoch }),
                Err(error) => response
                    .with_error_code(error.code())
                    .with_offset(-1)
                    .with_timestamp(-1)
                    .with_leader_epoch(-1),
            }
        });
        let partitions = partitions.collect();
        ListOffsetsTopicResponse::default()
            .with_name(topic.name)
            .with_partitions(partitions)
    });
    let response = ListOffsetsResponse::default().with_topics(topics.collect());
    Reply::Ready(header.encode(&response))
}

fn find(
    core: &mut Core,
    topic: &str,
    partition: i32,
    timestamp: i64,
) -> Result<(i64, i64), ResponseError> {
    let log = core
        .store
        .log_of(topic, partition)
        .ok_or(ResponseError::UnknownTopicOrPartition)?;
    match timestamp {
        LATEST => Ok((log.high_watermark, -1)),
        EARLIEST => Ok((log.start, -1)),
        ..EARLIEST => Err(ResponseError::InvalidRequest),
        _ => match log.find_timestamp(timestamp) {
            Ok(found) => Ok(found.unwrap_or((-1, -1))),
            Err(error) => {
                tracing::error!(%error, topic, partition, "a segment cannot be read");
                Err(ResponseError::KafkaStorageError)
            }
        },
    }
}

/// The end of the only epoch: the end of the log. Consumers request this to notice a truncated log.
pub(crate) fn for_leader_epoch(
    core: &mut Core,
    header: &Header,
    request: OffsetForLeaderEpochRequest,
) -> Reply {
    let topics = request.topics.into_iter().map(|topic| {
        let partitions = topic.partitions.iter().map(|p| {
            let response = EpochEndOffset::default().with_partition(p.partition);
            match core.store.log_of(&topic.topic, p.partition) {
                None => response
                    .with_error_code(ResponseError::UnknownTopicOrPartition.code())
                    .with_leader_epoch(-1)
                    .with_end_offset(-1),
                Some(log) => response
                    .with_leader_epoch(EPOCH)
                    .with_end_offset(log.high_watermark),
            }
        });
        let partitions = partitions.collect();
        OffsetForLeaderTopicResult::default()
            .with_topic(topic.topic)
            .with_partitions(partitions)
    });
    let response = OffsetForLeaderEpochResponse::default().with_topics(topics.collect());
    Reply::Ready(header.encode(&response))
}

pub(crate) fn commit(core: &mut Core, header: &Header, request: OffsetCommitRequest) -> Reply {
    let group = request.group_id.0.as_str();
    let caller = Caller {
        member: request.member_id.to_string(),
        instance: request.group_instance_id.map(|i| i.to_string()),
        generation: request.generation_id_or_member_epoch,
    };
    let now = core.now();
    let allowed = has_room(core, group).and_then(|()| core.groups.may_commit(group, &caller, now));
    let mut accepted = Vec::new();
    let mut topics = Vec::with_capacity(request.topics.len());
    for topic in request.topics {
        let mut partitions = Vec::with_capacity(topic.partitions.len());
        for p in topic.partitions {
            let index = p.partition_index;
            let checked = allowed.and_then(|()| check(core, requested_commit(&topic.name, p)));
            let result = checked.map(|committed| accepted.push(committed));
            partitions.push((index, result));
        }
        topics.push((topic.name, partitions));
    }
    let done = if accepted.is_empty() {
        Ok(0)
    } else {
        core.store.commit_offsets(group, accepted, Flush::Now)
    };
    let topics = topics.into_iter().map(|(name, partitions)| {
        let partitions = partitions.into_iter().map(|(index, result)| {
            OffsetCommitResponsePartition::default()
                .with_partition_index(index)
                .with_error_code(code(result.and(done.map(|_| ()))))
        });
        let partitions = partitions.collect();
        OffsetCommitResponseTopic::default()
            .with_name(name)
            .with_partitions(partitions)
    });
    let response = OffsetCommitResponse::default().with_topics(topics.collect());
    Reply::Durable(done.unwrap_or(0), header.encode(&response))
}

/// Refuses a group for whose offsets there is no room.
pub(crate) fn has_room(core: &Core, group: &str) -> Result<(), ResponseError> {
    if group.is_empty() {
        Err(ResponseError::InvalidGroupId)
    } else if !core.store.offsets.contains(group)
        && core.store.offsets.len() >= core.config.max_groups
    {
        Err(ResponseError::CoordinatorLoadInProgress)
    } else {
        Ok(())
    }
}

fn requested_commit(topic: &TopicName, p: OffsetCommitRequestPartition) -> Committed {
    let metadata = p.committed_metadata.map(|m| m.to_string());
    Committed {
        topic: topic.to_string(),
        partition: p.partition_index,
        offset: p.committed_offset,
        leader_epoch: p.committed_leader_epoch,
        metadata: metadata.unwrap_or_default(),
    }
}

/// Checks an offset to commit.
pub(crate) fn check(core: &Core, asked: Committed) -> Result<Committed, ResponseError> {
    if core
        .store
        .topics
        .log(&asked.topic, asked.partition)
        .is_none()
    {
        return Err(ResponseError::UnknownTopicOrPartition);
    }
    if asked.metadata.len() > MAX_METADATA_BYTES {
        return Err(ResponseError::OffsetMetadataTooLarge);
    }
    Ok(asked)
}

/// The commits of a group: for the requested partitions, or for all.
fn committed(
    core: &Core,
    group: &str,
    wanted: Option<Vec<(TopicName, Vec<i32>)>>,
) -> Vec<(TopicName, Vec<Committed>)> {
    let nothing = |topic: &TopicName, partition| Committed {
        topic: topic.to_string(),
        partition,
        offset: -1,
        leader_epoch: -1,
        metadata: String::new(),
    };
    match wanted {
        None => core
            .store
            .offsets
            .of_group(group)
            .filter(|(_, partitions)| !partitions.is_empty())
            .map(|(topic, partitions)| {
                let name = TopicName(StrBytes::from_string(topic.clone()));
                (name, partitions.values().cloned().collect())
            })
            .collect(),
        Some(topics) => topics
            .into_iter()
            .map(|(topic, partitions)| {
                let one = |partition| {
                    let known = core.store.offsets.get(group, &topic, partition).cloned();
                    known.unwrap_or_else(|| nothing(&topic, partition))
                };
                let found = partitions.into_iter().map(one).collect();
                (topic, found)
            })
            .collect(),
    }
}

pub(crate) fn fetch(core: &mut Core, header: &Header, request: OffsetFetchRequest) -> Reply {
    let response = OffsetFetchResponse::default();
    if header.version >= 8 {
        let groups = request.groups.into_iter().map(|asked| {
            let wanted = asked.topics.map(|topics| {
                topics
                    .into_iter()
                    .map(|t| (t.name, t.partition_indexes))
                    .collect()
            });
            let topics = committed(core, &asked.group_id, wanted);
            let topics = topics.into_iter().map(|(name, partitions)| {
                let partitions = partitions.into_iter().map(|c| {
                    OffsetFetchResponsePartitions::default()
                        .with_partition_index(c.partition)
                        .with_committed_offset(c.offset)
                        .with_committed_leader_epoch(c.leader_epoch)
                        .with_metadata(Some(StrBytes::from_string(c.metadata)))
                });
                let partitions = partitions.collect();
                OffsetFetchResponseTopics::default()
                    .with_name(name)
                    .with_partitions(partitions)
            });
            OffsetFetchResponseGroup::default()
                .with_group_id(asked.group_id)
                .with_topics(topics.collect())
        });
        let groups = groups.collect();
        return Reply::Ready(header.encode(&response.with_groups(groups)));
    }
    let wanted = request.topics.map(|topics| {
        topics
            .into_iter()
            .map(|t| (t.name, t.partition_indexes))
            .collect()
    });
    let topics = committed(core, &request.group_id, wanted);
    let topics = topics.into_iter().map(|(name, partitions)| {
        let partitions = partitions.into_iter().map(|c| {
            OffsetFetchResponsePartition::default()
                .with_partition_index(c.partition)
                .with_committed_offset(c.offset)
                .with_committed_leader_epoch(c.leader_epoch)
                .with_metadata(Some(StrBytes::from_string(c.metadata)))
        });
        let partitions = partitions.collect();
        OffsetFetchResponseTopic::default()
            .with_name(name)
            .with_partitions(partitions)
    });
    let topics = topics.collect();
    Reply::Ready(header.encode(&response.with_topics(topics)))
}

/// Deletes single offsets of a group that has no members.
pub(crate) fn delete(core: &mut Core, header: &Header, request: OffsetDeleteRequest) -> Reply {
    let group = request.group_id.to_string();
    let vacant = core
        .groups
        .get(&group)
        .is_none_or(crate::group::state::Group::is_vacant);
    let refused = if !core.store.offsets.contains(&group) {
        Some(ResponseError::GroupIdNotFound)
    } else if !vacant {
        Some(ResponseError::NonEmptyGroup)
    } else {
        None
    };
    let response = OffsetDeleteResponse::default();
    if let Some(error) = refused {
        return Reply::Ready(header.encode(&response.with_error_code(error.code())));
    }
    let mut removed = Vec::new();
    let topics = request.topics.into_iter().map(|topic| {
        let partitions = topic.partitions.iter().map(|p| {
            removed.push((topic.name.to_string(), p.partition_index));
            OffsetDeleteResponsePartition::default().with_partition_index(p.partition_index)
        });
        let partitions = partitions.collect();
        OffsetDeleteResponseTopic::default()
            .with_name(topic.name)
            .with_partitions(partitions)
    });
    let topics = topics.collect();
    match core.store.change(MetaRecord::OffsetsRemoved {
        group,
        partitions: removed,
    }) {
        Ok(lsn) => Reply::Durable(lsn, header.encode(&response.with_topics(topics))),
        Err(error) => Reply::Ready(header.encode(&response.with_error_code(error.code()))),
    }
}
