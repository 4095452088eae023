//! Many seeds of the simulated world: no breach, full coverage, and the same trace each time.

use std::collections::BTreeSet;
use std::path::Path;

use triad_sim::coverage::WANTED;
use triad_sim::fleet::{Plan, Totals, run_seeds};
use triad_sim::{Options, run};

/// Number of seeds in a test run. `tests/proof.sh` runs 20,000 with an optimised binary, and requires full coverage.
const SEEDS: u64 = 200;

fn traced(seed: u64) -> String {
    let options = Options {
        trace: true,
        ..Options::default()
    };
    run(seed, options).report()
}

#[test]
fn seeds_keep_every_guarantee() {
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

#[test]
fn totals_of_nothing_are_no_success() {
    assert!(!Totals::default().is_good());
    let few = run_seeds(Plan {
        from: 0,
        seeds: 3,
        threads: 1,
        until: None,
        keep_going: true,
    });
    assert!(few.failed.is_empty());
    assert!(!few.is_good(), "three seeds do not reach everything");
}

/// The names of invariants in a source file: strings of lower-case words joined by hyphens.
fn invariants_of(text: &str) -> BTreeSet<String> {
    let is_name = |s: &str| {
        s.split('-').count() > 2
            && s.chars()
                .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
    };
    let parts = text.split('"').skip(1).step_by(2);
    parts.filter(|s| is_name(s)).map(str::to_owned).collect()
}

#[test]
fn every_invariant_of_the_world_must_have_been_looked_at() {
    let mut open = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("src")];
    let mut named = BTreeSet::new();
    while let Some(folder) = open.pop() {
        for entry in std::fs::read_dir(folder).expect("a folder of sources") {
            let path = entry.expect("an entry").path();
            let text = match path.is_dir() {
                true => {
                    open.push(path);
                    continue;
                }
                false => std::fs::read_to_string(&path).expect("a source"),
            };
            // These files contain names of the same form that are not checks: the list of wanted names, and ids of
            // orders in contracts.
            if path.ends_with("kernel/coverage.rs") || path.to_string_lossy().contains("contract") {
                continue;
            }
            let is_checking = [".check(", "found.check", "breach("].iter();
            if is_checking.clone().any(|call| text.contains(call)) {
                let code = text.lines().filter(|l| !l.trim_start().starts_with("//"));
                named.extend(invariants_of(&code.collect::<Vec<_>>().join("\n")));
            }
        }
    }
    // Not an invariant: an error code of the simulated service.
    named.remove("no-such-action");
    // Not an invariant: the cause of rejected orders.
    named.remove("too-many-in-flight");
    assert!(named.len() > 50, "{named:?}");
    let wanted: BTreeSet<String> = WANTED.iter().map(|w| (*w).to_owned()).collect();
    let forgotten: Vec<_> = named.difference(&wanted).collect();
    assert!(forgotten.is_empty(), "not in WANTED: {forgotten:?}");
}
