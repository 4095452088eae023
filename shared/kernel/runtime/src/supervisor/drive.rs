//! Start of an installation on one machine: every unfinished order continues from its record.
//!
//! On one machine all handlers end together, and what they had in memory is lost: orders that waited for room in a
//! Scheduler, and every message [between handlers](triad_core::topics::is_between_handlers). Both are made again here.
//! Nothing is written: this is a second delivery of messages that any bus may deliver twice.

use serde::Serialize;
use triad_core::due::SHARDS;
use triad_core::effect::{self, Unmade};
use triad_core::pass::Snapshot;
use triad_core::{Envelope, OrderId, Timestamp, render};

use super::Supervisor;
use super::plan::Candidate;
use crate::beside::{MOST_READS, read_for_decisions};
use crate::control::ControlStore;
use crate::ports::{Bus, Clock, DefinitionStore, Entropy, StateStore, Unreadable};

/// No order is due later.
const EVER: Timestamp = Timestamp(u64::MAX);

/// Most orders that [`Driven`] names, inclusive.
const MAX_NAMED: usize = 100;

/// Result of [`Supervisor::drive_on`]. All numbers are counts and start at 0.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Driven {
    /// Rows of the due index that were found, one per order.
    pub alive: usize,
    /// Messages that were sent again and acknowledged.
    pub sent: usize,
    /// Orders that could not be read, and messages that could not be made or sent. A sweep finds those orders when
    /// they are overdue.
    pub failed: usize,
    /// Shards of the due index that could not be read to their end.
    pub unread: usize,
    /// The first orders that could not be read, or whose messages could not be made, at most 100.
    #[serde(skip)]
    pub named: Vec<Unreadable>,
}

/// The messages that one order waits for.
struct Messages {
    /// The messages that must be acknowledged before those of `then` are sent.
    first: Vec<Envelope>,
    then: Vec<Envelope>,
}

impl Driven {
    /// Whether nothing failed and every shard was read to its end.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.failed == 0 && self.unread == 0
    }

    /// Writes these counts into the log as one line: at level `warn` if anything failed or was not read, at
    /// `info` if there was an order, else at `debug`.
    pub fn log(&self) {
        let Self {
            alive,
            sent,
            failed,
            unread,
            ..
        } = *self;
        if !self.is_whole() {
            tracing::warn!(
                alive,
                sent,
                failed,
                unread,
                "some unfinished orders could not be resumed"
            );
        } else if alive > 0 {
            tracing::info!(alive, sent, failed, unread, "unfinished orders resumed");
        } else {
            tracing::debug!(alive, sent, failed, unread, "unfinished orders resumed");
        }
    }
}

impl<S, B, C, E> Supervisor<S, B, C, E>
where
    S: StateStore + DefinitionStore + ControlStore + Clone,
    B: Bus,
    C: Clock,
    E: Entropy,
{
    /// Sends again the messages that every order under way waits for ([`effect::under_way`]). No record is written.
    /// Call it once when an installation on one machine starts; its handlers may run already. It reads the due index
    /// page by page, and the record of each order in it. A failure is logged and counted, and the rest continues.
    pub async fn drive_on(&self) -> Driven {
        let mut driven = Driven::default();
        for shard in 0..SHARDS {
            let mut page = None;
            loop {
                let limit = self.settings.sweep_page;
                match self.store.due(shard, EVER, limit, page).await {
                    Ok(found) => {
                        let ids = found.rows.into_iter().map(|row| row.order).collect();
                        self.drive_on_all(ids, &mut driven).await;
                        page = found.next;
                    }
                    Err(e) => {
                        tracing::warn!(shard, error = %e, "a page of the due index could not be read");
                        self.misconfigured.note_store(&e);
                        driven.unread += 1;
                        page = None;
                    }
                }
                if page.is_none() {
                    break;
                }
            }
        }
        self.misconfigured
            .publish_alert(&self.bus, &self.clock)
            .await;
        driven
    }

    /// The orders of one page: load them, make and send their messages.
    async fn drive_on_all(&self, ids: Vec<OrderId>, driven: &mut Driven) {
        driven.alive += ids.len();
        let found = self.load(ids.clone()).await;
        let now = self.clock.now();
        let mut undecided = Vec::new();
        for (order, candidate) in ids.into_iter().zip(found) {
            match candidate {
                Candidate::Read(read, _) => undecided.push(read),
                Candidate::Gone => {}
                Candidate::Unread(_, e) => {
                    self.note_failure(&e);
                    driven.fail(&order, &e);
                }
            }
        }
        let mut all = Vec::new();
        // After the last read every message can be made, or never.
        for reads in 0..=MOST_READS {
            let mut wanting = Vec::new();
            for read in undecided {
                match self.under_way(&read, now) {
                    Ok(messages) => all.push(messages),
                    Err(Unmade::NeedsDetails) if reads < MOST_READS => wanting.push(read),
                    Err(unmade) => {
                        let order = &read.order.id;
                        tracing::warn!(%order, error = %unmade, "an unfinished order could not be resumed");
                        driven.fail(order, &unmade);
                    }
                }
            }
            if wanting.is_empty() {
                break;
            }
            undecided = self.read_beside(wanting, driven).await;
        }
        self.send(all, driven).await;
    }

    fn under_way(&self, read: &Snapshot, now: Timestamp) -> Result<Messages, Unmade> {
        let ctx = read.context(self.settings.timing);
        let effects = effect::under_way(&ctx, &read.order, now)?;
        let (first, then) = render::by_turn(&effects, &read.order);
        Ok(Messages { first, then })
    }

    /// Orders with the details and outputs that their messages need. Those that cannot be read are left out.
    async fn read_beside(&self, wanting: Vec<Snapshot>, driven: &mut Driven) -> Vec<Snapshot> {
        let ids: Vec<_> = wanting.iter().map(|read| read.order.id.clone()).collect();
        let mut known = Vec::with_capacity(wanting.len());
        for (id, read) in ids
            .into_iter()
            .zip(read_for_decisions(&self.store, wanting).await)
        {
            match read {
                Ok(read) => known.push(read),
                Err(e) => {
                    self.misconfigured.note_store(&e);
                    tracing::warn!(order = %id, error = %e, "an unfinished order could not be resumed");
                    driven.fail(&id, &e);
                }
            }
        }
        known
    }

    /// Sends the first messages, and then those that may follow.
    async fn send(&self, all: Vec<Messages>, driven: &mut Driven) {
        let (mut first, mut alone) = (Vec::new(), Vec::new());
        let mut behind = Vec::new();
        for messages in all {
            if messages.first.is_empty() {
                alone.extend(messages.then);
            } else {
                behind.push((messages.first.len(), messages.then));
                first.extend(messages.first);
            }
        }
        let mut acknowledged = self.publish(first, driven).await.into_iter();
        for (count, then) in behind {
            let before: Vec<bool> = acknowledged.by_ref().take(count).collect();
            if before.into_iter().all(|is_sent| is_sent) {
                alone.extend(then);
            }
        }
        self.publish(alone, driven).await;
    }

    /// Publishes messages; returns which were acknowledged.
    async fn publish(&self, messages: Vec<Envelope>, driven: &mut Driven) -> Vec<bool> {
        if messages.is_empty() {
            return Vec::new();
        }
        let tracing = self.tracing();
        let outlines = tracing.outlines(&messages);
        let began = tracing.now();
        let results = self.bus.publish(messages).await;
        for (outline, result) in outlines.iter().zip(&results) {
            tracing.sent(None, None, outline, began, result.as_ref().copied());
        }
        let results = results.into_iter();
        let counted = results.map(|result| {
            match &result {
                Ok(()) => driven.sent += 1,
                Err(e) => {
                    self.misconfigured.note_bus(e);
                    tracing::warn!(error = %e, "a message could not be sent again");
                    driven.failed += 1;
                }
            }
            result.is_ok()
        });
        counted.collect()
    }
}

impl Driven {
    fn fail(&mut self, order: &OrderId, why: &impl ToString) {
        self.failed += 1;
        if self.named.len() < MAX_NAMED {
            self.named.push(Unreadable {
                order_id: order.to_string(),
                why: why.to_string(),
            });
        }
    }
}
