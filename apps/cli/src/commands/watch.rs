//! `triad watch`, and `triad submit --wait`: follow orders until they have finished.

use std::collections::{BTreeMap, BTreeSet};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use tokio::time::Instant;
use triad_core::{Order, OrderId, ProcessState};
use triad_operator::find;
use triad_operator::operations::{Form as _, GetOrder};
use triad_operator::timeline::timeline;
use triad_runtime::StateStore;
use triad_workflow::Millis;

use super::get::{next_lines, no_order};
use crate::connection::{Store, StoreArgs};
use crate::output::{moment, print_line, stream};

/// First and longest interval between two looks; each is half as long again as the one before.
const LOOK_EVERY: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(2));
/// Orders in one read.
const PAGE: usize = 100;

/// Show what happens to an order until it has finished
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  triad watch 10248
  triad watch 10248 --timeout 30s --json

Exit code 0 if the order is Processed, 1 if it ended in another way, has not finished in time or does
not exist.")]
pub struct WatchArgs {
    /// The order's id
    order: String,
    /// Longest wait
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = str::parse::<Millis>)]
    timeout: Millis,
    /// Print the order as JSON when it has finished, in place of lines
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    store: StoreArgs,
}

/// Runs `triad watch`. The exit code is 0 if the order is Processed, otherwise 1.
///
/// # Errors
/// [`Usage`] if the text is no order id; if the store fails or standard output does.
pub async fn run(args: WatchArgs) -> Result<ExitCode> {
    let place = args.store.place().await?;
    let until = Instant::now() + args.timeout.as_duration();
    let mut looks = Looks::default();
    let mut told = BTreeSet::new();
    let found = loop {
        let asked = GetOrder {
            id: args.order.clone(),
            inputs: false,
        };
        let Some(found) = place.find(asked).await? else {
            eprintln!("triad: {}", no_order(&args.order));
            return Ok(ExitCode::FAILURE);
        };
        if !args.json {
            let new = timeline(&found.order).into_iter();
            for entry in new.filter(|e| told.insert((e.at, e.what.clone()))) {
                println!("{}  {}", moment(entry.at), entry.what);
            }
        }
        let is_read = !stream::reader_is_gone();
        if found.order.state.is_finished() || !is_read || !looks.next(until).await {
            break found;
        }
    };
    if args.json {
        print_line(&found.form()?)?;
    } else {
        for line in next_lines(&found.order, &found.timing) {
            println!("{line}");
        }
    }
    Ok(code([&found.order.state]))
}

fn code<'a>(states: impl IntoIterator<Item = &'a ProcessState>) -> ExitCode {
    let processed = |state: &ProcessState| matches!(state, ProcessState::Processed { .. });
    match states.into_iter().all(processed) {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}

/// Paces the looks.
#[derive(Default)]
struct Looks(Option<Duration>);

impl Looks {
    /// Waits until the next look; false if there is none before `until`.
    async fn next(&mut self, until: Instant) -> bool {
        let (first, most) = LOOK_EVERY;
        let wait = self.0.map_or(first, |last| (last * 3 / 2).min(most));
        self.0 = Some(wait);
        let now = Instant::now();
        if now >= until {
            return false;
        }
        tokio::time::sleep(wait.min(until - now)).await;
        true
    }
}

/// Result of waiting for orders.
#[derive(Debug, Default)]
pub struct Waited {
    /// The orders that have finished, by id.
    pub finished: BTreeMap<OrderId, Order>,
    /// The orders that have not finished in time; an order that Submission has not stored is among them.
    pub unfinished: Vec<OrderId>,
}

impl Waited {
    /// The exit code: 0 if all are Processed.
    #[must_use]
    pub fn code(&self) -> ExitCode {
        match self.unfinished.is_empty() {
            true => code(self.finished.values().map(|order| &order.state)),
            false => ExitCode::FAILURE,
        }
    }
}

/// Waits until all of these orders have finished, at most for `patience`.
///
/// # Errors
/// If a record cannot be read, or the store fails.
pub async fn until_finished(
    store: &Store,
    orders: Vec<OrderId>,
    patience: Millis,
) -> Result<Waited> {
    let until = Instant::now() + patience.as_duration();
    let mut waited = Waited {
        unfinished: orders,
        ..Waited::default()
    };
    let mut looks = Looks::default();
    loop {
        let mut left = Vec::new();
        for page in waited.unfinished.chunks(PAGE) {
            let found = store.load(page.to_vec()).await;
            for (id, order) in page.iter().zip(found) {
                match order.map_err(|e| find::named(id, e))? {
                    Some(order) if order.state.is_finished() => {
                        waited.finished.insert(id.clone(), order);
                    }
                    Some(_) | None => left.push(id.clone()),
                }
            }
        }
        waited.unfinished = left;
        if waited.unfinished.is_empty() || !looks.next(until).await {
            return Ok(waited);
        }
    }
}
