//! Amended details: what may change, who sees it, and what is refused by name.

use serde_json::{Value, json};
use triad_core::amend::{self, MAX_AMENDMENT_BYTES};
use triad_core::order::IncidentKind;
use triad_core::stored::{self, Scalar};
use triad_core::{Accepted, Action, Event, Order, StepState, Timestamp};
use triad_workflow::{Limits, Millis, Workflow};

use crate::support::{BEGIN, LINE, Story, Then, compile, done, failed_cleanly};

/// Each step reads another part of the details, each in another place of a definition.
const READERS: &str = r#"{"workflow": "readers", "search": {"customer": "${details.customer}"},
  "details_schema": {"type": "object", "properties": {"lines": {"type": "array"}, "ship": {"type": "object"}}},
  "defaults": {"attempt_timeout": "10s", "retry": {"calls_per_attempt": 2}, "supervisor": {"failure_threshold": 1, "then": "error"}},
  "steps": [
    {"id": "pack", "agent": "x", "action": "pack", "input": {"lines": "${details.lines}", "by": "${details.ship.by}"},
     "compensation": {"action": "unpack", "input": {"from": "${details.shelf}"}}},
    {"id": "gift", "agent": "x", "action": "gift", "when": "details.gift", "input": {"card": "${details.card}"}, "compensation": "none"},
    {"id": "rest", "wait": {"until": "${details.day}"}},
    {"id": "paid", "await": {"event": "paid", "match": "event.sum == details.sum", "fails_when": "event.code == details.code", "within": "1h"}},
    {"id": "send", "agent": "y", "action": "send", "input": {"to": "${details.ship.city}", "all": "${details['label'].map(l, l)}"},
     "compensation": "none"}]}"#;

fn details() -> Value {
    json!({"customer": "ALFKI", "lines": [1], "ship": {"by": "road", "city": "Reims"}, "shelf": 1, "gift": false,
        "card": "red", "day": "2026-01-01T00:00:00Z", "sum": 7, "code": 0, "label": ["a"], "note": "n"})
}

fn story() -> Story {
    let mut s = Story::with_details(READERS, details());
    // A moment before the one for which `rest` waits.
    s.now = Timestamp(1_767_225_600_000 - 3_600_000);
    s
}

fn amended(patch: Value) -> Action {
    Action::Amend { patch }
}

impl Story {
    /// The reason of the refusal of an amendment.
    #[track_caller]
    fn not_amended(&mut self, patch: Value) -> String {
        match self.tries(amended(patch)) {
            Then::Refused(refusal) => refusal.to_string(),
            other => panic!("{other:?}"),
        }
    }

    fn is(&self) -> Value {
        amend::details(&self.order, &self.details).into_owned()
    }

    /// The input of the request to a step that is under way.
    fn input(&self, step: &str) -> Value {
        let mut requests = self.requests().into_iter();
        requests
            .find(|request| request.step.as_str() == step)
            .expect("a request to the step")
            .input
    }
}

/// The parts that are read by then, each with its step, and a patch that changes it.
fn parts() -> [(&'static str, &'static str, Value); 10] {
    [
        ("pack", "details.lines", json!({"lines": [2]})),
        ("pack", "details.ship.by", json!({"ship": {"by": "rail"}})),
        ("pack", "details.shelf", json!({"shelf": null})),
        ("gift", "details.gift", json!({"gift": true})),
        (
            "rest",
            "details.day",
            json!({"day": "2027-01-01T00:00:00Z"}),
        ),
        ("paid", "details.sum", json!({"sum": 8})),
        ("paid", "details.code", json!({"code": 1})),
        (
            "send",
            "details.ship.city",
            json!({"ship": {"city": "Lyon"}}),
        ),
        ("send", "details.label", json!({"label": ["b"]})),
        ("none", "details.note", json!({"note": "m"})),
    ]
}

/// Drives the order until this step has been started.
fn until(s: &mut Story, step: &str) {
    s.claim();
    for (now, event) in [("pack", ""), ("rest", ""), ("paid", "paid"), ("send", "")] {
        if now == step {
            return;
        }
        match (now, event) {
            ("rest", _) => {
                s.overdue_now().claim();
            }
            (_, "paid") => assert_eq!(
                s.hears("paid", "e", json!({"sum": 7, "code": 1})),
                Then::Written
            ),
            _ => drop(s.succeed(now)),
        }
    }
}

#[test]
fn each_part_may_change_until_a_step_reads_it_and_is_then_refused_by_name() {
    // Steps that have read something when this one has been started.
    for (at, begun) in [
        ("new", &[][..]),
        ("pack", &["pack"]),
        ("rest", &["pack", "gift", "rest"]),
        ("paid", &["pack", "gift", "rest", "paid"]),
        ("send", &["pack", "gift", "rest", "paid", "send"]),
    ] {
        for (by, part, patch) in parts() {
            let mut s = story();
            if at != "new" {
                until(&mut s, at);
            }
            let before = s.order.clone();
            match begun.contains(&by) {
                false => {
                    s.acts(amended(patch.clone()));
                    assert_eq!(s.order.state, before.state, "{part}");
                    assert_eq!(s.order.steps, before.steps, "{part}");
                    assert_ne!(s.is(), details(), "{part}");
                }
                true => assert_eq!(
                    s.not_amended(patch),
                    format!("the details cannot be amended: steps have read {part} by {by}"),
                    "{at}"
                ),
            }
        }
    }
}

#[test]
fn what_a_part_is_in_and_what_is_in_it_count_as_the_part() {
    let mut s = story();
    until(&mut s, "pack");
    for patch in [
        json!({"ship": null}),
        json!({"ship": "x"}),
        json!({"ship": {"by": {"van": 1}}}),
        json!({"lines": {"0": 1}}),
    ] {
        let why = s.not_amended(patch.clone());
        assert!(why.contains("by pack"), "{patch}: {why}");
    }
    // A step that reads the whole reads every part.
    let all = LINE.replace("\"${steps.a}\"", "\"${size(details)}\"");
    let mut s = Story::of(&all);
    s.claim().acts(amended(json!({"new": 1}))).succeed("a");
    let why = s.not_amended(json!({"new": 2}));
    assert!(why.contains("details.new by b"), "{why}");
    assert_eq!(s.input("b"), json!({"from": 2}));
}

#[test]
fn all_that_was_read_is_named_with_every_reader() {
    let both = READERS
        .replace("${details.card}", "${details.lines}")
        .replace("\"details.gift\"", "\"true\"");
    let mut s = Story::with_details(&both, details());
    s.claim().succeed("pack");
    let why = s.not_amended(json!({"lines": [], "note": "m", "shelf": 2}));
    assert!(
        why.ends_with("read details.lines by pack, gift; details.shelf by pack"),
        "{why}"
    );
    assert_eq!(s.is(), details(), "nothing of it is done");
}

#[test]
fn later_steps_see_the_amended_value_and_a_repeated_one_what_it_had() {
    let mut s = story();
    until(&mut s, "pack");
    s.acts(amended(json!({"ship": {"city": "Lyon"}, "gift": true})));
    s.answer("pack", failed_cleanly()).overdue_now().claim();
    assert_eq!(s.input("pack"), json!({"lines": [1], "by": "road"}));
    s.succeed("pack");
    assert_eq!(
        s.input("gift"),
        json!({"card": "red"}),
        "its condition holds now"
    );
    s.succeed("gift")
        .acts(amended(json!({"sum": 8})))
        .overdue_now()
        .claim();
    assert_eq!(
        s.hears("paid", "e-7", json!({"sum": 7, "code": 1})),
        Then::Ignored(triad_core::Reason::NoMatch)
    );
    assert_eq!(
        s.hears("paid", "e-8", json!({"sum": 8, "code": 1})),
        Then::Written
    );
    assert_eq!(s.input("send"), json!({"to": "Lyon", "all": ["a"]}));
    s.succeed("send");
    assert_eq!(s.state(), "Processed");
}

#[test]
fn a_compensation_reads_what_it_would_have_read_when_its_step_was_started() {
    let mut s = story();
    until(&mut s, "pack");
    s.acts(amended(json!({"note": "m"})))
        .succeed("pack")
        .acts(Action::Cancel)
        .claim();
    assert_eq!(s.input("pack"), json!({"from": 1}));
    let why = s.not_amended(json!({"note": "l"}));
    assert!(
        why.contains(
            "amend is for orders in Pending, Processing or Error; this one is Compensating"
        ),
        "{why}"
    );
}

#[test]
fn an_input_that_an_operator_has_put_in_place_reads_nothing() {
    let mut definition: Value = serde_json::from_str(READERS).unwrap();
    definition["steps"].as_array_mut().unwrap().truncate(1);
    let mut s = Story::with_details(&definition.to_string(), details());
    s.claim().refuse("pack");
    assert_eq!(s.state(), "Error");
    let why = s.not_amended(json!({"lines": [2]}));
    assert!(why.contains("details.lines by pack"), "{why}");
    assert_eq!(
        s.correct("pack", json!({"lines": [3], "by": "sea"})),
        Then::Written
    );
    s.acts(amended(json!({"lines": [2]})));
    let why = s.not_amended(json!({"shelf": 2}));
    assert!(
        why.contains("details.shelf by pack"),
        "its compensation reads: {why}"
    );
    s.claim();
    assert_eq!(s.input("pack"), json!({"lines": [3], "by": "sea"}));
}

#[test]
fn an_order_that_stopped_for_a_missing_detail_goes_on_with_it() {
    let mut without = details();
    without["ship"].as_object_mut().unwrap().remove("by");
    let mut s = Story::with_details(READERS, without);
    s.claim();
    assert_eq!((s.state(), s.step("pack")), ("Error", &StepState::Waiting));
    s.acts(amended(json!({"ship": {"by": "sea"}})))
        .resubmit()
        .claim();
    assert_eq!(s.input("pack"), json!({"lines": [1], "by": "sea"}));
}

#[test]
fn several_amendments_add_up_and_one_that_is_taken_back_leaves_nothing() {
    let mut s = story();
    s.acts(amended(json!({"ship": {"city": "Lyon"}, "note": null})));
    s.acts(amended(json!({"ship": {"floor": 3}})));
    let patch = json!({"ship": {"city": "Lyon", "floor": 3}, "note": null});
    assert_eq!(s.order.amendment, Some(patch));
    s.acts(amended(
        json!({"ship": {"city": "Reims", "floor": null}, "note": "n"}),
    ));
    assert_eq!(s.order.amendment, None);
    assert_eq!(s.timeline(), [IncidentKind::Amended; 3]);
}

#[test]
fn the_line_of_the_timeline_names_the_parts_and_no_value() {
    let mut s = story();
    s.acts(amended(
        json!({"ship": {"city": "Lyon", "by": "road"}, "card": "blue"}),
    ));
    let line = &s.order.incidents[0];
    assert_eq!(
        line.note.as_deref(),
        Some("details.card, details.ship.city")
    );
    let act = line.act.as_ref().expect("an act");
    assert_eq!((act.by.as_str(), act.why.as_str()), ("ann", "because"));
}

#[test]
fn the_same_amendment_again_is_told_as_one_whatever_has_become_of_the_order() {
    let patch = json!({"ship": {"city": "Lyon"}});
    let mut s = story();
    s.acts(amended(patch.clone()));
    let so = |s: &mut Story| assert_eq!(s.not_amended(patch.clone()), "the details are so already");
    so(&mut s);
    until(&mut s, "send");
    so(&mut s);
    s.answer("send", done());
    assert_eq!(s.state(), "Processed");
    so(&mut s);
    let why = s.not_amended(json!({"ship": {"city": "Nice"}}));
    assert!(why.contains("this one is Processed"), "{why}");
}

#[test]
fn what_is_no_amendment_is_refused_with_its_reason() {
    let large = "x".repeat(MAX_AMENDMENT_BYTES);
    let deep = (0..70).fold(json!(1), |inner, _| json!({"a": inner}));
    for (patch, reason) in [
        (
            json!([]),
            "an amendment is an object with the fields that change",
        ),
        (json!({}), "the amendment has no field"),
        (json!({"a": large}), "8192 are allowed"),
        (json!({"a": deep}), "nested deeper than 64"),
        (
            json!({"customer": "ANTON"}),
            "search keys were made of details.customer by customer",
        ),
        (
            json!({"lines": 7, "ship": null}),
            "the details would not fit the workflow: details.lines is a number, and has to be of type array",
        ),
    ] {
        let mut s = story();
        let why = s.not_amended(patch);
        assert!(why.contains(reason), "{why}");
        assert_eq!(s.order.amendment, None);
    }
}

#[test]
fn all_amendments_together_are_bounded() {
    let mut s = story();
    let most = "x".repeat(MAX_AMENDMENT_BYTES / 2);
    s.acts(amended(json!({"a": most})));
    let why = s.not_amended(json!({"b": most}));
    assert!(why.contains("8192 are allowed"), "{why}");
    s.acts(amended(json!({"a": most.replace('x', "y")})));
}

#[test]
fn the_amendment_is_stored_as_it_came_and_is_no_attribute_without_one() {
    let stored = |order: &Order| stored::encode(order, 7, Millis(0));
    let of = |order: &Order| {
        let attributes = stored(order);
        let found = attributes
            .iter()
            .find(|(name, _)| *name == stored::attribute::AMENDMENT);
        found.map(|(_, value)| value.clone())
    };
    let mut s = story();
    assert_eq!(of(&s.order), None);
    s.acts(amended(
        json!({"n": 18_446_744_073_709_551_615_u64, "m": 0.12345678901234568, "note": null}),
    ));
    let text = r#"{"m":0.12345678901234568,"n":18446744073709551615,"note":null}"#;
    assert_eq!(of(&s.order), Some(Scalar::Text(text.to_owned())));
    let attributes = stored(&s.order);
    let read = |name: &str| {
        let found = attributes.iter().find(|(known, _)| *known == name);
        Ok(found.map(|(_, value)| value.clone()))
    };
    assert_eq!(stored::decode(read), Ok(s.order.clone()));
    assert_eq!(s.is()["n"].to_string(), "18446744073709551615");
}

/// An order that Submission could store without reading its definition.
#[test]
fn an_order_whose_definition_was_not_read_is_amended_and_admitted_with_it() {
    let workflow: Workflow = compile(READERS);
    let mut wrong = details();
    wrong["lines"] = json!(7);
    for (patch, state) in [
        (json!({"note": "m", "lines": []}), "Pending"),
        (json!({"note": "m"}), ""),
    ] {
        let accepted: Accepted = serde_json::from_value(json!({
            "order_id": "o-1", "workflow": format!("{}@{}", workflow.name, workflow.hash),
            "submitted_at": BEGIN, "due": BEGIN + 10_000, "details": wrong}))
        .unwrap();
        let definition = serde_json::from_str(READERS).unwrap();
        let workflow = Workflow::compile(definition, &Limits::published()).unwrap();
        let mut s = Story::with_workflow(workflow, wrong.clone());
        s.order = Order::unread(&accepted);
        if state.is_empty() {
            let why = s.not_amended(patch);
            assert!(why.contains("would not fit"), "{why}");
            continue;
        }
        s.acts(amended(patch));
        assert_eq!(s.order.search[0].to_string(), "customer=ALFKI");
        assert_eq!(s.when(Event::Admit), Then::Written);
        assert_eq!(s.state(), state);
        s.claim();
        assert_eq!(s.input("pack"), json!({"lines": [], "by": "road"}));
    }
}
