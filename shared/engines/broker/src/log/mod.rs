//! Storage: partitions' logs, the write-ahead log that makes them durable, and recovery.
//!
//! Durability in short: every append and every metadata change is a record in one shared write-ahead log (`wal`),
//! which the flusher (`flusher`) writes and syncs, many requests in a sync. Only then is it acknowledged and visible,
//! unless its sender can restore it (`store::AppendVisibility`). The batches are in per-partition segment files
//! (`segment`, `partition`), written late and in large pieces. A checkpoint (`store`) syncs those files, replaces the
//! snapshot (`meta`), and deletes the write-ahead log up to there. After a crash (`store::recovery`) the snapshot
//! says how far each segment file is valid, and the write-ahead log has everything after it. Data that recovery needs
//! is never overwritten in place.

pub(crate) mod batch;
mod fault;
pub(crate) mod flusher;
pub(crate) mod meta;
pub(crate) mod partition;
pub(crate) mod producers;
pub(crate) mod segment;
pub(crate) mod store;
pub(crate) mod topics;
pub(crate) mod wal;

pub(crate) use fault::Fault;

#[cfg(test)]
mod tests;
