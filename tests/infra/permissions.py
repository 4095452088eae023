"""What each role may do and each function is told, out of plans: infra/tests/permissions.json.

Usage: permissions.py PLAN.json… (as plans.py writes them). Prints one installation a plan, with its
roles and the variables of its functions; statements and variables one a line, so that a change of the
module shows as the lines that it changes.
"""

import base64
import gzip
import json
import pathlib
import sys

# Differs from the others only in what Lambda itself asks of MSK with the roles, which no run of a function can show.
LAMBDA_ALONE = "msk_scram_across_accounts"
NOTE = "Made by tests/infra/render.sh from the module. tests/infra.sh compares it; tests/permissions/tests/permissions.rs reads it."


def installation(plan: dict) -> dict:
    """The statements of the roles and the variables of the functions, by name."""
    roles, variables = {}, {}
    for change in plan["resource_changes"]:
        after = change["change"]["after"]
        if change["type"] == "aws_iam_role_policy":
            # One policy for each function, and one for the schedule.
            roles[change.get("index", change["name"])] = json.loads(after["policy"])["Statement"]
        elif change["type"] == "aws_lambda_function":
            variables[change["index"]] = after["environment"][0]["variables"]
            # Compressed, it would differ between versions of Terraform, and nobody could read it. The function takes both.
            if setup := variables[change["index"]].get("TRIAD_SETUP"):
                variables[change["index"]]["TRIAD_SETUP"] = gzip.decompress(base64.b64decode(setup)).decode()
    if not roles or not variables:
        sys.exit("permissions: the plan has no role, or no function")
    return {"roles": roles, "variables": variables}


def line(value) -> str:
    return json.dumps(value, sort_keys=True)


def lines_of(installations: dict):
    """The lines of the file; each statement and each variable is one line."""
    yield "{"
    yield f'  "note": {line(NOTE)},'
    names = sorted(installations)
    for name in names:
        yield f'  "{name}": {{'
        for part in ("roles", "variables"):
            entries = installations[name][part]
            yield f'    "{part}": {{'
            for at, entry in enumerate(sorted(entries)):
                last = "" if at == len(entries) - 1 else ","
                if part == "variables":
                    yield f'      "{entry}": {line(entries[entry])}{last}'
                    continue
                yield f'      "{entry}": ['
                statements = [f"        {line(statement)}" for statement in entries[entry]]
                yield ",\n".join(statements)
                yield f"      ]{last}"
            yield "    }," if part == "roles" else "    }"
        yield "  }" if name == names[-1] else "  },"
    yield "}"


def main() -> int:
    paths = [path for path in map(pathlib.Path, sys.argv[1:]) if path.stem != LAMBDA_ALONE]
    plans = {path.stem: json.loads(path.read_text()) for path in paths}
    if not plans:
        print(__doc__, file=sys.stderr)
        return 2
    print("\n".join(lines_of({name: installation(plan) for name, plan in plans.items()})))
    return 0


if __name__ == "__main__":
    sys.exit(main())
