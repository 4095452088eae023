//! Tests of definitions: problems and warnings, compilation, and identity.

mod checks;
mod compiled;
mod identity;
mod later;
mod run;
mod run_refused;
mod search;
mod service_types;
mod types;
mod values;
mod waits;
mod warnings;
