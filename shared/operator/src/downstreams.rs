//! Downstreams and step types: which there are, how they are, what waits for them, and holding them.

use std::collections::BTreeSet;
use std::str::FromStr;

use serde::Serialize;
use triad_core::downstream::{Downstream, DownstreamAction};
use triad_core::{OperatorAct, Timestamp, WorkflowRef};
use triad_runtime::operator::{DownstreamOperated, OperateError, Operator, read_downstream};
use triad_runtime::ports::OperatorStore;
use triad_runtime::pressure::{Pressure, present};
use triad_runtime::{Bus, Clock, ControlStore, DefinitionStore, Entropy, StoreError};
use triad_workflow::{AgentName, Step, StepId, Workflow, WorkflowName};

/// Why something about downstreams cannot be said or done.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DownstreamError {
    /// The store's.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A stored definition is damaged.
    #[error("definition {0} cannot be read")]
    Damaged(WorkflowRef),
    /// No published workflow has such an agent.
    #[error("no published workflow has an agent {name:?}; there are: {}", names(.known))]
    NoSuchAgent {
        /// What was asked for.
        name: String,
        /// What there is.
        known: BTreeSet<AgentName>,
    },
    /// No published workflow has such a step.
    #[error("no published workflow has a step {0}")]
    NoSuchStep(StepType),
}

fn names(agents: &BTreeSet<AgentName>) -> String {
    let names: Vec<&str> = agents.iter().map(AgentName::as_str).collect();
    names.join(", ")
}

/// A step in all orders of a workflow. Written `order-fulfilment/ship-order`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepType {
    /// The workflow.
    pub workflow: WorkflowName,
    /// The step.
    pub step: StepId,
}

impl std::fmt::Display for StepType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.workflow, self.step)
    }
}

/// A text that is no [`StepType`].
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

/// The stored versions of all workflows: they say which downstreams there are.
#[derive(Debug)]
pub struct Published(Vec<Workflow>);

impl Published {
    /// Reads them all: in memory is every stored version of every workflow.
    ///
    /// # Errors
    /// The store's, and [`DownstreamError::Damaged`].
    pub async fn read<S>(store: &S) -> Result<Self, DownstreamError>
    where
        S: DefinitionStore + OperatorStore,
    {
        let mut workflows = Vec::new();
        for version in store.versions().await? {
            let definition = version.definition;
            // One that was removed since is needed by nobody.
            if let Some(json) = store.definition(definition.clone()).await? {
                let workflow = Workflow::from_published(&json);
                workflows.push(workflow.map_err(|_| DownstreamError::Damaged(definition))?);
            }
        }
        Ok(Self(workflows))
    }

    /// Every downstream.
    #[must_use]
    pub fn agents(&self) -> BTreeSet<AgentName> {
        let steps = self.0.iter().flat_map(|w| &w.steps);
        steps.flat_map(agents).cloned().collect()
    }

    /// A downstream by its name.
    ///
    /// # Errors
    /// [`DownstreamError::NoSuchAgent`].
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

    /// The downstreams that a step has had, in any version.
    ///
    /// # Errors
    /// [`DownstreamError::NoSuchStep`].
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

/// The agent of a step, and that of its compensation.
fn agents(step: &Step) -> impl Iterator<Item = &AgentName> {
    std::iter::once(&step.agent).chain(step.compensation.as_ref().map(|c| &c.agent))
}

/// A downstream as it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DownstreamView {
    /// Its name.
    pub downstream: AgentName,
    /// Its circuit breaker, what operators hold of it, and its last change.
    pub record: Downstream,
}

/// One downstream as it is.
///
/// # Errors
/// The store's.
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
    /// The downstream.
    pub downstream: AgentName,
    /// What came of it.
    pub operated: DownstreamOperated,
}

/// Acts on downstreams, one after the other, and reports each.
///
/// # Errors
/// [`OperateError`], or what `report` returns, as [`HoldError`]; those after it are not acted on.
/// Trying again is safe.
pub async fn operate<S, B, C, N, F>(
    operator: &Operator<S, B, C, N>,
    agents: &BTreeSet<AgentName>,
    action: &DownstreamAction,
    act: &OperatorAct,
    mut report: impl FnMut(&DownstreamOutcome) -> Result<(), F>,
) -> Result<(), HoldError<F>>
where
    S: ControlStore,
    B: Bus,
    C: Clock,
    N: Entropy,
{
    for agent in agents {
        let operated = operator.operate_downstream(agent, action, act).await?;
        let held = DownstreamOutcome {
            downstream: agent.clone(),
            operated,
        };
        report(&held).map_err(HoldError::Report)?;
    }
    Ok(())
}

/// Why acting on downstreams ended early.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HoldError<F> {
    /// An act failed.
    #[error(transparent)]
    Operate(#[from] OperateError),
    /// What the report returned.
    #[error("it could not be reported")]
    Report(F),
}

/// What orders wait for at present, of each downstream and lane, those for which most wait first.
/// It reads at most [`PLACES`](triad_runtime::pressure::PLACES) records.
///
/// # Errors
/// The store's.
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

/// Orders that wait.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Waiting {
    /// What for: the name of a downstream, or `(the Schedulers)`.
    pub waiting_for: String,
    /// What is known of it.
    pub pressure: Pressure,
    /// Why they wait.
    pub why: Why,
}

/// Why orders wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Why {
    /// It is not to be called for now: its breaker is open, or it is held.
    NotToBeCalled,
    /// It has as many orders as it answers in time.
    Full,
    /// It has room; the orders need something else too that has none.
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
            waiting_for: agent.map_or_else(|| "(the Schedulers)".to_owned(), ToString::to_string),
            pressure,
            why,
        }
    }
}
