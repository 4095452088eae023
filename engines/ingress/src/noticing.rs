//! A bus that notices the ends of orders as their statuses pass.

use triad_core::Envelope;
use triad_core::status::Status;
use triad_runtime::{Bus, BusError};

use crate::ends::Ends;

/// The statuses that tell of an end.
const ENDS: [Status; 4] = [
    Status::Completed,
    Status::Compensated,
    Status::CompensationFailed,
    Status::Failed,
];
/// What the type of every status message begins with.
const PREFIX: &str = "triad.order.";

/// Hands messages to another bus, and tells who waits for an order when a status of its end was
/// acknowledged.
#[derive(Debug, Clone)]
pub struct Noticing<B> {
    inner: B,
    ends: Ends,
}

impl<B> Noticing<B> {
    /// Before `inner`; who waits is in `ends`.
    pub const fn new(inner: B, ends: Ends) -> Self {
        Self { inner, ends }
    }
}

impl<B: Bus> Bus for Noticing<B> {
    async fn publish(&self, messages: Vec<Envelope>) -> Vec<Result<(), BusError>> {
        // A record is written before its status is sent: who begins to wait from here on reads the end.
        if self.ends.waiting() == 0 {
            return self.inner.publish(messages).await;
        }
        let ended: Vec<_> = messages.iter().map(ended).collect();
        let results = self.inner.publish(messages).await;
        for (order, result) in ended.into_iter().zip(&results) {
            if let (Some(order), Ok(())) = (order, result) {
                self.ends.ended(&order);
            }
        }
        results
    }
}

/// The order of whose end a message tells.
fn ended(message: &Envelope) -> Option<String> {
    let mut headers = message.headers.iter();
    let (_, of_type) = headers.find(|(name, _)| name == "ce_type")?;
    let status = of_type.as_deref()?.strip_prefix(PREFIX.as_bytes())?;
    let is_end = ENDS.iter().any(|end| end.as_str().as_bytes() == status);
    let order = std::str::from_utf8(message.key.as_deref()?).ok()?;
    is_end.then(|| order.to_owned())
}
