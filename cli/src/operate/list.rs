//! `triad list`: orders by state, by cause and by age.

use std::collections::BTreeMap;
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use comfy_table::Table;
use comfy_table::presets::NOTHING;
use serde_json::json;
use triad_core::{Failure, Timestamp};

use super::Store;
use super::select::{self, Filter};
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
    filter: Filter,
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
    let (orders, more) = select::orders(&store, &args.filter, args.limit).await?;
    if args.json {
        for order in &orders {
            print_line(&as_json(order))?;
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

/// Orders of one cause.
struct Group {
    orders: usize,
    oldest: Timestamp,
    newest: Timestamp,
    example: String,
}

async fn by_cause(store: &Store, args: &ListArgs) -> Result<ExitCode> {
    let rows = select::rows(store, &args.filter).await?;
    let mut groups: BTreeMap<(&str, String), Group> = BTreeMap::new();
    for (kind, row) in &rows {
        let cause = row.cause.as_ref().map(Failure::fingerprint);
        let group = groups
            .entry((kind.name(), cause.unwrap_or_default()))
            .or_insert(Group {
                orders: 0,
                oldest: row.at,
                newest: row.at,
                example: row.order.to_string(),
            });
        group.orders += 1;
        group.oldest = group.oldest.min(row.at);
        group.newest = group.newest.max(row.at);
    }
    let mut groups: Vec<_> = groups.into_iter().collect();
    groups.sort_by_key(|(_, g)| std::cmp::Reverse(g.orders));
    if args.json {
        for ((state, cause), g) in &groups {
            print_line(&json!({"state": state, "cause": cause, "orders": g.orders,
                "oldest": g.oldest, "newest": g.newest, "example": g.example}))?;
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
    for ((state, cause), g) in groups {
        table.add_row([
            g.orders.to_string(),
            state.to_owned(),
            cause,
            moment(g.oldest),
            moment(g.newest),
            g.example,
        ]);
    }
    println!("{table}");
    Ok(ExitCode::SUCCESS)
}
