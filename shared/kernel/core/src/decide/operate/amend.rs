//! The amendment of an order's details.

use serde_json::Value;
use triad_workflow::{Expression, Workflow, bounds};

use super::{line, refused};
use crate::amend::{
    self, MAX_AMENDMENT_BYTES, NotAmended, Part, PartRead, difference, merged, parts,
};
use crate::context::Context;
use crate::decide::push_status;
use crate::decide::{Draft, Halt, next_version};
use crate::ids::Timestamp;
use crate::operate::OperationRefusal;
use crate::order::{Incident, IncidentKind, OperatorAct, Order, ProcessState};
use crate::outbox::Writer;
use crate::status::Status;

impl From<NotAmended> for Halt {
    fn from(why: NotAmended) -> Self {
        Self::Refused(OperationRefusal::NotAmended(why))
    }
}

/// Replaces details that nothing has read. One that changes nothing is a repetition, whatever has become of the order
/// since the first one.
pub(super) fn amend(
    ctx: &Context<'_>,
    order: &Order,
    patch: &Value,
    act: &OperatorAct,
    now: Timestamp,
) -> Result<Draft, Halt> {
    let is_open = matches!(
        order.state,
        ProcessState::Pending { .. } | ProcessState::Processing(_) | ProcessState::Error { .. }
    );
    let closed = || refused(order, "amend", "Pending, Processing or Error");
    if !is_open && order.amendment.is_none() {
        return Err(closed());
    }
    check_form(patch)?;
    let submitted = ctx.details.ok_or(Halt::NeedsDetails)?;
    let present = amend::details(order, submitted);
    let amended = merged(&present, patch);
    let changed = parts(&present, &difference(&present, &amended));
    if changed.is_empty() {
        return Err(OperationRefusal::AmendedAlready.into());
    }
    if !is_open {
        return Err(closed());
    }
    check_unread(ctx.workflow, order, &changed)?;
    check_schema(ctx.workflow, &amended)?;
    let amendment = Value::Object(difference(submitted, &amended));
    bounds::check(&amendment, MAX_AMENDMENT_BYTES).map_err(NotAmended::Bounds)?;
    let mut next = next_version(order, Writer::Operator);
    next.amendment = (amended != *submitted).then_some(amendment);
    let changed: Vec<String> = changed.iter().map(ToString::to_string).collect();
    next.note(Incident {
        note: Some(changed.join(", ")),
        ..line(IncidentKind::Amended, act, now)
    });
    if !next.outbox.is_full() {
        push_status(&mut next, Status::Amended, None, now);
        if next.state.is_finished() {
            // The Supervisor sends the status if this writer cannot.
            next.due = Some(now.plus(ctx.timing.confirm_within));
        }
    }
    Ok(next)
}

fn check_form(patch: &Value) -> Result<(), NotAmended> {
    match patch.as_object() {
        None => return Err(NotAmended::NoObject),
        Some(fields) if fields.is_empty() => return Err(NotAmended::Empty),
        Some(_) => {}
    }
    bounds::check(patch, MAX_AMENDMENT_BYTES).map_err(NotAmended::Bounds)
}

/// Refuses to change what a step has read, or what a search key was made of.
fn check_unread(workflow: &Workflow, order: &Order, changed: &[Part]) -> Result<(), NotAmended> {
    let steps = order.steps.iter().zip(&workflow.steps);
    let read = steps.map(|(record, step)| (&step.id, amend::read_by(record, step)));
    let read = met(changed, &read.collect::<Vec<_>>());
    if !read.is_empty() {
        return Err(NotAmended::Read(read));
    }
    let keys = workflow.search.expressions();
    let keys = keys.map(|(name, expression)| (name, vec![expression]));
    let searched = met(changed, &keys.collect::<Vec<_>>());
    match searched.is_empty() {
        true => Ok(()),
        false => Err(NotAmended::Searched(searched)),
    }
}

/// The parts that readers read, each with those that do.
fn met<By: Clone>(changed: &[Part], readers: &[(&By, Vec<&Expression>)]) -> Vec<PartRead<By>> {
    let of_part = |part: &Part| {
        let reads = |(_, all): &&(&By, Vec<&Expression>)| {
            all.iter().any(|expression| amend::reads(expression, part))
        };
        let by: Vec<By> = readers
            .iter()
            .filter(reads)
            .map(|(by, _)| (*by).clone())
            .collect();
        (!by.is_empty()).then(|| PartRead {
            part: part.clone(),
            by,
        })
    };
    changed.iter().filter_map(of_part).collect()
}

fn check_schema(workflow: &Workflow, amended: &Value) -> Result<(), NotAmended> {
    let Some(schema) = &workflow.details else {
        return Ok(());
    };
    let misfits = match schema.misfits(amended) {
        Ok(misfits) => misfits.iter().map(ToString::to_string).collect(),
        Err(why) => vec![why.to_string()],
    };
    match misfits.is_empty() {
        true => Ok(()),
        false => Err(NotAmended::Misfits(misfits)),
    }
}
