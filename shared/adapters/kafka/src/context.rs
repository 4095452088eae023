//! Context of every client: provides tokens and keeps the latest reason of a failed connection.
//!
//! librdkafka's calls fail with "broker transport failure" or "timed out" whatever is wrong; the reason (a refused
//! password, an unknown certificate) is a separate event.

use std::borrow::Cow;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rdkafka::ClientContext;
use rdkafka::client::OAuthToken;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError as RdError, RDKafkaErrorCode};
use triad_consume::Assignment;

use crate::error::KafkaError;
use crate::names;
use crate::tokens::{Token, TokenError, Tokens};

/// Longest wait for the reason of a failed call, which librdkafka reports by a separate event: 500 ms.
pub const REASON_WITHIN: Duration = Duration::from_millis(500);
/// Most events that are handled between two waits.
const POLLS: u32 = 100;
/// Prefix of OpenSSL's texts: a certificate is wrong, on either side.
const TLS_FAULT: &str = "SSL routines::";
/// librdkafka's mark of lines about connections that failed.
const CONNECTION_FAILED: &str = "FAIL";

/// Context of a client; see the module.
#[derive(Clone)]
pub(crate) struct Context {
    pub(crate) tokens: Option<Arc<Tokens>>,
    /// What the names of the installation's topics begin with in Kafka.
    prefix: Arc<str>,
    fault: Arc<Mutex<Option<Fault>>>,
    assignment: Arc<Assignment>,
}

/// Reason of a failed connection.
#[derive(Clone)]
struct Fault {
    /// Whether credentials or certificates are the fault; otherwise no broker answers.
    login: bool,
    reason: String,
}

impl Context {
    pub(crate) fn new(tokens: Option<Arc<Tokens>>, prefix: &str) -> Self {
        Self {
            tokens,
            prefix: prefix.into(),
            fault: Arc::default(),
            assignment: Arc::default(),
        }
    }

    /// The name of a topic in Kafka.
    pub(crate) fn in_kafka<'t>(&self, topic: &'t str) -> Cow<'t, str> {
        names::with(&self.prefix, topic)
    }

    /// The topic with this name in Kafka. A name without the prefix stays as it is.
    pub(crate) fn topic(&self, name: String) -> String {
        names::without(&self.prefix, name)
    }

    /// A token of the configured source.
    pub(crate) fn token(&self) -> Result<Token, TokenError> {
        let tokens = self.tokens.as_ref();
        let tokens = tokens.ok_or_else(|| TokenError("no tokens are configured".into()))?;
        tokens.renew()
    }

    /// State shared by the consumer's reader and its rebalances.
    pub(crate) fn assignment(&self) -> &Assignment {
        &self.assignment
    }

    /// Notes a fault. A fault of the login is kept, because later ones are only its consequences.
    fn note(&self, login: bool, reason: &str) {
        let mut fault = self.fault.lock().unwrap_or_else(PoisonError::into_inner);
        if login || !fault.as_ref().is_some_and(|known| known.login) {
            let reason = reason.to_owned();
            *fault = Some(Fault { login, reason });
        }
    }

    fn fault(&self) -> Option<Fault> {
        let fault = self.fault.lock();
        fault.unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn explain(&self, brokers: &str, error: &RdError) -> KafkaError {
        let brokers = brokers.to_owned();
        let Some(Fault { login, reason }) = self.fault() else {
            let reason = plain_reason(&error.to_string());
            return KafkaError::Unreachable { brokers, reason };
        };
        tracing::debug!(reason, "Kafka does not answer");
        let reason = match advice(&reason) {
            Some(advice) => format!("{reason}; {advice}"),
            None => plain_reason(&reason),
        };
        if login {
            KafkaError::Login { brokers, reason }
        } else {
            KafkaError::Unreachable { brokers, reason }
        }
    }
}

/// A reason in plain words: librdkafka's own texts name its states, milliseconds and threads.
fn plain_reason(reason: &str) -> String {
    const KNOWN: [(&str, &str); 7] = [
        ("Connection refused", "the connection is refused"),
        (
            "Failed to resolve",
            "the name of the host cannot be resolved",
        ),
        ("No route to host", "there is no way to that host"),
        ("Network is unreachable", "there is no way to that host"),
        ("Connection setup timed out", "no answer in time"),
        ("Timed out", "no answer in time"),
        ("Broker transport failure", "no connection, or no answer"),
    ];
    let known = KNOWN.iter().find(|(part, _)| reason.contains(part));
    known.map_or(reason, |(_, plain)| plain).to_owned()
}

/// The next step for a reason, if librdkafka's text does not say it.
fn advice(reason: &str) -> Option<&'static str> {
    const KNOWN: [(&str, &str); 3] = [
        (
            "certificate verify failed",
            "the broker's certificate must descend from the CA that is configured, or one of the \
             system's, and be made out to this address",
        ),
        (
            "SSL alert number",
            "the broker asks for a client certificate of a CA that it knows",
        ),
        (
            "Disconnected",
            "if this persists: is TLS configured on one side only, or a login?",
        ),
    ];
    KNOWN
        .iter()
        .find(|(words, _)| reason.contains(words))
        .map(|(_, advice)| *advice)
}

/// Explains a consumer's failed call. Blocks for at most half a second.
pub(crate) fn explain(
    consumer: &BaseConsumer<Context>,
    brokers: &str,
    error: &RdError,
) -> KafkaError {
    use RDKafkaErrorCode::{AllBrokersDown, BrokerTransportFailure, OperationTimedOut};
    match error.rdkafka_error_code() {
        Some(AllBrokersDown | BrokerTransportFailure | OperationTimedOut) => {}
        // A broker has answered, or librdkafka has reported the fault.
        _ => {
            return KafkaError::Unreachable {
                brokers: brokers.to_owned(),
                reason: error.to_string(),
            };
        }
    }
    let context = consumer.context();
    let began = Instant::now();
    loop {
        // The consumer is not polled elsewhere yet, so no record is lost: this handles one event a poll, and log
        // lines before it.
        for _ in 0..POLLS {
            let _ = consumer.poll(Duration::ZERO);
        }
        if context.fault().is_some() || began.elapsed() >= REASON_WITHIN {
            break;
        }
        std::thread::park_timeout(Duration::from_millis(10));
    }
    context.explain(brokers, error)
}

impl ClientContext for Context {
    const ENABLE_REFRESH_OAUTH_TOKEN: bool = true;

    fn generate_oauth_token(
        &self,
        _config: Option<&str>,
    ) -> Result<OAuthToken, Box<dyn std::error::Error>> {
        let token = self.token().inspect_err(|error| {
            tracing::warn!(%error, "no token for Kafka");
        })?;
        Ok(OAuthToken {
            token: token.value,
            principal_name: token.principal,
            lifetime_ms: i64::try_from(token.expires.0)?,
        })
    }

    fn error(&self, error: RdError, reason: &str) {
        if error.rdkafka_error_code() == Some(RDKafkaErrorCode::PartitionEOF) {
            return; // No fault: who asked to be told of a partition's end.
        }
        use RDKafkaErrorCode::{AllBrokersDown, Authentication, SSL, SaslAuthenticationFailed};
        match error.rdkafka_error_code() {
            // The event contains only a count of brokers; the reasons were reported before.
            Some(AllBrokersDown) => {}
            Some(Authentication | SSL | SaslAuthenticationFailed) => self.note(true, reason),
            // With TLS 1.3 the broker checks the client's certificate after the handshake.
            _ => self.note(reason.contains(TLS_FAULT), reason),
        }
        // librdkafka reconnects; the log says to which address.
        tracing::warn!(%error, reason, "Kafka");
    }

    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        // For a connection that the peer closes librdkafka only writes a log line; worse faults are events, too.
        let milder = (level as i32) > RDKafkaLogLevel::Error as i32;
        if milder && facility == CONNECTION_FAILED {
            let (_thread, reason) = message.split_once("]: ").unwrap_or(("", message));
            self.note(reason.contains(TLS_FAULT), reason);
        }
        tracing::debug!(facility, message, "Kafka");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FAILED: RdError = RdError::MetadataFetch(RDKafkaErrorCode::BrokerTransportFailure);

    fn told(context: &Context) -> String {
        context.explain("b:9092", &FAILED).to_string()
    }

    fn event(context: &Context, code: RDKafkaErrorCode, reason: &str) {
        context.error(RdError::Global(code), reason);
    }

    #[test]
    fn a_refused_login_is_told_whatever_comes_after_it() {
        let context = Context::new(None, "");
        assert!(told(&context).contains("no connection, or no answer"));
        event(&context, RDKafkaErrorCode::BrokerTransportFailure, "away");
        event(
            &context,
            RDKafkaErrorCode::AllBrokersDown,
            "1/1 brokers are down",
        );
        assert_eq!(told(&context), "no Kafka broker answers at b:9092: away");
        event(&context, RDKafkaErrorCode::Authentication, "refused");
        event(&context, RDKafkaErrorCode::BrokerTransportFailure, "away");
        assert_eq!(told(&context), "cannot log in to Kafka at b:9092: refused");
    }

    #[test]
    fn what_everybody_meets_is_told_in_plain_words() {
        for (reason, plain) in [
            (
                "127.0.0.1:1/bootstrap: Connect to ipv4#127.0.0.1:1 failed: Connection refused (after 0ms in state CONNECT)",
                "the connection is refused",
            ),
            (
                "nowhere:1/bootstrap: Failed to resolve 'nowhere:1': Name or service not known",
                "the name of the host cannot be resolved",
            ),
        ] {
            let context = Context::new(None, "");
            event(&context, RDKafkaErrorCode::BrokerTransportFailure, reason);
            let expected = format!("no Kafka broker answers at b:9092: {plain}");
            assert_eq!(told(&context), expected);
        }
        let late = RdError::MetadataFetch(RDKafkaErrorCode::OperationTimedOut);
        let told = Context::new(None, "").explain("b:9092", &late).to_string();
        assert_eq!(told, "no Kafka broker answers at b:9092: no answer in time");
    }

    #[test]
    fn lines_of_the_log_are_reasons_where_there_is_no_event() {
        let context = Context::new(None, "");
        let line = "[thrd:b:9092/1]: b:9092/1: Disconnected (after 1ms)";
        context.log(RDKafkaLogLevel::Info, "CONNECT", line);
        context.log(RDKafkaLogLevel::Error, CONNECTION_FAILED, line);
        assert!(!told(&context).contains("Disconnected"));
        context.log(RDKafkaLogLevel::Info, CONNECTION_FAILED, line);
        let told = told(&context);
        assert!(told.contains("at b:9092: b:9092/1: Disconnected"), "{told}");
        assert!(told.contains("is TLS configured"), "{told}");
    }
}
