//! Acts on many orders.

use std::future::Future;
use std::sync::{Mutex, PoisonError};

use serde_json::Value;
use triad_core::operate::{NoInput, present_input};
use triad_core::{Action, NeedsDetails, Operation, OperatorAct, OrderId, WorkflowRef};
use triad_runtime::operator::{OperateError, Operator};
use triad_runtime::{Bus, Clock, DefinitionStore, Entropy, StateStore};
use triad_workflow::StepId;

use crate::bulk::{ActResult, Bulk, Tally, act_on_each};
use crate::correction::{Correction, Difference, differences};
use crate::outcome::ActOutcome;
use crate::resolving::lacking;

/// Does `operation` on many orders, one after the other, and calls `report` with the result of each. `how` has
/// the rate, and whether this is a dry run. When `stop` completes, no further order is acted on. The returned
/// counts, and the other cases in which orders are left, are those of [`each`].
///
/// An order of which a step is to be resolved with an output is not acted on if the output lacks what other
/// steps read of it: see [`ActOutcome::OutputLacks`].
///
/// # Errors
/// The error that `report` returns; no further order is acted on then. The failure of an act on one order is
/// no error: it is in the order's [`ActResult`].
pub async fn operate<S, B, C, N, F>(
    operator: &Operator<S, B, C, N>,
    clock: &impl Clock,
    orders: Vec<OrderId>,
    operation: &Operation,
    how: Bulk,
    stop: impl Future<Output = ()>,
    report: impl FnMut(&ActResult) -> Result<(), F>,
) -> Result<Tally, F>
where
    S: StateStore + DefinitionStore + Clone,
    B: Bus,
    C: Clock,
    N: Entropy,
{
    let act = async |id: OrderId| act_on_order(operator, &id, operation, how.dry_run).await;
    act_on_each(clock, orders, how, stop, act, report).await
}

/// One operation on one order. Refuses an output that lacks fields which other steps read.
pub(crate) async fn act_on_order<S, B, C, N>(
    operator: &Operator<S, B, C, N>,
    id: &OrderId,
    operation: &Operation,
    dry_run: bool,
) -> ActOutcome
where
    S: StateStore + DefinitionStore + Clone,
    B: Bus,
    C: Clock,
    N: Entropy,
{
    if let Action::Resolve {
        step,
        applied: Some(output),
        ..
    } = &operation.action
    {
        let read = match operator.snapshot(id).await {
            Ok(Some(read)) => read,
            Ok(None) => return ActOutcome::NotFound,
            Err(error) => return ActOutcome::Failed(error),
        };
        // The act itself refuses a step that the workflow does not have.
        let lacking = match read.workflow.step_index(step.as_str()) {
            Some(index) => lacking(&read.workflow, index, output),
            None => Vec::new(),
        };
        if !lacking.is_empty() {
            let step = step.clone();
            return ActOutcome::OutputLacks { step, lacking };
        }
    }
    operator.operate(id, operation, dry_run).await.into()
}

/// Computes the input that a step of an order has now, or says why it has none.
///
/// # Errors
/// [`ActOutcome::NotFound`] if there is no such order, [`ActOutcome::Failed`] if the order, its details or its
/// definition cannot be read.
pub async fn input_of<S, B, C, N>(
    operator: &Operator<S, B, C, N>,
    id: &OrderId,
    step: &StepId,
) -> Result<Result<Value, NoInput>, ActOutcome>
where
    S: StateStore + DefinitionStore + Clone,
    B: Bus,
    C: Clock,
    N: Entropy,
{
    let read = operator.snapshot(id).await.map_err(ActOutcome::Failed)?;
    let read = read.ok_or(ActOutcome::NotFound)?;
    let context = read.context(operator.timing());
    present_input(&context, &read.order, step).map_err(|NeedsDetails| {
        let why = "the input of a step reads the order's details, and they are not there";
        ActOutcome::Failed(OperateError::Unsound(why.to_owned()))
    })
}

/// Which step is done again with a corrected input, how it is corrected, and who says so and why.
#[derive(Debug, Clone, Copy)]
pub struct Corrected<'a> {
    /// The step whose input is corrected.
    pub step: &'a StepId,
    /// How the new input is made from the present one.
    pub correction: &'a Correction,
    /// Who does it, and why.
    pub act: &'a OperatorAct,
}

/// Resubmits many orders with a corrected input of one step, one after the other. Each order's new input is
/// made from its own present one. Before an order is acted on, and in a dry run too, `show` is called with
/// the differences between the two inputs, if the new one can be made; afterwards `report` is called with
/// the result of the order. `how` has the rate, and whether this is a dry run. When `stop` completes, no
/// further order is acted on. The returned counts, and the other cases in which orders are left, are those of
/// [`each`].
///
/// # Errors
/// The error that `report` returns; no further order is acted on then. The failure of an act on one order is
/// no error: it is in the order's [`ActResult`].
#[expect(
    clippy::too_many_arguments,
    reason = "they are those of every act, and what is shown before it"
)]
pub async fn resubmit_corrected<S, B, C, N, F>(
    operator: &Operator<S, B, C, N>,
    clock: &impl Clock,
    orders: Vec<OrderId>,
    corrected: Corrected<'_>,
    how: Bulk,
    stop: impl Future<Output = ()>,
    show: impl FnMut(&OrderId, &[Difference]),
    report: impl FnMut(&ActResult) -> Result<(), F>,
) -> Result<Tally, F>
where
    S: StateStore + DefinitionStore + Clone,
    B: Bus,
    C: Clock,
    N: Entropy,
{
    // Orders are handled one at a time, so this lock is never contended.
    let show = Mutex::new(show);
    let one = async |id: OrderId| {
        let show = |all: &[Difference]| {
            let mut show = show.lock().unwrap_or_else(PoisonError::into_inner);
            (*show)(&id, all);
        };
        correct(operator, &id, corrected, how.dry_run, show).await
    };
    act_on_each(clock, orders, how, stop, one, report).await
}

/// Resubmits one order with a corrected input of one step, made from the present one. Calls `show` with the
/// differences before the act.
pub(crate) async fn correct<S, B, C, N>(
    operator: &Operator<S, B, C, N>,
    id: &OrderId,
    corrected: Corrected<'_>,
    dry_run: bool,
    show: impl FnOnce(&[Difference]),
) -> ActOutcome
where
    S: StateStore + DefinitionStore + Clone,
    B: Bus,
    C: Clock,
    N: Entropy,
{
    let Corrected {
        step,
        correction,
        act,
    } = corrected;
    let present = match input_of(operator, id, step).await {
        Ok(present) => present,
        Err(outcome) => return outcome,
    };
    let input = match correction.of(present.as_ref()) {
        Ok(input) => input,
        Err(error) => return ActOutcome::NotCorrected(error),
    };
    show(&differences(present.as_ref().ok(), &input));
    let operation = Operation {
        action: Action::Resubmit {
            input: Some((step.clone(), input)),
        },
        act: act.clone(),
    };
    operator.operate(id, &operation, dry_run).await.into()
}

/// Moves many orders to the version `to` of their workflow, one after the other, and calls `report` with
/// the result of each. `act` says who does it and why; `how` has the rate, and whether this is a dry run. When
/// `stop` completes, no further order is acted on. The returned counts, and the other cases in which orders
/// are left, are those of [`each`].
///
/// # Errors
/// The error that `report` returns; no further order is acted on then. The failure of an act on one order is
/// no error: it is in the order's [`ActResult`].
pub async fn migrate<S, B, C, N, F>(
    operator: &Operator<S, B, C, N>,
    clock: &impl Clock,
    orders: Vec<OrderId>,
    (to, act): (&WorkflowRef, &OperatorAct),
    how: Bulk,
    stop: impl Future<Output = ()>,
    report: impl FnMut(&ActResult) -> Result<(), F>,
) -> Result<Tally, F>
where
    S: StateStore + DefinitionStore + Clone,
    B: Bus,
    C: Clock,
    N: Entropy,
{
    let one = async |id: OrderId| operator.migrate(&id, to, act, how.dry_run).await.into();
    act_on_each(clock, orders, how, stop, one, report).await
}
