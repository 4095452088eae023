//! Making a client: AWS, LocalStack or an embedded engine.

use std::time::Duration;

use aws_config::BehaviorVersion;
use aws_config::retry::RetryConfig;
use aws_config::timeout::TimeoutConfig;
use aws_sdk_dynamodb::config::{
    Credentials, Region, SharedHttpClient, StalledStreamProtectionConfig,
};
use aws_sdk_dynamodb::{Client, Config};

/// Where the tables are.
#[derive(Debug, Clone)]
pub enum Endpoint {
    /// AWS, as the environment and the profile say.
    Aws,
    /// AWS in this region, and for the rest as the environment and the profile say.
    AwsIn(String),
    /// Something that speaks the DynamoDB API at this URL; any credentials will do.
    Url(String),
    /// An engine in this process, behind the SDK's own HTTP interface.
    InProcess(SharedHttpClient),
}

const REGION_OF_EMULATORS: &str = "us-east-1";

/// Makes a client. Calls over a network are tried 3 times by the SDK, each for at most 3 s.
pub async fn connect(endpoint: Endpoint) -> Client {
    let timeouts = TimeoutConfig::builder()
        .connect_timeout(Duration::from_secs(1))
        .operation_attempt_timeout(Duration::from_secs(3))
        .operation_timeout(Duration::from_secs(8))
        .build();
    let loader = aws_config::defaults(BehaviorVersion::latest())
        .retry_config(RetryConfig::standard().with_max_attempts(3))
        .timeout_config(timeouts);
    match endpoint {
        Endpoint::Aws => Client::new(&loader.load().await),
        Endpoint::AwsIn(region) => Client::new(&loader.region(Region::new(region)).load().await),
        Endpoint::Url(url) => {
            let any = Credentials::new("local", "local", None, None, "local");
            let loader = loader
                .region(Region::new(REGION_OF_EMULATORS))
                .credentials_provider(any)
                .endpoint_url(url);
            Client::new(&loader.load().await)
        }
        // On the line nobody checks signatures, nothing times out and nothing is lost: what the
        // SDK does about these for every call was a tenth of all the work.
        Endpoint::InProcess(http) => Client::from_conf(
            Config::builder()
                .behavior_version(BehaviorVersion::latest())
                .region(Region::new(REGION_OF_EMULATORS))
                .endpoint_url("http://in-process")
                .http_client(http)
                .retry_config(RetryConfig::disabled())
                .stalled_stream_protection(StalledStreamProtectionConfig::disabled())
                .allow_no_auth()
                .build(),
        ),
    }
}
