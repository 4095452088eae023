//! The simulated world: seeds, crash points, saved worlds, and the contracts of its ports.

mod contract;
mod crashes;
mod saved;
mod seeds;
mod world;
