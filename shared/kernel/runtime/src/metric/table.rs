//! The table of all metrics.

use std::borrow::Cow;
use std::sync::atomic::{AtomicBool, Ordering};

use metrics::{Key, KeyName, Label, Level, Metadata, Unit};

/// Upper bounds, inclusive, of the classes of every histogram, in seconds; one more class has the values above the
/// last bound. They range from one sync of a disk to the usual longest step.
pub const BUCKETS_SECONDS: [f64; 16] = [
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 120.0,
    600.0,
];

/// What kind of values a metric has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A count that only grows.
    Counter,
    /// A value that rises and falls.
    Gauge,
    /// How often values of each size occurred, in classes with the upper bounds [`BUCKETS_SECONDS`].
    Histogram,
}

/// One metric. Its name and its labels are a contract, because dashboards and alarms depend on them.
#[derive(Debug)]
pub struct Metric {
    /// The metric's name, in the form of Prometheus: it ends with the unit, that of a counter with `_total`.
    pub name: &'static str,
    /// Whether the metric is a counter, a gauge or a histogram.
    pub kind: Kind,
    /// The unit of its values.
    pub unit: Unit,
    /// The names of its labels. Their values are names from the configuration and from published workflows, or fixed
    /// words; never content of a record.
    pub labels: &'static [&'static str],
    /// What the metric counts or measures, in one sentence for people.
    pub help: &'static str,
}

/// A label's value.
pub(super) type Value = Cow<'static, str>;

/// Whether a recorder takes the numbers.
static MEASURED: AtomicBool = AtomicBool::new(false);
static ANY: Metadata<'static> = Metadata::new("triad", Level::INFO, None);

/// Whether [`describe`] was called in this process: before that no metric is recorded.
#[must_use]
pub fn is_measured() -> bool {
    MEASURED.load(Ordering::Relaxed)
}

/// Gives the name, unit and help of every metric to the recorder, and turns measuring on.
pub(super) fn describe_all() {
    metrics::with_recorder(|recorder| {
        for metric in ALL {
            let (name, unit) = (KeyName::from_const_str(metric.name), Some(metric.unit));
            let help = metric.help.into();
            match metric.kind {
                Kind::Counter => recorder.describe_counter(name, unit, help),
                Kind::Gauge => recorder.describe_gauge(name, unit, help),
                Kind::Histogram => recorder.describe_histogram(name, unit, help),
            }
        }
    });
    MEASURED.store(true, Ordering::Relaxed);
}

impl Metric {
    pub(super) fn add<const N: usize>(&self, count: u64, values: [Value; N]) {
        if is_measured() {
            let key = self.key(values);
            metrics::with_recorder(|r| r.register_counter(&key, &ANY).increment(count));
        }
    }

    /// Starts a counter at 0. A counter that first appears with its first count shows no increase to its readers.
    pub(super) fn begin<const N: usize>(&self, values: [Value; N]) {
        if is_measured() {
            let key = self.key(values);
            metrics::with_recorder(|r| drop(r.register_counter(&key, &ANY)));
        }
    }

    pub(super) fn set<const N: usize>(&self, to: f64, values: [Value; N]) {
        if is_measured() {
            let key = self.key(values);
            metrics::with_recorder(|r| r.register_gauge(&key, &ANY).set(to));
        }
    }

    pub(super) fn record<const N: usize>(&self, seconds: f64, values: [Value; N]) {
        if is_measured() {
            let key = self.key(values);
            metrics::with_recorder(|r| r.register_histogram(&key, &ANY).record(seconds));
        }
    }

    fn key<const N: usize>(&self, values: [Value; N]) -> Key {
        debug_assert_eq!(self.labels.len(), N, "{}", self.name);
        let labels = self.labels.iter().zip(values);
        let labels: Vec<Label> = labels
            .map(|(name, value)| Label::new(*name, value))
            .collect();
        Key::from_parts(self.name, labels)
    }
}

macro_rules! table {
    ($($const:ident = $kind:ident $name:literal in $unit:ident by $labels:expr, $help:literal;)*) => {
        $(
            #[doc = $help]
            pub const $const: Metric = Metric {
                name: $name,
                kind: Kind::$kind,
                unit: Unit::$unit,
                labels: &$labels,
                help: $help,
            };
        )*

        /// Every metric, each once.
        pub const ALL: &[&Metric] = &[$(&$const),*];
    };
}

table! {
    ORDERS_ACCEPTED = Counter "triad_orders_accepted_total" in Count by ["workflow"],
        "Orders that were stored for the first time.";
    ORDERS_REJECTED = Counter "triad_orders_rejected_total" in Count by [],
        "Submissions that were rejected because they had waited too long for room.";
    ORDERS_ENDED = Counter "triad_orders_ended_total" in Count by ["workflow", "state"],
        "Orders that came to an end: Processed, Compensated, Error or CompensationFailed.";
    ORDER_DURATION = Histogram "triad_order_duration_seconds" in Seconds by ["workflow", "state"],
        "Time from an order's acceptance to its end; of a new run by an operator, also from the acceptance.";
    ORDERS_IN_FLIGHT = Gauge "triad_orders_in_flight" in Count by [],
        "Orders in flight, if a cap on them is set: the last count, and the orders that this process has let in since.";
    ORDERS_IN_FLIGHT_LIMIT = Gauge "triad_orders_in_flight_limit" in Count by [],
        "The cap on orders in flight, if one is set.";
    ORDERS_WAITING = Gauge "triad_orders_waiting" in Count by ["agent", "lane"],
        "Orders that a Scheduler holds back, each counted for the first agent that has no room for it, or for scheduler.";
    ORDERS_NEEDING = Gauge "triad_orders_needing_operator" in Count by ["workflow", "state"],
        "Orders that are in Error or CompensationFailed now and not closed, if the store counts them, as SQLite does.";
    ATTEMPTS = Counter "triad_attempts_total" in Count by ["agent", "direction", "outcome"],
        "Attempts at steps that an agent has taken, by outcome: succeeded, failed, in_doubt, deferred, silent or interrupted.";
    CALL_DURATION = Histogram "triad_call_duration_seconds" in Seconds by ["agent", "outcome"],
        "Time of calls to services, by outcome: succeeded, refused, failed or unanswered. Its count is the number of calls.";
    RECORD_WAIT = Histogram "triad_record_wait_seconds" in Seconds by ["handler", "topic"],
        "Time from when a record was written until a handler began work on it, which is one hop; counted at each delivery.";
    OLDEST_RECORD = Gauge "triad_oldest_record_age_seconds" in Seconds by ["topic"],
        "Age of the oldest record of a topic, or a lane, that was read and is not done; 0 if all are done.";
    LAG = Gauge "triad_lag_records" in Count by ["topic"],
        "Records of a topic, or a lane, that are not read yet, in the partitions that this process reads.";
    REDELIVERIES = Counter "triad_redeliveries_total" in Count by ["handler", "reason"],
        "Records that were not done and are redelivered, by reason: store, bus, outside, raced, behind, time or room.";
    ERRORS = Counter "triad_errors_total" in Count by ["handler", "port", "class"],
        "Calls of the store and of the bus that failed, by kind: transient, configuration or item, and for the bus also late.";
    CONFLICTS = Counter "triad_conflicts_total" in Count by [],
        "Conditional writes of records that lost a race to another process.";
    DEAD_LETTERS = Counter "triad_dead_letters_total" in Count by ["topic", "cause"],
        "Records that were dead-lettered, by the topic from which they came.";
    SWEEPS = Counter "triad_sweeps_total" in Count by ["result"],
        "Sweeps of the Supervisor: whole, truncated, or unread if a part of the due index could not be read.";
    SWEEP_DURATION = Histogram "triad_sweep_duration_seconds" in Seconds by [],
        "Duration of sweeps.";
    SWEEP_ORDERS = Gauge "triad_sweep_orders" in Count by [],
        "Due orders that the last sweep found.";
    OLDEST_DUE = Gauge "triad_oldest_due_seconds" in Seconds by [],
        "How long the most overdue order of the last sweep had been due; 0 if there was none.";
    BREAKER = Gauge "triad_breaker_open" in Count by ["agent"],
        "State of an agent's circuit breaker as this process knows it: 0 closed, 0.5 half open, 1 open.";
    BREAKER_OPENINGS = Counter "triad_breaker_openings_total" in Count by ["agent"],
        "Outages: times that an agent's circuit breaker has opened after it was closed, counted by the process that sends the alert.";
    MISCONFIGURED = Counter "triad_misconfigured_total" in Count by ["handler"],
        "Alerts of a handler that its work stops until the installation is repaired; at most one in ten minutes.";
    INVARIANT_BREACHES = Counter "triad_invariant_breaches_total" in Count by ["invariant"],
        "Invariants that did not hold, which is a fault of Triad.";
    DISK_FREE = Gauge "triad_disk_free_bytes" in Bytes by [],
        "What triad serve may still write on the disk of its data directory.";
    STORE_FILE = Gauge "triad_store_file_bytes" in Bytes by [],
        "Size of the file triad.sqlite of triad serve.";
    STORE_LOG = Gauge "triad_store_wal_bytes" in Bytes by [],
        "Size of the file triad.sqlite-wal, which grows while a backup or another reader needs what was there before.";
    WRITE_GROUPS_FAILED = Counter "triad_write_groups_failed_total" in Count by [],
        "Groups of writes that triad serve could not store, such as on a full disk; their callers were told.";
    LAST_BACKUP = Gauge "triad_last_backup_timestamp_seconds" in Seconds by [],
        "When the last good backup was made, in seconds since 1970, if backup is set; 0 if there is none.";
    BACKUPS_FAILED = Counter "triad_backups_failed_total" in Count by [],
        "Backups of triad serve that failed, or found a damaged record.";
}
