//! Worlds of one machine: all handlers are one process, which dies as a whole, and a loss of power loses the end of
//! its log.

use crate::kernel::{InstanceId, Kind, OUTSIDE};
use crate::world::{State, World};

/// Kills an instance. On one machine this is a loss of power, with which all handlers die.
pub(crate) fn kill(world: &World, victim: InstanceId, why: &'static str) {
    if !is_of_the_machine(&world.state(), victim) {
        return world.kill(victim, why);
    }
    let count = world.state().kernel.instances.len();
    for who in 1..count {
        if is_of_the_machine(&world.state(), who) {
            world.kill(who, why);
        }
    }
    lose_power(&mut world.state());
}

/// Reverts the last acknowledged items that were not durable.
fn lose_power(state: &mut State) {
    let State { kernel, bus, .. } = state;
    let kept = kernel.rng.between(0, bus.unsynced.len() as u64);
    let kept = usize::try_from(kept).unwrap_or(0);
    let (messages, commits) = bus.lose_power(kept);
    kernel.coverage.reach("fault: power lost");
    if messages > 0 {
        kernel.coverage.reach("saw: message lost with the power");
    }
    if commits > 0 {
        kernel
            .coverage
            .reach("saw: offset commit lost with the power");
    }
    kernel.note(OUTSIDE, || {
        format!("THE POWER IS GONE, with {messages} messages and {commits} commits")
    });
}

/// Whether an instance is part of the single process. Operators run in other processes.
fn is_of_the_machine(state: &State, who: InstanceId) -> bool {
    let kind = state.kernel.instances[who].kind;
    state.setup.one_machine && !matches!(kind, Kind::Operator | Kind::Outside)
}

/// Whether a dead instance is restarted together with the Supervisor of its process, and not alone.
pub(crate) fn rises_with_another(state: &State, who: InstanceId) -> bool {
    is_of_the_machine(state, who) && state.kernel.instances[who].kind != Kind::Supervisor
}

/// The other instances of the process, if `who` is its Supervisor.
pub(crate) fn others_of(state: &State, who: InstanceId) -> Vec<InstanceId> {
    if !is_of_the_machine(state, who) {
        return Vec::new();
    }
    let all = 1..state.kernel.instances.len();
    all.filter(|&other| other != who && is_of_the_machine(state, other))
        .collect()
}
