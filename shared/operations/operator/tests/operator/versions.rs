//! A workflow version is kept while it is the current one, is new, or is needed by an order.

use triad_core::{ProcessState, Timestamp};
use triad_operator::versions::{
    FindError, RemoveError, SAFE_TO_REMOVE_AFTER, Uncounted, find, remove, versions,
};
use triad_runtime::ports::OperatorStore;
use triad_runtime::{Clock, DefinitionStore};
use triad_sim::Ports;

use super::support::{identity, order, publish, run, workflow};

#[test]
fn what_no_order_needs_can_be_removed_an_hour_after_it_was_replaced() {
    run(async |store: Ports| {
        let all = ["a", "b", "c"].map(|action| workflow("w", action));
        for version in &all {
            publish(&store, version).await;
        }
        order(&store, &all[1], "o", |o| {
            o.state = ProcessState::Processed {
                at: Timestamp(5_000),
            };
        })
        .await;
        order(&store, &all[2], "p", |_| {}).await;
        let seen = async |now| {
            let found = versions(&store, now, Uncounted::Read)
                .await
                .expect("the store works");
            let mine = |action: usize| {
                let hash = &all[action].hash;
                let one = found.iter().find(|v| v.version == *hash);
                one.expect("it is stored").clone()
            };
            [mine(0), mine(1), mine(2)]
        };
        let now = store.now();
        let young = seen(now).await;
        assert!(young.iter().all(|v| v.needed), "just replaced");
        let refused = remove(&store, &young[0]).await;
        assert!(matches!(refused, Err(RemoveError::Needed { .. })));
        let [first, second, third] = seen(now.plus(SAFE_TO_REMOVE_AFTER)).await;
        assert_eq!(
            (first.needed, second.needed, third.needed),
            (false, true, true)
        );
        assert_eq!(
            (second.finished, third.under_way, third.present),
            (Some(1), Some(1), true)
        );
        // Without counting orders, any version may still be needed.
        let uncounted = versions(&store, now.plus(SAFE_TO_REMOVE_AFTER), Uncounted::Leave).await;
        let uncounted = uncounted.expect("the store works");
        assert!(uncounted.iter().all(|v| v.needed && v.under_way.is_none()));
        assert_eq!(remove(&store, &first).await, Ok(()));
        assert_eq!(store.definition(identity(&all[0])).await, Ok(None));
    });
}

#[test]
fn a_version_is_found_by_how_it_begins_or_as_the_present_one() {
    run(async |store: Ports| {
        let all = ["a", "b"].map(|action| workflow("w", action));
        for version in &all {
            publish(&store, version).await;
        }
        let stored = store.versions().await.expect("the store works");
        assert_eq!(find(&stored, "w", None), Ok(identity(&all[1])));
        let hash = all[0].hash.as_str();
        assert_eq!(find(&stored, "w", Some(&hash[..9])), Ok(identity(&all[0])));
        let several = find(&stored, "w", Some(""));
        assert!(matches!(several, Err(FindError::Several { .. })));
        for (name, version) in [("v", None), ("w", Some("x"))] {
            let none = find(&stored, name, version);
            assert!(matches!(none, Err(FindError::None { .. })));
        }
    });
}
