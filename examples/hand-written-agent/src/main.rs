//! An agent of one's own: a remote service that is not reached over HTTP.
//!
//! Its configuration is that of `triad-worker`: `TRIAD_BROKERS` and the other `TRIAD_` variables.

mod points;

use std::sync::Arc;

use tokio_util::sync::CancellationToken;
use triad_bootstrap::{Account, Config, Wiring, environment, logging};
use triad_consume::{WorkerConfig, run_stream};
use triad_core::{Priority, topics};
use triad_runtime::agent::Remotes;
use triad_workflow::AgentName;

use points::Points;

/// Requests that are under way at once.
const IN_FLIGHT: usize = 64;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    logging::start(logging::Form::Text, environment("TRIAD_LOG").as_deref());
    let wiring = Wiring::new(Config::read(&environment)?, Account::of_user()).await?;
    let name = AgentName::new("loyalty")?;
    let normal = topics::agent(&name, Priority::Normal);
    let config = WorkerConfig {
        broker: wiring.broker.clone(),
        group: topics::group(&wiring.config.kafka.prefix, &normal),
        high: Some(topics::agent(&name, Priority::High)),
        normal,
        max_records: IN_FLIGHT,
    };
    let agent = Arc::new(wiring.agent(Remotes::new().with(name, Points::default())));

    let stop = CancellationToken::new();
    tokio::spawn({
        let stop = stop.clone();
        async move {
            // Without signals it ends when it is killed, which is as safe.
            if tokio::signal::ctrl_c().await.is_ok() {
                stop.cancel();
            }
        }
    });
    let handle = move |record: Arc<_>| {
        let agent = agent.clone();
        async move { agent.handle_one(&record, None).await }
    };
    run_stream(config, stop, handle).await?;
    Ok(())
}
