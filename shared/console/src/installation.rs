//! What is operated on: the ports of one installation.

use std::fmt::Display;

use triad_operator::dead_letters::LetterTopic;
use triad_runtime::operator::Operator;
use triad_runtime::ports::OperatorStore;
use triad_runtime::{Bus, Clock, ControlStore, DefinitionStore, Entropy, StateStore};

/// An installation that a console can work on: its store, bus, clock, random numbers, acts and dead letters.
/// [`Parts`] is one that is made of its parts.
pub trait Installation: Send + Sync + 'static {
    /// The store of orders, workflows and control records.
    type Store: StateStore + DefinitionStore + OperatorStore + ControlStore + Clone;
    /// The bus that acts send their messages to.
    type Bus: Bus;
    /// The clock.
    type Clock: Clock;
    /// Random numbers, for the tokens of writes.
    type Entropy: Entropy;
    /// The topic of dead letters.
    type Letters: LetterTopic<Error: Display>;

    /// The store.
    fn store(&self) -> &Self::Store;
    /// The bus.
    fn bus(&self) -> &Self::Bus;
    /// The clock.
    fn clock(&self) -> &Self::Clock;
    /// Random numbers.
    fn entropy(&self) -> &Self::Entropy;
    /// The acts.
    fn operator(&self) -> &Operator<Self::Store, Self::Bus, Self::Clock, Self::Entropy>;
    /// The topic of dead letters.
    fn letters(&self) -> &Self::Letters;
}

/// An installation that is made of these parts.
#[derive(Debug)]
pub struct Parts<S, B, C, E, T> {
    /// The store.
    pub store: S,
    /// The bus.
    pub bus: B,
    /// The clock.
    pub clock: C,
    /// Random numbers.
    pub entropy: E,
    /// The acts, over the same store and bus, with the time spans of the installation.
    pub operator: Operator<S, B, C, E>,
    /// The topic of dead letters.
    pub letters: T,
}

impl<S, B, C, E, T> Installation for Parts<S, B, C, E, T>
where
    S: StateStore + DefinitionStore + OperatorStore + ControlStore + Clone,
    B: Bus,
    C: Clock,
    E: Entropy,
    T: LetterTopic<Error: Display> + 'static,
{
    type Store = S;
    type Bus = B;
    type Clock = C;
    type Entropy = E;
    type Letters = T;

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
    fn letters(&self) -> &T {
        &self.letters
    }
}
