//! Sets a client's token.
#![expect(unsafe_code, reason = "rdkafka has no safe call for it")]

use std::ffi::CString;

use rdkafka::bindings::{rd_kafka_oauthbearer_set_token, rd_kafka_oauthbearer_set_token_failure};
use rdkafka::client::Client;
use rdkafka::types::RDKafkaRespErr;

use crate::context::Context;
use crate::tokens::{Token, TokenError};

/// Sets a client's token, or reports that there is none: then librdkafka asks again after ten seconds.
///
/// # Errors
/// The reason why there is none, or librdkafka's refusal.
pub(crate) fn set_token(
    client: &Client<Context>,
    token: Result<Token, TokenError>,
) -> Result<(), String> {
    let given = token.map_err(|e| e.to_string());
    let given = given.and_then(|token| give(client, token));
    if let Err(reason) = &given {
        let reason = CString::new(reason.replace('\0', " ")).unwrap_or_default();
        // SAFETY: the client is alive as long as it is borrowed; librdkafka copies the text.
        unsafe { rd_kafka_oauthbearer_set_token_failure(client.native_ptr(), reason.as_ptr()) };
    }
    given
}

fn give(client: &Client<Context>, token: Token) -> Result<(), String> {
    let lifetime_ms = i64::try_from(token.expires.0).map_err(|e| e.to_string())?;
    let value = CString::new(token.value).map_err(|e| e.to_string())?;
    let principal = CString::new(token.principal).map_err(|e| e.to_string())?;
    let mut said = [0; 256];
    // SAFETY: the client is alive as long as it is borrowed. librdkafka copies both texts, which end in a zero byte,
    // reads no extensions because their number is 0, and writes at most the given number of bytes into `said`.
    let code = unsafe {
        rd_kafka_oauthbearer_set_token(
            client.native_ptr(),
            value.as_ptr(),
            lifetime_ms,
            principal.as_ptr(),
            std::ptr::null_mut(),
            0,
            said.as_mut_ptr(),
            said.len(),
        )
    };
    if code == RDKafkaRespErr::RD_KAFKA_RESP_ERR_NO_ERROR {
        return Ok(());
    }
    let said = said
        .iter()
        .map_while(|&c| u8::try_from(c).ok().filter(|&b| b != 0));
    let said: Vec<u8> = said.collect();
    Err(String::from_utf8_lossy(&said).into_owned())
}
