//! The priority scenario: the effect of a flood of normal orders on high orders.
//!
//! First, high orders run alone, one every [`EVERY`]. Then all orders of the flood are submitted as fast as the
//! broker accepts them, and until the last of them ends, one high and one normal order are submitted every [`EVERY`].
//! Only the lane makes their latencies differ.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use comfy_table::Table;
use comfy_table::presets::NOTHING;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use triad_core::message::StatusMessage;
use triad_core::status::Status;
use triad_core::{Envelope, Priority, topics};
use triad_kafka::{Polled, Reader, ReaderStart};
use triad_runtime::Bus;

use super::load::{Running, order};
use crate::dev::engines::Engines;
use crate::dev::summary::Latency;

/// Interval between two orders beside the flood.
const EVERY: Duration = Duration::from_millis(50);
/// Number of high orders that run alone.
const ALONE: u32 = 200;
/// Orders of the flood that share one wait for acknowledgement.
const CHUNK: u32 = 500;
/// Limit of the time without any order ending.
const STALLED: Duration = Duration::from_secs(60);

/// The figures of the scenario: latencies of high and normal orders during a flood of normal ones.
#[derive(Debug, Serialize, Deserialize)]
pub struct Figures {
    scenario: String,
    /// Normal orders of the flood.
    flood: u32,
    /// Seconds from the flood's first submission to its last end.
    flood_s: f64,
    /// Latencies from submission to end, by kind of order.
    rows: Vec<Row>,
    /// Whether every order of the scenario was processed.
    pub good: bool,
}

#[derive(Debug, Serialize, Deserialize)]
struct Row {
    what: String,
    orders: usize,
    p50_ms: f64,
    p99_ms: f64,
    max_ms: f64,
}

/// Runs 200 high orders alone, then a flood of `flood` normal orders, with one high and one normal
/// order beside it every 50 ms. `name` is the name of the scenario in the figures.
///
/// # Errors
/// If engines or handlers fail, the broker refuses an order, or no order ends for 60 s.
pub async fn measure(name: &str, flood: u32) -> Result<Figures> {
    let running = Running::start(false).await?;
    let bus = running.engines.wiring.bus.clone();
    let ends = Ends::follow(&running.engines)?;
    // A first order: when it has ended, the consumers of the high lane have joined.
    Sent::default()
        .submit(&bus, Priority::High, "first", 0)
        .await?;
    ends.wait_for(1).await?;

    let mut alone = Sent::default();
    for n in 0..ALONE {
        let began = Instant::now();
        alone.submit(&bus, Priority::High, "alone", n).await?;
        ends.wait_for(n as usize + 2).await?;
        tokio::time::sleep(EVERY.saturating_sub(began.elapsed())).await;
    }

    let began = Instant::now();
    let mut tick = tokio::time::interval(EVERY);
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let (mut high, mut normal) = (Sent::default(), Sent::default());
    let mut flooding = tokio::spawn(submit_flood(bus.clone(), flood));
    let mut flooded = None;
    let mut n = 0;
    while flooded.is_none() || ends.count("flood-") < flood as usize {
        tokio::select! {
            done = &mut flooding, if flooded.is_none() => flooded = Some(done??),
            _ = tick.tick() => {
                high.submit(&bus, Priority::High, "high", n).await?;
                normal.submit(&bus, Priority::Normal, "normal", n).await?;
                n += 1;
            }
        }
        ends.check()?;
    }
    let flooded = flooded.unwrap_or_default();
    ends.wait_for((1 + ALONE + flood + 2 * n) as usize).await?;
    let ended = ends.stop().await;
    running.stop().await?;

    let last = flooded.0.keys().filter_map(|id| ended.get(id));
    let last = last.map(|(at, _)| *at).max().unwrap_or(began);
    Ok(Figures {
        scenario: name.to_owned(),
        flood,
        flood_s: last.duration_since(began).as_secs_f64(),
        rows: vec![
            alone.row("high, nothing else running", &ended),
            high.row("high, during the flood", &ended),
            normal.row("normal, sent at the same moments", &ended),
            flooded.row("the flood itself", &ended),
        ],
        good: ended.values().all(|(_, s)| *s == Status::Completed),
    })
}

/// The time at which each order was submitted, by id.
#[derive(Default)]
struct Sent(HashMap<String, Instant>);

impl Sent {
    async fn submit(
        &mut self,
        bus: &impl Bus,
        priority: Priority,
        prefix: &str,
        n: u32,
    ) -> Result<()> {
        let (id, message) = message(priority, prefix, n);
        self.0.insert(id, Instant::now());
        publish(bus, vec![message]).await
    }

    fn row(&self, what: &str, ended: &Ended) -> Row {
        let took: Vec<Duration> = self
            .0
            .iter()
            .filter_map(|(id, since)| Some(ended.get(id)?.0.duration_since(*since)))
            .collect();
        let latency = Latency::of(&took);
        Row {
            what: what.to_owned(),
            orders: took.len(),
            p50_ms: latency.p50,
            p99_ms: latency.p99,
            max_ms: latency.max,
        }
    }
}

/// Order number `n` of the benchmark, for the lane of this priority: its id, `<prefix>-<n>`, and
/// the message that submits it.
pub fn message(priority: Priority, prefix: &str, n: u32) -> (String, Envelope) {
    let (id, value) = order(prefix, n);
    let message = Envelope {
        topic: topics::orders(priority).to_owned(),
        key: Some(id.as_bytes().to_vec()),
        value,
        headers: Vec::new(),
        trace: None,
    };
    (id, message)
}

/// Sends messages that submit orders, and waits until the broker has acknowledged or refused each.
///
/// # Errors
/// For the first message that the broker refuses.
pub async fn publish(bus: &impl Bus, messages: Vec<Envelope>) -> Result<()> {
    for result in bus.publish(messages).await {
        result.context("an order could not be submitted")?;
    }
    Ok(())
}

/// Submits the flood; returns the time at which each of its orders was given to the producer.
async fn submit_flood(bus: impl Bus, flood: u32) -> Result<Sent> {
    let mut since = HashMap::with_capacity(flood as usize);
    let mut next = 0;
    while next < flood {
        let until = (next + CHUNK).min(flood);
        let now = Instant::now();
        let mut messages = Vec::with_capacity(CHUNK as usize);
        for n in next..until {
            let (id, message) = message(Priority::Normal, "flood", n);
            since.insert(id, now);
            messages.push(message);
        }
        publish(&bus, messages).await?;
        next = until;
    }
    Ok(Sent(since))
}

type Ended = HashMap<String, (Instant, Status)>;

/// Records when each order ends, in a separate task, so that submissions do not delay it.
struct Ends {
    ended: watch::Receiver<Ended>,
    stop: tokio_util::sync::DropGuard,
    task: tokio::task::JoinHandle<()>,
}

impl Ends {
    fn follow(engines: &Engines) -> Result<Self> {
        let reader = Reader::open(
            &engines.wiring.config.kafka,
            &[topics::STATUS],
            ReaderStart::End,
            Duration::from_secs(10),
        )?;
        let (note, ended) = watch::channel(Ended::new());
        let stop = tokio_util::sync::CancellationToken::new();
        let task = tokio::spawn({
            let stop = stop.clone();
            async move {
                while !stop.is_cancelled() {
                    if let Polled::Record(record) = reader.next(EVERY).await
                        && let Some((id, status)) = end_of(record.value.as_deref())
                    {
                        let at = Instant::now();
                        note.send_modify(|ended| {
                            ended.entry(id).or_insert((at, status));
                        });
                    }
                }
            }
        });
        Ok(Self {
            ended,
            stop: stop.drop_guard(),
            task,
        })
    }

    /// Number of ended orders whose ids have this prefix.
    fn count(&self, prefix: &str) -> usize {
        let ended = self.ended.borrow();
        ended.keys().filter(|id| id.starts_with(prefix)).count()
    }

    /// Fails if no order has ended for [`STALLED`].
    fn check(&self) -> Result<()> {
        let last = self.ended.borrow().values().map(|(at, _)| *at).max();
        match last {
            Some(at) if at.elapsed() > STALLED => bail!("no order has ended for {STALLED:?}"),
            _ => Ok(()),
        }
    }

    /// Waits until `count` orders have ended.
    async fn wait_for(&self, count: usize) -> Result<()> {
        let mut ended = self.ended.clone();
        let enough = ended.wait_for(|ended| ended.len() >= count);
        tokio::time::timeout(STALLED, enough)
            .await
            .with_context(|| format!("{count} orders have not ended in {STALLED:?}"))??;
        Ok(())
    }

    async fn stop(self) -> Ended {
        drop(self.stop);
        let _ = self.task.await;
        self.ended.borrow().clone()
    }
}

fn end_of(value: Option<&[u8]>) -> Option<(String, Status)> {
    let message: StatusMessage = serde_json::from_slice(value?).ok()?;
    let ended = matches!(
        message.status,
        Status::Completed | Status::Compensated | Status::CompensationFailed | Status::Failed
    );
    ended.then(|| (message.order_id.to_string(), message.status))
}

/// Prints the figures to standard output, as a table.
pub fn print(figures: &Figures) {
    println!(
        "A flood of {} normal orders, through in {:.1} s. Submit to finish:\n",
        figures.flood, figures.flood_s
    );
    let mut table = Table::new();
    table
        .load_style(NOTHING)
        .set_header(["Orders", "number", "p50 ms", "p99 ms", "max ms"]);
    for row in &figures.rows {
        table.add_row([
            row.what.clone(),
            row.orders.to_string(),
            format!("{:.1}", row.p50_ms),
            format!("{:.1}", row.p99_ms),
            format!("{:.1}", row.max_ms),
        ]);
    }
    println!("{table}");
}
