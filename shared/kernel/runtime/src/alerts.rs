//! Messages that no work waits for: alerts about the installation, and changes of a circuit breaker. If they cannot
//! be sent, the work continues, and they are sent later.

use futures::future::{Either, select};
use triad_core::Envelope;
use triad_workflow::Millis;

use crate::ports::{Bus, BusError, Clock};

/// Longest wait for the acknowledgement of an alert: 2 s. The bus waits longer, but the sender has other work in
/// hand, and in a function little time.
const WITHIN: Millis = Millis(2_000);

/// Alerts that were not acknowledged in time. They may still arrive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not acknowledged within {} ms", WITHIN.0)]
pub(crate) struct Late;

/// Publishes alerts, and waits for at most 2 s. Otherwise as [`Bus::publish`].
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
