//! The definition's settings for one direction of a step.

use triad_workflow::{AgentName, Call, Millis, Policy, Poll, Repeat, Retry, Step};

use crate::ids::Direction;

/// The definition's settings for a step's action, probe or compensation.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Declared<'a> {
    /// The agent that carries it out.
    pub agent: &'a AgentName,
    /// Name of the action for the agent.
    pub action: &'a str,
    /// Allowance of one attempt.
    pub retry: Retry,
    /// From an attempt's request to its complete-by.
    pub attempt_timeout: Millis,
    /// Most calls of all attempts in one run. A probe's calls count as calls of its action; questions about work in
    /// progress are without a bound of their own.
    pub calls_per_run: u32,
    /// Whether the call ledger counts the calls, so that redeliveries cannot exceed the total.
    pub is_counted: bool,
    /// When another attempt follows a failed one. A probe's failures count as failures of its action.
    pub policy: &'a Policy,
}

/// How the service is asked about work that it has taken.
pub(crate) fn poll(call: &Call) -> Option<&Poll> {
    call.finishes_later.as_ref()?.poll.as_ref()
}

fn action(call: &Call) -> Declared<'_> {
    Declared {
        agent: &call.agent,
        action: &call.action,
        retry: call.retry,
        attempt_timeout: call.attempt_timeout,
        calls_per_run: call.calls_per_run,
        is_counted: call.is_counted,
        policy: &call.policy,
    }
}

/// The settings of a direction of a step; `None` if the definition has no such action, as for a step that waits.
pub(crate) fn declared(step: &Step, direction: Direction) -> Option<Declared<'_>> {
    match direction {
        Direction::Forward => step.call().map(action),
        Direction::Probe => step
            .call()
            .and_then(|call| match (poll(call), &call.repeat) {
                (Some(poll), _) => Some(Declared {
                    action: poll.action.as_deref().unwrap_or(&call.action),
                    retry: poll.retry,
                    attempt_timeout: poll.attempt_timeout,
                    calls_per_run: u32::MAX,
                    is_counted: false,
                    ..action(call)
                }),
                (None, Repeat::Probe(probe)) => Some(Declared {
                    action: &probe.action,
                    retry: probe.retry,
                    attempt_timeout: probe.attempt_timeout,
                    ..action(call)
                }),
                (None, Repeat::Safe | Repeat::Never) => None,
            }),
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
