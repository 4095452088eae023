//! `triad list`: orders by search key, by state, by cause and by age.

use std::collections::BTreeMap;
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use comfy_table::Cell;
use serde_json::json;
use triad_core::Order;
use triad_operator::next;
use triad_operator::operations::order_queries::OrdersFound;
use triad_operator::operations::{ListCauses, ListOrders, OrderFilter};
use triad_operator::pages::MAX_PAGE;
use triad_runtime::Clock;
use triad_runtime::ports::Unreadable;
use triad_runtime::system::SystemClock;

use crate::commands::get::as_json;
use crate::connection::StoreArgs;
use crate::output::{self, count, count_text, print_line, relative_time};
use crate::place::Place;

/// List orders, by search key, by state, by cause, by age and by parent order
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  triad list --state Error
  triad list --by-cause
  triad list --cause 'permanent/charge-payment/*' --older-than 1h --json
  triad list --state Compensating --limit 20
  triad list --search customer=ALFKI --workflow order-fulfilment
  triad list --parent 10248 --state Error

Orders with a search key, which their workflow declares with `search:`, are found by the whole value,
the one that was submitted last first. Orders in Error, CompensationFailed or paused are found through an index, and so are orders under
way. Without such a state the whole table is read, page by page, until the limit is reached.
Orders that were closed by hand are listed only without --state.
A record that cannot be read is named on standard error, and with --json in a line of its own, of
the kind `unreadable`; the others are listed. The last line says how many there are, and whether the
list was cut.")]
pub struct ListArgs {
    #[command(flatten)]
    filter: OrderFilter,
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
    let place = args.store.place().await?;
    if args.by_cause {
        return by_cause(&place, &args).await;
    }
    let now = SystemClock.now();
    let found = found(&place, &args.filter, output::limit(args.limit)).await?;
    let OrdersFound {
        orders,
        skipped,
        timing,
        ..
    } = found;
    let more = found.next.is_some();
    warn_skipped(&skipped.unreadable, skipped.others);
    if let Some(hint) = &found.hint {
        eprintln!("triad: {hint}");
    }
    let unread = skipped.unreadable.len() as u64 + skipped.others;
    if args.json {
        for order in &orders {
            print_line(&as_json(order, &timing)?)?;
        }
        print_unreadable(&skipped.unreadable)?;
        output::summary(orders.len(), more, None, json!({"unreadable": unread}))?;
        return Ok(ExitCode::SUCCESS);
    }
    if orders.is_empty() {
        let readable = if unread == 0 { "" } else { " that can be read" };
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

/// The orders that fit, at most `limit`, from as many pages as there are; `next` is a cursor if there are more.
pub(super) async fn found(
    place: &Place,
    filter: &OrderFilter,
    limit: usize,
) -> Result<OrdersFound> {
    let mut all = OrdersFound::default();
    let mut cursor = None;
    // Ends with the last page, or with one order more than are asked for, which says that there are more.
    loop {
        let wanted = limit.saturating_add(1) - all.orders.len();
        let asked = ListOrders {
            filter: filter.clone(),
            limit: Some(wanted.min(MAX_PAGE)),
            cursor,
        };
        let page = place.ask(asked).await?;
        all.orders.extend(page.orders);
        all.skipped.unreadable.extend(page.skipped.unreadable);
        all.skipped.others += page.skipped.others;
        (all.timing, all.hint) = (page.timing, page.hint);
        let is_enough = all.orders.len() > limit;
        if is_enough || page.next.is_none() {
            all.next = page.next.or_else(|| is_enough.then(String::new));
            all.next = all.next.filter(|_| is_enough);
            all.orders.truncate(limit);
            return Ok(all);
        }
        cursor = page.next;
    }
}

/// Warns on standard error of records that cannot be read.
pub(super) fn warn_skipped(unreadable: &[Unreadable], others: u64) {
    for one in unreadable {
        eprintln!("triad: order {} cannot be read: {}", one.order_id, one.why);
    }
    if others > 0 {
        eprintln!("triad: {others} further orders cannot be read");
    }
}

/// Prints a JSON line for each record that cannot be read.
fn print_unreadable(unreadable: &[Unreadable]) -> Result<()> {
    for one in unreadable {
        let line = json!({"kind": "unreadable", "order_id": one.order_id, "why": one.why});
        print_line(&line)?;
    }
    Ok(())
}

async fn by_cause(place: &Place, args: &ListArgs) -> Result<ExitCode> {
    let now = SystemClock.now();
    let asked = ListCauses {
        filter: args.filter.clone(),
        all: true,
    };
    let found = place.ask(asked).await?;
    if found.others > 0 {
        eprintln!("triad: {} orders of further causes", found.others);
    }
    warn_skipped(&found.unreadable, found.unreadable_others);
    let orders: u64 = found.causes.iter().map(|g| g.orders).sum();
    let unread = found.unreadable.len() as u64 + found.unreadable_others;
    let groups = found.causes;
    if args.json {
        for group in &groups {
            output::print("cause", group)?;
        }
        print_unreadable(&found.unreadable)?;
        let further = json!({"unreadable": unread, "orders": orders + found.others});
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
