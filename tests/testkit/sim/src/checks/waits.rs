//! Checks of waits before another attempt, which apply only to their own step.

use triad_core::outbox::Writer;
use triad_core::{Direction, Order, ProcessState, StepState, Work};
use triad_workflow::{StepIndex, Workflow};

use crate::definitions::{self, TIMING};
use crate::history::Wait;
use crate::world::State;

impl State {
    /// No attempt may be made before its step's wait is over, and steps that do not wait must be requested.
    pub(crate) fn check_waits(&mut self, before: &Order, after: &Order, workflow: &Workflow) {
        if self.setup.wild_clocks {
            return;
        }
        // An order that waited for its definition had no steps, so none has begun.
        for index in 0..before.steps.len().min(after.steps.len()) {
            for direction in [Direction::Forward, Direction::Compensate] {
                self.check_wait(before, after, index, direction, workflow);
            }
        }
        self.check_ready(before, after, workflow);
        self.check_start(before, after);
    }

    /// An order that starts later must not begin before its moment, by any clock.
    fn check_start(&mut self, before: &Order, after: &Order) {
        let Some(at) = after.start_at else {
            return;
        };
        if before.attempts() > 0 || after.attempts() == 0 {
            return;
        }
        let now = self.kernel.now;
        let is_time = now + 2 * TIMING.skew.0 >= at.0;
        self.kernel
            .check("an-order-does-not-start-before-its-moment", is_time, || {
                format!("{}: begun at {now}, to start at {}", after.id, at.0)
            });
        if before.submitted_at.plus(TIMING.announce_within) < at {
            self.kernel
                .coverage
                .reach("saw: an order started at its moment");
        }
    }

    fn check_wait(
        &mut self,
        before: &Order,
        after: &Order,
        index: StepIndex,
        direction: Direction,
        workflow: &Workflow,
    ) {
        let (was, is) = (&before.steps[index], &after.steps[index]);
        let now = self.kernel.now;
        let compensates = direction == Direction::Compensate;
        let failures = is.leg(direction).failures;
        let leg = (after.id.clone(), index, compensates);
        let counted = failures > was.leg(direction).failures;
        if counted && after.outbox.writer == Writer::Supervisor {
            let step = &workflow.steps[index];
            let code = is.error.as_ref().map_or("", |error| &error.code);
            let (policy, counted) = match &step.compensation {
                Some(compensation) if compensates => (Some(&compensation.policy), failures),
                _ => (step.policy_after(code), is.failures_like(code)),
            };
            // A write may happen long after it was decided; the timeline contains the time of the decision.
            let mut lines = after.incidents.iter().rev();
            let line = lines.find(|line| line.step.as_ref() == Some(&is.step));
            let decided = line.map_or(now, |line| line.at.0);
            let wait = policy
                .and_then(|p| p.retry_after(counted))
                .map(|wait| Wait {
                    after: (after.run, failures),
                    until: decided + wait.0,
                });
            self.history
                .waits
                .extend(wait.map(|wait| (leg.clone(), wait)));
        }
        let is_made = is.state.out().is_some_and(|out| {
            (out.direction == Direction::Compensate) == compensates
                && !was.state.out().is_some_and(|was| was.is_same(&out))
        });
        if !is_made {
            return;
        }
        let wait = self.history.waits.get(&leg);
        let wait = wait.filter(|wait| wait.after == (after.run, failures));
        let early = wait.is_some_and(|wait| now + TIMING.skew.0 < wait.until);
        let until = wait.map(|wait| wait.until);
        self.kernel.check("a-wait-belongs-to-its-step", !early, || {
            format!("{}: {is:?} at {now}, to wait until {until:?}", after.id)
        });
    }

    /// A step that becomes ready while the order is unclaimed must not wait for the waits of other steps.
    fn check_ready(&mut self, before: &Order, after: &Order, workflow: &Workflow) {
        let is_held = after.state.locked_by().is_some() || after.paused.is_some();
        if is_held || after.state.is_finished() {
            return;
        }
        let known = ready(before, workflow);
        if ready(after, workflow).iter().all(|i| known.contains(i)) {
            return;
        }
        let now = self.kernel.now;
        let within = now + TIMING.announce_within.0 + TIMING.skew.0;
        let due = triad_core::decide::true_due(&definitions::context(workflow), after);
        let is_asked = due.is_some_and(|due| due.0 <= within);
        self.kernel
            .check("what-becomes-ready-is-asked-for", is_asked, || {
                format!("{}: due {due:?}, at {now}", after.id)
            });
    }
}

/// The steps that the next claim would start.
fn ready(order: &Order, workflow: &Workflow) -> Vec<StepIndex> {
    let compensates = matches!(order.state, ProcessState::Compensating { .. });
    let all = 0..order.steps.len();
    let open = |i: StepIndex| order.steps[i].state.to_compensate().is_some();
    all.clone()
        .filter(|&i| match &order.steps[i].state {
            StepState::Waiting if !compensates => {
                let mut after = workflow.steps[i].after.iter();
                after.all(|&a| order.steps[a].state.is_done())
            }
            StepState::Acting(Work::Due { .. }) => !compensates,
            StepState::Compensating {
                work: Work::Due { .. },
                ..
            } => !all.clone().any(|j| open(j) && workflow.is_after(j, i)),
            _ => false,
        })
        .collect()
}
