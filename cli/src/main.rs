//! triad: run, submit, watch and operate order workflows.

fn main() {}
