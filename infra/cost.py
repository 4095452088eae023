#!/usr/bin/env python3
"""Estimates the monthly bill of an installation for a number of orders.

    python3 infra/cost.py --orders 1000000

Every quantity is an input with a default; `--help` lists them. So is every price: `--prices FILE`
takes a JSON object that replaces some or all of PRICES, which were entered by hand (see AS_OF) and
are no offer of AWS. Kafka itself, data transfer and taxes are not in it, nor any free tier.
"""

import argparse
import json
import math
import sys

AS_OF = "2025-11, us-east-1"
PRICES = {
    "write_units_million": 0.625,
    "read_units_million": 0.125,
    "table_gb_month": 0.25,
    "recovery_gb_month": 0.20,
    "requests_million": 0.20,
    "gb_second_arm64": 0.0000133334,
    "gb_second_x86_64": 0.0000166667,
    "poller_unit_hour": 0.185,
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
}
HOURS = 730
SWEEPS = HOURS * 60
SHARDS = 16  # of the due index, each asked once a sweep
UNSHARED_MAPPINGS = 5  # orders, orders.high, scheduler, scheduler.high, alerts


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description="Estimates the monthly bill of an installation.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    add = parser.add_argument
    add("--orders", type=int, required=True, help="orders a month")
    add("--steps", type=int, default=3, help="steps of an order")
    add("--agents", type=int, default=3, help="configured agents")
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
    add("--mode", choices=["provisioned", "plain"], default="provisioned", help="of the mappings")
    add("--pollers", type=int, default=1, help="of each mapping")
    add("--pollers-per-unit", type=int, default=4, help="pollers that one poller unit carries")
    add("--no-poller-group", action="store_true", help="mappings do not share their poller units")
    add("--log-bytes", type=float, default=1000, help="log lines, bytes an order")
    add("--log-months", type=float, default=12, help="months that logs are kept")
    add("--key-requests", type=float, default=200_000, help="uses of the customer key")
    add("--secrets", type=int, default=1, help="Kafka secrets")
    add("--sampled", type=float, default=0.05, help="share of invocations traced; 0 without tracing")
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


def poller_units(a: argparse.Namespace) -> int:
    if a.mode == "plain":
        return 0
    mappings = UNSHARED_MAPPINGS + 2 * a.agents
    if a.no_poller_group:
        return mappings * math.ceil(a.pollers / a.pollers_per_unit)
    return math.ceil(mappings * a.pollers / a.pollers_per_unit)


def estimate(a: argparse.Namespace, p: dict[str, float]) -> list[tuple[str, str, float]]:
    """Lines of the bill: what, how it comes about, US dollars a month."""
    million, gb = 1e6, 1024**3
    writes = a.orders * a.write_units
    sweep_reads = SWEEPS * SHARDS * 0.5
    reads = a.orders * a.read_units + sweep_reads
    stored = (
        a.orders * a.details_months * a.details_kb + a.orders * a.retention_days / 30 * a.record_kb
    ) * 1024 / gb
    # Records: one to Submission; to the Scheduler an announcement and a reply a step; to agents
    # a request a step.
    handled = a.orders * (2 + a.steps) / a.batch
    called = a.orders * a.steps / a.batch
    seconds = (handled * a.handler_ms + called * a.agent_ms + SWEEPS * a.sweep_ms) / 1000
    gb_seconds = seconds * a.memory_mb / 1024
    invocations = handled + called + SWEEPS
    units = poller_units(a)
    logs = a.orders * a.log_bytes / gb
    alarms = (4 + a.agents) + 2 * (4 + a.agents) + 6
    # Series, where most orders end well and little is delivered again: docs/reference/metrics.md has what each metric is
    # told by.
    metrics = 22 + 5 * a.workflows + 7 * a.agents
    return [
        ("DynamoDB writes", f"{writes:,.0f} units", writes / million * p["write_units_million"]),
        ("DynamoDB reads", f"{reads:,.0f} units", reads / million * p["read_units_million"]),
        (
            "DynamoDB storage, recovery",
            f"{stored:,.1f} GB",
            stored * (p["table_gb_month"] + p["recovery_gb_month"]),
        ),
        (
            "Lambda requests",
            f"{invocations:,.0f} invocations",
            invocations / million * p["requests_million"],
        ),
        (
            "Lambda time",
            f"{gb_seconds:,.0f} GB-seconds",
            gb_seconds * p[f"gb_second_{a.architecture}"],
        ),
        ("Kafka pollers", f"{units} units", units * HOURS * p["poller_unit_hour"]),
        (
            "Logs",
            f"{logs:,.1f} GB a month",
            logs * p["log_gb"] + logs * a.log_months * p["log_gb_month"],
        ),
        (
            "Alarms and metrics",
            f"{alarms} alarms, {metrics} metrics",
            alarms * p["alarm_month"] + metrics * p["metric_month"] + p["dashboard_month"],
        ),
        (
            "Key and secrets",
            f"1 key, {a.secrets} secrets",
            p["key_month"]
            + a.key_requests / million * p["key_requests_million"]
            + a.secrets * p["secret_month"],
        ),
        ("Schedule", f"{SWEEPS:,} sweeps", SWEEPS / million * p["schedule_million"]),
        (
            "Traces",
            f"{invocations * a.sampled:,.0f} traces",
            invocations * a.sampled / million * p["traces_million"],
        ),
    ]


def main() -> int:
    a = arguments()
    lines = estimate(a, prices(a.prices))
    total = sum(dollars for _, _, dollars in lines)
    if a.json:
        bill = {what: round(dollars, 2) for what, _, dollars in lines}
        print(json.dumps({"orders": a.orders, "lines": bill, "total": round(total, 2)}, indent=2))
        return 0
    for what, quantity, dollars in lines:
        print(f"{what:<28}{quantity:>26}{dollars:>12,.2f}")
    print(f"{'US dollars a month':<28}{f'{a.orders:,} orders':>26}{total:>12,.2f}")
    each = total / a.orders * 1e6 if a.orders else 0.0
    print(f"{'a million orders':<28}{'':>26}{each:>12,.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
