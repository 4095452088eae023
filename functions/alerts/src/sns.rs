//! Publishing to an SNS topic.

use std::collections::HashSet;

use aws_sdk_sns::Client;
use aws_sdk_sns::error::DisplayErrorContext;
use aws_sdk_sns::types::MessageAttributeValue;
use triad_aws::Account;
use triad_operator::address::ConsoleUrl;
use triad_runtime::{Handled, InputRecord, Redelivery};

use crate::sns_message::Notice;

/// A client that publishes to one SNS topic.
pub struct Sns {
    client: Client,
    topic: String,
    console: Option<ConsoleUrl>,
}

impl Sns {
    /// A client for the topic with this ARN, with the time limits of [`Account::load`]. Nothing is
    /// sent yet. Notices link to the pages at `console`; with `None` they have no link.
    pub async fn connect(topic: String, console: Option<ConsoleUrl>, account: &Account) -> Self {
        Self {
            client: Client::new(&account.load().await),
            topic,
            console,
        }
    }

    /// Publishes the notice of each record, in order; the answer has one entry for each. After a failure no later
    /// record of the same partition is published: they are all redelivered together, and would be published twice.
    /// `done` is called with the index (from 0) of each record as soon as it is published. A record without a notice
    /// (it has no value) counts as published.
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
        let Some(notice) = Notice::of(record, self.console.as_ref()) else {
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
