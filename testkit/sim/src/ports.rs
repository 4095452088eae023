//! The ports of one instance: every call is a place where the world may step in.

use std::sync::Arc;

use serde_json::Value;
use triad_core::message::SchedulerMessage;
use triad_core::{Envelope, Order, OrderId, Timestamp, WorkflowRef};
use triad_runtime::ports::OrderPage;
use triad_runtime::{
    Bus, BusError, Clock, ControlRecord, ControlStore, ControlWrite, Created, DefinitionStore,
    DuePage, Entropy, NewOrder, StateStore, StoreError, Write, Written,
};
use triad_workflow::{DefinitionHash, Millis, WorkflowName};

use crate::bus::Sending;
use crate::executor::Owner;
use crate::world::{Crash, InstanceId, OUTSIDE, State, World};

/// Store, bus, clock and entropy as one instance sees them.
#[derive(Debug, Clone)]
pub struct Ports {
    pub(crate) world: World,
    pub(crate) who: InstanceId,
    /// How long finished records are kept, where it is not as the world has it.
    kept: Option<Millis>,
}

/// What becomes of one write.
enum Fate {
    Works,
    Refused(&'static str),
    LostAnswer,
    Retried,
    Late(u64),
}

impl Ports {
    pub(crate) fn new(world: World, who: InstanceId) -> Self {
        Self {
            world,
            who,
            kept: None,
        }
    }

    /// The same ports of one who was told another retention.
    pub(crate) fn keeping(&self, retention: Millis) -> Self {
        Self {
            kept: Some(retention),
            ..self.clone()
        }
    }

    /// How long finished records are kept, in milliseconds; `None`: for ever.
    fn retention(&self) -> Option<u64> {
        let of_world = || self.world.state().setup.retention_ms;
        self.kept.map(|kept| kept.0).or_else(of_world)
    }

    /// The process may die here, between effects; what it has sent before is on its way all the
    /// same.
    pub(crate) async fn perhaps_die(&self, when: &'static str) {
        let dies = {
            let mut state = self.world.state();
            let permille = state.faults.die;
            self.who != OUTSIDE && state.faults_left > 0 && state.rng.chance(permille)
        };
        if dies {
            self.die(when).await;
        }
    }

    async fn die(&self, when: &'static str) {
        {
            let mut state = self.world.state();
            state.faults_left = state.faults_left.saturating_sub(1);
        }
        self.world.kill(self.who, when);
        std::future::pending::<()>().await;
    }

    /// An effect is about to happen: it has a number, and the process may die before it.
    pub(crate) async fn before(&self, what: &'static str) -> u64 {
        let (number, dies) = {
            let mut state = self.world.state();
            if self.who == OUTSIDE {
                return 0;
            }
            state.effects += 1;
            let number = state.effects;
            let crash = Crash {
                effect: number,
                after: false,
            };
            let dies = state.crashes.contains(&crash);
            state.note(self.who, || format!("effect {number}: {what}"));
            (number, dies)
        };
        if dies {
            self.die("fault: died before an effect").await;
        }
        self.perhaps_die("fault: died before an effect").await;
        number
    }

    /// The effect of a number has happened: the process may die after it.
    pub(crate) async fn after(&self, number: u64) {
        let dies = {
            let state = self.world.state();
            let crash = Crash {
                effect: number,
                after: true,
            };
            number > 0 && state.crashes.contains(&crash)
        };
        if dies {
            self.die("fault: died after an effect").await;
        }
        self.perhaps_die("fault: died after an effect").await;
    }

    /// The way there.
    async fn enter(&self) {
        let delay = {
            let mut state = self.world.state();
            let permille = state.faults.stall;
            if state.fault("fault: port call stalled", permille) {
                state.rng.between(500, 25_000)
            } else {
                state.rng.between(0, 12)
            }
        };
        self.world.sleep(delay).await;
    }

    /// The way back.
    async fn leave(&self) {
        let delay = self.world.state().rng.between(0, 6);
        self.world.sleep(delay).await;
        self.perhaps_die("fault: died after an effect").await;
    }

    fn write_fate(&self) -> Fate {
        let mut state = self.world.state();
        let f = state.faults;
        if state.fault("fault: store throttled", f.throttle) {
            Fate::Refused("throttled")
        } else if state.fault("fault: transaction conflict", f.transaction) {
            Fate::Refused("transaction conflict")
        } else if state.fault("fault: write lost its answer", f.lost_write) {
            Fate::LostAnswer
        } else if state.fault("fault: write retried by the client", f.retried_write) {
            Fate::Retried
        } else if state.fault("fault: write landed late", f.late_write) {
            Fate::Late(state.rng.between(50, 15_000))
        } else {
            Fate::Works
        }
    }

    /// Reads items one by one, any of which may fail.
    async fn read_each<T>(
        &self,
        orders: Vec<OrderId>,
        read: fn(&mut State, &OrderId) -> Option<T>,
    ) -> Vec<Result<Option<T>, StoreError>> {
        self.enter().await;
        let mut results = Vec::with_capacity(orders.len());
        for id in orders {
            results.push(if self.throttled() {
                Err(self.refusal("throttled"))
            } else {
                Ok(read(&mut self.world.state(), &id))
            });
        }
        self.leave().await;
        results
    }

    /// What a store says that refuses: every other minute that access is denied, which is no more about
    /// the item than being throttled is.
    fn refusal(&self, why: &str) -> StoreError {
        let mut state = self.world.state();
        if (state.now / 60_000).is_multiple_of(2) {
            return StoreError::Transient(why.to_owned());
        }
        state.coverage.reach("fault: store denied access");
        StoreError::Configuration("AccessDeniedException".to_owned())
    }

    fn throttled(&self) -> bool {
        let mut state = self.world.state();
        let permille = state.faults.throttle;
        state.fault("fault: store throttled", permille)
    }

    /// Carries a write out as its fate has it: not at all, now, twice, or later.
    async fn write_one<W: Send + 'static, T: 'static>(
        &self,
        what: &'static str,
        write: W,
        carry_out: fn(&mut State, InstanceId, &W) -> T,
    ) -> Result<T, StoreError> {
        let transient = |why: &str| Err(StoreError::Transient(why.to_owned()));
        let number = self.before(what).await;
        let result = match self.write_fate() {
            Fate::Works => Ok(carry_out(&mut self.world.state(), self.who, &write)),
            Fate::Refused(why) => Err(self.refusal(why)),
            Fate::LostAnswer => {
                carry_out(&mut self.world.state(), self.who, &write);
                transient("timed out")
            }
            Fate::Retried => {
                carry_out(&mut self.world.state(), self.who, &write);
                let pause = self.world.state().rng.between(1, 2_000);
                self.world.sleep(pause).await;
                self.perhaps_die("fault: died before an effect").await;
                Ok(carry_out(&mut self.world.state(), self.who, &write))
            }
            Fate::Late(after) => {
                let (world, who) = (self.world.clone(), self.who);
                self.world.spawn(Owner::World, async move {
                    world.sleep(after).await;
                    carry_out(&mut world.state(), who, &write);
                });
                transient("timed out")
            }
        };
        self.after(number).await;
        result
    }

    /// A read: an answer made by `read`, or none.
    pub(crate) async fn reading<T>(
        &self,
        read: impl FnOnce(&mut State) -> T + Send,
    ) -> Result<T, StoreError> {
        self.enter().await;
        let answer = if self.throttled() {
            Err(self.refusal("throttled"))
        } else {
            Ok(read(&mut self.world.state()))
        };
        self.leave().await;
        answer
    }
}

impl StateStore for Ports {
    async fn create(&self, orders: Vec<NewOrder>) -> Vec<Result<Created, StoreError>> {
        self.enter().await;
        let mut results = Vec::with_capacity(orders.len());
        for new in orders {
            let result = self.write_one("create", new, State::store_create).await;
            results.push(result);
        }
        self.leave().await;
        results
    }

    async fn commit(&self, writes: Vec<Write>) -> Vec<Result<Written, StoreError>> {
        self.enter().await;
        let mut results = Vec::with_capacity(writes.len());
        let kept = self.retention();
        for write in writes {
            let write = (write, kept);
            let result = self.write_one("commit", write, State::store_write).await;
            results.push(result);
        }
        self.leave().await;
        results
    }

    async fn load(&self, orders: Vec<OrderId>) -> Vec<Result<Option<Order>, StoreError>> {
        self.read_each(orders, State::store_load).await
    }

    async fn load_eventually(
        &self,
        orders: Vec<OrderId>,
    ) -> Vec<Result<Option<Order>, StoreError>> {
        self.read_each(orders, State::store_load_eventually).await
    }

    async fn details(&self, orders: Vec<OrderId>) -> Vec<Result<Option<Arc<Value>>, StoreError>> {
        self.read_each(orders, |state, id| state.store.details(id))
            .await
    }

    async fn due(
        &self,
        shard: u32,
        until: Timestamp,
        limit: u32,
        page: Option<String>,
    ) -> Result<DuePage, StoreError> {
        self.reading(move |s| s.store_due(shard, until, limit, page.as_deref()))
            .await
    }

    async fn list(
        &self,
        state: Option<String>,
        page: Option<String>,
    ) -> Result<OrderPage, StoreError> {
        self.reading(move |s| s.store.list(state.as_deref(), page.as_deref()))
            .await
    }
}

impl DefinitionStore for Ports {
    async fn publish(&self, definition: WorkflowRef, json: String) -> Result<(), StoreError> {
        self.reading(move |s| s.store.publish(&definition, json, s.now))
            .await
    }

    async fn current(&self, name: WorkflowName) -> Result<Option<DefinitionHash>, StoreError> {
        let found = self
            .reading(move |s| s.store.current(name.as_str()).map(str::to_owned))
            .await?;
        found
            .map(|h| h.parse().map_err(StoreError::Item))
            .transpose()
    }

    async fn definition(&self, wanted: WorkflowRef) -> Result<Option<String>, StoreError> {
        self.reading(move |s| s.store.definition(&wanted)).await
    }
}

impl ControlStore for Ports {
    async fn read(
        &self,
        key: String,
        _consistent: bool,
    ) -> Result<Option<ControlRecord>, StoreError> {
        self.reading(move |s| s.control_read(&key)).await
    }

    async fn write(&self, write: ControlWrite) -> Result<Written, StoreError> {
        self.enter().await;
        self.world.state().control_wanted(&write);
        let result = self.write_one("control", write, State::control_write).await;
        self.leave().await;
        result
    }
}

impl Bus for Ports {
    async fn publish(&self, messages: Vec<Envelope>) -> Vec<Result<(), BusError>> {
        self.enter().await;
        let mut sending = Sending::default();
        let mut results = Vec::with_capacity(messages.len());
        for message in messages {
            let number = self.before("send").await;
            let result = self.world.state().send_one(self.who, message, &mut sending);
            results.push(result);
            self.after(number).await;
        }
        let late = sending.late;
        if !late.is_empty() {
            let (world, who) = (self.world.clone(), self.who);
            let after = {
                let mut state = world.state();
                let most = if state.rng.chance(300) {
                    40_000
                } else {
                    15_000
                };
                state.rng.between(50, most)
            };
            self.world.spawn(Owner::World, async move {
                world.sleep(after).await;
                let mut state = world.state();
                for message in late {
                    let message = sent_now(message, state.clock_of(who));
                    state.append(who, message);
                }
            });
        }
        self.leave().await;
        results
    }
}

impl Clock for Ports {
    fn now(&self) -> Timestamp {
        self.world.state().clock_of(self.who)
    }

    async fn sleep(&self, span: Millis) {
        self.world.sleep(span.0).await;
    }
}

impl Entropy for Ports {
    fn next_u64(&self) -> u64 {
        self.world.state().rng.next()
    }
}

/// A reply that lands late may as well have been sent late, by an agent that is not ours and does
/// not fall silent.
fn sent_now(mut message: Envelope, now: Timestamp) -> Envelope {
    if let Ok(SchedulerMessage::Reply(mut reply)) = serde_json::from_slice(&message.value) {
        reply.sent_at = Some(now);
        if let Ok(value) = serde_json::to_vec(&SchedulerMessage::Reply(reply)) {
            message.value = value;
        }
    }
    message
}
