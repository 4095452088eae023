//! The stored form of a step's record: one flat JSON object with the state's name, the state's fields and the
//! record's own fields. The names are older than the types in memory, and stay.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use triad_workflow::StepId;

use super::{Applied, Doubt, Leg, Out, StepRecord, StepState, Work};
use crate::children::Children;
use crate::failure::Failure;
use crate::ids::{Attempt, Direction, Timestamp};
use crate::later::{CallbackToken, InProgress};
use crate::output::{Output, OutputDigest};

/// The stored form. Absent: zero, false, null, or not part of the state.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct StoredStep {
    step: String,
    #[serde(flatten)]
    state: StoredState,
    #[serde(skip_serializing_if = "is_zero")]
    failures: u32,
    #[serde(skip_serializing_if = "is_zero")]
    compensation_failures: u32,
    #[serde(skip_serializing_if = "is_zero")]
    calls: u32,
    #[serde(skip_serializing_if = "is_zero")]
    compensation_calls: u32,
    /// Absent: as many as `calls`.
    #[serde(skip_serializing_if = "Option::is_none")]
    calls_made: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    compensation_calls_made: Option<u32>,
    #[serde(skip_serializing_if = "is_zero")]
    calls_unreported: u32,
    #[serde(skip_serializing_if = "is_zero")]
    compensation_calls_unreported: u32,
    /// Absent in a record of an earlier version: then all calls count as this run's.
    #[serde(skip_serializing_if = "is_zero")]
    calls_before: u32,
    #[serde(skip_serializing_if = "is_zero")]
    compensation_calls_before: u32,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    failures_by_code: BTreeMap<String, u32>,
    #[serde(skip_serializing_if = "is_zero")]
    key: u32,
    #[serde(skip_serializing_if = "is_zero")]
    earlier: u32,
    #[serde(skip_serializing_if = "is_zero")]
    earlier_compensations: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    in_doubt: Option<Doubt>,
    #[serde(skip_serializing_if = "Option::is_none")]
    callback: Option<CallbackToken>,
    #[serde(skip_serializing_if = "Option::is_none")]
    in_progress: Option<InProgress>,
    #[serde(skip_serializing_if = "Option::is_none")]
    children: Option<Children>,
    #[serde(skip_serializing_if = "Option::is_none")]
    input: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<Failure>,
}

/// A state's name and fields.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct StoredState {
    state: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    attempt: Option<Attempt>,
    #[serde(skip_serializing_if = "Option::is_none")]
    started: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    complete_by: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    until: Option<Timestamp>,
    /// Of a parked step: when its wait ends, if not at `until`.
    #[serde(skip_serializing_if = "Option::is_none")]
    ends: Option<Timestamp>,
    /// Of a parked step: what it waits for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    events: Vec<String>,
    /// Of a parked step: what senders of the events may name in place of the order.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    keys: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    deferred_since: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    unheard_since: Option<Timestamp>,
    /// The record's own `calls` is the sum of all attempts.
    #[serde(skip_serializing_if = "Option::is_none")]
    attempt_calls: Option<u32>,
    /// For a failed attempt: whether it was a probe.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    of_probe: bool,
    /// For a completed step: whether no attempt at the action was answered with success, so that `started` belongs to
    /// no attempt.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    indirect: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    finished: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    position: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output: Option<Value>,
    /// Digest of an output that lies beside the record.
    #[serde(skip_serializing_if = "Option::is_none")]
    output_digest: Option<OutputDigest>,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde hands out references"
)]
fn is_zero(n: &u32) -> bool {
    *n == 0
}

/// The calls that were made, if their number differs from the counted ones.
fn beyond(leg: &Leg) -> Option<u32> {
    (leg.made != leg.calls).then_some(leg.made)
}

/// Why a stored step cannot be read.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unreadable {
    #[error("a step is in an unknown state {0:?}")]
    State(String),
    #[error("a step in state {state:?} has no {field}")]
    Missing { state: String, field: &'static str },
    #[error("a step has no sound id: {0}")]
    Step(String),
}

impl From<StepRecord> for StoredStep {
    fn from(record: StepRecord) -> Self {
        Self {
            step: record.step.to_string(),
            state: record.state.into(),
            failures: record.action.failures,
            compensation_failures: record.compensation.failures,
            calls: record.action.calls,
            compensation_calls: record.compensation.calls,
            calls_made: beyond(&record.action),
            compensation_calls_made: beyond(&record.compensation),
            calls_unreported: record.action.unreported,
            compensation_calls_unreported: record.compensation.unreported,
            calls_before: record.action.before,
            compensation_calls_before: record.compensation.before,
            failures_by_code: record.failures_by_code,
            key: record.key,
            earlier: record.action.earlier,
            earlier_compensations: record.compensation.earlier,
            in_doubt: record.in_doubt,
            callback: record.callback,
            in_progress: record.in_progress,
            children: record.children,
            input: record.input,
            error: record.error,
        }
    }
}

impl TryFrom<StoredStep> for StepRecord {
    type Error = Unreadable;
    fn try_from(stored: StoredStep) -> Result<Self, Unreadable> {
        Ok(Self {
            step: StepId::new(&stored.step).map_err(|e| Unreadable::Step(e.to_string()))?,
            state: stored.state.read()?,
            action: Leg {
                failures: stored.failures,
                calls: stored.calls,
                made: stored.calls_made.unwrap_or(stored.calls),
                unreported: stored.calls_unreported,
                before: stored.calls_before,
                earlier: stored.earlier,
            },
            compensation: Leg {
                failures: stored.compensation_failures,
                calls: stored.compensation_calls,
                made: stored
                    .compensation_calls_made
                    .unwrap_or(stored.compensation_calls),
                unreported: stored.compensation_calls_unreported,
                before: stored.compensation_calls_before,
                earlier: stored.earlier_compensations,
            },
            failures_by_code: stored.failures_by_code,
            key: stored.key,
            in_doubt: stored.in_doubt,
            callback: stored.callback,
            in_progress: stored.in_progress,
            children: stored.children,
            input: stored.input,
            error: stored.error,
        })
    }
}

impl From<StepState> for StoredState {
    fn from(state: StepState) -> Self {
        let named = Self {
            state: state.name().to_owned(),
            ..Self::default()
        };
        match state {
            StepState::Waiting | StepState::Skipped => named,
            StepState::Acting(work) => named.with_work(&work),
            StepState::Refused { attempt } | StepState::Ambiguous { attempt } => Self {
                attempt: Some(attempt),
                ..named
            },
            StepState::Completed {
                attempt,
                started,
                finished,
                position,
                output,
            } => Self {
                attempt: Some(attempt),
                // Earlier versions read it too, and support no other case.
                started: Some(started.unwrap_or(finished)),
                indirect: started.is_none(),
                finished: Some(finished),
                position: Some(position),
                ..named.with_output(output)
            },
            StepState::Compensating { work, applied } => {
                named.with_applied(applied).with_work(&work)
            }
            StepState::NotCompensated { attempt, applied } => Self {
                attempt: Some(attempt),
                ..named.with_applied(applied)
            },
            StepState::Compensated {
                applied,
                attempt,
                started,
                finished,
            } => Self {
                attempt: Some(attempt),
                started,
                finished: Some(finished),
                ..named.with_applied(applied)
            },
        }
    }
}

impl StoredState {
    fn with_work(self, work: &Work) -> Self {
        let worked = Self {
            attempt: Some(work.attempt()),
            deferred_since: work.deferred_since(),
            ..self
        };
        match work {
            Work::Due { .. } => worked,
            Work::Out(out) => Self {
                started: Some(out.started),
                complete_by: Some(out.complete_by),
                unheard_since: out.unheard_since,
                ..worked
            },
            Work::Delayed { until, .. } | Work::Deferred { until, .. } => Self {
                until: Some(*until),
                ..worked
            },
            Work::Parked {
                since,
                until,
                ends,
                events,
                keys,
                ..
            } => Self {
                started: Some(*since),
                until: Some(*until),
                ends: *ends,
                events: events.clone(),
                keys: keys.clone(),
                ..worked
            },
            Work::Failed {
                direction,
                started,
                calls,
                ..
            } => Self {
                of_probe: *direction == Direction::Probe,
                started: Some(*started),
                attempt_calls: Some(*calls),
                ..worked
            },
        }
    }

    fn with_applied(self, applied: Applied) -> Self {
        let named = self.with_output(applied.output);
        Self {
            position: applied.position,
            output: named.output.filter(|output| !output.is_null()),
            ..named
        }
    }

    fn with_output(self, output: Output) -> Self {
        let (output, output_digest) = output.stored();
        Self {
            output,
            output_digest,
            ..self
        }
    }

    fn taken_output(&mut self) -> Output {
        match self.output_digest.take() {
            Some(digest) => Output::unread(digest),
            None => Output::inline(self.output.take().unwrap_or_default()),
        }
    }

    fn read(mut self) -> Result<StepState, Unreadable> {
        let acting = |work: Result<Work, Unreadable>| work.map(StepState::Acting);
        Ok(match self.state.as_str() {
            "waiting" => StepState::Waiting,
            "skipped" => StepState::Skipped,
            "retry-due" => acting(self.due())?,
            "running" => acting(self.out(Direction::Forward))?,
            "probing" => acting(self.out(Direction::Probe))?,
            "delayed" => acting(self.delayed())?,
            "deferred" => acting(self.deferred())?,
            "parked" => acting(self.parked())?,
            "failed" if self.of_probe => acting(self.failed(Direction::Probe))?,
            "failed" => acting(self.failed(Direction::Forward))?,
            "completed" => StepState::Completed {
                attempt: self.attempt()?,
                started: Some(self.needs("started", self.started)?).filter(|_| !self.indirect),
                finished: self.needs("finished", self.finished)?,
                position: self.needs("position", self.position)?,
                output: self.taken_output(),
            },
            "refused" => StepState::Refused {
                attempt: self.attempt()?,
            },
            "ambiguous" => StepState::Ambiguous {
                attempt: self.attempt()?,
            },
            "compensation-due" => self.due().map(|work| self.compensating(work))?,
            "compensating" => self
                .out(Direction::Compensate)
                .map(|work| self.compensating(work))?,
            "compensation-delayed" => self.delayed().map(|work| self.compensating(work))?,
            "compensation-deferred" => self.deferred().map(|work| self.compensating(work))?,
            "compensation-parked" => self.parked().map(|work| self.compensating(work))?,
            "compensation-failed" => self
                .failed(Direction::Compensate)
                .map(|work| self.compensating(work))?,
            "not-compensated" => StepState::NotCompensated {
                attempt: self.attempt()?,
                applied: self.applied(),
            },
            "compensated" => StepState::Compensated {
                applied: self.applied(),
                attempt: self.attempt()?,
                started: self.started,
                finished: self.needs("finished", self.finished)?,
            },
            _ => return Err(Unreadable::State(self.state)),
        })
    }

    fn needs<T>(&self, field: &'static str, value: Option<T>) -> Result<T, Unreadable> {
        value.ok_or_else(|| Unreadable::Missing {
            state: self.state.clone(),
            field,
        })
    }

    fn attempt(&self) -> Result<Attempt, Unreadable> {
        self.needs("attempt", self.attempt)
    }

    fn due(&self) -> Result<Work, Unreadable> {
        Ok(Work::Due {
            last: self.attempt()?,
            deferred_since: self.deferred_since,
        })
    }

    fn out(&self, direction: Direction) -> Result<Work, Unreadable> {
        Ok(Work::Out(Out {
            direction,
            attempt: self.attempt()?,
            started: self.needs("started", self.started)?,
            complete_by: self.needs("complete_by", self.complete_by)?,
            deferred_since: self.deferred_since,
            unheard_since: self.unheard_since,
        }))
    }

    fn delayed(&self) -> Result<Work, Unreadable> {
        Ok(Work::Delayed {
            last: self.attempt()?,
            until: self.needs("until", self.until)?,
            deferred_since: self.deferred_since,
        })
    }

    fn deferred(&self) -> Result<Work, Unreadable> {
        Ok(Work::Deferred {
            attempt: self.attempt()?,
            until: self.needs("until", self.until)?,
            deferred_since: self.needs("deferred_since", self.deferred_since)?,
        })
    }

    fn parked(&self) -> Result<Work, Unreadable> {
        Ok(Work::Parked {
            attempt: self.attempt()?,
            since: self.needs("started", self.started)?,
            until: self.needs("until", self.until)?,
            ends: self.ends,
            events: self.events.clone(),
            keys: self.keys.clone(),
        })
    }

    /// Early versions stored neither the start nor the calls of a failed attempt.
    fn failed(&self, direction: Direction) -> Result<Work, Unreadable> {
        Ok(Work::Failed {
            direction,
            attempt: self.attempt()?,
            started: self.started.unwrap_or_default(),
            calls: self.attempt_calls.unwrap_or(0),
        })
    }

    fn applied(&mut self) -> Applied {
        Applied {
            position: self.position,
            output: self.taken_output(),
        }
    }

    fn compensating(&mut self, work: Work) -> StepState {
        StepState::Compensating {
            work,
            applied: self.applied(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::later::CallbackSecret;

    #[test]
    fn every_state_survives_under_a_name_of_its_own() {
        let attempt = Attempt(2);
        let (started, finished, complete_by, until) =
            (Timestamp(1), Timestamp(2), Timestamp(3), Timestamp(4));
        let applied = Applied {
            position: Some(1),
            output: Value::from("out").into(),
        };
        let deferred_since = Some(Timestamp(9));
        let out = |direction| {
            Work::Out(Out {
                direction,
                attempt,
                started,
                complete_by,
                deferred_since,
                unheard_since: Some(Timestamp(10)),
            })
        };
        let failed = |direction| Work::Failed {
            direction,
            attempt,
            started,
            calls: 7,
        };
        let (due, delayed, deferred) = (
            Work::Due {
                last: attempt,
                deferred_since,
            },
            Work::Delayed {
                last: attempt,
                until,
                deferred_since,
            },
            Work::Deferred {
                attempt,
                until,
                deferred_since: Timestamp(9),
            },
        );
        let compensating = |work| StepState::Compensating {
            work,
            applied: applied.clone(),
        };
        let states = [
            StepState::Waiting,
            StepState::Skipped,
            StepState::Acting(due.clone()),
            StepState::Acting(out(Direction::Forward)),
            StepState::Acting(out(Direction::Probe)),
            StepState::Acting(delayed.clone()),
            StepState::Acting(deferred.clone()),
            StepState::Acting(failed(Direction::Forward)),
            StepState::Completed {
                attempt,
                started: Some(started),
                finished,
                position: 1,
                output: Value::Null.into(),
            },
            StepState::Refused { attempt },
            StepState::Ambiguous { attempt },
            compensating(due),
            compensating(out(Direction::Compensate)),
            compensating(delayed),
            compensating(deferred),
            compensating(failed(Direction::Compensate)),
            StepState::NotCompensated {
                attempt,
                applied: applied.clone(),
            },
            StepState::Compensated {
                applied: applied.clone(),
                attempt,
                started: Some(started),
                finished,
            },
        ];
        let mut names: Vec<&str> = states.iter().map(StepState::name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), states.len());
        let id = StepId::new("a").expect("a name");
        for state in states {
            let record = StepRecord {
                state,
                action: Leg {
                    failures: 1,
                    calls: 3,
                    made: 11,
                    unreported: 12,
                    before: 15,
                    earlier: 6,
                },
                compensation: Leg {
                    failures: 2,
                    calls: 4,
                    made: 13,
                    unreported: 14,
                    before: 16,
                    earlier: 8,
                },
                key: 5,
                in_doubt: Some(Doubt {
                    open_until: Some(Timestamp(11)),
                }),
                callback: Some(CallbackSecret([17, 18]).token(&id)),
                in_progress: Some(InProgress {
                    since: Timestamp(12),
                    until: Timestamp(13),
                    heard: Timestamp(14),
                    asked: 15,
                    output: Value::from("taken"),
                    location: Some("/jobs/1".into()),
                }),
                input: Some(Value::from(8)),
                ..StepRecord::new(id.clone())
            };
            let text = serde_json::to_string(&record).expect("it is JSON");
            let again: StepRecord = serde_json::from_str(&text).expect(&text);
            assert_eq!(again, record);
        }
    }

    #[test]
    fn a_state_that_lacks_what_it_needs_is_refused_by_name() {
        let read = |text| {
            serde_json::from_str::<StepRecord>(text)
                .unwrap_err()
                .to_string()
        };
        assert!(
            read(r#"{"step": "a", "state": "running", "attempt": 1, "started": 5}"#)
                .contains("complete_by")
        );
        assert!(read(r#"{"step": "a", "state": "asleep"}"#).contains("asleep"));
        assert!(read(r#"{"state": "waiting"}"#).contains("id"));
    }
}
