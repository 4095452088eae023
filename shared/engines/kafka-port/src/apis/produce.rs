//! Produce and InitProducerId.

use kafka_protocol::error::ResponseError;
use kafka_protocol::messages::produce_request::ProduceRequest;
use kafka_protocol::messages::produce_response::{
    PartitionProduceResponse, ProduceResponse, TopicProduceResponse,
};
use kafka_protocol::messages::{InitProducerIdRequest, InitProducerIdResponse, ProducerId};
use triad_sqlite::topics::{Appended, TopicError};

use super::Reply;
use crate::batch;
use crate::core::{Core, error_of};
use crate::wire::frame::Header;

/// Appends each partition's batch. Acknowledgements 1 and all are the same with one replica: they wait for the disk.
/// With 0 there is no answer, not even an error.
pub(crate) fn produce(core: &Core, header: &Header, request: ProduceRequest) -> Reply {
    let acks = request.acks;
    let refused = if !matches!(acks, -1..=1) {
        Some(ResponseError::InvalidRequiredAcks)
    } else if request.transactional_id.is_some() {
        Some(ResponseError::TransactionalIdAuthorizationFailed)
    } else {
        None
    };
    let topics = request.topic_data.into_iter().map(|topic| {
        let begun = topic.partition_data.into_iter().map(|data| {
            let batch = data.records.as_deref().unwrap_or_default();
            let appending = match refused {
                Some(error) => Err(error),
                None => append(core, topic.name.as_str(), data.index, batch),
            };
            (data.index, appending)
        });
        let begun: Vec<_> = begun.collect();
        (topic.name, begun)
    });
    let topics: Vec<_> = topics.collect();
    if acks == 0 {
        return Reply::Silent;
    }
    let header = header.clone();
    Reply::later(async move {
        let mut responses = Vec::with_capacity(topics.len());
        for (name, begun) in topics {
            let mut partitions = Vec::with_capacity(begun.len());
            for (index, appending) in begun {
                let result = match appending {
                    Ok(appending) => appending.await.map_err(|e| error_of(&e)),
                    Err(error) => Err(error),
                };
                partitions.push(partition_response(index, result));
            }
            let response = TopicProduceResponse::default()
                .with_name(name)
                .with_partition_responses(partitions);
            responses.push(response);
        }
        header.encode(&ProduceResponse::default().with_responses(responses))
    })
}

fn partition_response(
    index: i32,
    result: Result<Appended, ResponseError>,
) -> PartitionProduceResponse {
    let response = PartitionProduceResponse::default().with_index(index);
    match result {
        Ok(appended) => response
            .with_base_offset(appended.base)
            .with_log_append_time_ms(-1)
            .with_log_start_offset(appended.start),
        Err(error) => response
            .with_error_code(error.code())
            .with_base_offset(-1)
            .with_log_append_time_ms(-1)
            .with_log_start_offset(-1),
    }
}

/// Begins to append one batch to one partition: appends are executed in the order of these calls.
fn append(
    core: &Core,
    name: &str,
    partition: i32,
    batch: &[u8],
) -> Result<impl Future<Output = Result<Appended, TopicError>> + use<>, ResponseError> {
    let topic = core.topics.get(name);
    let topic = topic.filter(|topic| (0..topic.partitions).contains(&partition));
    let topic = topic.ok_or(ResponseError::UnknownTopicOrPartition)?;
    if core.config.refuses(name) {
        return Err(ResponseError::TopicAuthorizationFailed);
    }
    let produced = batch::read(batch, topic.max_record_bytes)?;
    let (records, sequence) = (produced.records, produced.sequence);
    Ok(core.topics.append(name, partition, records, sequence))
}

/// Gives an idempotent producer its id. Transactions are not supported: a transactional id is refused with the one
/// error that every client takes as final and does not retry.
pub(crate) fn init_producer_id(
    core: &Core,
    header: &Header,
    request: &InitProducerIdRequest,
) -> Reply {
    let fresh = match request.transactional_id {
        Some(_) => Err(ResponseError::TransactionalIdAuthorizationFailed),
        None => Ok(core.topics.new_producer_id()),
    };
    let header = header.clone();
    Reply::later(async move {
        let fresh = match fresh {
            Ok(fresh) => fresh.await.map_err(|e| error_of(&e)),
            Err(error) => Err(error),
        };
        let response = InitProducerIdResponse::default();
        header.encode(&match fresh {
            Ok(id) => response
                .with_producer_id(ProducerId(id))
                .with_producer_epoch(0),
            Err(error) => response
                .with_error_code(error.code())
                .with_producer_id(ProducerId(-1))
                .with_producer_epoch(-1),
        })
    })
}
