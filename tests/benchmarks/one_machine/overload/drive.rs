//! Offers orders and reads their statuses on a separate thread, so that busy handlers delay neither.
//!
//! A latency counts from the time at which an order was due. An order that the benchmark sends late therefore counts
//! as late.

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

/// Interval between two checks of which orders are due.
const TICK: Duration = Duration::from_millis(5);
/// Limit: orders that share one wait for acknowledgement.
const CHUNK: u32 = 500;
/// Limit: chunks of a lane that wait for acknowledgement; beyond it no order is offered.
const UNACKNOWLEDGED: usize = 16;
/// Limit of the wait for the broker, and for the first high order.
const START_WITHIN: Duration = Duration::from_secs(10);
/// Longest time of a burst without a new status.
const STALLED: Duration = Duration::from_secs(60);
/// The status topic has been read to its end, after the handlers have ended, if no record comes for this time.
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
    /// until all have ended, or until 60 s pass without a status of any of them.
    Burst { orders: u32 },
}

impl Plan {
    /// The numbers of normal and of high orders that are due `elapsed` after the start.
    fn due(self, elapsed: Duration) -> [u32; 2] {
        match self {
            Self::Paced {
                normal, high, load, ..
            } if elapsed <= load => [normal.due(elapsed), high.due(elapsed)],
            // An order that could not be sent during the load is not sent after it.
            Self::Paced { .. } => [0, 0],
            Self::Burst { orders } => [orders, 0],
        }
    }
}

/// Offers the orders of one [`Plan`] and reads their statuses.
pub struct Driver {
    plan: Plan,
    bus: KafkaBus,
    statuses: Reader,
    /// What the statuses and dead letters report about the orders.
    pub notes: Notes,
    /// CPU seconds that the whole process used in [`drive`](Self::drive); 0 before it.
    pub cpu_s: f64,
    /// Largest resident memory of the process up to the end of [`drive`](Self::drive), in MB; 0 before it.
    pub peak_mb: f64,
    /// When the last order was given to the producer, in milliseconds since the first one was due.
    pub offered_ms: u32,
    /// When the benchmark stopped following the orders, in milliseconds since the first one was due.
    pub followed_ms: u32,
}

impl Driver {
    /// Creates a producer, and opens the topics `status` and `dead-letter` at their beginning.
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

    /// Waits until the consumers of the high lane have taken a first order. Then offers the orders of the plan and
    /// follows them, on a separate thread.
    ///
    /// # Errors
    /// If that first order is not taken within 10 s, the broker refuses an order, or `/proc` cannot be read.
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

    /// Reads the rest of the topics, until no record comes for 500 ms; to be called after the handlers have ended.
    /// Starts and completions after [`followed_ms`](Self::followed_ms) are then discarded.
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

    /// The messages of the lane's next orders, up to number `due`, at most [`CHUNK`].
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

/// Runs `work` on a new thread with its own runtime, and returns its result.
///
/// # Errors
/// Those of `work`, and if the thread cannot be started or panics.
pub async fn on_own_thread<T, F>(work: F, on: T) -> Result<T>
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
