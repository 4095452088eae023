//! The broker of a command that may have none.

use triad_bootstrap::KafkaTopics;
use triad_core::Envelope;
use triad_kafka::KafkaBus;
use triad_operator::topic::{Extent, LogTopic, TopicReader, TopicRecords};
use triad_runtime::{Bus, BusError, InputRecord};

/// What is missing.
const NONE: &str = "no Kafka broker was named: give --brokers, or set TRIAD_BROKERS";

/// A client of the broker, if the command has one.
#[derive(Debug, Clone)]
pub(super) struct Maybe<T>(pub(super) Option<T>);

impl Bus for Maybe<KafkaBus> {
    async fn publish(&self, messages: Vec<Envelope>) -> Vec<Result<(), BusError>> {
        match &self.0 {
            Some(bus) => bus.publish(messages).await,
            None => vec![Err(BusError::Permanent(NONE.to_owned())); messages.len()],
        }
    }
}

impl TopicReader for Maybe<KafkaTopics> {
    type Error = String;
    type Records = Maybe<<KafkaTopics as TopicReader>::Records>;

    async fn open(&self, topic: LogTopic, extent: Extent) -> Result<Self::Records, String> {
        let topics = self.0.as_ref().ok_or_else(|| NONE.to_owned())?;
        let opened = topics.open(topic, extent).await;
        Ok(Maybe(Some(opened.map_err(|e| e.to_string())?)))
    }
}

impl<R: TopicRecords<Error: std::fmt::Display>> TopicRecords for Maybe<R> {
    type Error = String;

    async fn next(&mut self) -> Result<Option<InputRecord>, String> {
        match &mut self.0 {
            Some(records) => records.next().await.map_err(|e| e.to_string()),
            None => Ok(None),
        }
    }
}
