//! The simulated world: seeds, crash points, worlds that were kept, and the contracts of its ports.

mod contract;
mod crashes;
mod saved;
mod seeds;
mod world;
