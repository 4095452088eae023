"""A round through kafka-python, which shares no code with librdkafka. Argument: bootstrap address."""

import sys

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import NewTopic

bootstrap = sys.argv[1]
topic = "from-kafka-python"

admin = KafkaAdminClient(bootstrap_servers=bootstrap)
admin.create_topics([NewTopic(name=topic, num_partitions=2, replication_factor=1)])
assert topic in admin.list_topics()

producer = KafkaProducer(bootstrap_servers=bootstrap, acks="all", compression_type="gzip")
sent = []
for i in range(200):
    future = producer.send(topic, key=b"k%d" % i, value=b"v%d" % i, partition=i % 2, headers=[("h", b"\xff")])
    sent.append(future)
producer.send(topic, key=b"tombstone", value=None, partition=0)
producer.flush()
assert [f.get(timeout=10).offset for f in sent[::2]] == list(range(100))


def consume(group, count):
    consumer = KafkaConsumer(
        topic,
        bootstrap_servers=bootstrap,
        group_id=group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        consumer_timeout_ms=20000,
    )
    got = []
    for message in consumer:
        got.append(message)
        if len(got) == count:
            break
    consumer.commit()
    return consumer, got


consumer, got = consume("python-group", 201)
assert len(got) == 201, len(got)
assert got[0].headers == [("h", b"\xff")], got[0].headers
assert sum(1 for m in got if m.value is None) == 1
ends = consumer.end_offsets([TopicPartition(topic, 0), TopicPartition(topic, 1)])
assert ends == {TopicPartition(topic, 0): 101, TopicPartition(topic, 1): 100}, ends
consumer.close()

producer.send(topic, value=b"later", partition=1)
producer.flush()
consumer, got = consume("python-group", 1)
assert [m.value for m in got] == [b"later"], got
consumer.close()
producer.close()
admin.delete_topics([topic])
admin.close()
print("kafka-python: ok")
