//! The overview: counts, causes, outages, alerts and rates on one page.

use std::cmp::Reverse;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use triad_core::Attention;

use super::heard::LettersOfLate;
use super::local::{Execute, Installation, Local};
use super::order_queries::CausesFound;
use super::{Caller, Problem, plain_form};
use crate::causes::among;
use crate::counts::{OrderCounts, Rate, counts, rates};
use crate::downstreams::{self, Deferred, DownstreamView, Published, Waiting};
use crate::find::Filter;
use crate::history::{History, history};
use crate::outages::{Outage, outages};
use crate::recent::AlertGroup;

/// Most rows of the attention index that are read for the most frequent causes of an overview.
const ROWS: usize = 2_000;
/// Most causes of an overview.
const CAUSES: usize = 10;
/// Most groups of alerts of an overview.
const ALERTS: usize = 10;

/// Orders counted by state, and how many came and ended of late.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GetCounts {}

/// Orders counted by state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Counts {
    /// The counts.
    #[serde(flatten)]
    pub counts: OrderCounts,
    /// How many orders were submitted and finished in the last minute, hour and day; `None`: the store does not
    /// count them.
    pub rates: Option<Vec<Rate>>,
}

plain_form!(Counts: "counts");

impl Execute for GetCounts {
    type Answer = Counts;

    async fn execute<I: Installation>(
        self,
        on: &Local<I>,
        _caller: &Caller,
    ) -> Result<Counts, Problem> {
        let (store, now) = (on.store(), on.moment());
        Ok(Counts {
            counts: counts(store, now).await?,
            rates: rates(store, now).await?,
        })
    }
}

/// What is under way, what waits, what is wrong and what needs an operator.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GetOverview {}

/// The state of an installation at one moment, in short.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Overview {
    /// Orders by state, and of late.
    #[serde(flatten)]
    pub counts: Counts,
    /// How many orders need an operator in all.
    pub needing_an_operator: u64,
    /// The most frequent causes for which orders need an operator.
    pub causes: CausesFound,
    /// Whether there are more causes.
    pub more_causes: bool,
    /// What is wrong with downstreams, the one for which most orders wait first.
    pub outages: Vec<Outage>,
    /// Every downstream.
    pub downstreams: Vec<DownstreamView>,
    /// What orders wait for before a Scheduler starts them.
    pub waiting: Vec<Waiting>,
    /// Orders under way of which a step is deferred, by downstream; empty while every downstream is called.
    pub deferred: Deferred,
    /// The newest alerts of the last day by what they are about.
    pub alerts: Vec<AlertGroup>,
    /// How many groups of alerts there are.
    pub alert_groups: usize,
    /// Why the alerts are not known; `None` if they are.
    pub alerts_unread: Option<String>,
    /// Dead letters of the last day; `None` if they are not known.
    pub dead_letters: Option<LettersOfLate>,
    /// Why the dead letters are not known; `None` if they are.
    pub dead_letters_unread: Option<String>,
}

plain_form!(Overview: "overview");

impl Overview {
    /// The downstreams that are not called freely: their breaker is not closed or was set by hand, or steps of theirs
    /// are paused.
    pub fn held(&self) -> impl Iterator<Item = &DownstreamView> {
        let all = self.downstreams.iter();
        all.filter(|one| !one.is_free())
    }

    /// Whether nothing needs an operator: no order does, and every downstream is called freely.
    #[must_use]
    pub fn is_well(&self) -> bool {
        self.needing_an_operator == 0 && self.held().next().is_none()
    }
}

impl Execute for GetOverview {
    type Answer = Overview;

    async fn execute<I: Installation>(
        self,
        on: &Local<I>,
        caller: &Caller,
    ) -> Result<Overview, Problem> {
        let (store, now) = (on.store(), on.moment());
        let counts = GetCounts::default().execute(on, caller).await?;
        let mut causes = among(store, &Filter::default(), now, ROWS).await?;
        let paused = Filter {
            state: Attention::Paused.name().parse().ok(),
            ..Filter::default()
        };
        let paused = among(store, &paused, now, ROWS).await?;
        causes.groups.extend(paused.groups);
        causes.groups.sort_by_key(|group| Reverse(group.orders));
        causes.more |= paused.more;
        let more_causes = causes.groups.len() > CAUSES;
        causes.groups.truncate(CAUSES);
        let published = Published::read(store).await?;
        let mut all = Vec::new();
        for agent in published.agents() {
            all.push(downstreams::view(store, &agent).await?);
        }
        let waiting = downstreams::waiting(store, now).await?;
        // At most a thousand records are read for it.
        let deferred = match all.iter().all(DownstreamView::is_free) {
            true => Deferred::default(),
            false => downstreams::deferred(store, &published).await?,
        };
        let heard = on.heard().await;
        let (mut alerts, alerts_unread) = match &heard.alerts {
            Ok(found) => (crate::recent::grouped(&found.alerts), None),
            Err(why) => (Vec::new(), Some(why.clone())),
        };
        let alert_groups = alerts.len();
        alerts.truncate(ALERTS);
        let (dead_letters, dead_letters_unread) = match heard.letters {
            Ok(letters) => (Some(letters), None),
            Err(why) => (None, Some(why)),
        };
        Ok(Overview {
            needing_an_operator: counts.counts.needing.iter().map(|one| one.orders).sum(),
            counts,
            causes: causes.into(),
            more_causes,
            outages: outages(&all, &waiting, &deferred),
            downstreams: all,
            waiting,
            deferred,
            alerts,
            alert_groups,
            alerts_unread,
            dead_letters,
            dead_letters_unread,
        })
    }
}

/// What came and ended in the last hour and day, for plots.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GetHistory {}

plain_form!(History: "history");

impl Execute for GetHistory {
    type Answer = History;

    async fn execute<I: Installation>(
        self,
        on: &Local<I>,
        _caller: &Caller,
    ) -> Result<History, Problem> {
        Ok(history(on.store()).await?)
    }
}
