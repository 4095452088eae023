//! The ports of one instance: every call is a place where the world may step in.

use std::sync::Arc;

use serde_json::Value;
use triad_core::{Envelope, Order, OrderId, Timestamp, WorkflowRef};
use triad_runtime::ports::OrderPage;
use triad_runtime::{
    Bus, BusError, Clock, Created, DefinitionStore, DuePage, Entropy, NewOrder, StateStore,
    StoreError, Write, Written,
};
use triad_workflow::{DefinitionHash, Millis, WorkflowName};

use crate::executor::Owner;
use crate::world::{InstanceId, World};

/// Store, bus, clock and entropy as one instance sees them.
#[derive(Debug, Clone)]
pub struct Ports {
    pub(crate) world: World,
    pub(crate) who: InstanceId,
}

/// What becomes of one write.
enum Fate {
    Works,
    Throttled,
    LostAnswer,
    Retried,
    Late(u64),
}

impl Ports {
    pub(crate) fn new(world: World, who: InstanceId) -> Self {
        Self { world, who }
    }

    /// The process may die here; what it has sent before is on its way all the same.
    pub(crate) async fn perhaps_die(&self, when: &'static str) {
        let dies = {
            let mut state = self.world.state();
            let permille = state.faults.die;
            self.who != crate::world::OUTSIDE && state.rng.chance(permille)
        };
        if dies {
            self.world.kill(self.who, when);
            std::future::pending::<()>().await;
        }
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
        self.perhaps_die("fault: died before an effect").await;
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
            Fate::Throttled
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

    fn throttled(&self) -> bool {
        let mut state = self.world.state();
        let permille = state.faults.throttle;
        state.fault("fault: store throttled", permille)
    }

    async fn commit_one(&self, write: Write) -> Result<Written, StoreError> {
        let transient = |why: &str| Err(StoreError::Transient(why.to_owned()));
        match self.write_fate() {
            Fate::Works => Ok(self.world.state().store_write(self.who, &write)),
            Fate::Throttled => transient("throttled"),
            Fate::LostAnswer => {
                self.world.state().store_write(self.who, &write);
                transient("timed out")
            }
            Fate::Retried => {
                self.world.state().store_write(self.who, &write);
                let pause = self.world.state().rng.between(1, 2_000);
                self.world.sleep(pause).await;
                self.perhaps_die("fault: died before an effect").await;
                Ok(self.world.state().store_write(self.who, &write))
            }
            Fate::Late(after) => {
                let (world, who) = (self.world.clone(), self.who);
                self.world.spawn(Owner::World, async move {
                    world.sleep(after).await;
                    world.state().store_write(who, &write);
                });
                transient("timed out")
            }
        }
    }

    async fn create_one(&self, new: NewOrder) -> Result<Created, StoreError> {
        let transient = |why: &str| Err(StoreError::Transient(why.to_owned()));
        match self.write_fate() {
            Fate::Works => Ok(self.world.state().store_create(self.who, &new)),
            Fate::Throttled => transient("throttled"),
            Fate::LostAnswer => {
                self.world.state().store_create(self.who, &new);
                transient("timed out")
            }
            Fate::Retried => {
                self.world.state().store_create(self.who, &new);
                let pause = self.world.state().rng.between(1, 2_000);
                self.world.sleep(pause).await;
                Ok(self.world.state().store_create(self.who, &new))
            }
            Fate::Late(after) => {
                let (world, who) = (self.world.clone(), self.who);
                self.world.spawn(Owner::World, async move {
                    world.sleep(after).await;
                    world.state().store_create(who, &new);
                });
                transient("timed out")
            }
        }
    }

    /// A read: an answer made by `read`, or none.
    async fn read<T>(
        &self,
        read: impl FnOnce(&mut crate::world::State) -> T + Send,
    ) -> Result<T, StoreError> {
        self.enter().await;
        let answer = if self.throttled() {
            Err(StoreError::Transient("throttled".into()))
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
            self.perhaps_die("fault: died before an effect").await;
            results.push(self.create_one(new).await);
        }
        self.leave().await;
        results
    }

    async fn commit(&self, writes: Vec<Write>) -> Vec<Result<Written, StoreError>> {
        self.enter().await;
        let mut results = Vec::with_capacity(writes.len());
        for write in writes {
            self.perhaps_die("fault: died before an effect").await;
            results.push(self.commit_one(write).await);
        }
        self.leave().await;
        results
    }

    async fn load(&self, orders: Vec<OrderId>) -> Vec<Result<Option<Order>, StoreError>> {
        self.enter().await;
        let mut results = Vec::with_capacity(orders.len());
        for id in orders {
            results.push(if self.throttled() {
                Err(StoreError::Transient("throttled".into()))
            } else {
                let state = self.world.state();
                Ok(state.store.order(&id).map(|o| (**o).clone()))
            });
        }
        self.leave().await;
        results
    }

    async fn details(&self, orders: Vec<OrderId>) -> Vec<Result<Option<Arc<Value>>, StoreError>> {
        self.enter().await;
        let mut results = Vec::with_capacity(orders.len());
        for id in orders {
            results.push(if self.throttled() {
                Err(StoreError::Transient("throttled".into()))
            } else {
                Ok(self.world.state().store.details(&id))
            });
        }
        self.leave().await;
        results
    }

    async fn due(
        &self,
        shard: u32,
        until: Timestamp,
        limit: u32,
        page: Option<String>,
    ) -> Result<DuePage, StoreError> {
        self.read(move |s| s.store_due(shard, until, limit, page.as_deref()))
            .await
    }

    async fn list(
        &self,
        state: Option<String>,
        page: Option<String>,
    ) -> Result<OrderPage, StoreError> {
        self.read(move |s| s.store.list(state.as_deref(), page.as_deref()))
            .await
    }
}

impl DefinitionStore for Ports {
    async fn publish(&self, definition: WorkflowRef, json: String) -> Result<(), StoreError> {
        self.read(move |s| s.store.publish(&definition, json)).await
    }

    async fn current(&self, name: WorkflowName) -> Result<Option<DefinitionHash>, StoreError> {
        let found = self
            .read(move |s| s.store.current(name.as_str()).map(str::to_owned))
            .await?;
        found
            .map(|h| h.parse().map_err(StoreError::Permanent))
            .transpose()
    }

    async fn definition(&self, wanted: WorkflowRef) -> Result<Option<String>, StoreError> {
        self.read(move |s| s.store.definition(&wanted)).await
    }
}

impl Bus for Ports {
    async fn publish(&self, messages: Vec<Envelope>) -> Vec<Result<(), BusError>> {
        self.enter().await;
        let (results, late) = self.world.state().bus_publish(self.who, &messages);
        if !late.is_empty() {
            let (world, who) = (self.world.clone(), self.who);
            let after = world.state().rng.between(50, 15_000);
            self.world.spawn(Owner::World, async move {
                world.sleep(after).await;
                let mut state = world.state();
                for message in &late {
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
        let state = self.world.state();
        let error = state.instances[self.who].clock_error_ms;
        Timestamp(state.now.saturating_add_signed(error))
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
