//! The world over many seeds: no breach, everything reached, and the same trace every time.

use triad_sim::fleet::{Plan, run_seeds};
use triad_sim::{Options, run};

/// Seeds of a test run; CI runs more of them with the released binary.
const SEEDS: u64 = 2_000;

fn traced(seed: u64) -> String {
    let options = Options {
        trace: true,
        ..Options::default()
    };
    run(seed, options).report()
}

#[test]
fn many_seeds_keep_every_guarantee_and_reach_everything() {
    let totals = run_seeds(Plan {
        from: 0,
        seeds: SEEDS,
        threads: 2,
        until: None,
        keep_going: false,
    });
    if let Some(first) = totals.failed.first() {
        let options = Options {
            trace: true,
            faults: Some(first.faults),
            ..Options::default()
        };
        panic!(
            "{}\nseed {} fails; again: `cargo run -p triad-sim -- one {} --faults {}`",
            run(first.seed, options).report(),
            first.seed,
            first.seed,
            first.faults
        );
    }
    assert_eq!(totals.missing(), Vec::<&str>::new(), "never reached");
}

#[test]
fn the_same_seed_gives_the_same_trace_byte_for_byte() {
    for seed in [3, 17, 242, 251] {
        let first = traced(seed);
        assert!(first.lines().count() > 50);
        assert_eq!(first, traced(seed), "seed {seed}");
    }
}

#[test]
fn the_number_of_threads_changes_nothing() {
    let of = |threads| {
        run_seeds(Plan {
            from: 100,
            seeds: 60,
            threads,
            until: None,
            keep_going: true,
        })
    };
    assert_eq!(of(1), of(3));
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

#[test]
fn without_faults_left_a_seed_still_runs_to_its_end() {
    for seed in 0..20 {
        let options = Options {
            faults: Some(0),
            ..Options::default()
        };
        let outcome = run(seed, options);
        assert_eq!(outcome.faults, 0);
        assert!(outcome.breaches.is_empty(), "{}", outcome.report());
    }
}
