//! Which downstreams an order still needs.

use std::collections::BTreeSet;

use triad_workflow::AgentName;

use crate::context::Context;
use crate::decide::input;
use crate::order::{Order, ProcessState, StepState};

/// The agents that are still to be asked on an order's present way, forward or back. A step whose
/// condition is already known to be false needs nobody.
#[must_use]
pub fn needs(ctx: &Context<'_>, order: &Order) -> BTreeSet<AgentName> {
    let steps = || order.steps.iter().zip(&ctx.workflow.steps);
    match &order.state {
        ProcessState::Pending { .. } | ProcessState::Processing(_) => {
            // Costly, and seldom needed.
            let mut scope = None;
            steps()
                .filter(|(record, step)| match (&record.state, &step.when) {
                    (StepState::Waiting, Some(when)) => {
                        let scope = scope.get_or_insert_with(|| input::scope(ctx, order, None));
                        !matches!(when.holds(scope), Ok(false))
                    }
                    (state, _) => !state.is_done(),
                })
                .map(|(_, step)| step.agent.clone())
                .collect()
        }
        ProcessState::Compensating { .. } => steps()
            .filter(|(record, _)| record.state.to_undo().is_some())
            .filter_map(|(_, step)| step.compensation.as_ref())
            .map(|compensation| compensation.agent.clone())
            .collect(),
        ProcessState::Processed { .. }
        | ProcessState::Error { .. }
        | ProcessState::Compensated { .. }
        | ProcessState::CompensationFailed { .. } => BTreeSet::new(),
    }
}

/// The agents that have something of the order in their topics or hands.
#[must_use]
pub fn asked(ctx: &Context<'_>, order: &Order) -> BTreeSet<AgentName> {
    let steps = order.steps.iter().zip(&ctx.workflow.steps);
    steps
        .filter_map(|(record, step)| match &record.state {
            StepState::Running { .. } | StepState::Probing { .. } => Some(&step.agent),
            StepState::Undoing { .. } => step.compensation.as_ref().map(|c| &c.agent),
            _ => None,
        })
        .cloned()
        .collect()
}
