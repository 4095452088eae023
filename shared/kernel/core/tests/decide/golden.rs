//! Golden files of every message and of the parts of a record, so that a change of a stored or sent form fails a
//! test.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use triad_core::ledger::Mark;
use triad_core::message::{Alert, AlertKind, Pace, SchedulerMessage, StatusMessage};
use triad_core::order::{Dropped, Incident};
use triad_core::outbox::Outbox;
use triad_core::render;
use triad_core::status::Status;
use triad_core::{
    Accepted, Action, Event, Failure, FailureKind, Order, Overdue, Priority, ProcessState, Reply,
    ReplyOutcome, StepRecord, StepRequest, Timestamp, Wake,
};

use crate::support::{BEGIN, FORK, LINE, ONCE, Story, done, refused};

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
        start_at: None,
        deadline: None,
        search: Vec::new(),
        parent: None,
        details: json!({"amount": 7}),
    }
}

fn to_value(body: &impl Serialize) -> Value {
    serde_json::to_value(body).unwrap()
}

/// An agent's measurements; every reply below has them.
const PACE: Pace = Pace {
    waited_ms: 40,
    took_ms: 210,
};

/// Replies of third-party agents, which have no send time and no measurements. They are only read here, never
/// written.
const FOREIGN: [&str; 2] = ["reply-success", "reply-failure"];

/// The reply of an agent of this release.
fn answer(s: &Story, outcome: ReplyOutcome) -> Reply {
    Reply {
        sent_at: Some(s.now),
        pace: Some(PACE),
        ..s.reply("a", outcome)
    }
}

/// Every message type by name, as this release makes it.
fn all() -> Vec<(String, Value)> {
    let mut s = Story::of(LINE).claimed();
    s.after(250);
    let reply = answer(&s, done());
    let mut all = vec![
        (
            "accepted".to_owned(),
            to_value(&SchedulerMessage::Accepted(accepted(&s))),
        ),
        (
            "accepted-deadline".to_owned(),
            to_value(&SchedulerMessage::Accepted(Accepted {
                start_at: None,
                deadline: Some(Timestamp(BEGIN + 60_000)),
                ..accepted(&s)
            })),
        ),
        (
            "accepted-search".to_owned(),
            to_value(&SchedulerMessage::Accepted(Accepted {
                search: vec!["customer=ALFKI".parse().expect("a search key")],
                ..accepted(&s)
            })),
        ),
        (
            "wake".to_owned(),
            to_value(&SchedulerMessage::Wake(Wake {
                order_id: s.order.id.clone(),
            })),
        ),
        (
            "reply-success-sent-at".to_owned(),
            to_value(&SchedulerMessage::Reply(reply.clone())),
        ),
        (
            "reply-failure-sent-at".to_owned(),
            to_value(&SchedulerMessage::Reply(answer(&s, refused(true)))),
        ),
        (
            "reply-deferred-opens".to_owned(),
            to_value(&SchedulerMessage::Reply(answer(
                &s,
                ReplyOutcome::Deferred {
                    until: Timestamp(BEGIN + 5_000),
                    opens: Some(Timestamp(BEGIN + 3_000)),
                    failure: Failure::new(FailureKind::Transient, "breaker-open", "not now"),
                    maybe_applied: false,
                },
            ))),
        ),
        ("request-forward".to_owned(), to_value(&s.requests()[0])),
    ];
    let request = &s.requests()[0];
    let envelope = render::reply(request, 1, reply.outcome.clone(), PACE, s.now, None);
    assert_eq!(
        serde_json::from_slice::<Value>(&envelope.value).unwrap(),
        all[4].1,
        "the agent's answer is that very message"
    );
    // The order was submitted at the story's beginning.
    s.now = Timestamp(BEGIN);
    s.when(Event::Reply(s.reply("a", reply.outcome)));
    s.refuse("b");
    all.push((
        "request-compensation".to_owned(),
        to_value(&s.requests()[0]),
    ));
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
        (Status::Conflict, true),
    ] {
        let body = StatusMessage {
            order_id: s.order.id.clone(),
            sequence: 4,
            status,
            step: None,
            cause: cause.clone().filter(|_| with_cause),
            at: Timestamp(BEGIN),
        };
        all.push((format!("status-{}", status.as_str()), to_value(&body)));
    }
    let progress = StatusMessage {
        order_id: s.order.id.clone(),
        sequence: 4,
        status: Status::StepCompleted,
        step: Some(s.order.steps[0].step.clone()),
        cause: None,
        at: Timestamp(BEGIN),
    };
    all.push(("status-step-completed".to_owned(), to_value(&progress)));
    for (kind, name) in [
        (AlertKind::OrderError, "order-error"),
        (AlertKind::CompensationFailed, "compensation-failed"),
        (AlertKind::OrderLate, "order-late"),
        (AlertKind::EventsUnused, "events-unused"),
        (AlertKind::Breaker, "breaker"),
        (AlertKind::Misconfigured, "misconfigured"),
        (AlertKind::Unreadable, "unreadable"),
        (AlertKind::CampaignStopped, "campaign-stopped"),
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
    s.order.dropped = Some(Dropped {
        lines: 2,
        latest: Timestamp(1_000_000),
    });
    all.push(("record-parts-compensated".to_owned(), parts(&s)));
    let mut s = Story::of(FORK).claimed();
    s.untaken().claim().sent();
    s.now = s.ripe();
    s.when(Event::Overdue(Overdue::default()));
    all.push(("record-parts-unheard".to_owned(), parts(&s)));
    let mut s = Story::of(ONCE).claimed();
    s.sent().succeed("a").sent();
    s.acts(Action::Cancel).claim().sent();
    all.push(("record-parts-in-doubt".to_owned(), parts(&s)));
    all.push(("mark-of-an-agent".to_owned(), to_value(&TAKEN)));
    all.push(("mark-revoked".to_owned(), to_value(&Mark::REVOKED)));
    all
}

/// The mark that an agent writes into the call ledger.
const TAKEN: Mark = Mark {
    allowance: 2,
    revoked: false,
};

/// The parts of an order that the store keeps as JSON; the rest are plain columns.
fn parts(s: &Story) -> Value {
    let order = &s.order;
    json!({"state": order.state, "steps": order.steps, "outbox": order.outbox, "incidents": order.incidents, "dropped": order.dropped})
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

/// Writes the golden files. A released form must stay readable, so a form that differs gets a new file name
/// (`tests/tests/golden.rs`).
#[test]
#[ignore = "writes the golden files"]
fn write_golden_files() {
    for (name, body) in all() {
        let text = serde_json::to_string_pretty(&body).unwrap() + "\n";
        std::fs::write(path(&name), text).unwrap();
    }
}

/// Decodes a golden message and checks that it encodes to the same value.
fn round_trip<T: Serialize + DeserializeOwned>(name: &str) -> T {
    let text = std::fs::read_to_string(path(name)).unwrap();
    let decoded: T = serde_json::from_str(&text).unwrap_or_else(|e| panic!("{name}: {e}"));
    let golden: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(to_value(&decoded), golden, "{name}");
    decoded
}

#[test]
fn stored_messages_still_decode() {
    let written = all().into_iter().map(|(name, _)| name);
    for name in written.chain(FOREIGN.map(str::to_owned)) {
        match name.split('-').next() {
            Some("accepted" | "wake" | "reply") => drop(round_trip::<SchedulerMessage>(&name)),
            Some("request") => drop(round_trip::<StepRequest>(&name)),
            Some("status") => drop(round_trip::<StatusMessage>(&name)),
            Some("alert") => drop(round_trip::<Alert>(&name)),
            Some("mark") => drop(round_trip::<Mark>(&name)),
            Some("record") => record_round_trip(&name),
            _ => panic!("no type is known of {name}"),
        }
    }
}

/// Decodes a golden record's parts and checks that they encode to the same values.
fn record_round_trip(name: &str) {
    let parts: BTreeMap<String, Value> = round_trip(name);
    fn again<T: Serialize + DeserializeOwned>(part: &Value) -> Value {
        to_value(&serde_json::from_value::<T>(part.clone()).unwrap())
    }
    for (part, stored) in &parts {
        let read = match part.as_str() {
            "state" => again::<ProcessState>(stored),
            "steps" => again::<Vec<StepRecord>>(stored),
            "outbox" => again::<Outbox>(stored),
            "incidents" => again::<Vec<Incident>>(stored),
            "dropped" => again::<Option<Dropped>>(stored),
            other => panic!("no part {other}"),
        };
        assert_eq!(&read, stored, "{name}: {part}");
    }
}

#[test]
fn every_golden_file_is_read() {
    let written = all().into_iter().map(|(name, _)| name);
    let known: BTreeSet<String> = written.chain(FOREIGN.map(str::to_owned)).collect();
    let files = std::fs::read_dir(path("accepted").parent().unwrap()).unwrap();
    let names = files.map(|f| f.unwrap().path().file_stem().unwrap().to_owned());
    let found: BTreeSet<String> = names.map(|n| n.into_string().unwrap()).collect();
    assert_eq!(found, known);
}

#[test]
fn a_foreign_reply_need_not_say_when_it_was_sent() {
    for name in FOREIGN {
        let SchedulerMessage::Reply(reply) = round_trip(name) else {
            panic!("{name} is a reply")
        };
        assert_eq!((reply.sent_at, reply.pace), (None, None));
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
    let mut body = to_value(&SchedulerMessage::Wake(Wake {
        order_id: "1".to_owned().try_into().unwrap(),
    }));
    body["added_later"] = json!([1]);
    assert!(serde_json::from_value::<SchedulerMessage>(body).is_ok());
    let outcome = json!({"result": "succeeded", "output": 1, "added_later": true});
    assert!(serde_json::from_value::<ReplyOutcome>(outcome).is_ok());
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
