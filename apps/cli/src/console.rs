//! The API and the pages of operators: within `triad serve` and `triad dev`, and as the separate command `triad
//! console`, beside any installation.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Result;
use clap::Args;
use http::HeaderName;
use serde_json::json;
use triad_bootstrap::{KafkaTopics, Sending};
use triad_console::{Answers, Console, Hidden, Parts, Settings, TraceUrl};
use triad_ingress::{Server, TlsFiles};
use triad_kafka::KafkaConfig;
use triad_operator::operations::{Local, Operations, Settings as OperationsSettings};
use triad_runtime::Bus;
use triad_runtime::operator::Operator;
use triad_runtime::system::{SystemClock, SystemEntropy};

use crate::connection::{KafkaArgs, StoreArgs, connect_store_and_bus};
use crate::machine::signals::interrupted;
use crate::mounted::mounted;
use crate::output::{Usage, print_line};
use crate::store::Store;
use crate::traces;

/// Look at an installation and act on it in a browser: a page on this machine
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  triad console                                   beside what TRIAD_BROKERS and the other variables name
  triad console --data ./state --read-only        beside a triad serve, to look alone
  triad console --context shop --listen 127.0.0.1:8080
  triad token ann --role operate >> tokens && triad console --listen 0.0.0.0:8443 --tokens tokens \\
    --tls-certificate cert.pem --tls-key key.pem

Without --tokens it listens only on loopback addresses, and every program on this machine may act. Every act
is stored in the order's record, with its operator and reason. The same server has an API for programs: see
/v1/operate/openapi.json, and the Model Context Protocol at /mcp (`triad docs mcp`). It runs until Ctrl-C.")]
pub struct ConsoleArgs {
    /// Address and port to listen on; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// No caller may act, whatever its role
    #[arg(long)]
    read_only: bool,
    /// The file of tokens (`triad token`); the roles read and operate count
    #[arg(long, value_name = "FILE")]
    tokens: Option<PathBuf>,
    /// Certificate, in PEM
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_certificate: Option<PathBuf>,
    /// Private key of the certificate, in PEM
    #[arg(long, value_name = "FILE", requires = "tls_certificate")]
    tls_key: Option<PathBuf>,
    /// The header in which an authenticating proxy on this machine gives the caller's name, such as x-forwarded-user
    #[arg(long, value_name = "HEADER")]
    user_header: Option<HeaderName>,
    /// Models may act at /mcp, too, with the same roles; without this option they may only read
    #[arg(long)]
    allow_mcp_acts: bool,
    /// A field of payloads that is not shown; may be given several times
    #[arg(long = "hide", value_name = "FIELD")]
    hidden: Vec<String>,
    /// Address of a tool that shows an order's trace, such as https://jaeger.example/trace/{trace}; the order's page
    /// links there
    #[arg(long, value_name = "URL")]
    trace_url: Option<TraceUrl>,
    /// Print its address as a JSON line
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    store: StoreArgs,
    #[command(flatten)]
    kafka: KafkaArgs,
}

impl ConsoleArgs {
    /// Whether any caller may act.
    pub fn changes(&self) -> bool {
        !self.read_only
    }
}

/// Runs `triad console` until a signal stops it.
///
/// # Errors
/// [`Usage`] if the options do not fit together; if the store or Kafka cannot be reached, or the address cannot be
/// listened on.
pub async fn run(args: ConsoleArgs) -> Result<ExitCode> {
    let user_header = believed(args.user_header, args.listen)?;
    let timing = args.store.spans()?.timing;
    let (store, bus) = connect_store_and_bus(&args.store, &args.kafka).await?;
    let handlers = triad_runtime::settings::Settings {
        timing,
        traces: traces::of_environment(&store, Sending::Beside)?,
        ..triad_runtime::settings::Settings::default()
    };
    let operator = Operator::new(
        store.clone(),
        bus.clone(),
        SystemClock,
        SystemEntropy,
        handlers,
    );
    let tls = args.tls_certificate.zip(args.tls_key);
    let settings = Settings {
        read_only: args.read_only,
        hidden: Hidden::of(args.hidden),
        user_header,
        secure: tls.is_some(),
        trace_url: args.trace_url,
        ..Settings::default()
    };
    let kafka = args.kafka.config().await?;
    let console = mounted(
        api(store, bus, operator, kafka, settings)?,
        args.allow_mcp_acts,
    );
    let server = triad_ingress::Settings {
        tokens: args.tokens,
        tls: tls.map(|(certificate, key)| TlsFiles { certificate, key }),
        timing,
        operators: Some(console),
        ..triad_ingress::Settings::on(args.listen)
    };
    let scheme = if server.tls.is_some() {
        "https"
    } else {
        "http"
    };
    let interrupted = interrupted();
    let server = Server::for_operators(server).await?;
    let address = format!("{scheme}://{}/console/", server.address());
    match args.json {
        true => print_line(&json!({"event": "started", "console": address}))?,
        false => println!("Console   {address}"),
    }
    interrupted.await;
    server.stop().await;
    Ok(ExitCode::SUCCESS)
}

/// The header of a proxy, for a loopback address only.
///
/// # Errors
/// [`Usage`] for any other address: every client that reaches it could send the header.
pub fn believed(
    header: Option<HeaderName>,
    listen: SocketAddr,
) -> Result<Option<HeaderName>, Usage> {
    match header {
        Some(header) if !listen.ip().to_canonical().is_loopback() => Err(Usage(format!(
            "{listen} can be reached from other machines, and whoever reaches it could send the header {header}: listen on 127.0.0.1, behind the proxy"
        ))),
        header => Ok(header),
    }
}

/// The API and the pages over these clients.
///
/// # Errors
/// If the system gives no random numbers.
pub fn api<B: Bus>(
    store: Store,
    bus: B,
    operator: Operator<Store, B, SystemClock, SystemEntropy>,
    kafka: KafkaConfig,
    settings: Settings,
) -> Result<Arc<dyn Answers>> {
    let parts = parts((store, bus), operator, kafka);
    Ok(Arc::new(Console::new(parts, settings)?))
}

/// What applications do to their orders, over these clients.
pub fn operations<B: Bus>(
    (store, bus): (Store, B),
    operator: Operator<Store, B, SystemClock, SystemEntropy>,
    kafka: KafkaConfig,
) -> Arc<dyn Operations> {
    let parts = parts((store, bus), operator, kafka);
    Arc::new(Local::new(parts, OperationsSettings::default()))
}

fn parts<B: Bus>(
    (store, bus): (Store, B),
    operator: Operator<Store, B, SystemClock, SystemEntropy>,
    kafka: KafkaConfig,
) -> Parts<Store, B, SystemClock, SystemEntropy, KafkaTopics> {
    Parts {
        store,
        bus,
        clock: SystemClock,
        entropy: SystemEntropy,
        operator,
        topics: KafkaTopics::of(kafka),
    }
}
