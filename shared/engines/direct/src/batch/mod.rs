//! Kafka's record batch: records as the log has them.
//!
//! Source: the Kafka protocol guide, "Record Batch", magic 2. Ours are written without compression; what
//! others write is read in every codec, and becomes at most [`codec::MAX_BYTES`].

mod codec;
mod decode;
mod encode;
#[cfg(test)]
mod tests;

pub(crate) use decode::{Batches, Readable};
pub(crate) use encode::{encode, size};

/// Bytes before the first record.
pub(crate) const HEADER_BYTES: usize = 61;
/// Bytes of base offset and length, which the length does not count.
const LENGTH_PREFIX: usize = 12;
/// The checksum covers everything from the attributes on.
const CRC_FROM: usize = 21;
