//! Embedded broker, tables and reference service in the test's process, for functions and workers that run as
//! separate processes.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::{Map, Value, json};
use triad_broker::{Broker, BrokerConfig, BrokerHandle};
use triad_core::{Order, OrderId, topics};
use triad_dynamodb::{Client, DynamoStore, Endpoint, Tables, connect, create_tables};
use triad_embedded::Embedded;
use triad_kafka::{KafkaConfig, Topic, create_topics};
use triad_reference_service::{Faults, Handle, ReferenceService};
use triad_runtime::definitions::publish;
use triad_runtime::system::SystemClock;
use triad_runtime::{Clock, StateStore};
use triad_workflow::{AgentName, Limits, Millis, Workflow, load};

use crate::ledger::Ledger;
use crate::poll::until;

/// Partitions of each topic.
pub const PARTITIONS: i32 = 4;

const RETENTION: Millis = Millis(24 * 3_600_000);

/// A free port on the loopback address.
pub fn loopback() -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, 0))
}

/// Compiles a workflow.
///
/// # Panics
/// If it is invalid.
pub fn workflow(yaml: &str) -> Workflow {
    load::from_yaml("test.yaml", yaml, &Limits::published()).expect("the workflow is sound")
}

/// Environment variable with the URL of another DynamoDB-compatible engine, for [`Store::of_contract`].
pub const OTHER_ENGINE: &str = "TRIAD_TEST_DYNAMODB_ENDPOINT";

/// DynamoDB tables in memory, already created.
pub struct Store {
    url: String,
    /// The tables of this store.
    pub tables: Tables,
    /// A client of its engine.
    pub client: Client,
    _embedded: Option<Embedded>,
}

impl Store {
    /// Starts the embedded engine.
    ///
    /// # Panics
    /// If the engine does not start.
    pub async fn start() -> Self {
        Self::with_prefix("").await
    }

    /// Starts the embedded engine, with this prefix of the tables' names.
    ///
    /// # Panics
    /// If the engine does not start.
    pub async fn with_prefix(prefix: &str) -> Self {
        let embedded = Embedded::start(loopback(), None).expect("the engine starts");
        let client = connect(Endpoint::InProcess(embedded.http_client())).await;
        let url = format!("http://{}", embedded.addr());
        Self::over(url, client, Tables::with_prefix(prefix), Some(embedded)).await
    }

    /// An engine for contract suites: the engine at [`OTHER_ENGINE`] with new tables, or the embedded one.
    ///
    /// # Panics
    /// If the engine does not start, or creates no tables.
    pub async fn of_contract() -> Self {
        static STORES: AtomicU32 = AtomicU32::new(0);
        #[expect(
            clippy::disallowed_methods,
            reason = "it is told to the tests, not to the system"
        )]
        let Ok(url) = std::env::var(OTHER_ENGINE) else {
            return Self::start().await;
        };
        let client = connect(Endpoint::Url(url.clone())).await;
        let number = STORES.fetch_add(1, Ordering::Relaxed);
        let prefix = format!("test-{}-{number}-", std::process::id());
        Self::over(url, client, Tables::with_prefix(&prefix), None).await
    }

    async fn over(url: String, client: Client, tables: Tables, embedded: Option<Embedded>) -> Self {
        create_tables(&client, &tables)
            .await
            .expect("tables can be made");
        Self {
            url,
            tables,
            client,
            _embedded: embedded,
        }
    }

    /// The URL at which other processes reach the tables.
    pub fn url(&self) -> String {
        self.url.clone()
    }

    /// A state store on these tables.
    pub fn store(&self) -> DynamoStore<SystemClock> {
        self.store_at(SystemClock)
    }

    /// A state store on these tables, with the given clock.
    pub fn store_at<C: Clock + Clone>(&self, clock: C) -> DynamoStore<C> {
        self.store_keeping(clock, RETENTION)
    }

    /// A state store on these tables, with the given clock and retention of finished records.
    pub fn store_keeping<C: Clock + Clone>(&self, clock: C, retention: Millis) -> DynamoStore<C> {
        DynamoStore::new(self.client.clone(), self.tables.clone(), clock, retention)
    }

    /// Makes an order's record unreadable: sets the attribute to this text.
    ///
    /// # Panics
    /// If the item cannot be written.
    pub async fn damage(&self, id: &str, attribute: &str, text: &str) {
        let update = json!({
            "TableName": self.tables.order_state, "Key": {"OrderID": {"S": id}},
            "UpdateExpression": "SET #a = :text", "ExpressionAttributeNames": {"#a": attribute},
            "ExpressionAttributeValues": {":text": {"S": text}},
        });
        let _ = self.ask("UpdateItem", &update).await;
    }

    /// The item with an order's details, as the table stores it.
    ///
    /// # Panics
    /// If it cannot be read.
    pub async fn details_item(&self, id: &str) -> Value {
        let get = json!({
            "TableName": self.tables.orders, "Key": {"OrderID": {"S": id}}, "ConsistentRead": true,
        });
        self.ask("GetItem", &get).await["Item"].clone()
    }

    /// For each output that lies beside an order's record, whether it expires within five years: not before the order
    /// has ended.
    ///
    /// # Panics
    /// If the table cannot be read.
    pub async fn outputs_expire_soon(&self, id: &str) -> Vec<bool> {
        let soon = SystemClock.now().0 / 1_000 + 5 * 366 * 24 * 3_600;
        let expiry = |item: &Value| item["ExpiresAt"]["N"].as_str()?.parse::<u64>().ok();
        let own = self.output_items(id).await;
        let own = own.iter();
        own.map(|item| expiry(item).is_some_and(|at| at < soon))
            .collect()
    }

    /// Sets the expiry of an order's outputs to a time after the year 2286.
    ///
    /// # Panics
    /// If the table cannot be changed.
    pub async fn keep_outputs(&self, id: &str) {
        for item in self.output_items(id).await {
            let update = json!({"TableName": self.tables.orders, "Key": {"OrderID": item["OrderID"]},
                "UpdateExpression": "SET ExpiresAt = :at",
                "ExpressionAttributeValues": {":at": {"N": "9999999999"}}});
            let _ = self.ask("UpdateItem", &update).await;
        }
    }

    async fn output_items(&self, id: &str) -> Vec<Value> {
        let scan = json!({"TableName": self.tables.orders, "ConsistentRead": true});
        let found = self.ask("Scan", &scan).await["Items"].clone();
        let own = format!("{id}/");
        let items = found.as_array().cloned().unwrap_or_default();
        let is_own = |item: &Value| {
            let key = item["OrderID"]["S"].as_str();
            key.is_some_and(|key| key.starts_with(&own))
        };
        items.into_iter().filter(is_own).collect()
    }

    /// Removes an order's details, as after their expiry.
    ///
    /// # Panics
    /// If they cannot be removed.
    pub async fn remove_details(&self, id: &str) {
        let delete = json!({"TableName": self.tables.orders, "Key": {"OrderID": {"S": id}}});
        let _ = self.ask("DeleteItem", &delete).await;
    }

    /// Removes the search indexes from the table of records, so that it is as an earlier version created it.
    ///
    /// # Panics
    /// If the table cannot be changed.
    pub async fn remove_search_indexes(&self) {
        for index in ["search-1", "search-2"] {
            let delete = json!({"TableName": self.tables.order_state,
                "GlobalSecondaryIndexUpdates": [{"Delete": {"IndexName": index}}]});
            let _ = self.ask("UpdateTable", &delete).await;
        }
    }

    /// Sends a request that no port offers.
    async fn ask(&self, operation: &str, request: &Value) -> Value {
        let answer = crate::http::client()
            .post(&self.url)
            .header("x-amz-target", format!("DynamoDB_20120810.{operation}"))
            .header("x-amz-date", "20260101T000000Z")
            .header("content-type", "application/x-amz-json-1.0")
            .header("authorization", "AWS4-HMAC-SHA256 Credential=test/20260101/eu-west-1/dynamodb/aws4_request, SignedHeaders=host, Signature=0")
            .body(request.to_string())
            .send()
            .await
            .expect("the engine answers");
        let status = answer.status();
        let text = answer.text().await.unwrap_or_default();
        assert!(status.is_success(), "{status}: {text}");
        serde_json::from_str(&text).unwrap_or_default()
    }

    /// Publishes a workflow.
    ///
    /// # Panics
    /// If it cannot be stored.
    pub async fn publish(&self, workflow: &Workflow) {
        let published = publish(&self.store(), workflow).await;
        published.expect("a definition can be stored");
    }
}

/// Tables, reference service and, once it is started, a broker, with one workflow.
pub struct Engines {
    /// The tables.
    pub store: Store,
    /// The reference service.
    pub service: Handle,
    broker: Option<BrokerHandle>,
    agents: BTreeSet<AgentName>,
}

impl Engines {
    /// Starts tables and service and publishes the workflow.
    ///
    /// # Panics
    /// If something does not start.
    pub async fn without_broker(yaml: &str, faults: Faults) -> Self {
        let store = Store::start().await;
        let workflow = workflow(yaml);
        store.publish(&workflow).await;
        let service = ReferenceService::start(triad_reference_service::Config {
            faults,
            ..triad_reference_service::Config::default()
        });
        let agents = workflow.steps.iter().flat_map(|step| {
            let compensation = step.compensation.as_ref().map(|c| c.agent.clone());
            step.call()
                .map(|call| call.agent.clone())
                .into_iter()
                .chain(compensation)
        });
        Self {
            store,
            service: service.await.expect("the reference service starts"),
            broker: None,
            agents: agents.collect(),
        }
    }

    /// Starts tables, service and broker, and publishes the workflow.
    ///
    /// # Panics
    /// If something does not start.
    pub async fn start(yaml: &str, faults: Faults) -> Self {
        let mut engines = Self::without_broker(yaml, faults).await;
        engines.start_broker(loopback()).await;
        engines
    }

    /// Starts the broker and creates all topics.
    ///
    /// # Panics
    /// If the address is taken.
    pub async fn start_broker(&mut self, listen: SocketAddr) {
        let broker = Broker::start(BrokerConfig {
            listen,
            default_partitions: PARTITIONS,
            ..BrokerConfig::default()
        });
        let broker = broker.expect("the broker starts");
        let agents: Vec<_> = self.agents.iter().cloned().collect();
        let topic = |name| Topic {
            name,
            partitions: PARTITIONS,
        };
        let all: Vec<_> = topics::all(&agents, &[]).into_iter().map(topic).collect();
        create_topics(&KafkaConfig::new(broker.addr().to_string()), &all)
            .await
            .expect("topics can be made");
        self.broker = Some(broker);
    }

    /// Stops the broker.
    ///
    /// # Panics
    /// If it does not stop cleanly, or is not running.
    pub async fn stop_broker(&mut self) {
        let broker = self.broker.take().expect("the broker runs");
        broker.shutdown().await.expect("the broker stops");
    }

    /// The broker's address.
    ///
    /// # Panics
    /// If it is not running.
    pub fn brokers(&self) -> String {
        let broker = self.broker.as_ref().expect("the broker runs");
        broker.addr().to_string()
    }

    /// The normal topics of all agents.
    pub fn agent_topics(&self) -> Vec<String> {
        let topic = |name| topics::agent(name, triad_core::Priority::Normal);
        self.agents.iter().map(topic).collect()
    }

    /// The environment variables for a function or worker that uses these engines.
    pub fn variables(&self, brokers: &str) -> Vec<(&'static str, String)> {
        let agent = |name: &AgentName| {
            let url = format!("http://{}/{name}", self.service.addr());
            (name.to_string(), json!({"base_url": url}))
        };
        let agents: Map<String, Value> = self.agents.iter().map(agent).collect();
        vec![
            ("TRIAD_BROKERS", brokers.to_owned()),
            ("TRIAD_DYNAMODB_ENDPOINT", self.store.url()),
            ("TRIAD_AGENTS", Value::Object(agents).to_string()),
            ("TRIAD_SKEW", "50ms".to_owned()),
            ("TRIAD_ANNOUNCE_WITHIN", "2s".to_owned()),
            ("TRIAD_QUEUE_WITHIN", "3s".to_owned()),
        ]
    }

    /// Sets the faults of the reference service.
    ///
    /// # Panics
    /// If they are out of bounds.
    pub fn set_faults(&self, faults: Faults) {
        self.service.set_faults(faults).expect("sound faults");
    }

    /// The process record of an order; `None` if there is none.
    ///
    /// # Panics
    /// If the tables cannot be read.
    pub async fn record(&self, id: &str) -> Option<Order> {
        let id = OrderId::new(id).expect("an order id");
        let found = self.store.store().load(vec![id]).await.remove(0);
        found.expect("tables can be read")
    }

    /// The state of an order; `None` if there is none.
    ///
    /// # Panics
    /// If the tables cannot be read.
    pub async fn state(&self, id: &str) -> Option<&'static str> {
        Some(self.record(id).await?.state.name())
    }

    /// Number of orders in a state.
    ///
    /// # Panics
    /// If the tables cannot be read.
    pub async fn count(&self, state: &str) -> usize {
        self.list(Some(state)).await.len()
    }

    /// The ids of all orders.
    ///
    /// # Panics
    /// If the tables cannot be read.
    pub async fn ids(&self) -> BTreeSet<String> {
        let orders = self.records().await;
        orders.iter().map(|o| o.id.to_string()).collect()
    }

    /// The process records of all orders.
    ///
    /// # Panics
    /// If the tables cannot be read.
    pub async fn records(&self) -> Vec<Order> {
        self.list(None).await
    }

    async fn list(&self, state: Option<&str>) -> Vec<Order> {
        let store = self.store.store();
        let (mut orders, mut page) = (Vec::new(), None);
        loop {
            let found = store.list(state.map(str::to_owned), page).await;
            let found = found.expect("tables can be read");
            assert_eq!(found.unreadable, [], "every record can be read");
            orders.extend(found.orders);
            page = found.next;
            if page.is_none() {
                return orders;
            }
        }
    }

    /// Waits until this many orders are in a state.
    ///
    /// # Panics
    /// If that takes too long.
    pub async fn all_in(&self, state: &str, count: usize) {
        until(&format!("{count} orders are {state}"), async || {
            (self.count(state).await == count).then_some(())
        })
        .await;
    }

    /// The reference service's ledger.
    pub async fn ledger(&self) -> Ledger {
        Ledger::read(&format!("http://{}", self.service.addr())).await
    }
}
