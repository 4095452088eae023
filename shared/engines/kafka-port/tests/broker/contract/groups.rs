//! Consumer groups.

use std::collections::BTreeSet;
use std::time::Duration;

use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
use rdkafka::message::Message;
use rdkafka::producer::FutureRecord;
use rdkafka::{Offset, TopicPartitionList};

use crate::client::{
    PATIENCE, admin, consumer, create_topic, eventually, fresh, options, producer, run, take,
};

fn send(bootstrap: &str, topic: &str, partition: i32, values: std::ops::Range<i32>) {
    let producer = producer(bootstrap, &[]);
    run(async {
        for i in values {
            let value = i.to_string();
            let record = FutureRecord::<(), _>::to(topic)
                .partition(partition)
                .payload(&value);
            producer.send(record, PATIENCE).await.expect("a delivery");
        }
    });
}

fn partitions(consumer: &BaseConsumer) -> BTreeSet<i32> {
    let assignment = consumer.assignment().expect("an assignment");
    assignment
        .elements()
        .iter()
        .map(rdkafka::topic_partition_list::TopicPartitionListElem::partition)
        .collect()
}

fn poll(consumer: &BaseConsumer) {
    if let Some(polled) = consumer.poll(Duration::from_millis(10)) {
        polled.expect("a message");
    }
}

pub fn two_consumers_share_and_take_over(bootstrap: &str) {
    let topic = fresh("shared");
    let group = fresh("group");
    create_topic(bootstrap, &topic, 4);
    let first = consumer(bootstrap, &group, &[]);
    first.subscribe(&[&topic]).expect("a subscription");
    eventually("the only member has all", || {
        poll(&first);
        (partitions(&first).len() == 4).then_some(())
    });
    let second = consumer(bootstrap, &group, &[]);
    second.subscribe(&[&topic]).expect("a subscription");
    eventually("two members share", || {
        poll(&first);
        poll(&second);
        let (one, two) = (partitions(&first), partitions(&second));
        let all: BTreeSet<_> = one.union(&two).copied().collect();
        (one.len() == 2 && two.len() == 2 && all.len() == 4).then_some(())
    });
    drop(first);
    eventually("the one that is left has all again", || {
        poll(&second);
        (partitions(&second).len() == 4).then_some(())
    });
}

pub fn a_group_goes_on_where_it_committed(bootstrap: &str) {
    let topic = fresh("committed");
    let group = fresh("group");
    create_topic(bootstrap, &topic, 1);
    send(bootstrap, &topic, 0, 0..10);
    let reader = consumer(bootstrap, &group, &[]);
    reader.subscribe(&[&topic]).expect("a subscription");
    let got = take(&reader, 10);
    let mut position = TopicPartitionList::new();
    position
        .add_partition_offset(&topic, 0, Offset::Offset(got[5].offset() + 1))
        .expect("an offset");
    reader
        .commit(&position, CommitMode::Sync)
        .expect("a commit");
    drop(reader);
    let reader = consumer(bootstrap, &group, &[]);
    reader.subscribe(&[&topic]).expect("a subscription");
    assert_eq!(take(&reader, 1)[0].offset(), 6);
    let known = reader.committed(PATIENCE).expect("an answer");
    assert_eq!(known.elements()[0].offset(), Offset::Offset(6));
}

pub fn groups_are_listed_described_and_deleted(bootstrap: &str) {
    let topic = fresh("listed");
    let group = fresh("group");
    create_topic(bootstrap, &topic, 1);
    send(bootstrap, &topic, 0, 0..1);
    let reader = consumer(bootstrap, &group, &[("client.id", "reader")]);
    reader.subscribe(&[&topic]).expect("a subscription");
    take(&reader, 1);
    reader
        .commit_consumer_state(CommitMode::Sync)
        .expect("a commit");
    let list = |name: Option<&str>| reader.fetch_group_list(name, PATIENCE).expect("a list");
    assert!(list(None).groups().iter().any(|g| g.name() == group));
    let described = list(Some(&group));
    let described = &described.groups()[0];
    assert_eq!(
        (described.state(), described.protocol_type()),
        ("Stable", "consumer")
    );
    assert_eq!(described.members()[0].client_id(), "reader");
    let admin = admin(bootstrap);
    let delete = || {
        run(admin.delete_groups(&[&group], &options()))
            .expect("an answer")
            .remove(0)
    };
    delete().expect_err("a group with members stays");
    reader.unsubscribe();
    drop(reader);
    eventually("the group can be deleted", || delete().ok());
}
