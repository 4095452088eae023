//! The commit protocol: the tasks of a pass after a decision, and their order.

use std::sync::Arc;

use serde_json::json;
use triad_core::pass::{Carried, Pass, PassEnd, Snapshot, Source, Task, WriteResult, WriterOrder};
use triad_core::{
    ClaimId, Decision, Effect, Envelope, Event, Overdue, Reason, Timestamp, Transition, Version,
    effect,
};
use triad_workflow::{Limits, Workflow};

use crate::support::{LINE, Story, counted, done, refused};

fn snapshot(story: &Story) -> Snapshot {
    Snapshot {
        order: Arc::new(story.order.clone()),
        workflow: Arc::new(compiled(story)),
        details: Some(Arc::new(story.details.clone())),
    }
}

fn compiled(story: &Story) -> Workflow {
    let definition = story.workflow.definition.clone();
    Workflow::compile(definition, &Limits::published()).expect("it was compiled before")
}

fn decide(pass: &mut Pass, story: &Story, source: Source, event: Event) {
    let breaches = pass.decide(snapshot(story), source, event, story.timing, story.now);
    assert_eq!(breaches, []);
}

fn decided(story: &Story, place: WriterOrder, event: Event) -> Pass {
    let mut pass = Pass::new(place, 1);
    assert!(matches!(pass.task(), Task::Read));
    decide(&mut pass, story, Source::Record, event);
    pass
}

fn claim() -> Event {
    Event::Claim(ClaimId("c".into()), triad_core::CallbackSecret([1, 2]))
}

fn topics(task: Task<'_>) -> Vec<String> {
    match task {
        Task::Publish(wave) => wave.iter().map(|m| m.topic.clone()).collect(),
        other => panic!("nothing is to be published: {other:?}"),
    }
}

fn end(pass: &Pass) -> &PassEnd {
    match pass.task() {
        Task::Ended(end) => end,
        other => panic!("it has not ended: {other:?}"),
    }
}

fn carried(pass: &Pass) -> &Carried {
    match end(pass) {
        PassEnd::Done(carried) | PassEnd::Unsent(carried) => carried,
        other => panic!("nothing was carried out: {other:?}"),
    }
}

#[test]
fn the_scheduler_writes_then_sends_everything_at_once_and_keeps_a_copy_with_nothing_unsent() {
    let story = Story::of(LINE);
    let mut pass = decided(&story, WriterOrder::InLine, claim());
    let Task::Write { expected, next, .. } = pass.task() else {
        panic!("it is written first")
    };
    assert_eq!((expected, next.version), (Version(1), Version(2)));
    pass.written(WriteResult::Written);
    assert_eq!(topics(pass.task()), ["status", "agent.x"]);
    pass.published(true);
    let carried = carried(&pass);
    assert!(carried.was_written && carried.was_sent && !carried.was_confirmed);
    assert_ne!(carried.order.outbox.entries, []);
    let copy = carried.copy.as_ref().expect("it is alive");
    assert_eq!(copy.outbox, carried.order.outbox.acknowledged());
}

#[test]
fn what_is_not_acknowledged_leaves_no_copy() {
    let mut pass = decided(&Story::of(LINE), WriterOrder::InLine, claim());
    pass.written(WriteResult::Written);
    pass.published(false);
    assert!(matches!(end(&pass), PassEnd::Unsent(_)));
    assert_eq!(carried(&pass).copy, None);
}

#[test]
fn a_lost_race_is_decided_again_on_the_record_so_often_and_no_more() {
    let story = Story::of(LINE);
    let mut pass = decided(&story, WriterOrder::InLine, claim());
    pass.written(WriteResult::Conflict);
    assert!(matches!(pass.task(), Task::Read));
    decide(&mut pass, &story, Source::Record, claim());
    pass.written(WriteResult::Conflict);
    assert_eq!(end(&pass), &PassEnd::Raced);
}

#[test]
fn a_write_of_which_nothing_is_known_sends_nothing() {
    let mut pass = decided(&Story::of(LINE), WriterOrder::InLine, claim());
    pass.written(WriteResult::Unknown);
    assert_eq!(end(&pass), &PassEnd::Unwritten);
}

#[test]
fn nothing_is_left_compensated_on_the_word_of_a_copy() {
    let mut other = Pass::new(WriterOrder::InLine, 0);
    let event = || {
        Event::Claim(
            ClaimId("another".into()),
            triad_core::CallbackSecret([1, 2]),
        )
    };
    let mut taken = Story::of(LINE).claimed();
    taken.order.outbox.dedup_key = None;
    decide(&mut other, &taken, Source::Copy, event());
    assert!(matches!(other.task(), Task::Read));
    decide(&mut other, &taken, Source::Record, event());
    assert_eq!(end(&other), &PassEnd::Ignored(Reason::Claimed));
    // An order that an eventually consistent read does not find is read again consistently.
    let mut none = Pass::new(WriterOrder::InLine, 0);
    none.absent(Source::Copy);
    assert!(matches!(none.task(), Task::Read));
    none.absent(Source::Record);
    assert_eq!(end(&none), &PassEnd::Absent);
}

#[test]
fn a_writer_beside_the_line_sends_what_it_tells_before_what_lets_others_go_on() {
    let mut story = Story::of(&counted(LINE)).claimed();
    story.overdue();
    // The record as the Supervisor wrote it: a failure is counted, and a wake is to be sent to the Scheduler.
    let effects = effect::status_effects(&story.order);
    let change = Transition {
        next: story.order.clone(),
        effects,
    };
    let mut pass = Pass::new(WriterOrder::Beside, 0);
    let read = snapshot(&story);
    assert_eq!(pass.take(read, change, story.timing, story.now), []);
    pass.written(WriteResult::Written);
    let first = topics(pass.task());
    assert!(!first.is_empty() && first.iter().all(|t| t == "status"));
    let mut failed = pass.clone();
    failed.published(false);
    assert!(
        matches!(end(&failed), PassEnd::Unsent(_)),
        "the rest is not sent"
    );
    pass.published(true);
    assert_eq!(topics(pass.task()), ["scheduler"]);
    pass.published(true);
    assert_eq!(carried(&pass).copy, None, "it keeps none");
}

#[test]
fn a_request_is_never_sent_from_beside_the_line() {
    let story = Story::of(LINE);
    let Ok(Decision::Transition(change)) = story.asked(claim()) else {
        panic!("it can be claimed")
    };
    assert!(
        change
            .effects
            .iter()
            .any(|e| matches!(e, Effect::Request(_)))
    );
    let mut pass = Pass::new(WriterOrder::Beside, 0);
    pass.take(snapshot(&story), *change, story.timing, story.now);
    pass.written(WriteResult::Written);
    assert_eq!(topics(pass.task()), ["status"]);
    pass.published(true);
    assert!(matches!(end(&pass), PassEnd::Done(_)));
}

#[test]
fn a_bad_end_is_confirmed_once_it_is_sent_and_not_before() {
    let mut story = Story::of(LINE).claimed();
    let reply = Event::Reply(story.reply("a", refused(false)));
    story.sent();
    let mut pass = decided(&story, WriterOrder::InLine, reply);
    pass.written(WriteResult::Written);
    let (order, was_written) = pass.sending().expect("it is being sent");
    assert!(was_written && order.state.is_finished() && order.due.is_some());
    let mut unsent = pass.clone();
    unsent.published(false);
    assert!(matches!(end(&unsent), PassEnd::Unsent(_)));
    pass.published(true);
    let Task::Confirm { expected, next } = pass.task() else {
        panic!("it is confirmed")
    };
    assert_eq!(next.version, expected.next());
    assert_eq!((next.due, next.outbox.entries.len()), (None, 0));
    pass.confirmed(true);
    assert!(carried(&pass).was_confirmed && carried(&pass).copy.is_none());
}

fn stored_with(task: Task<'_>) -> (Vec<String>, Option<Timestamp>) {
    match task {
        Task::Write {
            messages,
            due_if_unsent,
            ..
        } => {
            let topics = messages.iter().map(|m| m.topic.clone()).collect();
            (topics, due_if_unsent)
        }
        other => panic!("nothing is to be written: {other:?}"),
    }
}

#[test]
fn what_is_stored_with_the_record_is_not_published_again() {
    let story = Story::of(LINE);
    let mut pass = decided(&story, WriterOrder::InLine, claim());
    let (stored, due) = stored_with(pass.task());
    assert_eq!((stored, due), (vec!["status".to_owned()], None));
    pass.written(WriteResult::WrittenWithMessages);
    assert_eq!(topics(pass.task()), ["agent.x"]);
    pass.published(true);
    let carried = carried(&pass);
    assert!(carried.was_written && carried.was_sent);
    let copy = carried.copy.as_ref().expect("it is alive");
    assert_eq!(copy.outbox, carried.order.outbox.acknowledged());
}

#[test]
fn an_end_that_is_stored_with_its_messages_is_confirmed_without_the_bus() {
    let mut story = Story::of(LINE).claimed();
    let reply = Event::Reply(story.reply("a", refused(false)));
    story.sent();
    let mut pass = decided(&story, WriterOrder::InLine, reply);
    let (stored, due) = stored_with(pass.task());
    assert_eq!(stored, ["status"; 2]);
    assert_eq!(due, None, "it is due already");
    pass.written(WriteResult::WrittenWithMessages);
    assert!(matches!(pass.task(), Task::Confirm { .. }));
    pass.confirmed(true);
    assert!(carried(&pass).was_sent && carried(&pass).was_confirmed);
}

#[test]
fn an_end_that_no_index_has_is_due_if_its_status_is_not_stored_with_it() {
    let one = r#"{"workflow": "w", "steps": [
        {"id": "a", "agent": "x", "action": "go", "compensation": "none"}]}"#;
    let mut story = Story::of(one).claimed();
    let good = Event::Reply(story.reply("a", done()));
    story.sent();
    let mut pass = decided(&story, WriterOrder::InLine, good);
    let Task::Write { next, .. } = pass.task() else {
        panic!("it is written first")
    };
    assert!(next.state.is_finished() && next.due.is_none());
    let (stored, due) = stored_with(pass.task());
    assert_eq!(stored, ["status"]);
    assert_eq!(due, Some(story.now.plus(story.timing.confirm_within)));
    pass.written(WriteResult::WrittenWithMessages);
    assert!(matches!(end(&pass), PassEnd::Done(carried) if carried.was_sent));
}

#[test]
fn a_redelivered_event_sends_the_very_same_messages_again() {
    let story = Story::of(LINE);
    let mut first = decided(&story, WriterOrder::InLine, claim());
    first.written(WriteResult::Written);
    let wave = |pass: &Pass| -> Vec<Envelope> {
        match pass.task() {
            Task::Publish(wave) => wave.to_vec(),
            other => panic!("{other:?}"),
        }
    };
    let mut written = Story::of(LINE);
    let (order, _) = first.sending().expect("it is written");
    written.order = (**order).clone();
    let mut again = decided(&written, WriterOrder::InLine, claim());
    assert_eq!(wave(&again), wave(&first));
    again.published(true);
    assert!(!carried(&again).was_written, "nothing was written for it");
}

#[test]
fn details_are_asked_for_only_where_a_decision_needs_them() {
    let templated = r#"{"workflow": "w", "steps": [
        {"id": "a", "agent": "x", "action": "go", "compensation": "none"},
        {"id": "b", "agent": "x", "action": "go", "compensation": "none", "input": {"n": "${details.n}"}}]}"#;
    let mut story = Story::of(templated);
    let without = |story: &Story| Snapshot {
        details: None,
        ..snapshot(story)
    };
    let mut pass = Pass::new(WriterOrder::InLine, 0);
    let (timing, now) = (story.timing, story.now);
    pass.decide(without(&story), Source::Record, claim(), timing, now);
    assert!(
        matches!(pass.task(), Task::Write { .. }),
        "a constant input"
    );
    story.claim().sent();
    let reply = Event::Reply(story.reply("a", done()));
    let mut pass = Pass::new(WriterOrder::InLine, 0);
    pass.decide(without(&story), Source::Record, reply.clone(), timing, now);
    assert!(matches!(pass.task(), Task::ReadDetails));
    story.details = json!({"n": 7});
    decide(&mut pass, &story, Source::Record, reply);
    pass.written(WriteResult::Written);
    let Task::Publish(wave) = pass.task() else {
        panic!("a request is to be sent")
    };
    let body: serde_json::Value = serde_json::from_slice(&wave[0].value).expect("JSON");
    assert_eq!(body["input"], json!({"n": 7}));
}

#[test]
fn a_hint_that_was_early_is_moved_without_a_word_and_a_second_sweep_finds_nothing_to_do() {
    let mut story = Story::of(LINE).claimed();
    let overdue = || Event::Overdue(Overdue::default());
    let mut pass = decided(&story, WriterOrder::Beside, overdue());
    pass.written(WriteResult::Written);
    let moved = carried(&pass);
    assert!(moved.was_written && !moved.was_sent);
    story.order = (*moved.order).clone();
    let second = decided(&story, WriterOrder::Beside, overdue());
    assert_eq!(end(&second), &PassEnd::Ignored(Reason::NotDue));
}

#[test]
fn a_record_that_does_not_fit_its_definition_ends_a_pass_as_illegal() {
    let mut story = Story::of(LINE);
    story.order.steps.pop();
    let pass = decided(
        &story,
        WriterOrder::Beside,
        Event::Overdue(Overdue::default()),
    );
    assert!(matches!(end(&pass), PassEnd::Illegal(_)));
}
