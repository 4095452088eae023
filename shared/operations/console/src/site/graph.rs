//! A workflow as a graph: one column for the steps that may run at the same time, an arrow to each step from its
//! predecessors. A step that runs other orders has a box behind its own. For an order each step shows its state, and how
//! many of its child orders are Processed. Arrows back show the compensation; a turn marks the step
//! with which it begins.

use maud::{Markup, PreEscaped, html};
use triad_core::{Order, StepState};
use triad_operator::children::ChildrenView;
use triad_operator::timeline::state_in_words;
use triad_workflow::{Repeat, Step, StepIndex, Workflow};

use super::text::class_of_step;

const WIDTH: usize = 176;
const HEIGHT: usize = 50;
const GAP_X: usize = 56;
const GAP_Y: usize = 22;
/// Margin, which a turn at the last step needs.
const EDGE: usize = 16;
/// Characters of a name that fit into a box.
const FIT: usize = 22;

/// A version of a workflow.
pub(super) fn of_workflow(workflow: &Workflow) -> Markup {
    draw(
        workflow,
        &format!("Workflow {}", workflow.name),
        |_, step| {
            let say = match (step.call().map(|call| &call.repeat), &step.compensation) {
                _ if step.is_pivot => "point of no return",
                _ if step.run().is_some() && !step.can_be_compensated() => "no compensation",
                _ if step.run().is_some() => "runs child orders",
                (Some(Repeat::Safe) | None, Some(_)) => "compensable",
                (Some(Repeat::Safe), None) => "no compensation",
                (Some(Repeat::Never), _) => "at most once",
                (Some(Repeat::Probe(_)), _) => "asked when in doubt",
                (None, None) => "waits",
            };
            ("none", say.to_owned(), step.kind.to_string())
        },
        |_| false,
    )
}

/// The workflow of an order, with the state of each step.
pub(super) fn of_order(workflow: &Workflow, order: &Order) -> Markup {
    let title = format!("The steps of order {} and their states", order.id);
    let turned = |index: StepIndex| {
        order.steps.get(index).is_some_and(|record| {
            matches!(
                record.state,
                StepState::Compensating { .. }
                    | StepState::Compensated { .. }
                    | StepState::NotCompensated { .. }
            )
        })
    };
    draw(
        workflow,
        &title,
        |index, step| match order.steps.get(index) {
            Some(record) => {
                let state = state_in_words(record);
                let children = ChildrenView::of(order, record);
                (
                    class_of_step(&record.state),
                    match &children {
                        None => state.to_owned(),
                        Some(of) => format!("{state}, {}/{}", of.count("processed"), of.all),
                    },
                    match &children {
                        None => step.kind.to_string(),
                        Some(of) => format!("{}: {of}", step.kind),
                    },
                )
            }
            None => ("none", "not in the record".to_owned(), String::new()),
        },
        turned,
    )
}

/// Position of each step's box, and the size of the graph.
fn places(workflow: &Workflow) -> (Vec<(usize, usize)>, usize, usize) {
    let columns = workflow.columns();
    let mut filled: Vec<usize> = Vec::new();
    let mut places = Vec::new();
    for column in columns {
        if filled.len() <= column {
            filled.resize(column + 1, 0);
        }
        let row = filled[column];
        filled[column] += 1;
        places.push((
            EDGE + column * (WIDTH + GAP_X),
            EDGE + row * (HEIGHT + GAP_Y),
        ));
    }
    let rows = filled.iter().copied().max().unwrap_or(1);
    let width = 2 * EDGE + filled.len().max(1) * (WIDTH + GAP_X) - GAP_X;
    (places, width, 2 * EDGE + rows * (HEIGHT + GAP_Y) - GAP_Y)
}

fn draw(
    workflow: &Workflow,
    title: &str,
    say: impl Fn(StepIndex, &Step) -> (&'static str, String, String),
    is_turned: impl Fn(StepIndex) -> bool,
) -> Markup {
    let (places, width, height) = places(workflow);
    html! {
        div class="scroll" tabindex="0" role="region" aria-label=(title) {
            svg role="group" aria-label=(title) width=(width) height=(height) viewBox={ "0 0 " (width) " " (height) } {
                (arrow_heads())
                @for (index, step) in workflow.steps.iter().enumerate() {
                    @for &before in &step.after {
                        path class="edge" marker-end="url(#head)" d=(edge(places[before], places[index])) {}
                        @if is_turned(before) && is_turned(index) {
                            path class="edge back" marker-end="url(#head-back)" d=(back(places[index], places[before])) {
                                title { "compensation: " (step.id) ", then " (workflow.steps[before].id) }
                            }
                        }
                    }
                }
                @for (index, step) in workflow.steps.iter().enumerate() {
                    @let (class, state, call) = say(index, step);
                    (node(places[index], step, class, &state, &call))
                    @if is_turned(index) && !is_turned_after(workflow, index, &is_turned) {
                        path class="edge back turn" marker-end="url(#head-back)" d=(turn(places[index])) {
                            title { "compensation begins with " (step.id) }
                        }
                    }
                }
            }
        }
    }
}

/// Whether a direct successor of the step is compensated, so that the arrow back comes from there.
fn is_turned_after(
    workflow: &Workflow,
    index: StepIndex,
    is_turned: impl Fn(StepIndex) -> bool,
) -> bool {
    let mut steps = workflow.steps.iter().enumerate();
    steps.any(|(later, step)| step.after.contains(&index) && is_turned(later))
}

fn node((x, y): (usize, usize), step: &Step, class: &str, state: &str, call: &str) -> Markup {
    let id = step.id.as_str();
    let shown: String = match id.chars().count() > FIT {
        true => id.chars().take(FIT - 1).chain(['…']).collect(),
        false => id.to_owned(),
    };
    html! {
        a href={ "#step-" (id) } aria-label={ (id) ": " (state) } {
            g {
                title { (id) ": " (state) ". " (call) }
                @if step.run().is_some() {
                    rect class={ "node " (class) } x=(x + 5) y=(y + 5) width=(WIDTH) height=(HEIGHT) rx="7" {}
                }
                rect class={ "node " (class) } x=(x) y=(y) width=(WIDTH) height=(HEIGHT) rx="7" {}
                @if step.is_pivot {
                    rect class={ "node " (class) } x=(x + 4) y=(y + 4) width=(WIDTH - 8) height=(HEIGHT - 8) rx="5" {}
                }
                text x=(x + 12) y=(y + 21) { (shown) }
                text class="soft" x=(x + 12) y=(y + 39) { (state) }
            }
        }
    }
}

fn edge((from_x, from_y): (usize, usize), (to_x, to_y): (usize, usize)) -> String {
    let (x, y) = (from_x + WIDTH, from_y + HEIGHT / 2);
    let (to_x, to_y) = (to_x.saturating_sub(3), to_y + HEIGHT / 2);
    let half = x.midpoint(to_x);
    format!("M{x} {y} C{half} {y} {half} {to_y} {to_x} {to_y}")
}

/// Arrow from a later step back to an earlier one, below the forward arrow.
fn back((from_x, from_y): (usize, usize), (to_x, to_y): (usize, usize)) -> String {
    let (x, y) = (from_x, from_y + HEIGHT - 10);
    let (to_x, to_y) = (to_x + WIDTH + 3, to_y + HEIGHT - 10);
    let half = x.midpoint(to_x);
    let low = y.max(to_y) + 14;
    format!("M{x} {y} C{half} {low} {half} {low} {to_x} {to_y}")
}

/// The turn at the right of the step with which the compensation begins.
fn turn((x, y): (usize, usize)) -> String {
    let (x, from, to) = (x + WIDTH, y + 12, y + HEIGHT - 12);
    let out = x + EDGE + 3;
    format!("M{x} {from} C{out} {from} {out} {to} {} {to}", x + 3)
}

fn arrow_heads() -> Markup {
    // Not escaped, because it contains no text from outside.
    PreEscaped(
        "<defs><marker id=\"head\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"8\" markerHeight=\"8\" orient=\"auto\">\
         <path class=\"head\" d=\"M0 0L8 4L0 8z\"/></marker>\
         <marker id=\"head-back\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"8\" markerHeight=\"8\" orient=\"auto\">\
         <path class=\"head back\" d=\"M0 0L8 4L0 8z\"/></marker></defs>"
            .to_owned(),
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use triad_core::{Applied, Attempt, Timestamp};
    use triad_workflow::Limits;

    use super::*;

    /// The graph of a two-step order in which these steps are compensated.
    fn drawn(compensated: &[usize]) -> String {
        let step = |id| {
            json!({"id": id, "agent": "bank", "action": "do",
            "compensation": {"action": "back"}})
        };
        let definition = json!({"workflow": "w", "steps": [step("a"), step("b")]});
        let definition = serde_json::from_value(definition).expect("a definition");
        let workflow = Workflow::compile(definition, &Limits::published()).expect("it is sound");
        let accepted = json!({"order_id": "1", "workflow": format!("w@{}", workflow.hash),
            "submitted_at": 0, "due": 1, "details": {}});
        let accepted = serde_json::from_value(accepted).expect("an order");
        let mut order = Order::new(&accepted, &workflow, Timestamp(0));
        for index in compensated {
            order.steps[*index].state = StepState::Compensated {
                applied: Applied {
                    position: None,
                    output: serde_json::Value::Null.into(),
                },
                attempt: Attempt(1),
                started: Some(Timestamp(1)),
                finished: Timestamp(2),
            };
        }
        of_order(&workflow, &order).into_string()
    }

    /// The numbers of arrows back and of turns.
    fn arrows(svg: &str) -> (usize, usize) {
        let head = "marker-end=\"url(#head-back)\"";
        let count = |class| svg.matches(&format!("class=\"{class}\" {head}")).count();
        (count("edge back"), count("edge back turn"))
    }

    #[test]
    fn the_way_back_begins_with_a_turn_even_if_it_is_one_step_long() {
        assert_eq!(arrows(&drawn(&[])), (0, 0));
        assert_eq!(arrows(&drawn(&[0])), (0, 1));
        assert_eq!(arrows(&drawn(&[1])), (0, 1));
        assert_eq!(arrows(&drawn(&[0, 1])), (1, 1));
    }

    #[test]
    fn the_way_back_is_told_in_words_too() {
        assert!(drawn(&[0]).contains("<title>compensation begins with a</title>"));
        let both = drawn(&[0, 1]);
        assert!(both.contains("<title>compensation begins with b</title>"));
        assert!(both.contains("<title>compensation: b, then a</title>"));
    }
}
