//! TLS of the secured listener.
//!
//! Architecture invariant: the provider of cryptography is named here. The process's default is
//! left alone, because it belongs to the program that the broker is embedded in.

use std::rc::Rc;
use std::sync::Arc;

use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use tokio_rustls::TlsAcceptor;

use crate::config::SecuredListener;
use crate::error::Error;
use crate::sasl::Sasl;

/// What the clients of a secured listener go through.
#[derive(Clone)]
pub(crate) struct Tls {
    pub(crate) acceptor: TlsAcceptor,
    /// `None`: no login by SASL.
    pub(crate) sasl: Option<Rc<Sasl>>,
}

impl Tls {
    pub(crate) fn new(listener: &SecuredListener) -> Result<Self, Error> {
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
                let verifier =
                    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
                        .build()
                        .map_err(|e| wrong("the client CA", &e))?;
                builder.with_client_cert_verifier(verifier)
            }
        };
        let chain = certificates("the certificate", &listener.certificate)?;
        let key = PrivateKeyDer::from_pem_slice(listener.key.as_bytes())
            .map_err(|e| wrong("the key", &e))?;
        let config = builder
            .with_single_cert(chain, key)
            .map_err(|e| wrong("the certificate and its key", &e))?;
        let sasl = listener.sasl.as_ref().map(Sasl::new).transpose()?;
        Ok(Self {
            acceptor: Arc::new(config).into(),
            sasl: sasl.map(Rc::new),
        })
    }
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
