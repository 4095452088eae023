//! Offers orders and follows their statuses, on a thread of its own, so that busy handlers delay
//! neither the one nor the other.
//!
//! A latency counts from the moment an order was due, not from when it was sent: an order that
//! the benchmark itself sends late is late.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use tokio::time::MissedTickBehavior;
use triad_core::{Envelope, Priority, topics};
use triad_kafka::{KafkaBus, Polled, Reader, ReaderStart};
use triad_runtime::Clock;
use triad_runtime::system::SystemClock;

use super::super::account::{CpuTime, peak_mb};
use super::super::priority::{message, publish};
use super::notes::{Notes, prefix};
use super::times::Pace;
use crate::dev::engines::Engines;

/// Between two looks at what is due.
const TICK: Duration = Duration::from_millis(5);
/// Bound: orders sent under one acknowledgement.
const CHUNK: u32 = 500;
/// Bound: chunks of a lane that wait for their acknowledgement; then offering waits.
const UNACKNOWLEDGED: usize = 16;
/// Bound: longest wait for the broker, and for the first high order.
const START_WITHIN: Duration = Duration::from_secs(10);
/// Bound: longest time of a burst without anything new of any order.
const STALLED: Duration = Duration::from_secs(60);
/// After the handlers have ended, the status topic is at its end when nothing comes for so long.
const QUIET: Duration = Duration::from_millis(500);
/// Id of the order that shows that the high lane's consumers have joined.
const FIRST: &str = "first";

/// Which orders are offered, and for how long they are followed.
#[derive(Debug, Clone, Copy)]
pub enum Plan {
    /// Orders are offered at an even pace. They are followed until all have ended, but for at most
    /// `drain` after the end of the load.
    Paced {
        /// When each normal order is offered.
        normal: Pace,
        /// When each high order is offered.
        high: Pace,
        /// How long orders are offered.
        load: Duration,
        /// How long orders are followed after that, at most.
        drain: Duration,
    },
    /// This many normal orders are offered as fast as the broker takes them. They are followed
    /// until all have ended, or until nothing has been heard of any of them for 60 s.
    Burst { orders: u32 },
}

impl Plan {
    /// Normal and high orders that are due after so long.
    fn due(self, elapsed: Duration) -> [u32; 2] {
        match self {
            Self::Paced {
                normal, high, load, ..
            } if elapsed <= load => [normal.due(elapsed), high.due(elapsed)],
            // What the broker did not take in time is not offered after the load.
            Self::Paced { .. } => [0, 0],
            Self::Burst { orders } => [orders, 0],
        }
    }
}

/// Offers the orders of one [`Plan`] and reads what is said of them.
pub struct Driver {
    plan: Plan,
    bus: KafkaBus,
    statuses: Reader,
    /// What statuses and dead letters have said of the orders.
    pub notes: Notes,
    /// CPU seconds that the whole process used in [`drive`](Self::drive); 0 before.
    pub cpu_s: f64,
    /// Largest resident memory of the process up to the end of [`drive`](Self::drive), in MB; 0
    /// before.
    pub peak_mb: f64,
    /// When the last order was handed to the producer, in milliseconds since the first was due.
    pub offered_ms: u32,
    /// When the orders were no longer followed, in milliseconds since the first was due.
    pub followed_ms: u32,
}

impl Driver {
    /// Makes a producer of its own, and opens the topics `status` and `dead-letter` from their
    /// beginning.
    ///
    /// # Errors
    /// If librdkafka refuses the settings, or the broker does not answer within 10 s.
    pub fn open(engines: &Engines, plan: Plan) -> Result<Self> {
        let kafka = &engines.wiring.config.kafka;
        let followed = [topics::STATUS, topics::DEAD_LETTER];
        Ok(Self {
            plan,
            bus: KafkaBus::new(kafka)?,
            statuses: Reader::open(kafka, &followed, ReaderStart::Beginning, START_WITHIN)?,
            notes: Notes::since(SystemClock.now()),
            cpu_s: 0.0,
            peak_mb: 0.0,
            offered_ms: 0,
            followed_ms: 0,
        })
    }

    /// Waits until the high lane's consumers have taken a first order, then offers the orders of
    /// the plan and follows them, on a thread of its own.
    ///
    /// # Errors
    /// If that first order is not taken within 10 s, the broker refuses an order, or `/proc` cannot
    /// be read.
    pub async fn drive(self) -> Result<Self> {
        on_own_thread(
            async move |mut driver: Self| {
                driver.high_lane_is_ready().await?;
                driver.run().await?;
                Ok(driver)
            },
            self,
        )
        .await
    }

    /// Notes what else is in the topics, until nothing comes for 500 ms; call it after the handlers
    /// have ended. Starts and completions after [`followed_ms`](Self::followed_ms) are then
    /// forgotten.
    ///
    /// # Errors
    /// If its thread cannot be started or panics.
    pub async fn read_rest(self) -> Result<Self> {
        on_own_thread(
            async move |mut driver: Self| {
                while let Polled::Record(record) = driver.statuses.next(QUIET).await {
                    driver.notes.take(&record);
                }
                driver.notes.forget_after(driver.followed_ms);
                Ok(driver)
            },
            self,
        )
        .await
    }

    async fn high_lane_is_ready(&mut self) -> Result<()> {
        let (_, first) = message(Priority::High, FIRST, 0);
        publish(&self.bus, vec![first]).await?;
        let since = Instant::now();
        while since.elapsed() < START_WITHIN {
            if let Polled::Record(record) = self.statuses.next(QUIET).await
                && record
                    .key
                    .is_some_and(|key| key.starts_with(FIRST.as_bytes()))
            {
                return Ok(());
            }
        }
        bail!("the first high order was not taken in {START_WITHIN:?}")
    }

    async fn run(&mut self) -> Result<()> {
        let before = CpuTime::now()?;
        self.notes = Notes::since(SystemClock.now());
        let began = Instant::now();
        let mut news = began;
        let mut tick = tokio::time::interval(TICK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Skip);
        let mut sending = [FuturesUnordered::new(), FuturesUnordered::new()];
        loop {
            let due = self.plan.due(began.elapsed());
            let [normal, high] = &mut sending;
            for (priority, due, sending) in [
                (Priority::High, due[1], &mut *high),
                (Priority::Normal, due[0], &mut *normal),
            ] {
                while sending.len() < UNACKNOWLEDGED {
                    let chunk = self.offer(priority, due);
                    if chunk.is_empty() {
                        break;
                    }
                    let bus = self.bus.clone();
                    sending.push(async move { publish(&bus, chunk).await });
                    self.offered_ms = self.notes.elapsed_ms(SystemClock.now());
                }
            }
            if self.is_over(began.elapsed(), news.elapsed()) {
                break;
            }
            tokio::select! {
                _ = tick.tick() => {}
                Some(sent) = high.next() => sent?,
                Some(sent) = normal.next() => sent?,
                read = self.statuses.next(TICK) => if let Polled::Record(record) = read
                    && self.notes.take(&record)
                {
                    news = Instant::now();
                },
            }
        }
        self.followed_ms = self.notes.elapsed_ms(SystemClock.now());
        self.cpu_s = CpuTime::now()?.since(&before).values().sum();
        self.peak_mb = peak_mb()?;
        Ok(())
    }

    /// The next orders of a lane, up to number `due`; at most [`CHUNK`].
    fn offer(&mut self, priority: Priority, due: u32) -> Vec<Envelope> {
        let lane = match priority {
            Priority::High => &mut self.notes.high,
            Priority::Normal => &mut self.notes.normal,
        };
        let first = lane.offered();
        (first..due.min(first.saturating_add(CHUNK)))
            .map(|n| {
                lane.offer();
                message(priority, prefix(priority), n).1
            })
            .collect()
    }

    fn is_over(&self, elapsed: Duration, without_news: Duration) -> bool {
        let all_ended = self.notes.normal.all_ended() && self.notes.high.all_ended();
        match self.plan {
            Plan::Paced { load, drain, .. } => {
                elapsed > load && (all_ended || elapsed > load + drain)
            }
            Plan::Burst { orders } => {
                (all_ended && self.notes.normal.offered() == orders) || without_news > STALLED
            }
        }
    }
}

/// Runs it on a thread and a runtime of its own, and gives back what it worked on.
async fn on_own_thread<T, F>(work: F, on: T) -> Result<T>
where
    T: Send + 'static,
    F: AsyncFnOnce(T) -> Result<T> + Send + 'static,
{
    let work = move || {
        tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?
            .block_on(work(on))
    };
    tokio::task::spawn_blocking(work)
        .await
        .context("the benchmark's own thread panicked")?
}
