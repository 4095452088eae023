//! The Submission function: takes batches of the topics `orders` and `orders.high`.

use std::sync::Arc;

use triad_bootstrap::lambda;
use triad_lambda::RunError;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), RunError> {
    let wiring = lambda::start().await?;
    let submission = Arc::new(wiring.submission());
    lambda::run_batches(wiring, move |records, _turn| {
        let submission = submission.clone();
        Box::pin(async move { submission.handle(&records).await })
    })
    .await
}
