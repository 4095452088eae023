//! Seeds that once failed. Each is named by what it saw; the world has changed since, so a seed
//! may no longer take the same way, but it costs next to nothing to ask again.

use triad_sim::{Options, run};

/// Seed, and what failed with it.
const SEEDS: [(u64, &str); 4] = [
    (
        242,
        "started (2) was told without received (1): Submission died after creating the order",
    ),
    (
        238,
        "a later submission of an order overtook one whose definition could not be read",
    ),
    (256, "as 242, by a lost answer to the creation"),
];

#[test]
fn seeds_that_once_failed_keep_every_guarantee() {
    for (seed, what) in SEEDS {
        let options = Options {
            trace: true,
            ..Options::default()
        };
        let outcome = run(seed, options);
        assert!(outcome.breaches.is_empty(), "{}\n{what}", outcome.report());
    }
}
