//! Checks of events from outside: none is lost, none is taken twice, and one that came in time is not missed.

use std::collections::BTreeSet;

use serde_json::Value;
use triad_core::message::{AlertKind, StatusMessage};
use triad_core::order::{Incident, IncidentKind};
use triad_core::received::KeptEvent;
use triad_core::status::Status;
use triad_core::{Order, OrderId, ProcessState, StepState, Work, topics};
use triad_workflow::{StepKind, Workflow};

use super::findings::Findings;
use crate::definitions::TIMING;
use crate::kernel::Coverage;
use crate::scenario::{APPLICATION, REPLIES, SentEvent, is_keyed};
use crate::world::State;

/// The name of the event, and the field of the details that it must repeat, of the one step that has a condition; as in
/// `crate::definitions`. Written here once more, because the production code is checked against it.
const MATCHED: (&str, &str) = ("sale", "sum");

/// After what time a decision may be made by "bob"; as in `crate::definitions`.
const ESCALATED_MS: u64 = 9_000;

impl State {
    /// Checks what a write does to the waits of an order.
    pub(crate) fn check_events(&mut self, before: &Order, after: &Order, workflow: &Workflow) {
        self.reach_events(before, after);
        self.remember_unused(before, after);
        self.check_decisions(before, after);
        let is_new = before.state.name() != after.state.name();
        let code = after.state.cause().map(|cause| cause.code.as_str());
        if is_new && code == Some("event-fails") {
            self.kernel.coverage.reach("saw: event failed its step");
        }
        let cause = after
            .state
            .cause()
            .filter(|cause| is_new && cause.code == "no-event");
        let Some(id) = cause.and_then(|cause| cause.step.clone()) else {
            return;
        };
        self.kernel.coverage.reach("saw: event did not come");
        let mut steps = before.steps.iter().filter(|step| step.step == id);
        let ends = steps.find_map(|step| match step.state.work()? {
            Work::Parked { until, ends, .. } => Some(ends.unwrap_or(*until)),
            _ => None,
        });
        let now = self.kernel.now + TIMING.skew.0;
        // A clock that is hours ahead finds it over sooner.
        let is_over = self.setup.wild_clocks || ends.is_none_or(|ends| ends.0 <= now);
        self.kernel
            .check("a-wait-lasts-until-its-end", is_over, || {
                format!("{}: {id} at {now}, and it ends at {ends:?}", before.id)
            });
        let Some(StepKind::Await(wait)) =
            workflow.steps.iter().find(|s| s.id == id).map(|s| &s.kind)
        else {
            return;
        };
        let details = self.details_now(before);
        let fits = |event: &&KeptEvent| {
            let is_awaited = wait
                .events
                .iter()
                .any(|awaited| awaited.event == event.event);
            let own = event.step.as_ref() == Some(&id) && event.data.is_some();
            let is_free = event.step.is_none() && fits(workflow, event, &details);
            is_awaited && (own || is_free)
        };
        let there: BTreeSet<&str> = before
            .events
            .iter()
            .filter(fits)
            .map(|e| e.event.as_str())
            .collect();
        let needed = if wait.needs_all { wait.events.len() } else { 1 };
        self.kernel.check(
            "an-event-that-came-in-time-is-not-missed",
            there.len() < needed,
            || format!("{}: {id} has {:?}", before.id, before.events),
        );
    }

    /// Who decides is named for it, or is the one to whom it was escalated after [`ESCALATED_MS`].
    fn check_decisions(&mut self, before: &Order, after: &Order) {
        let is_decided = |line: &&Incident| line.what == IncidentKind::Decided;
        let known = before.incidents.iter().filter(is_decided).count();
        for line in after.incidents.iter().filter(is_decided).skip(known) {
            let by = line.act.as_ref().map(|act| act.by.as_str());
            let mut steps = before.steps.iter();
            let step = steps.find(|step| Some(&step.step) == line.step.as_ref());
            let since = step.and_then(|step| step.state.parked_since());
            let waited = since.map_or(0, |since| line.at.since(since).0);
            if by == Some("bob") {
                self.kernel.coverage.reach("saw: escalated decision");
            }
            let may = by == Some("ann") || by == Some("bob") && waited >= ESCALATED_MS;
            self.kernel.check("who-decides-may-decide", may, || {
                format!("{}: {line:?} after {waited}", after.id)
            });
        }
    }

    /// G6: remembers that events which came and are not used require an alert, once the order does not go forward.
    fn remember_unused(&mut self, before: &Order, after: &Order) {
        let runs = |o: &Order| {
            matches!(
                o.state,
                ProcessState::Pending { .. } | ProcessState::Processing(_)
            )
        };
        let unused: Vec<String> = after
            .events
            .iter()
            .filter(|event| event.data.is_some())
            .map(|event| format!("{} ({})", event.event, event.id))
            .collect();
        let begins = after
            .incidents
            .iter()
            .rfind(|line| line.what == IncidentKind::CompensationBegan);
        let at = match (&after.state, begins) {
            (ProcessState::Processed { at }, _) => *at,
            (ProcessState::Error { .. } | ProcessState::CompensationFailed { .. }, _) => return,
            (_, Some(line)) => line.at,
            (_, None) => return,
        };
        let was_compensated = !runs(before) && !matches!(before.state, ProcessState::Error { .. });
        if unused.is_empty() || was_compensated || runs(after) {
            return;
        }
        self.kernel.coverage.reach("saw: event not used");
        let id = format!("{}/EventsUnused/{}", after.id, at.0);
        let text = format!("came, and no step will use them: {}", unused.join(", "));
        let cause = format!("permanent/events-unused: {text}");
        let alerts = &mut self.history.alerts;
        alerts.insert(id, (AlertKind::EventsUnused, cause));
    }

    fn reach_events(&mut self, before: &Order, after: &Order) {
        let coverage = &mut self.kernel.coverage;
        reach_later(coverage, before, after);
        if after.events.len() > before.events.len() {
            let kept = after.events.iter().any(|event| event.step.is_none());
            coverage.reach(if kept {
                "saw: event kept"
            } else {
                "saw: event taken"
            });
        }
        for (was, is) in before.steps.iter().zip(&after.steps) {
            let ended = was.state.parked_until().is_some()
                && matches!(is.state, StepState::Completed { .. });
            let has = after
                .events
                .iter()
                .any(|event| event.step.as_ref() == Some(&is.step));
            if ended && !has {
                coverage.reach("saw: wait over");
            }
            let ends = (was.state.parked_since(), was.state.parked_until());
            let still = (is.state.parked_since(), is.state.parked_until());
            let is_asked_again = ends.0 == still.0 && ends.1 < still.1;
            if is_asked_again && is.children.is_none() && is.in_progress.is_none() {
                coverage.reach("saw: decision asked for again");
            }
        }
    }
}

/// How work ends that a service finishes later.
fn reach_later(coverage: &mut Coverage, before: &Order, after: &Order) {
    let key = after.outbox.dedup_key.as_deref().unwrap_or_default();
    for (was, is) in before.steps.iter().zip(&after.steps) {
        let is_called_back = key.starts_with(&format!("callback/{}/", is.step));
        let is_asked = key.starts_with(&format!("probe/{}/", is.step));
        let is_over = was.in_progress.is_some() && is.in_progress.is_none();
        let code = is.error.as_ref().map(|error| error.code.as_str());
        let is_new = was.error != is.error;
        let seen = match (&is.state, code) {
            (_, Some("not-finished")) if is_new => "saw: work never finished",
            (_, Some("no-heartbeat")) if is_new => "saw: no sign of life",
            (StepState::Completed { .. }, _) if is_called_back && was.in_progress.is_none() => {
                "saw: callback before the answer to its call"
            }
            (StepState::Completed { .. }, _) if is_called_back => "saw: finished by a callback",
            (StepState::Completed { .. }, _) if is_over && is_asked => {
                "saw: finished by a question"
            }
            (StepState::Refused { .. }, _) if is_called_back => "saw: failed by a callback",
            (StepState::Refused { .. }, _) if is_over && is_asked => "saw: failed by a question",
            _ => continue,
        };
        coverage.reach(seen);
    }
}

/// Whether an event fulfils the condition of its step.
fn fits(workflow: &Workflow, event: &KeptEvent, details: &Value) -> bool {
    let (name, field) = MATCHED;
    let is_decision = event.by.as_deref() == Some("ann");
    let mut data = event.data.iter();
    workflow.name.as_str() != name || is_decision && data.any(|data| data["sum"] == details[field])
}

/// An event is in its order's record, or in the topic of dead letters; one that was given up with its order is gone
/// with it.
pub(super) fn check(state: &State, found: &mut Findings) {
    let letters: BTreeSet<String> = state
        .bus
        .all(topics::DEAD_LETTER)
        .filter_map(|stored| stored.envelope.id().map(str::to_owned))
        .collect();
    for sent in &state.sent.events {
        let order = state.store.order(&sent.order);
        let is_told = letters.contains(&sent.record);
        let is_had = order.is_some_and(|order| has(order, sent));
        let is_gone = state.store.is_gone(&sent.order);
        let holds = is_told || is_had || is_gone;
        found.check("g7-an-event-is-had-or-told", holds, || {
            format!("{sent:?}: {:?}", order.map(|o| &o.events))
        });
    }
    check_keyed(state, found);
    check_acts(state, &letters, found);
    for order in state.store.orders() {
        let ids: BTreeSet<_> = order.events.iter().map(|e| (&e.event, &e.id)).collect();
        for event in &order.events {
            let was_sent = state.sent.events.iter().any(|sent| {
                sent.order == order.id
                    && (&sent.event.event, &sent.event.id) == (&event.event, &event.id)
            });
            let is_once = ids.len() == order.events.len();
            found.check(
                "an-event-was-sent-and-is-had-once",
                was_sent && is_once,
                || format!("{}: {:?}", order.id, order.events),
            );
        }
        if order.workflow.name.as_str() == MATCHED.0
            && matches!(order.state, ProcessState::Processed { .. })
        {
            let paid = order
                .events
                .iter()
                .any(|e| e.event == "paid" && e.id == "good" && e.step.is_some());
            found.check("a-sale-that-is-done-is-paid", paid, || {
                format!("{}: {:?}", order.id, order.events)
            });
        }
    }
}

/// An event that named a key is had by the order that registered it, also if it came before, or was sent on to the order
/// and became a dead letter then.
fn check_keyed(state: &State, found: &mut Findings) {
    let letters: Vec<_> = state.bus.all(topics::DEAD_LETTER).collect();
    for sent in state.sent.events.iter().filter(|e| is_keyed(&e.event)) {
        let key = format!("awaited/{}/{}", sent.event.event, sent.order);
        let record = state.control.read(state.kernel.now, &key);
        let is_registered = record.is_some_and(|is| is.value["order"].is_string());
        if !is_registered || state.store.is_gone(&sent.order) {
            continue;
        }
        let says = |name: &str, wanted: &str, headers: &[(String, Option<Vec<u8>>)]| {
            let mut headers = headers.iter();
            headers.any(|(n, value)| n == name && value.as_deref() == Some(wanted.as_bytes()))
        };
        let is_sent_on = letters.iter().any(|letter| {
            let (letter, event) = (&letter.envelope, &sent.event);
            letter.key.as_deref() == Some(sent.order.as_str().as_bytes())
                && says("ce_type", &event.event, &letter.headers)
                && says("ce_id", &event.id, &letter.headers)
        });
        let order = state.store.order(&sent.order);
        let is_full = letters.iter().any(|letter| {
            letter.envelope.id() == Some(&sent.record)
                && !says("triad-cause", "unknown-key", &letter.envelope.headers)
        });
        let holds = is_full || is_sent_on || order.is_some_and(|order| has(order, sent));
        found.check("an-event-with-a-key-reaches-its-order", holds, || {
            format!("{sent:?}: {:?}", order.map(|o| &o.events))
        });
    }
}

/// An act of an application is in its order's timeline, or there is a status that refuses it. A cancel of an order
/// that has been compensated by then is answered by that.
fn check_acts(state: &State, letters: &BTreeSet<String>, found: &mut Findings) {
    let is_refusal = |order: &OrderId| {
        let statuses = [topics::STATUS, REPLIES].into_iter();
        let mut statuses = statuses.flat_map(|topic| state.bus.all(topic));
        statuses.any(|stored| {
            serde_json::from_slice::<StatusMessage>(&stored.envelope.value)
                .is_ok_and(|told| told.order_id == *order && told.status == Status::Refused)
        })
    };
    for (id, act, record) in &state.sent.acts {
        let order = state.store.order(id);
        let is_done = order.is_some_and(|order| {
            let was_compensated = |line: &Incident| {
                act["act"] == "cancel" && line.what == IncidentKind::CompensationBegan
            };
            let by_it = |line: &Incident| line.act.as_ref().is_some_and(|a| a.by == APPLICATION);
            let mut lines = order.incidents.iter();
            lines.any(|line| was_compensated(line) || by_it(line))
        });
        let holds =
            is_done || letters.contains(record) || state.store.is_gone(id) || is_refusal(id);
        found.check("g8-an-act-of-an-application-is-answered", holds, || {
            format!(
                "{id}: {act} of {record}: {:?}",
                order.map(|o| o.state.name())
            )
        });
    }
}

fn has(order: &Order, sent: &SentEvent) -> bool {
    let is_it =
        |event: &KeptEvent| (&event.event, &event.id) == (&sent.event.event, &sent.event.id);
    order.events.iter().any(is_it)
}
