//! Codecs of librdkafka that are replaced, because its own decompress without a bound: gzip, LZ4 and
//! Snappy. Zstandard keeps to `receive.message.max.bytes`.
//!
//! librdkafka is linked from an archive whose members are taken when a symbol is missing. This crate
//! comes before it, so the symbols defined here are there already, and the archive's `rdgz.o`,
//! `rdkafka_lz4.o` and `snappy.o`, of which nothing else is asked, are never taken. Every function
//! that librdkafka asks of such a member has to be here: one that were missing would bring the member
//! in, and the linker would refuse what is then there twice. That it is these that are called is held
//! by a test that no batch becomes more than it may (`tests/tests/foreign.rs`).
//!
//! What is refused here is a batch that cannot be decompressed, and is passed over as such.

use super::{gzip, lz4, snappy};

/// Has the linker take the functions that replace librdkafka's.
pub(super) fn link() {
    gzip::link();
    lz4::link();
    snappy::link();
}
