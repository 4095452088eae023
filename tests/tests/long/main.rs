//! Tests that take a minute, load the machine, or need other clients: built and run only by `tests/verify.sh --all`
//! (feature `long`).

mod bad_input;
mod chaos;
mod cost;
mod first_workflow;
mod incidents;
mod other_clients;
mod overload;
mod project_in_rust;
