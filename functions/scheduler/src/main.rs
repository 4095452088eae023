//! The Scheduler function: takes batches of the topics `scheduler`, `scheduler.high` and `events`.

use std::sync::Arc;

use triad_bootstrap::lambda;
use triad_lambda::RunError;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), RunError> {
    let wiring = lambda::start().await?;
    let scheduler = Arc::new(wiring.scheduler());
    lambda::run_batches(wiring, move |records, _turn| {
        let scheduler = scheduler.clone();
        Box::pin(async move { scheduler.handle(&records).await })
    })
    .await
}
