//! Storage that every order needs, beside the ports of its handlers.

use std::fmt::Debug;

use futures::future::BoxFuture;

/// Storage that every order needs, such as the store's file or the log of one machine.
pub trait Writable: Debug + Send + Sync + 'static {
    /// Writes a small record without effect, as durably as an order; fails with a text for people.
    fn try_write(&self) -> BoxFuture<'_, Result<(), String>>;
}
