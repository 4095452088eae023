//! Records that cannot be handled, between good orders, for a worker and for functions. `TRIAD_BAD_RECORDS` sets
//! their number.

use std::collections::BTreeSet;
use std::time::Duration;

use triad_reference_service::Faults;
use triad_runtime::InputRecord;
use triad_tests::bad::{Mixture, TOPICS, kind_counts};
use triad_tests::dev::Dev;
use triad_tests::engines::Engines;
use triad_tests::event_source::{EventSource, start_function, sweep};
use triad_tests::orders::Files;
use triad_tests::poll::{PATIENCE, until, until_within};
use triad_tests::process::binary;
use triad_tests::topics::{read_all, read_until};

const GOOD: usize = 60;

/// A workflow of one step under the built-in workflow's name, so that one agent is enough. Its deadline is longer
/// than the handling of all bad records.
const ONE_STEP: &str = "workflow: order-fulfilment
defaults: { attempt_timeout: 30m }
steps:
  - {id: charge-payment, agent: payment, action: charge, compensation: none}
";

#[expect(
    clippy::disallowed_methods,
    reason = "how long the test takes is no setting of Triad's"
)]
fn wanted() -> usize {
    let set = std::env::var("TRIAD_BAD_RECORDS").ok();
    let wanted = set.map_or(3_000, |n| n.parse().expect("TRIAD_BAD_RECORDS is a number"));
    assert!(
        wanted > 0,
        "TRIAD_BAD_RECORDS is 0: nothing would be tested"
    );
    wanted
}

/// Longest wait for all records, proportional to their number.
fn patience() -> Duration {
    PATIENCE + Duration::from_millis(10) * u32::try_from(wanted()).expect("a number of records")
}

/// Waits until there are `unfit` letters and alerts, and then reads all of them.
async fn told(brokers: &str, unfit: usize) -> [Vec<InputRecord>; 2] {
    let enough = |records: &[InputRecord]| records.len() >= unfit;
    read_until(brokers, &["dead-letter"], enough).await;
    read_until(brokers, &["alerts"], enough).await;
    // Reads the topics to their end, to find superfluous records.
    [
        read_all(brokers, &["dead-letter"]).await,
        read_all(brokers, &["alerts"]).await,
    ]
}

#[tokio::test]
async fn a_worker_dead_letters_each_bad_record_once_and_holds_up_nobody() {
    let files = Files::new();
    let workflow = files.write("one-step.yaml", ONE_STEP);
    let dev = Dev::start(&["--workflow", &workflow]).await;
    let mixture = Mixture::write(&dev.kafka, wanted(), GOOD).await;
    assert!(mixture.unfit() >= wanted());
    let is_good = |id: &serde_json::Value| mixture.good.iter().any(|g| id == g.as_str());
    // A damaged record that is still valid submits an order, which may end in failure.
    let ended = until_within(patience(), "every order has finished", async || {
        let orders = dev.orders().await;
        let good = orders.iter().filter(|o| is_good(&o["order_id"]));
        let all = good.count() == GOOD && orders.iter().all(|o| !o["finished_at"].is_null());
        all.then_some(orders)
    })
    .await;
    let good: Vec<_> = ended
        .iter()
        .filter(|o| is_good(&o["order_id"]))
        .cloned()
        .collect();
    assert!(good.iter().all(|o| o["state"] == "Processed"));
    dev.ledger().await.assert_nothing_twice();
    // A damaged record that is still valid may be the last one that is taken in.
    let what = "every valid submission is stored or has a letter, and every letter has an alert";
    let ([letters, alerts], stored) = until_within(patience(), what, async || {
        let told = told(&dev.kafka, mixture.unfit()).await;
        let orders = dev.orders().await;
        let stored = orders.iter().filter_map(|o| o["order_id"].as_str());
        let stored: BTreeSet<String> = stored.map(str::to_owned).collect();
        let is_all = mixture.lost(&told[0], &stored).is_empty();
        (is_all && told[0].len() == told[1].len()).then_some((told, stored))
    })
    .await;
    mixture.assert_letters(&letters, &alerts, &stored);
    println!(
        "{} unfit records, {:#?}",
        mixture.unfit(),
        kind_counts(&letters)
    );
}

/// Invokes the functions until a round finds no record. The number of rounds is limited.
async fn take_all(sources: &mut [EventSource]) {
    for _ in 0..20 * wanted() {
        let mut taken = 0;
        for source in &mut *sources {
            taken += source.turn().await.unwrap_or_default();
        }
        if taken == 0 {
            return;
        }
    }
    panic!("records are left over and over");
}

#[tokio::test]
async fn functions_dead_letter_each_bad_record_once_and_hold_up_nobody() {
    let engines = Engines::start(ONE_STEP, Faults::default()).await;
    let brokers = engines.brokers();
    let mixture = Mixture::write(&brokers, wanted(), GOOD).await;
    assert!(mixture.unfit() >= wanted());
    let functions = ["triad-submission", "triad-scheduler", "triad-agent"];
    let mut sources: Vec<_> = functions
        .iter()
        .zip(TOPICS)
        .map(|(function, topic)| {
            let variables = engines.variables(&brokers);
            EventSource::start(&binary(function), &variables, &brokers, &[topic])
        })
        .collect();
    let variables = engines.variables(&brokers);
    let (api, _supervisor) = start_function(&binary("triad-supervisor"), &variables);
    take_all(&mut sources).await;
    // A round without records need not be the end: the broker may be slow, and a request that has waited too long
    // behind bad records is deferred until a sweep repeats it.
    let what = "every good order has ended, and every unfit record has its letter";
    until(what, async || {
        sweep(&api).await;
        take_all(&mut sources).await;
        for id in &mixture.good {
            if engines.state(id).await != Some("Processed") {
                return None;
            }
        }
        let letters = read_all(&brokers, &["dead-letter"]).await;
        (letters.len() >= mixture.unfit()).then_some(())
    })
    .await;
    engines.ledger().await.assert_nothing_twice();
    let [letters, alerts] = told(&brokers, mixture.unfit()).await;
    let stored: BTreeSet<String> = engines.ids().await;
    mixture.assert_letters(&letters, &alerts, &stored);
    println!(
        "{} unfit records, {:#?}",
        mixture.unfit(),
        kind_counts(&letters)
    );
}
