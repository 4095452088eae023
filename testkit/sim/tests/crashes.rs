//! Every crash point of the reference workloads, and every pair of them.

use triad_sim::crashes::{Workload, all};

#[test]
fn a_crash_at_any_effect_and_any_two_crashes_keep_every_guarantee() {
    for workload in Workload::ALL {
        let found = all(workload, true, 2);
        println!(
            "{workload:?}: {} effects, {} single crashes, {} pairs",
            found.effects, found.singles, found.pairs
        );
        assert_eq!(found.failures, [], "{workload:?}");
        assert!(found.effects >= 20, "the workload does something");
        assert_eq!(found.singles, 2 * found.effects, "before and after each");
        assert!(found.pairs > found.singles * found.effects / 2);
    }
}
