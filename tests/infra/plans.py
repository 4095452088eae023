"""Takes the plans out of `terraform test -json -verbose` and writes them as files.

Reads the test's lines from standard input; writes DIRECTORY/RUN.json for each run that plans, in
the form of `terraform show -json`, as far as checkov and policies.py need it. Prints each run with
its result. Ends with 1 if a run failed or none planned.
"""

import json
import pathlib
import sys

RESOURCE = ("address", "mode", "type", "name", "index", "provider_name")


def plan_file(plan: dict) -> dict:
    """The plan in the structure of `terraform show -json`."""
    changes = [c for c in plan["resource_changes"] if c["mode"] == "managed"]
    resources = [
        {key: change[key] for key in RESOURCE if key in change}
        | {"values": change["change"]["after"], "schema_version": 0, "sensitive_values": {}}
        for change in changes
    ]
    return {
        "format_version": "1.2",
        "terraform_version": "1.11.0",
        "planned_values": {"root_module": {"resources": resources}},
        "resource_changes": changes,
        "output_changes": plan.get("output_changes", {}),
        "configuration": {"root_module": {"resources": []}},
    }


def main() -> int:
    directory = pathlib.Path(sys.argv[1])
    directory.mkdir(parents=True, exist_ok=True)
    written, failed = 0, 0
    for line in sys.stdin:
        message = json.loads(line)
        kind = message.get("type")
        if kind == "test_plan":
            name = message["@testrun"]
            (directory / f"{name}.json").write_text(json.dumps(plan_file(message["test_plan"])))
            written += 1
        elif kind == "diagnostic" and message["diagnostic"]["severity"] == "error":
            diagnostic = message["diagnostic"]
            print(f"{diagnostic['summary']}: {diagnostic.get('detail', '')}", file=sys.stderr)
            failed += 1
        elif kind == "test_run" and message["test_run"].get("progress") == "complete":
            run = message["test_run"]
            print(f"  {run['run']}: {run['status']}")
            # A skipped run counts as failed.
            failed += run["status"] != "pass"
    if written == 0:
        print("plans: no run planned anything", file=sys.stderr)
    return 1 if failed or not written else 0


if __name__ == "__main__":
    sys.exit(main())
