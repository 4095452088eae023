//! HTTPS with certificates from files.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio_rustls::TlsConnector;
use triad_ingress::{StartError, TlsFiles};

use crate::common::client::{Said, raw};
use crate::common::{Made, WITHIN, World};

/// Writes a new certificate for 127.0.0.1 and its key; returns the certificate.
fn write(dir: &Path) -> String {
    let made = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).unwrap();
    let certificate = made.cert.pem();
    fs::write(dir.join("certificate"), &certificate).unwrap();
    fs::write(dir.join("key"), made.signing_key.serialize_pem()).unwrap();
    certificate
}

fn files(dir: &Path) -> TlsFiles {
    TlsFiles {
        certificate: dir.join("certificate"),
        key: dir.join("key"),
    }
}

/// Sends a request over TLS and trusts only the certificate `trusted`; `None` if the handshake fails.
async fn get(world: &World, trusted: &str) -> Option<Said> {
    let mut roots = RootCertStore::empty();
    roots
        .add(CertificateDer::from_pem_slice(trusted.as_bytes()).unwrap())
        .unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let stream = world.client.connect().await;
    let name = ServerName::try_from("127.0.0.1").unwrap();
    let stream = TlsConnector::from(Arc::new(config))
        .connect(name, stream)
        .await
        .ok()?;
    Some(
        world
            .client
            .send_on(stream, "GET", "/healthz", &[], b"")
            .await,
    )
}

#[tokio::test]
async fn answers_go_over_tls_and_a_new_certificate_counts() {
    let dir = tempfile::tempdir().unwrap();
    let first = write(dir.path());
    let mut made = Made::default();
    made.settings.tls = Some(files(dir.path()));
    let world = World::with(made).await;
    assert_eq!(get(&world, &first).await.unwrap().status, 200);
    let plain = raw(
        world.client.address,
        b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n",
    )
    .await;
    assert!(plain.is_none(), "{plain:?}");
    let second = write(dir.path());
    let renewed = async {
        while get(&world, &second).await.is_none() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(WITHIN, renewed)
        .await
        .expect("the files are read again");
    assert!(get(&world, &first).await.is_none());
}

#[tokio::test]
async fn who_does_not_shake_hands_in_time_is_left() {
    let dir = tempfile::tempdir().unwrap();
    let trusted = write(dir.path());
    let mut made = Made::default();
    made.settings.tls = Some(files(dir.path()));
    made.settings.limits.header_within = Duration::from_millis(50);
    let world = World::with(made).await;
    assert!(
        raw(world.client.address, b"").await.is_none(),
        "it is closed"
    );
    assert_eq!(get(&world, &trusted).await.unwrap().status, 200);
}

#[tokio::test]
async fn files_that_do_not_serve_are_told_when_it_starts() {
    let (dir, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    write(dir.path());
    write(other.path());
    let mixed = TlsFiles {
        certificate: dir.path().join("certificate"),
        key: other.path().join("key"),
    };
    let none = TlsFiles {
        key: dir.path().join("none"),
        ..mixed.clone()
    };
    let wrong = TlsFiles {
        key: dir.path().join("certificate"),
        ..mixed.clone()
    };
    for files in [mixed, none, wrong] {
        let why = crate::access::start_with_tls(files).await.unwrap_err();
        assert!(matches!(why, StartError::Tls(_)), "{why}");
    }
}
