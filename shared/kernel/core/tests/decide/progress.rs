//! Statuses of single steps, sent to the submitting application if the workflow declares them.

use serde_json::json;
use triad_core::message::StatusMessage;
use triad_core::status::Status;

use crate::support::{LINE, Story, failed};

fn telling(workflow: &str) -> Story {
    let rest = workflow.strip_prefix('{').expect("an object");
    Story::of(&format!(r#"{{"progress": true, {rest}"#)).claimed()
}

/// Sequence, status and step of each status message.
fn told(s: &Story) -> Vec<(u32, Status, Option<String>)> {
    let statuses = s.messages().into_iter().filter(|m| m.topic == "status");
    let read = |m: triad_core::Envelope| serde_json::from_slice(&m.value).expect("a status");
    let statuses = statuses.map(read).map(|m: StatusMessage| {
        let step = m.step.map(|step| step.to_string());
        (m.sequence, m.status, step)
    });
    statuses.collect()
}

#[test]
fn each_completed_step_is_told_in_its_place_and_the_end_last() {
    let mut s = telling(LINE);
    s.sent().succeed("a");
    assert_eq!(told(&s), [(3, Status::StepCompleted, Some("a".into()))]);
    s.sent().succeed("b").sent().succeed("c");
    let last = [
        (5, Status::StepCompleted, Some("c".into())),
        (6, Status::Completed, None),
    ];
    assert_eq!(told(&s), last);
}

#[test]
fn where_the_workflow_does_not_ask_for_it_nothing_is_told_of_steps() {
    let mut s = Story::of(LINE).claimed();
    s.sent().succeed("a");
    assert_eq!(told(&s), []);
}

#[test]
fn a_step_that_an_operator_says_is_done_is_told_too() {
    let mut s = telling(crate::support::ONCE);
    s.succeed("a").sent().answer("once", failed());
    assert_eq!(s.state(), "Error");
    s.sent().resolve("once", Some(json!({})));
    let now = told(&s);
    assert_eq!(now[0].1, Status::StepCompleted);
    assert_eq!(now[0].2.as_deref(), Some("once"));
}
