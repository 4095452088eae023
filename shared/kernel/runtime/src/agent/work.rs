//! Work on one request: calls with backoff until there is an answer, no time or no allowance.

use futures::future::{Either, select};
use triad_core::agent::{Budget, Span, backoff, budget};
use triad_core::later::{MAX_LOCATION_BYTES, MAX_TAKEN_BYTES};
use triad_core::message::{MAX_OUTPUT_BYTES, ReplyOutcome, StepRequest, Taking};
use triad_core::{CallbackToken, Direction, Failure, FailureKind, Timestamp, failure};
use triad_workflow::Millis;
use triad_workflow::service::fit;

use super::Agent;
use super::guard::{CallEnd, CallResult, Ports, Wait};
use super::traced::Hop;
use super::usage::{CallOutcome, Counted};
use crate::control::ControlStore;
use crate::metric;
use crate::ports::{Bus, Clock, Entropy};
use crate::remote::{AnyRemote, Call, Fault};

/// Result of the work on a request.
pub(super) enum Worked {
    /// A reply, and the number of calls that it took.
    Answer(u32, ReplyOutcome),
    /// Complete-by has come: no reply is sent.
    Silence,
    /// The process must stop before complete-by: the request must be redelivered.
    Interrupted {
        /// Whether the service was called.
        called: bool,
    },
}

/// Tolerance at the end of a call's time, in milliseconds: a remote service that keeps to its time limit may reach it
/// slightly before the agent does.
const LAST_MOMENT: Millis = Millis(100);

/// Bounds of the random wait while a service works on an earlier call: in the first attempt, and in any.
const IN_PROGRESS: (Millis, Millis) = (Millis(1_000), Millis(60_000));
/// Longest wait that a service may ask for then, inclusive: 1 h.
const MAX_IN_PROGRESS: Millis = Millis(3_600_000);
/// Bytes of a probe's answer beside the output in it.
const AROUND_OUTPUT: usize = 64;

impl Worked {
    /// The result's name in metrics.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Answer(_, ReplyOutcome::Succeeded { .. }) => "succeeded",
            Self::Answer(
                _,
                ReplyOutcome::Failed {
                    maybe_applied: false,
                    ..
                },
            ) => "failed",
            Self::Answer(
                _,
                ReplyOutcome::Failed {
                    maybe_applied: true,
                    ..
                },
            ) => "in_doubt",
            Self::Answer(_, ReplyOutcome::InProgress(_)) => "in_progress",
            Self::Answer(_, ReplyOutcome::Deferred { .. }) => "deferred",
            Self::Silence => "silent",
            Self::Interrupted { .. } => "interrupted",
        }
    }
}

/// Why no further call is made for a request.
enum Ended {
    /// The request's allowance is used up.
    OutOfCalls,
    /// The attempt timeout is over.
    TimedOut,
    /// Complete-by has come.
    Silent,
    /// The process must stop before.
    Interrupted,
}

/// Faults of one request so far.
struct Tries {
    calls: u32,
    maybe_applied: bool,
    last: Failure,
}

/// Result of one call.
enum Called {
    Answered(serde_json::Value),
    Refused {
        code: String,
        message: String,
    },
    Failed(Option<Millis>),
    /// The service works on it, or on an earlier call under the same key.
    InProgress(Taking),
    /// The service does not accept its caller.
    CallerRefused(Failure),
    /// The call was dropped because its time was over.
    Dropped,
}

impl<S: ControlStore, B: Bus, C: Clock, E: Entropy> Agent<S, B, C, E> {
    pub(super) async fn work(
        &self,
        request: &StepRequest,
        span: Span,
        remote: &dyn AnyRemote,
        hop: Hop,
        until: Option<Timestamp>,
    ) -> Worked {
        let mut tries = Tries {
            calls: 0,
            maybe_applied: false,
            last: Failure::new(
                FailureKind::Transient,
                "no-allowance",
                "no call was allowed",
            ),
        };
        let guard = self.guards.get(&request.agent);
        // The loop ends: each iteration makes a call of the allowance, or returns.
        loop {
            let room = match self.room(request, span, tries.calls, until) {
                Ok(room) => room,
                Err(ended) => return tries.ended(ended, self.clock.now()),
            };
            let repeats = tries.calls > 0 || request.repeats;
            let pass = match guard {
                None => None,
                Some(guard) => match guard.enter(self.ports(), request, repeats, room).await {
                    Ok(pass) => Some((guard, pass)),
                    Err(wait) => {
                        self.counted.get(&request.agent).inspect(|c| c.defers());
                        return tries.deferred(wait);
                    }
                },
            };
            // The permission may have taken a while.
            let room = match self.room(request, span, tries.calls, until) {
                Ok(room) => room,
                Err(ended) => {
                    if let Some((guard, pass)) = pass {
                        let order = &request.order_id;
                        guard
                            .leave(self.ports(), order, pass, CallResult::Nothing)
                            .await;
                    }
                    return tries.ended(ended, self.clock.now());
                }
            };
            tries.calls += 1;
            let called = self.call(request, remote, hop, room, &mut tries).await;
            if let Some((guard, pass)) = pass {
                let now = self.clock.now();
                let is_cut_off = self
                    .until(until)
                    .is_some_and(|until| until < span.ends && until.since(now) <= LAST_MOMENT);
                let seen = match (&called, is_cut_off) {
                    // The process set the time limit, so this says nothing about the service.
                    (Called::Failed(_) | Called::Dropped, true) => CallResult::Nothing,
                    _ => call_result(&called, &tries, now >= span.ends),
                };
                let failed_probe = pass.is_probe() && matches!(seen, CallResult::Failed { .. });
                let left = guard
                    .leave(self.ports(), &request.order_id, pass, seen)
                    .await;
                if failed_probe && self.clock.now() < span.silent_from {
                    let wait = guard.after_probe(self.clock.now(), &self.entropy);
                    return tries.deferred(wait);
                }
                match called {
                    Called::CallerRefused(why) if left == CallEnd::Well => {
                        let (now, attempt) = (self.clock.now(), request.attempt);
                        let wait = guard.after_refusal(why, attempt, now, &self.entropy);
                        return tries.deferred(wait);
                    }
                    // No further call of this attempt is allowed, or possible before the attempt ends.
                    Called::Failed(Some(asked))
                        if self.clock.now() < span.silent_from
                            && (tries.calls >= request.allowance
                                || self.clock.now().plus(asked) >= span.ends) =>
                    {
                        let why = tries.last.clone();
                        let wait = guard.after_asked(why, asked, self.clock.now());
                        return tries.deferred(wait);
                    }
                    _ => {}
                }
            }
            let wait = match called {
                Called::Answered(output) => return tries.succeeded(request.direction, output),
                Called::InProgress(taking) if request.callback.is_some() => {
                    return Worked::Answer(tries.calls, ReplyOutcome::InProgress(taking));
                }
                Called::InProgress(taking) => {
                    let wait = self.wait_in_progress(request, taking.ask_after);
                    return tries.deferred(wait);
                }
                Called::Refused { code, message } => return tries.refused(&code, &message),
                Called::CallerRefused(why) => {
                    tries.last = why;
                    return tries.exhausted();
                }
                Called::Failed(retry_after) => {
                    self.wait_before_next(request, tries.calls, retry_after)
                }
                // The next iteration finds the time used up.
                Called::Dropped => continue,
            };
            let ends = self.clock.now().plus(wait);
            if ends >= span.ends {
                return tries.exhausted();
            }
            if self.until(until).is_some_and(|u| ends >= u) {
                return tries.ended(Ended::Interrupted, self.clock.now());
            }
            if tries.calls < request.allowance {
                self.clock.sleep(wait).await;
            }
        }
    }

    /// Time for one more call; otherwise why none is made.
    fn room(
        &self,
        request: &StepRequest,
        span: Span,
        calls: u32,
        until: Option<Timestamp>,
    ) -> Result<Millis, Ended> {
        let now = self.clock.now();
        let left = match budget(calls, request.allowance, span, now) {
            Budget::Call(left) => left,
            Budget::OutOfTime => return Err(Ended::Silent),
            Budget::TimedOut => return Err(Ended::TimedOut),
            Budget::OutOfCalls => return Err(Ended::OutOfCalls),
        };
        match self.until(until).map_or(left, |u| left.min(u.since(now))) {
            Millis(0) => Err(Ended::Interrupted),
            room => Ok(room),
        }
    }

    async fn call(
        &self,
        request: &StepRequest,
        remote: &dyn AnyRemote,
        hop: Hop,
        room: Millis,
        tries: &mut Tries,
    ) -> Called {
        let began = self.clock.now();
        let (span, notes, trace) = self.begins_call(hop, tries.calls, began);
        let call = Call {
            order_id: &request.order_id,
            step: &request.step,
            direction: request.direction,
            idempotency_key: &request.idempotency_key,
            compensates: request.compensates.as_ref(),
            action: &request.action,
            input: &request.input,
            form: request.call.as_deref(),
            repeats: request.repeats || tries.maybe_applied,
            callback: request.callback.as_ref().map(CallbackToken::as_str),
            location: request.location.as_deref(),
            time_left: room,
            attempt: request.attempt.0,
            traceparent: trace.as_deref(),
        };
        let sleep = std::pin::pin!(self.clock.sleep(room));
        let counted = self.counted.get(&request.agent);
        let running = counted.map(Counted::begins);
        let answer = select(remote.call(call, &notes), sleep).await;
        let came = match &answer {
            Either::Left((Ok(_), _)) => CallOutcome::Succeeded,
            Either::Left((Err(Fault::Permanent { .. }), _)) => CallOutcome::Refused,
            Either::Left((Err(Fault::InProgress { .. }), _)) if call.callback.is_some() => {
                CallOutcome::Succeeded
            }
            Either::Left((Err(_), _)) => CallOutcome::Failed,
            Either::Right(_) => CallOutcome::Unanswered,
        };
        let took = self.clock.now().since(began);
        metric::called(&request.agent, came.name(), took);
        if let Some(running) = running {
            running.ends(came, took);
        }
        let failure = match &answer {
            Either::Left((Ok(_), _)) => None,
            Either::Left((Err(fault), _)) => Some(failure::code(fault.code())),
            Either::Right(_) => Some("timeout".to_owned()),
        };
        self.end_call_span(request, tries.calls, span, &notes, failure.as_deref());
        match answer {
            Either::Left((Ok(output), _)) => Called::Answered(output),
            Either::Left((Err(Fault::Permanent { code, message }), _)) => {
                Called::Refused { code, message }
            }
            Either::Left((
                Err(Fault::InProgress {
                    code,
                    message,
                    retry_after,
                    output,
                    location,
                }),
                _,
            )) => {
                tries.maybe_applied = true;
                tries.last = Failure::new(FailureKind::Transient, &code, &message);
                Called::InProgress(Taking {
                    ask_after: retry_after.map(|asked| asked.min(MAX_IN_PROGRESS)),
                    output: fit(output, MAX_TAKEN_BYTES),
                    location: location.filter(|at| at.len() <= MAX_LOCATION_BYTES),
                })
            }
            Either::Left((
                Err(Fault::CallerRefused {
                    code,
                    message,
                    maybe_applied,
                }),
                _,
            )) => {
                tries.maybe_applied |= maybe_applied;
                let why = Failure::new(FailureKind::Transient, &code, &message);
                Called::CallerRefused(why)
            }
            Either::Left((
                Err(Fault::Transient {
                    code,
                    message,
                    retry_after,
                    maybe_applied,
                }),
                _,
            )) => {
                tries.maybe_applied |= maybe_applied;
                tries.last = Failure::new(FailureKind::Transient, &code, &message);
                Called::Failed(retry_after)
            }
            Either::Right(_) => {
                tries.maybe_applied = true;
                Called::Dropped
            }
        }
    }

    fn ports(&self) -> Ports<'_, S, B, C, E> {
        Ports {
            control: &self.control,
            bus: &self.bus,
            clock: &self.clock,
            entropy: &self.entropy,
            misconfigured: &self.misconfigured,
        }
    }

    /// Deferral while the service works on an earlier call: what it asks for, or a wait that grows with each attempt.
    fn wait_in_progress(&self, request: &StepRequest, asked: Option<Millis>) -> Wait {
        let (first, longest) = IN_PROGRESS;
        let grown = backoff(request.attempt.0, first, longest, self.entropy.next_u64());
        let least = Millis(first.0 / 2);
        let wait = asked.map_or(Millis(least.0 + grown.0), |asked| {
            asked.clamp(least, MAX_IN_PROGRESS)
        });
        let text = "the service works on an earlier call under the same key";
        Wait {
            until: self.clock.now().plus(wait),
            opens: None,
            why: Failure::new(FailureKind::Transient, "in-progress", text),
        }
    }

    fn wait_before_next(
        &self,
        request: &StepRequest,
        calls: u32,
        retry_after: Option<Millis>,
    ) -> Millis {
        let (initial, max) = request.backoff();
        let wait = backoff(calls, initial, max, self.entropy.next_u64());
        retry_after.map_or(wait, |asked| asked.max(wait))
    }
}

/// Result of a call for the breaker. A call that was dropped because this process must stop says nothing about the
/// service; a call that used up all its time counts as a failure.
fn call_result(called: &Called, tries: &Tries, out_of_time: bool) -> CallResult {
    match called {
        Called::Answered(_) | Called::Refused { .. } | Called::InProgress(_) => {
            CallResult::Answered
        }
        Called::Failed(retry_after) => CallResult::Failed {
            code: tries.last.code.clone(),
            retry_after: *retry_after,
        },
        Called::CallerRefused(why) => CallResult::CallerRefused {
            code: why.code.clone(),
        },
        Called::Dropped if out_of_time => CallResult::Failed {
            code: "no-answer".to_owned(),
            retry_after: None,
        },
        Called::Dropped => CallResult::Nothing,
    }
}

impl Tries {
    /// The answer of a service that has done the work. An output that is too large or nested too deep loses parts,
    /// and says which: the work is done, whatever its answer looks like.
    fn succeeded(self, direction: Direction, output: serde_json::Value) -> Worked {
        let output = match (direction, output) {
            (Direction::Probe, serde_json::Value::Object(mut answer)) => {
                if let Some(inner) = answer.get_mut("output") {
                    *inner = fit(inner.take(), MAX_OUTPUT_BYTES - AROUND_OUTPUT);
                }
                serde_json::Value::Object(answer)
            }
            (_, output) => output,
        };
        let output = fit(output, MAX_OUTPUT_BYTES);
        Worked::Answer(self.calls, ReplyOutcome::Succeeded { output })
    }

    fn refused(self, code: &str, message: &str) -> Worked {
        let outcome = ReplyOutcome::Failed {
            failure: Failure::new(FailureKind::Permanent, code, message),
            maybe_applied: self.maybe_applied,
        };
        Worked::Answer(self.calls, outcome)
    }

    fn ended(self, how: Ended, now: Timestamp) -> Worked {
        match how {
            Ended::OutOfCalls => self.exhausted(),
            Ended::Silent => Worked::Silence,
            Ended::Interrupted => Worked::Interrupted {
                called: self.calls > 0,
            },
            // The whole time went by while the attempt waited for a call permission.
            Ended::TimedOut if self.calls == 0 => Worked::Answer(0, super::waited_too_long(now)),
            Ended::TimedOut => {
                let text = "no answer within the time of the step";
                let failure = Failure::new(FailureKind::TimedOut, "no-answer", text);
                let outcome = ReplyOutcome::Failed {
                    failure,
                    maybe_applied: self.maybe_applied,
                };
                Worked::Answer(self.calls, outcome)
            }
        }
    }

    fn exhausted(self) -> Worked {
        let outcome = ReplyOutcome::Failed {
            failure: self.last,
            maybe_applied: self.maybe_applied,
        };
        Worked::Answer(self.calls, outcome)
    }

    fn deferred(self, wait: Wait) -> Worked {
        let outcome = ReplyOutcome::Deferred {
            until: wait.until,
            opens: wait.opens,
            failure: wait.why,
            maybe_applied: self.maybe_applied,
        };
        Worked::Answer(self.calls, outcome)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_step_whose_answer_does_not_fit_is_done_and_says_what_is_missing() {
        let deep = (0..65).fold(json!(7), |inner, _| json!([inner]));
        let long = json!("x".repeat(MAX_OUTPUT_BYTES));
        let answers = [
            deep.clone(),
            long.clone(),
            json!({"id": 7, "deep": deep, "long": long}),
        ];
        for (at, answer) in answers.into_iter().enumerate() {
            for direction in [Direction::Forward, Direction::Compensate, Direction::Probe] {
                let tries = Tries {
                    calls: 1,
                    maybe_applied: false,
                    last: Failure::new(FailureKind::Transient, "none", "none"),
                };
                let is_probe = direction == Direction::Probe;
                let answer = match is_probe {
                    true => json!({"applied": true, "output": answer}),
                    false => answer.clone(),
                };
                let Worked::Answer(1, ReplyOutcome::Succeeded { output }) =
                    tries.succeeded(direction, answer)
                else {
                    panic!("{at}: the work is done");
                };
                assert!(output.to_string().len() <= MAX_OUTPUT_BYTES);
                let output = match is_probe {
                    true => {
                        assert_eq!(output["applied"], true);
                        output["output"].clone()
                    }
                    false => output,
                };
                assert!(!output["_left_out"].is_null(), "{output}");
                assert_eq!(output["id"] == 7, at == 2, "what fits is kept");
            }
        }
    }
}
