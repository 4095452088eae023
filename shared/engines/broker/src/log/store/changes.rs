//! Metadata changes: submitted to the write-ahead log and applied in one call.

use std::collections::BTreeMap;
use std::{fs, io};

use kafka_protocol::error::ResponseError;
use uuid::Uuid;

use super::{Doomed, Store, log_dir, storage_error};
use crate::error::Error;
use crate::log::flusher::{Flush, Lsn};
use crate::log::meta::{LogId, MetaRecord};
use crate::log::partition::PartitionLog;
use crate::log::topics::{Topic, fresh_uuid};
use crate::log::wal;
use crate::offsets::Committed;

impl Store {
    /// Creates a topic. The name is legal and free, and the number of partitions positive.
    pub(crate) fn create_topic(
        &mut self,
        name: &str,
        partitions: i32,
        configs: BTreeMap<String, String>,
    ) -> Result<(Uuid, Lsn), ResponseError> {
        let logs = self.reserve_logs(partitions)?;
        let id = fresh_uuid();
        let record = MetaRecord::TopicCreated {
            name: name.to_owned(),
            id,
            configs,
            logs,
        };
        Ok((id, self.change(record)?))
    }

    /// Adds partitions to an existing topic.
    pub(crate) fn add_partitions(&mut self, name: &str, more: i32) -> Result<Lsn, ResponseError> {
        let logs = self.reserve_logs(more)?;
        self.change(MetaRecord::PartitionsAdded {
            name: name.to_owned(),
            logs,
        })
    }

    fn reserve_logs(&mut self, count: i32) -> Result<Vec<LogId>, ResponseError> {
        let count = u32::try_from(count).map_err(|_| ResponseError::InvalidPartitions)?;
        if self.logs.len() + count as usize > self.max_partitions {
            return Err(ResponseError::PolicyViolation);
        }
        let first = self.next_log;
        self.next_log = first
            .checked_add(count)
            .ok_or(ResponseError::InvalidPartitions)?;
        Ok((first..self.next_log).map(LogId).collect())
    }

    /// Gives out a producer id that was never used.
    pub(crate) fn new_producer_id(&mut self) -> Result<(i64, Lsn), ResponseError> {
        let id = self.next_producer_id;
        let lsn = self.change(MetaRecord::ProducerIds { next: id + 1 })?;
        Ok((id, lsn))
    }

    /// Starts a log at `start`, if it is empty and has not reached that offset.
    pub(crate) fn begin_at(&mut self, id: LogId, start: i64) -> Result<Lsn, ResponseError> {
        let log = self.log(id);
        let begins = log.is_some_and(|log| log.start == log.next && log.next < start);
        match begins {
            true => self.change(MetaRecord::Started { log: id, start }),
            false => Ok(0),
        }
    }

    /// Submits a change without effect.
    pub(crate) fn write_nothing(&mut self) -> Result<Lsn, ResponseError> {
        let next = self.next_producer_id;
        self.change(MetaRecord::ProducerIds { next })
    }

    pub(crate) fn commit_offsets(
        &mut self,
        group: &str,
        offsets: Vec<Committed>,
        when: Flush,
    ) -> Result<Lsn, ResponseError> {
        let group = group.to_owned();
        self.change_by(MetaRecord::Committed { group, offsets }, when)
    }

    /// Submits a change that a caller waits for, and applies it.
    pub(crate) fn change(&mut self, record: MetaRecord) -> Result<Lsn, ResponseError> {
        self.change_by(record, Flush::Now)
    }

    fn change_by(&mut self, record: MetaRecord, when: Flush) -> Result<Lsn, ResponseError> {
        if self.failed() {
            return Err(ResponseError::KafkaStorageError);
        }
        let lsn = self
            .submit(&record, when)
            .map_err(|_| ResponseError::KafkaStorageError)?;
        self.apply(record).map_err(storage_error(&self.fault))?;
        self.checkpoint_if_due();
        Ok(lsn)
    }

    pub(super) fn submit(&mut self, record: &MetaRecord, when: Flush) -> Result<Lsn, Error> {
        let Some(durable) = &mut self.durable else {
            return Ok(0);
        };
        let generation = durable.generation;
        durable.submit(when, |out| wal::put_meta(out, generation, record))
    }

    /// Applies a change, when it happens and when it is replayed.
    pub(in crate::log) fn apply(&mut self, record: MetaRecord) -> io::Result<()> {
        match record {
            MetaRecord::TopicCreated {
                name,
                id,
                configs,
                logs,
            } => {
                self.add_logs(&name, &logs, 0)?;
                self.topics.insert(name, Topic { id, configs, logs });
            }
            MetaRecord::PartitionsAdded { name, logs } => {
                let first = self.topics.get(&name).map_or(0, |t| t.logs.len());
                self.add_logs(&name, &logs, first)?;
                self.topics.add_logs(&name, &logs);
            }
            MetaRecord::TopicDeleted { name } => {
                self.offsets.remove_topic(&name);
                for id in self.topics.remove(&name).into_iter().flat_map(|t| t.logs) {
                    let Some(log) = self.logs.remove(&id) else {
                        continue;
                    };
                    self.total_bytes = self.total_bytes.saturating_sub(log.bytes());
                    self.tail_bytes = self.tail_bytes.saturating_sub(log.tail_bytes());
                    // Removed when the deletion is durable: until then a crash reverts it, and the records must still
                    // exist. Recovery removes leftovers.
                    let deleted_at = self.end();
                    let dir = log.dir().map(|dir| Doomed::Log(dir.to_owned()));
                    self.doomed.extend(dir.map(|doomed| (deleted_at, doomed)));
                }
            }
            MetaRecord::Committed { group, offsets } => self.offsets.commit(&group, offsets),
            MetaRecord::OffsetsRemoved { group, partitions } => {
                for (topic, partition) in partitions {
                    self.offsets.remove(&group, &topic, partition);
                }
            }
            MetaRecord::GroupDeleted { group } => self.offsets.remove_group(&group),
            MetaRecord::ProducerIds { next } => {
                self.next_producer_id = self.next_producer_id.max(next);
            }
            MetaRecord::Started { log, start } => {
                if let Some(log) = self.logs.get_mut(&log) {
                    if log.next < start {
                        log.skip_to(start)?;
                        log.high_watermark = start;
                    }
                    log.start = log.start.max(start);
                }
            }
        }
        Ok(())
    }

    fn add_logs(&mut self, topic: &str, logs: &[LogId], first: usize) -> io::Result<()> {
        for (i, &id) in logs.iter().enumerate() {
            self.next_log = self.next_log.max(id.0 + 1);
            let dir = self
                .root
                .as_deref()
                .map(|root| log_dir(root, topic, first + i, id));
            if let Some(dir) = &dir
                && dir.exists()
            {
                // Replay: records that an earlier process wrote early come again from the log.
                fs::remove_dir_all(dir)?;
            }
            self.logs.insert(id, PartitionLog::new(dir, 0));
        }
        Ok(())
    }
}
