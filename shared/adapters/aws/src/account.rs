//! An account: credentials, region and time limits.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use aws_config::environment::{
    EnvironmentVariableCredentialsProvider, EnvironmentVariableRegionProvider,
};
use aws_config::meta::region::ProvideRegion;
use aws_config::retry::RetryConfig;
use aws_config::timeout::TimeoutConfig;
use aws_config::{BehaviorVersion, Region};
use aws_credential_types::provider::SharedCredentialsProvider;
use aws_types::SdkConfig;
use aws_types::sdk_config::Builder;
use aws_types::service_config::{LoadServiceConfig, ServiceConfigKey};

use crate::http::http_client;

/// Tries of a call, the first included.
const TRIES: u32 = 3;

type Loading = Pin<Box<dyn Future<Output = SdkConfig> + Send>>;

/// Where the credentials and the region for AWS calls are taken from. [`Account::load`] makes the
/// configuration of a client from it, with its time limits.
///
/// There are two kinds, [`Account::of_function`] and [`Account::of_user`]. The program chooses, not
/// a setting, so that a function is not linked with the code that only users need: profiles, single
/// sign-on, metadata services.
#[derive(Clone)]
pub struct Account {
    load: Load,
    region: Option<String>,
}

/// How the configuration of a client is made.
#[derive(Clone)]
enum Load {
    By(fn(Option<Region>) -> Loading),
    Is(Box<SdkConfig>),
}

impl fmt::Debug for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Account")
            .field("region", &self.region)
            .finish_non_exhaustive()
    }
}

impl Account {
    /// The account of a function: what Lambda puts into its environment, and nothing else.
    ///
    /// These variables are read: `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`, `AWS_SESSION_TOKEN`,
    /// `AWS_REGION`, `AWS_ENDPOINT_URL`, `AWS_ENDPOINT_URL_<SERVICE>`, `AWS_USE_DUALSTACK_ENDPOINT`
    /// and `AWS_USE_FIPS_ENDPOINT`.
    #[must_use]
    pub fn of_function() -> Self {
        Self {
            load: Load::By(|region| Box::pin(from_environment(region))),
            region: None,
        }
    }

    /// The account of a person or of a long-running process. Environment, profile, single sign-on,
    /// web identity, container and instance are asked in the order of AWS's own tools.
    #[must_use]
    pub fn of_user() -> Self {
        Self {
            load: Load::By(|region| Box::pin(from_everywhere(region))),
            region: None,
        }
    }

    /// The account of a configuration that was made elsewhere, such as one with an endpoint of its own.
    #[must_use]
    pub fn of_config(config: SdkConfig) -> Self {
        Self {
            load: Load::Is(Box::new(config)),
            region: None,
        }
    }

    /// The account in this region. `None` leaves the region as it is: that of the environment,
    /// unless it was set before.
    #[must_use]
    pub fn in_region(mut self, region: Option<String>) -> Self {
        if region.is_some() {
            self.region = region;
        }
        self
    }

    /// The configuration from which clients of AWS services are made. A call is tried at most 3
    /// times; each try takes at most 3 s (1 s to connect), and all tries together at most 8 s.
    ///
    /// Missing credentials, or a missing region, are not an error here: the first call fails.
    pub async fn load(&self) -> SdkConfig {
        let region = self.region.clone().map(Region::new);
        match &self.load {
            Load::By(load) => load(region).await,
            Load::Is(config) => match region {
                Some(region) => config.to_builder().region(region).build(),
                None => SdkConfig::clone(config),
            },
        }
    }
}

/// The endpoint that a configuration names for a service in place of AWS's own, by `AWS_ENDPOINT_URL_<SERVICE>` or
/// `AWS_ENDPOINT_URL`, or in a profile; `None` if it names none. `service` is the SDK's id of the service, such as
/// `Lambda` or `SQS`.
#[must_use]
pub fn endpoint(config: &SdkConfig, service: &str) -> Option<String> {
    let key = ServiceConfigKey::builder()
        .service_id(service)
        .env("AWS_ENDPOINT_URL")
        .profile("endpoint_url")
        .build()
        .ok()?;
    let own = config.service_config().and_then(|of| of.load_config(key));
    own.or_else(|| config.endpoint_url().map(str::to_owned))
}

/// Adds the time limits of [`Account::load`] and the HTTP client to a configuration, for an
/// endpoint that needs no account.
pub fn limits(builder: Builder) -> Builder {
    builder
        .behavior_version(BehaviorVersion::latest())
        .http_client(http_client())
        .retry_config(retries())
        .timeout_config(timeouts())
}

fn timeouts() -> TimeoutConfig {
    TimeoutConfig::builder()
        .connect_timeout(Duration::from_secs(1))
        .operation_attempt_timeout(Duration::from_secs(3))
        .operation_timeout(Duration::from_secs(8))
        .build()
}

fn retries() -> RetryConfig {
    RetryConfig::standard().with_max_attempts(TRIES)
}

async fn from_everywhere(region: Option<Region>) -> SdkConfig {
    let loader = aws_config::defaults(BehaviorVersion::latest())
        .http_client(http_client())
        .retry_config(retries())
        .timeout_config(timeouts());
    match region {
        Some(region) => loader.region(region).load().await,
        None => loader.load().await,
    }
}

async fn from_environment(region: Option<Region>) -> SdkConfig {
    let region = match region {
        Some(region) => Some(region),
        None => EnvironmentVariableRegionProvider::new().region().await,
    };
    limits(SdkConfig::builder())
        .region(region)
        .credentials_provider(SharedCredentialsProvider::new(
            EnvironmentVariableCredentialsProvider::new(),
        ))
        .use_dual_stack(is_set("AWS_USE_DUALSTACK_ENDPOINT"))
        .use_fips(is_set("AWS_USE_FIPS_ENDPOINT"))
        .service_config(Endpoints)
        .build()
}

/// The SDK's rule for endpoints in the environment: that of the service before that of all.
#[derive(Debug)]
struct Endpoints;

impl LoadServiceConfig for Endpoints {
    fn load_config(&self, key: ServiceConfigKey<'_>) -> Option<String> {
        let service = key.service_id().to_uppercase().replace(' ', "_");
        variable(&format!("{}_{service}", key.env())).or_else(|| variable(key.env()))
    }
}

fn is_set(name: &str) -> bool {
    variable(name).is_some_and(|value| value.eq_ignore_ascii_case("true"))
}

#[expect(
    clippy::disallowed_methods,
    reason = "AWS's own variables, with AWS's own meaning, as its SDK reads them"
)]
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}
