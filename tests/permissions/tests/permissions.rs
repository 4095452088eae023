//! Least privilege: for every role of the Terraform module, each permission is removed once.
//!
//! The permissions are read from what Terraform renders (`infra/tests/permissions.json`, which `tests/infra.sh`
//! compares with the module). With the whole policy, no request of a role's function is denied; without any one
//! permission, a part of its work fails.

use std::collections::BTreeSet;

use triad_permissions::policy::{Installation, Permission, installations};
use triad_permissions::verdict::{UnprovenGrant, of_role};

/// Every granted action that no run proves to be needed, with the reason.
const LEFT: [UnprovenGrant; 39] = [
    // Lambda itself uses these with a function's role; the function's code does not, so no run can show them.
    left(
        "logs:CreateLogStream",
        "Lambda writes the functions' logs with their roles",
    ),
    left(
        "logs:PutLogEvents",
        "Lambda writes the functions' logs with their roles",
    ),
    left(
        "xray:PutTelemetryRecords",
        "Lambda traces invocations with the functions' roles",
    ),
    left(
        "xray:PutTraceSegments",
        "Lambda traces invocations with the functions' roles",
    ),
    left("ec2:AssignPrivateIpAddresses", NETWORK),
    left("ec2:CreateNetworkInterface", NETWORK),
    left("ec2:DeleteNetworkInterface", NETWORK),
    left("ec2:DescribeNetworkInterfaces", NETWORK),
    left("ec2:DescribeSecurityGroups", NETWORK),
    left("ec2:DescribeSubnets", NETWORK),
    left("ec2:DescribeVpcs", NETWORK),
    left("ec2:UnassignPrivateIpAddresses", NETWORK),
    left(
        "s3:ListBucket",
        "Lambda keeps records that it gives up with the functions' roles",
    ),
    left(
        "s3:PutObject",
        "Lambda keeps records that it gives up with the functions' roles",
    ),
    // AWS services use the key on behalf of the role; the engines of the tests do not encrypt.
    left(
        "kms:Decrypt",
        "DynamoDB, Lambda, SNS and Secrets Manager open what they hold",
    ),
    left("kms:DescribeKey", "DynamoDB looks at the key of a table"),
    left("kms:GenerateDataKey", "SNS and S3 encrypt what is written"),
    // Lambda's mapping reads the topics with the function's role; the mapping of the tests needs no login.
    left("kafka:DescribeClusterV2", MAPPING),
    left("kafka:GetBootstrapBrokers", MAPPING),
    left("kafka-cluster:AlterGroup", MAPPING),
    left("kafka-cluster:DescribeClusterDynamicConfiguration", MAPPING),
    left("kafka-cluster:DescribeGroup", MAPPING),
    left("kafka-cluster:ReadData", MAPPING),
    // The embedded broker checks access only for writes.
    left("kafka-cluster:Connect", PRODUCER),
    left("kafka-cluster:DescribeTopic", PRODUCER),
    left("kafka-cluster:WriteDataIdempotently", PRODUCER),
    // The schedule's role belongs to no function of Triad.
    UnprovenGrant {
        roles: &["schedule", "setup"],
        ..left(
            "lambda:InvokeFunction",
            "EventBridge Scheduler starts the Supervisor, and the doctor invokes every function",
        )
    },
    of_setup("cloudwatch:DescribeAlarms", DOCTOR),
    of_setup("dynamodb:DescribeTable", DOCTOR),
    of_setup("dynamodb:DescribeTimeToLive", DOCTOR),
    of_setup("iam:GetRolePolicy", DOCTOR),
    of_setup("kafka-cluster:CreateTopic", APPLY),
    of_setup("kafka-cluster:DescribeTopicDynamicConfiguration", APPLY),
    of_setup("lambda:AddPermission", APPLY),
    of_setup("lambda:GetFunctionConfiguration", DOCTOR),
    of_setup("lambda:ListEventSourceMappings", DOCTOR),
    of_setup("lambda:UpdateEventSourceMapping", APPLY),
    of_setup("scheduler:GetSchedule", DOCTOR),
    of_setup("sns:ListSubscriptionsByTopic", DOCTOR),
];
const DOCTOR: &str = "the deployed test examines an installation with this role";
const APPLY: &str = "the deployed test sets an installation up with this role";
const NETWORK: &str = "Lambda makes the functions' network interfaces with their roles";
const MAPPING: &str = "Lambda finds and reads the topics of a function with its role";
const PRODUCER: &str = "a producer connects, asks for its topics and gets an id for its writes";

/// Every permission whose absence makes work fail without a sign to operators: role, action, end of the resource's
/// ARN, and the consequence.
const QUIET: [(&str, &str, &str, &str); 9] = [
    (
        "console",
        "kafka-cluster:WriteData",
        "/triad-alerts",
        "a downstream is paused all the same, and an agent tells of it; the log says why",
    ),
    (
        "console",
        "kafka-cluster:WriteData",
        "/triad-reply.shop",
        "the act is done all the same, and the Supervisor sends what it told; the log says why",
    ),
    (
        "console",
        "kafka-cluster:WriteData",
        "/triad-status",
        "the act is done all the same, and the Supervisor sends what it told; the log says why",
    ),
    (
        "scheduler",
        "dynamodb:GetItem",
        "/triad-control",
        "operators are not shown what waits for room; the log says why",
    ),
    (
        "scheduler",
        "dynamodb:PutItem",
        "/triad-control",
        "operators are not shown what waits for room; the log says why",
    ),
    (
        "scheduler",
        "dynamodb:Query",
        "/index/due",
        "orders that are set aside are let in by the next sweep; the log says why",
    ),
    (
        "scheduler",
        "dynamodb:UpdateItem",
        "/triad-orders",
        "outputs beside a record stay for longer than it; the log says why",
    ),
    (
        "supervisor",
        "dynamodb:UpdateItem",
        "/triad-orders",
        "outputs beside a record stay for longer than it; the log says why",
    ),
    (
        "supervisor",
        "kafka-cluster:WriteData",
        "/triad-alerts",
        "an alert cannot say that alerts are refused: the alarm on the log line does",
    ),
];

const fn left(action: &'static str, why: &'static str) -> UnprovenGrant {
    UnprovenGrant {
        action,
        roles: &[],
        why,
    }
}

const fn of_setup(action: &'static str, why: &'static str) -> UnprovenGrant {
    UnprovenGrant {
        roles: &["setup"],
        ..left(action, why)
    }
}

/// The kind of a role's function; all agents are of one kind.
fn kind(role: &str) -> &str {
    match role.starts_with("agent-") {
        true => "agent",
        false => role,
    }
}

fn rendered() -> Vec<Installation> {
    let installations = installations().expect("the roles are rendered");
    assert!(
        installations.len() >= 3,
        "{} installations",
        installations.len()
    );
    installations
}

/// Checks the roles of one kind, in every installation. In total at least `at_least` permissions must be proved to be
/// needed.
async fn holds(of: &str, at_least: usize) {
    let mut problems = Vec::new();
    let mut needed = 0;
    let mut quiet = BTreeSet::new();
    for installation in rendered() {
        for role in installation.roles.keys().filter(|role| kind(role) == of) {
            let verdict = of_role(&installation, role, &LEFT).await;
            let name = &installation.name;
            needed += verdict.needed.len();
            quiet.extend(verdict.quiet.iter().map(|permission| {
                let known = QUIET.iter().position(|(role, action, end, _)| {
                    (kind(role), *action) == (of, &*permission.action)
                        && permission.resource.ends_with(end)
                });
                known.ok_or(permission.clone())
            }));
            let told = verdict.problems.into_iter();
            problems.extend(told.map(|problem| format!("{name}, {role}: {problem}")));
        }
    }
    assert!(problems.is_empty(), "{problems:#?}");
    let silent: BTreeSet<_> = (0..QUIET.len())
        .filter(|&at| QUIET[at].0 == of)
        .map(Ok)
        .collect();
    assert_eq!(quiet, silent, "without these nobody is told: see QUIET");
    assert!(needed >= at_least, "{needed} permissions were tried");
}

#[tokio::test]
async fn submission_may_do_what_it_needs_and_nothing_else() {
    holds("submission", 30).await;
}

#[tokio::test]
async fn the_scheduler_may_do_what_it_needs_and_nothing_else() {
    holds("scheduler", 40).await;
}

#[tokio::test]
async fn the_supervisor_may_do_what_it_needs_and_nothing_else() {
    holds("supervisor", 25).await;
}

#[tokio::test]
async fn agents_may_do_what_they_need_and_nothing_else() {
    holds("agent", 25).await;
}

#[tokio::test]
async fn the_alerts_function_may_do_what_it_needs_and_nothing_else() {
    holds("alerts", 8).await;
}

#[tokio::test]
async fn the_console_may_do_what_it_needs_and_nothing_else() {
    holds("console", 40).await;
}

#[tokio::test]
async fn the_setup_function_may_do_what_it_needs_and_nothing_else() {
    holds("setup", 2).await;
}

#[tokio::test]
async fn what_no_function_of_ours_does_is_named_with_its_reason() {
    holds("schedule", 0).await;
}

#[test]
fn every_role_is_of_a_kind_that_is_looked_at() {
    let known = [
        "agent",
        "alerts",
        "console",
        "schedule",
        "scheduler",
        "setup",
        "submission",
        "supervisor",
    ];
    let installations = rendered();
    let roles = installations.iter().flat_map(|i| i.roles.keys());
    let kinds: BTreeSet<&str> = roles.map(|role| kind(role)).collect();
    assert_eq!(kinds.into_iter().collect::<Vec<_>>(), known);
}

/// The runs prove writes to topics, but not reads; this checks that a role which may describe a topic may also write
/// to it, read it or make it.
#[test]
fn who_may_look_at_a_topic_writes_to_it_reads_it_or_makes_it() {
    let mut looked_at = 0;
    for installation in rendered() {
        for (role, policy) in &installation.roles {
            let topics = |actions: &[&str]| -> BTreeSet<&str> {
                let of = |p: &&Permission| actions.contains(&&*p.action);
                let all = policy.permissions().filter(of);
                all.map(|permission| &*permission.resource).collect()
            };
            let used = topics(&[
                "kafka-cluster:WriteData",
                "kafka-cluster:ReadData",
                "kafka-cluster:CreateTopic",
            ]);
            let name = &installation.name;
            assert_eq!(
                topics(&["kafka-cluster:DescribeTopic"]),
                used,
                "{name}, {role}"
            );
            looked_at += used.len();
        }
    }
    assert!(looked_at > 40, "{looked_at} topics");
}

#[test]
fn what_is_left_out_is_granted_somewhere_and_named_once() {
    let installations = rendered();
    let policies = installations.iter().flat_map(|i| i.roles.values());
    let granted: BTreeSet<&str> = policies
        .flat_map(|policy| policy.permissions())
        .map(|permission| &*permission.action)
        .collect();
    let named: BTreeSet<&str> = LEFT.iter().map(|left| left.action).collect();
    assert_eq!(named.len(), LEFT.len(), "no action is named twice");
    let gone: Vec<_> = named.difference(&granted).collect();
    assert!(gone.is_empty(), "no role has {gone:?} any more");
    assert!(LEFT.iter().all(|left| !left.why.is_empty()));
}
