//! `triad status`: one screen of what is wrong, and what to type next.

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use triad_core::Timestamp;
use triad_operator::causes::CauseGroup;
use triad_operator::downstreams::{DownstreamView, Why};
use triad_operator::status::{self, CAUSES, Status};
use triad_runtime::Clock;
use triad_runtime::system::SystemClock;

use crate::commands::connection::StoreArgs;
use crate::output::{count, moment, print};

/// Show on one screen what is under way, what waits and what needs you, and what to type next
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  triad status
  triad status --json | jq .needing

Exit code 0 if nothing needs an operator, 1 if something does.")]
pub struct StatusArgs {
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    store: StoreArgs,
}

/// Runs `triad status`. The exit code is 1 if an order or a downstream needs an operator.
///
/// # Errors
/// If the store fails, or standard output does.
pub async fn run(args: StatusArgs) -> Result<ExitCode> {
    let store = args.store.store().await?;
    let now = SystemClock.now();
    let found = status::of(&store, now).await?;
    if args.json {
        print("status", &found)?;
    } else {
        for line in lines(&found, now) {
            println!("{line}");
        }
    }
    Ok(match found.is_well() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

fn lines(found: &Status, now: Timestamp) -> Vec<String> {
    let mut lines = Vec::new();
    let more = if found.under_way.more {
        "more than "
    } else {
        ""
    };
    lines.push(format!(
        "Under way    {more}{}",
        count(found.under_way.orders, "order", "orders")
    ));
    if found.under_way.overdue > 0 {
        lines.push(format!(
            "             {} of them have been due for two minutes: does a Supervisor run?",
            found.under_way.overdue
        ));
    }
    for one in &found.waiting {
        let why = match one.why {
            Why::NotToBeCalled => "it is not to be called for now",
            Why::Full => "as many are under way as it answers in time",
            Why::NeedsOthers => "they need others too",
        };
        let since = one.pressure.oldest.map_or_else(String::new, |at| {
            format!(", the oldest for {}", now.since(at))
        });
        lines.push(format!(
            "Waiting      {} orders for {}{since}: {why}",
            one.pressure.waiting, one.waiting_for
        ));
    }
    for one in &found.held {
        lines.extend(held(one));
    }
    if found.needing == 0 {
        lines.push("Need you     no orders".to_owned());
    } else {
        let needing = count(found.needing, "order", "orders");
        lines.push(format!("Need you     {needing}"));
        lines.extend(found.causes.iter().flat_map(cause));
        let shown: u64 = found.causes.iter().map(|group| group.orders).sum();
        if shown < found.needing {
            lines.push(format!(
                "             and {} of further causes (the {CAUSES} most frequent are shown): triad list --by-cause",
                found.needing - shown
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
    let breaker = record.breaker.name();
    let mut lines = Vec::new();
    if let Some(forced) = &record.forced {
        lines.push(format!(
            "Downstream   {name} is set by hand, by {}: {}",
            forced.hold.act.by, forced.hold.act.why
        ));
        lines.push(format!(
            "               triad downstreams --release {name} --why …"
        ));
    } else if breaker != "closed" {
        lines.push(format!(
            "Downstream   {name} is {breaker}: {}",
            record.last.what
        ));
        lines.push("               triad downstreams".to_owned());
    }
    for paused in &record.paused {
        let step = format!("{}/{}", paused.workflow, paused.step);
        lines.push(format!(
            "Downstream   {name}: {step} is paused by {}: {}",
            paused.hold.act.by, paused.hold.act.why
        ));
        lines.push(format!(
            "               triad resume --step-type {step} --why …"
        ));
    }
    lines
}

fn cause(group: &CauseGroup) -> Vec<String> {
    let state = group.state.name();
    let filter = match group.cause.as_str() {
        "" => format!("--state {state}"),
        cause => format!("--state {state} --cause '{cause}'"),
    };
    let act = match state {
        "Error" => "resubmit",
        "Paused" => "resume",
        _ => "retry-undo",
    };
    let name = match group.cause.as_str() {
        "" => state.to_owned(),
        cause => format!("{state}  {cause}"),
    };
    vec![
        format!(
            "{:>12} {name}  since {}",
            group.orders,
            moment(group.oldest)
        ),
        format!("               triad get {}", group.example),
        format!("               triad {act} {filter} --why … --dry-run"),
    ]
}
