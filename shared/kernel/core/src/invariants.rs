//! Invariants of every process record and of every write, by name.
//!
//! One list for production (a breach is an error log and a metric), the simulated world and the
//! models (a breach ends the run).

use std::collections::BTreeSet;

use triad_workflow::check::MAX_INSTANCES;
use triad_workflow::{Run, Step, Workflow};

use crate::budget;
use crate::children::ChildState;
use crate::ids::{Attempt, Direction, Timestamp};
use crate::message::AlertKind;
use crate::order::{Incident, IncidentKind, OperatorAct, Order, ProcessState};
use crate::outbox::{Emission, Writer};
use crate::received::{KeptEvent, MAX_KEPT};
use crate::status::Status;
use crate::step::{Leg, StepRecord, StepState, Work};

/// A broken invariant, and where it was seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Breach {
    /// Name of the invariant: one of [`OF_RECORD`] or [`OF_WRITE`], or one that only the simulated world
    /// checks.
    pub invariant: &'static str,
    /// What was seen, for people. Of a record or a write: the order's id, version and state, and the state of
    /// each step, without inputs and outputs.
    pub seen: String,
}

type OfRecord = fn(&Order, &Workflow) -> bool;
type OfWrite = fn(&Order, &Order, &Workflow) -> bool;

/// Every invariant of a single record: its name, and a function of the record and its workflow that is true if the
/// record keeps it. A name that begins with `g` and a digit belongs to a guarantee of the design, such as G1.
pub const OF_RECORD: [(&str, OfRecord); 20] = [
    ("g1-alive-has-a-due-time", |o, _| {
        o.state.is_finished() || o.due.is_some()
    }),
    ("g9-a-claimed-order-awaits-something", |o, _| {
        o.state.locked_by().is_none() || o.steps.iter().any(is_awaited)
    }),
    ("a-finished-order-is-not-held", |o, _| {
        !o.state.is_finished() || o.paused.is_none()
    }),
    ("nothing-of-an-order-that-is-set-aside-has-begun", |o, _| {
        let is_untouched = |s: &StepRecord| matches!(s.state, StepState::Waiting);
        o.set_aside.is_none()
            || matches!(o.state, ProcessState::Pending { .. }) && o.steps.iter().all(is_untouched)
    }),
    ("g3-starts-after-its-predecessors", |o, w| {
        o.steps.iter().enumerate().all(|(i, s)| {
            let untouched = matches!(s.state, StepState::Waiting | StepState::Skipped);
            untouched
                || w.steps[i]
                    .after
                    .iter()
                    .all(|&a| o.steps[a].state.is_done() || was_done(&o.steps[a].state))
        })
    }),
    ("g3-compensates-only-while-compensating", |o, _| {
        let compensates = matches!(
            o.state,
            ProcessState::Compensating { .. }
                | ProcessState::Compensated { .. }
                | ProcessState::CompensationFailed { .. }
        );
        compensates || !o.steps.iter().any(|s| is_in_compensation(&s.state))
    }),
    ("g3-compensated-in-reverse", |o, w| {
        o.steps.iter().enumerate().all(|(i, s)| {
            let begun = match &s.state {
                StepState::Compensating { work, .. } => !matches!(work, Work::Due { .. }),
                StepState::Compensated { .. } => true,
                _ => false,
            };
            let open = |j: usize| o.steps[j].state.to_compensate().is_some();
            !begun || !(i + 1..o.steps.len()).any(|j| open(j) && w.is_after(j, i))
        })
    }),
    ("g5-failures-within-threshold-plus-one", |o, w| {
        o.steps.iter().zip(&w.steps).all(|(r, s)| {
            let most = s
                .compensation
                .as_ref()
                .map_or(0, |c| c.policy.max_attempts());
            r.action.failures <= s.max_attempts() && r.compensation.failures <= most
        })
    }),
    ("g5-calls-within-budget", |o, w| {
        o.steps.iter().zip(&w.steps).all(|(r, s)| {
            let most = s.compensation.as_ref().map_or(0, |c| c.calls_per_run);
            r.action.calls <= s.calls_per_run() && r.compensation.calls <= most
        })
    }),
    ("in-doubt-is-not-repeated", |o, w| {
        o.steps
            .iter()
            .zip(&w.steps)
            .all(|(r, s)| !(r.state.is_running() && is_open(r)) || s.is_safe_to_repeat())
    }),
    ("work-in-progress-is-worked-on", |o, _| {
        o.steps
            .iter()
            .all(|s| s.in_progress.is_none() || matches!(s.state, StepState::Acting(_)))
    }),
    ("a-service-that-may-call-back-has-a-token", |o, w| {
        let asks = |r: &StepRecord| r.state.is_running() || r.in_progress.is_some();
        let mut steps = o.steps.iter().zip(&w.steps);
        // Requests that were out when an order stopped may have been moved to another version since.
        o.state.is_finished()
            || steps.all(|(r, s)| {
                let later = s.call().and_then(|call| call.finishes_later.as_ref());
                !asks(r) || later.is_none() || r.callback.is_some()
            })
    }),
    ("a-probe-asks-about-a-doubt", |o, _| {
        let probes = |s: &StepRecord| {
            s.state
                .out()
                .is_some_and(|out| out.direction == Direction::Probe)
        };
        // Requests that were out when an order stopped may have been resolved since.
        o.state.is_finished() || o.steps.iter().all(|s| !probes(s) || is_open(s))
    }),
    ("finished-orders-are-complete", |o, _| match &o.state {
        ProcessState::Processed { .. } => o.steps.iter().all(StepRecord::is_over),
        ProcessState::Compensated { .. } => !o
            .steps
            .iter()
            .any(|s| s.state.work().is_some() || s.state.to_compensate().is_some()),
        _ => true,
    }),
    ("a-deadline-is-watched", |o, w| {
        let is_watched = matches!(
            o.state,
            ProcessState::Pending { .. } | ProcessState::Processing(_)
        ) && o.run == 0
            && o.late_since.is_none()
            && o.paused.is_none()
            && o.set_aside.is_none()
            && !o.steps.iter().all(|s| s.state.is_done());
        // The order waits for an effect in doubt that may not be repeated.
        let once = |(s, step): (&StepRecord, &Step)| {
            matches!(s.state, StepState::Acting(_)) && !step.is_safe_to_repeat()
        };
        !is_watched
            || o.steps.iter().zip(&w.steps).any(once)
            || o.deadline.is_none_or(|at| o.due <= Some(at))
    }),
    ("late-is-beyond-the-deadline", |o, _| {
        o.late_since
            .is_none_or(|since| o.deadline.is_some_and(|at| since > at))
    }),
    ("events-are-kept-once-and-bounded", |o, _| {
        let is_kept = |e: &&KeptEvent| e.step.is_none();
        let ids: BTreeSet<_> = o.events.iter().map(|e| (&e.event, &e.id)).collect();
        o.events.iter().filter(is_kept).count() <= MAX_KEPT && ids.len() == o.events.len()
    }),
    ("child-orders-end-with-their-step", |o, _| {
        o.steps.iter().all(|s| {
            let Some(children) = &s.children else {
                return true;
            };
            let count = |is: ChildState| children.count(|state| *state == is);
            match &s.state {
                StepState::Completed { .. } => {
                    count(ChildState::Waiting) + count(ChildState::Running) == 0
                }
                StepState::Compensated { .. } => !children.may_have_effect(),
                StepState::Acting(Work::Parked { .. }) => count(ChildState::Running) > 0,
                StepState::Compensating {
                    work: Work::Parked { .. },
                    ..
                } => children.count(ChildState::is_compensating) > 0,
                _ => true,
            }
        })
    }),
    ("child-orders-are-bounded", |o, w| {
        o.steps.iter().zip(&w.steps).all(|(s, step)| {
            let at_once = step.run().map_or(1, Run::at_once);
            s.children.as_ref().is_none_or(|children| {
                let under_way = |is: &ChildState| {
                    matches!(is, ChildState::Running | ChildState::Compensating { .. })
                };
                // Those that ran when the compensation began are compensated with the others.
                children.all.len() <= MAX_INSTANCES && children.count(under_way) <= 2 * at_once
            })
        })
    }),
    ("outbox-is-bounded", |o, w| {
        // The bound allows a status and a request for each step.
        o.outbox.entries.len() <= crate::outbox::MAX_ENTRIES + 2 * w.steps.len() + 12
    }),
];

/// Every invariant that a write has to keep: its name, and a function of the record before the write, the
/// record after it, and the workflow, which is true if the write keeps the invariant.
pub const OF_WRITE: [(&str, OfWrite); 24] = [
    ("version-rises-by-one", |a, b, _| {
        b.version == a.version.next()
    }),
    ("g1-finished-states-stay", |a, b, _| {
        !a.state.is_finished() || a.state == b.state || by_operator(b)
    }),
    ("a-paused-order-starts-nothing", |a, b, _| {
        let asks = b
            .outbox
            .entries
            .iter()
            .any(|e| matches!(e, Emission::Request { .. }));
        a.paused.is_none() || !asks
    }),
    ("an-operators-act-is-in-the-timeline", |a, b, _| {
        !by_operator(b)
            || b.version != a.version.next()
            || b.incidents
                .iter()
                .rfind(|i| !follows_an_act(i.what))
                .is_some_and(|i| i.act.is_some())
    }),
    ("a-campaign-acts-once-on-an-order", |a, b, _| {
        let (before, newest) = (newest_act(a), newest_act(b));
        let is_new = before.map(|(line, _)| line) != newest.map(|(line, _)| line);
        let campaign = newest
            .filter(|_| is_new)
            .and_then(|(_, act)| act.campaign.as_ref());
        match campaign {
            None => a.campaign == b.campaign,
            Some(id) => !a.is_acted_on_by(id) && b.campaign.as_ref() == Some(id),
        }
    }),
    ("g4-a-claim-is-not-taken-over", |a, b, _| {
        match (a.state.locked_by(), b.state.locked_by()) {
            (Some(before), Some(after)) => before == after,
            _ => true,
        }
    }),
    ("a-late-reply-completes-nothing", |a, b, _| {
        // Steps are compared by name, because a migration may have moved them.
        b.steps.iter().all(|is| {
            let was = a.steps.iter().find(|was| was.step == is.step);
            let (Some(was), Some(finished)) = (was, finished_at(&is.state)) else {
                return true;
            };
            // An operator may resolve an attempt without a reply as happened, and a service may call back after it.
            by_operator(b)
                || is_called_back(b, is)
                || was.state.complete_by().is_none_or(|by| finished <= by)
        })
    }),
    ("g5-a-silent-attempt-has-used-its-allowance", |a, b, w| {
        b.steps.iter().zip(&w.steps).all(|(is, step)| {
            let was = a.steps.iter().find(|was| was.step == is.step);
            // The Supervisor counted it without a reply, so it may have had its effect.
            let silent = |was: &&StepRecord| {
                b.outbox.writer == Writer::Supervisor
                    && was.state.is_running()
                    && is.action.failures > was.action.failures
                    && is.in_doubt.is_some()
                    && was.in_doubt.is_none()
            };
            was.filter(silent).is_none_or(|was| {
                let allowed = budget::allowance(step, was, Direction::Forward);
                is.action.calls == was.action.calls + allowed
            })
        })
    }),
    (
        "g5-calls-that-were-made-or-may-have-been-are-counted",
        |a, b, w| {
            let mut steps = a.steps.iter().zip(&b.steps).zip(&w.steps);
            // An operator's new run counts them from zero.
            by_operator(b) || steps.all(|((was, is), step)| are_counted(was, is, step))
        },
    ),
    (
        "calls-are-reported-by-the-reply-that-is-awaited",
        |a, b, _| {
            b.steps.iter().all(|is| {
                let was = a.steps.iter().find(|was| was.step == is.step);
                let changed = was.filter(|was| {
                    (was.action.made, was.compensation.made)
                        != (is.action.made, is.compensation.made)
                });
                changed.is_none_or(|was| {
                    let reply = was
                        .state
                        .out()
                        .map(|out| format!("{}/{}/{}", out.direction, is.step, out.attempt));
                    let other = match was.direction() {
                        Direction::Compensate => was.action.made == is.action.made,
                        Direction::Forward | Direction::Probe => {
                            was.compensation.made == is.compensation.made
                        }
                    };
                    other && reply.is_some() && b.outbox.dedup_key == reply
                })
            })
        },
    ),
    ("a-doubt-is-left-by-an-attempt", |a, b, _| {
        b.steps.iter().all(|is| {
            let was = a.steps.iter().find(|was| was.step == is.step);
            let left = |was: &StepRecord| {
                was.state.is_running()
                    || was.in_progress.is_some()
                    || matches!(was.state, StepState::Ambiguous { .. })
            };
            was.is_none_or(|was| is.in_doubt.is_none() || was.in_doubt.is_some() || left(was))
        })
    }),
    ("a-line-is-of-an-attempt-that-was-made", |a, b, w| {
        b.incidents.iter().all(|line| {
            let Some(last) = line.through.or(line.attempt) else {
                return true;
            };
            let is_old = |was: &Incident| {
                (was.at, was.what, &was.step, was.attempt, was.through)
                    == (line.at, line.what, &line.step, line.attempt, line.through)
            };
            let was = a
                .steps
                .iter()
                .find(|was| Some(&was.step) == line.step.as_ref());
            // One write may go on with a wait or with child orders, end it, and have the order compensated.
            let ends_in_this_write = |was: &StepRecord| {
                let of_call = w
                    .steps
                    .iter()
                    .any(|s| s.id == was.step && s.call().is_some());
                let before = was
                    .state
                    .work()
                    .map_or(was.action.earlier, |work| work.attempt().0);
                !of_call && line.what == IncidentKind::Completed && last.0 == before + 1
            };
            a.incidents.iter().any(is_old)
                || was.is_some_and(|was| {
                    made(was, line.direction()) == Some(last) || ends_in_this_write(was)
                })
        })
    }),
    ("a-wait-ends-by-the-supervisor-or-an-operator", |a, b, _| {
        b.steps.iter().all(|is| {
            let was = a.steps.iter().find(|was| was.step == is.step);
            let waited = was.is_some_and(|was| {
                was.state.delayed_until().is_some() && was.direction() == is.direction()
            });
            let goes_on = matches!(is.state.work(), Some(Work::Due { .. } | Work::Out(_)));
            !waited || !goes_on || matches!(b.outbox.writer, Writer::Supervisor | Writer::Operator)
        })
    }),
    ("a-wait-for-a-moment-or-an-event-ends-with-it", |a, b, _| {
        b.steps.iter().all(|is| {
            let was = a.steps.iter().find(|was| was.step == is.step);
            let until = was.and_then(|was| was.state.parked_until());
            let (Some(until), Some(finished)) = (until, finished_at(&is.state)) else {
                return true;
            };
            let has = |o: &Order, event: &KeptEvent| o.events.iter().any(|e| e == event);
            let mut own = b
                .events
                .iter()
                .filter(|e| e.step.as_ref() == Some(&is.step));
            let is_told = || {
                was.is_some_and(|was| was.in_progress.is_some())
                    && (by_operator(b) || is_called_back(b, is))
            };
            // Child orders end when they end: see `child-orders-end-with-their-step`.
            is.children.is_some()
                || finished >= until
                || own.any(|event| !has(a, event))
                || is_told()
        })
    }),
    ("an-event-is-not-lost-and-not-taken-twice", |a, b, _| {
        a.events.iter().all(|was| {
            let is = b
                .events
                .iter()
                .find(|is| (&is.event, &is.id) == (&was.event, &was.id));
            is.is_some_and(|is| was.step.is_none() || is.step == was.step)
        })
    }),
    ("a-child-order-ends-once", |a, b, _| {
        b.steps.iter().all(|is| {
            let was = a.steps.iter().find(|was| was.step == is.step);
            let was = was.and_then(|was| was.children.as_ref());
            let (Some(was), Some(children)) = (was, &is.children) else {
                return true;
            };
            let told = |number: usize| format!("child/{}/{number}/", is.step);
            was.all
                .iter()
                .zip(&children.all)
                .enumerate()
                .all(|(number, (was, child))| {
                    let is_told = || {
                        let key = b.outbox.dedup_key.as_ref();
                        key.is_some_and(|key| key.starts_with(&told(number)))
                    };
                    let goes_on = match (&was.state, &child.state) {
                        (ChildState::Processed(_), ChildState::Processed(_)) => true,
                        (one, other) if one == other => true,
                        (ChildState::Waiting, ChildState::Running)
                        | (
                            ChildState::Waiting
                            | ChildState::Running
                            | ChildState::Processed(_)
                            | ChildState::Kept,
                            ChildState::Compensating { .. },
                        ) => true,
                        (ChildState::Running, ChildState::Processed(_) | ChildState::Failed)
                        | (
                            ChildState::Compensating { .. },
                            ChildState::Compensated | ChildState::Kept,
                        ) => is_told(),
                        // Another order takes the place of one that failed.
                        (_, ChildState::Waiting | ChildState::Running) => {
                            child.attempt > was.attempt
                        }
                        _ => false,
                    };
                    child.attempt >= was.attempt && goes_on
                })
        })
    }),
    ("child-orders-are-compensated-in-their-turn", |a, b, _| {
        b.steps.iter().all(|is| {
            let was = a.steps.iter().find(|was| was.step == is.step);
            let was = was.and_then(|was| was.children.as_ref());
            let waits = matches!(
                is.state,
                StepState::Compensating {
                    work: Work::Due { .. },
                    ..
                }
            );
            let (Some(was), Some(children)) = (was, is.children.as_ref().filter(|_| waits)) else {
                return true;
            };
            let mut both = was.all.iter().zip(&children.all);
            both.all(|(was, is)| was.state.is_compensating() || !is.state.is_compensating())
        })
    }),
    ("a-deadline-stays", |a, b, _| {
        a.is_unread() || a.deadline == b.deadline
    }),
    ("search-keys-stay", |a, b, _| {
        a.is_unread() || a.search == b.search
    }),
    ("late-is-past-the-point-of-no-return", |a, b, w| {
        let is_new = a.late_since.is_none() && b.late_since.is_some();
        let alert = |e: &Emission| {
            matches!(
                e,
                Emission::Alert {
                    kind: AlertKind::OrderLate,
                    ..
                }
            )
        };
        !is_new || is_past_return(a, w) && b.outbox.entries.iter().any(alert)
    }),
    (
        "g10-a-missed-deadline-compensates-before-the-point-of-no-return",
        |a, b, w| {
            let is_missed = |o: &Order| {
                let cause = o.state.cause();
                cause.is_some_and(|c| c.code == "order-deadline")
            };
            is_missed(a) || !is_missed(b) || !is_past_return(b, w)
        },
    ),
    ("progress-is-told", |a, b, w| {
        let is_told = |step: &StepRecord| {
            let of_it = |e: &Emission| matches!(e, Emission::Status { step: Some(told), status: Status::StepCompleted, .. } if *told == step.step);
            b.outbox.entries.iter().any(of_it)
        };
        let is_new = |step: &&StepRecord| {
            let was = a.steps.iter().find(|was| was.step == step.step);
            let is_completed = |s: &StepRecord| matches!(s.state, StepState::Completed { .. });
            is_completed(step) && was.is_none_or(|was| !is_completed(was))
        };
        let mut new = b.steps.iter().filter(is_new);
        new.all(|step| is_told(step) == (w.progress && b.parent.is_none()))
    }),
    ("g6-a-bad-end-has-an-alert", |a, b, _| {
        let bad = matches!(
            b.state,
            ProcessState::Error { .. } | ProcessState::CompensationFailed { .. }
        );
        let alert = |e: &Emission| matches!(e, Emission::Alert { .. });
        !bad || a.state.is_finished() || b.outbox.entries.iter().any(alert)
    }),
    ("g8-sequence-has-no-gap", |a, b, _| {
        let told: Vec<u32> = b
            .outbox
            .entries
            .iter()
            .filter_map(|e| match e {
                Emission::Status { sequence, .. } => Some(*sequence),
                _ => None,
            })
            .collect();
        b.sequence >= a.sequence
            && (a.sequence + 1..=b.sequence).all(|n| told.contains(&n))
            && told.windows(2).all(|w| w[0] < w[1])
    }),
];

/// The invariants of [`OF_RECORD`] that a record does not keep; empty if it keeps all.
///
/// # Panics
/// If the record has more steps than the workflow, and one of those has been started.
#[must_use]
pub fn of_record(order: &Order, workflow: &Workflow) -> Vec<Breach> {
    OF_RECORD
        .iter()
        .filter(|(_, holds)| !holds(order, workflow))
        .map(|(invariant, _)| breach(invariant, order))
        .collect()
}

/// The invariants of [`OF_WRITE`] that a write does not keep, after those of [`OF_RECORD`] that the
/// record `after` it does not keep; empty if it keeps all.
///
/// # Panics
/// If the record `after` has more steps than the workflow, and one of those has been started. If a record has
/// too few steps to have the workflow's point of no return, and by the write the order becomes late or is
/// compensated for its deadline.
#[must_use]
pub fn of_write(before: &Order, after: &Order, workflow: &Workflow) -> Vec<Breach> {
    let mut found = of_record(after, workflow);
    found.extend(
        OF_WRITE
            .iter()
            .filter(|(_, holds)| !holds(before, after, workflow))
            .map(|(invariant, _)| breach(invariant, after)),
    );
    found
}

fn breach(invariant: &'static str, order: &Order) -> Breach {
    Breach {
        invariant,
        seen: format!(
            "order {} version {} in {}: {}",
            order.id,
            order.version,
            order.state.name(),
            steps(order)
        ),
    }
}

/// The steps of an order for people: `reserve completed (1 attempts at it, 0 at its compensation), …`. Inputs
/// and outputs are left out, because this is written to logs.
fn steps(order: &Order) -> String {
    let one = |step: &StepRecord| {
        let (name, state) = (&step.step, step.state.name());
        let (actions, compensations) = (step.actions(), step.compensations());
        format!("{name} {state} ({actions} attempts at it, {compensations} at its compensation)")
    };
    order.steps.iter().map(one).collect::<Vec<_>>().join(", ")
}

/// Whether the effect of a step is in doubt, or its service works on it.
fn is_open(record: &StepRecord) -> bool {
    record.in_doubt.is_some() || record.in_progress.is_some()
}

/// Whether the last write answered a callback about this step.
fn is_called_back(order: &Order, record: &StepRecord) -> bool {
    let said = format!("callback/{}/", record.step);
    let key = order.outbox.dedup_key.as_ref();
    key.is_some_and(|key| key.starts_with(&said))
}

fn by_operator(order: &Order) -> bool {
    order.outbox.writer == Writer::Operator
}

/// The newest line of an operator's act, reduced to fields that never change, and the act.
fn newest_act(order: &Order) -> Option<((Timestamp, IncidentKind, &str), &OperatorAct)> {
    let lines = order.incidents.iter().rev();
    let mut acts = lines.filter_map(|i| i.act.as_ref().map(|act| (i, act)));
    acts.next()
        .map(|(i, act)| ((i.at, i.what, act.by.as_str()), act))
}

/// Whether the calls reported since count against the totals of the step's legs.
fn are_counted(was: &StepRecord, is: &StepRecord, step: &Step) -> bool {
    let was_in_progress = was.in_progress.is_some();
    let mut legs = [Direction::Forward, Direction::Compensate].into_iter();
    legs.all(|direction| {
        let (was, is) = (was.leg(direction), is.leg(direction));
        let told = |leg: &Leg| i64::from(leg.made) + i64::from(leg.unreported);
        let more = told(is) - told(was);
        let counted = i64::from(is.calls) - i64::from(was.calls);
        // Calls of a deferred attempt count only if the call ledger counts them, and questions about work in progress
        // not at all.
        let may_count_less = !budget::is_counted(step, direction) || was_in_progress;
        counted == more || (0..more).contains(&counted) && may_count_less
    })
}

/// The attempt in the state of a step, if it has this direction. For a deferred one the record does not say whether
/// it was the action or its probe.
fn made(record: &StepRecord, direction: Direction) -> Option<Attempt> {
    let (known, attempt) = match &record.state {
        StepState::Completed { attempt, .. } => (Direction::Forward, *attempt),
        StepState::Compensated { attempt, .. } => (Direction::Compensate, *attempt),
        state => match state.work()? {
            Work::Out(out) => (out.direction, out.attempt),
            Work::Failed {
                direction, attempt, ..
            } => (*direction, *attempt),
            work if record.direction() == Direction::Compensate => {
                (Direction::Compensate, work.attempt())
            }
            work if direction != Direction::Compensate => (direction, work.attempt()),
            _ => return None,
        },
    };
    (known == direction).then_some(attempt)
}

/// Whether the order's point of no return has begun, and was not refused.
fn is_past_return(order: &Order, workflow: &Workflow) -> bool {
    let pivot = workflow.pivot().map(|pivot| &order.steps[pivot].state);
    pivot.is_some_and(|state| !matches!(state, StepState::Waiting | StepState::Refused { .. }))
}

/// Whether a reply or a time will let the Scheduler or the Supervisor continue.
fn is_awaited(record: &StepRecord) -> bool {
    record.state.is_failed() || record.awaited_until().is_some()
}

/// When the reply that ended the step or its compensation was sent; when it was read, if it does not say.
fn finished_at(state: &StepState) -> Option<Timestamp> {
    match state {
        StepState::Completed { finished, .. } | StepState::Compensated { finished, .. } => {
            Some(*finished)
        }
        _ => None,
    }
}

/// Whether lines of this kind may be written after an operator's in the same write.
fn follows_an_act(kind: IncidentKind) -> bool {
    matches!(
        kind,
        IncidentKind::CompensationBegan
            | IncidentKind::Completed
            | IncidentKind::Compensated
            | IncidentKind::Abandoned
    )
}

fn is_in_compensation(state: &StepState) -> bool {
    matches!(state, StepState::Compensated { .. }) || state.to_compensate().is_some()
}

/// Whether a step that is being compensated may have completed before that.
fn was_done(state: &StepState) -> bool {
    is_in_compensation(state)
}
