//! Replays letters: sends each again to its topic, then marks it. Dismisses letters: only marks them.
//!
//! The topic is read twice: first to find the letters and their markers, then to send. Only one letter's content is
//! in memory. Each letter is sent and acknowledged before its marker is. So a crash between the two leaves a letter
//! that may be replayed again, never an unsent letter that is marked as replayed.

use std::collections::BTreeSet;
use std::pin::pin;

use futures::future::{Either, select};
use serde::Serialize;
use triad_core::{Envelope, Timestamp};
use triad_runtime::dead_letter::index::{Index, IndexFull};
use triad_runtime::dead_letter::letter::Marker;
use triad_runtime::dead_letter::replay::{
    ReplayAct, ReplayRefusal, dismissal, marker, replay as message,
};
use triad_runtime::dead_letter::{Letter, LetterEntry, LetterId};
use triad_runtime::{Bus, BusError, Clock};
use triad_workflow::Millis;

use super::{LetterFilter, Letters};
use crate::json::moment;
use crate::pace::{Pacer, Rate};
use crate::topic::TopicReader;

/// Longest wait for the acknowledgement of one message, in milliseconds.
pub const PATIENCE: Millis = Millis(15_000);

/// Which letters are to be replayed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Chosen {
    /// Exactly these letters. If one of them does not exist, none is replayed.
    Named(BTreeSet<LetterId>),
    /// All letters that are in the topic when the replay begins, and fit the fields `cause`, `topic` and
    /// `since` of the filter. Its other fields do not count here.
    All(LetterFilter),
}

/// What is done with dead letters.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Deed {
    /// The letters are sent again to the topics that they came from, and marked as replayed.
    #[default]
    Replay,
    /// The letters are only marked as dismissed: they need no attention any more.
    Dismiss,
}

/// What to replay or dismiss, and how.
#[derive(Debug, Clone)]
pub struct Replay {
    /// What is done with the letters.
    pub deed: Deed,
    /// The letters. A replay of [`Chosen::All`] leaves out those that were dismissed.
    pub letters: Chosen,
    /// Who replays or dismisses the letters, and why. Its moment is not used: the marker of each letter has
    /// the moment at which it was made.
    pub act: ReplayAct,
    /// The value to send in place of each letter's own; `None`: the letter's own. It is meant for a
    /// single letter, and for at most
    /// [`MAX_VALUE_BYTES`](triad_runtime::dead_letter::MAX_VALUE_BYTES); neither is checked here. A dismissal
    /// does not use it.
    pub corrected: Option<Vec<u8>>,
    /// If true, letters that were replayed (or dismissed) before are handled again; if false, their outcome is
    /// [`ReplayOutcome::Before`].
    pub again: bool,
    /// If true, nothing is sent, and the outcomes say what would be done.
    pub dry_run: bool,
    /// Most letters that are sent, or marked as dismissed, in a second. A dry run does not wait.
    pub rate: Rate,
}

/// What became of one letter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReplayOutcome {
    /// The record was sent again, and the marker after it; or the letter was to be dismissed, and its
    /// marker was sent. The bus has acknowledged them.
    Replayed,
    /// Only in a dry run: the record, or the marker, would be sent.
    WouldBe,
    /// Nothing was sent: the letter was replayed (or dismissed) before, the last time at this moment.
    Before(Timestamp),
    /// Nothing was sent: the letter cannot be replayed as it is.
    Refused(ReplayRefusal),
    /// The bus refused the record (for a dismissal: the marker), or failed. The message may have been sent
    /// all the same.
    NotSent(BusError),
    /// Only for a replay: the record was sent, but its marker was not acknowledged. The letter may look as
    /// if it was not replayed.
    NotMarked(BusError),
}

/// How many letters came to which outcome.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Tally {
    /// Letters that were replayed, or dismissed; in a dry run: letters that would be.
    pub replayed: u64,
    /// Letters that were replayed (or dismissed) before, with which nothing was done now.
    #[serde(rename = "replayed_before")]
    pub before: u64,
    /// Letters that were refused, not sent, or sent and not marked.
    pub failed: u64,
}

/// Why a replay ended before its last letter. To run it again is safe: what was marked is not replayed
/// again. `E` is the error of the [`TopicReader`], `F` that of `report`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReplayError<E, F> {
    /// The topic cannot be read; this is the error of the [`TopicReader`]. Earlier letters may have been
    /// replayed.
    #[error("the topic of dead letters cannot be read")]
    Topic(E),
    /// There are more letters that fit, and letters with markers, than one index takes; nothing was replayed.
    /// Replay them in parts.
    #[error(transparent)]
    Full(#[from] IndexFull),
    /// These letters, which were asked for by id, do not exist; nothing was replayed.
    #[error("some of the letters do not exist")]
    Unknown(Vec<LetterId>),
    /// The bus has not answered about one message, a record or a marker, within 15 s. The message may have
    /// been sent.
    #[error("the bus has not answered in time; the letter in hand may have been sent")]
    NoAnswer,
    /// The error that the `report` of [`replay`] returned; the letter that it was about is finished.
    #[error("it could not be reported")]
    Report(F),
}

impl Chosen {
    fn takes(&self, letter: &Letter) -> bool {
        match self {
            Self::Named(ids) => ids.contains(&letter.id),
            Self::All(filter) => filter.fits(letter),
        }
    }

    /// Whether a marker is for one of the chosen letters.
    fn concerns(&self, marker: &Marker) -> bool {
        match self {
            Self::Named(ids) => ids.contains(&marker.of),
            Self::All(_) => true,
        }
    }

    /// Earliest moment to read from. Markers are younger than their letters, so older records are not needed.
    fn since(&self) -> Option<Timestamp> {
        match self {
            Self::Named(_) => None,
            Self::All(filter) => filter.since,
        }
    }
}

impl Deed {
    /// The word for a letter with which this was done: `replayed` or `dismissed`.
    #[must_use]
    pub fn done(self) -> &'static str {
        match self {
            Self::Replay => "replayed",
            Self::Dismiss => "dismissed",
        }
    }
}

impl ReplayOutcome {
    /// The outcome of this deed as a word for programs, such as `replayed`, `would-be-dismissed`,
    /// `replayed-before` or `failed`.
    #[must_use]
    pub fn name(&self, deed: Deed) -> String {
        let done = deed.done();
        match self {
            Self::Replayed => done.to_owned(),
            Self::WouldBe => format!("would-be-{done}"),
            Self::Before(_) => format!("{done}-before"),
            Self::Refused(_) | Self::NotSent(_) | Self::NotMarked(_) => "failed".to_owned(),
        }
    }

    /// Why the outcome is as it is, for people. `None` if the letter was, or would be, replayed or dismissed.
    #[must_use]
    pub fn why(&self, deed: Deed) -> Option<String> {
        match self {
            Self::Replayed | Self::WouldBe => None,
            Self::Before(at) => Some(format!("it was {} at {}", deed.done(), moment(*at))),
            Self::Refused(refusal) => Some(refusal.to_string()),
            Self::NotSent(why) => Some(why.to_string()),
            Self::NotMarked(why) => Some(format!("it was sent, but could not be marked: {why}")),
        }
    }
}

impl Tally {
    /// Adds the outcome of one letter to the counts.
    pub fn count(&mut self, outcome: &ReplayOutcome) {
        match outcome {
            ReplayOutcome::Replayed | ReplayOutcome::WouldBe => self.replayed += 1,
            ReplayOutcome::Before(_) => self.before += 1,
            ReplayOutcome::Refused(_) | ReplayOutcome::NotSent(_) | ReplayOutcome::NotMarked(_) => {
                self.failed += 1
            }
        }
    }
}

/// Replays or dismisses letters one after the other, no faster than the rate, calls `report` after each, and
/// returns how many letters came to which outcome. The topic is read twice: once to find the letters and
/// their markers, once to send.
///
/// In memory are one letter and an index of at most
/// [`MAX_KNOWN`](triad_runtime::dead_letter::index::MAX_KNOWN) ids.
///
/// # Errors
/// [`ReplayError::Topic`] if the topic cannot be read, [`ReplayError::Full`] if it holds too many letters,
/// [`ReplayError::Unknown`] if it does not hold every letter of [`Chosen::Named`],
/// [`ReplayError::NoAnswer`] if the bus does not answer, and [`ReplayError::Report`] if `report` fails. The
/// failure of one letter is its [`ReplayOutcome`], and does not end the replay.
pub async fn replay<T: TopicReader, F>(
    topic: &T,
    bus: &impl Bus,
    clock: &impl Clock,
    what: &Replay,
    mut report: impl FnMut(&Letter, &ReplayOutcome) -> Result<(), F>,
) -> Result<Tally, ReplayError<T::Error, F>> {
    let mut index = survey(topic, &what.letters).await?;
    if let Chosen::Named(ids) = &what.letters {
        let unknown: Vec<_> = ids.iter().filter(|id| !index.holds(id)).cloned().collect();
        if !unknown.is_empty() {
            return Err(ReplayError::Unknown(unknown));
        }
    }
    let mut sender = Sender {
        bus,
        clock,
        pacer: Pacer::new(what.rate),
        what,
    };
    let opened = Letters::open(topic, what.letters.since()).await;
    let mut letters = opened.map_err(ReplayError::Topic)?;
    let mut tally = Tally::default();
    while let Some(entry) = letters.next().await.map_err(ReplayError::Topic)? {
        let LetterEntry::Letter(letter) = entry else {
            continue;
        };
        // Not in the index: letters written since the first reading, and duplicates.
        if !what.letters.takes(&letter) || !index.take(&letter.id) {
            continue;
        }
        let (replayed, dismissed) = (index.replayed(&letter.id), index.dismissed(&letter.id));
        let (before, sent) = match what.deed {
            Deed::Replay => (replayed, true),
            Deed::Dismiss => (dismissed, false),
        };
        if sent && matches!(what.letters, Chosen::All(_)) && dismissed.is_some() {
            continue;
        }
        let outcome = match before {
            Some(at) if !what.again => ReplayOutcome::Before(at),
            _ if sent => sender.replay(&letter).await.ok_or(ReplayError::NoAnswer)?,
            _ => sender.dismiss(&letter).await.ok_or(ReplayError::NoAnswer)?,
        };
        tally.count(&outcome);
        report(&letter, &outcome).map_err(ReplayError::Report)?;
    }
    Ok(tally)
}

/// First reading: the letters, and which of them were replayed.
async fn survey<T: TopicReader, F>(
    topic: &T,
    chosen: &Chosen,
) -> Result<Index, ReplayError<T::Error, F>> {
    let mut index = Index::default();
    let opened = Letters::open(topic, chosen.since()).await;
    let mut letters = opened.map_err(ReplayError::Topic)?;
    while let Some(entry) = letters.next().await.map_err(ReplayError::Topic)? {
        let wanted = match &entry {
            LetterEntry::Letter(letter) => chosen.takes(letter),
            LetterEntry::Replayed(marker) | LetterEntry::Dismissed(marker) => {
                chosen.concerns(marker)
            }
        };
        if wanted {
            index.note(&entry)?;
        }
    }
    Ok(index)
}

/// Sends letters and markers.
struct Sender<'a, B, C> {
    bus: &'a B,
    clock: &'a C,
    pacer: Pacer,
    what: &'a Replay,
}

impl<B: Bus, C: Clock> Sender<'_, B, C> {
    /// Replays one letter; `None` if the bus does not answer.
    async fn replay(&mut self, letter: &Letter) -> Option<ReplayOutcome> {
        let corrected = || self.what.corrected.clone();
        let sent = match message(letter, corrected()) {
            Ok(sent) => sent,
            Err(refusal) => return Some(ReplayOutcome::Refused(refusal)),
        };
        if self.what.dry_run {
            return Some(ReplayOutcome::WouldBe);
        }
        self.clock.sleep(self.pacer.turn(self.clock)).await;
        if let Err(error) = self.send(sent).await? {
            return Some(ReplayOutcome::NotSent(error));
        }
        let act = ReplayAct {
            at: self.clock.now(),
            ..self.what.act.clone()
        };
        Some(
            match self.send(marker(&letter.id, &act, corrected())).await? {
                Ok(()) => ReplayOutcome::Replayed,
                Err(error) => ReplayOutcome::NotMarked(error),
            },
        )
    }

    /// Marks one letter as dismissed; `None` if the bus does not answer.
    async fn dismiss(&mut self, letter: &Letter) -> Option<ReplayOutcome> {
        if self.what.dry_run {
            return Some(ReplayOutcome::WouldBe);
        }
        self.clock.sleep(self.pacer.turn(self.clock)).await;
        let act = ReplayAct {
            at: self.clock.now(),
            ..self.what.act.clone()
        };
        Some(match self.send(dismissal(&letter.id, &act)).await? {
            Ok(()) => ReplayOutcome::Replayed,
            Err(error) => ReplayOutcome::NotSent(error),
        })
    }

    async fn send(&self, message: Envelope) -> Option<Result<(), BusError>> {
        let sent = pin!(self.bus.publish(vec![message]));
        let patience = pin!(self.clock.sleep(PATIENCE));
        match select(sent, patience).await {
            Either::Left((results, _)) => {
                let failed = results.into_iter().find_map(Result::err);
                Some(failed.map_or(Ok(()), Err))
            }
            Either::Right(_) => None,
        }
    }
}
