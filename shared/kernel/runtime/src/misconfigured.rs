//! Alerts that work stops until an operator repairs the installation: a missing right, expired credentials, a missing
//! table or topic.
//!
//! Nothing is lost meanwhile, and no failure is counted: records are redelivered, and sweeps find their orders again.
//! But waiting does not help, so a log line each time is not enough.

use std::sync::{Mutex, PoisonError};

use triad_core::message::{Alert, AlertKind};
use triad_core::{Envelope, Failure, FailureKind, Timestamp};
use triad_workflow::Millis;

use crate::alerts;
use crate::handled::{Handled, Redelivery};
use crate::metric;
use crate::ports::{Bus, BusError, Clock, StoreError};

/// Time between two alerts of a handler while the same error lasts.
const EVERY: Millis = Millis(10 * 60_000);
/// Time before an alert that could not be sent is tried again.
const AGAIN_AFTER: Millis = Millis(60_000);

/// Collects the errors of one handler in one process that only an operator can repair, and sends alerts about them.
///
/// It sends at most one alert in ten minutes, and waits for its acknowledgement for at most 2 s. If the alert is not
/// acknowledged, the next one may follow after one minute. An error that comes and goes between two alerts is not
/// reported.
#[derive(Debug)]
pub struct Misconfigured {
    handler: &'static str,
    met: Mutex<LastReport>,
}

#[derive(Debug, Default)]
struct LastReport {
    /// The text of the next alert: the first error since the last alert.
    why: Option<String>,
    /// No alert is sent before this.
    silent_until: Option<Timestamp>,
}

impl Misconfigured {
    /// An empty collection. `handler` is the handler's name in alerts and metrics.
    #[must_use]
    pub fn new(handler: &'static str) -> Self {
        Self {
            handler,
            met: Mutex::default(),
        }
    }

    /// Notes why the handler could not finish records, each as [`note_why`](Self::note_why) does, and counts the
    /// redeliveries in the metrics. [`Handled::Done`] is ignored.
    pub fn note(&self, answers: &[Handled]) {
        for answer in answers {
            if let Handled::Redeliver(why) = answer {
                metric::redelivered(self.handler, why);
                self.note_why(why);
            }
        }
    }

    /// Notes an error of the store, as [`note_why`](Self::note_why) does.
    pub fn note_store(&self, why: &StoreError) {
        self.note_why(&Redelivery::Store(why.clone()));
    }

    /// Notes an error of the bus, as [`note_why`](Self::note_why) does.
    pub fn note_bus(&self, why: &BusError) {
        self.note_why(&Redelivery::Unsent(why.clone()));
    }

    /// Notes why a record could not be finished. It leads to an alert only if
    /// [`Redelivery::needs_an_operator`] is true; failures of the store and the bus are counted in the
    /// metrics in any case.
    pub fn note_why(&self, why: &Redelivery) {
        match why {
            Redelivery::Store(why) => metric::store_failed(self.handler, why),
            Redelivery::Unsent(why) => metric::bus_failed(self.handler, why),
            _ => {}
        }
        if why.needs_an_operator() {
            let mut met = self.lock();
            met.why.get_or_insert_with(|| why.to_string());
        }
    }

    /// Sends the alert, if there was an error and the last alert is long enough ago.
    pub async fn publish_alert<B: Bus, C: Clock>(&self, bus: &B, clock: &C) {
        let now = clock.now();
        let Some(why) = self.take(now) else { return };
        metric::misconfigured(self.handler);
        tracing::error!(
            handler = self.handler,
            why,
            "work stops until the installation is repaired"
        );
        let sent = alerts::publish(bus, clock, vec![self.alert(&why, now)]).await;
        if !matches!(sent.as_deref(), Ok([Ok(())])) {
            self.lock().silent_until = Some(now.plus(AGAIN_AFTER));
        }
    }

    /// Takes the text of the alert that is due now. No other task sends it meanwhile.
    fn take(&self, now: Timestamp) -> Option<String> {
        let mut met = self.lock();
        let why = met.why.take()?;
        if (met.silent_until).is_some_and(|until| until.is_awaited(now, EVERY)) {
            return None;
        }
        met.silent_until = Some(now.plus(EVERY));
        Some(why)
    }

    fn alert(&self, why: &str, now: Timestamp) -> Envelope {
        let alert = Alert {
            alert_id: format!("misconfigured/{}/{}", self.handler, now.0),
            kind: AlertKind::Misconfigured,
            order_id: None,
            // The text of a failure is bounded.
            cause: Failure::new(FailureKind::Transient, self.handler, why).message,
            at: now,
        };
        alert.message(self.handler, None)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, LastReport> {
        self.met.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use futures::executor::block_on;

    use super::*;

    /// A clock with a fixed time.
    struct At(u64);

    impl Clock for At {
        fn now(&self) -> Timestamp {
            Timestamp(self.0)
        }
        async fn sleep(&self, _time: Millis) {}
    }

    /// A bus that keeps its messages, and can refuse them or never answer.
    #[derive(Default)]
    struct Sent {
        refuses: bool,
        is_silent: bool,
        alerts: Mutex<Vec<Alert>>,
    }

    impl Bus for Sent {
        async fn publish(&self, messages: Vec<Envelope>) -> Vec<Result<(), BusError>> {
            let take = |m: Envelope| {
                let alert = serde_json::from_slice(&m.value).expect("an alert");
                self.alerts.lock().expect("one thread").push(alert);
                match self.refuses {
                    true => Err(BusError::Permanent("denied".into())),
                    false => Ok(()),
                }
            };
            let answers = messages.into_iter().map(take).collect();
            if self.is_silent {
                std::future::pending::<()>().await;
            }
            answers
        }
    }

    impl Sent {
        fn count(&self) -> usize {
            self.alerts.lock().expect("one thread").len()
        }
    }

    fn denied() -> Handled {
        StoreError::Configuration("AccessDeniedException".into()).into()
    }

    #[test]
    fn what_passes_by_itself_is_no_alert() {
        let (met, bus) = (Misconfigured::new("scheduler"), Sent::default());
        met.note(&[
            Handled::Done,
            StoreError::Transient("throttled".into()).into(),
            StoreError::Item("too large".into()).into(),
            BusError::Transient("no leader".into()).into(),
            Handled::Redeliver(Redelivery::Raced),
        ]);
        block_on(met.publish_alert(&bus, &At(0)));
        assert_eq!(bus.count(), 0);
    }

    #[test]
    fn one_alert_in_ten_minutes_while_it_lasts() {
        let (met, bus) = (Misconfigured::new("scheduler"), Sent::default());
        for (at, sent) in [(0, 1), (1, 1), (599_999, 1), (600_000, 2), (600_001, 2)] {
            met.note(&[denied(), denied()]);
            block_on(met.publish_alert(&bus, &At(at)));
            assert_eq!(bus.count(), sent, "at {at}");
        }
        // The error is old: no alert is sent about it.
        block_on(met.publish_alert(&bus, &At(6_000_000)));
        assert_eq!(bus.count(), 2);
        let alerts = bus.alerts.lock().expect("one thread");
        assert_eq!(alerts[0].kind, AlertKind::Misconfigured);
        assert_eq!(alerts[0].alert_id, "misconfigured/scheduler/0");
        assert!(alerts[0].cause.contains("AccessDenied"), "{:?}", alerts[0]);
    }

    #[test]
    fn an_alert_that_is_refused_or_not_answered_is_tried_again_after_a_minute() {
        for (refuses, is_silent) in [(true, false), (false, true)] {
            let met = Misconfigured::new("supervisor");
            let bus = Sent {
                refuses,
                is_silent,
                ..Sent::default()
            };
            for (at, sent) in [(0, 1), (59_999, 1), (60_000, 2)] {
                met.note_bus(&BusError::Permanent("topic alerts: denied".into()));
                block_on(met.publish_alert(&bus, &At(at)));
                assert_eq!(bus.count(), sent, "at {at}");
            }
        }
    }
}
