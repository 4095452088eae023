"""A round over TLS with SCRAM. Arguments: confluent or kafka-python, bootstrap address, file of the
CA, mechanism, user, password."""

import sys

client, bootstrap, ca, mechanism, user, password = sys.argv[1:]
topic = f"login-{client}-{mechanism}"
values = [b"v%d" % i for i in range(50)]


def confluent():
    from confluent_kafka import Consumer, Producer

    login = {
        "bootstrap.servers": bootstrap,
        "security.protocol": "sasl_ssl",
        "ssl.ca.location": ca,
        "sasl.mechanisms": mechanism,
        "sasl.username": user,
        "sasl.password": password,
    }
    producer = Producer(login)
    for value in values:
        producer.produce(topic, value=value)
    assert producer.flush(20) == 0
    consumer = Consumer(login | {"group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    got = []
    while len(got) < len(values):
        message = consumer.poll(20)
        assert message is not None and message.error() is None, (len(got), message)
        got.append(message.value())
    consumer.close()
    return got


def kafka_python():
    from kafka import KafkaConsumer, KafkaProducer

    login = {
        "bootstrap_servers": bootstrap,
        "security_protocol": "SASL_SSL",
        "ssl_cafile": ca,
        "sasl_mechanism": mechanism,
        "sasl_plain_username": user,
        "sasl_plain_password": password,
    }
    producer = KafkaProducer(**login)
    for sent in [producer.send(topic, value=value) for value in values]:
        sent.get(timeout=20)
    producer.close()
    consumer = KafkaConsumer(
        topic, group_id=topic, auto_offset_reset="earliest", consumer_timeout_ms=20000, **login
    )
    got = []
    for message in consumer:
        got.append(message.value)
        if len(got) == len(values):
            break
    consumer.close()
    return got


got = {"confluent": confluent, "kafka-python": kafka_python}[client]()
assert got == values, got
