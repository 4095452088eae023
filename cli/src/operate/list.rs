//! `triad list`: orders by state, by cause and by age.

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use comfy_table::Table;
use comfy_table::presets::NOTHING;
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
Orders that were closed by hand are listed only without --state.")]
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

pub async fn run(args: ListArgs) -> Result<ExitCode> {
    let store = args.store.store().await?;
    if args.by_cause {
        return by_cause(&store, &args).await;
    }
    let filter = args.filter.filter();
    let found = find::orders(&store, &filter, args.limit, SystemClock.now()).await?;
    let find::Found { orders, more } = found;
    if args.json {
        for order in &orders {
            print_line(&as_json(order)?)?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    if orders.is_empty() {
        println!("no orders");
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

async fn by_cause(store: &Store, args: &ListArgs) -> Result<ExitCode> {
    let found = causes(store, &args.filter.filter(), SystemClock.now()).await?;
    if found.others > 0 {
        eprintln!("triad: {} orders of further causes", found.others);
    }
    let groups = found.groups;
    if args.json {
        for group in &groups {
            print_line(&serde_json::to_value(group)?)?;
        }
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
