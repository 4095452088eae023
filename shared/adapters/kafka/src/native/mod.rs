//! Direct calls of librdkafka, where rdkafka has no safe call or one that panics.
//!
//! Owns every `unsafe` block of the crate: polling a consumer's events ([`Polling`]), reading records from them,
//! bounded commits, and tokens. Data from outside is bytes here: a header's name that is not UTF-8, on which
//! rdkafka's own wrapper panics, is read as Kafka's Java client reads it, with U+FFFD in place of invalid bytes.
//! rdkafka drops the partition and the offset of an error, which are needed to continue behind a batch that cannot be
//! read.

mod commit;
mod event;
mod failed;
#[cfg(test)]
mod fatal;
mod poll;
mod record;
mod token;
mod watermark;

pub(crate) use commit::commit_within;
pub(crate) use failed::{Failed, RecordPosition};
#[cfg(test)]
pub(crate) use fatal::end;
pub(crate) use poll::{Polled, Polling};
pub(crate) use token::set_token;
pub(crate) use watermark::high_watermark;
