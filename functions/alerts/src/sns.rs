//! Publishing to an SNS topic.

use std::collections::HashSet;

use aws_sdk_sns::Client;
use aws_sdk_sns::error::DisplayErrorContext;
use aws_sdk_sns::types::MessageAttributeValue;
use triad_aws::Account;
use triad_runtime::{Handled, InputRecord, Redelivery};

use crate::notice::Notice;

/// One topic.
pub struct Sns {
    client: Client,
    topic: String,
}

impl Sns {
    /// A client, with the limits of [`Account::load`].
    pub async fn connect(topic: String, account: &Account) -> Self {
        Self {
            client: Client::new(&account.load().await),
            topic,
        }
    }

    /// Publishes each record, in its order. After a failure no later one of its partition is
    /// tried: they all come again with it, and would be told twice. `done` is called with the place
    /// of each record that is published, at once: it is not told twice if a later one takes too long.
    pub async fn publish(
        &self,
        records: &[InputRecord],
        done: &(dyn Fn(usize) + Sync),
    ) -> Vec<Handled> {
        let mut stuck = HashSet::new();
        let mut answers = Vec::with_capacity(records.len());
        for (place, record) in records.iter().enumerate() {
            let partition = (&record.topic, record.partition);
            answers.push(if stuck.contains(&partition) {
                Handled::Redeliver(Redelivery::Behind)
            } else {
                match self.publish_one(record).await {
                    Ok(()) => {
                        done(place);
                        Handled::Done
                    }
                    Err(why) => {
                        stuck.insert(partition);
                        Handled::Redeliver(Redelivery::Outside(why))
                    }
                }
            });
        }
        answers
    }

    async fn publish_one(&self, record: &InputRecord) -> Result<(), String> {
        let Some(notice) = Notice::of(record) else {
            return Ok(());
        };
        let mut call = self
            .client
            .publish()
            .topic_arn(&self.topic)
            .subject(notice.subject)
            .message(notice.message);
        for (name, value) in notice.attributes {
            let value = MessageAttributeValue::builder()
                .data_type("String")
                .string_value(value)
                .build()
                .map_err(|e| e.to_string())?;
            call = call.message_attributes(name, value);
        }
        let sent = call.send().await;
        sent.map_err(|e| DisplayErrorContext(e).to_string())?;
        Ok(())
    }
}
