//! An order's workflow as text: a line for each step, indented further the later it may run.

use triad_core::Order;
use triad_operator::children::ChildrenView;
use triad_operator::timeline::state_in_words;
use triad_workflow::Workflow;

/// Indentation of a step relative to its predecessors, in characters.
const INDENT: usize = 2;

/// The lines, in the order of the workflow.
pub fn lines(order: &Order, workflow: &Workflow) -> Vec<String> {
    let columns = workflow.columns();
    let name = |at: usize| {
        let mark = if columns[at] > 0 { "└ " } else { "" };
        let indent = " ".repeat(INDENT * columns[at].saturating_sub(1));
        format!("{indent}{mark}{}", workflow.steps[at].id)
    };
    let names: Vec<String> = (0..workflow.steps.len()).map(name).collect();
    let width = names.iter().map(|name| name.chars().count()).max();
    let width = width.unwrap_or(0);
    let steps = workflow.steps.iter().zip(&order.steps).zip(names);
    let line =
        |((step, record), name): ((&triad_workflow::Step, &triad_core::StepRecord), String)| {
            let state = state_in_words(record);
            let before: Vec<&str> = step
                .after
                .iter()
                .map(|&at| workflow.steps[at].id.as_str())
                .collect();
            let after = match &*before {
                [] => String::new(),
                before => format!("   after {}", before.join(", ")),
            };
            let pivot = if step.is_pivot {
                "   point of no return"
            } else {
                ""
            };
            let orders = match (ChildrenView::of(order, record), step.run()) {
                (Some(children), _) => format!("   {children}"),
                (None, Some(_)) => format!("   {}", step.kind),
                (None, None) => String::new(),
            };
            let line = format!("{name:<width$}   {state:<12}{after}{pivot}{orders}");
            line.trim_end().to_owned()
        };
    steps.map(line).collect()
}
