//! The parts of an installation that AWS describes: functions with their roles and mappings, the schedule, alarms,
//! subscriptions to alerts, the clock.

use std::time::{Duration, UNIX_EPOCH};

use aws_sdk_lambda::primitives::Blob;
use aws_sdk_lambda::types::{LastUpdateStatus, State as FunctionState};
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use triad_aws::{Account, SdkConfig};
use triad_runtime::Clock as _;
use triad_runtime::system::SystemClock;

use crate::account::domain;
use crate::finding::{Finding, causes};
use crate::functions::invoking;
use crate::parts::{Parts, Schedule};

/// Alarms of one request; CloudWatch takes no more.
const ALARMS_AT_ONCE: usize = 100;
/// Characters of a function's error that are shown.
const SHOWN: usize = 300;
/// Largest difference of clocks that is no finding. AWS's answer has whole seconds, and takes some time.
const CLOCK: Duration = Duration::from_secs(2);
/// Longest wait for the clock of AWS.
const CLOCK_WITHIN: Duration = Duration::from_secs(5);
/// A batch without records, which every function that reads topics answers.
const EMPTY_BATCH: &str = r#"{"eventSource":"aws:kafka","records":{}}"#;
/// Functions that read no topic.
const READ_NOTHING: [&str; 3] = ["supervisor", "console", "setup"];

pub(super) async fn examine(aws: &SdkConfig, parts: &Parts) -> Vec<Finding> {
    let (functions, roles, schedule, alarms, subscriptions, clock) = tokio::join!(
        functions(aws, parts),
        roles(aws, parts),
        schedule(aws, parts.schedule.as_ref()),
        alarms(aws, parts),
        subscriptions(aws, parts),
        clock(aws),
    );
    let mut all = functions;
    all.extend([roles, schedule, alarms, subscriptions, clock].concat());
    all
}

async fn functions(aws: &SdkConfig, parts: &Parts) -> Vec<Finding> {
    let client = invoking(aws);
    let looks = parts.functions.iter().map(async |(function, name)| {
        let mut findings = vec![match function_fault(&client, function, name).await {
            Ok(text) => Finding::ok("function", name, text),
            Err(why) => Finding::wrong("function", name, why),
        }];
        if !READ_NOTHING.contains(&function.as_str()) {
            findings.extend(mappings(&client, name).await);
        }
        findings
    });
    futures::future::join_all(looks).await.concat()
}

async fn function_fault(
    client: &aws_sdk_lambda::Client,
    function: &str,
    name: &str,
) -> Result<&'static str, String> {
    let asked = client.get_function_configuration().function_name(name);
    let found = asked.send().await;
    let found = found.map_err(|e| format!("its configuration cannot be read: {}", causes(&e)))?;
    if !matches!(
        found.state,
        Some(FunctionState::Active | FunctionState::Inactive) | None
    ) {
        let state = found.state.as_ref().map_or("", FunctionState::as_str);
        let why = found.state_reason.unwrap_or_default();
        return Err(format!("its state is {state}: {why}"));
    }
    if found.last_update_status == Some(LastUpdateStatus::Failed) {
        let why = found.last_update_status_reason.unwrap_or_default();
        return Err(format!(
            "its last update failed: {why}: apply the module again"
        ));
    }
    let payload = match function {
        // This function is running, and the console answers requests of its URL alone.
        "setup" | "console" => return Ok("it is there"),
        "supervisor" => "{}",
        _ => EMPTY_BATCH,
    };
    let invoked = client
        .invoke()
        .function_name(name)
        .payload(Blob::new(payload))
        .send()
        .await;
    let invoked = invoked.map_err(|e| format!("it cannot be invoked: {}", causes(&e)))?;
    match invoked.function_error {
        None => Ok("it starts and answers"),
        Some(_) => {
            let answer = invoked.payload.map(Blob::into_inner).unwrap_or_default();
            let answer: String = String::from_utf8_lossy(&answer)
                .chars()
                .take(SHOWN)
                .collect();
            Err(format!(
                "it fails when it is invoked: {answer}: its log says more; see whether its zip is the right one (packages), and its role has its rights"
            ))
        }
    }
}

async fn mappings(client: &aws_sdk_lambda::Client, function: &str) -> Vec<Finding> {
    let asked = client.list_event_source_mappings().function_name(function);
    let pages = asked.into_paginator().items().send();
    let listed = match pages.collect::<Result<Vec<_>, _>>().await {
        Ok(listed) => listed,
        Err(e) => {
            let text = format!("the mappings cannot be listed: {}", causes(&e));
            return vec![Finding::wrong("mapping", function, text)];
        }
    };
    if listed.is_empty() {
        let text = "the function has no event source mapping, so nothing reads its topics: apply the module again";
        return vec![Finding::wrong("mapping", function, text)];
    }
    let finding = |mapping: aws_sdk_lambda::types::EventSourceMappingConfiguration| {
        let topics = mapping.topics.unwrap_or_default().join(", ");
        let state = mapping.state.unwrap_or_default();
        let last = mapping.last_processing_result.unwrap_or_default();
        let is_moving = ["Enabled", "Creating", "Enabling", "Updating"].contains(&&*state);
        match (is_moving, last.starts_with("PROBLEM")) {
            (false, _) => Finding::wrong(
                "mapping",
                topics,
                format!(
                    "its state is {state}, so nothing reads the topic: turn it on (mapping.enabled), and see why it was turned off"
                ),
            ),
            (true, true) => Finding::wrong(
                "mapping",
                topics,
                format!(
                    "Lambda cannot read the topic: {last}: see the brokers, the login and the security groups"
                ),
            ),
            (true, false) => {
                Finding::ok("mapping", topics, format!("{state}; last result: {last}"))
            }
        }
    };
    listed.into_iter().map(finding).collect()
}

/// Whether each role still has the policy that the module gave it.
async fn roles(aws: &SdkConfig, parts: &Parts) -> Vec<Finding> {
    let looks = parts.policies.iter().map(async |(role, wanted)| {
        match policy(aws, role).await {
            Err(why) => Finding::wrong("role", role, format!("its policy cannot be read: {why}")),
            Ok(policy) if digest(&policy) == *wanted => {
                Finding::ok("role", role, "it has the rights that the module gave it")
            }
            Ok(_) => {
                let text = "its rights are others than the module gave it: apply the module again, and see who changed them (CloudTrail, PutRolePolicy)";
                Finding::wrong("role", role, text)
            }
        }
    });
    futures::future::join_all(looks).await
}

/// The policy of a role as it was written. The SDK of IAM takes longer to compile than all of this crate.
async fn policy(aws: &SdkConfig, role: &str) -> Result<String, String> {
    let region = aws.region().map(ToString::to_string).unwrap_or_default();
    // IAM has one endpoint in each partition of AWS.
    let (at, domain) = match region.split('-').next() {
        Some("cn") => ("cn-north-1", "iam.cn-north-1.amazonaws.com.cn"),
        Some("us") if region.starts_with("us-gov-") => {
            ("us-gov-west-1", "iam.us-gov.amazonaws.com")
        }
        _ => ("us-east-1", "iam.amazonaws.com"),
    };
    let own = triad_aws::endpoint(aws, "IAM");
    let url = own.unwrap_or_else(|| format!("https://{domain}/"));
    let form = [
        ("Action", "GetRolePolicy"),
        ("Version", "2010-05-08"),
        ("RoleName", role),
        ("PolicyName", "function"),
    ];
    let account = Account::of_config(aws.clone());
    let (status, answer) = triad_http::signed_form(account, ("iam", at, &url), &form).await?;
    let part = |name: &str| {
        let (_, rest) = answer.split_once(&format!("<{name}>"))?;
        Some(rest.split_once(&format!("</{name}>"))?.0)
    };
    match part("PolicyDocument") {
        Some(document) => Ok(decoded(document)),
        None => Err(format!(
            "{status}: {}",
            part("Message").unwrap_or("no policy")
        )),
    }
}

/// A policy as it was written; IAM answers it percent-encoded.
fn decoded(document: &str) -> String {
    let pairs = format!("p={}", document.replace('+', "%2B"));
    let mut pairs = form_urlencoded::parse(pairs.as_bytes());
    pairs
        .next()
        .map_or_else(String::new, |(_, text)| text.into_owned())
}

/// SHA-256 in hex of a policy in the form that Terraform's `jsonencode` gives it: sorted keys, no blanks, and some
/// characters escaped. So a policy that only its layout distinguishes is the same.
fn digest(policy: &str) -> String {
    let json: serde_json::Result<Value> = serde_json::from_str(policy);
    let text = json.map_or_else(|_| policy.to_owned(), |json| json.to_string());
    let text = text.replace('&', "\\u0026");
    let text = text.replace('<', "\\u003c").replace('>', "\\u003e");
    let digest = Sha256::digest(text.as_bytes());
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

async fn schedule(aws: &SdkConfig, schedule: Option<&Schedule>) -> Vec<Finding> {
    let Some(Schedule { group, name }) = schedule else {
        return Vec::new();
    };
    let client = aws_sdk_scheduler::Client::new(aws);
    let found = client
        .get_schedule()
        .group_name(group)
        .name(name)
        .send()
        .await;
    vec![match found {
        Err(e) => {
            let text = format!("it cannot be read: {}", causes(&e));
            Finding::wrong("schedule", name, text)
        }
        Ok(found)
            if found
                .state
                .as_ref()
                .is_some_and(|s| s.as_str() == "ENABLED") =>
        {
            let every = found.schedule_expression.unwrap_or_default();
            Finding::ok("schedule", name, format!("it is on: {every}"))
        }
        Ok(_) => {
            let text = "it is off, so no overdue order is found: turn it on (supervisor_enabled)";
            Finding::wrong("schedule", name, text)
        }
    }]
}

async fn alarms(aws: &SdkConfig, parts: &Parts) -> Vec<Finding> {
    let client = aws_sdk_cloudwatch::Client::new(aws);
    let mut findings = Vec::new();
    for names in parts.alarms.chunks(ALARMS_AT_ONCE) {
        let asked = client
            .describe_alarms()
            .set_alarm_names(Some(names.to_vec()));
        let found = match asked.max_records(100).send().await {
            Ok(found) => found.metric_alarms.unwrap_or_default(),
            Err(e) => {
                let text = format!("they cannot be read: {}", causes(&e));
                findings.push(Finding::wrong("alarms", "", text));
                continue;
            }
        };
        for name in names {
            let alarm = found
                .iter()
                .find(|one| one.alarm_name.as_ref() == Some(name));
            let state = alarm.and_then(|one| one.state_value.as_ref());
            let wrong = match alarm {
                None => Some("it does not exist: apply the module again".to_owned()),
                Some(one) if one.actions_enabled == Some(false) => Some(
                    "its actions are turned off, so it sends no notification: turn them on"
                        .to_owned(),
                ),
                Some(one) if state.is_some_and(|s| s.as_str() == "ALARM") => {
                    let why = one.state_reason.as_deref().unwrap_or_default();
                    Some(format!(
                        "it rings: {why}: its description names the section of the runbook"
                    ))
                }
                Some(one)
                    if state.is_some_and(|s| s.as_str() == "INSUFFICIENT_DATA")
                        && one
                            .insufficient_data_actions
                            .as_ref()
                            .is_some_and(|all| !all.is_empty()) =>
                {
                    let text =
                        "there is no data yet of what it watches: see whether that has begun";
                    Some(text.to_owned())
                }
                Some(_) => None,
            };
            findings.extend(wrong.map(|why| Finding::wrong("alarm", name, why)));
        }
    }
    if findings.is_empty() && !parts.alarms.is_empty() {
        let text = format!("all {} exist, and none rings", parts.alarms.len());
        findings.push(Finding::ok("alarms", "", text));
    }
    findings
}

async fn subscriptions(aws: &SdkConfig, parts: &Parts) -> Vec<Finding> {
    let Some(topic) = &parts.alerts_topic_arn else {
        return Vec::new();
    };
    let client = aws_sdk_sns::Client::new(aws);
    let asked = client.list_subscriptions_by_topic().topic_arn(topic);
    let pages = asked.into_paginator().items().send();
    let part = "subscription";
    let all = match pages.collect::<Result<Vec<_>, _>>().await {
        Ok(all) => all,
        Err(e) => {
            let text = format!("the subscriptions cannot be listed: {}", causes(&e));
            return vec![Finding::wrong(part, topic, text)];
        }
    };
    if all.is_empty() {
        let text = "the topic of alerts has no subscription, so no person gets an alert: set alert_subscriptions";
        return vec![Finding::wrong(part, topic, text)];
    }
    let finding = |one: aws_sdk_sns::types::Subscription| {
        let (protocol, endpoint) = (
            one.protocol.unwrap_or_default(),
            one.endpoint.unwrap_or_default(),
        );
        let name = format!("{protocol} {endpoint}");
        match one
            .subscription_arn
            .is_some_and(|arn| arn.starts_with("arn:"))
        {
            true => Finding::ok(part, name, "it is confirmed"),
            false => Finding::wrong(
                part,
                name,
                "it is not confirmed, so it gets nothing: confirm it by the link that SNS sent",
            ),
        }
    };
    all.into_iter().map(finding).collect()
}

/// The difference between this machine's clock and AWS's, by the header `date` of DynamoDB's answer.
async fn clock(aws: &SdkConfig) -> Vec<Finding> {
    let region = aws.region().map(ToString::to_string).unwrap_or_default();
    let own = triad_aws::endpoint(aws, "DynamoDB");
    let url = own.unwrap_or_else(|| format!("https://dynamodb.{region}.{}/", domain(&region)));
    let asked = async {
        let client = triad_http::client_builder().build();
        let client = client.map_err(|e| e.to_string())?;
        let answer = client.get(url).timeout(CLOCK_WITHIN).send().await;
        let answer = answer.map_err(|e| causes(&e.without_url()))?;
        let date = answer.headers().get("date").and_then(|at| at.to_str().ok());
        let theirs = httpdate::parse_http_date(date.ok_or("the answer has no date")?);
        let theirs = theirs.map_err(|e| e.to_string())?;
        let ours = UNIX_EPOCH + Duration::from_millis(SystemClock.now().0);
        Ok::<_, String>(ours.duration_since(theirs).unwrap_or_else(|e| e.duration()))
    };
    match asked.await {
        Err(why) => {
            let text = format!("it cannot be compared with that of AWS: {why}");
            vec![Finding::wrong("clock", "", text)]
        }
        Ok(apart) if apart <= CLOCK => {
            vec![Finding::ok("clock", "", "it agrees with that of AWS")]
        }
        Ok(apart) => {
            let text = format!(
                "it is {} s from that of AWS: set it by NTP; deadlines are judged by it",
                apart.as_secs()
            );
            vec![Finding::wrong("clock", "", text)]
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_is_known_whatever_its_layout_is() {
        let written = r#"{"Statement":[{"Action":["a:B"],"Resource":["\u003c*\u0026"]}],"Version":"2012-10-17"}"#;
        let laid_out = decoded(
            "%7B%22Version%22%3A+%222012-10-17%22%2C%22Statement%22%3A%5B%7B%22Resource%22%3A%5B%22%3C%2A%26%22%5D%2C%22Action%22%3A%5B%22a%3AB%22%5D%7D%5D%7D"
                .replace('+', "%20")
                .as_str(),
        );
        assert_eq!(digest(&laid_out), digest(written));
        let raw = Sha256::digest(written.as_bytes());
        let raw: String = raw.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(digest(written), raw, "as Terraform hashes it");
        assert_ne!(digest(&written.replace("a:B", "a:C")), raw);
    }
}
