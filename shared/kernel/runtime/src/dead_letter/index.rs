//! Which letters a topic holds, and which of them were replayed, without their content.
//!
//! A redelivered record may have made its letter twice, and a marker may be read before its letter: the index handles
//! both.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};
use triad_core::Timestamp;

use super::letter::{Letter, LetterEntry, LetterId};

/// Most letters in an index, inclusive, including letters of which only a marker was read and letters that were taken
/// out: about 64 MB. One more leads to [`IndexFull`].
pub const MAX_KNOWN: usize = 1_000_000;
/// Most causes with their own count, inclusive. Letters of further causes are counted together as [`OTHER_CAUSES`].
pub const MAX_CAUSES: usize = 1_000;
/// The name of the group for letters whose cause is beyond [`MAX_CAUSES`].
pub const OTHER_CAUSES: &str = "(other causes)";

/// The error of an [`Index`] that holds [`MAX_KNOWN`] letters. Read the topic from a later moment on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("there are more than {MAX_KNOWN} dead letters and replays")]
pub struct IndexFull;

/// The state of a letter.
#[derive(Debug, Clone, Copy, Default)]
struct LetterState {
    /// Number of its cause, once the letter was read.
    cause: Option<u16>,
    replayed: Option<Timestamp>,
    dismissed: Option<Timestamp>,
}

/// The letters of one cause, counted. A letter that was made twice for one record counts once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Group {
    /// The cause's code, or [`OTHER_CAUSES`].
    pub cause: String,
    /// How many letters of this cause were counted.
    pub letters: usize,
    /// How many of these letters were replayed at least once.
    pub replayed: usize,
    /// How many of these letters were dismissed at least once.
    pub dismissed: usize,
    /// When the newest letter of this cause was written, whether it is counted here or not.
    pub newest: Timestamp,
}

/// Which letters a topic holds, with their causes and replays, and without their content.
#[derive(Debug, Default)]
pub struct Index {
    /// The known letters, by topic and partition, and then by offset.
    known: HashMap<(String, i32), HashMap<i64, LetterState>>,
    len: usize,
    causes: Vec<(String, Timestamp)>,
}

impl Index {
    /// Adds a letter or a marker, in any order. Returns true for a new letter, false for a known letter and for a
    /// marker.
    ///
    /// # Errors
    /// [`IndexFull`] if [`MAX_KNOWN`] letters are known and the entry is about another one, which is not counted.
    pub fn note(&mut self, entry: &LetterEntry) -> Result<bool, IndexFull> {
        match entry {
            LetterEntry::Letter(letter) => self.letter(letter),
            LetterEntry::Replayed(marker) => {
                let known = self.entry(&marker.of)?;
                known.replayed = known.replayed.max(Some(marker.act.at));
                Ok(false)
            }
            LetterEntry::Dismissed(marker) => {
                let known = self.entry(&marker.of)?;
                known.dismissed = known.dismissed.max(Some(marker.act.at));
                Ok(false)
            }
        }
    }

    fn letter(&mut self, letter: &Letter) -> Result<bool, IndexFull> {
        let cause = self.cause(letter);
        let known = self.entry(&letter.id)?;
        let new = known.cause.is_none();
        known.cause.get_or_insert(cause);
        Ok(new)
    }

    /// When a letter was replayed last; `None` if it was not, or is not known.
    #[must_use]
    pub fn replayed(&self, id: &LetterId) -> Option<Timestamp> {
        self.get(id)?.replayed
    }

    /// When a letter was dismissed last; `None` if it was not, or is not known.
    #[must_use]
    pub fn dismissed(&self, id: &LetterId) -> Option<Timestamp> {
        self.get(id)?.dismissed
    }

    /// How many letters the index holds: noted, and not taken out.
    #[must_use]
    pub fn letters(&self) -> usize {
        let known = self.known.values().flat_map(HashMap::values);
        known.filter(|known| known.cause.is_some()).count()
    }

    /// Whether the index holds this letter: its letter was noted and not taken out.
    #[must_use]
    pub fn holds(&self, id: &LetterId) -> bool {
        self.get(id).is_some_and(|known| known.cause.is_some())
    }

    /// Takes a letter out and answers whether it was there. When it was replayed and dismissed stays
    /// known, and the letter still counts towards [`MAX_KNOWN`].
    pub fn take(&mut self, id: &LetterId) -> bool {
        let partition = self.known.get_mut(&(id.topic.clone(), id.partition));
        let known = partition.and_then(|partition| partition.get_mut(&id.offset));
        known.is_some_and(|known| known.cause.take().is_some())
    }

    /// The letters by cause, the cause with the most letters first. A cause whose letters were all
    /// taken out has 0.
    #[must_use]
    pub fn groups(&self) -> Vec<Group> {
        self.groups_of(|_, _| true)
    }

    /// The letters by cause, as [`groups`](Self::groups) has them, but counting only the letters for which `takes` is
    /// true. Its arguments are the times of the letter's last replay and last dismissal; `None` if it never had one.
    /// A cause without a counted letter has 0.
    #[must_use]
    pub fn groups_of(
        &self,
        takes: impl Fn(Option<Timestamp>, Option<Timestamp>) -> bool,
    ) -> Vec<Group> {
        let group = |(cause, newest): &(String, Timestamp)| Group {
            cause: cause.clone(),
            letters: 0,
            replayed: 0,
            dismissed: 0,
            newest: *newest,
        };
        let mut groups: Vec<Group> = self.causes.iter().map(group).collect();
        for known in self.known.values().flat_map(HashMap::values) {
            if let Some(cause) = known.cause
                && takes(known.replayed, known.dismissed)
            {
                let group = &mut groups[usize::from(cause)];
                group.letters += 1;
                group.replayed += usize::from(known.replayed.is_some());
                group.dismissed += usize::from(known.dismissed.is_some());
            }
        }
        groups.sort_by(|a, b| b.letters.cmp(&a.letters).then(a.cause.cmp(&b.cause)));
        groups
    }

    fn cause(&mut self, letter: &Letter) -> u16 {
        let place = |causes: &[(String, Timestamp)], name: &str| {
            causes.iter().position(|(cause, _)| cause == name)
        };
        let at = place(&self.causes, &letter.cause).unwrap_or_else(|| {
            let name = if self.causes.len() < MAX_CAUSES {
                letter.cause.as_str()
            } else {
                OTHER_CAUSES
            };
            place(&self.causes, name).unwrap_or_else(|| {
                self.causes.push((name.to_owned(), letter.at));
                self.causes.len() - 1
            })
        });
        let newest = &mut self.causes[at].1;
        *newest = letter.at.max(*newest);
        u16::try_from(at).expect("there are at most MAX_CAUSES and one")
    }

    fn get(&self, id: &LetterId) -> Option<&LetterState> {
        // This allocates a key for each lookup; lookups are far rarer than reads.
        let partition = self.known.get(&(id.topic.clone(), id.partition))?;
        partition.get(&id.offset)
    }

    fn entry(&mut self, id: &LetterId) -> Result<&mut LetterState, IndexFull> {
        let partition = self
            .known
            .entry((id.topic.clone(), id.partition))
            .or_default();
        if !partition.contains_key(&id.offset) {
            if self.len == MAX_KNOWN {
                return Err(IndexFull);
            }
            self.len += 1;
        }
        Ok(partition.entry(id.offset).or_default())
    }
}
