//! A refused login is reported soon, with its reason.

use std::sync::Arc;
use std::time::Duration;

use triad_broker::MskTokenForm;
use triad_kafka::{Credentials, KafkaConfig, KafkaError};

use crate::authority::Authority;
use crate::logins::encrypted;
use crate::place::{Asks, LOOK, PASSWORD, Place, look, make_topic, open, scram};
use crate::renewal::{Short, Signed};

/// The error message of a client whose login must be refused. Querying the brokers and opening a reader must fail in
/// the same way.
async fn refused(config: &KafkaConfig) -> String {
    let said = look(config, LOOK).await.expect_err("a refusal");
    println!("{said}");
    let login = matches!(said, KafkaError::Login { .. });
    let opened = open(config, LOOK).await.err().expect("a refusal");
    assert_eq!(matches!(opened, KafkaError::Login { .. }), login);
    said.to_string()
}

fn assert_says(said: &str, parts: &[&str]) {
    for part in parts {
        assert!(said.contains(part), "{part:?} is not in: {said}");
    }
    assert!(!said.contains(PASSWORD), "{said}");
}

fn password_asked() -> Asks {
    Asks {
        password: true,
        ..Asks::default()
    }
}

#[tokio::test]
async fn a_wrong_password() {
    let place = Place::new(password_asked());
    let config = place.client(scram("another"));
    // The refusal comes at once, although the call has an hour.
    let said = look(&config, Duration::from_secs(3_600)).await;
    assert!(matches!(said, Err(KafkaError::Login { .. })), "{said:?}");
    let said = refused(&config).await;
    let expected = ["cannot log in", "the user name or the password is wrong"];
    assert_says(&said, &expected);
    // An admin client reports no reason of its own; the message must still name it.
    let said = make_topic(&config).await.expect_err("a refusal");
    assert_says(&said.to_string(), &expected);
}

#[tokio::test]
async fn a_broker_of_an_unknown_ca() {
    let place = Place::new(Asks::default());
    let mut config = place.client(Credentials::Tls);
    config.login.ca = Some(Authority::new().pem);
    let said = refused(&config).await;
    assert_says(
        &said,
        &["cannot log in", "certificate must descend from the CA"],
    );
}

#[tokio::test]
async fn a_broker_that_the_system_s_cas_do_not_know() {
    let place = Place::new(Asks::default());
    let mut config = place.client(Credentials::Tls);
    config.login.ca = None;
    let said = refused(&config).await;
    assert_says(
        &said,
        &["cannot log in", "certificate must descend from the CA"],
    );
}

#[tokio::test]
async fn a_broker_with_another_name_in_its_certificate() {
    let place = Place::at("elsewhere.example", Asks::default());
    let said = refused(&place.client(Credentials::Tls)).await;
    assert_says(&said, &["cannot log in", "made out to this address"]);
}

#[tokio::test]
async fn no_client_certificate_where_one_is_asked_for() {
    let place = Place::new(Asks {
        certificate: true,
        ..Asks::default()
    });
    let said = refused(&place.client(Credentials::Tls)).await;
    assert_says(&said, &["cannot log in", "asks for a client certificate"]);
}

#[tokio::test]
async fn a_client_certificate_of_an_unknown_ca() {
    let place = Place::new(Asks {
        certificate: true,
        ..Asks::default()
    });
    let other = Authority::new().client("triad");
    let credentials = Credentials::Mtls {
        certificate: other.certificate,
        private_key: other.key,
        private_key_password: None,
    };
    let said = refused(&place.client(credentials)).await;
    assert_says(&said, &["cannot log in", "asks for a client certificate"]);
}

#[tokio::test]
async fn a_key_that_does_not_open_is_a_wrong_setting() {
    let place = Place::new(Asks::default());
    let client = place.authority.client("triad");
    for (key, password) in [
        (encrypted(&client.key), Some("another")),
        (encrypted(&client.key), None),
        ("no key".to_owned(), None),
    ] {
        let credentials = Credentials::Mtls {
            certificate: client.certificate.clone(),
            private_key: key,
            private_key_password: password.map(str::to_owned),
        };
        let said = refused(&place.client(credentials)).await;
        assert_says(&said, &["settings are wrong", "ssl.key.pem"]);
    }
}

#[tokio::test]
async fn a_token_that_the_broker_finds_dead() {
    let place = Place::new(Asks {
        token: Some(Arc::new(MskTokenForm::new(Short::KEY_ID))),
        ..Asks::default()
    });
    // The client believes that the token is valid for an hour; by its signed times it expired 30 s ago.
    let dead = Short::new(Signed {
        ago_s: 60,
        life_s: 30,
        said_life_s: 3600,
    });
    let said = refused(&place.client(Credentials::Tokens(Arc::new(dead)))).await;
    assert_says(&said, &["cannot log in", "the token is refused"]);
}

#[tokio::test]
async fn a_token_that_is_dead_already() {
    let place = Place::new(Asks {
        token: Some(Arc::new(MskTokenForm::new(Short::KEY_ID))),
        ..Asks::default()
    });
    let dead = Short::new(Signed {
        ago_s: 60,
        life_s: 30,
        said_life_s: 30,
    });
    let said = refused(&place.client(Credentials::Tokens(Arc::new(dead)))).await;
    assert_says(&said, &["cannot log in", "unexpired token"]);
}

#[tokio::test]
async fn a_mechanism_that_the_broker_does_not_offer() {
    let place = Place::new(Asks {
        token: Some(Arc::new(MskTokenForm::new(Short::KEY_ID))),
        ..Asks::default()
    });
    let said = refused(&place.client(scram(PASSWORD))).await;
    assert_says(&said, &["cannot log in", "OAUTHBEARER"]);
}

#[tokio::test]
async fn a_client_without_tls_at_the_secured_port() {
    let place = Place::new(password_asked());
    let said = refused(&place.client(Credentials::Plaintext)).await;
    assert_says(&said, &["no Kafka broker answers", "is TLS configured"]);
}

#[tokio::test]
async fn a_client_with_tls_at_the_plain_port() {
    let place = Place::new(password_asked());
    for credentials in [Credentials::Tls, scram(PASSWORD)] {
        let mut config = place.client(credentials);
        config.brokers = place.broker.addr().to_string();
        let said = refused(&config).await;
        assert_says(&said, &["no Kafka broker answers", "is TLS configured"]);
    }
}
