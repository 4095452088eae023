//! The first token of a client that is not polled yet.

use std::time::{Duration, Instant};

use rdkafka::client::Client;
use rdkafka::consumer::{BaseConsumer, Consumer};

use crate::context::Context;
use crate::error::KafkaError;
use crate::native::set_token;
use crate::tokens::TOKEN_WITHIN;

/// Polls a consumer until it has its first token: calls of a consumer that is not polled would wait for it without
/// end. Returns at once if the login has no tokens.
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
        // No partition is assigned yet, so no record is lost.
        let _ = consumer.poll(Duration::ZERO);
        std::thread::park_timeout(Duration::from_millis(10));
    }
}

/// Gives an admin client its token. rdkafka does not poll an admin client's queue for token requests, so the client
/// would wait for ever. The client is used for less time than the token is valid.
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
