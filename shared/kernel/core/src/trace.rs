//! Trace context: the trace of a message, and its hop in it.
//!
//! W3C Trace Context, <https://www.w3.org/TR/trace-context/>. Each message that Triad sends is a hop of
//! its own: a child of what caused it. Its id is made from the trace and the message's own id, so that
//! a message that is sent again is the same hop.
//!
//! The other ids of an order's trace, its root and the parts of a handler's work within a hop, are derived in the
//! same way. So all processes compute the same ids without random numbers and without communication.

use std::fmt;
use std::ops::Range;

use sha2::{Digest, Sha256};

use crate::ids::OrderId;

/// Length of the form that every version begins with: `00-<trace>-<parent>-<flags>`.
const LENGTH: usize = 55;
/// Positions of the version, the trace, the hop and the flags in it. A `-` follows each but the last.
const PARTS: [Range<usize>; 4] = [0..2, 3..35, 36..52, 53..LENGTH];

/// The flag that says that the trace is recorded (W3C Trace Context, section 3.2.2.5).
const SAMPLED: u8 = 1;

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
    /// zeros. Of a version above 00, what follows the flags after a `-` is not read.
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
        let (known, more) = text.as_bytes().split_at_checked(LENGTH)?;
        let is_parted = PARTS
            .iter()
            .all(|part| known.get(part.end).is_none_or(|byte| *byte == b'-'));
        let [version, trace, hop, flags] = PARTS.map(|part| hex(known.get(part)?));
        let (version, trace, hop, flags) = (version?, trace?, hop?, flags?);
        // Later versions may add fields behind the known ones.
        let is_whole = more.is_empty() || (version > 0 && more.starts_with(b"-"));
        let is_sound = is_whole && is_parted && version < 0xff && trace > 0 && hop > 0;
        is_sound.then_some(Self {
            trace,
            hop: u64::try_from(hop).ok()?,
            flags: u8::try_from(flags).ok()?,
        })
    }

    /// The hop of a message that this hop has caused: in the same trace and with the same flags. Its id is made of
    /// the trace and of the message's `id` by SHA-256, so the same message is always the same hop. In an unsampled
    /// trace the hop is not exported, and the message keeps the id of this one.
    #[must_use]
    pub fn child(self, id: &str) -> Self {
        match self.is_sampled() {
            true => self.derived(id),
            false => self,
        }
    }

    /// A hop of the same trace, whose id is made of the trace and of `id` by SHA-256.
    fn derived(self, id: &str) -> Self {
        let digest = digest(&[&self.trace.to_be_bytes(), id.as_bytes()]);
        let (first, _) = digest.split_first_chunk().unwrap_or((&[1; 8], &[]));
        Self {
            // An id of zeros is invalid.
            hop: u64::from_be_bytes(*first).max(1),
            ..self
        }
    }

    /// The trace of an order whose submitter has none, at its root and not sampled. Its id is made of
    /// the order's id by SHA-256, so it is the same however often the order is submitted.
    ///
    /// # Example
    /// ```
    /// use triad_core::{OrderId, TraceContext};
    /// let order = OrderId::new("7").unwrap();
    /// let trace = TraceContext::of_order(&order);
    /// assert_eq!(trace, TraceContext::of_order(&order));
    /// assert_eq!(trace, trace.root_of(&order));
    /// ```
    #[must_use]
    pub fn of_order(order: &OrderId) -> Self {
        let digest = digest(&[b"triad-order/", order.as_str().as_bytes()]);
        let (first, _) = digest.split_first_chunk().unwrap_or((&[1; 16], &[]));
        let trace = Self {
            trace: u128::from_be_bytes(*first).max(1),
            hop: 1,
            flags: 0,
        };
        trace.root_of(order)
    }

    /// The root span of what Triad does for this order, as a child of this hop. If a submitter sends several
    /// orders in one trace, each has its own root.
    #[must_use]
    pub fn root_of(self, order: &OrderId) -> Self {
        self.derived(&format!("{order}/order"))
    }

    /// The hop of one named part of the work that is done within this hop, in the same trace and with the
    /// same flags. Its id is made of the trace, this hop and the name.
    #[must_use]
    pub fn part(self, name: &str) -> Self {
        self.derived(&format!("{:016x}/{name}", self.hop))
    }

    /// The same hop, with the flag `sampled` set or cleared: it says whether the trace is recorded.
    #[must_use]
    pub fn sampled(self, is_sampled: bool) -> Self {
        let others = self.flags & !SAMPLED;
        let flags = others | if is_sampled { SAMPLED } else { 0 };
        Self { flags, ..self }
    }

    /// Whether the trace is recorded: the flag `sampled`, set by the process that began the trace.
    #[must_use]
    pub fn is_sampled(self) -> bool {
        self.flags & SAMPLED != 0
    }

    /// The id of the trace; never 0.
    #[must_use]
    pub fn trace_id(self) -> u128 {
        self.trace
    }

    /// The id of the hop; never 0.
    #[must_use]
    pub fn hop_id(self) -> u64 {
        self.hop
    }
}

fn digest(parts: &[&[u8]]) -> [u8; 32] {
    let mut digest = Sha256::new();
    parts.iter().for_each(|part| digest.update(part));
    digest.finalize().into()
}

/// The number in lower-case hexadecimal digits; `None` if another byte is among them.
fn hex(digits: &[u8]) -> Option<u128> {
    digits.iter().try_fold(0, |number, digit| {
        let digit = match digit {
            b'0'..=b'9' => digit - b'0',
            b'a'..=b'f' => digit - b'a' + 10,
            _ => return None,
        };
        Some(number << 4 | u128::from(digit))
    })
}

/// Writes the last digits of a number, as many as fit.
fn write_hex(mut number: u128, room: &mut [u8]) {
    for place in room.iter_mut().rev() {
        *place = b"0123456789abcdef"[(number & 0xf) as usize];
        number >>= 4;
    }
}

impl fmt::Display for TraceContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = [b'-'; LENGTH];
        let parts = [0, self.trace, self.hop.into(), self.flags.into()];
        for (part, number) in PARTS.into_iter().zip(parts) {
            write_hex(number, &mut text[part]);
        }
        f.pad(str::from_utf8(&text).map_err(|_| fmt::Error)?)
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
    fn the_sampling_flag_is_set_and_cleared_and_others_stay() {
        let trace = TraceContext::parse(&GOOD.replace("-01", "-03")).expect("it is sound");
        assert!(trace.is_sampled());
        let off = trace.sampled(false);
        assert!(!off.is_sampled());
        assert!(off.to_string().ends_with("-02"), "{off}");
        assert_eq!(off.sampled(true), trace);
        assert_eq!(off.child("1"), off, "nobody is told of it");
        assert_ne!(off.part("1"), off, "a failure is told all the same");
    }

    #[test]
    fn an_orders_own_trace_is_its_root_and_parts_differ_by_their_hop() {
        let ids = ["7", "8"].map(|id| OrderId::new(id).expect("an id"));
        let [seven, eight] = [0, 1].map(|n| TraceContext::of_order(&ids[n]));
        assert_ne!(seven.trace_id(), eight.trace_id());
        assert!(!seven.is_sampled());
        assert_eq!(seven.root_of(&ids[0]), seven);
        let given = TraceContext::parse(GOOD).expect("it is sound");
        let roots = [0, 1].map(|n| given.root_of(&ids[n]));
        assert_ne!(roots[0], roots[1], "two orders of one trace");
        assert_ne!(roots[0].part("call"), roots[1].part("call"));
        assert_eq!(roots[0].part("call"), roots[0].part("call"));
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
