"""The three steps as a DBOS workflow, behind FastAPI.

    app.py --port PORT        with DBOS_DATABASE, DBOS_EXECUTOR and SERVICE in the environment
"""

import argparse
import http.client
import json
import os
import socket
import threading
from urllib.parse import urlsplit

import uvicorn
from dbos import DBOS, SetWorkflowID
from fastapi import FastAPI

STEPS = ("reserve", "charge", "ship")
SERVICE = urlsplit(os.environ["SERVICE"])
of_thread = threading.local()

app = FastAPI()
DBOS(config={
    "name": "orders", "system_database_url": os.environ["DBOS_DATABASE"], "sys_db_pool_size": 40,
    "executor_id": os.environ["DBOS_EXECUTOR"], "application_version": "1", "log_level": "WARNING",
    "run_admin_server": False})


def connection():
    """This thread's connection, which stays open."""
    if getattr(of_thread, "connection", None) is None:
        of_thread.connection = http.client.HTTPConnection(SERVICE.hostname, SERVICE.port, timeout=30)
        of_thread.connection.connect()
        of_thread.connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return of_thread.connection


def call(step, order):
    try:
        connection().request("POST", f"/{step}", json.dumps(order["details"]), {
            "content-type": "application/json", "benchmark-order": order["order_id"],
            "idempotency-key": f"{order['order_id']}:{step}"})
        answer = connection().getresponse()
        body = answer.read()
    except (http.client.HTTPException, OSError):
        of_thread.connection = None
        raise
    if answer.status != 200:
        raise RuntimeError(f"status {answer.status}")
    return json.loads(body)


again = {"retries_allowed": True, "max_attempts": 10, "interval_seconds": 0.1}


@DBOS.step(**again)
def reserve(order):
    return call("reserve", order)


@DBOS.step(**again)
def charge(order):
    return call("charge", order)


@DBOS.step(**again)
def ship(order):
    return call("ship", order)


@DBOS.workflow()
def run(order):
    return [reserve(order), charge(order), ship(order)]


@app.get("/")
def listens():
    return {"ok": True}


@app.post("/orders")
def waited(order: dict):
    with SetWorkflowID(order["order_id"]):
        run(order)
    return {"ok": True}


@app.post("/orders/accepted")
def accepted(order: dict):
    with SetWorkflowID(order["order_id"]):
        DBOS.start_workflow(run, order)
    return {"ok": True}


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--port", type=int, required=True)
    DBOS.launch()
    uvicorn.run(app, host="127.0.0.1", port=arguments.parse_args().port, log_level="warning", access_log=False)
