//! `triad serve`: one machine in production, with every handler, the HTTP interface and the Kafka port in one
//! process, over one directory.

mod alerts;
mod backups;
mod care;
mod file;
mod login;
mod settings;
mod workflows;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use clap::Args;
use sd_notify::NotifyState;
use tokio_util::sync::CancellationToken;
use triad_bootstrap::{Sending, Wiring, environment, export_traces, http_remotes, logging};
use triad_broker::{Broker, BrokerConfig, BrokerHandle, SaslConfig, SecuredListener, TopicsIn};
use triad_consume::Broker as _;
use triad_core::topics;
use triad_ingress::{Server, TlsFiles};
use triad_kafka::{Topic, create_topics};
use triad_metrics::prometheus::Endpoint;
use triad_runtime::traces::Engines;
use triad_sqlite::topics::{LocalBroker, TopicSettings, Topics};
use triad_worker::Function;

use crate::console;
use crate::machine;
use crate::machine::directory::{lock, taken, unusable};
use crate::machine::signals::interrupted;
use crate::machine::stores::{Kind, OpenStore, Retention};
use crate::machine::writable::Disk;
use crate::machine::{Wired, raise_open_files, topic_settings};
use crate::mounted::mounted;
use crate::output::Usage;
use crate::user_files::why;
use file::File;
use settings::Settings;
use workflows::Files;

/// Everything that one machine does: orders by HTTP and by Kafka clients, workflows, agents, supervision
///
/// Stops on SIGTERM or SIGINT: no further order is taken, what is under way is finished or left to the next
/// start, within 30 s. A start after `kill -9` goes on where it was.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  triad serve --data /var/lib/triad             with triad.yaml of the present directory
  triad serve --config shop.yaml --data ./state
  TRIAD_HTTP=127.0.0.1:8080 triad serve         a variable takes the place of a setting
  triad serve --check                           is the configuration sound?
  triad serve --schema > serve.schema.json      the JSON Schema of the file

Operators look and act at http://127.0.0.1:7070/console/ (`console: read-only` or false in the file), models look at
http://127.0.0.1:7070/mcp, and act there with `mcp_acts: true`.

Submit an order, and wait for its end:
  curl 'http://127.0.0.1:7070/v1/orders?wait=30s' -H 'content-type: application/json' -d @order.json

Exit codes: 0 stopped, 2 the configuration is wrong, 1 anything else.")]
pub struct ServeArgs {
    /// The configuration
    #[arg(long, value_name = "FILE", default_value = "triad.yaml")]
    config: PathBuf,
    /// Directory that keeps everything; made if it is missing
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Check the configuration and the workflows, and start nothing
    #[arg(long)]
    check: bool,
    /// Print the JSON Schema of the configuration
    #[arg(long, conflicts_with = "check")]
    schema: bool,
    /// Log lines as text for people instead of JSON
    #[arg(long)]
    text: bool,
}

impl ServeArgs {
    /// The form of the log.
    pub fn log_form(&self) -> logging::Form {
        match self.text {
            true => logging::Form::Text,
            false => logging::Form::Json,
        }
    }
}

/// Runs `triad serve` until a signal stops it.
///
/// # Errors
/// [`Usage`](crate::output::Usage) or a [`ConfigError`](triad_bootstrap::ConfigError) if the configuration is wrong;
/// otherwise the failed start, or the error of a handler.
pub async fn run(args: ServeArgs) -> Result<ExitCode> {
    if args.schema {
        let schema = serde_json::to_string_pretty(&schemars::schema_for!(File))?;
        println!("{schema}");
        return Ok(ExitCode::SUCCESS);
    }
    let file = File::read(&args.config)?;
    // `--check` needs no directory.
    let data = args.data.or_else(|| args.check.then(PathBuf::new));
    let settings = Settings::read(&file, data, &environment)?;
    let wrong = |e: triad_ingress::StartError| Usage(e.to_string());
    settings.http.check().map_err(wrong)?;
    if args.check {
        return check(&settings);
    }
    let mut interrupted = pin!(interrupted());
    let machine = tokio::select! {
        started = Machine::start(settings, args.config) => started?,
        () = &mut interrupted => return Ok(ExitCode::SUCCESS),
    };
    machine.until(interrupted).await
}

/// Also checks all workflows. An agent without settings is only a warning, because it may be served elsewhere, over
/// the Kafka port.
fn check(settings: &Settings) -> Result<ExitCode> {
    let files = Files::new(settings.workflows.clone(), settings.limits());
    let looked = files.check(|agent| settings.config.agents.contains_key(agent));
    for why in &looked.refused {
        eprintln!("triad serve: {why}");
    }
    for (agent, workflow) in &looked.unserved {
        eprintln!(
            "triad serve: warning: {workflow} names the agent {agent}, which is not in the configuration: its \
             steps wait until another process serves it over the Kafka port"
        );
    }
    if !looked.refused.is_empty() {
        return Ok(ExitCode::from(2));
    }
    println!("the configuration and the workflows are sound");
    Ok(ExitCode::SUCCESS)
}

/// All running parts.
struct Machine {
    broker: BrokerHandle,
    stored: OpenStore,
    wiring: Wired,
    server: Server,
    handlers: tokio::task::JoinHandle<Result<()>>,
    stop: CancellationToken,
    _lock: std::fs::File,
}

impl Machine {
    async fn start(mut settings: Settings, config: PathBuf) -> Result<Self> {
        raise_open_files();
        let data = settings.data.clone();
        let lock = lock(&data, "triad serve")?;
        if let Some(backups) = &settings.backups {
            backups.check(&data)?;
        }
        let stop = CancellationToken::new();
        if let Some(address) = settings.metrics {
            let endpoint = Endpoint::start(address).await?;
            tracing::info!(address = %endpoint.address(), "metrics");
            tokio::spawn(endpoint.serve(stop.clone()));
        }
        let kind = Kind::of(Some(Kind::Sqlite), Some(&data), Kind::Sqlite)?;
        let tokens = settings.http.tokens.clone();
        let login = login::of(tokens, &mut settings.config.kafka)?;
        let loopback = ([127, 0, 0, 1], 0).into();
        let retention = Retention::of(&settings.config);
        let topics = TopicSettings {
            retention_bytes: Some(settings.log_bytes),
            retention: Some(settings.log_retention.as_duration()),
            ..topic_settings()
        };
        let mut stored = OpenStore::start(kind, Some(&data), loopback, retention, topics).await?;
        let broker = start_broker(&settings, login, stored.topics.clone())?;
        settings.config.kafka.brokers = broker.addr().to_string();
        make_topics(&settings).await?;
        let ends = stored.store.ends.clone();
        let local = LocalBroker::new(stored.topics.clone());
        let bus = local.bus()?;
        let remotes = http_remotes(&settings.config, &machine::aws())?;
        export_traces(&mut settings.config, Engines::ONE_MACHINE, Sending::Beside)?;
        let wiring = Wiring::with(stored.store.clone(), local, bus, settings.config.clone());
        let mut files = Files::new(settings.workflows.clone(), settings.limits());
        let agents = settings.config.agents.clone();
        let serves = move |agent: &_| agents.contains_key(agent);
        files.publish(&wiring.store, &serves).await?.log();
        let submission = Arc::new(wiring.submission());
        let store = wiring.store.clone();
        let mut http = settings.http;
        http.written = vec![Arc::new(Disk(store.clone()))];
        http.operations = Some(console::operations(
            (store.clone(), wiring.bus.clone()),
            wiring.operator(),
            wiring.config.kafka.clone(),
        ));
        if let Some(console) = settings.console {
            let (operator, bus) = (wiring.operator(), wiring.bus.clone());
            let kafka = wiring.config.kafka.clone();
            let api = console::api(store.clone(), bus, operator, kafka, console)?;
            http.operators = Some(mounted(api, settings.mcp_acts));
        }
        let has_console = http.operators.is_some();
        let server = Server::start(http, submission.clone(), store, ends).await?;
        stored.announce(&wiring.config)?;
        if let Some(console) = wiring.config.console_url.clone() {
            let kafka = wiring.config.kafka.clone();
            let alerts = tokio::task::spawn_blocking(move || alerts::open(&kafka)).await??;
            tokio::spawn(alerts::log(alerts, console, stop.clone()));
        }
        tokio::spawn(workflows::watch(
            files,
            config,
            wiring.store.clone(),
            serves,
            stop.clone(),
        ));
        let handlers = tokio::spawn(triad_worker::run_on_one_machine(
            submission,
            wiring.clone(),
            remotes,
            &[
                Function::Submission,
                Function::Scheduler,
                Function::Agent,
                Function::Supervisor,
            ],
            settings.sweep_every.as_duration(),
            stop.clone(),
        ));
        if let Some(backups) = settings.backups {
            tokio::spawn(backups.run(data.clone(), stop.clone()));
        }
        let (http, kafka) = (server.address(), broker.addr());
        let console = if has_console { "/console/" } else { "none" };
        tracing::info!(%http, console, %kafka, data = %data.display(), "serving");
        care::notify(NotifyState::Ready);
        Ok(Self {
            broker,
            stored,
            wiring,
            server,
            handlers,
            stop,
            _lock: lock,
        })
    }

    /// Runs until a stop signal, the end of a handler, or the loss of the store's file.
    async fn until(mut self, told: impl Future<Output = ()>) -> Result<ExitCode> {
        let file = self.stored.file.clone();
        let (ended, gone) = tokio::select! {
            () = told => (None, None),
            ended = &mut self.handlers => (Some(ended), None),
            gone = care::watch(file) => (None, Some(gone)),
        };
        tracing::info!("stopping");
        care::notify(NotifyState::Stopping);
        self.server.stop().await;
        self.stop.cancel();
        let result = match ended {
            // Without handlers the process would look alive and do nothing.
            Some(ended) => {
                let ended = ended.context("a handler panicked").and_then(|ended| ended);
                let error = ended
                    .err()
                    .unwrap_or_else(|| anyhow!("they ended without a request to stop"));
                Err(error.context("the handlers have ended"))
            }
            None => self.handlers.await.context("a handler panicked")?,
        };
        drop(self.wiring);
        let stopped = tokio::time::timeout(STOP_WITHIN, self.broker.shutdown()).await;
        self.stored.stop().await;
        if let Some(gone) = gone {
            return Err(gone);
        }
        result?;
        stopped.map_err(|_| anyhow!("the Kafka port was not closed within 10 s"))??;
        Ok(ExitCode::SUCCESS)
    }
}

/// Longest wait for the Kafka port at the stop.
const STOP_WITHIN: Duration = Duration::from_secs(10);

fn start_broker(
    settings: &Settings,
    login: Option<SaslConfig>,
    topics: Topics,
) -> Result<BrokerHandle> {
    let with_tls = settings.kafka_tls.zip(settings.http.tls.as_ref());
    let secured = with_tls
        .map(|(listen, tls)| secured(listen, tls, login.clone()))
        .transpose()?;
    let started = Broker::start(BrokerConfig {
        listen: settings.kafka,
        login,
        // Only the listener with TLS may be on another address than loopback.
        allow_remote: secured.is_some(),
        secured,
        topics: TopicsIn::Opened(topics),
        default_partitions: settings.partitions,
        ..BrokerConfig::default()
    });
    started.map_err(|error| match error {
        triad_broker::Error::Listen { addr, source } => taken("kafka", addr, &source).into(),
        error => unusable("the Kafka port", Some(&settings.data), error.into()),
    })
}

/// The listener with TLS, with the certificate of the HTTP interface and the same tokens.
fn secured(
    listen: SocketAddr,
    tls: &TlsFiles,
    login: Option<SaslConfig>,
) -> Result<SecuredListener> {
    let read = |path: &Path| {
        let named = |e| Usage(format!("tls: {}: {}", path.display(), why(path, &e)));
        std::fs::read_to_string(path).map_err(named)
    };
    Ok(SecuredListener {
        listen,
        certificate: read(&tls.certificate)?,
        key: read(&tls.key)?,
        client_ca: None,
        sasl: login,
    })
}

async fn make_topics(settings: &Settings) -> Result<()> {
    let agents: Vec<_> = settings.config.agents.keys().cloned().collect();
    let replies: Vec<String> = settings
        .config
        .settings
        .reply_topics
        .iter()
        .cloned()
        .collect();
    let partitions = settings.partitions;
    let topic = |name| Topic { name, partitions };
    let topics: Vec<Topic> = topics::all(&agents, &replies)
        .into_iter()
        .map(topic)
        .collect();
    Ok(create_topics(&settings.config.kafka, &topics).await?)
}
