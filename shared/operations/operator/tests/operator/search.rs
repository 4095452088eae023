//! Finding orders by an exact search key, last submitted first. A search without a result names the declared keys.

use triad_core::{Order, Timestamp};
use triad_operator::find::{self, Filter};
use triad_operator::pages::{Cursor, page};
use triad_operator::search::{Declared, declared, hint};
use triad_sim::Ports;
use triad_workflow::{SearchKey, Workflow, WorkflowName, hash};

use super::support::{error, order, publish, run, searched, workflow};

const NOW: Timestamp = Timestamp(100_000);

fn key(text: &str) -> SearchKey {
    text.parse().expect("a search key")
}

fn by(text: &str) -> Filter {
    Filter {
        search: Some(key(text)),
        ..Filter::default()
    }
}

/// Reads all pages; returns the ids. Each cursor is serialized and parsed, as in a link.
async fn all(store: &Ports, filter: &Filter, limit: usize) -> Vec<String> {
    let (mut ids, mut from) = (Vec::new(), None);
    loop {
        let found = page(store, filter, limit, from.as_ref(), NOW).await;
        let found = found.expect("the store works");
        assert!(found.orders.len() <= limit && found.looked_at <= limit);
        ids.extend(found.orders.iter().map(|o| o.id.to_string()));
        let Some(next) = found.next else { return ids };
        let text = serde_json::to_string(&next).expect("it has a form");
        from = Some(serde_json::from_str::<Cursor>(&text).expect("it can be read"));
    }
}

async fn found(store: &Ports, filter: &Filter, limit: usize) -> (Vec<String>, bool) {
    let found = find::orders(store, filter, limit, NOW).await;
    let found = found.expect("the store works");
    let ids = found.orders.iter().map(|o| o.id.to_string());
    (ids.collect(), found.more)
}

/// Stores orders of one customer, three submitted at each time; the customer is the first search key of some and the
/// second of others. Also an order of another workflow, and orders whose key has only the same value or only the same
/// name.
async fn world(store: &Ports) {
    let (w, v) = (workflow("w", "go"), workflow("v", "go"));
    for n in 0..30_u64 {
        let keys: &[&str] = match n % 2 {
            0 => &["customer=ALFKI"],
            _ => &["basket=b", "customer=ALFKI"],
        };
        let change = |o: &mut Order| {
            if n % 3 == 0 {
                o.state = error(50_000, "no");
            }
        };
        searched(
            store,
            &w,
            &format!("a{n:02}"),
            (1_000 + n / 3, keys),
            change,
        )
        .await;
        order(store, &w, &format!("none{n:02}"), |_| {}).await;
    }
    searched(
        store,
        &v,
        "other-workflow",
        (500, &["customer=ALFKI"]),
        |_| {},
    )
    .await;
    searched(store, &w, "other-name", (9_000, &["invoice=ALFKI"]), |_| {}).await;
    searched(
        store,
        &w,
        "other-value",
        (9_000, &["customer=ALFKI2"]),
        |_| {},
    )
    .await;
}

fn sorted(mut ids: Vec<String>) -> Vec<String> {
    ids.sort();
    ids
}

#[test]
fn every_order_with_the_key_is_on_one_page_and_the_newest_comes_first() {
    run(async |store: Ports| {
        world(&store).await;
        let mut wanted: Vec<String> = (0..30).map(|n| format!("a{n:02}")).collect();
        wanted.push("other-workflow".into());
        for limit in [1, 2, 3, 7, 30, 100] {
            let ids = all(&store, &by("customer=ALFKI"), limit).await;
            assert_eq!(sorted(ids.clone()), wanted, "each once, by {limit}");
            let moment = |id: &String| {
                id.trim_start_matches('a')
                    .parse::<u64>()
                    .map_or(0, |n| n / 3)
            };
            let moments: Vec<u64> = ids[..30].iter().map(moment).collect();
            assert!(moments.windows(2).all(|two| two[0] >= two[1]), "{ids:?}");
            assert_eq!(ids[30], "other-workflow");
        }
        let (ids, more) = found(&store, &by("customer=ALFKI"), 40).await;
        assert_eq!((sorted(ids), more), (wanted, false));
        assert!(
            found(&store, &by("customer=ALFKI"), 5).await.1,
            "there are more"
        );
    });
}

#[test]
fn what_else_is_asked_for_must_fit_too() {
    run(async |store: Ports| {
        world(&store).await;
        let of_v = Filter {
            workflow: Some("v".into()),
            ..by("customer=ALFKI")
        };
        assert_eq!(all(&store, &of_v, 40).await, ["other-workflow"]);
        assert_eq!(found(&store, &of_v, 40).await.0, ["other-workflow"]);
        let failed = Filter {
            state: Some("Error".parse().expect("a state")),
            ..by("customer=ALFKI")
        };
        let wanted: Vec<String> = (0..30).step_by(3).map(|n| format!("a{n:02}")).collect();
        assert_eq!(sorted(all(&store, &failed, 40).await), wanted);
        assert_eq!(sorted(found(&store, &failed, 40).await.0), wanted);
        for unlike in [
            "customer=ALFK",
            "customer=alfki",
            "basket=ALFKI",
            "customer=b",
        ] {
            assert_eq!(
                all(&store, &by(unlike), 40).await,
                Vec::<String>::new(),
                "{unlike}"
            );
        }
    });
}

#[test]
fn what_is_looked_at_grows_with_what_is_found_alone() {
    run(async |store: Ports| {
        world(&store).await;
        let found = page(&store, &by("invoice=ALFKI"), 100, None, NOW).await;
        let found = found.expect("the store works");
        assert_eq!(
            (found.orders.len(), found.looked_at, found.next),
            (1, 1, None)
        );
    });
}

/// Publishes a workflow with these search keys.
async fn declare(store: &Ports, name: &str, keys: &[&str]) {
    let mut definition = workflow(name, "go").definition.clone();
    for key in keys {
        let expression = format!("${{details.{key}}}");
        definition.search.insert((*key).to_owned(), expression);
    }
    let json = hash::canonical_json(&definition);
    let workflow = Workflow::from_published(&json).expect("it is sound");
    publish(store, &workflow).await;
}

#[test]
fn the_search_keys_of_the_present_versions_are_known() {
    run(async |store: Ports| {
        declare(&store, "w", &["old"]).await;
        declare(&store, "w", &["invoice", "customer"]).await;
        declare(&store, "plain", &[]).await;
        declare(&store, "v", &["customer"]).await;
        let of = |workflow: &str, keys: &[&str]| Declared {
            workflow: WorkflowName::new(workflow).expect("a name"),
            keys: keys.iter().map(ToString::to_string).collect(),
        };
        let all = declared(&store).await.expect("the store works");
        let wanted = [of("v", &["customer"]), of("w", &["customer", "invoice"])];
        let mine = all
            .into_iter()
            .filter(|d| ["v", "w", "plain"].contains(&d.workflow.as_str()));
        assert_eq!(mine.collect::<Vec<_>>(), wanted);
        for (of, workflow, said) in [
            ("customer=x", None, None),
            ("invoice=x", Some("w"), None),
            (
                "invoice=x",
                Some("v"),
                Some(
                    "workflow v has no search key invoice; there are v: customer; w: customer, invoice",
                ),
            ),
            (
                "old=x",
                None,
                Some(
                    "no workflow has a search key old; there are v: customer; w: customer, invoice",
                ),
            ),
        ] {
            assert_eq!(hint(&wanted, &key(of), workflow).as_deref(), said, "{of}");
        }
        assert!(hint(&[], &key("a=b"), None).is_some_and(|said| said.contains("`search:`")));
    });
}
