//! Checks of calls to remote services, when they are made and when they arrive.

use triad_core::Direction;
use triad_core::downstream::{Downstream, ForcedTo};
use triad_reference_service::Mishap;
use triad_reference_service::contract::{Answer, Kind};
use triad_workflow::Millis;

use crate::definitions::{self, TIMING};
use crate::kernel::InstanceId;
use crate::service::{Arriving, named};
use crate::setup::REFRESH_DOWNSTREAMS;
use crate::world::State;

impl State {
    /// Counts and checks a call when it is made.
    pub(crate) fn note_call(&mut self, who: InstanceId, call: &Arriving, time_left: Millis) {
        let made = self.remote.count(call);
        self.watch_call(who, call.service, made > 1);
        self.check_deadline(who, call, time_left);
        self.check_downstream(who, call);
        self.check_place(call);
        self.check_input(call);
        self.check_rate(call.service);
    }

    /// By its own clock, the agent must make the call before complete-by minus the skew, and give it no more time
    /// than that.
    fn check_deadline(&mut self, who: InstanceId, call: &Arriving, time_left: Millis) {
        let id = (call.key.clone(), named(call.direction), call.attempt);
        let Some(delivered) = self.bus.deliveries.get(&id) else {
            return;
        };
        let ends = delivered.complete_by.minus(TIMING.skew);
        let now = self.kernel.clock_of(who);
        let is_in_time = now.plus(time_left) <= ends;
        self.kernel
            .check("an-agent-is-silent-after-complete-by", is_in_time, || {
                format!("{} at {}, with {time_left}: {ends:?}", call.key, now.0)
            });
    }

    /// An effect must be compensated at the service where it happened: no definition of these worlds uses another
    /// one.
    fn check_place(&mut self, call: &Arriving) {
        if call.direction == Direction::Forward {
            self.history.places.insert(call.key.clone(), call.service);
        }
        let Some(forward) = call.compensates.as_ref() else {
            return;
        };
        let place = self.history.places.get(forward).copied();
        let is_there = place.is_none_or(|place| place == call.service);
        self.kernel
            .check("an-effect-is-compensated-where-it-is", is_there, || {
                format!("{} asks {}, not {place:?}", call.key, call.service)
            });
    }

    /// No agent may call a downstream, or make a step's calls, that an operator paused so long ago that every
    /// instance has read the pause.
    fn check_downstream(&mut self, who: InstanceId, call: &Arriving) {
        if !self.kernel.faults_at_first.control_is_clear()
            || self.kernel.faults_at_first.remote_late > 0
        {
            return;
        }
        let known =
            |s: &State, at: u64| s.kernel.now > at + 2 * REFRESH_DOWNSTREAMS.0 + TIMING.skew.0;
        let Some(record) = self.control.downstream(call.service) else {
            return;
        };
        let Downstream { forced, paused, .. } = record;
        let workflow = self.store.order(&call.order).map(|o| &o.workflow.name);
        let held = paused
            .iter()
            .find(|p| Some(&p.workflow) == workflow && p.step.as_str() == call.step)
            .map(|p| p.hold.at.0);
        let open = forced
            .filter(|f| f.to == ForcedTo::Open)
            .map(|f| f.hold.at.0);
        let paused = held.into_iter().chain(open).find(|at| known(self, *at));
        self.kernel
            .check("what-is-paused-is-not-called", paused.is_none(), || {
                format!("{} by {who}, paused at {paused:?}", call.key)
            });
    }

    /// At most four seconds of the instances' clocks fall into one second of true time, so its calls are limited.
    fn check_rate(&mut self, service: &'static str) {
        let second = self.kernel.now / 1_000;
        let made = self.remote.in_second.entry((service, second)).or_default();
        *made += 1;
        let made = *made;
        if let Some(limit) = self.setup.limits(service).rate_per_second
            && !self.setup.wild_clocks
        {
            self.kernel
                .check("rate-within-its-limit", made <= 4 * limit, || {
                    format!("{made} calls to {service} in a second, {limit} allowed")
                });
        }
    }

    /// Applies a call when it arrives, checks it against the guarantees, and answers it.
    pub(crate) fn land(&mut self, call: &Arriving, mishap: Mishap) -> Answer {
        let (kind, answer) = self.remote.land(&mut self.kernel, call, mishap);
        if matches!(kind, Kind::Compensated | Kind::Tombstoned) {
            self.check_compensation(call);
        }
        answer
    }

    /// G3: when a compensation arrives, all later steps must be compensated.
    fn check_compensation(&mut self, call: &Arriving) {
        let Some(order) = self.store.order(&call.order).cloned() else {
            return;
        };
        let Some(workflow) = definitions::compiled(&order.workflow) else {
            return;
        };
        let Some(index) = workflow.step_index(&call.step) else {
            return;
        };
        for (later, step) in workflow.steps.iter().enumerate() {
            if step.compensation.is_none() || !workflow.is_after(later, index) {
                continue;
            }
            let is_compensated = self.remote.effects_of(&order, later, &workflow) == 0;
            self.kernel.check(
                "g3-compensated-in-reverse-at-the-service",
                is_compensated,
                || format!("{}: {} before {}", order.id, call.step, step.id),
            );
        }
    }
}
