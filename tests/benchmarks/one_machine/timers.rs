//! The timers scenario: many orders wait for the same moment, and new orders come all the time.
//!
//! New orders come at a constant rate from the first moment to the last. First nothing else runs; then the orders
//! that wait are submitted; then they wait; then their moment comes, and each of them has one call to make.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::time::{Duration, Instant, UNIX_EPOCH};

use anyhow::{Result, bail, ensure};
use comfy_table::Table;
use comfy_table::presets::NOTHING;
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::time::MissedTickBehavior;
use triad_core::message::StatusMessage;
use triad_core::status::Status;
use triad_core::{Envelope, Priority, topics};
use triad_kafka::{KafkaBus, Polled, Reader, ReaderStart};
use triad_runtime::Clock;
use triad_runtime::system::SystemClock;

use super::account::peak_mb;
use super::load::Running;
use super::overload::{on_own_thread, times::Pace};
use super::priority::{message, publish};
use crate::dev::engines::Engines;
use crate::dev::summary::Latency;

/// The workflow of the orders that wait. `carrier` is an agent of the new orders too.
pub const WORKFLOW: (&str, &str) = (
    "timers.yaml",
    "workflow: timers
steps:
  - id: pause
    wait: { until: \"${details.at}\" }
  - id: remind
    agent: carrier
    action: remind
    compensation: none
",
);
/// New orders a second.
const NEW_PER_SECOND: u32 = 50;
/// How long new orders run alone, and at least beside the orders that wait.
const QUIET: Duration = Duration::from_secs(20);
/// Least number of orders a second that can be submitted and parked; the moment for which they wait goes by it.
const PARKED_PER_SECOND: u32 = 1_500;
/// Interval between two checks of what is due.
const TICK: Duration = Duration::from_millis(5);
/// Orders that share one wait for acknowledgement, and how many such waits there are at once.
const CHUNK: u32 = 500;
const UNACKNOWLEDGED: usize = 4;
/// Limit of the time without any status.
const STALLED: Duration = Duration::from_secs(60);
/// Limit: how long new orders are offered. No run lasts longer.
const LONGEST: u32 = 3 * 3_600;

/// The figures of the scenario.
#[derive(Debug, Serialize, Deserialize)]
pub struct Figures {
    scenario: String,
    /// Orders that waited for the moment.
    timers: u32,
    /// Seconds from their moment until the last of them had ended.
    drain_s: f64,
    /// Of them, those that ended in each minute after the moment.
    by_minute: Vec<u32>,
    /// Latencies of the new orders, from when each was due to its end, by what happened beside them.
    rows: Vec<Row>,
    /// Largest resident memory of the process, in MB.
    peak_mb: f64,
    /// Whether every order of the scenario was processed.
    pub good: bool,
}

#[derive(Debug, Serialize, Deserialize)]
struct Row {
    beside: String,
    orders: usize,
    p50_ms: f64,
    p99_ms: f64,
    max_ms: f64,
}

/// What goes on beside the new orders.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    Alone,
    Parking,
    Waiting,
    Draining,
}

/// Makes `timers` orders wait for the same moment and follows them to their ends, new orders beside them. `name` is
/// the name of the scenario in the figures.
///
/// # Errors
/// If engines or handlers fail, the broker refuses an order, not all orders wait when their moment comes, or no order
/// ends for 60 s.
pub async fn measure(name: &str, timers: u32) -> Result<Figures> {
    let running = Running::start(true).await?;
    let run = Run::open(&running.engines, timers)?;
    let run = on_own_thread(
        async move |mut run: Run| {
            run.drive().await?;
            Ok(run)
        },
        run,
    )
    .await?;
    running.stop().await?;
    run.figures(name)
}

/// The run: what was offered, and what the statuses say of it.
struct Run {
    timers: u32,
    bus: KafkaBus,
    statuses: Reader,
    began: Instant,
    phase: Phase,
    /// When each new order was due, its phase, and its end.
    new: Vec<(Duration, Phase, Option<Duration>)>,
    parked: u32,
    drained: u32,
    /// When the orders' moment came.
    moment: Duration,
    by_minute: BTreeMap<u64, u32>,
    last_end: Duration,
    wrong: u32,
}

impl Run {
    fn open(engines: &Engines, timers: u32) -> Result<Self> {
        let kafka = &engines.wiring.config.kafka;
        Ok(Self {
            timers,
            bus: KafkaBus::new(kafka)?,
            statuses: Reader::open(kafka, &[topics::STATUS], ReaderStart::End, TICK * 2_000)?,
            began: Instant::now(),
            phase: Phase::Alone,
            new: Vec::new(),
            parked: 0,
            drained: 0,
            moment: Duration::ZERO,
            by_minute: BTreeMap::new(),
            last_end: Duration::ZERO,
            wrong: 0,
        })
    }

    async fn drive(&mut self) -> Result<()> {
        self.began = Instant::now();
        let pace = Pace::new(f64::from(NEW_PER_SECOND), LONGEST);
        let mut tick = tokio::time::interval(TICK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Skip);
        let mut sending = FuturesUnordered::new();
        let (mut submitted, mut at, mut news) = (0, String::new(), Instant::now());
        while self.phase != Phase::Draining || self.drained < self.timers || !self.all_new_ended() {
            let elapsed = self.began.elapsed();
            if self.phase == Phase::Alone && elapsed >= QUIET {
                self.phase = Phase::Parking;
                let parking = Duration::from_secs((self.timers / PARKED_PER_SECOND).into());
                self.moment = elapsed + parking + QUIET * 2;
                at = moment_in(self.moment - elapsed);
            }
            if self.phase == Phase::Parking && self.parked == self.timers {
                ensure!(
                    elapsed + QUIET < self.moment,
                    "the machine parks fewer than {PARKED_PER_SECOND} orders a second"
                );
                eprintln!("all wait after {:.0} s", (elapsed - QUIET).as_secs_f64());
                self.phase = Phase::Waiting;
            }
            if self.phase != Phase::Alone && self.phase != Phase::Draining && elapsed > self.moment
            {
                ensure!(
                    self.phase == Phase::Waiting,
                    "not all orders wait at their moment"
                );
                self.phase = Phase::Draining;
            }
            if self.drained < self.timers {
                let due = pace.due(elapsed);
                let first = self.new.len() as u32;
                let orders: Vec<Envelope> = (first..due)
                    .map(|n| {
                        let due = Duration::from_millis(pace.at_ms(n).into());
                        self.new.push((due, self.phase, None));
                        message(Priority::Normal, "new", n).1
                    })
                    .collect();
                if !orders.is_empty() {
                    let bus = self.bus.clone();
                    sending.push(Box::pin(async move { publish(&bus, orders).await }) as Sending);
                }
            }
            while self.phase == Phase::Parking
                && submitted < self.timers
                && sending.len() < UNACKNOWLEDGED
            {
                let until = (submitted + CHUNK).min(self.timers);
                let orders = (submitted..until).map(|n| timer(n, &at)).collect();
                submitted = until;
                let bus = self.bus.clone();
                sending.push(Box::pin(async move { publish(&bus, orders).await }));
            }
            tokio::select! {
                _ = tick.tick() => {}
                Some(sent) = sending.next() => sent?,
                read = self.statuses.next(TICK) => if let Polled::Record(record) = read {
                    self.take(record.value.as_deref());
                    news = Instant::now();
                },
            }
            if news.elapsed() > STALLED {
                bail!(
                    "no order has ended for {STALLED:?}: {} of {}",
                    self.drained,
                    self.timers
                );
            }
        }
        Ok(())
    }

    fn all_new_ended(&self) -> bool {
        self.new.iter().all(|(_, _, end)| end.is_some())
    }

    /// Notes a record of the topic `status`.
    fn take(&mut self, value: Option<&[u8]>) {
        let now = self.began.elapsed();
        let Ok(message) = serde_json::from_slice::<StatusMessage>(value.unwrap_or_default()) else {
            return;
        };
        let id = message.order_id.as_str();
        let (is_timer, n) = match id.split_once('-') {
            Some(("timer", _)) => (true, 0),
            Some(("new", n)) => (false, n.parse().unwrap_or(usize::MAX)),
            _ => return,
        };
        match message.status {
            Status::Started if is_timer => self.parked += 1,
            Status::Completed if is_timer => {
                self.drained += 1;
                let minute = now.saturating_sub(self.moment).as_secs() / 60;
                *self.by_minute.entry(minute).or_default() += 1;
                self.last_end = now;
            }
            Status::Completed => {
                if let Some((_, _, end)) = self.new.get_mut(n) {
                    end.get_or_insert(now);
                }
            }
            Status::Received | Status::Started | Status::StepCompleted => {}
            _ => self.wrong += 1,
        }
    }

    fn figures(&self, name: &str) -> Result<Figures> {
        let phases = [
            (Phase::Alone, "nothing"),
            (Phase::Parking, "orders that begin to wait"),
            (Phase::Waiting, "orders that wait"),
            (Phase::Draining, "orders whose moment has come"),
        ];
        let rows = phases.map(|(phase, beside)| {
            let of = self.new.iter().filter(|(_, p, _)| *p == phase);
            let took: Vec<Duration> = of
                .filter_map(|(due, _, end)| Some(end.as_ref()?.saturating_sub(*due)))
                .collect();
            let latency = Latency::of(&took);
            Row {
                beside: beside.to_owned(),
                orders: took.len(),
                p50_ms: latency.p50,
                p99_ms: latency.p99,
                max_ms: latency.max,
            }
        });
        Ok(Figures {
            scenario: name.to_owned(),
            timers: self.timers,
            drain_s: self.last_end.saturating_sub(self.moment).as_secs_f64(),
            by_minute: self.by_minute.values().copied().collect(),
            rows: rows.into(),
            peak_mb: peak_mb()?,
            good: self.wrong == 0 && self.all_new_ended() && self.drained == self.timers,
        })
    }
}

type Sending = Pin<Box<dyn Future<Output = Result<()>>>>;

/// The moment after this time, as an order writes it.
fn moment_in(wait: Duration) -> String {
    let now = Duration::from_millis(SystemClock.now().0);
    humantime::format_rfc3339_millis(UNIX_EPOCH + now + wait).to_string()
}

/// The message that submits order number `n` of those that wait until `at`.
fn timer(n: u32, at: &str) -> Envelope {
    let id = format!("timer-{n}");
    let order = json!({"order_id": id, "workflow": "timers", "details": {"at": at}});
    Envelope {
        topic: topics::orders(Priority::Normal).to_owned(),
        key: Some(id.into_bytes()),
        value: order.to_string().into_bytes(),
        headers: Vec::new(),
        trace: None,
    }
}

/// Prints the figures to standard output, as a table.
pub fn print(figures: &Figures) {
    let per_second = f64::from(figures.timers) / figures.drain_s;
    println!(
        "{} orders that wait for one moment: all ended {:.1} s after it, {per_second:.0} a second; {:.0} MB.
In each minute: {:?}. New orders, {NEW_PER_SECOND} a second, submit to finish:\n",
        figures.timers, figures.drain_s, figures.peak_mb, figures.by_minute
    );
    let mut table = Table::new();
    table
        .load_style(NOTHING)
        .set_header(["Beside", "number", "p50 ms", "p99 ms", "max ms"]);
    for row in &figures.rows {
        table.add_row([
            row.beside.clone(),
            row.orders.to_string(),
            format!("{:.1}", row.p50_ms),
            format!("{:.1}", row.p99_ms),
            format!("{:.1}", row.max_ms),
        ]);
    }
    println!("{table}");
}
