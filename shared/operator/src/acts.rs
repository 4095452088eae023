//! Acts on many orders.

use std::future::Future;

use triad_core::{Operation, OperatorAct, OrderId, WorkflowRef};
use triad_runtime::operator::Operator;
use triad_runtime::{Bus, Clock, DefinitionStore, Entropy, StateStore};

use crate::bulk::{Bulk, Line, Tally, each};

/// Does one operation on many orders, one after the other, and reports each; rate, dry run and
/// `stop` are as in [`each`].
///
/// # Errors
/// What `report` returns; no further order is acted on. The failure of one order is in its
/// [`Line`].
pub async fn operate<S, B, C, N, F>(
    operator: &Operator<S, B, C, N>,
    clock: &impl Clock,
    orders: Vec<OrderId>,
    operation: &Operation,
    how: Bulk,
    stop: impl Future<Output = ()>,
    report: impl FnMut(&Line) -> Result<(), F>,
) -> Result<Tally, F>
where
    S: StateStore + DefinitionStore + Clone,
    B: Bus,
    C: Clock,
    N: Entropy,
{
    let act = async |id: OrderId| operator.operate(&id, operation, how.dry_run).await.into();
    each(clock, orders, how, stop, act, report).await
}

/// Moves many orders to the version `to` of their workflow, one after the other, and reports each;
/// rate, dry run and `stop` are as in [`each`]. `act` says who does it and why.
///
/// # Errors
/// What `report` returns; no further order is acted on. The failure of one order is in its
/// [`Line`].
pub async fn migrate<S, B, C, N, F>(
    operator: &Operator<S, B, C, N>,
    clock: &impl Clock,
    orders: Vec<OrderId>,
    (to, act): (&WorkflowRef, &OperatorAct),
    how: Bulk,
    stop: impl Future<Output = ()>,
    report: impl FnMut(&Line) -> Result<(), F>,
) -> Result<Tally, F>
where
    S: StateStore + DefinitionStore + Clone,
    B: Bus,
    C: Clock,
    N: Entropy,
{
    let one = async |id: OrderId| operator.migrate(&id, to, act, how.dry_run).await.into();
    each(clock, orders, how, stop, one, report).await
}
