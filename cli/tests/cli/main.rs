//! The commands as programs: what they are told, what they say, and what they leave behind.

mod commands;
mod connections;
mod mcp;
mod output;
mod project_changes;
mod projects;
mod questions;
mod workflow_test;
