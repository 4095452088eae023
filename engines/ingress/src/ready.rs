//! What every order is written to, beside the ports of its handlers.

use std::fmt::Debug;

use futures::future::BoxFuture;

/// Something that every order is written to, such as the store's file or the log of one machine.
pub trait Writable: Debug + Send + Sync + 'static {
    /// Writes something small that changes nothing, as durably as an order; says in words why that fails.
    fn try_write(&self) -> BoxFuture<'_, Result<(), String>>;
}
