//! Connection options for Kafka and the store, the same for `triad dev`, LocalStack and AWS.

mod far;

use std::collections::BTreeSet;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context;
use clap::Args;
use triad_bootstrap::{AuthConfig, ConfigError, Spans, Way, environment};
use triad_core::topics;
use triad_kafka::{KafkaBus, KafkaConfig, KafkaError, Login, no_topic, topics_seen};
use triad_runtime::system::SystemClock;
use triad_sqlite::{OpenError, SqliteStore};

use crate::data;
use crate::origin::{self, origin};
use crate::output::Usage;

pub use crate::store::Store;
use crate::store::tables::Tables;
use crate::store::{Address, Engine};
pub use far::Far;

/// Longest wait for the first answer of the tables. A command that cannot reach them, or the brokers, fails within
/// five seconds.
const ANSWER_WITHIN: Duration = Duration::from_secs(4);
/// Longest wait for the Kafka credentials from Secrets Manager.
const CREDENTIALS_WITHIN: Duration = Duration::from_millis(3_500);
/// Longest wait for the first answer of a broker, and the shortest if the credentials took long. [`REASON_WITHIN`] is
/// added for finding the reason of a failure, and some time for closing the client.
const BROKER_WITHIN: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(3));
/// Longest wait for credentials and broker together, without [`REASON_WITHIN`].
const KAFKA_WITHIN: Duration = Duration::from_secs(4);

/// Whether the tables and the brokers were contacted already. Each gets most of the five seconds for its first
/// answer: a command contacts each of them once, both concurrently ([`both`]).
static ASKED: [AtomicBool; 2] = [const { AtomicBool::new(false) }; 2];

fn asks(which: usize) {
    let asked = ASKED[which].swap(true, Ordering::Relaxed);
    debug_assert!(!asked, "a command waits for a first answer twice");
}

/// Variables of the AWS SDK that say where the tables are: an AWS account, or an emulator.
const SAY_SO: [&str; 3] = [
    "AWS_PROFILE",
    "AWS_ENDPOINT_URL",
    "AWS_ENDPOINT_URL_DYNAMODB",
];

/// Option for the data directory of an installation on one machine.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Connection")]
pub struct DataArgs {
    /// Data directory of a `triad dev` or `triad serve`, in place of addresses. Its store can be read when neither
    /// runs, too
    #[arg(long, value_name = "DIR", env = "TRIAD_DATA")]
    pub data: Option<PathBuf>,
    /// What the names of the installation's tables, topics and consumer groups begin with
    #[arg(
        long,
        value_name = "TEXT",
        env = "TRIAD_PREFIX",
        default_value = "",
        value_parser = topics::prefix
    )]
    pub prefix: String,
    /// URL of a console, such as https://triad.example: the command asks it over HTTP, and needs no store, no broker
    /// and no rights in AWS
    #[arg(long, value_name = "URL", env = "TRIAD_URL")]
    pub url: Option<String>,
    /// Token for --url, with the role read or operate
    #[arg(
        long,
        value_name = "TOKEN",
        env = "TRIAD_TOKEN",
        hide_env_values = true
    )]
    pub token: Option<String>,
}

impl DataArgs {
    /// The console that the options name. An address of a store on the command line takes precedence over a URL in the
    /// environment.
    ///
    /// # Errors
    /// [`Usage`] if the URL is none, or a token is on the command line without one. A token in the environment alone is
    /// ignored.
    pub fn far(&self) -> Result<Option<Far>, Usage> {
        let said = origin::is_on_command_line;
        let is_near = ["data", "dynamodb", "aws", "brokers"].into_iter().any(said);
        match &self.url {
            Some(url) if said("url") || !is_near => Far::at(url, self.token.as_deref()).map(Some),
            None if said("token") => {
                let text = "--token is for a console far away: give --url, too";
                Err(Usage(text.into()))
            }
            _ => Ok(None),
        }
    }
}

/// Options that say where the tables are, and the time spans of the installation.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Connection")]
pub struct StoreArgs {
    /// DynamoDB endpoint, as `triad dev` prints it
    #[arg(long, value_name = "URL", env = "TRIAD_DYNAMODB_ENDPOINT")]
    pub dynamodb: Option<String>,
    #[command(flatten)]
    pub data: DataArgs,
    /// The tables are in AWS, in the account of this session. Implied by --region and by the variables AWS_PROFILE
    /// and AWS_ENDPOINT_URL, if no endpoint is given
    #[arg(long)]
    pub aws: bool,
    /// AWS region of the tables. Default: that of the environment or of the AWS profile
    #[arg(long, value_name = "REGION")]
    pub region: Option<String>,
    /// Number of the account of the tables: a session of another account is refused
    #[arg(long, value_name = "NUMBER", hide_short_help = true)]
    pub account: Option<String>,
    #[command(flatten)]
    spans: SpansArgs,
}

/// Time spans of the installation: an operator's command must use the same values as the functions and workers.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Spans of the installation, as its functions and workers have them")]
struct SpansArgs {
    /// How long finished records are kept. Default: 30days
    #[arg(
        long,
        value_name = "TIME",
        env = "TRIAD_RETENTION",
        hide_short_help = true
    )]
    retention: Option<String>,
    /// How long the details of finished orders are kept. Default: for ever
    #[arg(
        long,
        value_name = "TIME",
        env = "TRIAD_DETAILS_RETENTION",
        hide_short_help = true
    )]
    details_retention: Option<String>,
    /// Largest difference of two clocks
    #[arg(long, value_name = "TIME", env = "TRIAD_SKEW", hide_short_help = true)]
    skew: Option<String>,
    /// How long a request may wait in its agent's topic
    #[arg(
        long,
        value_name = "TIME",
        env = "TRIAD_QUEUE_WITHIN",
        hide_short_help = true
    )]
    queue_within: Option<String>,
    /// How long an order may wait for a Scheduler
    #[arg(
        long,
        value_name = "TIME",
        env = "TRIAD_ANNOUNCE_WITHIN",
        hide_short_help = true
    )]
    announce_within: Option<String>,
}

impl SpansArgs {
    fn lookup(&self, name: &str) -> Option<String> {
        let said = match name {
            "TRIAD_RETENTION" => &self.retention,
            "TRIAD_DETAILS_RETENTION" => &self.details_retention,
            "TRIAD_SKEW" => &self.skew,
            "TRIAD_QUEUE_WITHIN" => &self.queue_within,
            "TRIAD_ANNOUNCE_WITHIN" => &self.announce_within,
            _ => return None,
        };
        // As for an environment variable, an empty text counts as not set.
        said.clone().filter(|text| !text.trim().is_empty())
    }
}

/// Refuses a session of another account.
#[cfg(feature = "aws")]
async fn is_of_account(account: &str, region: Option<String>) -> anyhow::Result<()> {
    let session = triad_bootstrap::Account::of_user().in_region(region);
    let asked = triad_installation::account_number(&session.load().await).await;
    let own = asked.map_err(|why| {
        anyhow::anyhow!("the account of this session is not known: {why}; nothing was done")
    })?;
    match own == account {
        true => Ok(()),
        false => Err(Usage(format!(
            "this session is of the account {own}, and the installation{} of {account}: log in to that one; nothing was done",
            origin("account")
        ))
        .into()),
    }
}

impl StoreArgs {
    /// The time spans of the installation: from the options or their variables, else the defaults.
    ///
    /// # Errors
    /// [`ConfigError`] naming every span that cannot be read or is too long.
    pub fn spans(&self) -> Result<Spans, ConfigError> {
        let read = Spans::read(&|name| self.spans.lookup(name));
        read.map_err(|ConfigError(problems)| {
            ConfigError(problems.iter().map(|why| origin::of_setting(why)).collect())
        })
    }

    /// The address of the tables. AWS is used only if an option or a variable asks for it, so that a command never
    /// changes an account that happens to be logged in.
    fn address(&self) -> Result<Address, Usage> {
        let aws = || {
            let region = self.region.clone();
            Ok(Address::Aws { region })
        };
        let is_said = origin::is_on_command_line;
        if self.aws && is_said("aws") && is_said("dynamodb") {
            let text = "give --dynamodb or --aws, not both";
            return Err(Usage(text.into()));
        }
        match &self.dynamodb {
            _ if self.aws && is_said("aws") => aws(),
            None if self.aws || self.region.is_some() || SAY_SO.iter().any(|v| environment(v).is_some()) => {
                aws()
            }
            None if self.data.url.is_some() => Err(Usage(
                "this command works on the store itself, and not through a console: give --dynamodb URL, --data DIR or --aws in place of --url"
                    .into(),
            )),
            None => Err(Usage(
                "the address of the tables is missing: give --dynamodb URL or --data DIR (as triad dev prints it), --context NAME, --from-terraform DIR, --url URL for a console, or --aws for the AWS account of this session"
                    .into(),
            )),
            Some(url) if url.starts_with("http://") || url.starts_with("https://") => {
                Ok(Address::Url(url.clone()))
            }
            Some(other) => Err(Usage(format!(
                "the DynamoDB endpoint {other:?}{} is not a URL: write --dynamodb http://127.0.0.1:PORT, as triad dev prints it",
                origin("dynamodb")
            ))),
        }
    }

    /// Whether the tables are those of AWS itself, or of an emulator of all of AWS.
    ///
    /// # Errors
    /// [`Usage`] if their address is missing or wrong.
    #[cfg(feature = "aws")]
    pub fn is_of_aws(&self) -> Result<bool, Usage> {
        Ok(matches!(self.address()?, Address::Aws { .. }))
    }

    /// The tables, after their first answer.
    async fn reached(&self) -> anyhow::Result<Tables> {
        let address = self.address()?;
        asks(0);
        #[cfg(feature = "aws")]
        if let (Some(account), Address::Aws { region }) = (&self.account, &address) {
            is_of_account(account, region.clone()).await?;
        }
        Tables::reached(address, &self.data.prefix, ANSWER_WITHIN).await
    }

    /// The tables that the options name, after their first answer.
    ///
    /// # Errors
    /// [`Usage`] if the options name none, or `--dynamodb` is not an `http` or `https` URL; an error that names the
    /// address if there is no answer within [`ANSWER_WITHIN`].
    pub async fn tables(&self) -> anyhow::Result<Tables> {
        if self.data.data.is_some() {
            let text = "a data directory has no tables to be made: triad dev and triad serve make what they need";
            return Err(Usage(text.into()).into());
        }
        self.reached().await
    }

    /// The state store over these tables, or that of a data directory, with the installation's retention.
    ///
    /// # Errors
    /// Those of [`tables`](Self::tables); [`ConfigError`] if a time span cannot be read; [`Usage`] if there is no
    /// such store in the data directory, an error that names its file if it cannot be opened.
    pub async fn store(&self) -> anyhow::Result<Store> {
        let spans = self.spans()?;
        if let Some(dir) = &self.data.data {
            return joined(dir, &spans);
        }
        let tables = self.reached().await?;
        Ok(tables.store(spans.retention, spans.details_retention))
    }
}

impl StoreArgs {
    /// Text that no process runs in the data directory, and the command to start one; `None` if a process runs, or
    /// the command uses no data directory.
    pub fn nobody_runs(&self) -> Option<String> {
        self.data.data.as_deref().and_then(data::nobody_runs)
    }
}

/// Opens the store of a data directory, beside the process that owns it.
fn joined(data: &Path, spans: &Spans) -> anyhow::Result<Store> {
    let shown = data.display();
    let from = origin("data");
    match SqliteStore::join(data, SystemClock, spans.retention) {
        Ok(store) => Ok(Engine::Sqlite(store.keeping_details(spans.details_retention)).into()),
        Err(OpenError::Missing { .. }) if data::has_tables(data) => Err(Usage(format!(
            "the data directory {shown}{from} has the tables of --store dynamodb: they are reached at the address that triad dev prints: give --dynamodb URL"
        ))
        .into()),
        Err(OpenError::Missing { .. }) => Err(Usage(format!(
            "the data directory {shown}{from} has no store: give the one that triad dev prints, or that triad serve runs on"
        ))
        .into()),
        Err(other) => {
            let shown = format!("the store of the data directory {shown}{from}");
            Err(anyhow::Error::new(other).context(shown))
        }
    }
}

/// Kafka options for a command that needs no store.
#[derive(Debug, Clone, Args)]
pub struct KafkaAloneArgs {
    #[command(flatten)]
    kafka: KafkaArgs,
    #[command(flatten)]
    pub data: DataArgs,
}

impl Deref for KafkaAloneArgs {
    type Target = KafkaArgs;

    fn deref(&self) -> &KafkaArgs {
        &self.kafka
    }
}

/// Kafka's address, and the login.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Connection")]
pub struct KafkaArgs {
    /// Kafka bootstrap addresses, separated by commas, as `triad dev` prints them
    #[arg(
        long,
        value_name = "HOST:PORT",
        env = "TRIAD_BROKERS",
        default_value = "",
        hide_default_value = true
    )]
    pub brokers: String,
    /// How to log in, and further settings of the client.
    #[command(flatten)]
    pub login: LoginArgs,
}

/// Options for the Kafka login, and further settings of the client.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Connection")]
pub struct LoginArgs {
    /// A setting of librdkafka, such as socket.timeout.ms=5000; may be given several times
    #[arg(id = "kafka_setting", long = "kafka-setting", value_name = "NAME=VALUE", value_parser = setting, hide_default_value = true)]
    pub settings: Vec<(String, String)>,
    /// How to log in: none, tls, scram, mtls or msk-iam
    #[arg(
        long = "kafka-auth",
        value_name = "WAY",
        env = "TRIAD_KAFKA_AUTH",
        default_value = "none"
    )]
    pub way: Way,
    /// Secret in Secrets Manager with the credentials, for scram and mtls
    #[arg(long = "kafka-secret", value_name = "ARN", env = "TRIAD_KAFKA_SECRET")]
    pub secret: Option<String>,
    /// Secret in Secrets Manager with the certificate of the brokers' private CA
    #[arg(
        long = "kafka-ca-secret",
        value_name = "ARN",
        env = "TRIAD_KAFKA_CA_SECRET"
    )]
    pub ca_secret: Option<String>,
    /// AWS region of the secrets and of MSK. Default: that of the environment or of the AWS profile
    #[arg(long = "kafka-region", value_name = "REGION")]
    pub kafka_region: Option<String>,
}

fn setting(text: &str) -> Result<(String, String), String> {
    text.split_once('=')
        .map(|(n, v)| (n.to_owned(), v.to_owned()))
        .ok_or_else(|| "is not NAME=VALUE".to_owned())
}

impl KafkaArgs {
    /// The settings of a Kafka client, with the credentials from Secrets Manager if the login needs them. Does not
    /// contact a broker.
    ///
    /// # Errors
    /// [`Usage`] if the options do not fit together; a text for people if the credentials cannot be read.
    pub async fn config(&self) -> anyhow::Result<KafkaConfig> {
        let from = origin::source("brokers").filter(|from| from.starts_with(data::WORDS));
        if let (true, Some(from)) = (self.brokers.is_empty(), from) {
            let dir = from.strip_prefix(data::WORDS).unwrap_or_default().trim();
            if let Some(moved) = data::moved_away(Path::new(dir)) {
                return Err(anyhow::anyhow!("{from}: {moved}; nothing was done"));
            }
            let start = data::last_command(Path::new(dir));
            return Err(anyhow::anyhow!(
                "no process runs in {from}, so there is no broker: start {start} with --data and this directory; nothing was done"
            ));
        }
        if self.brokers.is_empty() {
            let text = "--brokers is missing, and TRIAD_BROKERS is not set: give the address of Kafka, as triad dev prints it";
            return Err(Usage(text.into()).into());
        }
        let auth = AuthConfig {
            way: self.login.way,
            secret: self.login.secret.clone(),
            ca_secret: self.login.ca_secret.clone(),
        };
        let problems = auth.problems();
        let problems: Vec<String> = problems.iter().map(|why| origin::of_setting(why)).collect();
        if !problems.is_empty() {
            return Err(Usage(problems.join("\n")).into());
        }
        Ok(KafkaConfig {
            prefix: origin::value("prefix").unwrap_or_default().to_owned(),
            login: self.log_in(&auth).await?,
            extra: self.login.settings.clone(),
            ..KafkaConfig::new(&self.brokers)
        })
    }

    #[cfg(feature = "aws")]
    async fn log_in(&self, auth: &AuthConfig) -> anyhow::Result<Login> {
        let account =
            triad_bootstrap::Account::of_user().in_region(self.login.kafka_region.clone());
        Ok(auth.log_in(&account).await?)
    }

    /// In this build only the login `none` gets here.
    #[cfg(not(feature = "aws"))]
    async fn log_in(&self, _auth: &AuthConfig) -> anyhow::Result<Login> {
        Ok(Login::default())
    }

    /// A producer, after a broker has accepted the login.
    ///
    /// # Errors
    /// If no broker answers within three seconds, or at once if the login is refused; the errors of
    /// [`config`](Self::config). No message was sent then.
    pub async fn bus(&self) -> anyhow::Result<KafkaBus> {
        let config = self.reached().await?;
        Ok(KafkaBus::new(&config)?)
    }

    /// A producer for messages to an existing topic. It is checked because a broker could otherwise create the topic
    /// with any number of partitions.
    ///
    /// # Errors
    /// As [`bus`](Self::bus); [`KafkaError::Refused`] if there is no such topic.
    pub async fn bus_to(&self, topic: &str) -> anyhow::Result<KafkaBus> {
        let (config, topics) = self.discover().await?;
        if !topics.contains(topic) {
            return Err(no_topic(topic, &config.brokers).into());
        }
        Ok(KafkaBus::new(&config)?)
    }

    /// The settings of a Kafka client, after a broker has accepted the login.
    ///
    /// # Errors
    /// As [`bus`](Self::bus).
    pub async fn reached(&self) -> anyhow::Result<KafkaConfig> {
        Ok(self.discover().await?.0)
    }

    /// The settings of a Kafka client, and the topics that a broker lists.
    async fn discover(&self) -> anyhow::Result<(KafkaConfig, BTreeSet<String>)> {
        asks(1);
        let began = Instant::now();
        let config = tokio::time::timeout(CREDENTIALS_WITHIN, self.config()).await;
        let config = config.map_err(|_| {
            let secrets = [&self.login.secret, &self.login.ca_secret];
            let secrets: Vec<&str> = secrets.into_iter().flatten().map(String::as_str).collect();
            anyhow::anyhow!(
                "the secret {} of Secrets Manager was not read within {} s; are you logged in to AWS, is the region right, and does the network let you out? Nothing was done; -v shows more",
                secrets.join(" or "),
                CREDENTIALS_WITHIN.as_secs_f32()
            )
        })??;
        let (least, most) = BROKER_WITHIN;
        let within = KAFKA_WITHIN.saturating_sub(began.elapsed());
        let within = within.clamp(least, most);
        let asked = config.clone();
        // `topics_seen` blocks.
        let look = tokio::task::spawn_blocking(move || topics_seen(&asked, within));
        let looked = look.await.context("nothing was done")?;
        let topics = looked.map_err(|error| self.explain(error))?;
        Ok((config, topics))
    }

    /// Adds to a connection error the origin of the address and the next step.
    fn explain(&self, error: KafkaError) -> anyhow::Error {
        let KafkaError::Unreachable { brokers, reason } = error else {
            return error.into();
        };
        let from = origin("brokers");
        let next = "is Kafka running, and is this the address that triad dev prints or that of your cluster?";
        anyhow::anyhow!(
            "no Kafka broker answers at {brokers}{from}: {reason}; {next} Nothing was done; -v shows more"
        )
    }
}

/// The state store and a producer; both wait for their first answer concurrently.
///
/// # Errors
/// Those of [`StoreArgs::store`], else those of [`KafkaArgs::bus`].
pub async fn connect_store_and_bus(
    store: &StoreArgs,
    kafka: &KafkaArgs,
) -> anyhow::Result<(Store, KafkaBus)> {
    let (store, bus) = tokio::join!(store.store(), kafka.bus());
    Ok((store?, bus?))
}

#[cfg(test)]
mod tests {
    use triad_kafka::REASON_WITHIN;

    use super::*;

    #[test]
    fn who_reaches_nobody_is_told_within_five_seconds() {
        let five = Duration::from_secs(5);
        assert!(ANSWER_WITHIN < five, "the tables");
        let (least, most) = BROKER_WITHIN;
        let credentials_late = CREDENTIALS_WITHIN + least;
        assert!(least < most && most <= KAFKA_WITHIN && credentials_late <= KAFKA_WITHIN);
        assert!(KAFKA_WITHIN + REASON_WITHIN < five, "the brokers");
    }
}
