//! The broker as a program: for scripts, and for tests that kill it.

use std::collections::BTreeMap;
use std::io::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::{Args as ClapArgs, Parser};
use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::EnvFilter;
use triad_broker::{
    Broker, BrokerConfig, Error, MskTokenForm, SaslConfig, SecuredListener, TokenCheck, TopicsIn,
};
use triad_sqlite::topics::TopicSettings;

/// Number of the signal for a write beyond a limit of file sizes, on Linux and on macOS.
const SIGXFSZ: i32 = 25;

/// A single-node, Kafka-protocol-compatible broker for local runs and tests.
///
/// Prints the bootstrap address as its first line, and that of the secured listener, if there is one, as its second.
/// Stops cleanly on SIGINT and SIGTERM.
#[derive(Debug, Parser)]
#[command(name = "triad-broker", version)]
struct Args {
    /// Address to listen on; port 0 takes a free one.
    #[arg(long, default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// Directory for records, topics and offsets. Without it nothing survives the process.
    #[arg(long)]
    data: Option<PathBuf>,
    /// Do not create topics when clients request the metadata of missing ones.
    #[arg(long)]
    no_auto_create: bool,
    /// Partitions of a topic that is created without a number of partitions.
    #[arg(long, default_value_t = 1)]
    partitions: i32,
    /// Delete a partition's oldest records beyond this many bytes. Default: never.
    #[arg(long)]
    retention_bytes: Option<u64>,
    /// For tests: refuse produce requests to a topic while this directory has a file of its name.
    #[arg(long, value_name = "DIR")]
    refuse_topics: Option<PathBuf>,
    /// Allow addresses that other machines can reach. The plain listener has no authentication.
    #[arg(long)]
    allow_remote: bool,
    #[command(flatten)]
    secured: Secured,
}

/// The secured listener.
#[derive(Debug, ClapArgs)]
struct Secured {
    /// Address to listen on with TLS; port 0 takes a free one.
    #[arg(long, value_name = "LISTEN", requires_all = ["tls_certificate", "tls_key"])]
    secured_listen: Option<SocketAddr>,
    /// File with the broker's certificate and those between it and its root, in PEM.
    #[arg(long, value_name = "FILE", requires = "secured_listen")]
    tls_certificate: Option<PathBuf>,
    /// File with its key, in PEM.
    #[arg(long, value_name = "FILE", requires = "secured_listen")]
    tls_key: Option<PathBuf>,
    /// File with certificates (PEM) that must sign a client's certificate: clients then need one.
    #[arg(long, value_name = "FILE", requires = "secured_listen")]
    client_ca: Option<PathBuf>,
    /// File with lines `user:password`: clients log in by SCRAM-SHA-512 or SCRAM-SHA-256.
    #[arg(long, value_name = "FILE", requires = "secured_listen")]
    users: Option<PathBuf>,
    /// Clients log in by OAUTHBEARER with MSK IAM tokens of this access key id. Their form and their lifetime are
    /// checked; their signature is not.
    #[arg(long, value_name = "ID", requires = "secured_listen")]
    msk_key_id: Option<String>,
}

impl Secured {
    fn listener(self) -> Result<Option<SecuredListener>, Error> {
        let (Some(listen), Some(certificate), Some(key)) =
            (self.secured_listen, self.tls_certificate, self.tls_key)
        else {
            return Ok(None);
        };
        let users = self.users.as_deref().map(users).transpose()?;
        let check = |id| Arc::new(MskTokenForm::new(id)) as Arc<dyn TokenCheck>;
        let sasl = SaslConfig {
            users: users.unwrap_or_default(),
            tokens: self.msk_key_id.map(check),
        };
        let has_sasl = self.users.is_some() || sasl.tokens.is_some();
        Ok(Some(SecuredListener {
            listen,
            certificate: text(&certificate)?,
            key: text(&key)?,
            client_ca: self.client_ca.as_deref().map(text).transpose()?,
            sasl: has_sasl.then_some(sasl),
        }))
    }
}

fn text(path: &Path) -> Result<String, Error> {
    std::fs::read_to_string(path).map_err(|e| Error::Config(format!("{}: {e}", path.display())))
}

/// Reads lines of a user and a password. Errors do not show them.
fn users(path: &Path) -> Result<BTreeMap<String, String>, Error> {
    let mut users = BTreeMap::new();
    for (number, line) in (1..).zip(text(path)?.lines()) {
        if line.is_empty() {
            continue;
        }
        let Some((user, password)) = line.split_once(':') else {
            let path = path.display();
            return Err(Error::Config(format!(
                "{path}: line {number} is not `user:password`"
            )));
        };
        users.insert(user.to_owned(), password.to_owned());
    }
    Ok(users)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("warn"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .init();
    let args = Args::parse();
    let settings = TopicSettings {
        retention_bytes: args.retention_bytes,
        ..TopicSettings::default()
    };
    let broker = Broker::start(BrokerConfig {
        listen: args.listen,
        secured: args.secured.listener()?,
        allow_remote: args.allow_remote,
        topics: match args.data {
            Some(dir) => TopicsIn::Directory(dir, settings),
            None => TopicsIn::Scratch(settings),
        },
        auto_create_topics: !args.no_auto_create,
        default_partitions: args.partitions,
        refuse_topics: args.refuse_topics,
        ..BrokerConfig::default()
    })?;
    let mut stdout = std::io::stdout();
    writeln!(stdout, "{}", broker.addr())?;
    if let Some(secured) = broker.secured_addr() {
        writeln!(stdout, "{secured}")?;
    }
    stdout.flush()?;
    let mut terminate = signal(SignalKind::terminate())?;
    // A write beyond a limit of file sizes fails, as on a full disk, and does not end the process.
    let _file_limit = signal(SignalKind::from_raw(SIGXFSZ))?;
    tokio::select! {
        interrupted = tokio::signal::ctrl_c() => interrupted?,
        _ = terminate.recv() => {}
    }
    broker.shutdown().await
}
