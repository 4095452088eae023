//! Campaigns: the list, one campaign, and the results of a batch.

use serde_json::{Value, json};
use triad_operator::campaign::View;
use triad_operator::campaign::commands;

use crate::acts::campaigns::{json as shown, named, refused};
use crate::answer::{self, Answer};
use crate::installation::Installation;
use crate::params::Params;
use crate::problem::Problem;
use crate::settings::CAMPAIGNS;
use crate::shared_state::Desk;

/// The newest campaigns.
pub(super) async fn list<I: Installation>(
    desk: &Desk<I>,
    query: &Params,
) -> Result<Answer, Problem> {
    query.only(&[])?;
    let found = commands::list(desk.of.store(), CAMPAIGNS).await?;
    let hidden = &desk.settings.hidden;
    let all = found.iter().map(|one| shown(&View::of(one), hidden));
    let all: Result<Vec<Value>, Problem> = all.collect();
    answer::json(&json!({"kind": "campaigns", "campaigns": all?}))
}

/// One campaign.
pub(super) async fn get_campaign<I: Installation>(
    desk: &Desk<I>,
    id: &str,
    query: &Params,
) -> Result<Answer, Problem> {
    query.only(&[])?;
    let found = commands::by_id(desk.of.store(), &named(id)?).await;
    let found = found.map_err(refused)?;
    answer::json(&shown(&View::of(&found), &desk.settings.hidden)?)
}

/// Results of the orders of one batch.
pub(super) async fn batch<I: Installation>(
    desk: &Desk<I>,
    id: &str,
    batch: &str,
    query: &Params,
) -> Result<Answer, Problem> {
    query.only(&[])?;
    let id = named(id)?;
    let missing = || {
        let text = format!("campaign {id} has no batch {batch}");
        Problem::missing("no-such-batch", text)
    };
    let number: u32 = batch.parse().map_err(|_| missing())?;
    let found = commands::batch(desk.of.store(), &id, number).await?;
    let found = found.ok_or_else(missing)?;
    answer::json(
        &json!({"kind": "campaign-batch", "id": id, "batch": number, "orders": found.orders}),
    )
}
