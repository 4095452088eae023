//! The bus of the tested handler. The broker refuses the topics that the role may not write, as one with access lists
//! does. This bus records the requested topics and the acknowledged messages.

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use triad_core::Envelope;
use triad_kafka::KafkaBus;
use triad_runtime::{Bus, BusError, InputRecord};

use super::required::to_write;
use super::rights::Rights;

/// A bus over the broker. Clones share its records.
#[derive(Clone)]
pub struct CheckedBus {
    bus: KafkaBus,
    prefix: String,
    rights: Option<Rights>,
    sent: Arc<Mutex<Sent>>,
}

#[derive(Default)]
struct Sent {
    all: Vec<Envelope>,
    taken: usize,
}

/// Makes the broker refuse each topic, by its name in Kafka, that the role may not write. `refused` is the broker's directory for that.
///
/// # Panics
/// If the directory cannot be written.
pub fn refuse(refused: &Path, topics: &[String], rights: &Rights) {
    for topic in topics.iter().filter(|t| !rights.allow(&to_write(t))) {
        std::fs::write(refused.join(topic), "").expect("a file can be written");
    }
}

impl CheckedBus {
    /// A checked bus over another bus of an installation with this prefix. `rights` is `None` if MSK's access control
    /// does not apply to its topics.
    #[must_use]
    pub fn new(bus: KafkaBus, prefix: &str, rights: Option<Rights>) -> Self {
        Self {
            bus,
            prefix: prefix.to_owned(),
            rights,
            sent: Arc::default(),
        }
    }

    /// All acknowledged messages.
    #[must_use]
    pub fn sent(&self) -> Vec<Envelope> {
        self.lock().all.clone()
    }

    /// The messages acknowledged since the previous call, as consumers read them.
    #[must_use]
    pub fn taken(&self) -> Vec<InputRecord> {
        let mut sent = self.lock();
        let new = sent.all[sent.taken..].iter().map(read);
        let new = new.collect();
        sent.taken = sent.all.len();
        new
    }

    fn lock(&self) -> MutexGuard<'_, Sent> {
        self.sent.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn read(message: &Envelope) -> InputRecord {
    InputRecord {
        headers: message.copied_headers(),
        topic: message.topic.clone(),
        timestamp_ms: -1,
        key: message.key.clone(),
        value: Some(message.value.clone()),
        ..InputRecord::default()
    }
}

impl Bus for CheckedBus {
    async fn publish(&self, messages: Vec<Envelope>) -> Vec<Result<(), BusError>> {
        let may = |message: &Envelope| match &self.rights {
            Some(rights) => rights.ask(&to_write(&format!("{}{}", self.prefix, message.topic))),
            None => true,
        };
        let asked: Vec<(Envelope, bool)> = messages.iter().map(|m| (m.clone(), may(m))).collect();
        let answers = self.bus.publish(messages).await;
        for ((message, may), answer) in asked.into_iter().zip(&answers) {
            let topic = message.topic.clone();
            match (may, answer) {
                (true, Ok(())) => self.lock().all.push(message),
                (false, Err(BusError::Permanent(_))) => {}
                (_, answer) => {
                    if let Some(rights) = &self.rights {
                        rights.note_strange(format!("the broker said {answer:?} of {topic}"));
                    }
                }
            }
        }
        answers
    }
}
