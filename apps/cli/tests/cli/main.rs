//! The commands as programs: input, output and effects.

mod commands;
mod connections;
mod mcp;
mod output;
mod project_changes;
mod projects;
mod questions;
mod workflow_test;
