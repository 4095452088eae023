//! A Supervisor: finds the order in the due index, decides, writes, sends, confirms.

use triad_core::pass::{Pass, Source, Task, WriterOrder};
use triad_core::{Event, Order, Overdue};

use crate::canonical::Canonical;
use crate::world::{Installation, World};

/// A possible next move of a Supervisor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Move {
    /// The Supervisor finds the order in the due index, reads the record and decides.
    Sweep,
    /// The Supervisor writes what it has decided, or gives up if the version has changed.
    Write,
    /// The Supervisor sends all messages that may be sent together now.
    Send,
    /// The Supervisor writes that a finished order has no unsent messages.
    Confirm,
    /// The Supervisor dies and loses its memory.
    Crash,
}

/// The possible next moves of Supervisor number `n`, from 0.
pub fn moves(model: &Installation, world: &World, n: usize) -> impl Iterator<Item = Move> + use<> {
    let doing = world.supervisors[n].doing.as_ref();
    let works = match doing.map(|pass| pass.task()) {
        None => finds(model, world, n).map(|_| Move::Sweep),
        Some(Task::Write { .. }) => Some(Move::Write),
        Some(Task::Publish(_)) => Some(Move::Send),
        Some(Task::Confirm { .. }) => Some(Move::Confirm),
        Some(Task::Read | Task::ReadDetails | Task::Ended(_)) => None,
    };
    let dies = (world.crashes > 0 && doing.is_some()).then_some(Move::Crash);
    works.into_iter().chain(dies)
}

/// The pass that a sweep begins, if the order is in the due index and there is work.
fn finds(model: &Installation, world: &World, n: usize) -> Option<Pass> {
    let now = model.clock(world, n);
    let order = &world.record;
    order
        .due
        .filter(|due| *due <= now.minus(model.timing.skew))?;
    // No retry after a lost race: the process that won handles the order.
    let mut pass = Pass::new(WriterOrder::Beside, 0);
    let event = Event::Overdue(Overdue::default());
    pass.decide(
        model.snapshot(order),
        Source::Record,
        event,
        model.timing,
        now,
    );
    goes_on(pass)
}

/// Applies one of the [`moves`] of Supervisor number `n` to the state.
///
/// # Panics
/// If the state does not allow the move, where that is detected.
pub fn act(model: &Installation, world: &mut World, n: usize, it: Move) {
    let doing = world.supervisors[n].doing.take();
    let next = match (it, doing) {
        (Move::Sweep, _) => finds(model, world, n).inspect(|found| {
            if acts_too_early(world, found) {
                world.breach = Some("an attempt is given up after its complete-by on every clock");
            }
        }),
        (Move::Crash, _) => {
            world.crashes -= 1;
            None
        }
        (_, None) => None,
        (Move::Write | Move::Send | Move::Confirm, Some(pass)) => {
            goes_on(model.carry_out(world, (*pass).clone()))
        }
    };
    world.supervisors[n].doing = next.map(Canonical::pass);
}

/// The pass, if it has a task left.
fn goes_on(pass: Pass) -> Option<Pass> {
    (!matches!(pass.task(), Task::Ended(_))).then_some(pass)
}

/// Whether the pass treats an attempt as over, or gives it up, before it is over by the slowest clock.
fn acts_too_early(world: &World, found: &Pass) -> bool {
    let Task::Write { next, .. } = found.task() else {
        return false;
    };
    let before: &Order = &world.record;
    let steps = before.steps.iter().zip(&next.steps);
    steps
        .filter(|(was, is)| was.state != is.state)
        .any(|(was, _)| was.state.complete_by().is_some_and(|at| at.0 > world.now))
}
