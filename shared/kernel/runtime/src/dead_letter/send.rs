//! Sends dead letters and their alerts.

use triad_core::Envelope;

use super::names;

use crate::ports::{Bus, BusError};

/// Sends dead letters with their alerts, as [`dead_letter`](super::dead_letter) makes them. An alert is sent
/// only once its letter is acknowledged: so operators can read the letter that an alert is about, and a topic
/// of dead letters that takes nothing does not lead to an alert for each redelivery.
///
/// Each pair comes with a value of type `T`, such as the position of its record. Returns the values of the pairs
/// whose letter or alert was not acknowledged, and why; empty if all were acknowledged. The records of the returned
/// pairs must be redelivered, which sends both messages again with the same ids.
///
/// A letter that is too large for its topic would be refused each time: it is cut and sent again.
pub async fn send<B: Bus, T: Clone>(
    bus: &B,
    letters: Vec<(T, [Envelope; 2])>,
) -> Vec<(T, BusError)> {
    let (owners, messages): (Vec<T>, Vec<_>) = letters.into_iter().unzip();
    let (letters, alerts): (Vec<_>, Vec<_>) = messages.into_iter().map(<(_, _)>::from).unzip();
    let mut failed = Vec::new();
    let mut kept = Vec::new();
    let mut too_large = Vec::new();
    let short: Vec<_> = letters.iter().map(shortened).collect();
    let results = publish(bus, letters).await;
    for (((owner, alert), short), result) in owners.into_iter().zip(alerts).zip(short).zip(results)
    {
        match (result, short) {
            (Ok(()), _) => kept.push((owner, alert)),
            (Err(BusError::TooLarge(_)), Some(short)) => too_large.push(((owner, alert), short)),
            (Err(why), _) => failed.push((owner, why)),
        }
    }
    let (pairs, short): (Vec<_>, Vec<_>) = too_large.into_iter().unzip();
    for ((owner, alert), result) in pairs.into_iter().zip(publish(bus, short).await) {
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

/// Bounds of a letter for a topic that takes no larger one: bytes of its value, and of its key.
const SHORT_BYTES: (usize, usize) = (8 * 1024, 1024);

/// The same letter with the beginnings of value and key, and without the record's headers; `None` if it is short
/// already.
pub(crate) fn shortened(letter: &Envelope) -> Option<Envelope> {
    let (most, most_of_key) = SHORT_BYTES;
    let key = letter.key.as_deref();
    let is_short = letter.value.len() <= most && key.is_none_or(|key| key.len() <= most_of_key);
    let at = letter
        .headers
        .iter()
        .position(|(name, _)| name == names::HEADERS)?;
    if is_short && at + 1 == letter.headers.len() {
        return None;
    }
    let mut headers = letter.headers[..at].to_vec();
    let mut note = |name: &str, had: usize, keeps: usize| {
        if had > keeps && !headers.iter().any(|(known, _)| known == name) {
            headers.push((name.to_owned(), Some(had.to_string().into_bytes())));
        }
    };
    note(names::TRUNCATED_FROM, letter.value.len(), most);
    note(
        names::KEY_TRUNCATED_FROM,
        key.map_or(0, <[u8]>::len),
        most_of_key,
    );
    let (name, of) = &letter.headers[at];
    let of = std::str::from_utf8(of.as_deref()?).ok()?.split_once('/')?.1;
    headers.push((name.clone(), Some(format!("0/{of}").into_bytes())));
    Some(Envelope {
        topic: letter.topic.clone(),
        key: key.map(|key| key[..key.len().min(most_of_key)].to_vec()),
        value: letter.value[..letter.value.len().min(most)].to_vec(),
        headers,
        trace: letter.trace,
    })
}

/// Does not call the bus without messages.
async fn publish<B: Bus>(bus: &B, messages: Vec<Envelope>) -> Vec<Result<(), BusError>> {
    if messages.is_empty() {
        return Vec::new();
    }
    bus.publish(messages).await
}
