//! Records whose handling ends the process: found, and put aside.
//!
//! A process that dies says nothing of the record that it died of. So a shell notes, before records
//! are handed to a handler, that they are in hand (a [`Mark`], kept where it outlives the process),
//! and takes the note back when the handler has answered, whatever it has answered. A mark that is
//! met at the start stands for a process that died, or was killed, with those records in hand: from
//! then on the records of that partition are handed over one by one, each under a mark of its own.
//! A record with which alone in hand a process has died [`MAX_DEATHS`] times is not handed over any
//! more: it becomes a dead letter, which can be replayed.
//!
//! Where the marks are kept is the shells': in the metadata of the group's committed offset by the
//! consumer loops, in a file of the sandbox by the functions.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;

use crate::dead_letter::{Cause, LetterId};
use crate::record::InputRecord;

/// How often a process may die while its handler works on one record alone. After that the record
/// is dead-lettered, and no handler gets it any more.
pub const MAX_DEATHS: u32 = 3;

/// Cause code of the dead letter of a record at which processes have died [`MAX_DEATHS`] times.
pub const HANDLER_DIED: &str = "handler-died";

/// Bound: marks that are kept. More are left by nobody: a batch has fewer partitions.
const MAX_MARKS: usize = 256;

/// A note, made before a handler is given records, that is removed when the handler has answered. If the
/// process dies meanwhile, the note says which record the handler had. As text: `together`, or
/// `alone=2`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mark {
    /// The handler was given several records; this one is the first of its partition.
    Together,
    /// The handler was given this record alone, for the first, second, … time, counted from 1.
    Alone(u32),
}

impl fmt::Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Together => f.write_str("together"),
            Self::Alone(times) => write!(f, "alone={times}"),
        }
    }
}

/// The error of reading a [`Mark`]: the text is neither `together` nor `alone=N` with a whole number from 0
/// to 4294967295.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("no mark: `together` or `alone=N`")]
pub struct NoMark;

impl FromStr for Mark {
    type Err = NoMark;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == "together" {
            return Ok(Self::Together);
        }
        let times = text.strip_prefix("alone=").ok_or(NoMark)?;
        times.parse().map(Self::Alone).map_err(|_| NoMark)
    }
}

/// How a shell is to hand a record to the handler.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Handing {
    /// Alone, after this mark was noted.
    Alone(Mark),
    /// Not at all: processes have died [`MAX_DEATHS`] times or more with this record alone, and it is
    /// dead-lettered.
    Never,
}

/// The marks that a process left when it died. Each stays until the handler has answered about its record.
/// At most 256 are kept; further ones are ignored.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Marks(BTreeMap<(String, i32), BTreeMap<i64, Mark>>);

impl Marks {
    /// Takes in a mark that was found at the start, in place of an earlier one of the same record.
    /// If 256 records have marks already, the mark of another one is ignored.
    pub fn meet(&mut self, at: LetterId, mark: Mark) {
        let count: usize = self.0.values().map(BTreeMap::len).sum();
        let key = (at.topic, at.partition);
        let known = self.0.get_mut(&key).and_then(|p| p.get_mut(&at.offset));
        match known {
            Some(known) => *known = mark,
            None if count < MAX_MARKS => {
                self.0.entry(key).or_default().insert(at.offset, mark);
            }
            None => {}
        }
    }

    /// The partitions (topic and number) in which one of these records has a mark. All records of
    /// such a partition are to be handed over one by one.
    #[must_use]
    pub fn suspects<'a>(
        &self,
        records: impl IntoIterator<Item = &'a InputRecord>,
    ) -> BTreeSet<(String, i32)> {
        if self.0.is_empty() {
            return BTreeSet::new();
        }
        let marked = |record: &&InputRecord| self.of(record).is_some();
        let places = records.into_iter().filter(marked);
        places.map(|r| (r.topic.clone(), r.partition)).collect()
    }

    /// How to hand over a record of a partition that [`suspects`](Self::suspects) has named. A record without
    /// a mark is handed over alone for the first time.
    #[must_use]
    pub fn handing(&self, record: &InputRecord) -> Handing {
        match self.of(record) {
            Some(Mark::Alone(times)) if times >= MAX_DEATHS => Handing::Never,
            Some(Mark::Alone(times)) => Handing::Alone(Mark::Alone(times + 1)),
            Some(Mark::Together) | None => Handing::Alone(Mark::Alone(1)),
        }
    }

    /// Removes the marks of this record and of earlier ones of its partition. It is to be called when the
    /// handler has answered about the record, or the record was dead-lettered.
    pub fn answered(&mut self, record: &InputRecord) {
        let key = (record.topic.clone(), record.partition);
        if let Some(partition) = self.0.get_mut(&key) {
            partition.retain(|offset, _| *offset > record.offset);
            if partition.is_empty() {
                self.0.remove(&key);
            }
        }
    }

    /// Removes all marks of these partitions (topic and number). For partitions that another process handles
    /// now.
    pub fn forget(&mut self, partitions: &[(String, i32)]) {
        self.0
            .retain(|partition, _| !partitions.contains(partition));
    }

    /// All marks, each with the place of its record, in the order of topic, partition and offset.
    pub fn iter(&self) -> impl Iterator<Item = (LetterId, Mark)> {
        self.0.iter().flat_map(|((topic, partition), marks)| {
            marks.iter().map(|(offset, mark)| {
                let at = LetterId {
                    topic: topic.clone(),
                    partition: *partition,
                    offset: *offset,
                };
                (at, *mark)
            })
        })
    }

    fn of(&self, record: &InputRecord) -> Option<Mark> {
        let partition = self.0.get(&(record.topic.clone(), record.partition))?;
        partition.get(&record.offset).copied()
    }
}

/// The cause for the letter of a record with [`Handing::Never`]: code [`HANDLER_DIED`].
#[must_use]
pub fn cause() -> Cause {
    let text = format!(
        "the process that handled it, and nothing else, ended {MAX_DEATHS} times before it had answered"
    );
    Cause::new(HANDLER_DIED, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(partition: i32, offset: i64) -> InputRecord {
        InputRecord {
            topic: "orders".into(),
            partition,
            offset,
            ..InputRecord::default()
        }
    }

    fn at(partition: i32, offset: i64) -> LetterId {
        LetterId::of(&record(partition, offset))
    }

    #[test]
    fn a_mark_is_read_as_it_is_written_and_nothing_else_is_one() {
        for mark in [Mark::Together, Mark::Alone(1), Mark::Alone(u32::MAX)] {
            assert_eq!(mark.to_string().parse(), Ok(mark));
        }
        for text in [
            "",
            "alone",
            "alone=",
            "alone=-1",
            "alone=4294967296",
            "Together",
        ] {
            assert_eq!(text.parse::<Mark>(), Err(NoMark), "{text:?}");
        }
    }

    #[test]
    fn only_the_partition_of_a_mark_is_handed_over_one_by_one() {
        let mut marks = Marks::default();
        marks.meet(at(1, 7), Mark::Together);
        let batch = [record(0, 7), record(1, 6), record(1, 7), record(2, 7)];
        let suspects = BTreeSet::from([("orders".to_owned(), 1)]);
        assert_eq!(marks.suspects(&batch), suspects);
        assert_eq!(marks.suspects(&batch[..2]), BTreeSet::new());
    }

    #[test]
    fn a_record_is_put_aside_after_as_many_deaths_as_may_be_and_not_one_earlier() {
        let mut marks = Marks::default();
        let (mut handed, mut mark) = (0, Mark::Together);
        loop {
            // The process has died, and the next one meets what it has noted.
            marks.meet(at(0, 7), mark);
            match marks.handing(&record(0, 7)) {
                Handing::Alone(next) => mark = next,
                Handing::Never => break,
            }
            handed += 1;
        }
        assert_eq!(handed, 3);
        assert_eq!(marks.handing(&record(0, 6)), Handing::Alone(Mark::Alone(1)));
    }

    #[test]
    fn an_answer_takes_back_what_stands_at_it_and_before_it() {
        let mut marks = Marks::default();
        for (partition, offset) in [(0, 5), (0, 6), (0, 7), (1, 5)] {
            marks.meet(at(partition, offset), Mark::Together);
        }
        marks.answered(&record(0, 6));
        let left: Vec<LetterId> = marks.iter().map(|(at, _)| at).collect();
        assert_eq!(left, [at(0, 7), at(1, 5)]);
        marks.forget(&[("orders".into(), 1)]);
        marks.answered(&record(0, 7));
        assert_eq!(marks, Marks::default());
    }

    #[test]
    fn marks_have_a_bound() {
        let mut marks = Marks::default();
        for offset in 0..1_000 {
            marks.meet(at(0, offset), Mark::Together);
        }
        assert_eq!(marks.iter().count(), 256);
        // One more death of a record that is known counts.
        marks.meet(at(0, 255), Mark::Alone(3));
        marks.meet(at(1, 0), Mark::Alone(3));
        assert_eq!(marks.iter().count(), 256);
        assert_eq!(marks.handing(&record(0, 255)), Handing::Never);
        assert_eq!(marks.handing(&record(1, 0)), Handing::Alone(Mark::Alone(1)));
    }
}
