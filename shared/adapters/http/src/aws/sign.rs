//! Requests signed with the credentials of the program's role (AWS Signature Version 4).

use std::time::{Duration, SystemTime};

use aws_credential_types::Credentials;
use aws_credential_types::provider::ProvideCredentials as _;
use aws_credential_types::provider::error::CredentialsError;
use aws_sigv4::http_request::{
    PayloadChecksumKind, PercentEncodingMode, SignableBody, SignableRequest, SigningSettings,
    UriPathNormalizationMode, sign,
};
use aws_sigv4::sign::v4;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use reqwest::{Request, Url};
use triad_aws::{Account, SdkConfig};
use triad_runtime::system::SystemClock;
use triad_runtime::{Clock as _, Fault};

use super::AwsAccount;
use crate::{HttpSettingsError, not_sent, transient};

/// Longest use of credentials before the next request for them, in milliseconds: 5 minutes.
const KEPT: u64 = 300_000;
/// How long before their end credentials are replaced, in milliseconds.
const AHEAD: u64 = 60_000;
/// Least time between two requests for credentials while services refuse them or their source fails, in milliseconds.
const ASK_AGAIN: u64 = 1_000;

/// Signs the requests of one agent.
pub(crate) struct Signer {
    account: Account,
    /// Name of the service in signatures, such as `execute-api`.
    service: String,
    known: tokio::sync::Mutex<Known>,
}

#[derive(Default)]
struct Known {
    config: Option<SdkConfig>,
    credentials: Option<Credentials>,
    /// When the last request for them was, and when the next is due, in milliseconds since 1970.
    last: u64,
    next: u64,
}

/// What a request is signed with.
pub(crate) struct Keys {
    config: SdkConfig,
    credentials: Credentials,
    region: String,
    service: String,
}

impl Signer {
    /// A signer for a service, in this region or that of the account. `what` names the setting that needs the account,
    /// for the error. Nothing is read yet.
    ///
    /// # Errors
    /// [`HttpSettingsError::NoAws`] if there is no account.
    pub(crate) fn new(
        aws: &AwsAccount,
        what: &str,
        service: &str,
        region: Option<String>,
    ) -> Result<Self, HttpSettingsError> {
        Ok(Self {
            account: aws.needed(what)?.in_region(region),
            service: service.to_owned(),
            known: tokio::sync::Mutex::default(),
        })
    }

    /// The keys of a call, which waits for them at most `within`.
    ///
    /// # Errors
    /// The fault of a call that was not made, and so had no effect, because there are no credentials or no region.
    pub(crate) async fn keys(&self, within: Duration) -> Result<Keys, Fault> {
        let keys = tokio::time::timeout(within, self.look()).await;
        keys.unwrap_or_else(|_| {
            Err(away(
                "the source of the AWS credentials did not answer in time",
            ))
        })
    }

    async fn look(&self) -> Result<Keys, Fault> {
        let mut known = self.known.lock().await;
        let config = match &known.config {
            Some(config) => config.clone(),
            None => self.account.load().await,
        };
        known.config = Some(config.clone());
        let region = config.region().map(|region| region.as_ref().to_owned());
        let region = region.ok_or_else(|| {
            refusal("no AWS region is known: set AWS_REGION, or name the region in the agent's settings")
        })?;
        let now = SystemClock.now().0;
        let credentials = match &known.credentials {
            Some(good) if now < known.next => good.clone(),
            old => {
                let old = old.clone().filter(|old| now < ends_at(old));
                let provider = config.credentials_provider();
                let provider = provider.ok_or_else(|| refusal("there are no AWS credentials: give the program a role, a profile or AWS_ACCESS_KEY_ID"))?;
                let asked = provider.provide_credentials().await;
                let credentials = match (asked, old) {
                    (Ok(new), _) => new,
                    (Err(why), Some(old)) => {
                        tracing::warn!(%why, "AWS credentials cannot be renewed: the old ones are used until they end");
                        old
                    }
                    (Err(why), None) => return Err(missing(&why)),
                };
                known.last = now;
                known.next = ends_at(&credentials).saturating_sub(AHEAD);
                let soonest = now.saturating_add(ASK_AGAIN);
                known.next = known.next.clamp(soonest, now.saturating_add(KEPT));
                known.credentials = Some(credentials.clone());
                credentials
            }
        };
        Ok(Keys {
            config,
            credentials,
            region,
            service: self.service.clone(),
        })
    }

    /// Notes that the service did not accept the credentials: the next call asks for others, but not within a second of
    /// the last request.
    pub(crate) fn refused(&self) {
        // If the lock is held, another call is asking for them already.
        if let Ok(mut known) = self.known.try_lock() {
            known.next = known.next.min(known.last.saturating_add(ASK_AGAIN));
        }
    }
}

impl Keys {
    /// The region in the signatures.
    pub(crate) fn region(&self) -> &str {
        &self.region
    }

    /// The endpoint that the configuration names in place of AWS's own, by the service's id in the SDK.
    pub(crate) fn endpoint(&self, service: &str) -> Option<Url> {
        triad_aws::endpoint(&self.config, service).and_then(|url| Url::parse(&url).ok())
    }

    /// The secrets among the keys, to be masked.
    pub(crate) fn secrets(&self) -> Vec<String> {
        let secret = self.credentials.secret_access_key().to_owned();
        let token = self.credentials.session_token().map(str::to_owned);
        std::iter::once(secret).chain(token).collect()
    }

    /// Adds a signature to a request. It covers the method, the address, the body, `content-type` and the headers
    /// `x-amz-…`; other headers are not signed, because proxies change them.
    ///
    /// # Errors
    /// The fault of a call that was not made because its request cannot be signed.
    pub(crate) fn sign(&self, request: &mut Request) -> Result<(), Fault> {
        // A signature has `%20` for a blank in a query, so the query that is sent must have it too, and not `+`.
        let query = request.url().query().map(|query| query.replace('+', "%20"));
        request.url_mut().set_query(query.as_deref());
        request.url_mut().set_fragment(None);
        let added = self.signature(request).map_err(|why| {
            let text = format!("the request cannot be signed: {why}");
            not_sent("bad-input", text)
        })?;
        request.headers_mut().extend(added);
        Ok(())
    }

    fn signature(&self, request: &Request) -> Result<HeaderMap, String> {
        let mut settings = SigningSettings::default();
        if self.service == "s3" {
            settings.percent_encoding_mode = PercentEncodingMode::Single;
            settings.payload_checksum_kind = PayloadChecksumKind::XAmzSha256;
            settings.uri_path_normalization_mode = UriPathNormalizationMode::Disabled;
        }
        let identity = self.credentials.clone().into();
        let params = v4::SigningParams::builder()
            .identity(&identity)
            .region(&self.region)
            .name(&self.service)
            .time(SystemTime::UNIX_EPOCH + Duration::from_millis(SystemClock.now().0))
            .settings(settings)
            .build()
            .map_err(|e| e.to_string())?
            .into();
        let signed = request.headers().iter().filter_map(|(name, value)| {
            let name = name.as_str();
            let is_signed = name == "content-type" || name.starts_with("x-amz-");
            Some((name, value.to_str().ok().filter(|_| is_signed)?))
        });
        let body = request.body().and_then(|body| body.as_bytes());
        let body = SignableBody::Bytes(body.unwrap_or_default());
        let (method, url) = (request.method().as_str(), request.url().as_str());
        let signable =
            SignableRequest::new(method, url, signed, body).map_err(|e| e.to_string())?;
        let (instructions, _) = sign(signable, &params)
            .map_err(|e| e.to_string())?
            .into_parts();
        let (headers, _) = instructions.into_parts();
        let mut added = HeaderMap::new();
        for header in headers {
            let mut value = HeaderValue::try_from(header.value()).map_err(|e| e.to_string())?;
            value.set_sensitive(header.sensitive());
            added.insert(HeaderName::from_static(header.name()), value);
        }
        Ok(added)
    }
}

/// When credentials end, in milliseconds since 1970.
fn ends_at(credentials: &Credentials) -> u64 {
    let end = credentials.expiry();
    let end = end.and_then(|end| end.duration_since(SystemTime::UNIX_EPOCH).ok());
    end.map_or(u64::MAX, |end| {
        u64::try_from(end.as_millis()).unwrap_or(u64::MAX)
    })
}

fn missing(why: &CredentialsError) -> Fault {
    match why {
        CredentialsError::CredentialsNotLoaded(_) | CredentialsError::InvalidConfiguration(_) => {
            refusal(&format!(
                "there are no AWS credentials: give the program a role, a profile or AWS_ACCESS_KEY_ID: {why}"
            ))
        }
        _ => away(&format!(
            "the source of the AWS credentials gives none: {why}"
        )),
    }
}

fn refusal(why: &str) -> Fault {
    Fault::CallerRefused {
        code: "no-credentials".to_owned(),
        message: why.to_owned(),
        maybe_applied: false,
    }
}

fn away(why: &str) -> Fault {
    transient("no-credentials", why.to_owned(), None, false)
}
