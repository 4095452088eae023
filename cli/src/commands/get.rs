//! `triad get`: one order's state and timeline.

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use comfy_table::Table;
use comfy_table::presets::NOTHING;
use serde_json::Value;
use triad_core::{Order, OrderId};
use triad_operator::find;
use triad_operator::order::OrderView;
use triad_operator::timeline::{Entry, attempt, timeline};

use super::connection::StoreArgs;
use crate::output::{Usage, moment, print_line};

/// Show an order: its state, its steps and what happened to it
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  triad get 10248
  triad get 10248 --json | jq .steps

Exit code 1 if there is no such order. The timeline has every attempt: those that failed with
their cause, what operators did with who and why.")]
pub struct GetArgs {
    /// The order's id
    order: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    store: StoreArgs,
}

/// Runs `triad get`. The exit code is 1 if there is no such order, otherwise 0.
///
/// # Errors
/// [`Usage`] if the text is no order id; if the store fails, the record cannot be read, or standard
/// output fails.
pub async fn run(args: GetArgs) -> Result<ExitCode> {
    let id = OrderId::new(args.order.clone())
        .map_err(|e| Usage(format!("{:?} is not an order id: {e}", args.order)))?;
    let Some(order) = find::by_id(&args.store.store().await?, id).await? else {
        eprintln!("triad: there is no order {}", args.order);
        return Ok(ExitCode::FAILURE);
    };
    if args.json {
        print_line(&as_json(&order)?)?;
    } else {
        print(&order);
    }
    Ok(ExitCode::SUCCESS)
}

/// The whole record as JSON, as [`OrderView`] has it.
///
/// # Errors
/// Never for a sound record: every part of it has a form in JSON.
pub fn as_json(order: &Order) -> Result<Value> {
    Ok(serde_json::to_value(OrderView::of(order))?)
}

fn print(order: &Order) {
    println!("Order      {}", order.id);
    println!("State      {}", order.state.name());
    if let Some(cause) = order.state.cause() {
        println!("Cause      {cause}");
    }
    if let Some(hold) = &order.paused {
        println!(
            "Paused     {} by {}: {}",
            moment(hold.at),
            hold.act.by,
            hold.act.why
        );
    }
    if let Some(hold) = &order.closed {
        println!(
            "Closed     {} by {}: {}",
            moment(hold.at),
            hold.act.by,
            hold.act.why
        );
    }
    println!("Workflow   {}", order.workflow);
    println!("Submitted  {}", moment(order.submitted_at));
    if let Some(at) = order.state.finished_at() {
        let took = at.since(order.submitted_at);
        println!("Finished   {}   after {took}", moment(at));
    } else if let Some(at) = order.complete_by() {
        println!("Due        {}", moment(at));
    }
    if let Some(at) = order.deadline {
        let late = match order.late_since {
            Some(since) => format!("   late since {}", moment(since)),
            None => String::new(),
        };
        println!("Deadline   {}{late}", moment(at));
    }
    println!("Attempts   {}", order.attempts());
    if let Some(claim) = order.state.locked_by() {
        println!("Held by    {}", claim.instance().unwrap_or(&claim.0));
    }
    println!();
    let mut steps = Table::new();
    steps.load_style(NOTHING).set_header([
        "Step",
        "State",
        "Attempt",
        "Calls",
        "Failures",
        "Last error",
    ]);
    for step in &order.steps {
        steps.add_row([
            step.step.to_string(),
            step.state.name().to_owned(),
            attempt(&step.state).map_or_else(String::new, |a| a.to_string()),
            (step.action.calls + step.compensation.calls).to_string(),
            (step.action.failures + step.compensation.failures).to_string(),
            step.error
                .as_ref()
                .map_or_else(String::new, ToString::to_string),
        ]);
    }
    println!("{steps}");
    println!();
    let mut table = Table::new();
    table.load_style(NOTHING).set_header(["Time", "What"]);
    for Entry { at, what } in timeline(order) {
        table.add_row([moment(at), what]);
    }
    println!("{table}");
}
