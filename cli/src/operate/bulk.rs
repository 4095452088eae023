//! Acting on many orders: a dry run, a rate, visible progress, a result line for each.

use std::future::Future;
use std::io::IsTerminal;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;
use triad_core::OrderId;

use super::Store;
use super::select::{self, Filter};
use crate::output::{Usage, print_line};

/// Which orders, and how fast.
#[derive(Debug, Clone, Args)]
pub struct BulkArgs {
    /// Orders
    #[arg(value_name = "ORDER")]
    pub orders: Vec<String>,
    #[command(flatten)]
    pub filter: Filter,
    /// Most orders that a filter takes
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    pub limit: usize,
    /// Orders a second
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub rate: u32,
    /// Show what would be done, and do nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Act on what a filter finds; without it a filter only shows what it finds
    #[arg(long)]
    pub yes: bool,
    /// Print a JSON line for each order
    #[arg(long)]
    pub json: bool,
}

/// What came of one order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Line {
    /// It is done; what it is now.
    Done(String),
    /// It cannot be done.
    Refused(String),
    /// It failed; trying again is safe.
    Failed(String),
}

impl Line {
    fn parts(&self) -> (&'static str, &str) {
        match self {
            Self::Done(text) => ("done", text),
            Self::Refused(text) => ("refused", text),
            Self::Failed(text) => ("failed", text),
        }
    }
}

impl BulkArgs {
    /// The orders that are meant: those named, or those that the filter finds.
    ///
    /// # Errors
    /// [`Usage`] where none, or both, are said.
    pub async fn orders(&self, store: &Store) -> Result<Vec<OrderId>> {
        match (self.orders.is_empty(), self.filter.is_empty()) {
            (false, true) => Ok(select::ids(&self.orders)?),
            (true, false) => {
                let (found, more) = select::orders(store, &self.filter, self.limit).await?;
                if more {
                    eprintln!(
                        "triad: only the first {} are taken: raise --limit",
                        self.limit
                    );
                }
                Ok(found.into_iter().map(|o| o.id).collect())
            }
            (true, true) => Err(Usage(
                "say which orders: their ids, or a filter such as --state Error".into(),
            )
            .into()),
            (false, false) => Err(Usage("give ids or a filter, not both".into()).into()),
        }
    }

    /// Whether nothing is to be written.
    pub fn is_dry(&self) -> bool {
        self.dry_run || (self.orders.is_empty() && !self.yes)
    }

    /// Acts on every order, one after the other, no faster than the rate.
    ///
    /// # Errors
    /// Faults of standard output; those of an order are in its line.
    pub async fn run<F, R>(&self, orders: Vec<OrderId>, act: F) -> Result<ExitCode>
    where
        F: Fn(OrderId, bool) -> R,
        R: Future<Output = Line>,
    {
        let dry = self.is_dry();
        let shown = !self.json && std::io::stderr().is_terminal() && orders.len() > 1;
        let bar = if shown {
            let style = "{bar:40} {pos}/{len} orders  {elapsed}  {msg}";
            ProgressBar::new(orders.len() as u64).with_style(ProgressStyle::with_template(style)?)
        } else {
            ProgressBar::hidden()
        };
        let mut turn =
            tokio::time::interval(Duration::from_micros(1_000_000 / u64::from(self.rate)));
        let mut counts = [0_usize; 3];
        let interrupted = tokio::signal::ctrl_c();
        tokio::pin!(interrupted);
        for id in orders {
            tokio::select! {
                _ = turn.tick() => {}
                _ = &mut interrupted => {
                    bar.finish_and_clear();
                    self.summary(counts, dry)?;
                    return Ok(ExitCode::from(130));
                }
            }
            let line = act(id.clone(), dry).await;
            counts[match line {
                Line::Done(_) => 0,
                Line::Refused(_) => 1,
                Line::Failed(_) => 2,
            }] += 1;
            let (result, text) = line.parts();
            if self.json {
                print_line(
                    &json!({"order_id": id.as_str(), "result": result, "text": text, "dry_run": dry}),
                )?;
            } else {
                bar.suspend(|| {
                    println!(
                        "{id}  {}{result}: {text}",
                        if dry { "would be " } else { "" }
                    )
                });
            }
            bar.inc(1);
        }
        bar.finish_and_clear();
        self.summary(counts, dry)?;
        Ok(if counts[1] + counts[2] == 0 {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        })
    }

    fn summary(&self, [done, refused, failed]: [usize; 3], dry: bool) -> Result<()> {
        if self.json {
            return Ok(());
        }
        if done + refused + failed == 0 {
            println!("no orders");
            return Ok(());
        }
        let would = if dry {
            " (dry run: nothing was written)"
        } else {
            ""
        };
        println!("{done} done, {refused} refused, {failed} failed{would}");
        if dry && !self.dry_run {
            println!("add --yes to do it");
        }
        Ok(())
    }
}
