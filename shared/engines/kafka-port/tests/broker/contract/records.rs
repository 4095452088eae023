//! Producing and fetching.

use std::time::{Duration, Instant};

use futures::future::join_all;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{Header, Headers, Message, OwnedHeaders};
use rdkafka::producer::{FutureProducer, FutureRecord, Producer};
use rdkafka::{Offset, TopicPartitionList};

use crate::client::{PATIENCE, consumer, create_topic, fresh, producer, run, take};

fn assigned(bootstrap: &str, topic: &str, from: Offset, settings: &[(&str, &str)]) -> BaseConsumer {
    let consumer = consumer(bootstrap, &fresh("reader"), settings);
    let mut partitions = TopicPartitionList::new();
    partitions
        .add_partition_offset(topic, 0, from)
        .expect("an offset");
    consumer.assign(&partitions).expect("an assignment");
    consumer
}

fn send_all(producer: &FutureProducer, topic: &str, values: &[String]) {
    run(async {
        let sent = values.iter().map(|v| {
            let record = FutureRecord::<(), _>::to(topic).partition(0).payload(v);
            producer.send(record, PATIENCE)
        });
        for delivered in join_all(sent).await {
            delivered.expect("a delivery");
        }
    });
}

pub fn keys_values_headers_and_nulls_survive(bootstrap: &str) {
    let topic = fresh("records");
    create_topic(bootstrap, &topic, 1);
    let producer = producer(bootstrap, &[]);
    let headers = OwnedHeaders::new()
        .insert(Header {
            key: "text",
            value: Some("value"),
        })
        .insert(Header {
            key: "bytes",
            value: Some(&[0_u8, 255, 128][..]),
        })
        .insert(Header::<&str> {
            key: "null",
            value: None,
        })
        .insert(Header {
            key: "text",
            value: Some("again"),
        });
    run(async {
        let full = FutureRecord::to(&topic)
            .partition(0)
            .key("k")
            .payload("v")
            .headers(headers);
        producer.send(full, PATIENCE).await.expect("a delivery");
        let tombstone = FutureRecord::<_, ()>::to(&topic).partition(0).key("k");
        producer
            .send(tombstone, PATIENCE)
            .await
            .expect("a delivery");
        let bare = FutureRecord::<(), _>::to(&topic).partition(0).payload("");
        producer.send(bare, PATIENCE).await.expect("a delivery");
    });
    let got = take(&assigned(bootstrap, &topic, Offset::Beginning, &[]), 3);
    assert_eq!(
        (got[0].key(), got[0].payload()),
        (Some(&b"k"[..]), Some(&b"v"[..]))
    );
    let headers = got[0].headers().expect("headers");
    let all: Vec<_> = headers.iter().map(|h| (h.key, h.value)).collect();
    assert_eq!(
        all,
        [
            ("text", Some(&b"value"[..])),
            ("bytes", Some(&[0, 255, 128][..])),
            ("null", None),
            ("text", Some(&b"again"[..])),
        ]
    );
    assert_eq!((got[1].key(), got[1].payload()), (Some(&b"k"[..]), None));
    assert_eq!((got[2].key(), got[2].payload()), (None, Some(&b""[..])));
    assert_eq!(
        got.iter().map(Message::offset).collect::<Vec<_>>(),
        [0, 1, 2]
    );
}

pub fn order_is_kept_within_a_partition(bootstrap: &str) {
    let topic = fresh("order");
    create_topic(bootstrap, &topic, 1);
    let values: Vec<_> = (0..5000).map(|i| format!("{i:0100}")).collect();
    send_all(&producer(bootstrap, &[("acks", "1")]), &topic, &values);
    let got = take(
        &assigned(bootstrap, &topic, Offset::Beginning, &[]),
        values.len(),
    );
    for (i, message) in got.iter().enumerate() {
        assert_eq!(message.offset(), i64::try_from(i).expect("small"));
        assert_eq!(message.payload(), Some(values[i].as_bytes()));
    }
}

pub fn an_idempotent_producer_delivers_everything_once(bootstrap: &str) {
    let topic = fresh("idempotent");
    create_topic(bootstrap, &topic, 1);
    let values: Vec<_> = (0..2000).map(|i| i.to_string()).collect();
    let settings = [("enable.idempotence", "true"), ("batch.num.messages", "7")];
    send_all(&producer(bootstrap, &settings), &topic, &values);
    let got = take(
        &assigned(bootstrap, &topic, Offset::Beginning, &[]),
        values.len(),
    );
    let got: Vec<_> = got
        .iter()
        .map(|m| String::from_utf8_lossy(m.payload().expect("a value")))
        .collect();
    assert_eq!(got, values);
}

pub fn compressed_batches_come_back(bootstrap: &str) {
    let topic = fresh("compressed");
    create_topic(bootstrap, &topic, 1);
    let values: Vec<_> = (0..500)
        .map(|i| format!("{i} {}", "again ".repeat(50)))
        .collect();
    // The codecs that every build of librdkafka supports.
    for codec in ["gzip", "snappy", "lz4"] {
        send_all(
            &producer(
                bootstrap,
                &[("compression.type", codec), ("linger.ms", "5")],
            ),
            &topic,
            &values,
        );
    }
    let got = take(
        &assigned(bootstrap, &topic, Offset::Beginning, &[]),
        values.len() * 3,
    );
    for (i, message) in got.iter().enumerate() {
        assert_eq!(message.payload(), Some(values[i % values.len()].as_bytes()));
    }
}

pub fn a_long_poll_wakes_when_a_record_arrives(bootstrap: &str) {
    let topic = fresh("poll");
    create_topic(bootstrap, &topic, 1);
    // If a new record did not end the broker's wait, each fetch would take these 20 seconds.
    let settings = [
        ("fetch.wait.max.ms", "20000"),
        ("socket.timeout.ms", "30000"),
    ];
    let consumer = assigned(bootstrap, &topic, Offset::Beginning, &settings);
    let producer = producer(bootstrap, &[]);
    let begun = Instant::now();
    for i in 0..5 {
        send_all(&producer, &topic, &[i.to_string()]);
        let got = take(&consumer, 1);
        assert_eq!(got[0].offset(), i);
    }
    assert!(
        begun.elapsed() < Duration::from_secs(20),
        "the poll was not woken"
    );
}

pub fn big_messages_pass_and_too_big_ones_are_refused(bootstrap: &str) {
    let topic = fresh("big");
    create_topic(bootstrap, &topic, 1);
    let producer = producer(bootstrap, &[("message.max.bytes", "3000000")]);
    let big = "x".repeat(1_000_000);
    send_all(&producer, &topic, &[big.clone(), big.clone()]);
    let too_big = "x".repeat(2_000_000);
    let record = FutureRecord::<(), _>::to(&topic)
        .partition(0)
        .payload(&too_big);
    let (error, _) = run(producer.send(record, PATIENCE)).expect_err("a refusal");
    assert_eq!(
        error,
        KafkaError::MessageProduction(RDKafkaErrorCode::MessageSizeTooLarge)
    );
    // A consumer whose fetch limit is smaller than one message still gets the message.
    let settings = [("fetch.message.max.bytes", "1000")];
    let got = take(
        &assigned(bootstrap, &topic, Offset::Beginning, &settings),
        2,
    );
    assert_eq!(got[1].payload().map(<[u8]>::len), Some(big.len()));
}

pub fn seeking_by_timestamp_finds_the_first_record_at_or_after_it(bootstrap: &str) {
    let topic = fresh("time");
    create_topic(bootstrap, &topic, 1);
    let producer = producer(bootstrap, &[]);
    run(async {
        for i in 0..10 {
            let at = 1_700_000_000_000 + i * 1000;
            let record = FutureRecord::<(), _>::to(&topic)
                .partition(0)
                .payload("t")
                .timestamp(at);
            producer.send(record, PATIENCE).await.expect("a delivery");
        }
    });
    let consumer = assigned(bootstrap, &topic, Offset::Beginning, &[]);
    let find = |ms: i64| {
        let mut wanted = TopicPartitionList::new();
        wanted
            .add_partition_offset(&topic, 0, Offset::Offset(ms))
            .expect("a time");
        let found = consumer
            .offsets_for_times(wanted, PATIENCE)
            .expect("an answer");
        found.elements()[0].offset()
    };
    assert_eq!(find(1_700_000_000_000), Offset::Offset(0));
    assert_eq!(find(1_700_000_003_001), Offset::Offset(4));
    assert_eq!(find(1_700_000_009_000), Offset::Offset(9));
    assert_eq!(find(1_700_000_009_001), Offset::End);
    assert_eq!(
        consumer
            .fetch_watermarks(&topic, 0, PATIENCE)
            .expect("marks"),
        (0, 10)
    );
}

pub fn an_offset_out_of_range_is_reset(bootstrap: &str) {
    let topic = fresh("range");
    create_topic(bootstrap, &topic, 1);
    send_all(&producer(bootstrap, &[]), &topic, &["a".into(), "b".into()]);
    let got = take(&assigned(bootstrap, &topic, Offset::Offset(1000), &[]), 2);
    assert_eq!(got.iter().map(Message::offset).collect::<Vec<_>>(), [0, 1]);
}

pub fn a_transactional_producer_is_refused_at_once_or_served(bootstrap: &str) {
    let producer = producer(bootstrap, &[("transactional.id", &fresh("tx"))]);
    match producer.init_transactions(PATIENCE) {
        Ok(()) => {}
        Err(KafkaError::Transaction(error)) => assert!(error.is_fatal(), "{error:?}"),
        Err(other) => panic!("{other:?}"),
    }
}
