//! The setup function: Terraform invokes it at an apply for what the provider cannot do, and an operator to examine the
//! installation from inside its network.

mod publish;
mod request;

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use triad_aws::{Account, SdkConfig};
use triad_bootstrap::{Config, environment, lambda};
use triad_dynamodb::{Client, DynamoStore, Endpoint, Tables, connect};
use triad_installation::{Parts, allow_console, examine, is_fine, set_pollers};
use triad_kafka::{WantedTopic, make_topics};
use triad_lambda::{RunConfig, RunError};
use triad_runtime::system::SystemClock;

use crate::request::Request;

/// The variable with the parts of the installation.
const PARTS: &str = "TRIAD_SETUP";

/// Time that a try may take. While more is left, a request is tried again: AWS needs some seconds until a new role has its
/// rights, and until a mapping that is being made can be changed.
const TRY: Duration = Duration::from_secs(60);
/// Most tries of one request: one and a half minutes with the pauses between them.
const TRIES: usize = 30;
/// Pause between two tries.
const PAUSE: Duration = Duration::from_secs(3);
/// Parts of the reasons that may pass.
const MAY_PASS: [&str; 7] = [
    // So MSK refuses the login of a role that it does not know yet.
    "Access denied",
    "AccessDenied",
    "AuthorizationFailed",
    "not authorized",
    "ResourceConflict",
    "ResourceInUse",
    "TooManyRequests",
];

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), RunError> {
    let setup = triad_lambda::init(async {
        let account = Account::of_function();
        let config = lambda::configuration(&account).await?;
        let parts = match environment(PARTS) {
            Some(text) => Parts::read(&text).map_err(|e| format!("{PARTS}: {e}"))?,
            None => Parts::default(),
        };
        Ok::<_, String>(Setup {
            aws: account.load().await,
            client: connect(Endpoint::Aws(account)).await,
            tables: Tables::with_prefix(&config.kafka.prefix),
            config,
            parts,
        })
    })
    .await?;
    let setup = Arc::new(setup);
    triad_lambda::run_cron(RunConfig::default(), move |event, invocation| {
        let setup = setup.clone();
        Box::pin(async move {
            let request = Request::read(event)?;
            let has_time = || invocation.deadline.remaining() > TRY;
            setup.answer(&request, has_time).await
        })
    })
    .await
}

struct Setup {
    aws: SdkConfig,
    client: Client,
    tables: Tables,
    config: Config,
    parts: Parts,
}

impl Setup {
    /// Answers a request, and tries it again while it fails for a reason that may pass. The error is the reason of the
    /// last try, for people.
    async fn answer(
        &self,
        request: &Request,
        has_time: impl Fn() -> bool,
    ) -> Result<Value, String> {
        for _ in 1..TRIES {
            let answer = self.run(request).await;
            let may_pass = |why: &String| MAY_PASS.iter().any(|part| why.contains(part));
            if !has_time() || !answer.as_ref().is_err_and(may_pass) {
                return answer;
            }
            tokio::time::sleep(PAUSE).await;
        }
        self.run(request).await
    }

    async fn run(&self, request: &Request) -> Result<Value, String> {
        let kafka = &self.config.kafka;
        match request {
            Request::Topics { topics } => {
                let wanted: Vec<WantedTopic> = topics.iter().cloned().map(Into::into).collect();
                let made = make_topics(kafka, &wanted).await;
                let made = made.map_err(|e| e.to_string())?;
                Ok(json!({"topics": wanted.len(), "made": made}))
            }
            Request::Publish { files, agents } => {
                let (client, tables) = (self.client.clone(), self.tables.clone());
                let store = DynamoStore::new(client, tables, SystemClock, self.config.retention);
                let timing = &self.config.settings.timing;
                let published = publish::all(&store, files, agents, timing).await?;
                Ok(json!({"published": published}))
            }
            Request::Mappings { group, mappings } => {
                let set = set_pollers(&self.aws, group, mappings).await;
                set.map_err(|e| e.to_string())?;
                Ok(json!({"mappings": mappings.len()}))
            }
            Request::Console { function } => {
                let allowed = allow_console(&self.aws, function).await;
                allowed.map_err(|e| e.to_string())?;
                Ok(json!({"function": function}))
            }
            Request::Doctor => {
                let tables = Some((&self.client, &self.tables));
                let findings = examine(Some(kafka), tables, Some(&self.aws), &self.parts).await;
                Ok(json!({"is_fine": is_fine(&findings), "findings": findings}))
            }
        }
    }
}
