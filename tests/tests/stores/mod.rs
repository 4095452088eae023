//! Handlers on the real tables, and orders that move from one store to another.

mod admission;
mod guard;
mod moving;
mod newest;
mod timers;
mod walk;
