//! What a handler reads, writes, keeps and waits for at most, in the numbers that are promised: seen
//! from its ports.

mod agent;
mod callers;
mod dead_letters;
mod definitions;
mod golden;
mod guard;
mod operator;
mod replay;
mod scheduler;
mod submission;
mod supervisor;
mod support;
mod traces;
mod versions;
