//! Which records are in hand, noted in a file of the sandbox: so that the next process in it knows
//! what the one before it died of. The rules are [`deaths`](triad_runtime::deaths)'.
//!
//! Lambda starts a new process in the same sandbox after one that died or ran into the time-out, and
//! leaves `/tmp` as it was (AWS Lambda Developer Guide, "Lambda runtime environment lifecycle"). A
//! sandbox knows of its own processes alone: with several of them a record may end
//! [`MAX_DEATHS`](triad_runtime::deaths::MAX_DEATHS) and one more processes of each.

use std::collections::BTreeSet;
use std::fs;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use triad_runtime::InputRecord;
use triad_runtime::dead_letter::LetterId;
use triad_runtime::deaths::{Handing, Mark, Marks};

/// The file, in the folder for temporary files.
const NAME: &str = "triad-in-hand";
/// Bound: of a file that others have written no more is read.
const MAX_BYTES: u64 = 256 * 1024;

/// The journal of one sandbox.
#[derive(Debug)]
pub(crate) struct Journal {
    file: PathBuf,
    /// What processes before this one have left.
    left: Mutex<Marks>,
}

impl Journal {
    /// Reads what was left in the folder for temporary files.
    pub(crate) fn of_sandbox() -> Self {
        Self::open(std::env::temp_dir().join(NAME))
    }

    /// Reads what was left in this file.
    pub(crate) fn open(file: PathBuf) -> Self {
        let mut left = Marks::default();
        let is_read = fs::metadata(&file).is_ok_and(|found| found.len() <= MAX_BYTES);
        let text = match is_read {
            true => fs::read_to_string(&file).unwrap_or_default(),
            false => String::new(),
        };
        for (at, mark) in text.lines().filter_map(read) {
            tracing::warn!(%at, %mark, "a process ended with this record in hand: it is handed over by itself");
            left.meet(at, mark);
        }
        Self {
            file,
            left: Mutex::new(left),
        }
    }

    /// The partitions whose records are to be handed over one by one.
    pub(crate) fn suspects<'a>(
        &self,
        records: impl IntoIterator<Item = &'a InputRecord>,
    ) -> BTreeSet<(String, i32)> {
        self.left().suspects(records)
    }

    /// Notes that records are in hand together, until what is returned is dropped.
    pub(crate) fn together(&self, records: &[InputRecord]) -> InHand<'_> {
        let mut seen = BTreeSet::new();
        let firsts = records
            .iter()
            .filter(|r| seen.insert((r.topic.as_str(), r.partition)));
        let notes = firsts.map(|r| (LetterId::of(r), Mark::Together)).collect();
        self.note(notes)
    }

    /// Notes that a record is in hand by itself, until what is returned is dropped; none if it is
    /// not to be handed over.
    pub(crate) fn alone(&self, record: &InputRecord) -> Option<InHand<'_>> {
        let handing = self.left().handing(record);
        match handing {
            Handing::Alone(mark) => Some(self.note(vec![(LetterId::of(record), mark)])),
            Handing::Never => None,
        }
    }

    /// The handler has answered about a record, or it was put aside.
    pub(crate) fn answered(&self, record: &InputRecord) {
        self.left().answered(record);
        self.write(&[]);
    }

    fn note(&self, notes: Vec<(LetterId, Mark)>) -> InHand<'_> {
        let in_hand = InHand {
            journal: self,
            is_noted: !notes.is_empty(),
        };
        if in_hand.is_noted {
            self.write(&notes);
        }
        in_hand
    }

    /// What is left stands before what is in hand: of a record in both the latter is read.
    fn write(&self, notes: &[(LetterId, Mark)]) {
        let mut text = String::new();
        let left: Vec<_> = self.left().iter().collect();
        for (at, mark) in left.iter().chain(notes) {
            text.push_str(&format!("{at} {mark}\n"));
        }
        let written = match text.is_empty() {
            true => match fs::remove_file(&self.file) {
                Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
                _ => Ok(()),
            },
            false => fs::write(&self.file, text),
        };
        if let Err(error) = written {
            let file = self.file.display();
            tracing::warn!(%error, %file, "what is in hand could not be noted");
        }
    }

    fn left(&self) -> MutexGuard<'_, Marks> {
        self.left.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Records are in hand; dropped when the handler has answered, or was stopped. A process that dies
/// drops nothing.
pub(crate) struct InHand<'a> {
    journal: &'a Journal,
    is_noted: bool,
}

impl Drop for InHand<'_> {
    fn drop(&mut self) {
        if self.is_noted {
            self.journal.write(&[]);
        }
    }
}

fn read(line: &str) -> Option<(LetterId, Mark)> {
    let (at, mark) = line.rsplit_once(' ')?;
    Some((at.parse().ok()?, mark.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use std::mem::forget;

    use triad_runtime::deaths::MAX_DEATHS;

    use super::*;

    fn record(partition: i32, offset: i64) -> InputRecord {
        InputRecord {
            topic: "orders".into(),
            partition,
            offset,
            ..InputRecord::default()
        }
    }

    #[test]
    fn only_a_process_that_dies_leaves_something() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join(NAME);
        let batch = [record(0, 5), record(0, 6), record(1, 9)];
        let journal = Journal::open(file.clone());
        drop(journal.together(&batch));
        assert!(!file.exists(), "what was answered is taken back");
        // A process that dies drops nothing.
        forget(journal.together(&batch));
        let next = Journal::open(file.clone());
        let both = BTreeSet::from([("orders".to_owned(), 0), ("orders".to_owned(), 1)]);
        assert_eq!(next.suspects(&batch), both);
        assert_eq!(next.suspects(&[record(2, 5)]), BTreeSet::new());
        for record in &batch {
            drop(next.alone(record).expect("it is handed over"));
            next.answered(record);
        }
        assert_eq!(next.suspects(&batch), BTreeSet::new());
        next.write(&[]);
        assert!(!file.exists());
    }

    #[test]
    fn a_record_that_ends_every_process_is_handed_over_so_often_and_not_again() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join(NAME);
        forget(Journal::open(file.clone()).together(&[record(0, 5)]));
        for _ in 0..MAX_DEATHS {
            let journal = Journal::open(file.clone());
            // The one before it comes again each time, and takes nothing away.
            drop(journal.alone(&record(0, 4)).expect("it is handed over"));
            journal.answered(&record(0, 4));
            forget(journal.alone(&record(0, 5)).expect("it is handed over"));
        }
        let journal = Journal::open(file);
        assert!(journal.alone(&record(0, 5)).is_none());
    }

    #[test]
    fn a_file_of_somebody_else_is_passed_over() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join(NAME);
        fs::write(&file, b"orders/0/5\n\xff\norders/0 together\n").expect("it is written");
        let journal = Journal::open(file);
        assert_eq!(*journal.left(), Marks::default());
    }
}
