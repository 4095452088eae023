"""A round through confluent-kafka, as people write it. Argument: bootstrap address."""

import sys

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

bootstrap = sys.argv[1]
topic = "from-confluent-kafka"

admin = AdminClient({"bootstrap.servers": bootstrap})
for future in admin.create_topics([NewTopic(topic, 2, 1)]).values():
    future.result(20)
assert len(admin.list_topics(topic, timeout=20).topics[topic].partitions) == 2
cluster = admin.describe_cluster().result(20)
assert len(cluster.nodes) == 1, cluster.nodes

producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
failures = []
for i in range(200):
    producer.produce(
        topic, key=f"k{i}", value=f"v{i}", partition=i % 2, headers={"h": b"\xff"},
        on_delivery=lambda error, _: failures.append(error) if error else None,
    )
producer.flush(20)
assert not failures, failures

consumer = Consumer({
    "bootstrap.servers": bootstrap, "group.id": "confluent-group",
    "auto.offset.reset": "earliest", "enable.auto.commit": False,
})
consumer.subscribe([topic])
got = []
while len(got) < 200:
    message = consumer.poll(20)
    assert message is not None, len(got)
    if message.error():
        raise KafkaException(message.error())
    got.append(message)
assert got[0].headers() == [("h", b"\xff")], got[0].headers()
consumer.commit(asynchronous=False)
assert sum(p.offset for p in consumer.committed([TopicPartition(topic, 0), TopicPartition(topic, 1)], 20)) == 200
groups = admin.list_consumer_groups().result(20)
assert "confluent-group" in [g.group_id for g in groups.valid], groups.valid
described = admin.describe_consumer_groups(["confluent-group"])["confluent-group"].result(20)
assert len(described.members) == 1, described.members
ends = admin.list_offsets({TopicPartition(topic, 0): OffsetSpec.latest()})
assert [f.result(20).offset for f in ends.values()] == [100]
consumer.close()
for future in admin.delete_topics([topic]).values():
    future.result(20)
print("confluent-kafka: ok")
