//! Paging through orders: each order appears once, a page keeps its limits, and the next page continues where the
//! previous one ended.

use std::sync::Arc;

use triad_core::due::shard_of;
use triad_core::{ProcessState, Timestamp};
use triad_operator::causes::among;
use triad_operator::counts::{counts, rates};
use triad_operator::find::Filter;
use triad_operator::pages::{Cursor, MAX_LOOKED_AT, PageError, page};
use triad_runtime::{StateStore, Write, Written};
use triad_sim::Ports;

use super::support::{error, hold, id, order, run, workflow};

const NOW: Timestamp = Timestamp(100_000);

fn in_state(name: &str) -> Filter {
    Filter {
        state: Some(name.parse().expect("a state")),
        ..Filter::default()
    }
}

/// Reads all pages; returns the ids and the number of pages. Each cursor is serialized and parsed, as in a link.
async fn all(store: &Ports, filter: &Filter, limit: usize) -> (Vec<String>, usize) {
    let (mut ids, mut pages, mut from) = (Vec::new(), 0, None);
    loop {
        let found = page(store, filter, limit, from.as_ref(), NOW).await;
        let found = found.expect("the store works");
        assert!(found.orders.len() <= limit && found.looked_at <= MAX_LOOKED_AT + limit);
        ids.extend(found.orders.iter().map(|o| o.id.to_string()));
        pages += 1;
        let Some(next) = found.next else {
            return (ids, pages);
        };
        let text = serde_json::to_string(&next).expect("it has a form");
        from = Some(serde_json::from_str::<Cursor>(&text).expect("it can be read"));
    }
}

/// Stores orders in Error, three at each time, and others that are under way, processed and paused.
async fn world(store: &Ports) {
    let workflow = workflow("w", "go");
    for n in 0..45_u64 {
        let state = error(50_000 + n / 3, if n % 2 == 0 { "even" } else { "odd" });
        order(store, &workflow, &format!("e{n:02}"), |o| o.state = state).await;
        order(store, &workflow, &format!("u{n:02}"), |_| {}).await;
    }
    order(store, &workflow, "done", |o| {
        o.state = ProcessState::Processed {
            at: Timestamp(3_000),
        };
    })
    .await;
    order(store, &workflow, "held", |o| o.paused = Some(hold(4_000))).await;
}

#[test]
fn every_order_is_on_one_page_and_those_in_error_come_oldest_first() {
    run(async |store: Ports| {
        world(&store).await;
        for limit in [1, 4, 45, 100] {
            let (ids, pages) = all(&store, &in_state("Error"), limit).await;
            assert_eq!(ids.len(), 45, "limit {limit}");
            let moments: Vec<u64> = ids
                .iter()
                .map(|id| id[1..].parse::<u64>().expect("a number") / 3)
                .collect();
            assert!(moments.is_sorted(), "limit {limit}: {ids:?}");
            assert!(pages >= 45_usize.div_ceil(limit));
            let mut once = ids.clone();
            once.sort();
            once.dedup();
            assert_eq!(once.len(), 45, "limit {limit}");
        }
        for (filter, wanted) in [
            (in_state("Pending"), 46),
            (in_state("Processing"), 0),
            (in_state("UnderWay"), 46),
            (in_state("Paused"), 1),
            (in_state("Processed"), 1),
            (Filter::default(), 92),
            (
                Filter {
                    id: Some("07".into()),
                    ..Filter::default()
                },
                2,
            ),
        ] {
            let (mut ids, _) = all(&store, &filter, 7).await;
            let found = ids.len();
            ids.sort();
            ids.dedup();
            assert_eq!((found, ids.len()), (wanted, wanted), "{filter:?}");
        }
    });
}

#[test]
fn a_cursor_of_another_question_is_refused() {
    run(async |store: Ports| {
        world(&store).await;
        let first = page(&store, &in_state("Error"), 3, None, NOW).await;
        let cursor = first.expect("the store works").next;
        let other = page(&store, &in_state("Pending"), 3, cursor.as_ref(), NOW).await;
        assert_eq!(other.map(|_| ()), Err(PageError::Cursor));
    });
}

/// Gives an order's row in the index a later due time, as a new deadline does.
async fn moves(store: &Ports, name: &str, due: u64) {
    let read = store.load(vec![id(name)]).await.swap_remove(0);
    let stored = read.expect("the store works").expect("it is stored");
    let (expected, mut next) = (stored.version, stored);
    next.version = expected.next();
    next.due = Some(Timestamp(due));
    let write = Write::silent(expected, Arc::new(next), 2);
    assert_eq!(store.commit(vec![write]).await, [Ok(Written::Written)]);
}

#[test]
fn an_order_that_moves_while_a_page_is_made_is_on_it_once() {
    run(async |store: Ports| {
        let workflow = workflow("w", "go");
        let names = (0..).map(|n| format!("m{n}"));
        // More rows in one shard than a single read returns.
        let names = names.filter(|name| shard_of(&id(name)) == 0).take(150);
        let names: Vec<String> = names.collect();
        for name in &names {
            order(&store, &workflow, name, |_| {}).await;
        }
        let pending = in_state("Pending");
        let mut twice = 0;
        // Between the reads, one order after another moves to another place in the index.
        for (due, name) in (5_000..).zip(&names[..20]) {
            let read = page(&store, &pending, 500, None, NOW);
            let (found, ()) = futures::join!(read, moves(&store, name, due));
            let found = found.expect("the store works");
            twice += found.looked_at - names.len();
            assert_eq!(found.orders.len(), names.len(), "{name}");
        }
        assert!(twice > 0, "no row came a second time");
    });
}

#[test]
fn counts_of_the_indexes_say_where_they_end() {
    run(async |store: Ports| {
        world(&store).await;
        let counted = counts(&store, NOW).await.expect("the store works");
        let found: Vec<u64> = counted.needing.iter().map(|n| n.orders).collect();
        assert!(
            found[0] >= 16 && found[1] == 0 && found[2] == 1,
            "{found:?}"
        );
        assert!(
            found[0] == 45 || counted.needing[0].more,
            "one page of each shard"
        );
        assert_eq!(counted.needing[0].oldest, Some(Timestamp(50_000)));
        assert_eq!(counted.under_way.orders, 46);
        // The count is omitted if it would need a scan of the whole table.
        assert_eq!(counted.orders, None);
        assert_eq!(rates(&store, NOW).await, Ok(None));
        let few = among(&store, &Filter::default(), NOW, 9)
            .await
            .expect("the store works");
        assert!(few.more && few.groups.iter().map(|g| g.orders).sum::<u64>() == 9);
        let every = among(&store, &Filter::default(), NOW, 45)
            .await
            .expect("the store works");
        assert!(!every.more && every.groups.len() == 2);
    });
}

#[test]
fn orders_that_are_set_aside_are_found_paged_and_counted() {
    run(|store| async move {
        // Two workflows whose orders lie in different shards.
        for (name, orders) in [("w", 3), ("x", 4)] {
            let workflow = workflow(name, "go");
            for n in 0..orders {
                let aside = |o: &mut triad_core::Order| {
                    o.set_aside = Some(Timestamp(1_000));
                    o.due = o.set_aside;
                };
                order(&store, &workflow, &format!("{name}{n}"), aside).await;
            }
            order(&store, &workflow, &format!("{name}-runs"), |_| {}).await;
        }
        let pending = in_state("Pending");
        let found = triad_operator::find::orders(&store, &pending, 100, NOW).await;
        assert_eq!(found.map(|found| found.orders.len()), Ok(9));
        assert_eq!(all(&store, &pending, 2).await.0.len(), 9);
        let of_x = Filter {
            workflow: Some("x".to_owned()),
            ..pending
        };
        assert_eq!(all(&store, &of_x, 100).await.0.len(), 5);
        let counted = counts(&store, NOW).await.expect("the store works");
        let counted = counted.under_way;
        assert_eq!((counted.orders, counted.set_aside), (9, 7));
        assert_eq!(counted.overdue, 0, "they are not due");
    });
}
