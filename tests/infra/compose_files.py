"""Checks a compose file without a container engine.

Usage: compose_files.py FILE…. The form is checked against the Compose Specification's JSON Schema, as the
package docker-compose 1.29.2 contains it; then what the schema does not cover: images are pinned,
ports are bound to loopback, and everything that is named exists. Exit code 1 if there is a problem.
"""

import importlib.metadata
import json
import pathlib
import re
import sys

import jsonschema
import yaml

LOOPBACK = ("127.0.0.1", "[::1]")
PINNED = re.compile(r"^[^:@\s]+(:[0-9]+/[^:@\s]+)?(:(?!latest$)[\w][\w.-]*|@sha256:[0-9a-f]{64})$")


def specification() -> dict:
    """The schema, read from the package's files without running its code."""
    try:
        package = importlib.metadata.distribution("docker-compose")
    except importlib.metadata.PackageNotFoundError:
        raise SystemExit("compose_files: docker-compose is not installed; run tests/infra.sh") from None
    schema = pathlib.Path(package.locate_file("compose/config/compose_spec.json"))
    return json.loads(schema.read_text())


def port_problem(port: object) -> str | None:
    if isinstance(port, dict):
        bound = port.get("host_ip") in ("127.0.0.1", "::1")
        return None if bound else f"port {port.get('target')} has no host_ip 127.0.0.1"
    bound = str(port).startswith(tuple(f"{address}:" for address in LOOPBACK))
    return None if bound else f"port {port!r} is not bound to 127.0.0.1"


def mount_problem(mount: object, volumes: dict, directory: pathlib.Path) -> str | None:
    if isinstance(mount, dict):
        kind, source = mount.get("type"), mount.get("source")
    else:
        source = str(mount).split(":")[0]
        kind = "bind" if source.startswith((".", "/", "~")) else "volume"
    if kind == "volume" and source not in volumes:
        return f"volume {source!r} is declared nowhere"
    if kind == "bind" and str(source).startswith(".") and not (directory / source).exists():
        return f"{source!r} does not exist beside the file"
    return None


def service_problems(name: str, service: dict, whole: dict, directory: pathlib.Path) -> list:
    found = []
    image, build = service.get("image"), service.get("build")
    if image is None and build is None:
        found.append("has neither image nor build")
    if image is not None and build is None and not PINNED.match(image):
        found.append(f"image {image!r} is not pinned to a version")
    if build is not None:
        context = build if isinstance(build, str) else build.get("context", ".")
        if not (directory / context).is_dir():
            found.append(f"build context {context!r} does not exist")
    if service.get("network_mode") == "host":
        found.append("listens on the host's own network")
    if service.get("privileged"):
        found.append("is privileged")
    found += [port_problem(port) for port in service.get("ports", [])]
    found += [
        mount_problem(mount, whole.get("volumes") or {}, directory)
        for mount in service.get("volumes", [])
    ]
    for other in service.get("depends_on", []):
        if other not in whole["services"]:
            found.append(f"depends on {other!r}, which is no service")
    for network in service.get("networks", []):
        if network not in (whole.get("networks") or {}) and network != "default":
            found.append(f"network {network!r} is declared nowhere")
    return [f"service {name}: {problem}" for problem in found if problem]


def problems(path: pathlib.Path, schema: dict) -> list[str]:
    try:
        whole = yaml.safe_load(path.read_text())
    except yaml.YAMLError as error:
        return [f"is no YAML: {error}"]
    found = [
        f"{'/'.join(map(str, error.absolute_path)) or 'the file'}: {error.message}"
        for error in jsonschema.Draft201909Validator(schema).iter_errors(whole)
    ]
    if found:
        return found
    if not whole.get("services"):
        return ["has no services: nothing was looked at"]
    for name, service in whole["services"].items():
        found += service_problems(name, service, whole, path.parent)
    return found


def main() -> int:
    schema = specification()
    bad = 0
    for path in map(pathlib.Path, sys.argv[1:]):
        found = problems(path, schema)
        bad += len(found)
        for problem in found:
            print(f"{path}: {problem}")
        if not found:
            print(f"  {path}: sound")
    return 1 if bad or len(sys.argv) < 2 else 0


if __name__ == "__main__":
    sys.exit(main())
