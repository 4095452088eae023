//! The bus of one machine.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use triad_core::Envelope;
use triad_runtime::{Bus, BusError, StoreError};

use super::{NewRecord, TopicError, Topics};
use crate::catalogue::{PartitionId, now_ms};

/// The bus that sends to the topics of this process. Clones are the same bus.
///
/// The messages of one call that go to the same partition lie there in the order of the call. A message with a key has
/// the partition that Kafka's Java clients would give it; the others go to the partitions in turn.
#[derive(Debug, Clone)]
pub struct LocalBus {
    topics: Topics,
    turn: Arc<AtomicUsize>,
}

impl LocalBus {
    /// A bus that sends to these topics.
    #[must_use]
    pub fn new(topics: Topics) -> Self {
        Self {
            topics,
            turn: Arc::default(),
        }
    }

    /// Appends the messages of topics in memory; returns those of tables, by their places in the call.
    fn append_in_memory(
        &self,
        messages: Vec<Envelope>,
        results: &mut [Result<(), BusError>],
    ) -> Vec<(usize, PartitionId, NewRecord)> {
        let now = now_ms();
        let settings = &self.topics.0.settings;
        let mut of_tables = Vec::new();
        let state = &mut *self.topics.state();
        for (place, message) in messages.into_iter().enumerate() {
            let turn = match message.key {
                Some(_) => 0,
                None => self.turn.fetch_add(1, Ordering::Relaxed),
            };
            let partition = state.partition_of(&message, turn).unwrap_or(-1);
            let topic = message.topic.clone();
            let record = NewRecord::of(message, now);
            let taken = state.takes(&topic, partition, std::slice::from_ref(&record), settings);
            results[place] = match taken {
                Ok((id, true)) => {
                    let most = settings.memory_bytes;
                    let appended = state.append_in_memory(id, vec![record], None, most);
                    appended.map(|_| ()).map_err(|e| error_of(&e, &topic))
                }
                Ok((id, false)) => {
                    of_tables.push((place, id, record));
                    Ok(())
                }
                Err(error) => Err(error_of(&error, &topic)),
            };
        }
        of_tables
    }
}

impl Bus for LocalBus {
    async fn publish(&self, messages: Vec<Envelope>) -> Vec<Result<(), BusError>> {
        let mut results = vec![Ok(()); messages.len()];
        let of_tables = self.append_in_memory(messages, &mut results);
        if of_tables.is_empty() {
            return results;
        }
        let places: Vec<usize> = of_tables.iter().map(|(place, ..)| *place).collect();
        let appended = self.topics.0.engine.write_with(move |group| {
            let Some(writer) = group.topics else {
                return Ok(Vec::new());
            };
            let append = |(_, id, record)| writer.append(group.db, id, vec![record], None);
            of_tables.into_iter().map(append).collect()
        });
        match appended.await {
            Ok(appended) => {
                for (place, appended) in places.into_iter().zip(appended) {
                    results[place] = appended.map(|_| ()).map_err(|e| error_of(&e, "a table"));
                }
            }
            Err(error) => {
                for place in places {
                    results[place] = Err(BusError::Transient(error.to_string()));
                }
            }
        }
        results
    }
}

fn error_of(error: &TopicError, topic: &str) -> BusError {
    match error {
        TopicError::TooLarge => BusError::TooLarge(format!(
            "topic {topic}: {error}; its setting max.message.bytes says how large one may be"
        )),
        TopicError::NoTopic => BusError::Permanent(format!(
            "topic {topic}: {error}; `triad init` makes the topics"
        )),
        TopicError::Store(StoreError::Item(why)) => {
            BusError::Permanent(format!("topic {topic}: {why}"))
        }
        _ => BusError::Transient(format!("topic {topic}: {error}")),
    }
}
