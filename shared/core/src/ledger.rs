//! The call ledger: who has taken an attempt, where that must be known for certain.
//!
//! A request may be delivered again after a crash, to a process that does not know what calls
//! were made; and a request that nobody answered may have been taken or not. Where the definition
//! declares a total of calls, or an effect that may not be repeated, the attempt has one record in
//! the control store. An agent writes it before its first call and so takes
//! the attempt, and gives it back if it has to end before it has made a call, so that another one may
//! take it; the Supervisor writes it when the attempt is over and nobody was heard of it, and so revokes it. Whoever comes second finds the other's mark. So an agent whose clock is far
//! behind cannot call after the Supervisor has said that nobody did.

use serde::{Deserialize, Serialize};
use triad_workflow::{Millis, StepId};

use crate::budget;
use crate::context::Context;
use crate::decide::is_unheard;
use crate::ids::{Attempt, Direction, IdempotencyKey, Timestamp};
use crate::order::Order;

/// How long after the complete-by of its attempt a mark is kept: 24 hours. An agent makes no call after
/// that complete-by, so a mark is not needed for longer.
pub const KEPT: Millis = Millis(24 * 3_600_000);

/// The record of one attempt in the call ledger. One that was given back may be replaced, and no other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mark {
    /// How many calls its writer may make: the whole allowance of the request for an agent, 0 for the
    /// Supervisor and for an agent that has given the attempt back.
    pub allowance: u32,
    /// True if the Supervisor wrote the mark: no agent has taken the attempt, and none can any more. False if
    /// an agent did, which has taken the attempt, or given it back.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub revoked: bool,
}

impl Mark {
    /// The mark that the Supervisor writes.
    pub const REVOKED: Self = Self {
        allowance: 0,
        revoked: true,
    };

    /// The mark of an agent that has made no call and will make none.
    pub const GIVEN_BACK: Self = Self {
        allowance: 0,
        revoked: false,
    };
}

/// Key of an attempt's mark in the control store: `call/<idempotency key>/<direction>/<attempt>`.
#[must_use]
pub fn key(of: &IdempotencyKey, direction: Direction, attempt: Attempt) -> String {
    format!("call/{of}/{direction}/{attempt}")
}

/// An attempt that the Supervisor is to revoke before it decides about the order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unheard {
    /// The step of the attempt.
    pub step: StepId,
    /// Key of the mark to write.
    pub key: String,
    /// When the mark may be deleted: [`KEPT`] after the attempt's complete-by.
    pub expires: Timestamp,
}

/// The attempts of an order that the Supervisor is to revoke: each has passed its complete-by by the skew,
/// was found so by an earlier look at the order, got no reply for [`hear_within`](crate::Timing::hear_within)
/// since then, and has its calls counted in the ledger.
///
/// Empty for a finished order. An attempt is left out from [`KEPT`] after its complete-by on, because an
/// agent's mark may have been deleted by then: it counts as taken.
#[must_use]
pub fn to_revoke(ctx: &Context<'_>, order: &Order, now: Timestamp) -> Vec<Unheard> {
    if order.state.is_finished() {
        return Vec::new();
    }
    let steps = order.steps.iter().zip(&ctx.workflow.steps);
    steps
        .filter(|(record, _)| is_unheard(ctx, record, now))
        .filter_map(|(record, step)| {
            let out = record.state.out()?;
            // An agent's mark may have expired by then: the attempt counts as taken.
            let is_kept = now < out.complete_by.plus(KEPT);
            (is_kept && budget::is_counted(step, out.direction)).then(|| {
                let of = IdempotencyKey::of(&order.id, &record.step, out.direction, record.key);
                Unheard {
                    step: record.step.clone(),
                    key: key(&of, out.direction, out.attempt),
                    expires: out.complete_by.plus(KEPT),
                }
            })
        })
        .collect()
}
