"""Uses Triad through other clients: Kafka with confluent-kafka or kafka-python, the tables with boto3.

usage: clients.py CLIENT BROKERS DYNAMODB_URL

Submits bare JSON orders (one of them refused), waits for their statuses and for the alert, reads
the process records, and prints the results as one line of JSON.
"""

import json
import sys
import time

WAIT_S = 120
# One order is sent with each codec.
CODECS = ["zstd", "lz4", "snappy", "gzip", None]
FINAL = {"completed", "compensated", "failed"}


def orders(client):
    details = {
        "customerID": "ÅSA",
        "freight": 12.5,
        "shipVia": 1,
        "shipName": "Åsas Café",
        "shipAddress": {"street": "1", "city": "Malmö", "country": "Sweden"},
        "details": [{"productID": 11, "unitPrice": 14, "quantity": 2}],
    }
    good = [
        {"order_id": f"{client}-{n}", "workflow": "order-fulfilment", "details": details}
        for n in range(len(CODECS))
    ]
    return good, {"order_id": f"{client}-refused", "workflow": "no-such-workflow"}


class Confluent:
    def __init__(self, brokers):
        import confluent_kafka

        self.kafka = confluent_kafka
        self.brokers = {"bootstrap.servers": brokers}

    def produce(self, values):
        for n, (key, value) in enumerate(values):
            codec = {"compression.codec": CODECS[n % len(CODECS)] or "none"}
            producer = self.kafka.Producer(self.brokers | codec)
            producer.produce("orders", key=key, value=value)
            left = producer.flush(WAIT_S)
            assert left == 0, f"{left} records were not taken"

    def consume(self, topics):
        consumer = self.kafka.Consumer(
            self.brokers | {"group.id": "clients-confluent", "auto.offset.reset": "earliest"}
        )
        consumer.subscribe(topics)
        ends = time.monotonic() + WAIT_S
        try:
            while time.monotonic() < ends:
                record = consumer.poll(0.5)
                if record is not None and record.error() is None:
                    yield record.topic(), record.key(), record.value()
        finally:
            consumer.close()


class KafkaPython:
    def __init__(self, brokers):
        import kafka

        self.kafka = kafka
        self.brokers = brokers

    def produce(self, values):
        for n, (key, value) in enumerate(values):
            producer = self.kafka.KafkaProducer(
                bootstrap_servers=self.brokers, compression_type=CODECS[n % len(CODECS)]
            )
            producer.send("orders", key=key, value=value).get(timeout=WAIT_S)
            producer.close()

    def consume(self, topics):
        consumer = self.kafka.KafkaConsumer(
            *topics,
            bootstrap_servers=self.brokers,
            group_id="clients-kafka-python",
            auto_offset_reset="earliest",
        )
        ends = time.monotonic() + WAIT_S
        try:
            while time.monotonic() < ends:
                for records in consumer.poll(timeout_ms=500).values():
                    for record in records:
                        yield record.topic, record.key, record.value
        finally:
            consumer.close()


def follow(kafka, wanted, refused):
    """The statuses of each order, in order of arrival, and the alert about the refused order."""
    statuses, alerts = {order: [] for order in wanted}, []
    for topic, key, value in kafka.consume(["status", "alerts", "dead-letter"]):
        if topic == "status":
            message = json.loads(value)
            order = message["order_id"]
            if order in statuses:
                assert key.decode() == order, f"the key of {message} is {key}"
                statuses[order].append((message["sequence"], message["status"]))
        elif topic == "alerts":
            alerts.append(json.loads(value))
        done = all(any(s in FINAL for _, s in told) for told in statuses.values())
        if done and any("no-such-workflow" in alert["cause"] for alert in alerts):
            return statuses
    raise SystemExit(f"waited {WAIT_S} s in vain: {statuses} {alerts} {refused}")


def records(url, wanted):
    """The process records and details of orders, from the tables."""
    import boto3

    client = boto3.client(
        "dynamodb",
        endpoint_url=url,
        region_name="us-east-1",
        aws_access_key_id="local",
        aws_secret_access_key="local",
    )
    found = {}
    for order in wanted:
        key = {"OrderID": {"S": order}}
        record = client.get_item(TableName="order-state", Key=key, ConsistentRead=True)["Item"]
        details = client.get_item(TableName="orders", Key=key, ConsistentRead=True)["Item"]
        found[order] = {
            "ProcessState": record["ProcessState"]["S"],
            "LockedBy": record["LockedBy"],
            "CompleteBy": record["CompleteBy"],
            "FailureCount": int(record["FailureCount"]["N"]),
            "Version": int(record["Version"]["N"]),
            "details": "Details" in details or "DetailsGzip" in details,
        }
    return found


def main():
    client, brokers, url = sys.argv[1:]
    kafka = {"confluent": Confluent, "kafka-python": KafkaPython}[client](brokers)
    good, refused = orders(client)
    values = [(o["order_id"].encode(), json.dumps(o).encode()) for o in good]
    # Without a key: Triad must accept such records.
    values.append((None, json.dumps(refused).encode()))
    kafka.produce(values)
    wanted = [o["order_id"] for o in good]
    statuses = follow(kafka, wanted, refused)
    print(json.dumps({"statuses": statuses, "records": records(url, wanted)}))


main()
