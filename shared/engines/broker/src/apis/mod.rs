//! The handlers of the APIs. A handler neither decodes nor waits: it gets the decoded request and returns an outcome,
//! which the connection turns into an answer in time.

pub(crate) mod configs;
pub(crate) mod fetch;
pub(crate) mod groups;
pub(crate) mod metadata;
pub(crate) mod offsets;
pub(crate) mod produce;
pub(crate) mod topics;
pub(crate) mod versions;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use bytes::Bytes;
use kafka_protocol::error::ResponseError;
use kafka_protocol::messages::ApiKey;

use crate::core::{Client, Core, Signal};
use crate::group::messages::Ticket;
use crate::log::flusher::Lsn;
use crate::wire::frame::{Header, Malformed};

/// How a request is answered.
#[derive(Debug)]
pub(crate) enum Reply {
    /// No answer (produce with acks 0).
    Silent,
    /// This frame is the answer.
    Ready(Vec<u8>),
    /// This frame is the answer, once everything up to the position is durable.
    Durable(Lsn, Vec<u8>),
    /// The answer of the group for this ticket.
    Group(Ticket),
    /// The answer of a fetch, once there is something to read.
    Fetch(Box<fetch::Poll>),
}

/// The protocol's error code of a result.
pub(crate) fn code(result: Result<(), ResponseError>) -> i16 {
    result.err().map_or(0, |error| error.code())
}

/// Begins to handle a request.
pub(crate) fn begin(
    core: &mut Core,
    signal: &Arc<Signal>,
    client: &Client,
    header: &Header,
    mut body: Bytes,
) -> Result<Reply, Malformed> {
    let body = &mut body;
    let endpoint = &client.endpoint;
    let outcome = match header.api.key {
        ApiKey::Produce => produce::produce(core, header, header.decode(body)?),
        ApiKey::Fetch => fetch::begin(core, header, header.decode(body)?),
        ApiKey::ListOffsets => offsets::list(core, header, header.decode(body)?),
        ApiKey::OffsetForLeaderEpoch => {
            offsets::for_leader_epoch(core, header, header.decode(body)?)
        }
        ApiKey::OffsetCommit => offsets::commit(core, header, header.decode(body)?),
        ApiKey::OffsetFetch => offsets::fetch(core, header, header.decode(body)?),
        ApiKey::OffsetDelete => offsets::delete(core, header, header.decode(body)?),
        ApiKey::Metadata => metadata::metadata(core, endpoint, header, header.decode(body)?),
        ApiKey::DescribeCluster => {
            metadata::describe_cluster(core, endpoint, header, &header.decode(body)?)
        }
        ApiKey::FindCoordinator => {
            metadata::find_coordinator(endpoint, header, header.decode(body)?)
        }
        ApiKey::ApiVersions => versions::versions(header),
        ApiKey::InitProducerId => produce::init_producer_id(core, header, &header.decode(body)?),
        ApiKey::CreateTopics => topics::create(core, header, header.decode(body)?),
        ApiKey::DeleteTopics => topics::delete(core, header, header.decode(body)?),
        ApiKey::CreatePartitions => topics::add_partitions(core, header, header.decode(body)?),
        ApiKey::DescribeConfigs => configs::describe(core, header, header.decode(body)?),
        ApiKey::JoinGroup => groups::join(core, signal, client.peer, header, header.decode(body)?),
        ApiKey::SyncGroup => groups::sync(core, signal, header, header.decode(body)?),
        ApiKey::Heartbeat => groups::heartbeat(core, header, &header.decode(body)?),
        ApiKey::LeaveGroup => groups::leave(core, header, header.decode(body)?),
        ApiKey::ListGroups => groups::list(core, header, &header.decode(body)?),
        ApiKey::DescribeGroups => groups::describe(core, header, header.decode(body)?),
        ApiKey::DeleteGroups => groups::delete(core, header, header.decode(body)?),
        key => {
            return Err(Malformed::NotOffered {
                key: key as i16,
                version: header.version,
            });
        }
    };
    if let Reply::Durable(lsn, frame) = outcome {
        if lsn <= core.store.durable_to() && !core.store.failed() {
            return Ok(Reply::Ready(frame));
        }
        core.watch_durable(lsn, signal);
        return Ok(Reply::Durable(lsn, frame));
    }
    Ok(outcome)
}
