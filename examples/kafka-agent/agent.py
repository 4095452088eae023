"""An agent in another team's process: it reads requests from Kafka and answers with replies.

usage: agent.py BROKERS NAME LEDGER

NAME is the agent's name in the workflow. LEDGER is a file with the effects of this example by their key: a request that
is delivered twice is answered from it. docs/reference/agent-messages.md describes both messages.
"""

import json
import sys
import time
from pathlib import Path

from kafka import KafkaConsumer, KafkaProducer

SKEW_MS = 500  # the largest difference between two clocks, as TRIAD_SKEW


def carry_out(request, effects):
    """The outcome of a request. Its effect happens once, however often the request is delivered."""
    key = request["idempotency_key"]
    if key in effects:
        return {"result": "succeeded", "output": effects[key]}
    if request["direction"] == "forward" and request["input"]["amount"] > 1000:
        failure = {"kind": "permanent", "code": "limit", "message": "more than 1000"}
        return {"result": "failed", "failure": failure, "maybe_applied": False}
    effects[key] = {"booking": f"b-{len(effects) + 1}"}
    return {"result": "succeeded", "output": effects[key]}


def main(brokers, name, ledger):
    ledger = Path(ledger)
    effects = json.loads(ledger.read_text()) if ledger.exists() else {}
    producer = KafkaProducer(bootstrap_servers=brokers, acks="all")
    consumer = KafkaConsumer(
        f"agent.{name}",
        f"agent.{name}.high",
        bootstrap_servers=brokers,
        group_id=f"agent-{name}",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    )
    for record in consumer:
        request = json.loads(record.value)
        # After the attempt's end nothing is begun: another attempt may be under way.
        if time.time() * 1000 < request["complete_by"] - SKEW_MS:
            outcome = carry_out(request, effects)
            ledger.write_text(json.dumps(effects))
            same = ("order_id", "step", "direction", "attempt", "complete_by")
            reply = {"type": "reply", "calls": 1, "outcome": outcome}
            reply |= {field: request[field] for field in same}
            reply["sent_at"] = int(time.time() * 1000)
            lane = ".high" if record.topic.endswith(".high") else ""
            sent = producer.send(
                f"scheduler{lane}",
                key=request["order_id"].encode(),
                value=json.dumps(reply).encode(),
                headers=[h for h in record.headers if h[0] == "traceparent"],
            )
            sent.get(timeout=10)
        # The offset is committed only after the broker has acknowledged the reply.
        consumer.commit()


if __name__ == "__main__":
    main(*sys.argv[1:])
