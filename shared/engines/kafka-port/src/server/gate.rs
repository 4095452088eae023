//! The login gate of a connection, for listeners with SASL.
//!
//! The order is Kafka's: a handshake that names the mechanism, then the mechanism's messages in frames of their own
//! (KIP-43, KIP-152). A client whose login expires must log in again on the same connection, with the same mechanism
//! and as the same user (KIP-368); any other request after the expiry closes the connection.
//!
//! Bounds: [`LOGIN_WITHIN`] from the connection to the login, [`MAX_LOGIN_REQUEST`] a request before it.

use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use kafka_protocol::error::ResponseError;
use kafka_protocol::messages::{
    ApiKey, SaslAuthenticateRequest, SaslAuthenticateResponse, SaslHandshakeRequest,
    SaslHandshakeResponse,
};
use kafka_protocol::protocol::StrBytes;
use tokio::time::Instant;

use crate::apis::versions;
use crate::sasl::{Exchange, LoginRefusal, Mechanism, Sasl, Step};
use crate::wire::frame::{Header, Malformed};

/// Bound: time for the TLS handshake and the login together.
pub(crate) const LOGIN_WITHIN: Duration = Duration::from_secs(10);
/// Bound: bytes of a request before the login.
pub(crate) const MAX_LOGIN_REQUEST: usize = 64 << 10;

/// Why a connection ends at the gate.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Shut {
    #[error("{0:?} was asked for before the login")]
    NotLoggedIn(ApiKey),
    #[error("no login within {LOGIN_WITHIN:?}")]
    TooSlow,
    #[error("the login has ended, and {0:?} was asked for before another")]
    Ended(ApiKey),
    #[error("SaslAuthenticate without a handshake before it")]
    NoHandshake,
    #[error("the login is refused: {0}")]
    Refused(String),
    #[error(transparent)]
    Malformed(#[from] Malformed),
}

/// The gate's decision on a request.
#[derive(Debug)]
pub(crate) enum Passage {
    /// The request is served.
    Serve,
    /// The request has this answer.
    Answer(Vec<u8>),
    /// The request has this answer, and then the connection ends.
    Last(Vec<u8>, Shut),
}

/// A completed login.
struct Session {
    mechanism: Mechanism,
    name: String,
    ends: Option<Instant>,
}

/// The login gate; see the module.
pub(crate) struct LoginGate {
    sasl: Rc<Sasl>,
    deadline: Instant,
    mechanism: Option<Mechanism>,
    exchange: Option<Exchange>,
    session: Option<Session>,
}

impl LoginGate {
    /// A closed gate; the client must log in by `deadline`.
    pub(crate) fn new(sasl: Rc<Sasl>, deadline: Instant) -> Self {
        Self {
            sasl,
            deadline,
            mechanism: None,
            exchange: None,
            session: None,
        }
    }

    pub(crate) fn is_open(&self) -> bool {
        self.session.is_some()
    }

    /// When the client must have logged in; `None` once it has.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        (!self.is_open()).then_some(self.deadline)
    }

    /// Checks a request before it is handled.
    pub(crate) fn pass(&mut self, header: &Header, body: &Bytes) -> Result<Passage, Shut> {
        let key = header.api.key;
        match key {
            ApiKey::ApiVersions => Ok(Passage::Answer(versions::versions_with_login(header))),
            ApiKey::SaslHandshake => {
                let request: SaslHandshakeRequest = header.decode(&mut body.clone())?;
                Ok(self.handshake(header, &request.mechanism))
            }
            ApiKey::SaslAuthenticate => {
                let request: SaslAuthenticateRequest = header.decode(&mut body.clone())?;
                self.authenticate(header, &request.auth_bytes)
            }
            _ => match &self.session {
                None => Err(Shut::NotLoggedIn(key)),
                Some(session) if session.ends.is_some_and(|ends| ends <= Instant::now()) => {
                    Err(Shut::Ended(key))
                }
                Some(_) => Ok(Passage::Serve),
            },
        }
    }

    fn handshake(&mut self, header: &Header, asked: &str) -> Passage {
        let offered: Vec<Mechanism> = self.sasl.offered().collect();
        let names = offered.iter().map(|m| StrBytes::from_static_str(m.name()));
        let response = SaslHandshakeResponse::default().with_mechanisms(names.collect());
        let Some(mechanism) = offered.into_iter().find(|m| m.name() == asked) else {
            let error = ResponseError::UnsupportedSaslMechanism.code();
            let answer = header.encode(&response.with_error_code(error));
            let reason = format!("the mechanism {asked:?} is not offered");
            return Passage::Last(answer, Shut::Refused(reason));
        };
        self.mechanism = Some(mechanism);
        self.exchange = Some(Exchange::New(mechanism));
        Passage::Answer(header.encode(&response))
    }

    fn authenticate(&mut self, header: &Header, message: &[u8]) -> Result<Passage, Shut> {
        let (Some(exchange), Some(mechanism)) = (self.exchange.take(), self.mechanism) else {
            return Err(Shut::NoHandshake);
        };
        let response = SaslAuthenticateResponse::default();
        let step = self.sasl.step(exchange, message);
        let step = step.and_then(|step| self.same_as_before(mechanism, step));
        let response = match step {
            Ok(Step::Challenge(challenge, next)) => {
                self.exchange = Some(next);
                response.with_auth_bytes(challenge.into())
            }
            Ok(Step::Done {
                last,
                name,
                ends_in,
            }) => {
                tracing::debug!(name, mechanism = mechanism.name(), "logged in");
                self.session = Some(Session {
                    mechanism,
                    name,
                    // An expiry beyond the clock's range is none.
                    ends: ends_in.and_then(|left| Instant::now().checked_add(left)),
                });
                let left = ends_in.map_or(0, |left| left.as_millis());
                let response = response.with_auth_bytes(last.into());
                if header.version >= 1 {
                    response.with_session_lifetime_ms(i64::try_from(left).unwrap_or(i64::MAX))
                } else {
                    response
                }
            }
            Err(LoginRefusal { reason, told }) => {
                self.session = None;
                // The answer may take so long, even if the first login was long ago.
                self.deadline = Instant::now() + LOGIN_WITHIN;
                let response = response
                    .with_error_code(ResponseError::SaslAuthenticationFailed.code())
                    .with_error_message(Some(StrBytes::from_string(told)));
                return Ok(Passage::Last(
                    header.encode(&response),
                    Shut::Refused(reason),
                ));
            }
        };
        Ok(Passage::Answer(header.encode(&response)))
    }

    /// Refuses a new login with another mechanism or user.
    fn same_as_before(&mut self, mechanism: Mechanism, step: Step) -> Result<Step, LoginRefusal> {
        match (&self.session, step) {
            (Some(before), Step::Done { name, .. })
                if before.mechanism != mechanism || before.name != name =>
            {
                Err(LoginRefusal {
                    reason: format!("{name:?} logs in on the connection of {:?}", before.name),
                    told: "Authentication failed: the connection belongs to another user"
                        .to_owned(),
                })
            }
            (_, step) => Ok(step),
        }
    }
}
