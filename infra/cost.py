#!/usr/bin/env python3
"""Estimates the monthly bill of an installation for a number of orders, and compares shapes of it with AWS's own services.

    python3 infra/cost.py --orders 1000000
    python3 infra/cost.py --shapes

Every quantity is an input with a default; `--help` lists them. What a plan says (`terraform show -json FILE`) is
taken from it with `--plan FILE`; the defaults are those of examples/complete. So is every price an input: `--prices
FILE` takes a JSON object that replaces some or all of PRICES, which were entered by hand (see AS_OF) and are no offer
of AWS. Data transfer between zones and out of AWS, taxes and free tiers are not in it.
"""

import argparse
import json
import math
import sys

AS_OF = "2026-11, us-east-1"
PRICES = {
    "write_units_million": 0.625,
    "read_units_million": 0.125,
    "table_gb_month": 0.25,
    "recovery_gb_month": 0.20,
    "requests_million": 0.20,
    "gb_second_arm64": 0.0000133334,
    "gb_second_x86_64": 0.0000166667,
    "poller_unit_hour": 0.185,
    "container_vcpu_hour": 0.03238,
    "container_gb_hour": 0.00356,
    "nat_hour": 0.045,
    "nat_gb": 0.045,
    "endpoint_hour": 0.01,
    "endpoint_gb": 0.01,
    "log_gb": 0.50,
    "log_gb_month": 0.03,
    "alarm_month": 0.10,
    "metric_month": 0.30,
    "dashboard_month": 3.00,
    "key_month": 1.00,
    "key_requests_million": 3.00,
    "schedule_million": 1.00,
    "secret_month": 0.40,
    "traces_million": 5.00,
    # Three brokers kafka.t3.small with 10 GB each.
    "broker_hour": 0.0456,
    "broker_gb_month": 0.10,
    # AWS's own services (AWS Step Functions pricing; AWS Lambda pricing, "Lambda Durable Functions Pricing").
    "transitions_million": 25.00,
    "express_million": 1.00,
    "express_gb_second": 0.00001667,
    "operations_million": 8.00,
    "operations_gb": 0.25,
    "operations_gb_month": 0.15,
}
HOURS = 730
SECONDS = HOURS * 3600
SWEEPS = HOURS * 60
SHARDS = 16  # of the due index, each asked once a sweep
MILLION, GB = 1e6, 1024**3
# A poller takes 5 MB/s or 5 invocations at once; a unit carries 10 of them, and 20 MB/s (AWS Lambda Developer Guide,
# "Apache Kafka event poller scaling modes in Lambda"; AWS Lambda pricing, "Provisioned Mode for Event Source Mapping").
POLLERS_PER_UNIT, MB_PER_UNIT, INVOCATIONS_PER_POLLER, MB_PER_POLLER = 10, 20, 5, 5

# What the plan of examples/complete has: tests/infra/cost_figures.py holds it against the plan.
EXAMPLE = {
    "functions": 8,
    "agents": 3,
    "mappings": 12,
    "pollers": 12,
    "alarm_metrics": 112,
    "dashboards": 1,
    "keys": 1,
    "secrets": 0,
    "zones": 1,
}
SHAPES = {
    "worker": "(a) a worker in small containers",
    "plain": "(b) functions, plain mode",
    "provisioned": "(c) functions, provisioned mode",
}


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description="Estimates the monthly bill of an installation.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    add = parser.add_argument
    add("--orders", type=float, default=1e6, help="orders a month")
    add("--mode", choices=SHAPES, default="provisioned", help="what runs: a worker, or functions with mappings of this mode")
    add("--shapes", action="store_true", help="print the table of all modes beside AWS's own services")
    add("--plan", metavar="FILE", help="take from this plan what it has; see --counts")
    add("--counts", action="store_true", help="print what is taken from the plan, or its defaults")
    add("--steps", type=int, default=3, help="steps of an order")
    add("--retried", type=float, default=0.05, help="share of steps that are tried a second time")
    add("--compensated", type=float, default=0.02, help="share of orders that fail at the last step and are compensated")
    add("--workflows", type=int, default=1, help="workflows that orders name")
    add("--write-units", type=float, default=11, help="DynamoDB write units an order")
    add("--read-units", type=float, default=4, help="DynamoDB read units an order")
    add("--details-kb", type=float, default=1, help="stored order details, KB an order")
    add("--record-kb", type=float, default=3, help="stored process record, KB an order")
    add("--details-months", type=float, default=12, help="months of details that have piled up")
    add("--retention-days", type=float, default=30, help="days that process records are kept")
    add("--batch", type=float, default=5, help="records an invocation, on average")
    add("--handler-ms", type=float, default=30, help="an invocation of Submission or Scheduler")
    add("--agent-ms", type=float, default=150, help="an invocation of an agent, its calls included")
    add("--sweep-ms", type=float, default=200, help="a sweep of the Supervisor")
    add("--memory-mb", type=float, default=256, help="of a function")
    add("--architecture", choices=["arm64", "x86_64"], default="arm64", help="of the functions")
    add("--peak", type=float, default=4, help="busiest hour, of the average")
    add("--message-kb", type=float, default=2, help="a record in Kafka")
    add("--no-poller-group", action="store_true", help="mappings do not share their poller units")
    add("--containers", type=int, default=2, help="least number of containers")
    add("--container-vcpu", type=float, default=0.25, help="of a container (Fargate, arm64)")
    add("--container-gb", type=float, default=0.5, help="memory of a container")
    add("--container-rate", type=float, default=10, help="orders a second that a container carries")
    add("--nat", type=int, default=1, help="NAT gateways; 0 where the account has one, or endpoints alone")
    add("--endpoints", type=int, default=0, help="interface endpoints (SNS, Secrets Manager, Lambda, STS), each in every zone")
    add("--call-kb", type=float, default=4, help="a call of a service and its answer, through NAT")
    add("--log-bytes", type=float, default=1000, help="log lines, bytes an order")
    add("--log-months", type=float, default=12, help="months that logs are kept")
    add("--key-requests", type=float, default=200_000, help="uses of the customer key")
    add("--sampled", type=float, default=0.05, help="share of invocations traced; 0 without tracing")
    add("--kafka", action="store_true", help="with a Kafka of its own: three kafka.t3.small")
    add("--call-ms", type=float, default=100, help="a call of a service, where AWS's own services make it")
    add("--express-log-kb", type=float, default=5, help="log of an express execution, without which none is found again")
    add("--prices", metavar="FILE", help="JSON object with other prices")
    add("--json", action="store_true", help="print JSON")
    return parser.parse_args()


def prices(path: str | None) -> dict[str, float]:
    if path is None:
        return PRICES
    with open(path, encoding="utf-8") as file:
        given = json.load(file)
    unknown = sorted(set(given) - set(PRICES))
    if unknown:
        raise SystemExit(f"cost: {path} has unknown prices: {', '.join(unknown)}")
    return PRICES | given


def counts(path: str | None) -> dict[str, int]:
    """What a plan has; without one, EXAMPLE."""
    if path is None:
        return EXAMPLE
    with open(path, encoding="utf-8") as file:
        changes = [c for c in json.load(file)["resource_changes"] if c.get("mode", "managed") == "managed"]

    def of(kind: str) -> list[dict]:
        return [c["change"]["after"] for c in changes if c["type"] == kind and c["change"]["after"]]

    def pollers(mapping: dict) -> int:
        return sum(config["minimum_pollers"] for config in mapping.get("provisioned_poller_config") or [])

    def secrets() -> set[str]:
        policies = [json.loads(p["policy"]) for p in of("aws_iam_role_policy") if p.get("policy")]
        statements = [s for policy in policies for s in policy["Statement"] if "secretsmanager:GetSecretValue" in s["Action"]]
        return {arn for s in statements for arn in s["Resource"]}

    functions = of("aws_lambda_function")
    alarms = of("aws_cloudwatch_metric_alarm")
    return {
        "functions": len(functions),
        "agents": sum("agent-" in f["function_name"] for f in functions),
        "mappings": len(of("aws_lambda_event_source_mapping")),
        "pollers": sum(pollers(m) for m in of("aws_lambda_event_source_mapping")),
        # An alarm is paid for each metric that it watches.
        "alarm_metrics": sum(max(1, sum(bool(q.get("metric")) for q in a.get("metric_query") or [])) for a in alarms),
        "dashboards": len(of("aws_cloudwatch_dashboard")),
        "keys": len(of("aws_kms_key")),
        "secrets": len(secrets()),
        "zones": max((len(v["subnet_ids"]) for f in functions for v in f.get("vpc_config") or []), default=0),
    }


def poller_units(a: argparse.Namespace, c: dict[str, int], at_once: float, mb: float) -> int:
    """Units for the pollers of the plan, or those that the busiest hour needs for its invocations and MB a second."""
    needed = max(math.ceil(at_once / INVOCATIONS_PER_POLLER), math.ceil(mb / MB_PER_POLLER))
    pollers = max(c["pollers"] or c["mappings"], needed)
    units = max(math.ceil(pollers / POLLERS_PER_UNIT), math.ceil(mb / MB_PER_UNIT))
    return max(c["mappings"], units) if a.no_poller_group else units


def estimate(a: argparse.Namespace, c: dict[str, int], p: dict[str, float], mode: str, orders: float) -> list[tuple[str, str, float]]:
    """Lines of the bill: what, how it comes about, US dollars a month."""
    is_worker = mode == "worker"
    second = orders / SECONDS * a.peak
    containers = max(a.containers, math.ceil(second / a.container_rate)) if is_worker else 0
    # A worker sweeps once a second, the function once a minute.
    sweeps = SECONDS * containers if is_worker else SWEEPS
    writes = orders * a.write_units
    reads = orders * a.read_units + sweeps * SHARDS * 0.5
    stored = (orders * a.details_months * a.details_kb + orders * a.retention_days / 30 * a.record_kb) * 1024 / GB
    # Records: one to Submission; to the Scheduler an announcement and a reply a step; to agents a request a step.
    handled = orders * (2 + a.steps) / a.batch
    called = orders * a.steps / a.batch
    seconds = (handled * a.handler_ms + called * a.agent_ms) / 1000
    logs = orders * a.log_bytes / GB
    calls_gb = orders * a.steps * a.call_kb * 1024 / GB if a.nat else 0
    network = a.nat * HOURS * p["nat_hour"] + calls_gb * p["nat_gb"] + a.endpoints * c["zones"] * HOURS * p["endpoint_hour"]
    lines = [
        ("DynamoDB writes", f"{writes:,.0f} units", writes / MILLION * p["write_units_million"]),
        ("DynamoDB reads", f"{reads:,.0f} units", reads / MILLION * p["read_units_million"]),
        ("DynamoDB storage, recovery", f"{stored:,.1f} GB", stored * (p["table_gb_month"] + p["recovery_gb_month"])),
    ]
    if is_worker:
        hour = a.container_vcpu * p["container_vcpu_hour"] + a.container_gb * p["container_gb_hour"]
        size = f"{containers} of {a.container_vcpu:g} vCPU, {a.container_gb:g} GB"
        lines.append(("Containers", size, containers * HOURS * hour))
    else:
        invocations = handled + called + SWEEPS
        gb_seconds = (seconds + SWEEPS * a.sweep_ms / 1000) * a.memory_mb / 1024
        mb = second * (2 + 2 * a.steps) * a.message_kb / 1024
        units = poller_units(a, c, seconds / SECONDS * a.peak, mb) if mode == "provisioned" else 0
        # Series, where most orders end well and little is redelivered: docs/reference/metrics.md.
        metrics = 22 + 5 * a.workflows + 7 * c["agents"]
        traces = invocations * a.sampled
        lines += [
            ("Lambda requests", f"{invocations:,.0f} invocations", invocations / MILLION * p["requests_million"]),
            ("Lambda time", f"{gb_seconds:,.0f} GB-seconds", gb_seconds * p[f"gb_second_{a.architecture}"]),
            ("Kafka pollers", f"{units} units, {c['mappings']} mappings", units * HOURS * p["poller_unit_hour"]),
            (
                "Alarms, metrics, dashboard",
                f"{c['alarm_metrics']} watched, {metrics} made",
                c["alarm_metrics"] * p["alarm_month"] + metrics * p["metric_month"] + c["dashboards"] * p["dashboard_month"],
            ),
            ("Schedule", f"{SWEEPS:,} sweeps", SWEEPS / MILLION * p["schedule_million"]),
            ("Traces", f"{traces:,.0f} traces", traces / MILLION * p["traces_million"]),
        ]
    keys = c["keys"] * p["key_month"] + a.key_requests / MILLION * p["key_requests_million"] + c["secrets"] * p["secret_month"]
    lines += [
        ("Logs", f"{logs:,.1f} GB a month", logs * p["log_gb"] + logs * a.log_months * p["log_gb_month"]),
        ("Keys and secrets", f"{c['keys']} keys, {c['secrets']} secrets", keys),
        ("Network", f"{a.nat} NAT, {a.endpoints} endpoints", network),
    ]
    if a.kafka:
        lines.append(("Kafka", "3 of kafka.t3.small", 3 * (HOURS * p["broker_hour"] + 10 * p["broker_gb_month"])))
    return lines


def rivals(a: argparse.Namespace, p: dict[str, float]) -> dict[str, float]:
    """US dollars a million orders of AWS's own services, which cost nothing while nothing runs.

    A step is a call by HTTP. An order that is compensated has failed at its last step, and the steps before it are compensated.
    """
    attempts = a.steps * (1 + a.retried)
    compensations = a.compensated * (a.steps - 1)
    log_gb = p["log_gb"] + a.log_months * p["log_gb_month"]
    # Begin and end are transitions as well, and so is each retry.
    standard = (2 + attempts + compensations) * p["transitions_million"]
    # Time is rounded up to 100 ms, memory to 64 MB.
    took = math.ceil((attempts + compensations) * a.call_ms / 100) / 10
    express = p["express_million"] + MILLION * (took * 64 / 1024 * p["express_gb_second"] + a.express_log_kb * 1024 / GB * log_gb)
    # One operation to begin, one for each step. The function waits while it calls.
    written = (a.details_kb + (attempts + compensations) * a.details_kb / 2) * 1024 / GB
    durable = (1 + attempts + compensations) * p["operations_million"] + p["requests_million"]
    durable += MILLION * written * (p["operations_gb"] + a.retention_days / 30 * p["operations_gb_month"])
    durable += MILLION * (attempts + compensations) * a.call_ms / 1000 * a.memory_mb / 1024 * p[f"gb_second_{a.architecture}"]
    durable += MILLION * a.log_bytes / GB * log_gb
    return {"Step Functions, standard": standard, "Step Functions, express": express, "Lambda durable functions": durable}


def break_even(cost, rival: float) -> str:
    """From how many orders a month `cost(orders)` stays below that many dollars a million."""
    grid = [10 ** (exponent / 100) for exponent in range(300, 1001)]
    dearer = [orders for orders in grid if cost(orders) >= orders / MILLION * rival]
    if not dearer:
        return "always"
    if dearer[-1] == grid[-1]:
        return "never"
    return f"{float(f'{dearer[-1] / MILLION:.2g}'):g} M"


def shapes(a: argparse.Namespace, c: dict[str, int], p: dict[str, float]) -> None:
    volumes = [0.1, 1, 10, 100]
    total = lambda mode, orders: sum(dollars for *_, dollars in estimate(a, c, p, mode, orders))
    print(f"{'US dollars a month, orders:':<36}" + "".join(f"{volume:>10g} M" for volume in volumes))
    for mode, name in SHAPES.items():
        print(f"{name:<36}" + "".join(f"{total(mode, volume * MILLION):>12,.0f}" for volume in volumes))
    others = rivals(a, p)
    for name, million in others.items():
        print(f"{name:<36}" + "".join(f"{million * volume:>12,.0f}" for volume in volumes))
    short = [name.removeprefix("Step Functions, ").removeprefix("Lambda ").removesuffix(" functions") for name in others]
    brokers = 3 * (HOURS * p["broker_hour"] + 10 * p["broker_gb_month"])
    for kafka, title in ((0, "Triad is cheaper from, beside:"), (brokers, f"the same, Kafka for {brokers:,.0f} more:")):
        print(f"{title:<36}" + "".join(f"{name:>12}" for name in short))
        for mode, name in SHAPES.items():
            cost = lambda orders, mode=mode, kafka=kafka: total(mode, orders) + kafka
            print(f"{name:<36}" + "".join(f"{break_even(cost, million):>12}" for million in others.values()))


def main() -> int:
    a = arguments()
    c, p = counts(a.plan), prices(a.prices)
    if a.counts:
        print(json.dumps(c, indent=2))
        return 0
    if a.shapes:
        shapes(a, c, p)
        return 0
    lines = estimate(a, c, p, a.mode, a.orders)
    total = sum(dollars for *_, dollars in lines)
    if a.json:
        bill = {what: round(dollars, 2) for what, _, dollars in lines}
        print(json.dumps({"orders": a.orders, "lines": bill, "total": round(total, 2)}, indent=2))
        return 0
    for what, quantity, dollars in lines:
        print(f"{what:<28}{quantity:>26}{dollars:>12,.2f}")
    print(f"{'US dollars a month':<28}{f'{a.orders:,.0f} orders':>26}{total:>12,.2f}")
    each = total / a.orders * MILLION if a.orders else 0.0
    print(f"{'a million orders':<28}{'':>26}{each:>12,.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
