//! A small valid history. The tests of the checks change it so that one check fails.
//!
//! It has three orders of the chaos workflow: `done` is Processed, `back` is Compensated because its carrier refused,
//! `stuck` is in Error because its last step was refused. There is also a record that cannot be handled, and one with
//! the id of `done` and different content.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use serde_json::{Value, json};
use triad_core::message::{AlertKind, StatusMessage};
use triad_core::outbox::{Outbox, Writer};
use triad_core::status::Status;
use triad_core::{
    Accepted, Alert, Applied, Attempt, Failure, FailureKind, Order, OrderId, Priority,
    ProcessState, StepState, Timestamp, Version, WorkflowRef,
};
use triad_reference_service::Direction;
use triad_reference_service::book::{Book, LedgerLine};
use triad_reference_service::contract::{CallHead, Cause, Kind};
use triad_runtime::dead_letter::LetterId;
use triad_workflow::{Limits, StepId, Workflow, load};

use super::all;
use crate::evidence::{AgentReply, AgentRequest, AttemptId, Evidence, Offsets, ReplyContent};
use crate::load::{Sort, Submission};
use crate::submit::Sent;
use crate::watch::Sightings;
use triad_tests::topics::Raw;

const FINISHED: Timestamp = Timestamp(50);
const COMPLETE_BY: Timestamp = Timestamp(100);

/// Names of the checks that found a violation.
pub(super) fn breached(evidence: &Evidence) -> Vec<&'static str> {
    let verdicts = all(evidence).into_iter();
    let broken = verdicts.filter(|v| !v.breaches.is_empty());
    broken.map(|v| v.what).collect()
}

/// The chaos workflow, compiled once for all tests.
static WORKFLOW: LazyLock<Arc<Workflow>> = LazyLock::new(|| {
    let yaml = include_str!("../workflow.yaml");
    Arc::new(load::from_yaml("workflow.yaml", yaml, &Limits::published()).unwrap())
});

pub(super) fn workflow() -> Arc<Workflow> {
    WORKFLOW.clone()
}

/// A position in the topic of orders.
pub(super) fn place(offset: i64) -> LetterId {
    LetterId {
        topic: "orders".into(),
        partition: 0,
        offset,
    }
}

fn details(order: &str) -> Value {
    json!({"customerID": order})
}

fn id(order: &str, step: &str, is_compensation: bool, attempt: u32) -> AttemptId {
    AttemptId {
        order: order.into(),
        step: step.into(),
        is_compensation,
        attempt,
    }
}

/// A request to an agent.
pub(super) fn asked(order: &str, step: &str, is_compensation: bool, attempt: u32) -> AgentRequest {
    AgentRequest {
        id: id(order, step, is_compensation, attempt),
        complete_by: COMPLETE_BY,
        allowance: 3,
        content: u64::from(attempt),
        at_ms: 0,
    }
}

/// A call of a first attempt, with its result.
pub(super) fn call(order: &str, step: &str, is_compensation: bool, kind: Kind) -> LedgerLine {
    let workflow = workflow();
    let agent = &workflow.steps[workflow.step_index(step).unwrap()]
        .call()
        .expect("a call")
        .agent;
    let (key, compensates) = match is_compensation {
        false => (format!("{order}/{step}/forward"), None),
        true => (
            format!("{order}/{step}/compensate"),
            Some(format!("{order}/{step}/forward")),
        ),
    };
    LedgerLine {
        at_ms: 40,
        head: CallHead {
            service: agent.to_string(),
            action: "act".into(),
            order: order.into(),
            step: step.into(),
            direction: match is_compensation {
                false => Direction::Forward,
                true => Direction::Compensate,
            },
            attempt: 1,
            key,
            compensates,
        },
        fingerprint: 1,
        call: 1,
        kind,
        cause: (kind == Kind::Refused).then_some(Cause::Declined),
    }
}

fn cause(step: &str) -> Failure {
    Failure {
        kind: FailureKind::Permanent,
        step: Some(StepId::new(step).unwrap()),
        code: "declined".into(),
        message: "no".into(),
    }
}

impl Evidence {
    fn submit(&mut self, sort: Sort, order: Option<&str>, value: Value) {
        let place = place(self.sent.len() as i64);
        let raw = Raw {
            topic: place.topic.clone(),
            value: Some(value.to_string().into_bytes()),
            ..Raw::default()
        };
        self.inputs.insert(place.clone(), raw.value.clone());
        let submission = Submission {
            sort,
            order: order.map(str::to_owned),
            raw,
        };
        self.sent.push(Sent { submission, place });
    }

    fn dead_letter(&mut self, offset: i64, cause: &str) {
        self.letters.push((place(offset), cause.into()));
        self.alerts.push(Alert {
            alert_id: format!("dead-letter/{}", place(offset)),
            kind: AlertKind::DeadLetter,
            order_id: None,
            cause: cause.into(),
            at: FINISHED,
        });
    }

    /// Adds an order, with its calls and their results in order.
    fn order(
        &mut self,
        name: &str,
        calls: &[(&str, bool, Kind)],
        end: ProcessState,
        told: &[Status],
    ) {
        self.submit(
            Sort::Order,
            Some(name),
            json!({"order_id": name, "details": details(name)}),
        );
        self.details.insert(name.into(), details(name));
        let accepted = Accepted {
            order_id: OrderId::new(name).unwrap(),
            workflow: WorkflowRef {
                name: self.workflow.name.clone(),
                hash: self.workflow.hash.clone(),
            },
            priority: Priority::Normal,
            reply_topic: None,
            traceparent: None,
            submitted_at: Timestamp(1),
            due: Timestamp(2),
            start_at: None,
            deadline: None,
            search: Vec::new(),
            parent: None,
            details: details(name),
        };
        let mut record = Order::new(&accepted, &self.workflow, Timestamp(2));
        record.version = Version(9);
        record.due = None;
        record.outbox = Outbox::empty(Writer::Scheduler);
        record.sequence = told.len() as u32;
        record.state = end;
        for (position, &(step, is_compensation, kind)) in calls.iter().enumerate() {
            let index = self.workflow.step_index(step).unwrap();
            let output = json!({"reference": step});
            let attempt = Attempt(1);
            record.steps[index].state = match (is_compensation, kind) {
                (_, Kind::Refused) => StepState::Refused { attempt },
                (true, _) => StepState::Compensated {
                    applied: Applied {
                        position: Some(position as u32),
                        output: output.clone().into(),
                    },
                    started: None,
                    attempt,
                    finished: FINISHED,
                },
                (false, _) => StepState::Completed {
                    attempt,
                    started: Some(Timestamp(10)),
                    finished: FINISHED,
                    position: position as u32,
                    output: output.clone().into(),
                },
            };
            self.requests.push(asked(name, step, is_compensation, 1));
            self.calls.push(call(name, step, is_compensation, kind));
            self.replies.push(AgentReply {
                id: id(name, step, is_compensation, 1),
                complete_by: COMPLETE_BY,
                said: match kind {
                    Kind::Refused => ReplyContent::Failed,
                    _ => ReplyContent::Done(output),
                },
                at_ms: 0,
            });
        }
        let messages = told.iter().zip(1..).map(|(status, sequence)| {
            let message = StatusMessage {
                step: None,
                order_id: accepted.order_id.clone(),
                sequence,
                status: *status,
                cause: None,
                at: FINISHED,
            };
            ("status".to_owned(), message)
        });
        self.statuses.extend(messages);
        self.sightings.see(record.clone(), &self.workflow);
        self.records.insert(name.into(), record);
    }
}

/// The valid history.
pub(crate) fn sound() -> Evidence {
    let mut e = Evidence {
        workflow: workflow(),
        sent: Vec::new(),
        inputs: BTreeMap::new(),
        records: BTreeMap::new(),
        details: BTreeMap::new(),
        statuses: Vec::new(),
        alerts: Vec::new(),
        letters: Vec::new(),
        requests: Vec::new(),
        replies: Vec::new(),
        unreadable: Vec::new(),
        calls: Vec::new(),
        keys: Vec::new(),
        sightings: Sightings::default(),
        offsets: Vec::new(),
        unfinished: Vec::new(),
    };
    let forward = |step| (step, false, Kind::Applied);
    let back = |step| (step, true, Kind::Compensated);
    let steps = [
        "reserve-inventory",
        "charge-payment",
        "pack",
        "book-carrier",
        "notify",
    ];
    let [reserve, charge, pack, book, notify] = steps;
    e.order(
        "done",
        &steps.map(forward),
        ProcessState::Processed { at: FINISHED },
        &[Status::Received, Status::Started, Status::Completed],
    );
    e.order(
        "back",
        &[
            forward(reserve),
            forward(charge),
            forward(pack),
            (book, false, Kind::Refused),
            back(pack),
            back(charge),
            back(reserve),
        ],
        ProcessState::Compensated {
            at: FINISHED,
            cause: cause(book),
        },
        &[
            Status::Received,
            Status::Started,
            Status::Compensating,
            Status::Compensated,
        ],
    );
    e.order(
        "stuck",
        &[
            forward(reserve),
            forward(charge),
            forward(pack),
            forward(book),
            (notify, false, Kind::Refused),
        ],
        ProcessState::Error {
            at: FINISHED,
            cause: cause(notify),
        },
        &[Status::Received, Status::Started, Status::Failed],
    );
    e.alerts.push(Alert {
        alert_id: format!("stuck/Error/{}", FINISHED.0),
        kind: AlertKind::OrderError,
        order_id: Some("stuck".into()),
        cause: cause(notify).to_string(),
        at: FINISHED,
    });
    e.submit(Sort::Poison, None, json!("poison"));
    e.dead_letter(3, "not-an-order");
    e.submit(
        Sort::Conflicting,
        Some("done"),
        json!({"order_id": "done", "details": {}}),
    );
    e.dead_letter(4, "conflicting-submission");
    e.offsets.push(Offsets {
        group: "triad-orders".into(),
        topic: "orders".into(),
        partition: 0,
        committed: Some(5),
        held: (0, 5),
    });
    let mut book = Book::new(100);
    for call in &e.calls {
        book.arrive(&call.head).unwrap();
        book.apply(call);
    }
    e.keys = book.page(0, usize::MAX);
    e
}
