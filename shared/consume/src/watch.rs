//! Which records are in hand, noted with the group: so that whoever gets a partition after a process
//! that died knows what it died of. The rules are [`deaths`](triad_runtime::deaths)'.
//!
//! A mark is in the metadata of the partition's committed offset, so it goes with that offset: a
//! commit of a later one takes it away. It is set before the first records of a partition
//! are handed over, and not any more once something of that partition has been answered here: a
//! healthy partition costs two commits each time that it comes to a process.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::{Duration, Instant};

use triad_runtime::InputRecord;
use triad_runtime::deaths::{Handing, Mark, Marks};

use crate::broker::Consumer;
use crate::note::{InHand, Note, Partition};

/// What one lane knows of what is in hand, here and before.
#[derive(Default)]
pub(crate) struct Watch {
    /// What processes that died have left.
    left: Marks,
    /// Partitions of which a handler of this process has answered something since they came.
    proven: HashSet<Partition>,
    /// Partitions whose records are handed over one by one, and how many more of them.
    alone: HashMap<Partition, usize>,
    /// Since when something of a partition is noted.
    since: HashMap<Partition, Instant>,
    /// Bound: records that are handed over one by one because of one mark.
    together: usize,
}

impl Watch {
    /// For a lane of which at most `together` records are in hand at once: with fewer a process
    /// cannot have died of another.
    pub(crate) fn new(together: usize) -> Self {
        Self {
            together,
            ..Self::default()
        }
    }

    /// Learns which partitions have gone and with which marks others have come; gives those that
    /// have gone.
    pub(crate) fn learn(&mut self, consumer: &impl Consumer) -> Vec<Partition> {
        let gone = consumer.assignment().take_revoked();
        self.left.forget(&gone);
        for partition in &gone {
            self.proven.remove(partition);
            self.alone.remove(partition);
            self.since.remove(partition);
        }
        for (at, mark) in consumer.assignment().take_met() {
            tracing::warn!(
                topic = at.topic,
                partition = at.partition,
                offset = at.offset,
                %mark,
                "a process ended with records from here on in hand: they are handed over one by one"
            );
            self.alone
                .insert((at.topic.clone(), at.partition), self.together.max(1));
            self.left.meet(at, mark);
        }
        gone
    }

    /// Whether the records of a partition are handed over one by one.
    pub(crate) fn is_alone(&self, partition: &Partition) -> bool {
        self.alone.contains_key(partition)
    }

    /// Whether a record may be handed over by itself. If so it is noted to be in hand; all before
    /// `position` of its partition is done.
    pub(crate) fn take_alone(
        &mut self,
        consumer: &impl Consumer,
        record: &InputRecord,
        position: i64,
    ) -> bool {
        let partition = (record.topic.clone(), record.partition);
        if let Some(more) = self.alone.get_mut(&partition) {
            *more -= 1;
            if *more == 0 {
                self.alone.remove(&partition);
            }
        }
        match self.left.handing(record) {
            Handing::Alone(mark) => {
                let from = record.offset;
                consumer.note(&[Note {
                    partition: partition.clone(),
                    position,
                    in_hand: Some(InHand { from, mark }),
                }]);
                self.noted(consumer, partition, position);
                true
            }
            Handing::Never => {
                self.left.answered(record);
                false
            }
        }
    }

    /// Notes that records are in hand, where that is not known to go well yet and not noted already.
    /// All before the first of each partition is done.
    pub(crate) fn take_together<'a>(
        &mut self,
        consumer: &impl Consumer,
        records: impl IntoIterator<Item = &'a InputRecord>,
    ) {
        let mut first: BTreeMap<Partition, i64> = BTreeMap::new();
        for record in records {
            let partition = (record.topic.clone(), record.partition);
            let is_known = self.proven.contains(&partition) || self.since.contains_key(&partition);
            if !is_known {
                first.entry(partition).or_insert(record.offset);
            }
        }
        let mark = Mark::Together;
        let notes = first.iter().map(|(partition, position)| Note {
            partition: partition.clone(),
            position: *position,
            in_hand: Some(InHand {
                from: *position,
                mark,
            }),
        });
        let notes: Vec<Note> = notes.collect();
        if !notes.is_empty() {
            consumer.note(&notes);
        }
        for (partition, position) in first {
            self.noted(consumer, partition, position);
        }
    }

    /// The handler has answered about a record, of which no offset behind it is stored yet. If it
    /// `is_done` the offset behind it is committed soon.
    pub(crate) fn answered(
        &mut self,
        consumer: &impl Consumer,
        record: &InputRecord,
        is_done: bool,
    ) {
        let partition = (record.topic.clone(), record.partition);
        self.left.answered(record);
        if let Some(position) = consumer.assignment().noted(&partition)
            && !(is_done && position == record.offset)
        {
            take_back_one(consumer, &partition, position);
        }
        self.proves(consumer, partition);
    }

    /// Takes back what has been noted for so long: no death is held against it any more.
    pub(crate) fn take_back_after(&mut self, consumer: &impl Consumer, within: Duration) {
        let now = Instant::now();
        let over = self.since.iter().filter(|(_, at)| now - **at >= within);
        let over: Vec<Partition> = over.map(|(partition, _)| partition.clone()).collect();
        for partition in over {
            if let Some(position) = consumer.assignment().noted(&partition) {
                take_back_one(consumer, &partition, position);
            }
            self.proves(consumer, partition);
        }
    }

    fn noted(&mut self, consumer: &impl Consumer, partition: Partition, position: i64) {
        consumer
            .assignment()
            .set_noted(partition.clone(), Some(position));
        self.since.insert(partition, Instant::now());
    }

    fn proves(&mut self, consumer: &impl Consumer, partition: Partition) {
        consumer.assignment().set_noted(partition.clone(), None);
        self.since.remove(&partition);
        self.proven.insert(partition);
    }
}

fn take_back_one(consumer: &impl Consumer, partition: &Partition, position: i64) {
    consumer.note(&[Note {
        partition: partition.clone(),
        position,
        in_hand: None,
    }]);
}
