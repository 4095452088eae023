//! Which downstreams an order still needs.

use std::collections::BTreeSet;

use triad_workflow::AgentName;

use crate::context::{Context, NeedsDetails};
use crate::declared::declared;
use crate::input;
use crate::order::{Order, ProcessState};
use crate::step::StepState;

/// The agents that an order still needs: while it is being compensated, those of the compensations that are
/// not done; before, those of the steps that are neither completed nor skipped. Empty for a finished order. A
/// step that has not been started is left out if its condition has a value already, and that is false.
///
/// # Errors
/// [`NeedsDetails`] if the condition of a step has to be computed and [`Context::details`] is `None`.
pub fn needs(ctx: &Context<'_>, order: &Order) -> Result<BTreeSet<AgentName>, NeedsDetails> {
    let steps = || order.steps.iter().zip(&ctx.workflow.steps);
    // Those that are still to be computed: the others may read outputs that no decision needs any more.
    let conditions = || {
        let waiting = steps().filter(|(record, _)| record.state == StepState::Waiting);
        waiting.filter_map(|(_, step)| step.when.as_ref())
    };
    Ok(match &order.state {
        ProcessState::Pending { .. } | ProcessState::Processing(_) => {
            let mut needed = BTreeSet::new();
            // Computed on demand: it is costly and rarely needed.
            let mut scope = None;
            let mut is_far = Vec::with_capacity(order.steps.len());
            for (record, step) in steps() {
                let is_behind = step.after.iter().any(|&before| is_far[before]);
                is_far.push(is_behind || step.call().is_none() && !record.state.is_done());
                let Some(call) = step.call().filter(|_| !is_behind) else {
                    continue;
                };
                let is_needed = match (&record.state, &step.when) {
                    (StepState::Waiting, Some(when)) => {
                        let scope = match &mut scope {
                            Some(made) => made,
                            none => none.insert(input::scope(ctx, order, conditions(), None)?),
                        };
                        !matches!(when.holds(scope), Ok(false))
                    }
                    (state, _) => !state.is_done(),
                };
                if is_needed {
                    needed.insert(call.agent.clone());
                }
            }
            needed
        }
        ProcessState::Compensating { .. } => steps()
            .filter(|(record, _)| record.state.to_compensate().is_some())
            .filter_map(|(_, step)| step.compensation.as_ref())
            .map(|compensation| compensation.agent.clone())
            .collect(),
        ProcessState::Processed { .. }
        | ProcessState::Error { .. }
        | ProcessState::Compensated { .. }
        | ProcessState::CompensationFailed { .. } => BTreeSet::new(),
    })
}

/// The agents that have been sent a request of this order and have not answered it.
#[must_use]
pub fn agents_with_requests_out(ctx: &Context<'_>, order: &Order) -> BTreeSet<AgentName> {
    let steps = order.steps.iter().zip(&ctx.workflow.steps);
    steps
        .filter_map(|(record, step)| declared(step, record.state.out()?.direction))
        .map(|declared| declared.agent)
        .cloned()
        .collect()
}
