//! One offered load: how many of its orders complete, and how late.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Result;
use serde::{Deserialize, Serialize};

use super::super::load::Running;
use super::drive::{Driver, Plan};
use super::times::{Pace, percentile, rate};

/// High orders offered beside the load, per second.
const HIGH_PER_SECOND: f64 = 4.0;
/// A backlog that is gone within this time, in milliseconds, gives no rate: it consisted of orders under way.
const DRAIN_MS: u32 = 1_000;

/// The figures of one load, whose orders were offered at a constant rate.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Figures {
    scenario: String,
    /// The load as a multiple of the best rate.
    pub load: f64,
    /// Normal orders offered, per second of the load.
    pub offered_per_second: f64,
    /// Normal orders completed, per second, over the last three quarters of the load.
    pub goodput_per_second: f64,
    /// Normal orders completed, per second, in each tenth of the load; ten values.
    pub goodput_by_tenth: Vec<f64>,
    /// High orders, with the time from the moment at which each was due to its completion.
    pub high: Lane,
    /// Normal orders, with the time from the moment at which each was due to its completion.
    pub normal: Lane,
    /// Normal orders that were started, with the time from their start to their completion.
    pub started: Lane,
    /// Normal orders completed per second after the end of the load. `None` for a load below 1, and if the remaining
    /// orders completed in less than [`DRAIN_MS`].
    pub drained_per_second: Option<f64>,
    /// Number of failures reported. The key is `dead letter`, or a status with the fingerprint of its cause.
    pub wrong: BTreeMap<String, u32>,
    /// CPU seconds of the process for each 1,000 completed orders, all threads together.
    pub cpu_s: f64,
    /// Largest resident memory of the process, in MB of 1,024 KiB.
    pub peak_mb: f64,
    /// For how many seconds after the end of the load the orders were followed.
    pub followed_s: f64,
    /// Whether no failure was reported and, for a load below 1, every order completed.
    pub good: bool,
}

/// How many orders of one kind there were, and how long those that completed took.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Lane {
    /// How many orders there were.
    pub orders: usize,
    /// How many of them completed while they were followed.
    pub completed: usize,
    /// Median of the times of the completed orders, in milliseconds; `None` if none completed.
    pub p50_ms: Option<u32>,
    /// 99th percentile of the times of the completed orders, in milliseconds; `None` if none
    /// completed.
    pub p99_ms: Option<u32>,
}

impl Lane {
    fn of(orders: usize, took_ms: impl Iterator<Item = u32>) -> Self {
        let mut took: Vec<u32> = took_ms.collect();
        took.sort_unstable();
        Self {
            orders,
            completed: took.len(),
            p50_ms: percentile(&took, 50),
            p99_ms: percentile(&took, 99),
        }
    }

    /// How many orders had not completed when they were no longer followed.
    pub fn open(&self) -> usize {
        self.orders.saturating_sub(self.completed)
    }
}

/// Offers `load` times `best` normal orders per second for `seconds`, and 4 high orders per second
/// beside them, then follows them for at most `drain_seconds`. `name` is the name of the scenario
/// in the figures.
///
/// # Errors
/// If engines or handlers fail, or the broker refuses an order.
pub async fn measure(
    name: &str,
    (load, best): (f64, f64),
    seconds: u32,
    drain_seconds: u32,
) -> Result<Figures> {
    let mut running = Running::start(false).await?;
    let (normal, high) = (
        Pace::new(load * best, seconds),
        Pace::new(HIGH_PER_SECOND, seconds),
    );
    let plan = Plan::Paced {
        normal,
        high,
        load: Duration::from_secs(seconds.into()),
        drain: Duration::from_secs(drain_seconds.into()),
    };
    let driver = Driver::open(&running.engines, plan)?.drive().await?;
    running.stop_handlers().await?;
    let driver = driver.read_rest().await?;
    running.stop().await?;

    let (notes, end_ms) = (driver.notes, driver.followed_ms);
    let load_ms = seconds.saturating_mul(1000);
    let [high, normal] = [(&notes.high, high), (&notes.normal, normal)].map(|(lane, pace)| {
        Lane::of(
            lane.offered() as usize,
            lane.since_due_ms(|n| pace.at_ms(n)),
        )
    });
    let in_time = load >= 1.0 || high.open() + normal.open() == 0;
    let completed = high.completed + normal.completed;
    Ok(Figures {
        scenario: name.to_owned(),
        load,
        offered_per_second: f64::from(notes.normal.offered()) / f64::from(seconds),
        goodput_per_second: rate(notes.normal.completed(), load_ms / 4, load_ms),
        goodput_by_tenth: (0..10)
            .map(|n| (load_ms / 10 * n, load_ms / 10 * (n + 1)))
            .map(|(from, to)| rate(notes.normal.completed(), from, to))
            .collect(),
        high,
        normal,
        started: Lane::of(notes.normal.started().count(), notes.normal.in_hand_ms()),
        drained_per_second: (load >= 1.0 && end_ms >= load_ms.saturating_add(DRAIN_MS))
            .then(|| rate(notes.normal.completed(), load_ms, end_ms)),
        cpu_s: driver.cpu_s * 1000.0 / completed.max(1) as f64,
        peak_mb: driver.peak_mb,
        followed_s: f64::from(end_ms.saturating_sub(load_ms)) / 1000.0,
        good: notes.wrong.is_empty() && in_time,
        wrong: notes.wrong,
    })
}
