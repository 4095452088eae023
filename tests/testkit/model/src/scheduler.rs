//! A Scheduler: takes a message about the order, decides on a copy or on the record, writes, sends, acknowledges. It
//! may stop for any time, or die, between any two of these.

use triad_core::message::SchedulerMessage;
use triad_core::pass::{Pass, PassEnd, Source, Task, WriterOrder};
use triad_core::{ClaimId, Event, Order};

use crate::canonical::Canonical;
use crate::processes::Scheduler;
use crate::world::{Installation, World};

/// A possible next move of a Scheduler.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Move {
    /// The Scheduler takes the first message of the topic. It decides on its copy of the record, or reads the record
    /// if it has no copy.
    Take,
    /// The Scheduler writes what it has decided, or reads and decides again if the version has changed.
    Write,
    /// The Scheduler sends all messages that may be sent together now.
    Send,
    /// The Scheduler sends the first of these messages and dies.
    SendOneAndCrash,
    /// The Scheduler writes that a finished order has no unsent messages.
    Confirm,
    /// The Scheduler acknowledges the message, which leaves the topic.
    Acknowledge,
    /// The Scheduler dies and loses its memory.
    Crash,
}

/// The possible next moves of Scheduler number `n`, from 0.
pub fn moves(world: &World, n: usize) -> impl Iterator<Item = Move> + use<> {
    let own = &world.schedulers[n];
    let task = own.doing.as_ref().map(|(_, pass)| pass.task());
    let works = match task {
        None if own.handled => Some(Move::Acknowledge),
        None => (world.owner == n && !world.line.is_empty()).then_some(Move::Take),
        Some(Task::Write { .. }) => Some(Move::Write),
        Some(Task::Publish(_)) => Some(Move::Send),
        Some(Task::Confirm { .. }) => Some(Move::Confirm),
        Some(Task::Read | Task::ReadDetails | Task::Ended(_)) => None,
    };
    let forgets = *own != Scheduler::default();
    let dies = world.crashes > 0 && forgets;
    let torn = dies && matches!(task, Some(Task::Publish(_)));
    works
        .into_iter()
        .chain(dies.then_some(Move::Crash))
        .chain(torn.then_some(Move::SendOneAndCrash))
}

/// Applies one of the [`moves`] of Scheduler number `n` to the state.
///
/// # Panics
/// If the state does not allow the move, where that is detected.
pub fn act(model: &Installation, world: &mut World, n: usize, it: Move) {
    match it {
        Move::Take => {
            let message = world.line[0].clone();
            match world.schedulers[n].copy.clone() {
                Some(copy) => take(model, world, n, message, &copy, Source::Copy),
                None => fresh(model, world, n, message),
            }
        }
        Move::Acknowledge => acknowledge(world, n),
        Move::Crash => crash(world, n),
        Move::Write | Move::Send | Move::SendOneAndCrash | Move::Confirm => {
            let Some((message, pass)) = world.schedulers[n].doing.take() else {
                return;
            };
            if it == Move::SendOneAndCrash {
                if let Task::Publish(wave) = pass.task() {
                    model.send(world, &wave[0]);
                }
                return crash(world, n);
            }
            let pass = model.carry_out(world, (*pass).clone());
            goes_on(model, world, n, message, pass);
        }
    }
}

fn crash(world: &mut World, n: usize) {
    world.crashes -= 1;
    world.schedulers[n] = Scheduler::default();
}

fn fresh(model: &Installation, world: &mut World, n: usize, message: Canonical<SchedulerMessage>) {
    let record = world.record.clone();
    take(model, world, n, message, &record, Source::Record);
}

fn take(
    model: &Installation,
    world: &mut World,
    n: usize,
    message: Canonical<SchedulerMessage>,
    order: &Canonical<Order>,
    source: Source,
) {
    let now = model.clock(world, n);
    let mut pass = Pass::new(WriterOrder::InLine, u32::MAX);
    let event = event(&message, order, n);
    pass.decide(model.snapshot(order), source, event, model.timing, now);
    if let Task::Write { next, .. } = pass.task()
        && is_taken_for_another(&message, order, next)
    {
        world.breach = Some("a step is ended by the reply to its own attempt");
    }
    goes_on(model, world, n, message, pass);
}

/// The state after a task of the pass.
fn goes_on(
    model: &Installation,
    world: &mut World,
    n: usize,
    message: Canonical<SchedulerMessage>,
    pass: Pass,
) {
    let own = &mut world.schedulers[n];
    match pass.task() {
        Task::Read => {
            own.copy = None;
            fresh(model, world, n, message);
        }
        Task::Ended(PassEnd::Illegal(_)) => world.breach = Some("an-event-is-legal"),
        Task::Ended(PassEnd::Done(carried)) => {
            if carried.was_written {
                own.copy = carried
                    .copy
                    .as_ref()
                    .map(|order| Canonical::order((**order).clone()));
            }
            handled(world, n);
        }
        Task::Ended(_) => handled(world, n),
        Task::Write { .. } => own.doing = Some((message, Canonical::pass(pass))),
        // The write makes the old copy outdated, and the new record may have unsent messages, so no copy is kept yet.
        Task::Publish(_) | Task::Confirm { .. } => {
            own.copy = None;
            own.doing = Some((message, Canonical::pass(pass)));
        }
        Task::ReadDetails => unreachable!("the model has the details"),
    }
}

/// Whether a reply changes a step that waits for the reply to a different attempt.
fn is_taken_for_another(message: &SchedulerMessage, before: &Order, after: &Order) -> bool {
    let SchedulerMessage::Reply(reply) = message else {
        return false;
    };
    let steps = before.steps.iter().zip(&after.steps);
    steps
        .filter(|(was, is)| was.step == reply.step && was.state != is.state)
        .any(|(was, _)| {
            let out = was.state.out();
            out.is_none_or(|out| (out.direction, out.attempt) != (reply.direction, reply.attempt))
        })
}

/// The event of a message. Its claim id is unique, because a Scheduler claims a version at most once.
fn event(message: &SchedulerMessage, order: &Order, n: usize) -> Event {
    match message {
        SchedulerMessage::Accepted(_) | SchedulerMessage::Wake(_) => Event::Claim(
            ClaimId(format!("s{n}-{}", order.version)),
            triad_core::CallbackSecret([1, 2]),
        ),
        SchedulerMessage::Reply(reply) => Event::Reply(reply.clone()),
        SchedulerMessage::ChildEnded(_) | SchedulerMessage::Child(_) => {
            unreachable!("the model's workflows run no orders")
        }
    }
}

/// Ends the handling of a message. A Scheduler that has lost the partition meanwhile does not acknowledge it.
fn handled(world: &mut World, n: usize) {
    if world.owner == n {
        world.schedulers[n].handled = true;
    }
}

/// Removes the message from the topic.
fn acknowledge(world: &mut World, n: usize) {
    world.schedulers[n].handled = false;
    world.line.remove(0);
}

/// Assigns the partition to the other Scheduler, which begins after the last acknowledged message. The Scheduler that
/// has lost it does not notice, and finishes its work in hand.
///
/// # Panics
/// If no rebalance is left in [`World::rebalances`].
pub fn rebalance(world: &mut World) {
    world.rebalances -= 1;
    world.schedulers[world.owner].handled = false;
    world.owner = (world.owner + 1) % world.schedulers.len();
}
