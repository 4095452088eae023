//! Finding orders by state, cause, workflow and age: oldest first, at most the requested number.

use triad_core::children::Parent;
use triad_core::{Order, ProcessState, Timestamp};
use triad_operator::causes::causes;
use triad_operator::find::{CausePattern, Filter, StateFilter, by_id, orders};
use triad_sim::Ports;
use triad_workflow::{Millis, StepId};

use super::support::{error, hold, id, order, run, workflow};

const NOW: Timestamp = Timestamp(100_000);

fn in_state(name: &str) -> Filter {
    Filter {
        state: Some(name.parse().expect("a state")),
        ..Filter::default()
    }
}

async fn found(store: &Ports, filter: &Filter, limit: usize) -> (Vec<String>, bool) {
    let found = orders(store, filter, limit, NOW).await;
    let found = found.expect("the store works");
    let ids = found.orders.iter().map(|o: &Order| o.id.to_string());
    (ids.collect(), found.more)
}

/// Stores forty orders in Error, of which the last is the oldest, and one each that is closed, processed and paused.
async fn world(store: &Ports) {
    let (first, other) = (workflow("first", "go"), workflow("other", "go"));
    for n in 0..40_u64 {
        let code = if n % 2 == 0 { "even" } else { "odd" };
        let workflow = if n < 10 { &other } else { &first };
        let state = error(50_000 - n, code);
        order(store, workflow, &format!("e{n}"), |o| o.state = state).await;
    }
    order(store, &first, "closed", |o| {
        o.state = error(1_500, "even");
        o.closed = Some(hold(2_000));
    })
    .await;
    order(store, &first, "processed", |o| {
        o.state = ProcessState::Processed {
            at: Timestamp(3_000),
        };
    })
    .await;
    order(store, &first, "held", |o| o.paused = Some(hold(4_000))).await;
    order(store, &first, "alive", |_| {}).await;
}

#[test]
fn what_needs_an_operator_comes_oldest_first_over_all_shards() {
    run(async |store: Ports| {
        world(&store).await;
        let (all, more) = found(&store, &in_state("error"), 100).await;
        let wanted: Vec<String> = (0..40).rev().map(|n| format!("e{n}")).collect();
        assert_eq!((&all, more), (&wanted, false), "the closed one is left out");
        let (some, more) = found(&store, &in_state("Error"), 7).await;
        assert_eq!((&some[..], more), (&wanted[..7], true));
        let (exactly, more) = found(&store, &in_state("Error"), 40).await;
        assert_eq!((exactly.len(), more), (40, false), "none is left");
    });
}

#[test]
fn a_filter_s_parts_must_all_fit() {
    run(async |store: Ports| {
        world(&store).await;
        let of = |cause: &str, workflow: Option<&str>, older: Option<u64>| Filter {
            cause: Some(CausePattern(cause.into())),
            workflow: workflow.map(str::to_owned),
            older_than: older.map(Millis),
            ..Filter::default()
        };
        let count = async |filter: Filter| found(&store, &filter, 100).await.0.len();
        assert_eq!(count(of("permanent/even", None, None)).await, 20);
        assert_eq!(count(of("permanent/*", None, None)).await, 40);
        assert_eq!(count(of("permanent", None, None)).await, 0, "no part of it");
        assert_eq!(count(of("permanent/odd", Some("other"), None)).await, 5);
        let old = NOW.0 - (50_000 - 30);
        assert_eq!(count(of("*", None, Some(old))).await, 10);
        let newer = Filter {
            newer_than: Some(Millis(old)),
            ..of("*", None, None)
        };
        assert_eq!(count(newer).await, 30, "all that are not older");
        let told = |text: &str| Filter {
            error: Some(text.into()),
            ..of("*", None, None)
        };
        assert_eq!(count(told("nobody said this")).await, 0);
        let held = found(&store, &in_state("paused"), 9).await;
        assert_eq!(held, (vec!["held".to_owned()], false));
        let alive = found(&store, &in_state("Pending"), 9).await;
        assert_eq!(alive.0.len(), 2, "the held one is under way too");
        let first = found(&store, &in_state("Pending"), 1).await;
        assert!(first.1, "there is another");
        let well = found(&store, &in_state("Processed"), 9).await;
        assert_eq!(well.0, ["processed"]);
        assert_eq!(found(&store, &Filter::default(), 100).await.0.len(), 44);
        assert!(found(&store, &Filter::default(), 43).await.1);
        assert!("Errors".parse::<StateFilter>().is_err());
        assert_eq!(by_id(&store, id("nobody")).await, Ok(None));
        let one = by_id(&store, id("closed")).await;
        assert!(one.is_ok_and(|o| o.is_some_and(|o| o.closed.is_some())));
    });
}

#[test]
fn the_child_orders_of_an_order_are_found_and_no_others() {
    run(async |store: Ports| {
        world(&store).await;
        let child_of = |parent: &str| {
            let step = StepId::new("ship").expect("a step");
            let parent = id(parent);
            move |o: &mut Order| {
                o.parent = Some(Box::new(Parent {
                    order_id: parent,
                    step,
                    number: 0,
                    attempt: 0,
                    depth: 1,
                }));
            }
        };
        let w = workflow("first", "go");
        for (name, parent) in [("e1:ship:0", "e1"), ("other", "e1"), ("e10:ship:0", "e10")] {
            order(&store, &w, name, child_of(parent)).await;
        }
        for state in [None, Some("Pending")] {
            let filter = Filter {
                parent: Some("e1".to_owned()),
                state: state.map(|name| name.parse().expect("a state")),
                ..Filter::default()
            };
            let (mut all, more) = found(&store, &filter, 9).await;
            all.sort();
            assert_eq!(
                (all, more),
                (vec!["e1:ship:0".to_owned(), "other".to_owned()], false)
            );
        }
    });
}

#[test]
fn causes_are_counted_with_their_oldest_order() {
    run(async |store: Ports| {
        world(&store).await;
        let filter = Filter {
            workflow: Some("first".into()),
            ..Filter::default()
        };
        let found = causes(&store, &filter, NOW).await.expect("it works");
        let [first, second] = &found.groups[..] else {
            panic!("two causes: {found:?}")
        };
        assert_eq!((first.orders, second.orders, found.others), (15, 15, 0));
        let even = serde_json::to_value(first).expect("JSON");
        assert_eq!(
            even,
            serde_json::json!({"state": "Error", "cause": "permanent/even", "orders": 15,
                "oldest": 50_000 - 38, "newest": 50_000 - 10, "example": "e38"})
        );
        let well = causes(&store, &in_state("Processed"), NOW).await;
        let well = well.expect("it works");
        assert!(well.groups.is_empty(), "they need no operator: {well:?}");
    });
}
