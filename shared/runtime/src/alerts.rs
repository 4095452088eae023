//! Messages that no work waits for: an alert about the installation, a circuit breaker's change. If they
//! cannot be sent, the work goes on without them, and they are sent another time.

use futures::future::{Either, select};
use triad_core::Envelope;
use triad_workflow::Millis;

use crate::ports::{Bus, BusError, Clock};

/// Longest wait for the acknowledgement of news: 2 s. A publish waits longer, but what tells news has
/// work of its own in hand, and in a function not much time.
const WITHIN: Millis = Millis(2_000);

/// News that were not acknowledged in time. They may arrive still.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not acknowledged within {} ms", WITHIN.0)]
pub(crate) struct Late;

/// Publishes news, and waits for at most 2 s. Otherwise as [`Bus::publish`].
///
/// # Errors
/// [`Late`] if not all of them were acknowledged or refused by then.
pub(crate) async fn publish<B: Bus, C: Clock>(
    bus: &B,
    clock: &C,
    messages: Vec<Envelope>,
) -> Result<Vec<Result<(), BusError>>, Late> {
    let publish = std::pin::pin!(bus.publish(messages));
    let enough = std::pin::pin!(clock.sleep(WITHIN));
    match select(publish, enough).await {
        Either::Left((sent, _)) => Ok(sent),
        Either::Right(_) => Err(Late),
    }
}
