//! What the status topic has said of the benchmark's orders so far.
//!
//! Bound: 20 bytes an order offered, and an entry for each status that says something went wrong.

use std::collections::{BTreeMap, HashSet};

use triad_core::message::StatusMessage;
use triad_core::status::Status;
use triad_core::{Priority, Timestamp, topics};
use triad_runtime::InputRecord;

/// What is known of one order. Times are in milliseconds since the start.
#[derive(Debug, Clone, Copy, Default)]
struct Note {
    started: Option<u32>,
    completed: Option<u32>,
    ended: bool,
}

/// The orders of one lane, by their number.
#[derive(Debug, Default)]
pub struct Lane {
    orders: Vec<Note>,
    ended: u32,
}

impl Lane {
    /// Another order was offered.
    pub fn offer(&mut self) {
        self.orders.push(Note::default());
    }

    /// Orders offered so far.
    pub fn offered(&self) -> u32 {
        u32::try_from(self.orders.len()).unwrap_or(u32::MAX)
    }

    /// Whether each of them has ended, well or not.
    pub fn all_ended(&self) -> bool {
        self.ended == self.offered()
    }

    /// Forgets what happened after `end_ms`.
    fn forget_after(&mut self, end_ms: u32) {
        for note in &mut self.orders {
            note.started = note.started.filter(|at| *at <= end_ms);
            note.completed = note.completed.filter(|at| *at <= end_ms);
        }
    }

    /// When they completed: those of them that did.
    pub fn completed(&self) -> impl Iterator<Item = u32> {
        self.orders.iter().filter_map(|note| note.completed)
    }

    /// When they were started: those of them that were.
    pub fn started(&self) -> impl Iterator<Item = u32> {
        self.orders.iter().filter_map(|note| note.started)
    }

    /// From the start of an order to its completion.
    pub fn in_hand_ms(&self) -> impl Iterator<Item = u32> {
        self.orders
            .iter()
            .filter_map(|note| Some(note.completed?.saturating_sub(note.started?)))
    }

    /// From the moment that an order was due to its completion.
    pub fn since_due_ms(&self, due_ms: impl Fn(u32) -> u32) -> impl Iterator<Item = u32> {
        (0..)
            .zip(&self.orders)
            .filter_map(move |(n, note)| Some(note.completed?.saturating_sub(due_ms(n))))
    }
}

/// Everything noted.
#[derive(Debug)]
pub struct Notes {
    began: Timestamp,
    /// Normal orders.
    pub normal: Lane,
    /// High orders.
    pub high: Lane,
    /// Statuses that say something went wrong, and dead letters, by what they say.
    pub wrong: BTreeMap<String, u32>,
    seen_wrong: HashSet<(Priority, u32, u32)>,
}

/// Prefix of the ids of a lane's orders; the order's number follows after a hyphen.
pub fn prefix(priority: Priority) -> &'static str {
    match priority {
        Priority::High => "high",
        Priority::Normal => "normal",
    }
}

impl Notes {
    /// None yet; times will be since `began`.
    pub fn since(began: Timestamp) -> Self {
        Self {
            began,
            normal: Lane::default(),
            high: Lane::default(),
            wrong: BTreeMap::new(),
            seen_wrong: HashSet::new(),
        }
    }

    /// Milliseconds since the start, on the clock that statuses are stamped with.
    pub fn elapsed_ms(&self, now: Timestamp) -> u32 {
        u32::try_from(now.0.saturating_sub(self.began.0)).unwrap_or(u32::MAX)
    }

    /// Forgets when orders were started and completed after `end_ms`. What went wrong stays.
    pub fn forget_after(&mut self, end_ms: u32) {
        self.normal.forget_after(end_ms);
        self.high.forget_after(end_ms);
    }

    /// Takes a record of the status or dead-letter topic; whether it says anything new of the
    /// benchmark's orders. A repeated status says nothing new.
    pub fn take(&mut self, record: &InputRecord) -> bool {
        if record.topic == topics::DEAD_LETTER {
            let id = record.key.as_deref().map(String::from_utf8_lossy);
            return id.is_some_and(|id| self.wrong(&id, 0, "dead letter".to_owned(), true));
        }
        let value = record.value.as_deref().unwrap_or_default();
        let Ok(message) = serde_json::from_slice::<StatusMessage>(value) else {
            return false;
        };
        let (id, sequence) = (message.order_id.as_str(), message.sequence);
        let at = self.elapsed_ms(message.at);
        let ends = match message.status {
            Status::Received => return false,
            Status::Started => {
                return self.note(id).is_some_and(|(_, note)| {
                    let new = note.started.is_none();
                    note.started.get_or_insert(at);
                    new
                });
            }
            Status::Completed => {
                let Some((ended, note)) = self.note(id) else {
                    return false;
                };
                *ended += u32::from(!std::mem::replace(&mut note.ended, true));
                let new = note.completed.is_none();
                note.completed.get_or_insert(at);
                return new;
            }
            Status::Retrying | Status::Compensating | Status::Resubmitted => false,
            Status::Compensated
            | Status::CompensationFailed
            | Status::Failed
            | Status::Rejected => true,
        };
        let status = message.status.as_str();
        let what = match &message.cause {
            Some(cause) => format!("{status}: {}", cause.fingerprint()),
            None => status.to_owned(),
        };
        self.wrong(id, sequence, what, ends)
    }

    fn wrong(&mut self, id: &str, sequence: u32, what: String, ends: bool) -> bool {
        let Some((priority, n)) = parse(id) else {
            return false;
        };
        if !self.seen_wrong.insert((priority, n, sequence)) {
            return false;
        }
        *self.wrong.entry(what).or_default() += 1;
        if ends && let Some((ended, note)) = self.note(id) {
            *ended += u32::from(!std::mem::replace(&mut note.ended, true));
        }
        true
    }

    /// The lane's count of ended orders, and the order's note; `None` of an order that was not
    /// offered here.
    fn note(&mut self, id: &str) -> Option<(&mut u32, &mut Note)> {
        let (priority, n) = parse(id)?;
        let lane = match priority {
            Priority::High => &mut self.high,
            Priority::Normal => &mut self.normal,
        };
        Some((&mut lane.ended, lane.orders.get_mut(n as usize)?))
    }
}

fn parse(id: &str) -> Option<(Priority, u32)> {
    let (lane, n) = id.split_once('-')?;
    let priority = [Priority::High, Priority::Normal]
        .into_iter()
        .find(|p| prefix(*p) == lane)?;
    Some((priority, n.parse().ok()?))
}
