//! The deployed programs: functions, workers, and event source mappings.

mod alerts;
mod console_function;
mod hand_written_agent;
mod lambda;
mod localstack;
mod mapping_emulator;
mod runtime_api;
mod worker;
