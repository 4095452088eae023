//! Making a client: AWS, LocalStack or an embedded engine.

use std::time::Duration;

use aws_config::BehaviorVersion;
use aws_config::retry::RetryConfig;
use aws_config::timeout::TimeoutConfig;
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::{Credentials, Region, SharedHttpClient};

/// Where the tables are.
#[derive(Debug, Clone)]
pub enum Endpoint {
    /// AWS, as the environment and the profile say.
    Aws,
    /// Something that speaks the DynamoDB API at this URL; any credentials will do.
    Url(String),
    /// An engine in this process, behind the SDK's own HTTP interface.
    InProcess(SharedHttpClient),
}

const REGION_OF_EMULATORS: &str = "us-east-1";

/// Makes a client. Calls are tried 3 times by the SDK, each for at most 3 s.
pub async fn connect(endpoint: Endpoint) -> Client {
    let timeouts = TimeoutConfig::builder()
        .connect_timeout(Duration::from_secs(1))
        .operation_attempt_timeout(Duration::from_secs(3))
        .operation_timeout(Duration::from_secs(8))
        .build();
    let mut loader = aws_config::defaults(BehaviorVersion::latest())
        .retry_config(RetryConfig::standard().with_max_attempts(3))
        .timeout_config(timeouts);
    loader = match &endpoint {
        Endpoint::Aws => loader,
        Endpoint::Url(url) => local(loader).endpoint_url(url),
        Endpoint::InProcess(http) => local(loader)
            .endpoint_url("http://in-process")
            .http_client(http.clone()),
    };
    Client::new(&loader.load().await)
}

fn local(loader: aws_config::ConfigLoader) -> aws_config::ConfigLoader {
    loader
        .region(Region::new(REGION_OF_EMULATORS))
        .credentials_provider(Credentials::new("local", "local", None, None, "local"))
}
