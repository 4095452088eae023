//! A Supervisor: finds the order in the due index, decides, writes, sends, confirms.

use triad_core::outbox::Messages;
use triad_core::plan::{Verdict, verdict};
use triad_core::{Decision, Envelope, Event, Order, Timestamp, Untaken, Version, decide, topics};

use crate::canonical::Canonical;
use crate::world::{Installation, World};

/// A Supervisor's state.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Supervisor {
    doing: Doing,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
enum Doing {
    #[default]
    Nothing,
    /// Decided; about to write.
    Writing {
        before: Canonical<Order>,
        next: Canonical<Order>,
    },
    /// About to send statuses and alerts, or after them what lets the Scheduler go on.
    Sending {
        order: Canonical<Order>,
        wave: usize,
    },
    /// All sent; about to confirm a finished order.
    Confirming { order: Canonical<Order> },
}

impl Supervisor {
    /// The version on which it has decided a write.
    pub fn writes_on(&self) -> Option<Version> {
        match &self.doing {
            Doing::Writing { before, .. } => Some(before.version),
            _ => None,
        }
    }
}

/// What a Supervisor can do next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Move {
    /// Sweep: read the record and decide.
    Sweep,
    /// Write, or leave it where somebody was faster.
    Write,
    /// Send the next wave.
    Send,
    /// Confirm a finished order.
    Confirm,
    /// Die.
    Crash,
}

pub fn moves(model: &Installation, world: &World, n: usize) -> impl Iterator<Item = Move> + use<> {
    let works = match world.supervisors[n].doing {
        Doing::Nothing => finds(model, world, n).map(|_| Move::Sweep),
        Doing::Writing { .. } => Some(Move::Write),
        Doing::Sending { .. } => Some(Move::Send),
        Doing::Confirming { .. } => Some(Move::Confirm),
    };
    let busy = world.supervisors[n].doing != Doing::Nothing;
    let dies = (world.crashes > 0 && busy).then_some(Move::Crash);
    works.into_iter().chain(dies)
}

/// What a sweep would come to, if the due index has the order and something is to be done.
fn finds(model: &Installation, world: &World, n: usize) -> Option<Doing> {
    let now = model.clock(world, n);
    let order = &world.record;
    order
        .due
        .filter(|due| *due <= now.minus(model.timing.skew))?;
    match verdict(order, Untaken::new(), &model.workflow, model.timing, now) {
        Verdict::Write(next) => Some(Doing::Writing {
            before: order.clone(),
            next: Canonical::order(*next),
        }),
        Verdict::Resend => Some(settle(
            model,
            Doing::Sending {
                order: order.clone(),
                wave: 0,
            },
        )),
        Verdict::Leave(_) | Verdict::Unsound(_) => None,
    }
}

pub fn act(model: &Installation, world: &mut World, n: usize, it: Move) {
    let doing = std::mem::take(&mut world.supervisors[n].doing);
    let next = match (it, doing) {
        (Move::Sweep, _) => finds(model, world, n).map(|found| {
            if acts_too_early(world, &found) {
                world.breach = Some("an attempt is given up after its complete-by on every clock");
            }
            settle(model, found)
        }),
        (Move::Write, Doing::Writing { before, next }) => {
            let written = model.write(world, &before, &next);
            // A record that was only moved in the index has nothing new to say.
            let says = before.state != next.state || before.outbox != next.outbox;
            (written && says).then(|| {
                settle(
                    model,
                    Doing::Sending {
                        order: next,
                        wave: 0,
                    },
                )
            })
        }
        (Move::Send, Doing::Sending { order, wave }) => {
            for message in &outgoing(model, &order)[wave] {
                model.send(world, message);
            }
            let wave = wave + 1;
            Some(settle(model, Doing::Sending { order, wave }))
        }
        (Move::Confirm, Doing::Confirming { order }) => {
            confirm(model, world, &order, model.clock(world, n));
            None
        }
        (Move::Crash, _) => {
            world.crashes -= 1;
            None
        }
        (_, doing) => Some(doing),
    };
    world.supervisors[n].doing = next.unwrap_or_default();
}

/// Whether an attempt is met as over, or given up, that the slowest clock still gives time.
fn acts_too_early(world: &World, found: &Doing) -> bool {
    let Doing::Writing { before, next } = found else {
        return false;
    };
    let steps = before.steps.iter().zip(&next.steps);
    steps
        .filter(|(was, is)| was.state != is.state || was.unheard_since != is.unheard_since)
        .any(|(was, _)| was.state.complete_by().is_some_and(|at| at.0 > world.now))
}

/// Goes on to the next wave that has anything to send, or to what follows the last.
fn settle(model: &Installation, doing: Doing) -> Doing {
    let Doing::Sending { order, wave } = doing else {
        return doing;
    };
    let waves = outgoing(model, &order);
    match (wave..waves.len()).find(|&w| !waves[w].is_empty()) {
        Some(wave) => Doing::Sending { order, wave },
        None if order.state.is_finished() => Doing::Confirming { order },
        None => Doing::Nothing,
    }
}

/// What is sent, in two waves. Requests belong to the Scheduler's line of events: never sent
/// from here.
fn outgoing(model: &Installation, order: &Order) -> [Vec<Envelope>; 2] {
    let Messages { first, mut then } = model.messages(order);
    then.retain(|m| topics::is_scheduler(&m.topic));
    [first, then]
}

/// Writes down that all messages of a finished order are out; losing the race is harmless.
pub fn confirm(model: &Installation, world: &mut World, order: &Order, now: Timestamp) {
    let decision = decide(&model.context(), order, Event::Confirmed, now);
    if let Ok(Decision::Transition(next)) = decision {
        model.write(world, order, &Canonical::order(*next));
    }
}
