//! The run of the console: every query of its API, and every kind of act, over HTTP.

use std::convert::Infallible;
use std::sync::Arc;

use axum::http::{Request, Response};
use bytes::Bytes;
use http_body_util::BodyExt;
use serde_json::{Value, json};
use triad_bootstrap::console::ConsoleConfig;
use triad_console::{Answers, Console, Keys, Parts};
use triad_core::{Envelope, topics};
use triad_operator::topic::{Extent, LogTopic, TopicReader, TopicRecords};
use triad_runtime::dead_letter::{Cause, dead_letter};
use triad_runtime::operator::Operator;
use triad_runtime::system::SystemEntropy;
use triad_runtime::{Clock, DefinitionStore, InputRecord};
use triad_workflow::{AgentName, Millis, WorkflowName};

use crate::policy::{Installation, Policy};
use crate::world::{Run, Submitted, World, record};

/// The session key, which Terraform generates in a real installation.
pub(super) const KEY: &str = "a secret that is long enough for it";
/// The authorization header with the token whose digest is in the installation's list.
const TOKEN: &str = "Bearer test";
/// Longer than an attempt and the Supervisor's wait for its reply.
const LONG: Millis = Millis(150_000);

pub(super) async fn run(installation: &Installation, policy: &Policy) -> Run {
    let world = World::start(installation, "console", policy).await;
    let _lost = world
        .stored(&[
            Submitted::new("fresh", "shop"),
            Submitted::new("fresh-high", "shop").high(),
        ])
        .await;
    in_error(&world).await;
    let desk = Desk::of(installation, &world);
    desk.look(&world).await;
    desk.act(&world).await;
    let ids = ["fresh", "fresh-high", "again", "again-high", "over"];
    world.note_orders(&ids).await;
    world
        .note_control(&["downstream/payment", "campaigns"])
        .await;
    world.end()
}

/// Stores orders in Error, which need an operator.
async fn in_error(world: &World) {
    let orders = [
        Submitted::new("again", "strict"),
        Submitted::new("again-high", "strict").high(),
        Submitted::new("over", "strict"),
    ];
    world.given_up(&orders).await;
    world.pass(LONG);
    let _ = world.supervisor().sweep(Millis(600_000)).await;
    let _told = world.told_around();
}

/// The console, and the check of its callers.
struct Desk {
    console: Arc<dyn Answers>,
    keys: Arc<dyn Keys>,
    letters: Vec<String>,
}

impl Desk {
    /// Built as the console's function builds it, except for the clock and the topic of dead letters.
    fn of(installation: &Installation, world: &World) -> Self {
        let lookup = |name: &str| match name {
            "TRIAD_CONSOLE_KEY" => Some(KEY.to_owned()),
            name => installation.variables["console"].get(name).cloned(),
        };
        let config = ConsoleConfig::read(&lookup).expect("the module's variables are sound");
        let letters = letters(world);
        let (store, bus) = (world.wiring.store.clone(), world.line.clone());
        let clock = world.clock.clone();
        let operator = Operator::new(
            store.clone(),
            bus.clone(),
            clock.clone(),
            SystemEntropy,
            world.settings(),
        );
        let ids = letters.0.iter().map(|(id, _)| id.clone()).collect();
        let parts = Parts {
            store,
            bus,
            clock,
            entropy: SystemEntropy,
            operator,
            topics: letters,
        };
        let console = Console::new(parts, config.settings).expect("random numbers");
        Self {
            console: Arc::new(console),
            keys: Arc::new(config.tokens),
            letters: ids,
        }
    }

    /// Makes every query of the API.
    async fn look(&self, world: &World) {
        let shop = WorkflowName::new("shop").expect("a name");
        let present = world.open().current(shop).await;
        let present = present.expect("it can be read").expect("it is published");
        let version = format!("workflows/shop/{present}");
        for path in [
            "orders?state=Error",
            "orders?state=Processing",
            "orders?state=Processed",
            "orders?search=customer%3DALFKI",
            "orders/again?inputs=true",
            "orders/no-such",
            "overview",
            "history",
            "audit",
            "counts",
            "causes",
            "downstreams",
            "workflows",
            &version,
            "dead-letters",
            "alerts",
            "campaigns",
            "events?order=again",
        ] {
            let said = self.send("GET", path, &Value::Null).await;
            world.note(format!("{path}: {}", status_and_body(&said).0));
        }
    }

    /// Carries out every kind of act.
    async fn act(&self, world: &World) {
        let on = |act: &str, order: &str| json!({"act": act, "orders": [order], "why": "w", "dry_run": false});
        let corrected = json!({"act": "resubmit", "orders": ["again-high"], "why": "w",
            "step": "pack", "input": {"n": 2}, "dry_run": false});
        let campaign = json!({"act": "close", "filter": {"state": "Error"}, "why": "w",
            "dry_run": false});
        let hold = json!({"act": "pause", "downstream": "payment", "why": "w", "dry_run": false});
        let mut all = vec![
            ("cancel", "acts", on("cancel", "fresh")),
            (
                "cancel of the high lane",
                "acts",
                on("cancel", "fresh-high"),
            ),
            ("resubmit", "acts", on("resubmit", "again")),
            ("resubmit with another input", "acts", corrected),
            ("close", "acts", on("close", "over")),
            ("pause of a downstream", "downstreams/acts", hold),
            ("campaign", "campaigns", campaign),
        ];
        for id in &self.letters {
            let replay = json!({"act": "replay", "letters": [id], "why": "w", "again": true,
                "dry_run": false});
            all.push(("replay", "dead-letters/acts", replay));
        }
        let dismiss = json!({"act": "dismiss", "letters": [self.letters[0]], "why": "w", "again": true,
            "dry_run": false});
        all.push(("dismissal", "dead-letters/acts", dismiss));
        for (at, (what, path, body)) in all.into_iter().enumerate() {
            let said = self.send("POST", path, &body).await;
            let (told, counted) = status_and_body(&said);
            world.note(format!("{at}, {what}: {told}"));
            world.note(format!("{at}, {what} came to {counted}"));
        }
    }

    async fn send(&self, method: &str, path: &str, body: &Value) -> Response<Bytes> {
        let request = Request::builder()
            .method(method)
            .uri(format!("/v1/operate/{path}"))
            .header("authorization", TOKEN)
            .header("content-type", "application/json")
            .body(Bytes::from(body.to_string()))
            .expect("a request");
        let answer = self.console.answer(request, Arc::clone(&self.keys)).await;
        let (head, body) = answer.into_parts();
        let body = body.collect().await.expect("nothing fails").to_bytes();
        Response::from_parts(head, body)
    }
}

/// Whether a request was answered, and the result that the answer reports.
fn status_and_body(said: &Response<Bytes>) -> (&'static str, String) {
    let body: Value = serde_json::from_slice(said.body()).unwrap_or_default();
    let tally = ["done", "refused", "failed", "replayed", "tally"];
    let tally = tally.map(|name| body.get(name).cloned().unwrap_or_default());
    let has_failed = said.status().is_server_error()
        || body["failed"].as_u64().is_some_and(|failed| failed > 0)
        || String::from_utf8_lossy(said.body()).contains("event: fault");
    let told = if has_failed { "failed" } else { "answered" };
    (told, format!("{} {tally:?}", said.status()))
}

/// A topic of dead letters, with one letter for each topic that Triad reads.
struct Letters(Vec<(String, InputRecord)>);

struct LettersHeld(std::vec::IntoIter<InputRecord>);

impl TopicReader for Letters {
    type Error = Infallible;
    type Records = LettersHeld;

    async fn open(&self, topic: LogTopic, _: Extent) -> Result<LettersHeld, Infallible> {
        let held = match topic {
            LogTopic::DeadLetters => self.0.as_slice(),
            LogTopic::Alerts => &[],
        };
        let all: Vec<_> = held.iter().map(|(_, letter)| letter.clone()).collect();
        Ok(LettersHeld(all.into_iter()))
    }
}

impl TopicRecords for LettersHeld {
    type Error = Infallible;

    async fn next(&mut self) -> Result<Option<InputRecord>, Infallible> {
        Ok(self.0.next())
    }
}

fn letters(world: &World) -> Letters {
    let agents = ["payment", "inventory"].map(|name| AgentName::new(name).expect("a name"));
    let all = topics::all(&agents, &[]);
    let read = all.into_iter().filter(|topic| topics::is_input(topic));
    let letter = |topic: String| {
        let cause = Cause::new("not-json", "{");
        let poison = record(&topic, &json!("no order"));
        let [letter, _alert] = dead_letter(&poison, &cause, world.clock.now());
        (format!("{topic}/0/0"), held(letter))
    };
    Letters(read.map(letter).collect())
}

fn held(letter: Envelope) -> InputRecord {
    InputRecord {
        topic: letter.topic,
        key: letter.key,
        value: Some(letter.value),
        headers: letter.headers,
        ..InputRecord::default()
    }
}
