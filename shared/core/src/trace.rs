//! Trace context: which trace a message belongs to, and which hop it is.
//!
//! W3C Trace Context, <https://www.w3.org/TR/trace-context/>. Each message that Triad sends is a hop of
//! its own: a child of what caused it. Its id is made from the trace and the message's own id, so that
//! a message that is sent again is the same hop.

use std::fmt;

use sha2::{Digest, Sha256};

/// Length of the form that every version begins with: `00-<trace>-<parent>-<flags>`.
const LENGTH: usize = 55;

/// One hop in a trace: the id of the trace, the id of the hop, and the flags. As text it is the
/// value of a header `traceparent` in version 00.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TraceContext {
    trace: u128,
    hop: u64,
    flags: u8,
}

impl TraceContext {
    /// Reads the value of a header `traceparent`. `None` if W3C Trace Context, section 3.2, says to
    /// ignore it: it has another form or capital letters, its version is `ff`, or an id is all
    /// zeros.
    ///
    /// # Example
    /// ```
    /// use triad_core::TraceContext;
    /// let text = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    /// let trace = TraceContext::parse(text).unwrap();
    /// assert_eq!(trace.to_string(), text);
    /// assert_eq!(trace.child("7/accepted"), trace.child("7/accepted"), "the same hop");
    /// assert!(TraceContext::parse("00-1-2-01").is_none());
    /// ```
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let known = text.get(..LENGTH)?;
        let mut parts = known.split('-');
        let version = hex(parts.next()?, 2)?;
        let trace = hex(parts.next()?, 32)?;
        let hop = hex(parts.next()?, 16)?;
        let flags = hex(parts.next()?, 2)?;
        // Later versions may say more behind what is known.
        let more = &text[LENGTH..];
        let is_whole = more.is_empty() || (version > 0 && more.starts_with('-'));
        let is_sound = is_whole && parts.next().is_none() && version < 0xff && trace > 0 && hop > 0;
        is_sound.then_some(Self {
            trace,
            hop: u64::try_from(hop).ok()?,
            flags: u8::try_from(flags).ok()?,
        })
    }

    /// The hop of a message that this hop has caused: in the same trace and with the same flags.
    /// Its id is made of the trace and of the message's `id` by SHA-256, so the same message is
    /// always the same hop.
    #[must_use]
    pub fn child(self, id: &str) -> Self {
        let mut digest = Sha256::new();
        digest.update(self.trace.to_be_bytes());
        digest.update(id.as_bytes());
        let digest: [u8; 32] = digest.finalize().into();
        let (first, _) = digest.split_first_chunk().unwrap_or((&[1; 8], &[]));
        Self {
            // An id of zeros is none.
            hop: u64::from_be_bytes(*first).max(1),
            ..self
        }
    }
}

fn hex(text: &str, digits: usize) -> Option<u128> {
    let is_plain = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
    let fits = text.len() == digits && text.bytes().all(is_plain);
    fits.then(|| u128::from_str_radix(text, 16).ok())?
}

impl fmt::Display for TraceContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "00-{:032x}-{:016x}-{:02x}",
            self.trace, self.hop, self.flags
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn what_the_standard_has_ignored_is_none() {
        for bad in [
            "",
            "00-1",
            "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
            "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b71692033-0101",
            "00_0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "\u{fc}0-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        ] {
            assert_eq!(TraceContext::parse(bad), None, "{bad}");
        }
        let later = "01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more";
        assert!(TraceContext::parse(later).is_some());
    }

    #[test]
    fn a_child_is_in_its_trace_and_its_own_hop() {
        let trace = TraceContext::parse(GOOD).expect("it is sound");
        let (one, other) = (trace.child("1"), trace.child("2"));
        assert_ne!(one, other);
        assert_ne!(one, trace);
        assert_eq!(one.to_string()[..36], GOOD[..36]);
        assert_eq!(
            one.child("2"),
            other,
            "whoever sends it again, it is the same hop"
        );
    }
}
