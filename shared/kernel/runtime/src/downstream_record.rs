//! The record of a downstream in the control store: reads, writes and alerts of agents and operators.

use triad_core::downstream::{self, Downstream};
use triad_workflow::AgentName;

use crate::alerts;
use crate::control::{ControlStore, ControlWrite};
use crate::ports::{Bus, BusError, Clock, Entropy, StoreError, Written};

/// Reads a downstream's record, consistently, and its version. A downstream without a record has
/// the default one (breaker closed, nothing paused) and the version `None`.
///
/// # Errors
/// [`StoreError`] if the control store cannot be read; it is [`StoreError::Item`] if the record cannot be
/// read as one of a downstream.
pub async fn read_downstream<S: ControlStore>(
    control: &S,
    agent: &AgentName,
) -> Result<(Downstream, Option<u64>), StoreError> {
    let Some(found) = control.read(downstream::key(agent), true).await? else {
        return Ok((Downstream::default(), None));
    };
    let record = serde_json::from_value(found.value)
        .map_err(|e| StoreError::Item(format!("the record of downstream {agent}: {e}")))?;
    Ok((record, Some(found.version)))
}

/// The ports for writing the record and sending the message of its change.
#[derive(Debug)]
pub(crate) struct RecordPorts<'a, S, B, E> {
    pub(crate) control: &'a S,
    pub(crate) bus: &'a B,
    pub(crate) entropy: &'a E,
}

impl<S, B, E> Clone for RecordPorts<'_, S, B, E> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<S, B, E> Copy for RecordPorts<'_, S, B, E> {}

/// Writes the record, if the stored one still has the version `expected`; `None`: if there is none.
///
/// # Errors
/// [`StoreError`] if it cannot be written.
pub(crate) async fn write<S: ControlStore, B, E: Entropy>(
    ports: RecordPorts<'_, S, B, E>,
    agent: &AgentName,
    record: &Downstream,
    expected: Option<u64>,
) -> Result<Written, StoreError> {
    let value = serde_json::to_value(record).map_err(|e| StoreError::Item(e.to_string()))?;
    let write = ControlWrite {
        key: downstream::key(agent),
        value,
        expected,
        expires: None,
        token: ports.entropy.next_u64(),
    };
    ports.control.write(write).await
}

/// Why the message of a change was not sent yet. An agent sends it later.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Untold {
    /// The bus has not acknowledged the message in time.
    #[error(transparent)]
    Late(#[from] alerts::Late),
    /// The bus has not taken the message.
    #[error(transparent)]
    Bus(#[from] BusError),
}

/// Sends the message of the last change to operators, for a record that is stored with this version, then records
/// that it was sent. Returns the record as it is then, and its version; `None` if that was not written, which is
/// harmless, because the message is then sent once more with the same id.
///
/// # Errors
/// [`Untold`] if the message was not acknowledged.
pub(crate) async fn publish_change<S: ControlStore, B: Bus, C: Clock, E: Entropy>(
    ports: RecordPorts<'_, S, B, E>,
    clock: &C,
    agent: &AgentName,
    record: &Downstream,
    version: u64,
) -> Result<Option<(Downstream, u64)>, Untold> {
    // An alert only: nothing waits for it longer than that.
    let sent = alerts::publish(ports.bus, clock, vec![record.event(agent)]).await?;
    for result in sent {
        result?;
    }
    let told = record.told();
    let written = write(ports, agent, &told, Some(version)).await;
    if let Err(error) = &written {
        tracing::warn!(%agent, %error, "an alert was sent and not recorded as sent: it is sent once more");
    }
    Ok(written
        .is_ok_and(Written::is_written)
        .then_some((told, version + 1)))
}
