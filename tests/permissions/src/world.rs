//! The environment of one handler in a run: tables, topics, a clock, and the other handlers, which have all
//! permissions. Only the handler of the tested role uses the gate and the checked bus.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

use aws_credential_types::Credentials;
use aws_credential_types::provider::SharedCredentialsProvider;
use aws_types::region::Region;
use serde_json::{Value, json};
use tempfile::TempDir;
use triad_bootstrap::{Account, Config, Wiring};
use triad_broker::{Broker, BrokerConfig, BrokerHandle};
use triad_core::{Order, OrderId, Priority, topics};
use triad_dynamodb::DynamoStore;
use triad_kafka::{Topic, create_topics};
use triad_runtime::scheduler::Scheduler;
use triad_runtime::settings::Settings;
use triad_runtime::submission::Submission;
use triad_runtime::supervisor::Supervisor;
use triad_runtime::system::{SystemClock, SystemEntropy};
use triad_runtime::{Clock, ControlStore, Handled, InputRecord, StateStore};
use triad_workflow::{AgentName, Millis};

use super::checked_bus::{CheckedBus, refuse};
use super::gate::IamGate;
use super::policy::{Installation, Policy};
use super::rights::{Rights, UsedRights};
use triad_tests::bus::MemoryBus;
use triad_tests::clock::ManualClock;
use triad_tests::engines::{Store, workflow};

/// The workflows of the runs. Their agents are those of the rendered installations.
const WORKFLOWS: [&str; 4] = [
    // A workflow with two parallel steps.
    "
workflow: shop
details_schema: { type: object, required: [amount] }
steps:
  - id: pay
    agent: payment
    action: take
    input: { amount: '${details.amount}' }
    supervisor: { failure_threshold: 1 }
    compensation: { action: give-back }
  - id: pack
    agent: inventory
    action: pack
    after: []
    supervisor: { failure_threshold: 1 }
    compensation: { action: unpack }
",
    // A workflow that gets a cap, if the installation sets caps.
    "
workflow: small
steps:
  - { id: pack, agent: inventory, action: pack, compensation: none }
",
    // A workflow whose orders stop for an operator after a failure, with an output that lies beside the record.
    "
workflow: strict
steps:
  - { id: print, agent: payment, action: print, compensation: none }
  - id: pack
    agent: inventory
    action: pack
    input: { n: 1 }
    supervisor: { failure_threshold: 0, then: error }
    compensation: none
",
    // A workflow whose calls are counted in the call ledger.
    "
workflow: counted
steps:
  - id: pay
    agent: payment
    action: take
    retry: { calls_per_attempt: 1, calls_per_run: 2 }
    supervisor: { failure_threshold: 3 }
    compensation: none
",
];

/// A client of the tables with all permissions.
pub type AdminTables = DynamoStore<SystemClock>;

/// The result of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    /// Results and alerts, a line each, by which runs are compared.
    pub facts: BTreeSet<String>,
    /// The permissions that were requested.
    pub noted: UsedRights,
}

/// An order as an application submits it.
#[derive(Debug, Clone, Copy)]
pub struct Submitted<'a> {
    /// Id of the order.
    pub id: &'a str,
    /// Its workflow.
    pub workflow: &'a str,
    /// Its reply topic, if it names one.
    pub reply_topic: Option<&'a str>,
    /// Its lane.
    pub lane: Priority,
}

impl<'a> Submitted<'a> {
    /// An order on the normal lane, without a reply topic.
    #[must_use]
    pub fn new(id: &'a str, workflow: &'a str) -> Self {
        Self {
            id,
            workflow,
            reply_topic: None,
            lane: Priority::Normal,
        }
    }

    /// The same order on the high lane, with a reply topic.
    #[must_use]
    pub fn high(self) -> Self {
        Self {
            reply_topic: Some("reply.shop"),
            lane: Priority::High,
            ..self
        }
    }

    /// The record that submits the order.
    #[must_use]
    pub fn record(&self) -> InputRecord {
        let mut order =
            json!({"order_id": self.id, "workflow": self.workflow, "details": {"amount": 7}});
        if let Some(topic) = self.reply_topic {
            order["reply_topic"] = topic.into();
        }
        record(topics::orders(self.lane), &order)
    }
}

/// The secrets that agents' settings name, with a text for each.
fn secrets(agents: Option<&String>) -> BTreeMap<String, String> {
    let texts = agents.into_iter().flat_map(|agents| agents.split('"'));
    texts
        .filter(|text| text.starts_with("arn:aws:secretsmanager:"))
        .map(|arn| (arn.to_owned(), "the-token".to_owned()))
        .collect()
}

/// A record with this value.
#[must_use]
pub fn record(topic: &str, value: &Value) -> InputRecord {
    InputRecord {
        topic: topic.to_owned(),
        timestamp_ms: -1,
        value: Some(value.to_string().into_bytes()),
        ..InputRecord::default()
    }
}

/// A record that no handler can decode.
#[must_use]
pub fn poison(topic: &str) -> InputRecord {
    InputRecord {
        value: Some(b"no JSON".to_vec()),
        ..record(topic, &Value::Null)
    }
}

/// The record that wakes the Scheduler for an order.
#[must_use]
pub fn wake(id: &str) -> InputRecord {
    record(topics::SCHEDULER, &json!({"type": "wake", "order_id": id}))
}

/// The reply of an agent whose call has succeeded, with an output that lies beside the record.
#[must_use]
pub fn succeeded() -> Value {
    json!({"result": "succeeded", "output": "x".repeat(2_000)})
}

/// The reply of an agent whose call has failed; `kind` is the failure's class.
#[must_use]
pub fn failed(kind: &str) -> Value {
    json!({"result": "failed", "maybe_applied": false,
        "failure": {"kind": kind, "code": "no", "message": "no"}})
}

/// An agent's reply to a request, with this outcome.
#[must_use]
pub fn reply(request: &InputRecord, outcome: &Value) -> InputRecord {
    let asked = request.value.as_deref().unwrap_or_default();
    let asked: Value = serde_json::from_slice(asked).unwrap_or_default();
    let reply = json!({"type": "reply", "order_id": asked["order_id"], "step": asked["step"],
        "direction": asked["direction"], "attempt": asked["attempt"],
        "complete_by": asked["complete_by"], "calls": 1, "outcome": outcome});
    let is_high = request.topic.ends_with(".high");
    let lane = if is_high {
        Priority::High
    } else {
        Priority::Normal
    };
    record(topics::scheduler(lane), &reply)
}

/// Whether a record is a request to carry out this step.
#[must_use]
pub fn is_request(record: &InputRecord, step: &str) -> bool {
    let value = record.value.as_deref().unwrap_or_default();
    let value: Value = serde_json::from_slice(value).unwrap_or_default();
    record.topic.starts_with("agent.") && value["step"] == step
}

/// The environment of one handler.
pub struct World {
    /// The clock of all handlers.
    pub clock: ManualClock,
    /// The clients of the tested handler, built as its function builds them.
    pub wiring: Wiring<triad_bootstrap::Store>,
    /// The bus of the tested handler.
    pub line: CheckedBus,
    /// The bus of the other handlers, which keeps their messages.
    pub around: MemoryBus,
    tables: Store,
    rights: Rights,
    facts: Mutex<BTreeSet<String>>,
    gate: IamGate,
    _broker: BrokerHandle,
    _refused: TempDir,
}

impl World {
    /// Starts tables, broker and gate. Builds the clients of a role's function from the variables that the module
    /// sets, except for the services' addresses and the login.
    ///
    /// # Panics
    /// If something does not start, or if the variables are not a valid configuration.
    pub async fn start(installation: &Installation, role: &str, policy: &Policy) -> Self {
        let mut variables = installation.variables[role].clone();
        let tables = Store::with_prefix(&variables["TRIAD_PREFIX"]).await;
        for yaml in WORKFLOWS {
            tables.publish(&workflow(yaml)).await;
        }
        let rights = Rights::of(policy);
        let secrets = secrets(variables.get("TRIAD_AGENTS"));
        let gate = IamGate::start(tables.url(), rights.clone(), secrets).await;
        let refused = tempfile::tempdir().expect("a directory");
        let broker = Broker::start(BrokerConfig {
            refuse_topics: Some(refused.path().to_owned()),
            ..BrokerConfig::default()
        });
        let broker = broker.expect("the broker starts");
        let is_governed = variables["TRIAD_KAFKA_AUTH"] == "msk-iam";
        for own in [
            "TRIAD_KAFKA_AUTH",
            "TRIAD_KAFKA_SECRET",
            "TRIAD_KAFKA_CA_SECRET",
            "TRIAD_KAFKA_SETTINGS",
        ] {
            variables.remove(own);
        }
        variables.insert("TRIAD_BROKERS".into(), broker.addr().to_string());
        variables.insert("TRIAD_DYNAMODB_ENDPOINT".into(), gate.url());
        let lookup = |name: &str| variables.get(name).cloned();
        let config = Config::read(&lookup);
        let config = config.expect("the module's variables are a configuration");
        let agents = ["payment", "inventory"].map(|name| AgentName::new(name).expect("a name"));
        let reply_topics: Vec<String> = config.settings.reply_topics.iter().cloned().collect();
        let all = topics::all(&agents, &reply_topics);
        let topic = |name: &String| Topic {
            name: name.clone(),
            partitions: 1,
        };
        let made = all.iter().map(topic).collect::<Vec<_>>();
        let made = create_topics(&config.kafka, &made).await;
        made.expect("topics can be made");
        if is_governed {
            let names = all.iter().map(|topic| config.kafka.in_kafka(topic));
            refuse(refused.path(), &names.collect::<Vec<_>>(), &rights);
        }
        let wiring = Wiring::new(config, Account::of_function())
            .await
            .expect("sound settings");
        Self {
            // The tables delete expired items by the real time, so the clock begins there.
            clock: ManualClock::at(SystemClock.now().0),
            line: CheckedBus::new(
                wiring.bus.clone(),
                &wiring.config.kafka.prefix,
                is_governed.then(|| rights.clone()),
            ),
            wiring,
            around: MemoryBus::default(),
            tables,
            rights,
            facts: Mutex::default(),
            gate,
            _broker: broker,
            _refused: refused,
        }
    }

    /// The account of the role: its requests go through the gate.
    #[must_use]
    pub fn account(&self) -> Account {
        let credentials = Credentials::new("test", "test", None, None, "test");
        let config = triad_aws::limits(triad_aws::SdkConfig::builder())
            .region(Region::new("eu-west-1"))
            .credentials_provider(SharedCredentialsProvider::new(credentials))
            .endpoint_url(self.gate.url());
        Account::of_config(config.build())
    }

    /// The handlers' settings, as the module sets them.
    #[must_use]
    pub fn settings(&self) -> Settings {
        self.wiring.config.settings.clone()
    }

    /// The tables, with all permissions.
    #[must_use]
    pub fn open(&self) -> AdminTables {
        let details = self.wiring.config.details_retention;
        self.tables.store().keeping_details(details)
    }

    /// A Submission with all permissions.
    #[must_use]
    pub fn submission(&self) -> Submission<AdminTables, MemoryBus, ManualClock> {
        Submission::new(
            self.open(),
            self.around.clone(),
            self.clock.clone(),
            self.settings(),
        )
    }

    /// A Scheduler with all permissions that admits no set-aside order when another order ends.
    #[must_use]
    pub fn scheduler(&self) -> Scheduler<AdminTables, MemoryBus, ManualClock, SystemEntropy> {
        let mut settings = self.settings();
        settings.admission.per_workflow.clear();
        Scheduler::new(
            self.open(),
            self.around.clone(),
            self.clock.clone(),
            SystemEntropy,
            settings,
        )
    }

    /// A Supervisor with all permissions.
    #[must_use]
    pub fn supervisor(&self) -> Supervisor<AdminTables, MemoryBus, ManualClock, SystemEntropy> {
        Supervisor::new(
            self.open(),
            self.around.clone(),
            self.clock.clone(),
            SystemEntropy,
            self.settings(),
        )
    }

    /// Stores orders with a Submission that has all permissions; returns their wakes.
    ///
    /// # Panics
    /// If an order is refused.
    pub async fn stored(&self, orders: &[Submitted<'_>]) -> Vec<InputRecord> {
        let records: Vec<_> = orders.iter().map(Submitted::record).collect();
        let handled = self.submission().handle(&records).await;
        assert!(handled.iter().all(Handled::is_done), "{handled:?}");
        let sent = self.told_around();
        sent.into_iter()
            .filter(|r| topics::is_scheduler(&r.topic))
            .collect()
    }

    /// Stores and claims orders with handlers that have all permissions; returns the requests to agents.
    ///
    /// # Panics
    /// If an order is refused.
    pub async fn claimed(&self, orders: &[Submitted<'_>]) -> Vec<InputRecord> {
        let announced = self.stored(orders).await;
        let handled = self.scheduler().handle(&announced).await;
        assert!(handled.iter().all(Handled::is_done), "{handled:?}");
        let sent = self.told_around();
        sent.into_iter()
            .filter(|r| r.topic.starts_with("agent."))
            .collect()
    }

    /// Stores orders of the workflow `strict`, whose last step has failed: the Supervisor stops them.
    ///
    /// # Panics
    /// If an order is refused.
    pub async fn given_up(&self, orders: &[Submitted<'_>]) {
        let scheduler = self.scheduler();
        for request in self.claimed(orders).await {
            let _ = scheduler.handle(&[reply(&request, &succeeded())]).await;
        }
        for request in self.told_around() {
            if request.topic.starts_with("agent.") {
                let failed = reply(&request, &failed("transient"));
                let _ = scheduler.handle(&[failed]).await;
            }
        }
    }

    /// The messages that the other handlers have sent since the previous call.
    #[must_use]
    pub fn told_around(&self) -> Vec<InputRecord> {
        std::iter::from_fn(|| self.around.next()).collect()
    }

    /// Gives an order's outputs their provisional expiry again, as if the process that ended the order had died before
    /// it set the final one.
    pub async fn keep_outputs(&self, id: &str) {
        self.tables.keep_outputs(id).await;
    }

    /// Makes the record of an order unreadable.
    pub async fn damage(&self, id: &str) {
        self.tables.damage(id, "Steps", "no JSON").await;
    }

    /// Advances the clock.
    pub fn pass(&self, span: Millis) {
        self.clock.advance(span);
    }

    /// Records a fact.
    pub fn note(&self, fact: impl Into<String>) {
        let mut facts = self.facts.lock().unwrap_or_else(PoisonError::into_inner);
        facts.insert(fact.into());
    }

    /// Records a handler's results for its records.
    pub fn note_handled(&self, what: &str, handled: &[Handled]) {
        for (at, handled) in handled.iter().enumerate() {
            let told = if handled.is_done() { "done" } else { "again" };
            self.note(format!("{what}, record {at}: {told}"));
        }
    }

    /// Records the states of orders and of their steps.
    ///
    /// # Panics
    /// If the tables cannot be read.
    pub async fn note_orders(&self, ids: &[&str]) {
        for id in ids {
            let order = self.order(id).await;
            let expires = self.tables.details_item(id).await["ExpiresAt"].is_object();
            let outputs = self.tables.outputs_expire_soon(id).await;
            self.note(match order {
                Ok(Some(order)) => {
                    let steps = order.steps.iter().map(|step| {
                        let failures = step.action.failures;
                        format!("{} failed {failures} times", step.step)
                    });
                    let steps = steps.collect::<Vec<_>>().join(", ");
                    let state = order.state.name();
                    let due = order.due.is_some();
                    let aside = order.set_aside.is_some();
                    format!(
                        "{id} is {state}, due: {due}, aside: {aside}, expires: {expires}, outputs expire: {outputs:?}; {steps}"
                    )
                }
                Ok(None) => format!("{id} is not stored"),
                Err(why) => format!("{id}: {why}"),
            });
        }
    }

    async fn order(&self, id: &str) -> Result<Option<Order>, String> {
        let id = OrderId::new(id).expect("an id");
        let mut found = self.open().load(vec![id]).await;
        found.remove(0).map_err(|_| "it cannot be read".to_owned())
    }

    /// For each of these control records, whether it exists.
    ///
    /// # Panics
    /// If the tables cannot be read.
    pub async fn control(&self, keys: &[String]) -> Vec<bool> {
        let mut found = Vec::with_capacity(keys.len());
        for key in keys {
            let record = self.open().read(key.clone(), true).await;
            found.push(record.expect("the tables can be read").is_some());
        }
        found
    }

    /// Records which of these control records exist.
    ///
    /// # Panics
    /// If the tables cannot be read.
    pub async fn note_control(&self, keys: &[&str]) {
        let keys: Vec<String> = keys.iter().map(ToString::to_string).collect();
        for (key, found) in keys.iter().zip(self.control(&keys).await) {
            self.note(format!("control {key}: {found}"));
        }
    }

    /// Ends the run and returns its result.
    #[must_use]
    pub fn end(self) -> Run {
        for message in self.line.sent() {
            let key = message.key.as_deref().unwrap_or_default();
            let key = String::from_utf8_lossy(key).into_owned();
            let kind = message.headers.iter().find(|(name, _)| name == "ce_type");
            let kind = kind
                .and_then(|(_, value)| value.clone())
                .unwrap_or_default();
            let kind = String::from_utf8_lossy(&kind).into_owned();
            self.note(format!("sent to {}: {kind} {key}", message.topic));
        }
        let facts = self.facts.into_inner();
        Run {
            facts: facts.unwrap_or_else(PoisonError::into_inner),
            noted: self.rights.noted(),
        }
    }

    /// The clock's time, in milliseconds since the Unix epoch.
    #[must_use]
    pub fn now(&self) -> u64 {
        self.clock.now().0
    }
}
