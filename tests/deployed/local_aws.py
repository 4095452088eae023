"""The AWS emulated on this machine: its processes listen on loopback, and are stopped by their ids."""

import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import authority
import boto3

ROOT = Path(__file__).resolve().parents[2]
REGION = "us-east-1"
PATIENCE = 180


class Failed(Exception):
    """A check that does not hold."""


def say(text):
    print(text, flush=True)


def until(what, look, patience=PATIENCE, between=0.3):
    """Waits until `look` returns something; fails with the text `what` if it does not in time."""
    ends = time.monotonic() + patience
    while True:
        found = look()
        if found:
            return found
        if time.monotonic() > ends:
            raise Failed(f"waited {patience} s in vain until {what}")
        time.sleep(between)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Local:
    """Broker, AWS emulator, mapping emulator and reference service, with their files in one directory."""

    def __init__(self, directory):
        self.directory = Path(directory)
        self.processes = {}
        self.secrets = {}
        self.binaries = ROOT / "target" / "debug"
        self.ministack_port = free_port()
        self.front_port = free_port()
        self.front = f"http://127.0.0.1:{self.front_port}"
        self.emulator = f"http://127.0.0.1:{self.ministack_port}"

    def start(self, name, command, env=None, first_line=False):
        log = open(self.directory / f"{name}.log", "ab")
        process = subprocess.Popen(
            [str(part) for part in command],
            cwd=self.directory,
            env={**os.environ, **(env or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE if first_line else log,
            stderr=log,
            start_new_session=True,
        )
        self.processes[name] = process
        return process.stdout.readline().decode().strip() if first_line else None

    def stop(self, name, how=signal.SIGTERM):
        process = self.processes.pop(name)
        process.send_signal(how)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(20)

    def start_broker(self, plain="127.0.0.1:0", secured="127.0.0.1:0"):
        """Starts the broker with two listeners: a plain one for the mapping emulator, and TLS with SCRAM for Triad."""
        here = self.directory
        command = [
            self.binaries / "triad-broker", "--listen", plain, "--data", here / "broker", "--no-auto-create",
            "--secured-listen", secured, "--users", here / "users",
            "--tls-certificate", here / "broker.pem", "--tls-key", here / "broker.key",
        ]
        self.plain = self.start("broker", command, first_line=True)
        self.brokers = self.processes["broker"].stdout.readline().decode().strip()

    def keep_secrets(self):
        """Stores the secrets in the form that Lambda's event source mappings require."""
        client = boto3.Session("test", "test", region_name=REGION).client("secretsmanager", endpoint_url=self.emulator)
        login = {"username": "triad", "password": self.password}
        values = {"login": login, "ca": {"certificate": (self.directory / "ca.pem").read_text()}, "payment": "the-token"}
        for name, value in values.items():
            kept = client.create_secret(Name=f"AmazonMSK_{name}", SecretString=value if isinstance(value, str) else json.dumps(value))
            self.secrets[name] = kept["ARN"]

    def start_all(self):
        self.password = secrets.token_urlsafe(24)
        (self.directory / "users").write_text(f"triad:{self.password}\n")
        authority.make(self.directory)
        self.start_broker()
        port = free_port()
        self.service = f"http://127.0.0.1:{port}"
        self.start("reference", [self.binaries / "triad-reference-service", "--listen", f"127.0.0.1:{port}"])
        self.start(
            "ministack",
            [Path(sys.executable).with_name("ministack")],
            env={
                "AUTH": "true",
                "BIND_HOST": "127.0.0.1",
                "GATEWAY_PORT": str(self.ministack_port),
                "MINISTACK_REGION": REGION,
                "IOT_MTLS_ENABLED": "0",
                # The front end counts every connection as encrypted, so the functions use its address.
                "AWS_ENDPOINT_URL": self.front,
                "TMPDIR": str(self.directory),
            },
        )

        def healthy():
            try:
                return urllib.request.urlopen(f"{self.emulator}/_ministack/health", timeout=2).status == 200
            except OSError:
                return False

        until("the emulator answers", healthy)
        self.keep_secrets()
        command = [
            self.binaries / "triad-mapping-emulator", "--listen", f"127.0.0.1:{self.front_port}",
            "--endpoint", self.emulator, "--brokers", self.plain, "--region", REGION,
        ]
        self.start("mapping-emulator", command, env={"TRIAD_LOG": "info"}, first_line=True)

    def stop_all(self):
        for name in list(self.processes):
            self.stop(name)

    def environment(self):
        """The environment of the page's commands: credentials and endpoints of the emulated AWS."""
        own = {
            "AWS_ENDPOINT_URL": self.front,
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_REGION": REGION,
            "AWS_DEFAULT_REGION": REGION,
            "AWS_EC2_METADATA_DISABLED": "true",
            "TF_IN_AUTOMATION": "1",
            "TF_INPUT": "0",
            "TF_CLI_ARGS": "-no-color",
            "CHECKPOINT_DISABLE": "1",
            "TRIAD_KAFKA_AUTH": "scram",
            "TRIAD_KAFKA_SECRET": self.secrets["login"],
            "TRIAD_KAFKA_CA_SECRET": self.secrets["ca"],
            "PATH": f"{self.binaries}:{os.environ['PATH']}",
        }
        return {**os.environ, **own}

    def run(self, command, check=True, shell=False, input=None):
        done = subprocess.run(
            command, cwd=self.directory, env=self.environment(), shell=shell, text=True,
            input=input, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )
        with open(self.directory / "commands.log", "a") as log:
            log.write(f"$ {command}\n{done.stdout}\n")
        if check and done.returncode != 0:
            shown = command if shell else " ".join(map(str, command))
            raise Failed(f"{shown}: exit code {done.returncode}\n{done.stdout[-4000:]}")
        return done


def remove(directory):
    shutil.rmtree(directory, ignore_errors=True)
