//! The server's side of SCRAM, without channel binding.
//!
//! Source: RFC 5802 and RFC 7677. As in Kafka, names and passwords are taken as they come, without
//! SASLprep.

use std::num::NonZeroU32;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::{digest, hmac, pbkdf2};

/// Rounds of the key derivation: the minimum of RFC 7677, and Kafka's default.
const ITERATIONS: NonZeroU32 = NonZeroU32::new(4096).unwrap();
/// Bound: a client's nonce, in bytes.
const MAX_NONCE: usize = 256;

/// The hash function.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Hash {
    Sha256,
    Sha512,
}

impl Hash {
    fn digest(self, data: &[u8]) -> digest::Digest {
        let algorithm = match self {
            Self::Sha256 => &digest::SHA256,
            Self::Sha512 => &digest::SHA512,
        };
        digest::digest(algorithm, data)
    }

    fn hmac(self, key: &[u8], data: &[u8]) -> hmac::Tag {
        let algorithm = match self {
            Self::Sha256 => hmac::HMAC_SHA256,
            Self::Sha512 => hmac::HMAC_SHA512,
        };
        hmac::sign(&hmac::Key::new(algorithm, key), data)
    }

    fn salted(self, password: &str, salt: &[u8]) -> Vec<u8> {
        let (algorithm, length) = match self {
            Self::Sha256 => (pbkdf2::PBKDF2_HMAC_SHA256, digest::SHA256_OUTPUT_LEN),
            Self::Sha512 => (pbkdf2::PBKDF2_HMAC_SHA512, digest::SHA512_OUTPUT_LEN),
        };
        let mut salted = vec![0; length];
        pbkdf2::derive(
            algorithm,
            ITERATIONS,
            salt,
            password.as_bytes(),
            &mut salted,
        );
        salted
    }
}

/// The stored form of a password (RFC 5802, section 3).
#[derive(Clone)]
pub(crate) struct Verifier {
    salt: Vec<u8>,
    stored_key: Vec<u8>,
    server_key: Vec<u8>,
}

impl Verifier {
    pub(crate) fn new(hash: Hash, password: &str, salt: &[u8]) -> Self {
        let salted = hash.salted(password, salt);
        let client_key = hash.hmac(&salted, b"Client Key");
        Self {
            salt: salt.to_vec(),
            stored_key: hash.digest(client_key.as_ref()).as_ref().to_vec(),
            server_key: hash.hmac(&salted, b"Server Key").as_ref().to_vec(),
        }
    }
}

/// The client's first message.
#[derive(Debug)]
pub(crate) struct ClientFirst<'a> {
    header: &'a str,
    bare: &'a str,
    nonce: &'a str,
    pub(crate) user: String,
}

impl<'a> ClientFirst<'a> {
    /// Parses the message.
    pub(crate) fn parse(message: &'a [u8]) -> Result<Self, &'static str> {
        let message = std::str::from_utf8(message).map_err(|_| "the first message is no text")?;
        let mut parts = message.splitn(3, ',');
        let (binding, identity, bare) = (parts.next(), parts.next(), parts.next());
        let (Some(binding), Some(identity), Some(bare)) = (binding, identity, bare) else {
            return Err("the first message is cut short");
        };
        if binding != "n" && binding != "y" {
            return Err("channel binding is not offered");
        }
        let mut attributes = bare.split(',');
        let user = attributes.next().and_then(|a| a.strip_prefix("n="));
        let user = user.and_then(unescape).ok_or("the user's name is wrong")?;
        let nonce = attributes.next().and_then(|a| a.strip_prefix("r="));
        let nonce = nonce
            .filter(|n| (1..=MAX_NONCE).contains(&n.len()))
            .ok_or("the nonce is wrong")?;
        let same = |asked| unescape(asked).is_some_and(|asked| asked == user);
        if !identity.is_empty() && !identity.strip_prefix("a=").is_some_and(same) {
            return Err("acting as another user is not supported");
        }
        Ok(Self {
            header: &message[..message.len() - bare.len()],
            bare,
            nonce,
            user,
        })
    }
}

/// Unescapes commas and equals signs in names (RFC 5802, section 5.1).
fn unescape(name: &str) -> Option<String> {
    let mut parts = name.split('=');
    let mut plain = parts.next()?.to_owned();
    for part in parts {
        let (sign, rest) = match part.split_at_checked(2)? {
            ("2C", rest) => (',', rest),
            ("3D", rest) => ('=', rest),
            _ => return None,
        };
        plain.push(sign);
        plain.push_str(rest);
    }
    (!plain.is_empty()).then_some(plain)
}

/// State of an exchange that waits for the client's proof.
pub(crate) struct Exchange {
    hash: Hash,
    verifier: Verifier,
    pub(crate) user: String,
    /// The parts that the proof's message must repeat: the header in base64, and both nonces.
    expected: String,
    /// The client's first message and the server's, which both sides sign.
    signed: String,
}

impl Exchange {
    /// Answers the client's first message; returns the state and the answer.
    pub(crate) fn begin(
        hash: Hash,
        first: ClientFirst<'_>,
        verifier: Verifier,
        server_nonce: &str,
    ) -> (Self, String) {
        let nonce = format!("{}{server_nonce}", first.nonce);
        let salt = STANDARD.encode(&verifier.salt);
        let challenge = format!("r={nonce},s={salt},i={ITERATIONS}");
        let exchange = Self {
            hash,
            verifier,
            expected: format!("c={},r={nonce}", STANDARD.encode(first.header)),
            signed: format!("{},{challenge}", first.bare),
            user: first.user,
        };
        (exchange, challenge)
    }

    /// Checks the proof; returns the server's own.
    pub(crate) fn finish(&self, message: &[u8]) -> Result<String, &'static str> {
        let message = std::str::from_utf8(message).map_err(|_| "the last message is no text")?;
        let (unproved, proof) = message
            .rsplit_once(",p=")
            .ok_or("the last message has no proof")?;
        let rest = unproved.strip_prefix(&self.expected);
        if !rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(',')) {
            return Err("the last message does not belong to the first");
        }
        let proof = STANDARD
            .decode(proof)
            .map_err(|_| "the proof is no base64")?;
        let signed = format!("{},{unproved}", self.signed);
        let signature = self.hash.hmac(&self.verifier.stored_key, signed.as_bytes());
        let signature = signature.as_ref();
        if proof.len() != signature.len() {
            return Err("the proof has the wrong length");
        }
        let client_key: Vec<u8> = proof.iter().zip(signature).map(|(a, b)| a ^ b).collect();
        // Hashes are compared, so the time does not depend on the key.
        if self.hash.digest(&client_key).as_ref() != self.verifier.stored_key {
            return Err("the password is wrong");
        }
        let proof = self.hash.hmac(&self.verifier.server_key, signed.as_bytes());
        Ok(format!("v={}", STANDARD.encode(proof)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SALT: &str = "W22ZaJ0SNY7soEsUEjb6gQ==";
    const FIRST: &[u8] = b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO";
    const SERVER_NONCE: &str = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0";
    const LAST: &str = "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0";
    const PROOF: &str = "dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=";

    fn exchange(password: &str) -> (Exchange, String) {
        let salt = STANDARD.decode(SALT).unwrap();
        let verifier = Verifier::new(Hash::Sha256, password, &salt);
        let first = ClientFirst::parse(FIRST).unwrap();
        Exchange::begin(Hash::Sha256, first, verifier, SERVER_NONCE)
    }

    #[test]
    fn the_example_of_rfc_7677_is_followed_to_the_letter() {
        let (exchange, challenge) = exchange("pencil");
        assert_eq!(exchange.user, "user");
        assert_eq!(
            challenge,
            "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
        );
        let last = format!("{LAST},p={PROOF}");
        assert_eq!(
            exchange.finish(last.as_bytes()).unwrap(),
            "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
        );
    }

    #[test]
    fn what_is_not_proved_is_refused() {
        let good = format!("{LAST},p={PROOF}");
        let (exchange_with_another, _) = exchange("pencils");
        let refused = exchange_with_another.finish(good.as_bytes());
        assert_eq!(refused, Err("the password is wrong"));
        let (exchange, _) = exchange("pencil");
        let other_nonce = good.replace("k0,p", "k1,p");
        let longer_nonce = good.replace("k0,p", "k00,p");
        let other_header = good.replace("biws", "eSws");
        let short = format!("{LAST},p=dHzb");
        for message in [LAST, &other_nonce, &longer_nonce, &other_header, &short, ""] {
            assert!(exchange.finish(message.as_bytes()).is_err(), "{message}");
        }
        assert!(exchange.finish(&[0xff]).is_err());
    }

    #[test]
    fn first_messages_are_read_as_the_rfc_writes_them() {
        let user = |message: &str| ClientFirst::parse(message.as_bytes()).map(|f| f.user);
        assert_eq!(user("y,,n=a=2Cb=3Dc,r=x,tokenauth=false").unwrap(), "a,b=c");
        assert_eq!(user("n,a=u,n=u,r=x").unwrap(), "u");
        for wrong in [
            "",
            "n,,",
            "p=tls-unique,,n=u,r=x",
            "n,a=other,n=u,r=x",
            "n,,n=,r=x",
            "n,,n=u=2,r=x",
            "n,,n=u=2X,r=x",
            "n,,n=u",
            "n,,n=u,r=",
            "n,,m=ext,n=u,r=x",
        ] {
            assert!(user(wrong).is_err(), "{wrong}");
        }
        let long = format!("n,,n=u,r={}", "x".repeat(MAX_NONCE + 1));
        assert!(user(&long).is_err());
    }
}
