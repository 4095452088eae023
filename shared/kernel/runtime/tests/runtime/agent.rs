//! How an agent takes requests, caches, and works on several at once.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use triad_core::Direction;
use triad_runtime::agent::{Agent, Remotes};
use triad_runtime::settings::{DownstreamSettings, Settings};
use triad_runtime::{Call, Clock, Fault, Handled, InputRecord, Redelivery, RemoteService};
use triad_workflow::{AgentName, Millis};

use crate::support::{BEGIN, World};

/// How a service reacts to calls.
#[derive(Clone)]
pub enum Answers {
    With(Result<Value, Fault>),
    /// Gives these answers in turn; a further call is an error of the test.
    InTurn(Arc<Mutex<VecDeque<Result<Value, Fault>>>>),
    /// Gives no answer, so that the call times out.
    TimedOut,
    Never,
}

/// A service that records the times of its calls.
#[derive(Clone)]
pub struct Service {
    world: World,
    answers: Answers,
    called: Arc<Mutex<Vec<u64>>>,
}

impl RemoteService for Service {
    async fn call(&self, call: Call<'_>) -> Result<Value, Fault> {
        assert_eq!(call.direction, Direction::Forward);
        self.called
            .lock()
            .expect("no panic")
            .push(self.world.passed());
        match &self.answers {
            Answers::With(answer) => answer.clone(),
            Answers::InTurn(answers) => {
                let next = answers.lock().expect("no panic").pop_front();
                next.expect("it is called no oftener")
            }
            Answers::TimedOut => {
                self.world.sleep(call.time_left).await;
                Err(Fault::Transient {
                    code: "call-timeout".to_owned(),
                    message: String::new(),
                    retry_after: None,
                    maybe_applied: true,
                })
            }
            Answers::Never => std::future::pending().await,
        }
    }
}

impl Service {
    pub fn new(world: &World, answers: Answers) -> Self {
        Self {
            world: world.clone(),
            answers,
            called: Arc::default(),
        }
    }

    /// The times of the calls since the previous query.
    pub fn called(&self) -> Vec<u64> {
        std::mem::take(&mut self.called.lock().expect("no panic"))
    }
}

pub type Bank = Agent<World, World, World, World>;

pub fn name() -> AgentName {
    AgentName::new("bank").expect("a name")
}

/// A new process of the agent `bank`.
pub fn bank(world: &World, service: &Service, settings: Settings) -> Bank {
    let w = || world.clone();
    let remotes = Remotes::new().with(name(), service.clone());
    Agent::new(remotes, w(), w(), w(), w(), settings)
}

/// A request that allows one call, with a complete-by ten minutes away.
pub fn request(order: &str) -> InputRecord {
    let request = json!({"order_id": order, "step": "pay", "direction": "forward", "attempt": 1,
        "complete_by": BEGIN + 100_000_000, "attempt_timeout_ms": 600_000, "allowance": 1,
        "backoff_initial_ms": 1, "backoff_max_ms": 1, "idempotency_key": format!("{order}/pay/forward"),
        "action": "take", "input": {}, "agent": "bank", "workflow": "w"});
    InputRecord {
        topic: "agent.bank".into(),
        timestamp_ms: -1,
        value: Some(request.to_string().into_bytes()),
        ..InputRecord::default()
    }
}

/// The agent's replies since the previous query: milliseconds since the start, and content.
pub fn replies(world: &World) -> Vec<(u64, Value)> {
    let replies = world.sent("scheduler").into_iter();
    replies
        .map(|reply| {
            let at = reply["sent_at"].as_u64().expect("a moment");
            (at - BEGIN, reply["outcome"].clone())
        })
        .collect()
}

#[test]
fn of_its_answers_an_agent_remembers_4096() {
    let world = World::new();
    let service = Service::new(&world, Answers::With(Ok(json!({}))));
    let bank = bank(&world, &service, Settings::default());
    let calls = |order: usize| {
        let record = request(&format!("o-{order}"));
        assert!(world.run(bank.handle_one(&record, None)).is_done());
        service.called().len()
    };
    assert_eq!((0..4_096).map(calls).sum::<usize>(), 4_096);
    assert_eq!(calls(0), 0, "it is remembered, and was used just now");
    assert_eq!(calls(4_096), 1);
    assert_eq!(calls(1), 1, "it had to go for one more");
}

#[test]
fn a_message_has_512_kib_at_most() {
    let world = World::new();
    let service = Service::new(&world, Answers::With(Ok(json!({}))));
    let bank = bank(&world, &service, Settings::default());
    for (bytes, letters) in [(512 * 1024, 0), (512 * 1024 + 1, 1)] {
        let mut record = request("o-1");
        record.value.as_mut().expect("a value").resize(bytes, b' ');
        assert!(world.run(bank.handle_one(&record, None)).is_done());
        let sent = std::mem::take(&mut world.inner().sent);
        let found = sent.iter().filter(|m| m.topic == "dead-letter").count();
        assert_eq!(found, letters, "{bytes}");
    }
}

#[test]
fn an_output_has_8_kib_at_most_and_a_larger_one_says_what_is_missing() {
    for (bytes, is_whole) in [(8 * 1024, true), (8 * 1024 + 1, false)] {
        let world = World::new();
        let output = json!("x".repeat(bytes - 2));
        let service = Service::new(&world, Answers::With(Ok(output.clone())));
        let bank = bank(&world, &service, Settings::default());
        world.run(bank.handle_one(&request("o-1"), None));
        let reply = &replies(&world)[0].1;
        assert_eq!(reply["result"], "succeeded", "the work is done: {bytes}");
        assert_eq!(reply["output"] == output, is_whole, "{bytes}");
        assert_eq!(
            reply["output"]["_left_out"].is_string(),
            !is_whole,
            "{bytes}"
        );
    }
}

#[test]
fn requests_are_worked_on_64_at_once_where_nothing_is_set() {
    let world = World::new();
    let service = Service::new(&world, Answers::Never);
    let bank = bank(&world, &service, Settings::default());
    let records: Vec<InputRecord> = (0..65).map(|n| request(&format!("o-{n}"))).collect();
    world.run(bank.handle(&records, None));
    let at_once = service.called().into_iter().filter(|at| *at == 0);
    assert_eq!(at_once.count(), 64);
}

/// A service with `times` transient failures before it succeeds, and its agent.
fn failing(world: &World, times: usize) -> (Service, Bank) {
    let failure = Fault::Transient {
        code: "busy".to_owned(),
        message: String::new(),
        retry_after: None,
        maybe_applied: false,
    };
    let mut answers: VecDeque<_> = vec![Err(failure); times].into();
    answers.push_back(Ok(json!({})));
    let service = Service::new(world, Answers::InTurn(Arc::new(Mutex::new(answers))));
    let bank = bank(world, &service, Settings::default());
    (service, bank)
}

/// A request that allows `allowance` calls, with a backoff of 1 s at first and 1.5 s at most.
fn patient(allowance: u32) -> InputRecord {
    let mut record = request("o-1");
    let value = record.value.as_deref().expect("a value");
    let mut request: Value = serde_json::from_slice(value).expect("JSON");
    request["allowance"] = json!(allowance);
    request["backoff_initial_ms"] = json!(1_000);
    request["backoff_max_ms"] = json!(1_500);
    record.value = Some(request.to_string().into_bytes());
    record
}

#[test]
fn within_one_attempt_a_call_that_failed_is_repeated_after_a_wait_that_grows_to_its_bound() {
    // Each wait is a random part of its upper limit: here all of it, or nothing.
    for (random, called) in [(u64::MAX, [0, 1_000, 2_500, 4_000]), (0, [0; 4])] {
        let world = World::new();
        world.inner().random = random;
        let (service, bank) = failing(&world, 3);
        assert!(world.run(bank.handle_one(&patient(4), None)).is_done());
        assert_eq!(service.called(), called);
        let replies = replies(&world);
        assert_eq!(replies.len(), 1, "one answer for all of them");
        assert_eq!(
            (replies[0].0, replies[0].1["result"].as_str()),
            (called[3], Some("succeeded"))
        );
    }
}

#[test]
fn no_call_is_made_beyond_the_allowance_of_an_attempt() {
    let world = World::new();
    world.inner().random = u64::MAX;
    let (service, bank) = failing(&world, 3);
    assert!(world.run(bank.handle_one(&patient(2), None)).is_done());
    assert_eq!(service.called(), [0, 1_000]);
    assert_eq!(replies(&world)[0].1["result"], "failed");
}

#[test]
fn once_complete_by_is_near_nothing_is_called_and_no_reply_leaves_though_its_answer_is_known() {
    let skew = Settings::default().timing.skew.0;
    let silent_from = 100_000_000 - skew;
    let world = World::new();
    let service = Service::new(&world, Answers::With(Ok(json!({}))));
    let bank = bank(&world, &service, Settings::default());
    let known = request("o-known");
    for (at, replied) in [(0, 1), (silent_from - 1, 1), (silent_from, 0)] {
        world.at(at);
        assert!(world.run(bank.handle_one(&known, None)).is_done());
        assert_eq!(replies(&world).len(), replied, "after {at} ms");
    }
    assert_eq!(service.called(), [0], "its answer is remembered");
    let new = request("o-new");
    assert!(world.run(bank.handle_one(&new, None)).is_done());
    assert_eq!((service.called(), replies(&world).len()), (vec![], 0));
}

#[test]
fn what_calls_came_to_and_took_is_counted_for_each_agent() {
    let failed = Fault::Transient {
        code: "down".into(),
        message: String::new(),
        retry_after: None,
        maybe_applied: false,
    };
    let refused = Fault::Permanent {
        code: "no".into(),
        message: String::new(),
    };
    let world = World::new();
    let counts = |answers: Answers| {
        let service = Service::new(&world, answers);
        let bank = bank(&world, &service, Settings::default());
        for order in ["o-1", "o-2"] {
            world.run(bank.handle_one(&request(order), None));
        }
        let usage = bank.usage().remove(&name()).expect("it is counted");
        assert_eq!((usage.under_way, usage.room), (0, 64));
        let came = (
            usage.succeeded,
            usage.refused,
            usage.failed,
            usage.unanswered,
        );
        (came, usage.busy_ms)
    };
    assert_eq!(counts(Answers::With(Ok(json!({})))), ((2, 0, 0, 0), 0));
    assert_eq!(counts(Answers::With(Err(refused))), ((0, 2, 0, 0), 0));
    assert_eq!(counts(Answers::With(Err(failed))), ((0, 0, 2, 0), 0));
    let (came, busy_ms) = counts(Answers::Never);
    assert_eq!(came, (0, 0, 0, 2));
    assert_eq!(
        busy_ms,
        2 * 600_000,
        "all the time that the step gives, twice"
    );
}

#[test]
fn calls_that_are_being_made_and_work_that_is_deferred_are_counted_too() {
    let world = World::new();
    let service = Service::new(&world, Answers::Never);
    let one_at_once = DownstreamSettings {
        concurrency: Some(1),
        ..DownstreamSettings::default()
    };
    let settings = Settings {
        downstreams: [(name(), one_at_once)].into(),
        ..Settings::default()
    };
    let bank = bank(&world, &service, settings);
    let seen = Mutex::new(Vec::new());
    let both = [request("o-1"), request("o-2")];
    let look = async {
        world.sleep(Millis(5_000)).await;
        seen.lock()
            .expect("no panic")
            .extend(bank.usage().remove(&name()));
    };
    world.run(async { futures::join!(bank.handle(&both, None), look) });
    let usage = seen.lock().expect("no panic").remove(0);
    assert_eq!((usage.room, usage.under_way, usage.deferred), (1, 1, 1));
}

/// The same request, with calls counted across redeliveries.
fn counted(order: &str) -> InputRecord {
    let record = request(order);
    let mut request: Value = serde_json::from_slice(&record.value.expect("a value")).expect("JSON");
    request["counted"] = json!(true);
    InputRecord {
        value: Some(request.to_string().into_bytes()),
        ..record
    }
}

#[test]
fn a_counted_attempt_is_taken_only_where_ten_seconds_are_left_or_half_of_the_time() {
    // The records of a batch are handled in turn: `whole` ms minus the time of the first are left for the second.
    for (whole, first_takes, is_taken) in [
        (60_000, 50_000, true),
        (60_000, 50_001, false),
        (8_000, 4_000, true),
        (8_000, 4_001, false),
    ] {
        let world = World::new();
        let service = Service::new(&world, Answers::With(Ok(json!({}))));
        let settings = Settings {
            agent_concurrency: 1,
            ..Settings::default()
        };
        let bank = bank(&world, &service, settings);
        let until = world.now().plus(Millis(whole));
        let done = |place| {
            if place == 0 {
                world.after(first_takes);
            }
        };
        let records = [request("o-1"), counted("o-2")];
        let handled = world.run(bank.handle_each(&records, Some(until), &done));
        assert_eq!(handled[1].is_done(), is_taken, "{whole} {first_takes}");
        assert_eq!(service.called().len(), 1 + usize::from(is_taken));
        assert_eq!(world.inner().control.len(), usize::from(is_taken));
    }
}

#[test]
fn a_counted_attempt_that_has_to_end_without_a_call_is_given_back_and_may_be_taken_again() {
    let world = World::new();
    let service = Service::new(&world, Answers::With(Ok(json!({}))));
    let bank = || bank(&world, &service, Settings::default());
    let until = Some(world.now().plus(Millis(20_000)));
    // Writing the claim takes all the time of the request.
    world.inner().faults.control_takes = 20_000;
    let handled = world.run(bank().handle_one(&counted("o-1"), until));
    assert_eq!(handled, Handled::Redeliver(Redelivery::OutOfTime));
    assert_eq!(service.called().len(), 0);
    world.inner().faults.control_takes = 0;
    assert!(
        world
            .run(bank().handle_one(&counted("o-1"), None))
            .is_done()
    );
    assert_eq!(service.called().len(), 1, "it is made now");
    assert!(
        world
            .run(bank().handle_one(&counted("o-1"), None))
            .is_done()
    );
    assert_eq!(service.called().len(), 0, "and is taken for good");
}

#[test]
fn once_the_process_is_to_end_a_counted_attempt_is_taken_only_where_a_call_fits() {
    for (left, is_taken) in [(10_000, true), (9_999, false)] {
        let world = World::new();
        let service = Service::new(&world, Answers::With(Ok(json!({}))));
        let bank = bank(&world, &service, Settings::default());
        bank.end_by(world.now().plus(Millis(left)));
        let handled = world.run(bank.handle_one(&counted("o-1"), None));
        assert_eq!(handled.is_done(), is_taken);
        assert_eq!(world.inner().control.len(), usize::from(is_taken));
    }
}

#[test]
fn calls_that_the_end_of_the_process_cuts_off_open_no_breaker() {
    for answers in [Answers::Never, Answers::TimedOut] {
        let world = World::new();
        let service = Service::new(&world, answers);
        let bank = bank(&world, &service, Settings::default());
        let until = Some(world.now().plus(Millis(20_000)));
        let records: Vec<_> = (0..64).map(|n| request(&format!("o-{n}"))).collect();
        world.run(bank.handle(&records, until));
        assert_eq!(service.called().len(), 64);
        assert_eq!(
            world.sent("events"),
            [] as [Value; 0],
            "nothing is said of the service"
        );
        let is_open =
            |record: &triad_runtime::ControlRecord| record.value.to_string().contains("open");
        assert!(!world.inner().control.values().any(is_open));
    }
}
