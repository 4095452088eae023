//! Acts on many orders: a dry run, a rate, progress, a result line for each.

use std::io::IsTerminal;
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use clap::builder::{RangedU64ValueParser, TypedValueParser};
use indicatif::{ProgressBar, ProgressStyle};
use triad_core::OrderId;
use triad_operator::Rate;
use triad_operator::bulk::{ActResult, MAX_AT_ONCE, Tally};
use triad_operator::correction::Difference;
use triad_operator::operations::order_acts::{ActDetails, OrderAct};
use triad_operator::operations::{ActOnOrders, OrderFilter, Reason};
use triad_operator::outcome::Verdict;

use super::{correct, list};
use crate::output::{self, Usage, count, print_line};
use crate::place::Place;

/// Most orders of one request of a dry run, which writes nothing.
const TRIED_AT_ONCE: usize = 200;

/// Options for the orders to act on, the rate, and the dry run.
#[derive(Debug, Clone, Args)]
pub struct BulkArgs {
    /// Ids of the orders; without any, a filter says which
    #[arg(value_name = "ORDER")]
    pub orders: Vec<String>,
    /// Filter, if no ids are given.
    #[command(flatten)]
    pub filter: OrderFilter,
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
    /// [`Usage`] if neither ids nor a filter are given, or both are, or the filter cannot be read; or an error of the
    /// store.
    pub async fn orders(&self, place: &Place) -> Result<Vec<String>> {
        match (self.orders.is_empty(), self.filter.is_empty()) {
            (false, true) => Ok(self.orders.clone()),
            (true, false) => {
                let found = list::found(place, &self.filter, self.limit).await?;
                list::warn_skipped(&found.skipped.unreadable, found.skipped.others);
                if found.next.is_some() {
                    eprintln!(
                        "triad: only the first {} are taken; a campaign acts on all that fit: triad campaign start --help",
                        count(self.limit as u64, "order", "orders")
                    );
                }
                Ok(found.orders.into_iter().map(|o| o.id.to_string()).collect())
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

    /// Acts on the orders, in requests of as many as the rate allows in a second, and prints the results. `done` is
    /// the act's word for a changed order, such as `resubmitted`. The exit code is 0 if every order succeeded, 130 if
    /// the user interrupted it between two requests, otherwise 1.
    ///
    /// # Errors
    /// [`Usage`] if the act's details do not fit, or an id is none; if the store or the broker fails, or standard
    /// output does. What was done before was printed.
    pub async fn act(
        &self,
        place: &Place,
        orders: Vec<String>,
        (act, details): (OrderAct, ActDetails),
        reason: &Reason,
        done: &'static str,
    ) -> Result<ExitCode> {
        let progress = self.progress(&orders, done)?;
        let mut interrupted = std::pin::pin!(interrupted());
        let mut tally = Tally {
            left: orders.len(),
            ..Tally::default()
        };
        let at_once = match self.is_dry() {
            true => TRIED_AT_ONCE,
            false => (self.rate as usize).min(MAX_AT_ONCE),
        };
        let mut left = orders.as_slice();
        // Each request acts on one order at least.
        while !left.is_empty() && tally.unsent == 0 {
            let asked = ActOnOrders {
                act,
                orders: left.iter().take(at_once).cloned().collect(),
                filter: None,
                limit: None,
                details: details.clone(),
                reason: reason.clone(),
                dry_run: self.is_dry(),
                rate: Some(self.rate),
            };
            let acted = place.ask(asked).await?;
            for differences in &acted.differences {
                progress.show(
                    &differences.order_id,
                    details.step.as_deref(),
                    &differences.changes,
                );
            }
            for line in &acted.results {
                progress.line(line)?;
            }
            if acted.results.is_empty() {
                break;
            }
            left = &left[acted.results.len()..];
            tally.done += acted.tally.done;
            tally.refused += acted.tally.refused;
            tally.failed += acted.tally.failed;
            tally.unsent += acted.tally.unsent;
            tally.left = left.len();
            let is_interrupted = futures::FutureExt::now_or_never(interrupted.as_mut()).is_some();
            if is_interrupted && !left.is_empty() {
                tally.stopped = true;
                break;
            }
        }
        progress.end(tally)
    }

    /// The printer of results. `done` is the act's word for a changed order, such as `resubmitted`. A progress bar is
    /// shown for more than one order, if standard error is a terminal and `--json` is not given.
    ///
    /// # Errors
    /// Never: the bar's template is valid.
    fn progress(&self, orders: &[String], done: &'static str) -> Result<Progress<'_>> {
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
struct Progress<'a> {
    args: &'a BulkArgs,
    done: &'static str,
    bar: ProgressBar,
}

impl Progress<'_> {
    /// Prints the result of one order to standard output.
    ///
    /// # Errors
    /// If standard output fails.
    fn line(&self, line: &ActResult) -> Result<()> {
        if self.args.json {
            output::print("result", line)?;
        } else {
            let would = if line.dry_run { "would be " } else { "" };
            let result = match line.result {
                Verdict::Done => self.done,
                other => other.name(),
            };
            self.bar
                .suspend(|| println!("{}  {would}{result}: {}", line.order_id, line.text));
        }
        self.bar.inc(1);
        Ok(())
    }

    /// Shows the differences that a correction makes for an order, before the act.
    fn show(&self, order: &OrderId, step: Option<&str>, differences: &[Difference]) {
        let show = || correct::show(order, step.unwrap_or_default(), differences, self.args.json);
        // A fault of standard output is kept, and reported at the end.
        let _ = self.bar.suspend(show);
    }

    /// Prints the sums. The exit code is 130 if the user interrupted the command, 0 if every order
    /// is done, otherwise 1.
    ///
    /// # Errors
    /// If standard output fails.
    fn end(&self, tally: Tally) -> Result<ExitCode> {
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

    fn how(words: &[&str]) -> Option<BulkArgs> {
        let command = Command::try_parse_from(["act"].iter().chain(words)).ok()?;
        Some(command.bulk)
    }

    #[test]
    fn orders_are_acted_on_at_the_rate_that_is_asked_for() {
        let rate = |words: &[&str]| how(words).map(|bulk| bulk.rate);
        assert_eq!(rate(&["o-1"]), Some(50));
        let seven = Some(7);
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
        let dry = |words: &[&str]| how(words).map(|bulk| bulk.is_dry());
        assert_eq!(dry(&["o-1"]), Some(false));
        assert_eq!(dry(&["o-1", "--dry-run"]), Some(true));
        assert_eq!(dry(&["--state", "Error"]), Some(true));
        assert_eq!(dry(&["--state", "Error", "--yes"]), Some(false));
        assert_eq!(dry(&["--state", "Error", "--yes", "--dry-run"]), Some(true));
    }
}
