//! State store, definitions and control store as one instance reaches them.

use std::sync::Arc;

use serde_json::Value;
use triad_core::{Order, OrderId, Timestamp, WorkflowRef};
use triad_runtime::ports::OrderPage;
use triad_runtime::{
    ControlRecord, ControlStore, ControlWrite, Created, DefinitionStore, DuePage, NewOrder,
    OutputsOf, StateStore, StoreError, Write, Written,
};
use triad_workflow::{DefinitionHash, InvalidHash, WorkflowName};

use super::Ports;
use crate::kernel::InstanceId;
use crate::machine::owner_of_late;
use crate::world::State;

/// What happens to a write, chosen at random.
enum Fate {
    Works,
    Refused(&'static str),
    LostAnswer,
    Retried,
    Late(u64),
    /// It is never answered; it may have taken effect or not.
    Hangs {
        applied: bool,
    },
}

/// A write that concerns one order.
trait OfOrder: Send + 'static {
    fn order(&self) -> Option<&OrderId>;
}

impl OfOrder for NewOrder {
    fn order(&self) -> Option<&OrderId> {
        Some(&self.order.id)
    }
}

impl OfOrder for (Write, Option<u64>) {
    fn order(&self) -> Option<&OrderId> {
        Some(&self.0.next.id)
    }
}

impl OfOrder for ControlWrite {
    fn order(&self) -> Option<&OrderId> {
        None
    }
}

/// Longest time of a call of the store, including retries, in milliseconds, as in the DynamoDB adapter
/// (`triad_aws::Account::load`).
const CALL_WITHIN_MS: u64 = 8_000;

/// The error of a denied access, which only an operator can repair.
fn denied(state: &mut State) -> StoreError {
    state.kernel.refuse();
    StoreError::Configuration("AccessDeniedException".to_owned())
}

fn timed_out() -> StoreError {
    StoreError::Transient("timed out".to_owned())
}

impl Ports {
    fn write_fate(&self, of: Option<&OrderId>) -> Fate {
        let mut state = self.world.state();
        if of.is_some() && of == state.store.refused.as_ref() {
            return Fate::Refused("throttled");
        }
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
        } else if state.kernel.fault("fault: store call hung", f.hang) {
            let applied = state.kernel.rng.chance(500);
            Fate::Hangs { applied }
        } else {
            Fate::Works
        }
    }

    /// Reads items one by one; each read may fail.
    async fn read_each<K, T>(
        &self,
        orders: Vec<K>,
        read: fn(&mut State, &K) -> Option<T>,
    ) -> Vec<Result<Option<T>, StoreError>> {
        self.enter().await;
        if self.hangs() {
            self.wait_out().await;
            return orders.iter().map(|_| Err(timed_out())).collect();
        }
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

    /// The error of a failed call: in every other minute a denied access, which like throttling does not depend on
    /// the item.
    fn refusal(&self, why: &str) -> StoreError {
        let mut state = self.world.state();
        if (state.kernel.now / 60_000).is_multiple_of(2) {
            return StoreError::Transient(why.to_owned());
        }
        state.kernel.coverage.reach("fault: store denied access");
        denied(&mut state)
    }

    fn throttled(&self) -> bool {
        let mut state = self.world.state();
        let permille = state.kernel.faults.throttle;
        state.kernel.fault("fault: store throttled", permille)
    }

    /// Whether this call is never answered.
    fn hangs(&self) -> bool {
        let mut state = self.world.state();
        let permille = state.kernel.faults.hang;
        state.kernel.fault("fault: store call hung", permille)
    }

    /// Waits until the adapter's timeout.
    async fn wait_out(&self) {
        self.world.sleep(CALL_WITHIN_MS).await;
    }

    /// Carries out a batch of writes, each of which may fail. They run concurrently, so that several writes without
    /// an answer delay the batch only once.
    async fn write_each<W: OfOrder, T: 'static>(
        &self,
        what: &'static str,
        writes: Vec<W>,
        carry_out: fn(&mut State, InstanceId, &W) -> T,
    ) -> Vec<Result<T, StoreError>> {
        self.enter().await;
        let mut hung = false;
        let mut results = Vec::with_capacity(writes.len());
        for write in writes {
            let fate = self.write_fate(write.order());
            hung |= matches!(fate, Fate::Hangs { .. });
            results.push(self.write_one(what, fate, write, carry_out).await);
        }
        if hung {
            self.wait_out().await;
        }
        self.leave().await;
        results
    }

    /// Carries out a write as chosen: not at all, now, twice, or later.
    async fn write_one<W: OfOrder, T: 'static>(
        &self,
        what: &'static str,
        fate: Fate,
        write: W,
        carry_out: fn(&mut State, InstanceId, &W) -> T,
    ) -> Result<T, StoreError> {
        let number = self.before(what).await;
        let result = match fate {
            Fate::Works => Ok(carry_out(&mut self.world.state(), self.who, &write)),
            Fate::Refused(why) => Err(self.refusal(why)),
            Fate::LostAnswer | Fate::Hangs { applied: true } => {
                carry_out(&mut self.world.state(), self.who, &write);
                Err(timed_out())
            }
            Fate::Hangs { applied: false } => Err(timed_out()),
            Fate::Retried => {
                carry_out(&mut self.world.state(), self.who, &write);
                let pause = self.world.state().kernel.rng.between(1, 2_000);
                self.world.sleep(pause).await;
                self.perhaps_die("fault: died before an effect").await;
                Ok(carry_out(&mut self.world.state(), self.who, &write))
            }
            Fate::Late(after) => {
                let (world, who) = (self.world.clone(), self.who);
                let owner = owner_of_late(&world.state(), who);
                self.world.spawn(owner, async move {
                    world.sleep(after).await;
                    carry_out(&mut world.state(), who, &write);
                });
                Err(timed_out())
            }
        };
        self.after(number).await;
        result
    }

    /// A read, which returns the value of `read` or fails.
    pub(crate) async fn reading<T>(
        &self,
        read: impl FnOnce(&mut State) -> T + Send,
    ) -> Result<T, StoreError> {
        self.enter().await;
        if self.hangs() {
            self.wait_out().await;
            return Err(timed_out());
        }
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
        self.write_each("create", orders, State::create).await
    }

    async fn commit(&self, writes: Vec<Write>) -> Vec<Result<Written, StoreError>> {
        let kept = self.retention();
        let writes = writes.into_iter().map(|write| (write, kept)).collect();
        self.write_each("commit", writes, State::write).await
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

    async fn outputs(&self, wanted: Vec<OutputsOf>) -> Vec<Result<Vec<Arc<Value>>, StoreError>> {
        let read = self
            .read_each(wanted, |s, wanted| s.store.outputs(&mut s.kernel, wanted))
            .await;
        let missing = || StoreError::Item("an output is not stored".to_owned());
        read.into_iter()
            .map(|read| read?.ok_or_else(missing))
            .collect()
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
        self.reading(move |s| {
            s.store
                .list(state.as_deref(), page.as_deref(), s.kernel.now)
        })
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
        let hash = found.map(|hash| hash.parse()).transpose();
        hash.map_err(|e: InvalidHash| StoreError::Item(e.to_string()))
    }

    async fn definition(&self, wanted: WorkflowRef) -> Result<Option<String>, StoreError> {
        let who = self.who;
        self.reading(move |s| s.store.definition_for(&wanted, who))
            .await
    }
}

impl ControlStore for Ports {
    async fn read(
        &self,
        key: String,
        _consistent: bool,
    ) -> Result<Option<ControlRecord>, StoreError> {
        self.reading(move |s| match s.control.is_denied {
            true => Err(denied(s)),
            false => Ok(s.control.read(s.kernel.now, &key)),
        })
        .await?
    }

    async fn write(&self, write: ControlWrite) -> Result<Written, StoreError> {
        {
            let mut state = self.world.state();
            if state.control.is_denied {
                return Err(denied(&mut state));
            }
            state.control.wanted(&write);
        }
        let mut written = self
            .write_each("control", vec![write], |s, who, write| {
                s.control.write(&mut s.kernel, &s.setup, who, write)
            })
            .await;
        written.pop().unwrap_or_else(|| Err(timed_out()))
    }
}
