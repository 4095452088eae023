//! Runs the commands as programs and checks their output and effects.

mod commands;
mod connections;
mod far;
mod lines;
mod mcp;
mod output;
mod project_changes;
mod projects;
mod questions;
mod subscription;
mod waits;
mod ways;
mod workflow_test;
