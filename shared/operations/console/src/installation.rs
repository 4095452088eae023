//! The ports of the installation that a console operates.

use std::fmt::Display;

use triad_operator::topic::TopicReader;
use triad_runtime::operator::Operator;
use triad_runtime::ports::OperatorStore;
use triad_runtime::{Bus, Clock, ControlStore, DefinitionStore, Entropy, StateStore};

/// An installation that a console can work on: its store, bus, clock, random numbers, operator and the
/// topics of dead letters and alerts. [`Parts`] is an installation that is put together from values of these types.
pub trait Installation: Send + Sync + 'static {
    /// The store of orders, workflows and control records.
    type Store: StateStore + DefinitionStore + OperatorStore + ControlStore + Clone;
    /// The bus that acts send their messages to.
    type Bus: Bus;
    /// The clock from which the console takes the present time, for instance for the ends of sessions and for
    /// the age of what it shows.
    type Clock: Clock;
    /// The source of random numbers, for the tokens of writes.
    type Entropy: Entropy;
    /// The topics of dead letters and alerts, which are read from their beginning or from a moment on.
    type Topics: TopicReader<Error: Display>;

    /// The store of orders, workflows and control records.
    fn store(&self) -> &Self::Store;
    /// The bus that acts send their messages to.
    fn bus(&self) -> &Self::Bus;
    /// The clock from which the console takes the present time.
    fn clock(&self) -> &Self::Clock;
    /// The source of random numbers.
    fn entropy(&self) -> &Self::Entropy;
    /// What carries out the acts of operators, over the same store and bus.
    fn operator(&self) -> &Operator<Self::Store, Self::Bus, Self::Clock, Self::Entropy>;
    /// The topics of dead letters and alerts.
    fn topics(&self) -> &Self::Topics;
}

/// An installation that is put together from these parts.
#[derive(Debug)]
pub struct Parts<S, B, C, E, T> {
    /// The store of orders, workflows and control records.
    pub store: S,
    /// The bus that acts send their messages to.
    pub bus: B,
    /// The clock from which the console takes the present time.
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

    fn store(&self) -> &S {
        &self.store
    }
    fn bus(&self) -> &B {
        &self.bus
    }
    fn clock(&self) -> &C {
        &self.clock
    }
    fn entropy(&self) -> &E {
        &self.entropy
    }
    fn operator(&self) -> &Operator<S, B, C, E> {
        &self.operator
    }
    fn topics(&self) -> &T {
        &self.topics
    }
}
