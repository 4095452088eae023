//! Starting, stopping and resuming campaigns: acts on many orders that the Supervisor carries out.

use serde::Deserialize;
use serde_json::{Value, json};
use triad_core::{Action, CampaignId};
use triad_operator::campaign::commands::{
    self, CampaignError, CampaignRequest, CampaignStatus, Preview,
};
use triad_operator::campaign::form::{PATIENCE, STOP_SHARE};
use triad_operator::campaign::{CampaignAct, Pace, View};
use triad_operator::json as form;
use triad_workflow::Millis;

use super::orders::{self, FilterForm, OrderAct, Plan};
use super::{act, only_tried, rate};
use crate::caller::Caller;
use crate::hidden::{Hidden, SHOWN};
use crate::installation::Installation;
use crate::problem::Problem;
use crate::shared_state::Desk;

/// Most orders that a dry run counts.
pub(crate) const COUNTED: u64 = 10_000;

/// A request to start a campaign.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Start {
    pub(crate) act: OrderAct,
    pub(crate) filter: FilterForm,
    pub(crate) why: String,
    #[serde(default)]
    pub(crate) by: Option<String>,
    /// If true, only counts the orders that fit.
    #[serde(default = "only_tried")]
    pub(crate) dry_run: bool,
    #[serde(default)]
    pub(crate) rate: Option<u32>,
    #[serde(default)]
    pub(crate) stop_share: Option<u8>,
    #[serde(default)]
    pub(crate) patience: Option<String>,
    #[serde(default)]
    pub(crate) step: Option<String>,
    #[serde(default)]
    pub(crate) input: Option<Value>,
    #[serde(default)]
    pub(crate) set: Vec<String>,
    #[serde(default)]
    pub(crate) to_workflow: Option<String>,
    #[serde(default)]
    pub(crate) to_version: Option<String>,
}

/// A request to stop a campaign, or to resume one.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Change {
    pub(crate) why: String,
    #[serde(default)]
    pub(crate) by: Option<String>,
}

/// Result of a request to start a campaign.
pub(crate) enum Started {
    /// The campaign is started.
    Campaign(Box<View>),
    /// Dry run: the number of orders that the campaign would act on.
    Preview(Preview),
}

/// Starts a campaign, or says what it would act on.
pub(crate) async fn start<I: Installation>(
    desk: &Desk<I>,
    caller: &Caller,
    request: Start,
) -> Result<Started, Problem> {
    desk.may_act(caller)?;
    let operator = act(caller, request.by.as_deref(), &request.why)?;
    let patience = request.patience.clone().map(Millis::try_from).transpose();
    let patience = patience.map_err(|e| Problem::bad("bad-patience", format!("patience {e}")))?;
    let (filter, rate) = (
        request.filter.filter(&desk.settings.hidden)?,
        rate(request.rate)?,
    );
    let stop_share = request.stop_share.unwrap_or(STOP_SHARE);
    let is_dry = request.dry_run;
    let what = campaign_act(desk, request).await?;
    let wanted = CampaignRequest {
        what,
        filter,
        operator,
        pace: Pace {
            rate,
            stop_share,
            patience: patience.unwrap_or(PATIENCE),
        },
    };
    let (store, now) = (desk.of.store(), desk.now());
    if is_dry {
        commands::check(&wanted).map_err(refused)?;
        let preview = commands::preview(store, &wanted.filter, COUNTED, now).await?;
        return Ok(Started::Preview(preview));
    }
    let started = commands::start(store, desk.of.entropy(), wanted, now).await;
    let campaign = started.map_err(refused)?;
    tracing::info!(campaign = %campaign.id, act = campaign.what.name(), by = %campaign.operator.by,
        why = %campaign.operator.why, "an operator started a campaign");
    let counts = campaign.counts;
    let view = View::of(&CampaignStatus { campaign, counts });
    Ok(Started::Campaign(Box::new(view)))
}

/// The act for each order: the same as a request that acts at once.
async fn campaign_act<I: Installation>(
    desk: &Desk<I>,
    request: Start,
) -> Result<CampaignAct, Problem> {
    let request = orders::Request {
        act: request.act,
        orders: Vec::new(),
        filter: Some(request.filter),
        limit: None,
        why: request.why,
        by: request.by,
        dry_run: true,
        rate: None,
        step: request.step,
        input: request.input,
        set: request.set,
        applied: None,
        output: None,
        attempt: None,
        to_workflow: request.to_workflow,
        to_version: request.to_version,
    };
    if request.act == OrderAct::Resolve {
        let text = "what is in doubt is resolved order by order";
        return Err(Problem::bad("bad-act", text));
    }
    Ok(match orders::plan(desk, &request).await? {
        Plan::Correct(step, correction) => CampaignAct::Correct { step, correction },
        Plan::Migrate(to) => CampaignAct::Migrate { to },
        Plan::Operate(action) => match action {
            Action::Resubmit { .. } => CampaignAct::Resubmit,
            Action::Cancel => CampaignAct::Cancel,
            Action::RetryCompensation => CampaignAct::RetryCompensation,
            Action::Close => CampaignAct::Close,
            Action::Pause => CampaignAct::Pause,
            Action::Resume => CampaignAct::Resume,
            Action::Resolve { .. } => return Err(Problem::internal("resolving is refused before")),
        },
    })
}

/// Stops a campaign, or resumes it.
pub(crate) async fn change<I: Installation>(
    desk: &Desk<I>,
    caller: &Caller,
    (id, resumes): (&str, bool),
    request: Change,
) -> Result<View, Problem> {
    desk.may_act(caller)?;
    let operator = act(caller, request.by.as_deref(), &request.why)?;
    let (store, entropy, id, now) = (desk.of.store(), desk.of.entropy(), named(id)?, desk.now());
    let changed = match resumes {
        true => commands::resume(store, entropy, &id, &operator, now).await,
        false => commands::stop(store, entropy, &id, &operator, now).await,
    };
    let campaign = changed.map_err(refused)?;
    tracing::info!(campaign = %id, by = %operator.by, why = %operator.why, resumes, "an operator changed a campaign");
    let counts = campaign.counts;
    Ok(View::of(&CampaignStatus { campaign, counts }))
}

/// The id of a campaign.
pub(crate) fn named(id: &str) -> Result<CampaignId, Problem> {
    id.parse()
        .map_err(|_| Problem::missing("no-such-campaign", format!("there is no campaign {id:?}")))
}

/// Why a campaign is not started, found or changed.
pub(crate) fn refused(error: CampaignError) -> Problem {
    let text = error.to_string();
    match error {
        CampaignError::Store(e) => e.into(),
        CampaignError::NotFound(_) => Problem::missing("no-such-campaign", text),
        CampaignError::Contended(_) => Problem::later("contended", text, 1),
        CampaignError::EmptyFilter | CampaignError::NoIndex => Problem::bad("bad-filter", text),
        CampaignError::StopShare(_) => Problem::bad("bad-stop-share", text),
        CampaignError::TooMany | CampaignError::Same(_) | CampaignError::Already { .. } => {
            Problem::new(http::StatusCode::CONFLICT, "campaign", text)
        }
    }
}

/// A campaign as JSON, without hidden fields.
pub(crate) fn json(view: &View, hidden: &Hidden) -> Result<Value, Problem> {
    let mut shown = form::line("campaign", view)?;
    if let Some(correction) = shown.get_mut("correction") {
        hidden.mask(correction);
        for set in correction["set"].as_array_mut().into_iter().flatten() {
            let path = set.as_str().and_then(|set| set.split_once('='));
            if let Some((path, _)) = path.filter(|(path, _)| hidden.hides_place(path)) {
                *set = format!("{path}={SHOWN}").into();
            }
        }
    }
    Ok(shown)
}

impl Started {
    /// The result as JSON.
    pub(crate) fn json(&self, hidden: &Hidden) -> Result<Value, Problem> {
        match self {
            Self::Campaign(view) => json(view, hidden),
            Self::Preview(preview) => Ok(json!({"kind": "campaign-preview", "dry_run": true,
                "orders": preview.orders, "more": preview.more})),
        }
    }
}
