//! Checks G12 and G11 in a world under load.

use triad_core::breaker::BreakerSettings;
use triad_core::{Order, ProcessState, StepState, Version};

use crate::load::{Load, STRUGGLES_MS};
use crate::setup::SWEEP_MS;
use crate::world::State;

/// Time without an event after which a Scheduler no longer counts an order as under way, in milliseconds
/// (`FORGOTTEN_AFTER` of its intake).
pub(super) const FORGOTTEN_MS: u64 = 30_000;
/// Longest random addition to the due time of orders that were deferred together, in milliseconds (`SPREAD` of the
/// agents' guard).
const SPREAD_MS: u64 = 30_000;
/// In a world without a slow or unavailable service, an order ends within this time after its start, in milliseconds.
const STARTED_ENDS_WITHIN_MS: u64 = 15_000;
/// Factor by which the limit of a Submission can grow (`GROWTH` of its backlog).
const GROWTH: usize = 4;
/// By how many milliseconds an older order may start later than a younger one with the same lane and needs. If the
/// Scheduler of an order dies, the order is woken again when it is due, after the longest time in the queue and in
/// its first step (14 s for `line`). The sweep that finds it, and the orders before it, then take some seconds each.
const OVERTAKEN_BY_AT_MOST_MS: u64 = 24_000;

impl State {
    /// Records a write in a watched world.
    pub(crate) fn watch_load(&mut self, before: &Order, after: &Order) {
        if !self.watched.is_on {
            return;
        }
        let now = self.kernel.now;
        let claimed = |o: &Order| o.state.locked_by().is_some();
        if claimed(after) && !claimed(before) {
            self.watched.started.entry(after.id.clone()).or_insert(now);
        }
        if after.state.is_finished() {
            self.watched.ended.entry(after.id.clone()).or_insert(now);
        }
        if after.state.is_finished() && after.due.is_none() {
            self.watched.rested.entry(after.id.clone()).or_insert(now);
        }
        if self.watched.load != Some(Load::Burst) {
            // Under other loads, Submission admits orders of an unavailable service so that the others can be
            // admitted, and a restarted process has forgotten its earlier orders.
            return;
        }
        let (waiting, most) = (self.waiting_for_schedulers(), self.most_waiting());
        let name = "g12-submission-waits-for-the-schedulers";
        self.kernel.check(name, waiting <= most, || {
            format!("{waiting} orders are newer than all that were taken up, {most} may be")
        });
    }

    /// Number of stored orders that are newer than every claimed one. Older unclaimed orders do not stop Submission,
    /// because one of three Schedulers may be far ahead of the others.
    fn waiting_for_schedulers(&self) -> usize {
        let stored = || self.store.orders();
        let taken_up = stored().filter(|o| o.version != Version::FIRST);
        let newest = taken_up.map(|o| o.submitted_at).max();
        let newer = stored().filter(|o| Some(o.submitted_at) > newest);
        newer.count()
    }

    /// The largest allowed number of these orders: the limit of each Submission, the batch that each of its
    /// partitions is handling when the limit is reached, and one batch that was admitted earlier and is stored later.
    fn most_waiting(&self) -> usize {
        let sizes = &self.setup.sizes;
        let wave = usize::try_from(sizes.batch).unwrap_or(usize::MAX);
        sizes.submissions * (self.setup.unstarted * GROWTH + 2 * sizes.orders_partitions * wave)
    }

    /// Records a call of an instance: the first one of a step, or a repeated one.
    pub(crate) fn watch_call(&mut self, who: usize, service: &'static str, repeats: bool) {
        if self.watched.load != Some(Load::Struggling) {
            return;
        }
        let settings = self.setup.limits(service).retry_budget;
        let calls = self.watched.calls.entry((who, service)).or_default();
        match repeats {
            true => calls.1 += 1,
            false => calls.0 += 1,
        }
        let (first, repeated) = *calls;
        let seconds = (self.kernel.now - self.watched.began) / 1_000 + 1;
        let most = u64::from(settings.saved)
            + first * u64::from(settings.percent) / 100
            + seconds * u64::from(settings.per_second)
            + 2;
        self.kernel.coverage.reach("load: calls repeated");
        let name = "g12-repeated-calls-within-their-budget";
        self.kernel.check(name, repeated <= most, || {
            format!("{repeated} of {first} calls to {service} repeat others")
        });
    }
}

/// Time limit of all orders after the trigger: four times the time that the slowest service needs for all of them,
/// the wait that the trigger has caused, and a few sweeps.
pub(crate) fn bound_ms(load: Load, count: usize) -> u64 {
    // Two of three steps need the same service, which handles eight calls at once in 40 ms each.
    let least = count as u64 * 2 * 40 / 8;
    let looks = match load {
        Load::Burst | Load::Slow | Load::Struggling => 4,
        // The Supervisor finds the orders that are left, and wakes the Scheduler once or twice more.
        Load::Away | Load::Stop | Load::Kills => 24,
    };
    4 * least + left_waiting_ms(load) + looks * 2 * SWEEP_MS
}

/// Longest wait that the trigger causes. A Scheduler counts an order without events as under way for a while. If a
/// service fails, its breaker may open at the last moment, and its deferred orders are due at random within the same
/// time again, up to a limit.
fn left_waiting_ms(load: Load) -> u64 {
    let opened = match load {
        Load::Struggling => longest_open_ms(STRUGGLES_MS),
        Load::Away => BreakerSettings::default().max_open.0,
        Load::Burst | Load::Slow | Load::Stop | Load::Kills => 0,
    };
    (opened + opened.min(SPREAD_MS)).max(FORGOTTEN_MS)
}

/// Longest time for which a breaker stays open after `trouble_ms` of trouble. It opens for a random time in the upper
/// half of a bound that doubles each time: 32 s after half a minute.
fn longest_open_ms(trouble_ms: u64) -> u64 {
    let BreakerSettings { open, max_open, .. } = BreakerSettings::default();
    let (mut bound, mut at_least) = (open.0, 0);
    while at_least + bound / 2 < trouble_ms && bound < max_open.0 {
        at_least += bound / 2;
        bound = (bound * 2).min(max_open.0);
    }
    bound
}

/// Checks a world under load at its end.
pub(crate) fn after(state: &mut State, load: Load, count: usize) {
    if load != Load::Struggling {
        nothing_failed(state, load, count);
    }
    if load == Load::Burst {
        started_end_soon(state);
        none_is_overtaken(state);
    }
    if matches!(load, Load::Slow | Load::Away) {
        others_went_on(state, count);
    }
}

/// Every order must be Processed, without counted failures or compensations. If no service was unavailable and no
/// process died, each step must have had one attempt.
fn nothing_failed(state: &mut State, load: Load, count: usize) {
    let State { kernel, store, .. } = state;
    let mut counted = 0;
    // Number of requests that were not begun in time and made again.
    let mut again = 0;
    for order in store.orders() {
        let is_processed = matches!(order.state, ProcessState::Processed { .. });
        kernel.check("g12-load-alone-fails-nothing", is_processed, || {
            format!("{} is {}", order.id, order.state.name())
        });
        for step in &order.steps {
            if let StepState::Completed { attempt, .. } = &step.state {
                again += attempt.0 - 1;
            }
            counted += u32::from(step.action.failures + step.compensation.failures > 0);
            let once =
                matches!(&step.state, StepState::Completed { attempt, .. } if attempt.0 == 1);
            let spends_none = (once || load != Load::Burst) && step.in_doubt.is_none();
            kernel.check("g12-waiting-spends-no-attempt", spends_none, || {
                format!("{}: {step:?}", order.id)
            });
        }
    }
    // When a service becomes fifty times slower, the orders already started are too many for it until the windows
    // have adapted. That happens once, however long the service stays slow: half of the orders need the service, and
    // at most three of four of these are requested again. (In 64 worlds it was at most 0.14 of all orders; if windows
    // never shrink, one world in ten has more than 0.37.)
    let most = u32::try_from(count * 3 / 8).unwrap_or(u32::MAX);
    if load == Load::Slow {
        let name = "g12-no-more-is-started-than-is-answered-in-time";
        kernel.check(name, again <= most, || {
            format!("{again} requests were not begun in time, {most} at most")
        });
    }
    // Calls that the unavailable service refused before its breaker opened count as failures: at most as many as were
    // under way.
    let own = if load == Load::Away { 32 } else { 0 };
    kernel.check("g12-waiting-is-no-failure", counted <= own, || {
        format!("{counted} steps have failures, {own} at most are the service's")
    });
}

/// Every started order must end soon: no more orders may start than can be served in time.
fn started_end_soon(state: &mut State) {
    let watched = &state.watched;
    let times = watched.started.iter().filter_map(|(id, started)| {
        let ended = watched.ended.get(id)?;
        Some((ended - started, id))
    });
    let Some((longest, id)) = times.max() else {
        return;
    };
    let seen = format!("{id} took {longest} ms from its start to its end");
    let is_soon = longest <= STARTED_ENDS_WITHIN_MS;
    state
        .kernel
        .check("g12-started-orders-end-soon", is_soon, || seen);
}

/// Orders with the same needs must start in order of age, apart from the tolerance for concurrent instances.
fn none_is_overtaken(state: &mut State) {
    let mut starts: Vec<_> = (state.watched.started.iter())
        .filter_map(|(id, at)| state.store.order(id).map(|o| (o.submitted_at.0, *at)))
        .collect();
    starts.sort_unstable();
    let mut latest = (0, 0);
    for (submitted, started) in starts {
        let is_in_turn = latest.1 <= started + OVERTAKEN_BY_AT_MOST_MS;
        state
            .kernel
            .check("g12-the-older-is-started-first", is_in_turn, || {
                format!(
                    "submitted at {}, started at {}; submitted at {submitted}, started at {started}",
                    latest.0, latest.1
                )
            });
        if !is_in_turn {
            return;
        }
        if started > latest.1 {
            latest = (submitted, started);
        }
    }
}

/// Orders that do not need the affected service must be as fast as if they were alone.
fn others_went_on(state: &mut State, count: usize) {
    let needs_it = |o: &Order| o.workflow.name.as_str() == "line";
    let others = state.store.orders().filter(|o| !needs_it(o));
    let last = others.filter_map(|o| state.watched.ended.get(&o.id)).max();
    let took = last.map_or(u64::MAX, |at| at - state.watched.began);
    let bound = bound_ms(Load::Burst, count / 2);
    state.kernel.check("g11-others-go-on", took <= bound, || {
        format!("they took {took} ms, {bound} at most")
    });
}
