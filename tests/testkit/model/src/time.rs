//! The model's time, which advances to the next time at which a process would decide differently.

use triad_core::decide::true_due;

use crate::world::{Installation, SKEW, World};

/// The next time, in milliseconds, at which a process could decide differently; `None` if there is none up to the
/// horizon.
///
/// The core compares the clock only with these times: complete-by less the skew (from then on an agent sends no
/// reply); complete-by (a later reply does not count); complete-by, or the hint of the due index, plus the skew (from
/// then on the Supervisor acts); and the end of the Supervisor's wait for unread replies. The second Scheduler and
/// the second Supervisor have a clock that is ahead by the skew, and reach each moment that much earlier.
pub fn next(model: &Installation, world: &World) -> Option<u64> {
    let order = &world.record;
    let ahead = SKEW * (model.bounds.instances as u64 - 1);
    let asked = world.requests.iter().map(|r| r.complete_by.0 - SKEW);
    let out = order.steps.iter().filter_map(|s| s.state.complete_by());
    let late = out.flat_map(|at| [at.0 + 1 - ahead, at.0 + 1]);
    let looked_at = [true_due(&model.context(), order), order.due];
    let looked_at = looked_at.into_iter().flatten();
    let looked_at = looked_at.flat_map(|at| [at.0 + SKEW - ahead, at.0 + SKEW]);
    let unheard = order.steps.iter().filter_map(|s| s.state.unheard_since());
    let heard = unheard.flat_map(|at| {
        let at = at.plus(model.timing.hear_within).0;
        [at - ahead, at]
    });
    asked
        .chain(late)
        .chain(heard)
        .chain(looked_at)
        .filter(|t| *t > world.now && *t <= model.bounds.horizon)
        .min()
}
