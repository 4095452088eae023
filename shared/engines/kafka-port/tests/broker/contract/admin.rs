//! Creating and describing topics, and their settings.

use rdkafka::admin::{NewPartitions, NewTopic, ResourceSpecifier, TopicReplication};
use rdkafka::consumer::Consumer;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::producer::FutureRecord;

use crate::client::{
    PATIENCE, admin, consumer, create_topic, eventually, fresh, options, producer, run,
};

fn partitions(bootstrap: &str, topic: &str) -> Result<usize, RDKafkaErrorCode> {
    let client = consumer(bootstrap, "nobody", &[]);
    let metadata = client
        .fetch_metadata(Some(topic), PATIENCE)
        .expect("metadata");
    let topic = &metadata.topics()[0];
    match topic.error() {
        None => Ok(topic.partitions().len()),
        Some(error) => Err(error.into()),
    }
}

pub fn topics_are_created_described_and_deleted(bootstrap: &str) {
    let name = fresh("admin");
    let admin = admin(bootstrap);
    let topic =
        NewTopic::new(&name, 3, TopicReplication::Fixed(1)).set("max.message.bytes", "5000");
    let create = || {
        run(admin.create_topics([&topic], &options()))
            .expect("an answer")
            .remove(0)
    };
    create().expect("a topic");
    let (_, error) = create().expect_err("it exists");
    assert_eq!(error, RDKafkaErrorCode::TopicAlreadyExists);
    eventually("it is visible", || {
        partitions(bootstrap, &name).ok().filter(|n| *n == 3)
    });
    let resource = ResourceSpecifier::Topic(&name);
    let described = run(admin.describe_configs([&resource], &options()))
        .expect("an answer")
        .remove(0);
    let described = described.expect("a description");
    let limit = described
        .get("max.message.bytes")
        .and_then(|e| e.value.as_deref());
    assert_eq!(limit, Some("5000"));
    let producer = producer(bootstrap, &[]);
    let long = "x".repeat(6000);
    let record = FutureRecord::<(), _>::to(&name).partition(0).payload(&long);
    let (error, _) = run(producer.send(record, PATIENCE)).expect_err("the topic's own limit");
    assert_eq!(
        error,
        KafkaError::MessageProduction(RDKafkaErrorCode::MessageSizeTooLarge)
    );
    let deleted = run(admin.delete_topics(&[&name], &options()))
        .expect("an answer")
        .remove(0);
    deleted.expect("a deletion");
    let deleted = run(admin.delete_topics(&[&name], &options()))
        .expect("an answer")
        .remove(0);
    let (_, error) = deleted.expect_err("it is gone");
    assert_eq!(error, RDKafkaErrorCode::UnknownTopicOrPartition);
}

pub fn partitions_can_be_added(bootstrap: &str) {
    let name = fresh("more");
    create_topic(bootstrap, &name, 1);
    let admin = admin(bootstrap);
    let set = |n| {
        let more = NewPartitions::new(&name, n);
        run(admin.create_partitions([&more], &options()))
            .expect("an answer")
            .remove(0)
    };
    set(3).expect("more partitions");
    eventually("they are visible", || {
        partitions(bootstrap, &name).ok().filter(|n| *n == 3)
    });
    let (_, error) = set(2).expect_err("fewer partitions");
    assert_eq!(error, RDKafkaErrorCode::InvalidPartitions);
}

pub fn unknown_topics_are_reported(bootstrap: &str) {
    // Asking for a topic's partitions does not create the topic.
    let error = partitions(bootstrap, &fresh("missing")).expect_err("an unknown topic");
    assert_eq!(error, RDKafkaErrorCode::UnknownTopicOrPartition);
    let known = fresh("known");
    create_topic(bootstrap, &known, 1);
    let record = FutureRecord::<(), _>::to(&known).partition(7).payload("x");
    let (error, _) =
        run(producer(bootstrap, &[]).send(record, PATIENCE)).expect_err("no such partition");
    assert_eq!(
        error,
        KafkaError::MessageProduction(RDKafkaErrorCode::UnknownPartition)
    );
}

pub fn bad_topics_are_refused(bootstrap: &str) {
    let admin = admin(bootstrap);
    let name = fresh("bad");
    let refused = |topic: NewTopic<'_>| {
        let result = run(admin.create_topics([&topic], &options()))
            .expect("an answer")
            .remove(0);
        result.expect_err("a refusal").1
    };
    let one = || TopicReplication::Fixed(1);
    assert_eq!(
        refused(NewTopic::new("no/slash", 1, one())),
        RDKafkaErrorCode::InvalidTopic
    );
    assert_eq!(
        refused(NewTopic::new(&name, 1, TopicReplication::Fixed(3))),
        RDKafkaErrorCode::InvalidReplicationFactor
    );
    let unknown = NewTopic::new(&name, 1, one()).set("no.such.setting", "1");
    assert_eq!(refused(unknown), RDKafkaErrorCode::InvalidConfig);
}
