//! Golden files of every message: what is on the wire does not change unseen, and what earlier
//! releases sent still decodes.

use std::path::PathBuf;

use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use triad_core::message::{Alert, AlertKind, SchedulerMessage, StatusMessage};
use triad_core::status::Status;
use triad_core::{
    Accepted, Event, Order, Outcome, Priority, Retry, StepRequest, Timestamp, outbox,
};

use crate::support::{BEGIN, LINE, Story, done, refused};

fn path(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("tests/golden/{name}.json"))
}

fn accepted(s: &Story) -> Accepted {
    Accepted {
        order_id: s.order.id.clone(),
        workflow: s.order.workflow.clone(),
        priority: Priority::High,
        reply_topic: Some("reply.shop".into()),
        traceparent: Some("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".into()),
        submitted_at: Timestamp(BEGIN),
        due: Timestamp(BEGIN + 10_000),
        details: json!({"amount": 7}),
    }
}

fn to_value(body: &impl Serialize) -> Value {
    serde_json::to_value(body).unwrap()
}

/// Every message type by name, as this release makes it.
fn all() -> Vec<(String, Value)> {
    let mut s = Story::of(LINE).claimed();
    let mut all = vec![
        (
            "accepted".to_owned(),
            to_value(&SchedulerMessage::Accepted(accepted(&s))),
        ),
        (
            "retry".to_owned(),
            to_value(&SchedulerMessage::Retry(Retry {
                order_id: s.order.id.clone(),
            })),
        ),
        (
            "reply-success".to_owned(),
            to_value(&SchedulerMessage::Reply(s.reply("a", done()))),
        ),
        (
            "reply-failure".to_owned(),
            to_value(&SchedulerMessage::Reply(s.reply("a", refused(true)))),
        ),
        ("request-forward".to_owned(), to_value(&s.requests()[0])),
    ];
    let reply = s.reply("a", done());
    let envelope = outbox::reply(&s.requests()[0], 1, reply.outcome.clone(), None);
    assert_eq!(
        serde_json::from_slice::<Value>(&envelope.value).unwrap(),
        all[2].1,
        "the agent's answer is that very message"
    );
    s.when(Event::Reply(reply));
    s.refuse("b");
    all.push(("request-undo".to_owned(), to_value(&s.requests()[0])));
    let cause = s.order.state.cause().cloned();
    for (status, with_cause) in [
        (Status::Received, false),
        (Status::Started, false),
        (Status::Retrying, true),
        (Status::Completed, false),
        (Status::Compensating, true),
        (Status::Compensated, true),
        (Status::CompensationFailed, true),
        (Status::Failed, true),
        (Status::Resubmitted, false),
        (Status::Rejected, true),
    ] {
        let body = StatusMessage {
            order_id: s.order.id.clone(),
            sequence: 4,
            status,
            cause: cause.clone().filter(|_| with_cause),
            at: Timestamp(BEGIN),
        };
        all.push((format!("status-{}", status.as_str()), to_value(&body)));
    }
    for (kind, name) in [
        (AlertKind::OrderError, "order-error"),
        (AlertKind::CompensationFailed, "compensation-failed"),
        (AlertKind::Breaker, "breaker"),
    ] {
        let body = Alert {
            alert_id: format!("o-1/{name}/{BEGIN}"),
            kind,
            order_id: Some("o-1".into()),
            cause: cause.as_ref().unwrap().to_string(),
            at: Timestamp(BEGIN),
        };
        all.push((format!("alert-{name}"), to_value(&body)));
    }
    s.sent().succeed("a");
    all.push((
        "record-parts".to_owned(),
        json!({"state": s.order.state, "steps": s.order.steps, "outbox": s.order.outbox, "incidents": s.order.incidents}),
    ));
    all
}

#[test]
fn messages_are_as_the_golden_files_have_them() {
    for (name, body) in all() {
        let text = std::fs::read_to_string(path(&name)).unwrap_or_default();
        let golden: Value = serde_json::from_str(&text).unwrap_or_default();
        assert_eq!(
            body, golden,
            "{name}: run `cargo test -p triad-core -- --ignored write_golden_files` if this is meant"
        );
    }
}

#[test]
#[ignore = "writes the golden files anew"]
fn write_golden_files() {
    for (name, body) in all() {
        let text = serde_json::to_string_pretty(&body).unwrap() + "\n";
        std::fs::write(path(&name), text).unwrap();
    }
}

/// Decodes a stored message and gets the very same back.
fn round_trip<T: Serialize + DeserializeOwned>(name: &str) -> T {
    let text = std::fs::read_to_string(path(name)).unwrap();
    let decoded: T = serde_json::from_str(&text).unwrap_or_else(|e| panic!("{name}: {e}"));
    let golden: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(to_value(&decoded), golden, "{name}");
    decoded
}

#[test]
fn stored_messages_still_decode() {
    for name in ["accepted", "retry", "reply-success", "reply-failure"] {
        round_trip::<SchedulerMessage>(name);
    }
    for name in ["request-forward", "request-undo"] {
        round_trip::<StepRequest>(name);
    }
    for (name, _) in all() {
        if name.starts_with("status-") {
            round_trip::<StatusMessage>(&name);
        } else if name.starts_with("alert-") {
            round_trip::<Alert>(&name);
        }
    }
}

#[test]
fn absent_fields_have_their_defaults() {
    let bare = json!({"type": "accepted", "order_id": "1", "workflow": "w@0123456789abcdef",
        "submitted_at": 1, "due": 2, "details": {}});
    let SchedulerMessage::Accepted(a) = serde_json::from_value(bare).unwrap() else {
        panic!("an announcement")
    };
    assert_eq!((a.priority, a.reply_topic), (Priority::Normal, None));
}

#[test]
fn unknown_fields_of_a_later_release_are_ignored() {
    let mut body = to_value(&SchedulerMessage::Retry(Retry {
        order_id: "1".to_owned().try_into().unwrap(),
    }));
    body["added_later"] = json!([1]);
    assert!(serde_json::from_value::<SchedulerMessage>(body).is_ok());
    let outcome = json!({"result": "succeeded", "output": 1, "added_later": true});
    assert!(serde_json::from_value::<Outcome>(outcome).is_ok());
}

#[test]
fn the_parts_of_a_record_survive_their_stored_form() {
    for build in [
        |s: &mut Story| {
            s.claim();
        },
        |s: &mut Story| {
            s.claim().overdue();
        },
        |s: &mut Story| {
            s.claim().succeed("a").answer("b", refused(true));
        },
        |s: &mut Story| {
            s.claim().succeed("a").refuse("b").succeed("a");
        },
    ] {
        let mut s = Story::of(LINE);
        build(&mut s);
        let order: &Order = &s.order;
        let again = |v: Value| v.to_string();
        let state = serde_json::from_str(&again(to_value(&order.state))).unwrap();
        let steps = serde_json::from_str(&again(to_value(&order.steps))).unwrap();
        let outbox = serde_json::from_str(&again(to_value(&order.outbox))).unwrap();
        let copy = Order {
            state,
            steps,
            outbox,
            ..order.clone()
        };
        assert_eq!(&copy, order);
    }
}
