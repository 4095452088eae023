//! The effect and the answer of a call when it arrives at a service.

use serde_json::json;
use triad_core::Direction;
use triad_reference_service::book::LedgerLine;
use triad_reference_service::contract::{self, Answer, CallHead, Cause, Kind};
use triad_reference_service::{Decision, Mishap};

use super::{Arriving, RemoteState};
use crate::definitions::ONCE;
use crate::kernel::{Kernel, OUTSIDE};

pub(super) fn refuse(code: &'static str) -> (Kind, Option<Cause>, Answer) {
    let answer = Answer::Error {
        status: 422,
        code,
        message: "",
        retry_after_s: None,
    };
    (Kind::Refused, Some(Cause::Declined), answer)
}

pub(super) fn fail(status: u16, code: &'static str) -> Answer {
    Answer::Error {
        status,
        code,
        message: "",
        retry_after_s: None,
    }
}

impl RemoteState {
    /// Whether the service refuses the call for good. That depends only on the key, or on the order's step, so it is
    /// the same whenever the call arrives.
    fn declines(k: &mut Kernel, call: &Arriving) -> bool {
        let (kind, permille) = match call.direction {
            Direction::Forward => ("fault: remote declined", k.faults.decline),
            Direction::Compensate => (
                "fault: compensation declined",
                k.faults.decline_compensation,
            ),
            Direction::Probe => return false,
        };
        let of = match k.faults.decline_again {
            true => format!("{}/{}", call.order, call.step),
            false => call.key.clone(),
        };
        let hash = of.bytes().fold(17_u64, |h, b| {
            (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3)
        });
        let declined = (hash >> 20) % 1_000 < u64::from(permille);
        if declined {
            k.coverage.reach(kind);
        }
        declined
    }

    /// A call arrives: its effect happens, and it is answered.
    pub(crate) fn land(
        &mut self,
        k: &mut Kernel,
        call: &Arriving,
        mishap: Mishap,
    ) -> (Kind, Answer) {
        if call.direction == Direction::Forward
            && let Some(n) = self.under_way.get_mut(&call.key)
        {
            *n = n.saturating_sub(1);
        }
        let declined = Self::declines(k, call);
        let later = match declined {
            true => None,
            false => self.take_later(k, call, mishap),
        };
        let (kind, cause, answer) = match later {
            Some(later) => later,
            None if call.service == ONCE => self.land_once(k, call, mishap, declined),
            None => self.land_by_contract(k, call, mishap, declined),
        };
        if kind == Kind::Tombstoned {
            k.coverage.reach("saw: tombstone before its forward call");
        }
        if kind == Kind::Refused && cause == Some(Cause::Compensated) {
            k.coverage
                .reach("saw: forward call refused after its compensation");
        }
        k.note(OUTSIDE, || {
            let Arriving { service, key, .. } = call;
            format!("{service}: {key} {} {kind:?} {cause:?}", call.direction)
        });
        if kind == Kind::Applied {
            let applied = self.applied.entry(call.order.clone()).or_default();
            applied.push(call.step.clone());
        }
        (kind, answer)
    }

    pub(super) fn land_by_contract(
        &mut self,
        k: &Kernel,
        call: &Arriving,
        mishap: Mishap,
        declined: bool,
    ) -> (Kind, Option<Cause>, Answer) {
        let direction = match call.direction {
            Direction::Forward => contract::Direction::Forward,
            Direction::Compensate => contract::Direction::Compensate,
            // The idempotent services offer no probe.
            Direction::Probe => return refuse("no-such-action"),
        };
        let call = contract::Call {
            head: CallHead {
                service: call.service.to_owned(),
                action: call.action.clone(),
                order: call.order.to_string(),
                step: call.step.clone(),
                direction,
                attempt: call.attempt,
                key: call.key.clone(),
                compensates: call.compensates.clone(),
            },
            input: call.input.clone(),
        };
        let number = self.book.arrive(&call.head).unwrap_or(u32::MAX);
        let decision = Decision {
            wait_ms: 0,
            permanent: declined,
            mishap,
            retry_after_s: None,
        };
        let judged = contract::judge(&self.book, &call, &decision);
        let fingerprint = call.fingerprint();
        self.book.apply(&LedgerLine {
            at_ms: i64::try_from(k.now).unwrap_or(i64::MAX),
            head: call.head,
            fingerprint,
            call: number,
            kind: judged.kind,
            cause: judged.cause,
        });
        (judged.kind, judged.cause, judged.answer)
    }

    /// A call of the service that applies an effect for every call.
    fn land_once(
        &mut self,
        k: &mut Kernel,
        call: &Arriving,
        mishap: Mishap,
        declined: bool,
    ) -> (Kind, Option<Cause>, Answer) {
        match mishap {
            Mishap::Down => return (Kind::Fault, Some(Cause::Down), fail(503, "down")),
            Mishap::CallerRefused => {
                return (
                    Kind::Fault,
                    Some(Cause::CallerRefused),
                    fail(401, "unauthorised"),
                );
            }
            Mishap::Transient {
                status,
                after_effect: false,
            } => return (Kind::Fault, Some(Cause::Transient), fail(status, "before")),
            _ => {}
        }
        if call.direction == Direction::Probe {
            return self.answer_probe(k, call);
        }
        if declined {
            return refuse("declined");
        }
        let output = json!({"reference": format!("mail-{}", call.key), "action": call.action});
        let kind = if call.direction == Direction::Forward {
            let once = self.once.entry(call.key.clone()).or_default();
            once.applied += 1;
            once.output = output.clone();
            let n = once.applied;
            k.check("g2-what-may-not-be-repeated-is-not", n <= 1, || {
                format!("{} was applied {n} times", call.key)
            });
            Kind::Applied
        } else {
            let forward = call.compensates.clone().unwrap_or_default();
            let first = self.compensations.insert(call.key.clone());
            let once = self.once.entry(forward).or_default();
            let reverses = first && once.applied > once.compensated;
            if reverses {
                once.compensated += 1;
            }
            match (first, reverses) {
                (_, true) => Kind::Compensated,
                (true, false) => Kind::Tombstoned,
                (false, false) => Kind::Replayed,
            }
        };
        match mishap {
            Mishap::Transient { status, .. } => {
                (kind, Some(Cause::LostAnswer), fail(status, "after"))
            }
            Mishap::Garbage { .. } => (kind, Some(Cause::Garbage), Answer::Garbage),
            _ => (kind, None, Answer::Output(output)),
        }
    }

    /// Answers a probe. While a call with this key is under way, neither "yes" nor "no" is answered, because "no"
    /// must stay true.
    fn answer_probe(&mut self, k: &mut Kernel, call: &Arriving) -> (Kind, Option<Cause>, Answer) {
        let under_way = self.under_way.get(&call.key).copied().unwrap_or(0);
        if under_way > 0 {
            k.coverage.reach("saw: probe while its call is under way");
            return (Kind::Fault, Some(Cause::Transient), fail(503, "under-way"));
        }
        let answer = match self.truth(&call.key) {
            Some(output) => {
                k.coverage.reach("saw: probe says applied");
                json!({"applied": true, "output": output})
            }
            None => {
                k.coverage.reach("saw: probe says not applied");
                json!({"applied": false})
            }
        };
        (Kind::Replayed, None, Answer::Output(answer))
    }
}
