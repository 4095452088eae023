//! The supervisor Lambda function.

fn main() {}
