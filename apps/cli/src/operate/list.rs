//! `triad list`: orders by search key, by state, by cause and by age.

use std::collections::BTreeMap;
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use comfy_table::Cell;
use serde_json::json;
use triad_core::Order;
use triad_operator::causes::causes;
use triad_operator::{find, next, search};
use triad_runtime::Clock;
use triad_runtime::system::SystemClock;

use super::Store;
use super::select::FilterArgs;
use crate::commands::connection::StoreArgs;
use crate::commands::get::as_json;
use crate::output::{self, count, count_text, print_line, relative_time};

/// List orders, by search key, by state, by cause and by age
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  triad list --state Error
  triad list --by-cause
  triad list --cause 'permanent/charge-payment/*' --older-than 1h --json
  triad list --state Compensating --limit 20
  triad list --search customer=ALFKI --workflow order-fulfilment

Orders with a search key, which their workflow declares with `search:`, are found by the whole value,
the one that was submitted last first. Orders in Error, CompensationFailed or paused are found through an index, and so are orders under
way. Without such a state the whole table is read, page by page, until the limit is reached.
Orders that were closed by hand are listed only without --state.
A record that cannot be read is named on standard error, and with --json in a line of its own, of
the kind `unreadable`; the others are listed. The last line says how many there are, and whether the
list was cut.")]
pub struct ListArgs {
    #[command(flatten)]
    filter: FilterArgs,
    /// Count the orders in Error and CompensationFailed by cause
    #[arg(long, conflicts_with = "search")]
    by_cause: bool,
    /// Most orders to list; 0 is no limit
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
    let timing = args.store.spans()?.timing;
    let filter = args.filter.filter();
    let now = SystemClock.now();
    let found = find::orders(&store, &filter, output::limit(args.limit), now).await?;
    let find::FoundOrders {
        orders,
        more,
        skipped,
    } = found;
    warn_skipped(&skipped);
    if let (Some(key), true) = (&filter.search, orders.is_empty()) {
        let declared = search::declared(&store).await?;
        if let Some(hint) = search::hint(&declared, key, filter.workflow.as_deref()) {
            eprintln!("triad: {hint}");
        }
    }
    if args.json {
        for order in &orders {
            print_line(&as_json(order, &timing)?)?;
        }
        print_unreadable(&skipped)?;
        output::summary(orders.len(), more, None, unread(&skipped))?;
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
    let mut table = output::table([
        "Order",
        "State",
        "Workflow",
        "Submitted",
        "Failures",
        "Cause, or waits for",
    ]);
    for order in &orders {
        let state = match next::marks(order).as_slice() {
            [] => order.state.name().to_owned(),
            marks => format!("{} ({})", order.state.name(), marks.join(", ")),
        };
        table.add_row([
            Cell::new(order.id.to_string()),
            output::state(&state),
            Cell::new(order.workflow.name.to_string()),
            Cell::new(relative_time(order.submitted_at, now)),
            Cell::new(order.failure_count().to_string()),
            Cell::new(why(order)),
        ]);
    }
    table.print();
    for (what, orders) in waits(&orders) {
        println!("{orders} wait: {what}");
    }
    println!(
        "{}",
        count_text(orders.len(), more, None, "order", "orders")
    );
    Ok(ExitCode::SUCCESS)
}

/// Cause of a failed or compensated order; otherwise what the order waits for.
fn why(order: &Order) -> String {
    let waits = || next::waits_for(order).unwrap_or_default();
    order.state.cause().map_or_else(waits, ToString::to_string)
}

/// What the listed orders wait for, the most frequent first.
fn waits(orders: &[Order]) -> Vec<(String, usize)> {
    let mut counted = BTreeMap::<String, usize>::new();
    for what in orders.iter().filter_map(next::waits_for) {
        *counted.entry(what).or_default() += 1;
    }
    let mut counted: Vec<(String, usize)> = counted.into_iter().collect();
    counted.sort_by_key(|(_, orders)| std::cmp::Reverse(*orders));
    counted
}

/// Warns on standard error of records that cannot be read.
pub(super) fn warn_skipped(skipped: &find::Skipped) {
    for one in &skipped.unreadable {
        eprintln!("triad: order {} cannot be read: {}", one.order_id, one.why);
    }
    if skipped.others > 0 {
        eprintln!("triad: {} further orders cannot be read", skipped.others);
    }
}

/// Prints a JSON line for each record that cannot be read.
fn print_unreadable(skipped: &find::Skipped) -> Result<()> {
    for one in &skipped.unreadable {
        let line = json!({"kind": "unreadable", "order_id": one.order_id, "why": one.why});
        print_line(&line)?;
    }
    Ok(())
}

/// Number of records that cannot be read, for the summary.
fn unread(skipped: &find::Skipped) -> serde_json::Value {
    json!({"unreadable": skipped.unreadable.len() as u64 + skipped.others})
}

async fn by_cause(store: &Store, args: &ListArgs) -> Result<ExitCode> {
    let now = SystemClock.now();
    let found = causes(store, &args.filter.filter(), now).await?;
    if found.others > 0 {
        eprintln!("triad: {} orders of further causes", found.others);
    }
    warn_skipped(&found.skipped);
    let groups = found.groups;
    let orders: u64 = groups.iter().map(|g| g.orders).sum();
    if args.json {
        for group in &groups {
            output::print("cause", group)?;
        }
        print_unreadable(&found.skipped)?;
        let mut further = unread(&found.skipped);
        further["orders"] = (orders + found.others).into();
        output::summary(groups.len(), found.others > 0, None, further)?;
        return Ok(ExitCode::SUCCESS);
    }
    if groups.is_empty() {
        println!("no orders need an operator");
        return Ok(ExitCode::SUCCESS);
    }
    let mut table = output::table(["Orders", "State", "Cause", "Oldest", "Newest", "Example"]);
    let causes = count(groups.len() as u64, "cause", "causes");
    for g in groups {
        table.add_row([
            Cell::new(g.orders.to_string()),
            output::state(g.state.name()),
            Cell::new(g.cause),
            Cell::new(relative_time(g.oldest, now)),
            Cell::new(relative_time(g.newest, now)),
            Cell::new(g.example.to_string()),
        ]);
    }
    table.print();
    println!("{} of {causes}", count(orders, "order", "orders"));
    Ok(ExitCode::SUCCESS)
}
