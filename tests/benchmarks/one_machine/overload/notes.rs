//! What the status topic has reported about the benchmark's orders.
//!
//! Takes 20 bytes for each order offered, and an entry for each status that reports a failure.

use std::collections::{BTreeMap, HashSet};

use triad_core::message::StatusMessage;
use triad_core::status::Status;
use triad_core::{Priority, Timestamp, topics};
use triad_runtime::InputRecord;

/// Times of one order, in milliseconds since the start.
#[derive(Debug, Clone, Copy, Default)]
struct Note {
    started: Option<u32>,
    completed: Option<u32>,
    ended: bool,
}

/// The notes on one lane's orders, by the order's number from 0. Times are in milliseconds since the first order was
/// due.
#[derive(Debug, Default)]
pub struct Lane {
    orders: Vec<Note>,
    ended: u32,
}

impl Lane {
    /// Adds the note of a newly offered order, whose number is the previous value of [`offered`](Self::offered).
    pub fn offer(&mut self) {
        self.orders.push(Note::default());
    }

    /// How many orders have been offered so far.
    pub fn offered(&self) -> u32 {
        u32::try_from(self.orders.len()).unwrap_or(u32::MAX)
    }

    /// Whether every offered order has ended, successfully or not. True if none was offered.
    pub fn all_ended(&self) -> bool {
        self.ended == self.offered()
    }

    /// Discards starts and completions after `end_ms`.
    fn forget_after(&mut self, end_ms: u32) {
        for note in &mut self.orders {
            note.started = note.started.filter(|at| *at <= end_ms);
            note.completed = note.completed.filter(|at| *at <= end_ms);
        }
    }

    /// The times at which orders completed, in milliseconds since the start. Orders that did not
    /// complete are left out.
    pub fn completed(&self) -> impl Iterator<Item = u32> {
        self.orders.iter().filter_map(|note| note.completed)
    }

    /// The times at which orders were started, in milliseconds since the start. Orders that were
    /// not started are left out.
    pub fn started(&self) -> impl Iterator<Item = u32> {
        self.orders.iter().filter_map(|note| note.started)
    }

    /// Milliseconds from the start of each completed order to its completion.
    pub fn in_hand_ms(&self) -> impl Iterator<Item = u32> {
        self.orders
            .iter()
            .filter_map(|note| Some(note.completed?.saturating_sub(note.started?)))
    }

    /// Milliseconds from the moment at which each completed order was due to its completion.
    /// `due_ms` gives that moment for an order's number.
    pub fn since_due_ms(&self, due_ms: impl Fn(u32) -> u32) -> impl Iterator<Item = u32> {
        (0..)
            .zip(&self.orders)
            .filter_map(move |(n, note)| Some(note.completed?.saturating_sub(due_ms(n))))
    }
}

/// What statuses and dead letters have reported about the benchmark's orders.
#[derive(Debug)]
pub struct Notes {
    began: Timestamp,
    /// The notes on orders of the normal lane.
    pub normal: Lane,
    /// The notes on orders of the high lane.
    pub high: Lane,
    /// Number of failures reported. The key is `dead letter`, or a status with the fingerprint of its cause.
    pub wrong: BTreeMap<String, u32>,
    seen_wrong: HashSet<(Priority, u32, u32)>,
}

/// Prefix of the ids of a lane's orders; a hyphen and the order's number follow.
pub fn prefix(priority: Priority) -> &'static str {
    match priority {
        Priority::High => "high",
        Priority::Normal => "normal",
    }
}

impl Notes {
    /// Empty notes, whose times are milliseconds since `began`.
    pub fn since(began: Timestamp) -> Self {
        Self {
            began,
            normal: Lane::default(),
            high: Lane::default(),
            wrong: BTreeMap::new(),
            seen_wrong: HashSet::new(),
        }
    }

    /// Milliseconds from the start to `now`; both are times of the clock that stamps the statuses.
    pub fn elapsed_ms(&self, now: Timestamp) -> u32 {
        u32::try_from(now.0.saturating_sub(self.began.0)).unwrap_or(u32::MAX)
    }

    /// Discards starts and completions after `end_ms`. Failures are kept.
    pub fn forget_after(&mut self, end_ms: u32) {
        self.normal.forget_after(end_ms);
        self.high.forget_after(end_ms);
    }

    /// Notes one record of the topic `status` or `dead-letter`. Returns true if it reports something new about one of
    /// the benchmark's orders; a repeated message does not.
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
            Status::StepCompleted
            | Status::Retrying
            | Status::DecisionAsked
            | Status::Amended
            | Status::Refused
            | Status::Compensating
            | Status::Resubmitted => false,
            Status::Compensated
            | Status::CompensationFailed
            | Status::Failed
            | Status::Rejected
            | Status::Conflict => true,
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

    /// The lane's count of ended orders and the order's note; `None` for an order that the benchmark did not offer.
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
