//! Checks of child orders: what becomes of an order becomes of those that its steps have started.

use triad_core::children::{Child, ChildState};
use triad_core::order::IncidentKind;
use triad_core::outbox::Emission;
use triad_core::{Order, ProcessState, StepState};

use super::findings::Findings;
use crate::kernel::Coverage;
use crate::world::State;

/// The place of a child order in its parent's record, if the parent has one for it.
fn place<'a>(order: &Order, above: &'a Order) -> Option<&'a Child> {
    let parent = order.parent.as_deref()?;
    let mut steps = above.steps.iter();
    let record = steps.find(|record| record.step == parent.step)?;
    record.children.as_ref()?.all.get(parent.number as usize)
}

/// Whether an order has left no effect, or an operator has said what became of it. The parent goes on with that; an
/// operator who has the compensation tried again later has opened the child order alone.
fn is_over_without_effect(order: &Order) -> bool {
    let mut lines = order.incidents.iter();
    matches!(order.state, ProcessState::Compensated { .. })
        || lines.any(|line| line.what == IncidentKind::Closed)
}

/// Whether a child order waits for an operator, and its parent with it.
pub(crate) fn needs_an_operator(order: &Order) -> bool {
    let is_stuck = matches!(
        order.state,
        ProcessState::Error { .. } | ProcessState::CompensationFailed { .. }
    );
    order.parent.is_some() && is_stuck && order.closed.is_none()
}

/// In a world in which all work has ended, a child order is where its parent thinks that it is.
pub(super) fn check(state: &State, found: &mut Findings) {
    for order in state.store.orders() {
        let Some(parent) = &order.parent else {
            continue;
        };
        let Some(above) = state.store.order(&parent.order_id) else {
            continue;
        };
        let seen = |child: Option<&Child>| {
            let (id, is, over) = (&order.id, order.state.name(), above.state.name());
            format!("{id} is {is}, its parent {over}, which has {child:?} for it")
        };
        let child = place(order, above);
        // A list that is amended may become shorter, once the order is done again.
        let is_known = match child {
            Some(child) => child.attempt >= parent.attempt,
            None => is_over_without_effect(order),
        };
        let name = "g2-a-child-order-is-known-to-its-parent";
        found.check(name, is_known, || seen(child));
        let Some(known) = child.filter(|_| above.state.is_finished()) else {
            continue;
        };
        if known.attempt > parent.attempt {
            let name = "g10-an-order-in-whose-place-another-is-has-no-effect";
            found.check(name, is_over_without_effect(order), || seen(child));
            continue;
        }
        let is_processed = matches!(order.state, ProcessState::Processed { .. });
        let holds = match (&above.state, &known.state) {
            (ProcessState::Processed { .. }, ChildState::Processed(_)) => is_processed,
            // A way that was let go too late: an operator was told, and had the order go on.
            (ProcessState::Processed { .. }, ChildState::Kept) => {
                let mut lines = above.incidents.iter();
                lines.any(|line| line.what == IncidentKind::CompensationFailed)
            }
            (ProcessState::Processed { .. } | ProcessState::Compensated { .. }, _) => {
                is_over_without_effect(order)
            }
            // An operator decides about the parent.
            (_, ChildState::Failed | ChildState::Compensated) => is_over_without_effect(order),
            _ => true,
        };
        let name = "g10-a-child-order-ends-as-its-parent-does";
        found.check(name, holds, || seen(child));
    }
}

impl State {
    /// Counts what happens to child orders in a write.
    pub(crate) fn reach_children(&mut self, before: &Order, after: &Order) {
        let coverage = &mut self.kernel.coverage;
        for (was, is) in before.steps.iter().zip(&after.steps) {
            let Some(children) = &is.children else {
                continue;
            };
            let earlier = was.children.as_ref().map(|children| &children.all[..]);
            if children.way > was.children.as_ref().map_or(0, |children| children.way) {
                coverage.reach("saw: another way to do the work of a step");
            }
            for (n, child) in children.all.iter().enumerate() {
                let was = earlier.and_then(|all| all.get(n)).map(|child| &child.state);
                if was != Some(&child.state) {
                    reach_child(coverage, was, child);
                }
            }
            let is_joined =
                matches!(is.state, StepState::Completed { .. }) && is.state != was.state;
            if is_joined {
                coverage.reach("saw: child orders joined");
            }
            let asks = |entry: &Emission| matches!(entry, Emission::Children { .. });
            let asks_again = was.state.is_retry_due() && was.children.is_some();
            if asks_again && after.outbox.entries.iter().any(asks) {
                coverage.reach("saw: child orders asked for again");
            }
        }
        self.reach_races(before, after);
        let coverage = &mut self.kernel.coverage;
        let tells = |entry: &Emission| matches!(entry, Emission::Ended { .. });
        let is_told_again = before.state == after.state && before.state.is_finished();
        if is_told_again && after.outbox.entries.iter().any(tells) {
            coverage.reach("saw: end of a child order told again");
        }
    }
}

impl State {
    /// Checks and counts what happens to ways that a completed step has let go.
    fn reach_races(&mut self, before: &Order, after: &Order) {
        for (was, is) in before.steps.iter().zip(&after.steps) {
            let Some(children) = is.children.as_ref().filter(|_| is.lets_go()) else {
                continue;
            };
            let asked = after.outbox.entries.iter().any(|entry| match entry {
                Emission::Children { step, numbers } => {
                    let let_go = (0..).zip(&children.all);
                    let mut let_go = let_go.filter(|(_, child)| child.state.is_compensating());
                    *step == is.step && let_go.all(|(number, _)| numbers.contains(&number))
                }
                _ => false,
            });
            if was.state != is.state {
                self.kernel.coverage.reach("saw: ways let go");
                // Whatever stops an order has its messages withdrawn: they are asked when it goes on.
                let stops = matches!(after.state, ProcessState::Error { .. });
                let name = "ways-are-let-go-in-the-write-that-completes-their-step";
                let seen = || format!("{} {}: {children:?}", after.id, is.step);
                self.kernel.check(name, asked || stops, seen);
            } else if asked {
                self.kernel
                    .coverage
                    .reach("saw: ways asked again that were let go");
            }
            let mut steps = after.steps.iter();
            if steps.all(|step| step.state.is_done()) && !after.state.is_finished() {
                self.kernel
                    .coverage
                    .reach("saw: order waits for ways that it has let go");
            }
        }
    }
}

fn reach_child(coverage: &mut Coverage, was: Option<&ChildState>, child: &Child) {
    coverage.reach(match (&child.state, was) {
        (ChildState::Waiting, _) => "saw: child order waits for its turn",
        (ChildState::Running, _) if child.attempt > 0 => "saw: child order in the place of another",
        (ChildState::Running, _) => "saw: child order started",
        (ChildState::Processed(_), _) => "saw: child order Processed",
        (ChildState::Failed, _) => "saw: child order failed",
        (ChildState::Compensating { .. }, Some(ChildState::Running)) => {
            "saw: child order compensated while it ran"
        }
        (ChildState::Compensating { .. }, _) => "saw: child order compensated after its end",
        (ChildState::Compensated, _) => "saw: child order compensated",
        (ChildState::Kept, _) => "saw: child order kept",
    });
}
