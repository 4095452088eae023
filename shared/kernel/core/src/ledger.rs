//! The call ledger: which process took an attempt, where that must be certain.
//!
//! A request may be redelivered after a crash to a process that does not have the count of its calls, and an attempt
//! without a reply may have been taken or not. So if the definition declares a total of calls, or an effect that may
//! not be repeated, the attempt has one record (mark) in the control store. An agent writes the mark before its first
//! call and so takes the attempt; it gives the attempt back if it stops before any call, so that another agent may
//! take it. The Supervisor writes the mark when the attempt is over without a reply, and so revokes the attempt. The
//! later writer finds the earlier one's mark. So an agent whose clock is far behind cannot call after the Supervisor
//! has revoked its attempt.

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

/// The record of one attempt in the call ledger. Only a mark that was given back may be replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mark {
    /// How many calls its writer may make: the whole allowance of the request for an agent, 0 for the
    /// Supervisor and for an agent that has given the attempt back.
    pub allowance: u32,
    /// True if the Supervisor wrote the mark: no agent has taken the attempt or ever can. False if an agent took the
    /// attempt, or gave it back.
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

/// An attempt that the Supervisor must revoke before it decides about the order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unheard {
    /// The step of the attempt.
    pub step: StepId,
    /// Key of the mark to write.
    pub key: String,
    /// When the mark may be deleted: [`KEPT`] after the attempt's complete-by.
    pub expires: Timestamp,
}

/// The attempts of an order that the Supervisor must revoke: each has passed its complete-by by the skew, was found
/// so by an earlier check of the order, got no reply for [`hear_within`](crate::Timing::hear_within) since then, and
/// has its calls counted in the ledger.
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
