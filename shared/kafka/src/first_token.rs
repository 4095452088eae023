//! The first token of a client whose events nobody looks at yet.

use std::time::{Duration, Instant};

use rdkafka::client::Client;
use rdkafka::consumer::{BaseConsumer, Consumer};

use crate::context::Context;
use crate::error::KafkaError;
use crate::native::set_token;
use crate::tokens::TOKEN_WITHIN;

/// Polls a consumer until it has had its first token: what is asked of a consumer that nobody
/// polls waits for it in vain. Returns at once where there are no tokens.
pub(crate) fn await_token(consumer: &BaseConsumer<Context>) {
    await_token_for(consumer, TOKEN_WITHIN);
}

/// Polls a consumer until it has had its first token, as [`await_token`] does, for at most `within`.
pub(crate) fn await_token_for(consumer: &BaseConsumer<Context>, within: Duration) {
    let Some(tokens) = consumer.context().tokens.clone() else {
        return;
    };
    let began = Instant::now();
    while !tokens.is_begun() && began.elapsed() < within {
        // Nothing is assigned to it yet, so nothing is lost.
        let _ = consumer.poll(Duration::ZERO);
        std::thread::park_timeout(Duration::from_millis(10));
    }
}

/// Gives an admin client its token. rdkafka's has nobody who looks at the queue in which
/// librdkafka asks for one, so it would wait for it for ever; what it is made for is over long
/// before the token is.
pub(crate) fn give_token(client: &Client<Context>, brokers: &str) -> Result<(), KafkaError> {
    let Some(tokens) = &client.context().tokens else {
        return Ok(());
    };
    let no_token = |reason: String| KafkaError::Login {
        brokers: brokers.to_owned(),
        reason: format!("there is no token: {reason}"),
    };
    set_token(client, tokens.renew()).map_err(no_token)
}
