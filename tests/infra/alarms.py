"""Holds the alarms against the page that says what to do, and prints the alarms of a plan.

Usage: alarms.py --check PAGE.md RULES.yaml PLAN.json…
       alarms.py --render PLAN.json

Plans are those that plans.py writes. --check ends with 1 if the text of an alarm, in CloudWatch or of Prometheus,
names no section of the page, or one that is not there, or if a section of the page that is for alarms alone has none.
--render prints infra/tests/alarms.json, which tests/tests/telemetry/cloudwatch.rs and tests/tests/pages/operating.rs read.
"""

import json
import pathlib
import re
import sys

PAGE = "docs/how-to/handle-alerts.md"
NOTE = "Made by tests/infra/render.sh --alarms from the module: one installation with all alarms, one a line."
# The dimension that is known after the apply.
UNKNOWN = {"EventSourceMappingUUID": "known after the apply"}


def metric(of: dict) -> dict:
    """A metric of an alarm, which is one of its own arguments or of a query's."""
    return {
        "namespace": of["namespace"],
        "name": of["metric_name"],
        "dimensions": of.get("dimensions") or ({} if of["namespace"].startswith("Triad/") else UNKNOWN),
        "statistic": of.get("statistic") or of.get("stat"),
        "period": of["period"],
    }


def alarms_of(plan: dict) -> dict[str, dict]:
    """The alarms of a plan by their keys in the module."""
    alarms = {}
    for change in plan["resource_changes"]:
        if change["type"] != "aws_cloudwatch_metric_alarm":
            continue
        after = change["change"]["after"]
        queries = [q["metric"][0] for q in after.get("metric_query") or [] if q.get("metric")]
        alarms[change["index"]] = {
            "description": after["alarm_description"],
            "metrics": [metric(of) for of in queries or [after]],
            "periods": after["evaluation_periods"],
            "datapoints": after["datapoints_to_alarm"],
            "comparison": after["comparison_operator"],
            "threshold": after["threshold"],
            "missing": after["treat_missing_data"],
        }
    return alarms


def headings(page: str) -> set[str]:
    return set(re.findall(r"^#{2,3} (.+)$", page, re.MULTILINE))


def texts(rules: str) -> dict[str, str]:
    """The texts of the rules of Prometheus by their names; each is one line of the file."""
    names = re.findall(r"^ *- alert: (\w+)$", rules, re.MULTILINE)
    said = re.findall(r'^ *runbook: "(.+)"$', rules, re.MULTILINE)
    if len(names) != len(said):
        sys.exit(f"alarms: {len(names)} rules of Prometheus have {len(said)} texts")
    return dict(zip(names, said))


def check(page_file: str, rules_file: str, plans: list[str]) -> int:
    page = pathlib.Path(page_file).read_text()
    there, wrong = headings(page), 0
    said = texts(pathlib.Path(rules_file).read_text())
    for plan in plans:
        alarms = alarms_of(json.loads(pathlib.Path(plan).read_text()))
        if not alarms:
            sys.exit(f"alarms: {plan} has none")
        said |= {f"{name} of {plan}": alarm["description"] for name, alarm in alarms.items()}
    named = set()
    for name, text in said.items():
        sections = re.findall(rf"{re.escape(PAGE)}, ([^.;:)]+)", text)
        if not sections or not set(sections) <= there:
            wrong += 1
            print(f"alarms: {name} names {sections or 'no section'}, which {page_file} does not have")
        named |= set(sections)
    # Sections about alarms, below this heading, are there for alarms only.
    of_alarms = re.findall(r"^### (.+)$", page.partition("\n## Alarms\n")[2].partition("\n## ")[0], re.MULTILINE)
    for section in sorted(set(of_alarms) - named):
        wrong += 1
        print(f"alarms: no alarm names the section {section!r} of {page_file}")
    print(f"  {len(said)} alarms, {len(named)} sections, {wrong} wrong")
    return 1 if wrong or not of_alarms else 0


def render(plan: str) -> int:
    alarms = alarms_of(json.loads(pathlib.Path(plan).read_text()))
    lines = [f"  {json.dumps(name)}: {json.dumps(alarms[name], sort_keys=True)}" for name in sorted(alarms)]
    print("{\n" + ",\n".join([f'  "note": {json.dumps(NOTE)}', *lines]) + "\n}")
    return 0


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["--check", page, rules, first, *more]:
            sys.exit(check(page, rules, [first, *more]))
        case ["--render", plan]:
            sys.exit(render(plan))
        case _:
            sys.exit(__doc__)
