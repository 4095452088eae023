//! Properties of every state, and states that must be reached for the check to mean something.

use stateright::Property;
use triad_core::decide::true_due;
use triad_core::message::SchedulerMessage;
use triad_core::{ProcessState, StepState};
use triad_workflow::Millis;

use crate::processes::Agent;
use crate::service::effects_in_place;
use crate::world::{Installation, Policy, SKEW, WAIT, World, wants_told};

/// The properties that are checked for this policy: first those that every state must have, then those that at least
/// one state must have.
pub fn all(policy: Policy) -> Vec<Property<Installation>> {
    let mut all = common();
    all.extend(match policy {
        Policy::Retry => of_retries(),
        Policy::Compensate => of_compensate(),
        Policy::Fork => of_fork(),
    });
    all
}

fn of_retries() -> Vec<Property<Installation>> {
    vec![
        Property::sometimes("a second attempt completes", |_, w: &World| {
            let second =
                |s: &StepState| matches!(s, StepState::Completed { attempt, .. } if attempt.0 == 2);
            w.record.steps.iter().any(|s| second(&s.state))
        }),
        Property::sometimes("an order stops in Error", |_, w: &World| {
            matches!(w.record.state, ProcessState::Error { .. })
        }),
    ]
}

fn of_compensate() -> Vec<Property<Installation>> {
    vec![
        Property::sometimes("an order is Compensated", |_, w: &World| {
            matches!(w.record.state, ProcessState::Compensated { .. })
        }),
        Property::sometimes("a call arrives after its compensation", |_, w: &World| {
            let compensated = matches!(w.record.state, ProcessState::Compensated { .. });
            compensated && !w.late_calls.is_empty()
        }),
    ]
}

fn of_fork() -> Vec<Property<Installation>> {
    vec![
        Property::always("a step's wait is kept", |_, w: &World| {
            let step = &w.record.steps[0];
            let out = step.state.out().filter(|out| out.attempt.0 == 2);
            let mut lines = w.record.incidents.iter();
            let failed = lines.find(|line| line.step.as_ref() == Some(&step.step));
            let wait = out.zip(failed).filter(|_| step.action.failures > 0);
            wait.is_none_or(|(out, line)| out.started.plus(Millis(SKEW)) >= line.at.plus(WAIT))
        }),
        Property::sometimes("a step goes on while the other waits", |_, w: &World| {
            let [a, b] = [0, 1].map(|i| &w.record.steps[i].state);
            a.delayed_until().is_some() && b.is_running()
        }),
        Property::sometimes("a step is done after its wait", |_, w: &World| {
            let state = &w.record.steps[0].state;
            matches!(state, StepState::Completed { attempt, .. } if attempt.0 == 2)
        }),
    ]
}

fn common() -> Vec<Property<Installation>> {
    vec![
        Property::always(
            "every decision and write keeps the invariants",
            |_, w: &World| w.breach.is_none(),
        ),
        Property::always("alive orders have a due time (G1)", |_, w: &World| {
            w.record.state.is_finished() || w.record.due.is_some()
        }),
        Property::always(
            "Processed: every effect stands",
            |m: &Installation, w: &World| {
                let processed = matches!(w.record.state, ProcessState::Processed { .. });
                !processed || effects_in_place(&w.effects) == m.workflow.steps.len()
            },
        ),
        Property::always(
            "Compensated: no effect stands, nor ever will",
            |_, w: &World| {
                let compensated = matches!(w.record.state, ProcessState::Compensated { .. });
                !compensated || effects_once_all_arrived(w) == 0
            },
        ),
        Property::always(
            "statuses and alert of a confirmed end are out (G8, G6)",
            |_, w: &World| {
                let order = &w.record;
                let confirmed =
                    order.state.is_finished() && order.due.is_none() && !wants_told(order);
                !confirmed || (all_told(w) && (w.alerted || !is_bad(w)))
            },
        ),
        Property::always(
            "nothing is left to do: told, and ended or due later (G9)",
            |m: &Installation, w: &World| !is_quiet(m, w) || is_well_left(m, w),
        ),
        Property::sometimes("an order is Processed", |_, w: &World| {
            matches!(w.record.state, ProcessState::Processed { .. })
        }),
        Property::sometimes("a reply is late", |_, w: &World| {
            w.line.iter().any(|m| match &**m {
                SchedulerMessage::Reply(r) => w.now > r.complete_by.0,
                _ => false,
            })
        }),
        Property::sometimes("two have decided on one version", |_, w| two_decided(w)),
    ]
}

/// Whether a process is about to write a version that another process has already replaced.
fn two_decided(world: &World) -> bool {
    let stands = world.record.version;
    let schedulers = world.schedulers.iter().filter_map(|s| s.writes_on());
    let supervisors = world.supervisors.iter().filter_map(|s| s.writes_on());
    schedulers.chain(supervisors).any(|v| v < stands)
}

/// Number of effects in place once every call under way has arrived.
fn effects_once_all_arrived(world: &World) -> usize {
    let mut effects = world.effects.clone();
    for call in &world.late_calls {
        crate::service::call(&mut effects, call);
    }
    if let Agent::Calling(request) = &world.agent {
        crate::service::call(&mut effects, request);
    }
    effects_in_place(&effects)
}

fn all_told(world: &World) -> bool {
    (1..=world.record.sequence).all(|n| world.told.contains(&n))
}

fn is_bad(world: &World) -> bool {
    matches!(
        world.record.state,
        ProcessState::Error { .. } | ProcessState::CompensationFailed { .. }
    )
}

/// Whether no process can do anything more.
fn is_quiet(model: &Installation, world: &World) -> bool {
    use stateright::Model;
    let mut actions = Vec::new();
    model.actions(world, &mut actions);
    actions.is_empty() && world.breach.is_none()
}

/// Whether the order has ended, or is in the due index: the horizon may end time before the order does, but then the
/// Supervisor would find the order.
fn is_well_left(model: &Installation, world: &World) -> bool {
    match world.record.due {
        None => world.record.state.is_finished() && all_told(world),
        Some(hint) => {
            let due = true_due(&model.context(), &world.record).map_or(hint, |t| t.max(hint));
            // Or the Supervisor is waiting for replies that may be unread.
            let steps = world.record.steps.iter();
            let heard = steps.filter_map(|s| s.state.unheard_since()).max();
            let heard = heard.map_or(0, |at| at.plus(model.timing.hear_within).0);
            due.plus(model.timing.skew).0.max(heard) > model.bounds.horizon
        }
    }
}
