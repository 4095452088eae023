//! Which records are in hand, noted with the group: so that whoever gets a partition after a process
//! that died knows what it died of. The rules are [`deaths`](triad_runtime::deaths)'.
//!
//! A mark is in the metadata of the partition's committed offset, so it goes with that offset: a
//! commit of a later one takes it away. It is set before the first records of a partition
//! are handed over, and not any more once the first of them has been answered here: a
//! healthy partition costs two commits each time that it comes to a process. What is answered before
//! the first says nothing of it, nor of the others that are in hand beside it.

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
    /// What is noted of a partition.
    noted: HashMap<Partition, Noted>,
    /// Bound: records that are handed over one by one because of one mark.
    together: usize,
}

/// A note that stands: the record that must be answered before it is taken back, and since when.
struct Noted {
    from: i64,
    since: Instant,
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
            self.noted.remove(partition);
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
                self.note(consumer, partition, position, from);
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
            let is_known = self.proven.contains(&partition) || self.noted.contains_key(&partition);
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
            self.note(consumer, partition, position, position);
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
        let from = self.noted.get(&partition).map(|noted| noted.from);
        if is_done && from.is_some_and(|from| from != record.offset) {
            return;
        }
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
        let is_over = |noted: &Noted| now - noted.since >= within;
        let over = self.noted.iter().filter(|(_, noted)| is_over(noted));
        let over: Vec<Partition> = over.map(|(partition, _)| partition.clone()).collect();
        for partition in over {
            if let Some(position) = consumer.assignment().noted(&partition) {
                take_back_one(consumer, &partition, position);
            }
            self.proves(consumer, partition);
        }
    }

    fn note(&mut self, consumer: &impl Consumer, partition: Partition, position: i64, from: i64) {
        consumer
            .assignment()
            .set_noted(partition.clone(), Some(position));
        let since = Instant::now();
        self.noted.insert(partition, Noted { from, since });
    }

    fn proves(&mut self, consumer: &impl Consumer, partition: Partition) {
        consumer.assignment().set_noted(partition.clone(), None);
        self.noted.remove(&partition);
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

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use crate::assignment::Assignment;
    use crate::found::Found;

    /// Keeps what is noted.
    #[derive(Default)]
    struct Noting {
        assignment: Assignment,
        notes: Mutex<Vec<Note>>,
    }

    impl Consumer for Noting {
        async fn next(&self) -> Found {
            std::future::pending().await
        }

        fn at_hand(&self) -> Option<Found> {
            None
        }

        fn pause(&self, _: &Partition, _: bool) {}

        fn store(&self, _: &Partition, _: i64) {}

        fn commit(&self) {}

        fn commit_and_wait(&self) {}

        fn note(&self, notes: &[Note]) {
            self.notes.lock().unwrap().extend_from_slice(notes);
        }

        fn unread(&self) -> Option<u64> {
            None
        }

        fn assignment(&self) -> &Assignment {
            &self.assignment
        }
    }

    impl Noting {
        /// What a process that came now would meet: nothing of a note that was taken back.
        fn left(&self) -> Option<InHand> {
            self.notes.lock().unwrap().last().and_then(|n| n.in_hand)
        }
    }

    fn record(offset: i64) -> InputRecord {
        InputRecord {
            topic: "t".into(),
            offset,
            ..InputRecord::default()
        }
    }

    fn together(from: i64) -> Option<InHand> {
        let mark = Mark::Together;
        Some(InHand { from, mark })
    }

    #[test]
    fn a_later_record_that_is_answered_first_takes_no_note_back() {
        let consumer = Noting::default();
        let mut watch = Watch::new(16);
        for offset in 5..8 {
            watch.take_together(&consumer, [&record(offset)]);
        }
        watch.answered(&consumer, &record(6), true);
        assert_eq!(consumer.left(), together(5), "5 and 7 are in hand");
        watch.answered(&consumer, &record(5), true);
        assert_eq!(consumer.left(), together(5), "its commit takes it away");
        watch.take_together(&consumer, [&record(8)]);
        assert_eq!(consumer.notes.lock().unwrap().len(), 1, "it goes well");
    }

    #[test]
    fn a_record_that_is_not_done_takes_the_note_back() {
        for offset in [5, 6] {
            let consumer = Noting::default();
            let mut watch = Watch::new(16);
            watch.take_together(&consumer, &[record(5), record(6)]);
            watch.answered(&consumer, &record(offset), false);
            assert_eq!(consumer.left(), None, "{offset} is answered");
        }
    }

    #[test]
    fn a_record_that_was_handed_over_alone_takes_its_own_note_back() {
        let consumer = Noting::default();
        let mut watch = Watch::new(16);
        // One before it is under way still: the position is that one's.
        assert!(watch.take_alone(&consumer, &record(7), 5));
        watch.answered(&consumer, &record(5), true);
        let mark = Mark::Alone(1);
        assert_eq!(consumer.left(), Some(InHand { from: 7, mark }));
        watch.answered(&consumer, &record(7), true);
        assert_eq!(consumer.left(), None);
    }
}
