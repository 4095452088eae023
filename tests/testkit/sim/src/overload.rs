//! Runs a world under load: sends the orders, causes the fault, and waits for the end.

use crate::actors::{any_instance, give, reads, start};
use crate::checks::{self, load::bound_ms};
use crate::kernel::{Kind, OUTSIDE, Owner};
use crate::load::Load;
use crate::senders::send_orders;
use crate::service::{Outage, Servers};
use crate::world::World;

/// The service that fails.
const TROUBLED: &str = "bank";
/// Interval between repairs, in virtual milliseconds.
const TICK_MS: u64 = 250;
/// Time after which the partitions of a dead instance are reassigned, in milliseconds.
const SESSION_MS: u64 = 10_000;

/// Sends the orders, causes the fault, and checks the end against G12.
pub(crate) fn unleash(world: &World, load: Load) {
    let (orders, from, span) = {
        let mut state = world.state();
        state.watched.is_on = true;
        state.watched.load = Some(load);
        state.watched.began = state.kernel.now;
        state.kernel.coverage.reach(load.name());
        for service in crate::definitions::AGENTS {
            let servers = Servers::new(8, 40);
            state.remote.servers.insert(service, servers);
        }
        let orders = load.orders(&mut state.kernel.rng);
        let (from, span) = load.lasts(&mut state.kernel.rng);
        (orders, from, span)
    };
    let count = orders.len();
    send_orders(world, orders, 1_000, 0);
    let w = world.clone();
    world.spawn(Owner::World, async move {
        w.sleep(from).await;
        trigger(&w, load, span).await;
        w.state()
            .kernel
            .note(OUTSIDE, || "THE TRIGGER IS OVER".into());
        resolve(&w, load, count).await;
    });
}

async fn trigger(world: &World, load: Load, span: u64) {
    let service = TROUBLED;
    match load {
        Load::Burst => {}
        Load::Slow => {
            set_speed(world, service, 2_000);
            world.sleep(span).await;
            set_speed(world, service, 40);
        }
        Load::Away => {
            let outage = Outage {
                service,
                until: world.now() + span,
                status: 503,
                says_when: false,
            };
            world.state().remote.outages.push(outage);
            world.sleep(span).await;
            world.state().remote.outages.clear();
        }
        Load::Stop => {
            let all = world.state().kernel.instances.len();
            for who in 1..all {
                world.kill(who, "load: stopped");
            }
            world.sleep(span).await;
            raise(world);
        }
        Load::Kills => {
            let ends = world.now() + span;
            while world.now() < ends {
                let victim = {
                    let mut state = world.state();
                    let last = state.kernel.instances.len() as u64 - 1;
                    usize::try_from(state.kernel.rng.between(1, last)).unwrap_or(1)
                };
                world.kill(victim, "load: killed");
                world.sleep(SESSION_MS).await;
                raise(world);
            }
        }
        Load::Struggling => {
            world.state().kernel.faults.remote_fail = 500;
            world.sleep(span).await;
            world.state().kernel.faults.remote_fail = 0;
        }
    }
}

fn set_speed(world: &World, service: &'static str, takes_ms: u64) {
    if let Some(servers) = world.state().remote.servers.get_mut(service) {
        servers.takes_ms = takes_ms;
    }
}

/// Restarts dead instances, and assigns partitions that no instance reads.
fn raise(world: &World) {
    let count = world.state().kernel.instances.len();
    for who in 1..count {
        if !world.state().kernel.instances[who].alive {
            start(world, who);
        }
    }
    for kind in [Kind::Submission, Kind::Scheduler, Kind::Agent] {
        for (topic, at) in reads(world, kind) {
            if let Some(to) = any_instance(world, kind) {
                give(world, &topic, at, to);
            }
        }
    }
}

async fn resolve(world: &World, load: Load, count: usize) {
    let over = world.now();
    loop {
        world.sleep(TICK_MS).await;
        let mut state = world.state();
        let sent = state.sent.orders.clone();
        let open = checks::unfinished(&state, sent.iter());
        if open.is_empty() {
            break;
        }
        let waited = state.kernel.now - over;
        let is_in_time = waited <= bound_ms(load, count);
        let name = "g12-no-overload-outlives-its-cause";
        state.kernel.check(name, is_in_time, || {
            format!("after {waited} ms {} of {count}: {}", open.len(), open[0])
        });
        if !is_in_time {
            return;
        }
    }
    let mut state = world.state();
    let found = checks::check_final_state(&state);
    found.report_to(&mut state.kernel);
    checks::load::after(&mut state, load, count);
    state.kernel.end();
}
