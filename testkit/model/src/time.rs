//! When time may pass, and how far: to the next moment at which some process would decide
//! otherwise than before.

use triad_core::decide::true_due;

use crate::world::{Installation, SKEW, World};

/// The next moment that can be noticed; `None` at the horizon.
///
/// Every comparison with the clock that the core makes is about one of these: an agent stops the
/// skew before complete-by; a reply is late after it; the Supervisor acts the skew after
/// complete-by, or after the hint of the due index, and once more when it has listened for replies
/// that are not read yet. The second of each kind, whose clock is
/// ahead, does so that much earlier.
pub fn next(model: &Installation, world: &World) -> Option<u64> {
    let order = &world.record;
    let ahead = SKEW * (model.bounds.instances as u64 - 1);
    let asked = world.requests.iter().map(|r| r.complete_by.0 - SKEW);
    let out = order.steps.iter().filter_map(|s| s.state.complete_by());
    let late = out.flat_map(|at| [at.0 + 1 - ahead, at.0 + 1]);
    let looked_at = [true_due(&model.context(), order), order.due];
    let looked_at = looked_at.into_iter().flatten();
    let looked_at = looked_at.flat_map(|at| [at.0 + SKEW - ahead, at.0 + SKEW]);
    let unheard = order.steps.iter().filter_map(|s| s.unheard_since);
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
