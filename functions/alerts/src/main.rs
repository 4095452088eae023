//! The alerts function: takes batches of the topic `alerts` and publishes each to an SNS topic.

mod sns;
mod sns_message;

use std::sync::Arc;

use triad_bootstrap::{Account, lambda};
use triad_lambda::RunError;

use crate::sns::Sns;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), RunError> {
    let wiring = lambda::start().await?;
    let sns = triad_lambda::init(async {
        let topic = wiring.config.alerts_topic.clone();
        let topic = topic.ok_or("TRIAD_ALERTS_SNS_TOPIC: is missing; give the ARN of a topic")?;
        let console = wiring.config.console_url.clone();
        Ok::<_, &str>(Sns::connect(topic, console, &Account::of_function()).await)
    })
    .await?;
    let sns = Arc::new(sns);
    lambda::run_batches(wiring, move |records, turn| {
        let sns = sns.clone();
        Box::pin(async move { sns.publish(&records, &|index| turn.done(index)).await })
    })
    .await
}
