//! Certificates of an agent, against a service that demands one: those it presents, those it trusts, and their
//! rotation.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use serde_json::Value;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio_rustls::TlsAcceptor;
use triad_http::{HttpService, HttpSettings, HttpSettingsError, SecretRef, Tls};
use triad_runtime::Fault;
use triad_tests::poll::until;
use triad_workflow::Millis;

type Authority = CertifiedIssuer<'static, KeyPair>;

fn authority() -> Authority {
    let mut params = CertificateParams::new(Vec::new()).expect("no names");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().expect("a key");
    CertifiedIssuer::self_signed(params, key).expect("a certificate")
}

/// A certificate for a name, with its key.
fn issued(authority: &Authority, name: &str) -> (rcgen::Certificate, KeyPair) {
    let key = KeyPair::generate().expect("a key");
    let params = CertificateParams::new(vec![name.to_owned()]).expect("a name");
    let certificate = params.signed_by(&key, authority).expect("a certificate");
    (certificate, key)
}

/// A service at `https://localhost:PORT` with a certificate of `own`, which demands a certificate of `clients`. It
/// answers with a checksum of the client's certificate.
async fn service(own: &Authority, clients: &Authority) -> u16 {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut roots = RootCertStore::empty();
    roots.add(clients.der().clone()).expect("a root");
    let verifier =
        WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone()).build();
    let (certificate, key) = issued(own, "localhost");
    let key = PrivateKeyDer::try_from(key.serialize_der()).expect("a key");
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_client_cert_verifier(verifier.expect("a verifier"))
        .with_single_cert(vec![certificate.der().clone()], key)
        .expect("a certificate");
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await;
    let listener = listener.expect("a port");
    let port = listener.local_addr().expect("it is bound").port();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                // A client without an accepted certificate fails here.
                let mut stream = acceptor.accept(stream).await?;
                let shown = stream
                    .get_ref()
                    .1
                    .peer_certificates()
                    .map(|all| all[0].clone());
                let mut seen = Vec::new();
                while !seen.ends_with(b"{}") {
                    let mut next = [0; 1024];
                    let read = stream.read(&mut next).await?;
                    seen.extend_from_slice(&next[..read]);
                }
                let body = shown.map_or_else(String::new, |der| format!("\"{}\"", sum(&der)));
                let answer = format!(
                    "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
                    body.len()
                );
                stream.write_all(answer.as_bytes()).await?;
                stream.shutdown().await
            });
        }
    });
    port
}

fn sum(der: &CertificateDer<'_>) -> String {
    let sum = ring::digest::digest(&ring::digest::SHA256, der);
    sum.as_ref().iter().map(|b| format!("{b:02x}")).collect()
}

fn file(at: &Path) -> Option<SecretRef> {
    Some(SecretRef::File {
        file: at.to_owned(),
    })
}

fn settings(port: u16, tls: Tls) -> HttpSettings {
    HttpSettings {
        tls: Some(tls),
        ..crate::settings(format!("https://localhost:{port}"))
    }
}

async fn call(service: &HttpService) -> Result<Value, Fault> {
    crate::pay(service, Millis(10_000)).await
}

/// Files with a certificate, its key, and the root certificates.
struct Files {
    folder: TempDir,
}

impl Files {
    fn new(ca: &Authority) -> Self {
        let folder = tempfile::tempdir().expect("a directory");
        std::fs::write(folder.path().join("ca"), ca.pem()).expect("it is written");
        Self { folder }
    }

    /// Writes certificate and key; returns the checksum of the certificate. The files' times differ from those before,
    /// however coarse the file system's clock.
    fn issue(&self, authority: &Authority) -> String {
        let (certificate, key) = issued(authority, "the shop");
        for (name, text) in [
            ("certificate", certificate.pem()),
            ("key", key.serialize_pem()),
        ] {
            let at = self.folder.path().join(name);
            let before = std::fs::metadata(&at).and_then(|m| m.modified()).ok();
            std::fs::write(&at, text).expect("it is written");
            if let Some(before) = before {
                let open = std::fs::File::options().write(true).open(&at);
                open.and_then(|file| file.set_modified(before + Duration::from_secs(2)))
                    .expect("a time");
            }
        }
        sum(certificate.der())
    }

    fn tls(&self) -> Tls {
        let at = |name: &str| file(&self.folder.path().join(name));
        Tls {
            certificate: at("certificate"),
            key: at("key"),
            ca: at("ca"),
        }
    }
}

#[tokio::test]
async fn the_service_sees_the_agents_certificate_and_a_new_one_without_a_restart() {
    let (own, clients) = (authority(), authority());
    let files = Files::new(&own);
    let first = files.issue(&clients);
    let port = service(&own, &clients).await;
    let agent = HttpService::new(&settings(port, files.tls())).expect("sound settings");
    assert_eq!(call(&agent).await, Ok(Value::from(first.clone())));
    let second = files.issue(&clients);
    // The agent checks the files every 10 s.
    let shown = until("the other certificate is shown", async || {
        let shown = call(&agent).await.expect("an answer");
        (shown.as_str() != Some(first.as_str())).then_some(shown)
    })
    .await;
    assert_eq!(shown, Value::from(second));
}

#[tokio::test]
async fn without_a_certificate_that_is_accepted_no_call_is_made() {
    let (own, clients, stranger) = (authority(), authority(), authority());
    let port = service(&own, &clients).await;
    let files = Files::new(&own);
    let alone = Tls {
        certificate: None,
        key: None,
        ..files.tls()
    };
    files.issue(&stranger);
    for tls in [alone, files.tls()] {
        let agent = HttpService::new(&settings(port, tls)).expect("sound settings");
        let fault = call(&agent).await.expect_err("it is not let in");
        assert!(matches!(fault, Fault::Transient { .. }), "{fault:?}");
    }
    // A service whose certificate is of another authority is not trusted.
    let files = Files::new(&stranger);
    files.issue(&clients);
    let agent = HttpService::new(&settings(port, files.tls())).expect("sound settings");
    let fault = call(&agent).await.expect_err("it is not trusted");
    let Fault::Transient {
        code,
        message,
        maybe_applied: false,
        ..
    } = fault
    else {
        panic!("{fault:?}");
    };
    assert_eq!(code, "connect");
    assert!(message.contains("certificate"), "{message}");
}

#[test]
fn certificates_that_cannot_be_used_are_named_and_not_shown() {
    let ca = authority();
    let files = Files::new(&ca);
    files.issue(&ca);
    let other = Files::new(&ca);
    other.issue(&ca);
    std::fs::write(other.folder.path().join("ca"), "hidden").expect("it is written");
    for (tls, said) in [
        (
            Tls {
                key: None,
                ..files.tls()
            },
            "tls: needs a certificate and its key",
        ),
        (
            Tls {
                key: other.tls().key,
                ..files.tls()
            },
            "tls: certificate and key cannot be used together",
        ),
        (
            Tls {
                ca: other.tls().ca,
                ..files.tls()
            },
            "tls: ca: has no certificate in PEM",
        ),
        (
            Tls {
                key: files.tls().ca,
                ..files.tls()
            },
            "tls: key: is not a private key in PEM",
        ),
    ] {
        let error = HttpService::new(&settings(1, tls)).expect_err("it cannot be used");
        assert!(matches!(error, HttpSettingsError::Tls(_)), "{error}");
        let error = error.to_string();
        assert!(error.starts_with(said), "{error}");
        assert!(!error.contains("hidden"), "{error}");
    }
}
