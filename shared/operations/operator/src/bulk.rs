//! Acts on many orders, one after the other, with a dry run, a rate, a report of each order, and a stop between two
//! orders.

use std::future::Future;
use std::pin::pin;

use futures::future::{Either, select};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use triad_core::OrderId;
use triad_runtime::Clock;
use triad_workflow::Millis;

use crate::outcome::{ActOutcome, Verdict};
use crate::pace::{Pacer, Rate};

/// Most orders that one request or command takes from a filter, inclusive. For more there are campaigns
/// ([`crate::campaign`]), which do not end with a terminal or a connection.
pub const MAX_AT_ONCE: usize = 1_000;

/// How fast to act on many orders, and whether only to try.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bulk {
    /// Most orders that are acted on in a second. A dry run writes nothing and is not limited.
    pub rate: Rate,
    /// If true, nothing is written or sent, and what is reported is what would come of the act.
    pub dry_run: bool,
}

/// What came of an act on one order.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ActResult {
    /// The order that the act was on.
    #[schemars(with = "String")]
    pub order_id: OrderId,
    /// What came of the act; in a dry run: what would come of it.
    pub result: Verdict,
    /// The same in words, for people.
    pub text: String,
    /// Whether this was a dry run, in which nothing is written.
    pub dry_run: bool,
    /// Whether messages of the act are left to the Supervisor, because the bus has not taken them.
    pub unsent: bool,
}

impl ActResult {
    /// The result of an act on one order.
    #[must_use]
    pub fn of(order_id: OrderId, outcome: &ActOutcome, dry_run: bool) -> Self {
        Self {
            order_id,
            result: outcome.verdict(),
            text: outcome.to_string(),
            dry_run,
            unsent: outcome.is_unsent(),
        }
    }
}

/// How many orders came to which verdict, and how many were not acted on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Tally {
    /// Orders on which the act was done; in a dry run: would be done.
    pub done: usize,
    /// Orders that refused the act or were not found; nothing was written.
    pub refused: usize,
    /// Orders on which the act failed; trying again is safe.
    pub failed: usize,
    /// How many of `done` have messages that the bus has not taken. The Supervisor sends these.
    pub unsent: usize,
    /// Orders that were not acted on: `stop` completed before their turn, or the bus did not take the
    /// messages of the order before them.
    pub left: usize,
    /// Whether `stop` completed before every order was acted on.
    pub stopped: bool,
}

impl Tally {
    /// How many orders had their turn: the sum of `done`, `refused` and `failed`.
    #[must_use]
    pub fn orders(&self) -> usize {
        self.done + self.refused + self.failed
    }

    fn count(&mut self, verdict: Verdict) {
        match verdict {
            Verdict::Done => self.done += 1,
            Verdict::Refused => self.refused += 1,
            Verdict::Failed => self.failed += 1,
        }
    }
}

/// Calls `act` on every order, one after the other, no faster than the rate in `how` unless it is a dry run, and
/// calls `report` after each. `act` does not get the dry-run flag: the caller must pass an `act` that handles it.
///
/// When `stop` completes, the call ends before the next order; give [`std::future::pending`] to act on all. The call
/// also ends after an order whose messages the bus has not taken, because each further one would wait for the bus in
/// vain. [`Tally::left`] says how many orders are left then. To call it again is safe if it is safe to repeat `act`.
///
/// # Errors
/// The error that `report` returns; no further order is acted on then. The failure of an act is no error: it is in
/// the order's [`ActResult`].
pub async fn act_on_each<A, R, E>(
    clock: &impl Clock,
    orders: Vec<OrderId>,
    how: Bulk,
    stop: impl Future<Output = ()>,
    mut act: A,
    mut report: impl FnMut(&ActResult) -> Result<(), E>,
) -> Result<Tally, E>
where
    A: FnMut(OrderId) -> R,
    R: Future<Output = ActOutcome>,
{
    let mut stop = pin!(stop);
    let mut pacer = Pacer::new(how.rate);
    let mut tally = Tally {
        left: orders.len(),
        ..Tally::default()
    };
    for order in orders {
        let turn = match how.dry_run {
            true => Millis(0),
            false => pacer.turn(clock),
        };
        let wait = pin!(clock.sleep(turn));
        if let Either::Left(_) = select(stop.as_mut(), wait).await {
            tally.stopped = true;
            return Ok(tally);
        }
        let outcome = act(order.clone()).await;
        let line = ActResult::of(order, &outcome, how.dry_run);
        tally.count(line.result);
        tally.left -= 1;
        tally.unsent += usize::from(line.unsent);
        report(&line)?;
        if line.unsent {
            return Ok(tally);
        }
    }
    Ok(tally)
}
