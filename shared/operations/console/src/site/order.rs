//! Page of one order, with its full record.

use maud::{Markup, html};
use serde_json::Value;
use triad_core::children::ChildEnd;
use triad_core::outbox::Emission;
use triad_core::{Failure, Order};
use triad_operator::address::in_path;
use triad_operator::alert::in_words;
use triad_operator::children::{self, ChildrenView};
use triad_operator::messages::{self, MessageView};
use triad_operator::next::{self, NextAct};
use triad_operator::operations::{GetOrder, GetWorkflow, Problem, TraceUrl};
use triad_operator::order::TraceView;
use triad_operator::timeline::{attempt, calls_in_words, gaps, timeline};
use triad_workflow::SearchKey;

use super::{Visit, act, bars, decision, graph, layout::Page, orders, text};

/// Text in place of a hidden value.
const HIDDEN: &str = "(hidden)";

pub(super) async fn page(visit: &Visit<'_>) -> Result<Page, Problem> {
    let asked = GetOrder {
        inputs: true,
        ..visit.asked()?
    };
    let found = visit.ask(asked).await?;
    let (order, id) = (&found.order, &found.order.id);
    let pinned = GetWorkflow {
        name: order.workflow.name.to_string(),
        version: order.workflow.hash.to_string(),
        against: None,
    };
    let workflow = visit.ask(pinned).await.and_then(|found| found.compiled());
    let none = Err("they were not asked for".to_owned());
    let given = found.inputs.as_ref().unwrap_or(&none);
    let next = next::of(order, &found.timing);
    let content = html! {
        h1 { "Order " (order.id) }
        (facts(order, found.trace_url.as_ref()))
        (what_next(&next))
        @if let Ok(workflow) = &workflow { (decision::forms(visit, order, workflow)) }
        h2 { "Workflow" }
        @match &workflow {
            Ok(workflow) => (graph::of_order(workflow, order)),
            Err(_) => p { "Its definition is not stored any more." },
        }
        (steps(order))
        (child_orders(order))
        h2 { "Timeline" }
        (bars::of(order, visit.now()))
        (history(order))
        (messages(order))
        (payloads(given))
    };
    let advised: Vec<&str> = next.iter().flat_map(|one| one.acts).copied().collect();
    let behind = match visit.may_act() {
        true => act::of_one(visit, order, &advised),
        false => super::nothing(),
    };
    let events = format!("/v1/operate/events?order={}", in_path(id.as_str()));
    let title = format!("Order {id}");
    Ok(Page::new(title, content)
        .at("/console/orders")
        .live(events)
        .behind(behind))
}

fn facts(order: &Order, trace_url: Option<&TraceUrl>) -> Markup {
    html! {
        dl class="facts" {
            dt { "State" } dd id="state" { (orders::states(order)) }
            @if let Some(cause) = order.state.cause() {
                dt { "Cause" } dd { a href=(by_cause(order, cause)) { (cause.fingerprint()) } " " (cause.message) }
            }
            @if let Some(hold) = &order.paused {
                dt { "Paused" } dd { (text::at(hold.at)) " by " (hold.act.by) ": " (hold.act.why) }
            }
            @if let Some(hold) = &order.closed {
                dt { "Closed" } dd { (text::at(hold.at)) " by " (hold.act.by) ": " (hold.act.why) }
            }
            dt { "Workflow" } dd { a href=(text::version_path(&order.workflow)) { (order.workflow.name) " " (text::short(order.workflow.hash.as_str())) } }
            @if !order.search.is_empty() {
                dt { "Search keys" } dd { ul class="plain" { @for key in &order.search { li { (search_key(key)) } } } }
            }
            @if let Some(parent) = &order.parent {
                dt { "Parent order" } dd id="parent" { (text::order_link(&parent.order_id)) ", " (children::place(order, parent)) }
            }
            dt { "Submitted" } dd { (text::at(order.submitted_at)) }
            @if let Some(at) = order.state.finished_at() {
                dt { "Finished" } dd { (text::at(at)) " after " (text::since(order.submitted_at, at)) }
            } @else if let Some(at) = order.complete_by() {
                dt { "Due" } dd { (text::at(at)) }
            }
            @if let Some(at) = order.start_at { dt { "Starts" } dd { "not before " (text::at(at)) } }
            @if let Some(at) = order.deadline {
                dt { "Deadline" } dd { (text::at(at)) @if let Some(late) = order.late_since { ", late since " (text::at(late)) } }
            }
            dt { "Attempts" } dd { (order.attempts()) }
            @if order.run > 0 { dt { "Run" } dd { (order.run) } }
            @if let Some(claim) = order.state.locked_by() {
                dt { "Held by" } dd { (claim.instance().unwrap_or(&claim.0)) }
            }
            @if let Some(trace) = TraceView::of(order) {
                dt { "Trace" } dd id="trace" { (trace_link(&trace, trace_url)) }
            }
        }
    }
}

/// A trace's id; a link if the trace tool's address is set.
fn trace_link(trace: &TraceView, at: Option<&TraceUrl>) -> Markup {
    let id = &trace.trace_id;
    html! {
        @match at {
            // Opens in a new tab, so that the order's page stays.
            Some(at) => a href=(at.of(id)) target="_blank" rel="noopener noreferrer" { code { (id) } },
            None => code { (id) },
        }
        @if !trace.sampled { " " span class="soft" { "not sampled: it has only what failed" } }
    }
}

/// A search key, as a link to all orders with it.
fn search_key(key: &SearchKey) -> Markup {
    if key.value() == HIDDEN {
        return html! { (key) };
    }
    let mut query = form_urlencoded::Serializer::new(String::new());
    query.append_pair("search", &key.to_string());
    html! { a href={ "/console/orders?" (query.finish()) } { (key) } }
}

/// Path of the orders that failed for the same cause.
fn by_cause(order: &Order, cause: &Failure) -> String {
    let mut query = form_urlencoded::Serializer::new(String::new());
    query.append_pair("state", order.state.name());
    query.append_pair("cause", &cause.fingerprint());
    format!("/console/orders?{}", query.finish())
}

fn what_next(next: &[NextAct]) -> Markup {
    html! {
        h2 { "What happens next" }
        ul {
            @for one in next {
                li {
                    @if let Some(at) = one.at { (text::at(at)) ": " }
                    (one.what)
                    @if !one.acts.is_empty() { span class="soft" { " (" (one.acts.join(", ")) ")" } }
                }
            }
        }
    }
}

fn steps(order: &Order) -> Markup {
    html! {
        div class="scroll" tabindex="0" role="region" aria-label="Steps" {
            table {
                caption { "Steps" }
                thead { tr {
                    th scope="col" { "Step" } th scope="col" { "State" } th class="number" scope="col" { "Attempt" }
                    th class="number" scope="col" { "Calls" } th class="number" scope="col" { "Failures" }
                    th scope="col" { "Last error" }
                } }
                tbody {
                    @for step in &order.steps {
                        tr id={ "step-" (step.step) } {
                            td { (step.step) }
                            td { (text::step_state(step)) @if step.in_doubt.is_some() { " " span class="state warn" { "in doubt" } } }
                            td class="number" { (attempt(&step.state).map_or_else(String::new, |a| a.to_string())) }
                            td class="number" { (calls_in_words(step.action, step.compensation)) }
                            td class="number" { (step.action.failures + step.compensation.failures) }
                            td { (step.error.as_ref().map_or_else(String::new, ToString::to_string)) }
                        }
                    }
                }
            }
        }
    }
}

/// Of each step that has started child orders how they stand, with links to those that an operator may want to look at.
fn child_orders(order: &Order) -> Markup {
    let of_steps = order.steps.iter();
    let of_steps = of_steps.filter_map(|step| Some((&step.step, ChildrenView::of(order, step)?)));
    let of_steps: Vec<_> = of_steps.collect();
    let mut query = form_urlencoded::Serializer::new(String::new());
    query.append_pair("parent", order.id.as_str());
    html! {
        @if !of_steps.is_empty() {
            h2 { "Child orders" }
            @for (step, children) in &of_steps {
                p { (step) ": " (children) }
                ul {
                    @for some in children.named() {
                        li {
                            (some.state) ": "
                            @for (at, id) in some.ids.iter().enumerate() { @if at > 0 { ", " } (text::order_link(id)) }
                            @if some.more > 0 { ", and " (some.more) " more" }
                        }
                    }
                }
            }
            p { a href={ "/console/orders?" (query.finish()) } { "All child orders" } }
        }
    }
}

fn history(order: &Order) -> Markup {
    let shown = timeline(order);
    html! {
        div class="scroll" tabindex="0" role="region" aria-label="Timeline" {
            table {
                caption { "Everything that the record knows, oldest first" }
                thead { tr { th scope="col" { "Time" } th scope="col" { "What" } } }
                tbody { @for entry in shown { tr { td { (text::exactly_at(entry.at)) } td { (entry.what) } } } }
            }
        }
        @for gap in gaps(order) { p class="note" { "Nothing is kept of " (gap) "." } }
    }
}

/// The outbox of the order.
fn messages(order: &Order) -> Markup {
    let messages = messages::of(order);
    html! {
        @if !messages.is_empty() {
            details {
                summary { "Messages that are not noted as acknowledged: " (messages.len()) }
                ul { @for message in &messages { li { (message_line(message)) } } }
            }
        }
    }
}

/// A message as text, with its topic, id and idempotency key.
fn message_line(message: &MessageView<'_>) -> Markup {
    html! {
        (message_in_words(message.what))
        @if let Some(topic) = &message.topic { ", to " code { (topic) } }
        @if let Some(id) = &message.message_id { ", id " code { (id) } }
        @if let Some(key) = &message.idempotency_key { ", key " code { (key) } }
    }
}

fn message_in_words(message: &Emission) -> String {
    match message {
        Emission::Wake => "a wake for the Scheduler".to_owned(),
        Emission::Request {
            step,
            direction,
            attempt,
        } => format!(
            "request for {step}, {}, attempt {attempt}",
            name_of(&direction.to_string())
        ),
        Emission::Status {
            sequence, status, ..
        } => format!("status {sequence}: {}", status.as_str()),
        Emission::Alert { kind, .. } => format!("alert: {}", in_words(*kind)),
        Emission::Children { step, numbers } => match numbers[..] {
            [_] => format!("a message to a child order of {step}"),
            _ => format!("messages to {} child orders of {step}", numbers.len()),
        },
        Emission::Ended { end } => match end {
            ChildEnd::Processed { .. } => "to the parent order: Processed".to_owned(),
            ChildEnd::NoEffect { .. } => "to the parent order: no effect".to_owned(),
            ChildEnd::Kept { .. } => "to the parent order: cannot be compensated".to_owned(),
        },
    }
}

/// The order's details, and each step's input, key and output.
fn payloads(given: &Result<Value, String>) -> Markup {
    html! {
        h2 { "Inputs, outputs, and keys to search a service's logs with" }
        @match given {
            Err(why) => p { "They cannot be shown: " (why) "." },
            Ok(given) => {
                details { summary { "Details of the order" } pre tabindex="0" { (pretty(&given["details"])) } }
                @for call in given["calls"].as_array().into_iter().flatten() {
                    @let step = call["step"].as_str().unwrap_or_default();
                    @let direction = call["direction"].as_str().unwrap_or_default();
                    details {
                        summary { (step) ", " (name_of(direction)) ": " (call["agent"].as_str().unwrap_or_default()) "/" (call["action"].as_str().unwrap_or_default()) }
                        p { "Key " code { (call["idempotency_key"].as_str().unwrap_or_default()) } }
                        @if let Some(why) = call["why"].as_str() { p { "No input now: " (why) } }
                        @else { h3 { "Input" } pre tabindex="0" { (pretty(&call["input"])) } }
                        @if let Some(request) = call["request"].as_str() { h3 { "Request" } pre tabindex="0" { (request) } }
                        @if direction == "forward" && !given["outputs"][step].is_null() {
                            h3 { "Output" } pre tabindex="0" { (pretty(&given["outputs"][step])) }
                        }
                    }
                }
            }
        }
    }
}

fn name_of(direction: &str) -> &str {
    match direction {
        "forward" => "action",
        "compensate" => "compensation",
        other => other,
    }
}

pub(super) fn pretty(value: &Value) -> String {
    format!("{value:#}")
}
