//! A bus that notices the ends of orders as their statuses pass.

use triad_core::Envelope;
use triad_core::status::Status;
use triad_runtime::{Bus, BusError};

use crate::order_end_waiters::OrderEndWaiters;

/// The statuses of an order's end.
const ENDS: [Status; 4] = [
    Status::Completed,
    Status::Compensated,
    Status::CompensationFailed,
    Status::Failed,
];
/// Prefix of the type of every status message.
const PREFIX: &str = "triad.order.";

/// A bus that hands all messages to another bus, of the type `B`. Before it sends the status of an order's
/// end, it wakes the requests that wait for this order. They then read the order's record, which is always
/// written before its statuses are sent.
#[derive(Debug, Clone)]
pub struct Noticing<B> {
    inner: B,
    ends: OrderEndWaiters,
}

impl<B> Noticing<B> {
    /// A bus that hands messages to `inner`, and wakes the requests that wait in `ends`.
    pub const fn new(inner: B, ends: OrderEndWaiters) -> Self {
        Self { inner, ends }
    }
}

impl<B: Bus> Bus for Noticing<B> {
    async fn publish(&self, messages: Vec<Envelope>) -> Vec<Result<(), BusError>> {
        if self.ends.waiting() > 0 {
            for order in messages.iter().filter_map(ended) {
                self.ends.ended(order);
            }
        }
        self.inner.publish(messages).await
    }
}

/// The order whose end a message reports.
fn ended(message: &Envelope) -> Option<&str> {
    let mut headers = message.headers.iter();
    let (_, of_type) = headers.find(|(name, _)| name == "ce_type")?;
    let status = of_type.as_deref()?.strip_prefix(PREFIX.as_bytes())?;
    let is_end = ENDS.iter().any(|end| end.as_str().as_bytes() == status);
    let order = std::str::from_utf8(message.key.as_deref()?).ok()?;
    is_end.then_some(order)
}
