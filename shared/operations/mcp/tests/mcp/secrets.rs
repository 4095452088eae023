//! A secret value in every part of an order must not appear in any answer to operators and models, nor in the log.

use std::io::Write;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tracing_subscriber::fmt::MakeWriter;
use triad_console::{Hidden, Settings};
use triad_core::failure::ANSWERED;
use triad_core::order::{Incident, IncidentKind};
use triad_core::step::StepState;
use triad_core::{Attempt, Failure, FailureKind, ProcessState, topics};
use triad_mcp::{Mcp, Mounted, NoPages};
use triad_runtime::dead_letter::{Cause, dead_letter};
use triad_runtime::submission::Submission;
use triad_runtime::system::{SystemClock, SystemEntropy};
use triad_runtime::{Bus, Clock, DefinitionStore, InputRecord};
use triad_workflow::hash::canonical_json;
use triad_workflow::{Limits, Workflow};

use crate::console::{Heard, World, identity, text};

/// The value of the hidden field `card`.
const SECRET: &str = "4929000000006";

/// The captured log.
#[derive(Debug, Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for Log {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        self.clone()
    }
}

fn hidden() -> Hidden {
    Hidden::of(["card".to_owned()])
}

/// A console whose records contain the secret, with tools that act.
async fn world() -> World {
    let settings = Settings {
        hidden: hidden(),
        ..Settings::default()
    };
    let world = World::beside(settings, None, |api| {
        let settings = triad_mcp::Settings { acts: true };
        let mcp = Mcp::new(SystemClock, SystemEntropy, settings, NoPages);
        Arc::new(Mounted::new(api, mcp))
    })
    .await;
    let card = || json!({"card": SECRET, "deep": [{"Card": SECRET}]});
    world
        .order("e", |order| {
            // A service's answer that repeats its request.
            let text = format!("422{ANSWERED}{{\"card\": \"{SECRET}\"}}");
            let answered = Failure::new(FailureKind::Permanent, "http-422", &text);
            let at = SystemClock.now();
            order.state = ProcessState::Error {
                at,
                cause: answered.clone(),
            };
            order.steps[0].error = Some(answered.clone());
            let mut line = Incident::new(IncidentKind::AttemptFailed, at);
            line.failure = Some(answered);
            order.incidents.push(line);
            order.search = vec![format!("card={SECRET}").parse().unwrap()];
            order.steps[0].input = Some(card());
            order.steps[0].state = StepState::Completed {
                attempt: Attempt(1),
                started: None,
                finished: SystemClock.now(),
                position: 0,
                output: card().into(),
            };
        })
        .await;
    // An operator's corrected input is stored as text, and contains the secret too.
    world.failed("f", "x").await;
    let set = format!("card=\"{SECRET}\"");
    let correct = json!({"act": "resubmit", "orders": ["f"], "step": "pay", "set": [set], "why": "w",
        "by": "ann", "dry_run": false});
    shows_nothing(
        "acts",
        &text(&world.act("/v1/operate/acts", &correct).await),
    );
    assert_eq!(world.stored("f").await.run, 1);
    let campaign = json!({"act": "resubmit", "filter": {"state": "Error"}, "step": "pay", "set": [set],
        "why": "w", "by": "ann", "dry_run": false});
    let started = world.act("/v1/operate/campaigns", &campaign).await;
    assert_eq!(started.status, 200, "{}", text(&started));
    shows_nothing("campaigns", &text(&started));
    letters(&world, &card()).await;
    world
}

/// Sends dead letters of records that contain the secret; Submission writes one of them.
async fn letters(world: &World, card: &Value) {
    world.letter(0, &card.to_string()).await;
    world.letter(1, &format!("card {SECRET}")).await;
    let headed = InputRecord {
        topic: topics::ORDERS.into(),
        partition: 3,
        offset: 2,
        headers: vec![("card".to_owned(), Some(SECRET.into()))],
        value: Some(b"{}".to_vec()),
        ..InputRecord::default()
    };
    let cause = Cause::new("not-an-order", "it has no field");
    let made = dead_letter(&headed, &cause, SystemClock.now());
    world.heard.publish(made.to_vec()).await;
    let replay = json!({"act": "replay", "letters": ["orders/3/0"], "value": card.to_string(), "why": "w",
        "by": "ann", "dry_run": false});
    let replayed = world.act("/v1/operate/dead-letters/acts", &replay).await;
    assert_eq!(replayed.json()["results"][0]["outcome"], "replayed");
    let strict = json!({"workflow": "strict", "details_schema": {"properties": {"card": {"type": "integer"}}},
        "steps": [{"id": "pay", "agent": "bank", "action": "go", "compensation": "none"}]});
    let strict = serde_json::from_value(strict).unwrap();
    let json = canonical_json(&strict);
    let strict = Workflow::compile(strict, &Limits::published()).unwrap();
    let stored = world.store.publish(identity(&strict), json).await;
    stored.unwrap();
    let misfit = InputRecord {
        offset: 4,
        headers: Vec::new(),
        value: Some(
            json!({"order_id": "bad", "workflow": "strict", "details": card})
                .to_string()
                .into(),
        ),
        ..headed
    };
    submission(world).handle(&[misfit]).await;
}

fn submission(
    world: &World,
) -> Submission<triad_sqlite::SqliteStore<SystemClock>, Heard, SystemClock> {
    let (store, bus) = (world.store.clone(), world.heard.clone());
    let settings = triad_runtime::settings::Settings::default();
    Submission::new(store, bus, SystemClock, settings)
}

fn shows_nothing(way: &str, said: &str) {
    assert!(!said.contains(SECRET), "{way}: {said}");
}

/// The parts of a dead letter that Triad wrote, without the record's own value and headers.
fn own(headers: &[(String, Option<Vec<u8>>)]) -> String {
    let own = headers.iter().filter(|(name, _)| name != "card");
    let text = own.map(|(name, value)| {
        let value = value.as_deref().unwrap_or_default();
        format!("{name}: {}\n", String::from_utf8_lossy(value))
    });
    text.collect()
}

#[tokio::test]
async fn a_secret_in_every_place_of_an_order_is_in_no_way_out() {
    let log = Log::default();
    let subscriber = tracing_subscriber::fmt()
        .with_writer(log.clone())
        .with_max_level(tracing::Level::INFO)
        .finish();
    let _guard = tracing::subscriber::set_default(subscriber);
    let world = world().await;
    let campaigns = world.get("/v1/operate/campaigns").await.json();
    let campaign = campaigns["campaigns"][0]["id"].as_str().unwrap().to_owned();
    for path in [
        "orders",
        "orders?state=Error",
        "orders/e",
        "orders/e?inputs=true",
        "orders/f?inputs=true",
        "counts",
        "causes",
        "downstreams",
        "workflows",
        "workflows/w/present",
        "dead-letters",
        "dead-letters/orders/3/0",
        "dead-letters/orders/3/1",
        "dead-letters/orders/3/2",
        "dead-letters/orders/3/4",
        "alerts",
        "campaigns",
        &format!("campaigns/{campaign}"),
    ] {
        for root in ["/v1/operate", "/console"] {
            let said = world.get(&format!("{root}/{path}")).await;
            // Counts are shown on the first page, and have no page.
            let is_page = root == "/v1/operate" || path != "counts";
            assert_eq!(
                said.status == 200,
                is_page,
                "{root}/{path}: {}",
                said.status
            );
            shows_nothing(path, &text(&said));
        }
    }
    shows_nothing("get_overview", &text(&world.get("/console/").await));
    models(&world, &campaign).await;
    for message in world.heard.0.lock().unwrap().iter() {
        let value = String::from_utf8_lossy(&message.value);
        match message.topic.as_str() {
            topics::DEAD_LETTER => shows_nothing("letter", &own(&message.headers)),
            topics::ALERTS => shows_nothing("alert", &value),
            // Messages that operators and models do not read: replayed records and the order's statuses.
            _ => {}
        }
    }
    let logged = log.0.lock().unwrap();
    let logged = String::from_utf8_lossy(&logged);
    assert!(logged.contains("record dead-lettered"), "{logged}");
    shows_nothing("log", &logged);
}

#[tokio::test]
async fn nobody_finds_out_what_is_hidden_by_searching_for_it() {
    let world = world().await;
    let search = format!("search=card%3D{SECRET}");
    for path in [
        "/v1/operate/orders",
        "/v1/operate/causes",
        "/console/orders",
        "/console/causes",
    ] {
        let said = world.get(&format!("{path}?{search}")).await;
        assert_eq!(said.status, 400, "{path}");
    }
    let filter = json!({"search": format!("CARD={SECRET}")});
    for (path, act) in [
        ("/v1/operate/acts", "close"),
        ("/v1/operate/campaigns", "resubmit"),
    ] {
        let act = json!({"act": act, "filter": filter, "why": "w", "by": "ann", "dry_run": true});
        assert_eq!(world.act(path, &act).await.is().0, 400, "{path}");
    }
}

/// Calls every tool that reads, and the one that makes a dry run.
async fn models(world: &World, campaign: &str) {
    let correction = format!("card=\"{SECRET}\"");
    for (tool, arguments) in [
        ("get_overview", json!({})),
        ("list_orders", json!({})),
        ("get_order", json!({"id": "e", "inputs": true})),
        ("get_order", json!({"id": "f", "inputs": true})),
        ("list_downstreams", json!({})),
        ("list_dead_letters", json!({})),
        ("list_alerts", json!({})),
        (
            "get_dead_letter",
            json!({"topic": "orders", "partition": 3, "offset": 0}),
        ),
        (
            "get_dead_letter",
            json!({"topic": "orders", "partition": 3, "offset": 4}),
        ),
        ("list_campaigns", json!({})),
        ("get_campaign", json!({"id": campaign})),
        ("list_workflows", json!({})),
        ("list_acts", json!({})),
        ("list_causes", json!({})),
        (
            "dry_run",
            json!({"on": "orders", "act": "resubmit", "orders": ["e"], "step": "pay",
                "set": [correction], "why": "w", "by": "ann"}),
        ),
    ] {
        let call = json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call",
            "params": {"name": tool, "arguments": arguments}});
        let headers = [
            ("content-type", "application/json"),
            ("accept", "application/json, text/event-stream"),
        ];
        let body = call.to_string();
        let said = world.client.send("POST", "/mcp", &headers, body.as_bytes());
        let said = text(&said.await);
        assert!(said.contains("\"result\""), "{tool}: {said}");
        shows_nothing(tool, &said);
    }
}
