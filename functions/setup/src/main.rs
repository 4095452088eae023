//! The setup function: Terraform invokes it at an apply for what the provider cannot do, and an operator to examine the
//! installation from inside its network.

mod publish;
mod request;

use std::sync::Arc;

use triad_aws::Account;
use triad_bootstrap::{Store, Wiring, environment, lambda};
use triad_dynamodb::{Endpoint, Tables, connect};
use triad_installation::{Parts, allow_console, examine, is_fine, set_pollers};
use triad_kafka::{WantedTopic, make_topics};
use triad_lambda::{RunConfig, RunError};

use crate::request::Request;

/// The variable with the parts of the installation.
const PARTS: &str = "TRIAD_SETUP";

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), RunError> {
    let wiring = lambda::start().await?;
    let setup = triad_lambda::init(async {
        let parts = match environment(PARTS) {
            Some(text) => Parts::read(&text).map_err(|e| format!("{PARTS}: {e}"))?,
            None => Parts::default(),
        };
        let account = Account::of_function();
        Ok::<_, String>(Setup {
            aws: account.load().await,
            tables: connect(Endpoint::Aws(account)).await,
            wiring,
            parts,
        })
    })
    .await?;
    let setup = Arc::new(setup);
    triad_lambda::run_cron(RunConfig::default(), move |event, _invocation| {
        let setup = setup.clone();
        Box::pin(async move {
            let request = Request::read(event)?;
            setup.run(request).await
        })
    })
    .await
}

struct Setup {
    aws: triad_aws::SdkConfig,
    tables: triad_dynamodb::Client,
    wiring: Wiring<Store>,
    parts: Parts,
}

impl Setup {
    /// Answers one request. The error is the reason, for people.
    async fn run(&self, request: Request) -> Result<serde_json::Value, String> {
        let kafka = &self.wiring.config.kafka;
        match request {
            Request::Topics { topics } => {
                let wanted: Vec<WantedTopic> = topics.into_iter().map(Into::into).collect();
                let made = make_topics(kafka, &wanted).await;
                let made = made.map_err(|e| e.to_string())?;
                Ok(serde_json::json!({"topics": wanted.len(), "made": made}))
            }
            Request::Publish { files, agents } => {
                let timing = &self.wiring.config.settings.timing;
                let published = publish::all(&self.wiring.store, &files, agents, timing).await?;
                Ok(serde_json::json!({"published": published}))
            }
            Request::Mappings { group, mappings } => {
                let set = set_pollers(&self.aws, &group, &mappings).await;
                set.map_err(|e| e.to_string())?;
                Ok(serde_json::json!({"mappings": mappings.len()}))
            }
            Request::Console { function } => {
                let allowed = allow_console(&self.aws, &function).await;
                allowed.map_err(|e| e.to_string())?;
                Ok(serde_json::json!({"function": function}))
            }
            Request::Doctor => {
                let tables = Tables::with_prefix(&kafka.prefix);
                let tables = Some((&self.tables, &tables));
                let findings = examine(
                    Some(kafka),
                    tables,
                    Some(&self.aws),
                    &kafka.prefix,
                    &self.parts,
                )
                .await;
                Ok(serde_json::json!({"is_fine": is_fine(&findings), "findings": findings}))
            }
        }
    }
}
