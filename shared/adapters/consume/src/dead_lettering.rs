//! Records that cannot be handled are put aside as a dead letter with an alert, so that their partition does not
//! stop.

use std::sync::{Arc, Mutex, PoisonError};

use triad_runtime::dead_letter::replay::UNREADABLE_BATCH;
use triad_runtime::dead_letter::{self, Cause, dead_letter};
use triad_runtime::system::SystemClock;
use triad_runtime::{BusError, Clock, Handled, InputRecord};

use crate::assignment::Partition;
use crate::broker::Broker;
use crate::polled::Unreadable;

/// A unit of work of a loop.
#[derive(Debug)]
pub(crate) enum Item {
    /// A record, for the handler.
    Record(InputRecord),
    /// A dead letter to send, without calling the handler.
    Letter(Box<Letter>),
}

/// A dead letter to be sent about records that cannot be handled.
#[derive(Debug)]
pub(crate) struct Letter {
    pub(crate) record: InputRecord,
    pub(crate) cause: Cause,
    /// The offset after the last record of the letter.
    pub(crate) next: i64,
}

impl Letter {
    /// A letter about one record.
    pub(crate) fn of(record: InputRecord, cause: Cause) -> Self {
        Self {
            cause,
            next: record.offset + 1,
            record,
        }
    }
}

impl Item {
    /// A letter about an unreadable batch: it names the batch's first record.
    pub(crate) fn unreadable(batch: Unreadable) -> Self {
        let Unreadable {
            topic,
            partition,
            first,
            next,
            reason,
        } = batch;
        let last = next - 1;
        let text = format!("the records at offsets {first} to {last} cannot be read: {reason}");
        Self::Letter(Box::new(Letter {
            record: InputRecord {
                topic,
                partition,
                offset: first,
                timestamp_ms: -1,
                ..InputRecord::default()
            },
            cause: Cause::new(UNREADABLE_BATCH, text),
            next,
        }))
    }

    /// The record of the item, or the record that its letter is about.
    pub(crate) fn record(&self) -> &InputRecord {
        match self {
            Self::Record(record) => record,
            Self::Letter(letter) => &letter.record,
        }
    }

    /// Topic and partition.
    pub(crate) fn partition(&self) -> Partition {
        let record = self.record();
        (record.topic.clone(), record.partition)
    }

    /// The offset that may be committed once the item is done.
    pub(crate) fn next(&self) -> i64 {
        match self {
            Self::Record(record) => record.offset + 1,
            Self::Letter(letter) => letter.next,
        }
    }
}

/// Sender of dead letters: it has its own producer, made at first use.
#[derive(Clone)]
pub(crate) struct Aside<B: Broker> {
    broker: B,
    bus: Arc<Mutex<Option<B::Bus>>>,
}

impl<B: Broker> Aside<B> {
    pub(crate) fn new(broker: &B) -> Self {
        Self {
            broker: broker.clone(),
            bus: Arc::default(),
        }
    }

    /// Sends a letter and its alert; done when both are acknowledged.
    pub(crate) async fn put(&self, letter: &Letter) -> Handled {
        match self.send(letter).await {
            Ok(()) => Handled::Done,
            Err(e) => e.into(),
        }
    }

    async fn send(&self, letter: &Letter) -> Result<(), BusError> {
        let Letter { record, cause, .. } = letter;
        let messages = dead_letter(record, cause, SystemClock.now());
        let unsent = dead_letter::send(&self.bus()?, vec![((), messages)]).await;
        unsent.into_iter().try_for_each(|((), why)| Err(why))?;
        tracing::error!(
            topic = record.topic,
            partition = record.partition,
            offset = record.offset,
            next = letter.next,
            cause = cause.message,
            "record put aside as a dead letter"
        );
        Ok(())
    }

    fn bus(&self) -> Result<B::Bus, BusError> {
        let mut bus = self.bus.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(bus) = &*bus {
            return Ok(bus.clone());
        }
        Ok(bus.insert(self.broker.bus()?).clone())
    }
}
