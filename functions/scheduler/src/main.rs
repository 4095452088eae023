//! The scheduler Lambda function.

fn main() {}
