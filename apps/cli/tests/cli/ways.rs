//! Steps that have another way to do their work: the example of two carriers.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Value, json};
use triad_tests::dev::Dev;

#[tokio::test]
async fn the_other_carrier_is_asked_when_the_first_has_no_booking_left() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let project = root.join("examples/alternative-carrier");
    let dev = Dev::start(&["--project", &project.display().to_string()]).await;
    dev.submit(&project.join("orders.jsonl")).await;
    // Six orders, one child order each, and another one for those of P-2, P-3 and P-4; two orders with three each.
    let all = dev.all_finished(6 + 6 + 3 + 2 * 4).await;
    let text = |order: &Value, key: &str| order[key].as_str().unwrap_or_default().to_owned();
    let states: BTreeMap<String, String> = all
        .iter()
        .map(|order| (text(order, "order_id"), text(order, "state")))
        .collect();
    let expected = [
        ("P-1", "Processed", &["Processed"][..]),
        ("P-2", "Processed", &["Compensated", "Processed"]),
        ("P-3", "Processed", &["Compensated", "Processed"]),
        ("P-4", "Compensated", &["Compensated", "Compensated"]),
        ("P-5", "Compensated", &["Compensated"]),
        ("P-6", "Processed", &["Processed"]),
    ];
    for (id, state, ways) in expected {
        assert_eq!(states[id], state, "{id}: {states:?}");
        for (nth, way) in ways.iter().enumerate() {
            let tried = if nth == 0 {
                String::new()
            } else {
                format!("~{nth}")
            };
            assert_eq!(
                states[&format!("{id}:ship{tried}")],
                *way,
                "{id}: {states:?}"
            );
        }
    }
    // Both carriers are asked at once, and one is let go that had booked and never said so. The island has no carrier.
    let at_once = [
        ("R-1", ["Compensated", "Processed", "Compensated"]),
        ("R-2", ["Compensated", "Compensated", "Processed"]),
    ];
    for (id, ways) in at_once {
        assert_eq!(states[id], "Processed", "{id}: {states:?}");
        for (number, way) in ways.into_iter().enumerate() {
            let child = format!("{id}:ship:{number}");
            assert_eq!(states[&child], way, "{id}: {states:?}");
        }
    }
    let shown = async |id: &str| -> Value {
        let shown = dev.triad(&["get", id, "--json"]).await.good().out;
        serde_json::from_str(&shown).expect("JSON")
    };
    // The express carrier had booked, and never said so: that is cancelled.
    let cancelled = shown("P-3:ship").await;
    assert_eq!(cancelled["steps"][0]["state"], "compensated");
    let refused = shown("P-2:ship").await;
    assert_eq!(refused["steps"][0]["state"], "refused");
    let order = shown("P-3").await;
    let booked = json!({"carrier": "road", "booking": "road-P-3"});
    assert_eq!(order["steps"][1]["output"], booked);
    let outputs = ["R-1", "R-2"].map(|id| async move { shown(id).await });
    let mut first = Vec::new();
    for order in outputs {
        first.push(order.await["steps"][0]["output"].clone());
    }
    let booked = json!({"carrier": "road", "booking": "road-R-1"});
    assert_eq!(first, [booked, Value::Null]);
    let for_people = dev.triad(&["get", "P-4"]).await.good().out;
    for part in ["express does not go there", "road does not go there"] {
        assert!(for_people.contains(part), "{for_people}");
    }
    // One of two parcels to the city had to wait, more often than other failures are met with another attempt.
    let busy = ["P-1:ship", "P-6:ship"].map(|id| async move { shown(id).await });
    let mut waited = 0;
    for order in busy {
        let failures = order.await["steps"][0]["failures"].as_u64();
        waited = waited.max(failures.unwrap_or(0));
    }
    assert!(waited >= 1, "{states:?}");
}
