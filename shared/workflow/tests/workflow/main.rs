//! Definitions: what is refused and warned of, what is compiled, and by what they are known.

mod checks;
mod compiled;
mod identity;
mod search;
mod types;
mod warnings;
