//! Requests executed over the ports of one installation.

use std::fmt::Display;
use std::future::Future;

use futures::future::BoxFuture;
use tokio::sync::{Mutex, Semaphore, SemaphorePermit};
use triad_core::{Order, Timestamp};
use triad_runtime::operator::Operator;
use triad_runtime::ports::OperatorStore;
use triad_runtime::{Bus, Clock, ControlStore, DefinitionStore, Entropy, StateStore};
use triad_workflow::Millis;

use super::heard::Heard;
use super::{Answer, Caller, Hidden, Operations, Problem, Request, Role, TraceUrl};
use crate::topic::TopicReader;
use crate::{InvalidRate, Rate};

/// Longest time of one request's acts. The answer says how many orders or letters are left.
pub(super) const ACT_WITHIN: Millis = Millis(20_000);
/// Default rate of a request: acts in a second.
const RATE: u32 = 50;
/// Concurrent readings of the topics of dead letters and alerts: one may read a whole topic.
const READINGS: usize = 2;

/// Concurrent requests; more are refused with a time after which to ask again.
const REQUESTS: usize = 64;

/// What callers may see and do, whoever they are. The default hides nothing and allows acts.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// If true, every act is refused, whatever role the caller has.
    pub read_only: bool,
    /// Fields of payloads whose values are not shown. Default: none.
    pub hidden: Hidden,
    /// Where a trace is shown. `None`: answers have the trace's id without a link.
    pub trace_url: Option<TraceUrl>,
}

/// An installation that operations can work on: its store, bus, clock, random numbers, operator and the
/// topics of dead letters and alerts. [`Parts`] is the installation that is put together from values of these types;
/// this trait is the short name of its type.
pub trait Installation: Send + Sync + 'static {
    /// The store of orders, workflows and control records.
    type Store: StateStore + DefinitionStore + OperatorStore + ControlStore + Clone;
    /// The bus that acts send their messages to.
    type Bus: Bus;
    /// The clock.
    type Clock: Clock;
    /// The source of random numbers, for the tokens of writes.
    type Entropy: Entropy;
    /// The topics of dead letters and alerts, which are read from their beginning or from a moment on.
    type Topics: TopicReader<Error: Display>;

    /// The parts themselves.
    fn parts(&self) -> &PartsOf<Self>;
}

/// The parts of an installation.
pub type PartsOf<I> = Parts<
    <I as Installation>::Store,
    <I as Installation>::Bus,
    <I as Installation>::Clock,
    <I as Installation>::Entropy,
    <I as Installation>::Topics,
>;

/// An installation that is put together from these parts.
#[derive(Debug)]
pub struct Parts<S, B, C, E, T> {
    /// The store of orders, workflows and control records.
    pub store: S,
    /// The bus that acts send their messages to.
    pub bus: B,
    /// The clock from which the present time is taken, for instance for the age of what is shown.
    pub clock: C,
    /// The source of random numbers, for the tokens of writes.
    pub entropy: E,
    /// What carries out the acts of operators, over the same store and bus, with the time spans of the
    /// installation.
    pub operator: Operator<S, B, C, E>,
    /// The topics of dead letters and alerts.
    pub topics: T,
}

impl<S, B, C, E, T> Installation for Parts<S, B, C, E, T>
where
    S: StateStore + DefinitionStore + OperatorStore + ControlStore + Clone,
    B: Bus,
    C: Clock,
    E: Entropy,
    T: TopicReader<Error: Display> + 'static,
{
    type Store = S;
    type Bus = B;
    type Clock = C;
    type Entropy = E;
    type Topics = T;

    fn parts(&self) -> &Self {
        self
    }
}

/// A request that can be executed over the ports.
pub(super) trait Execute {
    /// What it answers with.
    type Answer;

    /// Executes it on behalf of a caller.
    fn execute<I: Installation>(
        self,
        on: &Local<I>,
        caller: &Caller,
    ) -> impl Future<Output = Result<Self::Answer, Problem>> + Send;
}

/// The operations of an installation whose ports this process has.
pub struct Local<I: Installation> {
    of: I,
    pub(super) settings: Settings,
    /// The latest reading of alerts and dead letters, and when it was made.
    pub(super) heard: Mutex<Option<(Timestamp, Heard)>>,
    readings: Semaphore,
    requests: Semaphore,
}

impl<I: Installation> std::fmt::Debug for Local<I> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Local").finish_non_exhaustive()
    }
}

impl<I: Installation> Local<I> {
    /// The operations of this installation.
    pub fn new(of: I, settings: Settings) -> Self {
        Self {
            of,
            settings,
            heard: Mutex::default(),
            readings: Semaphore::new(READINGS),
            requests: Semaphore::new(REQUESTS),
        }
    }

    pub(super) fn parts(&self) -> &PartsOf<I> {
        self.of.parts()
    }

    pub(super) fn store(&self) -> &I::Store {
        &self.parts().store
    }

    pub(super) fn moment(&self) -> Timestamp {
        self.parts().clock.now()
    }

    /// Takes one of the permits for reading a topic of dead letters or alerts.
    pub(super) fn read_topics(&self) -> Result<SemaphorePermit<'_>, Problem> {
        let text = "the topics are being read by others";
        let place = self.readings.try_acquire();
        place.map_err(|_| Problem::later("busy", text, 2))
    }

    /// Refuses the caller unless its role and the settings allow acts.
    pub(super) fn may_act(&self, caller: &Caller) -> Result<(), Problem> {
        self.may_change()?;
        if caller.role < Role::Operate {
            let text = "this role permits only reading: the role operate is needed";
            return Err(Problem::forbidden("role", text));
        }
        Ok(())
    }

    /// Refuses every caller if the settings allow no acts.
    pub(super) fn may_change(&self) -> Result<(), Problem> {
        if self.settings.read_only {
            let text = "this installation is read-only here: every act is refused";
            return Err(Problem::forbidden("read-only", text));
        }
        Ok(())
    }

    /// A record without what is hidden.
    pub(super) fn shown(&self, order: Order) -> Result<Order, Problem> {
        Ok(self.settings.hidden.record(order)?)
    }
}

impl<I: Installation> Operations for Local<I> {
    fn execute<'a>(
        &'a self,
        caller: &'a Caller,
        request: Request,
    ) -> BoxFuture<'a, Result<Answer, Problem>> {
        Box::pin(async move {
            if caller.role < Role::Read {
                let text = "this role may only submit orders: the role read or operate is needed";
                return Err(Problem::forbidden("role", text));
            }
            let text = "too many requests are being answered";
            let place = self.requests.try_acquire();
            let _place = place.map_err(|_| Problem::later("busy", text, 1))?;
            request.execute_on(self, caller).await
        })
    }

    fn now(&self) -> Timestamp {
        self.moment()
    }

    fn sleep(&self, span: Millis) -> BoxFuture<'_, ()> {
        Box::pin(self.parts().clock.sleep(span))
    }
}

/// Acts in a second; the default is 50.
pub(super) fn rate(rate: Option<u32>) -> Result<Rate, Problem> {
    let bad = |e: InvalidRate| Problem::bad("bad-rate", e.to_string());
    Rate::new(rate.unwrap_or(RATE)).map_err(bad)
}
