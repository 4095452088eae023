//! Calls of the in-process client that run under the core's lock.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{LineError, PartitionBatch, PartitionRead, Position, ReadRequest, TopicShape};
use crate::apis::{offsets, produce};
use crate::core::{Core, Signal};
use crate::log::flusher::{Flush, Lsn};
use crate::log::partition::ReadResult;
use crate::log::store::AppendVisibility;
use crate::offsets::Committed;

pub(super) fn shape(core: &Core, topic: &str) -> Result<TopicShape, LineError> {
    let topic = core.store.topics.get(topic).ok_or(LineError::NoTopic)?;
    Ok(TopicShape {
        partitions: i32::try_from(topic.logs.len()).unwrap_or(i32::MAX),
        max_batch_bytes: core.store.max_batch_bytes(topic),
    })
}

/// Appends batches; returns their results, and the position that must be durable before these are reported.
pub(super) fn append(
    core: &mut Core,
    batches: &[PartitionBatch],
) -> (Vec<Result<i64, LineError>>, Lsn) {
    let mut to = 0;
    let append = |batch: &PartitionBatch| {
        let kept = match batch.is_restorable {
            true => AppendVisibility::Soon,
            false => AppendVisibility::First,
        };
        let (topic, partition) = (&batch.topic, batch.partition);
        let accepted = produce::append(core, topic, partition, &batch.bytes, kept)?;
        to = accepted.lsn.max(to);
        Ok(accepted.base_offset)
    };
    let appended = batches.iter().map(append).collect();
    (appended, to)
}

/// Whether everything up to a position is durable; `None` if that is not known yet.
pub(super) fn durable(core: &Core, lsn: Lsn) -> Option<Result<(), LineError>> {
    if lsn <= core.store.durable_to() {
        return Some(Ok(()));
    }
    core.store.failed().then_some(Err(LineError::Storage))
}

/// Starts partitions at offsets; returns the position that must be durable before that is reported.
pub(super) fn begin_at(
    core: &mut Core,
    topic: &str,
    offsets: &BTreeMap<i32, i64>,
) -> Result<Lsn, LineError> {
    let mut to = 0;
    for (&partition, &start) in offsets {
        let log = core.store.topics.log(topic, partition);
        let log = log.ok_or(LineError::NoTopic)?;
        to = core.store.begin_at(log, start)?.max(to);
    }
    Ok(to)
}

/// Wakes `signal` once when there may be more to read.
pub(super) fn watch(core: &mut Core, wanted: &ReadRequest, signal: &Arc<Signal>) {
    for (partition, _) in &wanted.positions {
        if let Some(log) = core.store.topics.log(&wanted.topic, *partition) {
            core.watch_log(log, signal);
        }
    }
}

/// Reads without waiting; empty if there is nothing yet.
pub(super) fn read(core: &mut Core, wanted: &ReadRequest) -> Result<Vec<PartitionRead>, LineError> {
    let mut parts = Vec::new();
    let mut left = wanted.max_bytes;
    for &(partition, offset) in &wanted.positions {
        let log = core.store.log_of(&wanted.topic, partition);
        let log = log.ok_or(LineError::NoTopic)?;
        let mut bytes = Vec::new();
        match log.read(offset, left, parts.is_empty(), &mut bytes) {
            Ok(ReadResult::Bytes(0)) => {}
            Ok(ReadResult::Bytes(count)) => {
                left = left.saturating_sub(count);
                parts.push(PartitionRead::Batches {
                    partition,
                    bytes,
                    end: log.high_watermark,
                });
            }
            Ok(ReadResult::OutOfRange) => parts.push(PartitionRead::OutOfRange {
                partition,
                start: log.start,
                end: log.high_watermark,
            }),
            Err(error) => {
                tracing::error!(%error, topic = &*wanted.topic, partition, "a segment cannot be read");
                return Err(LineError::Storage);
            }
        }
    }
    Ok(parts)
}

pub(super) fn committed(core: &Core, group: &str, topic: &str) -> Vec<Position> {
    let of_group = core.store.offsets.of_group(group);
    let of_topic = of_group.filter(|(name, _)| *name == topic);
    let positions = of_topic.flat_map(|(_, partitions)| partitions.values());
    let position = |c: &Committed| Position {
        partition: c.partition,
        offset: c.offset,
    };
    positions.map(position).collect()
}

pub(super) fn commit(
    core: &mut Core,
    group: &str,
    topic: &str,
    positions: Vec<Position>,
    flush: Flush,
) -> Result<Lsn, LineError> {
    offsets::has_room(core, group)?;
    let items = positions.into_iter().map(|position| Committed {
        topic: topic.to_owned(),
        partition: position.partition,
        offset: position.offset,
        leader_epoch: -1,
        metadata: String::new(),
    });
    let checked = items.map(|item| offsets::check(core, item));
    let items = checked.collect::<Result<Vec<_>, _>>()?;
    Ok(core.store.commit_offsets(group, items, flush)?)
}
