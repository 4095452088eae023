//! A table of every order state and step state with every event, including illegal and refused ones.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;
use triad_core::message::Taking;
use triad_core::{
    Action, Attempt, Direction, Event, OperationRefusal, Overdue, ProcessState, Reason, Reply,
    ReplyOutcome, Says, Timestamp, Untaken, decide,
};

use triad_workflow::Millis;

use crate::support::{
    AWAITS, LATER, LINE, ONCE, PROBED, Story, TIMED, Then, deferred_until, done, failed, found,
    refused,
};

/// Rows: an order in a state, named by the state of the step that the events are about. In an `unheard` row the
/// Supervisor has just found the attempt beyond its complete-by. Columns: events of Schedulers, agents and the
/// Supervisor. Agents sent their replies in time, except in `late`; in `read-late` the reply has waited for an hour.
/// The Supervisor comes too `early`, when the order is due (`overdue`), and `hear_within` later: then it has revoked
/// no attempt (`unheard`), or the step's (`untaken`). In `admit` there is room for an order that was set aside. A
/// `callback` brings the step's own token, if it has one.
///
/// A capital letter is a write that leaves the order in that state: `P`ending, p`R`ocessing, processe`D`, `E`rror,
/// compensating `U`, `C`ompensated, compensation`F`ailed. Other cells say why nothing is written; `rep` repeats the
/// record's messages, `ILL` is illegal. The claim that made the record is redelivered; a hint that was early is
/// moved.
const EVENTS: &str = "
                      | claim reply failure put-off read-late late older future other-way not-out unknown early overdue unheard untaken confirmed admit      event      callback
new                   | R     na    na      na      na        na   na    na     na        na      ILL     P     P       P       P       unf       in      none      wrong
paused                | held  na    na      na      na        na   na    na     na        na      ILL     P     P       P       P       unf       in      none      wrong
set aside             | wait  na    na      na      na        na   na    na     na        na      ILL     wait  wait    wait    wait    unf       P      none      wrong
set aside paused      | held  na    na      na      na        na   na    na     na        na      ILL     wait  wait    wait    wait    unf       held      none      wrong
running paused        | held  P     P       P       P         P    old   ILL    na        na      ILL     P     P       P       P       unf       in      none      wrong
running paused unheard| held  P     P       P       P         P    old   ILL    na        na      ILL     nd    nd      P       P       unf       in      none      wrong
retry-due             | R     na    na      na      na        na   na    na     na        na      ILL     nd    P       P       P       unf       in      none      wrong
skipped               | cl    na    na      na      na        na   na    na     na        na      ILL     R     R       R       R       unf       in      none      wrong
running               | cl    R     R       R       R         R    old   ILL    na        na      ILL     R     R       R       R       unf       in      none      wrong
running unheard       | cl    R     R       R       R         R    old   ILL    na        na      ILL     nd    nd      P       P       unf       in      none      wrong
running pivot         | cl    R     R       R       R         R    old   ILL    na        na      ILL     R     R       R       R       unf       in      none      wrong
running once          | cl    R     E       R       R         R    old   ILL    na        na      ILL     R     R       R       R       unf       in      none      wrong
running once unheard| cl    R     E       R       R         R    old   ILL    na        na      ILL     nd    nd      E       P       unf       in      none      wrong
probing               | rep   R     R       R       R         R    old   ILL    na        na      ILL     R     R       R       R       unf       in      none      wrong
probing unheard       | cl    R     R       R       R         R    old   ILL    na        na      ILL     nd    nd      P       P       unf       in      none      wrong
deferred                | cl    na    na      na      na        na   na    na     na        na      ILL     R     P       P       P       unf       in      none      wrong
failed                | cl    na    na      na      na        na   na    na     na        na      ILL     P     P       P       P       unf       in      none      wrong
parked                | cl    na    na      na      na        na   na    na     na        na      ILL     R     U       U       U       unf       in        R      wrong
parked timer          | cl    na    na      na      na        na   na    na     na        na      ILL     nd    P       P       P       unf       in        none      wrong
parked paused         | held  na    na      na      na        na   na    na     na        na      ILL     P     U       U       U       unf       in        P      wrong
taken                 | cl    na    na      na      na        na   na    na     na        na      ILL     nd    P       P       P       unf       in        none      R
taken paused          | held  na    na      na      na        na   na    na     na        na      ILL     nd    P       P       P       unf       in        none      P
asked                 | rep   R     R       R       R         R    old   ILL    na        na      ILL     R     R       R       R       unf       in        none      R
compensation-due              | U     na    na      na      na        na   na    na     na        na      ILL     nd    U       U       U       unf       in      vain      wrong
compensating               | cl    C     U       U       C         late old   ILL    na        na      ILL     U     U       U       U       unf       in      vain      wrong
compensating unheard       | cl    C     U       U       C         late old   ILL    na        na      ILL     nd    nd      U       U       unf       in      vain      wrong
compensating paused        | held  U     U       U       U         late old   ILL    na        na      ILL     U     U       U       U       unf       in      vain      wrong
compensation-deferred           | cl    na    na      na      na        na   na    na     na        na      ILL     U     U       U       U       unf       in      vain      wrong
compensation-failed           | cl    na    na      na      na        na   na    na     na        na      ILL     U     U       U       U       unf       in      vain      wrong
completed             | fin   fin   fin     fin     fin       fin  fin   fin    fin       fin     fin     fin   fin     fin     fin     fin       fin      vain      wrong
refused               | fin   fin   fin     fin     fin       fin  fin   fin    fin       fin     fin     rep   rep     rep     rep     E         fin      vain      wrong
refused confirmed     | fin   fin   fin     fin     fin       fin  fin   fin    fin       fin     fin     fin   fin     fin     fin     fin       fin      vain      wrong
refused closed        | fin   fin   fin     fin     fin       fin  fin   fin    fin       fin     fin     rep   rep     rep     rep     E         fin      vain      wrong
failed in doubt       | fin   fin   fin     fin     fin       fin  fin   fin    fin       fin     fin     rep   rep     rep     rep     E         fin      vain      wrong
compensated                | fin   fin   fin     fin     fin       fin  fin   fin    fin       fin     fin     rep   rep     rep     rep     C         fin      vain      wrong
ambiguous             | fin   fin   fin     fin     fin       fin  fin   fin    fin       fin     fin     rep   rep     rep     rep     C         fin      vain      wrong
not-compensated            | fin   fin   fin     fin     fin       fin  fin   fin    fin       fin     fin     rep   rep     rep     rep     F         fin      vain      wrong
not-compensated in doubt   | rep   fin   fin     fin     fin       fin  fin   fin    fin       fin     fin     rep   rep     rep     rep     F         fin      vain      wrong";

/// Columns: operators' acts. An amendment is of a part of the details that no expression reads, or of the one that some
/// steps read. A refusal is because of the `state`, the `step`, a `doubt`, the `pivot`, because a step has `read` what
/// would change, or because the act would change nothing (`so`).
const OPERATORS: &str = "
                      | resubmit correct cancel retry-compensation close pause resume applied not-applied amend amend-read
new                   | state    state   U      state      state P     so     state   state   P     P
paused                | state    state   U      state      state so    P      state   state   P     P
set aside             | state    state   U      state      state P     so     state   state   P     P
set aside paused      | state    state   U      state      state so    P      state   state   P     P
running paused        | state    state   U      state      state so    P      state   state   P     P
running paused unheard| state    state   U      state      state so    P      state   state   P     P
retry-due             | state    state   U      state      state P     so     state   state   P     P
skipped               | state    state   U      state      state P     so     state   state   R     R
running               | state    state   U      state      state P     so     state   state   R     R
running unheard       | state    state   U      state      state P     so     state   state   R     R
running pivot         | state    state   pivot  state      state P     so     state   state   R     R
running once          | state    state   U      state      state P     so     state   state   R     R
running once unheard| state    state   U      state      state P     so     state   state   R     R
probing               | state    state   U      state      state P     so     state   state   R     read
probing unheard       | state    state   U      state      state P     so     state   state   R     read
deferred                | state    state   U      state      state P     so     state   state   R     R
failed                | state    state   U      state      state P     so     state   state   R     R
parked                | state    state   U      state      state P     so     state   state   R     read
parked timer          | state    state   U      state      state P     so     state   state   R     R
parked paused         | state    state   U      state      state so    P      state   state   P     read
taken                 | state    state   U      state      state P     so     state   state   R     R
taken paused          | state    state   U      state      state so     P     state   state   P     P
asked                 | state    state   U      state      state P     so     state   state   R     R
compensation-due              | state    state   state  state      state U     so     state   state   state     state
compensating               | state    state   state  state      state U     so     state   state   state     state
compensating unheard       | state    state   state  state      state U     so     state   state   state     state
compensating paused        | state    state   state  state      state so    U      state   state   state     state
compensation-deferred           | state    state   state  state      state U     so     state   state   state     state
compensation-failed           | state    state   state  state      state U     so     state   state   state     state
completed             | state    state   state  state      state state so     state   state   state     state
refused               | P        P       U      state      E     state so     step    step   E     E
refused confirmed     | P        P       U      state      E     state so     step    step   E     E
refused closed        | P        P       U      state      so    state so     step    step   E     E
failed in doubt       | doubt    step    U      state      E     state so     P       P   E     E
compensated                | P        P       state  state      state state so     step    step   state     state
ambiguous             | doubt    doubt   state  state      state state so     C       C   state     state
not-compensated            | state    state   state  U          F     state so     step    step   state     state
not-compensated in doubt   | state    state   state  doubt      F     state so     U       step   state     state";

/// The order in the state of a row, and the step that the events are about.
fn given(row: &str) -> (Story, &'static str) {
    if let Some(out) = row.strip_suffix(" unheard") {
        let (mut s, step) = given(out);
        s.now = s.ripe();
        assert_eq!(s.when(Event::Overdue(Overdue::default())), Then::Written);
        assert_eq!(s.record(step).state.unheard_since(), Some(s.now));
        return (s, step);
    }
    let mut s = Story::of(LINE);
    let stops = LINE.replace(
        "\"failure_threshold\": 1",
        "\"failure_threshold\": 0, \"then\": \"error\"",
    );
    match row {
        "new" => return (s, "a"),
        "paused" => {
            s.acts(Action::Pause);
            return (s, "a");
        }
        "set aside" | "set aside paused" => {
            s.order = s.order.aside();
            if row == "set aside paused" {
                s.acts(Action::Pause);
            }
            return (s, "a");
        }
        "running paused" => {
            s.claim().succeed("a").acts(Action::Pause);
        }
        "retry-due" => {
            s.claim().succeed("a").overdue();
        }
        "skipped" => {
            s = Story::of(&LINE.replace("\"do-b\",", "\"do-b\", \"when\": \"false\","));
            s.claim().succeed("a");
        }
        "running" => {
            s.claim().succeed("a");
        }
        "running pivot" => {
            let not = r#""do-b", "input": {"from": "${steps.a}"}, "compensation": {"action": "compensate-b"}"#;
            let w = LINE.replace(not, r#""do-b", "point_of_no_return": true"#);
            s = Story::of(&w.replace(", \"compensation\": {\"action\": \"compensate-c\"}", ""));
            s.claim().succeed("a");
        }
        "running once" | "failed in doubt" | "not-compensated in doubt" => {
            s = Story::of(ONCE);
            s.claim().succeed("a");
            match row {
                "failed in doubt" => drop(s.answer("once", failed())),
                "not-compensated in doubt" => drop(s.acts(Action::Cancel).claim()),
                _ => {}
            }
            return (s, "once");
        }
        "probing" => {
            s = Story::of(PROBED);
            s.claim().succeed("a").overdue().claim();
            return (s, "pay");
        }
        "deferred" => {
            s.claim().succeed("a").deferred("b", 60_000);
        }
        "parked" | "parked paused" => {
            s = Story::of(AWAITS);
            s.claim().succeed("a");
            if row == "parked paused" {
                s.acts(Action::Pause);
            }
        }
        "taken" | "taken paused" | "asked" => {
            s = Story::of(LATER);
            let taking = Taking {
                output: json!({"job": 1}),
                ..Taking::default()
            };
            s.claim().succeed("a");
            s.answer("b", ReplyOutcome::InProgress(taking));
            match row {
                "taken paused" => drop(s.acts(Action::Pause)),
                "asked" => drop(s.overdue_now().claim()),
                _ => {}
            }
        }
        "parked timer" => {
            s = Story::of(TIMED);
            s.claim().succeed("a");
        }
        "failed" => {
            s.claim().succeed("a").answer("b", failed());
        }
        "compensation-due"
        | "compensating"
        | "compensating paused"
        | "compensation-deferred"
        | "compensation-failed"
        | "compensated"
        | "not-compensated" => {
            s.claim().succeed("a").refuse("b");
            match row {
                "compensation-due" => drop(s.overdue()),
                "compensating paused" => drop(s.acts(Action::Pause)),
                "compensation-deferred" => drop(s.deferred("a", 60_000)),
                "compensation-failed" => drop(s.answer("a", failed())),
                "compensated" => drop(s.succeed("a")),
                "not-compensated" => drop(s.overdue().claim().overdue()),
                _ => {}
            }
            return (s, "a");
        }
        "completed" => {
            s.claim().succeed("a").succeed("b").succeed("c");
        }
        "refused" | "refused confirmed" | "refused closed" => {
            s = Story::of(&stops);
            s.claim().succeed("a").refuse("b");
            match row {
                "refused confirmed" => assert_eq!(s.when(Event::Confirmed), Then::Written),
                "refused closed" => drop(s.acts(Action::Close)),
                _ => {}
            }
        }
        "ambiguous" => {
            let none = "\"compensation\": \"none\"";
            let w = ONCE.replace("\"compensation\": {\"action\": \"compensate-once\"}", none);
            s = Story::of(&w);
            s.claim().succeed("a").answer("once", refused(true));
            s.acts(Action::Cancel).claim().succeed("a");
            return (s, "once");
        }
        other => panic!("no row {other}"),
    }
    (s, "b")
}

/// Direction, attempt and complete-by of the step's request, or those of a request that was never made.
fn request(s: &Story, step: &str) -> (Direction, Attempt, Timestamp) {
    match s.step(step).out() {
        Some(out) => (out.direction, out.attempt, out.complete_by),
        None => (Direction::Forward, Attempt(7), Timestamp(5)),
    }
}

fn event(column: &str, s: &mut Story, step: &str) -> Event {
    let (direction, attempt, complete_by) = request(s, step);
    let good = match direction {
        Direction::Probe => found(true),
        Direction::Forward | Direction::Compensate => done(),
    };
    let reply = |outcome: ReplyOutcome| Reply {
        order_id: s.order.id.clone(),
        step: step.to_owned().try_into().unwrap(),
        direction,
        attempt,
        complete_by,
        calls: 1,
        outcome,
        sent_at: Some(s.now.min(complete_by)),
        pace: None,
    };
    let mut reply = match column {
        "failure" => reply(failed()),
        "put-off" => reply(deferred_until(s.now, false)),
        _ => reply(good),
    };
    match column {
        "claim" => return s.claim_event(),
        "early" => return Event::Overdue(Overdue::default()),
        "overdue" | "unheard" | "untaken" => {
            let due = decide::true_due(&s.ctx(), &s.order).unwrap_or(s.now);
            s.now = s.now.max(due.plus(s.timing.skew));
            if column != "overdue" {
                s.now = s.now.plus(s.timing.hear_within);
            }
            let step = step.to_owned().try_into().unwrap();
            let untaken = (column == "untaken").then_some(step);
            return Event::Overdue(untaken.into_iter().collect::<Untaken>().into());
        }
        "event" => return s.event("paid", "e-1", json!({"amount": 7})),
        "callback" => return s.callback(step, "1", Says::Ended(json!(1))),
        "confirmed" => return Event::Confirmed,
        "admit" => return Event::Admit,
        "reply" | "failure" | "put-off" => {}
        "read-late" => {
            reply.sent_at = Some(complete_by);
            s.now = s.now.max(complete_by).plus(Millis(3_600_000));
        }
        "late" => {
            s.now = Timestamp(complete_by.0.max(s.now.0) + 1);
            reply.sent_at = Some(s.now);
        }
        "older" => reply.attempt = Attempt(attempt.0 - 1),
        "future" => reply.attempt = Attempt(attempt.0 + 1),
        "other-way" => {
            reply.direction = match direction {
                Direction::Forward => Direction::Compensate,
                Direction::Compensate | Direction::Probe => Direction::Forward,
            }
        }
        "not-out" => {
            let mut others = ["c", "a"].into_iter();
            let other = others.find(|o| request(s, o).1 == Attempt(7));
            reply.step = other.unwrap().to_owned().try_into().unwrap();
        }
        "unknown" => reply.step = "zzz".to_owned().try_into().unwrap(),
        other => panic!("no event {other}"),
    }
    Event::Reply(reply)
}

fn action(column: &str, step: &str) -> Action {
    let input = match step {
        "b" => json!({"from": {"ref": 2}}),
        _ => json!({}),
    };
    let step = step.to_owned().try_into().unwrap();
    match column {
        "resubmit" => Action::Resubmit { input: None },
        "correct" => Action::Resubmit {
            input: Some((step, input)),
        },
        "cancel" => Action::Cancel,
        "retry-compensation" => Action::RetryCompensation,
        "close" => Action::Close,
        "pause" => Action::Pause,
        "resume" => Action::Resume,
        "applied" => Action::Resolve {
            step,
            applied: Some(json!(1)),
            attempt: None,
        },
        "not-applied" => Action::Resolve {
            step,
            applied: None,
            attempt: None,
        },
        "amend" => Action::Amend {
            patch: json!({"note": "x"}),
        },
        "amend-read" => Action::Amend {
            patch: json!({"amount": 8}),
        },
        other => panic!("no act {other}"),
    }
}

fn outcome(s: &Story, then: Then) -> &'static str {
    match then {
        Then::Written => match s.order.state {
            ProcessState::Pending { .. } => "P",
            ProcessState::Processing(_) => "R",
            ProcessState::Processed { .. } => "D",
            ProcessState::Error { .. } => "E",
            ProcessState::Compensating { .. } => "U",
            ProcessState::Compensated { .. } => "C",
            ProcessState::CompensationFailed { .. } => "F",
        },
        Then::Repeat => "rep",
        Then::Illegal(_) => "ILL",
        Then::Ignored(reason) => match reason {
            Reason::Claimed => "cl",
            Reason::Finished => "fin",
            Reason::OlderAttempt => "old",
            Reason::Late => "late",
            Reason::NotAwaited => "na",
            Reason::NotDue => "nd",
            Reason::Unfinished => "unf",
            Reason::Paused => "held",
            Reason::SetAside => "wait",
            Reason::InFlight => "in",
            Reason::Repeated => "again",
            Reason::NoStepAwaits => "none",
            Reason::NoMatch => "no",
            Reason::TooManyEvents => "full",
            Reason::TooLate => "vain",
            Reason::WrongToken => "wrong",
        },
        Then::Refused(refusal) => match refusal {
            OperationRefusal::State { .. } => "state",
            OperationRefusal::PastPivot(_) => "pivot",
            OperationRefusal::InDoubt(_) => "doubt",
            OperationRefusal::Step { .. } => "step",
            OperationRefusal::Already(_) | OperationRefusal::AmendedAlready => "so",
            OperationRefusal::NotAmended(_) => "read",
            OperationRefusal::ActedOn(_) => "again",
        },
    }
}

/// The cells of a table: row, column, outcome.
fn cells(table: &'static str) -> Vec<(&'static str, &'static str, &'static str)> {
    let mut lines = table.lines().filter(|l| !l.is_empty()).map(|l| {
        let (row, cells) = l.split_once('|').expect("a row has a name");
        (row.trim(), cells.split_whitespace().collect::<Vec<_>>())
    });
    let (_, columns) = lines.next().expect("a head");
    lines
        .flat_map(|(row, cells)| {
            assert_eq!(cells.len(), columns.len(), "{row}");
            let named = columns.clone().into_iter().zip(cells);
            named.map(move |(column, cell)| (row, column, cell))
        })
        .collect()
}

/// Runs all cells of a table, and prints the rows that differ.
fn check(table: &'static str, run: fn(&mut Story, &str, &str) -> Then) {
    let mut wrong: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    let mut rows = BTreeMap::new();
    for (row, column, expected) in cells(table) {
        let (s, step) = rows.entry(row).or_insert_with(|| given(row));
        let (order, now) = (s.order.clone(), s.now);
        let then = run(s, column, step);
        let got = outcome(s, then);
        (s.order, s.now) = (order, now);
        if got != expected {
            let line = format!("{column}: {got}, expected {expected}");
            wrong.entry(row).or_default().push(line);
        }
    }
    assert_eq!(wrong, BTreeMap::new());
}

#[test]
fn every_state_and_event_has_its_outcome() {
    check(EVENTS, |s, column, step| {
        let event = event(column, s, step);
        s.when(event)
    });
}

#[test]
fn every_state_and_act_has_its_outcome() {
    check(OPERATORS, |s, column, step| s.tries(action(column, step)));
}

#[test]
fn the_tables_have_every_state() {
    let rows = |table| cells(table).into_iter().map(|(row, _, _)| row);
    let of_events: BTreeSet<_> = rows(EVENTS).collect();
    let of_acts: BTreeSet<_> = rows(OPERATORS).collect();
    assert_eq!(of_events, of_acts);
    let (mut orders, mut steps) = (BTreeSet::new(), BTreeSet::new());
    for row in of_events {
        let (s, step) = given(row);
        orders.insert(s.state());
        let state = s.step(step).name();
        let named = if row == "new" || row == "paused" {
            "waiting"
        } else {
            state
        };
        assert!(row.starts_with(state) || state == named, "{row}: {state}");
        steps.insert(state);
    }
    assert_eq!(orders, ProcessState::NAMES.into_iter().collect());
    assert_eq!(steps.len(), 17, "every state of a step: {steps:?}");
}

/// The value after a round trip through JSON text, as in the store.
pub fn read_again<T: Serialize + DeserializeOwned>(value: &T) -> T {
    let text = serde_json::to_string(value).unwrap();
    serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e}: {text}"))
}

#[test]
fn every_state_is_stored_and_read_again() {
    for (row, column, _) in cells(OPERATORS) {
        if column == "resubmit" {
            let (s, _) = given(row);
            assert_eq!(read_again(&s.order.state), s.order.state, "{row}");
            assert_eq!(read_again(&s.order.steps), s.order.steps, "{row}");
            assert_eq!(read_again(&s.order.outbox), s.order.outbox, "{row}");
            assert_eq!(read_again(&s.order.incidents), s.order.incidents, "{row}");
            assert_eq!(read_again(&s.order.events), s.order.events, "{row}");
        }
    }
}

#[test]
fn a_record_that_does_not_fit_its_definition_is_illegal() {
    let mut s = Story::of(LINE);
    s.order.steps.pop();
    assert!(matches!(
        s.when(Event::Overdue(Overdue::default())),
        Then::Illegal(_)
    ));
}
