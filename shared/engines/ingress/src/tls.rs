//! TLS of the server, from files.
//!
//! Architecture invariant: this module chooses the provider of cryptography explicitly. It does not set the process's
//! default, because that belongs to the program.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::watched::Watched;

/// The server's certificate and private key for TLS, each in a PEM file. The server looks at the files every
/// [`Limits::files_every`](crate::Limits::files_every) (2 s by default), and reads both again when one has
/// changed; connections that come later use what was read. If the changed files cannot be used, those that
/// were read before stay in use, and the error is logged.
#[derive(Debug, Clone)]
pub struct TlsFiles {
    /// The file with the server's certificate, and after it the certificates between it and its root.
    pub certificate: PathBuf,
    /// The file with the private key of the certificate. The key must not be encrypted.
    pub key: PathBuf,
}

/// Why certificate and key cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read, or has no PEM of its kind.
    #[error("{file}: {why}")]
    File {
        /// The file that cannot be used.
        file: PathBuf,
        /// Why the file cannot be used.
        why: rustls::pki_types::pem::Error,
    },
    /// The files can be read, but the certificate or the key cannot be used, or they do not belong together.
    #[error("the certificate and its key: {0}")]
    Unfit(#[from] rustls::Error),
}

/// Reads the files, again whenever they change; `None` if there are none.
pub(crate) fn watch(
    files: Option<TlsFiles>,
) -> Result<Option<Watched<ServerConfig, TlsError>>, TlsError> {
    let open = |files: TlsFiles| {
        let paths = vec![files.certificate.clone(), files.key.clone()];
        Watched::open(paths, Box::new(move || read(&files)))
    };
    files.map(open).transpose()
}

/// The server's side of TLS 1.2 and 1.3, without client certificates, for HTTP/1.1.
fn read(files: &TlsFiles) -> Result<ServerConfig, TlsError> {
    let of = |file: &Path, why| TlsError::File {
        file: file.to_owned(),
        why,
    };
    let chain = CertificateDer::pem_file_iter(&files.certificate)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|why| of(&files.certificate, why))?;
    let key = PrivateKeyDer::from_pem_file(&files.key).map_err(|why| of(&files.key, why))?;
    let builder = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?;
    let mut config = builder.with_no_client_auth().with_single_cert(chain, key)?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}
