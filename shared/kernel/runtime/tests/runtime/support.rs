//! Ports that answer at once, record their calls, and fail on demand; and a clock that advances only when every
//! future waits.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Wake, Waker};

use serde_json::{Value, json};
use triad_core::message::SchedulerMessage;
use triad_core::{
    Accepted, Envelope, Order, OrderId, OutputDigest, Timestamp, WorkflowRef, render, topics,
};
use triad_runtime::ports::OrderPage;
use triad_runtime::{
    Bus, BusError, Clock, ControlRecord, ControlStore, ControlWrite, Created, DefinitionStore,
    DuePage, DueRow, Entropy, InputRecord, NewOrder, OutputsOf, StateStore, StoreError, Write,
    Written,
};
use triad_workflow::hash::canonical_json;
use triad_workflow::{DefinitionHash, Limits, Millis, Workflow, WorkflowName};

/// The start time of every world, in milliseconds.
pub const BEGIN: u64 = 1_000_000;

/// A recorded call of a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Asked {
    Create(usize),
    Commit(usize),
    Load(usize),
    LoadEventually(usize),
    Due { shard: u32, limit: u32 },
    Current,
    Definition,
    ControlRead,
    ControlWrite,
    Slept(u64),
}

/// The faults that the test injects into the ports.
#[derive(Debug, Clone, Default)]
pub struct Faults {
    /// Every conditional write of an order fails as overtaken by another writer.
    pub raced: bool,
    /// The next conditional write fails, because another writer has stored this record.
    pub overtaken: Option<Order>,
    /// Every write of an order fails.
    pub unwritten: bool,
    /// Every write of the control store fails as overtaken by another writer.
    pub control_raced: bool,
    /// Every record of the control store is unreadable, and cannot be written.
    pub control_unreadable: bool,
    /// Every publish is refused.
    pub refused: bool,
    /// This topic refuses messages.
    pub refused_topic: Option<&'static str>,
    /// This topic accepts at most this many bytes of key and value together.
    pub small_topic: Option<(&'static str, usize)>,
    /// Publishes to the topic `alerts` are never answered.
    pub silent_alerts: bool,
    /// How long a write of the control store takes, in milliseconds.
    pub control_takes: u64,
    /// Every record is unreadable.
    pub unreadable: bool,
    /// Eventually consistent reads find no record.
    pub absent_eventually: bool,
    /// How long an eventually consistent read takes, in milliseconds.
    pub eventually_takes: u64,
    /// Every page of the due index claims that another follows.
    pub endless: bool,
    /// How long reading a page of the due index takes, in milliseconds.
    pub page_takes: u64,
}

#[derive(Default)]
pub struct Inner {
    pub now: u64,
    sleepers: Vec<(u64, Waker)>,
    pub orders: BTreeMap<OrderId, Order>,
    details: BTreeMap<OrderId, Arc<Value>>,
    outputs: BTreeMap<OrderId, BTreeMap<OutputDigest, Arc<Value>>>,
    digests: BTreeMap<OrderId, String>,
    definitions: BTreeMap<String, String>,
    current: BTreeMap<WorkflowName, DefinitionHash>,
    pub control: BTreeMap<String, ControlRecord>,
    /// The expiry times of the control store's records.
    pub expires: BTreeMap<String, Option<Timestamp>>,
    /// The due index, by shard.
    pub due: BTreeMap<u32, Vec<DueRow>>,
    pub sent: Vec<Envelope>,
    /// Number of messages that a topic has refused.
    pub refusals: usize,
    pub asked: Vec<(u64, Asked)>,
    pub faults: Faults,
    /// Whether the store has the topics, and stores messages together with their records.
    pub has_topics: bool,
    pub random: u64,
}

impl Inner {
    /// Stores all these messages or none: the latter without topics, or if one of them refuses its message.
    fn stored(&mut self, messages: Vec<Envelope>) -> bool {
        let refused = self.faults.refused_topic;
        let takes = |m: &Envelope| Some(m.topic.as_str()) != refused;
        let stores = self.has_topics && messages.iter().all(takes);
        if stores {
            self.sent.extend(messages);
        }
        stores
    }

    /// A record of the control store, unless it has expired.
    fn kept(&self, key: &str) -> Option<&ControlRecord> {
        let expires = self.expires.get(key).copied().flatten();
        let is_kept = expires.is_none_or(|at| self.now < at.0);
        self.control.get(key).filter(|_| is_kept)
    }
}

/// All ports over one shared state.
#[derive(Clone)]
pub struct World(Arc<Mutex<Inner>>);

struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

impl World {
    pub fn new() -> Self {
        let inner = Inner {
            now: BEGIN,
            ..Inner::default()
        };
        Self(Arc::new(Mutex::new(inner)))
    }

    pub fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().expect("no test panics with it")
    }

    /// Runs a future to its end. When it waits, the clock jumps to the end of the shortest sleep.
    pub fn run<T>(&self, future: impl Future<Output = T>) -> T {
        let mut future = pin!(future);
        let woken = Arc::new(Woken(AtomicBool::new(false)));
        let waker = Waker::from(woken.clone());
        loop {
            let polled = future.as_mut().poll(&mut Context::from_waker(&waker));
            if let Poll::Ready(value) = polled {
                return value;
            }
            if !woken.0.swap(false, Ordering::SeqCst) {
                self.jump();
            }
        }
    }

    fn jump(&self) {
        let ripe: Vec<Waker> = {
            let mut inner = self.inner();
            let next = inner.sleepers.iter().map(|(until, _)| *until).min();
            inner.now = inner.now.max(next.expect("somebody sleeps"));
            let now = inner.now;
            let ripe = inner.sleepers.extract_if(.., |(until, _)| *until <= now);
            ripe.map(|(_, waker)| waker).collect()
        };
        ripe.into_iter().for_each(Waker::wake);
    }

    /// Advances the clock.
    pub fn after(&self, ms: u64) {
        self.inner().now += ms;
    }

    pub fn at(&self, ms: u64) {
        self.inner().now = BEGIN + ms;
    }

    /// Milliseconds since the start.
    pub fn passed(&self) -> u64 {
        self.inner().now - BEGIN
    }

    fn note(&self, asked: Asked) -> MutexGuard<'_, Inner> {
        let mut inner = self.inner();
        let now = inner.now - BEGIN;
        inner.asked.push((now, asked));
        inner
    }

    /// The calls of the ports since the previous query, in order.
    pub fn asked(&self) -> Vec<Asked> {
        let asked = std::mem::take(&mut self.inner().asked);
        asked.into_iter().map(|(_, asked)| asked).collect()
    }

    /// The times of the matching calls since the previous query, in milliseconds since the start.
    pub fn moments(&self, wanted: fn(&Asked) -> bool) -> Vec<u64> {
        let asked = std::mem::take(&mut self.inner().asked);
        let wanted = asked.into_iter().filter(|(_, asked)| wanted(asked));
        wanted.map(|(at, _)| at).collect()
    }

    /// The number of matching calls since the previous query.
    pub fn times(&self, wanted: fn(&Asked) -> bool) -> usize {
        self.asked().iter().filter(|asked| wanted(asked)).count()
    }

    /// Publishes a workflow of one step, at the agent `bank`.
    pub fn workflow(&self, name: &str) -> Workflow {
        let workflow = compiled(name);
        self.publish(&workflow, canonical_json(&workflow.definition));
        workflow
    }

    /// Publishes a definition with a field that this version of Triad does not support, as a newer version would
    /// write it.
    pub fn of_a_newer_version(&self, workflow: &Workflow) {
        let mut newer = serde_json::to_value(&workflow.definition).expect("JSON");
        newer["steps"][0]["of_a_newer_version"] = json!(true);
        self.publish(workflow, newer.to_string());
    }

    /// Publishes a definition whose stored text is `json`.
    pub fn publish(&self, workflow: &Workflow, json: String) {
        let mut inner = self.inner();
        let identity = identity(workflow).to_string();
        inner.definitions.insert(identity, json);
        let (name, hash) = (workflow.name.clone(), workflow.hash.clone());
        inner.current.insert(name, hash);
    }

    /// Adds the rows of the stored orders to the due index.
    pub fn index(&self) {
        let mut inner = self.inner();
        let orders: Vec<Order> = inner.orders.values().cloned().collect();
        inner.due.clear();
        for order in orders.into_iter().filter(|o| o.due.is_some()) {
            let row = DueRow {
                order: order.id.clone(),
                workflow: Some(order.workflow.name.clone()),
            };
            inner.due.entry(order.due_shard()).or_default().push(row);
        }
    }

    /// Stores a new order as Submission does; returns the record that wakes the Scheduler.
    pub fn announced(&self, workflow: &Workflow, id: &str, details: Value) -> InputRecord {
        let accepted = self.accepted(workflow, id, details);
        let order = Order::new(&accepted, workflow, accepted.due);
        let mut inner = self.inner();
        let details = Arc::new(accepted.details.clone());
        inner.details.insert(order.id.clone(), details);
        inner.orders.insert(order.id.clone(), order);
        drop(inner);
        record(render::announcement(accepted))
    }

    fn accepted(&self, workflow: &Workflow, id: &str, details: Value) -> Accepted {
        let now = Timestamp(self.inner().now);
        Accepted {
            order_id: order_id(id),
            workflow: identity(workflow),
            priority: Default::default(),
            reply_topic: None,
            traceparent: None,
            submitted_at: now,
            due: now.plus(Millis(10_000)),
            start_at: None,
            deadline: None,
            search: Vec::new(),
            parent: None,
            details,
        }
    }

    /// Stores an order that is set aside, with its row in the index. For an unreadable order, only the row exists.
    pub fn aside(&self, workflow: &Workflow, id: &str, readable: bool) {
        let accepted = self.accepted(workflow, id, json!({}));
        let order = Order::new(&accepted, workflow, accepted.due).aside();
        let shard = order.due_shard();
        let row = DueRow {
            order: order.id.clone(),
            workflow: Some(workflow.name.clone()),
        };
        let mut inner = self.inner();
        inner.due.entry(shard).or_default().push(row);
        if readable {
            inner.orders.insert(order.id.clone(), order);
        }
    }

    /// The messages sent to a topic since the previous query, as JSON.
    pub fn sent(&self, topic: &str) -> Vec<Value> {
        let mut inner = self.inner();
        let sent = inner.sent.extract_if(.., |m| m.topic == topic);
        sent.map(|m| serde_json::from_slice(&m.value).expect("JSON"))
            .collect()
    }

    /// Successful replies to the requests sent since the previous query.
    pub fn replies(&self) -> Vec<InputRecord> {
        let requests = self.sent("agent.bank");
        requests
            .into_iter()
            .map(|request| {
                let now = Timestamp(self.inner().now);
                let request = serde_json::from_value(request).expect("a request");
                let output = triad_core::ReplyOutcome::Succeeded { output: json!({}) };
                let pace = triad_core::message::Pace::default();
                record(render::reply(&request, 1, output, pace, now, None))
            })
            .collect()
    }
}

/// A workflow of one step.
pub fn compiled(name: &str) -> Workflow {
    compiled_from(json!({"workflow": name, "steps": [
        {"id": "pay", "agent": "bank", "action": "take", "compensation": "none"}]}))
}

pub fn compiled_from(definition: Value) -> Workflow {
    let definition = serde_json::from_value(definition).expect("a definition");
    Workflow::compile(definition, &Limits::published()).expect("a sound definition")
}

pub fn identity(workflow: &Workflow) -> WorkflowRef {
    WorkflowRef {
        name: workflow.name.clone(),
        hash: workflow.hash.clone(),
    }
}

pub fn order_id(id: &str) -> OrderId {
    OrderId::new(id).expect("an id")
}

/// A message as a consumer of its topic reads it.
pub fn record(message: Envelope) -> InputRecord {
    InputRecord {
        topic: message.topic,
        timestamp_ms: -1,
        key: message.key,
        value: Some(message.value),
        headers: message.headers,
        ..InputRecord::default()
    }
}

/// The record's message to the Scheduler, padded to exactly `bytes` bytes.
pub fn padded(record: &InputRecord, bytes: usize) -> InputRecord {
    let mut value = record.value.clone().expect("it has a value");
    assert!(serde_json::from_slice::<SchedulerMessage>(&value).is_ok());
    value.resize(bytes, b' ');
    InputRecord {
        value: Some(value),
        ..record.clone()
    }
}

/// A sleep that ends at a time of the world's clock.
struct Sleep {
    world: World,
    until: u64,
}

impl Future for Sleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let mut inner = self.world.inner();
        if inner.now >= self.until {
            return Poll::Ready(());
        }
        inner.sleepers.push((self.until, context.waker().clone()));
        Poll::Pending
    }
}

impl Clock for World {
    fn now(&self) -> Timestamp {
        Timestamp(self.inner().now)
    }

    async fn sleep(&self, span: Millis) {
        let until = self.note(Asked::Slept(span.0)).now + span.0;
        let world = self.clone();
        Sleep { world, until }.await;
    }
}

impl Entropy for World {
    fn next_u64(&self) -> u64 {
        self.inner().random
    }
}

impl Bus for World {
    async fn publish(&self, messages: Vec<Envelope>) -> Vec<Result<(), BusError>> {
        let is_alert = messages.iter().any(|m| m.topic == topics::ALERTS);
        if is_alert && self.inner().faults.silent_alerts {
            std::future::pending::<()>().await;
        }
        if self.inner().faults.refused {
            let refusal = || Err(BusError::Permanent("denied".to_owned()));
            return messages.iter().map(|_| refusal()).collect();
        }
        let mut inner = self.inner();
        let refused = inner.faults.refused_topic;
        let small = inner.faults.small_topic;
        let mut answers = Vec::new();
        for message in messages {
            let bytes = message.value.len() + message.key.as_ref().map_or(0, Vec::len);
            let is_too_large =
                small.is_some_and(|(topic, most)| message.topic == topic && bytes > most);
            answers.push(if Some(message.topic.as_str()) == refused {
                inner.refusals += 1;
                Err(BusError::Permanent("denied".to_owned()))
            } else if is_too_large {
                Err(BusError::TooLarge("max.message.bytes".to_owned()))
            } else {
                inner.sent.push(message);
                Ok(())
            });
        }
        answers
    }
}

impl StateStore for World {
    async fn create(&self, orders: Vec<NewOrder>) -> Vec<Result<Created, StoreError>> {
        let mut inner = self.note(Asked::Create(orders.len()));
        let create = |new: NewOrder| {
            let id = new.order.id.clone();
            if let Some(digest) = inner.digests.get(&id) {
                let digest = digest.clone();
                return Ok(Created::Exists { digest });
            }
            inner.digests.insert(id.clone(), new.digest);
            inner.details.insert(id.clone(), new.details);
            inner.orders.insert(id, new.order);
            Ok(match inner.stored(new.messages) {
                true => Created::WithMessages,
                false => Created::Created,
            })
        };
        orders.into_iter().map(create).collect()
    }

    async fn commit(&self, writes: Vec<Write>) -> Vec<Result<Written, StoreError>> {
        let mut inner = self.note(Asked::Commit(writes.len()));
        let commit = |write: Write| {
            if inner.faults.unwritten {
                return Err(StoreError::Transient("it is told to fail".into()));
            }
            if let Some(other) = inner.faults.overtaken.take() {
                inner.orders.insert(other.id.clone(), other);
            }
            let stored = inner.orders.get(&write.next.id).map(|order| order.version);
            if inner.faults.raced || stored != Some(write.expected) {
                return Ok(Written::Conflict);
            }
            let id = write.next.id.clone();
            let new = write.next.new_outputs();
            let new: Vec<_> = new
                .map(|(digest, output)| (digest.clone(), output.clone()))
                .collect();
            inner.outputs.entry(id.clone()).or_default().extend(new);
            let (with, alone) = (write.next.clone(), write.without_messages());
            let stored = inner.stored(write.messages);
            let next = if !inner.has_topics || stored {
                with
            } else {
                alone
            };
            inner.orders.insert(id, (*next).clone().without_contents());
            Ok(match stored {
                true => Written::WithMessages,
                false => Written::Written,
            })
        };
        writes.into_iter().map(commit).collect()
    }

    async fn load(&self, orders: Vec<OrderId>) -> Vec<Result<Option<Order>, StoreError>> {
        let inner = self.note(Asked::Load(orders.len()));
        let load = |id: &OrderId| match inner.faults.unreadable {
            true => Err(StoreError::Item("Steps: not JSON".to_owned())),
            false => Ok(inner.orders.get(id).cloned()),
        };
        orders.iter().map(load).collect()
    }

    async fn load_eventually(&self, ids: Vec<OrderId>) -> Vec<Result<Option<Order>, StoreError>> {
        let takes = {
            let inner = self.note(Asked::LoadEventually(ids.len()));
            inner.faults.eventually_takes
        };
        if takes > 0 {
            self.sleep(Millis(takes)).await;
        }
        let inner = self.inner();
        let load = |id: &OrderId| match &inner.faults {
            faults if faults.unreadable => Err(StoreError::Item("Steps: not JSON".to_owned())),
            faults if faults.absent_eventually => Ok(None),
            _ => Ok(inner.orders.get(id).cloned()),
        };
        ids.iter().map(load).collect()
    }

    async fn details(&self, orders: Vec<OrderId>) -> Vec<Result<Option<Arc<Value>>, StoreError>> {
        let inner = self.inner();
        let details = |id: &OrderId| Ok(inner.details.get(id).cloned());
        orders.iter().map(details).collect()
    }

    async fn outputs(&self, wanted: Vec<OutputsOf>) -> Vec<Result<Vec<Arc<Value>>, StoreError>> {
        let inner = self.inner();
        let missing = || StoreError::Item("it is not stored".to_owned());
        let outputs = |wanted: &OutputsOf| {
            let stored = inner.outputs.get(&wanted.order);
            let read = |digest| stored.and_then(|all| all.get(digest)).cloned();
            wanted
                .digests
                .iter()
                .map(read)
                .collect::<Option<_>>()
                .ok_or_else(missing)
        };
        wanted.iter().map(outputs).collect()
    }

    async fn due(
        &self,
        shard: u32,
        _until: Timestamp,
        limit: u32,
        page: Option<String>,
    ) -> Result<DuePage, StoreError> {
        let mut inner = self.note(Asked::Due { shard, limit });
        inner.now += inner.faults.page_takes;
        let all = inner.due.get(&shard).map_or(&[][..], Vec::as_slice);
        let from: usize = page.map_or(0, |page| page.parse().expect("a page"));
        let (from, limit) = match inner.faults.endless {
            true => (0, all.len().min(limit as usize)),
            false => (from, limit as usize),
        };
        let rows: Vec<DueRow> = all.iter().skip(from).take(limit).cloned().collect();
        let end = from + rows.len();
        let goes_on = end < all.len() || (inner.faults.endless && !rows.is_empty());
        Ok(DuePage {
            next: goes_on.then(|| end.to_string()),
            rows,
        })
    }

    async fn list(
        &self,
        _state: Option<String>,
        _page: Option<String>,
    ) -> Result<OrderPage, StoreError> {
        Ok(OrderPage::default())
    }
}

impl DefinitionStore for World {
    async fn publish(&self, of: WorkflowRef, json: String) -> Result<(), StoreError> {
        let mut inner = self.inner();
        inner.definitions.insert(of.to_string(), json);
        inner.current.insert(of.name, of.hash);
        Ok(())
    }

    async fn current(&self, name: WorkflowName) -> Result<Option<DefinitionHash>, StoreError> {
        Ok(self.note(Asked::Current).current.get(&name).cloned())
    }

    async fn definition(&self, of: WorkflowRef) -> Result<Option<String>, StoreError> {
        let inner = self.note(Asked::Definition);
        Ok(inner.definitions.get(&of.to_string()).cloned())
    }
}

impl ControlStore for World {
    async fn read(&self, key: String, _: bool) -> Result<Option<ControlRecord>, StoreError> {
        let inner = self.note(Asked::ControlRead);
        match inner.faults.control_unreadable {
            true => Err(StoreError::Item("not JSON".to_owned())),
            false => Ok(inner.kept(&key).cloned()),
        }
    }

    async fn write(&self, write: ControlWrite) -> Result<Written, StoreError> {
        let mut inner = self.note(Asked::ControlWrite);
        if inner.faults.control_unreadable {
            return Err(StoreError::Item("not JSON".to_owned()));
        }
        inner.now += inner.faults.control_takes;
        let stored = inner.kept(&write.key).map(|record| record.version);
        if inner.faults.control_raced || stored != write.expected {
            return Ok(Written::Conflict);
        }
        let record = ControlRecord {
            version: write.expected.unwrap_or(0) + 1,
            value: write.value,
        };
        inner.expires.insert(write.key.clone(), write.expires);
        inner.control.insert(write.key, record);
        Ok(Written::Written)
    }
}
