//! Sends dead letters and their alerts.

use triad_core::Envelope;

use crate::ports::{Bus, BusError};

/// Sends dead letters with their alerts, as [`dead_letter`](super::dead_letter) makes them. An alert is sent
/// only once its letter is acknowledged: so operators can read the letter that an alert is about, and a topic
/// of dead letters that takes nothing does not lead to an alert for each redelivery.
///
/// Each pair comes with a value of type `T`, such as the place of its record. Returned are the values of the
/// pairs of which the letter or the alert was not acknowledged, and why; empty if all were acknowledged. The
/// records of the returned pairs must be delivered again, which sends both messages again under the same ids.
pub async fn send<B: Bus, T: Clone>(
    bus: &B,
    letters: Vec<(T, [Envelope; 2])>,
) -> Vec<(T, BusError)> {
    let (owners, messages): (Vec<T>, Vec<_>) = letters.into_iter().unzip();
    let (letters, alerts): (Vec<_>, Vec<_>) = messages.into_iter().map(<(_, _)>::from).unzip();
    let mut failed = Vec::new();
    let mut kept = Vec::new();
    for ((owner, alert), result) in owners
        .into_iter()
        .zip(alerts)
        .zip(publish(bus, letters).await)
    {
        match result {
            Ok(()) => kept.push((owner, alert)),
            Err(why) => failed.push((owner, why)),
        }
    }
    let (owners, alerts): (Vec<T>, Vec<_>) = kept.into_iter().unzip();
    let results = publish(bus, alerts).await;
    let unsent = owners.into_iter().zip(results);
    failed.extend(unsent.filter_map(|(owner, result)| Some((owner, result.err()?))));
    failed
}

/// Nothing is asked of the bus where there is nothing to send.
async fn publish<B: Bus>(bus: &B, messages: Vec<Envelope>) -> Vec<Result<(), BusError>> {
    if messages.is_empty() {
        return Vec::new();
    }
    bus.publish(messages).await
}
