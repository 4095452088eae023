//! Small parts of pages: moments, spans, states, links.

use maud::{Markup, html};
use triad_core::{OrderId, StepRecord, StepState, Timestamp, Work, WorkflowRef};
use triad_operator::address::{PageAddress, in_path};
use triad_operator::json::moment;
use triad_operator::timeline::state_in_words;
use triad_runtime::ports::Unreadable;
use triad_workflow::Millis;

/// A moment: exact in the attribute and the title; the browser shows it in the reader's time zone.
pub(super) fn at(at: Timestamp) -> Markup {
    let exact = moment(at);
    html! { time datetime=(exact) title=(exact) { (exact) } }
}

/// A moment with milliseconds.
pub(super) fn exactly_at(at: Timestamp) -> Markup {
    let exact = moment(at);
    html! { time class="exact" datetime=(exact) title=(exact) { (exact) } }
}

/// An optional moment.
pub(super) fn maybe_at(moment: Option<Timestamp>) -> Markup {
    moment.map_or_else(super::nothing, at)
}

/// A number of orders, if it was counted.
pub(super) fn counted(orders: Option<u64>) -> String {
    orders.map_or_else(|| "–".to_owned(), |orders| orders.to_string())
}

/// A time span for people.
pub(super) fn span(millis: u64) -> String {
    match millis {
        0..1_000 => format!("{millis} ms"),
        1_000..60_000 => format!("{}.{} s", millis / 1_000, millis % 1_000 / 100),
        60_000..3_600_000 => format!("{} min {} s", millis / 60_000, millis % 60_000 / 1_000),
        3_600_000..86_400_000 => {
            format!(
                "{} h {} min",
                millis / 3_600_000,
                millis % 3_600_000 / 60_000
            )
        }
        _ => format!(
            "{} d {} h",
            millis / 86_400_000,
            millis % 86_400_000 / 3_600_000
        ),
    }
}

/// Time since a moment.
pub(super) fn since(from: Timestamp, now: Timestamp) -> String {
    let Millis(lasted) = now.since(from);
    span(lasted)
}

/// Style class of a process state or a breaker's state.
pub(super) fn class_of(state: &str) -> &'static str {
    match state {
        "Processed" | "reachable" | "done" => "good",
        "Error" | "CompensationFailed" | "down" | "failed" => "bad",
        "Compensating" | "Compensated" | "Paused" | "tried again" | "refused" => "warn",
        "Processing" => "busy",
        _ => "none",
    }
}

/// A state with its colour and its name.
pub(super) fn state(name: &str) -> Markup {
    html! { span class={ "state " (class_of(name)) } { (name) } }
}

/// Style class of a step's state.
pub(super) fn class_of_step(state: &StepState) -> &'static str {
    match state {
        StepState::Waiting | StepState::Skipped | StepState::Acting(Work::Parked { .. }) => "none",
        StepState::Acting(Work::Failed { .. })
        | StepState::Refused { .. }
        | StepState::Ambiguous { .. }
        | StepState::NotCompensated { .. } => "bad",
        StepState::Acting(Work::Deferred { .. })
        | StepState::Compensating { .. }
        | StepState::Compensated { .. } => "warn",
        StepState::Acting(Work::Due { .. } | Work::Delayed { .. } | Work::Out(_)) => "busy",
        StepState::Completed { .. } => "good",
    }
}

/// A step's state with its colour.
pub(super) fn step_state(record: &StepRecord) -> Markup {
    html! { span class={ "state " (class_of_step(&record.state)) } { (state_in_words(record)) } }
}

/// A link to an order's page.
pub(super) fn order_link(id: &OrderId) -> Markup {
    html! { a href=(PageAddress::Order(id.as_str()).path()) { (id) } }
}

/// Path of a version's page.
pub(super) fn version_path(version: &WorkflowRef) -> String {
    let (name, hash) = (
        in_path(version.name.as_str()),
        in_path(version.hash.as_str()),
    );
    format!("/console/workflows/{name}/{hash}")
}

/// The beginning of a hash; the whole hash is in the title.
pub(super) fn short(hash: &str) -> Markup {
    let beginning: String = hash.chars().take(12).collect();
    html! { code title=(hash) { (beginning) } }
}

/// The records that could not be read, if any.
pub(super) fn unreadable(named: &[Unreadable], others: u64) -> Markup {
    let number = named.len() as u64 + others;
    html! {
        @if number > 0 {
            div class="box warn" {
                p { (number) " records cannot be read:" }
                ul { @for one in named.iter().take(20) { li { (one.order_id) ": " (one.why) } } }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::span;

    #[test]
    fn spans_are_said_as_people_say_them() {
        let said = [7, 1_250, 61_000, 3_720_000, 90_000_000].map(span);
        assert_eq!(said, ["7 ms", "1.2 s", "1 min 1 s", "1 h 2 min", "1 d 1 h"]);
    }
}
