//! Access control.
//!
//! Without tokens the server listens on a loopback address, and every local program may submit and read. A browser on
//! the same machine must not let web pages do so. Therefore a request's host must be `localhost` or an address (a
//! domain that resolves to this machine is refused), and the media type of a body must be one that a page cannot send
//! cross-origin without a preflight.

use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};

use http::HeaderMap;
use http::header::{AUTHORIZATION, HOST};
use http::request::Parts;
use triad_console::request::bearer;
use triad_console::tokens::{Role, Tokens, TokensError};
use triad_console::{Caller, Digest, Keys};
use triad_operator::operations::Problem;

use crate::settings::{Settings, StartError};
use crate::watched::Watched;

/// The callers that are accepted.
pub(crate) enum Access {
    /// Every program on this machine.
    Machine,
    /// Callers with one of these tokens.
    Tokens(Watched<Tokens, TokensError>),
}

impl Access {
    /// Reads the file of tokens, again whenever it changes. Without such a file the address must be a loopback one.
    pub(crate) fn open(settings: &Settings) -> Result<Self, StartError> {
        let ip = settings.listen.ip().to_canonical();
        let Some(file) = settings.tokens.clone() else {
            return match ip.is_loopback() {
                true => Ok(Self::Machine),
                false => Err(StartError::Open(ip)),
            };
        };
        let wrong = |why| StartError::Tokens {
            file: file.clone(),
            why,
        };
        let of = file.clone();
        let is_first = AtomicBool::new(true);
        let read = move || match (Tokens::read(&of), is_first.swap(false, Ordering::Relaxed)) {
            // All tokens were removed from the file.
            (Err(TokensError::Empty), false) => {
                tracing::warn!(file = %of.display(), "the file has no token any more: every request is refused");
                Ok(Tokens::default())
            }
            (read, _) => read,
        };
        let watched = Watched::open(vec![file.clone()], Box::new(read)).map_err(wrong)?;
        Ok(Self::Tokens(watched))
    }

    /// Refuses a request that lacks the role; returns the name of its token, if it needs one.
    pub(crate) fn check(&self, head: &Parts, role: Role) -> Result<Option<String>, Problem> {
        match self {
            Self::Machine => names_this_machine(head).map(|()| None),
            Self::Tokens(tokens) => permits(&tokens.get(), &head.headers, role).map(Some),
        }
    }

    /// Refuses a request that a web page may have sent: without tokens, the host must name this machine.
    pub(crate) fn reached(&self, head: &Parts) -> Result<(), Problem> {
        match self {
            Self::Machine => names_this_machine(head),
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

fn permits(tokens: &Tokens, headers: &HeaderMap, role: Role) -> Result<String, Problem> {
    let Some(entry) = bearer(headers).and_then(|token| tokens.find(token)) else {
        let text = match headers.contains_key(AUTHORIZATION) {
            true => "the bearer token is not known",
            false => "there is no bearer token",
        };
        return Err(Problem::new(401, "token", text).next(
            "Send the header `Authorization: Bearer TOKEN` with a token of this installation.",
        ));
    };
    if entry.may(role) {
        return Ok(entry.name.clone());
    }
    let text = format!("the token {} has not the role {role}", entry.name);
    Err(Problem::forbidden("role", text)
        .next("Use a token with this role, or have an operator give it one."))
}

fn names_this_machine(head: &Parts) -> Result<(), Problem> {
    let header = head.headers.get(HOST);
    let header = header.map(|host| host.to_str().unwrap_or("?"));
    let named = head.uri.authority().map(http::uri::Authority::as_str);
    // HTTP/1.0 needs no host; a browser always sends one.
    let Some(host) = named.or(header) else {
        return Ok(());
    };
    if is_local(host) {
        return Ok(());
    }
    let text = "without tokens a request has to name this machine by localhost or its address";
    Err(Problem::forbidden("host", text)
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
}
