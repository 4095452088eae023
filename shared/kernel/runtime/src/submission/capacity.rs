//! Room for orders: the caps on orders in flight, and the Schedulers' progress.

use std::fmt;

use triad_core::Timestamp;
use triad_workflow::Millis;

use super::outgoing::ToSend;
use super::submitted::Submitted;
use super::{Admitted, Source, Submission};
use crate::admission::{InFlightGuard, Verdict};
use crate::handled::Redelivery;
use crate::ports::{Bus, Clock, DefinitionStore, StateStore, StoreError};

/// Checks for room before an order is left in its topic.
const LOOKS: usize = 4;
/// Time between two of them.
const BETWEEN_LOOKS: Millis = Millis(250);

/// Whether there is room for one more order.
enum Room {
    /// There is room, and the order has its place in flight.
    Free(Option<InFlightGuard>),
    /// The order may be set aside: until there is room under its workflow's cap, or until a process can read its
    /// definition.
    Aside,
    /// There is no room.
    Full(NoRoom),
}

/// Why there is no room.
#[derive(Clone)]
enum NoRoom {
    /// The Schedulers have not claimed enough of the earlier orders. No order is rejected for that.
    Behind,
    /// A cap that an operator has set is reached.
    Capped(String),
    /// The workflow's definition cannot be read, and the limit of its orders that are set aside is reached. No order
    /// is rejected for that.
    Unread(String),
}

impl fmt::Display for NoRoom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Behind => f.write_str("the orders before it are not started yet"),
            Self::Capped(why) | Self::Unread(why) => f.write_str(why),
        }
    }
}

impl<S, B, C> Submission<S, B, C>
where
    S: StateStore + DefinitionStore + Clone,
    B: Bus,
    C: Clock,
{
    /// Checks a wave against the caps on orders in flight, and against the Schedulers' progress. An order without
    /// room waits in its topic, or is rejected with a status once it has waited for `reject_after`. If only its
    /// workflow's cap has no room, the order is set aside: those behind it need not wait.
    ///
    /// For the first order without room the handler waits briefly, so that a full system is checked a few times a
    /// second and not in a busy loop. Callers get an immediate answer, and retry later.
    pub(super) async fn let_in(
        &self,
        source: Source,
        wave: Vec<Admitted>,
        answers: &mut [Submitted],
    ) -> (Vec<Admitted>, Vec<ToSend>) {
        let mut admitted = Vec::with_capacity(wave.len());
        let mut rejected = Vec::new();
        let mut full: Option<NoRoom> = None;
        for mut order in wave {
            let verdict = match &full {
                Some(full) => Ok(Room::Full(full.clone())),
                None if order.workflow.is_none() => self.room_aside(&order).await,
                None => self.has_room(source, &order, admitted.is_empty()).await,
            };
            match verdict {
                Ok(Room::Free(place)) => {
                    order.place = place;
                    admitted.push(order);
                }
                Ok(Room::Aside) => {
                    order.set_aside = true;
                    admitted.push(order);
                }
                Ok(Room::Full(NoRoom::Capped(why)))
                    if source == Source::Topic
                        && self.gate.rejects(order.produced, self.clock.now()) =>
                {
                    match self.is_stored(&order.accepted.order_id).await {
                        // Accepted before and redelivered: it has its place in flight.
                        Ok(true) => admitted.push(order),
                        Ok(false) => {
                            let now = self.clock.now();
                            let status = ToSend::rejected(order.index, &order.accepted, &why, now);
                            rejected.push(status);
                            answers[order.index] = Submitted::Rejected(why);
                        }
                        Err(e) => answers[order.index] = e.into(),
                    }
                }
                Ok(Room::Full(why)) => {
                    answers[order.index] = Submitted::Later(Redelivery::NoRoom(why.to_string()));
                    full = (source == Source::Topic).then_some(why);
                }
                Err(e) => answers[order.index] = e.into(),
            }
        }
        (admitted, rejected)
    }

    /// Whether an order may be set aside whose definition this process cannot read.
    async fn room_aside(&self, order: &Admitted) -> Result<Room, StoreError> {
        let workflow = &order.accepted.workflow.name;
        let now = self.clock.now();
        Ok(
            match self.gate.sets_aside(&self.store, workflow, now).await? {
                true => Room::Aside,
                false => {
                    let why = format!(
                        "the definition of {workflow} cannot be read, and too many of its orders wait"
                    );
                    Room::Full(NoRoom::Unread(why))
                }
            },
        )
    }

    /// Checks for room, repeatedly if no caller waits for this order.
    async fn has_room(
        &self,
        source: Source,
        order: &Admitted,
        alone: bool,
    ) -> Result<Room, StoreError> {
        let workflow = &order.accepted.workflow.name;
        let mut last = NoRoom::Behind;
        for _ in 0..LOOKS {
            let now = self.clock.now();
            let rejects = self.gate.rejects(order.produced, now);
            last = if self.keeps_up(order, alone, now).await {
                match self.gate.admit(&self.store, workflow, now).await? {
                    Verdict::Free(place) => return Ok(Room::Free(place)),
                    Verdict::Full(why) => NoRoom::Capped(why),
                    Verdict::FullForWorkflow(why) if rejects => NoRoom::Capped(why),
                    Verdict::FullForWorkflow(why) => {
                        if self.gate.sets_aside(&self.store, workflow, now).await? {
                            return Ok(Room::Aside);
                        }
                        NoRoom::Capped(why)
                    }
                }
            } else {
                NoRoom::Behind
            };
            let is_rejected = rejects && matches!(last, NoRoom::Capped(_));
            let is_answered_now = !alone || source == Source::Caller;
            if is_answered_now || is_rejected {
                break;
            }
            self.clock.sleep(BETWEEN_LOOKS).await;
        }
        Ok(Room::Full(last))
    }

    /// Whether the Schedulers have come far enough for one more order. Their progress is checked only while no order
    /// that was let in is still to be stored.
    async fn keeps_up(&self, order: &Admitted, may_look: bool, now: Timestamp) -> bool {
        let lane = order.accepted.priority;
        if !self.backlog.has_room(lane)
            && may_look
            && let Some(e) = self.backlog.measure(&self.store, lane, now).await
        {
            self.misconfigured.note_store(&e);
        }
        self.backlog.has_room(lane)
    }
}
