//! The Supervisor function: one sweep an invocation, on a schedule.

use std::sync::Arc;

use triad_lambda::{RunConfig, RunError};
use triad_runtime::supervisor::Report;
use triad_setup::lambda;
use triad_workflow::Millis;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), RunError> {
    let wiring = lambda::start().await?;
    let supervisor = Arc::new(wiring.supervisor());
    triad_lambda::run_cron(RunConfig::default(), move |_event, invocation| {
        let supervisor = supervisor.clone();
        Box::pin(async move {
            let time = Millis::from(invocation.deadline.remaining());
            let report = supervisor.sweep(time).await;
            tracing::info!(metric = triad_runtime::metric::SWEEP_DONE, ?report, "sweep");
            Ok::<Report, String>(report)
        })
    })
    .await
}
