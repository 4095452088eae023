//! The checker is checked: every planted bug is caught. One test, for a bug is planted in the
//! whole process.
#![cfg(feature = "planted")]

use triad_sim::planted::{Bug, catch};

/// Most seeds that a bug may need.
const SEEDS: u64 = 5_000;

#[test]
fn every_planted_bug_is_caught() {
    assert!(Bug::ALL.len() >= 30);
    let mut missed = Vec::new();
    for bug in Bug::ALL {
        match catch(*bug, SEEDS, 2) {
            Some(c) => println!("{:<44} {:<48} {}", bug.name(), c.invariant, c.seeds),
            None => missed.push(bug.name()),
        }
    }
    assert_eq!(missed, Vec::<&str>::new(), "not caught in {SEEDS} seeds");
}
