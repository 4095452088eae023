//! The moves of the model: which process acts next, and the next state.

use std::collections::BTreeSet;

use stateright::{Model, Property};
use triad_core::Order;
use triad_core::message::SchedulerMessage;

use crate::canonical::Canonical;
use crate::processes::{Agent, Scheduler, Supervisor};
use crate::service::Effects;
use crate::world::{Installation, World};
use crate::{agent, properties, scheduler, supervisor, time};

/// A possible next step of the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Action {
    /// Time advances to the next time at which a process could decide differently.
    Time,
    /// The partition of the order moves to the other Scheduler.
    Rebalance,
    /// A move of the Scheduler with this number, from 0.
    Scheduler(usize, scheduler::Move),
    /// A move of the Supervisor with this number, from 0.
    Supervisor(usize, supervisor::Move),
    /// A move of the agent, or the arrival of a call that it has given up.
    Agent(agent::Move),
}

impl Model for Installation {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        let record = Order::new(&self.accepted, &self.workflow, self.accepted.due);
        let announced = World {
            now: 0,
            record: Canonical::order(record),
            line: vec![Canonical::message(SchedulerMessage::Accepted(
                self.accepted.clone(),
            ))],
            requests: Vec::new(),
            owner: 0,
            told: [1].into(),
            alerted: false,
            effects: Effects::new(),
            schedulers: vec![Scheduler::default(); self.bounds.instances],
            supervisors: vec![Supervisor::default(); self.bounds.instances],
            agent: Agent::default(),
            late_calls: Vec::new(),
            crashes: self.bounds.crashes,
            rebalances: self.bounds.rebalances,
            faults: self.bounds.faults,
            breach: None,
        };
        // Submission may have died before it sent the wake.
        let silent = World {
            line: Vec::new(),
            told: BTreeSet::new(),
            crashes: self.bounds.crashes.saturating_sub(1),
            ..announced.clone()
        };
        let dies = self.bounds.crashes > 0;
        std::iter::once(announced)
            .chain(dies.then_some(silent))
            .collect()
    }

    fn actions(&self, world: &World, actions: &mut Vec<Action>) {
        if world.breach.is_some() {
            return;
        }
        if time::next(self, world).is_some() {
            actions.push(Action::Time);
        }
        if world.rebalances > 0 && self.bounds.instances > 1 {
            actions.push(Action::Rebalance);
        }
        for n in 0..self.bounds.instances {
            let moves = scheduler::moves(world, n);
            actions.extend(moves.map(|m| Action::Scheduler(n, m)));
            let moves = supervisor::moves(self, world, n);
            actions.extend(moves.map(|m| Action::Supervisor(n, m)));
        }
        actions.extend(agent::moves(world).map(Action::Agent));
    }

    fn next_state(&self, world: &World, action: Action) -> Option<World> {
        let mut next = world.clone();
        match action {
            Action::Time => next.now = time::next(self, world)?,
            Action::Rebalance => scheduler::rebalance(&mut next),
            Action::Scheduler(n, it) => scheduler::act(self, &mut next, n, it),
            Action::Supervisor(n, it) => supervisor::act(self, &mut next, n, it),
            Action::Agent(it) => agent::act(self, &mut next, it),
        }
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        properties::all(self.bounds.policy)
    }
}
