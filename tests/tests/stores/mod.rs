//! Handlers over the real tables, and orders that move from store to store.

mod admission;
mod guard;
mod moving;
mod walk;
