//! The simulated bus: topics, partitions, offsets, duplicates, and faults of sends.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::task::Waker;

use triad_core::{Direction, Envelope, Timestamp, topics};
use triad_runtime::{BusError, InputRecord};

use crate::kernel::{InstanceId, Kernel, OUTSIDE};
use crate::lazy_commits::LazyCommits;

/// A record in a topic, with the time at which it was appended and the instance that sent it.
#[derive(Debug, Clone)]
pub(crate) struct Stored {
    pub at: u64,
    pub by: InstanceId,
    pub envelope: Arc<Envelope>,
}

/// The state of a batch while it is sent.
#[derive(Debug, Default)]
pub(crate) struct Sending {
    /// Partitions for which the rest of the batch fails.
    broken: Vec<(String, usize)>,
    /// Whether a part of the batch is never answered.
    pub hung: bool,
    /// Messages that are appended later.
    pub late: Vec<Envelope>,
}

/// A request as it was delivered to an agent.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Delivered {
    pub times: u32,
    pub complete_by: Timestamp,
    pub allowance: u32,
}

/// The fields of a request that the checker needs.
#[derive(Debug, serde::Deserialize)]
struct RequestHead {
    idempotency_key: String,
    direction: Direction,
    attempt: u32,
    complete_by: Timestamp,
    allowance: u32,
}

/// A partition, and the instance to which it is assigned.
#[derive(Debug, Default)]
pub(crate) struct Partition {
    pub log: Vec<Stored>,
    pub committed: usize,
    /// Increased by every assignment. A consumer with an older number has lost the partition.
    pub generation: u64,
    pub owner: Option<InstanceId>,
    pub waiting: Vec<Waker>,
}

/// All topics, and the checker's counts.
#[derive(Debug, Default)]
pub(crate) struct BusState {
    pub topics: BTreeMap<String, Vec<Partition>>,
    /// Topics that accept nothing at present.
    pub down: Vec<String>,
    /// Topics that refuse Triad's writes at present.
    pub refused: BTreeSet<String>,
    /// Topics that have been refused. Each is refused at most once, so that these faults end.
    pub refused_before: BTreeSet<String>,
    /// Partitions that do not answer at present.
    pub leaderless: BTreeSet<(String, usize)>,
    /// Processes that have lost their producer; until the given time a new one would be lost as well.
    lost: BTreeMap<InstanceId, u64>,
    /// Requests delivered to agents, by idempotency key, direction and attempt.
    pub deliveries: BTreeMap<(String, &'static str, u32), Delivered>,
    /// Commits that the death of the machine may revert.
    pub lazy: LazyCommits,
}

impl BusState {
    pub(crate) fn add_topic(&mut self, name: &str, partitions: usize) {
        let mut all = Vec::new();
        all.resize_with(partitions, Partition::default);
        self.topics.insert(name.to_owned(), all);
    }

    pub(crate) fn partition(&mut self, topic: &str, at: usize) -> Option<&mut Partition> {
        self.topics.get_mut(topic)?.get_mut(at)
    }

    /// The ids of the records of a topic that an instance has sent, as topic, partition and offset.
    pub(crate) fn sent_on(&self, topic: &str) -> BTreeSet<String> {
        let partitions = self.topics.get(topic).into_iter().flatten().enumerate();
        let records = partitions.flat_map(|(at, p)| p.log.iter().enumerate().map(move |r| (at, r)));
        let sent_on = records.filter(|(_, (_, stored))| stored.by != OUTSIDE);
        sent_on
            .map(|(at, (offset, _))| format!("{topic}/{at}/{offset}"))
            .collect()
    }

    /// All records of a topic, partition by partition.
    pub(crate) fn all<'a>(&'a self, topic: &str) -> impl Iterator<Item = &'a Stored> {
        self.topics
            .get(topic)
            .into_iter()
            .flatten()
            .flat_map(|p| &p.log)
    }
}

/// The partition to which a key belongs.
pub(crate) fn place(key: Option<&[u8]>, partitions: usize) -> usize {
    let hash = key
        .unwrap_or_default()
        .iter()
        .fold(0xcbf2_9ce4_8422_2325_u64, |h, b| {
            (h ^ u64::from(*b)).wrapping_mul(0x0100_0000_01b3)
        });
    usize::try_from(hash >> 33).unwrap_or(0) % partitions.max(1)
}

impl BusState {
    /// Takes the producer of a process away: it cannot send until it creates a new one after `until`.
    pub(crate) fn lose_producer(&mut self, k: &mut Kernel, who: InstanceId, until: u64) {
        k.note(who, || format!("bus: its producer is lost until {until}"));
        self.lost.insert(who, until);
    }

    /// Replaces a lost producer, as the adapter does before sending.
    pub(crate) fn make_sound(&mut self, k: &mut Kernel, who: InstanceId) {
        if self.lost.get(&who).is_some_and(|until| *until <= k.now) {
            self.lost.remove(&who);
            k.coverage.reach("saw: producer replaced");
        }
    }

    /// Gives a starting process a producer.
    pub(crate) fn begin(&mut self, who: InstanceId) {
        self.lost.remove(&who);
    }

    /// Ends the faults of topics, partitions and producers. The next publish replaces a lost producer.
    pub(crate) fn mend(&mut self) {
        self.down.clear();
        self.refused.clear();
        self.leaderless.clear();
        for until in self.lost.values_mut() {
            *until = 0;
        }
    }

    /// Appends one message; returns its partition and offset.
    pub(crate) fn append(
        &mut self,
        k: &mut Kernel,
        who: InstanceId,
        envelope: Envelope,
    ) -> (usize, usize) {
        let at = k.now;
        let found = self.topics.get_mut(&envelope.topic);
        k.check("world-the-topic-is-there", found.is_some(), || {
            envelope.topic.clone()
        });
        let Some(partitions) = found else {
            return (0, 0);
        };
        let partition = place(envelope.key.as_deref(), partitions.len());
        let target = &mut partitions[partition];
        let offset = target.log.len();
        let envelope = Arc::new(envelope);
        let is_of_type = |name: &str| {
            let mut headers = envelope.headers.iter();
            headers.any(|(n, v)| n == "ce_type" && v.as_deref() == Some(name.as_bytes()))
        };
        let lost = k.faults.lost_end;
        if is_of_type("triad.order.child-ended")
            && lost > 0
            && k.fault("fault: end of a child order lost", lost)
        {
            return (partition, offset);
        }
        if is_of_type("triad.order.rejected") {
            let text = String::from_utf8_lossy(&envelope.value);
            k.coverage.reach(match text.contains("too-many-in-flight") {
                true => "saw: order rejected",
                false => "saw: order refused and told",
            });
        }
        target.log.push(Stored {
            at,
            by: who,
            envelope: envelope.clone(),
        });
        let woken = std::mem::take(&mut target.waiting);
        k.note(who, || {
            let value = String::from_utf8_lossy(&envelope.value);
            let shown: String = value.chars().take(160).collect();
            format!("bus: {}-{partition}@{offset} {shown}", envelope.topic)
        });
        for waker in woken {
            waker.wake();
        }
        (partition, offset)
    }

    /// Stores messages in the transaction of their record, all or none. Returns whether it did: not if a topic does
    /// not take its message, nor if the fault occurs that one could not be stored.
    pub(crate) fn store_with_record(
        &mut self,
        k: &mut Kernel,
        who: InstanceId,
        messages: &[Envelope],
    ) -> bool {
        let takes = |m: &Envelope| {
            let topic = &m.topic;
            self.topics.contains_key(topic)
                && !self.refused.contains(topic)
                && !self.down.contains(topic)
        };
        if messages.is_empty() || !messages.iter().all(takes) {
            return false;
        }
        if k.fault(
            "fault: messages not stored with their record",
            k.faults.unstored,
        ) {
            return false;
        }
        for message in messages {
            let is_for_others = !topics::is_between_handlers(&message.topic);
            k.check(
                "what-is-stored-with-a-record-is-for-others",
                is_for_others,
                || message.topic.clone(),
            );
            self.append(k, who, message.clone());
        }
        true
    }

    /// Takes back all lazy commits after the first `kept`; returns how many.
    pub(crate) fn lose_commits(&mut self, kept: usize) -> usize {
        let mut count = 0;
        let lost: Vec<_> = self.lazy.lose(kept).collect();
        for commit in lost {
            count += 1;
            if let Some(p) = self.partition(&commit.topic, commit.partition) {
                p.committed = commit.before;
            }
        }
        count
    }

    /// Empties the topics between handlers, which are in memory: nothing in them is delivered any more. Returns the
    /// records that nobody had finished, as topic, partition and offset.
    pub(crate) fn empty_memory(&mut self) -> Vec<String> {
        let mut lost = Vec::new();
        let inner = self.topics.iter_mut();
        for (topic, partitions) in inner.filter(|(topic, _)| topics::is_between_handlers(topic)) {
            for (n, partition) in partitions.iter_mut().enumerate() {
                let unread = partition.committed..partition.log.len();
                lost.extend(unread.map(|offset| format!("{topic}/{n}/{offset}")));
                partition.committed = partition.log.len();
            }
        }
        lost
    }

    /// Sends one message of a batch, with random faults. If a message fails, so do all later ones of its partition,
    /// as with an idempotent producer.
    pub(crate) fn send_one(
        &mut self,
        k: &mut Kernel,
        who: InstanceId,
        message: Envelope,
        sending: &mut Sending,
    ) -> Result<(), BusError> {
        let error = |why: &str| Err(BusError::Transient(why.to_owned()));
        let count = self.topics.get(&message.topic).map_or(0, Vec::len);
        let partition = place(message.key.as_deref(), count);
        let lane = |m: &Envelope| (m.topic.clone(), partition);
        if self.refused.contains(&message.topic) {
            k.refuse();
            return Err(BusError::Permanent("TopicAuthorizationFailed".to_owned()));
        }
        if sending.broken.contains(&lane(&message)) {
            return error("an earlier one failed");
        }
        if self.lost.contains_key(&who) {
            sending.broken.push(lane(&message));
            return error("the producer cannot go on");
        }
        let leaderless = self.leaderless.contains(&lane(&message));
        if leaderless || k.fault("fault: publish hung", k.faults.hang) {
            sending.broken.push(lane(&message));
            sending.hung = true;
            // The producer still has the message, and may send it once the partition answers.
            if !leaderless && k.rng.chance(500) {
                sending.late.push(message);
            }
            return Err(BusError::Late("not acknowledged in time".to_owned()));
        }
        let down = self.down.contains(&message.topic);
        if down || k.fault("fault: send failed", k.faults.publish_fail) {
            sending.broken.push(lane(&message));
            return error("not reachable");
        }
        if k.fault("fault: send landed late", k.faults.publish_late) {
            sending.broken.push(lane(&message));
            sending.late.push(message);
            return error("timed out");
        }
        let unheard =
            |k: &mut Kernel| k.fault("fault: send not acknowledged", k.faults.publish_lost);
        let twice = k.fault("fault: message stored twice", k.faults.duplicate);
        if twice {
            self.append(k, who, message.clone());
        }
        if unheard(k) {
            sending.broken.push(lane(&message));
            self.append(k, who, message);
            return error("not acknowledged");
        }
        self.append(k, who, message);
        Ok(())
    }

    fn deliver(&mut self, r: RequestHead) {
        let direction = match r.direction {
            Direction::Forward => "forward",
            Direction::Compensate => "compensate",
            Direction::Probe => "probe",
        };
        let key = (r.idempotency_key, direction, r.attempt);
        let delivered = self.deliveries.entry(key).or_insert(Delivered {
            times: 0,
            complete_by: r.complete_by,
            allowance: r.allowance,
        });
        delivered.times += 1;
        // After a migration, the request of the same attempt may have another allowance.
        delivered.allowance = delivered.allowance.max(r.allowance);
    }

    /// Records for a consumer; `None` if there are none yet.
    pub(crate) fn take_batch(
        &mut self,
        k: &mut Kernel,
        most: u64,
        who: InstanceId,
        topic: &str,
        partition: usize,
        from: usize,
    ) -> Option<Vec<InputRecord>> {
        let wanted = usize::try_from(k.rng.between(1, most)).unwrap_or(1);
        let source = self.partition(topic, partition)?;
        let records: Vec<InputRecord> = source
            .log
            .iter()
            .enumerate()
            .skip(from)
            .take(wanted)
            .map(|(offset, stored)| InputRecord {
                topic: topic.to_owned(),
                partition: i32::try_from(partition).unwrap_or(i32::MAX),
                offset: i64::try_from(offset).unwrap_or(i64::MAX),
                timestamp_ms: i64::try_from(stored.at).unwrap_or(-1),
                key: stored.envelope.key.clone(),
                // An empty value represents a tombstone, because no sender uses an empty value otherwise.
                value: Some(stored.envelope.value.clone()).filter(|v| !v.is_empty()),
                headers: stored.envelope.copied_headers(),
            })
            .collect();
        if records.is_empty() {
            return None;
        }
        if topic.starts_with("agent.") {
            for record in &records {
                let value = record.value.as_deref().unwrap_or_default();
                if let Ok(r) = serde_json::from_slice::<RequestHead>(value) {
                    self.deliver(r);
                }
            }
        }
        k.note(who, || {
            format!("bus: reads {topic}-{partition}@{from}, {}", records.len())
        });
        Some(records)
    }
}
