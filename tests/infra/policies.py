"""Checks the roles' policies against AWS's own list of actions, resources and conditions.

Usage: policies.py PLAN.json… (as plans.py writes them; with a given key, so that every policy is
known in full). AWS's list is the one that the package
policy_sentry carries. A finding is printed with its role and statement; any ends with 1.

The rules: every action exists; none has a wildcard; every resource has a form that AWS names for
the action; "*" stands only for actions that AWS offers no other resource for, and for those in
DEMANDED; a "*" inside a resource stands only at the end, for names that Lambda makes up and in statements of
LOOKS; every condition key exists for its service.
"""

import json
import pathlib
import re
import sys

from policy_sentry.querying.actions import get_action_data
from policy_sentry.querying.conditions import get_condition_keys_for_service

# Lambda demands "*" for the network interfaces of functions in a VPC (Lambda Developer Guide,
# "Giving Lambda functions access to resources in a VPC").
DEMANDED = {"NetworkInterfacesOfLambda", "NetworkInterfacesNotOfTheCode"}
# Resources whose names Lambda generates: log streams, mappings, and objects of records that were given up.
MADE_UP = (
    re.compile(r"^arn:aws:logs:[^*]+:log-stream:\*$"),
    re.compile(r"^arn:aws:lambda:[^*]+:event-source-mapping:\*$"),
    re.compile(r"^arn:aws:s3:::[^*]+/aws/lambda/\*$"),
)
# What `setup` only looks at, by the installation's prefix.
LOOKS = {"LooksAtAlarms", "LooksAtFunctions", "LooksAtRoles"}
# Condition keys that every service supports.
GLOBAL_KEYS = {"aws:RequestedRegion", "aws:SourceAccount", "aws:SourceArn", "aws:SecureTransport"}
# Parts of ARNs that may contain slashes.
WITH_SLASHES = ("LogGroupName", "LogStreamName", "ObjectName", "SecretId")


def arn_pattern(form: str) -> re.Pattern:
    """The pattern for AWS's form of an ARN, such as arn:${Partition}:sns:${Region}:${Account}:${TopicName}."""
    pattern = ""
    for part in re.split(r"(\$\{\w+\})", form):
        name = re.fullmatch(r"\$\{(\w+)\}", part)
        if not name:
            pattern += re.escape(part)
        elif name[1] == "FunctionName":
            # Only its qualified ARN allows the invocation of a version or an alias (Lambda Developer Guide,
            # "Lambda function versions", "Using versions in permissions").
            pattern += "[^:/]+(:[^:/]+)?"
        elif name[1] in WITH_SLASHES:
            pattern += "[^:]+"
        else:
            pattern += "[^:/]+"
    return re.compile(f"^{pattern}$")


def forms_of(action: str) -> list[str] | None:
    """The forms of an action's resources; None if AWS has no such action."""
    service, name = action.split(":")
    data = get_action_data(service, name)
    return [row["resource_arn_format"] for row in data[service]] if data else None


def known_condition(key: str) -> bool:
    """Whether AWS lists the condition key; a listed key may end in a variable part, ${…}."""
    listed = get_condition_keys_for_service(key.split(":")[0])
    return any(
        key.startswith(name.split("${")[0]) if "${" in name else key == name for name in listed
    )


def problems_of(statement: dict) -> list[str]:
    found = []
    fits = {resource: False for resource in statement["Resource"]}
    for action in statement["Action"]:
        forms = None if "*" in action else forms_of(action)
        if forms is None:
            found.append(f"AWS knows no action {action}")
            continue
        narrower = [arn_pattern(form) for form in forms if form != "*"]
        for resource in statement["Resource"]:
            if resource == "*":
                fits[resource] = True
                if narrower and statement["Sid"] not in DEMANDED:
                    found.append(f"{action} could have a narrower resource than *")
            elif any(pattern.match(resource) for pattern in narrower):
                fits[resource] = True
            elif len(statement["Action"]) == 1 or not narrower:
                found.append(f"{action} does not work on {resource}")
    for resource, fit in fits.items():
        if not fit:
            found.append(f"no action of the statement works on {resource}")
        made_up = any(p.match(resource) for p in MADE_UP) or (statement["Sid"] in LOOKS and resource.endswith("-*"))
        if resource != "*" and "*" in resource and not made_up:
            found.append(f"{resource} has a wildcard in a name that is known")
    for keys in statement.get("Condition", {}).values():
        for key in keys:
            if key not in GLOBAL_KEYS and not known_condition(key):
                found.append(f"AWS knows no condition key {key}")
    return found


def main() -> int:
    statements = findings = 0
    for path in sys.argv[1:]:
        changes = json.loads(pathlib.Path(path).read_text())["output_changes"]
        for role, parts in sorted(changes["policies"]["after"].items()):
            for statement in parts:
                statements += 1
                for problem in problems_of(statement):
                    findings += 1
                    print(f"{pathlib.Path(path).stem}: {role}, {statement['Sid']}: {problem}")
    print(f"  {statements} statements, {findings} findings")
    return 1 if findings or not statements else 0


if __name__ == "__main__":
    sys.exit(main())
