//! TLS of HTTP clients: rustls on ring, with the system's root certificates.
//!
//! The certificates are read once in a process, at the first connection that needs them: reading takes 5 to 10 ms,
//! which a function would otherwise spend on every cold start, and an agent once for each service.

use std::sync::{Arc, LazyLock, OnceLock};

use reqwest::ClientBuilder;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use rustls_platform_verifier::Verifier;

/// A builder of HTTP clients that ignores proxies, whatever `HTTP_PROXY` and the like say: calls of services on this
/// machine would otherwise go through the proxy, and its refusal would count as the service's answer. Its TLS
/// verifies servers by the system's root certificates, with rustls on ring. A client from [`ClientBuilder::new`]
/// without this panics when it is built, because no other TLS is compiled in.
pub fn client_builder() -> ClientBuilder {
    builder_with(CONFIG.clone())
}

fn builder_with(config: ClientConfig) -> ClientBuilder {
    ClientBuilder::new()
        .no_proxy()
        .tls_backend_preconfigured(config)
}

/// As [`client_builder`], with its own certificates, all in PEM. `identity` is the client's certificate, followed by
/// those of its issuers, and its key. `ca` has the root certificates to trust in place of the system's.
///
/// # Errors
/// The reason, for people. No part of the texts is in it.
pub(crate) fn client_builder_with(
    identity: Option<(&str, &str)>,
    ca: Option<&str>,
) -> Result<ClientBuilder, String> {
    let config = ClientConfig::builder_with_provider(VERIFIER.provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(|e| e.to_string())?;
    let config = match ca {
        None => config
            .dangerous()
            .with_custom_certificate_verifier(VERIFIER.clone()),
        Some(ca) => {
            let mut roots = RootCertStore::empty();
            for root in certificates("ca", ca)? {
                roots.add(root).map_err(|e| format!("ca: {e}"))?;
            }
            config.with_root_certificates(roots)
        }
    };
    let config = match identity {
        None => config.with_no_client_auth(),
        Some((certificate, key)) => {
            let chain = certificates("certificate", certificate)?;
            let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).map_err(|_| {
                "key: is not a private key in PEM, or it is encrypted: give it without a password"
            })?;
            let auth = config.with_client_auth_cert(chain, key);
            auth.map_err(|e| format!("certificate and key cannot be used together: {e}"))?
        }
    };
    Ok(builder_with(config))
}

fn certificates(what: &str, text: &str) -> Result<Vec<CertificateDer<'static>>, String> {
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(text.as_bytes()).collect();
    match read {
        Ok(read) if !read.is_empty() => Ok(read),
        _ => Err(format!("{what}: has no certificate in PEM")),
    }
}

static CONFIG: LazyLock<ClientConfig> = LazyLock::new(|| {
    ClientConfig::builder_with_provider(VERIFIER.provider.clone())
        .with_safe_default_protocol_versions()
        .expect("ring has what TLS 1.2 and 1.3 need")
        .dangerous()
        .with_custom_certificate_verifier(VERIFIER.clone())
        .with_no_client_auth()
});

static VERIFIER: LazyLock<Arc<OnDemand>> = LazyLock::new(|| {
    Arc::new(OnDemand {
        provider: Arc::new(ring::default_provider()),
        verifier: OnceLock::new(),
    })
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
