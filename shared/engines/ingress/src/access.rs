//! Access control.
//!
//! Without tokens the server listens on a loopback address, and every local program may submit and read. A browser on
//! the same machine must not let web pages do so. Therefore a request's host must be `localhost` or an address (a
//! domain that resolves to this machine is refused), and the media type of a body must be one that a page cannot send
//! cross-origin without a preflight.

use std::net::IpAddr;

use http::header::{AUTHORIZATION, HOST, WWW_AUTHENTICATE};
use http::{HeaderMap, StatusCode, Uri};
use triad_console::tokens::{Role, Tokens, TokensError};
use triad_console::{Caller, Digest, Keys};

use crate::problem::Problem;
use crate::watched::Watched;

/// The callers that are accepted.
pub(crate) enum Access {
    /// Every program on this machine.
    Machine,
    /// Callers with one of these tokens.
    Tokens(Watched<Tokens, TokensError>),
}

impl Access {
    /// Refuses a request that lacks the role.
    pub(crate) fn check(&self, uri: &Uri, headers: &HeaderMap, role: Role) -> Result<(), Problem> {
        match self {
            Self::Machine => names_this_machine(uri, headers),
            Self::Tokens(tokens) => permits(&tokens.get(), headers, role),
        }
    }
}

impl Access {
    /// Refuses a request that a web page may have sent: without tokens, the host must name this machine.
    pub(crate) fn reached(&self, uri: &Uri, headers: &HeaderMap) -> Result<(), Problem> {
        match self {
            Self::Machine => names_this_machine(uri, headers),
            Self::Tokens(_) => Ok(()),
        }
    }
}

impl Keys for Access {
    fn is_open(&self) -> bool {
        matches!(self, Self::Machine)
    }

    fn of(&self, digest: &Digest) -> Option<Caller> {
        match self {
            Self::Machine => None,
            Self::Tokens(tokens) => Keys::of(&*tokens.get(), digest),
        }
    }
}

fn permits(tokens: &Tokens, headers: &HeaderMap, role: Role) -> Result<(), Problem> {
    let Some(told) = headers.get(AUTHORIZATION) else {
        return Err(unknown(
            "there is no bearer token",
            "Bearer realm=\"triad\"",
        ));
    };
    let found = bearer(told.as_bytes()).and_then(|token| tokens.find(token));
    let Some(entry) = found else {
        let challenge = "Bearer realm=\"triad\", error=\"invalid_token\"";
        return Err(unknown("the bearer token is not known", challenge));
    };
    if entry.may(role) {
        return Ok(());
    }
    let text = format!("the token {} has not the role {role}", entry.name);
    let challenge = "Bearer realm=\"triad\", error=\"insufficient_scope\"";
    Err(Problem::new(StatusCode::FORBIDDEN, "role", text)
        .next("Use a token with this role, or have an operator give it one.")
        .header(WWW_AUTHENTICATE, challenge))
}

fn unknown(text: &'static str, challenge: &'static str) -> Problem {
    Problem::new(StatusCode::UNAUTHORIZED, "token", text)
        .next("Send the header `Authorization: Bearer TOKEN` with a token of this installation.")
        .header(WWW_AUTHENTICATE, challenge)
}

/// The token of an `Authorization` header; the scheme is case-insensitive (RFC 9110, section 11.1).
fn bearer(value: &[u8]) -> Option<&[u8]> {
    let (scheme, token) = value.split_at_checked(7)?;
    let is_bearer = scheme.eq_ignore_ascii_case(b"bearer ");
    is_bearer.then(|| token.trim_ascii())
}

fn names_this_machine(uri: &Uri, headers: &HeaderMap) -> Result<(), Problem> {
    let header = headers.get(HOST).map(|host| host.to_str().unwrap_or("?"));
    let named = uri.authority().map(http::uri::Authority::as_str);
    // HTTP/1.0 needs no host; a browser always sends one.
    let Some(host) = named.or(header) else {
        return Ok(());
    };
    if is_local(host) {
        return Ok(());
    }
    let text = "without tokens a request has to name this machine by localhost or its address";
    Err(Problem::new(StatusCode::FORBIDDEN, "host", text)
        .next("Use http://127.0.0.1, or give the server a file of tokens."))
}

/// Whether a host, with or without port, is `localhost` or an address.
fn is_local(host: &str) -> bool {
    if let Some(rest) = host.strip_prefix('[') {
        let address = rest.split(']').next().unwrap_or_default();
        return address.parse::<IpAddr>().is_ok_and(|ip| ip.is_ipv6());
    }
    let name = host.split(':').next().unwrap_or_default();
    name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_localhost_and_addresses_are_local() {
        for host in [
            "localhost",
            "LOCALHOST:80",
            "127.0.0.1:80",
            "[::1]:80",
            "[::1]",
        ] {
            assert!(is_local(host), "{host}");
        }
        for host in [
            "",
            "example.org",
            "localhost.example.org:80",
            "[x]",
            "127.0.0.1.example",
        ] {
            assert!(!is_local(host), "{host}");
        }
    }

    #[test]
    fn the_scheme_is_bearer_in_any_case() {
        assert_eq!(bearer(b"Bearer abc"), Some(&b"abc"[..]));
        assert_eq!(bearer(b"bEARER  abc "), Some(&b"abc"[..]));
        for other in [&b"Basic abc"[..], b"Bearer", b"", b"abc", b"Bearerabc"] {
            assert_eq!(bearer(other), None);
        }
    }
}
