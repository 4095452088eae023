//! The documented limits of what is stored, sent and admitted. They are checked by their effect, so that a changed
//! constant fails here.

use serde_json::json;
use triad_core::breaker::{Breaker, BreakerGate, BreakerSettings, Window as Calls};
use triad_core::decide::true_due;
use triad_core::downstream::{Downstream, DownstreamAction, ForcedTo};
use triad_core::due::{aside_shard, shard_of};
use triad_core::ledger::to_revoke;
use triad_core::message::Pace;
use triad_core::order::{Dropped, IncidentKind};
use triad_core::outbox::{Emission, Outbox, Writer};
use triad_core::rate::Granted;
use triad_core::retry_budget::{RetryBudget, RetryBudgetSettings};
use triad_core::status::Status;
use triad_core::submission::Submission;
use triad_core::window::Window;
use triad_core::{
    Action, ClaimId, Event, Failure, FailureKind, OperationRefusal, OperatorAct, OrderId, Overdue,
    Timestamp,
};
use triad_workflow::{Millis, WorkflowName};

use crate::support::{LINE, ONCE, Story, Then, counted, refused};

const DAY: u64 = 24 * 3_600_000;

#[test]
fn what_has_failed_is_told_in_64_and_768_bytes() {
    let failure = Failure::new(FailureKind::Transient, &"c".repeat(600), &"m".repeat(6_000));
    assert_eq!((failure.code.len(), failure.message.len()), (64, 768));
    let odd = Failure::new(FailureKind::Transient, "", &format!("m{}", "é".repeat(500)));
    assert_eq!(odd.message.len(), 767, "no character is cut in two");
}

#[test]
fn the_code_of_a_failure_has_letters_digits_and_five_signs_whoever_sent_it() {
    for (sent, kept) in [
        ("out-of-stock", "out-of-stock"),
        ("E_7.1:bank/limit", "E_7.1:bank/limit"),
        ("x';touch pwned;'", "x--touch-pwned--"),
        ("\u{1b}[2J\u{202e}*größe", "--2J--gr--e"),
        ("", ""),
    ] {
        let mut failure = Failure::new(FailureKind::Permanent, sent, "");
        assert_eq!(failure.code, kept);
        failure.code = sent.to_owned();
        failure.bound();
        assert_eq!(failure.code, kept, "of a message");
    }
}

#[test]
fn an_operators_name_and_reason_are_kept_in_256_bytes_each_and_a_note_in_1024() {
    let act = OperatorAct::new(&"n".repeat(300), &"w".repeat(300));
    assert_eq!((act.by.len(), act.why.len()), (256, 256));
    let mut s = Story::of(ONCE).claimed();
    s.succeed("a").answer("once", refused(true));
    s.resolve("once", Some(json!("x".repeat(5_000))));
    let at = s.order.incidents.len() - 1;
    let note = |s: &Story| s.order.incidents[at].note.as_ref().unwrap().len();
    assert_eq!(note(&s), 1_024);
    // A note keeps its length while its line is among the newest 20, and is shortened afterwards.
    for lines in 1..=20 {
        assert_eq!(note(&s), 1_024, "{lines}");
        s.acts(match lines % 2 {
            1 => Action::Pause,
            _ => Action::Resume,
        });
    }
    assert_eq!(note(&s), 64);
}

#[test]
fn a_timeline_keeps_100_lines_and_every_act_among_them() {
    let w = r#"{"workflow": "w", "steps": [
        {"id": "a", "agent": "x", "action": "go", "compensation": "none", "retry": {"calls_per_attempt": 1}, "supervisor": {"failure_threshold": 99}}]}"#;
    let mut s = Story::of(w).claimed();
    s.acts(Action::Pause).acts(Action::Resume).claim();
    for lines in 3..=100 {
        s.overdue().claim();
        assert_eq!(s.timeline().len(), lines);
    }
    assert_eq!(s.order.dropped, None);
    let oldest = s.order.incidents[2].at;
    s.overdue();
    let kept = s.timeline();
    assert_eq!(kept.len(), 100);
    assert_eq!(kept[..2], [IncidentKind::Paused, IncidentKind::Resumed]);
    let dropped = Dropped {
        lines: 1,
        latest: oldest,
    };
    assert_eq!(s.order.dropped, Some(dropped));
    let texts = s.order.incidents.iter().filter_map(|i| i.failure.as_ref());
    let whole = texts.filter(|f| !f.message.is_empty()).count();
    assert_eq!(whole, 20, "older lines have the code alone");
}

#[test]
fn a_record_carries_on_all_that_may_be_unsent() {
    let status = |sequence| Emission::Status {
        sequence,
        status: Status::Received,
        step: None,
        at: Timestamp(0),
        cause: None,
    };
    let of = |count: u32| Outbox {
        entries: (1..=count).map(status).collect(),
        ..Outbox::empty(Writer::Scheduler)
    };
    for count in [63, 64, 200] {
        let outbox = of(count);
        let carried = outbox.carried_to(Writer::Supervisor).entries;
        assert_eq!(carried, outbox.entries, "a sequence would be missing");
        assert_eq!(outbox.is_full(), count >= 64);
    }
}

/// The step fails a hundred times while no status can be sent to the application.
#[test]
fn while_nothing_can_be_sent_the_sequence_has_no_gap_and_the_record_has_a_bound() {
    let mut s = Story::of(
        r#"{"workflow": "w", "steps": [
        {"id": "a", "agent": "x", "action": "go", "attempt_timeout": "10s", "compensation": "none",
         "retry": {"calls_per_attempt": 1, "calls_per_run": 100}, "supervisor": {"failure_threshold": 99, "then": "error"}}]}"#,
    )
    .claimed();
    let told = |s: &Story| -> Vec<u32> {
        let entries = s.order.outbox.entries.iter();
        let sequences = entries.filter_map(|e| match e {
            Emission::Status { sequence, .. } => Some(*sequence),
            _ => None,
        });
        sequences.collect()
    };
    for _ in 0..99 {
        s.overdue();
        s = s.claimed();
        let told = told(&s);
        assert!(told.len() <= 64, "{}", told.len());
        let first = told[0];
        assert!(
            told.iter().zip(first..).all(|(is, wanted)| *is == wanted),
            "{told:?}"
        );
    }
    assert_eq!(told(&s).len(), 64);
    s.overdue();
    assert_eq!(s.state(), "Error");
    assert_eq!(told(&s).len(), 65, "an end is told always");
    let again = || Action::Resubmit { input: None };
    let then = s.tries(again());
    assert!(
        matches!(then, Then::Refused(OperationRefusal::Already(_))),
        "{then:?}"
    );
    s.when(Event::Confirmed);
    assert_eq!(s.tries(again()), Then::Written);
}

#[test]
fn an_outbox_beyond_its_bound_is_a_breach() {
    let mut s = Story::of(LINE);
    let status = |sequence| Emission::Status {
        sequence,
        status: Status::Received,
        step: None,
        at: Timestamp(0),
        cause: None,
    };
    // The limit: 64 statuses, two messages for each of the three steps, and twelve of the order itself.
    for (count, is_breach) in [(64 + 6 + 12, false), (64 + 6 + 13, true)] {
        s.order.outbox.entries = (1..=count).map(status).collect();
        let breaches = triad_core::invariants::of_record(&s.order, &s.workflow);
        let found = breaches.iter().any(|b| b.invariant == "outbox-is-bounded");
        assert_eq!(found, is_breach, "{count}");
    }
}

#[test]
fn of_one_downstream_the_last_21_changes_are_kept() {
    let act = OperatorAct::new("ann", "a reason");
    let mut record = Downstream::default();
    for n in 0..30 {
        let action = match n % 2 {
            0 => DownstreamAction::Force(ForcedTo::Open),
            _ => DownstreamAction::Release,
        };
        record = record.operated(&action, &act, Timestamp(n)).unwrap();
    }
    let at: Vec<u64> = record.earlier.iter().map(|change| change.at.0).collect();
    assert_eq!(record.last.at, Timestamp(29));
    assert_eq!(at, (9..29).rev().collect::<Vec<_>>());
    assert!(record.earlier[0].what.ends_with(": a reason (ann)"));
    assert_ne!(record.earlier[0].what, record.earlier[1].what);
}

#[test]
fn of_one_downstream_64_step_types_can_be_paused() {
    let pause = |n: u32| {
        let workflow = WorkflowName::new(format!("w{n}")).unwrap();
        DownstreamAction::PauseStep(workflow, "pay".to_owned().try_into().unwrap())
    };
    let act = OperatorAct::new("ann", "a reason");
    let mut record = Downstream::default();
    for n in 0..64 {
        record = record.operated(&pause(n), &act, Timestamp(0)).unwrap();
    }
    let one_more = record.operated(&pause(64), &act, Timestamp(0));
    assert!(
        matches!(one_more, Err(OperationRefusal::Already(_))),
        "{one_more:?}"
    );
}

#[test]
fn an_order_id_has_128_bytes_at_most() {
    assert!(OrderId::new("x".repeat(128)).is_ok());
    assert!(OrderId::new("x".repeat(129)).is_err());
}

#[test]
fn a_claim_holds_96_bytes_of_a_name() {
    let claim = ClaimId::by(&"x".repeat(200), [u64::MAX; 2]);
    assert_eq!(claim.instance(), Some("x".repeat(96).as_str()));
}

#[test]
fn a_submission_has_256_kib_at_most() {
    let of = |bytes: usize| {
        let frame = r#"{"order_id": "7", "workflow": "w", "details": {"n": ""}}"#;
        let text = "x".repeat(bytes - frame.len());
        let value = frame.replace(r#""n": """#, &format!(r#""n": "{text}""#));
        assert_eq!(value.len(), bytes);
        Submission::decode(Some(value.as_bytes())).is_ok()
    };
    assert!(of(256 * 1024));
    assert!(!of(256 * 1024 + 1));
}

#[test]
fn details_have_256_kib_at_most_as_they_are_stored() {
    // A number of 4 bytes in the message takes 18 bytes when stored, so the message is well below the limit.
    let of = |bytes: usize| {
        let details = |number: &str, text: &str| {
            format!(r#"{{"m":[{}],"n":"{text}"}}"#, [number; 10].join(","))
        };
        let stored = details("1000000000000000.0", "").len();
        let text = "x".repeat(bytes - stored);
        let details = details("1e15", &text);
        let value = format!(r#"{{"order_id":"7","workflow":"w","details":{details}}}"#);
        assert!(value.len() < 256 * 1024 - 50);
        Submission::decode(Some(value.as_bytes())).is_ok()
    };
    assert!(of(256 * 1024));
    assert!(!of(256 * 1024 + 1));
}

#[test]
fn what_is_in_the_due_index_stays_in_its_shard() {
    // FNV-1a, mixed with the finalizer of MurmurHash3; the upper half is the result.
    let fnv = |text: &str| {
        let prime = 0x0100_0000_01b3_u64;
        text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(prime)
        })
    };
    let mixed = |hash: u64| {
        let hash = (hash ^ hash >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
        let hash = (hash ^ hash >> 33).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
        hash ^ hash >> 33
    };
    let upper = |hash: u64| (hash >> 32) as u32;
    let mut met = [false; 32];
    for n in 0..1_000 {
        let text = format!("n{n}-of-a-shop");
        let shard = shard_of(&OrderId::new(text.as_str()).unwrap());
        assert_eq!(shard, upper(mixed(fnv(&text))) % 16);
        let aside = aside_shard(&WorkflowName::new(text.as_str()).unwrap());
        assert_eq!(aside, 16 + upper(fnv(&text)) % 16);
        (met[shard as usize], met[aside as usize]) = (true, true);
    }
    assert_eq!(met, [true; 32], "all are used");
}

#[test]
fn an_attempt_is_revoked_for_a_day_after_its_time_was_up() {
    let mut s = Story::of(&counted(LINE)).claimed();
    let complete_by = s.step("a").complete_by().unwrap();
    s.now = s.ripe();
    assert_eq!(s.when(Event::Overdue(Overdue::default())), Then::Written);
    s.now = complete_by.plus(Millis(DAY - 1));
    let revoked = to_revoke(&s.ctx(), &s.order, s.now);
    assert_eq!(revoked[0].expires, complete_by.plus(Millis(DAY)));
    s.now = complete_by.plus(Millis(DAY));
    assert_eq!(
        to_revoke(&s.ctx(), &s.order, s.now),
        [],
        "its mark may be gone"
    );
}

#[test]
fn an_end_whose_messages_may_be_unsent_is_looked_at_after_half_a_minute() {
    let mut s = Story::of(LINE).claimed();
    s.succeed("a").refuse("b").succeed("a");
    assert_eq!(s.state(), "Compensated");
    let ended = s.now;
    assert_eq!(
        true_due(&s.ctx(), &s.order),
        Some(ended.plus(Millis(30_000)))
    );
}

#[test]
fn a_second_of_a_rate_is_granted_in_eighths() {
    let grant = Granted::default().grant(800, Timestamp(5_300)).unwrap();
    assert_eq!((grant.calls, grant.record.second), (100, 5));
}

// Windows, which limit the orders under way to a service.

const NO_SKEW: Millis = Millis(0);

fn at(ms: u64) -> Timestamp {
    Timestamp(1_000_000 + ms)
}

fn waited(waited_ms: u64, took_ms: u64) -> Pace {
    Pace { waited_ms, took_ms }
}

/// Answers `times` requests of a full window; none of them has waited.
fn grow(w: &mut Window, times: u32) {
    for _ in 0..times {
        w.answered(waited(0, 20), w.bound(), NO_SKEW, at(0));
    }
}

#[test]
fn a_window_begins_with_16_and_lets_2_to_1024_through() {
    let mut w = Window::default();
    assert_eq!(w.bound(), 16);
    assert!(w.has_room(15, at(0)) && !w.has_room(16, at(0)));
    grow(&mut w, 2_000);
    assert_eq!(w.bound(), 1_024);
    for n in 1..100 {
        w.answered(waited(5_000, 20), 1, NO_SKEW, at(n * 10_000));
    }
    assert_eq!(w.bound(), 2);
}

#[test]
fn a_wait_is_a_queue_beyond_100_ms_and_always_beyond_2_s() {
    let target = |took_ms| {
        let mut w = Window::default();
        w.answered(waited(0, took_ms), 1, NO_SKEW, at(0));
        w.target()
    };
    assert_eq!(target(20), Millis(100));
    assert_eq!(target(202), Millis(101));
    assert_eq!(target(3_998), Millis(1_999));
    assert_eq!(target(60_000), Millis(2_000));
}

#[test]
fn a_window_is_shut_for_a_minute_at_most() {
    let mut w = Window::default();
    w.shut(at(10 * DAY), at(0));
    assert!(!w.has_room(0, at(59_999)));
    assert!(w.has_room(0, at(60_000)));
}

#[test]
fn after_slow_start_a_window_grows_by_8_orders_a_turn() {
    let mut w = Window::default();
    grow(&mut w, 1_008);
    // A wait of 101 ms reduces the bound of 1,024 to three quarters. Then each request of one window is answered.
    w.answered(waited(101, 20), 1, NO_SKEW, at(0));
    assert_eq!(w.bound(), 768);
    grow(&mut w, 768);
    // The bound grows by seven, not eight, because the window gets larger during the turn.
    assert_eq!(w.bound(), 775);
    grow(&mut w, 780);
    assert_eq!(w.bound(), 783);
}

#[test]
fn a_span_beyond_a_day_is_taken_for_a_day() {
    let mut w = Window::default();
    w.answered(waited(u64::MAX, 0), 1, NO_SKEW, at(0));
    assert_eq!(w.waited(), Millis(DAY));
}

#[test]
fn the_distance_of_two_clocks_is_taken_from_the_last_two_minutes() {
    let skew = Millis(500);
    // As long as the shortest wait of the last two minutes is zero, the wait of 500 ms counts as time in the queue;
    // afterwards it counts as a difference between the clocks.
    let smoothed = |asked_at: u64| {
        let mut w = Window::default();
        w.answered(waited(500, 20), 1, skew, at(0));
        w.answered(waited(0, 20), 1, skew, at(59_999));
        w.answered(waited(500, 20), 1, skew, at(60_000));
        assert_eq!(w.waited(), Millis(500));
        w.answered(waited(500, 20), 1, skew, at(asked_at));
        w.waited()
    };
    assert_eq!(smoothed(119_999), Millis(500), "of the minute before");
    assert_eq!(smoothed(120_000), Millis(500 * 7 / 8), "forgotten");
}

// The documented defaults of an installation's settings.

#[test]
fn a_breaker_opens_when_half_of_the_last_20_orders_failed_and_10_calls_were_made() {
    let settings = BreakerSettings::default();
    let opens = |calls: &[(u32, bool)]| {
        let mut window = Calls::default();
        let (mut bad, mut orders) = (false, 0);
        for (times, failed) in calls {
            bad = (0..*times).fold(false, |_, _| {
                orders += 1;
                let order = OrderId::new(format!("o-{orders}")).expect("an id");
                if *failed {
                    return window.failed(&order, &settings);
                }
                window.answered(&order, &settings);
                false
            });
        }
        bad
    };
    assert!(!opens(&[(9, true)]) && opens(&[(10, true)]));
    assert!(!opens(&[(10, false), (9, true)]), "9 of 19");
    assert!(opens(&[(10, false), (10, true)]), "10 of 20");
    assert!(
        opens(&[(6, false), (6, true)]),
        "6 of 12, and no more are needed"
    );
    assert!(!opens(&[(20, false), (9, true)]), "9 of 20");
    assert!(opens(&[(20, false), (10, true)]), "10 of the last 20");
    assert!(
        !opens(&[(9, true), (11, false), (1, true)]),
        "9 of the last 20"
    );
    assert!(
        opens(&[(10, true), (10, false), (1, true)]),
        "10 of the last 20"
    );
}

#[test]
fn a_breaker_is_open_for_a_second_at_first_and_for_a_minute_at_most() {
    let settings = BreakerSettings::default();
    let now = at(0);
    // The longest time for which the breaker may open, over all random values.
    let open_for = |opens: u32, asked: Option<Millis>| {
        let since = Timestamp(now.0 - 1);
        let closed = Breaker::Closed { opens, since };
        let until = |random| match closed.tripped(&settings, asked, random, now) {
            Some(Breaker::Open { until, .. }) => until.since(now).0,
            other => panic!("{other:?}"),
        };
        (0..60_000).map(until).max().unwrap()
    };
    assert_eq!(open_for(0, None), 1_000);
    assert_eq!(open_for(1, None), 2_000);
    assert_eq!(open_for(30, None), 60_000);
    assert_eq!(open_for(0, Some(Millis(DAY))), 60_000);
}

#[test]
fn two_probes_close_a_breaker_and_each_has_half_a_minute() {
    let settings = BreakerSettings::default();
    let open = Breaker::Open {
        opens: 1,
        until: at(0),
    };
    let one = open.probing(&settings, at(0));
    assert_eq!(one.gate(&settings, at(0)), BreakerGate::Probe);
    let two = one.probing(&settings, at(0));
    let wait = two.gate(&settings, at(0));
    assert!(matches!(wait, BreakerGate::Wait(_)), "{wait:?}");
    let is_lost = |ms| two.gate(&settings, at(ms)) == BreakerGate::Probe;
    assert!(!is_lost(29_999) && is_lost(30_000));
    let good = two.probe_succeeded(&settings, at(1)).unwrap();
    assert_eq!(good.name(), "half-open");
    let good = good.probe_succeeded(&settings, at(1)).unwrap();
    assert_eq!(good.name(), "closed");
}

#[test]
fn of_repeated_calls_100_are_saved_and_20_in_100_first_ones_and_10_a_second_are_paid_for() {
    let settings = RetryBudgetSettings::default();
    let spend = |budget: &mut RetryBudget, now: Timestamp| {
        (0..1_000)
            .take_while(|_| budget.repeat(&settings, now))
            .count()
    };
    let mut budget = RetryBudget::default();
    assert_eq!(spend(&mut budget, at(0)), 100);
    (0..100).for_each(|_| budget.first(&settings));
    assert_eq!(spend(&mut budget, at(0)), 20);
    assert_eq!(spend(&mut budget, at(1_000)), 10);
}
