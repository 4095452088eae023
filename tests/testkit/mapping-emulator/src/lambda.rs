//! Invokes functions and stores given-up records over HTTP, with requests signed for AWS.
//!
//! Only two operations are needed; the SDKs of the two services would double the mapping emulator's code.

use std::time::{Duration, SystemTime};

use anyhow::{Context, anyhow};
use aws_credential_types::Credentials;
use aws_sigv4::http_request::{SignableBody, SignableRequest, SigningSettings, sign};
use aws_sigv4::sign::v4;
use reqwest::{Client, Response, StatusCode};
use serde_json::json;
use triad_http::client_builder;
use triad_runtime::Clock;
use triad_runtime::system::SystemClock;

use crate::event::event;
use crate::poller::{Invoke, Invoked, Keep};
use crate::work::GivenUp;

/// Longest invocation: a little more than Lambda's own limit.
const INVOCATION: Duration = Duration::from_secs(910);

/// Address of the AWS emulator, and the credentials that sign requests to it.
#[derive(Debug, Clone)]
pub struct Account {
    /// URL of the emulator, without a slash at the end.
    pub endpoint: String,
    /// AWS region for which requests are signed.
    pub region: String,
    /// AWS access key id.
    pub key: String,
    /// AWS secret access key.
    pub secret: String,
}

/// The function of a mapping, and the S3 bucket for records that were given up, if the mapping has one.
pub struct Aws {
    client: Client,
    account: Account,
    function: String,
    bucket: Option<String>,
    mapping: String,
}

impl Aws {
    /// A client for the function and the bucket of the mapping with the id `mapping`. An invocation may take
    /// 910 s. With no `bucket`, records that are given up are only logged. No request is made yet.
    ///
    /// # Errors
    /// A message, if no HTTP client can be created.
    pub fn new(
        account: Account,
        function: String,
        bucket: Option<String>,
        mapping: String,
    ) -> anyhow::Result<Self> {
        Ok(Self {
            client: client_builder().timeout(INVOCATION).build()?,
            account,
            function,
            bucket,
            mapping,
        })
    }

    async fn send(
        &self,
        service: &str,
        method: &str,
        path: &str,
        body: String,
    ) -> anyhow::Result<Response> {
        let url = format!("{}{path}", self.account.endpoint);
        let Account {
            key,
            secret,
            region,
            ..
        } = &self.account;
        let identity = Credentials::new(key, secret, None, None, "mapping-emulator").into();
        let now = SystemTime::UNIX_EPOCH + Duration::from_millis(SystemClock.now().0);
        let params = v4::SigningParams::builder()
            .identity(&identity)
            .region(region)
            .name(service)
            .time(now)
            .settings(SigningSettings::default())
            .build()?
            .into();
        let content = SignableBody::Bytes(body.as_bytes());
        let request = SignableRequest::new(method, &url, std::iter::empty(), content)?;
        let (instructions, _) = sign(request, &params)?.into_parts();
        let (headers, _) = instructions.into_parts();
        let mut call = self.client.request(method.parse()?, &url);
        // A policy may require encryption, which AWS has on every connection.
        call = call.header("x-forwarded-proto", "https");
        for header in headers {
            call = call.header(header.name(), header.value());
        }
        Ok(call.body(body).send().await?)
    }

    async fn try_invoke(&self, event: String) -> anyhow::Result<Invoked> {
        let path = format!("/2015-03-31/functions/{}/invocations", self.function);
        let answer = self.send("lambda", "POST", &path, event).await?;
        let status = answer.status();
        let failed = answer.headers().contains_key("x-amz-function-error");
        let body = answer.bytes().await?.to_vec();
        let text = || String::from_utf8_lossy(&body).into_owned();
        Ok(match status {
            StatusCode::PAYLOAD_TOO_LARGE => Invoked::TooLarge,
            _ if !status.is_success() => Invoked::Later(format!("{status}: {}", text())),
            _ if failed => Invoked::Failed(text()),
            _ => Invoked::Answer(body),
        })
    }
}

impl Invoke for Aws {
    async fn invoke(&self, event: String) -> Invoked {
        match self.try_invoke(event).await {
            Ok(invoked) => invoked,
            Err(e) => Invoked::Later(format!("{e:#}")),
        }
    }
}

impl Keep for Aws {
    /// Puts the invocation record with the event into the bucket, as Lambda does. Without a bucket the records are
    /// lost, as on Lambda, which the log reports.
    async fn keep(&self, given_up: &GivenUp) -> anyhow::Result<()> {
        let Some(bucket) = &self.bucket else {
            tracing::error!(why = ?given_up.why, records = given_up.records.len(), "records are given up and kept nowhere");
            return Ok(());
        };
        let id = uuid::Uuid::new_v4();
        let body = json!({
            "requestContext": {
                "requestId": id,
                "functionArn": self.function,
                "condition": format!("{:?}", given_up.why),
                "approximateInvokeCount": given_up.invocations,
            },
            "responseContext": {"functionError": given_up.cause},
            "version": "1.0",
            "timestamp": SystemClock.now().0,
            "KafkaBatchInfo": {"batchSize": given_up.records.len()},
            "payload": event(&given_up.records),
        });
        let path = format!("/{bucket}/aws/lambda/{}/{id}", self.mapping);
        let sent = self.send("s3", "PUT", &path, body.to_string()).await;
        let stored = sent.and_then(|answer| match answer.status() {
            status if status.is_success() => Ok(()),
            status => Err(anyhow!("{status}")),
        });
        stored.with_context(|| format!("the bucket {bucket}"))
    }
}
