//! Tests that take a minute, load the machine, or need other clients. Only `tests/verify.sh --all` compiles and runs
//! them (feature `long`).

mod bad_input;
mod chaos;
mod cost;
mod first_workflow;
mod incidents;
mod other_clients;
mod overload;
mod project_in_rust;
