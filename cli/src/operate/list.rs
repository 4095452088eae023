//! `triad list`: orders by state, by cause and by age.

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use comfy_table::Table;
use comfy_table::presets::NOTHING;
use serde_json::json;
use triad_operator::causes::causes;
use triad_operator::find;
use triad_runtime::Clock;
use triad_runtime::system::SystemClock;

use super::Store;
use super::select::FilterArgs;
use crate::commands::connection::StoreArgs;
use crate::commands::get::as_json;
use crate::output::{moment, print_line};

/// List orders, by state, by cause and by age
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  triad list --state Error
  triad list --by-cause
  triad list --cause 'permanent/charge-payment/*' --older-than 1h --json
  triad list --state Compensating --limit 20

Orders in Error, CompensationFailed or paused are found through an index, and so are orders under
way. Without such a state the whole table is read, page by page, until the limit is reached.
Orders that were closed by hand are listed only without --state.
A record that cannot be read is named on standard error, and with --json in a line of its own,
{\"unreadable\": {\"order_id\", \"why\"}}; the others are listed.")]
pub struct ListArgs {
    #[command(flatten)]
    filter: FilterArgs,
    /// Count the orders in Error and CompensationFailed by cause
    #[arg(long)]
    by_cause: bool,
    /// Most orders to list
    #[arg(long, value_name = "N", default_value_t = 100)]
    limit: usize,
    /// Print a JSON line for each
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    store: StoreArgs,
}

/// Runs `triad list`. The exit code is always 0.
///
/// # Errors
/// If the store fails, a time span of the installation cannot be read, or standard output fails.
pub async fn run(args: ListArgs) -> Result<ExitCode> {
    let store = args.store.store().await?;
    if args.by_cause {
        return by_cause(&store, &args).await;
    }
    let filter = args.filter.filter();
    let found = find::orders(&store, &filter, args.limit, SystemClock.now()).await?;
    let find::Found {
        orders,
        more,
        skipped,
    } = found;
    tell(&skipped);
    if args.json {
        for order in &orders {
            print_line(&as_json(order)?)?;
        }
        print_unreadable(&skipped)?;
        return Ok(ExitCode::SUCCESS);
    }
    if orders.is_empty() {
        let readable = if skipped == find::Skipped::default() {
            ""
        } else {
            " that can be read"
        };
        println!("no orders{readable}");
        return Ok(ExitCode::SUCCESS);
    }
    let mut table = Table::new();
    table.load_style(NOTHING).set_header([
        "Order",
        "State",
        "Workflow",
        "Submitted",
        "Failures",
        "Cause",
    ]);
    for order in &orders {
        let state = match (&order.paused, &order.closed) {
            (Some(_), _) => format!("{} (paused)", order.state.name()),
            (_, Some(_)) => format!("{} (closed)", order.state.name()),
            _ => order.state.name().to_owned(),
        };
        table.add_row([
            order.id.to_string(),
            state,
            order.workflow.name.to_string(),
            moment(order.submitted_at),
            order.failure_count().to_string(),
            order
                .state
                .cause()
                .map_or_else(String::new, ToString::to_string),
        ]);
    }
    println!("{table}");
    if more {
        println!("and more: raise --limit {}", args.limit);
    }
    Ok(ExitCode::SUCCESS)
}

/// Says on standard error which records cannot be read.
pub(super) fn tell(skipped: &find::Skipped) {
    for one in &skipped.unreadable {
        eprintln!("triad: order {} cannot be read: {}", one.order_id, one.why);
    }
    if skipped.others > 0 {
        eprintln!("triad: {} further orders cannot be read", skipped.others);
    }
}

/// A line of JSON for each record that cannot be read.
fn print_unreadable(skipped: &find::Skipped) -> Result<()> {
    for one in &skipped.unreadable {
        print_line(&json!({"unreadable": {"order_id": one.order_id, "why": one.why}}))?;
    }
    Ok(())
}

async fn by_cause(store: &Store, args: &ListArgs) -> Result<ExitCode> {
    let found = causes(store, &args.filter.filter(), SystemClock.now()).await?;
    if found.others > 0 {
        eprintln!("triad: {} orders of further causes", found.others);
    }
    tell(&found.skipped);
    let groups = found.groups;
    if args.json {
        for group in &groups {
            print_line(&serde_json::to_value(group)?)?;
        }
        print_unreadable(&found.skipped)?;
        return Ok(ExitCode::SUCCESS);
    }
    if groups.is_empty() {
        println!("no orders need an operator");
        return Ok(ExitCode::SUCCESS);
    }
    let mut table = Table::new();
    table
        .load_style(NOTHING)
        .set_header(["Orders", "State", "Cause", "Oldest", "Newest", "Example"]);
    for g in groups {
        table.add_row([
            g.orders.to_string(),
            g.state.name().to_owned(),
            g.cause,
            moment(g.oldest),
            moment(g.newest),
            g.example.to_string(),
        ]);
    }
    println!("{table}");
    Ok(ExitCode::SUCCESS)
}
