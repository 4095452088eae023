//! Tokens for MSK's access control (`AWS_MSK_IAM` over `OAUTHBEARER`).
//!
//! Source of the form: AWS's own signers (aws-msk-iam-sasl-signer for Java, Python, Go): the
//! address of a `kafka-cluster:Connect` call, signed in its query for 15 minutes, with the
//! signer's name behind it, in base64 without padding.

use std::time::{Duration, SystemTime};

use aws_credential_types::Credentials;
use aws_credential_types::provider::ProvideCredentials;
use aws_sigv4::http_request::{
    SignableBody, SignableRequest, SignatureLocation, SigningSettings, sign,
};
use aws_sigv4::sign::v4;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use triad_aws::Account;
use triad_core::Timestamp;
use triad_kafka::{Token, TokenError, TokenSource};
use triad_runtime::Clock;
use triad_runtime::system::SystemClock;

/// The longest that MSK allows.
const LIFE: Duration = Duration::from_secs(900);
/// Longest wait for the credentials: an instance's metadata service may be slow.
const CREDENTIALS_WITHIN: Duration = Duration::from_secs(10);
const SIGNER: &str = concat!("triad/", env!("CARGO_PKG_VERSION"));

/// Makes tokens for MSK's access control: each is signed with the AWS credentials of that moment,
/// and lives for 15 minutes, the longest that MSK allows. Waits for credentials for at most 10 s.
#[derive(Debug, Clone)]
pub struct MskTokens {
    account: Account,
}

impl MskTokens {
    /// A source of tokens that are signed with this account's credentials, for brokers in its region. Nothing
    /// is read yet.
    #[must_use]
    pub fn new(account: Account) -> Self {
        Self { account }
    }

    async fn sign(&self) -> Result<Token, String> {
        let config = self.account.load().await;
        let region = config.region().ok_or("AWS_REGION: is missing")?;
        let provider = config
            .credentials_provider()
            .ok_or("there are no AWS credentials")?;
        let credentials = tokio::time::timeout(CREDENTIALS_WITHIN, provider.provide_credentials())
            .await
            .map_err(|_| "the AWS credentials did not come in time".to_owned())?
            .map_err(|e| format!("no AWS credentials: {e}"))?;
        token(region.as_ref(), credentials, SystemClock.now())
    }
}

impl TokenSource for MskTokens {
    fn token(&self) -> Result<Token, TokenError> {
        // A thread and a runtime of its own for each token, twelve minutes apart: the caller may
        // be a task of a runtime, in which nothing may block on another, and connections of a
        // credentials provider must not outlive the runtime that they were made in.
        let signed = std::thread::scope(|threads| {
            let signing = threads.spawn(|| {
                tokio::runtime::Builder::new_current_thread()
                    .enable_all()
                    .build()
                    .map_err(|e| e.to_string())?
                    .block_on(self.sign())
            });
            signing.join()
        });
        let signed = signed.unwrap_or_else(|_| Err("signing a token panicked".to_owned()));
        signed.map_err(TokenError)
    }
}

fn token(region: &str, credentials: Credentials, now: Timestamp) -> Result<Token, String> {
    let principal = credentials.access_key_id().to_owned();
    let mut settings = SigningSettings::default();
    settings.signature_location = SignatureLocation::QueryParams;
    settings.expires_in = Some(LIFE);
    let identity = credentials.into();
    let params = v4::SigningParams::builder()
        .identity(&identity)
        .region(region)
        .name("kafka-cluster")
        .time(SystemTime::UNIX_EPOCH + Duration::from_millis(now.0))
        .settings(settings)
        .build()
        .map_err(|e| e.to_string())?
        .into();
    let address = format!("https://kafka.{region}.amazonaws.com/?Action=kafka-cluster%3AConnect");
    let request = SignableRequest::new("GET", &address, std::iter::empty(), SignableBody::empty())
        .map_err(|e| e.to_string())?;
    let (instructions, _) = sign(request, &params)
        .map_err(|e| e.to_string())?
        .into_parts();
    let mut signed = http::Request::get(&address)
        .body(())
        .map_err(|e| e.to_string())?;
    instructions.apply_to_request_http1x(&mut signed);
    let address = format!("{}&User-Agent={SIGNER}", signed.uri());
    // The signature's time has whole seconds.
    let signed_at = now.0 / 1000 * 1000;
    Ok(Token {
        value: URL_SAFE_NO_PAD.encode(address),
        principal,
        expires: Timestamp(signed_at + LIFE.as_millis() as u64),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2026-01-02T03:04:05.678Z.
    const AT: Timestamp = Timestamp(1_767_323_045_678);

    fn credentials() -> Credentials {
        let session = Some("session/token+=".to_owned());
        let secret = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY";
        Credentials::new("AKIDEXAMPLE", secret, session, None, "test")
    }

    #[test]
    fn the_token_is_the_address_that_another_signer_signs() {
        let token = token("eu-west-1", credentials(), AT).unwrap();
        let address = String::from_utf8(URL_SAFE_NO_PAD.decode(&token.value).unwrap()).unwrap();
        let (address, agent) = address.rsplit_once("&User-Agent=").unwrap();
        assert!(agent.starts_with("triad/"), "{agent}");
        let (base, query) = address.split_once('?').unwrap();
        assert_eq!(base, "https://kafka.eu-west-1.amazonaws.com/");
        let mut parts: Vec<&str> = query.split('&').collect();
        parts.sort_unstable();
        // Signed by botocore 1.43 (SigV4QueryAuth) with the same credentials at the same time.
        let expected = [
            "Action=kafka-cluster%3AConnect",
            "X-Amz-Algorithm=AWS4-HMAC-SHA256",
            "X-Amz-Credential=AKIDEXAMPLE%2F20260102%2Feu-west-1%2Fkafka-cluster%2Faws4_request",
            "X-Amz-Date=20260102T030405Z",
            "X-Amz-Expires=900",
            "X-Amz-Security-Token=session%2Ftoken%2B%3D",
            "X-Amz-Signature=7b9512811e0b1fdd1036abf0acc1ac204d9e0fc27970438027ce590a6175ba4f",
            "X-Amz-SignedHeaders=host",
        ];
        assert_eq!(parts, expected);
        assert_eq!(token.expires, Timestamp(1_767_323_045_000 + 900_000));
        assert_eq!(token.principal, "AKIDEXAMPLE");
    }
}
