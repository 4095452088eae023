//! TLS of HTTP clients: rustls on ring, with the system's root certificates.
//!
//! The certificates are read once in a process, at the first connection that needs them: reading takes 5 to 10 ms,
//! which a function would otherwise spend on every cold start, and an agent once for each service.

use std::sync::{Arc, LazyLock, OnceLock};

use reqwest::ClientBuilder;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, Error, SignatureScheme};
use rustls_platform_verifier::Verifier;

/// A builder of HTTP clients that ignores proxies, whatever `HTTP_PROXY` and the like say: calls of services on this
/// machine would otherwise go through the proxy, and its refusal would count as the service's answer. Its TLS
/// verifies servers by the system's root certificates, with rustls on ring. A client from [`ClientBuilder::new`]
/// without this panics when it is built, because no other TLS is compiled in.
pub fn client_builder() -> ClientBuilder {
    ClientBuilder::new()
        .no_proxy()
        .tls_backend_preconfigured(CONFIG.clone())
}

static CONFIG: LazyLock<ClientConfig> = LazyLock::new(|| {
    let provider = Arc::new(ring::default_provider());
    ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .expect("ring has what TLS 1.2 and 1.3 need")
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(OnDemand {
            provider,
            verifier: OnceLock::new(),
        }))
        .with_no_client_auth()
});

/// The platform's verifier, made at the first verification. It alone decides.
#[derive(Debug)]
struct OnDemand {
    provider: Arc<CryptoProvider>,
    verifier: OnceLock<Result<Verifier, Error>>,
}

impl OnDemand {
    fn verifier(&self) -> Result<&Verifier, Error> {
        self.verifier
            .get_or_init(|| Verifier::new(self.provider.clone()))
            .as_ref()
            .map_err(Clone::clone)
    }
}

impl ServerCertVerifier for OnDemand {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.verifier()?.verify_server_cert(
            end_entity,
            intermediates,
            server_name,
            ocsp_response,
            now,
        )
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verifier()?
            .verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verifier()?
            .verify_tls13_signature(message, certificate, signed)
    }

    // Called before there is a certificate; the platform's verifier returns the provider's schemes, too.
    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider
            .signature_verification_algorithms
            .supported_schemes()
    }
}
