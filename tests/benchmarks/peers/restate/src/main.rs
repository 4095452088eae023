//! The three steps as a Restate workflow: each order is a run, and each step a journaled `ctx.run`.

use std::time::Duration;

use anyhow::Result;
use clap::Parser;
use common::{Addresses, STEPS, Service};
use restate_sdk::prelude::*;
use serde_json::Value;
use tokio::net::TcpListener;

/// The endpoint that a Restate server calls
#[derive(Parser)]
struct Args {
    #[command(flatten)]
    at: Addresses,
}

struct Orders(Service);

#[restate_sdk::workflow]
impl Orders {
    #[handler]
    async fn run(
        &self,
        ctx: WorkflowContext<'_>,
        Json(order): Json<Value>,
    ) -> Result<Json<Vec<Value>>, HandlerError> {
        let again = RunRetryPolicy::new()
            .initial_delay(Duration::from_millis(100))
            .exponentiation_factor(2.0)
            .max_delay(Duration::from_secs(5));
        let mut done = Vec::with_capacity(STEPS.len());
        for step in STEPS {
            let (service, order) = (self.0.clone(), order.clone());
            let called = ctx
                .run(|| async move {
                    let answer = service.call(step, &order).await;
                    Ok(Json(answer.map_err(std::io::Error::other)?))
                })
                .name(step)
                .retry_policy(again.clone())
                .await?;
            done.push(called.into_inner());
        }
        Ok(Json(done))
    }
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> Result<()> {
    let args = Args::parse();
    let listener = TcpListener::bind(args.at.listen).await?;
    // The SDK leaves Nagle's algorithm on, which costs some 40 ms for each exchange. Accepted sockets inherit this
    // option.
    socket2::SockRef::from(&listener).set_tcp_nodelay(true)?;
    let orders = Orders(Service::at(&args.at.service)?);
    let endpoint = Endpoint::builder().bind(orders).build();
    HttpServer::new(endpoint).serve(listener).await;
    Ok(())
}
