//! What a campaign does to one order: the single act of its name.

use triad_core::{Action, Operation, OrderId};
use triad_runtime::operator::Operator;
use triad_runtime::{Bus, Clock, DefinitionStore, Entropy, StateStore};

use super::form::{Campaign, What};
use crate::acts::{Corrected, correct, one};
use crate::outcome::Outcome;

/// What a campaign does, to one order.
pub(super) async fn act_on<S, B, C, N>(
    operator: &Operator<S, B, C, N>,
    id: &OrderId,
    campaign: &Campaign,
) -> Outcome
where
    S: StateStore + DefinitionStore + Clone,
    B: Bus,
    C: Clock,
    N: Entropy,
{
    let act = campaign.operator.clone().within(campaign.id.clone());
    let action = match &campaign.what {
        What::Correct { step, correction } => {
            let corrected = Corrected {
                step,
                correction,
                act: &act,
            };
            return correct(operator, id, corrected, false, |_| {}).await;
        }
        What::Migrate { to } => return operator.migrate(id, to, &act, false).await.into(),
        What::Resubmit => Action::Resubmit { input: None },
        What::Cancel => Action::Cancel,
        What::RetryCompensation => Action::RetryCompensation,
        What::Close => Action::Close,
        What::Pause => Action::Pause,
        What::Resume => Action::Resume,
    };
    one(operator, id, &Operation { action, act }, false).await
}
