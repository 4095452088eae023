//! The commit protocol: one event of one order, from read to confirmation.
//!
//! State first, then messages. A pass decides on the record or on a copy of it, has the next version written on the
//! condition that the stored version is the one decided on, has its messages published, and finally has a finished
//! order confirmed: that all its messages are sent. A store that has the topics of statuses and alerts stores these
//! together with the record. The pass does no IO: [`Pass::task`] returns the next task, and the caller reports its
//! result. A process may stop for any time, or die, between any two tasks. Scheduler,
//! Supervisor, operator and the model all use it.
//!
//! The rules of the protocol, defined only here:
//!
//! - A copy may be older than the record. So if a decision on a copy writes nothing, it is made again on the record.
//!   A write needs no such check, because it is conditional.
//! - After a lost race the pass decides again on the record, a bounded number of times.
//! - The Scheduler sends everything at once: its input is acknowledged only after all of it, and redelivered
//!   otherwise. A writer beside the order's line of events sends statuses and alerts first, and wakes once those are
//!   acknowledged; it never sends requests ([`SendOrder`]).
//! - All messages of a kept copy are acknowledged, so the next write need not carry them over.
//! - A finished order is confirmed once everything is acknowledged, and only then.
//! - An end without confirmation is in no index. Its last status is stored with it, or else the redelivery of the
//!   message that led to it sends the status if the writer dies; a store whose messages between handlers may be lost
//!   with the writer puts the order into the due index if it does not store the status. If the topic of the status
//!   refuses it, the order is put into the due index after all ([`kept_due`]), so that the message need not be
//!   redelivered.

use std::collections::VecDeque;
use std::sync::Arc;

use serde_json::Value;
use triad_workflow::{Millis, Workflow};

use crate::context::{Context, Timing};
use crate::decide::{Decision, Reason, Transition, decide};
use crate::effect::{self, Effect, SendOrder, Unmade};
use crate::event::Event;
use crate::ids::{Timestamp, Version};
use crate::illegal::Illegal;
use crate::invariants::{self, Breach};
use crate::message::Envelope;
use crate::operate::OperationRefusal;
use crate::order::Order;
use crate::render;

/// Whether a writer handles the order's events one after the other, as the Scheduler does, or independently of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum WriterOrder {
    /// The Scheduler: it handles the order's events one after the other, and each is redelivered
    /// until it is done.
    InLine,
    /// The Supervisor and operators: they write without waiting for the Scheduler.
    Beside,
}

/// An order as it was read, with its definition.
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// The record that was read.
    pub order: Arc<Order>,
    /// The definition that the order runs on.
    pub workflow: Arc<Workflow>,
    /// The order's details; `None` if they were not read.
    pub details: Option<Arc<Value>>,
}

impl Snapshot {
    /// What a decision about this order may look at.
    #[must_use]
    pub fn context(&self, timing: Timing) -> Context<'_> {
        Context {
            workflow: &self.workflow,
            details: self.details.as_deref(),
            timing,
        }
    }
}

/// How a snapshot was read, and so whether it may be out of date.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Source {
    /// A copy that was kept, or an eventually consistent read: the record may be newer.
    Copy,
    /// The record itself, read consistently: it is the newest.
    Record,
}

/// The next task of a pass's caller.
#[derive(Debug, Clone, Copy)]
pub enum Task<'a> {
    /// Read the record itself, consistently; then [`Pass::decide`] or [`Pass::absent`].
    Read,
    /// Read the order's details; then [`Pass::decide`] on the same record with the details.
    ReadDetails,
    /// Write the next version if `expected` is still the stored one; then [`Pass::written`].
    Write {
        /// The version that was decided on.
        expected: Version,
        /// The record to write.
        next: &'a Arc<Order>,
        /// The statuses and alerts of this version, in the order of sending. A store that has their topics stores
        /// them in the same transaction: [`WriteResult::WrittenWithMessages`].
        messages: &'a [Envelope],
        /// The due time of the record if that store does not store the messages. `None`: the one that `next` has.
        due_if_unsent: Option<Timestamp>,
    },
    /// Publish these messages, at least one; then [`Pass::published`].
    Publish(&'a [Envelope]),
    /// Write to a finished order that all its messages are sent, if `expected` is still the stored
    /// version; then [`Pass::confirmed`]. A lost race or a failure is harmless: a sweep of the
    /// Supervisor confirms the order later.
    Confirm {
        /// The version whose messages have been sent.
        expected: Version,
        /// The record to write.
        next: &'a Arc<Order>,
    },
    /// Nothing: the pass has ended in this way.
    Ended(&'a PassEnd),
}

/// Result of a conditional write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteResult {
    /// The write took place. None of its messages is known to be sent.
    Written,
    /// The write took place, and all messages of [`Task::Write`] are in their topics.
    WrittenWithMessages,
    /// The write did not take place: the stored version was another one.
    Conflict,
    /// The write failed, and may have taken place all the same.
    Unknown,
}

/// How a pass ended.
#[derive(Debug, Clone, PartialEq)]
pub enum PassEnd {
    /// Everything is written, sent and acknowledged. If the confirmation of a finished order failed, a sweep
    /// of the Supervisor confirms the order later.
    Done(Carried),
    /// The event changes nothing, for this reason.
    Ignored(Reason),
    /// The operator's act is not possible, for this reason.
    Refused(OperationRefusal),
    /// The event cannot happen to a sound order, or the record is damaged.
    Illegal(Illegal),
    /// The store has no such order.
    Absent,
    /// Other processes wrote first each time: as many races were lost as the pass allows, and one more.
    /// Nothing was written or sent.
    Raced,
    /// The write failed, and may have taken place all the same. Nothing was sent.
    Unwritten,
    /// The record is written, or was before, and the bus did not acknowledge every message.
    Unsent(Carried),
}

/// Results of a pass at its end.
#[derive(Debug, Clone, PartialEq)]
pub struct Carried {
    /// The record that the pass wrote, or whose messages it sent again.
    pub order: Arc<Order>,
    /// True if this pass wrote the record; false if it only sent its messages again.
    pub was_written: bool,
    /// True if the pass had messages: stored with the record, or to publish, whether or not the bus acknowledged
    /// them.
    pub was_sent: bool,
    /// True if the pass wrote to a finished order that all its messages are sent.
    pub was_confirmed: bool,
    /// The record with an empty outbox, on which the Scheduler can decide its next event without
    /// reading. `None` if the order has finished, if not everything was acknowledged, if this pass did not
    /// write the record, or if its place is [`WriterOrder::Beside`].
    pub copy: Option<Arc<Order>>,
}

/// Longest delay, inclusive, with which [`kept_due`] schedules the next try to send an order's last status, if
/// [`Timing::confirm_within`] is no longer: two minutes.
pub const CONFIRM_AT_MOST: Millis = Millis(120_000);

/// A finished order whose last messages its topic has refused, in the due index: a sweep sends them again and
/// confirms the end ([`Event::Confirmed`]). It is due after as long a time as it has been finished, at least
/// [`Timing::confirm_within`] and at most [`CONFIRM_AT_MOST`]. To be written on the condition that `order` still
/// stands; then the input that ended it may be acknowledged. `None` of an order that has not finished.
#[must_use]
pub fn kept_due(order: &Order, timing: Timing, now: Timestamp) -> Option<Order> {
    let ended = order.state.finished_at()?;
    let least = timing.confirm_within;
    let wait = now.since(ended).clamp(least, CONFIRM_AT_MOST.max(least));
    Some(Order {
        due: Some(now.plus(wait)),
        ..order.successor()
    })
}

/// One event of one order, task by task: read, decide, write, send, confirm. The pass does none of this:
/// [`task`](Self::task) returns the next task, and the caller reports the result.
#[derive(Debug, Clone)]
pub struct Pass {
    place: WriterOrder,
    races_left: u32,
    stage: Stage,
}

#[derive(Debug, Clone)]
enum Stage {
    Reading,
    ReadingDetails,
    Writing {
        expected: Version,
        sent: Sent,
        messages: Messages,
    },
    Sending {
        sent: Sent,
        waves: VecDeque<Vec<Envelope>>,
    },
    Confirming {
        sent: Sent,
        next: Arc<Order>,
    },
    Ended(PassEnd),
}

/// The messages of one version.
#[derive(Debug, Clone)]
struct Messages {
    /// Statuses and alerts ([`SendOrder::First`]).
    first: Vec<Envelope>,
    /// Wakes, and requests if the writer may send them.
    then: Vec<Envelope>,
}

/// The record whose messages are being sent, and on what occasion.
#[derive(Debug, Clone)]
struct Sent {
    order: Arc<Order>,
    workflow: Arc<Workflow>,
    timing: Timing,
    now: Timestamp,
    was_written: bool,
    was_sent: bool,
}

impl Pass {
    /// A pass whose first task is [`Task::Read`]. After a lost race it reads and decides again, at
    /// most `races` times.
    #[must_use]
    pub fn new(place: WriterOrder, races: u32) -> Self {
        Self {
            place,
            races_left: races,
            stage: Stage::Reading,
        }
    }

    /// The next task. It stays the same until the caller reports its result.
    #[must_use]
    pub fn task(&self) -> Task<'_> {
        match &self.stage {
            Stage::Reading => Task::Read,
            Stage::ReadingDetails => Task::ReadDetails,
            Stage::Writing {
                expected,
                sent,
                messages,
            } => Task::Write {
                expected: *expected,
                next: &sent.order,
                messages: &messages.first,
                due_if_unsent: sent.due_if_unsent(messages),
            },
            Stage::Sending { waves, .. } => Task::Publish(waves.front().map_or(&[], Vec::as_slice)),
            Stage::Confirming { sent, next } => Task::Confirm {
                expected: sent.order.version,
                next,
            },
            Stage::Ended(end) => Task::Ended(end),
        }
    }

    /// The record whose messages are to be sent or whose end is to be confirmed, and whether this pass has
    /// written it. `None` unless the task is [`Task::Publish`] or [`Task::Confirm`].
    #[must_use]
    pub fn sending(&self) -> Option<(&Arc<Order>, bool)> {
        match &self.stage {
            Stage::Sending { sent, .. } | Stage::Confirming { sent, .. } => {
                Some((&sent.order, sent.was_written))
            }
            Stage::Writing { .. } | Stage::Reading | Stage::ReadingDetails | Stage::Ended(_) => {
                None
            }
        }
    }

    /// Decides on an event of the order as it was read, in any state of the pass. A decision on a copy is used only
    /// if it is a write or needs the details; otherwise the next task is to read the record.
    ///
    /// Returns the invariants that a write breaks, which the caller should report; the write is carried out
    /// all the same. Empty if it breaks none, or there is nothing to write.
    pub fn decide(
        &mut self,
        read: Snapshot,
        source: Source,
        event: Event,
        timing: Timing,
        now: Timestamp,
    ) -> Vec<Breach> {
        let ctx = read.context(timing);
        let decision = decide(&ctx, &read.order, event, now);
        let mut breaches = Vec::new();
        self.stage = match decision {
            Ok(Decision::Transition(change)) => {
                breaches = invariants::of_write(&read.order, &change.next, &read.workflow);
                self.place.writing(read, *change, timing, now)
            }
            Ok(Decision::NeedsDetails) => Stage::ReadingDetails,
            _ if source == Source::Copy => Stage::Reading,
            Ok(Decision::Repeat) => match effect::of_record(&ctx, &read.order) {
                Ok(effects) => {
                    let sent = Sent {
                        order: read.order,
                        workflow: read.workflow,
                        timing,
                        now,
                        was_written: false,
                        was_sent: false,
                    };
                    let messages = self.place.messages(&sent.order, &effects);
                    self.place.sending(sent, messages)
                }
                Err(Unmade::NeedsDetails) => Stage::ReadingDetails,
                Err(Unmade::Damaged(illegal)) => Stage::Ended(PassEnd::Illegal(illegal)),
            },
            Ok(Decision::Ignore(reason)) => Stage::Ended(PassEnd::Ignored(reason)),
            Ok(Decision::Refuse(refusal)) => Stage::Ended(PassEnd::Refused(refusal)),
            Err(illegal) => Stage::Ended(PassEnd::Illegal(illegal)),
        };
        breaches
    }

    /// Takes over a change that was decided elsewhere, such as a migration, of an order as it was read.
    /// [`Snapshot::workflow`] has to be the definition that the new record is on. Returns the invariants that
    /// the new record breaks, empty if none, which the caller should report; the change is carried out all
    /// the same.
    ///
    /// # Panics
    /// If the new record has more steps than the definition, and one of those has been started.
    pub fn take(
        &mut self,
        read: Snapshot,
        change: Transition,
        timing: Timing,
        now: Timestamp,
    ) -> Vec<Breach> {
        let breaches = invariants::of_record(&change.next, &read.workflow);
        self.stage = self.place.writing(read, change, timing, now);
        breaches
    }

    /// Reports that there was no record. If a copy said so, the next task is to read the record; otherwise the pass
    /// ends with [`PassEnd::Absent`].
    pub fn absent(&mut self, source: Source) {
        self.stage = match source {
            Source::Copy => Stage::Reading,
            Source::Record => Stage::Ended(PassEnd::Absent),
        };
    }

    /// Reports the result of the write. Does nothing if the task is not [`Task::Write`].
    pub fn written(&mut self, outcome: WriteResult) {
        let stage = std::mem::replace(&mut self.stage, Stage::Reading);
        let (mut sent, mut messages) = match stage {
            Stage::Writing { sent, messages, .. } => (sent, messages),
            other => {
                self.stage = other;
                return;
            }
        };
        self.stage = match outcome {
            WriteResult::Written => self.place.sending(sent, messages),
            WriteResult::WrittenWithMessages => {
                sent.was_sent = !messages.first.is_empty();
                messages.first.clear();
                self.place.sending(sent, messages)
            }
            WriteResult::Conflict if self.races_left > 0 => {
                self.races_left -= 1;
                Stage::Reading
            }
            WriteResult::Conflict => Stage::Ended(PassEnd::Raced),
            WriteResult::Unknown => Stage::Ended(PassEnd::Unwritten),
        };
    }

    /// Reports whether the bus has acknowledged all messages of the task. Does nothing if the task is not
    /// [`Task::Publish`].
    pub fn published(&mut self, all: bool) {
        let stage = std::mem::replace(&mut self.stage, Stage::Reading);
        let (sent, mut waves) = match stage {
            Stage::Sending { sent, waves } => (sent, waves),
            other => {
                self.stage = other;
                return;
            }
        };
        waves.pop_front();
        self.stage = if !all {
            Stage::Ended(PassEnd::Unsent(sent.carried(false, None)))
        } else if waves.is_empty() {
            self.place.all_sent(sent)
        } else {
            Stage::Sending { sent, waves }
        };
    }

    /// Reports whether the confirmation was written. Does nothing if the task is not [`Task::Confirm`].
    pub fn confirmed(&mut self, was_written: bool) {
        if let Stage::Confirming { sent, .. } = &self.stage {
            let carried = sent.carried(was_written, None);
            self.stage = Stage::Ended(PassEnd::Done(carried));
        }
    }
}

impl WriterOrder {
    fn writing(self, read: Snapshot, change: Transition, timing: Timing, now: Timestamp) -> Stage {
        let messages = self.messages(&change.next, &change.effects);
        Stage::Writing {
            expected: read.order.version,
            sent: Sent {
                order: Arc::new(change.next),
                workflow: read.workflow,
                timing,
                now,
                was_written: true,
                was_sent: false,
            },
            messages,
        }
    }

    /// The messages that a writer of this kind sends.
    fn messages(self, order: &Order, effects: &[Effect]) -> Messages {
        let mine = effects
            .iter()
            .filter(|e| self == Self::InLine || e.turn() != SendOrder::SchedulerOnly);
        let (first, then) = render::by_turn(mine, order);
        Messages { first, then }
    }

    /// Sends a record's messages, if there are any: all at once, or in two waves.
    fn sending(self, sent: Sent, Messages { mut first, then }: Messages) -> Stage {
        let mut waves = VecDeque::from(match self {
            Self::InLine => {
                first.extend(then);
                vec![first]
            }
            Self::Beside => vec![first, then],
        });
        waves.retain(|wave| !wave.is_empty());
        if waves.is_empty() {
            return self.all_sent(sent);
        }
        let was_sent = true;
        Stage::Sending {
            sent: Sent { was_sent, ..sent },
            waves,
        }
    }

    /// Continues when everything is acknowledged: confirms a finished order.
    fn all_sent(self, sent: Sent) -> Stage {
        let ctx = Context {
            workflow: &sent.workflow,
            details: None,
            timing: sent.timing,
        };
        let finished = sent.order.state.is_finished();
        let confirmed = finished.then(|| decide(&ctx, &sent.order, Event::Confirmed, sent.now));
        match confirmed {
            Some(Ok(Decision::Transition(change))) => Stage::Confirming {
                next: Arc::new(change.next),
                sent,
            },
            _ => {
                let keeps = self == Self::InLine && sent.was_written && !finished;
                let copy = keeps.then(|| sent.acknowledged());
                Stage::Ended(PassEnd::Done(sent.carried(false, copy)))
            }
        }
    }
}

impl Sent {
    /// When a sweep is to send the last status of an end that no index has, if it is not stored with the record.
    fn due_if_unsent(&self, messages: &Messages) -> Option<Timestamp> {
        let is_in_no_index = self.order.state.is_finished() && self.order.due.is_none();
        let wants_a_sweep = is_in_no_index && !messages.first.is_empty();
        wants_a_sweep.then(|| self.now.plus(self.timing.confirm_within))
    }

    /// The record with an empty outbox.
    fn acknowledged(&self) -> Arc<Order> {
        let mut order = (*self.order).clone();
        order.outbox = order.outbox.acknowledged();
        Arc::new(order)
    }

    fn carried(&self, was_confirmed: bool, copy: Option<Arc<Order>>) -> Carried {
        Carried {
            order: self.order.clone(),
            was_written: self.was_written,
            was_sent: self.was_sent,
            was_confirmed,
            copy,
        }
    }
}
