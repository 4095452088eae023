//! The operator: acts on orders and downstreams, each act one conditional write.
//!
//! The CLI and the web console go through here, and so does the simulated world. The write
//! goes first, its messages follow; what a crash leaves unsent the Supervisor sends.

use std::future::Future;
use std::sync::Arc;

use serde_json::Value;
use triad_core::downstream::{self, Downstream, DownstreamAction};
use triad_core::migrate::{Change, migrate};
use triad_core::{
    Act, Action, Context, Decision, Event, Failure, Operation, Order, OrderId, Refusal, Timestamp,
    WorkflowRef, decide, invariants, outbox,
};
use triad_workflow::{AgentName, Workflow};

use crate::control::{ControlStore, ControlWrite};
use crate::definitions::Definitions;
use crate::ports::{Bus, Clock, DefinitionStore, Entropy, StateStore, StoreError, Write, Written};
use crate::scheduler::report_breaches;
use crate::settings::Settings;

/// Times that a lost race is run again.
const MAX_ROUNDS: usize = 8;

/// The operator's acts, over the ports.
#[derive(Debug)]
pub struct Operator<S, B, C, E> {
    store: S,
    bus: B,
    clock: C,
    entropy: E,
    definitions: Definitions<S>,
    settings: Settings,
}

/// What came of an act on an order.
#[derive(Debug, Clone, PartialEq)]
pub enum Operated {
    /// It is written; the order as it is now. In a dry run: as it would be.
    Done(Box<Order>),
    /// It is not possible, and nothing was written.
    Refused(Refusal),
    /// There is no such order.
    NotFound,
}

/// What came of a migration.
#[derive(Debug, Clone, PartialEq)]
pub enum Migrated {
    /// It is written, or in a dry run would be.
    Done(Box<Order>, Vec<Change>),
    /// What stands against it, a line each.
    Refused(Vec<String>),
    /// There is no such order.
    NotFound,
}

/// Why an act failed. Trying it again is safe.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OperateError {
    /// The store's.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Others changed the order every time.
    #[error("the order changes too fast; try again")]
    Contended,
    /// The record and its definition do not fit.
    #[error("the record is damaged: {0}")]
    Unsound(String),
}

/// Which orders need an operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Attention {
    /// Stopped in Error and not closed.
    Error,
    /// Half undone and not closed.
    CompensationFailed,
    /// Held by an operator.
    Paused,
}

impl Attention {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Error, Self::CompensationFailed, Self::Paused];

    /// As tables and people have it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Error => "Error",
            Self::CompensationFailed => "CompensationFailed",
            Self::Paused => "Paused",
        }
    }

    /// What an order needs of an operator, and since when.
    #[must_use]
    pub fn of(order: &Order) -> Option<(Self, Timestamp)> {
        use triad_core::ProcessState::{CompensationFailed, Error};
        match (&order.state, &order.closed, &order.paused) {
            (Error { at, .. }, None, _) => Some((Self::Error, *at)),
            (CompensationFailed { at, .. }, None, _) => Some((Self::CompensationFailed, *at)),
            (state, _, Some(hold)) if !state.is_finished() => Some((Self::Paused, hold.at)),
            _ => None,
        }
    }
}

/// A row of the attention index.
#[derive(Debug, Clone, PartialEq)]
pub struct AttentionRow {
    /// The order.
    pub order: OrderId,
    /// Since when.
    pub at: Timestamp,
    /// Why, for those that have a cause.
    pub cause: Option<Failure>,
    /// The pinned definition, where the index has it.
    pub workflow: Option<WorkflowRef>,
}

/// A page of the attention index.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct AttentionPage {
    /// The rows, oldest first.
    pub rows: Vec<AttentionRow>,
    /// Where the next page begins; `None` at the end.
    pub next: Option<String>,
}

/// A stored version of a workflow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredVersion {
    /// Name and hash.
    pub definition: WorkflowRef,
    /// Whether new orders run it.
    pub is_current: bool,
    /// When it was published last.
    pub published_at: Timestamp,
}

/// What only operators ask of the store.
pub trait OperatorStore: Send + Sync + 'static {
    /// Reads a page of one shard of the attention index, of as many shards as the due index. A
    /// hint, as that one is.
    fn attention(
        &self,
        kind: Attention,
        shard: u32,
        page: Option<String>,
    ) -> impl Future<Output = Result<AttentionPage, StoreError>> + Send;

    /// All stored versions of all workflows.
    fn versions(&self) -> impl Future<Output = Result<Vec<StoredVersion>, StoreError>> + Send;

    /// Removes a version; the present one of a name is left as it is.
    fn remove(
        &self,
        definition: WorkflowRef,
    ) -> impl Future<Output = Result<(), StoreError>> + Send;
}

impl<S, B, C, E> Operator<S, B, C, E>
where
    S: StateStore + DefinitionStore + Clone,
    B: Bus,
    C: Clock,
    E: Entropy,
{
    /// Over its ports.
    pub fn new(store: S, bus: B, clock: C, entropy: E, settings: Settings) -> Self {
        Self {
            definitions: Definitions::new(store.clone(), settings.refresh_definitions),
            store,
            bus,
            clock,
            entropy,
            settings,
        }
    }

    /// Acts on an order; a dry run writes nothing.
    ///
    /// # Errors
    /// [`OperateError`]; trying again is safe.
    pub async fn operate(
        &self,
        id: &OrderId,
        operation: &Operation,
        dry_run: bool,
    ) -> Result<Operated, OperateError> {
        for _ in 0..MAX_ROUNDS {
            let Some((order, workflow)) = self.load(id).await? else {
                return Ok(Operated::NotFound);
            };
            let details = self.details(id, &operation.action).await?;
            let ctx = Context {
                workflow: &workflow,
                details: &details,
                timing: self.settings.timing,
            };
            let event = Event::Operate(operation.clone());
            let next = match decide(&ctx, &order, event, self.clock.now()) {
                Ok(Decision::Transition(next)) => *next,
                Ok(Decision::Refuse(refusal)) => return Ok(Operated::Refused(refusal)),
                Ok(Decision::Repeat | Decision::Ignore(_)) => {
                    return Err(OperateError::Unsound("it has no answer".into()));
                }
                Err(illegal) => return Err(OperateError::Unsound(illegal.to_string())),
            };
            if dry_run {
                return Ok(Operated::Done(Box::new(next)));
            }
            report_breaches(&invariants::of_write(&order, &next, &workflow));
            if self.commit(&order, &next).await? {
                self.send(&ctx, &next).await;
                return Ok(Operated::Done(Box::new(next)));
            }
        }
        Err(OperateError::Contended)
    }

    /// Moves an order to another version of its workflow; a dry run writes nothing.
    ///
    /// # Errors
    /// [`OperateError`]; trying again is safe.
    pub async fn migrate(
        &self,
        id: &OrderId,
        to: &WorkflowRef,
        act: &Act,
        dry_run: bool,
    ) -> Result<Migrated, OperateError> {
        let target = self.definitions.pinned(to).await?;
        for _ in 0..MAX_ROUNDS {
            let Some((order, from)) = self.load(id).await? else {
                return Ok(Migrated::NotFound);
            };
            let now = self.clock.now();
            let moved = migrate(&order, &from, &target, act, self.settings.timing, now);
            let (next, changes) = match moved {
                Ok(moved) => moved,
                Err(against) => return Ok(Migrated::Refused(against)),
            };
            if dry_run {
                return Ok(Migrated::Done(Box::new(next), changes));
            }
            report_breaches(&invariants::of_record(&next, &target));
            if self.commit(&order, &next).await? {
                let ctx = Context {
                    workflow: &target,
                    details: &Value::Null,
                    timing: self.settings.timing,
                };
                self.send(&ctx, &next).await;
                return Ok(Migrated::Done(Box::new(next), changes));
            }
        }
        Err(OperateError::Contended)
    }

    async fn load(&self, id: &OrderId) -> Result<Option<(Order, Arc<Workflow>)>, OperateError> {
        let mut found = self.store.load(vec![id.clone()]).await;
        let Some(order) = found.pop().transpose()?.flatten() else {
            return Ok(None);
        };
        let workflow = self.definitions.pinned(&order.workflow).await?;
        Ok(Some((order, workflow)))
    }

    /// The details, where the act holds a corrected input against the one it replaces.
    async fn details(&self, id: &OrderId, action: &Action) -> Result<Arc<Value>, OperateError> {
        if !matches!(action, Action::Resubmit { input: Some(_) }) {
            return Ok(Arc::new(Value::Null));
        }
        let mut found = self.store.details(vec![id.clone()]).await;
        let details = found.pop().transpose()?.flatten();
        details.ok_or_else(|| OperateError::Unsound("its details are not stored".into()))
    }

    async fn commit(&self, order: &Order, next: &Order) -> Result<bool, StoreError> {
        let write = Write {
            expected: order.version,
            next: Arc::new(next.clone()),
            token: self.entropy.next_u64(),
        };
        let mut results = self.store.commit(vec![write]).await;
        let result = results.pop().unwrap_or(Ok(Written::Conflict))?;
        Ok(result == Written::Written)
    }

    /// Statuses and alerts, and when they are acknowledged what lets the Scheduler go on.
    async fn send(&self, ctx: &Context<'_>, order: &Order) {
        let messages = outbox::messages(ctx, order);
        let then = messages
            .then
            .into_iter()
            .filter(|m| triad_core::topics::is_scheduler(&m.topic))
            .collect();
        for wave in [messages.first, then] {
            let results = self.bus.publish(wave).await;
            if let Some(e) = results.into_iter().find_map(Result::err) {
                tracing::warn!(order = %order.id, error = %e, "written, but not all messages could be sent: the Supervisor sends them");
                return;
            }
        }
    }
}

/// What came of an act on a downstream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DownstreamOperated {
    /// It is written; the record as it is now.
    Done(Box<Downstream>),
    /// It is so already.
    Refused(Refusal),
}

/// Reads a downstream's record; a downstream that nobody has written about is a sound one.
///
/// # Errors
/// The store's.
pub async fn read_downstream<S: ControlStore>(
    control: &S,
    agent: &AgentName,
) -> Result<(Downstream, Option<u64>), StoreError> {
    let Some(found) = control.read(downstream::key(agent), true).await? else {
        return Ok((Downstream::default(), None));
    };
    let record = serde_json::from_value(found.value)
        .map_err(|e| StoreError::Permanent(format!("the record of downstream {agent}: {e}")))?;
    Ok((record, Some(found.version)))
}

impl<S, B, C, E> Operator<S, B, C, E>
where
    S: ControlStore,
    B: Bus,
    C: Clock,
    E: Entropy,
{
    /// Acts on a downstream. Instances follow within
    /// [`Settings::refresh_downstreams`](crate::settings::Settings::refresh_downstreams).
    ///
    /// # Errors
    /// [`OperateError`]; trying again is safe.
    pub async fn operate_downstream(
        &self,
        agent: &AgentName,
        action: &DownstreamAction,
        act: &Act,
    ) -> Result<DownstreamOperated, OperateError> {
        for _ in 0..MAX_ROUNDS {
            let (record, expected) = read_downstream(&self.store, agent).await?;
            let next = match record.operated(action, act, self.clock.now()) {
                Ok(next) => next,
                Err(refusal) => return Ok(DownstreamOperated::Refused(refusal)),
            };
            if !self.put(agent, &next, expected).await? {
                continue;
            }
            let sent = self.bus.publish(vec![next.event(agent)]).await;
            match sent.into_iter().find_map(Result::err) {
                // Losing this write is harmless: the event is told once more, under its id.
                None => {
                    let version = expected.unwrap_or(0) + 1;
                    self.put(agent, &next.told(), Some(version)).await?;
                }
                Some(e) => {
                    tracing::warn!(%agent, error = %e, "written, but its event could not be sent: an agent sends it");
                }
            }
            return Ok(DownstreamOperated::Done(Box::new(next)));
        }
        Err(OperateError::Contended)
    }

    async fn put(
        &self,
        agent: &AgentName,
        record: &Downstream,
        expected: Option<u64>,
    ) -> Result<bool, OperateError> {
        let value =
            serde_json::to_value(record).map_err(|e| OperateError::Unsound(e.to_string()))?;
        let write = ControlWrite {
            key: downstream::key(agent),
            value,
            expected,
            expires: None,
            token: self.entropy.next_u64(),
        };
        Ok(self.store.write(write).await? == Written::Written)
    }
}
