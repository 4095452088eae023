//! Worlds under load: more orders at once than the services bear, and nothing wrong with any of
//! them. Services have a capacity, and what happens to them or to our own processes is the trigger;
//! when it is over, nothing of it may be left (G12).

use std::collections::BTreeMap;

use triad_core::{Order, OrderId, ProcessState, StepState, Version};

use crate::actors::{self, give, reads, somebody, start};
use crate::chaos;
use crate::check;
use crate::executor::Owner;
use crate::rng::Rng;
use crate::scenario::{self, NewOrder};
use crate::service::Outage;
use crate::world::{Kind, OUTSIDE, State, World};

/// The service that the trigger is about.
const TROUBLED: &str = "bank";
/// How often those who look after the world look, in virtual milliseconds.
const TICK_MS: u64 = 250;
/// A dead instance's partitions move after this, as a session times out.
const SESSION_MS: u64 = 10_000;
/// A started order of a world in which nothing is slow or away ends within this.
const STARTED_ENDS_WITHIN_MS: u64 = 15_000;
/// Orders that are stored and that no Scheduler has taken up: what both Submissions may let in at
/// most, each in three partitions, with what the bound may grow to.
const MOST_UNSTARTED: usize = 260;
/// Requests that are not begun in time when a service becomes fifty times slower: those that were
/// under way then, and once more while the windows learn.
const MOST_ASKED_AGAIN: u32 = 220;
/// An order is not started later than one of its lane that needs the same and was submitted so much
/// after it.
const OVERTAKEN_BY_AT_MOST_MS: u64 = 20_000;

/// What happens while orders come in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Load {
    /// Nothing: they are only many.
    Burst,
    /// One service becomes slow; half of the orders do not need it.
    Slow,
    /// One service is away; half of the orders do not need it.
    Away,
    /// Every process stops for an hour.
    Stop,
    /// Processes are killed one after the other.
    Kills,
    /// One service fails half of its calls.
    Struggling,
}

const ALL: [Load; 6] = [
    Load::Burst,
    Load::Slow,
    Load::Away,
    Load::Stop,
    Load::Kills,
    Load::Struggling,
];

impl Load {
    /// Drawn from a seed.
    pub(crate) fn drawn(rng: &mut Rng) -> Self {
        *rng.pick(&ALL)
    }

    fn name(self) -> &'static str {
        match self {
            Self::Burst => "load: burst",
            Self::Slow => "load: slow service",
            Self::Away => "load: service away",
            Self::Stop => "load: everything stops for an hour",
            Self::Kills => "load: instances killed",
            Self::Struggling => "load: struggling service",
        }
    }

    /// The orders: so many come within a second, more than are borne.
    pub(crate) fn orders(self, rng: &mut Rng) -> Vec<NewOrder> {
        let count = usize::try_from(rng.between(400, 600)).unwrap_or(200);
        (0..count)
            .map(|n| {
                let needs_it = n % 2 == 0;
                let workflow = match self {
                    // It needs the service `stock` alone; the other one needs `bank` too.
                    Self::Slow | Self::Away if !needs_it => "shelf",
                    _ => "line",
                };
                scenario::plain_order(n, workflow)
            })
            .collect()
    }

    /// How long after the beginning, and for how long, the trigger lasts.
    fn lasts(self, rng: &mut Rng) -> (u64, u64) {
        match self {
            Self::Burst => (0, 0),
            Self::Slow => (rng.between(1_000, 2_500), rng.between(60_000, 120_000)),
            Self::Away => (0, rng.between(30_000, 600_000)),
            Self::Stop => (rng.between(500, 5_000), 3_600_000),
            Self::Kills => (500, 60_000),
            Self::Struggling => (0, 30_000),
        }
    }
}

/// What a service can do at once, and how long each call takes.
#[derive(Debug)]
pub(crate) struct Servers {
    pub busy_until: Vec<u64>,
    pub takes_ms: u64,
}

impl Servers {
    fn new(count: usize, takes_ms: u64) -> Self {
        Self {
            busy_until: vec![0; count],
            takes_ms,
        }
    }

    /// When a call that arrives now will have been done.
    pub(crate) fn done_at(&mut self, now: u64) -> u64 {
        let takes = self.takes_ms;
        let free = self.busy_until.iter_mut().min();
        free.map_or(now, |at| {
            *at = (*at).max(now) + takes;
            *at
        })
    }
}

/// What the checker remembers of a world under load.
#[derive(Debug, Default)]
pub(crate) struct Watched {
    /// When an order was started first.
    started: BTreeMap<OrderId, u64>,
    /// When an order ended.
    ended: BTreeMap<OrderId, u64>,
    /// First calls and repeated ones of an instance to a service.
    calls: BTreeMap<(usize, &'static str), (u64, u64)>,
}

impl State {
    /// Notes a write in a world under load.
    pub(crate) fn watch_load(&mut self, before: &Order, after: &Order) {
        if self.load.is_none() {
            return;
        }
        let now = self.now;
        let claimed = |o: &Order| o.state.locked_by().is_some();
        if claimed(after) && !claimed(before) {
            self.watched.started.entry(after.id.clone()).or_insert(now);
        }
        if after.state.is_finished() {
            self.watched.ended.entry(after.id.clone()).or_insert(now);
        }
        if self.load != Some(Load::Burst) {
            // What needs a service in trouble is let in so that the others can be, and who starts anew
            // does not know what it has let in before.
            return;
        }
        let stored = self.store.orders();
        let waiting = stored.filter(|o| o.version == Version::FIRST).count();
        if waiting > MOST_UNSTARTED {
            let seen = format!("{waiting} orders are stored and not taken up");
            self.breach("g12-submission-waits-for-the-schedulers", seen);
        }
    }

    /// Notes a call of an instance: the first one of a step, or one that repeats another.
    pub(crate) fn watch_call(&mut self, who: usize, service: &'static str, repeats: bool) {
        if self.load != Some(Load::Struggling) {
            return;
        }
        let settings = self.setup.limits(service).retry_budget;
        let calls = self.watched.calls.entry((who, service)).or_default();
        match repeats {
            true => calls.1 += 1,
            false => calls.0 += 1,
        }
        let (first, repeated) = *calls;
        let seconds = (self.now - self.began) / 1_000 + 1;
        let most = u64::from(settings.saved)
            + first * u64::from(settings.percent) / 100
            + seconds * u64::from(settings.per_second)
            + 2;
        self.coverage.reach("load: calls repeated");
        if repeated > most {
            let seen = format!("{repeated} of {first} calls to {service} repeat others");
            self.breach("g12-repeated-calls-within-their-budget", seen);
        }
    }
}

/// Sends the orders, pulls the trigger, and holds the end against what G12 promises.
pub(crate) fn unleash(world: &World, load: Load) {
    let (orders, from, span) = {
        let mut state = world.state();
        state.load = Some(load);
        state.began = state.now;
        state.coverage.reach(load.name());
        for service in crate::definitions::AGENTS {
            let servers = Servers::new(8, 40);
            state.remote.servers.insert(service, servers);
        }
        let orders = load.orders(&mut state.rng);
        let (from, span) = load.lasts(&mut state.rng);
        (orders, from, span)
    };
    let count = orders.len();
    chaos::send_orders(world, orders, 1_000, 0);
    let w = world.clone();
    world.spawn(Owner::World, async move {
        w.sleep(from).await;
        trigger(&w, load, span).await;
        w.state().note(OUTSIDE, || "THE TRIGGER IS OVER".into());
        settle(&w, load, count).await;
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
            let all = world.state().instances.len();
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
                    let last = state.instances.len() as u64 - 1;
                    usize::try_from(state.rng.between(1, last)).unwrap_or(1)
                };
                world.kill(victim, "load: killed");
                world.sleep(SESSION_MS).await;
                raise(world);
            }
        }
        Load::Struggling => {
            world.state().faults.remote_fail = 500;
            world.sleep(span).await;
            world.state().faults.remote_fail = 0;
        }
    }
}

fn set_speed(world: &World, service: &'static str, takes_ms: u64) {
    if let Some(servers) = world.state().remote.servers.get_mut(service) {
        servers.takes_ms = takes_ms;
    }
}

/// Starts the dead again, and gives the partitions that nobody reads to somebody.
fn raise(world: &World) {
    let count = world.state().instances.len();
    for who in 1..count {
        if !world.state().instances[who].alive {
            start(world, who);
        }
    }
    for kind in [Kind::Submission, Kind::Scheduler, Kind::Agent] {
        for (topic, at) in reads(world, kind) {
            if let Some(to) = somebody(world, kind) {
                give(world, &topic, at, to);
            }
        }
    }
}

/// How long all orders may take once the trigger is over: four times what the slowest service
/// needs for all of them, and a few sweeps.
fn bound_ms(load: Load, count: usize) -> u64 {
    // Two of three steps need the same service, of which eight calls at once take 40 ms each.
    let least = count as u64 * 2 * 40 / 8;
    let looks = match load {
        Load::Burst | Load::Slow | Load::Struggling => 4,
        // What was left to the Supervisor is met by it, and is announced once or twice more.
        Load::Away | Load::Stop | Load::Kills => 24,
    };
    4 * least + 30_000 + looks * 2 * actors::SWEEP_MS
}

async fn settle(world: &World, load: Load, count: usize) {
    let over = world.now();
    loop {
        world.sleep(TICK_MS).await;
        let mut state = world.state();
        let sent = state.sent.orders.clone();
        let open = check::unfinished(&state, sent.iter());
        if open.is_empty() {
            break;
        }
        let waited = state.now - over;
        if waited > bound_ms(load, count) {
            let seen = format!("after {waited} ms {} of {count}: {}", open.len(), open[0]);
            state.breach("g12-no-overload-outlives-its-cause", seen);
            return;
        }
    }
    let mut state = world.state();
    for (invariant, seen) in check::whole(&state) {
        state.breach(invariant, seen);
    }
    if load != Load::Struggling {
        nothing_failed(&mut state, load);
    }
    if load == Load::Burst {
        started_end_soon(&mut state);
        none_is_overtaken(&mut state);
    }
    if matches!(load, Load::Slow | Load::Away) {
        others_went_on(&mut state, count);
    }
    state.end();
}

/// Every order is Processed. Nothing was counted, nothing undone; and where nothing was away and
/// nobody died, no attempt was spent.
fn nothing_failed(state: &mut State, load: Load) {
    let mut counted = 0;
    // Requests that were not begun in time, and were asked for again.
    let mut again = 0;
    let mut found = Vec::new();
    for order in state.store.orders() {
        if !matches!(order.state, ProcessState::Processed { .. }) {
            let seen = format!("{} is {}", order.id, order.state.name());
            found.push(("g12-load-alone-fails-nothing", seen));
        }
        for step in &order.steps {
            if let StepState::Completed { attempt, .. } = &step.state {
                again += attempt.0 - 1;
            }
            counted += u32::from(step.action.failures + step.compensation.failures > 0);
            let once =
                matches!(&step.state, StepState::Completed { attempt, .. } if attempt.0 == 1);
            if (!once && load == Load::Burst) || step.in_doubt {
                let seen = format!("{}: {step:?}", order.id);
                found.push(("g12-waiting-spends-no-attempt", seen));
            }
        }
    }
    if load == Load::Slow && again > MOST_ASKED_AGAIN {
        let seen = format!("{again} requests were not begun in time");
        found.push(("g12-no-more-is-started-than-is-answered-in-time", seen));
    }
    // Calls that a service refused before its breaker opened are its own failures, and no more
    // than were under way then.
    let own = if load == Load::Away { 32 } else { 0 };
    if counted > own {
        let seen = format!("{counted} steps have failures, {own} at most are the service's");
        found.push(("g12-waiting-is-no-failure", seen));
    }
    for (invariant, seen) in found {
        state.breach(invariant, seen);
    }
}

/// No more orders are started than can be served in time.
fn started_end_soon(state: &mut State) {
    let watched = &state.watched;
    let times = watched.started.iter().filter_map(|(id, started)| {
        let ended = watched.ended.get(id)?;
        Some((ended - started, id))
    });
    let Some((longest, id)) = times.max() else {
        return;
    };
    if longest > STARTED_ENDS_WITHIN_MS {
        let seen = format!("{id} took {longest} ms from its start to its end");
        state.breach("g12-started-orders-end-soon", seen);
    }
}

/// What needs the same is started in the order of age, but for what instances do side by side.
fn none_is_overtaken(state: &mut State) {
    let mut starts: Vec<_> = (state.watched.started.iter())
        .filter_map(|(id, at)| state.store.order(id).map(|o| (o.submitted_at.0, *at)))
        .collect();
    starts.sort_unstable();
    let mut latest = (0, 0);
    for (submitted, started) in starts {
        if latest.1 > started + OVERTAKEN_BY_AT_MOST_MS {
            let seen = format!(
                "submitted at {}, started at {}; submitted at {submitted}, started at {started}",
                latest.0, latest.1
            );
            state.breach("g12-the-older-is-started-first", seen);
            return;
        }
        if started > latest.1 {
            latest = (submitted, started);
        }
    }
}

/// Orders that do not need the service go on at full speed: as if there were no others.
fn others_went_on(state: &mut State, count: usize) {
    let needs_it = |o: &Order| o.workflow.name.as_str() == "line";
    let others = state.store.orders().filter(|o| !needs_it(o));
    let last = others.filter_map(|o| state.watched.ended.get(&o.id)).max();
    let took = last.map_or(u64::MAX, |at| at - state.began);
    let bound = bound_ms(Load::Burst, count / 2);
    if took > bound {
        let seen = format!("they took {took} ms, {bound} at most");
        state.breach("g11-others-go-on", seen);
    }
}
