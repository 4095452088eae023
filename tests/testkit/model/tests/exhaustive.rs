//! The model within small bounds; `tests/proof.sh` uses larger ones.

use stateright::{Checker, Model};
use triad_model::{Bounds, Installation, Policy};

fn small(policy: Policy) -> Bounds {
    Bounds {
        steps: 1,
        horizon: 18,
        crashes: 1,
        rebalances: 1,
        faults: 1,
        instances: 1,
        policy,
    }
}

/// Also compares the number of states, because another number means that behaviour has changed.
#[test]
fn every_state_of_a_small_installation_keeps_every_property() {
    for (policy, states) in [(Policy::Retry, 72_939), (Policy::Compensate, 71_345)] {
        let checker = Installation::new(small(policy))
            .checker()
            .spawn_bfs()
            .join();
        checker.assert_properties();
        assert_eq!(checker.unique_state_count(), states, "{policy:?}");
    }
}
