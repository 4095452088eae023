//! The server's side of OAUTHBEARER: extracts the token.
//!
//! Source: RFC 7628. If a token is refused, the server sends an error in JSON, the client answers with one separator,
//! and only then is the exchange over.

/// The error for a refused token.
pub(crate) const REFUSED: &str = r#"{"status":"invalid_token"}"#;
/// Separator of a message's parts.
const SEPARATOR: char = '\x01';

/// The token in a client's message.
pub(crate) fn token(message: &[u8]) -> Result<&str, &'static str> {
    let message = std::str::from_utf8(message).map_err(|_| "the message is no text")?;
    let (header, pairs) = message
        .split_once(SEPARATOR)
        .ok_or("the message is cut short")?;
    if !header.starts_with("n,") && !header.starts_with("y,") {
        return Err("channel binding is not offered");
    }
    let mut pairs = pairs.split(SEPARATOR);
    let auth = pairs.find_map(|pair| pair.strip_prefix("auth="));
    let (scheme, token) = auth
        .and_then(|auth| auth.split_once(' '))
        .ok_or("the message has no token")?;
    if !scheme.eq_ignore_ascii_case("bearer") {
        return Err("the token is no bearer token");
    }
    Ok(token.trim_start_matches(' '))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_token_is_found_and_nothing_else_is_taken_for_one() {
        // The example of RFC 7628, section 4.1.
        let example = b"n,a=user@example.com,\x01host=server.example.com\x01port=143\x01\
            auth=Bearer vF9dft4qmTc2Nvb3RlckBhbHRhdmlzdGEuY29tCg==\x01\x01";
        assert_eq!(
            token(example),
            Ok("vF9dft4qmTc2Nvb3RlckBhbHRhdmlzdGEuY29tCg==")
        );
        for wrong in [
            "",
            "n,,",
            "n,,\x01\x01",
            "n,,\x01auth=Bearer\x01\x01",
            "n,,\x01auth=Basic abc\x01\x01",
            "p=x,,\x01auth=Bearer abc\x01\x01",
        ] {
            assert!(token(wrong.as_bytes()).is_err(), "{wrong:?}");
        }
    }
}
