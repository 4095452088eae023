//! Every API in every offered version: a filled request passes the shape check, is decoded and handled, and the
//! generated client code decodes the answer.
//!
//! This keeps the hand-written shapes and the handlers' fields in step with the schemas.

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use kafka_protocol::messages::create_partitions_request::CreatePartitionsTopic;
use kafka_protocol::messages::create_topics_request::{CreatableTopic, CreatableTopicConfig};
use kafka_protocol::messages::delete_topics_request::DeleteTopicState;
use kafka_protocol::messages::describe_configs_request::DescribeConfigsResource;
use kafka_protocol::messages::fetch_request::{FetchPartition, FetchTopic, ForgottenTopic};
use kafka_protocol::messages::join_group_request::JoinGroupRequestProtocol;
use kafka_protocol::messages::leave_group_request::MemberIdentity;
use kafka_protocol::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
use kafka_protocol::messages::offset_commit_request::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use kafka_protocol::messages::offset_delete_request::{
    OffsetDeleteRequestPartition, OffsetDeleteRequestTopic,
};
use kafka_protocol::messages::offset_fetch_request::{
    OffsetFetchRequestGroup, OffsetFetchRequestTopic, OffsetFetchRequestTopics,
};
use kafka_protocol::messages::offset_for_leader_epoch_request::{
    OffsetForLeaderPartition, OffsetForLeaderTopic,
};
use kafka_protocol::messages::produce_request::{PartitionProduceData, TopicProduceData};
use kafka_protocol::messages::sync_group_request::SyncGroupRequestAssignment;
use kafka_protocol::messages::*;
use kafka_protocol::protocol::{Decodable, Encodable, HeaderVersion, Request, StrBytes};
use tempfile::TempDir;
use tokio::runtime::Runtime;
use tokio::sync::Notify;
use triad_runtime::system::SystemClock;
use triad_sqlite::SqliteStore;
use triad_sqlite::topics::{NewRecord, TopicSettings};
use triad_workflow::Millis;

use super::{Reply, groups};
use crate::batch;
use crate::config::BrokerConfig;
use crate::core::{Client, Core};
use crate::wire::frame::{self, Header};
use crate::wire::shape::{self, APIS};

fn text(s: &'static str) -> StrBytes {
    StrBytes::from_static_str(s)
}

fn topic() -> TopicName {
    TopicName(text("t"))
}

fn client() -> Client {
    Client {
        peer: ([127, 0, 0, 1], 1).into(),
        endpoint: SocketAddr::from(([127, 0, 0, 1], 9092)).into(),
    }
}

fn group() -> GroupId {
    GroupId(text("g"))
}

struct World {
    core: Core,
    signal: Arc<Notify>,
    runtime: Runtime,
    _store: (SqliteStore<SystemClock>, TempDir),
    tried: Vec<(ApiKey, i16)>,
}

impl World {
    /// Sends the request of `make` for each offered version; returns the decoded answers.
    fn every<R: Request>(&mut self, make: impl Fn(i16) -> R) -> Vec<R::Response> {
        let api = shape::api(R::KEY).expect("an offered API");
        (api.min..=api.max)
            .map(|version| self.one(version, &make(version)))
            .collect()
    }

    fn one<R: Request>(&mut self, version: i16, request: &R) -> R::Response {
        let key = ApiKey::try_from(R::KEY).expect("a known key");
        let header = RequestHeader::default()
            .with_request_api_key(R::KEY)
            .with_request_api_version(version)
            .with_correlation_id(9)
            .with_client_id(Some(text("client")));
        let mut bytes = BytesMut::new();
        header
            .encode(&mut bytes, R::header_version(version))
            .expect("a header");
        request
            .encode(&mut bytes, version)
            .unwrap_or_else(|e| panic!("{key:?} {version}: {e}"));
        let parsed = frame::parse(bytes.freeze());
        let Ok(frame::Request::Known(header, body)) = parsed else {
            panic!("{key:?} {version}: {parsed:?}")
        };
        assert_eq!(header.client_id, "client");
        let outcome = super::begin(&mut self.core, &self.signal, &client(), &header, body);
        let answer = self.answer(&header, outcome.expect("an outcome"));
        self.tried.push((key, version));
        let mut answer = Bytes::from(answer);
        let length = answer.get_i32();
        assert_eq!(
            usize::try_from(length),
            Ok(answer.len()),
            "{key:?} {version}"
        );
        let response_header = R::Response::header_version(version);
        let header = ResponseHeader::decode(&mut answer, response_header).expect("a header");
        assert_eq!(header.correlation_id, 9);
        let response = R::Response::decode(&mut answer, version);
        let response = response.unwrap_or_else(|e| panic!("{key:?} {version}: {e}"));
        assert!(answer.is_empty(), "{key:?} {version}: bytes left");
        response
    }

    fn answer(&mut self, header: &Header, outcome: Reply) -> Vec<u8> {
        match outcome {
            Reply::Ready(frame) => frame,
            Reply::Later(answer) => self.runtime.block_on(answer),
            Reply::Fetch(answer, hurry) => {
                hurry.notify_one();
                self.runtime.block_on(answer)
            }
            Reply::Group(ticket) => {
                let answer = self.core.redeem(ticket).expect("an answer from the group");
                groups::answer(header, answer)
            }
            Reply::Silent => panic!("no answer"),
        }
    }
}

fn world() -> World {
    let config = BrokerConfig {
        group_initial_delay: std::time::Duration::ZERO,
        ..BrokerConfig::default()
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .expect("a runtime");
    let scratch = tempfile::tempdir().expect("a directory");
    let store = SqliteStore::scratch(scratch.path(), SystemClock, Millis(0)).expect("a store");
    let topics = runtime.block_on(store.open_topics(TopicSettings::default()));
    let mut world = World {
        core: Core::new(config, topics.expect("topics")),
        signal: Arc::default(),
        runtime,
        _store: (store, scratch),
        tried: Vec::new(),
    };
    let create = CreatableTopic::default()
        .with_name(topic())
        .with_num_partitions(2)
        .with_replication_factor(1);
    let created = world.one(2, &CreateTopicsRequest::default().with_topics(vec![create]));
    assert_eq!(created.topics[0].error_code, 0);
    world
}

fn records(w: &mut World) {
    let record = |offset, value: &[u8]| {
        let record = NewRecord {
            timestamp_ms: 1000 + offset,
            value: Some(value.to_vec()),
            ..NewRecord::default()
        };
        Arc::new(record.at(offset))
    };
    let mut batch = Vec::new();
    batch::write(&mut batch, &[record(0, b"one"), record(1, b"two")]);
    let batch = Bytes::from(batch);
    let answers = w.every(|_| {
        let data = PartitionProduceData::default()
            .with_index(0)
            .with_records(Some(batch.clone()));
        let topic = TopicProduceData::default()
            .with_name(topic())
            .with_partition_data(vec![data]);
        ProduceRequest::default()
            .with_acks(-1)
            .with_topic_data(vec![topic])
    });
    let mut offset = 0;
    for answer in answers {
        let partition = &answer.responses[0].partition_responses[0];
        assert_eq!((partition.error_code, partition.base_offset), (0, offset));
        offset += 2;
    }
    let answers = w.every(|version| {
        let partition = FetchPartition::default()
            .with_partition(0)
            .with_fetch_offset(1)
            .with_partition_max_bytes(1 << 20);
        let wanted = FetchTopic::default()
            .with_topic(topic())
            .with_partitions(vec![partition]);
        let request = FetchRequest::default()
            .with_replica_id(BrokerId(-1))
            .with_max_wait_ms(1000)
            .with_min_bytes(1)
            .with_max_bytes(1 << 20)
            .with_topics(vec![wanted]);
        let forgotten = ForgottenTopic::default()
            .with_topic(topic())
            .with_partitions(vec![1]);
        if version >= 7 {
            request.with_forgotten_topics_data(vec![forgotten])
        } else {
            request
        }
    });
    for answer in answers {
        let partition = &answer.responses[0].partitions[0];
        assert_eq!(
            (partition.error_code, partition.high_watermark),
            (0, offset)
        );
        assert!(partition.records.as_ref().is_some_and(|r| !r.is_empty()));
    }
    let answers = w.every(|_| {
        let at = ListOffsetsPartition::default()
            .with_partition_index(0)
            .with_timestamp(1001);
        let wanted = ListOffsetsTopic::default()
            .with_name(topic())
            .with_partitions(vec![at]);
        ListOffsetsRequest::default()
            .with_replica_id(BrokerId(-1))
            .with_topics(vec![wanted])
    });
    for answer in answers {
        let partition = &answer.topics[0].partitions[0];
        assert_eq!(
            (partition.error_code, partition.offset, partition.timestamp),
            (0, 1, 1001)
        );
    }
    let answers = w.every(|_| {
        let at = OffsetForLeaderPartition::default().with_partition(0);
        let wanted = OffsetForLeaderTopic::default()
            .with_topic(topic())
            .with_partitions(vec![at]);
        OffsetForLeaderEpochRequest::default().with_topics(vec![wanted])
    });
    assert!(
        answers
            .iter()
            .all(|a| a.topics[0].partitions[0].end_offset == offset)
    );
    let answers = w.every(|_| InitProducerIdRequest::default().with_transactional_id(None));
    assert!(answers.iter().all(|a| a.error_code == 0));
}

fn cluster(w: &mut World) {
    let answers = w.every(|_| {
        let wanted = MetadataRequestTopic::default().with_name(Some(topic()));
        MetadataRequest::default().with_topics(Some(vec![wanted]))
    });
    assert!(
        answers
            .iter()
            .all(|a| a.topics[0].partitions.len() == 2 && a.brokers.len() == 1)
    );
    let answers = w.every(|_| DescribeClusterRequest::default());
    assert!(answers.iter().all(|a| a.brokers.len() == 1));
    let answers = w.every(|version| match version {
        4.. => FindCoordinatorRequest::default().with_coordinator_keys(vec![text("g")]),
        _ => FindCoordinatorRequest::default().with_key(text("g")),
    });
    for answer in answers {
        let port = answer.coordinators.first().map_or(answer.port, |c| c.port);
        assert_eq!(port, 9092);
    }
    let answers = w.every(|_| ApiVersionsRequest::default());
    assert!(answers.iter().all(|a| a.api_keys.len() == APIS.len()));
    let answers = w.every(|_| {
        let resource = DescribeConfigsResource::default()
            .with_resource_type(2)
            .with_resource_name(text("t"))
            .with_configuration_keys(Some(vec![text("segment.bytes")]));
        DescribeConfigsRequest::default().with_resources(vec![resource])
    });
    assert!(answers.iter().all(|a| a.results[0].configs.len() == 1));
}

fn topics(w: &mut World) {
    let name = |version: i16| TopicName(StrBytes::from_string(format!("made-{version}")));
    let answers = w.every(|version| {
        let config = CreatableTopicConfig::default()
            .with_name(text("retention.ms"))
            .with_value(Some(text("1000")));
        let create = CreatableTopic::default()
            .with_name(name(version))
            .with_num_partitions(1)
            .with_replication_factor(1)
            .with_configs(vec![config]);
        CreateTopicsRequest::default().with_topics(vec![create])
    });
    assert!(answers.iter().all(|a| a.topics[0].error_code == 0));
    let answers = w.every(|version| {
        let more = CreatePartitionsTopic::default()
            .with_name(name(version + 2))
            .with_count(3)
            .with_assignments(None);
        CreatePartitionsRequest::default().with_topics(vec![more])
    });
    assert!(answers.iter().all(|a| a.results[0].error_code == 0));
    let answers = w.every(|version| {
        let gone = name(version + 1);
        match version {
            6.. => {
                let gone = DeleteTopicState::default().with_name(Some(gone));
                DeleteTopicsRequest::default().with_topics(vec![gone])
            }
            _ => DeleteTopicsRequest::default().with_topic_names(vec![gone]),
        }
    });
    assert!(answers.iter().all(|a| a.responses[0].error_code == 0));
}

fn membership(w: &mut World) {
    const MEMBER_ID_REQUIRED: i16 = 79;
    let join = |member: StrBytes| {
        let protocol = JoinGroupRequestProtocol::default()
            .with_name(text("range"))
            .with_metadata(Bytes::from_static(b"m"));
        JoinGroupRequest::default()
            .with_group_id(group())
            .with_session_timeout_ms(10_000)
            .with_rebalance_timeout_ms(10_000)
            .with_member_id(member)
            .with_protocol_type(text("consumer"))
            .with_protocols(vec![protocol])
    };
    let newest = shape::api(ApiKey::JoinGroup as i16).expect("offered").max;
    let told = w.one(newest, &join(text("")));
    assert_eq!(told.error_code, MEMBER_ID_REQUIRED);
    let me = told.member_id;
    // The only member leads, so each of its joins makes a generation.
    let without_timeout = |version: i16, r: JoinGroupRequest| {
        if version == 0 {
            r.with_rebalance_timeout_ms(-1)
        } else {
            r
        }
    };
    let answers = w.every(|version| without_timeout(version, join(me.clone())));
    assert!(
        answers
            .iter()
            .all(|a| a.error_code == 0 && a.members.len() == 1)
    );
    let generation = answers.last().expect("answers").generation_id;
    let answers = w.every(|version| {
        let share = SyncGroupRequestAssignment::default()
            .with_member_id(me.clone())
            .with_assignment(Bytes::from_static(b"share"));
        let request = SyncGroupRequest::default()
            .with_group_id(group())
            .with_generation_id(generation)
            .with_member_id(me.clone())
            .with_assignments(vec![share]);
        match version {
            5.. => request
                .with_protocol_type(Some(text("consumer")))
                .with_protocol_name(Some(text("range"))),
            _ => request,
        }
    });
    assert!(
        answers
            .iter()
            .all(|a| a.error_code == 0 && a.assignment == "share")
    );
    let answers = w.every(|_| {
        let request = HeartbeatRequest::default().with_group_id(group());
        request
            .with_generation_id(generation)
            .with_member_id(me.clone())
    });
    assert!(answers.iter().all(|a| a.error_code == 0));
    positions(w, &me, generation);
    let answers = w.every(|_| DescribeGroupsRequest::default().with_groups(vec![group()]));
    assert!(answers.iter().all(|a| a.groups[0].members.len() == 1));
    let answers = w.every(|_| ListGroupsRequest::default());
    assert!(answers.iter().all(|a| a.groups.len() == 1));
    let answers = w.every(|version| {
        let request = LeaveGroupRequest::default().with_group_id(group());
        match version {
            3.. => request.with_members(vec![MemberIdentity::default().with_member_id(me.clone())]),
            _ => request.with_member_id(me.clone()),
        }
    });
    // The first request leaves; the later ones are answered that the member has left already.
    assert_eq!(answers[0].error_code, 0);
    assert_eq!(answers[3].members[0].error_code, 25);
    w.one(0, &{
        let partition = OffsetDeleteRequestPartition::default().with_partition_index(0);
        let gone = OffsetDeleteRequestTopic::default()
            .with_name(topic())
            .with_partitions(vec![partition]);
        OffsetDeleteRequest::default()
            .with_group_id(group())
            .with_topics(vec![gone])
    });
    let answers = w.every(|_| DeleteGroupsRequest::default().with_groups_names(vec![group()]));
    assert_eq!(
        (
            answers[0].results[0].error_code,
            answers[1].results[0].error_code
        ),
        (0, 69)
    );
}

fn positions(w: &mut World, me: &StrBytes, generation: i32) {
    let answers = w.every(|_| {
        let at = OffsetCommitRequestPartition::default()
            .with_partition_index(1)
            .with_committed_offset(5)
            .with_committed_metadata(Some(text("note")));
        let wanted = OffsetCommitRequestTopic::default()
            .with_name(topic())
            .with_partitions(vec![at]);
        OffsetCommitRequest::default()
            .with_group_id(group())
            .with_generation_id_or_member_epoch(generation)
            .with_member_id(me.clone())
            .with_topics(vec![wanted])
    });
    assert!(
        answers
            .iter()
            .all(|a| a.topics[0].partitions[0].error_code == 0)
    );
    let answers = w.every(|version| match version {
        8.. => {
            let wanted = OffsetFetchRequestTopics::default()
                .with_name(topic())
                .with_partition_indexes(vec![0, 1]);
            let asked = OffsetFetchRequestGroup::default()
                .with_group_id(group())
                .with_topics(Some(vec![wanted]));
            OffsetFetchRequest::default().with_groups(vec![asked])
        }
        _ => {
            let wanted = OffsetFetchRequestTopic::default()
                .with_name(topic())
                .with_partition_indexes(vec![0, 1]);
            OffsetFetchRequest::default()
                .with_group_id(group())
                .with_topics(Some(vec![wanted]))
        }
    });
    for answer in answers {
        let found = match answer.groups.first() {
            Some(g) => g.topics[0]
                .partitions
                .iter()
                .map(|p| p.committed_offset)
                .collect::<Vec<_>>(),
            None => answer.topics[0]
                .partitions
                .iter()
                .map(|p| p.committed_offset)
                .collect(),
        };
        assert_eq!(found, [-1, 5]);
    }
}

#[test]
fn every_api_answers_in_every_version() {
    let mut w = world();
    records(&mut w);
    cluster(&mut w);
    topics(&mut w);
    membership(&mut w);
    for api in APIS {
        for version in api.min..=api.max {
            assert!(
                w.tried.contains(&(api.key, version)),
                "{:?} {version} was not tried",
                api.key
            );
        }
    }
}

#[test]
fn errors_are_answered_in_every_version_too() {
    let mut w = world();
    let answers = w.every(|_| {
        let data = PartitionProduceData::default()
            .with_index(9)
            .with_records(Some(Bytes::new()));
        let topic = TopicProduceData::default()
            .with_name(topic())
            .with_partition_data(vec![data]);
        ProduceRequest::default()
            .with_acks(1)
            .with_topic_data(vec![topic])
    });
    assert!(
        answers
            .iter()
            .all(|a| a.responses[0].partition_responses[0].error_code == 3)
    );
    let answers = w.every(|_| {
        let at = FetchPartition::default()
            .with_partition(0)
            .with_fetch_offset(77);
        let wanted = FetchTopic::default()
            .with_topic(topic())
            .with_partitions(vec![at]);
        FetchRequest::default()
            .with_replica_id(BrokerId(-1))
            .with_topics(vec![wanted])
    });
    assert!(
        answers
            .iter()
            .all(|a| a.responses[0].partitions[0].error_code == 1)
    );
    let answers = w.every(|_| {
        JoinGroupRequest::default()
            .with_group_id(group())
            .with_session_timeout_ms(1)
    });
    assert!(answers.iter().all(|a| a.error_code == 26));
    let answers = w.every(|_| SyncGroupRequest::default().with_group_id(group()));
    assert!(answers.iter().all(|a| a.error_code == 25));
    let transactional = |_| {
        InitProducerIdRequest::default().with_transactional_id(Some(TransactionalId(text("tx"))))
    };
    assert!(w.every(transactional).iter().all(|a| a.error_code == 53));
}

#[test]
fn acknowledgement_zero_is_silent() {
    let mut w = world();
    let mut body = BytesMut::new();
    ProduceRequest::default()
        .encode(&mut body, 3)
        .expect("a request");
    let mut frame = BytesMut::new();
    frame.put_slice(&[0, 0, 0, 3, 0, 0, 0, 1, 0xff, 0xff]);
    frame.put_slice(&body);
    let Ok(frame::Request::Known(header, body)) = frame::parse(frame.freeze()) else {
        panic!()
    };
    let outcome = super::begin(&mut w.core, &w.signal, &client(), &header, body);
    let outcome = outcome.expect("an outcome");
    assert!(matches!(outcome, Reply::Silent));
}
