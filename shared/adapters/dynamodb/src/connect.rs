//! Clients for AWS, LocalStack or an embedded engine.

use std::time::Duration;

use aws_sdk_dynamodb::config::retry::RetryConfig;
use aws_sdk_dynamodb::config::{
    BehaviorVersion, Credentials, Region, SharedCredentialsProvider, SharedHttpClient,
    StalledStreamProtectionConfig,
};
use aws_sdk_dynamodb::error::SdkError;
use aws_sdk_dynamodb::types::AttributeValue;
use aws_sdk_dynamodb::{Client, Config};
use triad_aws::{Account, SdkConfig};

use crate::error::{is_of_set_up, unanswered};
use crate::tables::{Tables, attr};

/// Which DynamoDB a client talks to.
#[derive(Debug, Clone)]
pub enum Endpoint {
    /// AWS, with the credentials and the region of this account.
    Aws(Account),
    /// A service that speaks the DynamoDB API at this URL, such as LocalStack. The client sends the
    /// credentials `local` and the region `us-east-1`.
    Url(String),
    /// An engine in this process, behind the HTTP interface of AWS's SDK.
    InProcess(SharedHttpClient),
}

const REGION_OF_EMULATORS: &str = "us-east-1";

/// Makes a client without sending a request. Calls over a network have the limits of [`Account::load`]; calls to
/// [`Endpoint::InProcess`] have no time limit, no retry and no signature.
pub async fn connect(endpoint: Endpoint) -> Client {
    match endpoint {
        Endpoint::Aws(account) => Client::new(&account.load().await),
        Endpoint::Url(url) => {
            let any = Credentials::new("local", "local", None, None, "local");
            let config = triad_aws::limits(SdkConfig::builder())
                .region(Region::new(REGION_OF_EMULATORS))
                .credentials_provider(SharedCredentialsProvider::new(any))
                .endpoint_url(url)
                .build();
            Client::new(&config)
        }
        // An in-process engine checks no signature, and its calls neither time out nor get lost: the SDK's signing
        // and retries were a tenth of all the work per call.
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

/// Why DynamoDB did not answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unreached {
    /// No request was sent: there are no credentials or no region, or the endpoint is not a URL. The text is for
    /// people.
    #[error("{0}")]
    SetUp(String),
    /// No answer came in time, or the answer is not one of DynamoDB. The text is for people.
    #[error("{0}")]
    NoAnswer(String),
}

/// Reads one record that does not exist, to check that the service answers. Any answer of the service is enough, also
/// a refusal: errors of the table are left to the call that needs it. Costs half a read unit at most, and takes at
/// most `within`.
///
/// # Errors
/// [`Unreached::SetUp`] if no request could be sent, [`Unreached::NoAnswer`] if no answer came within `within`, or
/// not one of DynamoDB.
pub async fn reach(client: &Client, tables: &Tables, within: Duration) -> Result<(), Unreached> {
    let asked = client
        .get_item()
        .table_name(&tables.order_state)
        // No order can have this id.
        .key(attr::ORDER_ID, AttributeValue::S("/".to_owned()))
        .send();
    match tokio::time::timeout(within, asked).await {
        Ok(Ok(_) | Err(SdkError::ServiceError(_))) => Ok(()),
        Ok(Err(error)) if is_of_set_up(&error) => Err(Unreached::SetUp(unanswered(&error))),
        Ok(Err(error)) => Err(Unreached::NoAnswer(unanswered(&error))),
        Err(_) => {
            let text = format!("no answer within {} s", within.as_secs());
            Err(Unreached::NoAnswer(text))
        }
    }
}
