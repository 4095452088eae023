//! Moving an order to another version of its workflow: an operator's explicit, checked act.
//!
//! An order runs to its end on the definition it started with. An operator may move it only if the other version is
//! compatible: steps that are done are done there too, requests that are out are the same, and every step before a
//! started one is done.

use triad_workflow::{Await, Call, Run, Step, StepId, StepKind, Workflow};

use crate::budget;
use crate::children::Children;
use crate::context::{Context, Timing};
use crate::decide::{Decision, Transition, next_version, transition};
use crate::doubt::has_passed;
use crate::doubt::{Happened, happened};
use crate::ids::Timestamp;
use crate::ids::WorkflowRef;
use crate::operate::{note_campaign, once_a_campaign};
use crate::order::{Incident, IncidentKind, OperatorAct, Order, ProcessState};
use crate::outbox::Writer;
use crate::step::{StepRecord, StepState};

/// One thing that a migration changes for a step of an order.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Change {
    /// The step, by its id in the old or the new version.
    pub step: StepId,
    /// The difference, for a person, such as `removed` or `attempt_timeout changed`.
    pub what: String,
}

/// The error of an order that cannot be moved to another version: one line, for a person, for each obstacle. There is
/// at least one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.join("; "))]
pub struct Unmovable(pub Vec<String>);

/// Moves an order from one version of its workflow to another, or returns every obstacle.
///
/// An order without a readable definition ([`Order::is_unread`]) has started nothing: it stays set aside, and is
/// admitted on the new version. `from` is not read then, and may be `to`.
///
/// Write the transition on the condition that the stored version of the record is unchanged. A dry run shows the
/// changes; they are empty if the steps do not differ.
///
/// # Errors
/// [`Unmovable`] with each thing that stands against it; nothing is to be written then. Such things
/// are: a record with another number of steps than `from`; another workflow, or the same version; a state
/// other than Pending, Processing and Error; the campaign of the act, if it has acted on the order before; a
/// started step that the new version does not have, asks for differently, has another
/// agent compensate once it may have had its effect, or puts after a step that is not done; and a point of no return that was reached and is not one in the new version.
pub fn migrate(
    order: &Order,
    from: &Workflow,
    to: &Workflow,
    act: &OperatorAct,
    timing: Timing,
    now: Timestamp,
) -> Result<(Transition, Vec<Change>), Unmovable> {
    let mut against = Vec::new();
    let is_unread = order.is_unread();
    if !is_unread && order.steps.len() != from.steps.len() {
        return Err(Unmovable(vec![
            "the record does not fit its definition".into(),
        ]));
    }
    if let Err(refusal) = once_a_campaign(order, act) {
        against.push(refusal.to_string());
    }
    let is_on = &order.workflow;
    if is_on.name != to.name {
        against.push(format!("it runs {}, not {}", is_on.name, to.name));
    }
    if is_on.hash == to.hash {
        against.push("it is on this version already".into());
    }
    match &order.state {
        ProcessState::Pending { .. } | ProcessState::Processing(_) | ProcessState::Error { .. } => {
        }
        state => against.push(format!(
            "orders in Pending, Processing or Error can be moved; this one is {}",
            state.name()
        )),
    }
    for record in &order.steps {
        against.extend(stands_against(record, order, from, to));
    }
    if let Some(pivot) = from.pivot()
        && !is_unread
        && has_passed(&order.steps[pivot], &from.steps[pivot])
        && to.pivot().map(|p| &to.steps[p].id) != Some(&from.steps[pivot].id)
    {
        against.push(format!(
            "step {} was its point of no return and has been started; it must be that in the new version too",
            from.steps[pivot].id
        ));
    }
    if !against.is_empty() {
        return Err(Unmovable(against));
    }
    let changes = changes(from, to);
    let mut next = next_version(order, Writer::Operator);
    note_campaign(&mut next, act);
    let steps = to.steps.iter();
    if !is_unread {
        next.steps = steps.map(|s| moved(order, from, to, s)).collect();
    }
    next.workflow = WorkflowRef {
        name: to.name.clone(),
        hash: to.hash.clone(),
    };
    next.note(Incident {
        act: Some(act.clone()),
        note: Some(format!("{} to {}", is_on.hash, to.hash)),
        ..Incident::new(IncidentKind::Migrated, now)
    });
    let ctx = Context {
        workflow: to,
        details: None,
        timing,
    };
    let decided = match next.state.is_finished() {
        true => next.decided(),
        false => transition(&ctx, next, now),
    };
    match decided {
        Decision::Transition(change) => Ok((*change, changes)),
        _ => Err(Unmovable(vec!["it cannot be written".into()])),
    }
}

/// Obstacles to moving an order in one of its steps.
fn stands_against(
    record: &StepRecord,
    order: &Order,
    from: &Workflow,
    to: &Workflow,
) -> Vec<String> {
    let id = &record.step;
    let skipped = record.state == StepState::Skipped;
    if record.state == StepState::Waiting {
        return Vec::new();
    }
    let (Some(was), Some(at)) = (from.step_index(id.as_str()), to.step_index(id.as_str())) else {
        if skipped {
            return Vec::new();
        }
        return vec![format!(
            "step {id} has been started, and the new version does not have it"
        )];
    };
    let (was, is) = (&from.steps[was], &to.steps[at]);
    let mut against = Vec::new();
    if (is_open(record) || record.lets_go()) && !is_same_kind(&was.kind, &is.kind) {
        against.push(format!(
            "step {id} is under way with {}, and the new version has {}",
            was.kind, is.kind
        ));
    }
    // Another service cannot compensate the effect: it never received the key.
    let place = |step: &Step| step.compensation.as_ref().map(|c| c.agent.clone());
    let told = |step: &Step| place(step).map_or("nobody".to_owned(), |agent| agent.to_string());
    let is_added = |call: &Call| place(was).is_none() && place(is).as_ref() == Some(&call.agent);
    let is_elsewhere = place(was) != place(is) && was.call().is_some_and(|call| !is_added(call));
    if happened(record, was) != Happened::No && is_elsewhere {
        against.push(format!(
            "step {id} may have had its effect, which {} compensates, and in the new version {}",
            told(was),
            told(is)
        ));
    }
    let children = record.children.as_ref();
    let compensates = |step: &Step| step.run().map(|run| run.is_compensated);
    if children.is_some_and(Children::may_have_effect) && compensates(was) != compensates(is) {
        against.push(format!(
            "step {id} has run child orders, and the new version does not compensate them as they are now"
        ));
    }
    // A request that is out leaves its effect in doubt if no reply comes.
    let maybe_done = is_open(record) && happened(record, was) != Happened::No;
    let repeat = |step: &Step| step.call().map(|call| call.repeat.clone());
    if maybe_done && repeat(was) != repeat(is) {
        against.push(format!(
            "it is not known whether step {id} has had its effect, and the new version has another rule for that"
        ));
    }
    if maybe_done && input_differs(record, from, to) {
        against.push(format!(
            "step {id} may have had its effect, and the new version has another input for it"
        ));
    }
    if let Some(direction) = record.state.out().map(|out| out.direction) {
        let counted = |s| budget::is_counted(s, direction);
        if repeat(was) == repeat(is) && counted(was) != counted(is) {
            against.push(format!(
                "an attempt at step {id} is out, and only one of the versions declares a total of calls for it"
            ));
        }
        let granted = budget::allowance(was, record, direction);
        let left = budget::allowance(is, &moved(order, from, to, is), direction);
        if left < granted {
            against.push(format!(
                "an attempt at step {id} is out with {granted} calls, and the new version leaves {left}"
            ));
        }
    }
    for &before in &is.after {
        let before = &to.steps[before].id;
        let done = order
            .steps
            .iter()
            .any(|r| &r.step == before && r.state.is_done());
        if !done {
            against.push(format!(
                "step {id} has been started, and the new version has {before} before it, which is not done"
            ));
        }
    }
    against
}

/// Whether work on one is work on the other: the same action, a timer too, the same events, or child orders of the same workflow. A wait that has begun
/// keeps its end.
fn is_same_kind(was: &StepKind, is: &StepKind) -> bool {
    match (was, is) {
        (StepKind::Call(was), StepKind::Call(is)) => {
            (&was.agent, &was.action) == (&is.agent, &is.action)
        }
        (StepKind::Timer(_), StepKind::Timer(_)) => true,
        (StepKind::Await(was), StepKind::Await(is)) => {
            let names = |wait: &Await| -> Vec<String> {
                wait.events.iter().map(|e| e.event.clone()).collect()
            };
            (was.needs_all, names(was)) == (is.needs_all, names(is))
        }
        (StepKind::Run(was), StepKind::Run(is)) => {
            let form = |run: &Run| (run.own.workflow.clone(), run.each.is_some(), run.is_race);
            // Of ways at once each child order has its own; those tried one after another may become more.
            let ways = |run: &Run| run.is_race.then(|| run.ways().count());
            form(was) == form(is) && ways(was) == ways(is)
        }
        _ => false,
    }
}

/// Whether a step has been started and is not done.
fn is_open(record: &StepRecord) -> bool {
    record.state != StepState::Waiting && !record.state.is_done()
}

/// Whether a step that is under way would have another input, which an idempotent service may refuse, or answer with
/// its earlier result.
fn input_differs(record: &StepRecord, from: &Workflow, to: &Workflow) -> bool {
    let written = |w: &Workflow| {
        let mut steps = w.definition.steps.iter();
        let found = steps.find(|s| s.id == record.step.as_str());
        found.map(|s| s.input.clone())
    };
    is_open(record) && record.input.is_none() && written(from) != written(to)
}

/// A step's record in the new version: counts stay, within the new bounds.
fn moved(order: &Order, from: &Workflow, to: &Workflow, step: &Step) -> StepRecord {
    let found = order.steps.iter().find(|r| r.step == step.id);
    let Some(record) = found else {
        return added(order, step);
    };
    let mut moved = record.clone();
    // A step that is still attempted may fail once more.
    let more = u32::from(is_open(record) && !order.state.is_finished());
    moved.action.failures = record
        .action
        .failures
        .min(step.max_attempts().saturating_sub(more));
    let own = |code: &String, _: &mut u32| step.by_code.contains_key(code);
    moved.failures_by_code.retain(own);
    moved.action.calls = record.action.calls.min(step.calls_per_run());
    if input_differs(record, from, to) {
        // The step gets a new key, because it stands for another effect: the old one has not happened, or the order
        // could not be moved.
        moved.raise_key();
    }
    moved
}

/// The record of a step that the order does not have.
///
/// In an order with a new run an earlier run may have had a step of that name, on yet another version: its keys are
/// used, and replies to its attempts may still come. Each key and each attempt took a write, so the order's version
/// is above all of them.
fn added(order: &Order, step: &Step) -> StepRecord {
    let mut record = StepRecord::new(step.id.clone());
    if order.run > 0 {
        let above = u32::try_from(order.version.0).unwrap_or(u32::MAX / 2);
        record.key = above;
        record.action.earlier = above;
        record.compensation.earlier = above;
    }
    record
}

fn changes(from: &Workflow, to: &Workflow) -> Vec<Change> {
    let mut changes = Vec::new();
    for step in &from.steps {
        if to.step_index(step.id.as_str()).is_none() {
            changes.push(Change {
                step: step.id.clone(),
                what: "removed".into(),
            });
        }
    }
    for step in &to.steps {
        let Some(was) = from.step_index(step.id.as_str()) else {
            changes.push(Change {
                step: step.id.clone(),
                what: format!("added: {}", step.kind),
            });
            continue;
        };
        let written = |w: &Workflow| written(w, &step.id);
        let was_after = names(from, &from.steps[was]);
        let is_after = names(to, step);
        if was_after != is_after {
            changes.push(Change {
                step: step.id.clone(),
                what: format!("comes after [{is_after}], not [{was_after}]"),
            });
        }
        for field in changed_fields(written(from), written(to)) {
            changes.push(Change {
                step: step.id.clone(),
                what: format!("{field} changed"),
            });
        }
    }
    changes
}

/// A step as written, with the workflow's defaults for the fields that it leaves out.
fn written(workflow: &Workflow, id: &StepId) -> Option<serde_json::Value> {
    let definition = &workflow.definition;
    let mut step = definition
        .steps
        .iter()
        .find(|s| s.id == id.as_str())?
        .clone();
    let defaults = definition.defaults.clone();
    step.attempt_timeout = step.attempt_timeout.or(defaults.attempt_timeout);
    step.retry = step.retry.or(defaults.retry);
    step.supervisor = step.supervisor.or(defaults.supervisor);
    serde_json::to_value(step).ok()
}

fn names(workflow: &Workflow, step: &Step) -> String {
    let names: Vec<&str> = step
        .after
        .iter()
        .map(|&a| workflow.steps[a].id.as_str())
        .collect();
    names.join(", ")
}

/// Fields, as written, that differ; `after` is compared in its resolved form.
fn changed_fields(was: Option<serde_json::Value>, is: Option<serde_json::Value>) -> Vec<String> {
    let (Some(serde_json::Value::Object(was)), Some(serde_json::Value::Object(is))) = (was, is)
    else {
        return Vec::new();
    };
    let mut fields: Vec<&String> = was.keys().chain(is.keys()).collect();
    fields.sort();
    fields.dedup();
    fields
        .into_iter()
        .filter(|f| f.as_str() != "after" && was.get(*f) != is.get(*f))
        .cloned()
        .collect()
}
