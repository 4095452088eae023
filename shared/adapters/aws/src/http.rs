//! The HTTP client below the SDK.

use aws_smithy_http_client::Builder;
use aws_smithy_http_client::tls::{Provider, rustls_provider::CryptoMode};
use aws_smithy_runtime_api::client::http::{
    HttpClient, HttpConnectorSettings, SharedHttpClient, SharedHttpConnector,
};
use aws_smithy_runtime_api::client::runtime_components::RuntimeComponents;

/// An HTTP client that verifies servers by the system's root certificates, with ring for
/// cryptography. The certificates are read for the first connection, and not when the client is
/// made.
///
/// The SDK's own default contains AWS-LC, which is more than a tenth of a function's zip, and reads
/// all root certificates when it is made: 5 to 10 ms of a cold start.
#[must_use]
pub fn http_client() -> SharedHttpClient {
    let tls = Provider::Rustls(CryptoMode::Ring);
    SharedHttpClient::new(OnDemand(Builder::new().tls_provider(tls).build_https()))
}

/// Without the hook in which the SDK makes a connector before anybody has asked for one.
#[derive(Debug)]
struct OnDemand(SharedHttpClient);

impl HttpClient for OnDemand {
    fn http_connector(
        &self,
        settings: &HttpConnectorSettings,
        components: &RuntimeComponents,
    ) -> SharedHttpConnector {
        self.0.http_connector(settings, components)
    }
}
