//! Tries every single crash point of the reference workloads. `tests/proof.sh` tries every pair.

use triad_sim::crashes::{Crashes, Workload, all};

#[test]
fn a_crash_at_any_effect_keeps_every_guarantee() {
    for workload in Workload::ALL {
        let found = all(workload, false, 2);
        println!(
            "{workload:?}: {} effects, {} single crashes",
            found.effects, found.singles
        );
        assert_eq!(found.failures, [], "{workload:?}");
        assert!(found.effects >= 20, "the workload does something");
        assert!(found.is_whole(false), "every crash came: {found:?}");
    }
}

#[test]
fn crash_points_that_were_not_gone_through_are_no_success() {
    let gone_through = || Crashes {
        effects: 3,
        singles: 6,
        pairs: 4,
        crashed: 14,
        failures: Vec::new(),
    };
    assert!(gone_through().is_whole(true));
    let wrong: [fn(&mut Crashes); 4] = [
        |c| *c = Crashes::default(),
        |c| c.singles = 5,
        |c| c.crashed = 13,
        |c| c.pairs = 0,
    ];
    for spoil in wrong {
        let mut found = gone_through();
        spoil(&mut found);
        assert!(!found.is_whole(true), "{found:?}");
    }
    assert!(
        !gone_through().is_whole(false),
        "pairs that nobody asked for"
    );
}
