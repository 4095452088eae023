//! The agent Lambda function.

fn main() {}
