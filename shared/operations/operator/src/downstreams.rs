//! Downstreams and step types: their state, the orders that wait for them, and holding them.

use std::collections::{BTreeMap, BTreeSet};
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use triad_core::breaker::Breaker;
use triad_core::downstream::{Downstream, DownstreamAction, ForcedTo};
use triad_core::due::SHARDS;
use triad_core::{Direction, OperatorAct, Order, StepRecord, Timestamp};
use triad_runtime::operator::{DownstreamOperated, OperateError, Operator, read_downstream};
use triad_runtime::ports::OperatorStore;
use triad_runtime::pressure::{Pressure, present};
use triad_runtime::{Bus, Clock, ControlStore, DefinitionStore, Entropy, StateStore, StoreError};
use triad_workflow::{AgentName, Step, StepId, Workflow, WorkflowName};

/// Why a downstream or a step type cannot be found among the stored workflows.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DownstreamError {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// No stored version of any workflow has an agent of this name.
    #[error("no published workflow has an agent {name:?}; there are: {}", names(.known))]
    NoSuchAgent {
        /// The name that was asked for.
        name: String,
        /// The names of all agents that there are.
        known: BTreeSet<AgentName>,
    },
    /// No stored version of the workflow has such a step.
    #[error("no published workflow has a step {0}")]
    NoSuchStep(StepType),
}

fn names(agents: &BTreeSet<AgentName>) -> String {
    let names: Vec<&str> = agents.iter().map(AgentName::as_str).collect();
    names.join(", ")
}

/// One step in all orders of a workflow. As text: `order-fulfilment/ship-order`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepType {
    /// The name of the workflow.
    pub workflow: WorkflowName,
    /// The id of the step in the workflow.
    pub step: StepId,
}

impl std::fmt::Display for StepType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.workflow, self.step)
    }
}

/// The text that is no [`StepType`]: not WORKFLOW/STEP, or one of the two breaks the rules for
/// names.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not WORKFLOW/STEP, such as order-fulfilment/ship-order")]
pub struct InvalidStepType(pub String);

impl FromStr for StepType {
    type Err = InvalidStepType;

    fn from_str(text: &str) -> Result<Self, InvalidStepType> {
        let parse = || {
            let (workflow, step) = text.split_once('/')?;
            Some(Self {
                workflow: WorkflowName::new(workflow).ok()?,
                step: StepId::new(step).ok()?,
            })
        };
        parse().ok_or_else(|| InvalidStepType(text.to_owned()))
    }
}

/// Every stored version of every workflow. The agents in these are the downstreams that there are.
#[derive(Debug)]
pub struct Published(Vec<Workflow>);

impl Published {
    /// Reads every stored version of every workflow; all of them are then in memory. A version that is
    /// removed meanwhile is left out, and one that this version of Triad cannot read.
    ///
    /// # Errors
    /// [`DownstreamError::Store`] if the store fails.
    pub async fn read<S>(store: &S) -> Result<Self, DownstreamError>
    where
        S: DefinitionStore + OperatorStore,
    {
        let mut workflows = Vec::new();
        for version in store.versions().await? {
            let definition = version.definition;
            // No order needs a version that was removed since.
            let Some(json) = store.definition(definition.clone()).await? else {
                continue;
            };
            match Workflow::from_published(&json) {
                Ok(workflow) => workflows.push(workflow),
                // A newer version of Triad may have published this definition; the other ones are still shown.
                Err(_) => {
                    tracing::warn!(%definition, "a definition cannot be read: its agents are not known")
                }
            }
        }
        Ok(Self(workflows))
    }

    /// The names of the agents of all steps and compensations, in every stored version.
    #[must_use]
    pub fn agents(&self) -> BTreeSet<AgentName> {
        let steps = self.0.iter().flat_map(|w| &w.steps);
        steps.flat_map(agents).cloned().collect()
    }

    /// The agent with exactly this name.
    ///
    /// # Errors
    /// [`DownstreamError::NoSuchAgent`] if no stored version has it.
    pub fn agent(&self, name: &str) -> Result<AgentName, DownstreamError> {
        let known = self.agents();
        match known.iter().find(|agent| agent.as_str() == name) {
            Some(agent) => Ok(agent.clone()),
            None => Err(DownstreamError::NoSuchAgent {
                name: name.to_owned(),
                known,
            }),
        }
    }

    /// The agents of the steps of an order that are deferred.
    fn waited_for(&self, order: &Order) -> BTreeSet<AgentName> {
        let is_its = |w: &&Workflow| w.name == order.workflow.name && w.hash == order.workflow.hash;
        let Some(workflow) = self.0.iter().find(is_its) else {
            return BTreeSet::new();
        };
        let steps = order.steps.iter().zip(&workflow.steps);
        let deferred = steps.filter(|(record, _)| record.state.deferred_until().is_some());
        let agent = |(record, step): (&StepRecord, &Step)| match &step.compensation {
            Some(compensation) if record.direction() == Direction::Compensate => {
                Some(compensation.agent.clone())
            }
            _ => step.call().map(|call| call.agent.clone()),
        };
        deferred.filter_map(agent).collect()
    }

    /// The agents that a step and its compensation have, in all stored versions of the workflow.
    ///
    /// # Errors
    /// [`DownstreamError::NoSuchStep`] if no stored version has the step.
    pub fn agents_of(&self, step: &StepType) -> Result<BTreeSet<AgentName>, DownstreamError> {
        let versions = self.0.iter().filter(|w| w.name == step.workflow);
        let steps = versions
            .flat_map(|w| &w.steps)
            .filter(|s| s.id == step.step);
        let found: BTreeSet<AgentName> = steps.flat_map(agents).cloned().collect();
        if found.is_empty() {
            return Err(DownstreamError::NoSuchStep(step.clone()));
        }
        Ok(found)
    }
}

/// The agents of a step and of its compensation.
fn agents(step: &Step) -> impl Iterator<Item = &AgentName> {
    let call = step.call().map(|call| &call.agent);
    call.into_iter()
        .chain(step.compensation.as_ref().map(|c| &c.agent))
}

/// A downstream as it was read: its name and its record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DownstreamView {
    /// The name of the downstream's agent.
    #[schemars(with = "String")]
    pub downstream: AgentName,
    /// The downstream's circuit breaker, what operators have set, and its last change.
    #[schemars(with = "crate::schema::Object")]
    pub record: Downstream,
}

impl DownstreamView {
    /// Whether it is called freely: its breaker is closed, and no operator has set it or paused a step of it.
    #[must_use]
    pub fn is_free(&self) -> bool {
        let Downstream {
            breaker,
            forced,
            paused,
            ..
        } = &self.record;
        breaker.name() == "closed" && forced.is_none() && paused.is_empty()
    }

    /// Whether no calls are made to the downstream, except probing calls: an operator has forced its breaker open, or
    /// the breaker is open and no operator has forced it closed. Paused step types are ignored.
    #[must_use]
    pub fn is_not_called(&self) -> bool {
        match self.record.forced.as_ref().map(|f| f.to) {
            Some(ForcedTo::Open) => true,
            Some(ForcedTo::Closed) => false,
            None => matches!(self.record.breaker, Breaker::Open { .. }),
        }
    }
}

/// What a breaker's state means for the service, in a word for a person.
#[must_use]
pub fn reachability(breaker: &Breaker) -> &'static str {
    match breaker {
        Breaker::Closed { .. } => "reachable",
        Breaker::Open { .. } => "down",
        Breaker::HalfOpen { .. } => "tried again",
    }
}

/// Reads one downstream, consistently. If there is no record of it, the answer has the default record:
/// breaker closed, nothing paused.
///
/// # Errors
/// [`StoreError`] if the store fails; it is [`StoreError::Item`] if the record is not one of a downstream.
pub async fn view(
    store: &impl ControlStore,
    agent: &AgentName,
) -> Result<DownstreamView, StoreError> {
    let (record, _) = read_downstream(store, agent).await?;
    Ok(DownstreamView {
        downstream: agent.clone(),
        record,
    })
}

/// What came of an act on one downstream.
#[derive(Debug)]
pub struct DownstreamOutcome {
    /// The name of the downstream's agent.
    pub downstream: AgentName,
    /// The record as it is now, or why the act was refused.
    pub operated: DownstreamOperated,
}

/// Does `action` on each downstream of `agents`, in alphabetical order, and calls `report` after each. `act`
/// says who does it and why. With `dry_run` nothing is written or sent, and what is reported is what would
/// come of it.
///
/// # Errors
/// [`HoldError::Operate`] if an act fails, [`HoldError::Report`] if `report` does. The downstreams after
/// that one are not acted on. Trying again is safe.
pub async fn operate<S, B, C, N, F>(
    operator: &Operator<S, B, C, N>,
    agents: &BTreeSet<AgentName>,
    action: &DownstreamAction,
    act: &OperatorAct,
    dry_run: bool,
    mut report: impl FnMut(&DownstreamOutcome) -> Result<(), F>,
) -> Result<(), HoldError<F>>
where
    S: ControlStore,
    B: Bus,
    C: Clock,
    N: Entropy,
{
    for agent in agents {
        let operated = match dry_run {
            true => operator.try_downstream(agent, action, act).await?,
            false => operator.operate_downstream(agent, action, act).await?,
        };
        let held = DownstreamOutcome {
            downstream: agent.clone(),
            operated,
        };
        report(&held).map_err(HoldError::Report)?;
    }
    Ok(())
}

/// Why [`operate`] ended before the last downstream. `F` is the error of `report`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HoldError<F> {
    /// An act failed; it may have been written.
    #[error(transparent)]
    Operate(#[from] OperateError),
    /// The error that `report` returned. The act that it was to report is done, or was refused.
    #[error("it could not be reported")]
    Report(F),
}

/// What orders wait for at `now` before a Scheduler starts them: one entry for each downstream and lane, the
/// one with the most waiting orders first. Only those with at least one waiting order are named. At most
/// [`PLACES`](triad_runtime::pressure::PLACES) reports are read. A report that is older than
/// [`HOLDS_FOR`](triad_runtime::pressure::HOLDS_FOR), or cannot be read as a report, does not count.
///
/// # Errors
/// [`StoreError`] if the control store cannot be read.
pub async fn waiting(
    store: &impl ControlStore,
    now: Timestamp,
) -> Result<Vec<Waiting>, StoreError> {
    let all = present(store, now).await?;
    let held_back = all.into_iter().filter(|pressure| pressure.waiting > 0);
    Ok(held_back
        .map(|pressure| Waiting::of(pressure, now))
        .collect())
}

/// Orders that wait for one downstream (or for Triad itself) in one lane, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Waiting {
    /// The downstream's name; or `Triad itself` for orders that wait because replies lie unread.
    pub waiting_for: String,
    /// How many orders wait, and what the Schedulers know of the downstream.
    #[schemars(with = "crate::schema::Object")]
    pub pressure: Pressure,
    /// Why the orders wait.
    pub why: Why,
}

/// Why orders wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Why {
    /// The downstream is not to be called for now: its breaker is open, or an operator has paused
    /// it.
    NotToBeCalled,
    /// As many orders are under way to the downstream as [`Pressure::bound`] allows.
    Full,
    /// The downstream has room; the orders wait for something else that they need too.
    NeedsOthers,
}

impl Waiting {
    fn of(pressure: Pressure, now: Timestamp) -> Self {
        let agent = pressure.agent.as_ref();
        let why = if pressure.shut_until > now {
            Why::NotToBeCalled
        } else if pressure.under_way >= pressure.bound {
            Why::Full
        } else {
            Why::NeedsOthers
        };
        Self {
            waiting_for: agent.map_or_else(|| "Triad itself".to_owned(), ToString::to_string),
            pressure,
            why,
        }
    }
}

/// Most orders read in each shard of the due index, those that are due first.
const DEFERRED_PAGE: u32 = 64;

/// Orders under way of which a step is deferred, counted by the downstream that it waits for.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Deferred {
    /// How many orders wait for each downstream. An order that waits for two is counted for both.
    #[schemars(with = "BTreeMap<String, u64>")]
    pub orders: BTreeMap<AgentName, u64>,
    /// Whether more orders may be under way than were looked at.
    pub more: bool,
}

/// Counts the orders of which a step is deferred, among the 64 orders that are due first in each shard of
/// the due index: at most 1,024 records are read, eventually consistently. `published` says which agents a
/// step needs. Left out are records that cannot be read, and orders whose version is not in `published`.
///
/// # Errors
/// [`StoreError`] if a page of the due index cannot be read.
pub async fn deferred<S: StateStore>(
    store: &S,
    published: &Published,
) -> Result<Deferred, StoreError> {
    let mut counted = Deferred::default();
    for shard in 0..SHARDS {
        let page = store
            .due(shard, Timestamp(u64::MAX), DEFERRED_PAGE, None)
            .await?;
        counted.more |= page.next.is_some();
        let ids = page.rows.into_iter().map(|row| row.order).collect();
        for order in store.load_eventually(ids).await {
            // `triad list` reports records that cannot be read.
            let Ok(Some(order)) = order else { continue };
            for agent in published.waited_for(&order) {
                *counted.orders.entry(agent).or_default() += 1;
            }
        }
    }
    Ok(counted)
}
