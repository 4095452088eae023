//! SASL login: mechanisms, users, and one exchange from its first message to its end. Independent of frames and
//! connections.
//!
//! Passwords are converted to SCRAM verifiers when the broker starts, and are in no log and no error.

pub(crate) mod bearer;
pub(crate) mod msk;
pub(crate) mod plain;
pub(crate) mod scram;

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::rand::{SecureRandom, SystemRandom};
use scram::{ClientFirst, Hash, Verifier};

use crate::error::Error;

const SALT_BYTES: usize = 16;
const NONCE_BYTES: usize = 18;

/// The users and tokens that may log in by SASL. There must be at least one user or a check of tokens.
#[derive(Clone, Default)]
pub struct SaslConfig {
    /// Passwords by user name, for SCRAM-SHA-512 and SCRAM-SHA-256; at most 1,000, and no name is
    /// empty. With none, SCRAM is not offered.
    pub users: BTreeMap<String, String>,
    /// The check of tokens, for OAUTHBEARER, and for PLAIN with the token as the password. `None`: neither is
    /// offered.
    pub tokens: Option<Arc<dyn TokenCheck>>,
}

impl fmt::Debug for SaslConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Without the passwords: configurations end up in logs.
        f.debug_struct("SaslConfig")
            .field("users", &self.users.len())
            .field("tokens", &self.tokens.is_some())
            .finish()
    }
}

/// Checks the tokens with which clients log in by OAUTHBEARER or PLAIN.
pub trait TokenCheck: Send + Sync {
    /// The owner of a token, and how long the token is valid. It is called on the broker's only thread, so it must
    /// not block.
    ///
    /// # Errors
    /// [`TokenRefused`] if the token is not valid. The client gets no reason.
    fn check(&self, token: &str) -> Result<Grant, TokenRefused>;
}

/// Why a token is refused, for the broker's log. It must not hold the token.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct TokenRefused(pub String);

/// Grant of a valid token: the owner's name and the remaining validity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    /// Name of the person or program that logs in.
    pub name: String,
    /// How long the token is still valid, from now on. If the client does not log in again within
    /// that time, its connection is closed.
    pub ends_in: Duration,
}

impl Grant {
    fn done(self) -> Step {
        Step::Done {
            last: Vec::new(),
            name: self.name,
            ends_in: Some(self.ends_in),
        }
    }
}

/// A mechanism that is offered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mechanism {
    Scram(Hash),
    OauthBearer,
    Plain,
}

impl Mechanism {
    const ALL: [Self; 4] = [
        Self::Scram(Hash::Sha512),
        Self::Scram(Hash::Sha256),
        Self::OauthBearer,
        Self::Plain,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Scram(Hash::Sha512) => "SCRAM-SHA-512",
            Self::Scram(Hash::Sha256) => "SCRAM-SHA-256",
            Self::OauthBearer => "OAUTHBEARER",
            Self::Plain => "PLAIN",
        }
    }
}

/// The users and tokens, prepared for the checks.
pub(crate) struct Sasl {
    users: HashMap<(Hash, String), Verifier>,
    tokens: Option<Arc<dyn TokenCheck>>,
    random: SystemRandom,
}

/// State of an exchange between two messages.
pub(crate) enum Exchange {
    /// The client begins.
    New(Mechanism),
    /// The client's proof is next.
    Proof(scram::Exchange),
    /// The client's token was refused, for this reason; its next message acknowledges that.
    Acknowledgement(String),
}

/// Result of a message.
pub(crate) enum Step {
    /// The client must answer this.
    Challenge(Vec<u8>, Exchange),
    /// The client has proved its name, and is logged in.
    Done {
        /// The last message to the client.
        last: Vec<u8>,
        /// The name of the client's user.
        name: String,
        /// How long the login is valid; `None`: as long as the connection lasts.
        ends_in: Option<Duration>,
    },
}

/// A refused login.
#[derive(Debug)]
pub(crate) struct LoginRefusal {
    /// Reason for the broker's log.
    pub(crate) reason: String,
    /// Text for the client.
    pub(crate) told: String,
}

impl Sasl {
    pub(crate) fn new(config: &SaslConfig) -> Result<Self, Error> {
        let random = SystemRandom::new();
        let mut users = HashMap::with_capacity(config.users.len() * 2);
        for (name, password) in &config.users {
            for hash in [Hash::Sha512, Hash::Sha256] {
                let salt: [u8; SALT_BYTES] = bytes(&random).ok_or(Error::Random)?;
                let verifier = Verifier::new(hash, password, &salt);
                users.insert((hash, name.clone()), verifier);
            }
        }
        Ok(Self {
            users,
            tokens: config.tokens.clone(),
            random,
        })
    }

    pub(crate) fn offered(&self) -> impl Iterator<Item = Mechanism> {
        Mechanism::ALL.into_iter().filter(|mechanism| {
            let has = |hash| self.users.keys().any(|(found, _)| *found == hash);
            match mechanism {
                Mechanism::Scram(hash) => has(*hash),
                Mechanism::OauthBearer | Mechanism::Plain => self.tokens.is_some(),
            }
        })
    }

    /// Handles the client's next message.
    pub(crate) fn step(&self, exchange: Exchange, message: &[u8]) -> Result<Step, LoginRefusal> {
        match exchange {
            Exchange::New(Mechanism::Scram(hash)) => self.first(hash, message),
            Exchange::New(Mechanism::OauthBearer) => self.bearer(message),
            Exchange::New(Mechanism::Plain) => self.plain(message),
            Exchange::Proof(proof) => {
                let last = proof.finish(message);
                let last = last.map_err(|reason| wrong(&proof.user, reason))?;
                Ok(Step::Done {
                    last: last.into_bytes(),
                    name: proof.user,
                    ends_in: None,
                })
            }
            Exchange::Acknowledgement(reason) => Err(LoginRefusal {
                reason,
                told: "Authentication failed: the token is refused".to_owned(),
            }),
        }
    }

    fn first(&self, hash: Hash, message: &[u8]) -> Result<Step, LoginRefusal> {
        let first = ClientFirst::parse(message).map_err(malformed)?;
        let verifier = self.users.get(&(hash, first.user.clone()));
        let Some(verifier) = verifier.cloned() else {
            return Err(wrong(&first.user, "there is no such user"));
        };
        let nonce: [u8; NONCE_BYTES] =
            bytes(&self.random).ok_or_else(|| malformed("there are no random numbers"))?;
        let nonce = STANDARD.encode(nonce);
        let (proof, challenge) = scram::Exchange::begin(hash, first, verifier, &nonce);
        let next = Exchange::Proof(proof);
        Ok(Step::Challenge(challenge.into_bytes(), next))
    }

    fn check(&self) -> Result<&dyn TokenCheck, LoginRefusal> {
        let check = self.tokens.as_deref();
        check.ok_or_else(|| malformed("tokens are not taken"))
    }

    fn plain(&self, message: &[u8]) -> Result<Step, LoginRefusal> {
        let (user, token) = plain::user_and_password(message).map_err(malformed)?;
        let granted = self.check()?.check(token).map(Grant::done);
        granted.map_err(|TokenRefused(reason)| wrong(user, &reason))
    }

    fn bearer(&self, message: &[u8]) -> Result<Step, LoginRefusal> {
        let token = bearer::token(message).map_err(malformed)?;
        Ok(match self.check()?.check(token) {
            Ok(grant) => grant.done(),
            Err(TokenRefused(reason)) => {
                let next = Exchange::Acknowledgement(reason);
                Step::Challenge(bearer::REFUSED.into(), next)
            }
        })
    }
}

/// The refusal for a wrong name or password: the client's text does not say which.
fn wrong(user: &str, reason: &str) -> LoginRefusal {
    LoginRefusal {
        reason: format!("{user:?}: {reason}"),
        told: "Authentication failed: the user name or the password is wrong".to_owned(),
    }
}

fn malformed(reason: &'static str) -> LoginRefusal {
    LoginRefusal {
        reason: reason.to_owned(),
        told: format!("Authentication failed: {reason}"),
    }
}

fn bytes<const N: usize>(random: &SystemRandom) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    random.fill(&mut bytes).ok()?;
    Some(bytes)
}
