//! Moving an order to another version of its workflow: allowed only if the versions are compatible.

use serde_json::json;
use triad_core::invariants;
use triad_core::migrate::{Change, migrate};
use triad_core::order::{IncidentKind, OperatorAct};
use triad_core::outbox::Writer;
use triad_core::{Action, Attempt, Direction, Event, Reason};
use triad_workflow::Workflow;

use crate::support::{
    FORK, LINE, ONCE, PROBED, Story, Then, compile, counted, done, failed, failed_cleanly, refused,
};

/// The workflow `line` with a fourth step, `z`, at its end.
fn longer() -> String {
    let z = r#""compensate-c"}}, {"id": "z", "agent": "z", "action": "do-z", "compensation": "none"}]}"#;
    LINE.replace(r#""compensate-c"}}]}"#, z)
}

/// The workflow `line` with one text replaced.
fn changed(from: &str, to: &str) -> String {
    let text = LINE.replace(from, to);
    assert_ne!(text, LINE, "{from}");
    text
}

fn tried(s: &Story, to: &Workflow) -> Result<Vec<Change>, Vec<String>> {
    let act = OperatorAct::new("ann", "because");
    let moved = migrate(&s.order, &s.workflow, to, &act, s.timing, s.now);
    moved.map(|(_, changes)| changes).map_err(|e| e.0)
}

/// Migrates the order to the version `to`; the story continues on it.
#[track_caller]
fn moved(s: &mut Story, to: &str) -> Vec<Change> {
    let to = compile(to);
    let act = OperatorAct::new("ann", "because");
    let (change, changes) =
        migrate(&s.order, &s.workflow, &to, &act, s.timing, s.now).expect("nothing against it");
    assert_eq!(invariants::of_write(&s.order, &change.next, &to), []);
    s.order = change.next;
    s.workflow = to;
    changes
}

/// The reasons that prevent the migration, one a line.
#[track_caller]
fn against(s: &Story, to: &str) -> Vec<String> {
    tried(s, &compile(to)).expect_err("something stands against it")
}

#[track_caller]
fn one_against(s: &Story, to: &str, reason: &str) {
    let lines = against(s, to);
    assert_eq!(lines.len(), 1, "{lines:#?}");
    assert!(lines[0].contains(reason), "{}", lines[0]);
}

#[test]
fn an_order_is_pinned_to_the_other_version_and_the_timeline_says_so() {
    let mut s = Story::of(LINE);
    let (before, from) = (s.order.clone(), s.workflow.hash.clone());
    moved(&mut s, &longer());
    assert_eq!(s.order.version, before.version.next());
    assert_eq!(s.order.workflow.hash, s.workflow.hash);
    assert_eq!(s.order.outbox.writer, Writer::Operator);
    let line = s.order.incidents.last().unwrap();
    assert_eq!(line.what, IncidentKind::Migrated);
    assert_eq!(line.act, Some(OperatorAct::new("ann", "because")));
    assert_eq!(line.note, Some(format!("{from} to {}", s.workflow.hash)));
}

#[test]
fn a_running_step_and_the_claim_stay_and_the_order_ends_as_the_other_version_says() {
    let mut s = Story::of(LINE).claimed();
    s.succeed("a");
    let (claim, running) = (s.order.state.clone(), s.step("b").clone());
    let reply = s.reply("b", done());
    moved(&mut s, &longer());
    assert_eq!((&s.order.state, s.step("b")), (&claim, &running));
    assert_eq!(s.when(Event::Reply(reply)), Then::Written);
    s.succeed("c");
    assert_eq!(s.asks(), [("z".into(), Direction::Forward, 1)]);
    s.succeed("z");
    assert_eq!(s.state(), "Processed");
}

#[test]
fn a_running_step_that_times_out_is_asked_for_again_as_the_other_version_says() {
    let mut s = Story::of(LINE).claimed();
    moved(
        &mut s,
        &changed("\"calls_per_attempt\": 2", "\"calls_per_attempt\": 3"),
    );
    assert_eq!(s.asks(), [], "the request is out");
    s.overdue().claim();
    let request = &s.requests()[0];
    assert_eq!((request.attempt, request.allowance), (Attempt(2), 3));
}

#[test]
fn steps_that_wait_may_come_and_go_and_change_their_places() {
    let w = r#"{"workflow": "line", "steps": [
        {"id": "new", "agent": "x", "action": "go", "after": [], "compensation": "none"},
        {"id": "a", "agent": "x", "action": "do-a", "after": [], "compensation": {"action": "compensate-a", "input": {"of": "${output}"}}},
        {"id": "c", "agent": "y", "action": "do-c", "after": ["new", "a"], "compensation": "none"}]}"#;
    let mut s = Story::of(LINE).claimed();
    s.overdue();
    moved(&mut s, w);
    assert_eq!(
        s.steps(),
        [("new", "waiting"), ("a", "retry-due"), ("c", "waiting")]
    );
    s.claim().succeed("new").succeed("a").succeed("c");
    assert_eq!(s.state(), "Processed");
}

#[test]
fn the_moved_order_is_compensated_as_the_other_version_says() {
    let mut s = Story::of(LINE).claimed();
    s.succeed("a");
    moved(&mut s, &changed("compensate-a", "better-compensate-a"));
    s.refuse("b");
    assert_eq!(s.requests()[0].action, "better-compensate-a");
}

#[test]
fn a_stopped_order_is_moved_and_then_resubmitted() {
    let stops = |input: &str| {
        format!(
            r#"{{"workflow": "w", "steps": [{{"id": "a", "agent": "x", "action": "go", "compensation": "none",
            "supervisor": {{"failure_threshold": 0, "then": "error"}}, "input": {{"n": "${{details.{input}}}"}}}}]}}"#
        )
    };
    let mut s = Story::of(&stops("missing")).claimed();
    assert_eq!(s.state(), "Error");
    let (state, due) = (s.order.state.clone(), s.order.due);
    moved(&mut s, &stops("amount"));
    assert_eq!(
        (&s.order.state, s.order.due),
        (&state, due),
        "it stays stopped"
    );
    assert!(s.alerts(), "it may not have gone out");
    s.resubmit().claim();
    assert_eq!(s.requests()[0].input, json!({"n": 7}));
}

#[test]
fn a_held_order_stays_held() {
    let mut s = Story::of(LINE);
    s.acts(Action::Pause);
    moved(&mut s, &longer());
    assert!(s.order.paused.is_some());
}

#[test]
fn an_order_whose_other_version_has_nothing_left_to_do_finishes() {
    let mut s = Story::of(LINE).claimed();
    s.succeed("a").acts(Action::Pause).succeed("b");
    let short = LINE.replace(",\n    {\"id\": \"c\"", "").replace(
        ", \"agent\": \"y\", \"action\": \"do-c\", \"compensation\": {\"action\": \"compensate-c\"}}",
        "",
    );
    moved(&mut s, &short);
    s.acts(Action::Resume).claim();
    assert_eq!(s.state(), "Processed");
}

#[test]
fn a_step_that_was_removed_and_is_added_again_does_not_use_its_spent_keys() {
    let mut s = Story::of(&longer()).claimed();
    s.succeed("a").succeed("b").succeed("c");
    let stale = s.reply("z", done());
    s.acts(Action::Cancel).claim();
    while s.state() == "Compensating" {
        let out = s.asks()[0].0.clone();
        s.succeed(&out);
    }
    s.resubmit();
    moved(&mut s, LINE);
    moved(&mut s, &longer());
    s.claim().succeed("a").succeed("b").succeed("c");
    let request = &s.requests()[0];
    assert_eq!(request.step.as_str(), "z");
    assert_ne!(request.idempotency_key.0, "o-1/z/forward");
    assert_ne!(request.idempotency_key.0, "o-1/z/forward/1");
    let then = s.when(Event::Reply(stale));
    assert_eq!(then, Then::Ignored(Reason::OlderAttempt));
}

#[test]
fn what_would_change_is_told_step_by_step() {
    let w = r#"{"workflow": "line",
      "defaults": {"attempt_timeout": "10s", "retry": {"calls_per_attempt": 2}, "supervisor": {"failure_threshold": 1}},
      "steps": [
        {"id": "a", "agent": "x", "action": "do-a", "compensation": {"action": "compensate-a", "input": {"of": "${output}"}}},
        {"id": "c", "agent": "y", "action": "do-c", "when": "true", "compensation": {"action": "compensate-c"}},
        {"id": "z", "agent": "z", "action": "do-z", "compensation": "none"}]}"#;
    let s = Story::of(LINE).claimed();
    let told: Vec<String> = tried(&s, &compile(w))
        .unwrap()
        .iter()
        .map(|c| format!("{}: {}", c.step, c.what))
        .collect();
    let expected = [
        "b: removed",
        "c: comes after [a], not [b]",
        "c: when changed",
        "z: added: z/do-z",
    ];
    assert_eq!(told, expected);
}

#[test]
fn a_changed_default_is_told_of_each_step_that_it_reaches() {
    let w = FORK.replace(
        "\"attempt_timeout\": \"10s\"",
        "\"attempt_timeout\": \"20s\"",
    );
    let told: Vec<String> = tried(&Story::of(FORK), &compile(&w))
        .unwrap()
        .iter()
        .map(|c| format!("{}: {}", c.step, c.what))
        .collect();
    let expected = [
        "p: attempt_timeout changed",
        "join: attempt_timeout changed",
    ];
    assert_eq!(told, expected, "q has its own");
}

#[test]
fn only_to_another_version_of_the_same_workflow() {
    let s = Story::of(LINE);
    one_against(&s, LINE, "on this version already");
    one_against(
        &s,
        &changed("\"line\"", "\"other\""),
        "it runs line, not other",
    );
}

#[test]
fn only_while_it_runs_forward_or_is_stopped() {
    let mut s = Story::of(LINE).claimed();
    s.succeed("a").refuse("b");
    let not_so = |s: &Story| {
        let lines = against(s, &longer());
        let reason = format!("this one is {}", s.state());
        assert!(lines.iter().any(|l| l.contains(&reason)), "{lines:#?}");
    };
    not_so(&s);
    s.succeed("a");
    not_so(&s);
    let mut s = Story::of(LINE).claimed();
    s.succeed("a").refuse("b").overdue().claim().overdue();
    not_so(&s);
    let mut s = Story::of(LINE).claimed();
    s.succeed("a").succeed("b").succeed("c");
    not_so(&s);
}

#[test]
fn not_with_a_record_that_does_not_fit() {
    let mut s = Story::of(LINE);
    s.order.steps.pop();
    one_against(&s, &longer(), "does not fit");
}

#[test]
fn not_where_a_step_that_was_started_is_missing() {
    let mut s = Story::of(LINE).claimed();
    let w = LINE
        .replace("\"id\": \"a\"", "\"id\": \"aa\"")
        .replace("steps.a", "steps.aa");
    one_against(&s, &w, "does not have it");
    s.succeed("a");
    let lines = against(&s, &w);
    assert!(lines[0].contains("does not have it"), "{lines:#?}");
    assert!(
        lines.iter().any(|l| l.contains("has aa before it")),
        "{lines:#?}"
    );
}

#[test]
fn not_where_a_step_under_way_is_another_request() {
    let s = Story::of(LINE).claimed();
    let reason = "under way with x/do-a, and the new version has";
    one_against(&s, &changed("\"do-a\"", "\"do-aa\""), reason);
    let agent = changed("\"x\", \"action\": \"do-a\"", "\"y\", \"action\": \"do-a\"");
    assert!(against(&s, &agent)[0].contains(reason));
    let mut s = Story::of(LINE).claimed();
    s.succeed("a");
    let there = agent.replacen(r#""compensate-a""#, r#""compensate-a", "agent": "x""#, 1);
    assert!(tried(&s, &compile(&there)).is_ok(), "it is done");
}

#[test]
fn what_may_have_been_done_is_compensated_where_it_was_done() {
    let elsewhere = changed(r#""compensate-a""#, r#""compensate-a", "agent": "other""#);
    let reason =
        "step a may have had its effect, which x compensates, and in the new version other";
    let mut s = Story::of(LINE).claimed();
    one_against(&s, &elsewhere, reason);
    s.succeed("a");
    one_against(&s, &elsewhere, reason);
    let as_written = r#"{"action": "compensate-a", "input": {"of": "${output}"}}"#;
    let none = changed(as_written, r#""none""#);
    one_against(&s, &none, "in the new version nobody");
    // A step that has not started may have another service in the new version, for its compensation too.
    moved(
        &mut s,
        &changed(r#""compensate-c""#, r#""compensate-c", "agent": "other""#),
    );
    // The new version may add a compensation to a completed step, at the same service.
    let mut s = Story::of(&none).claimed();
    s.succeed("a");
    one_against(&s, &elsewhere, "which nobody compensates");
    moved(&mut s, LINE);
}

#[test]
fn not_where_a_started_step_would_come_after_what_is_not_done() {
    let mut s = Story::of(FORK).claimed();
    s.succeed("p");
    let w = FORK.replace(
        "\"action\": \"do-p\", \"after\": []",
        "\"action\": \"do-p\", \"after\": [\"q\"]",
    );
    one_against(&s, &w, "has q before it, which is not done");
    s.succeed("q");
    let s = {
        let mut other = Story::of(FORK).claimed();
        other.overdue();
        other
    };
    one_against(&s, &w, "has q before it");
}

#[test]
fn not_where_a_skipped_step_would_come_after_what_is_not_done() {
    let w = r#"{"workflow": "w", "steps": [
        {"id": "a", "agent": "x", "action": "go", "when": "false", "compensation": "none"},
        {"id": "b", "agent": "x", "action": "go", "compensation": "none"}]}"#;
    let s = Story::of(w).claimed();
    assert_eq!(s.steps(), [("a", "skipped"), ("b", "running")]);
    let new = r#"{"id": "new", "agent": "x", "action": "go", "compensation": "none"}"#;
    let before = w.replace("\"steps\": [", &format!("\"steps\": [{new},"));
    one_against(&s, &before, "has new before it, which is not done");
    let without = w.replace(
        "{\"id\": \"a\", \"agent\": \"x\", \"action\": \"go\", \"when\": \"false\", \"compensation\": \"none\"},",
        "",
    );
    assert!(tried(&s, &compile(&without)).is_ok(), "nothing was done");
}

#[test]
fn not_past_another_point_of_no_return() {
    let w = |a: &str, b: &str| {
        format!(
            r#"{{"workflow": "w", "steps": [
            {{"id": "o", "agent": "x", "action": "go", "compensation": "none"}},
            {{"id": "a", "agent": "x", "action": "go", {a}}},
            {{"id": "b", "agent": "x", "action": "go", {b}}}]}}"#
        )
    };
    let (pivot, not) = ("\"point_of_no_return\": true", "\"compensation\": \"none\"");
    let mut s = Story::of(&w(pivot, "\"retry\": {\"calls_per_attempt\": 1}")).claimed();
    assert!(tried(&s, &compile(&w(not, pivot))).is_ok(), "not reached");
    s.succeed("o");
    one_against(&s, &w(not, pivot), "step a was its point of no return");
    one_against(&s, &w(not, not), "step a was its point of no return");
    assert!(
        tried(
            &s,
            &compile(&w(pivot, "\"retry\": {\"calls_per_attempt\": 2}"))
        )
        .is_ok()
    );
}

#[test]
fn what_is_in_doubt_keeps_its_rule() {
    let mut s = Story::of(ONCE).claimed();
    s.succeed("a").overdue();
    let safe = ONCE.replace(
        "\"at_most_once\": true, ",
        "\"retry\": {\"calls_per_attempt\": 1}, ",
    );
    one_against(&s, &safe, "another rule for that");
    let mut s = Story::of(PROBED).claimed();
    s.succeed("a").overdue().claim();
    one_against(
        &s,
        &PROBED.replace("find-pay", "find"),
        "another rule for that",
    );
}

#[test]
fn what_is_out_may_be_in_doubt_and_keeps_its_rule_too() {
    let mut s = Story::of(ONCE).claimed();
    s.succeed("a");
    let safe = ONCE.replace(
        "\"at_most_once\": true, ",
        "\"retry\": {\"calls_per_attempt\": 1}, ",
    );
    one_against(&s, &safe, "another rule for that");
    s.deferred("once", 60_000);
    assert!(tried(&s, &compile(&safe)).is_ok(), "it was not called");
}

#[test]
fn what_may_have_happened_keeps_its_input() {
    let other = changed("\"${steps.a}\"", "\"${steps.a.ref}\"");
    let mut s = Story::of(LINE).claimed();
    s.succeed("a");
    one_against(&s, &other, "another input");
    s.answer("b", failed()).overdue();
    one_against(&s, &other, "another input");
    s.claim().succeed("b");
    assert!(tried(&s, &compile(&other)).is_ok(), "it is done");
}

#[test]
fn another_input_of_what_had_no_effect_is_another_effect_and_has_another_key() {
    let (is, other) = (
        counted(LINE),
        counted(&changed("\"${steps.a}\"", "\"${steps.a.ref}\"")),
    );
    let mut s = Story::of(&is).claimed();
    s.succeed("a").answer("b", failed_cleanly()).overdue();
    moved(&mut s, &other);
    s.claim();
    let request = &s.requests()[0];
    assert_eq!(request.input, json!({"from": 1}));
    assert_eq!(request.idempotency_key.0, "o-1/b/forward/1");
}

#[test]
fn where_calls_are_not_counted_one_deliverys_word_does_not_let_the_input_change() {
    let mut s = Story::of(LINE).claimed();
    s.succeed("a").answer("b", failed_cleanly()).overdue();
    let other = changed("\"${steps.a}\"", "\"${steps.a.ref}\"");
    one_against(&s, &other, "another input");
    let stops = |w: &str| {
        w.replace(
            "\"failure_threshold\": 1",
            "\"failure_threshold\": 1, \"then\": \"error\"",
        )
    };
    let mut s = Story::of(&stops(LINE)).claimed();
    s.succeed("a").refuse("b");
    moved(&mut s, &stops(&other));
    assert_eq!(
        s.record("b").key,
        1,
        "the service refused, and that is final"
    );
}

#[test]
fn an_input_that_an_operator_has_corrected_stays() {
    let stops = |w: &str| {
        w.replace(
            "\"failure_threshold\": 1",
            "\"failure_threshold\": 1, \"then\": \"error\"",
        )
    };
    let mut s = Story::of(&stops(LINE)).claimed();
    s.succeed("a").refuse("b");
    s.correct("b", json!({"from": {"ref": 3}}));
    let key = s.record("b").key;
    moved(
        &mut s,
        &stops(&changed("\"${steps.a}\"", "\"${steps.a.ref}\"")),
    );
    assert_eq!(s.record("b").key, key);
    s.claim();
    assert_eq!(s.requests()[0].input, json!({"from": {"ref": 3}}));
}

#[test]
fn an_attempt_that_is_out_keeps_its_allowance() {
    let s = Story::of(LINE).claimed();
    one_against(
        &s,
        &changed("\"calls_per_attempt\": 2", "\"calls_per_attempt\": 1"),
        "with 2 calls",
    );
    let mut s = Story::of(PROBED).claimed();
    s.succeed("a").overdue().claim();
    let less = PROBED.replace(
        "\"calls_per_attempt\": 2",
        "\"calls_per_attempt\": 2, \"calls_per_run\": 3",
    );
    one_against(&s, &less, "with 3 calls");
}

#[test]
fn what_was_counted_stays_within_the_other_versions_bounds() {
    let patient = changed("\"failure_threshold\": 1", "\"failure_threshold\": 5");
    let mut s = Story::of(&patient).claimed();
    for _ in 0..3 {
        s.overdue().claim();
    }
    s.overdue();
    assert_eq!((s.failures("a"), s.calls("a")), (4, 8));
    let less = r#"{"calls_per_attempt": 2, "calls_per_run": 12}"#;
    let fewer = LINE.replace(r#"{"calls_per_attempt": 2}"#, less);
    moved(&mut s, &fewer);
    assert_eq!(s.failures("a"), 1, "so that the next is the last");
    s.claim().overdue();
    assert_eq!((s.state(), s.failures("a")), ("Compensating", 2));
}

#[test]
fn a_total_that_is_used_up_in_the_other_version_is_the_end() {
    let mut s = Story::of(&changed(
        "\"failure_threshold\": 1",
        "\"failure_threshold\": 5",
    ))
    .claimed();
    for _ in 0..3 {
        s.overdue().claim();
    }
    s.answer("a", failed_cleanly());
    let w = changed(
        "{\"calls_per_attempt\": 2}",
        "{\"calls_per_attempt\": 2, \"calls_per_run\": 3}",
    )
    .replace("\"failure_threshold\": 1", "\"failure_threshold\": 5");
    moved(&mut s, &w);
    assert_eq!(s.calls("a"), 3);
    s.overdue();
    assert_eq!(s.state(), "Compensating");
}

#[test]
fn all_that_stands_against_it_is_told_at_once() {
    let mut s = Story::of(FORK).claimed();
    s.answer("p", refused(true));
    let w = FORK
        .replace("\"fork\"", "\"other\"")
        .replace("\"do-q\"", "\"do-qq\"");
    let lines = against(&s, &w);
    assert!(lines.len() >= 2, "{lines:#?}");
    assert!(s.step("p").out().is_some());
}

#[test]
fn an_attempt_that_is_out_stays_counted_or_not_counted() {
    let mut s = Story::of(LINE).claimed();
    one_against(&s, &counted(LINE), "declares a total of calls");
    s.answer("a", failed_cleanly());
    assert!(tried(&s, &compile(&counted(LINE))).is_ok(), "it is not out");
}

#[test]
fn the_search_keys_stay_whatever_the_other_version_declares() {
    let mut s = Story::of(LINE);
    s.order.search = vec!["customer=ALFKI".parse().expect("a search key")];
    let keys = s.order.search.clone();
    let other = r#""workflow": "line", "search": {"invoice": "${details.amount}"}"#;
    moved(&mut s, &changed(r#""workflow": "line""#, other));
    assert_eq!(s.order.search, keys);
}
