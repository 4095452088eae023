//! Produce and InitProducerId.

use kafka_protocol::error::ResponseError;
use kafka_protocol::messages::produce_request::ProduceRequest;
use kafka_protocol::messages::produce_response::{
    PartitionProduceResponse, ProduceResponse, TopicProduceResponse,
};
use kafka_protocol::messages::{InitProducerIdRequest, InitProducerIdResponse, ProducerId};

use super::Reply;
use crate::core::Core;
use crate::log::batch;
use crate::log::flusher::Lsn;
use crate::log::store::{Accepted, AppendVisibility};
use crate::wire::frame::Header;

/// Appends each partition's batch. Acknowledgements 1 and all are the same with one replica: they wait for the disk.
/// With 0 there is no answer, not even an error.
pub(crate) fn produce(core: &mut Core, header: &Header, request: ProduceRequest) -> Reply {
    let acks = request.acks;
    let refused = if !matches!(acks, -1..=1) {
        Some(ResponseError::InvalidRequiredAcks)
    } else if request.transactional_id.is_some() {
        Some(ResponseError::TransactionalIdAuthorizationFailed)
    } else {
        None
    };
    let mut wait_for = 0;
    let mut responses = Vec::with_capacity(request.topic_data.len());
    for topic in request.topic_data {
        let mut partitions = Vec::with_capacity(topic.partition_data.len());
        for data in topic.partition_data {
            let result = match refused {
                Some(error) => Err(error),
                None => {
                    let batch = data.records.as_deref().unwrap_or_default();
                    append(
                        core,
                        topic.name.as_str(),
                        data.index,
                        batch,
                        AppendVisibility::First,
                    )
                }
            };
            partitions.push(partition_response(data.index, result, &mut wait_for));
        }
        let response = TopicProduceResponse::default()
            .with_name(topic.name)
            .with_partition_responses(partitions);
        responses.push(response);
    }
    if acks == 0 {
        return Reply::Silent;
    }
    let response = ProduceResponse::default().with_responses(responses);
    Reply::Durable(wait_for, header.encode(&response))
}

fn partition_response(
    index: i32,
    result: Result<Accepted, ResponseError>,
    wait_for: &mut Lsn,
) -> PartitionProduceResponse {
    let response = PartitionProduceResponse::default().with_index(index);
    match result {
        Ok(accepted) => {
            *wait_for = accepted.lsn.max(*wait_for);
            response
                .with_base_offset(accepted.base_offset)
                .with_log_append_time_ms(-1)
                .with_log_start_offset(accepted.log_start)
        }
        Err(error) => response
            .with_error_code(error.code())
            .with_base_offset(-1)
            .with_log_append_time_ms(-1)
            .with_log_start_offset(-1),
    }
}

/// Appends one batch to one partition.
pub(crate) fn append(
    core: &mut Core,
    name: &str,
    partition: i32,
    records: &[u8],
    kept: AppendVisibility,
) -> Result<Accepted, ResponseError> {
    let topic = core
        .store
        .topics
        .get(name)
        .ok_or(ResponseError::UnknownTopicOrPartition)?;
    if core.config.refuses(name) {
        return Err(ResponseError::TopicAuthorizationFailed);
    }
    let log = topic
        .log(partition)
        .ok_or(ResponseError::UnknownTopicOrPartition)?;
    let header = batch::validate(records, core.store.max_batch_bytes(topic))?;
    let segment = topic.number("segment.bytes");
    let accepted = core.store.append(log, &header, records, segment, kept)?;
    if accepted.lsn == 0 {
        core.log_grew(log);
    }
    Ok(accepted)
}

/// Gives an idempotent producer its id. Transactions are not supported: a transactional id is refused with the one
/// error that every client takes as final and does not retry.
pub(crate) fn init_producer_id(
    core: &mut Core,
    header: &Header,
    request: &InitProducerIdRequest,
) -> Reply {
    let fresh = match request.transactional_id {
        Some(_) => Err(ResponseError::TransactionalIdAuthorizationFailed),
        None => core.store.new_producer_id(),
    };
    let response = InitProducerIdResponse::default();
    match fresh {
        Ok((id, lsn)) => {
            let response = response
                .with_producer_id(ProducerId(id))
                .with_producer_epoch(0);
            Reply::Durable(lsn, header.encode(&response))
        }
        Err(error) => {
            let response = response
                .with_error_code(error.code())
                .with_producer_id(ProducerId(-1))
                .with_producer_epoch(-1);
            Reply::Ready(header.encode(&response))
        }
    }
}
