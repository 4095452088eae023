//! Operators' acts on an order: each is one conditional write that names the operator and the reason.

use serde_json::Value;
use triad_workflow::{EvalError, StepId};

use crate::amend::NotAmended;
use crate::context::{Context, NeedsDetails};
use crate::ids::{Attempt, CampaignId};
use crate::input;
use crate::order::{OperatorAct, Order};

/// Largest corrected input of a step, as JSON, in bytes, inclusive: 8 KiB. The process record holds
/// it.
pub const MAX_INPUT_BYTES: usize = 8 * 1024;

/// One act of an operator on one order.
#[derive(Debug, Clone, PartialEq)]
pub struct Operation {
    /// What the operator wants.
    pub action: Action,
    /// The operator and the reason.
    pub act: OperatorAct,
}

/// What an operator can do to an order. Whether the order allows it is checked by
/// [`crate::decide()`], which answers [`OperationRefusal`] if not.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// Of an order in Error: have the steps that did not complete done again, with their failures
    /// and calls counted from zero. Of a Compensated order: run it again from the beginning.
    /// Refused in other states, and while an operator has to resolve the effect of a step first
    /// ([`OperationRefusal::InDoubt`]).
    Resubmit {
        /// A step and its new input, at most [`MAX_INPUT_BYTES`], with the same fields and types as
        /// the present one if that has a value; null fits every type, and elements of lists are not compared.
        /// `None` if no input is replaced. Refused if the step may have had its effect or is not to be done,
        /// and if the whole new input is null.
        input: Option<(StepId, Value)>,
    },
    /// Compensate an order that is Pending, Processing or in Error. Refused once the effect of its point of
    /// no return may have happened, or that step was skipped.
    Cancel,
    /// Try the failed compensations of an order in CompensationFailed again, with their failures and calls
    /// counted from zero. Refused while an operator has to resolve the effect of a step first
    /// ([`OperationRefusal::InDoubt`]).
    RetryCompensation,
    /// Note that an order in Error or CompensationFailed was put right by hand: it needs no
    /// operator any more. Its state stays. Refused if it is closed already.
    Close,
    /// Replace details of an order that is Pending, Processing or in Error. Refused if a step has read what changes,
    /// and in the other cases of [`NotAmended`].
    Amend {
        /// A merge patch (RFC 7396) over the details as they are now: fields that are null are removed. At most
        /// [`MAX_AMENDMENT_BYTES`](crate::amend::MAX_AMENDMENT_BYTES), also together with earlier ones.
        patch: Value,
    },
    /// Start no further step of an order that has not finished, until it is resumed. A request that is out
    /// may still be answered. Refused if the order is paused already.
    Pause,
    /// Let a paused order go on. Refused if the order is not paused.
    Resume,
    /// Say whether an effect in doubt happened, of an order in Error, CompensationFailed or Compensated.
    ///
    /// An order in Error then continues, and so does the compensation of an order in CompensationFailed if the
    /// compensation of this step was given up. Both stay in their state while the order has another step that an
    /// operator has to resolve ([`waits_for_operator`](crate::doubt::waits_for_operator)). A Compensated order stays
    /// compensated, and can then be resubmitted.
    Resolve {
        /// The step whose effect is in doubt.
        step: StepId,
        /// The step's output, at most [`crate::message::MAX_OUTPUT_BYTES`], if its effect happened;
        /// `None` if it did not, which is refused while a request for it may still be carried out.
        applied: Option<Value>,
        /// The latest attempt at the step ([`StepRecord::actions`](crate::StepRecord::actions)) when the operator
        /// looked; refused if another attempt was made since. `None` takes the latest attempt when the act is
        /// decided: see [`Action::see`].
        attempt: Option<Attempt>,
    },
}

impl Action {
    /// Binds a resolution without an attempt to the order's latest attempt, so that after a lost race it is not
    /// applied to an attempt that another operator's act has started.
    pub fn see(&mut self, order: &Order) {
        if let Self::Resolve { step, attempt, .. } = self {
            let record = order.steps.iter().find(|r| r.step == *step);
            *attempt = attempt.or(record.map(|r| Attempt(r.actions())));
        }
    }

    /// The action's name as the CLI has it, such as `resubmit` or `retry-compensation`.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Resubmit { .. } => "resubmit",
            Self::Cancel => "cancel",
            Self::RetryCompensation => "retry-compensation",
            Self::Close => "close",
            Self::Amend { .. } => "amend",
            Self::Pause => "pause",
            Self::Resume => "resume",
            Self::Resolve { .. } => "resolve",
        }
    }
}

/// Checks that a campaign has not acted on the order before.
pub(crate) fn once_a_campaign(order: &Order, act: &OperatorAct) -> Result<(), OperationRefusal> {
    match &act.campaign {
        Some(campaign) if order.is_acted_on_by(campaign) => {
            Err(OperationRefusal::ActedOn(campaign.clone()))
        }
        _ => Ok(()),
    }
}

/// Notes the campaign of an act in the order's next version.
pub(crate) fn note_campaign(next: &mut Order, act: &OperatorAct) {
    if let Some(campaign) = &act.campaign {
        next.campaign = Some(campaign.clone());
    }
}

/// Why a step's action has no input at present.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoInput {
    /// The order's workflow has no step of this name.
    #[error("the workflow has no step {0}")]
    NoStep(StepId),
    /// An expression of the definition has no value for this order.
    #[error("the input of {0} cannot be computed: {1}")]
    NoValue(StepId, EvalError),
}

/// The present input of a step's action: an operator's correction, or else the value of the definition's expressions.
/// A corrected input must have the same fields and types as this one.
///
/// # Errors
/// [`NeedsDetails`] if the input has expressions that are to be computed, and [`Context::details`] is `None`.
pub fn present_input(
    ctx: &Context<'_>,
    order: &Order,
    step: &StepId,
) -> Result<Result<Value, NoInput>, NeedsDetails> {
    let Some(index) = ctx.workflow.step_index(step.as_str()) else {
        return Ok(Err(NoInput::NoStep(step.clone())));
    };
    let input = input::forward(ctx, order, index)?;
    Ok(input.map_err(|why| NoInput::NoValue(step.clone(), why)))
}

/// Why an operator's act is not possible. Nothing is written then.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OperationRefusal {
    /// The action is not allowed in the order's state.
    #[error("{action} is for orders in {wanted}; this one is {state}")]
    State {
        /// Name of the action.
        action: &'static str,
        /// Names of the states that allow it, for a person.
        wanted: &'static str,
        /// Name of the order's state.
        state: &'static str,
    },
    /// The order cannot be cancelled: this step is its point of no return, and was skipped or may
    /// have had its effect.
    #[error(
        "step {0} is the order's point of no return and has been started: the order can no longer be cancelled"
    )]
    PastPivot(StepId),
    /// It is not known whether the effect of this step happened, and it may not be repeated: the operator must
    /// resolve it first.
    #[error(
        "it is not known whether step {0} has had its effect, which may not be repeated: check with its service, then record the answer with triad resolve"
    )]
    InDoubt(StepId),
    /// The action cannot be done to the step that it names: the workflow does not have it, it is in
    /// another state, or its new input or output is not allowed.
    #[error("step {step}: {why}")]
    Step {
        /// The step that the action names.
        step: StepId,
        /// Why not, for a person.
        why: String,
    },
    /// The details cannot be amended so.
    #[error("the details cannot be amended: {0}")]
    NotAmended(NotAmended),
    /// The details are already as the amendment would make them. This is no failure: the act is a repetition.
    #[error("the details are so already")]
    AmendedAlready,
    /// The act is part of a campaign that has acted on the order before.
    #[error("campaign {0} has acted on the order already")]
    ActedOn(CampaignId),
    /// The action would change nothing, or a limit is reached; the text completes the sentence "it is … already".
    #[error("it is {0} already")]
    Already(&'static str),
}
