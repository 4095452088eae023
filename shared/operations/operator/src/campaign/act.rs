//! Acts on one order for a campaign, by the single act of the same name.

use triad_core::{Action, Operation, OrderId};
use triad_runtime::operator::Operator;
use triad_runtime::{Bus, Clock, DefinitionStore, Entropy, StateStore};

use super::form::{Campaign, CampaignAct};
use crate::acts::{Corrected, act_on_order, correct};
use crate::outcome::ActOutcome;

/// Acts on one order for a campaign.
pub(super) async fn act_on<S, B, C, N>(
    operator: &Operator<S, B, C, N>,
    id: &OrderId,
    campaign: &Campaign,
) -> ActOutcome
where
    S: StateStore + DefinitionStore + Clone,
    B: Bus,
    C: Clock,
    N: Entropy,
{
    let act = campaign.operator.clone().within(campaign.id.clone());
    let action = match &campaign.what {
        CampaignAct::Correct { step, correction } => {
            let corrected = Corrected {
                step,
                correction,
                act: &act,
            };
            return correct(operator, id, corrected, false, |_| {}).await;
        }
        CampaignAct::Migrate { to } => return operator.migrate(id, to, &act, false).await.into(),
        CampaignAct::Resubmit => Action::Resubmit { input: None },
        CampaignAct::Cancel => Action::Cancel,
        CampaignAct::RetryCompensation => Action::RetryCompensation,
        CampaignAct::Close => Action::Close,
        CampaignAct::Pause => Action::Pause,
        CampaignAct::Resume => Action::Resume,
    };
    act_on_order(operator, id, &Operation { action, act }, false).await
}
