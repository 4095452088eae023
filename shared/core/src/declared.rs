//! What the definition says of the work in one direction of a step.

use triad_workflow::{AgentName, Millis, Policy, Repeat, Retry, Step};

use crate::ids::Direction;

/// What the definition says of a step's action, of the question whether it happened, or of its
/// compensation.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Declared<'a> {
    /// Who carries it out.
    pub agent: &'a AgentName,
    /// What the agent is asked to do.
    pub action: &'a str,
    /// Allowance of one attempt.
    pub retry: Retry,
    /// From an attempt's request to its complete-by.
    pub attempt_timeout: Millis,
    /// Most calls of the leg in all. A probe's calls are those of the action that it asks about.
    pub calls_per_run: u32,
    /// Whether the total is kept over redeliveries too, in the call ledger.
    pub is_counted: bool,
    /// When a failed attempt is followed by another one. A probe's failures count as failures of the action
    /// that it asks about.
    pub policy: &'a Policy,
}

/// What a step's definition says of a direction; `None` if it has no such action.
pub(crate) fn declared(step: &Step, direction: Direction) -> Option<Declared<'_>> {
    let action = Declared {
        agent: &step.agent,
        action: &step.action,
        retry: step.retry,
        attempt_timeout: step.attempt_timeout,
        calls_per_run: step.calls_per_run,
        is_counted: step.is_counted,
        policy: &step.policy,
    };
    match direction {
        Direction::Forward => Some(action),
        Direction::Probe => match &step.repeat {
            Repeat::Probe(probe) => Some(Declared {
                action: &probe.action,
                retry: probe.retry,
                attempt_timeout: probe.attempt_timeout,
                ..action
            }),
            Repeat::Safe | Repeat::Never => None,
        },
        Direction::Compensate => step.compensation.as_ref().map(|compensation| Declared {
            agent: &compensation.agent,
            action: &compensation.action,
            retry: compensation.retry,
            attempt_timeout: compensation.attempt_timeout,
            calls_per_run: compensation.calls_per_run,
            is_counted: compensation.is_counted,
            policy: &compensation.policy,
        }),
    }
}
