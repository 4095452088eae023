//! Whether a step's effect may have happened, and which actions are allowed then.
//!
//! An attempt puts its effect in doubt when its answer is lost: no reply came, or an answer could not be read. An
//! agent's reply covers only one delivery of a request. If calls are counted ([`crate::ledger`]), no other delivery
//! can have made any; if not, another delivery may have had the effect.
//!
//! What the step's policy permits while its effect may have happened:
//!
//! | policy | once more | compensate |
//! |---|---|---|
//! | safe to repeat: the service knows the idempotency key | yes | yes: what did not happen is a tombstone |
//! | a probe | the service is asked first | no: an operator finds out |
//! | never | no: an operator finds out | no: an operator finds out |

use triad_workflow::{Probe, Repeat, Step};

use crate::budget;
use crate::children::Children;
use crate::failure::{Failure, FailureKind};
use crate::ids::{Direction, Timestamp};
use crate::step::{Out, StepRecord, StepState};

/// Whether a step's effect happened at the remote service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Happened {
    /// The effect has not happened, or has been compensated.
    No,
    /// In doubt: it is not known whether the effect happened.
    Maybe,
    /// The effect has happened, and is not compensated.
    Yes,
}

/// Whether a step's effect has happened, judged by the step's record and by how its repetition and its calls
/// are declared ([`Step::repeat`], [`Step::is_counted`]). It is [`Happened::Maybe`] also while a request for
/// the action is out and, for a step whose calls are not counted, from its first attempt at the action until
/// the step is completed or refused; and while the service has taken the work and not finished it.
///
/// # Example
/// ```
/// # use triad_workflow::{Limits, Workflow};
/// use triad_core::doubt::{Happened, happened};
/// use triad_core::{Attempt, Doubt, StepRecord, StepState, Work};
/// # let text = r#"{"workflow": "w", "steps": [
/// #     {"id": "post", "agent": "mail", "action": "post", "at_most_once": true, "compensation": "none"}]}"#;
/// # let workflow = Workflow::compile(serde_json::from_str(text).unwrap(), &Limits::published()).unwrap();
/// let step = &workflow.steps[0];
/// let mut record = StepRecord::new(step.id.clone());
/// assert_eq!(happened(&record, step), Happened::No);
/// record.state = StepState::Acting(Work::due(Attempt(1)));
/// assert_eq!(happened(&record, step), Happened::No, "its one delivery said so");
/// record.in_doubt = Some(Doubt::default());
/// assert_eq!(happened(&record, step), Happened::Maybe);
/// ```
#[must_use]
pub fn happened(record: &StepRecord, step: &Step) -> Happened {
    let or_no = |maybe| match maybe {
        true => Happened::Maybe,
        false => Happened::No,
    };
    match &record.state {
        StepState::Waiting
        | StepState::Skipped
        | StepState::Refused { .. }
        | StepState::Compensated { .. } => Happened::No,
        StepState::Ambiguous { .. } => Happened::Maybe,
        state @ StepState::Acting(_) => {
            let is_uncounted = step.call().is_some_and(|call| !call.is_counted);
            let has_children = record
                .children
                .as_ref()
                .is_some_and(Children::may_have_effect);
            let is_open = record.in_doubt.is_some() || record.in_progress.is_some() || has_children;
            or_no(state.is_running() || is_open || is_uncounted)
        }
        StepState::Completed { .. } => Happened::Yes,
        StepState::Compensating { applied, .. } | StepState::NotCompensated { applied, .. } => {
            // If the action may not be repeated, an operator may have resolved it as happened.
            let known = applied.position.is_some()
                || !(record.in_doubt.is_some() || step.is_safe_to_repeat());
            if known {
                Happened::Yes
            } else {
                Happened::Maybe
            }
        }
    }
}

/// Kind of the next attempt at a step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum NextAttempt<'a> {
    /// The attempt carries out the step's action.
    Act,
    /// The attempt asks the service whether an earlier one has had its effect.
    Probe(&'a Probe),
    /// The attempt asks the service whether work that it has taken is finished.
    Poll,
    /// There is no attempt until an operator has resolved the effect.
    Operator,
}

/// The next attempt at a step. If the service has taken the work, it is asked. If the effect has not happened, or the action is safe to repeat, it carries out the
/// action. Otherwise it probes the service, if the step declares a probe. Otherwise there is no attempt until an
/// operator has resolved the effect.
///
/// Call it only while no attempt is out (sent, and its end not yet known): an action that is out counts as
/// in doubt.
#[must_use]
pub fn next_attempt<'a>(record: &StepRecord, step: &'a Step) -> NextAttempt<'a> {
    if record.in_progress.is_some() {
        return NextAttempt::Poll;
    }
    let repeat = step.call().map(|call| &call.repeat);
    match (repeat, happened(record, step)) {
        (_, Happened::No) | (Some(Repeat::Safe) | None, _) => NextAttempt::Act,
        (Some(Repeat::Probe(probe)), _) => NextAttempt::Probe(probe),
        (Some(Repeat::Never), _) => NextAttempt::Operator,
    }
}

/// Whether an order may have passed a step: its effect may have happened, or the step was skipped.
pub(crate) fn has_passed(record: &StepRecord, step: &Step) -> bool {
    happened(record, step) != Happened::No || record.state == StepState::Skipped
}

/// Whether a step's effect is in doubt and may not be repeated ([`Repeat::Probe`] or [`Repeat::Never`]). Such a step
/// is not compensated before an operator has resolved its effect.
#[must_use]
pub fn stops_compensation(record: &StepRecord, step: &Step) -> bool {
    happened(record, step) == Happened::Maybe && !step.is_safe_to_repeat()
}

/// Whether an operator has to say if this step's effect happened before the order can go on. Either
/// the next attempt is due, and the effect is in doubt, may not be repeated and cannot be probed;
/// or the compensation was given up, and [`stops_compensation`] is true.
#[must_use]
pub fn waits_for_operator(record: &StepRecord, step: &Step) -> bool {
    match &record.state {
        StepState::NotCompensated { .. } => stops_compensation(record, step),
        state => state.is_retry_due() && next_attempt(record, step) == NextAttempt::Operator,
    }
}

/// Whether an operator can resolve the effect of this step: [`StepRecord::in_doubt`] is some, or a request for its
/// action is out. [`crate::Action::Resolve`] names the states of the order in which that is allowed.
#[must_use]
pub fn can_be_resolved(record: &StepRecord) -> bool {
    record.in_doubt.is_some() || record.in_progress.is_some() || record.state.is_running()
}

/// Records that an attempt at the action was taken and that its result will stay unknown: no request of it is open
/// any more.
pub(crate) fn unheard(record: &mut StepRecord) {
    record.in_doubt.get_or_insert_default();
}

/// Records that neither the reply to a request that is out nor the end of work in progress is awaited any longer: the
/// effect is in doubt.
pub(crate) fn abandon(record: &mut StepRecord) {
    if record.in_progress.take().is_some() {
        unheard(record);
    }
    if record.state.is_running() {
        may_be_carried_out(record, record.state.complete_by());
    }
}

/// Records whether a reply that does not say whether the effect happened leaves it in doubt; a probe and a
/// compensation leave none. If calls are counted, no other delivery of the request can make any; if not, one may
/// until the request's complete-by.
pub(crate) fn answered(record: &mut StepRecord, step: &Step, out: Out, maybe_applied: bool) {
    if maybe_applied && out.direction == Direction::Forward {
        let is_counted = budget::is_counted(step, Direction::Forward);
        may_be_carried_out(record, (!is_counted).then_some(out.complete_by));
    }
}

fn may_be_carried_out(record: &mut StepRecord, until: Option<Timestamp>) {
    let doubt = record.in_doubt.get_or_insert_default();
    doubt.open_until = doubt.open_until.max(until);
}

/// Records that it is known whether the effect happened: the step is no longer in doubt.
pub(crate) fn lift(record: &mut StepRecord) {
    record.in_doubt = None;
    record.in_progress = None;
}

/// Whether a service's refusal means that the effect has not happened: no earlier attempt is in doubt.
pub(crate) fn refusal_is_final(record: &StepRecord) -> bool {
    record.in_doubt.is_none()
}

/// Until when a request for the step's action may still be carried out: one that is out, or one that left the effect
/// in doubt. Before that moment the effect may still happen. `None` if there is no such request.
#[must_use]
pub fn open_until(record: &StepRecord) -> Option<Timestamp> {
    let out = record
        .state
        .is_running()
        .then(|| record.state.complete_by());
    let doubt = record.in_doubt.and_then(|doubt| doubt.open_until);
    doubt.max(out.flatten())
}

/// The failure that shows operators that the step is in doubt and may not be repeated.
#[must_use]
pub(crate) fn failure(record: &StepRecord) -> Failure {
    let text = "it is not known whether the effect happened, and it may not be repeated";
    Failure::new(FailureKind::Ambiguous, "in-doubt", text).in_step(&record.step)
}
