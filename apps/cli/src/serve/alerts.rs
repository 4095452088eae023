//! Logs alerts, each with the address of the page about its subject.
//!
//! The topic `alerts` and the pages have every alert. The log is best effort: alerts beyond the bound of a second, or
//! while the reader does not run, are not logged.

use std::time::Duration;

use anyhow::Result;
use tokio_util::sync::CancellationToken;
use triad_core::message::Alert;
use triad_core::topics;
use triad_kafka::{KafkaConfig, Polled, Reader, ReaderStart};
use triad_operator::address::{ConsoleUrl, PageAddress};

/// Most lines in one second.
const MOST: usize = 20;
/// The interval of that bound.
const SECOND: Duration = Duration::from_secs(1);
/// Longest wait for the broker of this process.
const BROKER_WAIT: Duration = Duration::from_secs(10);

/// Opens the topic of alerts at its end. Blocks the thread for a moment.
///
/// # Errors
/// [`triad_kafka::KafkaError`] if the broker does not answer in time.
pub fn open(kafka: &KafkaConfig) -> Result<Reader> {
    let topics = [topics::ALERTS];
    Ok(Reader::open(kafka, &topics, ReaderStart::End, BROKER_WAIT)?)
}

/// The lines of one second.
#[derive(Default)]
struct Lines {
    written: usize,
    /// Number of alerts beyond the bound.
    more: usize,
}

impl Lines {
    /// Whether one more line is allowed; if not, the alert is counted.
    fn take(&mut self) -> bool {
        let may = self.written < MOST;
        match may {
            true => self.written += 1,
            false => self.more += 1,
        }
        may
    }

    /// Ends the second; returns how many alerts were not logged.
    fn end(&mut self) -> usize {
        std::mem::take(self).more
    }
}

/// Logs alerts, until `stop`.
pub async fn log(alerts: Reader, console: ConsoleUrl, stop: CancellationToken) {
    let mut second = tokio::time::interval(SECOND);
    let mut lines = Lines::default();
    loop {
        tokio::select! {
            read = alerts.next(SECOND) => {
                let Polled::Record(record) = read else { continue };
                let value = record.value.unwrap_or_default();
                let Ok(alert) = serde_json::from_slice::<Alert>(&value) else { continue };
                if lines.take() {
                    line(&alert, &console);
                }
            }
            _ = second.tick() => {
                let more = lines.end();
                if more > 0 {
                    tracing::warn!(more, "further alerts, which are in the topic alerts alone");
                }
            }
            () = stop.cancelled() => return,
        }
    }
}

fn line(alert: &Alert, console: &ConsoleUrl) {
    let link = PageAddress::of_alert(alert).map(|place| console.of(&place));
    let (id, cause, link) = (&*alert.alert_id, &*alert.cause, link.as_deref());
    tracing::warn!(id, cause, link, "alert");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_has_twenty_lines_and_counts_what_has_none() {
        let mut lines = Lines::default();
        let taken = (0..23).filter(|_| lines.take()).count();
        assert_eq!((taken, lines.end()), (20, 3));
        let taken = (0..20).filter(|_| lines.take()).count();
        assert_eq!((taken, lines.end()), (20, 0), "the next second begins anew");
        assert!(lines.take());
    }
}
