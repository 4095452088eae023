//! A console over a SQLite store in a temporary directory, with a bus that keeps the sent messages and serves the
//! topic of dead letters.

pub mod client;
pub mod document;

use std::convert::Infallible;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;
use triad_console::tokens::Tokens;
use triad_console::{Answers, Caller, Console, Digest, Keys, Parts, Settings};
use triad_core::{
    Envelope, Failure, FailureKind, Order, OrderId, ProcessState, Timestamp, WorkflowRef,
};
use triad_operator::campaign::{Campaigns, Report};
use triad_operator::topic::{Extent, LogTopic, TopicReader, TopicRecords};
use triad_runtime::dead_letter::{Cause, dead_letter};
use triad_runtime::operator::Operator;
use triad_runtime::system::{SystemClock, SystemEntropy};
use triad_runtime::{
    Bus, BusError, Clock, Created, DefinitionStore, InputRecord, NewOrder, StateStore, Write,
    Written,
};
use triad_sqlite::SqliteStore;
use triad_workflow::hash::canonical_json;
use triad_workflow::{Limits, Millis, Workflow};

use client::{Client, Said};

/// Limit of each wait.
pub const WITHIN: Duration = Duration::from_secs(30);

/// The bus: it keeps the sent messages, which are also read as the topics of dead letters and of alerts.
#[derive(Debug, Clone, Default)]
pub struct Heard(pub Arc<Mutex<Vec<Envelope>>>);

impl Bus for Heard {
    async fn publish(&self, messages: Vec<Envelope>) -> Vec<Result<(), BusError>> {
        let count = messages.len();
        self.0.lock().unwrap().extend(messages);
        vec![Ok(()); count]
    }
}

pub struct LettersHeld(std::vec::IntoIter<InputRecord>);

impl TopicReader for Heard {
    type Error = Infallible;
    type Records = LettersHeld;

    async fn open(&self, topic: LogTopic, _: Extent) -> Result<LettersHeld, Infallible> {
        let sent = self.0.lock().unwrap().clone();
        let letters = sent.into_iter().filter(|m| m.topic == topic.name());
        let records = letters.map(|m| InputRecord {
            topic: m.topic,
            key: m.key,
            value: Some(m.value),
            headers: m.headers,
            ..InputRecord::default()
        });
        Ok(LettersHeld(records.collect::<Vec<_>>().into_iter()))
    }
}

impl TopicRecords for LettersHeld {
    type Error = Infallible;

    async fn next(&mut self) -> Result<Option<InputRecord>, Infallible> {
        Ok(self.0.next())
    }
}

/// The real clock plus an offset that the test sets.
#[derive(Debug, Clone, Default)]
pub struct Later(Arc<AtomicU64>);

impl Later {
    pub fn by(&self, span: Millis) {
        self.0.store(span.0, Ordering::Relaxed);
    }
}

impl Clock for Later {
    fn now(&self) -> Timestamp {
        SystemClock
            .now()
            .plus(Millis(self.0.load(Ordering::Relaxed)))
    }

    async fn sleep(&self, span: Millis) {
        SystemClock.sleep(span).await;
    }
}

/// An authenticator without tokens, which accepts every caller.
struct Open;

impl Keys for Open {
    fn is_open(&self) -> bool {
        true
    }

    fn of(&self, _digest: &Digest) -> Option<Caller> {
        None
    }
}

pub struct World {
    /// The console's clock.
    pub clock: Later,
    pub store: SqliteStore<SystemClock>,
    pub heard: Heard,
    pub workflow: Workflow,
    pub client: Client,
    _dir: TempDir,
}

impl World {
    pub async fn start() -> Self {
        Self::with(Settings::default(), None).await
    }

    /// A console with these settings, and with these tokens if there are any.
    pub async fn with(console: Settings, tokens: Option<&str>) -> Self {
        Self::beside(console, tokens, |api| api).await
    }

    /// The same, with `mounted` served beside the API.
    pub async fn beside(
        console: Settings,
        tokens: Option<&str>,
        mounted: impl FnOnce(Arc<dyn Answers>) -> Arc<dyn Answers>,
    ) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let store = SqliteStore::open(&dir.path().join("s"), SystemClock, Millis(3_600_000));
        let store = store.unwrap();
        let heard = Heard::default();
        let clock = Later::default();
        let operator = Operator::new(
            store.clone(),
            heard.clone(),
            clock.clone(),
            SystemEntropy,
            triad_runtime::settings::Settings::default(),
        );
        let parts = Parts {
            store: store.clone(),
            bus: heard.clone(),
            clock: clock.clone(),
            entropy: SystemEntropy,
            operator,
            topics: heard.clone(),
        };
        let answers = mounted(Arc::new(Console::new(parts, console).unwrap()));
        let keys: Arc<dyn Keys> = match tokens {
            Some(lines) => Arc::new(lines.parse::<Tokens>().unwrap()),
            None => Arc::new(Open),
        };
        let workflow = publish(&store, "w", "go").await;
        Self {
            clock,
            client: Client { answers, keys },
            store,
            heard,
            workflow,
            _dir: dir,
        }
    }

    /// One pass of the Supervisor over the campaigns.
    pub async fn carry_on(&self) -> Report {
        let (store, bus) = (self.store.clone(), self.heard.clone());
        let settings = triad_runtime::settings::Settings::default();
        let operator = Operator::new(
            store.clone(),
            bus.clone(),
            SystemClock,
            SystemEntropy,
            settings,
        );
        let campaigns = Campaigns::new(operator, store, bus, SystemClock, SystemEntropy);
        campaigns.carry_on(Millis(2_000)).await
    }

    pub async fn get(&self, path: &str) -> Said {
        self.client.send("GET", path, &[], b"").await
    }

    /// Posts an act as JSON.
    pub async fn act(&self, path: &str, body: &Value) -> Said {
        self.client.post(path, body).await
    }

    /// Stores an order after `change` was applied to it.
    pub async fn order(&self, id: &str, change: impl FnOnce(&mut Order)) -> Order {
        self.orders(vec![(id.to_owned(), change)]).await.remove(0)
    }

    /// Stores orders, each after its change was applied.
    pub async fn orders(&self, all: Vec<(String, impl FnOnce(&mut Order))>) -> Vec<Order> {
        let named = identity(&self.workflow).to_string();
        let (mut new, mut writes) = (Vec::new(), Vec::new());
        for (id, change) in all {
            let now = SystemClock.now();
            let accepted = json!({"order_id": id, "workflow": named,
                "submitted_at": now.0, "due": now.0 + 60_000, "details": {}});
            let accepted = serde_json::from_value(accepted).unwrap();
            let first = Order::new(&accepted, &self.workflow, now);
            let mut next = first.clone();
            next.version = first.version.next();
            change(&mut next);
            if next.state.is_finished() {
                next.due = None;
            }
            writes.push(Write::silent(first.version, Arc::new(next), 1));
            new.push(NewOrder {
                order: first,
                details: Arc::new(json!({"card": "4711", "note": "<b>x</b>"})),
                digest: "d".into(),
                messages: Vec::new(),
            });
        }
        let stored = writes.iter().map(|write| (*write.next).clone()).collect();
        let created = self.store.create(new).await;
        assert!(
            created.iter().all(|c| *c == Ok(Created::Created)),
            "{created:?}"
        );
        let written = self.store.commit(writes).await;
        assert!(
            written.iter().all(|w| *w == Ok(Written::Written)),
            "{written:?}"
        );
        stored
    }

    /// Stores an order in Error. The next order comes at least a millisecond later: orders with equal times are in no
    /// fixed order.
    pub async fn failed(&self, id: &str, code: &str) -> Order {
        let state = error(code);
        let at = state.finished_at().expect("it has finished");
        let order = self.order(id, |order| order.state = state).await;
        while SystemClock.now() <= at {
            tokio::task::yield_now().await;
        }
        order
    }

    pub async fn stored(&self, id: &str) -> Order {
        let mut found = self.store.load(vec![OrderId::new(id).unwrap()]).await;
        found.pop().unwrap().unwrap().expect("it is stored")
    }

    /// Sends the dead letter of a record in the topic `orders`.
    pub async fn letter(&self, offset: i64, value: &str) {
        let record = InputRecord {
            topic: "orders".into(),
            partition: 3,
            offset,
            value: Some(value.as_bytes().to_vec()),
            ..InputRecord::default()
        };
        let cause = Cause::new("not-json", "<script>alert(1)</script>");
        let [letter, _] = dead_letter(&record, &cause, SystemClock.now());
        self.heard.publish(vec![letter]).await;
    }
}

pub fn error(code: &str) -> ProcessState {
    ProcessState::Error {
        at: SystemClock.now(),
        cause: Failure::new(FailureKind::Permanent, code, "<script>alert(1)</script>"),
    }
}

pub fn identity(workflow: &Workflow) -> WorkflowRef {
    WorkflowRef {
        name: workflow.name.clone(),
        hash: workflow.hash.clone(),
    }
}

/// Publishes a workflow of one step.
pub async fn publish(store: &SqliteStore<SystemClock>, name: &str, action: &str) -> Workflow {
    let definition = json!({"workflow": name, "steps": [{"id": "pay", "agent": "bank",
        "action": action, "input": {"card": "${details.card}"}, "compensation": {"action": "back"}}]});
    publish_definition(store, definition).await
}

/// Publishes a workflow.
pub async fn publish_definition(store: &SqliteStore<SystemClock>, definition: Value) -> Workflow {
    let definition = serde_json::from_value(definition).unwrap();
    let json = canonical_json(&definition);
    let workflow = Workflow::compile(definition, &Limits::published()).unwrap();
    store.publish(identity(&workflow), json).await.unwrap();
    workflow
}

/// Posts a form as a browser does.
pub async fn send_form(world: &World, path: &str, cookie: &str, form: &[(&str, &str)]) -> Said {
    let mut body = form_urlencoded::Serializer::new(String::new());
    for (name, value) in form {
        body.append_pair(name, value);
    }
    let media = ("content-type", "application/x-www-form-urlencoded");
    let headers = [media, ("cookie", cookie)];
    let body = body.finish();
    world
        .client
        .send("POST", path, &headers, body.as_bytes())
        .await
}

pub fn text(said: &Said) -> String {
    String::from_utf8(said.body.clone()).unwrap()
}

/// The cookie that an answer sets.
pub fn cookie(said: &Said) -> String {
    let set = said.header("set-cookie").expect("a cookie");
    set.split(';').next().unwrap().to_owned()
}

/// The CSRF token of a page's forms.
pub fn csrf_token(page: &str) -> String {
    let behind = page.split("name=\"word\" value=\"").nth(1).expect("a word");
    behind.split('"').next().unwrap().to_owned()
}
