//! The world over many seeds: no breach, everything reached, and the same trace every time.

use triad_sim::{Coverage, Options, run};

/// Seeds of a CI run.
const SEEDS: u64 = 1_000;

fn traced(seed: u64) -> String {
    let options = Options {
        trace: true,
        ..Options::default()
    };
    run(seed, options).report()
}

#[test]
fn many_seeds_keep_every_guarantee_and_reach_everything() {
    let mut coverage = Coverage::default();
    for seed in 0..SEEDS {
        let outcome = run(seed, Options::default());
        assert!(
            outcome.breaches.is_empty(),
            "{}\nseed {seed} fails; run it again with `cargo run -p triad-sim -- --from {seed} --seeds 1 --trace`",
            traced(seed)
        );
        coverage.add(&outcome.coverage);
    }
    assert_eq!(coverage.missing(), Vec::<&str>::new(), "never reached");
}

#[test]
fn the_same_seed_gives_the_same_trace_byte_for_byte() {
    for seed in [3, 17, 242] {
        let first = traced(seed);
        assert!(first.lines().count() > 50);
        assert_eq!(first, traced(seed), "seed {seed}");
    }
}

#[test]
fn tracing_changes_nothing() {
    for seed in [5, 19] {
        let options = Options {
            trace: true,
            ..Options::default()
        };
        let (with, without) = (run(seed, options), run(seed, Options::default()));
        assert_eq!(with.coverage, without.coverage);
        assert_eq!(with.virtual_ms, without.virtual_ms);
    }
}
