//! Kafka's record batch, read and written: topics have records, and clients of the protocol batches.
//!
//! Source: the Kafka protocol guide, "Record Batch", magic 2. What producers send is read in every codec, and becomes
//! at most 32 MiB; what consumers get is written without compression.

mod codec;
mod decode;
mod encode;
#[cfg(test)]
mod tests;

pub(crate) use decode::read;
pub(crate) use encode::write;

/// Bytes before the first record.
const HEADER_BYTES: usize = 61;
/// Bytes of base offset and length, which the length does not count.
const LENGTH_PREFIX: usize = 12;
/// The checksum covers everything from the attributes on.
const CRC_FROM: usize = 21;
