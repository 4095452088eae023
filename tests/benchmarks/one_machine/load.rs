//! The base of every scenario: the embedded engines, all handlers, and generated orders.

use std::path::PathBuf;

use anyhow::Result;
use serde_json::json;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use triad_worker::Function;
use triad_workflow::load;

use super::timers;
use crate::dev::engines::{EngineOptions, Engines, limits};
use crate::dev::follow::{Follower, OrderLine};

const WORKFLOW: (&str, &str) = (
    "three-steps.yaml",
    include_str!("../../../examples/workflows/three-steps.yaml"),
);
/// Details are padded to this many bytes.
const ORDER_BYTES: usize = 500;
/// More calls than any scenario makes.
const SERVICE_KEYS: usize = 16_000_000;
/// Time between the Supervisor's sweeps.
const SWEEP_EVERY: std::time::Duration = std::time::Duration::from_millis(500);

/// The embedded engines with all handlers running over them, ready to be measured.
pub struct Running {
    /// The embedded broker, tables and reference service, and the clients to them.
    pub engines: Engines,
    worker: Option<JoinHandle<Result<()>>>,
    stop: CancellationToken,
    _scratch: Option<tempfile::TempDir>,
}

impl Running {
    /// Starts engines and handlers, and runs 20 orders, so that consumers have joined and
    /// definitions are compiled before anything is measured. `durable`: state is kept in a
    /// temporary directory, otherwise in memory.
    ///
    /// # Errors
    /// If an engine or a handler cannot be started, or one of the 20 orders cannot be submitted.
    pub async fn start(durable: bool) -> Result<Self> {
        let scratch = durable.then(tempfile::tempdir).transpose()?;
        let engines = Engines::start(EngineOptions {
            data: scratch.as_ref().map(|d| PathBuf::from(d.path())),
            partitions: 4,
            service_keys: Some(SERVICE_KEYS),
            workflows: [WORKFLOW, timers::WORKFLOW]
                .into_iter()
                .map(|(name, yaml)| Ok(load::from_yaml(name, yaml, &limits())?.into()))
                .collect::<Result<_>>()?,
            ..EngineOptions::default()
        })
        .await?;
        let stop = CancellationToken::new();
        let worker = tokio::spawn({
            let (wiring, remotes, stop) = (
                engines.wiring.clone(),
                engines.remotes.clone(),
                stop.clone(),
            );
            let functions = [
                Function::Submission,
                Function::Scheduler,
                Function::Agent,
                Function::Supervisor,
            ];
            async move { triad_worker::run(wiring, remotes, &functions, SWEEP_EVERY, stop).await }
        });
        let running = Self {
            engines,
            worker: Some(worker),
            stop,
            _scratch: scratch,
        };
        Follower::open(&running.engines, orders("warm", 20), 4, false)?
            .run()
            .await?;
        Ok(running)
    }

    /// Stops the handlers after they have finished the records they are working on, and waits for
    /// that. The engines keep running. A second call does nothing.
    ///
    /// # Errors
    /// The error with which the handlers ended, if they failed.
    pub async fn stop_handlers(&mut self) -> Result<()> {
        self.stop.cancel();
        if let Some(worker) = self.worker.take() {
            worker.await??;
        }
        Ok(())
    }

    /// Stops the handlers as [`stop_handlers`](Self::stop_handlers) does, then the engines.
    ///
    /// # Errors
    /// The error with which the handlers ended, if they failed; the engines are then only dropped.
    pub async fn stop(mut self) -> Result<()> {
        self.stop_handlers().await?;
        self.engines.shutdown().await;
        Ok(())
    }
}

/// `count` orders with the ids `<prefix>-0` and on, as [`order`] makes them.
pub fn orders(prefix: &str, count: u32) -> Vec<OrderLine> {
    (0..count)
        .map(|n| {
            let (id, value) = order(prefix, n);
            OrderLine::new(id, value)
        })
        .collect()
}

/// Order number `n`: its id, `<prefix>-<n>`, and its JSON, which is filled up to [`ORDER_BYTES`].
pub fn order(prefix: &str, n: u32) -> (String, Vec<u8>) {
    let id = format!("{prefix}-{n}");
    let mut order = json!({
        "order_id": id, "workflow": "three-steps",
        "details": {"sku": n % 97, "quantity": n % 7 + 1, "customer": format!("C{}", n % 1000),
            "amount": f64::from(n % 10_000) / 100.0, "city": "Reims", "note": ""}
    });
    let missing = ORDER_BYTES.saturating_sub(order.to_string().len());
    order["details"]["note"] = "n".repeat(missing).into();
    (id, order.to_string().into_bytes())
}
