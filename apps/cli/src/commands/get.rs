//! `triad get`: one order's state and timeline.

use std::process::ExitCode;

use anyhow::{Context as _, Result};
use clap::Args;
use serde_json::Value;
use triad_core::{Order, OrderId, Timing};
use triad_operator::children::{self, ChildrenView};
use triad_operator::json;
use triad_operator::next;
use triad_operator::operations::{Form as _, GetOrder, GetWorkflow};
use triad_operator::order::{OrderView, TraceView};
use triad_operator::timeline::{
    TimelineEntry, attempt, calls_in_words, gaps, state_in_words, timeline,
};

use super::{graph, inputs};
use crate::connection::StoreArgs;
use crate::output::{self, command, moment, print_line};

/// Show an order: its state, its steps and what happened to it
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  triad get 10248
  triad get 10248 --inputs
  triad get 10248 --graph
  triad get 10248 --json | jq .next

Exit code 1 if there is no such order. The timeline has every attempt, failed ones with
their cause, and every act of an operator, with name and reason. \"Calls\" are those that agents reported; \"2 to 5\"
where an attempt that was never answered may have made more. --inputs shows the order's details,
and for each step the request to its service, its key, the same request as a curl command, and the output.")]
pub struct GetArgs {
    /// The order's id
    order: String,
    /// Show the order's details, and the input, key, call and output of each step
    #[arg(long)]
    inputs: bool,
    /// Show the steps as a graph: which may run at the same time, and which follow which
    #[arg(long, conflicts_with = "json")]
    graph: bool,
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
    let place = args.store.place().await?;
    let asked = GetOrder {
        id: args.order.clone(),
        inputs: args.inputs,
    };
    let Some(found) = place.find(asked).await? else {
        eprintln!("triad: {}", no_order(&args.order));
        return Ok(ExitCode::FAILURE);
    };
    let why =
        |why: String| anyhow::anyhow!("the inputs of order {} cannot be shown: {why}", args.order);
    let shown = found.inputs.clone().transpose().map_err(why)?;
    if args.json {
        print_line(&found.form()?)?;
        return Ok(ExitCode::SUCCESS);
    }
    let (order, timing) = (&found.order, &found.timing);
    print(order, timing);
    if args.graph {
        let pinned = GetWorkflow {
            name: order.workflow.name.to_string(),
            version: order.workflow.hash.to_string(),
            against: None,
        };
        let workflow = place
            .ask(pinned)
            .await?
            .compiled()
            .context("there is no graph")?;
        println!();
        for line in graph::lines(order, &workflow) {
            println!("{line}");
        }
    }
    if let Some(inputs) = &shown {
        println!();
        for line in inputs::lines(order, inputs) {
            println!("{line}");
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Text for an order that does not exist.
pub fn no_order(id: &str) -> String {
    format!(
        "there is no order {id}: triad list shows existing orders, triad dead-letters list shows refused ones"
    )
}

/// The whole record as a JSON line of the kind `order`, as [`OrderView`] has it.
///
/// # Errors
/// Never for a valid record: every part of it has a JSON form.
pub fn as_json(order: &Order, timing: &Timing) -> Result<Value> {
    Ok(json::line("order", &OrderView::of(order, timing))?)
}

/// Prints the whole record of an order.
pub fn print(order: &Order, timing: &Timing) {
    println!("Order      {}", order.id);
    let state = [order.state.name()];
    let marked = state.into_iter().chain(next::marks(order));
    println!("State      {}", marked.collect::<Vec<_>>().join(", "));
    if let Some(cause) = order.state.cause() {
        output::print_field("Cause", &cause.to_string());
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
    for (at, key) in order.search.iter().enumerate() {
        let head = if at == 0 { "Search" } else { "" };
        println!("{head:<10} {key}");
    }
    if let Some(parent) = &order.parent {
        let place = children::place(order, parent);
        println!("Parent     {}, {place}", parent.order_id);
    }
    println!("Submitted  {}", moment(order.submitted_at));
    if let Some(at) = order.state.finished_at() {
        let took = at.since(order.submitted_at);
        println!("Finished   {}   after {took}", moment(at));
    } else if let Some(at) = order.complete_by() {
        println!("Due        {}", moment(at));
    }
    if let Some(at) = order.start_at {
        println!("Starts     not before {}", moment(at));
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
    if let Some(trace) = TraceView::of(order) {
        let note = match trace.sampled {
            true => "",
            false => "   not sampled: it has only what failed",
        };
        println!("Trace      {}{note}", trace.trace_id);
    }
    for line in next_lines(order, timing) {
        println!("{line}");
    }
    println!();
    let mut steps = output::table([
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
            state_in_words(step).to_owned(),
            attempt(&step.state).map_or_else(String::new, |a| a.to_string()),
            calls_in_words(step.action, step.compensation),
            (step.action.failures + step.compensation.failures).to_string(),
            step.error
                .as_ref()
                .map_or_else(String::new, ToString::to_string),
        ]);
    }
    steps.print();
    for line in child_lines(order) {
        println!("{line}");
    }
    println!();
    let mut table = output::table(["Time", "What"]);
    for TimelineEntry { at, what } in timeline(order) {
        table.add_row([moment(at), what]);
    }
    table.print();
    for gap in gaps(order) {
        println!("(nothing is kept of {gap})");
    }
}

/// How the child orders of an order stand, step by step, and which of them to look at; none if it has none.
fn child_lines(order: &Order) -> Vec<String> {
    let mut lines = Vec::new();
    for step in &order.steps {
        let Some(children) = ChildrenView::of(order, step) else {
            continue;
        };
        lines.push(format!("{}: {children}", step.step));
        for some in children.named() {
            let ids: Vec<&str> = some.ids.iter().map(OrderId::as_str).collect();
            let more = match some.more {
                0 => String::new(),
                more => format!(", and {more} more"),
            };
            lines.push(format!("  {}: {}{more}", some.state, ids.join(", ")));
        }
    }
    if !lines.is_empty() {
        let all = command(["triad", "list", "--parent", order.id.as_str()]);
        lines.push(format!("  all of them: {all}"));
        lines.insert(0, String::new());
    }
    lines
}

/// The next events of an order, and the commands that an operator may type.
pub fn next_lines(order: &Order, timing: &Timing) -> Vec<String> {
    let mut lines = Vec::new();
    for (at, one) in next::of(order, timing).iter().enumerate() {
        let head = if at == 0 { "Next" } else { "" };
        let when = one
            .at
            .map_or_else(String::new, |at| format!("{}   ", moment(at)));
        lines.push(format!("{head:<10} {when}{}", one.what));
        for act in one.acts {
            let act = command(["triad", act, order.id.as_str()]);
            lines.push(format!("{:<10}   {act} --why …", ""));
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use triad_core::Timestamp;
    use triad_workflow::{Limits, Workflow};

    use super::*;

    #[test]
    fn of_child_orders_the_counts_are_shown_and_ten_ids_of_each_kind() {
        let definition = json!({"workflow": "w", "steps": [{"id": "ship", "for_each": "details.lines",
            "agent": "carrier", "action": "book", "compensation": "none"}]});
        let definition = serde_json::from_value(definition).expect("a definition");
        let workflow = Workflow::compile(definition, &Limits::published()).expect("it is sound");
        let accepted = json!({"order_id": "parts-1", "workflow": format!("w@{}", workflow.hash),
            "submitted_at": 0, "due": 1, "details": {}});
        let accepted = serde_json::from_value(accepted).expect("an order");
        let mut order = Order::new(&accepted, &workflow, Timestamp(0));
        assert_eq!(child_lines(&order), [""; 0]);
        let children = json!({"since": 7, "all": format!("pf{}", "r".repeat(11))});
        order.steps[0].children = serde_json::from_value(children).expect("children");
        let ids: Vec<String> = (2..12).map(|n| format!("parts-1:ship:{n}")).collect();
        let lines = [
            "",
            "ship: 13 child orders: 1 Processed, 1 failed, 11 under way",
            "  failed: parts-1:ship:1",
            &format!("  under way: {}, and 1 more", ids.join(", ")),
            "  all of them: triad list --parent parts-1",
        ];
        assert_eq!(child_lines(&order), lines);
    }
}
