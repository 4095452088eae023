//! Worlds of one machine: all handlers are one process, which dies as a whole. What is between handlers is in its
//! memory and dies with it; all else is in its one file, durable when it is acknowledged, but for the last commits of
//! offsets. A kill and a loss of power are the same here.

use crate::kernel::{InstanceId, Kind, OUTSIDE, Owner};
use crate::world::{State, World};

/// Kills an instance. On one machine all handlers die with it.
pub(crate) fn kill(world: &World, victim: InstanceId, why: &'static str) {
    let was_alive = world.state().kernel.instances[victim].alive;
    world.kill(victim, why);
    if !was_alive || !is_of_the_machine(&world.state(), victim) {
        return;
    }
    let count = world.state().kernel.instances.len();
    for who in 1..count {
        if is_of_the_machine(&world.state(), who) {
            world.kill(who, "died with its process");
        }
    }
    lose_commits(&mut world.state());
}

/// Takes back a random part of the last commits.
fn lose_commits(state: &mut State) {
    let State { kernel, bus, .. } = state;
    let kept = kernel.rng.between(0, bus.lazy.len(kernel.now) as u64);
    let commits = bus.lose_commits(usize::try_from(kept).unwrap_or(0));
    kernel.coverage.reach("fault: machine died");
    if commits > 0 {
        kernel
            .coverage
            .reach("saw: offset commit lost with the machine");
    }
    kernel.note(OUTSIDE, || {
        format!("THE MACHINE DIES, with {commits} commits")
    });
}

/// Begins a new process of the machine: its memory is empty, also of what others have sent since the death.
pub(crate) fn begin(state: &mut State) {
    let State {
        kernel, bus, sent, ..
    } = state;
    let lost = bus.empty_memory();
    if !lost.is_empty() {
        kernel
            .coverage
            .reach("saw: messages in memory lost with the machine");
    }
    kernel.note(OUTSIDE, || {
        format!("THE MACHINE STARTS, without {} messages", lost.len())
    });
    sent.forgotten.extend(lost);
}

/// Who carries out an effect that comes late: the machine's own store and topics do nothing after its death.
pub(crate) fn owner_of_late(state: &State, who: InstanceId) -> Owner {
    match is_of_the_machine(state, who) {
        true => Owner::Instance(who),
        false => Owner::World,
    }
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

/// The other instances of the process, if `who` is its Supervisor; else none.
pub(crate) fn others_of(state: &State, who: InstanceId) -> Vec<InstanceId> {
    if !is_of_the_machine(state, who) {
        return Vec::new();
    }
    let all = 1..state.kernel.instances.len();
    all.filter(|&other| other != who && is_of_the_machine(state, other))
        .collect()
}
