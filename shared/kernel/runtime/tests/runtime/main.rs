//! The documented limits of the handlers on reads, writes, caches and waits, observed at their ports.

mod acts;
mod agent;
mod callers;
mod children;
mod dead_letters;
mod definitions;
mod golden;
mod guard;
mod keys;
mod operator;
mod replay;
mod scheduler;
mod submission;
mod supervisor;
mod support;
mod traces;
mod versions;
