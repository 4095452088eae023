//! The agent and its calls. A call is answered in time or late, is refused, loses its answer, or gets none; a call
//! that the agent has given up may still arrive.

use triad_core::agent::{Budget, Span, budget};
use triad_core::message::{Reply, ReplyOutcome, SchedulerMessage, StepRequest};
use triad_core::{Failure, FailureKind};

use crate::canonical::Canonical;
use crate::processes::{Agent, CallEnd};
use crate::service::{self, Answer};
use crate::world::{Installation, World};

/// What can happen next with the agent and its calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Move {
    /// The agent takes the first request. It calls the service, ignores the request if a reply would be too late, or
    /// reports that the attempt timed out.
    Take,
    /// The call arrives at the service and is answered.
    Arrive,
    /// The call arrives and is refused for good, unless its effect happened before. Counts as a
    /// fault.
    Refuse,
    /// The call arrives, and its answer is lost. Counts as a fault.
    Lose,
    /// The agent gets no answer in time: it gives up the call and will report a failure. The call may still arrive.
    /// Counts as a fault.
    GiveUp,
    /// The agent sends its reply and acknowledges the request.
    Answer,
    /// The agent sends its reply and dies before it acknowledges the request, which is then delivered again.
    AnswerAndCrash,
    /// The oldest of the given-up calls arrives.
    ArriveLate,
    /// The agent dies. A call that it has made may still arrive.
    Crash,
}

/// The possible next moves of the agent and its calls.
pub fn moves(world: &World) -> impl Iterator<Item = Move> + use<> {
    let faulty = world.faults > 0;
    let mut moves = Vec::new();
    match &world.agent {
        Agent::Idle if !world.requests.is_empty() => moves.push(Move::Take),
        Agent::Idle => {}
        Agent::Calling(_) => {
            moves.push(Move::Arrive);
            if faulty {
                moves.extend([Move::Refuse, Move::Lose, Move::GiveUp]);
            }
        }
        Agent::Answering(..) => {
            moves.push(Move::Answer);
            if world.crashes > 0 {
                moves.push(Move::AnswerAndCrash);
            }
        }
    }
    if !world.late_calls.is_empty() {
        moves.push(Move::ArriveLate);
    }
    if world.agent != Agent::Idle && world.crashes > 0 {
        moves.push(Move::Crash);
    }
    moves.into_iter()
}

/// Applies one of the [`moves`] to the state.
///
/// # Panics
/// If the state does not allow the move, where that is detected.
pub fn act(model: &Installation, world: &mut World, it: Move) {
    let agent = std::mem::take(&mut world.agent);
    world.agent = match (it, agent) {
        (Move::Take, _) => {
            let request = world.requests[0].clone();
            let now = model.clock(world, 0);
            let skew = model.timing.skew;
            let span = Span::of(&request, skew, now);
            match budget(0, request.allowance, span, now) {
                Budget::Call(_) => Agent::Calling(request),
                Budget::OutOfTime => acknowledge(world),
                Budget::TimedOut => Agent::Answering(request, CallEnd::Lost),
                Budget::OutOfCalls => Agent::Answering(request, CallEnd::Lost),
            }
        }
        (Move::Arrive, Agent::Calling(request)) => {
            let end = ended(service::call(&mut world.effects, &request));
            Agent::Answering(request, end)
        }
        (Move::Refuse, Agent::Calling(request)) => {
            world.faults -= 1;
            let end = ended(service::refuse(&mut world.effects, &request));
            Agent::Answering(request, end)
        }
        (Move::Lose, Agent::Calling(request)) => {
            world.faults -= 1;
            service::call(&mut world.effects, &request);
            Agent::Answering(request, CallEnd::Lost)
        }
        (Move::GiveUp, Agent::Calling(request)) => {
            world.faults -= 1;
            world.late_calls.push(request.clone());
            Agent::Answering(request, CallEnd::Lost)
        }
        (Move::Answer, Agent::Answering(request, end)) => {
            answer(world, &request, end);
            acknowledge(world)
        }
        (Move::AnswerAndCrash, Agent::Answering(request, end)) => {
            world.crashes -= 1;
            answer(world, &request, end);
            Agent::Idle
        }
        (Move::ArriveLate, agent) => {
            let request = world.late_calls.remove(0);
            service::call(&mut world.effects, &request);
            agent
        }
        (Move::Crash, agent) => {
            world.crashes -= 1;
            if let Agent::Calling(request) = agent {
                world.late_calls.push(request);
            }
            Agent::Idle
        }
        (_, agent) => agent,
    };
}

fn answer(world: &mut World, request: &StepRequest, end: CallEnd) {
    let reply = SchedulerMessage::Reply(reply(request, end));
    world.line.push(Canonical::message(reply));
}

fn acknowledge(world: &mut World) -> Agent {
    world.requests.remove(0);
    Agent::Idle
}

fn ended(answer: Answer) -> CallEnd {
    match answer {
        Answer::Done => CallEnd::Done,
        Answer::Refused => CallEnd::Refused,
    }
}

fn reply(request: &StepRequest, end: CallEnd) -> Reply {
    let failed = |kind, maybe_applied| ReplyOutcome::Failed {
        failure: Failure::new(kind, "fault", "a fault of the model"),
        maybe_applied,
    };
    Reply {
        order_id: request.order_id.clone(),
        step: request.step.clone(),
        direction: request.direction,
        attempt: request.attempt,
        complete_by: request.complete_by,
        calls: 1,
        sent_at: None,
        pace: None,
        outcome: match end {
            CallEnd::Done => ReplyOutcome::Succeeded {
                output: serde_json::Value::Null,
            },
            CallEnd::Refused => failed(FailureKind::Permanent, false),
            CallEnd::Lost => failed(FailureKind::Transient, true),
        },
    }
}
