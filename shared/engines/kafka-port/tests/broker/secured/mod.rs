//! The secured listener with a client written by hand: which requests the broker answers before, during and after a
//! login. `clients.rs` and the tests of triad-kafka-auth cover real clients.

mod client;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use crate::authority::{Authority, Identity};
use client::{Client, PASSWORD, USER, field};
use triad_broker::{
    Broker, BrokerConfig, BrokerHandle, Error, Grant, SaslConfig, SecuredListener, TokenCheck,
    TokenRefused,
};

const API_VERSIONS: i16 = 18;
const METADATA: i16 = 3;
const HANDSHAKE: i16 = 17;
const AUTHENTICATE: i16 = 36;

/// Accepts the token "good" for the user "ada" and "bob's" for "bob", each for an hour.
struct Tokens;

impl TokenCheck for Tokens {
    fn check(&self, token: &str) -> Result<Grant, TokenRefused> {
        let name = match token {
            "good" => "ada",
            "bob's" => "bob",
            _ => return Err(TokenRefused("nobody's token".to_owned())),
        };
        Ok(Grant {
            name: name.to_owned(),
            ends_in: Duration::from_secs(3600),
        })
    }
}

fn listener(authority: &Authority) -> SecuredListener {
    let Identity { certificate, key } = authority.server("127.0.0.1");
    SecuredListener {
        listen: ([127, 0, 0, 1], 0).into(),
        certificate,
        key,
        client_ca: None,
        sasl: None,
    }
}

fn sasl() -> SaslConfig {
    SaslConfig {
        users: BTreeMap::from([(USER.to_owned(), PASSWORD.to_owned())]),
        tokens: Some(Arc::new(Tokens)),
    }
}

fn start(secured: SecuredListener) -> BrokerHandle {
    Broker::start(BrokerConfig {
        secured: Some(secured),
        ..BrokerConfig::default()
    })
    .expect("a broker")
}

/// A broker with SASL, and a function that connects to it.
fn with_sasl() -> (BrokerHandle, impl Fn() -> Client) {
    let authority = Authority::new();
    let broker = start(SecuredListener {
        sasl: Some(sasl()),
        ..listener(&authority)
    });
    let addr = broker.secured_addr().expect("a secured listener");
    (broker, move || Client::connect(addr, &authority.pem, None))
}

#[test]
fn who_logs_in_by_scram_is_served_and_told_the_secured_address() {
    let (broker, connect) = with_sasl();
    for mechanism in ["SCRAM-SHA-256", "SCRAM-SHA-512"] {
        let mut client = connect();
        let versions = client.ask(API_VERSIONS, 0, &[]).expect("an answer");
        let keys: Vec<i16> = versions[6..].chunks(6).map(|c| field(c, 0)).collect();
        assert!(keys.contains(&HANDSHAKE) && keys.contains(&AUTHENTICATE));
        assert_eq!(client.scram(mechanism, PASSWORD), Ok(()));
        // The answer lists one broker: its id, host and port.
        let metadata = client.ask(METADATA, 1, &[0, 0, 0, 0]).expect("an answer");
        let port = broker.secured_addr().expect("an address").port();
        let mut expected = vec![0, 0, 0, 1, 0, 0, 0, 1, 0, 9];
        expected.extend_from_slice(b"127.0.0.1");
        expected.extend_from_slice(&i32::from(port).to_be_bytes());
        assert_eq!(metadata[..expected.len()], expected);
    }
}

#[test]
fn a_wrong_password_and_an_unknown_user_are_refused_alike() {
    let (_broker, connect) = with_sasl();
    let mut client = connect();
    let wrong = client.scram("SCRAM-SHA-512", "guess").expect_err("a guess");
    assert_eq!(wrong.0, 58);
    assert!(wrong.1.contains("password is wrong"), "{wrong:?}");
    assert!(client.is_closed());
    let mut client = connect();
    let unknown = client.scram_as("nobody", "SCRAM-SHA-512", PASSWORD);
    assert_eq!(unknown, Err(wrong));
    assert!(client.is_closed());
}

#[test]
fn a_mechanism_that_is_not_offered_is_answered_with_those_that_are() {
    let (_broker, connect) = with_sasl();
    let mut client = connect();
    let answer = client.handshake("GSSAPI").expect("an answer");
    assert_eq!(field(&answer, 0), 33);
    let text = String::from_utf8_lossy(&answer).into_owned();
    for offered in ["SCRAM-SHA-512", "SCRAM-SHA-256", "OAUTHBEARER", "PLAIN"] {
        assert!(text.contains(offered), "{text:?}");
    }
    assert!(client.is_closed());
}

#[test]
fn nothing_but_the_login_is_answered_before_it() {
    let (_broker, connect) = with_sasl();
    for key in [METADATA, 0, 1, 10, 19, 22] {
        assert_eq!(connect().ask(key, 4, &[0; 16]), None, "API {key}");
        let mut client = connect();
        client.handshake("SCRAM-SHA-512").expect("an answer");
        assert_eq!(client.ask(key, 4, &[0; 16]), None, "API {key}");
    }
    let mut client = connect();
    let without_handshake = client.authenticate(b"n,,n=u,r=x");
    assert_eq!(without_handshake, None);
    // After a handshake of version 0, SASL messages come without a Kafka request around them; the broker refuses
    // that.
    let mut client = connect();
    assert_eq!(client.ask(HANDSHAKE, 0, &[0, 1, b'x']), None);
    // The broker refuses the login and then closes the connection; it does not answer a request that was sent with
    // the login.
    let mut client = connect();
    client.handshake("OAUTHBEARER").expect("an answer");
    client.authenticate(b"n,,\x01auth=Bearer bad\x01\x01");
    let mut both = client::request(AUTHENTICATE, 1, &client::blob(b"\x01"));
    both.extend(client::request(METADATA, 1, &[0, 0, 0, 0]));
    client.send(&both);
    assert_eq!(field(&client.receive().expect("a refusal"), 0), 58);
    assert!(client.is_closed());
}

#[test]
fn a_large_request_is_taken_after_the_login_only() {
    let (_broker, connect) = with_sasl();
    // A DescribeGroups request with 2,000 ids of groups: 66 KiB.
    let mut body = 2_000_i32.to_be_bytes().to_vec();
    for _ in 0..2_000 {
        body.extend_from_slice(&[0, 32]);
        body.extend_from_slice(&[b'g'; 32]);
    }
    assert!(body.len() > 64 << 10);
    assert_eq!(connect().ask(15, 0, &body), None);
    let mut client = connect();
    assert_eq!(client.scram("SCRAM-SHA-512", PASSWORD), Ok(()));
    assert!(client.ask(15, 0, &body).is_some());
}

#[test]
fn a_token_is_taken_or_refused_as_the_rfc_says() {
    let (_broker, connect) = with_sasl();
    let mut client = connect();
    assert_eq!(client.bearer("good"), Ok(3_600_000));
    assert!(client.ask(METADATA, 1, &[0, 0, 0, 0]).is_some());
    // A client may log in again on the same connection, but only as the same user.
    assert_eq!(client.bearer("good"), Ok(3_600_000));
    assert_eq!(client.bearer("bob's").expect_err("somebody else").0, 58);
    assert!(client.is_closed());
    let mut client = connect();
    let refused = client.bearer("bad").expect_err("a bad token");
    assert_eq!(refused.0, 58);
    assert!(refused.1.contains("token"), "{refused:?}");
    assert!(client.is_closed());
}

#[test]
fn a_token_may_be_the_password_of_a_plain_login() {
    let (_broker, connect) = with_sasl();
    let mut client = connect();
    assert_eq!(client.plain("alice", "good"), Ok(3_600_000));
    assert!(client.ask(METADATA, 1, &[0, 0, 0, 0]).is_some());
    let mut client = connect();
    let refused = client.plain("alice", "bad").expect_err("a bad token");
    assert_eq!(refused.0, 58);
    assert!(refused.1.contains("password is wrong"), "{refused:?}");
    assert!(client.is_closed());
}

#[test]
fn a_client_certificate_is_asked_for_where_there_is_a_ca_for_it() {
    let (ours, theirs) = (Authority::new(), Authority::new());
    let broker = start(SecuredListener {
        client_ca: Some(ours.pem.clone()),
        ..listener(&ours)
    });
    let addr = broker.secured_addr().expect("an address");
    let mut with = Client::connect(addr, &ours.pem, Some(&ours.client("someone")));
    assert!(with.ask(METADATA, 1, &[0, 0, 0, 0]).is_some());
    let mut without = Client::connect(addr, &ours.pem, None);
    assert_eq!(without.ask(API_VERSIONS, 0, &[]), None);
    let mut other = Client::connect(addr, &ours.pem, Some(&theirs.client("someone")));
    assert_eq!(other.ask(API_VERSIONS, 0, &[]), None);
}

#[test]
fn each_listener_closes_the_other_s_clients() {
    let (broker, connect) = with_sasl();
    let addr = broker.secured_addr().expect("an address");
    let mut plain = TcpStream::connect(addr).expect("a connection");
    let timeout = Some(Duration::from_secs(20));
    plain.set_read_timeout(timeout).expect("a timeout");
    plain
        .write_all(&client::request(API_VERSIONS, 0, &[]))
        .expect("sent");
    // The client gets at most a TLS alert before the connection ends.
    let mut rest = Vec::new();
    let _ = plain.read_to_end(&mut rest);
    assert!(rest.len() < 16, "{rest:?}");
    // The listener without TLS offers no login.
    let mut plain = TcpStream::connect(broker.addr()).expect("a connection");
    plain.set_read_timeout(timeout).expect("a timeout");
    let handshake = client::request(HANDSHAKE, 1, &[0, 1, b'x']);
    plain.write_all(&handshake).expect("sent");
    plain.read_to_end(&mut Vec::new()).expect("the end");
    assert!(connect().ask(API_VERSIONS, 0, &[]).is_some());
}

/// Kills the program when the test ends.
struct Program(Child);

impl Drop for Program {
    fn drop(&mut self) {
        self.0.kill().expect("a kill");
        self.0.wait().expect("an end");
    }
}

#[test]
fn the_program_prints_both_addresses_and_takes_users_from_a_file() {
    let authority = Authority::new();
    let Identity { certificate, key } = authority.server("127.0.0.1");
    let dir = tempfile::tempdir().expect("a directory");
    let file = |name: &str, text: &str| {
        let path = dir.path().join(name);
        std::fs::write(&path, text).expect("a file");
        path
    };
    let users = format!("other:with:colons\n\n{USER}:{PASSWORD}\n");
    let start = |users: &str| {
        Command::new(env!("CARGO_BIN_EXE_triad-broker"))
            .args(["--secured-listen", "127.0.0.1:0", "--msk-key-id", "AKID"])
            .arg("--tls-certificate")
            .arg(file("certificate.pem", &certificate))
            .arg("--tls-key")
            .arg(file("key.pem", &key))
            .arg("--users")
            .arg(file("users", users))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program")
    };
    let mut program = Program(start(&users));
    let stdout = program.0.stdout.take().expect("a pipe");
    let lines: Vec<String> = BufReader::new(stdout)
        .lines()
        .take(2)
        .collect::<Result<_, _>>()
        .expect("two lines");
    let addr = lines[1].parse().expect("an address");
    let mut client = Client::connect(addr, &authority.pem, None);
    assert_eq!(client.scram("SCRAM-SHA-512", PASSWORD), Ok(()));
    let mut client = Client::connect(addr, &authority.pem, None);
    let user = client.scram_as("other", "SCRAM-SHA-256", "with:colons");
    assert_eq!(user, Ok(()));
    let mut client = Client::connect(addr, &authority.pem, None);
    assert_eq!(client.bearer("no token").expect_err("a refusal").0, 58);

    let wrong = start("ada made-up").wait_with_output().expect("an end");
    let said = String::from_utf8_lossy(&wrong.stderr);
    assert!(!wrong.status.success());
    assert!(
        said.contains("line 1") && !said.contains(PASSWORD),
        "{said}"
    );
}

#[test]
fn settings_that_cannot_work_are_named_and_secrets_are_not_shown() {
    let authority = Authority::new();
    let good = || SecuredListener {
        sasl: Some(sasl()),
        ..listener(&authority)
    };
    let refused = |secured| {
        let config = BrokerConfig {
            secured: Some(secured),
            ..BrokerConfig::default()
        };
        let shown = format!("{config:?}");
        assert!(!shown.contains(PASSWORD) && !shown.contains("PRIVATE"));
        match Broker::start(config) {
            Err(Error::Config(said)) => said,
            other => panic!("{other:?}"),
        }
    };
    let no_certificate = SecuredListener {
        certificate: String::new(),
        ..good()
    };
    assert!(refused(no_certificate).contains("the certificate"));
    let other_key = SecuredListener {
        key: authority.server("127.0.0.1").key,
        ..good()
    };
    assert!(refused(other_key).contains("its key"));
    let no_ca = SecuredListener {
        client_ca: Some("none".to_owned()),
        ..good()
    };
    assert!(refused(no_ca).contains("client CA"));
    let nobody = SecuredListener {
        sasl: Some(SaslConfig::default()),
        ..good()
    };
    assert!(refused(nobody).contains("at least one user"));
    let in_the_clear = BrokerConfig {
        listen: ([192, 0, 2, 1], 0).into(),
        login: Some(sasl()),
        allow_remote: true,
        ..BrokerConfig::default()
    };
    let said = Broker::start(in_the_clear).expect_err("a login without TLS");
    assert!(said.to_string().contains("loopback"), "{said}");
    let reachable = BrokerConfig {
        secured: Some(SecuredListener {
            listen: ([0, 0, 0, 0], 0).into(),
            ..good()
        }),
        ..BrokerConfig::default()
    };
    let started = Broker::start(reachable);
    assert!(matches!(started, Err(Error::NotLoopback { .. })));
}
