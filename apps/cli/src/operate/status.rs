//! `triad status`: one screen with every problem, and the command to type for each.

use std::collections::BTreeMap;
use std::io::{IsTerminal, stdout};
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use serde::Serialize;
use triad_core::Timestamp;
use triad_operator::causes::CauseGroup;
use triad_operator::counts::{Rate, UnderWay};
use triad_operator::downstreams::{DownstreamView, Waiting, Why};
use triad_operator::operations::GetOverview;
use triad_operator::operations::overview::Overview;
use triad_runtime::Clock;
use triad_runtime::system::SystemClock;

use triad_workflow::Millis;

use crate::connection::StoreArgs;
use crate::machine::signals::interrupted;
use crate::operate::figures;
use crate::output::{command, count, moment, print, stream};
use crate::place::Place;

/// Shortest interval between two looks of `--watch`, in milliseconds.
const SHORTEST: Millis = Millis(250);
/// Moves a terminal's cursor to the first line, and clears everything below.
const CLEAR: &str = "\x1b[H\x1b[J";

/// Show on one screen what is under way, what waits and what needs you, and what to type next
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  triad status
  triad status --json | jq .needing
  triad status --watch

Exit code 0 if nothing needs an operator, 1 if something does.")]
pub struct StatusArgs {
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Refresh until Ctrl-C, with orders by state, rates and times if the store counts its orders; with --json, a
    /// line for each look
    #[arg(long)]
    watch: bool,
    /// Interval between two looks of --watch, 250ms or more
    #[arg(long, value_name = "TIME", default_value = "2s", requires = "watch", value_parser = str::parse::<Millis>)]
    every: Millis,
    #[command(flatten)]
    store: StoreArgs,
}

/// Runs `triad status`. The exit code is 1 if an order or a downstream needs an operator, at the last look.
///
/// # Errors
/// If the store fails, or standard output does. With `--watch`, a failure of the store after the first look is
/// reported, and the next look follows.
pub async fn run(args: StatusArgs) -> Result<ExitCode> {
    let place = args.store.place().await?;
    let mut is_well = print_once(&place, &args).await?;
    if args.watch {
        tokio::select! {
            () = interrupted() => {}
            () = watch(&place, &args, &mut is_well) => {}
        }
    }
    Ok(match is_well {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

/// Refreshes until the reader of the output has closed its end.
async fn watch(place: &Place, args: &StatusArgs, is_well: &mut bool) {
    while !stream::reader_is_gone() {
        tokio::time::sleep(args.every.max(SHORTEST).as_duration()).await;
        match print_once(place, args).await {
            Ok(well) => *is_well = well,
            Err(e) => eprintln!("triad: {e:#}"),
        }
    }
}

/// Result of one look; as JSON one object.
#[derive(Serialize)]
struct StatusView<'a> {
    under_way: &'a UnderWay,
    #[serde(skip_serializing_if = "Option::is_none")]
    orders: Option<&'a BTreeMap<String, u64>>,
    causes: &'a [CauseGroup],
    needing: u64,
    held: Vec<&'a DownstreamView>,
    waiting: &'a [Waiting],
    /// Whether no process runs in the data directory.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    is_stopped: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    rates: Option<&'a [Rate]>,
}

/// Prints the status, with rates if it is refreshed; returns whether nothing needs an operator.
async fn print_once(place: &Place, args: &StatusArgs) -> Result<bool> {
    let now = SystemClock.now();
    let mut found = place.ask(GetOverview::default()).await?;
    let stopped = args.store.nobody_runs();
    if stopped.is_some() {
        // Reports of a process that has ended are outdated.
        found.waiting.clear();
    }
    let counts = &found.counts.counts;
    let rates = found.counts.rates.as_deref().filter(|_| args.watch);
    if args.json {
        let shown = StatusView {
            under_way: &counts.under_way,
            orders: counts.orders.as_ref(),
            causes: &found.causes.causes,
            needing: found.needing_an_operator,
            held: found.held().collect(),
            waiting: &found.waiting,
            is_stopped: stopped.is_some(),
            rates,
        };
        print("status", &shown)?;
        return Ok(found.is_well());
    }
    let mut screen = lines(&found, now);
    if let Some(text) = stopped {
        screen.insert(0, format!("Stopped      {text}"));
    }
    if args.watch {
        screen.extend(figures::lines(counts.orders.as_ref(), rates));
        if stdout().is_terminal() {
            stream::styled(format_args!("{CLEAR}"));
        }
        screen.insert(0, moment(now));
        screen.push(String::new());
    }
    // Printed in one write, because a screen in parts would flicker.
    println!("{}", screen.join("\n"));
    Ok(found.is_well())
}

/// The screen: each problem, and below it the command to type.
pub fn lines(found: &Overview, now: Timestamp) -> Vec<String> {
    let mut lines = Vec::new();
    let under_way = &found.counts.counts.under_way;
    let least = |more: bool| if more { "at least " } else { "" };
    lines.push(format!(
        "Under way    {}{}",
        least(under_way.more),
        count(under_way.orders, "order", "orders")
    ));
    if under_way.set_aside > 0 {
        lines.push(format!(
            "             {} of them are set aside: for their workflow's cap, or for a definition that cannot be read",
            under_way.set_aside
        ));
    }
    if under_way.overdue > 0 {
        lines.push(format!(
            "             {}{} due for two minutes: does a Supervisor run?",
            least(under_way.more_overdue),
            count(under_way.overdue, "order has been", "orders have been")
        ));
    }
    for one in &found.waiting {
        let why = match one.why {
            Why::NotToBeCalled => "it is not to be called for now",
            Why::Full => "as many are under way as it answers in time",
            Why::NeedsOthers => "they wait for another service",
        };
        let since = one.pressure.oldest.map_or_else(String::new, |at| {
            format!(", the oldest for {}", now.since(at))
        });
        lines.push(format!(
            "Waiting      {} orders for {}{since}: {why}",
            one.pressure.waiting, one.waiting_for
        ));
    }
    for one in found.held() {
        lines.extend(held(one));
    }
    if found.needing_an_operator == 0 {
        lines.push("Need you     no orders".to_owned());
    } else {
        let needing = count(found.needing_an_operator, "order", "orders");
        lines.push(format!("Need you     {needing}"));
        lines.extend(found.causes.causes.iter().flat_map(cause));
        let shown: u64 = found.causes.causes.iter().map(|group| group.orders).sum();
        if shown < found.needing_an_operator {
            lines.push(format!(
                "             and {} of further causes (the most frequent are shown): triad list --by-cause",
                found.needing_an_operator - shown
            ));
        }
    }
    if found.is_well() {
        lines.push(
            "All is well. Records that could not be taken: triad dead-letters list".to_owned(),
        );
    }
    lines
}

fn held(one: &DownstreamView) -> Vec<String> {
    let record = &one.record;
    let name = &one.downstream;
    let mut lines = Vec::new();
    if let Some(forced) = &record.forced {
        lines.push(format!(
            "Downstream   {name} is set by hand, by {}: {}",
            forced.hold.act.by, forced.hold.act.why
        ));
        lines.push(format!(
            "               {} --why …",
            command(["triad", "downstreams", "--release", name.as_str()])
        ));
    } else if record.breaker.name() != "closed" {
        let what = record.outage().map_or("is down", |change| &change.what);
        lines.push(format!("Downstream   {name} {what}"));
        lines.push("               triad downstreams".to_owned());
    }
    for paused in &record.paused {
        let step = format!("{}/{}", paused.workflow, paused.step);
        lines.push(format!(
            "Downstream   {name}: {step} is paused by {}: {}",
            paused.hold.act.by, paused.hold.act.why
        ));
        lines.push(format!(
            "               {} --why …",
            command(["triad", "resume", "--step-type", &step])
        ));
    }
    lines
}

fn cause(group: &CauseGroup) -> Vec<String> {
    let state = group.state.name();
    let act = match state {
        "Error" => "resubmit",
        "Paused" => "resume",
        _ => "retry-compensation",
    };
    let (name, act) = match group.cause.as_str() {
        "" => (state.to_owned(), command(["triad", act, "--state", state])),
        cause => (
            format!("{state}  {cause}"),
            command(["triad", act, "--state", state, "--cause", cause]),
        ),
    };
    vec![
        format!(
            "{:>12} {name}  since {}",
            group.orders,
            moment(group.oldest)
        ),
        format!(
            "               {}",
            command(["triad", "get", group.example.as_str()])
        ),
        format!("               {act} --why … --dry-run"),
    ]
}
