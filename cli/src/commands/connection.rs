//! Where a command finds Kafka and DynamoDB: the same options for `triad dev`, LocalStack, AWS.

use std::time::Duration;

use anyhow::Context;
use clap::Args;
use triad_bootstrap::{Account, AuthConfig, ConfigError, Spans, Way};
use triad_dynamodb::{DynamoStore, Endpoint, Tables, connect};
use triad_kafka::{KafkaBus, KafkaConfig, wait_for_broker};
use triad_runtime::system::SystemClock;

use crate::output::Usage;

/// Longest wait for a broker's first answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);

/// Options that say where the tables are, and the time spans of the installation.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Connection")]
pub struct StoreArgs {
    /// DynamoDB endpoint, as `triad dev` prints it. Default: AWS
    #[arg(long, value_name = "URL", env = "TRIAD_DYNAMODB_ENDPOINT")]
    pub dynamodb: Option<String>,
    /// What the names of all four tables begin with
    #[arg(
        long,
        value_name = "TEXT",
        env = "TRIAD_TABLE_PREFIX",
        default_value = ""
    )]
    pub table_prefix: String,
    /// AWS region of the tables. Default: that of the environment or of the AWS profile
    #[arg(long, value_name = "REGION")]
    pub region: Option<String>,
    #[command(flatten)]
    spans: SpansArgs,
}

/// Spans of the installation: what an operator writes must agree with what its functions and
/// workers write.
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
        // As an environment variable: an empty one is none.
        said.clone().filter(|text| !text.trim().is_empty())
    }
}

impl StoreArgs {
    /// The time spans of the installation: what the options or their variables say, else the
    /// defaults.
    ///
    /// # Errors
    /// [`ConfigError`] naming every span that cannot be read or is too long.
    pub fn spans(&self) -> Result<Spans, ConfigError> {
        Spans::read(&|name| self.spans.lookup(name))
    }

    fn endpoint(&self) -> Result<Endpoint, Usage> {
        match &self.dynamodb {
            None => Ok(Endpoint::Aws(
                Account::of_user().in_region(self.region.clone()),
            )),
            Some(url) if url.starts_with("http://") || url.starts_with("https://") => {
                Ok(Endpoint::Url(url.clone()))
            }
            Some(other) => Err(Usage(format!(
                "--dynamodb {other:?} is not a URL: write http://127.0.0.1:PORT, as triad dev prints it"
            ))),
        }
    }

    /// The names of the tables, with the prefix of the options.
    pub fn tables(&self) -> Tables {
        Tables::with_prefix(&self.table_prefix)
    }

    /// A DynamoDB client for the place that the options name. Nothing is asked of DynamoDB yet.
    ///
    /// # Errors
    /// [`Usage`] if `--dynamodb` is not an `http` or `https` URL.
    pub async fn client(&self) -> Result<triad_dynamodb::Client, Usage> {
        Ok(connect(self.endpoint()?).await)
    }

    /// The state store over such a client, with the installation's retention. Nothing is read yet.
    ///
    /// # Errors
    /// [`Usage`] if `--dynamodb` is not an `http` or `https` URL; [`ConfigError`] if a time span
    /// cannot be read.
    pub async fn store(&self) -> anyhow::Result<DynamoStore<SystemClock>> {
        let client = connect(self.endpoint()?).await;
        let spans = self.spans()?;
        let store = DynamoStore::new(client, self.tables(), SystemClock, spans.retention);
        Ok(store.keeping_details(spans.details_retention))
    }
}

/// Options that say where Kafka is, and how to log in to it.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Connection")]
pub struct KafkaArgs {
    /// Kafka bootstrap addresses, separated by commas, as `triad dev` prints them
    #[arg(long, value_name = "HOST:PORT", env = "TRIAD_BROKERS")]
    pub brokers: String,
    /// How to log in, and further settings of the client.
    #[command(flatten)]
    pub login: LoginArgs,
}

/// Options that say how to log in to Kafka, and further settings of the client.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Connection")]
pub struct LoginArgs {
    /// A setting of librdkafka, such as socket.timeout.ms=5000; may be given several times
    #[arg(long = "kafka-setting", value_name = "NAME=VALUE", value_parser = setting, hide_default_value = true)]
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
    /// The settings of a Kafka client, with the credentials read from Secrets Manager where the
    /// login needs them. No broker is asked.
    ///
    /// # Errors
    /// [`Usage`] if the options do not fit together; a text for people if the credentials cannot be
    /// read.
    pub async fn config(&self) -> anyhow::Result<KafkaConfig> {
        let auth = AuthConfig {
            way: self.login.way,
            secret: self.login.secret.clone(),
            ca_secret: self.login.ca_secret.clone(),
        };
        let problems = auth.problems();
        if !problems.is_empty() {
            return Err(Usage(problems.join("\n")).into());
        }
        let account = Account::of_user().in_region(self.login.kafka_region.clone());
        Ok(KafkaConfig {
            login: auth.log_in(&account).await.map_err(anyhow::Error::msg)?,
            extra: self.login.settings.clone(),
            ..KafkaConfig::new(&self.brokers)
        })
    }

    /// A producer, made after a broker has let the command in.
    ///
    /// # Errors
    /// [`triad_kafka::KafkaError`] where no broker answers within [`ANSWER_WITHIN`], or at once
    /// where the login is refused; the errors of [`config`](Self::config). Nothing was sent then.
    pub async fn bus(&self) -> anyhow::Result<KafkaBus> {
        let config = self.reached().await?;
        Ok(KafkaBus::new(&config)?)
    }

    /// The settings of a Kafka client, after a broker has let the command in.
    ///
    /// # Errors
    /// As [`bus`](Self::bus).
    pub async fn reached(&self) -> anyhow::Result<KafkaConfig> {
        let config = self.config().await?;
        let asked = config.clone();
        // It blocks.
        let look = tokio::task::spawn_blocking(move || wait_for_broker(&asked, ANSWER_WITHIN));
        look.await?.context("nothing was done")?;
        Ok(config)
    }
}
