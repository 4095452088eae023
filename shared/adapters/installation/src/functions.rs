//! Settings of functions and of their event source mappings that the Terraform provider cannot make.

use std::time::Duration;

use aws_sdk_lambda::Client;
use aws_sdk_lambda::config::retry::RetryConfig;
use aws_sdk_lambda::config::timeout::TimeoutConfig;
use aws_sdk_lambda::error::ProvideErrorMetadata as _;
use aws_sdk_lambda::types::{
    EventSourceMappingMetric, EventSourceMappingMetricsConfig, ProvisionedPollerConfig,
};
use serde::Deserialize;
use triad_aws::SdkConfig;

use crate::finding::causes;

/// Id of the statement in the policy of the console's function.
const STATEMENT: &str = "EverybodyInvokesByTheUrl";

/// The pollers of one event source mapping.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MappingPollers {
    /// Id of the mapping.
    pub uuid: String,
    /// Fewest pollers; absent in plain mode.
    #[serde(default)]
    pub least: Option<i32>,
    /// Most pollers; absent in plain mode.
    #[serde(default)]
    pub most: Option<i32>,
    /// Longest wait for a batch to fill, in seconds. Absent: it stays as it is.
    #[serde(default)]
    pub window: Option<i32>,
}

/// Why a setting could not be made, for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SetupError(pub String);

impl std::fmt::Display for SetupError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// Longest wait for the answer of an invoked function.
const INVOKED_WITHIN: Duration = Duration::from_secs(60);

/// A client that waits for the answers of functions, and does not invoke one twice.
pub(crate) fn invoking(aws: &SdkConfig) -> Client {
    let limits = TimeoutConfig::builder()
        .operation_timeout(INVOKED_WITHIN)
        .operation_attempt_timeout(INVOKED_WITHIN)
        .read_timeout(INVOKED_WITHIN)
        .build();
    let config = aws_sdk_lambda::config::Builder::from(aws)
        .timeout_config(limits)
        .retry_config(RetryConfig::disabled());
    Client::from_conf(config.build())
}

/// Sets the pollers of mappings, and puts these into one group, which shares poller units; an empty group takes them out
/// of any. Mappings report all their metrics from then on, those of errors too.
///
/// # Errors
/// [`SetupError`] for the first mapping that cannot be changed; those before it are.
pub async fn set_pollers(
    aws: &SdkConfig,
    group: &str,
    mappings: &[MappingPollers],
) -> Result<(), SetupError> {
    let client = Client::new(aws);
    for mapping in mappings {
        let pollers = mapping.least.zip(mapping.most).map(|(least, most)| {
            ProvisionedPollerConfig::builder()
                .minimum_pollers(least)
                .maximum_pollers(most)
                .poller_group_name(group)
                .build()
        });
        let metrics = EventSourceMappingMetricsConfig::builder()
            .metrics(EventSourceMappingMetric::EventCount)
            .metrics(EventSourceMappingMetric::ErrorCount)
            .build();
        let update = client.update_event_source_mapping();
        let updated = update
            .uuid(&mapping.uuid)
            .set_provisioned_poller_config(pollers)
            .metrics_config(metrics)
            .set_maximum_batching_window_in_seconds(mapping.window)
            .send()
            .await;
        updated.map_err(|e| {
            let why = causes(&e);
            SetupError(format!("the mapping {} cannot be set: {why}", mapping.uuid))
        })?;
    }
    Ok(())
}

/// Lets everybody invoke the console's function by its URL, and by nothing else: a URL needs this since October 2025
/// beside the permission to use the URL (AWS Lambda Developer Guide, "Control access to Lambda function URLs").
///
/// # Errors
/// [`SetupError`] if Lambda refuses the statement.
pub async fn allow_console(aws: &SdkConfig, function: &str) -> Result<(), SetupError> {
    let client = Client::new(aws);
    let added = client
        .add_permission()
        .function_name(function)
        .statement_id(STATEMENT)
        .action("lambda:InvokeFunction")
        .principal("*")
        .invoked_via_function_url(true)
        .send()
        .await;
    match added {
        Ok(_) => Ok(()),
        // The code alone may also mean that the function is being changed.
        Err(e)
            if e.code() == Some("ResourceConflictException")
                && e.message()
                    .is_some_and(|text| text.contains("already exists")) =>
        {
            Ok(())
        }
        Err(e) => {
            let why = causes(&e);
            let text = format!("the function {function} cannot be opened for its URL: {why}");
            Err(SetupError(text))
        }
    }
}
