//! The history of an order's attempts: the current attempt is in the step's state, earlier ones are lines of the
//! timeline. Nothing is stored twice: an order that succeeds at its first attempts has no line at all.
//!
//! A change of a step's state that may be the only record of an attempt must go through [`change`].

use triad_workflow::StepId;

use crate::failure::Failure;
use crate::ids::{Attempt, Direction, Timestamp};
use crate::order::{Incident, IncidentKind, Order};
use crate::step::{StepRecord, StepState, Work};

/// Changes the record of a step. If its state changes, an attempt that only the old state records gets a line.
pub(crate) fn change<T>(
    order: &mut Order,
    index: usize,
    now: Timestamp,
    change: impl FnOnce(&mut StepRecord) -> T,
) -> T {
    let record = &mut order.steps[index];
    let known = known_by_state(record, now);
    let was = known.as_ref().map(|_| record.state.clone());
    let done = change(record);
    let has_changed = was.is_some_and(|was| was != record.state);
    if let Some(line) = known.filter(|line| has_changed && !is_told(order, line)) {
        order.note(line);
    }
    done
}

/// Changes the record of every step, one after the other, as [`change`] does that of one.
pub(crate) fn change_each(order: &mut Order, now: Timestamp, by: impl Fn(&mut StepRecord)) {
    for index in 0..order.steps.len() {
        change(order, index, now, &by);
    }
}

/// Whether a line for the attempt exists already.
fn is_told(order: &Order, line: &Incident) -> bool {
    let is_compensation = |line: &Incident| line.direction() == Direction::Compensate;
    order.incidents.iter().any(|other| {
        other.step == line.step
            && other.attempt == line.attempt
            && is_compensation(other) == is_compensation(line)
    })
}

/// The line for the attempt that only the step's state records; `None` if there is none.
fn known_by_state(record: &StepRecord, now: Timestamp) -> Option<Incident> {
    let line = |kind, at, attempt, started, direction| {
        let line = Incident {
            step: Some(record.step.clone()),
            attempt: Some(attempt),
            started,
            ..Incident::new(kind, at)
        };
        line.in_direction(direction)
    };
    match &record.state {
        StepState::Completed {
            attempt,
            started: Some(started),
            finished,
            ..
        } => Some(line(
            IncidentKind::Completed,
            *finished,
            *attempt,
            Some(*started),
            Direction::Forward,
        )),
        StepState::Compensated {
            attempt,
            started,
            finished,
            ..
        } => Some(line(
            IncidentKind::Compensated,
            *finished,
            *attempt,
            *started,
            Direction::Compensate,
        )),
        StepState::Acting(work) | StepState::Compensating { work, .. } => {
            let (attempt, started, direction) = match work {
                Work::Out(out) => (out.attempt, out.started, out.direction),
                Work::Parked { attempt, since, .. } => (*attempt, *since, record.direction()),
                Work::Failed {
                    attempt,
                    started,
                    direction,
                    ..
                } => (*attempt, *started, *direction),
                // The timeline has its line already.
                Work::Due { .. } | Work::Delayed { .. } | Work::Deferred { .. } => return None,
            };
            let line = line(
                IncidentKind::Abandoned,
                now,
                attempt,
                Some(started),
                direction,
            );
            let Work::Failed { calls, .. } = work else {
                return Some(line);
            };
            Some(Incident {
                calls: Some(*calls),
                failure: record.error.clone(),
                ..line
            })
        }
        StepState::Completed { started: None, .. }
        | StepState::Waiting
        | StepState::Skipped
        | StepState::Refused { .. }
        | StepState::Ambiguous { .. }
        | StepState::NotCompensated { .. } => None,
    }
}

/// An attempt that was deferred, that no agent took, or after which the service goes on with the work.
pub(crate) struct Deferral {
    pub attempt: Attempt,
    pub started: Timestamp,
    pub direction: Direction,
    /// Why it was deferred; `None` if the service goes on with the work.
    pub why: Option<Failure>,
    /// Whether this deferral begins a wait, and so a new line.
    pub is_new: bool,
}

/// Records a deferred attempt, or one after which the service goes on with the work: in a new line when a wait begins,
/// and in the line of the wait while it lasts.
pub(crate) fn record_deferral(order: &mut Order, index: usize, deferral: Deferral, now: Timestamp) {
    let Deferral {
        attempt,
        started,
        direction,
        why,
        is_new,
    } = deferral;
    let what = match why {
        Some(_) => IncidentKind::Deferred,
        None => IncidentKind::InProgress,
    };
    let Order {
        steps, incidents, ..
    } = order;
    let step = &steps[index].step;
    let mut lines = incidents.iter_mut().rev();
    let last = lines.find(|line| line.step.as_ref() == Some(step) && line.attempt.is_some());
    if let Some(line) = last
        && !is_new
        && line.what == what
        && line.direction() == direction
    {
        line.through = Some(attempt);
        return;
    }
    let line = Incident {
        attempt: Some(attempt),
        started: Some(started),
        step: Some(step.clone()),
        ..Incident::new(what, now)
    };
    let line = match &why {
        Some(why) => line.of(why),
        None => line,
    };
    order.note(line.in_direction(direction));
}

/// Direction of the deferred attempt of a step, from its line; `None` if the line is gone.
pub(crate) fn direction_of_deferral(order: &Order, index: usize) -> Option<Direction> {
    let step = Some(&order.steps[index].step);
    let is_its =
        |line: &&Incident| line.what == IncidentKind::Deferred && line.step.as_ref() == step;
    order
        .incidents
        .iter()
        .rfind(is_its)
        .map(Incident::direction)
}

/// Successive attempts at one step that neither the timeline nor the step's state records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Untold {
    /// The step that they were attempts at.
    pub step: StepId,
    /// True if they were attempts at the compensation, false if at the action or its probe.
    pub at_compensation: bool,
    /// Number of the first of these attempts.
    pub from: Attempt,
    /// Number of the last of these attempts, inclusive; at least `from`.
    pub to: Attempt,
}

/// The attempts that nothing records any more: their lines were dropped, or an earlier version of Triad wrote none.
/// They are in the order of the steps, and for each step those at the action come first. Empty if there are none, and
/// if the order was moved to another version of its workflow, because then the number of its first attempt is not
/// known.
#[must_use]
pub fn untold(order: &Order) -> Vec<Untold> {
    let mut lines = order.incidents.iter();
    if lines.any(|line| line.what == IncidentKind::Migrated) {
        return Vec::new();
    }
    let mut gaps = Vec::new();
    for record in &order.steps {
        for at_compensation in [false, true] {
            untold_of(order, record, at_compensation, &mut gaps);
        }
    }
    gaps
}

fn untold_of(order: &Order, record: &StepRecord, at_compensation: bool, gaps: &mut Vec<Untold>) {
    let mut told: Vec<(u32, u32)> = order
        .incidents
        .iter()
        .filter(|line| line.step.as_ref() == Some(&record.step))
        .filter(|line| (line.direction() == Direction::Compensate) == at_compensation)
        .filter_map(|line| {
            let first = line.attempt?.0;
            Some((first, line.through.map_or(first, |last| last.0)))
        })
        .collect();
    told.extend(by_state(record, at_compensation).map(|attempt| (attempt.0, attempt.0)));
    told.sort_unstable();
    let last = match at_compensation {
        true => record.compensations(),
        false => record.actions(),
    };
    let mut next = 1;
    for (first, through) in told.into_iter().chain([(last + 1, last + 1)]) {
        if first > next {
            gaps.push(Untold {
                step: record.step.clone(),
                at_compensation,
                from: Attempt(next),
                to: Attempt(first - 1),
            });
        }
        next = next.max(through + 1);
    }
}

/// The attempt that the state of a step records for this leg.
fn by_state(record: &StepRecord, at_compensation: bool) -> Option<Attempt> {
    let told = match &record.state {
        StepState::Completed {
            attempt,
            started: Some(_),
            ..
        } => (false, *attempt),
        StepState::Compensated { attempt, .. } => (true, *attempt),
        StepState::Acting(work) | StepState::Compensating { work, .. } => match work {
            Work::Out(_) | Work::Parked { .. } | Work::Failed { .. } => {
                let at_compensation = record.direction() == Direction::Compensate;
                (at_compensation, work.attempt())
            }
            Work::Due { .. } | Work::Delayed { .. } | Work::Deferred { .. } => return None,
        },
        _ => return None,
    };
    (told.0 == at_compensation).then_some(told.1)
}
