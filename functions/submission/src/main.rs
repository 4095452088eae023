//! The submission Lambda function.

fn main() {}
