//! TLS of the secured listener.
//!
//! Architecture invariant: this module chooses the provider of cryptography explicitly. It does not set the process's
//! default, because that belongs to the program that embeds the broker.

use std::sync::Arc;

use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use tokio_rustls::TlsAcceptor;

use crate::config::SecuredListener;
use crate::error::Error;

/// The acceptor of a secured listener's handshakes.
pub(crate) fn acceptor(listener: &SecuredListener) -> Result<TlsAcceptor, Error> {
    let provider = Arc::new(ring::default_provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|e| wrong("the provider of TLS", &e))?;
    let builder = match &listener.client_ca {
        None => builder.with_no_client_auth(),
        Some(pem) => {
            let mut roots = RootCertStore::empty();
            for certificate in certificates("the client CA", pem)? {
                let added = roots.add(certificate);
                added.map_err(|e| wrong("the client CA", &e))?;
            }
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
                .build()
                .map_err(|e| wrong("the client CA", &e))?;
            builder.with_client_cert_verifier(verifier)
        }
    };
    let chain = certificates("the certificate", &listener.certificate)?;
    let key =
        PrivateKeyDer::from_pem_slice(listener.key.as_bytes()).map_err(|e| wrong("the key", &e))?;
    let config = builder
        .with_single_cert(chain, key)
        .map_err(|e| wrong("the certificate and its key", &e))?;
    Ok(Arc::new(config).into())
}

fn certificates(what: &str, pem: &str) -> Result<Vec<CertificateDer<'static>>, Error> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem.as_bytes()).collect();
    let found = found.map_err(|e| wrong(what, &e))?;
    if found.is_empty() {
        return Err(wrong(what, &"there is no certificate in it"));
    }
    Ok(found)
}

fn wrong(what: &str, error: &dyn std::fmt::Display) -> Error {
    Error::Config(format!("secured listener: {what}: {error}"))
}
