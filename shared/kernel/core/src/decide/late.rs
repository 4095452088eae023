//! What happens to an order that has missed its [deadline](super::deadline).

use super::deadline::is_past_return;
use super::{Draft, compensate};
use crate::context::{Context, NeedsDetails};
use crate::failure::{Failure, FailureKind};
use crate::ids::Timestamp;
use crate::message::AlertKind;
use crate::order::{Incident, IncidentKind};
use crate::outbox::Emission;

/// Compensates an order that has missed its deadline, or marks it late. Returns whether the decision ends here: a
/// late order continues.
pub(super) fn miss(
    ctx: &Context<'_>,
    order: &mut Draft,
    now: Timestamp,
) -> Result<bool, NeedsDetails> {
    let cause = Failure::new(
        FailureKind::TimedOut,
        "order-deadline",
        "the order has not finished by its deadline",
    );
    if !is_past_return(ctx, order) {
        compensate::begin(ctx, order, cause, now)?;
        return Ok(true);
    }
    order.late_since = Some(now);
    order.note(Incident::new(IncidentKind::Late, now).of(&cause));
    order.outbox.entries.push(Emission::Alert {
        kind: AlertKind::OrderLate,
        at: now,
        cause,
    });
    Ok(false)
}
