//! The three steps as a DBOS workflow on PostgreSQL, with an HTTP endpoint for orders in the same process.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use clap::Parser;
use common::{Addresses, STEPS, Service, id_of};
use dbos::{Config, DBOS, RunOptions, StartOptions, StepOptions};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// An executor of DBOS, and the way in
#[derive(Parser)]
struct Args {
    #[command(flatten)]
    at: Addresses,
    /// The database
    #[arg(long)]
    database: String,
    /// Connections to the database
    #[arg(long, default_value_t = 16)]
    connections: u32,
}

/// Why a step failed; DBOS stores it.
#[derive(Debug, Serialize, Deserialize)]
struct Failed(String);

impl std::fmt::Display for Failed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Failed {}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> Result<()> {
    let args = Args::parse();
    let service = Service::at(&args.at.service)?;
    let executor = DBOS::new(Config {
        max_connections: args.connections,
        app_version: Some("1".to_owned()),
        executor_id: Some("one".to_owned()),
        ..Config::new("orders", args.database)
    });
    let orders =
        executor.register_workflow("orders", move |order: Value| run(order, service.clone()))?;
    executor.launch().await?;
    let orders = Arc::new(orders);
    common::serve(args.at.listen, move |order: Value, waits| {
        let orders = orders.clone();
        async move {
            let id = id_of(&order)?.to_owned();
            if waits {
                let options = RunOptions {
                    workflow_id: Some(&id),
                    ..RunOptions::default()
                };
                orders.run_with(order, options).await?;
            } else {
                let options = StartOptions {
                    workflow_id: Some(&id),
                    ..StartOptions::default()
                };
                orders.start_with(order, options).await?;
            }
            Ok(())
        }
    })
    .await
}

async fn run(order: Value, service: Service) -> dbos::Result<(), Failed> {
    for step in STEPS {
        let again = StepOptions {
            max_attempts: 10,
            interval: Duration::from_millis(100),
            max_interval: Duration::from_secs(5),
            ..StepOptions::default()
        };
        let call = || async {
            let answer = service.call(step, &order).await;
            answer.map_err(|error| dbos::Error::Application(Failed(format!("{error:#}"))))
        };
        let _: Value = dbos::step_with(step, again, call).await?;
    }
    Ok(())
}
