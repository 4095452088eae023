//! Examines an installation, part by part, from where it runs. Nothing is changed: functions are invoked with an empty
//! batch, the Supervisor for a sweep.

mod aws;
mod reached;

use aws_sdk_lambda::primitives::Blob;
use serde::Deserialize;
use triad_aws::SdkConfig;
use triad_dynamodb::{Client, Tables};
use triad_kafka::KafkaConfig;

use crate::finding::{Finding, causes};
use crate::functions::invoking;
use crate::parts::Parts;

/// Examines the parts. Without `tables` no table is examined, and without `aws` nothing else of AWS. Takes at most about
/// 30 s, and as much more for each function whose invocation takes that long.
pub async fn examine(
    kafka: Option<&KafkaConfig>,
    tables: Option<(&Client, &Tables)>,
    aws: Option<&SdkConfig>,
    parts: &Parts,
) -> Vec<Finding> {
    let of_kafka = async {
        match kafka {
            Some(kafka) => reached::kafka(kafka, parts).await,
            None => Vec::new(),
        }
    };
    let of_tables = async {
        match tables {
            Some((client, tables)) => reached::tables(client, tables).await,
            None => Vec::new(),
        }
    };
    let of_aws = async {
        match aws {
            Some(aws) => aws::examine(aws, parts).await,
            None => Vec::new(),
        }
    };
    let of_agents = reached::agents(parts);
    let (kafka, tables, aws, agents) = tokio::join!(of_kafka, of_tables, of_aws, of_agents);
    [kafka, tables, aws, agents].concat()
}

/// Lets the function `setup` of an installation examine it, from inside its network and with its rights.
///
/// # Errors
/// Why the function cannot be invoked or fails, for people.
pub async fn examine_by_function(aws: &SdkConfig, function: &str) -> Result<Vec<Finding>, String> {
    let client = invoking(aws);
    let invoke = client.invoke().function_name(function);
    let invoked = invoke.payload(Blob::new(r#"{"do":"doctor"}"#)).send().await;
    let invoked = invoked.map_err(|e| {
        let why = causes(&e);
        format!("the function {function} cannot be invoked: {why}; is this its name, in this region and account, and may you invoke it?")
    })?;
    let answer = invoked.payload.map(Blob::into_inner).unwrap_or_default();
    if invoked.function_error.is_some() {
        let answer = String::from_utf8_lossy(&answer);
        return Err(format!(
            "the function {function} failed: {answer}; its log says more"
        ));
    }
    #[derive(Deserialize)]
    struct Answer {
        findings: Vec<Finding>,
    }
    let answer: Answer = serde_json::from_slice(&answer)
        .map_err(|e| format!("the function {function} answered something else than findings: {e}; is it the function setup?"))?;
    Ok(answer.findings)
}
