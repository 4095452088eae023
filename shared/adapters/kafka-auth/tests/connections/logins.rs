//! Logins with correct credentials succeed.

use std::process::Stdio;
use std::sync::Arc;

use pkcs8::pkcs5::pbes2;
use pkcs8::{LineEnding, PrivateKeyInfoRef, SecretDocument};
use tokio::process::Command;
use triad_aws::Account;
use triad_broker::MskTokenForm;
use triad_kafka::Credentials;
use triad_kafka_auth::MskTokens;

use crate::authority::Identity;
use crate::place::{Asks, PASSWORD, Place, all_works, scram, within};

const KEY_ID: &str = "AKIDEXAMPLE";

#[tokio::test]
async fn tls_with_a_private_ca_gets_in() {
    let place = Place::new(Asks::default());
    all_works(place.client(Credentials::Tls)).await;
}

#[tokio::test]
async fn scram_sha_512_gets_in() {
    let place = Place::new(Asks {
        password: true,
        ..Asks::default()
    });
    all_works(place.client(scram(PASSWORD))).await;
}

#[tokio::test]
async fn scram_sha_256_gets_in_where_the_settings_say_so() {
    let place = Place::new(Asks {
        password: true,
        ..Asks::default()
    });
    let mut config = place.client(scram(PASSWORD));
    config.extra = vec![("sasl.mechanisms".into(), "SCRAM-SHA-256".into())];
    all_works(config).await;
}

/// A private key, encrypted with [`PASSWORD`].
pub fn encrypted(key: &str) -> String {
    let (_, key) = SecretDocument::from_pem(key).expect("a key");
    let key = PrivateKeyInfoRef::try_from(key.as_bytes()).expect("a key");
    let cipher = pbes2::Parameters::generate_pbkdf2_sha256_aes256cbc(2048, &[7; 16], [9; 16]);
    let key = key.encrypt_with_params(cipher.expect("a cipher"), PASSWORD);
    let key = key.expect("an encrypted key");
    let pem = key.to_pem("ENCRYPTED PRIVATE KEY", LineEnding::LF);
    pem.expect("text").to_string()
}

fn certificate_asked() -> Asks {
    Asks {
        certificate: true,
        ..Asks::default()
    }
}

#[tokio::test]
async fn a_client_certificate_gets_in() {
    let place = Place::new(certificate_asked());
    let Identity { certificate, key } = place.authority.client("triad");
    let credentials = Credentials::Mtls {
        certificate,
        private_key: key,
        private_key_password: None,
    };
    all_works(place.client(credentials)).await;
}

#[tokio::test]
async fn a_client_certificate_with_an_encrypted_key_gets_in() {
    let place = Place::new(certificate_asked());
    let Identity { certificate, key } = place.authority.client("triad");
    let credentials = Credentials::Mtls {
        certificate,
        private_key: encrypted(&key),
        private_key_password: Some(PASSWORD.to_owned()),
    };
    all_works(place.client(credentials)).await;
}

/// Runs in a child process, whose environment holds the credentials.
#[tokio::test]
async fn tokens_signed_with_the_environment_s_credentials_get_in() {
    let program = std::env::current_exe().expect("this program");
    let ran = Command::new(program)
        .args(["--exact", "--ignored", "logins::tokens_get_in"])
        .env("AWS_ACCESS_KEY_ID", KEY_ID)
        .env("AWS_SECRET_ACCESS_KEY", PASSWORD)
        .env("AWS_REGION", "eu-west-1")
        .env("AWS_EC2_METADATA_DISABLED", "true")
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output();
    let ran = within("the other process ends", ran).await;
    let ran = ran.expect("another process");
    let said = String::from_utf8_lossy(&ran.stdout);
    assert!(ran.status.success(), "{said}");
    assert!(said.contains("1 passed"), "{said}");
}

#[tokio::test]
#[ignore = "needs credentials in its environment: the test above runs it"]
async fn tokens_get_in() {
    let place = Place::new(Asks {
        token: Some(Arc::new(MskTokenForm::new(KEY_ID))),
        ..Asks::default()
    });
    let tokens = Arc::new(MskTokens::new(Account::of_function()));
    all_works(place.client(Credentials::Tokens(tokens))).await;
}
