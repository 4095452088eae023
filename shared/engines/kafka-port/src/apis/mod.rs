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

use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use kafka_protocol::error::ResponseError;
use kafka_protocol::messages::ApiKey;
use tokio::sync::Notify;

use crate::core::{Client, Core};
use crate::group::messages::Ticket;
use crate::wire::frame::{Header, Malformed};

/// A frame that is made later.
pub(crate) type Later = Pin<Box<dyn Future<Output = Vec<u8>>>>;

/// How a request is answered.
pub(crate) enum Reply {
    /// No answer (produce with acks 0).
    Silent,
    /// This frame is the answer.
    Ready(Vec<u8>),
    /// The answer, once the disk has answered.
    Later(Later),
    /// The answer of the group for this ticket.
    Group(Ticket),
    /// The answer of a fetch, once there is something to read or it is told to hurry.
    Fetch(Later, Rc<Notify>),
}

impl Reply {
    pub(crate) fn later(answer: impl Future<Output = Vec<u8>> + 'static) -> Self {
        Self::Later(Box::pin(answer))
    }
}

/// The protocol's error code of a result.
pub(crate) fn code(result: Result<(), ResponseError>) -> i16 {
    result.err().map_or(0, |error| error.code())
}

/// Begins to handle a request.
pub(crate) fn begin(
    core: &mut Core,
    signal: &Arc<Notify>,
    client: &Client,
    header: &Header,
    mut body: Bytes,
) -> Result<Reply, Malformed> {
    let body = &mut body;
    let endpoint = &client.endpoint;
    Ok(match header.api.key {
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
    })
}
