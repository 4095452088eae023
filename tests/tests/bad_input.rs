//! Some two thousand records that nobody can take, between orders that must go through.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use triad_runtime::InputRecord;
use triad_tests::bad;
use triad_tests::dev::Dev;
use triad_tests::orders::orders;
use triad_tests::topics::{Place, Raw, read_all, read_until, write};

const TOPICS: [&str; 3] = ["orders", "scheduler", "agent.payment"];
const EACH: usize = 665;
const GOOD: usize = 60;

#[tokio::test]
async fn bad_records_are_dead_lettered_once_and_hold_up_nobody() {
    let dev = Dev::start(&[]).await;
    let mut bad: Vec<Raw> = Vec::new();
    for topic in TOPICS {
        bad.extend(bad::records(topic, EACH));
    }
    let good = orders("good", GOOD);
    let between = bad.len() / good.len();
    let (mut all, mut is_bad) = (Vec::new(), Vec::new());
    let mut next_good = good.iter();
    // By turns from each topic, so that good ones stand between bad ones of every kind.
    for n in 0..bad.len() {
        let raw = &bad[(n % TOPICS.len()) * (bad.len() / TOPICS.len()) + n / TOPICS.len()];
        if n % between == 0
            && let Some(order) = next_good.next()
        {
            all.push(Raw {
                topic: "orders".to_owned(),
                value: Some(order.to_string().into_bytes()),
                ..Raw::default()
            });
            is_bad.push(false);
        }
        all.push(raw.clone());
        is_bad.push(true);
    }
    assert!(next_good.next().is_none());
    let places = write(&dev.kafka, &all).await;
    let written: BTreeMap<Place, Raw> = places
        .into_iter()
        .zip(all)
        .zip(&is_bad)
        .filter_map(|((place, raw), bad)| bad.then_some((place, raw)))
        .collect();
    assert_eq!(written.len(), bad.len());

    let ended = dev.all_finished(GOOD).await;
    assert!(ended.iter().all(|o| o["process_state"] == "Processed"));
    dev.ledger().await.assert_justifies(&ended, "notify");

    let enough = |records: &[InputRecord]| records.len() >= written.len();
    let letters = read_until(&dev.kafka, &["dead-letter"], enough).await;
    let alerts = read_until(&dev.kafka, &["alerts"], enough).await;
    // Nothing comes after what was waited for.
    assert_eq!(
        read_all(&dev.kafka, &["dead-letter"]).await.len(),
        letters.len()
    );
    let lettered: BTreeSet<Place> = letters.iter().map(origin).collect();
    let wanted: BTreeSet<Place> = written.keys().cloned().collect();
    let missing: Vec<_> = wanted.difference(&lettered).collect();
    let surplus: Vec<_> = lettered.difference(&wanted).collect();
    assert!(
        missing.is_empty() && surplus.is_empty(),
        "missing {missing:?}, surplus {surplus:?}"
    );
    assert_eq!(letters.len(), wanted.len(), "some are there twice");
    for letter in &letters {
        assert!(
            !first_header(letter, "triad-cause").is_empty(),
            "{letter:?}"
        );
        assert!(
            !first_header(letter, "triad-cause-message").is_empty(),
            "{letter:?}"
        );
        kept_as_it_came(letter, &written[&origin(letter)]);
    }
    let alerted: BTreeSet<String> = alerts.iter().map(alert_id).collect();
    let expected: BTreeSet<String> = wanted
        .iter()
        .map(|(topic, partition, offset)| format!("dead-letter/{topic}/{partition}/{offset}"))
        .collect();
    assert_eq!(alerted, expected);
    assert_eq!(alerts.len(), expected.len());
}

/// The first header of a name is Triad's own; a bad record may bring one of the same name.
fn first_header<'a>(letter: &'a InputRecord, name: &str) -> &'a str {
    triad_tests::topics::header(letter, name).unwrap_or_default()
}

fn origin(letter: &InputRecord) -> Place {
    (
        first_header(letter, "triad-topic").to_owned(),
        first_header(letter, "triad-partition").parse().unwrap(),
        first_header(letter, "triad-offset").parse().unwrap(),
    )
}

fn alert_id(record: &InputRecord) -> String {
    let alert: Value = serde_json::from_slice(record.value.as_ref().unwrap()).unwrap();
    assert_eq!(alert["kind"], "dead-letter");
    alert["alert_id"].as_str().unwrap().to_owned()
}

/// Key and value are byte for byte what was written, the value up to its bound.
fn kept_as_it_came(letter: &InputRecord, raw: &Raw) {
    assert_eq!(letter.key, raw.key);
    let value = raw.value.as_deref().unwrap_or_default();
    let kept = letter.value.as_deref().unwrap_or_default();
    let bound = triad_runtime::dead_letter::MAX_VALUE_BYTES;
    assert_eq!(kept, &value[..value.len().min(bound)]);
    let tombstone = first_header(letter, "triad-tombstone") == "true";
    assert_eq!(tombstone, raw.value.is_none());
    assert_eq!(
        !first_header(letter, "triad-truncated-from").is_empty(),
        value.len() > bound
    );
}
