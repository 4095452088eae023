//! The installation under test: child processes on ports that stay the same across restarts.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use serde_json::{Map, Value, json};
use tokio::sync::Mutex;
use triad_core::{Order, topics};
use triad_dynamodb::{DynamoStore, Endpoint as At, Tables, connect, create_tables};
use triad_kafka::{KafkaConfig, Topic, create_topics};
use triad_reference_service::Faults;
use triad_runtime::definitions::publish;
use triad_runtime::system::SystemClock;
use triad_workflow::{AgentName, Limits, Millis, Step, Workflow, load};

use super::child_process::{ChildProcess, Recipe};
use super::options::Options;
use super::ports;
use triad_judge::broken_store::Lies;
use triad_judge::endpoint::Endpoint;
use triad_judge::recorder::Recorder;

/// The workflow of all orders in a run with kills.
pub const WORKFLOW: &str = include_str!("workflow.yaml");
/// The reply topic of some orders.
pub const REPLY_TOPIC: &str = "reply.shop";
/// Number of partitions of each topic.
const PARTITIONS: i32 = 6;
/// Retention of topics, longer than any run.
const RETENTION: Millis = Millis(24 * 3_600_000);
/// One request in this many gets a wrong answer if the store is to be broken.
const LIED_TO: u64 = 10;
/// Bound on clock skew: all processes have the clock of one machine.
const SKEW: &str = "50ms";
/// The partitions of a dead worker are reassigned after six seconds, before a frozen worker continues.
const KAFKA: &str = r#"{"session.timeout.ms": "6000", "heartbeat.interval.ms": "1000"}"#;

/// Addresses and paths of the installation.
#[derive(Debug, Clone)]
pub struct Places {
    /// Address of Kafka.
    pub brokers: String,
    /// Address of DynamoDB itself, for setting up and for collecting the evidence.
    pub dynamodb: String,
    /// Address at which the workers reach DynamoDB through the recorder.
    pub recorded: String,
    /// Address of the remote service.
    pub service: String,
    /// Path of the remote service's ledger.
    pub ledger: PathBuf,
    /// Directory of the processes' logs.
    pub logs: PathBuf,
    /// Directory whose files name topics for which the broker refuses produce requests.
    pub refused: PathBuf,
}

/// The running processes. Each has its own lock, because concurrent faults concern different processes.
pub struct Installation {
    /// Addresses and paths.
    pub places: Places,
    /// The workflow of all orders; if there are several, the first one.
    pub workflow: Arc<Workflow>,
    workflows: Vec<Arc<Workflow>>,
    /// The broker.
    pub broker: Mutex<ChildProcess>,
    /// The store.
    pub store: Mutex<ChildProcess>,
    /// The endpoint between workers and store that records every operation.
    pub endpoint: Mutex<Endpoint>,
    /// The remote service that the agents call.
    pub service: Mutex<ChildProcess>,
    /// The workers.
    pub workers: Vec<Mutex<ChildProcess>>,
    faults: Mutex<Faults>,
}

impl Installation {
    /// Starts the engines, creates tables and topics, publishes the workflows, and starts the workers.
    ///
    /// # Errors
    /// If something does not start.
    pub async fn start(
        options: &Options,
        yaml: &[&str],
        bin: &Path,
        dir: &Path,
        faults: Faults,
    ) -> Result<Self> {
        let [kafka, dynamodb, service, recorded] = ports::free(4)?[..] else {
            bail!("four ports");
        };
        let places = Places {
            brokers: kafka.to_string(),
            dynamodb: format!("http://{dynamodb}"),
            recorded: format!("http://{recorded}"),
            service: format!("http://{service}"),
            ledger: dir.join("ledger.jsonl"),
            logs: dir.join("logs"),
            refused: dir.join("refused"),
        };
        std::fs::create_dir_all(&places.logs)?;
        std::fs::create_dir_all(&places.refused)?;
        let mut workflows = Vec::with_capacity(yaml.len());
        for text in yaml {
            let workflow = load::from_yaml("workflow.yaml", text, &Limits::published())
                .context("a workflow of the chaos test")?;
            workflows.push(Arc::new(workflow));
        }
        let workflow = workflows.first().context("a workflow")?.clone();
        let engine = |name: &str, listen: SocketAddr, files: &[(&str, PathBuf)]| {
            let program = bin.join(format!("triad-{name}"));
            ChildProcess::start(
                Recipe {
                    name: name.to_owned(),
                    program,
                    other: None,
                    args: ["--listen".to_owned(), listen.to_string()]
                        .into_iter()
                        .chain(files.iter().flat_map(|(option, at)| {
                            [(*option).to_owned(), at.display().to_string()]
                        }))
                        .collect(),
                    variables: Vec::new(),
                    announces: true,
                },
                &places.logs,
            )
        };
        let kept = [
            ("--data", dir.join("broker")),
            ("--refuse-topics", places.refused.clone()),
        ];
        let broker = engine("broker", kafka, &kept).await?;
        let kept = [("--data", dir.join("store"))];
        let store = engine("store", dynamodb, &kept).await?;
        let kept = [("--ledger", places.ledger.clone())];
        let service = engine("reference-service", service, &kept).await?;
        let history = options.history.clone();
        let recorder = Recorder::create(&history.unwrap_or_else(|| dir.join("history.jsonl")))?;
        let lies = options.store_lies.map(|kind| Lies::new(kind, LIED_TO));
        let upstream = places.dynamodb.clone();
        let endpoint = Endpoint::start(recorded, upstream, recorder, lies).await?;
        let mut installation = Self {
            broker: Mutex::new(broker),
            store: Mutex::new(store),
            endpoint: Mutex::new(endpoint),
            service: Mutex::new(service),
            workers: Vec::new(),
            faults: Mutex::new(faults),
            places,
            workflow,
            workflows,
        };
        installation.prepare().await?;
        installation.apply_faults().await?;
        let variables = installation.variables();
        for number in 0..options.workers {
            let recipe = Recipe {
                name: format!("worker-{number}"),
                program: bin.join("triad-worker"),
                other: options.other_worker.clone(),
                args: ["--sweep-every", "500ms", "--functions"]
                    .into_iter()
                    .chain(["submission,scheduler,agent,supervisor"])
                    .map(str::to_owned)
                    .collect(),
                variables: variables.clone(),
                announces: false,
            };
            let worker = ChildProcess::start(recipe, &installation.places.logs).await?;
            installation.workers.push(Mutex::new(worker));
        }
        Ok(installation)
    }

    async fn prepare(&self) -> Result<()> {
        let client = connect(At::Url(self.places.dynamodb.clone())).await;
        create_tables(&client, &Tables::with_prefix("")).await?;
        let agents: Vec<AgentName> = self.agents();
        let replies = [REPLY_TOPIC.to_owned()];
        let topic = |name| Topic {
            name,
            partitions: PARTITIONS,
        };
        let all: Vec<Topic> = topics::all(&agents, &replies)
            .into_iter()
            .map(topic)
            .collect();
        create_topics(&KafkaConfig::new(&self.places.brokers), &all).await?;
        let store = self.state_store().await;
        for workflow in &self.workflows {
            publish(&store, workflow).await?;
        }
        Ok(())
    }

    /// A client of the tables whose operations are not recorded.
    pub async fn state_store(&self) -> DynamoStore<SystemClock> {
        store_at(&self.places.dynamodb).await
    }

    /// A client of the tables through the recorder, as the workers use it.
    pub async fn recorded_store(&self) -> DynamoStore<SystemClock> {
        store_at(&self.places.recorded).await
    }

    /// Makes the broker refuse produce requests to a topic, or accept them again.
    ///
    /// # Errors
    /// If the broker's directory cannot be changed.
    pub fn refuse(&self, topic: &str, is_refused: bool) -> Result<()> {
        let file = self.places.refused.join(topic);
        let done = match is_refused {
            true => std::fs::write(&file, b""),
            false => std::fs::remove_file(&file),
        };
        done.with_context(|| file.display().to_string())
    }

    /// The workflow of an order.
    #[must_use]
    pub fn workflow_of(&self, order: &Order) -> Option<&Workflow> {
        let found = self.workflows.iter();
        found
            .map(Arc::as_ref)
            .find(|w| w.name == order.workflow.name && w.hash == order.workflow.hash)
    }

    /// The agents that the workflows name.
    #[must_use]
    pub fn agents(&self) -> Vec<AgentName> {
        let steps = self.workflows.iter().flat_map(|w| &w.steps);
        let agents: BTreeSet<AgentName> = steps
            .filter_map(Step::call)
            .map(|call| call.agent.clone())
            .collect();
        agents.into_iter().collect()
    }

    fn variables(&self) -> Vec<(String, String)> {
        let agent = |name: AgentName| {
            let url = format!("{}/{name}", self.places.service);
            // A stalled call ends by the step's deadline, before this timeout.
            let config = json!({"base_url": url, "call_timeout": "60s"});
            (name.to_string(), config)
        };
        let agents: Map<String, Value> = self.agents().into_iter().map(agent).collect();
        let agents = Value::Object(agents).to_string();
        [
            ("TRIAD_BROKERS", self.places.brokers.as_str()),
            ("TRIAD_DYNAMODB_ENDPOINT", &self.places.recorded),
            ("TRIAD_KAFKA_SETTINGS", KAFKA),
            ("TRIAD_AGENTS", &agents),
            ("TRIAD_REPLY_TOPICS", REPLY_TOPIC),
            ("TRIAD_SKEW", SKEW),
            ("TRIAD_ANNOUNCE_WITHIN", "3s"),
        ]
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
    }

    /// Sets the faults of the remote service, which also apply after its restarts.
    ///
    /// # Errors
    /// If the service does not accept them.
    pub async fn set_faults(&self, faults: Faults) -> Result<()> {
        *self.faults.lock().await = faults;
        self.apply_faults().await
    }

    /// Sends the current faults to the remote service, which loses them when it is killed.
    ///
    /// # Errors
    /// If the service does not accept them.
    pub async fn apply_faults(&self) -> Result<()> {
        let faults = serde_json::to_string(&*self.faults.lock().await)?;
        let answer = triad_tests::http::client()
            .put(format!("{}/_faults", self.places.service))
            .body(faults)
            .send()
            .await
            .context("the remote service does not answer")?;
        answer.error_for_status()?;
        Ok(())
    }

    fn parts(&self) -> impl Iterator<Item = &Mutex<ChildProcess>> {
        let engines = [&self.broker, &self.store, &self.service];
        engines.into_iter().chain(&self.workers)
    }

    /// Ends all processes and waits for that; afterwards their files no longer change.
    pub async fn stop(&self) {
        for part in self.parts() {
            part.lock().await.end().await;
        }
    }

    /// Names of the processes that ended unexpectedly.
    pub async fn dead(&self) -> Vec<String> {
        let mut dead = Vec::new();
        for part in self.parts() {
            let mut part = part.lock().await;
            if part.has_ended() {
                dead.push(part.name().to_owned());
            }
        }
        dead
    }
}

async fn store_at(url: &str) -> DynamoStore<SystemClock> {
    let client = connect(At::Url(url.to_owned())).await;
    DynamoStore::new(client, Tables::with_prefix(""), SystemClock, RETENTION)
}

/// Directory of the programs that a run needs.
///
/// # Errors
/// If one of them is missing.
pub fn bin_dir(options: &Options) -> Result<PathBuf> {
    let beside = std::env::current_exe().context("where this program is")?;
    let beside = beside.parent().map(Path::to_owned).unwrap_or_default();
    let dir = options.bin_dir.clone().unwrap_or(beside);
    let needed = [
        "triad",
        "triad-worker",
        "triad-broker",
        "triad-store",
        "triad-reference-service",
    ];
    let missing: Vec<_> = needed.iter().filter(|n| !dir.join(n).exists()).collect();
    if !missing.is_empty() {
        bail!(
            "{missing:?} are missing in {}: run `cargo build --workspace --bins` first",
            dir.display()
        );
    }
    Ok(dir)
}
