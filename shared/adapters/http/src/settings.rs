//! The settings of an agent, and why they cannot be used.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use triad_workflow::service::AnswerMeaning;

use super::auth::Auth;
use super::aws::AwsAccount;
use super::clients::Tls;

/// What an agent calls.
///
/// Calls of AWS services are signed with the credentials of [`HttpSettings::aws`]; `headers`, `auth` and `tls` must be
/// absent then.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Destination {
    /// An HTTP service: its absolute `http` or `https` URL. An action is one path segment below it. It may hold a user
    /// and a password, which are secrets.
    BaseUrl(String),
    /// A Lambda function, by name or ARN.
    Lambda(String),
    /// An SQS queue, by URL.
    Sqs(String),
    /// An SNS topic, by ARN.
    Sns(String),
}

/// Settings of one HTTP agent.
///
/// Header values and the user information in a URL are secrets: neither `Debug` nor an error shows them.
#[derive(Clone)]
pub struct HttpSettings {
    /// The service that the agent calls.
    pub destination: Destination,
    /// Longest single call, including connecting and reading the answer; the call's remaining time may end it sooner.
    pub call_timeout: Duration,
    /// Headers of every call, as name and value, such as an API key.
    pub headers: Vec<(String, String)>,
    /// The credentials that the agent sends; `None`: only those in `headers`.
    pub auth: Option<Auth>,
    /// The certificates that the agent presents and trusts; `None`: it presents none and trusts those of the system.
    pub tls: Option<Tls>,
    /// The account of AWS for secrets and signatures.
    pub aws: AwsAccount,
    /// The meanings of statuses (300 to 599) that this service uses in its own way. For the other statuses
    /// see docs/reference/service-contract.md.
    pub statuses: BTreeMap<u16, AnswerMeaning>,
    /// The URL at which the service reaches Triad's HTTP API for applications, for its callbacks. `None`: calls do not
    /// name it.
    pub callback_url: Option<String>,
}

/// Why settings cannot be used. No secret is in it.
#[derive(Debug, thiserror::Error)]
pub enum HttpSettingsError {
    /// The `base_url` is not an absolute `http` or `https` URL.
    #[error("its base_url is not an http or https URL")]
    BaseUrl,
    /// This setting does not name a function, a queue or a topic; the text says what it should be.
    #[error("{0}: {1}")]
    Destination(&'static str, &'static str),
    /// This setting is only for [`Destination::BaseUrl`].
    #[error(
        "{0}: is only for base_url: remove it; calls of AWS services are signed with the credentials of the program's role"
    )]
    BaseUrlAlone(&'static str),
    /// The header with this name has a name or a value that HTTP does not allow.
    #[error("header {0:?} is not valid")]
    Header(String),
    /// A secret of [`HttpSettings::auth`] cannot be read; the text says where it should be.
    #[error("auth: {0}")]
    Secret(String),
    /// The `token_url` of [`HttpSettings::auth`] is not an absolute `http` or `https` URL.
    #[error("auth: its token_url is not an http or https URL")]
    TokenUrl,
    /// The certificates of [`HttpSettings::tls`] cannot be used; the text says why.
    #[error("tls: {0}")]
    Tls(String),
    /// This setting needs an account of AWS, and there is none.
    #[error("{0}: needs AWS, which this program is built without: build it with --features aws")]
    NoAws(String),
    /// No HTTP client can be made; the text says why.
    #[error("no HTTP client can be made: {0}")]
    Client(String),
    /// [`HttpSettings::statuses`] gives a meaning to this status, which is not from 300 to 599.
    #[error("{0} in its statuses is not from 300 to 599")]
    Status(u16),
    /// The `callback_url` is not an absolute `http` or `https` URL.
    #[error("its callback_url is not an http or https URL")]
    CallbackUrl,
}

impl fmt::Debug for HttpSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.headers.iter().map(|(name, _)| &**name).collect();
        f.debug_struct("HttpSettings")
            .field("call_timeout", &self.call_timeout)
            .field("headers", &names)
            .finish_non_exhaustive()
    }
}
