//! What is asked of librdkafka directly, where rdkafka has no safe call for it or one that panics.
//!
//! Owns every `unsafe` block of the crate: reading a consumer's events ([`Polling`]), records out of
//! them, commits that end, and tokens. What others send is bytes here: names of headers that are no
//! UTF-8, for which rdkafka's own wrapper panics, are read as Kafka's Java client reads them, with
//! U+FFFD in place of what is wrong. rdkafka drops the partition and the offset of an error, which are what it takes to go on behind a batch
//! that cannot be read.

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
