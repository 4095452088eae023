"""The deployed test: follows docs/how-to/deploy-to-aws.md, then checks what runs.

Each check is a function whose name says what it checks. They run in order, and later ones need the earlier ones.
"""

import base64
import hashlib
import io
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request
import zipfile

import boto3
from local_aws import REGION, ROOT, Failed, Local, remove, say, until

BUCKET = "kept-records"
PREFIX = "shop-"
FUNCTIONS = ["submission", "scheduler", "supervisor", "alerts", "agent", "setup", "console"]
QUICK = "TRIAD_QUICK" in os.environ
ARCHITECTURE = "x86_64" if platform.machine() == "x86_64" else "arm64"


def expect(holds, what):
    if not holds:
        raise Failed(what)


class Deployment:
    """The installation `my-shop` on the emulated AWS."""

    def __init__(self, local):
        self.local = local
        self.packages = local.directory / "zips" if QUICK else ROOT / "target/packages" / ARCHITECTURE
        session = boto3.Session("test", "test", region_name=REGION)
        client = lambda service: session.client(service, endpoint_url=local.front)
        self.aws = {
            name: client(name)
            for name in ["dynamodb", "events", "iam", "kafka", "kms", "lambda", "logs", "s3", "scheduler", "sns", "sqs", "cloudwatch"]
        }
        self.numbers = {}
        self.counted = set()

    # Following docs/how-to/deploy-to-aws.md.

    def page(self):
        """Runs the page's commands in order, except those that build, which have run before."""
        text = (ROOT / "docs/how-to/deploy-to-aws.md").read_text()
        blocks = re.findall(r"^```sh$(.*?)^```$", text, re.M | re.S)
        lines = "".join(blocks).replace("\\\n", " ").splitlines()
        return [line for line in map(str.strip, lines) if line and not line.startswith("#")]

    def configure(self):
        """Makes the edits that the page describes."""
        shop = self.local.directory / "my-shop"
        for file in ["local.tf", "override.tf"]:
            shutil.copy(ROOT / "tests/deployed" / file, shop / file)
        values = {
            "region": REGION,
            "cluster_name": "shop",
            "subnet_ids": ["subnet-0a"],
            "security_group_ids": ["sg-0a"],
            "packages_directory": str(self.packages),
            "on_call_email": "on-call@shop.example",
            "payment_secret_arn": self.local.secrets["payment"],
            "brokers": self.local.brokers,
            "login_secret": self.local.secrets["login"],
            "ca_secret": self.local.secrets["ca"],
            "service": self.local.service,
            "failure_bucket": BUCKET,
            "architecture": ARCHITECTURE,
            "console_tokens": [self.operator_line()],
        }
        (shop / "terraform.tfvars.json").write_text(json.dumps(values))
        (shop / "terraform.tfvars").unlink()

    def operator_line(self):
        """Creates an operator's token; returns the line for the list of tokens, which contains no secret."""
        made = subprocess.run([self.local.binaries / "triad", "token", "ann", "--role", "operate"], capture_output=True, text=True, check=True)
        self.token = made.stderr.strip()
        return made.stdout.strip()

    # Reading and acting as users do.

    def triad(self, *arguments, **options):
        return self.local.run(["triad", "--from-terraform", "my-shop", *arguments], **options)

    def terraform(self, *arguments, check=True):
        return self.local.run(["terraform", "-chdir=my-shop", *arguments], check=check)

    def submit(self, ids, priority="normal"):
        lines = [
            json.dumps({
                "order_id": id,
                "workflow": "three-steps",
                "details": {"sku": "A-1", "quantity": 1, "customer": "ANNA", "amount": 12.5, "city": "Lisboa"},
            })
            for id in ids
        ]
        self.triad("submit", "--priority", priority, "-", input="\n".join(lines) + "\n")

    def order(self, id):
        found = self.triad("get", id, "--json", check=False)
        return json.loads(found.stdout) if found.returncode == 0 else None

    def state(self, id):
        order = self.order(id)
        return order and order["state"]

    def all_processed(self, ids):
        listed = self.triad("list", "--state", "Processed", "--limit", "1000", "--json").stdout
        found = [json.loads(line) for line in listed.splitlines() if line.startswith("{")]
        done = {one["order_id"] for one in found if one["kind"] == "order"}
        return set(ids) <= done

    def ledger(self):
        with urllib.request.urlopen(f"{self.local.service}/_ledger/summary") as answer:
            return json.load(answer)

    def nothing_twice(self, orders):
        """Checks that the ledger has the effects of at least this many orders of three steps, each effect once."""
        ledger = self.ledger()
        expect(ledger["keys_applied_twice"] == 0 and ledger["steps_applied_twice"] == 0, str(ledger))
        expect(ledger["total"]["applied"] >= 3 * orders, f"not the effects of {orders} orders: {ledger}")

    def console(self, path, method="GET", headers=None, cookies=(), body=""):
        """Invokes the console's function with a request as the function URL passes it."""
        event = {
            "version": "2.0", "rawPath": path, "rawQueryString": "", "headers": headers or {}, "cookies": list(cookies),
            "requestContext": {"http": {"method": method, "path": path}}, "body": body, "isBase64Encoded": False,
        }
        answer = self.aws["lambda"].invoke(FunctionName=f"{PREFIX}console", Payload=json.dumps(event))
        expect("FunctionError" not in answer, f"{path}: the invocation failed")
        return json.load(answer["Payload"])

    def mapping(self, topic):
        mappings = self.aws["lambda"].list_event_source_mappings()["EventSourceMappings"]
        return next(m["UUID"] for m in mappings if m["Topics"] == [PREFIX + topic])

    def reading(self, topic, enabled):
        self.aws["lambda"].update_event_source_mapping(UUID=self.mapping(topic), Enabled=enabled)

    def doctor(self):
        """What is wrong according to `triad doctor`: texts by part and name."""
        ran = self.triad("doctor", "--function", "--json", check=False)
        lines = [json.loads(line) for line in ran.stdout.splitlines() if line.startswith("{")]
        findings = [line for line in lines if line["kind"] == "finding"]
        expect(findings, f"the doctor said nothing: {ran.stdout}")
        wrong = {(line["part"], line["name"]): line["text"] for line in findings if line["found"] == "wrong"}
        expect(ran.returncode == (1 if wrong else 0), f"exit code {ran.returncode} with {wrong}")
        self.looked_at = {line["part"].removesuffix("s") for line in findings}
        # Alarms ring on after their cause, and the emulator does not look at the function that failed.
        self.ringing = {name for (_, name), text in wrong.items() if text.startswith("it rings")}
        return {place: text for place, text in wrong.items() if place[1] not in self.ringing}

    def rings(self, alarm):
        """Waits until an alarm rings. CloudWatch counts what functions print; the emulator does not, so it is told here."""
        def look():
            self.count_what_functions_print()
            found = self.aws["cloudwatch"].describe_alarms(AlarmNames=[PREFIX + alarm])["MetricAlarms"]
            return found and found[0]["StateValue"] == "ALARM"
        until(f"the alarm {alarm} rings", look)

    def count_what_functions_print(self):
        for function in ["submission", "scheduler", "alerts"]:
            for message in self.log_lines(function):
                lines = [line for line in message.splitlines() if line.startswith('{"_aws"')]
                for line in lines:
                    if line not in self.counted:
                        self.counted.add(line)
                        self.count(json.loads(line))

    def count(self, line):
        for told in line["_aws"]["CloudWatchMetrics"]:
            for metric in told["Metrics"]:
                value = line[metric["Name"]]
                data = {
                    "MetricName": metric["Name"],
                    "Dimensions": [{"Name": name, "Value": str(line[name])} for name in told["Dimensions"][0]],
                    # A distribution has values and their counts.
                    **(value if isinstance(value, dict) else {"Value": value}),
                }
                self.aws["cloudwatch"].put_metric_data(Namespace=told["Namespace"], MetricData=[data])

    def log_lines(self, function):
        group = f"/aws/lambda/{PREFIX}{function}"
        events = self.aws["logs"].filter_log_events(logGroupName=group).get("events", [])
        return [event["message"] for event in events]


def the_page_is_followed_word_for_word(shop):
    local = shop.local
    for name in ["infra", "examples"]:
        (local.directory / name).symlink_to(ROOT / name)
    # What an account that runs Kafka already has.
    shop.aws["kafka"].create_cluster(
        ClusterName="shop", KafkaVersion="3.6.0", NumberOfBrokerNodes=2,
        BrokerNodeGroupInfo={"InstanceType": "kafka.m7g.large", "ClientSubnets": ["subnet-0a", "subnet-0b"]},
    )
    shop.aws["s3"].create_bucket(Bucket=BUCKET)
    (local.directory / "orders.jsonl").write_text(
        json.dumps({
            "order_id": "first", "workflow": "three-steps",
            "details": {"sku": "A-1", "quantity": 1, "customer": "ANNA", "amount": 1, "city": "Lisboa"},
        }) + "\n"
    )
    began = time.monotonic()
    for line in shop.page():
        if line == "infra/package.sh" and QUICK:
            say("   zips of the programs that the other tests run, in place of infra/package.sh")
            zip_programs(local.directory / "zips")
            continue
        say(f"   $ {line}")
        local.run(line, shell=True)
        if line.startswith("cp ") and "tfvars" in line:
            shop.configure()
    shop.numbers["the page to the first order, s"] = round(time.monotonic() - began)
    until("the first order is processed", lambda: shop.state("first") == "Processed")


def zip_programs(into):
    into.mkdir()
    for name in FUNCTIONS:
        program = into / name
        shutil.copy(ROOT / "target/debug" / f"triad-{name}", program)
        subprocess.run(["strip", program], check=False)
        with zipfile.ZipFile(into / f"{name}.zip", "w", zipfile.ZIP_DEFLATED, compresslevel=1) as zip:
            entry = zipfile.ZipInfo("bootstrap")
            entry.external_attr = 0o100755 << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            zip.writestr(entry, program.read_bytes())
        program.unlink()


def the_zips_that_were_built_are_what_runs(shop):
    for name, function in [("submission", "submission"), ("scheduler", "scheduler"), ("supervisor", "supervisor"),
                           ("alerts", "alerts"), ("agent", "agent-payment"), ("setup", "setup"), ("console", "console")]:
        zip = (shop.packages / f"{name}.zip").read_bytes()
        built = base64.b64encode(hashlib.sha256(zip).digest()).decode()
        deployed = shop.aws["lambda"].get_function_configuration(FunctionName=PREFIX + function)
        expect(deployed["CodeSha256"] == built, f"{function} is not the zip that was built")
        expect(deployed["Runtime"] == "provided.al2023", f"{function}: {deployed['Runtime']}")
    ran = [pid for pid in os.listdir("/proc") if pid.isdigit() and is_ours(shop, pid)]
    expect(ran, "no process bootstrap of this deployment runs")
    shop.numbers["function processes alive"] = len(ran)


def is_ours(shop, pid):
    """Whether a process is a function that this run's emulator has unpacked; other runs have the same program name."""
    try:
        program = os.readlink(f"/proc/{pid}/exe")
    except OSError:
        return False
    return program.endswith("/bootstrap") and program.startswith(f"{os.path.realpath(shop.local.directory)}/")


def orders_of_both_lanes_finish_with_each_effect_once(shop):
    normal = [f"n-{n}" for n in range(40)]
    high = [f"h-{n}" for n in range(10)]
    began = time.monotonic()
    shop.submit(normal)
    shop.submit(high, "high")
    until("50 orders are processed", lambda: shop.all_processed(normal + high))
    shop.numbers["50 orders, s"] = round(time.monotonic() - began, 1)
    shop.nothing_twice(len(normal + high))


def the_console_lets_an_operator_in_and_shows_an_order(shop):
    """Invoked directly: the emulator cannot show that the function URL works and is public."""
    urls = shop.aws["lambda"].get_function_url_config(FunctionName=f"{PREFIX}console")
    expect(urls["AuthType"] == "NONE", str(urls))
    page = shop.console("/console/orders/first")
    expect(page["statusCode"] == 401, f"it is open to everybody: {page['statusCode']}")
    word = re.search(r'name="word" value="([^"]+)"', page["body"]).group(1)
    jar = page["cookies"][0].split(";")[0]
    form = urllib.parse.urlencode({"word": word, "to": "/console/orders/first", "token": shop.token})
    media = {"content-type": "application/x-www-form-urlencoded"}
    said = shop.console("/console/login", "POST", media, [jar], form)
    expect(said["statusCode"] == 303 and "Secure" in said["cookies"][0], f"no log-in: {said}")
    page = shop.console("/console/orders/first", cookies=[said["cookies"][0].split(";")[0]])
    expect(page["statusCode"] == 200 and "Processed" in page["body"], page["body"][-2000:])
    bearer = {"authorization": f"Bearer {shop.token}"}
    letters = shop.console("/v1/operate/dead-letters", headers=bearer)
    expect(letters["statusCode"] == 200, letters["body"])


def the_schedule_fires_and_the_supervisor_recovers_an_order(shop):
    """The agent is not invoked, so the attempt's time runs out, which only a sweep finds. No agent has taken the
    request, so it is sent again and no failure is counted."""
    shop.reading("agent.payment", False)
    shop.submit(["stuck"])
    until("payment is asked", lambda: (o := shop.order("stuck")) and o["steps"][1]["state"] == "running")
    until(
        "a sweep has it asked for again",
        lambda: shop.order("stuck")["steps"][1].get("deferred_since"), patience=300,
    )
    expect(shop.order("stuck")["steps"][1].get("failures", 0) == 0, "waiting counted as a failure")
    shop.reading("agent.payment", True)
    until("the order is processed", lambda: shop.state("stuck") == "Processed", patience=240)
    shop.nothing_twice(1)


def a_function_and_a_queue_are_called_with_the_roles_of_their_agents(shop):
    """The function is one that exists already: it sees its event alone. The emulator checks signatures' roles."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as zip:
        zip.writestr("index.py", "def handler(event, context):\n    return {'number': 'R-' + str(event['amount'])}\n")
    trust = {"Version": "2012-10-17", "Statement": [{
        "Effect": "Allow", "Principal": {"Service": "lambda.amazonaws.com"}, "Action": "sts:AssumeRole"}]}
    role = shop.aws["iam"].create_role(RoleName="receipt", AssumeRolePolicyDocument=json.dumps(trust))["Role"]["Arn"]
    shop.aws["lambda"].create_function(
        FunctionName="receipt", Runtime="python3.12", Handler="index.handler", Role=role, Code={"ZipFile": file.getvalue()},
    )
    queue = shop.aws["sqs"].create_queue(QueueName="parcels.fifo", Attributes={"FifoQueue": "true"})["QueueUrl"]
    (shop.local.directory / "my-shop/workflows/receipts.yaml").write_text("""workflow: receipts
steps:
  - id: receipt
    agent: receipt
    action: print
    input: { amount: "${details.amount}" }
    compensation: none
  - id: parcel
    agent: parcels
    action: pack
    input: { number: "${steps.receipt.number}" }
    compensation: none
""")
    shop.terraform("apply", "-auto-approve")
    order = {"order_id": "of-aws", "workflow": "receipts", "details": {"amount": 12}}
    shop.triad("submit", "-", input=json.dumps(order) + "\n")
    until("the order is processed", lambda: shop.state("of-aws") == "Processed")
    messages = shop.aws["sqs"].receive_message(QueueUrl=queue, MessageAttributeNames=["All"], AttributeNames=["All"])["Messages"]
    expect(len(messages) == 1 and json.loads(messages[0]["Body"]) == {"number": "R-12"}, str(messages))
    attributes = {name: value["StringValue"] for name, value in messages[0]["MessageAttributes"].items()}
    expect(attributes["triad-order"] == "of-aws" and attributes["idempotency-key"] == "of-aws/parcel/forward", str(attributes))
    expect(messages[0]["Attributes"]["MessageGroupId"] == "of-aws", str(messages))
    shop.aws["sqs"].delete_queue(QueueUrl=queue)
    shop.aws["lambda"].delete_function(FunctionName="receipt")
    shop.aws["iam"].delete_role(RoleName="receipt")


def an_alert_reaches_subscribers(shop):
    """A record that cannot be decoded becomes a dead letter; its alert passes the function and SNS to a queue."""
    queue = shop.aws["sqs"].create_queue(QueueName="on-call")["QueueUrl"]
    arn = shop.aws["sqs"].get_queue_attributes(QueueUrl=queue, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    policy = {"Version": "2012-10-17", "Statement": [{
        "Effect": "Allow", "Principal": {"Service": "sns.amazonaws.com"}, "Action": "sqs:SendMessage", "Resource": arn}]}
    shop.aws["sqs"].set_queue_attributes(QueueUrl=queue, Attributes={"Policy": json.dumps(policy)})
    topics = [t["TopicArn"] for t in shop.aws["sns"].list_topics()["Topics"]]
    topic = next(t for t in topics if t.endswith(f":{PREFIX}alerts"))
    subscribed = shop.aws["sns"].subscribe(TopicArn=topic, Protocol="sqs", Endpoint=arn)
    shop.triad("submit", "--raw", "-", input="no JSON at all\n")

    def told():
        messages = shop.aws["sqs"].receive_message(QueueUrl=queue).get("Messages", [])
        bodies = [json.loads(m["Body"]) for m in messages]
        return [b for b in bodies if "dead-letter" in b.get("Message", "")]

    alert = until("the alert is in the queue", told)[0]
    expect(alert["Subject"] == "Triad: a record could not be taken", alert["Subject"])
    expect(alert["MessageAttributes"]["kind"]["Value"] == "dead-letter", str(alert))
    shop.rings("dead-letters")
    shop.aws["sns"].unsubscribe(SubscriptionArn=subscribed["SubscriptionArn"])
    shop.aws["sqs"].delete_queue(QueueUrl=queue)


def the_doctor_finds_nothing_wrong(shop):
    """Without the two rights the emulator refuses what AWS allows: it knows these actions on every resource only. It
    confirms subscriptions itself."""
    statement = {"Effect": "Allow", "Action": ["scheduler:GetSchedule", "cloudwatch:DescribeAlarms"], "Resource": "*"}
    shop.aws["iam"].put_role_policy(
        RoleName=f"{PREFIX}setup-{REGION}", PolicyName="emulator",
        PolicyDocument=json.dumps({"Version": "2012-10-17", "Statement": [statement]}),
    )
    wrong = shop.doctor()
    expect(not wrong and not shop.ringing, f"wrong: {wrong}, ringing: {shop.ringing}")
    parts = {"broker", "topic", "table", "function", "mapping", "role", "schedule", "alarm", "subscription", "clock", "agent"}
    expect(shop.looked_at == parts, f"looked at {shop.looked_at}")
    refused = shop.triad("publish", "examples/workflows/three-steps.yaml", "--account", "111122223333", check=False)
    expect(refused.returncode == 2 and "of 111122223333: log in to that one; nothing was done" in refused.stdout, refused.stdout)


def each_fault_of_a_bad_day_is_named_with_the_next_step(shop):
    """One fault after the other, each mended again. The texts are those of the runbook's section A bad day."""
    aws = shop.aws

    def named(part, name, *texts):
        wrong = shop.doctor()
        expect(set(wrong) == {(part, name)}, f"wrong: {wrong}")
        for text in texts:
            expect(text in wrong[(part, name)], f"{text!r} is not in {wrong}")

    role = f"{PREFIX}scheduler-{REGION}"
    policy = aws["iam"].get_role_policy(RoleName=role, PolicyName="function")["PolicyDocument"]
    aws["iam"].put_role_policy(RoleName=role, PolicyName="function", PolicyDocument=json.dumps({**policy, "Statement": policy["Statement"][1:]}))
    named("role", role, "apply the module again")
    shop.terraform("apply", "-auto-approve")

    shop.reading("orders", False)
    named("mapping", f"{PREFIX}orders", "nothing reads the topic", "mapping.enabled")
    shop.reading("orders", True)

    function = f"{PREFIX}submission"
    spoilt = io.BytesIO()
    with zipfile.ZipFile(spoilt, "w") as zip:
        entry = zipfile.ZipInfo("bootstrap")
        entry.external_attr = 0o100755 << 16
        zip.writestr(entry, "#!/bin/sh\nexit 3\n")
    aws["lambda"].update_function_code(FunctionName=function, ZipFile=spoilt.getvalue())
    named("function", function, "it fails when it is invoked", "packages")
    for _ in range(5):
        aws["lambda"].invoke(FunctionName=function, Payload="{}")
    shop.rings("submission-errors")
    aws["lambda"].update_function_code(FunctionName=function, ZipFile=(shop.packages / "submission.zip").read_bytes())

    table = f"{PREFIX}control"
    expiry = lambda on: aws["dynamodb"].update_time_to_live(
        TableName=table, TimeToLiveSpecification={"Enabled": on, "AttributeName": "ExpiresAt"})
    expiry(False)
    named("table", table, "do not expire", "ExpiresAt")
    expiry(True)

    schedule = aws["scheduler"].get_schedule(GroupName=PREFIX.strip("-"), Name=f"{PREFIX}supervisor")
    keep = ["GroupName", "Name", "ScheduleExpression", "FlexibleTimeWindow", "Target"]
    switch = lambda state: aws["scheduler"].update_schedule(**{key: schedule[key] for key in keep}, State=state)
    switch("DISABLED")
    named("schedule", f"{PREFIX}supervisor", "no overdue order is found", "supervisor_enabled")
    switch("ENABLED")

    alarm = f"{PREFIX}dead-letters"
    aws["cloudwatch"].delete_alarms(AlarmNames=[alarm])
    named("alarm", alarm, "does not exist", "apply the module again")
    shop.terraform("apply", "-auto-approve")

    port = shop.local.service.rsplit(":", 1)[1]
    shop.local.stop("reference")
    wrong = shop.doctor()
    expect(set(wrong) == {("agent", name) for name in ["inventory", "payment", "carrier"]}, f"wrong: {wrong}")
    expect("security groups" in wrong[("agent", "payment")], str(wrong))
    shop.local.start("reference", [shop.local.binaries / "triad-reference-service", "--listen", f"127.0.0.1:{port}"])

    places = (shop.local.plain, shop.local.brokers)
    shop.local.stop("broker", 9)
    wrong = shop.doctor()
    expect(("brokers", shop.local.brokers) in wrong, f"wrong: {wrong}")
    shop.local.start_broker(*places)
    until("nothing else is wrong", lambda: not shop.doctor())
    shop.submit(["after-the-bad-day"])
    until("an order is processed", lambda: shop.state("after-the-bad-day") == "Processed", patience=240)


def without_one_permission_exactly_its_step_fails(shop):
    """Without its permission to write process records, Submission stores no new order; orders under way end."""
    shop.reading("agent.carrier", False)
    shop.submit(["under-way"])
    until("it is under way", lambda: (o := shop.order("under-way")) and o["steps"][2]["state"] == "running")
    role = f"{PREFIX}submission-{REGION}"
    iam = shop.aws["iam"]
    policy = iam.get_role_policy(RoleName=role, PolicyName="function")["PolicyDocument"]
    less = json.loads(json.dumps(policy))
    for statement in less["Statement"]:
        if statement["Sid"] == "TableOrderState":
            statement["Action"].remove("dynamodb:PutItem")
    expect(less != policy, "there was no such permission")
    before = len(denials(shop))
    iam.put_role_policy(RoleName=role, PolicyName="function", PolicyDocument=json.dumps(less))
    shop.submit(["refused"])
    until("Submission says why", lambda: len(denials(shop)) > before)
    shop.rings("misconfigured")
    shop.reading("agent.carrier", True)
    until("the order under way is processed", lambda: shop.state("under-way") == "Processed", patience=240)
    expect(shop.order("refused") is None, "an order was stored without permission")
    iam.put_role_policy(RoleName=role, PolicyName="function", PolicyDocument=json.dumps(policy))
    until("the order that was refused is processed", lambda: shop.state("refused") == "Processed", patience=240)
    letters = shop.triad("dead-letters", "list", "--json").stdout
    expect('"kind":"letter"' in letters, "the poison record of before is not among the letters")
    expect("refused" not in letters, "an order was dead-lettered for a missing permission")


def denials(shop):
    """The lines about denied access in Submission's log."""
    return [line for line in shop.log_lines("submission") if "AccessDenied" in line]


def an_upgrade_leaves_orders_under_way_on_their_version(shop):
    """A workflow version with a fourth step is deployed while an order is in its second step."""
    shop.reading("agent.payment", False)
    shop.submit(["before"])
    until("it is under way", lambda: (o := shop.order("before")) and o["steps"][1]["state"] == "running")
    file = shop.local.directory / "my-shop/workflows/three-steps.yaml"
    file.write_text(file.read_text() + """  - id: insure
    agent: carrier
    action: insure
    input: { city: "${details.city}" }
    compensation: { action: uninsure }
""")
    old = shop.order("before")["workflow"]
    shop.terraform("apply", "-auto-approve")
    # For up to ten seconds a function may use the version that it read last (Settings::refresh_definitions). So
    # orders are submitted until one has the new version.
    ids = ["before"]

    def on_the_new_version():
        ids.append(f"after-{len(ids)}")
        shop.submit([ids[-1]])
        until("it is stored", lambda: shop.order(ids[-1]))
        return shop.order(ids[-1])["workflow"] != old

    until("an order is on the new version", on_the_new_version, patience=60)
    shop.reading("agent.payment", True)
    until("all are processed", lambda: shop.all_processed(ids), patience=240)
    before, after = (shop.order(id) for id in (ids[0], ids[-1]))
    expect([len(o["steps"]) for o in (before, after)] == [3, 4], f"{before['steps']} {after['steps']}")
    expect(before["workflow"] == old != after["workflow"], f"{before['workflow']} {after['workflow']}")


def a_broker_that_dies_loses_nothing(shop):
    """The broker is killed while it holds unread requests, and just after twenty orders were submitted."""
    # While the carrier takes no requests, the Scheduler may start only few orders for it.
    waiting = [f"waits-{n}" for n in range(5)]
    ids = waiting + [f"crash-{n}" for n in range(20)]
    shop.reading("agent.carrier", False)
    shop.submit(waiting)
    until("the carrier is asked", lambda: any((o := shop.order(id)) and o["steps"][2]["state"] == "running" for id in waiting))
    shop.submit(ids[len(waiting):])
    places = (shop.local.plain, shop.local.brokers)
    shop.local.stop("broker", 9)
    shop.local.start_broker(*places)
    expect((shop.local.plain, shop.local.brokers) == places, "the broker is back elsewhere")
    expect(not any(shop.state(id) == "Processed" for id in waiting), "the kill has met no work")
    shop.reading("agent.carrier", True)
    until("the orders are processed", lambda: shop.all_processed(ids), patience=300)
    shop.nothing_twice(len(ids))


def a_second_plan_is_clean(shop):
    """Only the types named here may show changes, because the emulator does not keep them."""
    plan = shop.terraform("plan", "-detailed-exitcode", "-out=second", check=False)
    expect(plan.returncode in (0, 2), plan.stdout[-2000:])
    changes = json.loads(shop.terraform("show", "-json", "second").stdout).get("resource_changes", [])
    expect(len(changes) > 50, f"a plan of {len(changes)} resources has not looked at the installation")
    changed = sorted({c["type"] for c in changes if c["change"]["actions"] not in (["no-op"], ["read"])})
    expect(set(changed) <= {"aws_cloudwatch_metric_alarm"}, f"a second plan changes {changed}")
    shop.numbers["types that a second plan changes"] = ", ".join(changed) or "none"


def own_things(shop):
    """The installation's resources in the account, by kind."""
    aws = shop.aws
    own = lambda names: sorted(name for name in names if PREFIX in name)
    return {
        "tables": own(aws["dynamodb"].list_tables()["TableNames"]),
        "functions": own(f["FunctionName"] for f in aws["lambda"].list_functions()["Functions"]),
        "mappings": aws["lambda"].list_event_source_mappings()["EventSourceMappings"],
        "roles": own(r["RoleName"] for r in aws["iam"].list_roles()["Roles"]),
        "schedules": own(s["Name"] for s in aws["scheduler"].list_schedules()["Schedules"]),
        "log groups": own(g["logGroupName"] for g in aws["logs"].describe_log_groups()["logGroups"]),
        "topics": own(t["TopicArn"] for t in aws["sns"].list_topics()["Topics"]),
        "alarms": own(a["AlarmName"] for a in aws["cloudwatch"].describe_alarms()["MetricAlarms"]),
        "buckets": own(b["Name"] for b in aws["s3"].list_buckets()["Buckets"]),
        "aliases": own(a["AliasName"] for a in aws["kms"].list_aliases()["Aliases"]),
    }


def destroy_leaves_nothing(shop):
    # The check needs at least one thing of each kind before. Exceptions: the bucket existed already, and the
    # installation creates no key.
    unseen = sorted(kind for kind, names in own_things(shop).items() if not names)
    expect(set(unseen) <= {"buckets", "aliases"}, f"the installation has no {unseen}")
    for table in own_things(shop)["tables"]:
        described = shop.aws["dynamodb"].describe_table(TableName=table)["Table"]
        expect(described.get("DeletionProtectionEnabled"), f"the table {table} is not protected")
    for command in ["apply", "destroy"]:
        shop.terraform(command, "-auto-approve", "-var", "deletion_protection=false")
    left = {kind: names for kind, names in own_things(shop).items() if names}
    expect(not left, f"left behind: {left}")


CHECKS = [
    the_page_is_followed_word_for_word,
    the_zips_that_were_built_are_what_runs,
    orders_of_both_lanes_finish_with_each_effect_once,
    the_doctor_finds_nothing_wrong,
    a_function_and_a_queue_are_called_with_the_roles_of_their_agents,
    an_alert_reaches_subscribers,
    the_console_lets_an_operator_in_and_shows_an_order,
    the_schedule_fires_and_the_supervisor_recovers_an_order,
    without_one_permission_exactly_its_step_fails,
    a_broker_that_dies_loses_nothing,
    an_upgrade_leaves_orders_under_way_on_their_version,
    a_second_plan_is_clean,
    each_fault_of_a_bad_day_is_named_with_the_next_step,
    destroy_leaves_nothing,
]


def main():
    directory = tempfile.mkdtemp(prefix="triad-deployed-")
    local = Local(directory)
    failed = False
    try:
        local.start_all()
        shop = Deployment(local)
        for check in CHECKS:
            say(f"== {check.__name__.replace('_', ' ')}")
            began = time.monotonic()
            check(shop)
            say(f"   ok, {time.monotonic() - began:.0f} s")
        for name, number in shop.numbers.items():
            say(f"   {name}: {number}")
    except Failed as why:
        failed = True
        say(f"deployed: FAILED: {why}")
    finally:
        local.stop_all()
        if failed or os.environ.get("TRIAD_KEEP"):
            say(f"deployed: logs and state are in {directory}")
        else:
            remove(directory)
    say("deployed: FAILED" if failed else "deployed: all is well")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
