//! A Scheduler: takes a message of the order's line, decides on a copy or on the record, writes,
//! sends, acknowledges. It may stop for any time, or die, between any two of these.

use std::sync::Arc;

use triad_core::message::SchedulerMessage;
use triad_core::{
    ClaimId, Decision, Direction, Envelope, Event, Order, StepState, Version, decide,
};

use crate::canonical::Canonical;
use crate::world::{Installation, World, in_order};

/// A Scheduler's state.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Scheduler {
    /// It has handled the first message of the line and not acknowledged it.
    handled: bool,
    /// A copy of the record as it last wrote it, with everything sent.
    copy: Option<Canonical<Order>>,
    doing: Doing,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
enum Doing {
    #[default]
    Nothing,
    /// Decided; about to write.
    Writing {
        message: Canonical<SchedulerMessage>,
        before: Canonical<Order>,
        next: Canonical<Order>,
    },
    /// Written; about to send.
    Sending {
        order: Canonical<Order>,
        keeps: bool,
    },
    /// All sent; about to confirm a finished order.
    Confirming { order: Canonical<Order> },
}

impl Scheduler {
    /// The version on which it has decided a write.
    pub fn writes_on(&self) -> Option<Version> {
        match &self.doing {
            Doing::Writing { before, .. } => Some(before.version),
            _ => None,
        }
    }
}

/// What a Scheduler can do next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Move {
    /// Take the next message, read and decide.
    Take,
    /// Write, or decide again where somebody was faster.
    Write,
    /// Send what the record says.
    Send,
    /// Send the first of it and die.
    SendOneAndCrash,
    /// Confirm a finished order.
    Confirm,
    /// Acknowledge the message.
    Acknowledge,
    /// Die.
    Crash,
}

pub fn moves(world: &World, n: usize) -> impl Iterator<Item = Move> + use<> {
    let own = &world.schedulers[n];
    let works = match own.doing {
        Doing::Nothing if own.handled => Some(Move::Acknowledge),
        Doing::Nothing => (world.owner == n && !world.line.is_empty()).then_some(Move::Take),
        Doing::Writing { .. } => Some(Move::Write),
        Doing::Sending { .. } => Some(Move::Send),
        Doing::Confirming { .. } => Some(Move::Confirm),
    };
    let forgets = *own != Scheduler::default();
    let dies = world.crashes > 0 && forgets;
    let torn = dies && matches!(own.doing, Doing::Sending { .. });
    works
        .into_iter()
        .chain(dies.then_some(Move::Crash))
        .chain(torn.then_some(Move::SendOneAndCrash))
}

pub fn act(model: &Installation, world: &mut World, n: usize, it: Move) {
    match it {
        Move::Take => {
            let message = world.line[0].clone();
            match world.schedulers[n].copy.clone() {
                Some(copy) => take(model, world, n, message, &copy, false),
                None => fresh(model, world, n, message),
            }
        }
        Move::Write => write(model, world, n),
        Move::Send => {
            if let Doing::Sending { order, keeps } = world.schedulers[n].doing.clone() {
                for message in &*outgoing(model, &order) {
                    model.send(world, message);
                }
                sent(world, n, order, keeps);
            }
        }
        Move::SendOneAndCrash => {
            if let Doing::Sending { order, .. } = &world.schedulers[n].doing {
                let first = outgoing(model, order)[0].clone();
                model.send(world, &first);
            }
            crash(world, n);
        }
        Move::Confirm => confirm(model, world, n),
        Move::Acknowledge => acknowledge(world, n),
        Move::Crash => crash(world, n),
    }
}

fn crash(world: &mut World, n: usize) {
    world.crashes -= 1;
    world.schedulers[n] = Scheduler::default();
}

fn fresh(model: &Installation, world: &mut World, n: usize, message: Canonical<SchedulerMessage>) {
    let record = world.record.clone();
    take(model, world, n, message, &record, true);
}

fn take(
    model: &Installation,
    world: &mut World,
    n: usize,
    message: Canonical<SchedulerMessage>,
    order: &Canonical<Order>,
    is_fresh: bool,
) {
    let now = model.clock(world, n);
    let decision = decide(&model.context(), order, event(&message, order, n), now);
    match decision {
        Ok(Decision::Transition(next)) => {
            if is_taken_for_another(&message, order, &next) {
                world.breach = Some("a step is ended by the reply to its own attempt");
            }
            world.schedulers[n].doing = Doing::Writing {
                message,
                before: order.clone(),
                next: Canonical::order(*next),
            };
        }
        // Nothing is left undone on the word of a copy.
        _ if !is_fresh => {
            world.schedulers[n].copy = None;
            fresh(model, world, n, message);
        }
        Ok(Decision::Repeat) => sending(model, world, n, order.clone(), false),
        Ok(Decision::Ignore(_) | Decision::Refuse(_)) => handled(world, n),
        Err(_) => world.breach = Some("an-event-is-legal"),
    }
}

/// Whether a reply changes a step that waits for the reply to another attempt.
fn is_taken_for_another(message: &SchedulerMessage, before: &Order, after: &Order) -> bool {
    let SchedulerMessage::Reply(reply) = message else {
        return false;
    };
    let steps = before.steps.iter().zip(&after.steps);
    steps
        .filter(|(was, is)| was.step == reply.step && was.state != is.state)
        .any(|(was, _)| match (&was.state, reply.direction) {
            (StepState::Undoing { attempt, .. }, Direction::Undo) => *attempt != reply.attempt,
            (state, Direction::Forward) => state.attempt() != Some(reply.attempt),
            _ => true,
        })
}

/// Claim ids are unique to the claiming: a Scheduler claims one version at most once.
fn event(message: &SchedulerMessage, order: &Order, n: usize) -> Event {
    match message {
        SchedulerMessage::Accepted(_) | SchedulerMessage::Retry(_) => {
            Event::Claim(ClaimId(format!("s{n}-{}", order.version)))
        }
        SchedulerMessage::Reply(reply) => Event::Reply(reply.clone()),
    }
}

fn write(model: &Installation, world: &mut World, n: usize) {
    let doing = std::mem::take(&mut world.schedulers[n].doing);
    let Doing::Writing {
        message,
        before,
        next,
    } = doing
    else {
        return;
    };
    world.schedulers[n].copy = None;
    if model.write(world, &before, &next) {
        sending(model, world, n, next, true);
    } else {
        fresh(model, world, n, message);
    }
}

fn outgoing(model: &Installation, order: &Order) -> Arc<[Envelope]> {
    in_order(model.messages(order))
}

fn sending(
    model: &Installation,
    world: &mut World,
    n: usize,
    order: Canonical<Order>,
    keeps: bool,
) {
    if outgoing(model, &order).is_empty() {
        sent(world, n, order, keeps);
    } else {
        world.schedulers[n].doing = Doing::Sending { order, keeps };
    }
}

/// Everything is acknowledged by the bus.
fn sent(world: &mut World, n: usize, order: Canonical<Order>, keeps: bool) {
    let own = &mut world.schedulers[n];
    let finished = order.state.is_finished();
    if finished && order.due.is_some() {
        own.doing = Doing::Confirming { order };
        return;
    }
    if keeps && !finished {
        let mut copy = (*order).clone();
        copy.outbox = copy.outbox.settled();
        own.copy = Some(Canonical::order(copy));
    }
    own.doing = Doing::Nothing;
    handled(world, n);
}

fn confirm(model: &Installation, world: &mut World, n: usize) {
    let Doing::Confirming { order } = std::mem::take(&mut world.schedulers[n].doing) else {
        return;
    };
    crate::supervisor::confirm(model, world, &order, model.clock(world, n));
    handled(world, n);
}

/// A message is done with. Who has lost the partition in the meantime has no say in what is
/// acknowledged.
fn handled(world: &mut World, n: usize) {
    if world.owner == n {
        world.schedulers[n].handled = true;
    }
}

/// The line forgets the message.
fn acknowledge(world: &mut World, n: usize) {
    world.schedulers[n].handled = false;
    world.line.remove(0);
}

/// Another Scheduler gets the partition, and begins after what is acknowledged; the one before
/// knows nothing of it and finishes what it has in hand.
pub fn rebalance(world: &mut World) {
    world.rebalances -= 1;
    world.schedulers[world.owner].handled = false;
    world.owner = (world.owner + 1) % world.schedulers.len();
}
