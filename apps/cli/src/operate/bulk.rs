//! Acts on many orders: a dry run, a rate, progress, a result line for each.

use std::io::IsTerminal;
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use clap::builder::{RangedU64ValueParser, TypedValueParser};
use indicatif::{ProgressBar, ProgressStyle};
use triad_core::OrderId;
use triad_operator::bulk::{ActResult, Bulk, MAX_AT_ONCE, Tally};
use triad_operator::correction::Difference;
use triad_operator::outcome::Verdict;
use triad_operator::{Rate, find};
use triad_runtime::Clock;
use triad_runtime::system::SystemClock;
use triad_workflow::StepId;

use super::select::{self, FilterArgs};
use super::{Store, correct};
use crate::output::{self, Usage, count, print_line};

/// Options for the orders to act on, the rate, and the dry run.
#[derive(Debug, Clone, Args)]
pub struct BulkArgs {
    /// Ids of the orders; without any, a filter says which
    #[arg(value_name = "ORDER")]
    pub orders: Vec<String>,
    /// Filter, if no ids are given.
    #[command(flatten)]
    pub filter: FilterArgs,
    /// Most orders that a filter takes at once; more are the work of `triad campaign start`
    #[arg(long, value_name = "N", default_value_t = MAX_AT_ONCE, value_parser = at_once())]
    pub limit: usize,
    /// Most orders a second
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=i64::from(Rate::MAX)))]
    pub rate: u32,
    /// Show what would be done, and do nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Act on what a filter finds; without it, what a filter finds is only shown
    #[arg(long)]
    pub yes: bool,
    /// Print a JSON line for each order
    #[arg(long)]
    pub json: bool,
}

/// Parser of `--limit`.
fn at_once() -> impl TypedValueParser<Value = usize> {
    RangedU64ValueParser::<usize>::new().range(1..=MAX_AT_ONCE as u64)
}

impl BulkArgs {
    /// The orders to act on: those that were named, or those that the filter finds.
    ///
    /// # Errors
    /// [`Usage`] if neither ids nor a filter are given, if both are, or if a text is no order id;
    /// or an error of the store.
    pub async fn orders(&self, store: &Store) -> Result<Vec<OrderId>> {
        let filter = self.filter.filter();
        match (self.orders.is_empty(), filter.is_empty()) {
            (false, true) => Ok(select::ids(&self.orders)?),
            (true, false) => {
                let found = find::orders(store, &filter, self.limit, SystemClock.now()).await?;
                super::list::warn_skipped(&found.skipped);
                if found.more {
                    eprintln!(
                        "triad: only the first {} are taken; a campaign acts on all that fit: triad campaign start --help",
                        count(self.limit as u64, "order", "orders")
                    );
                }
                Ok(found.orders.into_iter().map(|o| o.id).collect())
            }
            (true, true) => Err(Usage(
                "say which orders: their ids, or a filter such as --state Error".into(),
            )
            .into()),
            (false, false) => Err(Usage(
                "give the ids of orders, or a filter (--state, --cause, --workflow, --older-than), not both".into(),
            )
            .into()),
        }
    }

    /// Whether nothing is written: `--dry-run` was given, or a filter without `--yes`.
    pub fn is_dry(&self) -> bool {
        self.dry_run || (self.orders.is_empty() && !self.yes)
    }

    /// The rate, and whether this is a dry run.
    ///
    /// # Errors
    /// If the rate is not from 1 to [`Rate::MAX`].
    pub fn selection(&self) -> Result<Bulk> {
        Ok(Bulk {
            rate: Rate::new(self.rate)?,
            dry_run: self.is_dry(),
        })
    }

    /// The printer of results. `done` is the act's word for a changed order, such as `resubmitted`. A progress bar is
    /// shown for more than one order, if standard error is a terminal and `--json` is not given.
    ///
    /// # Errors
    /// Never: the bar's template is valid.
    pub fn progress(&self, orders: &[OrderId], done: &'static str) -> Result<Progress<'_>> {
        let shown = !self.json && std::io::stderr().is_terminal() && orders.len() > 1;
        let bar = if shown {
            let style = "{bar:40} {pos}/{len} orders  {elapsed}  {msg}";
            ProgressBar::new(orders.len() as u64).with_style(ProgressStyle::with_template(style)?)
        } else {
            ProgressBar::hidden()
        };
        Ok(Progress {
            args: self,
            done,
            bar,
        })
    }
}

/// Completes when the user interrupts the command (Ctrl-C); never, if the signal cannot be caught.
pub async fn interrupted() {
    if tokio::signal::ctrl_c().await.is_err() {
        // Ctrl-C cannot be caught.
        std::future::pending::<()>().await;
    }
}

/// Prints the result of each order, and the sums.
pub struct Progress<'a> {
    args: &'a BulkArgs,
    done: &'static str,
    bar: ProgressBar,
}

impl Progress<'_> {
    /// Prints the result of one order to standard output.
    ///
    /// # Errors
    /// If standard output fails.
    pub fn line(&self, line: &ActResult) -> Result<()> {
        if self.args.json {
            output::print("result", line)?;
        } else {
            let ActResult { order, outcome, .. } = line;
            let would = if line.dry_run { "would be " } else { "" };
            let result = match outcome.verdict() {
                Verdict::Done => self.done,
                other => other.name(),
            };
            self.bar
                .suspend(|| println!("{order}  {would}{result}: {outcome}"));
        }
        self.bar.inc(1);
        Ok(())
    }

    /// Shows the differences that a correction makes for an order, before the act.
    pub fn show(&self, order: &OrderId, step: &StepId, differences: &[Difference]) {
        let show = || correct::show(order, step, differences, self.args.json);
        // A fault of standard output is kept, and reported at the end.
        let _ = self.bar.suspend(show);
    }

    /// Prints the sums. The exit code is 130 if the user interrupted the command, 0 if every order
    /// is done, otherwise 1.
    ///
    /// # Errors
    /// If standard output fails.
    pub fn end(&self, tally: Tally) -> Result<ExitCode> {
        self.bar.finish_and_clear();
        self.summary(tally)?;
        Ok(if tally.stopped {
            ExitCode::from(130)
        } else if tally.refused + tally.failed + tally.left == 0 {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        })
    }

    fn summary(&self, tally: Tally) -> Result<()> {
        let dry = self.args.is_dry();
        if self.args.json {
            let mut line = serde_json::to_value(tally)?;
            line["kind"] = "summary".into();
            line["dry_run"] = dry.into();
            return print_line(&line);
        }
        if tally.orders() == 0 {
            println!("no orders");
            return Ok(());
        }
        println!("{}", sum(tally, self.done, dry));
        if tally.unsent > 0 {
            println!("{}", unsent(tally, self.done));
        } else if tally.left > 0 {
            println!("{}", untouched_text(tally));
        }
        if dry && !self.args.dry_run {
            println!("add --yes to do it");
        }
        Ok(())
    }
}

/// Explains that Kafka has not taken the messages of an act.
fn unsent(tally: Tally, done: &str) -> String {
    let written = count(tally.unsent as u64, "order", "orders");
    let sent = format!(
        "Kafka does not answer: {written} {done} and stored, but their messages are not sent yet; the Supervisor sends them at one of its next sweeps, without an act of yours."
    );
    match tally.left {
        0 => sent,
        _ => format!("{sent}\n{}", untouched_text(tally)),
    }
}

/// The number of orders that were not acted on.
fn untouched_text(tally: Tally) -> String {
    let orders = count(tally.left as u64, "order was", "orders were");
    format!("{orders} not touched: run the same command again")
}

/// The sums, in the words of the act.
fn sum(tally: Tally, done: &str, dry: bool) -> String {
    let Tally {
        refused, failed, ..
    } = tally;
    let orders = count(tally.done as u64, "order", "orders");
    if dry {
        let failed = match failed {
            0 => String::new(),
            failed => format!(", {failed} failed"),
        };
        return format!(
            "{orders} would be {done}, {refused} would be refused{failed} (dry run: nothing was written)"
        );
    }
    format!("{orders} {done}, {refused} refused, {failed} failed")
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Command {
        #[command(flatten)]
        bulk: BulkArgs,
    }

    fn how(words: &[&str]) -> Option<Bulk> {
        let command = Command::try_parse_from(["act"].iter().chain(words)).ok()?;
        Some(
            command
                .bulk
                .selection()
                .expect("its bounds are those of the option"),
        )
    }

    #[test]
    fn orders_are_acted_on_at_the_rate_that_is_asked_for() {
        let rate = |words: &[&str]| how(words).map(|bulk| bulk.rate);
        assert_eq!(rate(&["o-1"]), Some(Rate::new(50).expect("a rate")));
        let seven = Some(Rate::new(7).expect("a rate"));
        assert_eq!(rate(&["o-1", "--rate", "7"]), seven);
        assert_eq!(rate(&["--state", "Error", "--yes", "--rate", "7"]), seven);
        let above = (Rate::MAX + 1).to_string();
        for wrong in ["0", "-1", "many", &above] {
            assert_eq!(rate(&["o-1", "--rate", wrong]), None, "{wrong}");
        }
    }

    #[test]
    fn a_filter_takes_a_thousand_orders_at_most() {
        let limit = |words: &[&str]| {
            let command = Command::try_parse_from(["act", "--state", "Error"].iter().chain(words));
            command.ok().map(|command| command.bulk.limit)
        };
        assert_eq!(limit(&[]), Some(1_000));
        assert_eq!(limit(&["--limit", "7"]), Some(7));
        for wrong in ["0", "1001"] {
            assert_eq!(limit(&["--limit", wrong]), None, "{wrong}");
        }
    }

    #[test]
    fn the_sum_is_in_the_words_of_the_act() {
        let tally = Tally {
            done: 8,
            refused: 1,
            ..Tally::default()
        };
        assert_eq!(
            sum(tally, "resubmitted", true),
            "8 orders would be resubmitted, 1 would be refused (dry run: nothing was written)"
        );
        assert_eq!(
            sum(tally, "resubmitted", false),
            "8 orders resubmitted, 1 refused, 0 failed"
        );
    }

    #[test]
    fn what_is_written_and_not_told_of_is_said_with_what_comes_by_itself() {
        let tally = Tally {
            done: 3,
            unsent: 1,
            left: 9,
            ..Tally::default()
        };
        let said = unsent(tally, "resubmitted");
        for part in [
            "Kafka does not answer: 1 order resubmitted and stored",
            "the Supervisor sends them",
            "\n9 orders were not touched: run the same command again",
        ] {
            assert!(said.contains(part), "{part} in {said}");
        }
    }

    #[test]
    fn what_a_filter_finds_is_only_shown_unless_yes_is_said() {
        let dry = |words: &[&str]| how(words).map(|bulk| bulk.dry_run);
        assert_eq!(dry(&["o-1"]), Some(false));
        assert_eq!(dry(&["o-1", "--dry-run"]), Some(true));
        assert_eq!(dry(&["--state", "Error"]), Some(true));
        assert_eq!(dry(&["--state", "Error", "--yes"]), Some(false));
        assert_eq!(dry(&["--state", "Error", "--yes", "--dry-run"]), Some(true));
    }
}
