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

use triad_sqlite::topics::{Commit, Committed, Topics};

use super::{Reply, code};
use crate::core::{Core, error_of};
use crate::group::messages::Caller;
use crate::wire::frame::Header;

const LATEST: i64 = -1;
const EARLIEST: i64 = -2;
/// The only leader epoch.
const EPOCH: i32 = 0;
/// Longest metadata string a commit may carry, as Kafka's `offset.metadata.max.bytes`.
const MAX_METADATA_BYTES: usize = 4096;

pub(crate) fn list(core: &Core, header: &Header, request: ListOffsetsRequest) -> Reply {
    let topics = core.topics.clone();
    let header = header.clone();
    Reply::later(async move {
        let epoch = if header.version >= 4 { EPOCH } else { -1 };
        let mut responses = Vec::with_capacity(request.topics.len());
        for topic in request.topics {
            let mut partitions = Vec::with_capacity(topic.partitions.len());
            for p in topic.partitions {
                let response =
                    ListOffsetsPartitionResponse::default().with_partition_index(p.partition_index);
                let found = find(&topics, &topic.name, p.partition_index, p.timestamp);
                partitions.push(match found.await {
                    Ok((offset, timestamp)) => response
                        .with_offset(offset)
                        .with_timestamp(timestamp)
                        .with_leader_epoch(if offset < 0 { -1 } else { epoch }),
                    Err(error) => response
                        .with_error_code(error.code())
                        .with_offset(-1)
                        .with_timestamp(-1)
                        .with_leader_epoch(-1),
                });
            }
            let response = ListOffsetsTopicResponse::default()
                .with_name(topic.name)
                .with_partitions(partitions);
            responses.push(response);
        }
        header.encode(&ListOffsetsResponse::default().with_topics(responses))
    })
}

async fn find(
    topics: &Topics,
    topic: &str,
    partition: i32,
    timestamp: i64,
) -> Result<(i64, i64), ResponseError> {
    let marks = topics.marks(topic, partition);
    let marks = marks.ok_or(ResponseError::UnknownTopicOrPartition)?;
    match timestamp {
        LATEST => Ok((marks.end, -1)),
        EARLIEST => Ok((marks.start, -1)),
        ..EARLIEST => Err(ResponseError::InvalidRequest),
        _ => match topics.first_since(topic, partition, timestamp).await {
            Ok(found) => Ok(found.unwrap_or((-1, -1))),
            Err(error) => Err(error_of(&error)),
        },
    }
}

/// The end of the only epoch: the end of the partition. Consumers request this to notice a truncated log.
pub(crate) fn for_leader_epoch(
    core: &Core,
    header: &Header,
    request: OffsetForLeaderEpochRequest,
) -> Reply {
    let topics = request.topics.into_iter().map(|topic| {
        let partitions = topic.partitions.iter().map(|p| {
            let response = EpochEndOffset::default().with_partition(p.partition);
            match core.topics.marks(&topic.topic, p.partition) {
                None => response
                    .with_error_code(ResponseError::UnknownTopicOrPartition.code())
                    .with_leader_epoch(-1)
                    .with_end_offset(-1),
                Some(marks) => response.with_leader_epoch(EPOCH).with_end_offset(marks.end),
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

/// Commits the offsets of partitions that exist; the others of the request are refused.
pub(crate) fn commit(core: &mut Core, header: &Header, request: OffsetCommitRequest) -> Reply {
    let group = request.group_id.0.as_str();
    let caller = Caller {
        member: request.member_id.to_string(),
        instance: request.group_instance_id.map(|i| i.to_string()),
        generation: request.generation_id_or_member_epoch,
    };
    let now = core.now();
    let allowed = match group.is_empty() {
        true => Err(ResponseError::InvalidGroupId),
        false => core.groups.may_commit(group, &caller, now),
    };
    let mut accepted = Vec::new();
    let mut topics = Vec::with_capacity(request.topics.len());
    for topic in request.topics {
        let mut partitions = Vec::with_capacity(topic.partitions.len());
        for p in topic.partitions {
            let index = p.partition_index;
            let checked = allowed.and_then(|()| check(core, &topic.name, p));
            let result = checked.map(|commit| accepted.push((topic.name.to_string(), commit)));
            partitions.push((index, result));
        }
        topics.push((topic.name, partitions));
    }
    let committing = (!accepted.is_empty()).then(|| core.topics.commit(group, accepted));
    let header = header.clone();
    Reply::later(async move {
        let done = match committing {
            Some(committing) => committing.await.map_err(|e| error_of(&e)),
            None => Ok(()),
        };
        let topics = topics.into_iter().map(|(name, partitions)| {
            let partitions = partitions.into_iter().map(|(index, result)| {
                OffsetCommitResponsePartition::default()
                    .with_partition_index(index)
                    .with_error_code(code(result.and(done)))
            });
            let partitions = partitions.collect();
            OffsetCommitResponseTopic::default()
                .with_name(name)
                .with_partitions(partitions)
        });
        header.encode(&OffsetCommitResponse::default().with_topics(topics.collect()))
    })
}

/// Checks an offset to commit.
fn check(
    core: &Core,
    topic: &str,
    p: OffsetCommitRequestPartition,
) -> Result<Commit, ResponseError> {
    if core.topics.marks(topic, p.partition_index).is_none() {
        return Err(ResponseError::UnknownTopicOrPartition);
    }
    let metadata = p.committed_metadata.map(|m| m.to_string());
    let metadata = metadata.unwrap_or_default();
    if metadata.len() > MAX_METADATA_BYTES {
        return Err(ResponseError::OffsetMetadataTooLarge);
    }
    Ok(Commit {
        partition: p.partition_index,
        committed: Committed {
            offset: p.committed_offset,
            leader_epoch: p.committed_leader_epoch,
            metadata,
        },
    })
}

/// The commits of a group: for the requested partitions, or for all.
fn committed(
    core: &Core,
    group: &str,
    wanted: Option<Vec<(TopicName, Vec<i32>)>>,
) -> Vec<(TopicName, Vec<Commit>)> {
    let known = core.topics.committed(group);
    let Some(wanted) = wanted else {
        let named = |(topic, commits)| (TopicName(StrBytes::from_string(topic)), commits);
        return known.into_iter().map(named).collect();
    };
    let nothing = |partition| Commit {
        partition,
        committed: Committed {
            offset: -1,
            leader_epoch: -1,
            metadata: String::new(),
        },
    };
    let of_topic = |(topic, partitions): (TopicName, Vec<i32>)| {
        let known = known.iter().find(|(name, _)| *name == **topic);
        let known = known.map_or(&[][..], |(_, commits)| commits);
        let one = |partition| {
            let found = known.iter().find(|commit| commit.partition == partition);
            found.cloned().unwrap_or_else(|| nothing(partition))
        };
        let found = partitions.into_iter().map(one).collect();
        (topic, found)
    };
    wanted.into_iter().map(of_topic).collect()
}

pub(crate) fn fetch(core: &Core, header: &Header, request: OffsetFetchRequest) -> Reply {
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
                        .with_committed_offset(c.committed.offset)
                        .with_committed_leader_epoch(c.committed.leader_epoch)
                        .with_metadata(Some(StrBytes::from_string(c.committed.metadata)))
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
                .with_committed_offset(c.committed.offset)
                .with_committed_leader_epoch(c.committed.leader_epoch)
                .with_metadata(Some(StrBytes::from_string(c.committed.metadata)))
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
pub(crate) fn delete(core: &Core, header: &Header, request: OffsetDeleteRequest) -> Reply {
    let group = request.group_id.to_string();
    let vacant = core
        .groups
        .get(&group)
        .is_none_or(crate::group::state::Group::is_vacant);
    let refused = if !core.topics.has_group(&group) {
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
    let removing = core.topics.forget(&group, Some(removed));
    let header = header.clone();
    Reply::later(async move {
        header.encode(&match removing.await {
            Ok(()) => response.with_topics(topics),
            Err(error) => response.with_error_code(error_of(&error).code()),
        })
    })
}
