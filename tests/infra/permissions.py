"""What each role may do and each function is told, out of plans: infra/tests/permissions.json.

Usage: permissions.py PLAN.json… (as plans.py writes them). Prints one installation a plan, with its
roles and the variables of its functions; statements and variables one a line, so that a change of the
module shows as the lines that it changes.
"""

import json
import pathlib
import sys

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
    plans = {pathlib.Path(path).stem: json.loads(pathlib.Path(path).read_text()) for path in sys.argv[1:]}
    if not plans:
        print(__doc__, file=sys.stderr)
        return 2
    print("\n".join(lines_of({name: installation(plan) for name, plan in plans.items()})))
    return 0


if __name__ == "__main__":
    sys.exit(main())
