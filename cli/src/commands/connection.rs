//! Where a command finds Kafka and DynamoDB: the same options for `triad dev`, LocalStack, AWS.

use clap::Args;
use triad_dynamodb::{DynamoStore, Endpoint, Tables, connect};
use triad_kafka::KafkaConfig;
use triad_runtime::system::SystemClock;
use triad_workflow::Millis;

use crate::output::Usage;

/// Where the tables are.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Connection")]
pub struct StoreArgs {
    /// DynamoDB endpoint, as `triad dev` prints it. Default: AWS
    #[arg(long, value_name = "URL", env = "TRIAD_DYNAMODB_ENDPOINT")]
    pub dynamodb: Option<String>,
    /// What the tables' names begin with
    #[arg(
        long,
        value_name = "TEXT",
        env = "TRIAD_TABLE_PREFIX",
        default_value = ""
    )]
    pub table_prefix: String,
}

impl StoreArgs {
    fn endpoint(&self) -> Result<Endpoint, Usage> {
        match &self.dynamodb {
            None => Ok(Endpoint::Aws),
            Some(url) if url.starts_with("http://") || url.starts_with("https://") => {
                Ok(Endpoint::Url(url.clone()))
            }
            Some(other) => Err(Usage(format!(
                "--dynamodb {other:?} is not a URL: write http://127.0.0.1:PORT, as triad dev prints it"
            ))),
        }
    }

    /// The tables' names.
    pub fn tables(&self) -> Tables {
        Tables::with_prefix(&self.table_prefix)
    }

    /// A client.
    pub async fn client(&self) -> Result<triad_dynamodb::Client, Usage> {
        Ok(connect(self.endpoint()?).await)
    }

    /// The state store.
    pub async fn store(&self) -> Result<DynamoStore<SystemClock>, Usage> {
        let client = connect(self.endpoint()?).await;
        let retention = Millis(30 * 24 * 3_600_000);
        Ok(DynamoStore::new(
            client,
            self.tables(),
            SystemClock,
            retention,
        ))
    }
}

/// Where Kafka is.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Connection")]
pub struct KafkaArgs {
    /// Kafka bootstrap addresses, as `triad dev` prints them
    #[arg(long, value_name = "HOST:PORT", env = "TRIAD_BROKERS")]
    pub brokers: String,
    /// A setting of librdkafka, such as security.protocol=ssl
    #[arg(long = "kafka-setting", value_name = "NAME=VALUE", value_parser = setting)]
    pub settings: Vec<(String, String)>,
}

fn setting(text: &str) -> Result<(String, String), String> {
    text.split_once('=')
        .map(|(n, v)| (n.to_owned(), v.to_owned()))
        .ok_or_else(|| "is not NAME=VALUE".to_owned())
}

impl KafkaArgs {
    /// The client settings.
    pub fn config(&self) -> KafkaConfig {
        KafkaConfig {
            brokers: self.brokers.clone(),
            extra: self.settings.clone(),
        }
    }
}
