//! A client of the Kafka protocol over TLS, written by hand.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::{digest, hmac, pbkdf2};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use crate::authority::Identity;

pub const USER: &str = "ada";
pub const PASSWORD: &str = "made-up";
const NONCE: &str = "fyko+d2lbbFgONRv9qkxdawL";
const PATIENCE: Duration = Duration::from_secs(20);

/// The broker's refusal of a login: the code and the text.
pub type LoginRefusal = (i16, String);

pub struct Client(StreamOwned<ClientConnection, TcpStream>);

/// A request with this body and no client id.
pub fn request(key: i16, version: i16, body: &[u8]) -> Vec<u8> {
    let mut frame = i32::try_from(body.len() + 10)
        .expect("small")
        .to_be_bytes()
        .to_vec();
    frame.extend_from_slice(&key.to_be_bytes());
    frame.extend_from_slice(&version.to_be_bytes());
    frame.extend_from_slice(&7_i32.to_be_bytes());
    frame.extend_from_slice(&(-1_i16).to_be_bytes());
    frame.extend_from_slice(body);
    frame
}

/// Bytes with a length prefix.
pub fn blob(bytes: &[u8]) -> Vec<u8> {
    let length = i32::try_from(bytes.len()).expect("small");
    [&length.to_be_bytes(), bytes].concat()
}

/// The two bytes at this position, as a number.
pub fn field(bytes: &[u8], at: usize) -> i16 {
    i16::from_be_bytes([bytes[at], bytes[at + 1]])
}

impl Client {
    pub fn connect(addr: SocketAddr, ca: &str, identity: Option<&Identity>) -> Self {
        let certificates = |pem: &str| {
            let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem.as_bytes()).collect();
            found.expect("certificates")
        };
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(certificates(ca));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_root_certificates(roots);
        let config = match identity {
            None => builder.with_no_client_auth(),
            Some(Identity { certificate, key }) => {
                let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).expect("a key");
                let chain = certificates(certificate);
                builder.with_client_auth_cert(chain, key).expect("a chain")
            }
        };
        let tls = ClientConnection::new(Arc::new(config), addr.ip().into()).expect("a session");
        let stream = TcpStream::connect(addr).expect("a connection");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        stream.set_write_timeout(Some(PATIENCE)).expect("a timeout");
        Self(StreamOwned::new(tls, stream))
    }

    /// Sends bytes; the broker may close the connection before it has read all of them.
    pub fn send(&mut self, bytes: &[u8]) {
        let sent = self.0.write_all(bytes).and_then(|()| self.0.flush());
        if let Err(e) = sent {
            assert!(!is_silence(&e), "the broker takes nothing: {e}");
        }
    }

    /// The next answer without length prefix and correlation id; `None` if the broker has closed the connection.
    pub fn receive(&mut self) -> Option<Vec<u8>> {
        let mut length = [0; 4];
        if let Err(e) = self.0.read_exact(&mut length) {
            assert!(!is_silence(&e), "neither answered nor closed: {e}");
            return None;
        }
        let mut body = vec![0; usize::try_from(i32::from_be_bytes(length)).expect("a length")];
        self.0.read_exact(&mut body).expect("a whole answer");
        assert_eq!(body[..4], [0, 0, 0, 7]);
        Some(body.split_off(4))
    }

    pub fn is_closed(&mut self) -> bool {
        self.receive().is_none()
    }

    pub fn ask(&mut self, key: i16, version: i16, body: &[u8]) -> Option<Vec<u8>> {
        self.send(&request(key, version, body));
        self.receive()
    }

    pub fn handshake(&mut self, mechanism: &str) -> Option<Vec<u8>> {
        let length = i16::try_from(mechanism.len()).expect("short");
        let body = [&length.to_be_bytes(), mechanism.as_bytes()].concat();
        self.ask(17, 1, &body)
    }

    /// Sends one SASL message; returns the message in the answer and the session's lifetime in milliseconds, or
    /// `None` if the connection is closed.
    pub fn authenticate(&mut self, message: &[u8]) -> Option<Result<(Vec<u8>, i64), LoginRefusal>> {
        let answer = self.ask(36, 1, &blob(message))?;
        let (code, text) = (field(&answer, 0), field(&answer, 2));
        let text = usize::try_from(text).unwrap_or(0);
        let (text, rest) = answer[4..].split_at(text);
        if code != 0 {
            return Some(Err((code, String::from_utf8_lossy(text).into_owned())));
        }
        let (message, life) = rest[4..].split_at(rest.len() - 12);
        let life = i64::from_be_bytes(life.try_into().expect("eight bytes"));
        Some(Ok((message.to_vec(), life)))
    }

    /// Logs in with a token; returns the session's lifetime in milliseconds.
    pub fn bearer(&mut self, token: &str) -> Result<i64, LoginRefusal> {
        self.handshake("OAUTHBEARER").expect("an answer");
        let message = format!("n,,\x01auth=Bearer {token}\x01\x01");
        let answer = self.authenticate(message.as_bytes()).expect("an answer");
        match answer? {
            (message, life) if message.is_empty() => Ok(life),
            (message, _) => {
                assert_eq!(message, br#"{"status":"invalid_token"}"#);
                let last = self.authenticate(b"\x01").expect("an answer");
                Err(last.expect_err("a refusal"))
            }
        }
    }

    pub fn plain(&mut self, user: &str, password: &str) -> Result<i64, LoginRefusal> {
        self.handshake("PLAIN").expect("an answer");
        let message = format!("\0{user}\0{password}");
        let answer = self.authenticate(message.as_bytes()).expect("an answer");
        answer.map(|(_, life)| life)
    }

    pub fn scram(&mut self, mechanism: &str, password: &str) -> Result<(), LoginRefusal> {
        self.scram_as(USER, mechanism, password)
    }

    /// Logs in by SCRAM (RFC 5802), and checks the broker's proof.
    pub fn scram_as(
        &mut self,
        user: &str,
        mechanism: &str,
        password: &str,
    ) -> Result<(), LoginRefusal> {
        let (hash, mac, derive) = match mechanism {
            "SCRAM-SHA-256" => (
                &digest::SHA256,
                hmac::HMAC_SHA256,
                pbkdf2::PBKDF2_HMAC_SHA256,
            ),
            _ => (
                &digest::SHA512,
                hmac::HMAC_SHA512,
                pbkdf2::PBKDF2_HMAC_SHA512,
            ),
        };
        let sign = |key: &[u8], text: &[u8]| {
            let tag = hmac::sign(&hmac::Key::new(mac, key), text);
            tag.as_ref().to_vec()
        };
        self.handshake(mechanism).expect("an answer");
        let bare = format!("n={user},r={NONCE}");
        let first = self.authenticate(format!("n,,{bare}").as_bytes());
        let (challenge, _) = first.expect("an answer")?;
        let challenge = String::from_utf8(challenge).expect("text");
        let mut parts = challenge.splitn(3, ',').map(|part| &part[2..]);
        let (nonce, salt, rounds) = (parts.next(), parts.next(), parts.next());
        let nonce = nonce.expect("a nonce");
        assert!(nonce.starts_with(NONCE) && nonce.len() > NONCE.len() + 20);
        let salt = STANDARD.decode(salt.expect("a salt")).expect("base64");
        let rounds: u32 = rounds.expect("rounds").parse().expect("a number");
        let rounds = rounds.try_into().expect("at least one round");
        let mut salted = vec![0; hash.output_len()];
        pbkdf2::derive(derive, rounds, &salt, password.as_bytes(), &mut salted);
        let unproved = format!("c=biws,r={nonce}");
        let signed = format!("{bare},{challenge},{unproved}");
        let client_key = sign(&salted, b"Client Key");
        let stored_key = digest::digest(hash, &client_key);
        let signature = sign(stored_key.as_ref(), signed.as_bytes());
        let proof: Vec<u8> = client_key
            .iter()
            .zip(signature)
            .map(|(a, b)| a ^ b)
            .collect();
        let last = format!("{unproved},p={}", STANDARD.encode(proof));
        let (proof, life) = self.authenticate(last.as_bytes()).expect("an answer")?;
        let expected = sign(&sign(&salted, b"Server Key"), signed.as_bytes());
        assert_eq!(
            proof,
            format!("v={}", STANDARD.encode(expected)).into_bytes()
        );
        assert_eq!(life, 0, "a password does not end");
        Ok(())
    }
}

fn is_silence(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}
