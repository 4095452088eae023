//! The lines of an export file.

use std::collections::BTreeMap;
use std::sync::Arc;

use base64::engine::general_purpose::STANDARD;
use base64::{DecodeError, Engine as _};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use triad_core::stored::{self, NotScalar, Scalar, attribute as attr};
use triad_core::{Envelope, OrderId, OutputDigest, Timestamp, WorkflowRef, topics};
use triad_runtime::InputRecord;
use triad_runtime::moving::{
    KeptControl, KeptDetails, KeptOrder, KeptRecord, KeptWorkflow, StoredItem,
};
use triad_workflow::Millis;

/// The first line: what the file is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// Version of the form of the file ([`VERSION`](super::VERSION)).
    pub version: u32,
    /// The kind of store that was exported, for people: `sqlite` or `dynamodb`.
    pub from: String,
    /// When the export was begun, in milliseconds since the Unix epoch.
    pub at_ms: u64,
}

/// How many things of each kind were written to a file, or read from it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MovedCounts {
    /// Versions of workflows.
    pub workflows: u64,
    /// Names of workflows with a present version.
    pub present: u64,
    /// Records of the control store.
    pub control: u64,
    /// Orders, including those of which only the details are kept.
    pub orders: u64,
    /// Orders among them that have not finished.
    pub alive: u64,
    /// Messages with a submitted order that Submission has not handled yet, and events that the Scheduler has not.
    pub submissions: u64,
    /// Messages to the Scheduler (replies and announcements) that it has not handled yet.
    pub replies: u64,
}

impl MovedCounts {
    /// How many lines these things have: one each. A whole file has two more, the first and the last.
    #[must_use]
    pub fn lines(&self) -> u64 {
        self.workflows + self.present + self.control + self.orders + self.submissions + self.replies
    }

    pub(super) fn add(&mut self, line: &ExportLine) {
        match line {
            ExportLine::Workflow { .. } => self.workflows += 1,
            ExportLine::Present { .. } => self.present += 1,
            ExportLine::Control { .. } => self.control += 1,
            ExportLine::Order(order) => {
                self.orders += 1;
                self.alive += u64::from(order.is_alive());
            }
            ExportLine::Message(message) if topics::is_scheduler(&message.topic) => {
                self.replies += 1
            }
            ExportLine::Message(_) => self.submissions += 1,
            ExportLine::Export(_) | ExportLine::End { .. } => {}
        }
    }
}

/// Bytes: as text if they are UTF-8.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
enum Bytes {
    Text(String),
    Other { base64: String },
}

impl Bytes {
    fn of(bytes: &[u8]) -> Self {
        match std::str::from_utf8(bytes) {
            Ok(text) => Self::Text(text.to_owned()),
            Err(_) => Self::Other {
                base64: STANDARD.encode(bytes),
            },
        }
    }

    fn read(&self) -> Result<Vec<u8>, DecodeError> {
        match self {
            Self::Text(text) => Ok(text.clone().into_bytes()),
            Self::Other { base64 } => STANDARD.decode(base64),
        }
    }
}

/// Topics whose messages are moved if no process has handled them: those of orders as they were submitted, those of
/// events, and those of the Scheduler, with the replies of agents. Without its last reply an order may never get its
/// last status.
pub const TOPICS: [&str; 5] = [
    topics::ORDERS_HIGH,
    topics::ORDERS,
    topics::EVENTS,
    topics::SCHEDULER_HIGH,
    topics::SCHEDULER,
];

/// Why a [`Message`] in a file cannot be sent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UnreadableMessage {
    /// The message's topic, given here, is not one of [`TOPICS`].
    #[error("messages of topic {0} are not moved")]
    Topic(String),
    /// The message's key, its value or a header is not base64.
    #[error(transparent)]
    Base64(#[from] DecodeError),
}

/// A message that was sent and that no process has handled: a record of one of [`TOPICS`], with its key,
/// value and headers unchanged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    topic: String,
    key: Option<Bytes>,
    value: Option<Bytes>,
    headers: Vec<(String, Option<Bytes>)>,
}

impl Message {
    /// Copies the message in a record. The topic is not checked here, but by [`envelope`](Self::envelope).
    #[must_use]
    pub fn of(record: &InputRecord) -> Self {
        let bytes = |bytes: &Option<Vec<u8>>| bytes.as_deref().map(Bytes::of);
        let headers = record.headers.iter();
        Self {
            topic: record.topic.clone(),
            key: bytes(&record.key),
            value: bytes(&record.value),
            headers: headers.map(|(n, v)| (n.clone(), bytes(v))).collect(),
        }
    }

    /// The envelope that sends the message again. A message without a value is sent with an empty one.
    ///
    /// # Errors
    /// [`UnreadableMessage`].
    pub fn envelope(&self) -> Result<Envelope, UnreadableMessage> {
        if !TOPICS.contains(&self.topic.as_str()) {
            return Err(UnreadableMessage::Topic(self.topic.clone()));
        }
        let read = |bytes: &Option<Bytes>| bytes.as_ref().map(Bytes::read).transpose();
        let headers = self.headers.iter();
        let headers = headers.map(|(name, value)| Ok((name.clone(), read(value)?)));
        Ok(Envelope {
            topic: self.topic.clone(),
            key: read(&self.key)?,
            value: read(&self.value)?.unwrap_or_default(),
            headers: headers.collect::<Result<_, DecodeError>>()?,
            trace: None,
        })
    }
}

/// An order in a file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct OrderLine {
    id: String,
    /// The record's attributes in the core's stored form.
    record: Option<BTreeMap<String, Value>>,
    /// The outputs that lie beside the record, by their digests.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    outputs: BTreeMap<OutputDigest, Arc<Value>>,
    /// The details as JSON text, so that no number is parsed and printed again.
    details: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    digest: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    details_expire_s: Option<u64>,
}

impl OrderLine {
    fn of(order: &KeptOrder) -> Self {
        let details = order.details.as_ref();
        Self {
            id: order.id.to_string(),
            record: order.record.as_ref().map(attributes),
            outputs: order
                .record
                .iter()
                .flat_map(|record| record.order.outputs_read())
                .map(|(digest, output)| (digest.clone(), Arc::clone(output)))
                .collect(),
            details: details.map(|d| d.json.clone()),
            digest: details.map(|d| d.digest.clone()),
            details_expire_s: details.and_then(|d| d.expires_s),
        }
    }

    fn is_alive(&self) -> bool {
        let record = self.record.as_ref();
        record.is_some_and(|attributes| !attributes.contains_key(attr::FINISHED_AT))
    }

    fn read(self) -> Result<KeptOrder, String> {
        let id = OrderId::new(self.id).map_err(|e| e.to_string())?;
        let mut record = self.record.as_ref().map(record_of).transpose()?;
        if let Some(record) = &mut record {
            let order = Arc::make_mut(&mut record.order);
            order.take_outputs(&self.outputs);
            for digest in order.outputs_beside() {
                let missing = || format!("the output {} of {id} is missing", digest.0);
                let output = self.outputs.get(digest).ok_or_else(missing)?;
                digest.read(&output.to_string())?;
            }
        }
        if record.as_ref().is_some_and(|record| record.order.id != id) {
            return Err(format!("the record is not that of {id}"));
        }
        let digest = self.digest;
        let details = self.details.map(|json| {
            serde_json::from_str::<serde::de::IgnoredAny>(&json)
                .map_err(|e| format!("the details are not JSON: {e}"))?;
            Ok::<_, String>(KeptDetails {
                json,
                digest: digest.ok_or("the details have no digest")?,
                expires_s: self.details_expire_s,
            })
        });
        Ok(KeptOrder {
            id,
            record,
            details: details.transpose()?,
        })
    }
}

fn attributes(record: &KeptRecord) -> BTreeMap<String, Value> {
    let encoded = stored::encode(&record.order, record.token, Millis(0)).into_iter();
    let encoded = encoded.map(|(name, scalar)| {
        let value = match scalar {
            Scalar::Text(text) => text.into(),
            Scalar::Number(number) => number.into(),
            Scalar::Null => Value::Null,
        };
        (name.to_owned(), value)
    });
    let mut attributes: BTreeMap<String, Value> = encoded.collect();
    match record.expires_s {
        Some(at) => attributes.insert(attr::EXPIRES_AT.to_owned(), at.into()),
        None => attributes.remove(attr::EXPIRES_AT),
    };
    attributes
}

fn record_of(attributes: &BTreeMap<String, Value>) -> Result<KeptRecord, String> {
    let number = |name: &str| attributes.get(name).and_then(Value::as_u64);
    let order = stored::decode(|name| match attributes.get(name) {
        None => Ok(None),
        Some(Value::Null) => Ok(Some(Scalar::Null)),
        Some(Value::String(text)) => Ok(Some(Scalar::Text(text.clone()))),
        Some(value) => match value.as_u64() {
            Some(number) => Ok(Some(Scalar::Number(number))),
            None => Err(NotScalar("is neither text nor a whole number".to_owned())),
        },
    });
    Ok(KeptRecord {
        order: Arc::new(order.map_err(|e| e.to_string())?),
        token: number(attr::WRITE_TOKEN).unwrap_or_default(),
        expires_s: number(attr::EXPIRES_AT),
    })
}

/// One line of a file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(super) enum ExportLine {
    /// The first.
    Export(Header),
    Workflow {
        workflow: String,
        published_ms: u64,
        definition: String,
    },
    Present {
        workflow: String,
    },
    Control {
        key: String,
        version: u64,
        value: String,
        token: u64,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        expires_ms: Option<u64>,
    },
    Order(OrderLine),
    Message(Message),
    /// The last.
    End {
        counts: MovedCounts,
        /// SHA-256 of all bytes before this line, in hexadecimal digits.
        sha256: String,
    },
}

impl ExportLine {
    pub(super) fn of(kept: &StoredItem) -> Self {
        match kept {
            StoredItem::Workflow(kept) => Self::Workflow {
                workflow: kept.definition.to_string(),
                published_ms: kept.published_at.0,
                definition: kept.json.clone(),
            },
            StoredItem::Present(definition) => Self::Present {
                workflow: definition.to_string(),
            },
            StoredItem::Control(kept) => Self::Control {
                key: kept.key.clone(),
                version: kept.version,
                value: kept.json.clone(),
                token: kept.token,
                expires_ms: kept.expires.map(|at| at.0),
            },
            StoredItem::Order(order) => Self::Order(OrderLine::of(order)),
        }
    }

    /// The item to put into a store; the line itself if it is none.
    pub(super) fn kept(self) -> Result<Result<StoredItem, Self>, String> {
        let definition = |text: &str| {
            let read = text.parse::<WorkflowRef>();
            read.map_err(|e| e.to_string())
        };
        Ok(Ok(match self {
            Self::Workflow {
                workflow,
                published_ms,
                definition: json,
            } => StoredItem::Workflow(KeptWorkflow {
                definition: definition(&workflow)?,
                json,
                published_at: Timestamp(published_ms),
            }),
            Self::Present { workflow } => StoredItem::Present(definition(&workflow)?),
            Self::Control {
                key,
                version,
                value,
                token,
                expires_ms,
            } => StoredItem::Control(KeptControl {
                key,
                version,
                json: value,
                token,
                expires: expires_ms.map(Timestamp),
            }),
            Self::Order(order) => StoredItem::Order(Box::new(order.read()?)),
            other => return Ok(Err(other)),
        }))
    }
}
