//! Campaigns: started, shown, stopped and resumed.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use triad_core::{Action, CampaignId};

use super::filter::span;
use super::local::{Execute, Installation, Local, rate};
use super::order_acts::{ActDetails, OrderAct, Plan, plan};
use super::{Caller, Form, OrderFilter, Problem, Reason, only_tried, plain_form};
use crate::campaign::Preview;
use crate::campaign::commands::{self, CampaignRequest, CampaignStatus};
use crate::campaign::form::{PATIENCE, STOP_SHARE};
use crate::campaign::{CampaignAct, CampaignOrder, Pace, View};
use crate::json as form;

/// Most campaigns of a list, the newest.
const CAMPAIGNS: usize = 50;
/// Most orders that a dry run counts.
const COUNTED: u64 = 10_000;

/// The newest campaigns.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ListCampaigns {
    /// Most campaigns, from 1 to 200; 50 where it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 200))]
    pub limit: Option<usize>,
}

/// The newest campaigns.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct CampaignsFound {
    /// The campaigns, the newest first.
    pub campaigns: Vec<View>,
}

plain_form!(CampaignsFound: "campaigns" { "campaigns": "campaign" });

impl Execute for ListCampaigns {
    type Answer = CampaignsFound;

    async fn execute<I: Installation>(
        self,
        on: &Local<I>,
        _caller: &Caller,
    ) -> Result<CampaignsFound, Problem> {
        let limit = self.limit.unwrap_or(CAMPAIGNS);
        if !(1..=200).contains(&limit) {
            return Err(Problem::bad("bad-limit", "limit is a number from 1 to 200"));
        }
        let found = commands::list(on.store(), limit).await?;
        let campaigns = found.iter().map(|one| view(on, one)).collect();
        Ok(CampaignsFound { campaigns })
    }
}

/// A campaign without hidden fields.
fn view<I: Installation>(on: &Local<I>, found: &CampaignStatus) -> View {
    let mut view = View::of(found);
    if let CampaignAct::Correct { correction, .. } = &mut view.what {
        on.settings.hidden.correction(correction);
    }
    view
}

/// The id of a campaign.
fn named(id: &str) -> Result<CampaignId, Problem> {
    id.parse()
        .map_err(|_| Problem::missing("no-such-campaign", format!("there is no campaign {id:?}")))
}

/// One campaign.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GetCampaign {
    /// The campaign's id.
    pub id: String,
}

/// One campaign.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct CampaignFound(pub View);

plain_form!(CampaignFound: "campaign");

impl Execute for GetCampaign {
    type Answer = CampaignFound;

    async fn execute<I: Installation>(
        self,
        on: &Local<I>,
        _caller: &Caller,
    ) -> Result<CampaignFound, Problem> {
        let found = commands::by_id(on.store(), &named(&self.id)?).await?;
        Ok(CampaignFound(view(on, &found)))
    }
}

/// One batch of a campaign.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GetCampaignBatch {
    /// The campaign's id.
    pub id: String,
    /// The batch, from 1 on.
    pub batch: u32,
}

/// One batch of a campaign.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct BatchFound {
    /// The campaign's id.
    #[schemars(with = "String")]
    pub id: CampaignId,
    /// The batch, from 1 on.
    pub batch: u32,
    /// Its orders, and what came of each.
    pub orders: Vec<CampaignOrder>,
}

plain_form!(BatchFound: "campaign-batch");

impl Execute for GetCampaignBatch {
    type Answer = BatchFound;

    async fn execute<I: Installation>(
        self,
        on: &Local<I>,
        _caller: &Caller,
    ) -> Result<BatchFound, Problem> {
        let (id, batch) = (named(&self.id)?, self.batch);
        let text = format!("campaign {id} has no batch {batch}");
        let found = commands::batch(on.store(), &id, batch).await?;
        let found = found.ok_or_else(|| Problem::missing("no-such-batch", text))?;
        let mut orders = found.orders;
        for order in &mut orders {
            if let Some(text) = &mut order.text {
                on.settings.hidden.cut_answer(text);
            }
        }
        Ok(BatchFound { id, batch, orders })
    }
}

/// Start a campaign: an act on all orders that fit a filter, carried out by the Supervisor in batches that grow.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StartCampaign {
    /// What is done to each order; not resolve or amend.
    pub act: OrderAct,
    /// Which orders.
    pub filter: OrderFilter,
    /// What the act needs.
    #[serde(flatten)]
    pub details: ActDetails,
    /// Who and why.
    #[serde(flatten)]
    pub reason: Reason,
    /// If true, nothing is started, and the answer says how many orders fit.
    #[serde(default = "only_tried")]
    pub dry_run: bool,
    /// Orders a second; 50 where it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<u32>,
    /// The campaign stops if more than so many of 100 orders fail again; 20 where it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 100))]
    pub stop_share: Option<u8>,
    /// How long orders of a batch may come to no end, such as 10m, before the campaign stops.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub patience: Option<String>,
}

/// A campaign that was started, or how many orders it would act on.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum CampaignStarted {
    /// The campaign.
    Started(Box<View>),
    /// The result of a dry run.
    Tried(Preview),
}

impl Form for CampaignStarted {
    fn form(&self) -> Result<Value, serde_json::Error> {
        match self {
            Self::Started(view) => form::line("campaign", view),
            Self::Tried(preview) => {
                let mut shown = form::line("campaign-preview", preview)?;
                shown["dry_run"] = true.into();
                Ok(shown)
            }
        }
    }

    fn schema(of: &mut schemars::SchemaGenerator) -> schemars::Schema {
        let started = super::routes::with_kind(View::json_schema(of), "campaign");
        let tried = super::routes::with_kind(Preview::json_schema(of), "campaign-preview");
        schemars::json_schema!({"oneOf": [started, tried]})
    }
}

impl Execute for StartCampaign {
    type Answer = CampaignStarted;

    async fn execute<I: Installation>(
        self,
        on: &Local<I>,
        caller: &Caller,
    ) -> Result<CampaignStarted, Problem> {
        on.may_act(caller)?;
        let operator = self.reason.of(caller)?;
        let bad = |e: Problem| Problem::bad("bad-patience", e.detail);
        let patience = span("patience", &self.patience).map_err(bad)?;
        if self.act.is_of_one_order() {
            let text = format!("{} is done order by order", self.act.name());
            return Err(Problem::bad("bad-act", text));
        }
        let what = match plan(on, self.act, &self.details).await? {
            Plan::Correct(step, correction) => CampaignAct::Correct { step, correction },
            Plan::Migrate(to) => CampaignAct::Migrate { to },
            Plan::Operate(action) => match action {
                Action::Resubmit { .. } => CampaignAct::Resubmit,
                Action::Cancel => CampaignAct::Cancel,
                Action::RetryCompensation => CampaignAct::RetryCompensation,
                Action::Close => CampaignAct::Close,
                Action::Pause => CampaignAct::Pause,
                Action::Resume => CampaignAct::Resume,
                one => {
                    let text = format!("no campaign does {}", one.name());
                    return Err(Problem::internal(text));
                }
            },
        };
        let (store, now) = (on.store(), on.moment());
        let mut wanted = CampaignRequest {
            what,
            filter: self.filter.read(&on.settings.hidden)?,
            operator,
            total: None,
            pace: Pace {
                rate: rate(self.rate)?,
                stop_share: self.stop_share.unwrap_or(STOP_SHARE),
                patience: patience.unwrap_or(PATIENCE),
            },
        };
        commands::check(&wanted)?;
        let preview = commands::preview(store, &wanted.filter, COUNTED, now).await?;
        if self.dry_run {
            return Ok(CampaignStarted::Tried(preview));
        }
        wanted.total = Some(preview);
        let campaign = commands::start(store, &on.parts().entropy, wanted, now).await?;
        tracing::info!(campaign = %campaign.id, act = campaign.what.name(), by = %campaign.operator.by,
            why = %campaign.operator.why, "an operator started a campaign");
        let counts = campaign.counts;
        let started = view(on, &CampaignStatus { campaign, counts });
        Ok(CampaignStarted::Started(Box::new(started)))
    }
}

/// Stop a campaign between two orders.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StopCampaign {
    /// The campaign's id.
    pub id: String,
    /// Who and why.
    #[serde(flatten)]
    pub reason: Reason,
}

/// Resume a campaign that ended before it had acted on every order that fits.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ResumeCampaign {
    /// The campaign's id.
    pub id: String,
    /// Who and why.
    #[serde(flatten)]
    pub reason: Reason,
}

impl Execute for StopCampaign {
    type Answer = CampaignFound;

    async fn execute<I: Installation>(
        self,
        on: &Local<I>,
        caller: &Caller,
    ) -> Result<CampaignFound, Problem> {
        change(on, caller, (&self.id, false), &self.reason).await
    }
}

impl Execute for ResumeCampaign {
    type Answer = CampaignFound;

    async fn execute<I: Installation>(
        self,
        on: &Local<I>,
        caller: &Caller,
    ) -> Result<CampaignFound, Problem> {
        change(on, caller, (&self.id, true), &self.reason).await
    }
}

async fn change<I: Installation>(
    on: &Local<I>,
    caller: &Caller,
    (id, resumes): (&str, bool),
    reason: &Reason,
) -> Result<CampaignFound, Problem> {
    on.may_act(caller)?;
    let operator = reason.of(caller)?;
    let (store, entropy, id, now) = (on.store(), &on.parts().entropy, named(id)?, on.moment());
    let changed = match resumes {
        true => commands::resume(store, entropy, &id, &operator, now).await,
        false => commands::stop(store, entropy, &id, &operator, now).await,
    };
    changed?;
    tracing::info!(campaign = %id, by = %operator.by, why = %operator.why, resumes, "an operator changed a campaign");
    let found = commands::by_id(store, &id).await?;
    Ok(CampaignFound(view(on, &found)))
}
