//! Operators' acts on orders and downstreams, each one conditional write.
//!
//! The CLI, the web console and the simulated world use it. The write comes first, then its messages; the Supervisor
//! sends what a crash leaves unsent.

use std::sync::Arc;

use triad_core::downstream::{Downstream, DownstreamAction};
use triad_core::migrate::{Change, Unmovable, migrate};
use triad_core::pass::{Pass, PassEnd, Snapshot, Source, Task, WriterOrder};
use triad_core::{
    Event, Operation, OperationRefusal, OperatorAct, Order, OrderId, TraceContext, WorkflowRef,
};
use triad_workflow::AgentName;

use crate::beside::read_all;
use crate::control::ControlStore;
use crate::definitions::Definitions;
pub use crate::downstream_record::read_downstream;
use crate::downstream_record::{self, RecordPorts};
use crate::passes::{Carried, carry_out, report_breaches};
use crate::ports::{Bus, Clock, DefinitionStore, Entropy, StateStore, StoreError, Written};
use crate::settings::Settings;
use crate::traces::{SpanEnd, SpanKind, Tracing};

/// Most repetitions after a lost race on an order.
const MAX_RACES: u32 = 7;
/// Most tries of an act on a downstream.
const MAX_ROUNDS: usize = 8;

/// The acts of an operator on orders and downstreams, over the ports. `S` is the store, `B` the bus, `C` the
/// clock, `E` the entropy.
#[derive(Debug)]
pub struct Operator<S, B, C, E> {
    store: S,
    bus: B,
    clock: C,
    entropy: E,
    definitions: Definitions<S>,
    settings: Settings,
}

/// Result of an act on one order.
#[derive(Debug, Clone, PartialEq)]
pub enum Operated {
    /// The act is written, and this is the order as it is now. In a dry run nothing is written, and this is
    /// the order as it would be.
    Done(Box<Order>),
    /// The act is written, and this is the order as it is now; but the bus has not taken all of its messages.
    /// The Supervisor sends them later; the caller need not repeat the act.
    Unsent(Box<Order>),
    /// The act does not fit the order's present state; nothing was written.
    Refused(OperationRefusal),
    /// There is no such order, or it has expired.
    NotFound,
}

/// Result of moving an order to another version of its workflow.
#[derive(Debug, Clone, PartialEq)]
pub enum Migrated {
    /// The move is written, or in a dry run would be: the order afterwards, and what changes for
    /// it (empty if nothing does).
    Done(Box<Order>, Vec<Change>),
    /// The move is written, but the bus has not taken all of its messages. The Supervisor sends them later;
    /// the caller need not repeat the move. The values are those of [`Self::Done`].
    Unsent(Box<Order>, Vec<Change>),
    /// The order cannot be moved; nothing was written. One line for each reason, for people.
    Refused(Vec<String>),
    /// There is no such order, or it has expired.
    NotFound,
}

/// Why an act failed. It may have been written all the same; trying again is safe.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OperateError {
    /// The store failed; the act may have been written all the same.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Other processes changed the record between each read and write, in each of eight tries.
    #[error("other processes changed it in every try; try again")]
    Contended,
    /// The record and its definition do not fit, or a part is missing. The text is for people;
    /// trying again does not help.
    #[error("the record is damaged: {0}")]
    Unsound(String),
}

impl<S, B, C, E> Operator<S, B, C, E>
where
    S: StateStore + DefinitionStore + Clone,
    B: Bus,
    C: Clock,
    E: Entropy,
{
    /// The acts of an operator over these ports. Nothing is read or written yet.
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

    /// Does one operation on one order: reads it, writes it on the condition of its version, and sends its messages.
    /// A message that cannot be sent is left to the Supervisor and is no error. A resolution of an effect in doubt
    /// refers to the order as it is read first ([`triad_core::Action::see`]). With `dry_run` nothing is written or
    /// sent.
    ///
    /// # Errors
    /// [`OperateError::Store`] if the store fails, [`OperateError::Contended`] if other processes change the
    /// order in each of eight tries, [`OperateError::Unsound`] if record and definition do not fit, or the
    /// details are needed and not stored. Trying again is safe.
    pub async fn operate(
        &self,
        id: &OrderId,
        operation: &Operation,
        dry_run: bool,
    ) -> Result<Operated, OperateError> {
        let mut carried = Carried::new(Pass::new(WriterOrder::Beside, MAX_RACES));
        let (mut reads_beside, mut attempts) = (false, Vec::new());
        let mut operation = operation.clone();
        // The loop ends: each lost race uses one of the races of the pass.
        loop {
            match carried.pass.task() {
                Task::Read | Task::ReadDetails => {
                    reads_beside |= matches!(carried.pass.task(), Task::ReadDetails);
                    let Some(mut read) = self.read(id).await? else {
                        return Ok(Operated::NotFound);
                    };
                    if reads_beside {
                        read = self.complete(read).await?;
                    }
                    operation.action.see(&read.order);
                    let event = Event::Operate(operation.clone());
                    let (timing, now) = (self.settings.timing, self.clock.now());
                    attempts = self.begin(&mut carried, &read.order);
                    let breaches = carried
                        .pass
                        .decide(read, Source::Record, event, timing, now);
                    report_breaches(&breaches);
                }
                Task::Write { next, .. } if dry_run => {
                    return Ok(Operated::Done(Box::new((**next).clone())));
                }
                Task::Write { .. } | Task::Publish(_) | Task::Confirm { .. } => {
                    self.carry_out(&mut carried).await;
                }
                Task::Ended(PassEnd::Refused(refusal)) => {
                    return Ok(Operated::Refused(refusal.clone()));
                }
                Task::Ended(_) => {
                    self.trace(&carried, operation.action.name(), attempts);
                    let (order, is_sent) = written(carried)?;
                    let order = Box::new(order);
                    return Ok(if is_sent {
                        Operated::Done(order)
                    } else {
                        Operated::Unsent(order)
                    });
                }
            }
        }
    }

    /// Moves an order to the version `to` of its workflow. The record keeps `act`: the operator and the reason. With
    /// `dry_run` nothing is written or sent.
    ///
    /// # Errors
    /// [`OperateError::Store`] if the store fails (with [`StoreError::Item`] if the version `to` is not
    /// stored), [`OperateError::Contended`] if other processes change the order in each of eight tries,
    /// [`OperateError::Unsound`] if record and definition do not fit. Trying again is safe.
    pub async fn migrate(
        &self,
        id: &OrderId,
        to: &WorkflowRef,
        act: &OperatorAct,
        dry_run: bool,
    ) -> Result<Migrated, OperateError> {
        let target = self.definitions.pinned(to, self.clock.now()).await?;
        let mut carried = Carried::new(Pass::new(WriterOrder::Beside, MAX_RACES));
        // The loop ends: each lost race uses one of the races of the pass.
        loop {
            let Some(order) = self.record(id).await? else {
                return Ok(Migrated::NotFound);
            };
            // An order whose definition is unreadable may be migrated to another version.
            let read = match order.is_unread() {
                true => Snapshot {
                    order: Arc::new(order),
                    workflow: target.clone(),
                    details: None,
                },
                false => self.with_definition(order).await?,
            };
            let (timing, now) = (self.settings.timing, self.clock.now());
            let moved = migrate(&read.order, &read.workflow, &target, act, timing, now);
            let (change, changes) = match moved {
                Ok(moved) => moved,
                Err(Unmovable(against)) => return Ok(Migrated::Refused(against)),
            };
            if dry_run {
                return Ok(Migrated::Done(Box::new(change.next), changes));
            }
            let read = Snapshot {
                workflow: target.clone(),
                ..read
            };
            let attempts = self.begin(&mut carried, &read.order);
            report_breaches(&carried.pass.take(read, change, timing, now));
            self.carry_out(&mut carried).await;
            if matches!(carried.pass.task(), Task::Ended(_)) {
                self.trace(&carried, "migrate", attempts);
                let (order, is_sent) = written(carried)?;
                let order = Box::new(order);
                return Ok(if is_sent {
                    Migrated::Done(order, changes)
                } else {
                    Migrated::Unsent(order, changes)
                });
            }
        }
    }

    /// Reads an order with its definition, its details and its outputs, consistently; `None` if there is no such
    /// order, or it has expired.
    ///
    /// # Errors
    /// [`OperateError::Store`] if the store fails or the definition is not stored, [`OperateError::Unsound`]
    /// if the details or an output are not stored.
    pub async fn snapshot(&self, id: &OrderId) -> Result<Option<Snapshot>, OperateError> {
        match self.read(id).await? {
            Some(read) => self.complete(read).await.map(Some),
            None => Ok(None),
        }
    }

    /// Adds what lies beside the record.
    async fn complete(&self, read: Snapshot) -> Result<Snapshot, OperateError> {
        read_all(&self.store, read).await.map_err(|e| match e {
            StoreError::Item(why) => OperateError::Unsound(why),
            e => e.into(),
        })
    }

    fn tracing(&self) -> Tracing<'_, C> {
        Tracing {
            traces: &self.settings.traces,
            clock: &self.clock,
        }
    }

    async fn carry_out(&self, carried: &mut Carried) {
        let tracing = self.tracing();
        let (store, bus, entropy) = (&self.store, &self.bus, &self.entropy);
        carry_out(store, bus, entropy, &tracing, vec![carried]).await;
    }

    /// Begins the span of an act, if tracing is on; returns the attempts under way in the order.
    fn begin(&self, carried: &mut Carried, order: &Order) -> Vec<TraceContext> {
        let begin = || {
            let traces = &self.settings.traces;
            traces.beside(order, "operate", self.clock.now())
        };
        carried.span = carried.span.or_else(begin);
        let span = carried.span.as_ref();
        span.map_or_else(Vec::new, |span| span.attempts_of(order))
    }

    /// Ends the span of an act: its kind, without operator and reason, with links to the attempts under way in the
    /// order.
    fn trace(&self, carried: &Carried, act: &'static str, attempts: Vec<TraceContext>) {
        let Some(span) = &carried.span else { return };
        let failure = match carried.pass.task() {
            Task::Ended(PassEnd::Raced) => Some("raced"),
            Task::Ended(PassEnd::Unwritten) => Some("unwritten"),
            Task::Ended(PassEnd::Illegal(_)) => Some("illegal"),
            _ => None,
        };
        let tracing = self.tracing();
        tracing.traces.end(span, tracing.now(), failure, || {
            SpanEnd {
                links: attempts,
                ..SpanEnd::new(format!("operate {act}"), SpanKind::Internal)
            }
            .with("triad.act", act)
        });
    }

    /// The installation's time spans, for decisions about acts.
    pub fn timing(&self) -> triad_core::Timing {
        self.settings.timing
    }

    async fn read(&self, id: &OrderId) -> Result<Option<Snapshot>, OperateError> {
        let Some(order) = self.record(id).await? else {
            return Ok(None);
        };
        self.with_definition(order).await.map(Some)
    }

    async fn record(&self, id: &OrderId) -> Result<Option<Order>, OperateError> {
        let mut found = self.store.load(vec![id.clone()]).await;
        Ok(found.pop().transpose()?.flatten())
    }

    async fn with_definition(&self, order: Order) -> Result<Snapshot, OperateError> {
        let now = self.clock.now();
        Ok(Snapshot {
            workflow: self.definitions.pinned(&order.workflow, now).await?,
            order: Arc::new(order),
            details: None,
        })
    }
}

/// The record that an ended pass has written, and whether all its messages are sent. The Supervisor sends the others.
fn written(carried: Carried) -> Result<(Order, bool), OperateError> {
    let (order, is_sent) = match carried.pass.task() {
        Task::Ended(PassEnd::Done(done)) => ((*done.order).clone(), true),
        Task::Ended(PassEnd::Unsent(done)) => ((*done.order).clone(), false),
        Task::Ended(PassEnd::Raced) => return Err(OperateError::Contended),
        Task::Ended(PassEnd::Illegal(illegal)) => {
            return Err(OperateError::Unsound(illegal.to_string()));
        }
        _ => {
            return Err(match carried.unwritten {
                Some(e) => e.into(),
                None => OperateError::Unsound("it has no answer".into()),
            });
        }
    };
    if let Some(e) = carried.unsent {
        tracing::warn!(order = %order.id, error = %e, "written, but not all messages could be sent: the Supervisor sends them");
    }
    Ok((order, is_sent))
}

/// Result of an act on one downstream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DownstreamOperated {
    /// The act is written, and this is the record as it is now. From [`Operator::try_downstream`]: nothing is
    /// written, and this is the record as it would be.
    Done(Box<Downstream>),
    /// The act changes nothing, or is not possible; nothing was written.
    Refused(OperationRefusal),
}

impl<S, B, C, E> Operator<S, B, C, E>
where
    S: ControlStore,
    B: Bus,
    C: Clock,
    E: Entropy,
{
    /// Does one action on a downstream, and sends its event. Other processes follow when they read the record again:
    /// processes that make calls at most about
    /// [`Settings::refresh_downstreams`](crate::settings::Settings::refresh_downstreams) later. An event that cannot
    /// be sent is left to the agents and is no error.
    ///
    /// # Errors
    /// [`OperateError::Store`] if the store fails, [`OperateError::Contended`] if other processes change the
    /// record in each of eight tries. Trying again is safe.
    pub async fn operate_downstream(
        &self,
        agent: &AgentName,
        action: &DownstreamAction,
        act: &OperatorAct,
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
            let version = expected.unwrap_or(0) + 1;
            let (ports, clock) = (self.downstream_ports(), &self.clock);
            if let Err(untold) =
                downstream_record::publish_change(ports, clock, agent, &next, version).await
            {
                tracing::warn!(%agent, error = %untold, "written, but its event is not sent yet: an agent sends it");
            }
            return Ok(DownstreamOperated::Done(Box::new(next)));
        }
        Err(OperateError::Contended)
    }

    /// The result that one action on a downstream would have now. Nothing is written or sent.
    ///
    /// # Errors
    /// [`OperateError::Store`] if the record cannot be read.
    pub async fn try_downstream(
        &self,
        agent: &AgentName,
        action: &DownstreamAction,
        act: &OperatorAct,
    ) -> Result<DownstreamOperated, OperateError> {
        let (record, _) = read_downstream(&self.store, agent).await?;
        Ok(match record.operated(action, act, self.clock.now()) {
            Ok(next) => DownstreamOperated::Done(Box::new(next)),
            Err(refusal) => DownstreamOperated::Refused(refusal),
        })
    }

    async fn put(
        &self,
        agent: &AgentName,
        record: &Downstream,
        expected: Option<u64>,
    ) -> Result<bool, OperateError> {
        let ports = self.downstream_ports();
        let written = downstream_record::write(ports, agent, record, expected).await?;
        Ok(written == Written::Written)
    }

    fn downstream_ports(&self) -> RecordPorts<'_, S, B, E> {
        RecordPorts {
            control: &self.store,
            bus: &self.bus,
            entropy: &self.entropy,
        }
    }
}
