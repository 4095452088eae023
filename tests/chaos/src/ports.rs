//! Ports that stay the same across restarts.
//!
//! They are below the kernel's ephemeral range. A client that connects to an ephemeral port of a stopped process may
//! get that port itself and so connect to itself; then the process could not listen on it again.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};

use anyhow::{Context, Result};

/// The file with the kernel's range of ephemeral ports.
const RANGE: &str = "/proc/sys/net/ipv4/ip_local_port_range";
/// The lowest port to use.
const LOWEST: u16 = 10_000;

/// Finds `count` free ports of the loopback address. Concurrent runs on one machine begin at different ports.
///
/// # Errors
/// If there are not enough.
pub fn free(count: usize) -> Result<Vec<SocketAddr>> {
    let below = std::fs::read_to_string(RANGE)
        .ok()
        .and_then(|text| text.split_whitespace().next()?.parse().ok())
        .filter(|first: &u16| *first > LOWEST + 1_000)
        .unwrap_or(32_768);
    let span = u32::from(below - LOWEST);
    let begin = std::process::id().wrapping_mul(97) % span;
    let mut found = Vec::with_capacity(count);
    for step in 0..span {
        let port = LOWEST + u16::try_from((begin + step) % span)?;
        let addr = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        if TcpListener::bind(addr).is_ok() {
            found.push(addr);
        }
        if found.len() == count {
            break;
        }
    }
    (found.len() == count)
        .then_some(found)
        .context("there are not enough free ports on 127.0.0.1")
}

#[cfg(test)]
mod tests {
    #[test]
    fn ports_are_free_and_different() {
        let found = super::free(3).unwrap();
        let held: Vec<_> = found
            .iter()
            .map(|addr| std::net::TcpListener::bind(addr).unwrap())
            .collect();
        assert_eq!(held.len(), 3);
    }
}
