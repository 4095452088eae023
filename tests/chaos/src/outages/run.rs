//! Carries out the outages, one after the other.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, interval, sleep};
use tokio_util::sync::CancellationToken;

use super::follow::{Ends, end_of, follow};
use super::plan::{AFTER, Outage, WITHIN, WORKFLOWS, faults, order};
use super::report::Report;
use super::verdict::verdicts;
use crate::collect::collect;
use crate::installation::Installation;
use crate::judge_verdicts;
use crate::options::Options;
use crate::progress_lines::print_progress;
use crate::quiet::wait_until_quiet;
use crate::submit::submit;
use crate::watch::Sightings;

/// Interval between two checks of whether the orders have ended.
const LOOK: Duration = Duration::from_millis(50);
/// Interval between two parts of the load.
const PART: Duration = Duration::from_secs(1);

/// Times of an order.
#[derive(Debug, Clone)]
pub struct OrderTimes {
    /// The order's id.
    pub id: String,
    /// When the broker had acknowledged the order.
    pub sent: Instant,
    /// When the status of its end was read.
    pub ended: Option<Instant>,
}

impl OrderTimes {
    /// Time from `from` to the order's end.
    #[must_use]
    pub fn took(&self, from: Instant) -> Option<Duration> {
        self.ended
            .map(|ended| ended.saturating_duration_since(from))
    }
}

/// What was recorded of an outage.
#[derive(Debug, Clone)]
pub struct Lasted {
    /// The outage.
    pub outage: Outage,
    /// How long it lasted.
    pub span: Duration,
    /// When it ended.
    pub over: Instant,
    /// The orders that did not need the failed part, sent while it lasted.
    pub free: Vec<OrderTimes>,
    /// The orders that needed it.
    pub held: Vec<OrderTimes>,
    /// How many of those had not ended at the outage's end.
    pub waiting: usize,
    /// How often the store denied access.
    pub denied: u64,
}

/// Starts an installation without kills, and carries out every outage on it, each for `span`.
///
/// # Errors
/// If the run failed.
pub async fn run(options: &Options, span: Duration, bin: &Path, dir: &Path) -> Result<Report> {
    let began = Instant::now();
    let yaml = WORKFLOWS.map(|(_, yaml)| yaml);
    let installation = Installation::start(options, &yaml, bin, dir, faults(None)).await?;
    let installation = Arc::new(installation);
    let result = on(options, span, &installation, began).await;
    installation.stop().await;
    result
}

async fn on(
    options: &Options,
    span: Duration,
    installation: &Installation,
    began: Instant,
) -> Result<Report> {
    let ends = Ends::default();
    let stop = CancellationToken::new();
    let mut following = JoinSet::new();
    let brokers = installation.places.brokers.clone();
    following.spawn(follow(brokers, ends.clone(), stop.clone()));
    let outages = match options.only.as_slice() {
        [] => &Outage::ALL[..],
        some => some,
    };
    let each = (options.orders as usize).div_ceil(outages.len());
    let mut lasted = Vec::with_capacity(outages.len());
    for outage in outages.iter().copied() {
        lasted.push(run_outage(outage, span, each, installation, &ends).await?);
    }
    print_progress("no more outages: waiting until everything has finished");
    let resolved = wait_until_quiet(installation, options.quiet_within).await?;
    stop.cancel();
    following
        .join_next()
        .await
        .context("somebody followed")???;
    let died = installation.dead().await;
    print_progress("reading tables, topics and ledger");
    let evidence = collect(installation, Vec::new(), Sightings::default(), resolved).await?;
    let judged = judge_verdicts::of_run(installation, &evidence).await?;
    let mut all = verdicts(&lasted, &evidence, died);
    all.extend(judge_verdicts::verdicts(&judged));
    Ok(Report::new(options, &lasted, all, judged, began.elapsed()))
}

/// Carries out one outage. While it lasts, orders of both kinds are sent; it ends when the orders that do not need
/// the failed part have ended.
async fn run_outage(
    outage: Outage,
    span: Duration,
    each: usize,
    installation: &Installation,
    ends: &Ends,
) -> Result<Lasted> {
    print_progress(&format!("{} for {span:?}", outage.name()));
    let denied = installation.endpoint.lock().await.denied();
    set(outage, true, installation).await?;
    let since = Instant::now();
    let parts = usize::try_from(span.as_secs()).unwrap_or(1).max(1);
    let (mut free, mut held) = (Vec::new(), Vec::new());
    let mut pace = interval(PART);
    for part in 0..parts {
        pace.tick().await;
        // How many orders of each kind must be sent by now: one that needs the failed part for every three that do
        // not.
        let until = each * (part + 1) / parts;
        let names = [
            (outage.not_needed_by(), until),
            (Some(outage.needed_by()), until / 3),
        ];
        for ((workflow, until), into) in names.into_iter().zip([&mut free, &mut held]) {
            let Some(workflow) = workflow else { continue };
            let load: Vec<_> = (into.len()..until)
                .map(|number| order(outage, workflow, number))
                .collect();
            let ids: Vec<_> = load.iter().filter_map(|s| s.order.clone()).collect();
            // A dummy counter: submission here does not wait for orders to end.
            let (_count, ended) = watch::channel(0);
            submit(&installation.places.brokers, load, usize::MAX, ended).await?;
            let sent = Instant::now();
            into.extend(ids.into_iter().map(|id| OrderTimes {
                id,
                sent,
                ended: None,
            }));
        }
    }
    wait(&mut free, ends, Instant::now() + WITHIN).await;
    sleep(span.saturating_sub(since.elapsed())).await;
    let waiting = held
        .iter()
        .filter(|o| end_of(ends, &o.id).is_none())
        .count();
    set(outage, false, installation).await?;
    let over = Instant::now();
    let denied = installation.endpoint.lock().await.denied() - denied;
    print_progress(&format!("it is over: {waiting} orders wait for it"));
    wait(&mut held, ends, over + AFTER).await;
    Ok(Lasted {
        outage,
        span: over - since,
        over,
        free,
        held,
        waiting,
        denied,
    })
}

/// Begins or ends an outage.
async fn set(outage: Outage, is_out: bool, installation: &Installation) -> Result<()> {
    match outage {
        Outage::Alerts | Outage::Requests => {
            let topic = outage.topic().context("a topic")?;
            installation.refuse(&topic, is_out)
        }
        Outage::Service => {
            installation
                .set_faults(faults(is_out.then_some(outage)))
                .await
        }
        Outage::Store => {
            installation.endpoint.lock().await.deny(is_out);
            Ok(())
        }
    }
}

/// Waits until all orders have ended, or until the time `until`; records the ends.
async fn wait(orders: &mut [OrderTimes], ends: &Ends, until: Instant) {
    loop {
        for order in orders.iter_mut() {
            order.ended = order.ended.or_else(|| end_of(ends, &order.id));
        }
        let are_done = orders.iter().all(|o| o.ended.is_some());
        if are_done || Instant::now() > until {
            return;
        }
        sleep(LOOK).await;
    }
}
