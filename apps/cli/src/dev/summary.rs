//! Summary of a run, from the tables and the service's ledger.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Result;
use comfy_table::Table;
use comfy_table::presets::NOTHING;
use serde::Serialize;
use triad_core::{Failure, Order, OrderId, ProcessState};
use triad_runtime::StateStore;

use super::engines::Engines;
use super::follow::{OrderEnding, RunResult};

/// Records in one read.
const PAGE: usize = 100;

/// The figures of a run of `triad dev --orders`.
#[derive(Debug, Serialize)]
pub struct Summary {
    /// How many orders the file has, each id counted once.
    pub orders: usize,
    /// How many of them had ended before this run. They are not in the times and the throughput.
    pub ended_before: usize,
    /// Orders by the name of their process state. `Rejected`: orders in the dead-letter topic.
    pub states: BTreeMap<String, usize>,
    /// Orders with a final status but without a record. More than 0 is a defect of Triad.
    pub lost: usize,
    /// Seconds from the first submission to the last final status.
    pub seconds: f64,
    /// Orders that ended in this run, per second of it; 0 if it took no time.
    pub orders_per_second: f64,
    /// Time from the submission of an order to its final status.
    pub latency_ms: Latency,
    /// Calls that reached the reference service, those of earlier runs in its ledger included.
    pub calls: u64,
    /// How many of these calls repeated an earlier one of the same key.
    pub retries: u64,
    /// Effects that the service applied.
    pub effects: u64,
    /// Effects that the service reversed.
    pub compensated: u64,
    /// Keys or steps whose effect was applied more than once. More than 0 is a defect of Triad.
    pub applied_twice: u64,
    /// Failed attempts in the orders' timelines, and failed compensations that ended an order, by
    /// the fingerprint of their cause.
    pub failures: BTreeMap<String, usize>,
    /// The orders that did not end well, the most frequent cause first.
    pub ended_badly: Vec<Badly>,
}

/// Orders that did not end well, with the same cause.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Badly {
    /// The name of their process state; `Rejected` for orders in the dead-letter topic.
    pub state: String,
    /// The fingerprint of the cause.
    pub cause: String,
    /// How many orders.
    pub orders: usize,
    /// The id of one of them.
    pub example: String,
    /// The cause of this one, for people. Empty if there is nothing beyond the fingerprint.
    pub message: String,
}

/// The orders that did not end well, by state and cause.
#[derive(Debug, Default)]
struct Causes(BTreeMap<(String, String), Badly>);

impl Causes {
    fn note(&mut self, state: &str, cause: String, order: &str, message: &str) {
        let key = (state.to_owned(), cause.clone());
        let badly = self.0.entry(key).or_insert_with(|| Badly {
            state: state.to_owned(),
            cause,
            orders: 0,
            example: order.to_owned(),
            message: message.to_owned(),
        });
        badly.orders += 1;
    }

    fn note_end(&mut self, order: &Order) {
        let cause = match &order.state {
            ProcessState::Error { cause, .. }
            | ProcessState::Compensated { cause, .. }
            | ProcessState::CompensationFailed { cause, .. } => cause,
            ProcessState::Pending { .. }
            | ProcessState::Processing(_)
            | ProcessState::Processed { .. }
            | ProcessState::Compensating { .. } => return,
        };
        let (state, id) = (order.state.name(), order.id.as_str());
        self.note(state, cause.fingerprint(), id, &cause.message);
    }

    fn sorted(self) -> Vec<Badly> {
        let mut all: Vec<Badly> = self.0.into_values().collect();
        all.sort_by_key(|badly| std::cmp::Reverse(badly.orders));
        all
    }
}

/// Percentiles of times, in milliseconds; all 0 if there are no times.
#[derive(Debug, Serialize)]
pub struct Latency {
    /// Median: half of the times are not longer.
    pub p50: f64,
    /// 90th percentile: nine of ten times are not longer.
    pub p90: f64,
    /// 99th percentile: 99 of 100 times are not longer.
    pub p99: f64,
    /// The longest of the times.
    pub max: f64,
}

impl Summary {
    /// Reads the records of all orders, and the counts of the service's ledger.
    ///
    /// # Errors
    /// If the store fails, a record cannot be read, or the reference service has ended.
    pub async fn of(engines: &Engines, outcome: &RunResult) -> Result<Self> {
        let mut states: BTreeMap<String, usize> = BTreeMap::new();
        let mut failures: BTreeMap<String, usize> = BTreeMap::new();
        let mut causes = Causes::default();
        let mut lost = 0;
        let mut with_record = Vec::new();
        for (id, how) in &outcome.finished {
            let why = match (how, OrderId::new(id.as_str())) {
                (OrderEnding::With(_), Ok(id)) => {
                    with_record.push(id);
                    continue;
                }
                (OrderEnding::With(_), Err(_)) => "order-id",
                (OrderEnding::Rejected(why), _) => why,
            };
            *states.entry("Rejected".into()).or_default() += 1;
            causes.note("Rejected", why.to_owned(), id, "");
        }
        for page in with_record.chunks(PAGE) {
            for record in engines.wiring.store.load(page.to_vec()).await {
                match record? {
                    Some(order) => {
                        *states.entry(order.state.name().into()).or_default() += 1;
                        count_failures(&order, &mut failures);
                        causes.note_end(&order);
                    }
                    None => lost += 1,
                }
            }
        }
        let ledger = engines.service.summary().await?;
        let seconds = outcome.took.as_secs_f64();
        let done = outcome.ended_here;
        #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
        let per_second = if seconds > 0.0 {
            done as f64 / seconds
        } else {
            0.0
        };
        Ok(Self {
            orders: outcome.finished.len(),
            ended_before: outcome.finished.len().saturating_sub(done),
            states,
            lost,
            seconds,
            orders_per_second: per_second,
            latency_ms: Latency::of(&outcome.latencies),
            calls: ledger.total.calls,
            retries: ledger.total.calls.saturating_sub(ledger.keys),
            effects: ledger.total.applied,
            compensated: ledger.total.compensated,
            applied_twice: ledger.keys_applied_twice + ledger.steps_applied_twice,
            failures,
            ended_badly: causes.sorted(),
        })
    }

    /// Whether every order ended well, which is Processed, and no effect was applied twice.
    #[must_use]
    pub fn is_good(&self) -> bool {
        let processed = self.states.get("Processed").copied().unwrap_or(0);
        processed == self.orders && self.lost == 0 && self.applied_twice == 0
    }

    /// Prints the figures to standard output, as a table for a person.
    pub fn print(&self) {
        let mut table = Table::new();
        table.load_style(NOTHING);
        let mut row = |name: &str, value: String| {
            table.add_row([name.to_owned(), value]);
        };
        row("Orders", self.orders.to_string());
        for (state, count) in &self.states {
            row(&format!("  {state}"), count.to_string());
        }
        if self.lost > 0 {
            row("  LOST", self.lost.to_string());
        }
        if self.ended_before > 0 {
            row("  ended before this run", self.ended_before.to_string());
        }
        row("Time", format!("{:.2} s", self.seconds));
        row(
            "Throughput",
            format!("{:.0} orders/s", self.orders_per_second),
        );
        let l = &self.latency_ms;
        row(
            "Submit to finish",
            format!(
                "p50 {:.1} ms   p90 {:.1} ms   p99 {:.1} ms   max {:.1} ms",
                l.p50, l.p90, l.p99, l.max
            ),
        );
        // The ledger has no calls of the project's own services.
        if self.calls > 0 {
            row(
                "Calls",
                format!("{}   of which retries {}", self.calls, self.retries),
            );
            row(
                "Effects",
                format!("{} applied, {} compensated", self.effects, self.compensated),
            );
        }
        if self.applied_twice > 0 {
            row("APPLIED TWICE", self.applied_twice.to_string());
        }
        if !self.failures.is_empty() {
            row("Failed attempts by cause", String::new());
            for (cause, count) in &self.failures {
                row(&format!("  {cause}"), count.to_string());
            }
        }
        println!("{table}");
        if self.ended_badly.is_empty() {
            return;
        }
        println!("\nOrders that did not end well");
        for badly in &self.ended_badly {
            let Badly {
                state,
                cause,
                orders,
                example,
                message,
            } = badly;
            println!("  {orders} {state}: {cause}, such as {example}");
            if !message.is_empty() {
                println!("      {message}");
            }
        }
    }
}

fn count_failures(order: &Order, failures: &mut BTreeMap<String, usize>) {
    let attempts = order
        .incidents
        .iter()
        .filter(|i| i.attempt.is_some())
        .filter_map(|i| i.failure.as_ref());
    let end = match &order.state {
        ProcessState::CompensationFailed { cause, .. } => Some(cause),
        _ => None,
    };
    for failure in attempts.chain(end) {
        *failures.entry(Failure::fingerprint(failure)).or_default() += 1;
    }
}

impl Latency {
    /// The percentiles of these times; zeros if there are none.
    pub fn of(all: &[Duration]) -> Self {
        let mut sorted = all.to_vec();
        sorted.sort_unstable();
        let at = |percent: usize| {
            let place = (sorted.len() * percent / 100).min(sorted.len().saturating_sub(1));
            sorted.get(place).map_or(0.0, |d| d.as_secs_f64() * 1000.0)
        };
        Self {
            p50: at(50),
            p90: at(90),
            p99: at(99),
            max: at(100),
        }
    }
}
