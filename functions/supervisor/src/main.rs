//! The Supervisor function, on a schedule: one sweep, then a turn for the campaigns in the remaining time.

use std::sync::Arc;

use triad_bootstrap::lambda;
use triad_lambda::{RunConfig, RunError};
use triad_runtime::supervisor::Report;
use triad_workflow::Millis;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), RunError> {
    let wiring = lambda::start().await?;
    let supervisor = Arc::new((wiring.supervisor(), wiring.campaigns()));
    let traces = wiring.config.settings.traces.clone();
    triad_lambda::run_cron(RunConfig::default(), move |_event, invocation| {
        let (supervisor, traces) = (supervisor.clone(), traces.clone());
        Box::pin(async move {
            // A sweep that needs all its time reports that; a sweep that is cut off could not.
            let time = || Millis::from(invocation.deadline.remaining() * 4 / 5);
            let (supervisor, campaigns) = &*supervisor;
            let report = supervisor.sweep(time()).await;
            report.log(true);
            campaigns.carry_on(time()).await.log();
            lambda::tell_metrics();
            lambda::flush_spans(&traces, &invocation).await;
            match report.unread {
                0 => Ok::<Report, String>(report),
                // Reported as a failure, so that an alarm rings.
                unread => Err(format!(
                    "{unread} shards of the due index could not be read"
                )),
            }
        })
    })
    .await
}
