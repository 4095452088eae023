//! State store, definitions and control store as one instance reaches them.

use std::sync::Arc;

use serde_json::Value;
use triad_core::{Order, OrderId, Timestamp, WorkflowRef};
use triad_runtime::ports::OrderPage;
use triad_runtime::{
    ControlRecord, ControlStore, ControlWrite, Created, DefinitionStore, DuePage, NewOrder,
    StateStore, StoreError, Write, Written,
};
use triad_workflow::{DefinitionHash, WorkflowName};

use super::Ports;
use crate::kernel::{InstanceId, Owner};
use crate::world::State;

/// What becomes of one write.
enum Fate {
    Works,
    Refused(&'static str),
    LostAnswer,
    Retried,
    Late(u64),
}

impl Ports {
    fn write_fate(&self) -> Fate {
        let mut state = self.world.state();
        let f = state.kernel.faults;
        if state.kernel.fault("fault: store throttled", f.throttle) {
            Fate::Refused("throttled")
        } else if state
            .kernel
            .fault("fault: transaction conflict", f.transaction)
        {
            Fate::Refused("transaction conflict")
        } else if state
            .kernel
            .fault("fault: write lost its answer", f.lost_write)
        {
            Fate::LostAnswer
        } else if state
            .kernel
            .fault("fault: write retried by the client", f.retried_write)
        {
            Fate::Retried
        } else if state.kernel.fault("fault: write landed late", f.late_write) {
            Fate::Late(state.kernel.rng.between(50, 15_000))
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
        if (state.kernel.now / 60_000).is_multiple_of(2) {
            return StoreError::Transient(why.to_owned());
        }
        state.kernel.coverage.reach("fault: store denied access");
        StoreError::Configuration("AccessDeniedException".to_owned())
    }

    fn throttled(&self) -> bool {
        let mut state = self.world.state();
        let permille = state.kernel.faults.throttle;
        state.kernel.fault("fault: store throttled", permille)
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
                let pause = self.world.state().kernel.rng.between(1, 2_000);
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
            let result = self.write_one("create", new, State::create).await;
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
            let result = self.write_one("commit", write, State::write).await;
            results.push(result);
        }
        self.leave().await;
        results
    }

    async fn load(&self, orders: Vec<OrderId>) -> Vec<Result<Option<Order>, StoreError>> {
        self.read_each(orders, |s, id| s.store.load(&mut s.kernel, id))
            .await
    }

    async fn load_eventually(
        &self,
        orders: Vec<OrderId>,
    ) -> Vec<Result<Option<Order>, StoreError>> {
        self.read_each(orders, |s, id| s.store.load_eventually(&mut s.kernel, id))
            .await
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
        self.reading(move |s| {
            s.store
                .due(&mut s.kernel, shard, until, limit, page.as_deref())
        })
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
        self.reading(move |s| s.store.publish(&definition, json, s.kernel.now))
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
        self.reading(move |s| s.control.read(s.kernel.now, &key))
            .await
    }

    async fn write(&self, write: ControlWrite) -> Result<Written, StoreError> {
        self.enter().await;
        self.world.state().control.wanted(&write);
        let result = self
            .write_one("control", write, |s, who, write| {
                s.control.write(&mut s.kernel, &s.setup, who, write)
            })
            .await;
        self.leave().await;
        result
    }
}
